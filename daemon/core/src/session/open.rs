//! The projections of a session: its list row, its open work, and the audit rows of its events.

use super::apply::who;
use super::state::Session;
use crate::call::Stage;
use crate::event::{Event, EventBody, PauseReason, RequestClose};
use crate::ids::{CallId, RequestId, SessionId};
use crate::projection::{AuditEntry, OpenKind, OpenWork, SessionState, Summary};
use serde::Serialize;

impl Session {
    /// What it is doing, in the word of lists.
    pub fn state(&self) -> SessionState {
        let Some(turn) = &self.turn else {
            return if self.archived { SessionState::Closed } else { SessionState::Idle };
        };
        match &turn.paused {
            Some(pause) if pause.reason == PauseReason::Interrupted => SessionState::Interrupted,
            Some(_) => SessionState::Paused,
            None if turn.waits_for_answer() => SessionState::Waiting,
            None => SessionState::Running,
        }
    }
}

/// The list row; none before the first event.
pub fn summary(session: &Session) -> Option<Summary> {
    let created = session.created.as_ref()?;
    let settings = session.settings.as_ref()?;
    let calls = session.turn.iter().flat_map(|turn| &turn.calls);
    Some(Summary {
        session_id: created.session_id.clone(),
        name: settings.name.clone(),
        cwd: created.cwd.clone(),
        model: settings.model.clone(),
        mode: settings.mode,
        state: session.state(),
        last_seq: session.last_seq,
        turn: session.turn_count,
        open_calls: u32::try_from(calls.clone().filter(|call| !call.is_finished()).count())
            .unwrap_or(u32::MAX),
        open_requests: u32::try_from(calls.filter(|call| call.request.is_some()).count()).unwrap_or(u32::MAX),
        calls: session.call_counts,
        usage: session.usage,
        cost_micro_usd: session.cost_micro_usd,
        created_at_ms: created.at_ms,
        updated_at_ms: session.updated_at_ms,
    })
}

/// A request as lists show it.
#[derive(Serialize)]
struct RequestDetail<'a> {
    call_id: &'a str,
    kind: &'static str,
    tool: &'a str,
    shown: &'a str,
    shown_hash: &'a str,
    reason: &'a str,
    scopes: Vec<&'static str>,
    expires_at_ms: i64,
}

/// All that a starting daemon must look at, in a fixed order.
pub fn open_work(session: &Session) -> Vec<OpenWork> {
    let mut open: Vec<OpenWork> = session
        .waiting
        .iter()
        .map(|input| OpenWork {
            kind: OpenKind::Input,
            id: input.input_id.to_string(),
            detail: "{}".to_owned(),
        })
        .collect();
    let Some(turn) = &session.turn else { return open };
    open.push(OpenWork { kind: OpenKind::Turn, id: turn.no.to_string(), detail: "{}".to_owned() });
    for call in turn.calls.iter().filter(|call| !call.is_finished()) {
        let detail = serde_json::json!({ "tool": &*call.tool, "stage": stage_word(&call.stage) }).to_string();
        open.push(OpenWork { kind: OpenKind::Call, id: call.call_id.to_string(), detail });
        if let Some(request) = &call.request {
            let detail = RequestDetail {
                call_id: call.call_id.as_str(),
                kind: crate::event::RequestKind::Approval.as_str(),
                tool: &call.tool,
                shown: &request.shown,
                shown_hash: &request.shown_hash,
                reason: &request.reason,
                scopes: request.scopes.iter().map(|scope| scope.as_str()).collect(),
                expires_at_ms: request.expires_at_ms,
            };
            let detail = serde_json::to_string(&detail).unwrap_or_else(|_| "{}".to_owned());
            open.push(OpenWork { kind: OpenKind::Request, id: request.request_id.to_string(), detail });
        }
    }
    open
}

/// The word for where an open call stands.
const fn stage_word(stage: &Stage) -> &'static str {
    match stage {
        Stage::Requested | Stage::Validated | Stage::Inspected | Stage::Decided(_) | Stage::Answered(_) => {
            "requested"
        }
        Stage::NotBegun => "not_started",
        Stage::Asked => "waiting",
        Stage::Started => "running",
        Stage::Unknown => "unknown",
        Stage::Finished(_) => "finished",
    }
}

/// Bytes of arguments that an audit row shows; the hash is over all of them.
const AUDIT_ARGS_MAX_BYTES: usize = 1_024;

