//! agentd: the shell around `agentd-core`. It owns the loop, the processes, the store and the socket.
//!
//! The map of rooms, the direction of dependencies and the invariants are in `daemon/ARCHITECTURE.md`; the
//! tidy test holds them.

pub mod api;
pub mod artifact_search;
pub mod config;
pub mod effects;
pub mod inspect;
pub mod lifecycle;
pub mod model;
pub mod paths;
pub mod ports;
pub mod process;
pub mod redact;
pub mod session;
pub mod store;
pub mod telemetry;
pub mod tools;

pub use lifecycle::run_daemon;

/// Supervises one process; the answer is the exit code. Decided on `argv[1]` before anything else exists.
pub fn run_exec(args: Vec<std::ffi::OsString>) -> i32 {
    process::exec_main(args.into_iter())
}
