//! From the report of an effect to facts.
//!
//! Invariants: a report about something that is over is late and comes to nothing; an answer enters the conversation
//! only if it can be sent back.

use super::decide::Draft;
use super::failed::failure_facts;
use super::state::Session;
use crate::call::is_eligible;
use crate::command::{CallEnd, CheckedCall, ModelAnswer, ModelFailure, Reject, Report};
use crate::event::{
    CallCheck, CallFinished, CallInspected, CallOutcome, Coverage, EffectClass, EventBody, FailureClass,
    FilesChanged, ModelCallFinished, Origin,
};
use crate::ids::{CallId, ModelCallId, Stamp};
use crate::turn::{OpenModelCall, can_grow, fate};
use crate::{limits, retry};

pub(super) fn report_facts(draft: &mut Draft, report: Report, stamp: &mut Stamp) -> Result<(), Reject> {
    match report {
        Report::ModelFinished(answer) => answer_facts(draft, *answer, stamp),
        Report::ModelFailed(failure) => {
            let spent = failure.usage;
            failure_facts(draft, *failure, spent, stamp)
        }
        Report::Inspected { call_id, found } => {
            if !awaits_inspection(&draft.session, &call_id) {
                return Err(Reject::Late("the call does not wait for its inspection"));
            }
            let body: EventBody = match found {
                Ok(found) => CallInspected {
                    call_id,
                    paths: found.paths,
                    command: found.command,
                    preview: found.preview,
                    binding: found.binding,
                    sandbox: found.sandbox,
                }
                .into(),
                Err(fault) => {
                    super::judge::unrun(call_id, fault.outcome, fault.text, Some(fault.class)).into()
                }
            };
            draft.record(body, Origin::Daemon, stamp);
            Ok(())
        }
        Report::CallEnded(end) => call_end_facts(draft, *end, stamp),
    }
}

/// Facts that are gathered before earlier calls have ended may be wrong when the call starts.
fn awaits_inspection(session: &Session, call_id: &CallId) -> bool {
    let (Some(turn), Some(settings)) = (&session.turn, &session.settings) else { return false };
    let index = turn.calls.iter().position(|call| call.call_id == *call_id);
    index.is_some_and(|index| is_eligible(&turn.calls, index, settings.limits.parallel_read_only))
}

fn answer_facts(draft: &mut Draft, answer: ModelAnswer, stamp: &Stamp) -> Result<(), Reject> {
    let attempt = expect_open(&draft.session, &answer.model_call_id)?.attempt;
    if let Some(fault) = unsendable(&draft.session, &answer) {
        let spent = answer.usage_reported.then_some(answer.usage);
        return failure_facts(draft, refused_answer(answer, &fault, attempt), spent, stamp);
    }
    let price = draft.session.epoch.as_ref().map(|epoch| epoch.profile.price).unwrap_or_default();
    let checks = answer
        .checked
        .into_iter()
        .map(|checked| match checked {
            CheckedCall::Valid(effect) => CallCheck::Valid(effect),
            CheckedCall::Invalid(fault) => CallCheck::Invalid { class: fault.class, text: fault.text },
        })
        .collect();
    let body = ModelCallFinished {
        model_call_id: answer.model_call_id,
        blocks: answer.blocks,
        stop: answer.stop,
        cost_micro_usd: retry::cost_micro_usd(&answer.usage, &price),
        usage: answer.usage,
        usage_raw: answer.usage_raw,
        usage_reported: answer.usage_reported,
        provider_message_id: answer.provider_message_id,
        provider_request_id: answer.provider_request_id,
        checks,
        warnings: answer.warnings,
        last_prompt_tokens: answer.last_prompt_tokens,
    };
    draft.record(body, Origin::Model, stamp);
    Ok(())
}

/// Why an answer could not be sent back in the next request, if so. It must not enter the conversation, which
/// could never be sent again.
fn unsendable(session: &Session, answer: &ModelAnswer) -> Option<String> {
    let profile = session.profile_in_use()?;
    let retries = session.turn.as_ref()?.truncated_retries;
    let fate = fate(&answer.blocks, &answer.stop, can_grow(&profile, retries));
    fate.keeps_content()
        .then(|| crate::prompt::answer_fault(session, &answer.model_call_id, &answer.blocks))
        .flatten()
}

fn refused_answer(answer: ModelAnswer, fault: &str, attempt: u32) -> ModelFailure {
    let words = crate::event::Block::text_of(&answer.blocks);
    ModelFailure {
        jitter: u64::from(attempt),
        partial_text: Some(words).filter(|text| !text.is_empty()),
        ..ModelFailure::new(
            answer.model_call_id,
            FailureClass::Malformed,
            format!("the provider's answer could not be sent back to it ({fault}); it was not kept"),
        )
    }
}

pub(super) fn expect_open<'a>(
    session: &'a Session,
    model_call_id: &ModelCallId,
) -> Result<&'a OpenModelCall, Reject> {
    session
        .turn
        .as_ref()
        .and_then(|turn| turn.model.as_ref())
        .filter(|open| open.model_call_id == *model_call_id)
        .ok_or(Reject::Late("the model call is over"))
}

fn call_end_facts(draft: &mut Draft, end: CallEnd, stamp: &Stamp) -> Result<(), Reject> {
    let open = draft.session.turn.as_ref().is_some_and(|turn| {
        turn.calls
            .iter()
            .any(|call| call.call_id == end.call_id && call.is_started() && call.attempt == end.attempt)
    });
    if !open {
        return Err(Reject::Late("the call has its result"));
    }
    if let Some(again) = another_try(&draft.session, &end) {
        draft.record(again, Origin::Daemon, stamp);
        return Ok(());
    }
    let artifacts = end.artifacts.iter().map(|stored| stored.artifact_id.clone()).collect();
    for stored in end.artifacts {
        draft.record(stored, Origin::Daemon, stamp);
    }
    if !end.files.is_empty() {
        let files =
            FilesChanged { call_id: end.call_id.clone(), changes: end.files, coverage: Coverage::Full };
        draft.record(files, Origin::Daemon, stamp);
    }
    let body = CallFinished {
        call_id: end.call_id,
        outcome: end.outcome,
        text: super::judge::spoken(end.text),
        exit_code: end.exit_code,
        signal: end.signal,
        duration_ms: end.duration_ms,
        truncation: end.truncation,
        artifacts,
        error_class: end.error_class,
        evidence: end.evidence,
        seen: end.seen,
        spent_evidence: end.spent_evidence,
    };
    draft.record(body, Origin::Daemon, stamp);
    Ok(())
}

/// The next try of a call whose failure passes by itself. Only for calls that may run twice, a few times, and not for one
/// that somebody wants to stop or whose turn is about to end.
fn another_try(session: &Session, end: &CallEnd) -> Option<EventBody> {
    let why = end.transient.clone()?;
    let turn = session.turn.as_ref()?;
    let call = turn.calls.iter().find(|call| call.call_id == end.call_id)?;
    let may_run_twice = call.effect != EffectClass::Unsafe && call.job.is_none();
    let goes_on = turn.ending.is_none() && turn.paused.is_none() && !call.interrupt;
    let tries_left = call.attempt <= limits::TOOL_RETRIES_MAX;
    (end.outcome == CallOutcome::Error && may_run_twice && goes_on && tries_left)
        .then(|| super::judge::start(call, Some(why)))
}
