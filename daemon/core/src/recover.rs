//! What a new run of the daemon makes of work that was in flight.
//!
//! There is no shutdown save: stop, crash and kill -9 are the same path through here. The shell gathers
//! evidence about each started call; this module turns evidence into facts, and the ordinary loop goes on.
//!
//! Invariants: an unsafe call is started again only when the evidence shows that it never began; a call
//! whose outcome is not known waits for a person where there is one; a session that is to wait makes no model
//! request before somebody tells it to go on.

use crate::call::{Call, Stage, is_eligible};
use crate::event::{
    CallAdopted, EffectClass, FailureClass, InputDelivered, ModelCallFailed, OnRestart, Origin, PauseReason,
    RecoveredCall, SessionRecovered, TurnPaused, TurnStarted,
};
use crate::ids::{CallId, Stamp};
use crate::session::{Decision, Draft, Session};
use std::collections::BTreeMap;

/// What the evidence says of one started call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Found {
    /// It never began and cannot begin any more by the old start.
    NotStarted {
        /// What shows it.
        evidence: String,
    },
    /// It runs.
    Running(CallAdopted),
    /// It ended; its result waits to be read.
    Finished {
        /// What shows it.
        evidence: String,
    },
    /// It may or may not have happened.
    Unknown {
        /// What is known.
        evidence: String,
    },
}

/// The calls whose evidence has to be gathered before [`recover`].
pub fn calls_in_question(session: &Session) -> Vec<CallId> {
    let calls = session.turn.iter().flat_map(|turn| &turn.calls);
    calls.filter(|call| call.is_started()).map(|call| call.call_id.clone()).collect()
}

/// Decides what the evidence comes to. A session without open work comes to nothing.
pub fn recover(session: &Session, found: &BTreeMap<CallId, Found>, stamp: &mut Stamp) -> Decision {
    let mut draft = Draft::on(session);
    let waits = session.settings.as_ref().is_none_or(|settings| settings.on_restart == OnRestart::Wait);
    if session.turn.is_none() && session.waiting.is_empty() {
        return Decision { events: Vec::new(), next: draft.session };
    }
    if session.turn.is_none() && !session.archived && session.epoch.is_some() {
        begin_accepted_input(&mut draft, stamp);
    }
    if draft.session.turn.is_none() {
        return Decision { events: draft.events, next: draft.session };
    }
    let previous = session.turn.as_ref().map(|turn| turn.run_id.clone());
    let calls = classify(&draft.session, found);
    let was_at_work = !waits_for_answers_only(&draft.session, stamp.now_ms);
    close_model_call(&mut draft, stamp);
    let ends = draft.session.turn.as_ref().is_some_and(|turn| turn.ending.is_some());
    let pauses = waits && was_at_work && !ends;
    let next = next_words(&draft.session, &calls, pauses);
    for body in
        calls.iter().filter_map(|(_, found)| if let Found::Running(body) = found { Some(body) } else { None })
    {
        draft.record(body.clone(), Origin::Daemon, stamp);
    }
    let recovered = SessionRecovered {
        run_id: stamp.run_id.clone(),
        previous_run_id: previous,
        calls: calls.iter().map(|(call_id, found)| recovered_call(call_id, found)).collect(),
        next: next.clone(),
    };
    draft.record(recovered, Origin::Daemon, stamp);
    let paused = draft.session.turn.as_ref().and_then(|turn| turn.paused.as_ref()).map(|pause| pause.reason);
    let asks = draft.session.settings.as_ref().is_some_and(|settings| settings.attended)
        && draft.session.turn.as_ref().is_some_and(has_unknown);
    let reason = if asks { PauseReason::UnknownCall } else { PauseReason::Interrupted };
    if pauses && (paused.is_none() || (asks && paused != Some(reason))) {
        draft.record(TurnPaused { reason, next }, Origin::Daemon, stamp);
    } else if !waits && was_at_work && !ends && paused.is_none() {
        let resumed = crate::session::resumed_by_itself(&draft.session, stamp);
        draft.record(resumed, Origin::Daemon, stamp);
    }
    draft.settle(stamp)
}

pub(crate) fn has_unknown(turn: &crate::turn::Turn) -> bool {
    turn.calls.iter().any(|call| call.stage == Stage::Unknown)
}

