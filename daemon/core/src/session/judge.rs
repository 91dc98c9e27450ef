//! What is due for one call: judged, asked about, started, or ended without having run.
//!
//! Invariant: a call is started only by [`start_if_allowed`], which judges it under the settings of that moment.

use super::advance::{closed, pause};
use super::state::Session;
use crate::call::{Call, Stage};
use crate::command::Inspection;
use crate::event::{
    CallDecided, CallFinished, CallOutcome, CallResolution, CallStarted, EventBody, GrantScope, PauseReason,
    RequestClose, RequestKind, RequestOpened, Settings, Verdict,
};
use crate::ids::{CallId, RequestId, Stamp};
use crate::policy;
use sha2::{Digest, Sha256};

/// A result for a call that does not run.
pub(super) fn unrun(
    call_id: CallId,
    outcome: CallOutcome,
    text: String,
    error_class: Option<String>,
) -> CallFinished {
    CallFinished {
        call_id,
        outcome,
        text: spoken(text),
        exit_code: None,
        signal: None,
        duration_ms: 0,
        truncation: None,
        artifacts: Vec::new(),
        error_class,
        evidence: None,
        seen: Vec::new(),
        spent_evidence: false,
    }
}

/// A result is never empty: providers refuse empty text.
pub(super) fn spoken(text: String) -> String {
    if text.trim().is_empty() { "(no output)".to_owned() } else { text }
}

pub(super) fn unknown(call: &Call) -> CallFinished {
    let evidence = call.evidence.as_deref().unwrap_or("nothing is known about it");
    let text = format!(
        "Outcome unknown: the daemon ended while this call ran ({evidence}). It may or may not have happened; it was not \
         run again. Check before repeating it."
    );
    let mut body = unrun(call.call_id.clone(), CallOutcome::Unknown, text, Some("unknown".to_owned()));
    body.evidence = Some(evidence.to_owned());
    body.spent_evidence = call.job.is_some();
    body
}

pub(super) fn next_of_call(
    session: &Session,
    settings: &Settings,
    call: &Call,
    stamp: &mut Stamp,
) -> Option<EventBody> {
    if call.interrupt && !call.is_started() && !call.is_finished() && call.stage != Stage::Unknown {
        if let Some(open) = &call.request {
            return Some(closed(&open.request_id, RequestClose::Withdrawn));
        }
        let text = "Interrupted: not executed".to_owned();
        return Some(unrun(call.call_id.clone(), CallOutcome::Cancelled, text, None).into());
    }
    match &call.stage {
        Stage::Inspected => Some(judge(session, settings, call)),
        Stage::Decided(Verdict::Allow) | Stage::Answered(Verdict::Allow) | Stage::NotBegun => {
            Some(start_if_allowed(session, settings, call))
        }
        Stage::Decided(Verdict::Ask) => Some(ask(settings, call, stamp)),
        Stage::Decided(Verdict::Deny) | Stage::Answered(_) => Some(denied(call).into()),
        Stage::Unknown => Some(settle_unknown(session, settings, call)),
        Stage::Requested | Stage::Validated | Stage::Asked | Stage::Started | Stage::Finished(_) => None,
    }
}

/// Starts a call that was allowed, unless the mode became stricter since: between a decision and its start lie
/// a question to a person, or a restart.
fn start_if_allowed(session: &Session, settings: &Settings, call: &Call) -> EventBody {
    match judge(session, settings, call) {
        EventBody::CallDecided(judged)
            if judged.verdict == Verdict::Deny && !(judged.unattended && call.approved) =>
        {
            judged.into()
        }
        EventBody::CallDecided(judged) if judged.verdict == Verdict::Ask && !call.approved => judged.into(),
        EventBody::CallDecided(_) => start(call, None),
        refused => refused,
    }
}

