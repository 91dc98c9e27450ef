//! What the world is owed by a state.

use super::state::Session;
use crate::call::{Stage, is_eligible};
use crate::command::Timer;
use crate::effect::Effect;

/// The effects owed now: a function of the state alone, so that a restart owes the same.
pub fn pending_effects(session: &Session) -> Vec<Effect> {
    let (Some(turn), Some(settings)) = (&session.turn, &session.settings) else { return Vec::new() };
    let mut owed = Vec::new();
    if let Some(open) = &turn.model {
        owed.push(Effect::CallModel { model_call_id: open.model_call_id.clone() });
    }
    let held = turn.paused.is_some() || turn.ending.is_some();
    for (index, call) in turn.calls.iter().enumerate() {
        if call.stage == Stage::Started {
            let call_id = call.call_id.clone();
            owed.push(if call.followed {
                Effect::Follow { call_id: call_id.clone() }
            } else {
                Effect::Run { call_id: call_id.clone(), attempt: call.attempt }
            });
            // Stopping is a signal beside the run, which goes on until it has reported what there was.
            if call.interrupt || turn.ending.is_some() {
                owed.push(Effect::Stop { call_id });
            }
        } else if !held && is_eligible(&turn.calls, index, settings.limits.parallel_read_only) {
            owed.push(Effect::Inspect { call_id: call.call_id.clone() });
        }
        if let Some(open) = &call.request {
            let timer = Timer::RequestExpiry { request_id: open.request_id.clone() };
            owed.push(Effect::Wake { timer, at_ms: open.expires_at_ms });
        }
    }
    if held {
        return owed;
    }
    if let Some(retry) = &turn.retry {
        let timer = Timer::Retry { model_call_id: retry.model_call_id.clone() };
        owed.push(Effect::Wake { timer, at_ms: retry.at_ms });
    }
    if let Some(at_ms) = turn.deadline_ms(settings.limits.max_minutes) {
        owed.push(Effect::Wake { timer: Timer::TurnTime { turn: turn.no }, at_ms });
    }
    owed
}
