//! One turn: from an input to an explicit end.
//!
//! The stop table of the contract is [`fate`]: what an answer means for the loop. It is one pure function, so
//! that no path can treat a stop reason differently from another.

use crate::call::Call;
use crate::event::{
    Block, BlockKind, CallCheck, LimitName, Mend, ModelProfile, PauseReason, Stop, StopClass, TurnStatus,
    Usage,
};
use crate::ids::{InputId, ModelCallId, RunId, Seq, TurnNo};
use crate::limits;
use std::sync::Arc;

/// A model call in flight.
#[derive(Clone, Debug)]
pub struct OpenModelCall {
    /// Its id.
    pub model_call_id: ModelCallId,
    /// Which attempt.
    pub attempt: u32,
    /// The last event whose content it includes.
    pub included_seq: Seq,
    /// Output tokens asked for.
    pub max_output_tokens: u32,
    /// The hash its body must have.
    pub request_hash: Arc<str>,
    /// The prompt's size as estimated.
    pub est_tokens: u64,
}

/// A failed model call that waits for its next attempt.
#[derive(Clone, Debug)]
pub struct Retry {
    /// The call that failed.
    pub model_call_id: ModelCallId,
    /// Attempts so far.
    pub attempt: u32,
    /// When the next is due, in Unix milliseconds.
    pub at_ms: i64,
    /// What the next request is mended by first; gone once it is.
    pub mend: Option<Mend>,
}

/// The last answer, while its consequences are not all recorded.
#[derive(Clone, Debug)]
pub struct Message {
    /// The call it answers.
    pub model_call_id: ModelCallId,
    /// Its blocks.
    pub blocks: Arc<[Block]>,
    /// How it stopped.
    pub stop: Stop,
    /// What the schema check said of each of its calls.
    pub checks: Vec<CallCheck>,
    /// What it means.
    pub fate: Fate,
}

impl Message {
    /// Its tool calls, in order.
    pub fn calls(&self) -> impl Iterator<Item = &crate::event::BlockCall> {
        self.blocks.iter().filter_map(|block| block.call.as_ref())
    }
}

/// Why a turn waits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pause {
    /// The reason.
    pub reason: PauseReason,
    /// What it would do next.
    pub next: String,
}

/// A turn that has to end as soon as its calls have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ending {
    /// How it will have ended.
    pub status: TurnStatus,
    /// What went wrong, for people.
    pub error: Option<String>,
}

/// An open turn.
#[derive(Clone, Debug)]
pub struct Turn {
    /// Its number.
    pub no: TurnNo,
    /// The run that works on it.
    pub run_id: RunId,
    /// When it began.
    pub started_at_ms: i64,
    /// Inputs it begins with that were not delivered yet.
    pub undelivered: Vec<InputId>,
    /// The model call in flight.
    pub model: Option<OpenModelCall>,
    /// The wait for a new attempt.
    pub retry: Option<Retry>,
    /// The last answer.
    pub message: Option<Message>,
    /// Its calls.
    pub calls: Vec<Call>,
    /// Why it waits.
    pub paused: Option<Pause>,
    /// How it has to end.
    pub ending: Option<Ending>,
    /// A limit that was reached and not yet acted on.
    pub limit: Option<LimitName>,
    /// A failure that no attempt can mend.
    pub failure: Option<Ending>,
    /// Whether that failure is about keys, where a person can help.
    pub failure_is_credentials: bool,
    /// Model steps.
    pub steps: u32,
    /// Steps when the limits were last extended.
    pub steps_base: u32,
    /// Cost when the limits were last extended.
    pub cost_base: i64,
    /// Tokens.
    pub usage: Usage,
    /// Money.
    pub cost_micro_usd: i64,
    /// A step's price was not known: the sum is not all.
    pub cost_unknown: bool,
    /// Calls denied because nobody could be asked.
    pub denied_unattended: u32,
    /// Nudges since the last answer with content.
    pub nudges: u32,
    /// Continuations after pause_turn in a row.
    pub continuations: u32,
    /// Retries of a cut answer, in a row.
    pub truncated_retries: u32,
    /// Failures since the last success, by tool and class.
    pub failures: Vec<Failures>,
    /// Resumes since the last finished step.
    pub resume_count: u32,
    /// Time spent waiting for people.
    pub waited_ms: i64,
    /// Since when it waits for people.
    pub waiting_since_ms: Option<i64>,
    /// When the time limit was last extended.
    pub time_base_ms: i64,
}

