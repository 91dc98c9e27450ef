//! Everything that can happen to a session: the closed set of inputs of its state machine.
//!
//! A [`Command`] is what a client may ask, in the imperative. A [`Report`] is what an effect came to. A
//! [`Timer`] is a time that came. Nothing else moves a session; recovery has its own entrance
//! (`recover`), because it decides on evidence.

use crate::event::{
    ArtifactStored, Block, CallOutcome, CallResolution, Delivery, EffectClass, EpochStarted, FailureClass,
    FileChange, GrantScope, InputPart, OnRestart, PermissionMode, SeenFile, Stop, Truncation, TurnLimits,
    Usage, Verdict,
};
use crate::event::{Binding, CommandFacts, Mend, Parent, PathFacts, Settings};
use crate::ids::{CallId, InputId, ModelCallId, RequestId, Seq, SessionId, TurnNo};
use crate::path_bytes::PathBytes;
use serde_json::value::RawValue;
use std::sync::Arc;

/// Whatever can happen to a session.
#[derive(Clone, Debug)]
pub enum Input {
    /// A client asks.
    Command(Command),
    /// An effect reports.
    Report(Report),
    /// A time came.
    Timer(Timer),
}

/// What a client may ask of a session.
#[derive(Clone, Debug)]
pub enum Command {
    /// Begin; only on an empty log.
    Create(Box<CreateSession>),
    /// Accept an input.
    SendInput {
        /// What it says.
        parts: Vec<InputPart>,
        /// When it is delivered.
        delivery: Delivery,
    },
    /// Take an input back that was not delivered yet.
    WithdrawInput {
        /// Which.
        input_id: InputId,
    },
    /// Stop the turn or one call.
    Interrupt {
        /// The turn that is meant; a turn that is over is never confused with a newer one. Absent: the current.
        turn: Option<TurnNo>,
        /// One call only.
        call_id: Option<CallId>,
        /// What had been shown of the running answer, from the shell.
        partial_text: Option<String>,
    },
    /// Let a waiting turn go on.
    Resume {
        /// What is said about unknown calls.
        resolutions: Vec<ResolveCall>,
        /// Count the limits from here again.
        extend_limits: bool,
    },
    /// Answer a request.
    Answer {
        /// Which.
        request_id: RequestId,
        /// The hash of what was shown; empty when the client did not show it.
        shown_hash: Option<String>,
        /// Allow or deny.
        decision: Verdict,
        /// How far it reaches.
        scope: GrantScope,
        /// What the person says.
        reason: Option<String>,
    },
    /// Change settings.
    Change(ChangeSession),
    /// Begin a new sent prefix, because the model or the tools changed. Only between turns.
    StartEpoch(Box<EpochStarted>),
}

/// Begin a session.
#[derive(Clone, Debug)]
pub struct CreateSession {
    /// The id it will have.
    pub session_id: SessionId,
    /// The folder that relative paths start from.
    pub cwd: PathBytes,
    /// The canonical root of the workspace.
    pub root: PathBytes,
    /// Its settings.
    pub settings: Settings,
    /// Where it came from.
    pub parent: Option<Parent>,
    /// The first sent prefix: rendered by the shell, frozen here. `epoch` is set by the machine.
    pub epoch: EpochStarted,
}

/// Changed settings; absent fields stay.
#[derive(Clone, Debug, Default)]
pub struct ChangeSession {
    /// The last event the client has seen, if it insists on it.
    pub expected_seq: Option<Seq>,
    /// A new name; empty removes it.
    pub name: Option<String>,
    /// A new mode.
    pub mode: Option<PermissionMode>,
    /// A new restart rule.
    pub on_restart: Option<OnRestart>,
    /// New limits.
    pub limits: Option<TurnLimits>,
    /// A new model, with the epoch that begins with it.
    pub model: Option<(String, Box<EpochStarted>)>,
    /// Put away, or taken out again.
    pub archived: Option<bool>,
    /// Keep requests and answers from now on, or no longer.
    pub record: Option<bool>,
}

/// What a person says about one unknown call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResolveCall {
    /// The call.
    pub call_id: CallId,
    /// What it is.
    pub resolution: CallResolution,
    /// In words, for the model.
    pub text: Option<String>,
}

