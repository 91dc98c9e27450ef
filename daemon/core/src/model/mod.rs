//! Provider codecs: bytes of an answer to blocks, a request to bytes of a body.
//!
//! Purpose: everything about a model's wire that can be decided without a socket. The daemon's `model` room
//! moves the bytes; here they get their meaning.
//!
//! Invariants: an answer is complete only by its explicit stop; provider blocks are kept as they came, in
//! their own key order, and are spliced back byte for byte; the same inputs give the same bytes; no input,
//! however broken, panics or grows memory beyond the bounds in [`crate::limits`].
//!
//! Deliberately absent: HTTP, clocks, and when to try again ([`crate::event::FailureClass`] says only whether
//! it can help).

pub mod anthropic;
mod args;
pub mod failure;
pub(crate) mod form;
pub mod ids;
mod json;
pub mod listing;
pub mod live;
pub mod openai_chat;
pub mod reader;
pub mod request;
pub mod retry_after;
mod sink;
pub mod sse;
pub mod validate;
mod warnings;
