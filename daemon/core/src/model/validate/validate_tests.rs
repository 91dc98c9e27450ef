//! The validator refuses exactly what the API refuses.

use super::*;
use crate::event::{Block, BlockKind, CallIdForm, ChatForm, Dialect, ModelProfile, Price, ThinkingForm};
use crate::model::live::Decoded;
use proptest::prelude::*;

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

const TOOLS: &str = r#"[{"name":"write","input_schema":{"type":"object"}}]"#;

fn raw(text: &str) -> Box<RawValue> {
    RawValue::from_string(text.to_owned()).unwrap()
}

/// An answer of the very server.
fn said<'a>(blocks: &[&'a RawValue]) -> Message<'a> {
    let kind = |raw: &str| {
        if raw.contains("\"tool_use\"") || raw.contains("\"function\"") {
            BlockKind::ToolUse
        } else {
            BlockKind::Text
        }
    };
    Message::Assistant(blocks.iter().map(|raw| AnswerPart::own(kind(raw.get()), raw)).collect())
}

fn result(id: &str) -> UserPart<'_> {
    UserPart::ToolResult { provider_call_id: id.into(), text: "ok", is_error: false }
}

type Found = Vec<(&'static str, Option<usize>, Option<usize>)>;

fn check(tools: &str, system: &str, messages: Vec<Message<'_>>) -> Found {
    check_for(&profile(), tools, system, messages)
}

fn check_for(profile: &ModelProfile, tools: &str, system: &str, messages: Vec<Message<'_>>) -> Found {
    let tools = raw(tools);
    let continuation = false;
    let request = Request { profile, system, tools: &tools, messages, max_output_tokens: 100, continuation };
    let faults = validate(&request).err().unwrap_or_default();
    faults.into_iter().map(|fault| (fault.kind.as_str(), fault.message, fault.part)).collect()
}

/// Asserts that a conversation with this answer in it, each call answered, has no fault.
pub(crate) fn assert_sendable(decoded: &Decoded) {
    assert_sendable_to(&profile(), decoded);
}

/// The same, for the server that gave the answer.
pub(crate) fn assert_sendable_to(profile: &ModelProfile, decoded: &Decoded) {
    // The builder leaves out text without a visible character.
    let blocks = decoded.blocks.iter().filter(|block| !block.is_blank());
    let answer: Vec<AnswerPart<'_>> =
        blocks.clone().map(|block: &Block| AnswerPart::own(block.kind, &block.raw)).collect();
    if answer.is_empty() {
        return;
    }
    let calls = blocks.filter_map(|block| block.call.as_ref());
    let mut parts: Vec<UserPart<'_>> = calls.map(|call| result(&call.provider_call_id)).collect();
    parts.push(UserPart::Text("go on"));
    let messages =
        vec![Message::User(vec![UserPart::Text("go")]), Message::Assistant(answer), Message::User(parts)];
    assert_eq!(check_for(profile, TOOLS, "system", messages), []);
}

#[test]
fn a_good_conversation_has_no_fault() {
    let (one, two) = (
        raw(r#"{"type":"tool_use","id":"a","name":"write","input":{}}"#),
        raw(r#"{"type":"tool_use","id":"b","name":"write","input":{}}"#),
    );
    let words = raw(r#"{"type":"text","text":"hm"}"#);
    let messages = vec![
        Message::User(vec![UserPart::Text("go")]),
        said(&[&words, &one, &two]),
        Message::User(vec![result("b"), result("a"), UserPart::Text("and")]),
    ];
    assert_eq!(check(TOOLS, "system", messages), []);
}

#[test]
fn pairing_is_checked() {
    let call = raw(r#"{"type":"tool_use","id":"a","name":"write","input":{}}"#);
    let words = raw(r#"{"type":"text","text":"hm"}"#);
    let go = || Message::User(vec![UserPart::Text("go")]);
    let with = |parts: Vec<UserPart<'static>>| vec![go(), said(&[&call]), Message::User(parts)];
    let cases = [
        (with(vec![UserPart::Text("x")]), vec![("call_unanswered", Some(1), None)]),
        (with(vec![result("a"), result("z")]), vec![("result_orphan", Some(2), Some(1))]),
        (with(vec![result("a"), result("a")]), vec![("result_repeated", Some(2), Some(1))]),
        (with(vec![UserPart::Text("x"), result("a")]), vec![("result_not_first", Some(2), Some(1))]),
        (
            vec![go(), said(&[&call])],
            vec![("last_not_user", Some(1), None), ("call_unanswered", Some(1), None)],
        ),
        (
            vec![go(), said(&[&call]), go(), Message::User(vec![result("a")])],
            vec![("call_unanswered", Some(1), None), ("result_orphan", Some(3), Some(0))],
        ),
        (
            vec![go(), said(&[&call, &words]), Message::User(vec![result("a")])],
            vec![("text_after_call", Some(1), Some(1))],
        ),
        (
            vec![
                go(),
                said(&[&call]),
                Message::User(vec![result("a")]),
                said(&[&call]),
                Message::User(vec![result("a")]),
            ],
            vec![("id_repeated", Some(3), Some(0))],
        ),
    ];
    for (messages, expected) in cases {
        assert_eq!(check(TOOLS, "", messages), expected);
    }
}

#[test]
fn messages_and_blocks_are_checked() {
    let go = || Message::User(vec![UserPart::Text("go")]);
    let block = |text: &str| -> Vec<&'static str> {
        let block = raw(text);
        let id = Object::parse(text).and_then(|block| block.text("id")).unwrap_or_default();
        let parts = if text.contains("tool_use") { vec![result(&id)] } else { vec![UserPart::Text("x")] };
        let messages = vec![go(), said(&[&block]), Message::User(parts)];
        check(TOOLS, "", messages).into_iter().map(|fault| fault.0).collect()
    };
    assert_eq!(block(r#"{"type":"text","text":" "}"#), ["text_empty"]);
    assert_eq!(block(r#"{"type":"text"}"#), ["text_empty"]);
    assert_eq!(block(r#"{"text":"x"}"#), ["block_malformed"]);
    assert_eq!(block("[]"), ["block_malformed"]);
    assert_eq!(block(r#"{"type":"tool_use","id":"","name":"write","input":{}}"#), ["id_empty"]);
    assert_eq!(block(r#"{"type":"tool_use","id":"a.b","name":"write","input":{}}"#), ["id_illegal"]);
    assert_eq!(block(r#"{"type":"tool_use","id":"a","name":"a b","input":{}}"#), ["tool_name_illegal"]);
    assert_eq!(block(r#"{"type":"tool_use","id":"a","name":"write","input":[]}"#), ["input_not_object"]);
    assert_eq!(block(r#"{"type":"thinking","thinking":"","signature":"x"}"#), [] as [&str; 0]);
    assert_eq!(check(TOOLS, "", vec![]), [("no_messages", None, None)]);
    assert_eq!(check(TOOLS, " ", vec![go()]), [("text_empty", None, None)]);
    assert_eq!(check(TOOLS, "", vec![Message::User(vec![])]), [("message_empty", Some(0), None)]);
    assert_eq!(
        check(TOOLS, "", vec![Message::User(vec![UserPart::Text("")])]),
        [("text_empty", Some(0), Some(0))]
    );
    let words = raw(r#"{"type":"text","text":"hm"}"#);
    assert_eq!(check(TOOLS, "", vec![said(&[&words]), go()]), [("first_not_user", Some(0), None)]);
}

#[test]
fn tools_are_checked() {
    let tools = |text: &str| -> Vec<(&'static str, Option<usize>)> {
        let faults = check(text, "", vec![Message::User(vec![UserPart::Text("go")])]);
        faults.into_iter().map(|fault| (fault.0, fault.2)).collect()
    };
    assert_eq!(tools("{}"), [("tools_malformed", None)]);
    assert_eq!(tools("[1]"), [("tools_malformed", Some(0))]);
    assert_eq!(
        tools(r#"[{"name":"a.b","input_schema":{"type":"object"}}]"#),
        [("tool_name_illegal", Some(0))]
    );
    assert_eq!(tools(r#"[{"name":"a","input_schema":{"type":"array"}}]"#), [("schema_not_object", Some(0))]);
    let twice =
        r#"[{"name":"a","input_schema":{"type":"object"}},{"name":"a","input_schema":{"type":"object"}}]"#;
    assert_eq!(tools(twice), [("tool_name_repeated", Some(1))]);
    let long = format!(r#"[{{"name":"{}","input_schema":{{"type":"object"}}}}]"#, "a".repeat(129));
    assert_eq!(tools(&long), [("tool_name_illegal", Some(0))]);
    let marks = r#""cache_control":{"type":"ephemeral"}"#;
    let marked = format!(
        r#"[{{"name":"a","input_schema":{{"type":"object"}},{marks}}},{{"name":"b","input_schema":{{"type":"object"}},{marks}}}]"#
    );
    assert_eq!(tools(&marked), [("too_many_markers", None)]);
    let call = raw(r#"{"type":"tool_use","id":"a","name":"write","input":{}}"#);
    let messages =
        vec![Message::User(vec![UserPart::Text("go")]), said(&[&call]), Message::User(vec![result("a")])];
    assert_eq!(check("[]", "", messages), [("tools_missing", None, None)]);
}

#[test]
fn the_frame_is_checked() {
    let profile = ModelProfile { model: String::new(), ..profile() };
    let tools = raw(TOOLS);
    let text = "x".repeat(REQUEST_BODY_MAX_BYTES);
    let messages = vec![Message::User(vec![UserPart::Text(&text)])];
    let request = Request {
        profile: &profile,
        system: "",
        tools: &tools,
        messages,
        max_output_tokens: 0,
        continuation: false,
    };
    let kinds: Vec<FaultKind> = validate(&request).unwrap_err().into_iter().map(|fault| fault.kind).collect();
    assert_eq!(kinds, [FaultKind::ModelEmpty, FaultKind::MaxTokensZero, FaultKind::BodyTooLarge]);
}

#[test]
fn a_continuation_ends_with_the_model() {
    let (profile, tools, words) = (profile(), raw(TOOLS), raw(r#"{"type":"text","text":"part1"}"#));
    let request = |messages, continuation| {
        validate(&Request {
            profile: &profile,
            system: "",
            tools: &tools,
            messages,
            max_output_tokens: 9,
            continuation,
        })
        .is_ok()
    };
    let go = || Message::User(vec![UserPart::Text("go")]);
    assert!(request(vec![go(), said(&[&words])], true));
    assert!(!request(vec![go(), said(&[&words])], false));
    assert!(!request(vec![go()], true));
}

#[test]
fn a_fault_says_what_and_where() {
    let fault = RequestFault {
        kind: FaultKind::CallUnanswered,
        message: Some(3),
        part: None,
        detail: "toolu_1".into(),
    };
    assert_eq!(fault.to_string(), "call_unanswered at messages.3: toolu_1");
    let names: BTreeSet<&str> = FaultKind::ALL.iter().map(|kind| kind.as_str()).collect();
    assert_eq!(names.len(), FaultKind::ALL.len());
}

fn chat_profile(call_ids: CallIdForm) -> ModelProfile {
    ModelProfile {
        dialect: Dialect::OpenAiChat,
        chat: ChatForm { call_ids, ..ChatForm::default() },
        ..profile()
    }
}

#[test]
fn chat_completions_are_checked_by_their_own_rules() {
    let (any, nine) = (chat_profile(CallIdForm::Any), chat_profile(CallIdForm::NineAlphanumeric));
    let go = || Message::User(vec![UserPart::Text("go")]);
    let kinds = |profile: &ModelProfile, id: &str, block: &str| -> Vec<&'static str> {
        let block = raw(block);
        let parts =
            if block.get().contains("\"function\"") { vec![result(id)] } else { vec![UserPart::Text("x")] };
        let messages = vec![go(), said(&[&block]), Message::User(parts)];
        check_for(profile, TOOLS, "", messages).into_iter().map(|fault| fault.0).collect()
    };
    let call = |profile: &ModelProfile, id: &str, name: &str, arguments: &str| {
        let block = format!(
            r#"{{"id":"{id}","type":"function","function":{{"name":"{name}","arguments":{arguments}}}}}"#
        );
        kinds(profile, id, &block)
    };
    let (n64, n65) = ("n".repeat(64), "n".repeat(65));
    assert_eq!(call(&any, "functions.f:0", &n64, r#""{}""#), [] as [&str; 0]);
    assert_eq!(call(&any, "a", &n65, r#""{}""#), ["tool_name_illegal"]);
    assert_eq!(call(&any, "", "f", r#""{}""#), ["id_empty"]);
    assert_eq!(call(&any, "a", "f", r#""{""#), ["input_not_object"]);
    assert_eq!(call(&any, "a", "f", "{}"), ["input_not_object"]);
    assert_eq!(call(&any, "a", "f", r#""[]""#), ["input_not_object"]);
    assert_eq!(call(&nine, "abcdefgh1", "f", r#""{}""#), [] as [&str; 0]);
    for id in ["abcdefgh", "abcdefghij", "abcdefg-1"] {
        assert_eq!(call(&nine, id, "f", r#""{}""#), ["id_illegal"], "{id}");
    }
    assert_eq!(kinds(&any, "", r#"{"type":"text","text":" "}"#), ["text_empty"]);
    assert_eq!(kinds(&any, "", r#"{"type":"text"}"#), ["block_malformed"]);
    assert_eq!(kinds(&any, "", r#"{"type":"tool_use"}"#), ["block_malformed"]);
    assert_eq!(kinds(&any, "", r#"{"type":"reasoning","field":"content","text":"x"}"#), ["block_malformed"]);
    // Reasoning beside nothing is no message.
    assert_eq!(kinds(&any, "", r#"{"type":"reasoning","field":"r","text":"x"}"#), ["message_empty"]);
    assert_eq!(check_for(&any, TOOLS, "", vec![go(), go()]), [("role_repeated", Some(1), None)]);
    assert_eq!(check(TOOLS, "", vec![go(), go()]), []);
}

#[test]
fn chat_tools_are_counted_and_their_names_shorter() {
    let any = chat_profile(CallIdForm::Any);
    let tools = |names: &[String]| {
        let tools: Vec<String> = names
            .iter()
            .map(|name| format!(r#"{{"name":"{name}","input_schema":{{"type":"object"}}}}"#))
            .collect();
        format!("[{}]", tools.join(","))
    };
    let many: Vec<String> = (0..129).map(|no| format!("t{no}")).collect();
    let go = || vec![Message::User(vec![UserPart::Text("go")])];
    assert_eq!(check_for(&any, &tools(&many[..128]), "", go()), []);
    assert_eq!(check_for(&any, &tools(&many), "", go()), [("tools_too_many", None, None)]);
    assert_eq!(check(&tools(&many), "", go()), []);
    let long = tools(&["n".repeat(65)]);
    assert_eq!(check_for(&any, &long, "", go()), [("tool_name_illegal", None, Some(0))]);
    assert_eq!(check(&long, "", go()), []);
}

#[test]
fn what_another_model_said_is_checked_as_well() {
    let (good, bad) = (raw("{}"), raw("[]"));
    let call = |id: &'static str, name: &'static str, args| AnswerPart::Call {
        id: id.into(),
        name: name.into(),
        args,
    };
    let parts = vec![AnswerPart::Text(" "), call("a.b", "f g", &bad), AnswerPart::Text("late")];
    let messages = vec![
        Message::User(vec![UserPart::Text("go")]),
        Message::Assistant(parts.clone()),
        Message::User(vec![result("a.b")]),
    ];
    let faults = |profile: &ModelProfile, messages| -> Vec<&'static str> {
        check_for(profile, TOOLS, "", messages).into_iter().map(|fault| fault.0).collect()
    };
    let common = ["text_empty", "id_illegal", "tool_name_illegal", "input_not_object", "text_after_call"];
    assert_eq!(faults(&profile(), messages.clone()), common);
    assert_eq!(
        faults(&chat_profile(CallIdForm::Any), messages),
        ["text_empty", "tool_name_illegal", "input_not_object"]
    );
    let twice = vec![
        Message::User(vec![UserPart::Text("go")]),
        Message::Assistant(vec![call("a", "f", &good), call("a", "f", &good)]),
        Message::User(vec![result("a")]),
    ];
    assert_eq!(faults(&profile(), twice.clone()), ["id_repeated"]);
    assert_eq!(faults(&chat_profile(CallIdForm::Any), twice), ["id_repeated"]);
}

#[test]
fn no_other_dialect_pauses_or_is_spoken() {
    let tools = raw(TOOLS);
    let words = raw(r#"{"type":"text","text":"part1"}"#);
    let kinds = |profile: &ModelProfile| -> Vec<FaultKind> {
        let request = Request {
            profile,
            system: "",
            tools: &tools,
            messages: vec![Message::User(vec![UserPart::Text("go")]), said(&[&words])],
            max_output_tokens: 9,
            continuation: true,
        };
        validate(&request).err().unwrap_or_default().into_iter().map(|fault| fault.kind).collect()
    };
    assert_eq!(kinds(&chat_profile(CallIdForm::Any)), [FaultKind::LastNotUser]);
    let responses = ModelProfile { dialect: Dialect::OpenAiResponses, ..profile() };
    assert_eq!(kinds(&responses), [FaultKind::LastNotUser, FaultKind::DialectUnknown]);
}

fn any_raw() -> impl Strategy<Value = Box<RawValue>> {
    prop_oneof![
        Just(r#"{"type":"text","text":"x"}"#),
        Just(r#"{"type":"tool_use","id":"a","name":"write","input":{}}"#),
        Just(r#"{"type":"tool_use","id":7}"#),
        Just("null"),
        Just("[[]]"),
    ]
    .prop_map(raw)
}

proptest! {
    #[test]
    fn any_request_is_judged(
        blocks in proptest::collection::vec(any_raw(), 0..5),
        ids in proptest::collection::vec("[a-c]?", 0..5),
        tools in prop_oneof![Just("[]".to_owned()), Just(TOOLS.to_owned()), Just("7".to_owned())],
        system in any::<String>(),
    ) {
        let mut messages = vec![Message::User(vec![UserPart::Text("go")]), said(&blocks.iter().map(|b| &**b).collect::<Vec<_>>())];
        messages.push(Message::User(ids.iter().map(|id| result(id)).collect()));
        let calls = blocks.iter().filter(|block| block.get().contains("tool_use")).count();
        let faults = check(&tools, &system, messages);
        prop_assert!(calls == ids.len() || !faults.is_empty(), "calls and results are never of different number");
    }
}
