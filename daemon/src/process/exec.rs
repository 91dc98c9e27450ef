//! The hidden role `agentctl __exec JOB_FOLDER`: one supervisor for one command.
//!
//! It runs before argument parsing, logging and any runtime exist, in one thread. Order of what it does, each
//! step the ground for the evidence a recovery goes by: own session and signals, claim `id` on disk, start the
//! command, spool and wait, end the tree, say the result to who started it, write `result`.
//!
//! Invariants: nothing starts without a won claim. Waiting is on the exit of the command; the pipes are only
//! drained. Time is monotonic, so a closed lid does not count. It never panics, and no failing disk loses the
//! exit code: the room for the result is taken before the command runs, and output gives way to it.
//!
//! Absent on purpose: any need of the daemon. It may be gone, and come back, at any time.

use super::child;
use super::error::ProcessError;
use super::job::{IdRecord, JobEnd, JobFolder, JobResult, JobSpec};
use super::marks::Marks;
use super::procfs::{ProcId, Stat};
use super::spool_writer::SpoolWriter;
use super::streams::Streams;
use super::{sys, told, tree};
use agentd_core::limits::{DRAIN_MS, KILL_WAIT_MS, LEFTOVER_GRACE_MS, STREAM_WAITING_MS};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{DumpableBehavior, Pid, Signal, WaitOptions, WaitStatus, wait};
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// The first argument that makes the program a supervisor.
pub const EXEC_ARG: &str = "__exec";
/// Delays the claim, in milliseconds, for crash tests. Debug builds only.
pub const TEST_DELAY_VAR: &str = "AGENTD_TEST_EXEC_DELAY_MS";

/// Exit code: the job is done and its result is written, or somebody else decided over it.
const DONE: i32 = 0;
/// Exit code: called wrongly.
const USAGE: i32 = 2;
/// Exit code: it gave up before the claim; nothing was started.
const NOT_BEGUN: i32 = 3;
/// Exit code: the result could not be written.
const NO_RESULT: i32 = 4;

/// Plays the supervisor. `args` are the arguments after [`EXEC_ARG`]; the answer is the exit code of the process.
pub fn exec_main(mut args: impl Iterator<Item = OsString>) -> i32 {
    sys::close_inherited();
    let (Some(folder), None) = (args.next(), args.next()) else { return USAGE };
    let folder = PathBuf::from(folder);
    if !folder.is_absolute() {
        return USAGE;
    }
    let folder = JobFolder::new(folder);
    match begin(&folder) {
        Err(error) => {
            folder.write_fault(&error.to_string());
            NOT_BEGUN
        }
        Ok(None) => DONE,
        Ok(Some((spec, signals))) => supervise(&folder, &spec, signals),
    }
}

/// Everything up to the won claim. None: somebody else decided.
fn begin(folder: &JobFolder) -> Result<Option<(JobSpec, OwnedFd)>, ProcessError> {
    // Before the claim: a stop that comes right after it must find its listener.
    let signals = sys::take_signals().map_err(ProcessError::io("taking signals for", folder.path()))?;
    // Fails only for a group leader, which a person at a shell may have made of us.
    let _ = rustix::process::setsid();
    let _ = rustix::process::chdir("/");
    // No process of the same user may trace this one or read its memory; only its own child sees its death.
    let _ = rustix::process::set_dumpable_behavior(DumpableBehavior::NotDumpable);
    let me = ProcId::current().map_err(ProcessError::io("looking up itself for", folder.path()))?;
    rustix::process::set_child_subreaper(rustix::process::Pid::from_raw(1))
        .map_err(|error| ProcessError::io("becoming the reaper for", folder.path())(error.into()))?;
    let spec = folder.read_spec()?;
    test_delay();
    Ok(folder.claim(&IdRecord::Supervisor(me))?.then_some((spec, signals)))
}

fn test_delay() {
    #[cfg(debug_assertions)]
    if let Some(delay) = std::env::var(TEST_DELAY_VAR).ok().and_then(|text| text.parse().ok()) {
        std::thread::sleep(Duration::from_millis(delay));
    }
}

