//! Which fact is due now, without waiting for anything: the loop of a turn, one fact at a time.
//!
//! [`next_fact`] is a function of the state, the time and fresh ids alone. A log cut at any event goes on from there,
//! because nothing about the next step is held anywhere else.

use super::apply::final_call;
use super::decide::resumed;
use super::failed::mended_epoch;
use super::judge::{next_of_call, unknown, unrun};
use super::state::Session;
use crate::call::{Call, Stage};
use crate::event::{
    CallCheck, CallOutcome, CallRequested, CallValidated, Delivery, EventBody, FailureClass, GrantScope,
    InputDelivered, LimitName, LimitReached, ModelCallFailed, ModelCallStarted, NoticeAdded, NoticeKind,
    PauseReason, RequestClose, RequestClosed, Settings, TurnFinished, TurnPaused, TurnStarted, TurnStatus,
};
use crate::ids::{CallId, ModelCallId, RequestId, Stamp};
use crate::turn::{Ending, Fate, Message, OpenModelCall, Turn};
use crate::{limits, prompt};

/// The fact that is due, if one is.
pub(crate) fn next_fact(session: &Session, stamp: &mut Stamp) -> Option<EventBody> {
    let settings = session.settings.as_deref()?;
    let Some(turn) = &session.turn else { return begin_turn(session, stamp) };
    if let Some(input_id) = turn.undelivered.first() {
        return Some(InputDelivered { input_id: input_id.clone(), step: turn.steps }.into());
    }
    if let Some(fact) = expired_request(turn, stamp).or_else(|| next_request(session, turn, stamp)) {
        return Some(fact);
    }
    if let Some(ending) = &turn.ending {
        return end_turn(turn, ending);
    }
    // Nobody will say what became of it, so it is settled at once, also in a turn that waits.
    if !settings.attended
        && let Some(call) = turn.calls.iter().find(|call| call.stage == Stage::Unknown)
    {
        return Some(unknown(call).into());
    }
    if turn.paused.is_some() {
        return None;
    }
    if turn.resume_count >= limits::RESUMES_WITHOUT_PROGRESS_MAX {
        // The end of a call that was taken over is progress; nothing new begins before it.
        if turn.calls.iter().any(Call::is_started) {
            return time_limit(turn, settings, stamp);
        }
        let bound = i64::from(limits::RESUMES_WITHOUT_PROGRESS_MAX);
        return Some(reached(settings, LimitName::Resumes, i64::from(turn.resume_count), bound));
    }
    if let Some(fact) = turn.calls.iter().find_map(|call| next_of_call(session, settings, call, stamp)) {
        return Some(fact);
    }
    if turn.model.is_some() || !turn.calls_are_finished() {
        return time_limit(turn, settings, stamp);
    }
    if let Some(failure) = &turn.failure {
        return Some(failed(turn, failure));
    }
    if turn.limit.is_some() {
        return Some(pause(
            PauseReason::Limit,
            "ask the model for the next step, with the limits counted anew",
        ));
    }
    step_boundary(session, turn, settings, stamp)
}

fn begin_turn(session: &Session, stamp: &Stamp) -> Option<EventBody> {
    if session.archived || session.epoch.is_none() {
        return None;
    }
    let input = session.waiting.front()?;
    Some(
        TurnStarted {
            turn: session.turn_count + 1,
            input_ids: vec![input.input_id.clone()],
            run_id: stamp.run_id.clone(),
        }
        .into(),
    )
}

fn expired_request(turn: &Turn, stamp: &Stamp) -> Option<EventBody> {
    let open = turn.calls.iter().filter_map(|call| call.request.as_ref());
    let due = open.into_iter().find(|open| open.expires_at_ms <= stamp.now_ms)?;
    Some(closed(&due.request_id, RequestClose::Expired))
}

pub(super) fn closed(request_id: &RequestId, close: RequestClose) -> EventBody {
    RequestClosed {
        request_id: request_id.clone(),
        close,
        decision: None,
        scope: GrantScope::Once,
        reason: None,
    }
    .into()
}

