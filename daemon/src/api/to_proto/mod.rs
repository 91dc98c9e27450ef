//! Domain words as the contract's: sessions, artifacts, audit rows, the ledger; events are in `event.rs`.

mod event;

pub(super) use event::event;

use crate::ports::{ArtifactRow, AuditRow, Delta, DeltaSource, ListedSession};
use agentd_core::call::Stage;
use agentd_core::context::Ledger;
use agentd_core::event::{
    CallOutcome, Delivery, GrantScope, InputPart, OnRestart, Origin, PermissionMode, TurnStatus, Usage,
    Verdict,
};
use agentd_core::ids::SessionId;
use agentd_core::limits;
use agentd_core::path_bytes::PathBytes;
use agentd_core::projection::{CallCounts, OpenKind, OpenWork, SessionState, Summary};
use agentd_core::session::{self, Session};
use agentd_proto::v1;

pub(super) fn path(path: &PathBytes) -> v1::Path {
    v1::Path { path: path.as_bytes().to_vec(), path_display: path.display() }
}

pub(super) fn origin(origin: &Origin) -> v1::Origin {
    use v1::origin::Kind;
    let kind = match origin {
        Origin::Client { client_id, label, uid, pid } => Kind::Client(v1::ClientOrigin {
            client_id: client_id.to_string(),
            label: label.clone(),
            uid: *uid,
            pid: *pid,
        }),
        Origin::Daemon => Kind::Daemon(v1::DaemonOrigin {}),
        Origin::Model => Kind::Model(v1::ModelOrigin {}),
    };
    v1::Origin { kind: Some(kind) }
}

pub(super) const fn usage(usage: &Usage) -> v1::Usage {
    v1::Usage {
        input_tokens: usage.input_tokens,
        output_tokens: usage.output_tokens,
        cache_read_tokens: usage.cache_read_tokens,
        cache_write_tokens: usage.cache_write_tokens,
    }
}

const fn mode(mode: PermissionMode) -> v1::PermissionMode {
    match mode {
        PermissionMode::ReadOnly => v1::PermissionMode::ReadOnly,
        PermissionMode::Ask => v1::PermissionMode::Ask,
        PermissionMode::Workspace => v1::PermissionMode::Workspace,
        PermissionMode::Full => v1::PermissionMode::Full,
    }
}

const fn verdict(verdict: Verdict) -> v1::Verdict {
    match verdict {
        Verdict::Allow => v1::Verdict::Allow,
        Verdict::Ask => v1::Verdict::Ask,
        Verdict::Deny => v1::Verdict::Deny,
    }
}

fn scope(word: &str) -> i32 {
    match GrantScope::from_word(word) {
        Some(GrantScope::Once) => v1::GrantScope::Once.into(),
        Some(GrantScope::Session) => v1::GrantScope::Session.into(),
        Some(GrantScope::Project) => v1::GrantScope::Project.into(),
        Some(GrantScope::User) => v1::GrantScope::User.into(),
        None => v1::GrantScope::Unspecified.into(),
    }
}

const fn turn_status(status: TurnStatus) -> v1::TurnStatus {
    match status {
        TurnStatus::Completed => v1::TurnStatus::Completed,
        TurnStatus::Empty => v1::TurnStatus::Empty,
        TurnStatus::Truncated => v1::TurnStatus::Truncated,
        TurnStatus::Refused => v1::TurnStatus::Refused,
        TurnStatus::Limit => v1::TurnStatus::Limit,
        TurnStatus::Loop => v1::TurnStatus::Loop,
        TurnStatus::Interrupted => v1::TurnStatus::Interrupted,
        TurnStatus::ProviderFailed => v1::TurnStatus::ProviderFailed,
        TurnStatus::Failed => v1::TurnStatus::Failed,
    }
}

const fn outcome(outcome: CallOutcome) -> v1::CallOutcome {
    match outcome {
        CallOutcome::Ok => v1::CallOutcome::Ok,
        CallOutcome::Error => v1::CallOutcome::Error,
        CallOutcome::Denied => v1::CallOutcome::Denied,
        CallOutcome::Invalid => v1::CallOutcome::Invalid,
        CallOutcome::TimedOut => v1::CallOutcome::TimedOut,
        CallOutcome::Cancelled => v1::CallOutcome::Cancelled,
        CallOutcome::Unknown => v1::CallOutcome::Unknown,
    }
}

const fn state(state: SessionState) -> v1::SessionState {
    match state {
        SessionState::Idle => v1::SessionState::Idle,
        SessionState::Running => v1::SessionState::Running,
        SessionState::Waiting => v1::SessionState::Waiting,
        SessionState::Paused => v1::SessionState::Paused,
        SessionState::Interrupted => v1::SessionState::Interrupted,
        SessionState::Failed => v1::SessionState::Failed,
        SessionState::Closed => v1::SessionState::Closed,
    }
}