fn supervise(folder: &JobFolder, spec: &JobSpec, signals: OwnedFd) -> i32 {
    let begun = Instant::now();
    let reserved = folder.reserve_result();
    let mut spool = SpoolWriter::create(folder.path(), spec.spool_max_bytes);
    let (streams, started) = match Streams::open(spec.all_shell) {
        Err(error) => (None, Err(format!("no pipe could be made: {error}"))),
        Ok((streams, ends)) => (Some(streams), child::start(spec, folder.path(), &ends)),
    };
    let mut result = match started {
        Err(why) => JobResult { end: JobEnd::Refused { why }, ..JobResult::empty() },
        Ok(leader) => {
            let mut run = Run::new(leader, streams, signals, spool);
            run.until_leader_ends(begun, spec);
            run.end_the_rest();
            let result = run.result(spec);
            spool = run.spool;
            result
        }
    };
    result.duration_ms = u64::try_from(begun.elapsed().as_millis()).unwrap_or(u64::MAX);
    result.total_bytes = spool.total_bytes();
    result.total_lines = spool.total_lines();
    result.spool_error = spool.error();
    told::say(&result);
    if folder.write_result(&result, reserved.as_ref()).is_ok() {
        return DONE;
    }
    // Most likely the disk is full, perhaps by this very output. The exit code is worth more than that.
    spool.give_way();
    result.spool_error = spool.error();
    match folder.write_result(&result, reserved.as_ref()) {
        Ok(()) => DONE,
        Err(error) => {
            folder.write_fault(&error.to_string());
            NO_RESULT
        }
    }
}

impl JobResult {
    fn empty() -> Self {
        Self {
            end: JobEnd::Refused { why: String::new() },
            timed_out: false,
            stopped: false,
            duration_ms: 0,
            total_bytes: 0,
            total_lines: 0,
            leftover_killed: 0,
            left_alive: 0,
            spool_error: None,
            stderr_end: String::new(),
            ends_in_stderr: false,
            sandbox_layers: Vec::new(),
        }
    }
}

/// A started command.
struct Run {
    leader: Pid,
    leader_end: Option<WaitStatus>,
    streams: Option<Streams>,
    signals: OwnedFd,
    spool: SpoolWriter,
    marks: Marks,
    /// Some descendant is not reaped yet.
    children: bool,
    stop_asked: bool,
    timed_out: bool,
    stopped: bool,
    /// Processes beside the leader that were told to end.
    ended: BTreeSet<u32>,
    left_alive: usize,
}

impl Run {
    fn new(leader: Pid, streams: Option<Streams>, signals: OwnedFd, spool: SpoolWriter) -> Self {
        Self {
            leader,
            leader_end: None,
            streams,
            signals,
            spool,
            marks: Marks::default(),
            children: true,
            stop_asked: false,
            timed_out: false,
            stopped: false,
            ended: BTreeSet::new(),
            left_alive: 0,
        }
    }

    /// Spools until the command itself has ended; past the deadline or after a stop it is made to.
    fn until_leader_ends(&mut self, begun: Instant, spec: &JobSpec) {
        let deadline = begun.checked_add(Duration::from_millis(spec.timeout_ms));
        let grace = Duration::from_millis(spec.grace_ms);
        while self.leader_end.is_none() && !self.stop_asked && !passed(deadline) {
            self.step(deadline);
        }
        if self.leader_end.is_some() {
            return;
        }
        // A supervisor that was held past the deadline and told to stop for that says what happened.
        self.timed_out = passed(deadline);
        self.stopped = !self.timed_out;
        self.signal_tree(Signal::TERM);
        // The grace is for the whole tree: a shell that obeys at once may have children that tidy up.
        let kill_at = Instant::now().checked_add(grace);
        while self.children && !passed(kill_at) {
            self.step(kill_at);
        }
        self.kill_tree();
    }

    /// What the command left running is ended too: nothing of it may outlive the result.
    fn end_the_rest(&mut self) {
        // What it wrote last may still be on its way through a filter, as in `cmd > >(tee log)`.
        let settled_at = Instant::now().checked_add(Duration::from_millis(DRAIN_MS));
        // Its writers must be the only ones, or the end of a stream is never seen.
        if let Some(streams) = &mut self.streams {
            streams.flow();
        }
        while self.children && self.streams.as_ref().is_some_and(Streams::is_open) && !passed(settled_at) {
            self.step(settled_at);
        }
        self.reap();
        if self.children {
            // A polite end first: a detached `git gc` takes its lock files along.
            self.signal_tree(Signal::TERM);
            let kill_at = Instant::now().checked_add(Duration::from_millis(LEFTOVER_GRACE_MS));
            while self.children && !passed(kill_at) {
                self.step(kill_at);
            }
            self.kill_tree();
        }
        self.drain();
    }

