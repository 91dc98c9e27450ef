//! The daemon's side of jobs: start, wait, stop, read, remove. What a folder says is in `evidence`.
//!
//! Invariants: a job is started at most once for its folder. Every judgement goes by the evidence in the folder
//! and by process identity, so it is the same for own and for adopted jobs. Signals and waits go through a pidfd
//! whose start ticks were checked after it was opened, so a recycled pid is never touched.
//!
//! Absent on purpose: any memory of jobs beyond our own children, which are reaped and whose word is kept. The
//! folder is the memory; it is a command's to spoil, so a living child and its word come before it.

use super::error::ProcessError;
use super::exec::{EXEC_ARG, TEST_DELAY_VAR};
use super::exits::wait_for_exit;
use super::follow::{Bells, Follow};
use super::job::{IdRecord, JobFolder, JobResult, JobSpec};
use super::procfs::ProcId;
use super::removal::remove_folder;
use super::spool::{HeadTail, Spool};
use super::{strays, told, tree};
use agentd_core::limits::SUPERVISOR_WORD_MS;
use rustix::process::{PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use std::collections::{BTreeSet, HashMap};
use std::fs::DirBuilder;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;
use tokio::sync::watch;

/// Longest name of a job.
const NAME_MAX_BYTES: usize = 100;

/// What a job folder says. The table is in `evidence.rs`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum JobEvidence {
    /// It never began, and cannot begin any more.
    NotStarted {
        /// What shows it.
        why: String,
    },
    /// Its supervisor lives.
    Running {
        /// The supervisor.
        id: ProcId,
        /// Output bytes so far.
        bytes_seen: u64,
    },
    /// It ended.
    Finished(JobResult),
    /// It may or may not have happened, and nothing of it runs any more.
    Unknown {
        /// What is known.
        why: String,
        /// What it had printed.
        output: HeadTail,
    },
}

/// What a job came to: [`JobEvidence`] without `Running`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum JobOutcome {
    /// It ended.
    Finished(JobResult),
    /// It never began, and cannot begin any more.
    NotStarted {
        /// What shows it.
        why: String,
    },
    /// Its supervisor was lost.
    Unknown {
        /// What is known.
        why: String,
        /// What it had printed.
        output: HeadTail,
    },
}

/// All jobs of one data folder.
#[derive(Clone)]
pub struct Jobs {
    inner: Arc<Inner>,
}

struct Inner {
    root: PathBuf,
    exec: PathBuf,
    children: Mutex<HashMap<String, OwnChild>>,
    /// Held while a supervisor is started and not yet in `children`, and while strays are looked for.
    nursery: Mutex<()>,
    /// All below this process comes from these jobs.
    owns_process: AtomicBool,
    bells: Bells,
}

/// A supervisor that this process started.
pub(super) struct OwnChild {
    pid: u32,
    id: Option<ProcId>,
    /// Gone once it is reaped: then there is nothing to signal.
    pidfd: Weak<OwnedFd>,
    /// How the supervisor itself ended.
    pub(super) ended: watch::Receiver<Option<String>>,
    /// What it said before that. The sender is gone once nothing more can come.
    pub(super) told: watch::Receiver<Option<JobResult>>,
}

impl Jobs {
    /// The jobs below `root`, which is made if it is missing. `exec` is the program to start as supervisor: this
    /// one.
    pub fn open(root: &Path, exec: PathBuf) -> Result<Self, ProcessError> {
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(root)
            .map_err(ProcessError::io("creating", root))?;
        let root = root.canonicalize().map_err(ProcessError::io("resolving", root))?;
        let inner = Inner {
            root,
            exec,
            children: Mutex::default(),
            nursery: Mutex::default(),
            owns_process: AtomicBool::new(false),
            bells: Bells::default(),
        };
        Ok(Self { inner: Arc::new(inner) })
    }

    /// For the daemon, before its first job: this process has no children but supervisors of these jobs, and what
    /// such a supervisor leaves when it is killed falls to this process and is killed. Never for a process that
    /// starts others.
    pub fn own_process(&self) -> Result<(), ProcessError> {
        strays::adopt().map_err(ProcessError::io("becoming the reaper for", &self.inner.root))?;
        self.inner.owns_process.store(true, Ordering::Release);
        Ok(())
    }

