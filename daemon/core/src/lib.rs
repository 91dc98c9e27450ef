//! The pure decisions of agentd.
//!
//! Everything here is a function over data: what happened ([`event`]), what may happen next
//! ([`session`]), what the world is owed ([`effect`]), what a model is sent ([`prompt`]) and how its
//! bytes are read ([`model`]). The daemon around it performs effects and records facts.
//!
//! Invariants: no clock, no randomness, no files, no sockets, no C. Time and fresh ids arrive as data
//! ([`ids::Stamp`]). The same inputs give the same outputs, byte for byte.
//!
//! Deliberately absent: protobuf (see `daemon/src/api`), SQL (`daemon/src/store`), JSON Schema checking
//! (`daemon/src/tools`), because each would bring I/O or C into the place where everything is proved.

pub mod call;
pub mod command;
pub mod context;
pub mod edit;
pub mod effect;
pub mod event;
pub mod ids;
pub mod limits;
pub mod model;
pub mod path_bytes;
pub mod policy;
pub mod projection;
pub mod prompt;
pub mod recover;
pub mod retry;
pub mod session;
pub mod text;
pub mod transcript;
pub mod turn;
