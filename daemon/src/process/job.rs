//! The job folder: its files and their formats.
//!
//! `spec` what to run, written by the daemon before anything is started. `id` who decided: the supervisor before
//! it starts the child, or a recovery as a tombstone; it appears whole, once, and never changes. `out` the first
//! half of the output, `tail-START-LINES` segments of the last half. `fault` why a supervisor gave up before it
//! began. `result` the end; it appears whole.
//!
//! Invariants: every record has a version and appears under its name only when it is complete. A file that
//! cannot be understood is an error that names it, never a guess.

use super::error::ProcessError;
use super::procfs::ProcId;
use super::regular::{open_folder, open_regular};
use super::sandbox::SandboxSpec;
use agentd_core::path_bytes::PathBytes;
use rustix::fs::{CWD, FallocateFlags, RenameFlags, fallocate, renameat_with};
use rustix::io::Errno;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// Version of all records of a job folder.
const VERSION: u32 = 1;
/// A command and its environment are the largest things in a `spec`. Against a file that is not ours.
const SPEC_MAX_BYTES: u64 = 64 * 1024 * 1024;
/// `id` and `result` are a few hundred bytes and one reason. Against a file that a command put there.
const RECORD_MAX_BYTES: u64 = 64 * 1024;
/// Room on disk for a `result`; one block holds any.
const RESULT_RESERVE_BYTES: u64 = 16 * 1024;
/// A `fault` is one sentence.
const FAULT_MAX_BYTES: u64 = 4 * 1024;
/// Set in the environment of every command, with the path of its job folder as value: by it a recovery finds
/// what outlived a killed supervisor, even in other sessions.
pub const JOB_MARK: &str = "AGENTD_JOB";

/// What to run and within which bounds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobSpec {
    /// The exact bytes given to `bash -c`.
    #[serde(with = "text_or_bytes")]
    pub command: Vec<u8>,
    /// Where it runs; absolute.
    pub cwd: PathBytes,
    /// Its whole environment; only [`JOB_MARK`] is added.
    #[serde(with = "pairs")]
    pub env: Vec<(Vec<u8>, Vec<u8>)>,
    /// Deadline in milliseconds on the monotonic clock.
    pub timeout_ms: u64,
    /// Between TERM and KILL, in milliseconds.
    pub grace_ms: u64,
    /// Bytes of output kept on disk: the first half and the last half of it.
    pub spool_max_bytes: u64,
    /// File mode mask; absent: the daemon's.
    #[serde(default)]
    pub umask: Option<u32>,
    /// It runs nothing but the shell's own words, so that its streams can be read in their exact order.
    #[serde(default)]
    pub all_shell: bool,
    /// What shall hold around it.
    #[serde(default)]
    pub sandbox: SandboxSpec,
}

/// Who decided over a job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum IdRecord {
    /// This supervisor runs it.
    Supervisor(ProcId),
    /// This daemon found it not started; it never starts.
    Tombstone(ProcId),
}

/// How the command itself ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum JobEnd {
    /// By itself, with this exit code.
    Exited {
        /// 0 to 255.
        code: i32,
    },
    /// By a signal.
    Signaled {
        /// Its number.
        signal: i32,
    },
    /// It never ran: the system refused to start it.
    Refused {
        /// What failed, where and why.
        why: String,
    },
}

/// The end of a job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobResult {
    /// How the command ended.
    pub end: JobEnd,
    /// Its deadline passed, and it was stopped for that.
    pub timed_out: bool,
    /// Somebody asked to stop it before it ended.
    pub stopped: bool,
    /// Wall time on the monotonic clock, in milliseconds.
    pub duration_ms: u64,
    /// Bytes it printed, kept or not.
    pub total_bytes: u64,
    /// Newlines it printed, and one more if the end is not one.
    pub total_lines: u64,
    /// Processes beside the command itself that were still there and were ended.
    pub leftover_killed: u32,
    /// Processes that could not be ended (another user's, or stuck in the kernel).
    pub left_alive: u32,
    /// Why output was not kept although it fits, if so (disk full).
    pub spool_error: Option<String>,
    /// The last lines it wrote to stderr, as text, if any; bounded.
    #[serde(default)]
    pub stderr_end: String,
    /// The output ends in a stretch of stderr.
    #[serde(default)]
    pub ends_in_stderr: bool,
    /// The sandbox layers that held; empty: none.
    pub sandbox_layers: Vec<String>,
}

#[derive(Serialize, Deserialize)]
struct Record<T> {
    version: u32,
    body: T,
}

