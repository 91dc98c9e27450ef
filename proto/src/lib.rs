//! The wire contract of agentd: messages, gRPC stubs, and the rules that hold for them.
//!
//! The sources are in `proto/agentd/v1`; the Rust in `src/gen` is generated and committed, so that building
//! needs no `protoc`, and a test fails when it is stale. Rules and reasons: `proto/README.md`.
//!
//! Invariants: this crate knows no domain type; only `daemon/src/api` and the client use it.

/// Messages and client stubs of `agentd.v1`.
#[allow(missing_docs, unreachable_pub, clippy::all, clippy::pedantic)]
#[rustfmt::skip]
pub mod v1 {
    include!("gen/agentd.v1.rs");
}

/// Server stubs of `agentd.v1`.
#[allow(missing_docs, unreachable_pub, clippy::all, clippy::pedantic)]
#[rustfmt::skip]
pub mod server {
    include!("gen/agentd.v1.server.rs");
}

pub mod place;
pub mod ready;
pub mod reason;
pub mod shared;

/// The protocol this build speaks. Raised when a client of the former number could misunderstand a reply.
pub const PROTOCOL_VERSION: u32 = 1;
/// The oldest protocol this build speaks.
pub const PROTOCOL_MIN: u32 = 1;

/// The descriptors of the contract, for reflection and for calling methods by name.
pub const DESCRIPTOR_SET: &[u8] = include_bytes!("gen/descriptor.bin");
