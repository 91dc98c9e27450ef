//! The closed word lists that events share with the outside.

use serde::{Deserialize, Serialize};

macro_rules! words {
    ($($(#[$doc:meta])* $name:ident { $($(#[$vdoc:meta])* $variant:ident = $text:literal,)* })*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
        pub enum $name { $($(#[$vdoc])* #[serde(rename = $text)] $variant,)* }
        impl $name {
            /// Every word.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)*];
            /// The word as the outside writes it.
            pub const fn as_str(self) -> &'static str { match self { $(Self::$variant => $text,)* } }
            /// The value of an outside word.
            pub fn from_word(text: &str) -> Option<Self> { match text { $($text => Some(Self::$variant),)* _ => None } }
        }
    )*};
}

words! {
    /// What a session may do without asking.
    PermissionMode {
        /// Nothing is changed.
        ReadOnly = "read-only",
        /// Changes are asked for.
        Ask = "ask",
        /// Changes inside the workspace and the sandbox are allowed.
        Workspace = "workspace",
        /// Everything but denied things is allowed.
        Full = "full",
    }
    /// What a sandboxed process may touch.
    SandboxMode {
        /// Nothing is writable.
        ReadOnly = "read-only",
        /// The workspace is writable.
        WorkspaceWrite = "workspace-write",
        /// No file system limits.
        Full = "full",
    }
    /// What happens to open work after a restart of the daemon.
    OnRestart {
        /// It waits for a person.
        Wait = "wait",
        /// It goes on by itself.
        Continue = "continue",
    }
    /// What happens in a session that nobody attends when a call would ask.
    UnattendedApprovals {
        /// Denied at once.
        Deny = "deny",
        /// Asked, and waited for until it expires.
        Wait = "wait",
    }
    /// When an input is delivered.
    Delivery {
        /// After the results of the current step.
        Steer = "steer",
        /// As the next turn.
        Queue = "queue",
    }
    /// Why a turn waits.
    PauseReason {
        /// A limit was reached.
        Limit = "limit",
        /// The provider's key is missing or refused.
        Credentials = "credentials",
        /// The store cannot be written.
        Storage = "storage",
        /// The daemon was restarted in the middle.
        Interrupted = "interrupted",
        /// A call's outcome is not known.
        UnknownCall = "unknown_call",
    }
    /// How a turn ended.
    TurnStatus {
        /// With an explicit, successful stop and text.
        Completed = "completed",
        /// Without text, after one nudge.
        Empty = "empty",
        /// Cut by an output or context limit.
        Truncated = "truncated",
        /// The model or its provider refused.
        Refused = "refused",
        /// A limit was reached.
        Limit = "limit",
        /// The same failure again and again.
        Loop = "loop",
        /// A person or client stopped it.
        Interrupted = "interrupted",
        /// The provider failed after retries.
        ProviderFailed = "provider_failed",
        /// Something else failed; the reason is in the event.
        Failed = "failed",
    }
    /// What a call may do to the world.
    EffectClass {
        /// Nothing; may run again and side by side.
        ReadOnly = "read_only",
        /// Something, with the same end state when repeated.
        Idempotent = "idempotent",
        /// Anything.
        Unsafe = "unsafe",
    }
    /// A judgement.
    Verdict {
        /// It may run.
        Allow = "allow",
        /// A person must say.
        Ask = "ask",
        /// It must not run.
        Deny = "deny",
    }
    /// How a call ended.
    CallOutcome {
        /// Done.
        Ok = "ok",
        /// The tool failed.
        Error = "error",
        /// Not allowed.
        Denied = "denied",
        /// Not a call that could run: no such tool, bad arguments, cut off, over the limit.
        Invalid = "invalid",
        /// Killed at its deadline.
        TimedOut = "timed_out",
        /// Stopped by a person or client.
        Cancelled = "cancelled",
        /// It may or may not have happened.
        Unknown = "unknown",
    }
    /// What a person is asked for.
    RequestKind {
        /// May this call run?
        Approval = "approval",
        /// A question of the model.
        Question = "question",
        /// A form of an MCP server.
        Elicitation = "elicitation",
    }
    /// How a request closed.
    RequestClose {
        /// Somebody answered.
        Answered = "answered",
        /// Nobody did in time, which is a denial.
        Expired = "expired",
        /// What it was about is gone.
        Withdrawn = "withdrawn",
    }
    /// How far an answer reaches.
    GrantScope {
        /// This call.
        Once = "once",
        /// This session.
        Session = "session",
        /// This project.
        Project = "project",
        /// This user.
        User = "user",
    }
    /// What a person says of a call whose outcome is not known.
    CallResolution {
        /// It happened.
        Done = "done",
        /// Run it again.
        Retry = "retry",
        /// It did not happen and must not be run.
        Failed = "failed",
    }
    /// What a block of an assistant message is.
    BlockKind {
        /// Text for the reader.
        Text = "text",
        /// Thinking, signed or not.
        Thinking = "thinking",
        /// Thinking that only the provider can read.
        RedactedThinking = "redacted_thinking",
        /// A tool call for us.
        ToolUse = "tool_use",
        /// Anything else, kept raw.
        Other = "other",
    }
    /// What a stop reason means to the loop, whatever the dialect's word for it.
    StopClass {
        /// Ended on its own.
        EndTurn = "end_turn",
        /// Wants its calls run.
        ToolUse = "tool_use",
        /// Cut by the output limit.
        MaxTokens = "max_tokens",
        /// Refused or filtered.
        Refusal = "refusal",
        /// Wants to be continued unchanged.
        PauseTurn = "pause_turn",
        /// Cut by the context window.
        ContextExceeded = "context_exceeded",
        /// A word this build does not know.
        Unknown = "unknown",
    }
    /// Why a model call failed.
    FailureClass {
        /// No connection, or it broke.
        Connection = "connection",
        /// No first byte in time.
        FirstByteTimeout = "first_byte_timeout",
        /// Silence in the middle.
        IdleTimeout = "idle_timeout",
        /// The stream ended without a stop reason.
        Cut = "cut",
        /// The stream is not what the dialect allows.
        Malformed = "malformed",
        /// 429.
        RateLimited = "rate_limited",
        /// 529, or 503.
        Overloaded = "overloaded",
        /// 500 and its kin, 408, 409.
        Server = "server",
        /// 401, 403, or no key at all.
        Credentials = "credentials",
        /// Money or quota is used up.
        Quota = "quota",
        /// The conversation is too long for the model.
        ContextExceeded = "context_exceeded",
        /// Any other refusal of the request.
        BadRequest = "bad_request",
        /// Our own validator refused to send it.
        Unsendable = "unsendable",
        /// A person or client stopped it.
        Cancelled = "cancelled",
        /// The daemon died in the middle.
        Interrupted = "interrupted",
    }
    /// Which limit was reached.
    LimitName {
        /// Model steps in a turn.
        Steps = "max_steps",
        /// Calls in one message.
        CallsPerMessage = "max_calls_per_message",
        /// Money.
        Cost = "max_cost_usd",
        /// Wall time.
        Minutes = "max_minutes",
        /// Continuations after pause_turn.
        Continuations = "continuations",
        /// The same failure in a row.
        RepeatedFailures = "repeated_failures",
        /// Resumes without progress.
        Resumes = "resumes",
    }
    /// What a notice is about.
    NoticeKind {
        /// The last answer was empty.
        Nudge = "nudge",
        /// A file changed under the model.
        FileChanged = "file_changed",
        /// The tools changed.
        ToolsChanged = "tools_changed",
        /// Project instructions changed.
        AgentsMd = "agents_md",
        /// The context budget.
        Budget = "budget",
        /// A background job ended.
        JobEnded = "job_ended",
        /// The session was resumed after a restart.
        Resumed = "resumed",
        /// The turn before was stopped by the user.
        Interrupted = "interrupted",
    }
}

impl FailureClass {
    /// Whether a new attempt can help. Never for money, keys or a request that is itself wrong.
    pub const fn is_retryable(self) -> bool {
        matches!(
            self,
            Self::Connection
                | Self::FirstByteTimeout
                | Self::IdleTimeout
                | Self::Cut
                | Self::Malformed
                | Self::RateLimited
                | Self::Overloaded
                | Self::Server
                | Self::Interrupted
        )
    }
}