/// Failures in a row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failures {
    /// The tool.
    pub tool: Arc<str>,
    /// The class of failure.
    pub class: String,
    /// How many messages had one: what one message asked for at once is one mistake.
    pub count: u32,
    /// The last message that had one.
    pub message: Option<ModelCallId>,
}

impl Turn {
    /// A turn that has just begun.
    pub fn begun(no: TurnNo, run_id: RunId, inputs: Vec<InputId>, at_ms: i64) -> Self {
        Self {
            no,
            run_id,
            started_at_ms: at_ms,
            undelivered: inputs,
            model: None,
            retry: None,
            message: None,
            calls: Vec::new(),
            paused: None,
            ending: None,
            limit: None,
            failure: None,
            failure_is_credentials: false,
            steps: 0,
            steps_base: 0,
            cost_base: 0,
            usage: Usage::default(),
            cost_micro_usd: 0,
            cost_unknown: false,
            denied_unattended: 0,
            nudges: 0,
            continuations: 0,
            truncated_retries: 0,
            failures: Vec::new(),
            resume_count: 0,
            waited_ms: 0,
            waiting_since_ms: None,
            time_base_ms: at_ms,
        }
    }

    /// Whether every call of the last message has its result.
    pub fn calls_are_finished(&self) -> bool {
        self.calls.iter().all(Call::is_finished)
    }

    /// Whether a person is asked and nothing else is at work.
    pub fn waits_for_answer(&self) -> bool {
        self.model.is_none()
            && self.calls.iter().any(|call| call.request.is_some())
            && !self.calls.iter().any(Call::is_started)
    }

    /// When the turn has used its time, in Unix milliseconds; none while it waits for a person.
    pub fn deadline_ms(&self, max_minutes: u32) -> Option<i64> {
        (self.waiting_since_ms.is_none() && self.paused.is_none()).then(|| {
            self.time_base_ms.saturating_add(self.waited_ms).saturating_add(i64::from(max_minutes) * 60_000)
        })
    }

    /// Ends the wait for a person.
    pub(crate) fn waited_until(&mut self, at_ms: i64) {
        if let Some(since) = self.waiting_since_ms.take() {
            self.waited_ms = self.waited_ms.saturating_add(at_ms.saturating_sub(since).max(0));
        }
    }
}

/// What an answer means for the loop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// Its calls run, and the turn goes on.
    RunCalls,
    /// The turn is over, well.
    Complete,
    /// Nothing was said: ask once more, the answer itself is not kept.
    Empty,
    /// Sent again unchanged.
    Continue,
    /// Cut by the output limit; asked again with a larger one, the cut answer is not kept.
    RetryLarger,
    /// Cut, and kept as far as it goes; none of its calls runs.
    Truncated,
    /// Refused; not kept, none of its calls runs.
    Refused,
    /// A stop this build does not know; text kept, none of its calls runs.
    Unknown,
}

impl Fate {
    /// Whether the answer stays in the conversation.
    pub const fn keeps_content(self) -> bool {
        !matches!(self, Self::Empty | Self::RetryLarger | Self::Refused)
    }

    /// Whether its calls get a result each: those of a kept answer do.
    pub const fn requests_calls(self) -> bool {
        matches!(self, Self::RunCalls | Self::Truncated | Self::Unknown)
    }
}

