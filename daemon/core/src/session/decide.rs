//! From an input to facts.
//!
//! An input gives its own facts, in this file; then every fact that is due follows
//! ([`super::advance::next_fact`]). Both are folded at once into a copy of the state, so what is decided later in
//! the same transaction sees what was decided earlier.

use super::advance::next_fact;
use super::apply::input_resumes;
use super::report::report_facts;
use super::state::Session;
use crate::command::{ChangeSession, Command, CreateSession, Input, Reject, ResolveCall};
use crate::event::{
    Delivery, EpochStarted, Event, EventBody, GrantScope, InputAccepted, InputPart, InputWithdrawn,
    InterruptRequested, Origin, PauseReason, RequestClose, RequestClosed, Resolution, SessionChanged,
    SessionCreated, TurnResumed, TurnStatus, Verdict,
};
use crate::ids::{InputId, RequestId, Stamp};
use crate::limits;
use crate::turn::{Message, Turn};

/// What came of an input.
#[derive(Debug)]
pub struct Decision {
    /// The facts, numbered after the state they were decided on.
    pub events: Vec<Event>,
    /// The state with them folded in.
    pub next: Session,
}

/// A copy of the state that grows fact by fact.
pub(crate) struct Draft {
    pub(crate) session: Session,
    pub(crate) events: Vec<Event>,
}

impl Draft {
    pub(crate) fn on(session: &Session) -> Self {
        Self { session: session.clone(), events: Vec::new() }
    }

    pub(crate) fn record(&mut self, body: impl Into<EventBody>, origin: Origin, stamp: &Stamp) {
        let mut body = body.into();
        if let EventBody::CallFinished(end) = &mut body {
            super::calls::advise(&self.session, end);
        }
        let turn = match &body {
            EventBody::TurnStarted(started) => Some(started.turn),
            EventBody::InputAccepted(_)
            | EventBody::InputWithdrawn(_)
            | EventBody::SessionChanged(_)
            | EventBody::SessionCreated(_) => None,
            _ => self.session.turn.as_ref().map(|turn| turn.no),
        };
        // Wall clocks step back; the times of a log do not.
        let at_ms = stamp.now_ms.max(self.session.updated_at_ms);
        let event = Event { seq: self.session.last_seq + 1, at_ms, turn, origin, body };
        self.session.apply(&event);
        self.events.push(event);
    }

    /// Records every fact that is due.
    pub(crate) fn settle(mut self, stamp: &mut Stamp) -> Decision {
        // Each fact moves the state; the bound only turns a mistake here into an error instead of a hang.
        let calls =
            self.session.turn.iter().filter_map(|turn| turn.message.as_ref()).flat_map(Message::calls);
        for _ in 0..SETTLE_MAX.saturating_add(calls.count() * SETTLE_PER_CALL) {
            let Some(body) = next_fact(&self.session, stamp) else { break };
            let origin =
                if matches!(body, EventBody::CallRequested(_)) { Origin::Model } else { Origin::Daemon };
            self.record(body, origin, stamp);
        }
        Decision { events: self.events, next: self.session }
    }
}

/// Facts that can be due at once without calls: the end of a turn and the beginning of the next.
const SETTLE_MAX: usize = 256;
/// Facts that can be due at once for one call: requested, validated, judged, asked, answered, started, finished.
const SETTLE_PER_CALL: usize = 8;

/// Decides what an input comes to. A refused input changes nothing; a late report comes to no facts.
pub fn decide(
    session: &Session,
    input: Input,
    origin: &Origin,
    stamp: &mut Stamp,
) -> Result<Decision, Reject> {
    let mut draft = Draft::on(session);
    match input {
        Input::Command(command) => command_facts(&mut draft, command, origin, stamp)?,
        Input::Report(report) => report_facts(&mut draft, report, stamp)?,
        Input::Timer(_) => {}
    }
    Ok(draft.settle(stamp))
}

fn command_facts(
    draft: &mut Draft,
    command: Command,
    origin: &Origin,
    stamp: &mut Stamp,
) -> Result<(), Reject> {
    if let Command::Create(create) = command {
        return create_facts(draft, *create, origin, stamp);
    }
    if draft.session.created.is_none() {
        return Err(Reject::Existence("does not exist"));
    }
    match command {
        Command::Create(_) => Ok(()),
        Command::SendInput { parts, delivery } => input_facts(draft, parts, delivery, origin, stamp),
        Command::WithdrawInput { input_id } => withdraw_facts(draft, input_id, origin, stamp),
        Command::Interrupt { turn, call_id, partial_text } => {
            let running = draft.session.turn.as_ref();
            if let Some(asked) = turn
                && running.map(|turn| turn.no) != Some(asked)
            {
                return Err(Reject::TurnMismatch { asked, running: running.map(|turn| turn.no) });
            }
            if let Some(call_id) = &call_id
                && !running.is_some_and(|turn| {
                    turn.calls.iter().any(|call| call.call_id == *call_id && !call.is_finished())
                })
            {
                return Err(Reject::CallNotOpen(call_id.clone()));
            }
            interrupt_facts(draft, call_id, partial_text, origin, stamp);
            Ok(())
        }
        Command::Resume { resolutions, extend_limits } => {
            resume_facts(draft, resolutions, extend_limits, origin, stamp)
        }
        Command::Answer { request_id, shown_hash, decision, scope, reason } => {
            let closed = answer(&draft.session, &request_id, shown_hash.as_deref(), decision, scope, reason)?;
            draft.record(closed, origin.clone(), stamp);
            Ok(())
        }
        Command::Change(change) => change_facts(draft, change, origin, stamp),
        Command::StartEpoch(epoch) => {
            if draft.session.turn.is_some() {
                return Err(Reject::TurnOpen);
            }
            start_epoch(draft, *epoch, stamp);
            Ok(())
        }
    }
}

