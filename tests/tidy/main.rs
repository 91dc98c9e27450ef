//! The rules of this repository, as tests: sizes, edges between rooms, forgotten tests, manifests, documents.
//!
//! Every rule reads the tree as text. A rule that needs an exception has it in a table here, with its reason.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test reports by failing")]

mod documents;
mod edges;
mod manifests;
mod rooms;
mod sizes;
mod sources;
mod suites;
mod tree;
