//! Events as the contract's. About thirty-five kinds become about fifteen client messages; the stored body travels
//! beside them when it is asked for.

use super::{mode, origin, outcome, parts_text, path, scope, turn_status, usage, verdict};
use agentd_core::event::{Delivery, Event, EventBody};
use agentd_core::ids::{SessionId, TurnId};
use agentd_proto::v1;
use agentd_proto::v1::event::Body;

/// An event for clients, with its stored body if `raw`.
pub(in crate::api) fn event(session_id: &SessionId, event: &Event, raw: bool) -> v1::Event {
    v1::Event {
        seq: event.seq,
        at_ms: event.at_ms,
        kind: event.body.kind().as_str().to_owned(),
        turn_id: event.turn.map(|turn| TurnId::of(session_id, turn).to_string()).unwrap_or_default(),
        origin: Some(origin(&event.origin)),
        call_id: call_id(&event.body).unwrap_or_default(),
        raw_json: if raw { event.body.encode().unwrap_or_default() } else { String::new() },
        body: body(&event.body),
    }
}

fn call_id(body: &EventBody) -> Option<String> {
    let id = match body {
        EventBody::CallRequested(body) => &body.call_id,
        EventBody::CallValidated(body) => &body.call_id,
        EventBody::CallInspected(body) => &body.call_id,
        EventBody::CallDecided(body) => &body.call_id,
        EventBody::RequestOpened(body) => &body.call_id,
        EventBody::CallStarted(body) => &body.call_id,
        EventBody::CallAdopted(body) => &body.call_id,
        EventBody::CallFinished(body) => &body.call_id,
        EventBody::FilesChanged(body) => &body.call_id,
        EventBody::JobFinished(body) => &body.call_id,
        EventBody::ArtifactStored(body) => return body.call_id.as_ref().map(ToString::to_string),
        _ => return None,
    };
    Some(id.to_string())
}

fn body(body: &EventBody) -> Option<Body> {
    Some(match body {
        EventBody::SessionCreated(body) => Body::Session(v1::SessionInfo {
            name: body.settings.name.clone().unwrap_or_default(),
            model: body.settings.model.clone(),
            mode: mode(body.settings.mode).into(),
            cwd: Some(path(&body.cwd)),
        }),
        EventBody::SessionChanged(body) => Body::Session(v1::SessionInfo {
            name: body.name.clone().unwrap_or_default(),
            model: body.model.clone().unwrap_or_default(),
            mode: body.mode.map_or(v1::PermissionMode::Unspecified, mode).into(),
            cwd: None,
        }),
        EventBody::InputAccepted(body) => Body::Input(v1::InputInfo {
            input_id: body.input_id.to_string(),
            text: parts_text(&body.parts),
            steer: body.delivery == Delivery::Steer,
        }),
        EventBody::InputDelivered(body) => {
            Body::Input(v1::InputInfo { input_id: body.input_id.to_string(), ..Default::default() })
        }
        EventBody::InputWithdrawn(body) => {
            Body::Input(v1::InputInfo { input_id: body.input_id.to_string(), ..Default::default() })
        }
        EventBody::EpochStarted(body) => Body::Epoch(v1::EpochInfo {
            epoch: body.epoch,
            reason: body.reason.clone(),
            provider: body.profile.provider.clone(),
            model: body.profile.model.clone(),
        }),
        EventBody::NoticeAdded(body) => {
            Body::Notice(v1::NoticeInfo { kind: body.kind.as_str().to_owned(), text: body.text.clone() })
        }
        EventBody::SessionRecovered(body) => Body::Recovery(v1::RecoveryInfo {
            run_id: body.run_id.to_string(),
            next: body.next.clone(),
            calls: body
                .calls
                .iter()
                .map(|call| format!("{}: {} ({})", call.call_id, call.found, call.evidence))
                .collect(),
        }),
        EventBody::CallAdopted(body) => Body::Recovery(v1::RecoveryInfo {
            run_id: String::new(),
            next: "followed to its end".to_owned(),
            calls: vec![format!("{}: running (supervisor {})", body.call_id, body.pid)],
        }),
        other => return turn_body(other),
    })
}

