//! Where the daemon keeps its things. The rules live in `agentd_proto::place`, because clients need the same
//! answer; this room is the daemon's only door to them.

pub use agentd_proto::place::{DaemonStart, Place, PlaceError, our_uid, private_folder};
pub use agentd_proto::ready::Ready;
