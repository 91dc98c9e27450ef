//! One attempt at a model call.

use super::Inner;
use crate::model::{CallFailure, Provider, Recorder};
use crate::ports::{Delta, DeltaSource, EffectMessage, SessionContext};
use agentd_core::command::{CheckedCall, Report};
use agentd_core::event::{BlockCall, FailureClass};
use agentd_core::ids::ModelCallId;
use agentd_core::model::live::{LiveDelta, LiveKind};
use bytes::Bytes;
use tokio::sync::mpsc;

/// Sends a recorded request and reports the answer, each call of it checked against its schema.
pub(super) async fn call(
    wing: &Inner,
    session: &SessionContext,
    model_call_id: ModelCallId,
    body: Bytes,
    messages: &mpsc::Sender<EffectMessage>,
) -> Report {
    let environment = wing.environments.of(&session.session_id);
    let answer = match wing.parts.providers.find(&session.profile.provider, &environment) {
        Ok(provider) if provider.dialect != session.profile.dialect => Err(CallFailure::new(
            FailureClass::Unsendable,
            format!(
                "provider {0} is spoken to in another protocol than when this session began to speak to it; \
                 `agentctl set {1} --model {0}/{2}` begins anew with the new one",
                provider.name, session.session_id, session.profile.model
            ),
        )),
        Ok(provider) => {
            let on_delta = |piece: LiveDelta| {
                // Live text is lossy: a full mailbox drops it, the finished answer holds the whole.
                let _ = messages.try_send(EffectMessage::Delta(delta(&model_call_id, piece)));
            };
            let recorder = if session.settings.record {
                let redactor = wing.redactor(&session.session_id);
                wing.parts.records.begin(&session.session_id, &model_call_id, &provider, redactor)
            } else {
                Recorder::off()
            };
            let answer =
                wing.parts.models.call(&provider, model_call_id.as_str(), body, recorder, on_delta).await;
            if let Err(failure) = &answer {
                remember(wing, &provider, &session.profile.model, failure);
            }
            answer
        }
        Err(failure) => Err(failure),
    };
    match answer {
        Ok(answer) => {
            let calls: Vec<&BlockCall> =
                answer.decoded.blocks.iter().filter_map(|block| block.call.as_ref()).collect();
            let checked: Vec<CheckedCall> =
                calls.iter().map(|call| wing.parts.registry.check(call)).collect();
            Report::ModelFinished(Box::new(answer.into_report(model_call_id, checked)))
        }
        Err(failure) => Report::ModelFailed(Box::new(failure.into_report(model_call_id, jitter(wing)))),
    }
}

/// What a refusal says of the model, for the sessions that come.
fn remember(wing: &Inner, provider: &Provider, model: &str, failure: &CallFailure) {
    if let Some(window) = failure.learned_window {
        wing.parts.listings.learned(provider, model, window);
    }
    if let Some(tokens) = failure.learned_output {
        wing.parts.listings.learned_output(provider, model, tokens);
    }
}

fn jitter(wing: &Inner) -> u64 {
    let mut bytes = [0; 8];
    bytes.copy_from_slice(&wing.parts.entropy.draw()[..8]);
    u64::from_be_bytes(bytes)
}

fn delta(model_call_id: &ModelCallId, piece: LiveDelta) -> Delta {
    let source = match piece.kind {
        LiveKind::Text => DeltaSource::Text(model_call_id.clone()),
        LiveKind::Thinking => DeltaSource::Thinking(model_call_id.clone()),
    };
    Delta { source, block: piece.block, offset: piece.offset, text: piece.text }
}
