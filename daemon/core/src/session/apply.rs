//! Folding one fact into the state. Never fails: what does not fit is ignored, because a fact that was recorded
//! must not brick its session.

use super::failed::is_same_model;
use super::state::{
    CLOSED_REQUESTS_KEPT, ClosedRequest, Created, LastEnd, Learned, Session, TokenTruth, WaitingInput,
};
use crate::event::{Block, BlockKind, CallResolution, EpochStarted, InterruptRequested, Mend};
use crate::event::{
    Event, EventBody, FailureClass, InputPart, LimitName, ModelCallFailed, ModelCallFinished, Origin,
    PauseReason, RequestClose, RequestClosed, SessionChanged, SessionRecovered, TurnFinished, TurnResumed,
    TurnStatus,
};
use crate::ids::ModelCallId;
use crate::transcript::{Content, Item, Speaker};
use crate::turn::{Ending, Fate, Message, OpenModelCall, Pause, Retry, Turn, can_grow, fate};
use std::sync::Arc;

impl Session {
    /// Folds one event.
    pub fn apply(&mut self, event: &Event) {
        self.last_seq = event.seq;
        self.updated_at_ms = event.at_ms;
        match &event.body {
            EventBody::SessionCreated(body) => {
                self.created = Some(Arc::new(Created {
                    session_id: body.session_id.clone(),
                    cwd: body.cwd.clone(),
                    root: body.root.clone(),
                    at_ms: event.at_ms,
                    parent: body.parent.clone(),
                }));
                self.settings = Some(Arc::new(body.settings.clone()));
            }
            EventBody::SessionChanged(body) => self.apply_change(body),
            EventBody::InputAccepted(body) => self.waiting.push_back(WaitingInput {
                input_id: body.input_id.clone(),
                delivery: body.delivery,
                parts: body.parts.clone(),
            }),
            EventBody::InputWithdrawn(body) => self.waiting.retain(|input| input.input_id != body.input_id),
            EventBody::TurnStarted(body) => {
                self.turn_count = body.turn;
                self.turn =
                    Some(Turn::begun(body.turn, body.run_id.clone(), body.input_ids.clone(), event.at_ms));
            }
            EventBody::InputDelivered(body) => self.apply_delivery(&body.input_id, event),
            EventBody::EpochStarted(body) => {
                self.learn_from_epoch(body);
                self.epoch = Some(Arc::new(body.clone()));
                self.speaker = Some(Arc::new(Speaker {
                    provider: body.profile.provider.clone(),
                    model: body.profile.model.clone(),
                    dialect: body.profile.dialect,
                }));
                Arc::make_mut(&mut self.epochs).push((body.epoch, event.seq));
            }
            EventBody::NoticeAdded(body) => {
                self.push(event, Content::Notice { kind: body.kind, text: body.text.as_str().into() });
                if let Some(turn) = &mut self.turn
                    && body.kind == crate::event::NoticeKind::Nudge
                {
                    turn.nudges += 1;
                    turn.message = None;
                }
            }
            EventBody::SessionRecovered(body) => self.apply_recovery(body),
            _ => self.apply_in_turn(event),
        }
    }

    fn apply_in_turn(&mut self, event: &Event) {
        match &event.body {
            EventBody::TurnPaused(body) => self.with_turn(|turn| {
                turn.paused = Some(Pause { reason: body.reason, next: body.next.clone() });
                turn.limit = None;
                turn.failure = None;
                turn.waiting_since_ms.get_or_insert(event.at_ms);
            }),
            EventBody::TurnResumed(body) => self.with_turn(|turn| apply_resume(turn, body, event.at_ms)),
            EventBody::InterruptRequested(body) => self.with_turn(|turn| apply_interrupt(turn, body)),
            EventBody::LimitReached(body) => self.with_turn(|turn| match body.action.as_str() {
                "stop" => turn.ending = Some(ending_of_limit(body.limit, body.value, body.bound)),
                "pause" => turn.limit = Some(body.limit),
                _ => {}
            }),
            EventBody::TurnFinished(body) => self.apply_turn_end(body),
            EventBody::ModelCallStarted(body) => self.with_turn(|turn| {
                turn.model = Some(OpenModelCall {
                    model_call_id: body.model_call_id.clone(),
                    attempt: body.attempt,
                    included_seq: body.included_seq,
                    max_output_tokens: body.max_output_tokens,
                    request_hash: body.request_hash.as_str().into(),
                    est_tokens: body.est_tokens,
                });
                turn.retry = None;
                turn.message = None;
                turn.calls.clear();
            }),
            EventBody::ModelCallFinished(body) => self.apply_answer(body, event),
            EventBody::ModelCallFailed(body) => self.apply_failure(body),
            EventBody::RequestClosed(body) => self.apply_request_closed(body, event),
            _ => self.apply_call(event),
        }
    }