/// An input that was accepted but whose turn had not begun begins now, so that a waiting session shows it.
fn begin_accepted_input(draft: &mut Draft, stamp: &mut Stamp) {
    let Some(input_id) = draft.session.waiting.front().map(|input| input.input_id.clone()) else { return };
    let started = TurnStarted {
        turn: draft.session.turn_count + 1,
        input_ids: vec![input_id.clone()],
        run_id: stamp.run_id.clone(),
    };
    draft.record(started, Origin::Daemon, stamp);
    draft.record(InputDelivered { input_id, step: 0 }, Origin::Daemon, stamp);
}

/// Whether nothing but the answer of a person was going to move the turn.
fn waits_for_answers_only(session: &Session, now_ms: i64) -> bool {
    let (Some(turn), Some(settings)) = (&session.turn, &session.settings) else { return false };
    let wanted = turn.message.as_ref().map_or(0, |message| message.calls().count());
    let waits = |index: usize, call: &Call| match (&call.stage, &call.request) {
        (Stage::Finished(_), _) => true,
        // One that expired while nobody was there moves the turn.
        (Stage::Asked, Some(request)) => request.expires_at_ms > now_ms && !call.interrupt,
        (Stage::Validated, _) => {
            !call.interrupt && !is_eligible(&turn.calls, index, settings.limits.parallel_read_only)
        }
        _ => false,
    };
    turn.model.is_none()
        && turn.undelivered.is_empty()
        && turn.calls.len() == wanted
        && turn.calls.iter().any(|call| call.request.is_some())
        && turn.calls.iter().enumerate().all(|(index, call)| waits(index, call))
}

fn classify(session: &Session, found: &BTreeMap<CallId, Found>) -> Vec<(CallId, Found)> {
    let calls = session.turn.iter().flat_map(|turn| &turn.calls).filter(|call| call.is_started());
    calls
        .map(|call| {
            let verdict = found.get(&call.call_id).cloned().unwrap_or_else(|| {
                let evidence = "no evidence was gathered".to_owned();
                if call.effect == EffectClass::ReadOnly {
                    Found::NotStarted { evidence }
                } else {
                    Found::Unknown { evidence }
                }
            });
            (call.call_id.clone(), verdict)
        })
        .collect()
}

fn recovered_call(call_id: &CallId, found: &Found) -> RecoveredCall {
    let (word, evidence) = match found {
        Found::NotStarted { evidence } => ("not_started", evidence.clone()),
        Found::Running(body) => ("running", format!("supervisor {} of this boot is alive", body.pid)),
        Found::Finished { evidence } => ("finished", evidence.clone()),
        Found::Unknown { evidence } => ("unknown", evidence.clone()),
    };
    RecoveredCall { call_id: call_id.clone(), found: word.to_owned(), evidence }
}

fn close_model_call(draft: &mut Draft, stamp: &mut Stamp) {
    let Some(turn) = &draft.session.turn else { return };
    let Some(open) = &turn.model else { return };
    // The daemon's own end is not the provider's failure; the counter of resumes bounds these attempts.
    let again = turn.ending.is_none();
    let class = if again { FailureClass::Interrupted } else { FailureClass::Cancelled };
    let message = "the daemon ended before the answer was complete; it is asked for again".to_owned();
    let body = ModelCallFailed {
        retry_at_ms: again.then_some(stamp.now_ms),
        attempt: open.attempt,
        ..ModelCallFailed::new(open.model_call_id.clone(), class, message)
    };
    draft.record(body, Origin::Daemon, stamp);
}

/// What the session does now, in words a person can act on.
fn next_words(session: &Session, calls: &[(CallId, Found)], pauses: bool) -> String {
    let count = |pick: fn(&Found) -> bool| calls.iter().filter(|(_, found)| pick(found)).count();
    let mut words = Vec::new();
    for (number, what) in [
        (count(|found| matches!(found, Found::Running(_))), "running, followed to its end"),
        (count(|found| matches!(found, Found::Finished { .. })), "ended meanwhile, its result is recorded"),
        (count(|found| matches!(found, Found::NotStarted { .. })), "never begun, to be started"),
        (count(|found| matches!(found, Found::Unknown { .. })), "of unknown outcome, not run again"),
    ] {
        if number > 0 {
            words.push(format!("{number} call {what}"));
        }
    }
    let asked = session.turn.as_ref().is_some_and(|turn| turn.retry.is_some());
    words.push(if asked { "ask the model again".to_owned() } else { "go on with the turn".to_owned() });
    let words = words.join("; ");
    if pauses { format!("{words} (once resumed)") } else { words }
}
