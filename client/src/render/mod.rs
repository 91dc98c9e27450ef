//! What people and scripts see: events, requests and ledgers as lines, and as JSON.
//!
//! Invariants: everything here but [`out`] is pure (a message in, text out); text from models, tools, files
//! and other clients passes [`safe`] before it reaches a terminal; JSON keeps it raw, escaped by JSON.

pub(crate) mod json;
pub(crate) mod ledger;
pub(crate) mod lines;
pub(crate) mod live;
pub(crate) mod out;
pub(crate) mod safe;
pub(crate) mod style;
pub(crate) mod transcript;
pub(crate) mod words;

#[cfg(test)]
mod transcript_tests;