    pub(super) fn with_turn(&mut self, change: impl FnOnce(&mut Turn)) {
        if let Some(turn) = &mut self.turn {
            change(turn);
        }
    }

    pub(super) fn push(&mut self, event: &Event, content: Content) {
        self.transcript.push(Item { seq: event.seq, turn: event.turn.unwrap_or(0), content });
    }

    fn apply_change(&mut self, body: &SessionChanged) {
        let Some(settings) = &mut self.settings else { return };
        let settings = Arc::make_mut(settings);
        if let Some(name) = &body.name {
            settings.name = (!name.is_empty()).then(|| name.clone());
        }
        if let Some(model) = &body.model {
            settings.model.clone_from(model);
        }
        if let Some(mode) = body.mode {
            settings.mode = mode;
        }
        if let Some(on_restart) = body.on_restart {
            settings.on_restart = on_restart;
        }
        if let Some(limits) = &body.limits {
            settings.limits.clone_from(limits);
        }
        if let Some(record) = body.record {
            settings.record = record;
        }
        if let Some(archived) = body.archived {
            self.archived = archived;
        }
    }

    fn apply_delivery(&mut self, input_id: &crate::ids::InputId, event: &Event) {
        // First of all, or an input that is not there would be due for ever.
        self.with_turn(|turn| turn.undelivered.retain(|id| id != input_id));
        let Some(at) = self.waiting.iter().position(|input| input.input_id == *input_id) else { return };
        let Some(input) = self.waiting.remove(at) else { return };
        let text = parts_text(&input.parts);
        self.push(event, Content::Input { input_id: input_id.clone(), text: text.into() });
        // A steered input continues a turn whose last answer would otherwise have ended it.
        self.with_turn(|turn| turn.message = None);
    }

    fn apply_answer(&mut self, body: &ModelCallFinished, event: &Event) {
        self.usage = self.usage.plus(body.usage);
        self.cost_micro_usd = self.cost_micro_usd.saturating_add(body.cost_micro_usd);
        let Some(profile) = self.profile_in_use() else { return };
        self.cost_unknown |= profile.price_unknown;
        let Some(speaker) = self.speaker.clone() else { return };
        let Some(turn) = &mut self.turn else { return };
        turn.cost_unknown |= profile.price_unknown;
        if let Some(open) = turn.model.take()
            && body.usage_reported
        {
            self.token_truth = TokenTruth {
                estimated: open.est_tokens,
                // Where the provider made several passes, their sum is no size of anything.
                measured: body.last_prompt_tokens.unwrap_or_else(|| body.usage.prompt_tokens()),
                included_seq: open.included_seq,
            };
        }
        turn.usage = turn.usage.plus(body.usage);
        turn.cost_micro_usd = turn.cost_micro_usd.saturating_add(body.cost_micro_usd);
        turn.steps += 1;
        turn.resume_count = 0;
        let fate = fate(&body.blocks, &body.stop, can_grow(&profile, turn.truncated_retries));
        turn.continuations = if fate == Fate::Continue { turn.continuations + 1 } else { 0 };
        turn.truncated_retries = if fate == Fate::RetryLarger { turn.truncated_retries + 1 } else { 0 };
        if fate.keeps_content() {
            turn.nudges = 0;
        }
        let blocks: Arc<[_]> = body.blocks.clone().into();
        turn.calls.clear();
        turn.message = Some(Message {
            model_call_id: body.model_call_id.clone(),
            blocks: blocks.clone(),
            stop: body.stop.clone(),
            checks: body.checks.clone(),
            fate,
        });
        let kept = kept_blocks(&blocks, fate);
        if !kept.iter().all(Block::is_blank) {
            let blocks = if kept.len() == blocks.len() { blocks.clone() } else { kept.into() };
            self.push(
                event,
                Content::Assistant { model_call_id: body.model_call_id.clone(), speaker, blocks },
            );
        }
    }

