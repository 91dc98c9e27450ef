//! What can go wrong with jobs, said so that a person knows what to do.

use std::io;
use std::path::{Path, PathBuf};

/// Why a job could not be started, looked at, stopped or removed.
#[derive(Debug, thiserror::Error)]
pub enum ProcessError {
    /// A job's name must be safe as a folder name.
    #[error("{name:?} cannot name a job: use 1 to 100 of A-Z, a-z, 0-9, '_' and '-'")]
    BadName {
        /// The name.
        name: String,
    },
    /// The spec holds something that no process can be started with.
    #[error("job {name} cannot start: {why}")]
    BadSpec {
        /// The job.
        name: String,
        /// What is wrong.
        why: String,
    },
    /// A folder of this name is there already.
    #[error("job {name} exists already; its evidence must be read, not started over")]
    Exists {
        /// The job.
        name: String,
    },
    /// No folder of this name.
    #[error("there is no job {name} in {}", root.display())]
    Missing {
        /// The job.
        name: String,
        /// Where it would be.
        root: PathBuf,
    },
    /// The job runs; its folder must stay.
    #[error("job {name} is still running as process {pid}; stop it before its folder is removed")]
    StillRunning {
        /// The job.
        name: String,
        /// Its supervisor.
        pid: u32,
    },
    /// A file of a job is not what it should be.
    #[error("{} cannot be understood: {why}", path.display())]
    Garbled {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// The supervisor's program did not start.
    #[error("the supervisor {} did not start: {source}; is the program still where it was?", exec.display())]
    Spawn {
        /// The program.
        exec: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// Jobs are watched by tasks.
    #[error("job {name} was started outside a tokio runtime, where nobody would notice its end")]
    NoRuntime {
        /// The job.
        name: String,
    },
    /// A file or process call failed.
    #[error("{what} {} failed: {source}", path.display())]
    Io {
        /// What was tried.
        what: &'static str,
        /// On what.
        path: PathBuf,
        /// Why it failed.
        source: io::Error,
    },
}

impl ProcessError {
    /// For `map_err`: an I/O failure with what was tried and where.
    pub(super) fn io(what: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_path_buf();
        move |source| Self::Io { what, path, source }
    }
}