/// What an effect came to.
#[derive(Clone, Debug)]
pub enum Report {
    /// A model answered.
    ModelFinished(Box<ModelAnswer>),
    /// A model call failed.
    ModelFailed(Box<ModelFailure>),
    /// A call was inspected.
    Inspected {
        /// Which.
        call_id: CallId,
        /// What was found, or why it cannot run.
        found: Result<Box<Inspection>, CallFault>,
    },
    /// A call ended.
    CallEnded(Box<CallEnd>),
}

/// The answer of a model, decoded.
#[derive(Clone, Debug)]
pub struct ModelAnswer {
    /// The call it answers.
    pub model_call_id: ModelCallId,
    /// Its blocks, in order.
    pub blocks: Vec<Block>,
    /// How it stopped.
    pub stop: Stop,
    /// Tokens, normalised.
    pub usage: Usage,
    /// The provider's own usage object.
    pub usage_raw: Option<Arc<RawValue>>,
    /// Whether usage was reported at all.
    pub usage_reported: bool,
    /// The provider's id of the message.
    pub provider_message_id: Option<String>,
    /// The provider's id of the request.
    pub provider_request_id: Option<String>,
    /// One verdict on each tool use block, in order: the shell holds the schemas.
    pub checked: Vec<CheckedCall>,
    /// What was odd about it, for people.
    pub warnings: Vec<String>,
    /// The prompt of the provider's last own pass, where `usage` is the sum of several.
    pub last_prompt_tokens: Option<u64>,
}

/// What the schema check said of a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CheckedCall {
    /// It names a tool and fits its schema.
    Valid(EffectClass),
    /// It does not; the text is for the model.
    Invalid(CallFault),
}

/// Why a call cannot run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallFault {
    /// What kind of failure, for the breaker: `unknown_tool`, `arguments`, `not_found`, …
    pub class: String,
    /// How the call ends.
    pub outcome: CallOutcome,
    /// What the model reads.
    pub text: String,
}

/// A failed model call.
#[derive(Clone, Debug)]
pub struct ModelFailure {
    /// The call.
    pub model_call_id: ModelCallId,
    /// Why.
    pub class: FailureClass,
    /// In words: what failed, where, and what to do.
    pub message: String,
    /// The HTTP status, if one came.
    pub http_status: Option<u16>,
    /// The wait that the provider asked for.
    pub retry_after_ms: Option<u64>,
    /// A random number from the shell that spreads attempts of many sessions.
    pub jitter: u64,
    /// Text that had been shown.
    pub partial_text: Option<String>,
    /// A context window that the error taught us.
    pub learned_window: Option<u64>,
    /// What would mend the request, if the refusal says so.
    pub mend: Option<Mend>,
    /// The server's own word on whether to try again (`x-should-retry`).
    pub should_retry: Option<bool>,
    /// What it had used before it failed, as far as the provider had said.
    pub usage: Option<Usage>,
    /// The most output tokens that the model gives, if the error names them.
    pub learned_output: Option<u32>,
}

impl ModelFailure {
    /// A failure of which nothing more is known.
    pub fn new(model_call_id: ModelCallId, class: FailureClass, message: String) -> Self {
        Self {
            model_call_id,
            class,
            message,
            http_status: None,
            retry_after_ms: None,
            jitter: 0,
            partial_text: None,
            learned_window: None,
            mend: None,
            should_retry: None,
            usage: None,
            learned_output: None,
        }
    }
}

/// What was found about a call before the decision.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Inspection {
    /// Its paths, for file tools, in the order of the call.
    pub paths: Vec<PathFacts>,
    /// Its command, for commands.
    pub command: Option<CommandFacts>,
    /// What a person would be shown.
    pub preview: Option<String>,
    /// What it holds on to.
    pub binding: Option<Binding>,
    /// The sandbox it would run in, in words (`workspace-write`, `none`).
    pub sandbox: String,
}