fn turn_body(body: &EventBody) -> Option<Body> {
    Some(match body {
        EventBody::TurnStarted(body) => {
            Body::Turn(v1::TurnInfo { run_id: body.run_id.to_string(), resume_count: 0 })
        }
        EventBody::TurnResumed(body) => {
            Body::Turn(v1::TurnInfo { run_id: body.run_id.to_string(), resume_count: body.resume_count })
        }
        EventBody::TurnPaused(body) => {
            Body::Pause(v1::PauseInfo { reason: body.reason.as_str().to_owned(), next: body.next.clone() })
        }
        EventBody::TurnFinished(body) => Body::TurnEnd(v1::TurnEnd {
            status: turn_status(body.status).into(),
            stop_raw: body.stop_raw.clone().unwrap_or_default(),
            steps: body.steps,
            usage: Some(usage(&body.usage)),
            cost_micro_usd: body.cost_micro_usd,
            cost_unknown: body.cost_unknown,
            denied: body.denied_unattended,
            error: body.error.clone().unwrap_or_default(),
        }),
        EventBody::ModelCallStarted(body) => Body::ModelCall(v1::ModelCallInfo {
            model_call_id: body.model_call_id.to_string(),
            provider: body.provider.clone(),
            model: body.model.clone(),
            attempt: body.attempt,
            est_tokens: body.est_tokens,
        }),
        EventBody::ModelCallFinished(body) => Body::Answer(v1::Answer {
            model_call_id: body.model_call_id.to_string(),
            blocks: body
                .blocks
                .iter()
                .map(|block| v1::AnswerBlock {
                    kind: block.kind.as_str().to_owned(),
                    text: block.text.clone().unwrap_or_default(),
                })
                .collect(),
            stop_raw: body.stop.raw.clone().unwrap_or_default(),
            usage: Some(usage(&body.usage)),
            warnings: body.warnings.clone(),
        }),
        EventBody::ModelCallFailed(body) => Body::ModelFailure(v1::ModelFailure {
            model_call_id: body.model_call_id.to_string(),
            class: body.class.as_str().to_owned(),
            message: body.message.clone(),
            retry_at_ms: body.retry_at_ms,
            attempt: body.attempt,
            max_attempts: body.max_attempts,
            mend: body.mend.map(|mend| mend.as_str().to_owned()).unwrap_or_default(),
            usage: body.usage.as_ref().map(usage),
        }),
        EventBody::RequestOpened(body) => Body::Request(v1::RequestInfo {
            request_id: body.request_id.to_string(),
            kind: body.kind.as_str().to_owned(),
            tool: body.tool.clone(),
            shown: body.shown.clone(),
            shown_hash: body.shown_hash.clone(),
            reason: body.reason.clone(),
            expires_at_ms: body.expires_at_ms,
            scopes: body.scopes.iter().map(|word| scope(word.as_str())).collect(),
        }),
        EventBody::RequestClosed(body) => Body::RequestEnd(v1::RequestEnd {
            request_id: body.request_id.to_string(),
            close: body.close.as_str().to_owned(),
            decision: body.decision.map_or(v1::Verdict::Unspecified, verdict).into(),
            reason: body.reason.clone().unwrap_or_default(),
        }),
        other => return call_body(other),
    })
}

fn call_body(body: &EventBody) -> Option<Body> {
    Some(match body {
        EventBody::CallRequested(body) => Body::Call(v1::CallInfo {
            tool: body.tool.clone(),
            args_json: body.args.get().to_owned(),
            ..Default::default()
        }),
        EventBody::CallValidated(body) => {
            Body::Call(v1::CallInfo { effect: body.effect.as_str().to_owned(), ..Default::default() })
        }
        EventBody::CallInspected(body) => Body::Call(v1::CallInfo {
            preview: body.preview.clone().unwrap_or_default(),
            ..Default::default()
        }),
        EventBody::CallDecided(body) => Body::Call(v1::CallInfo {
            verdict: verdict(body.verdict).into(),
            reason: body.reason.clone(),
            ..Default::default()
        }),
        EventBody::CallStarted(body) => Body::Call(v1::CallInfo {
            attempt: body.attempt,
            effect: body.effect.as_str().to_owned(),
            ..Default::default()
        }),
        EventBody::CallFinished(body) => Body::CallResult(v1::CallResult {
            outcome: outcome(body.outcome).into(),
            text: body.text.clone(),
            exit_code: body.exit_code,
            signal: body.signal,
            duration_ms: body.duration_ms,
            omitted_lines: body.truncation.map_or(0, |cut| cut.omitted_lines),
            artifact_ids: body.artifacts.iter().map(ToString::to_string).collect(),
        }),
        EventBody::FilesChanged(body) => Body::Files(v1::FilesInfo {
            paths: body.changes.iter().map(|change| path(&change.path)).collect(),
        }),
        _ => return None,
    })
}
