//! The session wing: one actor per session with work, the registry that finds or loads them, and the feed
//! that clients follow.
//!
//! Invariants: a session is moved by one actor at a time; every step is receive -> decide (pure) -> append ->
//! apply and wake -> reconcile; an answer goes out only after its commit; a session without an open turn costs
//! no task and no memory.
//!
//! Deliberately absent: protobuf (`api`), processes and networks (behind `ports::Effects`).

mod actor;
mod feed;
mod reconcile;
mod registry;

pub use actor::{Answered, Asked, Committed};
pub use feed::{Feed, LiveFrame, Recent, Watcher};
pub use registry::{Ports, Registry, SessionError};
