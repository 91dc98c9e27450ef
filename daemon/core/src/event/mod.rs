//! Facts: what happened, in the past tense. The log of a session is a sequence of these and nothing else is
//! the truth about it.
//!
//! Invariants: an event is never rewritten. The kind is a column beside the body, and each kind is its own
//! struct, because raw JSON ([`serde_json::value::RawValue`]) does not survive internally tagged enums.
//! A stored body of an older version is decoded by [`EventBody::decode`], which upcasts it.
//!
//! Only [`EventKind::adds_content`] kinds put content into a prompt; every other kind at most selects.

mod answer;
mod call;
mod context;
mod session;
mod turn;
mod words;

pub use answer::*;
pub use call::*;
pub use context::*;
pub use session::*;
pub use turn::*;
pub use words::*;

use crate::ids::{ClientId, Seq, TurnNo};
use serde::{Deserialize, Serialize};

/// One fact of a session's log.
#[derive(Clone, Debug)]
pub struct Event {
    /// Position in the log, from 1, without holes. The order; `at_ms` is not.
    pub seq: Seq,
    /// Wall time in Unix milliseconds.
    pub at_ms: i64,
    /// The turn it belongs to, if any.
    pub turn: Option<TurnNo>,
    /// Who caused it.
    pub origin: Origin,
    /// What happened.
    pub body: EventBody,
}

/// Who caused an event.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Origin {
    /// A connected client; identity comes from the connection, never from a request field.
    Client {
        /// The id Hello gave it.
        client_id: ClientId,
        /// What it calls itself (`agentctl attach`, an editor).
        label: String,
        /// Its user id, from the socket.
        uid: u32,
        /// Its process id, from the socket.
        pid: u32,
    },
    /// The daemon itself: recovery, timers, limits.
    Daemon,
    /// The model's answer.
    Model,
}

/// Why a stored body could not be read.
#[derive(Debug, thiserror::Error)]
pub enum EventDecodeError {
    /// The kind is not known to this build.
    #[error("event kind {0:?} is not known to this build")]
    UnknownKind(String),
    /// The version is newer than this build.
    #[error("event kind {kind} has version {found}, this build reads up to {known}")]
    NewerVersion {
        /// The kind.
        kind: &'static str,
        /// The stored version.
        found: u32,
        /// The newest version this build reads.
        known: u32,
    },
    /// The body does not have the shape of its kind.
    #[error("body of event kind {kind} cannot be read: {source}")]
    Malformed {
        /// The kind.
        kind: &'static str,
        /// What the JSON reader said.
        source: serde_json::Error,
    },
}

