//! The models of a scripted world, and how each of them writes what it says: in the stored form of its dialect.

use super::super::happening_tests::{profile, raw};
use crate::event::*;
use serde_json::json;

/// How many models there are.
pub(in crate::session) const SPEAKERS: u8 = 9;

/// One of them. The first is the one of most tests.
pub(in crate::session) fn speaker(which: u8) -> ModelProfile {
    let anthropic = |provider: &str, model: &str| ModelProfile {
        provider: provider.to_owned(),
        model: model.to_owned(),
        ..profile()
    };
    let chat = |provider: &str, model: &str, chat: ChatForm| ModelProfile {
        dialect: Dialect::OpenAiChat,
        chat,
        ..anthropic(provider, model)
    };
    let usual = ChatForm::default();
    let google = ChatForm { stand_in_signature: true, ..usual };
    let mistral =
        ChatForm { call_ids: CallIdForm::NineAlphanumeric, empty_content: true, ..ChatForm::default() };
    match which % SPEAKERS {
        0 => profile(),
        1 => anthropic("fake", "other"),
        2 => ModelProfile { cache_markers: false, ..anthropic("mirror", "small") },
        3 => {
            let form = ChatForm { max_tokens_field: MaxTokensField::MaxCompletionTokens, ..usual };
            ModelProfile { parallel_tool_calls: false, ..chat("open", "large", form) }
        }
        4 => chat("open", "mini", usual),
        5 => chat("mistral", "medium", mistral),
        6 => chat("google", "pro", google),
        7 => chat("google", "flash", google),
        _ => {
            let form = ChatForm { reasoning: ReasoningReplay::Never, stream_options: false, ..usual };
            chat("local", "r1", form)
        }
    }
}

fn block(kind: BlockKind, json: &serde_json::Value, text: Option<String>) -> Block {
    Block { kind, raw: raw(&json.to_string()), text, call: None, altered: false }
}

pub(in crate::session) fn text_block(words: &str) -> Block {
    block(BlockKind::Text, &json!({"type": "text", "text": words}), Some(words.to_owned()))
}

/// Thinking number `no`; it is found again by `think#{no};`.
pub(in crate::session) fn thinking_block(profile: &ModelProfile, no: u64, die: u8) -> Block {
    let words = format!("think#{no};");
    if profile.dialect == Dialect::Anthropic {
        let json = json!({"type": "thinking", "thinking": words, "signature": format!("sig{no}")});
        return if die.is_multiple_of(4) {
            let json = json!({"type": "redacted_thinking", "data": words});
            block(BlockKind::RedactedThinking, &json, None)
        } else {
            block(BlockKind::Thinking, &json, Some(words))
        };
    }
    let json = match (profile.provider.as_str(), die % 3) {
        ("mistral", _) => json!({"type": "thinking", "thinking": [{"type": "text", "text": words}]}),
        (_, 0) => json!({"type": "reasoning", "field": "reasoning_content", "text": words}),
        (_, 1) => json!({"type": "reasoning", "field": "reasoning", "text": words}),
        _ => {
            json!({"type": "reasoning_details", "reasoning_details": [{"type": "reasoning.text", "text": words}]})
        }
    };
    block(BlockKind::Thinking, &json, Some(words))
}

/// A search that the provider made itself.
pub(in crate::session) fn server_blocks(no: u64) -> [Block; 2] {
    let id = format!("srvtoolu_{no}");
    let call = json!({"type": "server_tool_use", "id": id, "name": "web_search", "input": {}});
    let result = json!({"type": "web_search_tool_result", "tool_use_id": id, "content": []});
    [block(BlockKind::Other, &call, None), block(BlockKind::Other, &result, None)]
}

/// An id as this provider makes them; now and then one that it repeats, or that others do not take.
pub(in crate::session) fn call_id(profile: &ModelProfile, no: u64, die: u8) -> String {
    match (profile.provider.as_str(), die % 8) {
        ("fake" | "mirror", 0) => "call_0".to_owned(),
        ("fake" | "mirror", 1) => format!("toolu_{}", "x".repeat(70)),
        ("fake" | "mirror", _) => format!("toolu_{no}"),
        ("mistral", 0) => "abcdefghi".to_owned(),
        ("mistral", 1) => String::new(),
        ("mistral", _) => format!("m{no:08}"),
        (_, 0) => "call_0".to_owned(),
        (_, 1) => format!("functions.read:{no}"),
        (_, 2) => format!("call_{}{no}", "y".repeat(60)),
        (_, 3) => format!("m{no:08}"),
        (_, 4) => "é ü".to_owned(),
        _ => format!("call_{no}"),
    }
}

/// A call as this provider writes it, with its number in its arguments.
pub(in crate::session) fn call_block(
    profile: &ModelProfile,
    id: &str,
    name: &str,
    no: u64,
    complete: bool,
) -> Block {
    let args = if complete { json!({"n": no}) } else { json!({}) };
    let json = if profile.dialect == Dialect::Anthropic {
        json!({"type": "tool_use", "id": id, "name": name, "input": args})
    } else {
        let mut call =
            json!({"id": id, "type": "function", "function": {"name": name, "arguments": args.to_string()}});
        if profile.provider == "google" {
            let signature = format!("{}#{no}", profile.model);
            call["extra_content"] = json!({"google": {"thought_signature": signature}});
        }
        call
    };
    let call = BlockCall {
        provider_call_id: id.to_owned(),
        name: name.to_owned(),
        args: raw(&args.to_string()),
        complete,
        fault: (!complete).then(|| "cut off".to_owned()),
    };
    Block { call: Some(call), ..block(BlockKind::ToolUse, &json, None) }
}
