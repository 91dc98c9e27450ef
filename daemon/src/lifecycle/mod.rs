//! The life of the daemon: one for each home, found or started by clients, ended without ceremony.
//!
//! Order of a start: the folders, the lock, the configuration, the log, the store and what hangs on it
//! (`wiring`), the socket, and only then the word "ready". There is no shutdown save: a stop and a crash leave the
//! same things behind, and the next start takes the same path after both.
//!
//! Invariants: the lock in the data folder is the truth about a running daemon; a socket is removed only by who
//! holds the lock, and only if it is a socket and ours; nothing but the lock is waited for by polling.

mod accept;
mod detach;
mod identity;
mod lock;
mod providers;
mod run;
mod system;
mod wiring;
mod workload;

use crate::config::ConfigError;
use crate::paths::{DaemonStart, Place, PlaceError, Ready};
use crate::telemetry::TelemetryError;
use detach::Announcer;
use lock::{Claim, HomeLock};
use std::path::PathBuf;

pub use system::{SystemClock, SystemEntropy};
pub use wiring::{Parts, Wired, WiringError};

/// Why the daemon cannot run.
#[derive(Debug, thiserror::Error)]
pub enum LifecycleError {
    /// The place.
    #[error(transparent)]
    Place(#[from] PlaceError),
    /// The configuration.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The log.
    #[error(transparent)]
    Telemetry(#[from] TelemetryError),
    /// The rooms.
    #[error(transparent)]
    Wiring(#[from] WiringError),
    /// The server.
    #[error(transparent)]
    Server(#[from] crate::api::server::ServerError),
    /// A file of ours.
    #[error("cannot {what} {path}: {source}", path = path.display())]
    File {
        /// What was tried.
        what: &'static str,
        /// Where.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// Something at the socket's path that is not a socket of ours.
    #[error("{path} is in the way: it is {what}; it was left as it is, move it away", path = path.display())]
    InTheWay {
        /// The path.
        path: PathBuf,
        /// What it is.
        what: &'static str,
    },
    /// Another daemon has the lock and does not answer.
    #[error("another daemon holds the lock {path}{owner} but does not answer; if it was stopped let it go on (kill -CONT), or end it", path = path.display())]
    LockHeld {
        /// The lock.
        path: PathBuf,
        /// Who, as far as it is written there.
        owner: String,
    },
    /// A tool call of ours wants to start a daemon.
    #[error("a command that the agent runs cannot start a daemon")]
    StartedByATool,
    /// The system lacks something.
    #[error("cannot {what}: {why}")]
    System {
        /// What was tried.
        what: &'static str,
        /// Why not.
        why: String,
    },
}

impl LifecycleError {
    fn file(what: &'static str, path: &std::path::Path) -> impl FnOnce(std::io::Error) -> Self {
        let path = path.to_path_buf();
        move |source| Self::File { what, path, source }
    }

    /// Whether it is the place or the configuration that a person has to mend.
    const fn is_config(&self) -> bool {
        matches!(self, Self::Place(_) | Self::Config(_))
    }
}

/// Exit code: ended as asked.
const DONE: u8 = 0;
/// Exit code: anything else.
const FAILED: u8 = 1;
/// Exit code: the place or the configuration cannot be used.
const CONFIG: u8 = 3;

/// Runs the daemon until it is stopped; the answer is its exit code.
#[allow(clippy::needless_pass_by_value, reason = "the client holds it as a function of this shape")]
pub fn run_daemon(start: DaemonStart) -> u8 {
    let mut announcer = match detach::begin(start.detached) {
        Ok(announcer) => announcer,
        Err(error) => {
            Announcer::foreground().failed(&error);
            return FAILED;
        }
    };
    match claim_and_run(&start, &mut announcer) {
        Ok(code) => code,
        Err(error) => {
            tracing::error!(%error, "the daemon ends");
            announcer.failed(&error);
            if error.is_config() { CONFIG } else { FAILED }
        }
    }
}

fn claim_and_run(start: &DaemonStart, announcer: &mut Announcer) -> Result<u8, LifecycleError> {
    let place = Place::of_daemon(start.home.as_deref())?;
    place.prepare()?;
    if wiring::is_tool_of(&place, std::process::id()) {
        return Err(LifecycleError::StartedByATool);
    }
    let lock = match HomeLock::claim(&place, true)? {
        Claim::Ours(lock) => lock,
        Claim::AnotherAnswers { owner } => {
            announcer.say(&Ready::LostRace);
            if !start.detached {
                announcer.complain(&format!("a daemon of this home runs already{owner}"));
                return Ok(FAILED);
            }
            return Ok(DONE);
        }
    };
    run::run(place, lock, announcer)?;
    Ok(DONE)
}