/// The stop table. `can_grow`: the model has a larger output limit and retries are left.
pub fn fate(blocks: &[Block], stop: &Stop, can_grow: bool) -> Fate {
    let has_calls = blocks.iter().any(|block| block.kind == BlockKind::ToolUse);
    let has_text = blocks.iter().any(|block| {
        block.kind == BlockKind::Text && block.text.as_deref().is_some_and(|text| !text.trim().is_empty())
    });
    match stop.class {
        StopClass::Refusal => Fate::Refused,
        StopClass::PauseTurn if !blocks.is_empty() && !has_calls => Fate::Continue,
        StopClass::MaxTokens if can_grow => Fate::RetryLarger,
        // Complete calls decide, not the stop word: but a cut answer may lack a call, so it never runs any.
        StopClass::MaxTokens | StopClass::ContextExceeded => Fate::Truncated,
        StopClass::Unknown => Fate::Unknown,
        StopClass::EndTurn | StopClass::ToolUse | StopClass::PauseTurn if has_calls => Fate::RunCalls,
        StopClass::EndTurn | StopClass::ToolUse | StopClass::PauseTurn if has_text => Fate::Complete,
        StopClass::EndTurn | StopClass::ToolUse | StopClass::PauseTurn => Fate::Empty,
    }
}

/// The output limit of the next request: modest first, because it is reserved from the window; doubled for
/// each retry of a cut answer.
pub fn output_tokens(profile: &ModelProfile, truncated_retries: u32) -> u32 {
    let first = profile.max_output_tokens.min(FIRST_OUTPUT_TOKENS);
    first.saturating_mul(2_u32.saturating_pow(truncated_retries)).min(profile.max_output_tokens)
}

/// The output limit that leaves room for the prompt in a window that an error named: `wanted`, or less. None when the
/// prompt alone fills it, or nearly: then less output would not help, or the answer would not be worth asking for.
pub fn fitting_output(window: u64, est_tokens: u64, wanted: u32) -> Option<u32> {
    // Estimates are off by some per cent even when they are calibrated.
    let prompt = est_tokens.saturating_add(est_tokens / 16);
    let room = window.checked_sub(prompt).filter(|room| *room >= (window / 8).max(1))?;
    Some(wanted.min(u32::try_from(room).unwrap_or(u32::MAX)))
}

/// What a request asks for at first, where the model allows more.
const FIRST_OUTPUT_TOKENS: u32 = 16_384;

/// Whether a cut answer can be asked for again with a larger limit.
pub fn can_grow(profile: &ModelProfile, truncated_retries: u32) -> bool {
    truncated_retries < limits::TRUNCATED_RETRIES_MAX
        && output_tokens(profile, truncated_retries + 1) > output_tokens(profile, truncated_retries)
}

impl Block {
    /// The text of an answer for people. Text blocks side by side are one text; what stood apart begins on a line of its
    /// own.
    pub(crate) fn text_of(blocks: &[Self]) -> String {
        let texts =
            blocks.iter().map(|block| (block.kind == BlockKind::Text).then_some(block.text.as_deref()));
        joined_text(texts.map(|text| text.map(Option::unwrap_or_default)))
    }

    /// Whether it is text without a visible character, which providers send and refuse when it comes back.
    pub(crate) fn is_blank(&self) -> bool {
        self.kind == BlockKind::Text && self.text.as_deref().is_none_or(|text| text.trim().is_empty())
    }
}

/// Joins the texts of an answer; none stands for a block that is no text.
pub(crate) fn joined_text<'a>(blocks: impl Iterator<Item = Option<&'a str>>) -> String {
    let mut all = String::new();
    let mut apart = false;
    for block in blocks {
        let Some(text) = block else {
            apart = true;
            continue;
        };
        // Blank lines that stand alone are no part of a text.
        if (apart || all.is_empty()) && text.trim().is_empty() {
            continue;
        }
        if apart && !all.is_empty() && !all.ends_with('\n') {
            all.push('\n');
        }
        apart = false;
        all.push_str(text);
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_side_by_side_are_one_text() {
        let text = |parts: &[Option<&str>]| joined_text(parts.iter().copied());
        assert_eq!(
            text(&[Some("continued rain, with "), Some("a storm"), Some(".")]),
            "continued rain, with a storm."
        );
        assert_eq!(text(&[Some("one"), None, Some(""), Some("two")]), "one\ntwo");
        assert_eq!(text(&[Some("\n\n"), None, Some("one"), Some("\n\n"), Some("two")]), "one\n\ntwo");
        assert_eq!(text(&[None, Some("one\n"), None, None, Some("\ntwo")]), "one\n\ntwo");
    }
}
