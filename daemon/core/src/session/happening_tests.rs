//! What happens in the scripted world, made from a few numbers: blocks, answers, failures, facts, ends.

use super::world_tests::Dice;
use crate::command::*;
use crate::event::*;
use crate::ids::{CallId, ModelCallId};
use crate::path_bytes::PathBytes;
use serde_json::value::RawValue;
use std::sync::Arc;

pub(super) fn raw(text: &str) -> Arc<RawValue> {
    Arc::from(RawValue::from_string(text.to_owned()).unwrap())
}

pub(super) fn profile() -> ModelProfile {
    ModelProfile {
        provider: "fake".to_owned(),
        model: "small".to_owned(),
        dialect: Dialect::Anthropic,
        context_window: 100_000,
        max_output_tokens: 64_000,
        thinking: ThinkingForm::Omit,
        parallel_tool_calls: true,
        cache_markers: true,
        price: Price { input: 1_000_000, output: 1_000_000, ..Price::default() },
        price_unknown: false,
        chat: ChatForm::default(),
        window_is_guess: false,
    }
}

pub(super) fn epoch(profile: ModelProfile, reason: &str) -> EpochStarted {
    let tool =
        |name: &str| format!(r#"{{"name":"{name}","description":"d","input_schema":{{"type":"object"}}}}"#);
    EpochStarted {
        epoch: 0,
        reason: reason.to_owned(),
        profile,
        system: "You are a test.".into(),
        tools: raw(&format!("[{},{},{}]", tool("read_file"), tool("write_file"), tool("run_command"))),
        summary: None,
        strip_thinking: false,
        tokens_before: 0,
        tokens_after: 0,
    }
}

/// One of many, by any number.
pub(super) fn pick<T>(among: &[T], which: u8) -> Option<&T> {
    if among.is_empty() { None } else { among.get(usize::from(which) % among.len()) }
}

pub(super) fn fault(class: &str, text: &str) -> CallFault {
    CallFault { class: class.to_owned(), outcome: CallOutcome::Invalid, text: text.to_owned() }
}

pub(super) fn text(words: &str) -> Block {
    Block {
        kind: BlockKind::Text,
        raw: raw(&format!(r#"{{"type":"text","text":"{words}"}}"#)),
        text: Some(words.to_owned()),
        call: None,
        altered: false,
    }
}

pub(super) fn thinking(words: &str) -> Block {
    Block {
        kind: BlockKind::Thinking,
        raw: raw(&format!(r#"{{"type":"thinking","thinking":"{words}","signature":"c2ln"}}"#)),
        text: Some(words.to_owned()),
        call: None,
        altered: false,
    }
}

pub(super) fn tool_use(id: &str, name: &str, complete: bool) -> Block {
    Block {
        kind: BlockKind::ToolUse,
        raw: raw(&format!(r#"{{"type":"tool_use","id":"{id}","name":"{name}","input":{{}}}}"#)),
        text: None,
        call: Some(BlockCall {
            provider_call_id: id.to_owned(),
            name: name.to_owned(),
            args: raw("{}"),
            complete,
            fault: (!complete).then(|| "cut off".to_owned()),
        }),
        altered: false,
    }
}

/// A call that no request can carry: its arguments are not an object.
pub(super) fn unsendable_use(id: &str, name: &str) -> Block {
    Block {
        raw: raw(&format!(r#"{{"type":"tool_use","id":"{id}","name":"{name}","input":[]}}"#)),
        ..tool_use(id, name, true)
    }
}

pub(super) fn model_answer(
    model_call_id: &ModelCallId,
    blocks: Vec<Block>,
    class: StopClass,
    checked: Vec<CheckedCall>,
) -> ModelAnswer {
    ModelAnswer {
        model_call_id: model_call_id.clone(),
        blocks,
        stop: Stop { raw: Some(class.as_str().to_owned()), class, explanation: None },
        usage: Usage { input_tokens: 900, output_tokens: 100, ..Usage::default() },
        usage_raw: None,
        usage_reported: true,
        provider_message_id: None,
        provider_request_id: None,
        checked,
        warnings: Vec::new(),
        last_prompt_tokens: None,
    }
}

pub(super) fn model_failure(model_call_id: &ModelCallId, dice: Dice) -> ModelFailure {
    ModelFailure {
        model_call_id: model_call_id.clone(),
        class: FailureClass::ALL[usize::from(dice[1]) % FailureClass::ALL.len()],
        message: "it failed".to_owned(),
        http_status: None,
        retry_after_ms: (dice[2].is_multiple_of(4)).then(|| u64::from(dice[3]) * 3_000),
        jitter: u64::from(dice[4]),
        partial_text: None,
        learned_window: (dice[5] % 8 == 5).then(|| u64::from(dice[3]) * 1_000),
        mend: (dice[5] % 4 == 2).then(|| {
            [Mend::StripThinking, Mend::OmitThinkingForm, Mend::OmitStreamOptions, Mend::RenameMaxTokens]
                [usize::from(dice[3] % 4)]
        }),
        should_retry: (dice[5] % 8 == 3).then_some(dice[3].is_multiple_of(2)),
        learned_output: (dice[5] % 8 == 7).then(|| u32::from(dice[3]) * 100),
        usage: None,
    }
}

pub(super) fn inspection(tool: &str, dice: Dice) -> Result<Box<Inspection>, CallFault> {
    let die = dice[0] % 8;
    if die == 7 {
        return Err(CallFault {
            class: "not_found".to_owned(),
            outcome: CallOutcome::Error,
            text: "File not found: a".to_owned(),
        });
    }
    if tool == "run_command" {
        let command = CommandFacts {
            command: "make".to_owned(),
            cwd: PathBytes::new("/w"),
            effect: if die == 4 { EffectClass::ReadOnly } else { EffectClass::Unsafe },
            parts: Vec::new(),
            forbidden: (die == 5).then(|| "never".to_owned()),
        };
        return Ok(Box::new(Inspection {
            command: Some(command),
            preview: Some("make".to_owned()),
            binding: Some(Binding::Command { hash: "h".to_owned() }),
            sandbox: if die == 6 { "none" } else { "workspace-write" }.to_owned(),
            paths: Vec::new(),
        }));
    }
    let writes = tool != "read_file";
    let path = PathFacts {
        requested: PathBytes::new("a"),
        resolved: PathBytes::new("/w/a"),
        op: if writes { PathOp::Write } else { PathOp::Read },
        inside: die != 6,
        protected: (die == 5 && writes).then(|| "protected".to_owned()),
        caution: (die == 4).then(|| "careful".to_owned()),
        content_hash: None,
    };
    let binding =
        writes.then(|| Binding::File { path: PathBytes::new("/w/a"), before: None, after: "h2".to_owned() });
    Ok(Box::new(Inspection {
        paths: vec![path],
        command: None,
        preview: None,
        binding,
        sandbox: String::new(),
    }))
}

pub(super) fn call_end(call_id: &CallId, attempt: u32, dice: Dice) -> CallEnd {
    let outcome =
        [CallOutcome::Ok, CallOutcome::Ok, CallOutcome::Error, CallOutcome::TimedOut, CallOutcome::Cancelled]
            [usize::from(dice[0]) % 5];
    let stored = ArtifactStored {
        artifact_id: crate::ids::ArtifactId::new("a_1"),
        call_id: Some(call_id.clone()),
        source: "tool_output".to_owned(),
        hash: "h".to_owned(),
        size_bytes: 1,
        line_count: 1,
        mime: "text/plain".to_owned(),
        redactions: 0,
    };
    let changed = FileChange {
        path: PathBytes::new("/w/a"),
        before: None,
        after: (dice[3].is_multiple_of(2)).then(|| "h2".to_owned()),
        before_mode: None,
        after_mode: Some(0o644),
    };
    CallEnd {
        call_id: call_id.clone(),
        attempt,
        outcome,
        text: if dice[1].is_multiple_of(4) { String::new() } else { format!("output of {call_id}") },
        exit_code: Some(i32::from(dice[1] % 2)),
        signal: None,
        duration_ms: 5,
        truncation: None,
        error_class: (outcome != CallOutcome::Ok).then(|| "exit_code".to_owned()),
        artifacts: if dice[2].is_multiple_of(4) { vec![stored] } else { Vec::new() },
        files: if dice[2] % 4 == 1 { vec![changed] } else { Vec::new() },
        seen: if dice[2] % 4 == 2 {
            vec![SeenFile { path: PathBytes::new("/w/a"), hash: "h".to_owned() }]
        } else {
            Vec::new()
        },
        spent_evidence: dice[4].is_multiple_of(2),
        evidence: None,
        transient: (dice[3] % 8 == 1).then(|| "busy".to_owned()),
    }
}