/// One job's folder.
#[derive(Clone, Debug)]
pub(super) struct JobFolder {
    path: PathBuf,
}

impl JobFolder {
    pub(super) fn new(path: PathBuf) -> Self {
        Self { path }
    }
    pub(super) fn path(&self) -> &Path {
        &self.path
    }
    fn file(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    pub(super) fn write_spec(&self, spec: &JobSpec) -> Result<(), ProcessError> {
        let path = self.file("spec");
        write_new(&path, &encode(spec, &path)?).map(drop).map_err(ProcessError::io("writing", &path))
    }
    pub(super) fn read_spec(&self) -> Result<JobSpec, ProcessError> {
        let path = self.file("spec");
        read_record(&path, SPEC_MAX_BYTES)?
            .ok_or_else(|| ProcessError::Garbled { path, why: "it is missing".into() })
    }

    /// Claims the job. False: somebody did before; then nothing was changed. True only once the claim is on disk,
    /// so that it holds after a power loss too. Its content needs no sync: in another boot any `id` means unknown.
    pub(super) fn claim(&self, record: &IdRecord) -> Result<bool, ProcessError> {
        let (path, temp) = (self.file("id"), self.file(&format!("id.new-{}", std::process::id())));
        // From a process of the same pid that was killed here.
        let _ = std::fs::remove_file(&temp);
        drop(write_new(&temp, &encode(record, &temp)?).map_err(ProcessError::io("writing", &temp))?);
        let claimed = rename_new(&temp, &path);
        if !matches!(claimed, Ok(true)) {
            // A left-over temporary file is harmless; the folder is deleted as a whole.
            let _ = std::fs::remove_file(&temp);
        }
        if !claimed.map_err(ProcessError::io("creating", &path))? {
            return Ok(false);
        }
        sync_folder(&self.path)?;
        // The folder's own entry: without it a power loss would look like "no job folder".
        if let Some(parent) = self.path.parent() {
            sync_folder(parent)?;
        }
        Ok(true)
    }
    pub(super) fn read_id(&self) -> Result<Option<IdRecord>, ProcessError> {
        read_record(&self.file("id"), RECORD_MAX_BYTES)
    }

    /// Takes the room on disk that a result needs, before a command can fill the disk. None where that fails; then
    /// the result takes its chances.
    pub(super) fn reserve_result(&self) -> Option<File> {
        let file = write_new(&self.file("result.new"), &[]).ok()?;
        // Some file systems cannot; their files are as good for all else.
        let _ = fallocate(&file, FallocateFlags::KEEP_SIZE, 0, RESULT_RESERVE_BYTES);
        Some(file)
    }

    /// Writes the result, into the reserved room if there is one.
    pub(super) fn write_result(
        &self,
        result: &JobResult,
        reserved: Option<&File>,
    ) -> Result<(), ProcessError> {
        let (path, temp) = (self.file("result"), self.file("result.new"));
        let bytes = encode(result, &temp)?;
        let kept = reserved.is_some_and(|file| is_same(file, &temp) && overwrite(file, &bytes).is_ok());
        if !kept {
            // From a try that met a full disk, or of the command.
            let _ = std::fs::remove_file(&temp);
            write_new(&temp, &bytes)
                .and_then(|file| file.sync_all())
                .map_err(ProcessError::io("writing", &temp))?;
        }
        std::fs::rename(&temp, &path).map_err(ProcessError::io("renaming to", &path))?;
        sync_folder(&self.path)
    }
    pub(super) fn read_result(&self) -> Result<Option<JobResult>, ProcessError> {
        read_record(&self.file("result"), RECORD_MAX_BYTES)
    }

    /// Best effort: why a supervisor gave up before it began.
    pub(super) fn write_fault(&self, text: &str) {
        let _ = write_new(&self.file("fault"), text.as_bytes());
    }
    pub(super) fn read_fault(&self) -> Option<String> {
        let mut text = Vec::new();
        open_regular(&self.file("fault")).ok()?.take(FAULT_MAX_BYTES).read_to_end(&mut text).ok()?;
        let text = String::from_utf8_lossy(&text).trim().to_owned();
        (!text.is_empty()).then_some(text)
    }
}

/// A result as one line, for who listens.
pub(super) fn record_line(result: &JobResult) -> Option<Vec<u8>> {
    let mut line = serde_json::to_vec(&Record { version: VERSION, body: result }).ok()?;
    line.push(b'\n');
    Some(line)
}

/// The result of a line; none if it is not one of this version.
pub(super) fn result_of_line(line: &[u8]) -> Option<JobResult> {
    let record: Record<JobResult> = serde_json::from_slice(line).ok()?;
    (record.version == VERSION).then_some(record.body)
}

fn encode<T: Serialize>(body: &T, path: &Path) -> Result<Vec<u8>, ProcessError> {
    serde_json::to_vec(&Record { version: VERSION, body })
        .map_err(|error| ProcessError::Garbled { path: path.to_path_buf(), why: error.to_string() })
}

fn read_record<T: DeserializeOwned>(path: &Path, max_bytes: u64) -> Result<Option<T>, ProcessError> {
    let garbled = |why: String| ProcessError::Garbled { path: path.to_path_buf(), why };
    let file = match open_regular(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) if error.kind() == io::ErrorKind::InvalidData => return Err(garbled(error.to_string())),
        Err(error) => return Err(ProcessError::io("opening", path)(error)),
    };
    let mut bytes = Vec::new();
    file.take(max_bytes).read_to_end(&mut bytes).map_err(ProcessError::io("reading", path))?;
    // The version first: a newer body need not parse.
    #[derive(Deserialize)]
    struct Version {
        version: u32,
    }
    let version: Version = serde_json::from_slice(&bytes).map_err(|error| garbled(error.to_string()))?;
    if version.version != VERSION {
        return Err(garbled(format!("it has version {}, this build knows {VERSION}", version.version)));
    }
    let record: Record<T> = serde_json::from_slice(&bytes).map_err(|error| garbled(error.to_string()))?;
    Ok(Some(record.body))
}

