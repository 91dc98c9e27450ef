//! Jobs for tests: a private root, this test program as supervisor, waits with deadlines.

use super::procfs;
use super::{JobEnd, JobOutcome, JobResult, JobSpec, Jobs, SandboxSpec};
use agentd_core::path_bytes::PathBytes;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// Longest wait for anything in these tests.
pub(super) const PATIENCE: Duration = Duration::from_secs(30);

pub(super) struct Bench {
    pub(super) home: TempDir,
    pub(super) jobs: Jobs,
}

impl Bench {
    pub(super) fn new() -> Self {
        let home = tempfile::tempdir().unwrap();
        let jobs = open(home.path());
        Self { home, jobs }
    }
    pub(super) fn folder(&self, name: &str) -> PathBuf {
        self.home.path().canonicalize().unwrap().join("jobs").join(name)
    }
    pub(super) fn spec(&self, command: &str) -> JobSpec {
        JobSpec {
            command: command.as_bytes().to_vec(),
            cwd: PathBytes::new(self.home.path().as_os_str().as_bytes()),
            env: vec![(b"PATH".to_vec(), std::env::var("PATH").unwrap_or_default().into_bytes())],
            timeout_ms: 20_000,
            grace_ms: 500,
            spool_max_bytes: 64 * 1024 * 1024,
            umask: None,
            all_shell: agentd_core::policy::command::is_all_shell(command),
            sandbox: SandboxSpec::None,
        }
    }
    /// Runs a command to its end; its result and all it printed.
    pub(super) async fn run(&self, name: &str, command: &str) -> (JobResult, Vec<u8>) {
        self.run_spec(name, &self.spec(command)).await
    }
    pub(super) async fn run_spec(&self, name: &str, spec: &JobSpec) -> (JobResult, Vec<u8>) {
        self.jobs.spawn(name, spec).unwrap();
        (self.finished(name).await, self.output(name))
    }
    pub(super) async fn finished(&self, name: &str) -> JobResult {
        finished(&self.jobs, name).await
    }
    pub(super) fn output(&self, name: &str) -> Vec<u8> {
        let mut bytes = Vec::new();
        std::io::Read::read_to_end(&mut self.jobs.spool(name).unwrap().open_reader().unwrap(), &mut bytes)
            .unwrap();
        bytes
    }
    /// Living processes that carry the mark of a job: all of its tree, in whatever session.
    pub(super) fn alive(&self, name: &str) -> Vec<u32> {
        let mark = [b"AGENTD_JOB=", self.folder(name).as_os_str().as_bytes()].concat();
        procfs::all_pids()
            .into_iter()
            .filter(|pid| procfs::stat(*pid).is_some_and(|stat| !stat.ended()))
            .filter(|pid| {
                std::fs::read(format!("/proc/{pid}/environ"))
                    .is_ok_and(|environ| environ.split(|byte| *byte == 0).any(|entry| entry == mark))
            })
            .collect()
    }
    /// Waits until the job printed `text`.
    pub(super) async fn printed(&self, name: &str, text: &str) {
        let mut follow = self.jobs.follow(name, 0).unwrap();
        let mut seen = Vec::new();
        while !String::from_utf8_lossy(&seen).contains(text) {
            let chunk = tokio::time::timeout(PATIENCE, follow.next()).await.unwrap().unwrap();
            seen.extend(chunk.expect("the job ended before it printed that").bytes);
        }
    }
}

pub(super) fn open(home: &Path) -> Jobs {
    Jobs::open(&home.join("jobs"), std::env::current_exe().unwrap()).unwrap()
}

pub(super) async fn finished(jobs: &Jobs, name: &str) -> JobResult {
    match tokio::time::timeout(PATIENCE, jobs.wait(name)).await.expect("the job ends in time").unwrap() {
        JobOutcome::Finished(result) => result,
        other => panic!("not finished: {other:?}"),
    }
}

pub(super) fn exited(code: i32) -> JobEnd {
    JobEnd::Exited { code }
}

/// Asks the kernel again and again, bounded: only for what gives no event to wait for.
pub(super) fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !holds() {
        assert!(begun.elapsed() < PATIENCE, "{what} did not come true");
        std::thread::yield_now();
    }
}