fn interrupt_facts(
    draft: &mut Draft,
    call_id: Option<crate::ids::CallId>,
    partial_text: Option<String>,
    origin: &Origin,
    stamp: &Stamp,
) {
    let Some(turn) = &draft.session.turn else { return };
    let is_ending = turn.ending.as_ref().is_some_and(|ending| ending.status == TurnStatus::Interrupted);
    if is_ending {
        return;
    }
    let stopped = match (&call_id, &turn.model) {
        (None, Some(open)) => Some(super::advance::stopped(open, partial_text)),
        _ => None,
    };
    draft.record(InterruptRequested { call_id }, origin.clone(), stamp);
    if let Some(stopped) = stopped {
        draft.record(stopped, Origin::Daemon, stamp);
    }
}

fn create_facts(
    draft: &mut Draft,
    create: CreateSession,
    origin: &Origin,
    stamp: &mut Stamp,
) -> Result<(), Reject> {
    if draft.session.created.is_some() {
        return Err(Reject::Existence("exists already"));
    }
    let body = SessionCreated {
        session_id: create.session_id,
        cwd: create.cwd,
        root: create.root,
        settings: create.settings,
        parent: create.parent,
    };
    draft.record(body, origin.clone(), stamp);
    start_epoch(draft, create.epoch, stamp);
    Ok(())
}

fn start_epoch(draft: &mut Draft, mut epoch: EpochStarted, stamp: &Stamp) {
    super::failed::carry(&draft.session, &mut epoch);
    epoch.epoch = draft.session.epoch.as_ref().map_or(1, |current| current.epoch + 1);
    draft.record(epoch, Origin::Daemon, stamp);
}

fn input_facts(
    draft: &mut Draft,
    parts: Vec<InputPart>,
    delivery: Delivery,
    origin: &Origin,
    stamp: &mut Stamp,
) -> Result<(), Reject> {
    let bytes: usize =
        parts.iter().map(|part| if let InputPart::Text(text) = part { text.len() } else { 0 }).sum();
    let says_something = parts.iter().any(|part| match part {
        InputPart::Text(text) => !text.trim().is_empty(),
        InputPart::Artifact(_) | InputPart::FileRef(_) => true,
    });
    if !says_something {
        return Err(Reject::InputEmpty);
    }
    if bytes > limits::INPUT_MAX_BYTES {
        return Err(Reject::InputTooLarge { bytes, max: limits::INPUT_MAX_BYTES });
    }
    let waiting = draft.session.waiting.len();
    if waiting >= limits::QUEUED_INPUTS_MAX {
        return Err(Reject::QueueFull { waiting });
    }
    let input_id = InputId::fresh(stamp);
    draft.record(InputAccepted { input_id, delivery, parts }, origin.clone(), stamp);
    // What a person writes to a waiting turn is also the word to go on.
    let resumes = draft.session.turn.as_ref().is_some_and(|turn| {
        turn.paused.as_ref().is_some_and(|pause| input_resumes(pause.reason))
            && !super::advance::has_unknown(turn)
    });
    if resumes {
        let limit = draft.session.turn.as_ref().is_some_and(is_at_limit);
        let resumed = resumed(&draft.session, Vec::new(), limit, stamp);
        draft.record(resumed, origin.clone(), stamp);
    }
    Ok(())
}

fn withdraw_facts(
    draft: &mut Draft,
    input_id: InputId,
    origin: &Origin,
    stamp: &mut Stamp,
) -> Result<(), Reject> {
    let begun = draft.session.turn.as_ref().is_some_and(|turn| turn.undelivered.contains(&input_id));
    if begun || !draft.session.waiting.iter().any(|input| input.input_id == input_id) {
        return Err(Reject::InputNotWaiting(input_id));
    }
    draft.record(InputWithdrawn { input_id, reason: "taken back".to_owned() }, origin.clone(), stamp);
    Ok(())
}

