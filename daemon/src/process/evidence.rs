//! What a job folder says about its job: the table of evidence that recovery goes by.
//!
//! | found | the job is |
//! | --- | --- |
//! | no folder | not started, unless a child of ours or a marked process shows otherwise |
//! | folder without `id` | not started, once the tombstone is won |
//! | `id` of a living supervisor | running |
//! | `result` | finished |
//! | `id` of a dead supervisor or of another boot, no `result` | unknown |
//!
//! Invariants: looking changes nothing but the tombstone, and it ends what outlived a dead supervisor. A living child
//! of ours and its word come before its folder, which is a command's to spoil.

use super::error::ProcessError;
use super::job::{IdRecord, JobFolder, JobResult};
use super::jobs::{JobEvidence, Jobs};
use super::procfs::{self, ProcId};
use super::regular::is_folder;
use super::spool::HeadTail;
use super::tree;
use agentd_core::limits::{RESULT_HEAD_LINES, RESULT_MAX_BYTES, RESULT_TAIL_LINES};

/// Claims that may be lost to others while the evidence is read; each loss means that there is an `id` now.
const LOOKS_MAX: u32 = 8;

impl Jobs {
    /// Looks at a job by the table of evidence. A folder nobody has claimed yet gets a tombstone, unless its
    /// supervisor is a living child of ours. What outlived a dead supervisor is killed. Reads files; quick unless
    /// the supervisor was lost.
    pub fn evidence(&self, name: &str) -> Result<JobEvidence, ProcessError> {
        let folder = self.folder(name)?;
        if !is_folder(folder.path()) {
            return self.without_folder(name);
        }
        for _ in 0..LOOKS_MAX {
            if let Some(evidence) = self.look(name, &folder)? {
                return Ok(evidence);
            }
        }
        self.unknown(name, "its folder kept changing while it was read".into())
    }

    /// A command can delete its own folder, so a missing one shows nothing where something else shows a beginning.
    fn without_folder(&self, name: &str) -> Result<JobEvidence, ProcessError> {
        if let Some(id) = self.living_child(name) {
            return Ok(JobEvidence::Running { id, bytes_seen: 0 });
        }
        if let Some(result) = self.told(name) {
            return Ok(JobEvidence::Finished(result));
        }
        let why = "its job folder was deleted while it ran";
        if self.children().contains_key(name) {
            return self.unknown(name, why.into());
        }
        match tree::sweep(self.folder(name)?.path()) {
            0 => Ok(JobEvidence::NotStarted { why: "there is no job folder".into() }),
            killed => {
                let why = format!("{why}; {killed} processes it had left were killed");
                Ok(JobEvidence::Unknown { why, output: HeadTail::default() })
            }
        }
    }

    /// What a supervisor of ours said. Final once it has ended.
    pub(super) fn told(&self, name: &str) -> Option<JobResult> {
        self.children().get(name).and_then(|child| child.told.borrow().clone())
    }

    /// One look; none when something changed under it.
    fn look(&self, name: &str, folder: &JobFolder) -> Result<Option<JobEvidence>, ProcessError> {
        let record = match folder.read_id() {
            Ok(record) => record,
            Err(error @ ProcessError::Garbled { .. }) => {
                // What a command does to the file does not end its supervisor.
                if let Some(id) = self.living_child(name) {
                    return Ok(Some(JobEvidence::Running {
                        id,
                        bytes_seen: self.spool(name)?.total_bytes()?,
                    }));
                }
                return self.ended_or_unknown(name, folder, &error.to_string());
            }
            Err(error) => return Err(error),
        };
        match record {
            None => {
                if let Some(id) = self.living_child(name) {
                    return Ok(Some(JobEvidence::Running { id, bytes_seen: 0 }));
                }
                let me =
                    ProcId::current().map_err(ProcessError::io("looking up itself for", folder.path()))?;
                if !folder.claim(&IdRecord::Tombstone(me))? {
                    return Ok(None);
                }
                Ok(Some(self.not_started(name, folder)))
            }
            Some(IdRecord::Tombstone(_)) => Ok(Some(self.not_started(name, folder))),
            Some(IdRecord::Supervisor(id)) if id.is_alive() => {
                let bytes_seen = self.spool(name)?.total_bytes()?;
                Ok(Some(JobEvidence::Running { id, bytes_seen }))
            }
            // Dead, so the result is final: written before, or never.
            Some(IdRecord::Supervisor(id)) => {
                let same_boot = procfs::boot_id().is_ok_and(|boot| boot == id.boot_id);
                let why = if same_boot {
                    format!("its supervisor, process {}, died without leaving a result", id.pid)
                } else {
                    "the machine was restarted while it ran".to_owned()
                };
                self.ended_or_unknown(name, folder, &why)
            }
        }
    }

    fn ended_or_unknown(
        &self,
        name: &str,
        folder: &JobFolder,
        why: &str,
    ) -> Result<Option<JobEvidence>, ProcessError> {
        let read = folder.read_result();
        if !matches!(read, Ok(Some(_)))
            && let Some(result) = self.told(name)
        {
            // It said the result and could not write it, or the command tampered with the file.
            return Ok(Some(JobEvidence::Finished(result)));
        }
        match read {
            Ok(Some(result)) => Ok(Some(JobEvidence::Finished(result))),
            Ok(None) => {
                let fault =
                    folder.read_fault().map(|fault| format!("; it said: {fault}")).unwrap_or_default();
                self.unknown(name, format!("{why}{fault}")).map(Some)
            }
            Err(error @ ProcessError::Garbled { .. }) => self.unknown(name, error.to_string()).map(Some),
            Err(error) => Err(error),
        }
    }

    fn unknown(&self, name: &str, why: String) -> Result<JobEvidence, ProcessError> {
        let killed = tree::sweep(self.folder(name)?.path());
        let why =
            if killed == 0 { why } else { format!("{why}; {killed} processes it had left were killed") };
        let output =
            self.spool(name)?.read_head_tail(RESULT_HEAD_LINES, RESULT_TAIL_LINES, RESULT_MAX_BYTES)?;
        Ok(JobEvidence::Unknown { why, output })
    }

    fn not_started(&self, name: &str, folder: &JobFolder) -> JobEvidence {
        let ended = self.children().get(name).and_then(|child| child.ended.borrow().clone());
        let why = match (folder.read_fault(), ended) {
            (Some(fault), _) => format!("its supervisor gave up before it began: {fault}"),
            (None, Some(status)) => format!("its supervisor ended before it began ({status})"),
            (None, None) => "no supervisor had claimed it".to_owned(),
        };
        JobEvidence::NotStarted { why }
    }
}
