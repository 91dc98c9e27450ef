//! The Anthropic Messages dialect.
//!
//! [`decode`] reads its stream, [`encode()`] writes its request. Facts about the wire that decide something
//! stand beside the line that they decide.

mod block;
pub mod decode;
pub mod encode;

pub use decode::{AnswerReader, Decoder};
pub use encode::{Markers, body_bytes, encode, request_hash};

#[cfg(test)]
#[path = "fixture_tests.rs"]
mod fixture_tests;
