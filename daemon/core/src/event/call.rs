//! Facts about tool calls: requested, validated, inspected, decided, started, finished.

use super::{CallOutcome, EffectClass, Verdict};
use crate::ids::{ArtifactId, CallId};
use crate::path_bytes::PathBytes;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use std::sync::Arc;

/// The model asked for a tool call.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct CallRequested {
    /// Our id.
    pub call_id: CallId,
    /// The provider's id, as it must be sent back.
    pub provider_call_id: String,
    /// Place among the calls of its message, from 0.
    pub position: u32,
    /// The tool's name as the model wrote it.
    pub tool: String,
    /// The arguments as the model wrote them.
    pub args: Arc<RawValue>,
    /// The arguments were whole.
    pub complete: bool,
}

/// A call names a tool that exists and fits its schema.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct CallValidated {
    /// Which.
    pub call_id: CallId,
    /// What it may do to the world.
    pub effect: EffectClass,
}

/// What a path is used for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PathOp {
    /// Its content is read.
    Read,
    /// Its entries are listed.
    List,
    /// It is made or replaced.
    Write,
    /// It is made; it must not be there yet.
    Create,
    /// It is removed. A link is removed itself, never followed.
    Delete,
}

impl PathOp {
    /// Whether something would be different afterwards.
    pub const fn changes(self) -> bool {
        matches!(self, Self::Write | Self::Create | Self::Delete)
    }
}

/// Facts about a path, gathered through the kernel before a decision.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PathFacts {
    /// As the model wrote it.
    pub requested: PathBytes,
    /// Where it really is.
    pub resolved: PathBytes,
    /// What it is used for.
    pub op: PathOp,
    /// It lies inside the workspace.
    pub inside: bool,
    /// Why its name is protected, if it is.
    pub protected: Option<String>,
    /// Why a person must say, whatever the mode and the rules that allow, if so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub caution: Option<String>,
    /// SHA-256 of the content now, in hex; absent when there is no such file.
    pub content_hash: Option<String>,
}

/// One simple command of a command line.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CommandPart {
    /// Its words, quotes removed.
    pub words: Vec<String>,
    /// What it was judged to be.
    pub effect: EffectClass,
}

/// Facts about a command, before a decision.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CommandFacts {
    /// The exact bytes that would be given to the shell.
    pub command: String,
    /// Where it would run.
    pub cwd: PathBytes,
    /// What the whole line was judged to be.
    pub effect: EffectClass,
    /// Its parts, as far as they were understood.
    pub parts: Vec<CommandPart>,
    /// Why it must not run in any mode, if so.
    pub forbidden: Option<String>,
}

/// What a call holds on to: if it no longer holds when the call starts, the call ends as an error.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Binding {
    /// A file's content before and after.
    File {
        /// Where it is.
        path: PathBytes,
        /// SHA-256 before, in hex; absent when the file did not exist.
        before: Option<String>,
        /// SHA-256 after.
        after: String,
    },
    /// The contents of several files before and after: all of them change, or none.
    Files(Vec<FileBinding>),
    /// The exact command.
    Command {
        /// SHA-256 of command bytes, folder and sandbox profile.
        hash: String,
    },
}

/// What a call of several files holds on to in one of them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileBinding {
    /// Where it is.
    pub path: PathBytes,
    /// SHA-256 before, in hex; absent when the file did not exist.
    pub before: Option<String>,
    /// SHA-256 after; absent when it is to be removed.
    pub after: Option<String>,
    /// Permission bits before.
    pub before_mode: Option<u32>,
}

/// Facts about what a call would touch.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct CallInspected {
    /// Which call.
    pub call_id: CallId,
    /// Its paths, for file tools, in the order of the call. Older logs have one, as `path`.
    #[serde(default, alias = "path", deserialize_with = "one_or_many")]
    pub paths: Vec<PathFacts>,
    /// Its command, for commands.
    pub command: Option<CommandFacts>,
    /// What a person would be shown: the diff, or the command with its folder.
    pub preview: Option<String>,
    /// What it holds on to.
    pub binding: Option<Binding>,
    /// The sandbox it would run in, in words.
    pub sandbox: String,
}

/// A list, or the one or none that older logs have in its place.
fn one_or_many<'de, D: serde::Deserializer<'de>>(from: D) -> Result<Vec<PathFacts>, D::Error> {
    use serde::de::Error as _;
    let found = match serde_json::Value::deserialize(from)? {
        serde_json::Value::Null => return Ok(Vec::new()),
        serde_json::Value::Array(paths) => paths,
        one => vec![one],
    };
    found.into_iter().map(serde_json::from_value).collect::<Result<_, _>>().map_err(D::Error::custom)
}