/// How a call ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallEnd {
    /// Which.
    pub call_id: CallId,
    /// Which try of it; the end of an earlier one is late.
    pub attempt: u32,
    /// How.
    pub outcome: CallOutcome,
    /// What the model reads.
    pub text: String,
    /// The exit code of a command.
    pub exit_code: Option<i32>,
    /// The signal that ended it.
    pub signal: Option<i32>,
    /// How long it ran.
    pub duration_ms: u64,
    /// What was left out.
    pub truncation: Option<Truncation>,
    /// What kind of failure, for the breaker.
    pub error_class: Option<String>,
    /// What was stored of it.
    pub artifacts: Vec<ArtifactStored>,
    /// What it changed.
    pub files: Vec<FileChange>,
    /// File contents the model knows from here on.
    pub seen: Vec<SeenFile>,
    /// A job folder waits to be deleted once this is durable.
    pub spent_evidence: bool,
    /// What the outcome rests on, when it was found and not observed.
    pub evidence: Option<String>,
    /// Why this end may be another at a further try, for failures that pass by themselves: an interrupted system call, a
    /// busy file, a held lock. Never for what is missing, forbidden, invalid or an exit code.
    pub transient: Option<String>,
}

/// A time that was waited for.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Timer {
    /// The next attempt at a model call is due.
    Retry {
        /// The attempt that failed.
        model_call_id: ModelCallId,
    },
    /// A request expires.
    RequestExpiry {
        /// Which.
        request_id: RequestId,
    },
    /// The turn has used its time.
    TurnTime {
        /// Which.
        turn: TurnNo,
    },
}

/// Why an input was refused. Nothing is recorded and nothing changes.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Reject {
    /// The session has no first event, or already has one.
    #[error("the session {0}")]
    Existence(&'static str),
    /// Too many inputs wait.
    #[error("{waiting} inputs wait already; wait for a turn to end or withdraw one")]
    QueueFull {
        /// How many.
        waiting: usize,
    },
    /// The input says nothing.
    #[error("the input is empty")]
    InputEmpty,
    /// The input is too large.
    #[error(
        "the input has {bytes} bytes, at most {max} are taken; store it as an artifact or a file and name it"
    )]
    InputTooLarge {
        /// Its size.
        bytes: usize,
        /// The bound.
        max: usize,
    },
    /// No such input waits.
    #[error("input {0} does not wait: it was delivered, withdrawn, or never existed")]
    InputNotWaiting(InputId),
    /// Another turn, or none, is running.
    #[error("turn {asked} is not the running turn{}", running.map(|turn| format!(" ({turn} is)")).unwrap_or_default())]
    TurnMismatch {
        /// The turn that was meant.
        asked: TurnNo,
        /// The turn that runs.
        running: Option<TurnNo>,
    },
    /// No such call is open.
    #[error("call {0} is not open in this session")]
    CallNotOpen(CallId),
    /// Nothing waits for a resume.
    #[error("the session does not wait to be resumed")]
    NotPaused,
    /// The call's outcome is known.
    #[error("the outcome of call {0} is known; only unknown calls take a resolution")]
    CallNotUnknown(CallId),
    /// Unknown calls are left over.
    #[error("call {0} has an unknown outcome; say what it is with --call {0}=done|retry|failed")]
    CallStillUnknown(CallId),
    /// No such request.
    #[error("there is no request {0} in this session")]
    RequestNotFound(RequestId),
    /// Somebody was faster, or it expired.
    #[error("request {request_id} is closed already: {how}")]
    RequestClosed {
        /// Which.
        request_id: RequestId,
        /// How.
        how: String,
    },
    /// What was shown is not what is asked.
    #[error("what was shown is not what request {0} asks; look at it again")]
    ShownHashMismatch(RequestId),
    /// The answer reaches further than was offered.
    #[error("scope {0:?} is not offered for this request")]
    ScopeNotOffered(GrantScope),
    /// The client's view is old.
    #[error("the session is at event {current}, not at {expected}; read it again")]
    SeqConflict {
        /// What the client said.
        expected: Seq,
        /// What is so.
        current: Seq,
    },
    /// Not while a turn is open.
    #[error("a turn is open; wait for its end or interrupt it")]
    TurnOpen,
    /// The report is about something that is over. Harmless: a late effect.
    #[error("the report is late: {0}")]
    Late(&'static str),
}