/// The audit rows of a decision's events, in order. `before` and `after` are the states around them.
pub fn audit(before: &Session, after: &Session, events: &[Event]) -> Vec<AuditEntry> {
    let tool_of = |call_id: &CallId| {
        let in_state = |session: &Session| {
            let calls = session.turn.iter().flat_map(|turn| &turn.calls);
            calls.clone().find(|call| call.call_id == *call_id).map(|call| call.tool.to_string())
        };
        // A call that began and ended with its turn within these events is in neither state.
        let in_events = || {
            events.iter().find_map(|event| match &event.body {
                EventBody::CallRequested(body) if body.call_id == *call_id => Some(body.tool.clone()),
                _ => None,
            })
        };
        in_state(after).or_else(|| in_state(before)).or_else(in_events)
    };
    let asked_about = |request_id: &RequestId| {
        let in_state = |session: &Session| {
            let mut calls = session.turn.iter().flat_map(|turn| &turn.calls);
            calls.find(|call| call.last_request.as_ref() == Some(request_id)).map(|call| call.call_id.clone())
        };
        let in_events = || {
            events.iter().find_map(|event| match &event.body {
                EventBody::RequestOpened(body) if body.request_id == *request_id => {
                    Some(body.call_id.clone())
                }
                _ => None,
            })
        };
        in_state(after).or_else(|| in_state(before)).or_else(in_events)
    };
    let session_id = after.session_id();
    events.iter().filter_map(|event| audit_row(&session_id, event, &tool_of, &asked_about)).collect()
}

fn audit_row(
    session_id: &SessionId,
    event: &Event,
    tool_of: &dyn Fn(&CallId) -> Option<String>,
    asked_about: &dyn Fn(&RequestId) -> Option<CallId>,
) -> Option<AuditEntry> {
    let mut row = AuditEntry {
        at_ms: event.at_ms,
        session_id: session_id.clone(),
        call_id: None,
        actor: who(&event.origin),
        action: String::new(),
        tool: None,
        decision: None,
        rule: None,
        args_hash: None,
        args: None,
        outcome: None,
    };
    let call_id = match &event.body {
        EventBody::CallRequested(body) => {
            row.action = "requested".to_owned();
            row.args_hash = Some(crate::prompt::sha256_hex(body.args.get().as_bytes()));
            row.args = Some(cut(body.args.get(), AUDIT_ARGS_MAX_BYTES));
            &body.call_id
        }
        EventBody::CallDecided(body) => {
            row.action = "decided".to_owned();
            row.decision = Some(body.verdict.as_str().to_owned());
            row.rule = Some(body.rule.clone().unwrap_or_else(|| body.reason.clone()));
            &body.call_id
        }
        EventBody::RequestClosed(body) => {
            row.action = "answered".to_owned();
            row.decision = body.decision.map(|decision| decision.as_str().to_owned());
            row.outcome = Some(body.close.as_str().to_owned());
            if body.close == RequestClose::Answered {
                row.rule = Some(format!("scope {}", body.scope.as_str()));
            }
            let call_id = asked_about(&body.request_id);
            row.tool = call_id.as_ref().and_then(tool_of);
            row.call_id = call_id.map(|call_id| call_id.to_string());
            return Some(row);
        }
        EventBody::CallStarted(body) => {
            row.action = "started".to_owned();
            row.outcome = (body.attempt > 1).then(|| format!("attempt {}", body.attempt));
            &body.call_id
        }
        EventBody::CallAdopted(body) => {
            row.action = "adopted".to_owned();
            row.outcome = Some(format!("pid {}", body.pid));
            &body.call_id
        }
        EventBody::CallFinished(body) => {
            row.action = "finished".to_owned();
            row.outcome = Some(match (body.exit_code, body.signal) {
                (Some(code), _) => format!("{} (exit code {code})", body.outcome.as_str()),
                (None, Some(signal)) => format!("{} (signal {signal})", body.outcome.as_str()),
                (None, None) => body.outcome.as_str().to_owned(),
            });
            &body.call_id
        }
        _ => return None,
    };
    row.call_id = Some(call_id.to_string());
    row.tool = tool_of(call_id);
    Some(row)
}

/// The beginning of a text, cut between characters.
fn cut(text: &str, max_bytes: usize) -> String {
    let end = (0..=max_bytes.min(text.len())).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
    let mark = if end < text.len() { "…" } else { "" };
    format!("{}{mark}", &text[..end])
}