fn is_at_limit(turn: &Turn) -> bool {
    turn.paused.as_ref().is_some_and(|pause| pause.reason == PauseReason::Limit)
}

pub(super) fn resumed(
    session: &Session,
    resolutions: Vec<Resolution>,
    limits_extended: bool,
    stamp: &Stamp,
) -> TurnResumed {
    let before = session.turn.as_ref().map_or(0, |turn| turn.resume_count);
    // The counter is about restarts that lead nowhere; a person who mends a key or extends a limit is none.
    let after_restart = session
        .turn
        .as_ref()
        .and_then(|turn| turn.paused.as_ref())
        .is_none_or(|pause| matches!(pause.reason, PauseReason::Interrupted | PauseReason::UnknownCall));
    let resume_count = before.saturating_add(u32::from(after_restart));
    TurnResumed { run_id: stamp.run_id.clone(), resume_count, limits_extended, resolutions }
}

fn resume_facts(
    draft: &mut Draft,
    resolutions: Vec<ResolveCall>,
    extend_limits: bool,
    origin: &Origin,
    stamp: &mut Stamp,
) -> Result<(), Reject> {
    let Some(turn) = draft.session.turn.as_ref().filter(|turn| turn.paused.is_some()) else {
        return Err(Reject::NotPaused);
    };
    for said in &resolutions {
        let known = turn
            .calls
            .iter()
            .any(|call| call.call_id == said.call_id && call.stage == crate::call::Stage::Unknown);
        if !known {
            return Err(Reject::CallNotUnknown(said.call_id.clone()));
        }
    }
    let left = turn.calls.iter().find(|call| {
        call.stage == crate::call::Stage::Unknown
            && !resolutions.iter().any(|said| said.call_id == call.call_id)
    });
    if let Some(call) = left {
        return Err(Reject::CallStillUnknown(call.call_id.clone()));
    }
    let extend = extend_limits || is_at_limit(turn);
    let resolutions = resolutions
        .into_iter()
        .map(|said| Resolution { call_id: said.call_id, resolution: said.resolution, text: said.text })
        .collect();
    let resumed = resumed(&draft.session, resolutions, extend, stamp);
    draft.record(resumed, origin.clone(), stamp);
    Ok(())
}

fn answer(
    session: &Session,
    request_id: &RequestId,
    shown_hash: Option<&str>,
    decision: Verdict,
    scope: GrantScope,
    reason: Option<String>,
) -> Result<RequestClosed, Reject> {
    let open = session.turn.as_ref().and_then(|turn| {
        turn.calls.iter().filter_map(|call| call.request.as_ref()).find(|open| open.request_id == *request_id)
    });
    let Some(open) = open else {
        return Err(match session.closed_requests.iter().find(|closed| closed.request_id == *request_id) {
            Some(closed) => Reject::RequestClosed { request_id: request_id.clone(), how: closed.how.clone() },
            None => Reject::RequestNotFound(request_id.clone()),
        });
    };
    if shown_hash.is_some_and(|hash| hash != open.shown_hash) {
        return Err(Reject::ShownHashMismatch(request_id.clone()));
    }
    if decision == Verdict::Allow && !open.scopes.contains(&scope) {
        return Err(Reject::ScopeNotOffered(scope));
    }
    let decision = if decision == Verdict::Allow { Verdict::Allow } else { Verdict::Deny };
    Ok(RequestClosed {
        request_id: request_id.clone(),
        close: RequestClose::Answered,
        decision: Some(decision),
        scope,
        reason,
    })
}

fn change_facts(
    draft: &mut Draft,
    change: ChangeSession,
    origin: &Origin,
    stamp: &mut Stamp,
) -> Result<(), Reject> {
    if let Some(expected) = change.expected_seq
        && expected != draft.session.last_seq
    {
        return Err(Reject::SeqConflict { expected, current: draft.session.last_seq });
    }
    let (model, epoch) = match change.model {
        Some(_) if draft.session.turn.is_some() => return Err(Reject::TurnOpen),
        Some((model, epoch)) => (Some(model), Some(epoch)),
        None => (None, None),
    };
    let body = SessionChanged {
        name: change.name,
        model,
        mode: change.mode,
        on_restart: change.on_restart,
        limits: change.limits,
        archived: change.archived,
        record: change.record,
    };
    draft.record(body, origin.clone(), stamp);
    if let Some(epoch) = epoch.filter(|epoch| begins_another_prefix(&draft.session, epoch)) {
        start_epoch(draft, *epoch, stamp);
    }
    Ok(())
}

/// Whether an epoch would send anything else than the one in use: the same model again keeps its prefix, its cache and
/// its thinking.
fn begins_another_prefix(session: &Session, epoch: &EpochStarted) -> bool {
    session.epoch.as_ref().is_none_or(|current| {
        current.profile != epoch.profile
            || current.system != epoch.system
            || current.tools.get() != epoch.tools.get()
    })
}
