//! The OpenAI Chat Completions dialect, as OpenAI speaks it and as the servers do that are compatible with it.
//!
//! [`decode`] reads its stream. Facts about the wire that decide something stand beside the line that they
//! decide.

mod call;
pub mod decode;
mod fault;
mod thought;
mod usage;

pub use decode::Decoder;

#[cfg(test)]
#[path = "fixture_tests.rs"]
mod fixture_tests;