/// The calls of the last message are requested in order, each with the verdict of its schema check.
fn next_request(session: &Session, turn: &Turn, stamp: &mut Stamp) -> Option<EventBody> {
    let message = turn.message.as_ref().filter(|message| message.fate.requests_calls())?;
    if let Some(call) = turn.calls.iter().find(|call| call.stage == Stage::Requested) {
        return Some(check(session, message, call));
    }
    let position = turn.calls.len();
    let wanted = message.calls().nth(position)?;
    Some(
        CallRequested {
            call_id: CallId::fresh(stamp),
            provider_call_id: wanted.provider_call_id.clone(),
            position: u32::try_from(position).unwrap_or(u32::MAX),
            tool: wanted.name.clone(),
            args: wanted.args.clone(),
            complete: wanted.complete,
        }
        .into(),
    )
}

/// The names of the offered tools, if this one is not among them. What was offered stands in the epoch.
fn not_offered(session: &Session, tool: &str) -> Option<Vec<String>> {
    #[derive(serde::Deserialize)]
    struct Offered {
        name: String,
    }
    let offered: Vec<Offered> = serde_json::from_str(session.epoch.as_ref()?.tools.get()).ok()?;
    let is_offered = offered.iter().any(|offered| offered.name == tool);
    (!is_offered).then(|| offered.into_iter().map(|offered| offered.name).collect())
}

fn check(session: &Session, message: &Message, call: &Call) -> EventBody {
    let max = session.max_calls();
    let refuse = |class: &str, text: String| {
        unrun(call.call_id.clone(), CallOutcome::Invalid, text, Some(class.to_owned())).into()
    };
    if message.fate != Fate::RunCalls {
        let word = message.stop.raw.as_deref().unwrap_or("nothing");
        return refuse(
            "cut_off",
            format!("Not executed: the answer stopped with {word}, so its calls were not run"),
        );
    }
    if call.position >= max {
        return refuse("too_many_calls", format!("Not executed: more than {max} calls in one message"));
    }
    if let Some(names) = not_offered(session, &call.tool) {
        let name: String = call.tool.chars().take(64).flat_map(char::escape_debug).collect();
        return refuse("unknown_tool", format!("Unknown tool {name}. Tools: [{}]", names.join(", ")));
    }
    let wanted = message.calls().nth(call.position as usize);
    match message.checks.get(call.position as usize) {
        // Whoever checked it: arguments that are not whole are never run.
        Some(CallCheck::Valid(_)) if wanted.is_none_or(|wanted| !wanted.complete) => {
            let fault = wanted.and_then(|wanted| wanted.fault.as_deref()).unwrap_or("they are not whole");
            refuse("arguments", format!("Invalid arguments for {}: {fault}", call.tool))
        }
        Some(CallCheck::Valid(effect)) => {
            CallValidated { call_id: call.call_id.clone(), effect: *effect }.into()
        }
        Some(CallCheck::Invalid { class, text }) => refuse(class, text.clone()),
        None => refuse("unchecked", "Not executed: the call was not checked against its schema".to_owned()),
    }
}

/// A turn that has to end first closes what is open; running calls report by themselves once stopped.
fn end_turn(turn: &Turn, ending: &Ending) -> Option<EventBody> {
    if let Some(open) = &turn.model {
        return Some(stopped(open, None).into());
    }
    for call in turn.calls.iter().filter(|call| !call.is_finished()) {
        if let Some(open) = &call.request {
            return Some(closed(&open.request_id, RequestClose::Withdrawn));
        }
        if call.stage == Stage::Unknown {
            return Some(unknown(call).into());
        }
        if !call.is_started() {
            let text = match &ending.error {
                None => "Interrupted: not executed".to_owned(),
                Some(error) => format!("Not executed: the turn ends ({error})"),
            };
            return Some(unrun(call.call_id.clone(), CallOutcome::Cancelled, text, None).into());
        }
    }
    turn.calls_are_finished().then(|| finish(turn, ending.status, ending.error.clone()))
}