fn judge(session: &Session, settings: &Settings, call: &Call) -> EventBody {
    let Some(facts) = &call.facts else {
        return denied(call).into();
    };
    let found = Inspection {
        paths: facts.paths.clone(),
        command: facts.command.clone(),
        preview: None,
        binding: facts.binding.clone(),
        sandbox: facts.sandbox.clone(),
    };
    let question =
        policy::Question { mode: settings.mode, tool: &call.tool, effect: call.effect, facts: &found };
    let judged = policy::decide(&question);
    let unattended = judged.verdict == Verdict::Ask && !session.can_ask();
    let (verdict, reason) = if unattended {
        (Verdict::Deny, format!("{}; nobody can approve it in this session", judged.reason))
    } else {
        (judged.verdict, judged.reason)
    };
    CallDecided {
        call_id: call.call_id.clone(),
        verdict,
        rule: Some(judged.rule),
        reason,
        sandbox: call.sandbox.to_string(),
        unattended,
    }
    .into()
}

/// Begins a try of a call; `repeats` says why the one before failed, if it repeats one.
pub(super) fn start(call: &Call, repeats: Option<String>) -> EventBody {
    let attempt = call.attempt + 1;
    let job =
        call.facts.as_ref().is_some_and(|facts| facts.command.is_some()).then(|| call.job_name(attempt));
    CallStarted {
        call_id: call.call_id.clone(),
        attempt,
        effect: call.effect,
        job,
        binding: call.binding().cloned(),
        repeats,
    }
    .into()
}

fn ask(settings: &Settings, call: &Call, stamp: &mut Stamp) -> EventBody {
    let shown = call
        .facts
        .as_ref()
        .and_then(|facts| facts.preview.clone())
        .unwrap_or_else(|| format!("{} {}", call.tool, call.args.get()));
    RequestOpened {
        request_id: RequestId::fresh(stamp),
        kind: RequestKind::Approval,
        call_id: call.call_id.clone(),
        tool: call.tool.to_string(),
        shown_hash: shown_hash(&shown, call),
        shown,
        reason: told_of_sandbox(call),
        scopes: vec![GrantScope::Once],
        expires_at_ms: stamp.now_ms.saturating_add(settings.approvals_expire_ms),
    }
    .into()
}

/// Why it asks, and that nothing would hold a command back if nothing would.
fn told_of_sandbox(call: &Call) -> String {
    let is_command = call.facts.as_ref().is_some_and(|facts| facts.command.is_some());
    if is_command && &*call.sandbox == policy::NO_SANDBOX {
        format!("{}; no sandbox holds it: it would run with all your rights", call.reason)
    } else {
        call.reason.to_string()
    }
}

/// The hash that an answer names: over what is shown and what the call holds on to.
fn shown_hash(shown: &str, call: &Call) -> String {
    let mut hash = Sha256::new();
    hash.update(shown.as_bytes());
    hash.update([0]);
    hash.update(call.args.get().as_bytes());
    hash.update([0]);
    if let Some(binding) = call.binding() {
        hash.update(format!("{binding:?}").as_bytes());
    }
    hex(&hash.finalize())
}

/// Bytes in lower-case hex.
pub(crate) fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

fn denied(call: &Call) -> CallFinished {
    let by_a_person = matches!(call.stage, Stage::Answered(_)) && &*call.reason != "nobody answered in time";
    let why = match (&call.answer_reason, by_a_person) {
        (Some(said), true) => format!("the user denied it: {said}"),
        (None, true) => "the user denied it".to_owned(),
        (_, false) => call.reason.to_string(),
    };
    unrun(
        call.call_id.clone(),
        CallOutcome::Denied,
        format!("Not executed: {why}"),
        Some("denied".to_owned()),
    )
}

fn settle_unknown(session: &Session, settings: &Settings, call: &Call) -> EventBody {
    let Some(said) = &call.resolution else {
        return pause(PauseReason::UnknownCall, "nothing, until somebody says what became of the call");
    };
    let words = said.text.as_deref().unwrap_or("no more was said");
    let known = call.evidence.as_deref().unwrap_or("nothing else is known of it");
    let (outcome, text) = match said.resolution {
        CallResolution::Retry => return start_if_allowed(session, settings, call),
        CallResolution::Done => {
            (CallOutcome::Ok, format!("The user says that this call was done ({words}). {known}"))
        }
        CallResolution::Failed => {
            (CallOutcome::Error, format!("The user says that this call did not happen ({words}). {known}"))
        }
    };
    let mut body = unrun(call.call_id.clone(), outcome, text, None);
    body.evidence = Some("a person's word".to_owned());
    body.spent_evidence = call.job.is_some();
    body.into()
}
