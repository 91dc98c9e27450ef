//! Folding facts about calls.

use super::state::Session;
use crate::call::{Call, OpenRequest, Stage};
use crate::event::{
    CallDecided, CallFinished, CallOutcome, CallRequested, CallStarted, EffectClass, Event, EventBody,
    FilesChanged, RecoveredCall, RequestClose, RequestClosed, RequestOpened, Verdict,
};
use crate::limits;
use crate::projection::CallCounts;
use crate::transcript::Content;
use crate::turn::{Failures, Turn};
use std::sync::Arc;

impl Session {
    pub(super) fn apply_call(&mut self, event: &Event) {
        match &event.body {
            EventBody::CallRequested(body) => self.with_turn(|turn| turn.calls.push(requested(body))),
            EventBody::CallValidated(body) => self.with_call(&body.call_id, |call| {
                call.stage = Stage::Validated;
                call.effect = body.effect;
            }),
            EventBody::CallInspected(body) => self.with_call(&body.call_id, |call| {
                call.stage = Stage::Inspected;
                call.sandbox = body.sandbox.as_str().into();
                call.facts = Some(Arc::new(body.clone()));
            }),
            EventBody::CallDecided(body) => self.with_call(&body.call_id, |call| decided(call, body)),
            EventBody::RequestOpened(body) => {
                let at_ms = event.at_ms;
                self.with_call(&body.call_id, |call| opened(call, body));
                self.with_turn(|turn| {
                    turn.waiting_since_ms.get_or_insert(at_ms);
                });
            }
            EventBody::CallStarted(body) => self.with_call(&body.call_id, |call| started(call, body)),
            EventBody::CallAdopted(body) => self.with_call(&body.call_id, |call| call.followed = true),
            EventBody::CallFinished(body) => self.apply_call_end(body, event),
            EventBody::FilesChanged(body) => self.apply_files(body),
            _ => {}
        }
    }

    fn with_call(&mut self, call_id: &crate::ids::CallId, change: impl FnOnce(&mut Call)) {
        if let Some(call) =
            self.turn.as_mut().and_then(|turn| turn.calls.iter_mut().find(|call| call.call_id == *call_id))
        {
            change(call);
        }
    }

    fn apply_call_end(&mut self, body: &CallFinished, event: &Event) {
        let Some(turn) = &mut self.turn else { return };
        let Some(call) = turn.calls.iter_mut().find(|call| call.call_id == body.call_id) else { return };
        if call.is_finished() {
            return;
        }
        call.stage = Stage::Finished(body.outcome);
        call.request = None;
        if body.outcome == CallOutcome::Denied && call.denied_unattended {
            turn.denied_unattended += 1;
        }
        let content = Content::Result {
            call_id: call.call_id.clone(),
            provider_call_id: call.provider_call_id.clone(),
            position: call.position,
            tool: call.tool.clone(),
            text: body.text.as_str().into(),
            is_error: body.outcome != CallOutcome::Ok,
        };
        let tool = call.tool.clone();
        turn.resume_count = 0;
        if !body.seen.is_empty() {
            let seen = Arc::make_mut(&mut self.seen_files);
            seen.extend(body.seen.iter().map(|file| (file.path.clone(), file.hash.clone())));
        }
        count_failure(turn, &tool, body);
        count(&mut self.call_counts, body.outcome);
        self.push(event, content);
    }

    fn apply_files(&mut self, body: &FilesChanged) {
        let seen = Arc::make_mut(&mut self.seen_files);
        for change in &body.changes {
            match &change.after {
                Some(hash) => seen.insert(change.path.clone(), hash.clone()),
                None => seen.remove(&change.path),
            };
        }
    }
}

fn requested(body: &CallRequested) -> Call {
    Call {
        call_id: body.call_id.clone(),
        provider_call_id: body.provider_call_id.as_str().into(),
        position: body.position,
        tool: body.tool.as_str().into(),
        args: body.args.clone(),
        stage: Stage::Requested,
        effect: EffectClass::Unsafe,
        attempt: 0,
        facts: None,
        reason: "".into(),
        denied_unattended: false,
        request: None,
        answer_reason: None,
        sandbox: "".into(),
        job: None,
        followed: false,
        interrupt: false,
        evidence: None,
        resolution: None,
        approved: false,
        last_request: None,
    }
}

fn decided(call: &mut Call, body: &CallDecided) {
    call.stage = Stage::Decided(body.verdict);
    call.reason = body.reason.as_str().into();
    call.denied_unattended = body.unattended;
}

