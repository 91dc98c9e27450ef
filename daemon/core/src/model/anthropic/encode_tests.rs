//! Requests become the bytes that the API expects.

use super::*;
use crate::event::{BlockKind, ChatForm, Dialect, ModelProfile, Price};
use proptest::prelude::*;
use serde_json::Value;
use serde_json::value::RawValue;

fn profile() -> ModelProfile {
    ModelProfile {
        provider: "anthropic".into(),
        model: "claude-x".into(),
        dialect: Dialect::Anthropic,
        context_window: 200_000,
        max_output_tokens: 4_096,
        thinking: ThinkingForm::Omit,
        parallel_tool_calls: true,
        cache_markers: true,
        price: Price::default(),
        price_unknown: false,
        chat: ChatForm::default(),
        window_is_guess: false,
    }
}

fn raw(text: &str) -> Box<RawValue> {
    RawValue::from_string(text.to_owned()).unwrap()
}

#[test]
fn a_whole_request_byte_for_byte() {
    let profile = ModelProfile { thinking: ThinkingForm::Adaptive, parallel_tool_calls: false, ..profile() };
    let tools = raw(r#"[{"name":"write", "description":"w","input_schema":{"type":"object"}}]"#);
    let (odd, call) = (
        raw(r#"{"type":"text",  "text":"\u0041"}"#),
        raw(r#"{"id":"t","input":{"z":1,"a":2},"type":"tool_use","name":"write"}"#),
    );
    let request = Request {
        profile: &profile,
        system: "You are\n\"it\".",
        tools: &tools,
        messages: vec![
            Message::User(vec![UserPart::Text("go")]),
            Message::Assistant(vec![
                AnswerPart::own(BlockKind::Text, &odd),
                AnswerPart::own(BlockKind::ToolUse, &call),
            ]),
            Message::User(vec![
                UserPart::ToolResult { provider_call_id: "t".into(), text: "", is_error: true },
                UserPart::Text("and é"),
            ]),
        ],
        max_output_tokens: 512,
        continuation: false,
    };
    let mark = r#","cache_control":{"type":"ephemeral"}"#;
    let expected = [
        r#"{"model":"claude-x","max_tokens":512,"stream":true"#,
        r#","system":[{"type":"text","text":"You are\n\"it\".""#,
        mark,
        r#"}],"tools":[{"name":"write", "description":"w","input_schema":{"type":"object"}}]"#,
        r#","tool_choice":{"type":"auto","disable_parallel_tool_use":true},"thinking":{"type":"adaptive"}"#,
        r#","messages":[{"role":"user","content":[{"type":"text","text":"go""#,
        mark,
        r#"}]},{"role":"assistant","content":[{"type":"text",  "text":"\u0041"},"#,
        r#"{"id":"t","input":{"z":1,"a":2},"type":"tool_use","name":"write"}]}"#,
        r#",{"role":"user","content":[{"type":"tool_result","tool_use_id":"t","is_error":true},{"type":"text","text":"and é""#,
        mark,
        r#"}]}]}"#,
    ];
    let body = encode(&request, Markers::Sent);
    assert_eq!(String::from_utf8(body.clone()).unwrap(), expected.concat());
    let plain: Vec<&str> = expected.into_iter().filter(|part| *part != mark).collect();
    let bare = encode(&request, Markers::Left);
    assert_eq!(String::from_utf8(bare.clone()).unwrap(), plain.concat());
    assert_eq!(
        (body_bytes(&request, Markers::Sent), body_bytes(&request, Markers::Left)),
        (body.len(), bare.len())
    );
}

#[test]
fn a_model_without_markers_and_tools_gets_neither() {
    let profile = ModelProfile { cache_markers: false, ..profile() };
    let tools = raw("[ ]");
    let request = Request {
        profile: &profile,
        system: "",
        tools: &tools,
        messages: vec![Message::User(vec![UserPart::Text("go")])],
        max_output_tokens: 1,
        continuation: false,
    };
    assert_eq!(
        String::from_utf8(encode(&request, Markers::Sent)).unwrap(),
        r#"{"model":"claude-x","max_tokens":1,"stream":true,"messages":[{"role":"user","content":[{"type":"text","text":"go"}]}]}"#
    );
}

#[test]
fn the_hash_is_of_what_is_said_and_not_of_its_markers() {
    let (with, without) = (profile(), ModelProfile { cache_markers: false, ..profile() });
    let tools = raw("[]");
    let hash = |profile: &ModelProfile, text: &str| {
        request_hash(&Request {
            profile,
            system: "s",
            tools: &tools,
            messages: vec![Message::User(vec![UserPart::Text(text)])],
            max_output_tokens: 1,
            continuation: false,
        })
    };
    assert_eq!(hash(&with, "a"), hash(&without, "a"));
    assert_ne!(hash(&with, "a"), hash(&with, "b"));
    assert_eq!(hash(&with, "a").len(), 64);
}

proptest! {
    #[test]
    fn any_text_is_carried_exactly(system in any::<String>(), texts in proptest::collection::vec(any::<String>(), 1..6)) {
        let profile = profile();
        let tools = raw("[]");
        let messages = texts.iter().map(|text| Message::User(vec![
            UserPart::ToolResult { provider_call_id: text.into(), text, is_error: false }, UserPart::Text(text)])).collect();
        let request = Request { profile: &profile, system: &system, tools: &tools, messages, max_output_tokens: 9, continuation: false };
        let body = encode(&request, Markers::Sent);
        let value: Value = serde_json::from_slice(&body).unwrap();
        for (message, text) in value["messages"].as_array().unwrap().iter().zip(&texts) {
            prop_assert_eq!(message["content"][1]["text"].as_str().unwrap(), text);
            prop_assert_eq!(message["content"][0]["content"].as_str().unwrap_or_default(), text);
        }
        let marks = String::from_utf8(body).unwrap().matches(r#","cache_control":{"type":"ephemeral"}"#).count();
        prop_assert!(marks <= MARKERS_MAX);
        prop_assert!(value.get("temperature").is_none());
    }
}