    fn kill_tree(&mut self) {
        let give_up = Instant::now().checked_add(Duration::from_millis(KILL_WAIT_MS));
        self.reap();
        while self.children {
            let tree = self.signal_tree(Signal::KILL);
            if passed(give_up) {
                self.left_alive = tree.len();
                return;
            }
            // A short wait for their ends; then whatever was forked meanwhile gets its turn.
            let round = Instant::now().checked_add(Duration::from_millis(5));
            self.step(round);
        }
    }

    fn signal_tree(&mut self, signal: Signal) -> Vec<Stat> {
        let tree = tree::living();
        let leader = self.leader.as_raw_nonzero().get().unsigned_abs();
        self.ended.extend(tree.iter().map(|stat| stat.pid).filter(|pid| *pid != leader));
        tree::signal(&tree, signal);
        if signal == Signal::TERM {
            // A stopped process acts on TERM only once it goes on.
            tree::signal(&tree, Signal::CONT);
        }
        tree
    }

    /// Waits for output, a signal or `until`, and takes what there is.
    fn step(&mut self, until: Option<Instant>) {
        // What waits for the end of a line of the other stream waits for a moment only.
        let waits = self.marks.is_waiting();
        let moment = Instant::now().checked_add(Duration::from_millis(STREAM_WAITING_MS)).filter(|_| waits);
        let until = until.into_iter().chain(moment).min();
        let wait = until.map(|until| timespec(until.saturating_duration_since(Instant::now())));
        let (output, signal) = {
            let mut fds = vec![PollFd::new(&self.signals, PollFlags::IN)];
            let ready = self.streams.as_ref().filter(|streams| streams.is_open()).map(Streams::ready);
            fds.extend(ready.as_ref().map(|ready| PollFd::new(ready, PollFlags::IN)));
            match poll(&mut fds, wait.as_ref()) {
                Ok(_) => {}
                Err(Errno::INTR) => return,
                // Out of memory for a moment: wait without it rather than spin.
                Err(_) => std::thread::sleep(Duration::from_millis(1)),
            }
            let ready = |at: usize| fds.get(at).is_some_and(|fd| !fd.revents().is_empty());
            (ready(1), ready(0))
        };
        if output {
            self.read_once();
        } else if waits {
            self.marks.settle(&mut self.spool);
        }
        if signal {
            while let Some(number) = sys::next_signal(&self.signals) {
                self.stop_asked |= number != libc::SIGCHLD;
            }
            self.reap();
        }
    }

    /// A piece of each stream. False: there is nothing more now.
    fn read_once(&mut self) -> bool {
        let Some(streams) = self.streams.as_mut() else { return false };
        let (marks, spool) = (&mut self.marks, &mut self.spool);
        streams.read_once(|stream, bytes| marks.push(stream, bytes, spool))
    }

    /// What is in the pipes now. Bounded also against a writer that could not be ended.
    fn drain(&mut self) {
        let until = Instant::now().checked_add(Duration::from_millis(DRAIN_MS));
        while self.read_once() && !passed(until) {}
        self.marks.settle(&mut self.spool);
    }

    fn reap(&mut self) {
        loop {
            match wait(WaitOptions::NOHANG) {
                Ok(Some((pid, status))) => {
                    if pid == self.leader {
                        self.leader_end = Some(status);
                    }
                }
                Ok(None) => return,
                Err(Errno::INTR) => {}
                Err(_) => {
                    self.children = false;
                    return;
                }
            }
        }
    }

    fn result(&self, spec: &JobSpec) -> JobResult {
        let count = |len: usize| u32::try_from(len).unwrap_or(u32::MAX);
        let end = match self.leader_end {
            Some(status) => match (status.exit_status(), status.terminating_signal()) {
                (Some(code), _) => JobEnd::Exited { code },
                (None, Some(signal)) => JobEnd::Signaled { signal },
                (None, None) => JobEnd::Signaled { signal: libc::SIGKILL },
            },
            // It was killed and its end has not come within the bound (stuck in the kernel).
            None => JobEnd::Signaled { signal: libc::SIGKILL },
        };
        JobResult {
            end,
            timed_out: self.timed_out,
            stopped: self.stopped,
            leftover_killed: count(self.ended.len().saturating_sub(self.left_alive)),
            left_alive: count(self.left_alive),
            stderr_end: self.marks.stderr_end(),
            ends_in_stderr: self.marks.is_in_stderr(),
            sandbox_layers: spec.sandbox.layers(),
            ..JobResult::empty()
        }
    }
}

fn passed(at: Option<Instant>) -> bool {
    at.is_some_and(|at| Instant::now() >= at)
}

fn timespec(duration: Duration) -> Timespec {
    Timespec {
        tv_sec: i64::try_from(duration.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: duration.subsec_nanos().into(),
    }
}
