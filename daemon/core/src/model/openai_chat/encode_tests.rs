//! Requests become the bytes that servers of this dialect expect.

use super::*;
use crate::event::{BlockKind, CallIdForm, ChatForm, Dialect, ModelProfile, Price, ThinkingForm};
use crate::model::request::AnswerPart;
use proptest::prelude::*;
use serde_json::Value;
use std::borrow::Cow;

fn profile(chat: ChatForm) -> ModelProfile {
    ModelProfile {
        provider: "open".into(),
        model: "gpt-x".into(),
        dialect: Dialect::OpenAiChat,
        context_window: 200_000,
        max_output_tokens: 4_096,
        thinking: ThinkingForm::Omit,
        parallel_tool_calls: true,
        cache_markers: true,
        price: Price::default(),
        price_unknown: false,
        chat,
        window_is_guess: false,
    }
}

fn raw(text: &str) -> Box<RawValue> {
    RawValue::from_string(text.to_owned()).unwrap()
}

fn own(kind: BlockKind, json: &str) -> AnswerPart<'static> {
    AnswerPart::Own { kind, raw: Cow::Owned(raw(json)) }
}

fn text(json: &str) -> AnswerPart<'static> {
    own(BlockKind::Text, json)
}

fn thinking(json: &str) -> AnswerPart<'static> {
    own(BlockKind::Thinking, json)
}

fn result<'a>(id: &'a str, text: &'a str, is_error: bool) -> UserPart<'a> {
    UserPart::ToolResult { provider_call_id: id.into(), text, is_error }
}

const TOOLS: &str = r#"[{"name":"write", "description":"w","input_schema":{"type":"object"}}]"#;

fn body(profile: &ModelProfile, tools: &str, system: &str, messages: Vec<Message<'_>>) -> String {
    let tools = raw(tools);
    let request =
        Request { profile, system, tools: &tools, messages, max_output_tokens: 512, continuation: false };
    let body = encode(&request);
    assert_eq!(body_bytes(&request), body.len());
    assert_eq!(request_hash(&request), crate::prompt::sha256_hex(&body));
    String::from_utf8(body).unwrap()
}

/// The one message that this answer becomes.
fn message(chat: ChatForm, parts: Vec<AnswerPart<'_>>) -> String {
    let body = body(&profile(chat), "[]", "", vec![Message::Assistant(parts)]);
    let (_, messages) = body.split_once("\"messages\":[").unwrap();
    messages.strip_suffix("]}").unwrap().to_owned()
}