/// The end of a model call that is not waited for any more, with what had been shown of it.
pub(super) fn stopped(open: &OpenModelCall, partial_text: Option<String>) -> ModelCallFailed {
    ModelCallFailed {
        partial_text: partial_text.filter(|text| !text.is_empty()),
        attempt: open.attempt,
        ..ModelCallFailed::new(
            open.model_call_id.clone(),
            FailureClass::Cancelled,
            "stopped before the answer was complete".to_owned(),
        )
    }
}

fn finish(turn: &Turn, status: TurnStatus, error: Option<String>) -> EventBody {
    TurnFinished {
        status,
        stop_raw: turn.message.as_ref().and_then(|message| message.stop.raw.clone()),
        final_model_call: (status == TurnStatus::Completed).then(|| final_call(turn)).flatten(),
        steps: turn.steps,
        usage: turn.usage,
        cost_micro_usd: turn.cost_micro_usd,
        cost_unknown: turn.cost_unknown,
        denied_unattended: turn.denied_unattended,
        error,
    }
    .into()
}

pub(super) fn pause(reason: PauseReason, next: &str) -> EventBody {
    TurnPaused { reason, next: next.to_owned() }.into()
}

/// Whether a call of the turn waits for a person's word on its outcome.
pub(super) fn has_unknown(turn: &Turn) -> bool {
    turn.calls.iter().any(|call| call.stage == Stage::Unknown)
}

fn time_limit(turn: &Turn, settings: &Settings, stamp: &Stamp) -> Option<EventBody> {
    let deadline = turn.deadline_ms(settings.limits.max_minutes)?;
    (deadline <= stamp.now_ms && turn.limit.is_none()).then(|| {
        let minutes = i64::from(settings.limits.max_minutes);
        reached(settings, LimitName::Minutes, minutes, minutes)
    })
}

fn reached(settings: &Settings, limit: LimitName, value: i64, bound: i64) -> EventBody {
    let action = if settings.attended && limit != LimitName::Resumes { "pause" } else { "stop" };
    LimitReached { limit, value, bound, action: action.to_owned() }.into()
}

fn failed(turn: &Turn, failure: &Ending) -> EventBody {
    // A key can be brought by any client, also to a session that nobody attends.
    if turn.failure_is_credentials {
        let why = failure.error.as_deref().unwrap_or("the key is missing or was refused");
        return pause(
            PauseReason::Credentials,
            &format!("ask the model again with the key of whoever resumes it ({why})"),
        );
    }
    finish(turn, failure.status, failure.error.clone())
}

/// All calls have their results and no model call is open: what now?
fn step_boundary(
    session: &Session,
    turn: &Turn,
    settings: &Settings,
    stamp: &mut Stamp,
) -> Option<EventBody> {
    if let Some(message) = &turn.message
        && let Some(fact) = after_answer(session, turn, settings, message)
    {
        return Some(fact);
    }
    if let Some(steered) = session.waiting.iter().find(|input| input.delivery == Delivery::Steer) {
        return Some(InputDelivered { input_id: steered.input_id.clone(), step: turn.steps }.into());
    }
    if let Some(fact) = step_limit(turn, settings).or_else(|| time_limit(turn, settings, stamp)) {
        return Some(fact);
    }
    if turn.retry.as_ref().is_some_and(|retry| retry.at_ms > stamp.now_ms) {
        return None;
    }
    // What the last request was refused for is mended before the next one.
    if let Some(mend) = turn.retry.as_ref().and_then(|retry| retry.mend)
        && let Some(epoch) = mended_epoch(session, mend)
    {
        return Some(epoch.into());
    }
    Some(call_model(session, turn, stamp))
}

