//! The state of a session: everything the fold of its log knows.

use crate::event::{Delivery, EpochStarted, InputPart, Parent, Settings, TurnStatus, Usage};
use crate::ids::{InputId, RequestId, Seq, SessionId, TurnNo};
use crate::path_bytes::PathBytes;
use crate::projection::CallCounts;
use crate::transcript::{Speaker, Transcript};
use crate::turn::Turn;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

/// What never changes about a session.
#[derive(Clone, Debug)]
pub struct Created {
    /// Its id.
    pub session_id: SessionId,
    /// The folder that relative paths start from.
    pub cwd: PathBytes,
    /// The canonical root of its workspace.
    pub root: PathBytes,
    /// When it began.
    pub at_ms: i64,
    /// Where it came from.
    pub parent: Option<Parent>,
}

/// An accepted input that was not delivered yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WaitingInput {
    /// Its id.
    pub input_id: InputId,
    /// When it is delivered.
    pub delivery: Delivery,
    /// What it says.
    pub parts: Vec<InputPart>,
}

/// How the last turn ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LastEnd {
    /// The turn.
    pub turn: TurnNo,
    /// How.
    pub status: TurnStatus,
    /// What went wrong, for people.
    pub error: Option<String>,
}

/// A closed request, so that a late answer can be told who was faster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClosedRequest {
    /// Which.
    pub request_id: RequestId,
    /// How, and by whom, in words.
    pub how: String,
    /// Nobody answered in time.
    pub expired: bool,
}

/// The last measured size of the prompt, which calibrates estimates.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TokenTruth {
    /// What had been estimated for it.
    pub estimated: u64,
    /// What the provider counted.
    pub measured: u64,
    /// The last event it included.
    pub included_seq: Seq,
}

/// The state of one session.
#[derive(Clone, Debug, Default)]
pub struct Session {
    /// What never changes; none before the first event.
    pub created: Option<Arc<Created>>,
    /// Its settings.
    pub settings: Option<Arc<Settings>>,
    /// Put away.
    pub archived: bool,
    /// The last event folded.
    pub last_seq: Seq,
    /// When it happened.
    pub updated_at_ms: i64,
    /// The prefix in use.
    pub epoch: Option<Arc<EpochStarted>>,
    /// The model of the prefix in use.
    pub speaker: Option<Arc<Speaker>>,
    /// Where each epoch began.
    pub epochs: Arc<Vec<(u32, Seq)>>,
    /// The conversation.
    pub transcript: Transcript,
    /// Inputs that wait.
    pub waiting: VecDeque<WaitingInput>,
    /// The number of the last turn begun.
    pub turn_count: TurnNo,
    /// The open turn.
    pub turn: Option<Turn>,
    /// How the last one ended.
    pub last_end: Option<LastEnd>,
    /// How calls ended.
    pub call_counts: CallCounts,
    /// Tokens of all model calls.
    pub usage: Usage,
    /// Money.
    pub cost_micro_usd: i64,
    /// Content hashes of the files the model has seen, by resolved path.
    pub seen_files: Arc<BTreeMap<PathBytes, String>>,
    /// The last requests that closed, newest last.
    pub closed_requests: VecDeque<ClosedRequest>,
    /// What tokens really were.
    pub token_truth: TokenTruth,
}

/// Closed requests that are remembered in the state; older ones are found in the log.
pub(super) const CLOSED_REQUESTS_KEPT: usize = 64;

impl Session {
    /// Before the first event.
    pub fn empty() -> Self {
        Self::default()
    }

    /// The fold of a log.
    pub fn fold<'a>(events: impl IntoIterator<Item = &'a crate::event::Event>) -> Self {
        let mut session = Self::empty();
        for event in events {
            session.apply(event);
        }
        session
    }

    /// Its id; empty before the first event.
    pub fn session_id(&self) -> SessionId {
        self.created.as_ref().map_or_else(|| SessionId::new(""), |created| created.session_id.clone())
    }

    /// Whether somebody can be asked, now or later.
    pub(crate) fn can_ask(&self) -> bool {
        self.settings.as_ref().is_some_and(|settings| {
            settings.attended || settings.unattended_approvals == crate::event::UnattendedApprovals::Wait
        })
    }
}