/// A call was judged.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct CallDecided {
    /// Which.
    pub call_id: CallId,
    /// The judgement.
    pub verdict: Verdict,
    /// The rule it rests on, if one.
    pub rule: Option<String>,
    /// Why, in words.
    pub reason: String,
    /// The sandbox it would run in.
    pub sandbox: String,
    /// It was denied only because nobody could be asked.
    pub unattended: bool,
}

/// A call is about to run.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct CallStarted {
    /// Which.
    pub call_id: CallId,
    /// Which try, from 1; more than 1 only after the evidence showed that none before began.
    pub attempt: u32,
    /// What it may do.
    pub effect: EffectClass,
    /// The name of its job folder, for commands.
    pub job: Option<String>,
    /// What it holds on to.
    pub binding: Option<Binding>,
    /// Why the try before failed, when this one repeats it: something that passes by itself (a busy file, a held lock).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repeats: Option<String>,
}

/// A running call was taken over by a new run of the daemon.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CallAdopted {
    /// Which.
    pub call_id: CallId,
    /// The supervisor's process id.
    pub pid: u32,
    /// Its start time in clock ticks since boot; with `boot_id` this names one process for ever.
    pub start_ticks: u64,
    /// The boot it lives in.
    pub boot_id: String,
    /// Output bytes spooled so far.
    pub bytes_seen: u64,
}

/// What was left out of a result.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Truncation {
    /// Lines kept of the start.
    pub head_lines: u64,
    /// Lines kept of the end.
    pub tail_lines: u64,
    /// Lines left out.
    pub omitted_lines: u64,
    /// Bytes of the whole.
    pub total_bytes: u64,
}

/// A call has its one result.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct CallFinished {
    /// Which.
    pub call_id: CallId,
    /// How it ended.
    pub outcome: CallOutcome,
    /// What the model reads: final, cut once.
    pub text: String,
    /// The exit code, for commands that ended by themselves.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i32>,
    /// The signal that ended it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signal: Option<i32>,
    /// How long it ran.
    #[serde(default)]
    pub duration_ms: u64,
    /// What was left out of `text`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub truncation: Option<Truncation>,
    /// Where the whole is.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub artifacts: Vec<ArtifactId>,
    /// What kind of failure, for the breaker (`not_found`, `exit_code`, …).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error_class: Option<String>,
    /// What this outcome rests on, when it was found after a restart.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub evidence: Option<String>,
    /// The evidence (a job folder) is deleted once this is durable, so it must be.
    #[serde(default)]
    pub spent_evidence: bool,
    /// File contents the model knows from here on; a file is overwritten only over a content that it knows.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub seen: Vec<SeenFile>,
}

/// A content of a file that the model has seen, or that it wrote.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SeenFile {
    /// Where it really is.
    pub path: PathBytes,
    /// SHA-256 of the whole content, in hex.
    pub hash: String,
}

/// How much of a change is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Coverage {
    /// Every change is listed.
    Full,
    /// Something else may have changed too (a command ran).
    Partial,
}

/// One changed file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileChange {
    /// Where.
    pub path: PathBytes,
    /// SHA-256 of the old content, which is in the blob store; absent when it is new.
    pub before: Option<String>,
    /// SHA-256 of the new content; absent when it is gone.
    pub after: Option<String>,
    /// Permission bits before.
    pub before_mode: Option<u32>,
    /// Permission bits after.
    pub after_mode: Option<u32>,
}

/// Files changed.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct FilesChanged {
    /// By which call.
    pub call_id: CallId,
    /// Which files.
    pub changes: Vec<FileChange>,
    /// How much of the change this is.
    pub coverage: Coverage,
}

/// A background job ended.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct JobFinished {
    /// The job's id.
    pub job_id: String,
    /// The call that began it.
    pub call_id: CallId,
    /// Its exit code.
    pub exit_code: Option<i32>,
    /// Its output.
    pub artifact: Option<ArtifactId>,
}

/// Content was stored as an artifact.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ArtifactStored {
    /// Its id.
    pub artifact_id: ArtifactId,
    /// The call it came from.
    pub call_id: Option<CallId>,
    /// `tool_output`, `file`, `input`, `partial_answer`.
    pub source: String,
    /// SHA-256 of the content, in hex: the key in the blob store.
    pub hash: String,
    /// Bytes.
    pub size_bytes: u64,
    /// Lines.
    pub line_count: u64,
    /// Its type.
    pub mime: String,
    /// How many secrets were removed before it was stored.
    pub redactions: u32,
}