const fn call_counts(counts: &CallCounts) -> v1::CallCounts {
    v1::CallCounts {
        ok: counts.ok,
        error: counts.error,
        denied: counts.denied,
        invalid: counts.invalid,
        timed_out: counts.timed_out,
        cancelled: counts.cancelled,
        unknown: counts.unknown,
    }
}

/// A list row, with its open requests if they are at hand.
pub(super) fn summary(summary: &Summary, requests: &[OpenWork], revision: u64) -> v1::SessionSummary {
    v1::SessionSummary {
        session_id: summary.session_id.to_string(),
        name: summary.name.clone().unwrap_or_default(),
        cwd: Some(path(&summary.cwd)),
        state: state(summary.state).into(),
        model: summary.model.clone(),
        mode: mode(summary.mode).into(),
        last_seq: summary.last_seq,
        turn: summary.turn,
        open_calls: summary.open_calls,
        open_requests: requests.iter().filter_map(|open| request(&summary.session_id, open)).collect(),
        calls: Some(call_counts(&summary.calls)),
        usage: Some(usage(&summary.usage)),
        cost_micro_usd: summary.cost_micro_usd,
        created_at_ms: summary.created_at_ms,
        updated_at_ms: summary.updated_at_ms,
        revision,
        // A list row does not hold it; who fills lists says it.
        cost_unknown: false,
    }
}

pub(super) fn listed(listed: &ListedSession) -> v1::SessionSummary {
    summary(&listed.summary, &listed.requests, listed.revision)
}

/// The stored detail of an open request.
#[derive(serde::Deserialize)]
struct RequestDetail {
    call_id: String,
    kind: String,
    tool: String,
    shown: String,
    shown_hash: String,
    reason: String,
    scopes: Vec<String>,
    expires_at_ms: i64,
}

fn request(session_id: &SessionId, open: &OpenWork) -> Option<v1::OpenRequest> {
    if open.kind != OpenKind::Request {
        return None;
    }
    let detail: RequestDetail = serde_json::from_str(&open.detail).ok()?;
    Some(v1::OpenRequest {
        request_id: open.id.clone(),
        session_id: session_id.to_string(),
        call_id: detail.call_id,
        kind: detail.kind,
        tool: detail.tool,
        shown: detail.shown,
        shown_hash: detail.shown_hash,
        reason: detail.reason,
        scopes: detail.scopes.iter().map(|word| scope(word)).collect(),
        expires_at_ms: detail.expires_at_ms,
    })
}

/// A session in detail. None before its first event.
pub(super) fn session(session: &Session) -> Option<v1::Session> {
    let row = session::summary(session)?;
    let settings = session.settings.as_deref()?;
    let created = session.created.as_deref()?;
    let turn = session.turn.as_ref();
    let pause = turn.and_then(|turn| turn.paused.as_ref());
    let limits = &settings.limits;
    let on_restart = match settings.on_restart {
        OnRestart::Wait => v1::OnRestart::Wait,
        OnRestart::Continue => v1::OnRestart::Continue,
    };
    let open_calls = turn.into_iter().flat_map(|turn| &turn.calls).filter(|call| !call.is_finished());
    let cost_unknown = session.cost_unknown;
    Some(v1::Session {
        summary: Some(v1::SessionSummary { cost_unknown, ..summary(&row, &session::open_work(session), 0) }),
        root: Some(path(&created.root)),
        limits: Some(v1::TurnLimits {
            max_steps: Some(limits.max_steps),
            max_calls_per_message: Some(limits.max_calls_per_message),
            max_cost_micro_usd: Some(limits.max_cost_micro_usd),
            max_minutes: Some(limits.max_minutes),
            command_timeout_s: Some(limits.command_timeout_s),
        }),
        attended: settings.attended,
        on_restart: on_restart.into(),
        pause_reason: pause.map(|pause| pause.reason.as_str().to_owned()).unwrap_or_default(),
        next: pause.map(|pause| pause.next.clone()).unwrap_or_default(),
        waiting_inputs: session
            .waiting
            .iter()
            .map(|input| v1::WaitingInput {
                input_id: input.input_id.to_string(),
                text: waiting_text(&input.parts),
                steer: input.delivery == Delivery::Steer,
            })
            .collect(),
        open_calls: open_calls
            .map(|call| v1::OpenCall {
                call_id: call.call_id.to_string(),
                tool: call.tool.to_string(),
                state: stage(&call.stage).to_owned(),
                evidence: call.evidence.as_deref().unwrap_or_default().to_owned(),
            })
            .collect(),
        last_status: session.last_end.as_ref().map(|end| turn_status(end.status).into()),
        record: settings.record,
        last_error: session.last_end.as_ref().and_then(|end| end.error.clone()).unwrap_or_default(),
    })
}

const fn stage(stage: &Stage) -> &'static str {
    match stage {
        Stage::Asked => "waiting",
        Stage::Started => "running",
        Stage::Unknown => "unknown",
        Stage::NotBegun => "not_started",
        Stage::Finished(_) => "finished",
        Stage::Requested | Stage::Validated | Stage::Inspected | Stage::Decided(_) | Stage::Answered(_) => {
            "requested"
        }
    }
}

