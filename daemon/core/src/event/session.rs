//! Facts about a session as a whole.

use super::{Delivery, GrantScope, OnRestart, PermissionMode, SandboxMode, UnattendedApprovals, Verdict};
use crate::ids::{ArtifactId, CallId, GrantId, InputId, RequestId, RunId, Seq, SessionId};
use crate::limits;
use crate::path_bytes::PathBytes;
use serde::{Deserialize, Serialize};

/// What bounds a turn. Frozen into the session when it is created; changed only by an event.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TurnLimits {
    /// Model steps.
    pub max_steps: u32,
    /// Calls taken from one message.
    pub max_calls_per_message: u32,
    /// Money, in millionths of a US dollar.
    pub max_cost_micro_usd: i64,
    /// Wall time, waiting for people not counted.
    pub max_minutes: u32,
    /// Read-only calls side by side.
    pub parallel_read_only: u32,
    /// Deadline of a command that names none.
    pub command_timeout_s: u32,
    /// Attempts at one model call.
    pub retry_max_attempts: u32,
    /// First wait before a new attempt.
    pub retry_base_ms: u64,
    /// Longest wait of our own choice.
    pub retry_max_ms: u64,
}

impl Default for TurnLimits {
    fn default() -> Self {
        Self {
            max_steps: limits::MAX_STEPS,
            max_calls_per_message: limits::MAX_CALLS_PER_MESSAGE,
            max_cost_micro_usd: limits::MAX_COST_MICRO_USD,
            max_minutes: limits::MAX_TURN_MINUTES,
            parallel_read_only: limits::PARALLEL_READ_ONLY,
            command_timeout_s: limits::COMMAND_TIMEOUT_S,
            retry_max_attempts: limits::RETRY_MAX_ATTEMPTS,
            retry_base_ms: limits::RETRY_BASE_MS,
            retry_max_ms: limits::RETRY_MAX_MS,
        }
    }
}

/// Everything about a session that a person may set.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Settings {
    /// A name for people; not unique.
    pub name: Option<String>,
    /// `provider/model`.
    pub model: String,
    /// What may be done without asking.
    pub mode: PermissionMode,
    /// What sandboxed processes may touch.
    pub sandbox: SandboxMode,
    /// Whether somebody can be asked.
    pub attended: bool,
    /// What an unattended session does where it would ask.
    pub unattended_approvals: UnattendedApprovals,
    /// How long a request stays open.
    pub approvals_expire_ms: i64,
    /// What happens after a restart.
    pub on_restart: OnRestart,
    /// What bounds a turn.
    pub limits: TurnLimits,
    /// Requests to the model and its answers are kept as files, without secrets.
    #[serde(default)]
    pub record: bool,
    /// How much of a tool result is shown.
    #[serde(default)]
    pub results: ResultLimits,
}

/// How much of a tool result is shown to the model. Frozen like the limits; smaller windows and several calls in one
/// message make it less (`context::ResultBounds`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ResultLimits {
    /// Lines kept of the start.
    pub head_lines: usize,
    /// Lines kept of the end.
    pub tail_lines: usize,
    /// Bytes of one result.
    pub max_bytes: usize,
    /// Share of the usable window that all tool results may have, in thousandths.
    pub share_milli: u32,
}

impl Default for ResultLimits {
    fn default() -> Self {
        Self {
            head_lines: limits::RESULT_HEAD_LINES,
            tail_lines: limits::RESULT_TAIL_LINES,
            max_bytes: limits::RESULT_MAX_BYTES,
            share_milli: limits::RESULTS_SHARE_MILLI,
        }
    }
}

/// A session began.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct SessionCreated {
    /// Its id.
    pub session_id: SessionId,
    /// The folder that relative paths start from.
    pub cwd: PathBytes,
    /// The canonical root of the workspace.
    pub root: PathBytes,
    /// Its settings.
    pub settings: Settings,
    /// The session this one came from.
    pub parent: Option<Parent>,
}

/// Where a session came from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Parent {
    /// The session.
    pub session_id: SessionId,
    /// The last event taken over.
    pub seq: Seq,
    /// `fork`, `delegate` or `handoff`.
    pub kind: String,
}

/// Settings changed; absent fields did not.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct SessionChanged {
    /// A new name; empty removes it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// A new `provider/model`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// A new mode.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<PermissionMode>,
    /// A new restart rule.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on_restart: Option<OnRestart>,
    /// New limits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limits: Option<TurnLimits>,
    /// Put away, or taken out again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub archived: Option<bool>,
    /// Requests and answers are kept from now on, or no longer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub record: Option<bool>,
}

/// A rule was granted for this session.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct GrantAdded {
    /// Its id.
    pub grant_id: GrantId,
    /// The tool it is about.
    pub tool: String,
    /// What it matches.
    pub matcher: String,
    /// What it says.
    pub decision: Verdict,
    /// How far it reaches.
    pub scope: GrantScope,
    /// The answer it came from.
    pub request_id: Option<RequestId>,
    /// When it ends, in Unix milliseconds.
    pub expires_at_ms: Option<i64>,
}

/// A part of an input.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum InputPart {
    /// What the person wrote.
    Text(String),
    /// A stored artifact.
    Artifact(ArtifactId),
    /// A file named with `@path`.
    FileRef(PathBytes),
}

/// An input was accepted: it is durable and will be acted on once.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct InputAccepted {
    /// Its id.
    pub input_id: InputId,
    /// When it is delivered.
    pub delivery: Delivery,
    /// What it says.
    pub parts: Vec<InputPart>,
}

/// An accepted input was taken back before it was delivered.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct InputWithdrawn {
    /// Which.
    pub input_id: InputId,
    /// Why.
    pub reason: String,
}

/// A child session was linked.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ChildLinked {
    /// The child.
    pub child: SessionId,
    /// The call whose result it will be.
    pub call_id: CallId,
    /// What it is for.
    pub purpose: String,
}

/// How an open call was found after a restart.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecoveredCall {
    /// The call.
    pub call_id: CallId,
    /// `finished`, `running`, `not_started` or `unknown`.
    pub found: String,
    /// What the evidence was.
    pub evidence: String,
}

/// A new run of the daemon took the session over with work in flight.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct SessionRecovered {
    /// The new run.
    pub run_id: RunId,
    /// The run that had claimed the turn.
    pub previous_run_id: Option<RunId>,
    /// The open calls, classified by evidence.
    pub calls: Vec<RecoveredCall>,
    /// What the session does now.
    pub next: String,
}
