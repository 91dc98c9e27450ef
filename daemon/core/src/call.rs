//! One tool call as a durable transaction: requested, validated, inspected, decided, started, finished.
//!
//! Invariants: a stage is only entered by an event; a call has exactly one result; a denied call is never
//! started.

use crate::event::{Binding, CallInspected, CallOutcome, EffectClass, GrantScope, Resolution, Verdict};
use crate::ids::{CallId, RequestId};
use serde_json::value::RawValue;
use std::sync::Arc;

/// Where a call stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stage {
    /// The model asked for it; nothing was checked.
    Requested,
    /// It names a tool and fits its schema; its facts are to be gathered.
    Validated,
    /// Its facts are known; it is to be judged.
    Inspected,
    /// It was judged.
    Decided(Verdict),
    /// A person is asked.
    Asked,
    /// A person answered.
    Answered(Verdict),
    /// It runs, or is about to.
    Started,
    /// A restart showed that it never began; it is to be started again.
    NotBegun,
    /// A restart could not tell whether it happened.
    Unknown,
    /// It has its result.
    Finished(CallOutcome),
}

/// An open request about a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpenRequest {
    /// Its id.
    pub request_id: RequestId,
    /// The hash the answer must name.
    pub shown_hash: String,
    /// What is decided on.
    pub shown: String,
    /// Why it asks.
    pub reason: String,
    /// How far an answer may reach.
    pub scopes: Vec<GrantScope>,
    /// When it counts as denied.
    pub expires_at_ms: i64,
}

/// A call of the current message.
#[derive(Clone, Debug)]
pub struct Call {
    /// Our id.
    pub call_id: CallId,
    /// The provider's.
    pub provider_call_id: Arc<str>,
    /// Its place in the message.
    pub position: u32,
    /// The tool.
    pub tool: Arc<str>,
    /// Its arguments.
    pub args: Arc<RawValue>,
    /// Where it stands.
    pub stage: Stage,
    /// What it may do; unsafe until validated.
    pub effect: EffectClass,
    /// Tries so far.
    pub attempt: u32,
    /// The facts, once inspected.
    pub facts: Option<Arc<CallInspected>>,
    /// Why it was decided as it was.
    pub reason: Arc<str>,
    /// Denied only because nobody could be asked.
    pub denied_unattended: bool,
    /// The open request about it.
    pub request: Option<Arc<OpenRequest>>,
    /// What was said with the answer.
    pub answer_reason: Option<Arc<str>>,
    /// The sandbox it was judged for, in words.
    pub sandbox: Arc<str>,
    /// The name of its job folder.
    pub job: Option<Arc<str>>,
    /// A former run of the daemon started it: it is followed, not run.
    pub followed: bool,
    /// Somebody asked for this call to stop.
    pub interrupt: bool,
    /// What is known of it, when its outcome is not.
    pub evidence: Option<Arc<str>>,
    /// What a person said of its unknown outcome.
    pub resolution: Option<Resolution>,
    /// A person said that it may run.
    pub approved: bool,
    /// The last request about it, open or closed.
    pub last_request: Option<RequestId>,
}

impl Call {
    /// Whether it has its result.
    pub const fn is_finished(&self) -> bool {
        matches!(self.stage, Stage::Finished(_))
    }

    /// Whether something may be running for it in the world.
    pub const fn is_started(&self) -> bool {
        matches!(self.stage, Stage::Started)
    }

    /// The names of its job folders, one for each try. Each try has its own: a late supervisor of an earlier one
    /// finds its tombstone, or nothing, and never another try's folder.
    pub fn job_names(&self) -> Vec<String> {
        match &self.job {
            Some(_) => (1..=self.attempt).map(|attempt| self.job_name(attempt)).collect(),
            None => Vec::new(),
        }
    }

    /// The name of the job folder of one try.
    pub(crate) fn job_name(&self, attempt: u32) -> String {
        if attempt == 1 { self.call_id.to_string() } else { format!("{}-{attempt}", self.call_id) }
    }

    /// What it holds on to.
    pub fn binding(&self) -> Option<&Binding> {
        self.facts.as_ref().and_then(|facts| facts.binding.as_ref())
    }
}

/// Whether the facts about call `index` may be gathered now: a call that may change something is a barrier in
/// its message, in both directions; read-only calls go side by side up to `parallel`.
pub fn is_eligible(calls: &[Call], index: usize, parallel: u32) -> bool {
    let call = &calls[index];
    if call.stage != Stage::Validated {
        return false;
    }
    let mut open_reads = 0;
    for earlier in &calls[..index] {
        if earlier.is_finished() {
            continue;
        }
        if call.effect != EffectClass::ReadOnly || earlier.effect != EffectClass::ReadOnly {
            return false;
        }
        open_reads += 1;
    }
    // A limit of none would stand still for ever.
    open_reads < parallel.max(1)
}