    /// Another model has taught nothing yet; a mend that was waiting for its epoch has found it.
    fn learn_from_epoch(&mut self, body: &EpochStarted) {
        let same = self.epoch.as_ref().is_some_and(|epoch| is_same_model(&epoch.profile, &body.profile));
        if !same {
            self.learned = Learned::default();
        }
        let mend =
            self.turn.as_mut().and_then(|turn| turn.retry.as_mut()).and_then(|retry| retry.mend.take());
        if let Some(mend) = mend
            && same
            && (mend == Mend::RenameMaxTokens || !self.learned.mends.contains(&mend))
        {
            // A name that was taken back is one that was mended twice.
            self.learned.mends.push(mend);
        }
    }

    fn apply_failure(&mut self, body: &ModelCallFailed) {
        let unpriced = self.epoch.as_ref().is_some_and(|epoch| epoch.profile.price_unknown);
        if let Some(usage) = body.usage {
            self.usage = self.usage.plus(usage);
            self.cost_unknown |= unpriced;
            self.cost_micro_usd = self.cost_micro_usd.saturating_add(body.cost_micro_usd);
        }
        self.learned.window = body.learned_window.or(self.learned.window);
        self.learned.output = body.learned_output.or(self.learned.output);
        self.with_turn(|turn| {
            if let Some(usage) = body.usage {
                turn.usage = turn.usage.plus(usage);
                turn.cost_unknown |= unpriced;
                turn.cost_micro_usd = turn.cost_micro_usd.saturating_add(body.cost_micro_usd);
            }
            let attempt = turn
                .model
                .take()
                .filter(|open| open.model_call_id == body.model_call_id)
                .map_or(1, |open| open.attempt);
            turn.retry = body.retry_at_ms.map(|at_ms| Retry {
                model_call_id: body.model_call_id.clone(),
                // A mended request is another request: it does not use up an attempt.
                attempt: attempt.saturating_sub(u32::from(body.mend.is_some())),
                at_ms,
                mend: body.mend,
            });
            if body.retry_at_ms.is_none() && turn.ending.is_none() {
                turn.failure =
                    Some(Ending { status: failure_status(body.class), error: Some(body.message.clone()) });
                turn.failure_is_credentials = body.class == FailureClass::Credentials;
            }
        });
    }

    fn apply_request_closed(&mut self, body: &RequestClosed, event: &Event) {
        let how = match body.close {
            RequestClose::Answered => format!(
                "{} by {}",
                if body.decision == Some(crate::event::Verdict::Allow) { "allowed" } else { "denied" },
                who(&event.origin)
            ),
            RequestClose::Expired => "expired, which counts as denied".to_owned(),
            RequestClose::Withdrawn => "withdrawn, because the call was stopped".to_owned(),
        };
        self.closed_requests.push_back(ClosedRequest {
            request_id: body.request_id.clone(),
            how,
            expired: body.close == RequestClose::Expired,
        });
        if self.closed_requests.len() > CLOSED_REQUESTS_KEPT {
            self.closed_requests.pop_front();
        }
        self.with_turn(|turn| {
            super::calls::close_request(turn, body);
            // A turn that is paused goes on waiting for a person.
            if turn.paused.is_none() && turn.calls.iter().all(|call| call.request.is_none()) {
                turn.waited_until(event.at_ms);
            }
        });
    }

    fn apply_turn_end(&mut self, body: &TurnFinished) {
        let Some(turn) = self.turn.take() else { return };
        self.last_end = Some(LastEnd { turn: turn.no, status: body.status, error: body.error.clone() });
    }

    fn apply_recovery(&mut self, body: &SessionRecovered) {
        self.with_turn(|turn| {
            turn.run_id = body.run_id.clone();
            for found in &body.calls {
                super::calls::classify(turn, found);
            }
        });
    }
}

fn apply_resume(turn: &mut Turn, body: &TurnResumed, at_ms: i64) {
    turn.paused = None;
    turn.run_id = body.run_id.clone();
    turn.resume_count = body.resume_count;
    turn.limit = None;
    turn.waited_until(at_ms);
    if turn.calls.iter().any(|call| call.request.is_some()) {
        turn.waiting_since_ms = Some(at_ms);
    }
    if body.limits_extended {
        turn.steps_base = turn.steps;
        turn.cost_base = turn.cost_micro_usd;
        turn.time_base_ms = at_ms;
        turn.waited_ms = 0;
        turn.failures.clear();
        turn.continuations = 0;
    }
    for resolution in &body.resolutions {
        if let Some(call) = turn.calls.iter_mut().find(|call| call.call_id == resolution.call_id) {
            call.resolution = Some(resolution.clone());
            if resolution.resolution == CallResolution::Retry {
                call.approved = true;
                call.interrupt = false;
            }
        }
    }
}

