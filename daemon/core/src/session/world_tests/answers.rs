//! What effects come to in a scripted world, above all the answers of its models.

use super::super::happening_tests::*;
use super::speakers::{call_block, call_id, server_blocks, text_block, thinking_block};
use super::{Dice, World};
use crate::command::*;
use crate::effect::Effect;
use crate::event::*;
use crate::ids::ModelCallId;

impl World {
    /// Performs one effect.
    pub(in crate::session) fn perform(&mut self, effect: &Effect, dice: Dice) -> Result<usize, Reject> {
        match effect {
            Effect::CallModel { model_call_id } => {
                let report = if dice[0] % 8 == 7 {
                    Report::ModelFailed(Box::new(model_failure(model_call_id, dice)))
                } else {
                    let answer = self.model_answer(model_call_id, dice);
                    Report::ModelFinished(Box::new(answer))
                };
                self.report(report)
            }
            Effect::Inspect { call_id } => {
                let calls = self.live.turn.iter().flat_map(|turn| &turn.calls);
                let tool =
                    calls.clone().find(|call| call.call_id == *call_id).map(|call| call.tool.to_string());
                let found = inspection(&tool.unwrap_or_default(), dice);
                self.report(Report::Inspected { call_id: call_id.clone(), found })
            }
            // A signal; what comes of it is the report of the run beside it.
            Effect::Stop { .. } => Ok(0),
            Effect::Run { call_id, .. } | Effect::Follow { call_id } => {
                let calls = self.live.turn.iter().flat_map(|turn| &turn.calls);
                let attempt =
                    calls.clone().find(|call| call.call_id == *call_id).map_or(0, |call| call.attempt);
                self.report(Report::CallEnded(Box::new(call_end(call_id, attempt, dice))))
            }
            Effect::Wake { timer, at_ms } => {
                self.now_ms = self.now_ms.max(*at_ms);
                self.input(Input::Timer(timer.clone()), &Origin::Daemon)
            }
        }
    }

    fn profile(&self) -> ModelProfile {
        self.live.epoch.as_ref().expect("a session has an epoch").profile.clone()
    }

    pub(in crate::session) fn tool_use(&mut self, name: &str, complete: bool) -> Block {
        self.odd_tool_use(name, complete, 7)
    }

    fn odd_tool_use(&mut self, name: &str, complete: bool, die: u8) -> Block {
        self.tool_uses += 1;
        let profile = self.profile();
        let id = call_id(&profile, self.tool_uses, die);
        call_block(&profile, &id, name, self.tool_uses, complete)
    }

    pub(in crate::session) fn thought(&mut self, die: u8) -> Block {
        self.thoughts += 1;
        thinking_block(&self.profile(), self.thoughts, die)
    }

    fn calls(&mut self, dice: Dice) -> (Vec<Block>, Vec<CheckedCall>) {
        let count = [0, 1, 2, 3, 5, 1, 2, 1][usize::from(dice[2] % 8)];
        let (mut blocks, mut checked) = (Vec::new(), Vec::new());
        for at in 0..count {
            let die = dice[3].wrapping_mul(31).wrapping_add(dice[4].wrapping_mul(at).wrapping_add(at));
            let (name, check) = match die % 12 {
                0..=3 => ("read_file", CheckedCall::Valid(EffectClass::ReadOnly)),
                4..=5 => ("write_file", CheckedCall::Valid(EffectClass::Idempotent)),
                6..=8 => ("run_command", CheckedCall::Valid(EffectClass::Unsafe)),
                9 => ("nope", CheckedCall::Invalid(fault("unknown_tool", "Unknown tool nope. Tools: []"))),
                // A shell that forgot to look at completeness.
                10 => ("run_command", CheckedCall::Valid(EffectClass::Unsafe)),
                _ => ("write_file", CheckedCall::Invalid(fault("arguments", "Invalid arguments"))),
            };
            if dice[5] % 16 == 9 && at > 0 {
                blocks.push(self.thought(die));
            }
            blocks.push(self.odd_tool_use(name, die % 12 != 10, die / 12));
            // And one that forgot to check at all.
            if dice[5] % 16 != 3 {
                checked.push(check);
            }
        }
        (blocks, checked)
    }

    fn model_answer(&mut self, model_call_id: &ModelCallId, dice: Dice) -> ModelAnswer {
        let pauses = self.profile().dialect == Dialect::Anthropic;
        let mut blocks = Vec::new();
        if dice[1] % 4 == 1 {
            blocks.push(self.thought(dice[5]));
        }
        match dice[1] % 8 {
            0..=3 => blocks.push(text_block("some words")),
            4 => blocks.push(text_block(" ")),
            _ => {}
        }
        if pauses && dice[5] % 8 == 7 {
            blocks.extend(server_blocks(self.thoughts));
            blocks.push(text_block("found"));
        }
        let (calls, checked) = self.calls(dice);
        let count = calls.len();
        blocks.extend(calls);
        if dice[5] % 16 == 5 && count == 0 {
            blocks.push(self.thought(dice[4]));
        }
        if dice[5] % 16 == 6 {
            blocks.push(text_block("late words"));
        }
        let class = match dice[0] % 7 {
            0..=3 if count > 0 => StopClass::ToolUse,
            0..=3 => StopClass::EndTurn,
            4 => StopClass::MaxTokens,
            5 => StopClass::PauseTurn,
            _ => StopClass::ALL[usize::from(dice[5]) % StopClass::ALL.len()],
        };
        // The other dialects have no such stop.
        let class = if class == StopClass::PauseTurn && !pauses { StopClass::EndTurn } else { class };
        model_answer(model_call_id, blocks, class, checked)
    }
}
