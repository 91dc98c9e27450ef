//! The last step of the loop: what runs is held against what the state owes.
//!
//! Missing effects are started, superfluous ones cancelled. Stopping a call is a signal beside its run, which goes
//! on until it has reported what there was.

use super::actor::Mail;
use super::registry::Ports;
use crate::ports::{CallContext, EffectHandle, EffectMessage, Launch, SessionContext};
use agentd_core::call::Call;
use agentd_core::command::{ModelFailure, Report, Timer};
use agentd_core::effect::Effect;
use agentd_core::event::{Event, EventBody, FailureClass};
use agentd_core::ids::{CallId, ModelCallId};
use agentd_core::session::{Session, pending_effects};
use agentd_core::{limits, prompt};
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;

/// The effects that run for one session.
#[derive(Default)]
pub(super) struct Running {
    effects: HashMap<Effect, EffectHandle>,
}

impl Running {
    /// Starts what is owed and missing, cancels what is not owed any more.
    pub(super) fn reconcile(&mut self, session: &Session, ports: &Ports, mailbox: &mpsc::WeakSender<Mail>) {
        let owed = pending_effects(session);
        self.effects.retain(|effect, _| owed.contains(effect));
        for effect in owed {
            if self.effects.contains_key(&effect) {
                continue;
            }
            let handle = launch(&effect, session, ports, mailbox);
            self.effects.insert(effect, handle);
        }
    }

    /// A timer is over; if it is still owed it is set anew.
    pub(super) fn timer_fired(&mut self, timer: &Timer) {
        self.effects.retain(|effect, _| !matches!(effect, Effect::Wake { timer: set, .. } if set == timer));
    }

    /// Cancels everything.
    pub(super) fn stop_all(&mut self) {
        self.effects.clear();
    }
}

fn launch(
    effect: &Effect,
    session: &Session,
    ports: &Ports,
    mailbox: &mpsc::WeakSender<Mail>,
) -> EffectHandle {
    let call = |call_id: &CallId| call_context(session, call_id);
    let launch = match effect {
        Effect::Wake { timer, at_ms } => return wake(timer.clone(), *at_ms, ports, mailbox),
        Effect::CallModel { model_call_id } => match model_launch(session, model_call_id) {
            Ok(launch) => Some(launch),
            Err(failure) => {
                report(Report::ModelFailed(failure), mailbox);
                None
            }
        },
        Effect::Inspect { call_id } => call(call_id).map(Launch::Inspect),
        Effect::Run { call_id, .. } => call(call_id).map(Launch::Run),
        Effect::Follow { call_id } => call(call_id).map(Launch::Follow),
        Effect::Stop { call_id } => call(call_id).map(Launch::Stop),
    };
    let Some(launch) = launch else { return EffectHandle::none() };
    ports.effects.launch(launch, messages(mailbox))
}

/// A channel for one effect, whose messages go into the mailbox of the actor.
fn messages(mailbox: &mpsc::WeakSender<Mail>) -> mpsc::Sender<EffectMessage> {
    let (sender, mut receiver) = mpsc::channel(limits::MAILBOX_LEN);
    let mailbox = mailbox.clone();
    tokio::spawn(async move {
        while let Some(message) = receiver.recv().await {
            let Some(mailbox) = mailbox.upgrade() else { break };
            if mailbox.send(Mail::Effect(message)).await.is_err() {
                break;
            }
        }
    });
    sender
}

fn report(report: Report, mailbox: &mpsc::WeakSender<Mail>) {
    let mailbox = mailbox.clone();
    tokio::spawn(async move {
        if let Some(mailbox) = mailbox.upgrade() {
            let _ = mailbox.send(Mail::Effect(EffectMessage::Report(report))).await;
        }
    });
}

fn wake(timer: Timer, at_ms: i64, ports: &Ports, mailbox: &mpsc::WeakSender<Mail>) -> EffectHandle {
    let wait = Duration::from_millis(u64::try_from(at_ms - ports.clock.now_ms()).unwrap_or(0));
    let mailbox = mailbox.clone();
    let task = tokio::spawn(async move {
        tokio::time::sleep(wait).await;
        if let Some(mailbox) = mailbox.upgrade() {
            let _ = mailbox.send(Mail::Timer(timer)).await;
        }
    });
    EffectHandle::task(task.abort_handle())
}

/// The recorded request, built again from the log. It must be the same bytes, or the log does not say what was
/// sent; that is refused rather than sent.
fn model_launch(session: &Session, model_call_id: &ModelCallId) -> Result<Launch, Box<ModelFailure>> {
    let failure = |message: String| {
        Box::new(ModelFailure::new(model_call_id.clone(), FailureClass::Unsendable, message))
    };
    let open = session.turn.as_ref().and_then(|turn| turn.model.as_ref());
    let (Some(open), Some(context)) = (open, session_context(session)) else {
        return Err(failure("the model call is not recorded".to_owned()));
    };
    let built = prompt::build(session, open.included_seq, open.max_output_tokens)
        .map_err(|error| failure(error.to_string()))?;
    if built.hash != *open.request_hash {
        return Err(failure("the request built from the log is not the recorded one".to_owned()));
    }
    Ok(Launch::CallModel { session: context, model_call_id: model_call_id.clone(), body: built.body.into() })
}

fn session_context(session: &Session) -> Option<Arc<SessionContext>> {
    let created = session.created.as_ref()?;
    Some(Arc::new(SessionContext {
        session_id: created.session_id.clone(),
        cwd: created.cwd.clone(),
        root: created.root.clone(),
        settings: session.settings.as_deref()?.clone(),
        profile: Arc::new(session.epoch.as_ref()?.profile.clone()),
    }))
}

fn find<'a>(session: &'a Session, call_id: &CallId) -> Option<&'a Call> {
    session.turn.as_ref()?.calls.iter().find(|call| call.call_id == *call_id)
}

/// A call as the effects wing sees it.
pub(super) fn call_context(session: &Session, call_id: &CallId) -> Option<CallContext> {
    let call = find(session, call_id)?;
    Some(CallContext {
        session: session_context(session)?,
        call_id: call.call_id.clone(),
        tool: call.tool.to_string(),
        args: call.args.clone(),
        effect: call.effect,
        binding: call.binding().cloned(),
        job: call.job.as_ref().map(ToString::to_string),
        attempt: call.attempt,
        bounds: agentd_core::context::ResultBounds::of(session),
        seen_files: session.seen_files.clone(),
    })
}

/// The job folders that these events have made superfluous: those of every try of each call that has its result.
pub(super) fn spent_jobs(before: &Session, after: &Session, events: &[Event]) -> Vec<String> {
    let finished = events.iter().filter_map(|event| match &event.body {
        EventBody::CallFinished(body) => Some(&body.call_id),
        _ => None,
    });
    let calls = finished.filter_map(|call_id| find(before, call_id).or_else(|| find(after, call_id)));
    calls.flat_map(Call::job_names).collect()
}

/// The job folders that are still needed: those of calls without a result.
pub(super) fn open_jobs(session: &Session) -> impl Iterator<Item = String> {
    let calls = session.turn.iter().flat_map(|turn| &turn.calls).filter(|call| !call.is_finished());
    calls.flat_map(Call::job_names)
}