fn apply_interrupt(turn: &mut Turn, body: &InterruptRequested) {
    match &body.call_id {
        Some(call_id) => {
            if let Some(call) = turn.calls.iter_mut().find(|call| call.call_id == *call_id) {
                call.interrupt = true;
            }
        }
        None => {
            turn.ending = Some(Ending { status: TurnStatus::Interrupted, error: None });
            turn.paused = None;
            turn.retry = None;
        }
    }
}

fn ending_of_limit(limit: LimitName, value: i64, bound: i64) -> Ending {
    let status = match limit {
        LimitName::RepeatedFailures => TurnStatus::Loop,
        LimitName::Resumes => TurnStatus::Failed,
        _ => TurnStatus::Limit,
    };
    let error = match limit {
        LimitName::Resumes => format!("the turn was resumed {value} times without finishing a step"),
        LimitName::Continuations => format!("the provider paused the turn more than {bound} times in a row"),
        LimitName::RepeatedFailures => {
            format!("calls failed in the same way {value} times in a row")
        }
        LimitName::Cost => {
            let usd = |micro: i64| format!("{}.{:04}", micro / 1_000_000, micro % 1_000_000 / 100);
            format!("{} reached: ${} of ${}", limit.as_str(), usd(value), usd(bound))
        }
        _ => format!("{} reached: {value} of {bound}", limit.as_str()),
    };
    Ending { status, error: Some(error) }
}

const fn failure_status(class: FailureClass) -> TurnStatus {
    match class {
        FailureClass::ContextExceeded => TurnStatus::Truncated,
        FailureClass::Unsendable => TurnStatus::Failed,
        _ => TurnStatus::ProviderFailed,
    }
}

/// What of an answer stays in the conversation. Thinking at the end of an answer that was broken off has no
/// signature or no sequel, and is refused when it comes back.
fn kept_blocks(blocks: &[Block], fate: Fate) -> &[Block] {
    if !fate.keeps_content() {
        return &[];
    }
    if !matches!(fate, Fate::Truncated | Fate::Unknown) {
        return blocks;
    }
    let is_thinking = |block: &Block| matches!(block.kind, BlockKind::Thinking | BlockKind::RedactedThinking);
    let end = blocks.iter().rposition(|block| !is_thinking(block) && !block.is_blank());
    &blocks[..end.map_or(0, |last| last + 1)]
}

/// Who somebody is, in words.
pub(super) fn who(origin: &Origin) -> String {
    match origin {
        Origin::Client { label, uid, pid, .. } => format!("{label} (pid {pid}, uid {uid})"),
        Origin::Daemon => "agentd".to_owned(),
        Origin::Model => "the model".to_owned(),
    }
}

/// The text of an input as the model reads it.
fn parts_text(parts: &[InputPart]) -> String {
    let words = parts.iter().map(|part| match part {
        InputPart::Text(text) => text.clone(),
        InputPart::Artifact(id) => format!("[artifact {id}]"),
        InputPart::FileRef(path) => format!("@{}", path.display()),
    });
    words.collect::<Vec<_>>().join("\n")
}

/// The last model call of a turn that wrote text, if the turn's last answer did.
pub(super) fn final_call(turn: &Turn) -> Option<ModelCallId> {
    turn.message.as_ref().map(|message| message.model_call_id.clone())
}

/// Whether a pause is one that an input ends.
pub(super) const fn input_resumes(reason: PauseReason) -> bool {
    matches!(reason, PauseReason::Interrupted | PauseReason::Limit | PauseReason::Credentials)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_loop_is_told_by_what_was_counted() {
        // Other arguments, or another tool, that fail in the same way count too.
        let ending = ending_of_limit(LimitName::RepeatedFailures, 5, 5);
        assert_eq!(ending.status, TurnStatus::Loop);
        assert_eq!(ending.error.as_deref(), Some("calls failed in the same way 5 times in a row"));
    }
}