fn opened(call: &mut Call, body: &RequestOpened) {
    call.stage = Stage::Asked;
    call.last_request = Some(body.request_id.clone());
    call.request = Some(Arc::new(OpenRequest {
        request_id: body.request_id.clone(),
        shown_hash: body.shown_hash.clone(),
        shown: body.shown.clone(),
        reason: body.reason.clone(),
        scopes: body.scopes.clone(),
        expires_at_ms: body.expires_at_ms,
    }));
}

fn started(call: &mut Call, body: &CallStarted) {
    call.stage = Stage::Started;
    call.attempt = body.attempt;
    call.job = body.job.as_deref().map(Into::into);
    call.followed = false;
    call.resolution = None;
}

/// Folds the end of a request into its call.
pub(super) fn close_request(turn: &mut Turn, body: &RequestClosed) {
    let Some(call) = turn
        .calls
        .iter_mut()
        .find(|call| call.request.as_ref().is_some_and(|request| request.request_id == body.request_id))
    else {
        return;
    };
    call.request = None;
    call.answer_reason = body.reason.as_deref().map(Into::into);
    let allowed = body.close == RequestClose::Answered && body.decision == Some(Verdict::Allow);
    call.approved = allowed;
    call.stage = Stage::Answered(if allowed { Verdict::Allow } else { Verdict::Deny });
    if body.close == RequestClose::Expired {
        call.reason = "nobody answered in time".into();
        // Nobody could approve it, whatever the session hoped for.
        call.denied_unattended = true;
    }
}

/// Folds what recovery found about a call that had been started.
pub(super) fn classify(turn: &mut Turn, found: &RecoveredCall) {
    let Some(call) = turn.calls.iter_mut().find(|call| call.call_id == found.call_id) else { return };
    if !call.is_started() {
        return;
    }
    call.evidence = Some(found.evidence.as_str().into());
    match found.found.as_str() {
        "running" | "finished" => call.followed = true,
        "not_started" => call.stage = Stage::NotBegun,
        _ => call.stage = Stage::Unknown,
    }
}

fn count_failure(turn: &mut Turn, tool: &Arc<str>, body: &CallFinished) {
    if body.outcome == CallOutcome::Ok {
        turn.failures.clear();
    }
    let Some(class) = &body.error_class else { return };
    let count = failures_with(turn, tool, class);
    let message = turn.message.as_ref().map(|message| message.model_call_id.clone());
    turn.failures.retain(|failures| failures.tool != *tool || failures.class != *class);
    turn.failures.push(Failures { tool: tool.clone(), class: class.clone(), count, message });
}

/// How many failures of this tool and class there will have been in a row with one more.
fn failures_with(turn: &Turn, tool: &str, class: &str) -> u32 {
    let message = turn.message.as_ref().map(|message| &message.model_call_id);
    let known = turn.failures.iter().find(|failures| &*failures.tool == tool && failures.class == class);
    match known {
        Some(failures) if failures.message.as_ref() == message => failures.count,
        Some(failures) => failures.count.saturating_add(1),
        None => 1,
    }
}

/// Adds advice to a result that fails in the same way again and again.
pub(super) fn advise(session: &Session, end: &mut CallFinished) {
    let Some(turn) = &session.turn else { return };
    let Some(call) = turn.calls.iter().find(|call| call.call_id == end.call_id) else { return };
    let Some(class) = end.error_class.as_deref().filter(|_| end.outcome != CallOutcome::Ok) else { return };
    let count = failures_with(turn, &call.tool, class);
    if count >= limits::BREAKER_ADVICE_AT {
        let advice = format!(
            "\n\nThis is failure {count} in a row of {} ({class}); the turn ends at {}. Do not send such a call again: \
             look first at what is there, or choose another way.",
            call.tool,
            limits::BREAKER_STOP_AT
        );
        end.text.push_str(&advice);
    }
}

fn count(counts: &mut CallCounts, outcome: CallOutcome) {
    let slot = match outcome {
        CallOutcome::Ok => &mut counts.ok,
        CallOutcome::Error => &mut counts.error,
        CallOutcome::Denied => &mut counts.denied,
        CallOutcome::Invalid => &mut counts.invalid,
        CallOutcome::TimedOut => &mut counts.timed_out,
        CallOutcome::Cancelled => &mut counts.cancelled,
        CallOutcome::Unknown => &mut counts.unknown,
    };
    *slot = slot.saturating_add(1);
}
