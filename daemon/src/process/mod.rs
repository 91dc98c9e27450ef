//! Child processes: the supervisor that owns one process tree, and the daemon's side of it.
//!
//! A job is a folder (`job`). The daemon writes its `spec` and starts `agentctl __exec FOLDER` (`jobs`); that
//! supervisor (`exec`) claims the folder by its `id`, runs the command (`child`), spools its output within a
//! bound (`spool_writer`), ends the whole process tree (`tree`) and writes `result`. It outlives the daemon; the
//! next run of the daemon finds the folder and goes by its evidence.
//!
//! Invariants: a command starts only after `id` is on disk, and at most once for each folder. Waiting is on the
//! exit of a process or on its word (`told`), never on the end of a pipe, never on a bare pid. Nothing of a job is alive once its result
//! is written, except what the result counts as left alive. All bounds are in `agentd_core::limits`.
//!
//! What a command does to its folder (a fifo, a link, nothing left of it) neither holds a reader nor makes it seem not
//! begun; what it does to its supervisor (stopped, killed) is met by the daemon, which waits only so long and is
//! the reaper of what is left (`strays`).
//!
//! Absent on purpose: a control socket (stopping is a signal through a pidfd), the text a model reads (the tools
//! make it), any system but Linux (pidfd, subreaper and /proc are the ground this stands on).
#![allow(unsafe_code)]

mod child;
mod error;
mod evidence;
pub mod exec;
mod exits;
mod follow;
mod job;
mod jobs;
mod marks;
pub mod procfs;
mod regular;
mod removal;
mod sandbox;
mod spool;
mod spool_writer;
mod strays;
mod streams;
mod sys;
mod told;
mod tree;

#[cfg(test)]
mod evidence_tests;
#[cfg(test)]
mod exec_tests;
#[cfg(test)]
mod jobs_tests;
#[cfg(test)]
mod test_role;
#[cfg(test)]
mod test_support;
#[cfg(test)]
mod told_tests;

pub use error::ProcessError;
pub use exec::{EXEC_ARG, exec_main};
pub use follow::{Follow, OutputChunk};
pub use job::{JOB_MARK, JobEnd, JobResult, JobSpec};
pub use jobs::{JobEvidence, JobOutcome, Jobs};
pub use procfs::ProcId;
pub use sandbox::SandboxSpec;
pub use spool::{HeadTail, Spool, SpoolPart, SpoolReader};
pub use sys::close_inherited;
