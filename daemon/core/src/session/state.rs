//! The state of a session: everything the fold of its log knows.

use crate::event::{
    Delivery, EpochStarted, InputPart, Mend, ModelProfile, Parent, Settings, TurnStatus, Usage,
};
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
    /// The price of an answer was not known: the sum is not all.
    pub cost_unknown: bool,
    /// Content hashes of the files the model has seen, by resolved path.
    pub seen_files: Arc<BTreeMap<PathBytes, String>>,
    /// The last requests that closed, newest last.
    pub closed_requests: VecDeque<ClosedRequest>,
    /// What tokens really were.
    pub token_truth: TokenTruth,
    /// What errors of the model in use have taught.
    pub learned: Learned,
}

/// What errors of a model have taught about it. Another model is another matter.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Learned {
    /// Tokens of prompt and answer together.
    pub window: Option<u64>,
    /// Tokens of one answer at most.
    pub output: Option<u32>,
    /// What its requests are mended by, in the order in which that was found out.
    pub mends: Vec<Mend>,
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

    /// The model as it is spoken to now: as the epoch has it, with what its errors have taught. Whatever plans a request
    /// goes by this; what was frozen stays as it is.
    pub fn profile_in_use(&self) -> Option<ModelProfile> {
        let mut profile = self.epoch.as_ref()?.profile.clone();
        if let Some(window) = self.learned.window {
            profile.context_window = window;
            // As for every window that is not known beforehand: a quarter is for the answer.
            let quarter = u32::try_from(window / 4).unwrap_or(u32::MAX).max(1);
            profile.max_output_tokens = profile.max_output_tokens.min(quarter);
        }
        if let Some(output) = self.learned.output {
            profile.max_output_tokens = profile.max_output_tokens.min(output);
        }
        Some(profile)
    }

    /// Tokens of prompt and answer together: what an error named, else what the epoch says. 0 before the first epoch.
    pub fn context_window(&self) -> u64 {
        let frozen = self.epoch.as_ref().map_or(0, |epoch| epoch.profile.context_window);
        self.learned.window.unwrap_or(frozen)
    }

    /// The output limit of the next request, after so many retries of a cut answer.
    pub(crate) fn output_tokens(&self, truncated_retries: u32) -> u32 {
        let Some(profile) = self.profile_in_use() else { return 0 };
        let wanted = crate::turn::output_tokens(&profile, truncated_retries);
        self.learned.window.map_or(wanted, |window| {
            let est_tokens = crate::context::estimate_prompt(self, self.last_seq);
            crate::turn::fitting_output(window, est_tokens, wanted).unwrap_or(wanted)
        })
    }

    /// Calls taken from one message: one where the model was told so, whatever it sends.
    pub(crate) fn max_calls(&self) -> u32 {
        let max = self.settings.as_ref().map_or(0, |settings| settings.limits.max_calls_per_message);
        let parallel = self.epoch.as_ref().is_none_or(|epoch| epoch.profile.parallel_tool_calls);
        if parallel { max } else { max.min(1) }
    }

    /// Whether somebody can be asked, now or later.
    pub(crate) fn can_ask(&self) -> bool {
        self.settings.as_ref().is_some_and(|settings| {
            settings.attended || settings.unattended_approvals == crate::event::UnattendedApprovals::Wait
        })
    }
}