fn write_new(path: &Path, bytes: &[u8]) -> io::Result<File> {
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    file.write_all(bytes)?;
    Ok(file)
}

/// The path still names this file.
fn is_same(file: &File, path: &Path) -> bool {
    match (file.metadata(), path.symlink_metadata()) {
        (Ok(one), Ok(other)) => (one.dev(), one.ino()) == (other.dev(), other.ino()),
        _ => false,
    }
}

/// Puts bytes in the place of all others, durably. The room comes first: cutting the file first would free it.
fn overwrite(file: &File, bytes: &[u8]) -> io::Result<()> {
    file.write_all_at(bytes, 0)?;
    file.set_len(bytes.len() as u64)?;
    file.sync_all()
}

/// Renames unless the target exists; atomic either way.
fn rename_new(from: &Path, to: &Path) -> io::Result<bool> {
    match renameat_with(CWD, from, CWD, to, RenameFlags::NOREPLACE) {
        Ok(()) => Ok(true),
        Err(Errno::EXIST) => Ok(false),
        // File systems without the flag: a hard link is as exclusive.
        Err(Errno::INVAL | Errno::NOSYS) => match std::fs::hard_link(from, to) {
            Ok(()) => std::fs::remove_file(from).map(|()| true),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(false),
            Err(error) => Err(error),
        },
        Err(error) => Err(error.into()),
    }
}

fn sync_folder(path: &Path) -> Result<(), ProcessError> {
    open_folder(path).and_then(|folder| folder.sync_all()).map_err(ProcessError::io("syncing", path))
}

/// Bytes as a string where they are UTF-8, else as an array.
mod text_or_bytes {
    use super::PathBytes;
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    pub(super) fn serialize<S: Serializer>(bytes: &[u8], serializer: S) -> Result<S::Ok, S::Error> {
        PathBytes::new(bytes).serialize(serializer)
    }
    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<u8>, D::Error> {
        PathBytes::deserialize(deserializer).map(|bytes| bytes.as_bytes().to_vec())
    }
}

/// Pairs of bytes, each as [`text_or_bytes`].
mod pairs {
    use super::PathBytes;
    use serde::{Deserialize, Deserializer, Serializer};

    /// Names and values.
    type Pairs = Vec<(Vec<u8>, Vec<u8>)>;

    pub(super) fn serialize<S: Serializer>(
        pairs: &[(Vec<u8>, Vec<u8>)],
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        let pairs = pairs.iter().map(|(key, value)| (PathBytes::new(&key[..]), PathBytes::new(&value[..])));
        serializer.collect_seq(pairs)
    }
    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Pairs, D::Error> {
        let pairs: Vec<(PathBytes, PathBytes)> = Vec::deserialize(deserializer)?;
        Ok(pairs.iter().map(|(key, value)| (key.as_bytes().to_vec(), value.as_bytes().to_vec())).collect())
    }
}
