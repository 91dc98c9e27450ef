//! What lists and start-up need to know of a session without folding it: rebuildable from its log at any time.

use crate::event::{PermissionMode, Usage};
use crate::ids::{Seq, SessionId, TurnNo};
use crate::path_bytes::PathBytes;
use serde::{Deserialize, Serialize};

/// The state of a session as lists show it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SessionState {
    /// Nothing to do.
    Idle,
    /// A turn is at work.
    Running,
    /// A request is open and nothing else runs.
    Waiting,
    /// A turn waits for a person for another reason.
    Paused,
    /// A turn waits after a restart.
    Interrupted,
    /// The log cannot be folded, or the actor failed twice.
    Failed,
    /// Put away.
    Closed,
}

impl SessionState {
    /// The outside word.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Idle => "idle",
            Self::Running => "running",
            Self::Waiting => "waiting",
            Self::Paused => "paused",
            Self::Interrupted => "interrupted",
            Self::Failed => "failed",
            Self::Closed => "closed",
        }
    }
    /// The value of an outside word.
    pub fn from_word(text: &str) -> Option<Self> {
        [
            Self::Idle,
            Self::Running,
            Self::Waiting,
            Self::Paused,
            Self::Interrupted,
            Self::Failed,
            Self::Closed,
        ]
        .into_iter()
        .find(|state| state.as_str() == text)
    }
}

/// How the calls of a session ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CallCounts {
    /// `ok`.
    pub ok: u32,
    /// `error`.
    pub error: u32,
    /// `denied`.
    pub denied: u32,
    /// `invalid`.
    pub invalid: u32,
    /// `timed_out`.
    pub timed_out: u32,
    /// `cancelled`.
    pub cancelled: u32,
    /// `unknown`.
    pub unknown: u32,
}

/// One row of the list of sessions.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Summary {
    /// The session.
    pub session_id: SessionId,
    /// Its name.
    pub name: Option<String>,
    /// Its folder.
    pub cwd: PathBytes,
    /// Its model.
    pub model: String,
    /// Its mode.
    pub mode: PermissionMode,
    /// What it is doing.
    pub state: SessionState,
    /// Its last event.
    pub last_seq: Seq,
    /// The number of its last turn; 0 before the first.
    pub turn: TurnNo,
    /// Calls without a result.
    pub open_calls: u32,
    /// Requests without an answer.
    pub open_requests: u32,
    /// How its calls ended.
    pub calls: CallCounts,
    /// Tokens of all its model calls.
    pub usage: Usage,
    /// Their price, in millionths of a US dollar.
    pub cost_micro_usd: i64,
    /// When it began, in Unix milliseconds.
    pub created_at_ms: i64,
    /// When it last changed.
    pub updated_at_ms: i64,
}

/// The kind of a piece of open work.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OpenKind {
    /// A turn that has not ended.
    Turn,
    /// A call without a result.
    Call,
    /// A background job that runs.
    Job,
    /// A request without an answer.
    Request,
    /// An input that waits.
    Input,
}

impl OpenKind {
    /// The stored word.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Turn => "turn",
            Self::Call => "call",
            Self::Job => "job",
            Self::Request => "request",
            Self::Input => "input",
        }
    }
}

/// One piece of open work: all that a starting daemon must look at.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct OpenWork {
    /// What it is.
    pub kind: OpenKind,
    /// Its id.
    pub id: String,
    /// JSON for lists (`ls`, `approvals`): for a request its tool, shown text, hash, scopes and expiry.
    pub detail: String,
}

/// One row of the audit trail, written in the transaction of the event it is about.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AuditEntry {
    /// When, in Unix milliseconds.
    pub at_ms: i64,
    /// The session.
    pub session_id: SessionId,
    /// The call, if it is about one.
    pub call_id: Option<String>,
    /// `model`, `daemon`, or the client as `label (pid N, uid M)`.
    pub actor: String,
    /// `requested`, `decided`, `answered`, `started`, `adopted`, `finished`.
    pub action: String,
    /// The tool.
    pub tool: Option<String>,
    /// `allow`, `ask` or `deny`.
    pub decision: Option<String>,
    /// The rule or reason behind it.
    pub rule: Option<String>,
    /// SHA-256 of the exact arguments.
    pub args_hash: Option<String>,
    /// The arguments as they may be shown: cut and without secrets.
    pub args: Option<String>,
    /// How the call ended.
    pub outcome: Option<String>,
}