macro_rules! event_kinds {
    ($($(#[$doc:meta])* $name:ident = $text:literal, version $version:literal;)*) => {
        /// The kind of an event, as its column and its outside name say it.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum EventKind { $($(#[$doc])* $name,)* }

        impl EventKind {
            /// Every kind.
            pub const ALL: &'static [Self] = &[$(Self::$name,)*];
            /// The outside name, in snake_case.
            pub const fn as_str(self) -> &'static str { match self { $(Self::$name => $text,)* } }
            /// The version this build writes.
            pub const fn version(self) -> u32 { match self { $(Self::$name => $version,)* } }
            /// The kind of an outside name.
            pub fn from_name(text: &str) -> Option<Self> {
                match text { $($text => Some(Self::$name),)* _ => None }
            }
        }

        /// What happened.
        #[derive(Clone, Debug)]
        pub enum EventBody { $($(#[$doc])* $name($name),)* }

        impl EventBody {
            /// The kind of this body.
            pub const fn kind(&self) -> EventKind { match self { $(Self::$name(_) => EventKind::$name,)* } }

            /// The body as the JSON text that is stored. Fails only if a value cannot be JSON.
            pub fn encode(&self) -> Result<String, serde_json::Error> {
                match self { $(Self::$name(body) => serde_json::to_string(body),)* }
            }

            /// Reads a stored body of any version up to this build's, upcasting older ones.
            pub fn decode(kind: &str, version: u32, body: &str) -> Result<Self, EventDecodeError> {
                let kind = EventKind::from_name(kind)
                    .ok_or_else(|| EventDecodeError::UnknownKind(kind.to_owned()))?;
                if version > kind.version() {
                    return Err(EventDecodeError::NewerVersion {
                        kind: kind.as_str(), found: version, known: kind.version(),
                    });
                }
                match kind { $(
                    EventKind::$name => serde_json::from_str(body).map(Self::$name)
                        .map_err(|source| EventDecodeError::Malformed { kind: $text, source }),
                )* }
            }
        }

        $(impl From<$name> for EventBody { fn from(body: $name) -> Self { Self::$name(body) } })*
    };
}

event_kinds! {
    /// A session began.
    SessionCreated = "session_created", version 1;
    /// Settings changed.
    SessionChanged = "session_changed", version 1;
    /// A rule was granted for this session.
    GrantAdded = "grant_added", version 1;
    /// An input was accepted and will be acted on once.
    InputAccepted = "input_accepted", version 1;
    /// An accepted input was taken back.
    InputWithdrawn = "input_withdrawn", version 1;
    /// A turn began.
    TurnStarted = "turn_started", version 1;
    /// An input took its place in the conversation.
    InputDelivered = "input_delivered", version 1;
    /// The turn waits for somebody.
    TurnPaused = "turn_paused", version 1;
    /// The turn goes on.
    TurnResumed = "turn_resumed", version 1;
    /// A person or client asked the turn or one call to stop.
    InterruptRequested = "interrupt_requested", version 1;
    /// The turn ended.
    TurnFinished = "turn_finished", version 1;
    /// Turns were undone or redone.
    HistoryMoved = "history_moved", version 1;
    /// A new sent prefix began.
    EpochStarted = "epoch_started", version 1;
    /// An epoch was taken back.
    EpochReverted = "epoch_reverted", version 1;
    /// A compaction was not accepted.
    CompactionRefused = "compaction_refused", version 1;
    /// A fact was added for the model.
    NoticeAdded = "notice_added", version 1;
    /// A pinned item changed.
    PinChanged = "pin_changed", version 1;
    /// A request to a model is about to be sent.
    ModelCallStarted = "model_call_started", version 1;
    /// A model answered.
    ModelCallFinished = "model_call_finished", version 1;
    /// A model call failed.
    ModelCallFailed = "model_call_failed", version 1;
    /// The model asked for a tool call.
    CallRequested = "call_requested", version 1;
    /// A call names a tool and fits its schema.
    CallValidated = "call_validated", version 1;
    /// Facts about what a call would touch.
    CallInspected = "call_inspected", version 1;
    /// A call was judged.
    CallDecided = "call_decided", version 1;
    /// A person is asked.
    RequestOpened = "request_opened", version 1;
    /// A request was answered, expired or withdrawn.
    RequestClosed = "request_closed", version 1;
    /// A call is about to run.
    CallStarted = "call_started", version 1;
    /// A running call was taken over by a new run of the daemon.
    CallAdopted = "call_adopted", version 1;
    /// A call has its one result.
    CallFinished = "call_finished", version 1;
    /// Files changed.
    FilesChanged = "files_changed", version 1;
    /// A background job ended.
    JobFinished = "job_finished", version 1;
    /// Content was stored as an artifact.
    ArtifactStored = "artifact_stored", version 1;
    /// A child session was linked.
    ChildLinked = "child_linked", version 1;
    /// A limit was reached.
    LimitReached = "limit_reached", version 1;
    /// A hook or guardrail spoke.
    GuardFired = "guard_fired", version 1;
    /// A new run of the daemon took the session over.
    SessionRecovered = "session_recovered", version 1;
}

impl EventKind {
    /// Whether events of this kind put content into a prompt. These five and no other: everything else the
    /// model sees would be a fact that the log does not hold.
    pub const fn adds_content(self) -> bool {
        matches!(
            self,
            Self::InputDelivered
                | Self::ModelCallFinished
                | Self::CallFinished
                | Self::NoticeAdded
                | Self::EpochStarted
        )
    }
}

impl EventBody {
    /// Whether the commit that holds this event must reach the disk before anyone is told or any effect
    /// begins (power loss, not only a crash). `read_only` calls are re-run instead, so theirs are lazy.
    pub fn is_barrier(&self) -> bool {
        match self {
            Self::InputAccepted(_)
            | Self::SessionCreated(_)
            | Self::SessionChanged(_)
            | Self::InterruptRequested(_)
            | Self::RequestClosed(_)
            | Self::TurnResumed(_)
            | Self::EpochStarted(_)
            | Self::GrantAdded(_)
            | Self::HistoryMoved(_) => true,
            Self::CallStarted(body) => body.effect != EffectClass::ReadOnly,
            Self::CallFinished(body) => body.spent_evidence,
            _ => false,
        }
    }
}
