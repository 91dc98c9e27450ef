//! The Chat Completions dialect, as OpenAI speaks it and as the servers do that are compatible with it.
//!
//! [`decode`] reads its stream, [`encode()`] writes its request. Facts about the wire that decide something
//! stand beside the line that they decide.

mod call;
pub mod decode;
pub mod encode;
mod fault;
pub(crate) mod said;
mod thought;
mod usage;

pub use decode::Decoder;
pub use encode::{body_bytes, encode, request_hash};

#[cfg(test)]
#[path = "bound_tests.rs"]
mod bound_tests;
#[cfg(test)]
#[path = "call_tests.rs"]
mod call_tests;
#[cfg(test)]
#[path = "fixture_tests.rs"]
mod fixture_tests;