fn parts_text(parts: &[InputPart]) -> String {
    let words = parts.iter().map(|part| match part {
        InputPart::Text(text) => text.clone(),
        InputPart::Artifact(id) => format!("[artifact {id}]"),
        InputPart::FileRef(path) => format!("@{}", path.display()),
    });
    words.collect::<Vec<_>>().join("\n")
}

/// The beginning of an input that waits; `…` stands for the rest.
fn waiting_text(parts: &[InputPart]) -> String {
    let mut text = parts_text(parts);
    if text.len() > limits::WAITING_TEXT_MAX_BYTES {
        let end = (0..=limits::WAITING_TEXT_MAX_BYTES).rev().find(|at| text.is_char_boundary(*at));
        text.truncate(end.unwrap_or(0));
        text.push('…');
    }
    text
}

pub(super) fn delta(delta: &Delta) -> v1::Delta {
    let (source_id, kind) = match &delta.source {
        DeltaSource::Text(id) => (id.to_string(), "text"),
        DeltaSource::Thinking(id) => (id.to_string(), "thinking"),
        DeltaSource::Output(id) => (id.to_string(), "output"),
        DeltaSource::Waiting(id) => (id.to_string(), "waiting"),
    };
    v1::Delta {
        source_id,
        kind: kind.to_owned(),
        block: delta.block,
        offset_bytes: delta.offset,
        text: delta.text.clone(),
    }
}

pub(super) fn artifact(row: &ArtifactRow) -> v1::Artifact {
    v1::Artifact {
        artifact_id: row.stored.artifact_id.to_string(),
        session_id: row.session_id.to_string(),
        call_id: row.stored.call_id.as_ref().map(ToString::to_string).unwrap_or_default(),
        source: row.stored.source.clone(),
        mime: row.stored.mime.clone(),
        hash: row.stored.hash.clone(),
        size_bytes: row.stored.size_bytes,
        line_count: row.stored.line_count,
        created_at_ms: row.created_at_ms,
        redactions: row.stored.redactions,
    }
}

pub(super) fn audit_row(row: &AuditRow) -> v1::AuditRow {
    let entry = &row.entry;
    let text = |field: &Option<String>| field.clone().unwrap_or_default();
    v1::AuditRow {
        audit_no: row.audit_no,
        at_ms: entry.at_ms,
        session_id: entry.session_id.to_string(),
        call_id: text(&entry.call_id),
        actor: entry.actor.clone(),
        action: entry.action.clone(),
        tool: text(&entry.tool),
        args: text(&entry.args),
        decision: text(&entry.decision),
        rule: text(&entry.rule),
        outcome: text(&entry.outcome),
        hash: row.hash.clone(),
    }
}

/// The ledger, with at most `items` items: the largest when bounded, else all in order.
pub(super) fn ledger(ledger: &Ledger, items: Option<u32>) -> v1::GetContextResponse {
    let mut entries: Vec<_> = ledger.items.iter().collect();
    if let Some(most) = items {
        entries.sort_by_key(|item| std::cmp::Reverse(item.tokens));
        entries.truncate(usize::try_from(most).unwrap_or(usize::MAX));
    }
    v1::GetContextResponse {
        window_tokens: ledger.window_tokens,
        usable_tokens: ledger.usable_tokens,
        used_tokens: ledger.used_tokens,
        regions: ledger
            .regions
            .iter()
            .map(|region| v1::ContextRegion {
                name: region.region.as_str().to_owned(),
                cap_tokens: region.cap_tokens,
                used_tokens: region.used_tokens,
            })
            .collect(),
        items: entries
            .into_iter()
            .map(|item| v1::ContextItem {
                region: item.region.as_str().to_owned(),
                source: item.source.clone(),
                tokens: item.tokens,
                // The provider counts a prompt as a whole; an item's share of it is always an estimate.
                measured: false,
                state: "in".to_owned(),
                reason: item.reason.clone(),
                seq: item.seq,
            })
            .collect(),
        epochs: ledger
            .epochs
            .iter()
            .map(|epoch| v1::ContextEpoch {
                epoch: epoch.epoch,
                start_seq: epoch.start_seq,
                ..Default::default()
            })
            .collect(),
        forecast: ledger.forecast.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inputs_that_wait_never_make_a_session_larger_than_a_page() {
        let text = |text: &str| waiting_text(&[InputPart::Text(text.into())]);
        assert_eq!(text("short é"), "short é");
        let cut = text(&format!("x{}", "é".repeat(limits::INPUT_MAX_BYTES / 2)));
        assert!(cut.starts_with("xé") && cut.ends_with("é…"));
        assert!(cut.len() * limits::QUEUED_INPUTS_MAX <= limits::EVENTS_PAGE_MAX_BYTES);
    }
}
