//! The test harness of agentd: hermetic homes, the command line as scripts use it, a scripted model server
//! that refuses what the real one refuses, and a terminal driver.
//!
//! Invariants: nothing of a test leaks out of its [`home::TestHome`], and nothing of the outside leaks in. A
//! wait is for an event and has a deadline; when it passes, the failure says what was seen until then. The
//! harness fails a test by panicking, which is why it is the one library here that may.
//!
//! Deliberately absent: links into the daemon's insides. Everything goes through the binary, so that the same
//! tests run against a release (`AGENTCTL_BIN`).

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stderr,
    reason = "a harness reports by failing the test that uses it"
)]

pub mod cli;
pub mod deadline;
pub mod events;
pub mod home;
pub mod process;
pub mod pty;
pub mod scripted;
pub mod watched;

use std::path::PathBuf;

/// The binary under test: `AGENTCTL_BIN` when it is set, else the one that Cargo built with the tests.
///
/// Call it as `agent_tests::binary(option_env!("CARGO_BIN_EXE_agentctl-under-test"))`: Cargo sets that
/// variable only while it compiles a test target.
pub fn binary(built: Option<&str>) -> PathBuf {
    let path = match (std::env::var_os("AGENTCTL_BIN"), built) {
        (Some(given), _) => PathBuf::from(given),
        (None, Some(built)) => PathBuf::from(built),
        (None, None) => panic!("no binary under test: set AGENTCTL_BIN or run inside `cargo test`"),
    };
    assert!(path.is_absolute() && path.exists(), "the binary under test is not there: {}", path.display());
    path
}