#[test]
fn a_whole_request_byte_for_byte() {
    let form = ChatForm { max_tokens_field: MaxTokensField::MaxCompletionTokens, ..ChatForm::default() };
    let profile = ModelProfile { parallel_tool_calls: false, ..profile(form) };
    let call = r#"{"id":"t","type":"function","extra":{"z":1,"a":2},"function":{"name":"write","arguments":"{\"a\": 1}"}}"#;
    let messages = vec![
        Message::User(vec![UserPart::Text("go"), UserPart::Text("on")]),
        Message::Assistant(vec![
            text(r#"{"type":"text",  "text":"\u0041 \"b\""}"#),
            own(BlockKind::ToolUse, call),
        ]),
        Message::User(vec![result("t", "", false), UserPart::Text("and é")]),
    ];
    let expected = [
        r#"{"model":"gpt-x","stream":true,"stream_options":{"include_usage":true},"max_completion_tokens":512"#,
        r#","parallel_tool_calls":false,"tools":[{"type":"function","function":{"name":"write","description":"w","parameters":{"type":"object"}}}]"#,
        r#","messages":[{"role":"system","content":"You are\n\"it\"."},{"role":"user","content":"go\n\non"}"#,
        r#",{"role":"assistant","content":"\u0041 \"b\"","tool_calls":["#,
        call,
        r#"]},{"role":"tool","tool_call_id":"t","content":""},{"role":"user","content":"and é"}]}"#,
    ];
    assert_eq!(body(&profile, TOOLS, "You are\n\"it\".", messages), expected.concat());
}

#[test]
fn what_a_server_does_not_know_is_left_out() {
    let profile = profile(ChatForm { stream_options: false, ..ChatForm::default() });
    assert_eq!(
        body(&profile, "[ ]", "", vec![Message::User(vec![UserPart::Text("go")])]),
        r#"{"model":"gpt-x","stream":true,"max_tokens":512,"messages":[{"role":"user","content":"go"}]}"#
    );
    let serial = ModelProfile { parallel_tool_calls: false, ..profile };
    let without_tools = body(&serial, "[]", "", vec![Message::User(vec![UserPart::Text("go")])]);
    assert!(!without_tools.contains("parallel_tool_calls"), "{without_tools}");
}

#[test]
fn results_come_first_and_errors_say_so() {
    let parts = vec![
        result("a", "not found", true),
        result("b", "Error: gone", true),
        result("c", " ERRORS: 2", true),
        result("d", "", true),
        result("e", "error: is in the text", false),
        result("f", "er", true),
        UserPart::Text("x"),
    ];
    let body: Value =
        serde_json::from_str(&body(&profile(ChatForm::default()), "[]", "", vec![Message::User(parts)]))
            .unwrap();
    let said: Vec<(&str, &str)> = body["messages"]
        .as_array()
        .unwrap()
        .iter()
        .map(|message| {
            (message["tool_call_id"].as_str().unwrap_or("-"), message["content"].as_str().unwrap())
        })
        .collect();
    let expected = [
        ("a", "Error: not found"),
        ("b", "Error: gone"),
        ("c", " ERRORS: 2"),
        ("d", "Error: no output"),
        ("e", "error: is in the text"),
        ("f", "Error: er"),
        ("-", "x"),
    ];
    assert_eq!(said, expected);
}

#[test]
fn mistral_gets_a_word_between_results_and_us() {
    let mistral = ChatForm { call_ids: CallIdForm::NineAlphanumeric, ..ChatForm::default() };
    let said = |chat, parts| body(&profile(chat), "[]", "", vec![Message::User(parts)]);
    let bridged = r#"{"role":"tool","tool_call_id":"a","content":"r"},{"role":"assistant","content":"Done."},{"role":"user","content":"x"}"#;
    let both = || vec![result("a", "r", false), UserPart::Text("x")];
    assert!(said(mistral, both()).contains(bridged));
    for without in [
        said(ChatForm::default(), both()),
        said(mistral, vec![result("a", "r", false)]),
        said(mistral, vec![UserPart::Text("x")]),
    ] {
        assert!(!without.contains("Done."), "{without}");
    }
}

#[test]
fn reasoning_goes_back_in_the_field_it_came_in() {
    let parts = || {
        vec![
            thinking(r#"{"type":"reasoning","field":"reasoning_content","text":"a\u00e9"}"#),
            thinking(r#"{"type":"reasoning","field":"reasoning","text":"z"}"#),
            thinking(r#"{"type":"reasoning","field":"reasoning_content","text":"b"}"#),
            text(r#"{"type":"text","text":"x"}"#),
            text(r#"{"type":"text","text":"y"}"#),
        ]
    };
    let same = ChatForm::default();
    assert_eq!(
        message(same, parts()),
        r#"{"role":"assistant","content":"xy","reasoning_content":"a\u00e9b","reasoning":"z"}"#
    );
    let never = ChatForm { reasoning: ReasoningReplay::Never, ..same };
    assert_eq!(message(never, parts()), r#"{"role":"assistant","content":"xy"}"#);
}

#[test]
fn calls_that_need_reasoning_get_an_empty_one() {
    let needed = ChatForm { reasoning_with_calls: true, ..ChatForm::default() };
    let own_call = r#"{"id":"a","type":"function","function":{"name":"f","arguments":"{}"}}"#;
    let call = || own(BlockKind::ToolUse, own_call);
    let thought = |field: &str| thinking(&format!(r#"{{"type":"reasoning","field":"{field}","text":"z"}}"#));
    let said =
        |fields: &str| format!(r#"{{"role":"assistant","content":null,{fields}"tool_calls":[{own_call}]}}"#);
    assert_eq!(message(needed, vec![call()]), said(r#""reasoning_content":" ","#));
    assert_eq!(
        message(needed, vec![thought("reasoning_content"), call()]),
        said(r#""reasoning_content":"z","#)
    );
    assert_eq!(message(needed, vec![thought("r"), call()]), said(r#""reasoning_content":" ","r":"z","#));
    let words = || text(r#"{"type":"text","text":"x"}"#);
    assert_eq!(message(needed, vec![words()]), r#"{"role":"assistant","content":"x"}"#);
    let never = ChatForm { reasoning: ReasoningReplay::Never, ..needed };
    assert_eq!(message(never, vec![call()]), said(""));
    assert_eq!(message(ChatForm::default(), vec![call()]), said(""));
}

#[test]
fn reasoning_details_go_back_as_they_are() {
    let details =
        |inside: &str| thinking(&format!(r#"{{"type":"reasoning_details","reasoning_details":[{inside}]}}"#));
    let words = || text(r#"{"type":"text","text":"x"}"#);
    let same = ChatForm::default();
    assert_eq!(
        message(same, vec![details(r#" {"b":1, "a":2} "#), words()]),
        r#"{"role":"assistant","content":"x","reasoning_details":[ {"b":1, "a":2} ]}"#
    );
    assert_eq!(
        message(same, vec![details(r#"{"b":1}"#), details(""), details(r#"{"a":2}"#), words()]),
        r#"{"role":"assistant","content":"x","reasoning_details":[{"b":1},{"a":2}]}"#
    );
    let never = ChatForm { reasoning: ReasoningReplay::Never, ..same };
    assert_eq!(message(never, vec![details("{}"), words()]), r#"{"role":"assistant","content":"x"}"#);
}

#[test]
fn thinking_parts_make_the_content_an_array_in_order() {
    let thought = r#"{"type":"thinking","thinking":[{"type":"text","text":"hm"}],"closed":true}"#;
    let parts = || vec![thinking(thought), text(r#"{"type":"text","text":"x"}"#), AnswerPart::Text("\"y\"")];
    let same = ChatForm::default();
    let expected = format!(
        r#"{{"role":"assistant","content":[{thought},{{"type":"text","text":"x"}},{{"type":"text","text":"\"y\""}}]}}"#
    );
    assert_eq!(message(same, parts()), expected);
    let never = ChatForm { reasoning: ReasoningReplay::Never, ..same };
    assert_eq!(message(never, parts()), r#"{"role":"assistant","content":"x\"y\""}"#);
}

#[test]
fn foreign_calls_are_written_anew() {
    let args = raw(r#"{"z": "é\"", "a":1}"#);
    let call = |id: &'static str| AnswerPart::Call { id: id.into(), name: "read_file".into(), args: &args };
    let written = |id: &str, extra: &str| {
        format!(
            r#"{{"id":"{id}","type":"function","function":{{"name":"read_file","arguments":"{{\"z\": \"é\\\"\", \"a\":1}}"}}{extra}}}"#
        )
    };
    let usual = ChatForm::default();
    assert_eq!(
        message(usual, vec![call("a"), call("b")]),
        format!(
            r#"{{"role":"assistant","content":null,"tool_calls":[{},{}]}}"#,
            written("a", ""),
            written("b", "")
        )
    );
    let empty = ChatForm { empty_content: true, ..usual };
    assert!(
        message(empty, vec![call("a")]).starts_with(r#"{"role":"assistant","content":"","tool_calls":["#)
    );
    // Google: the first call of a message carries a stand-in, unless it is its own.
    let google = ChatForm { stand_in_signature: true, ..usual };
    let stand_in = r#","extra_content":{"google":{"thought_signature":"skip_thought_signature_validator"}}"#;
    let said = message(google, vec![call("a"), call("b")]);
    assert!(said.contains(&format!("[{},{}]", written("a", stand_in), written("b", ""))), "{said}");
    let signed = r#"{"id":"s","type":"function","function":{"name":"f","arguments":"{}"},"extra_content":{"google":{"thought_signature":"real"}}}"#;
    let said = message(google, vec![own(BlockKind::ToolUse, signed), call("b")]);
    assert!(said.contains(&format!("[{signed},{}]", written("b", ""))), "{said}");
}

proptest! {
    #[test]
    fn any_text_is_carried_exactly(
        system in "\\PC+", texts in proptest::collection::vec(any::<String>(), 1..6),
    ) {
        let profile = profile(ChatForm::default());
        let stored: Vec<String> =
            texts.iter().map(|text| serde_json::json!({"type": "text", "text": text}).to_string()).collect();
        let mut messages = vec![Message::User(texts.iter().map(|text| UserPart::Text(text)).collect())];
        messages.push(Message::Assistant(stored.iter().map(|json| text(json)).collect()));
        messages.push(Message::User(texts.iter().map(|text| result(text, text, false)).collect()));
        let body: Value = serde_json::from_str(&body(&profile, TOOLS, &system, messages)).unwrap();
        let said = body["messages"].as_array().unwrap();
        prop_assert_eq!(&said[0]["content"], system.as_str());
        let ours = texts.join("\n\n");
        prop_assert_eq!(&said[1]["content"], ours.as_str());
        let theirs = texts.concat();
        prop_assert_eq!(&said[2]["content"], theirs.as_str());
        for (message, text) in said[3..].iter().zip(&texts) {
            prop_assert_eq!(&message["tool_call_id"], text.as_str());
            prop_assert_eq!(&message["content"], text.as_str());
        }
        prop_assert!(body.get("temperature").is_none());
    }
}