    /// Writes the folder and starts its supervisor, which goes on whatever happens to this process. Returns before
    /// the command runs; [`Jobs::wait`] tells how it went. Must be called within a tokio runtime. After an error
    /// nothing was started.
    pub fn spawn(&self, name: &str, spec: &JobSpec) -> Result<(), ProcessError> {
        let folder = self.folder(name)?;
        check_spec(name, spec)?;
        let runtime = tokio::runtime::Handle::try_current()
            .map_err(|_| ProcessError::NoRuntime { name: name.to_owned() })?;
        match DirBuilder::new().mode(0o700).create(folder.path()) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                return Err(ProcessError::Exists { name: name.to_owned() });
            }
            Err(error) => return Err(ProcessError::io("creating", folder.path())(error)),
        }
        let started = folder.write_spec(spec).and_then(|()| {
            let _nursery = self.nursery();
            self.start(&folder).map(|child| self.watch_child(name, child, &runtime))
        });
        if started.is_err() {
            // No folder means not started, which is the truth.
            let _ = remove_folder(folder.path());
        }
        started
    }

    /// No hook between fork and exec, so that the standard library can use posix_spawn; the supervisor makes its
    /// own session.
    fn start(&self, folder: &JobFolder) -> Result<std::process::Child, ProcessError> {
        let mut command = Command::new(&self.inner.exec);
        command.arg(EXEC_ARG).arg(folder.path()).env_clear();
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
        if let Some(delay) = std::env::var_os(TEST_DELAY_VAR) {
            command.env(TEST_DELAY_VAR, delay);
        }
        command.spawn().map_err(|source| ProcessError::Spawn { exec: self.inner.exec.clone(), source })
    }

    /// Keeps the child until it has ended and is reaped, so that its pid cannot come back meanwhile.
    fn watch_child(&self, name: &str, mut child: std::process::Child, runtime: &tokio::runtime::Handle) {
        let (tell, ended) = watch::channel(None);
        let id = ProcId::of(child.id()).ok().flatten();
        let pidfd =
            tree::pid(child.id()).and_then(|pid| pidfd_open(pid, PidfdFlags::empty()).ok()).map(Arc::new);
        let weak = pidfd.as_ref().map(Arc::downgrade).unwrap_or_default();
        let (hear, told) = watch::channel(None);
        let mut heard = told.clone();
        if let Some(stdout) = child.stdout.take() {
            runtime.spawn(async move { hear.send_replace(told::hear(stdout).await) });
        } else {
            drop(hear);
        }
        self.children().insert(name.to_owned(), OwnChild { pid: child.id(), id, pidfd: weak, ended, told });
        let jobs = self.clone();
        let name = name.to_owned();
        runtime.spawn(async move {
            if let Some(pidfd) = &pidfd {
                wait_for_exit(pidfd).await;
            }
            drop(pidfd);
            // Blocks only where there was no pidfd (no descriptors left).
            let status = match child.try_wait() {
                Ok(Some(status)) => Ok(status),
                _ => {
                    tokio::task::spawn_blocking(move || child.wait()).await.unwrap_or_else(|e| Err(e.into()))
                }
            };
            // Its last word first, so that whoever learns of the end knows the word. Bounded: a process that got
            // hold of its end of the pipe would hold us.
            let patience = Duration::from_millis(SUPERVISOR_WORD_MS);
            let _ = tokio::time::timeout(patience, heard.wait_for(Option::is_some)).await;
            let spoke = heard.borrow().is_some();
            let _ = tokio::task::spawn_blocking(move || jobs.end_strays(&name, spoke)).await;
            let text = status.map_or_else(|error| error.to_string(), |status| status.to_string());
            tell.send_replace(Some(text));
        });
    }

    /// After the end of a supervisor of ours. One that spoke has ended its tree itself; one that did not may have
    /// been killed by it.
    fn end_strays(&self, over: &str, spoke: bool) {
        if !self.inner.owns_process.load(Ordering::Acquire) {
            return;
        }
        let _nursery = self.nursery();
        let supervisors: BTreeSet<u32> = self
            .children()
            .iter()
            .filter(|(name, child)| *name != over && child.ended.borrow().is_none())
            .map(|(_, child)| child.pid)
            .collect();
        if spoke {
            strays::reap(&supervisors);
            return;
        }
        let killed = strays::kill(&supervisors);
        if killed > 0 {
            tracing::warn!(killed, "processes that had lost their supervisor were killed");
        }
    }

    fn nursery(&self) -> MutexGuard<'_, ()> {
        self.inner.nursery.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until the job is over. Dropping the future changes nothing; any number may wait. Works for jobs of a
    /// former run as well. A job that nobody claimed and no child of ours will claim is given a tombstone.
    pub async fn wait(&self, name: &str) -> Result<JobOutcome, ProcessError> {
        loop {
            self.supervisor_ended(name).await?;
            // The common end first: two small reads.
            if let Ok(Some(result)) = self.folder(name)?.read_result() {
                return Ok(JobOutcome::Finished(result));
            }
            let (jobs, owned) = (self.clone(), name.to_owned());
            let evidence = tokio::task::spawn_blocking(move || jobs.evidence(&owned))
                .await
                .map_err(|error| ProcessError::io("reading", &self.inner.root)(error.into()))??;
            match evidence {
                JobEvidence::Finished(result) => return Ok(JobOutcome::Finished(result)),
                JobEvidence::NotStarted { why } => return Ok(JobOutcome::NotStarted { why }),
                JobEvidence::Unknown { why, output } => return Ok(JobOutcome::Unknown { why, output }),
                // It claimed the job between our two looks.
                JobEvidence::Running { .. } => {}
            }
        }
    }

    /// As [`Jobs::wait`], but a supervisor of ours is taken at its word: the outcome is certain, and the supervisor may
    /// still be writing it down. For who makes it durable elsewhere.
    pub async fn outcome(&self, name: &str) -> Result<JobOutcome, ProcessError> {
        let own = self.children().get(name).map(|child| (child.told.clone(), child.ended.clone()));
        if let Some((mut told, mut ended)) = own {
            // Also its exit: the pipe may be held by a process that got hold of its end.
            tokio::select! {
                _ = told.wait_for(Option::is_some) => {}
                _ = ended.wait_for(Option::is_some) => {}
            }
            if let Some(result) = self.told(name) {
                return Ok(JobOutcome::Finished(result));
            }
        }
        self.wait(name).await
    }

    /// Returns when the supervisor has ended, or when there is none.
    pub async fn supervisor_ended(&self, name: &str) -> Result<(), ProcessError> {
        let own = self.children().get(name).map(|child| child.ended.clone());
        if let Some(mut ended) = own {
            // An error means that the task is gone, which it is only when it has told the end.
            let _ = ended.wait_for(Option::is_some).await;
            return Ok(());
        }
        if let Some(pidfd) = self.adopted_pidfd(name)? {
            wait_for_exit(&Arc::new(pidfd)).await;
        }
        Ok(())
    }

    /// The living supervisor that `id` names. Its start ticks are checked after the pidfd is open.
    fn adopted_pidfd(&self, name: &str) -> Result<Option<OwnedFd>, ProcessError> {
        let record = match self.folder(name)?.read_id() {
            Ok(record) => record,
            // Whoever waits goes on to the evidence, which tells.
            Err(ProcessError::Garbled { .. }) => None,
            Err(error) => return Err(error),
        };
        let Some(IdRecord::Supervisor(id)) = record else { return Ok(None) };
        let Some(pidfd) = tree::pid(id.pid).and_then(|pid| pidfd_open(pid, PidfdFlags::empty()).ok()) else {
            return Ok(None);
        };
        Ok(id.is_alive().then_some(pidfd))
    }

    /// Asks the supervisor to end its tree: TERM, grace, KILL. False when there is none any more. The end itself
    /// comes from [`Jobs::wait`].
    pub fn stop(&self, name: &str) -> Result<bool, ProcessError> {
        let told = self.signal(name, Signal::TERM)?;
        if told {
            // Its command may have stopped it; then it acts on TERM only once it goes on.
            self.signal(name, Signal::CONT)?;
        }
        Ok(told)
    }

    /// Kills a supervisor that does not act on [`Jobs::stop`]. False when there is none any more. What it leaves is
    /// ended, and the outcome told, by [`Jobs::wait`].
    pub fn kill(&self, name: &str) -> Result<bool, ProcessError> {
        self.signal(name, Signal::KILL)
    }

    fn signal(&self, name: &str, signal: Signal) -> Result<bool, ProcessError> {
        let own = self.children().get(name).map(|child| child.pidfd.upgrade());
        let sent = match own {
            Some(pidfd) => pidfd.map(|pidfd| pidfd_send_signal(&pidfd, signal)),
            None => self.adopted_pidfd(name)?.map(|pidfd| pidfd_send_signal(&pidfd, signal)),
        };
        match sent {
            None | Some(Err(rustix::io::Errno::SRCH)) => Ok(false),
            Some(Ok(())) => Ok(true),
            Some(Err(error)) => Err(ProcessError::io("stopping", self.folder(name)?.path())(error.into())),
        }
    }

    /// What the job printed, also while it runs.
    pub fn spool(&self, name: &str) -> Result<Spool, ProcessError> {
        Ok(Spool::new(self.folder(name)?.path().to_path_buf()))
    }

    /// Its output from `offset` on, as it comes, until it has ended.
    pub fn follow(&self, name: &str, offset: u64) -> Result<Follow, ProcessError> {
        let folder = self.folder(name)?;
        let bell = self.inner.bells.hang(folder.path());
        Ok(Follow::new(self.clone(), name.to_owned(), self.spool(name)?, bell, offset))
    }

    /// Deletes a job's folder. It must be over. A folder that is gone already is fine.
    pub fn remove(&self, name: &str) -> Result<(), ProcessError> {
        let folder = self.folder(name)?;
        let claimed = match folder.read_id() {
            Ok(Some(IdRecord::Supervisor(id))) => Some(id).filter(ProcId::is_alive),
            _ => None,
        };
        if let Some(id) = claimed.or_else(|| self.living_child(name)) {
            return Err(ProcessError::StillRunning { name: name.to_owned(), pid: id.pid });
        }
        remove_folder(folder.path()).map_err(ProcessError::io("deleting", folder.path()))?;
        self.children().remove(name);
        Ok(())
    }

    /// The names of all job folders, sorted.
    pub fn list(&self) -> Result<Vec<String>, ProcessError> {
        let root = &self.inner.root;
        let entries = std::fs::read_dir(root).map_err(ProcessError::io("listing", root))?;
        let mut names: Vec<String> = entries
            .flatten()
            .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()))
            .filter_map(|entry| entry.file_name().into_string().ok())
            .filter(|name| is_name(name))
            .collect();
        names.sort();
        Ok(names)
    }

    /// The living supervisors: processes below one of them may only read.
    pub fn supervisors(&self) -> Result<Vec<ProcId>, ProcessError> {
        let mut found: Vec<ProcId> = self.children().values().filter_map(living).collect();
        for name in self.list()? {
            if let Ok(Some(IdRecord::Supervisor(id))) = self.folder(&name)?.read_id()
                && !found.contains(&id)
                && id.is_alive()
            {
                found.push(id);
            }
        }
        Ok(found)
    }

    pub(super) fn folder(&self, name: &str) -> Result<JobFolder, ProcessError> {
        if !is_name(name) {
            return Err(ProcessError::BadName { name: name.to_owned() });
        }
        Ok(JobFolder::new(self.inner.root.join(name)))
    }

    pub(super) fn living_child(&self, name: &str) -> Option<ProcId> {
        self.children().get(name).and_then(living)
    }

    pub(super) fn children(&self) -> MutexGuard<'_, HashMap<String, OwnChild>> {
        self.inner.children.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn living(child: &OwnChild) -> Option<ProcId> {
    child.id.clone().filter(|id| child.ended.borrow().is_none() && id.is_alive())
}

fn is_name(name: &str) -> bool {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-';
    (1..=NAME_MAX_BYTES).contains(&name.len()) && name.bytes().all(fits)
}

fn check_spec(name: &str, spec: &JobSpec) -> Result<(), ProcessError> {
    let bad = |why: &str| Err(ProcessError::BadSpec { name: name.to_owned(), why: why.to_owned() });
    if spec.command.contains(&0) {
        return bad("the command holds a zero byte");
    }
    if !spec.cwd.as_bytes().starts_with(b"/") || spec.cwd.as_bytes().contains(&0) {
        return bad("its folder is not an absolute path");
    }
    let illegal = |key: &[u8], value: &[u8]| {
        key.is_empty() || key.contains(&b'=') || key.contains(&0) || value.contains(&0)
    };
    match spec.env.iter().find(|(key, value)| illegal(key, value)) {
        Some((key, _)) => bad(&format!("{:?} is no environment variable", String::from_utf8_lossy(key))),
        None => Ok(()),
    }
}
