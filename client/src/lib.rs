//! agentctl: a thin client of agentd.
//!
//! One binary plays three roles. Which one is decided here, on `argv[1]`, before clap, tracing or tokio exist:
//! the supervisor of one process (`__exec`) must start fast and stay single-threaded. The daemon's two
//! entrances are given as functions, so that only `main.rs` links the daemon.
//!
//! Invariants: data goes to stdout, messages to stderr; a closed pipe is never a panic; a client holds no
//! truth: whatever it shows came from the daemon.

mod api;
mod attach;
pub mod cli;
pub mod connect;
pub mod error;
mod render;

use agentd_proto::place::DaemonStart;
use std::ffi::OsString;
use std::process::ExitCode;

/// The roles that are not the client's.
#[derive(Clone, Copy)]
pub struct Roles {
    /// Runs the daemon until it is stopped; the answer is its exit code.
    pub daemon: fn(DaemonStart) -> u8,
    /// Supervises one process (`agentctl __exec …`, the arguments after that word); the answer is its exit code.
    pub exec: fn(Vec<OsString>) -> i32,
    /// What `demo` works on.
    pub tour: cli::demo::Tour,
}

/// The word that makes a supervisor of this binary.
const EXEC_WORD: &str = "__exec";

/// Plays the role that the command line asks for.
pub fn main(roles: Roles) -> ExitCode {
    let mut args = std::env::args_os();
    if args.nth(1).is_some_and(|word| word == EXEC_WORD) {
        let code = (roles.exec)(args.collect());
        return ExitCode::from(u8::try_from(code).unwrap_or(1));
    }
    let parsed = match cli::parse(std::env::args_os()) {
        Ok(parsed) => parsed,
        Err(code) => return code,
    };
    if let Some(start) = parsed.daemon_role() {
        return ExitCode::from((roles.daemon)(start));
    }
    match client_runtime().and_then(|runtime| runtime.block_on(cli::run(parsed, roles.tour))) {
        Ok(code) => code,
        Err(error) => error.report(),
    }
}

/// One thread is enough for a client, and starts faster.
fn client_runtime() -> Result<tokio::runtime::Runtime, error::ClientError> {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|source| error::ClientError::failed("cannot start the client's event loop").because(source))
}