/// What the last answer asks for, if not simply the next step.
fn after_answer(session: &Session, turn: &Turn, settings: &Settings, message: &Message) -> Option<EventBody> {
    let raw = message.stop.raw.as_deref().unwrap_or("none");
    let steered = || session.waiting.iter().any(|input| input.delivery == Delivery::Steer);
    match message.fate {
        Fate::RunCalls | Fate::RetryLarger => None,
        Fate::Complete => (!steered()).then(|| finish(turn, TurnStatus::Completed, None)),
        Fate::Empty if turn.nudges < limits::EMPTY_NUDGES_MAX => {
            let text = "Your last answer was empty. Continue, or say that you are done.".to_owned();
            Some(NoticeAdded { kind: NoticeKind::Nudge, text }.into())
        }
        Fate::Empty => {
            Some(finish(turn, TurnStatus::Empty, Some("the model answered with nothing, twice".to_owned())))
        }
        Fate::Continue if turn.continuations <= limits::PAUSE_TURN_MAX => None,
        Fate::Continue => {
            let (value, bound) = (i64::from(turn.continuations), i64::from(limits::PAUSE_TURN_MAX));
            Some(reached(settings, LimitName::Continuations, value, bound))
        }
        Fate::Truncated => {
            let error = format!("the answer was cut off (stop reason {raw})");
            Some(finish(turn, TurnStatus::Truncated, Some(error)))
        }
        Fate::Refused => {
            let why = message.stop.explanation.as_deref().unwrap_or("no explanation was given");
            Some(finish(
                turn,
                TurnStatus::Refused,
                Some(format!("the model refused (stop reason {raw}): {why}")),
            ))
        }
        Fate::Unknown => {
            let error = format!("the provider stopped with {raw:?}, which this build does not know");
            Some(finish(turn, TurnStatus::Failed, Some(error)))
        }
    }
}

fn step_limit(turn: &Turn, settings: &Settings) -> Option<EventBody> {
    let bounds = &settings.limits;
    let steps = turn.steps - turn.steps_base;
    let cost = turn.cost_micro_usd.saturating_sub(turn.cost_base);
    let failures = turn.failures.iter().map(|failures| failures.count).max().unwrap_or(0);
    let limit = if failures >= limits::BREAKER_STOP_AT {
        (LimitName::RepeatedFailures, i64::from(failures), i64::from(limits::BREAKER_STOP_AT))
    } else if steps >= bounds.max_steps {
        (LimitName::Steps, i64::from(steps), i64::from(bounds.max_steps))
    } else if bounds.max_cost_micro_usd > 0 && cost >= bounds.max_cost_micro_usd {
        (LimitName::Cost, cost, bounds.max_cost_micro_usd)
    } else {
        return None;
    };
    Some(reached(settings, limit.0, limit.1, limit.2))
}

fn call_model(session: &Session, turn: &Turn, stamp: &mut Stamp) -> EventBody {
    let attempt = turn.retry.as_ref().map_or(1, |retry| retry.attempt + 1);
    let Some(epoch) = &session.epoch else {
        return finish(turn, TurnStatus::Failed, Some("the session has no epoch".to_owned()));
    };
    let max_output_tokens = session.output_tokens(turn.truncated_retries);
    match prompt::build(session, session.last_seq, max_output_tokens) {
        Ok(built) => ModelCallStarted {
            model_call_id: ModelCallId::fresh(stamp),
            purpose: "turn".to_owned(),
            attempt,
            provider: epoch.profile.provider.clone(),
            model: epoch.profile.model.clone(),
            epoch: epoch.epoch,
            included_seq: session.last_seq,
            request_hash: built.hash,
            body_bytes: built.body.len() as u64,
            est_tokens: built.est_tokens,
            max_output_tokens,
        }
        .into(),
        Err(error) => finish(turn, TurnStatus::Failed, Some(error.to_string())),
    }
}

/// The resume that a new run of the daemon gives a turn that goes on by itself.
pub(crate) fn resumed_by_itself(session: &Session, stamp: &Stamp) -> EventBody {
    resumed(session, Vec::new(), false, stamp).into()
}
