//! What servers of Chat Completions refuse, by name.

use super::anthropic::with;
use super::cases::{Broken, all_refused, all_taken};
use super::openai::{answered, assistant, call, calling, plain, request, result, system, tool, user};
use crate::scripted::{Dialect, Ledger, Rules, refusal};
use serde_json::{Value, json};

const UNANSWERED: &str = "An assistant message with 'tool_calls' must be followed by tool messages responding to each 'tool_call_id'. The following tool_call_ids did not have response messages: ";
const UNASKED: &str =
    "messages with role 'tool' must be a response to a preceeding message with 'tool_calls'.";

/// Requests that break the pairing of calls and results.
fn unpaired() -> Vec<Broken> {
    let two = || calling([call("c1"), call("c2")]);
    vec![
        (
            "orphan call",
            request(json!([user("a"), calling([call("c1")]), user("b")])),
            "The following tool_call_ids did not have response messages: c1",
        ),
        (
            "one call of two unanswered",
            request(json!([user("a"), two(), result("c1"), user("b")])),
            "The following tool_call_ids did not have response messages: c2",
        ),
        ("ends with a call", request(json!([user("a"), two()])), UNANSWERED),
        ("ends with one result of two", request(json!([user("a"), two(), result("c2")])), UNANSWERED),
        (
            "user between call and result",
            request(json!([user("a"), calling([call("c1")]), user("b"), result("c1")])),
            UNANSWERED,
        ),
        (
            "user between two results",
            request(json!([user("a"), two(), result("c1"), user("b"), result("c2")])),
            UNANSWERED,
        ),
        ("orphan result", request(json!([user("a"), result("c1")])), UNASKED),
        ("result first", request(json!([result("c1"), user("a")])), UNASKED),
        (
            "result of an earlier answer",
            request(json!([user("a"), calling([call("c1")]), result("c1"), user("b"), result("c1")])),
            UNASKED,
        ),
        (
            "result of an unknown call",
            request(json!([user("a"), calling([call("c1")]), result("c1"), result("c9")])),
            UNASKED,
        ),
        (
            "two results of one call",
            request(json!([user("a"), calling([call("c1")]), result("c1"), result("c1")])),
            "Duplicate value for 'tool_call_id'",
        ),
        (
            "repeated id in one message",
            request(json!([user("a"), calling([call("c1"), call("c1")]), result("c1")])),
            "Duplicate value for 'tool_call_id'",
        ),
        (
            "repeated id in a later message",
            request(json!([
                user("a"),
                calling([call("c1")]),
                result("c1"),
                calling([call("c1")]),
                result("c1")
            ])),
            "Duplicate value for 'tool_call_id'",
        ),
    ]
}

/// Requests whose calls and results are wrong in themselves.
fn miscalled() -> Vec<Broken> {
    let function = |function: Value| with(call("c1"), "function", function);
    let image = json!([{"type": "image_url", "image_url": {"url": "https://example.invalid/x.png"}}]);
    vec![
        ("empty id", answered(call(""), result("")), "tool_calls[0].id': empty string"),
        (
            "no id",
            answered(json!({"type": "function", "function": {"name": "a", "arguments": "{}"}}), result("c1")),
            "Missing required parameter: 'messages[1].tool_calls[0].id'.",
        ),
        ("no type", answered(with(call("c1"), "type", Value::Null), result("c1")), "tool_calls[0].type"),
        (
            "bad name of a call",
            answered(function(json!({"name": "a.b", "arguments": "{}"})), result("c1")),
            "Expected a string that matches the pattern '^[a-zA-Z0-9_-]+$'.",
        ),
        (
            "arguments as an object",
            answered(function(json!({"name": "a", "arguments": {}})), result("c1")),
            "function.arguments': expected a string, but got an object instead.",
        ),
        (
            "arguments of nothing",
            answered(function(json!({"name": "a", "arguments": ""})), result("c1")),
            "expected a string that holds a JSON object",
        ),
        (
            "arguments cut off",
            answered(function(json!({"name": "a", "arguments": "{\"path\": "})), result("c1")),
            "expected a string that holds a JSON object",
        ),
        (
            "arguments of a list",
            answered(function(json!({"name": "a", "arguments": "[]"})), result("c1")),
            "expected a string that holds a JSON object",
        ),
        (
            "no calls in the list of calls",
            request(json!([user("a"), with(assistant("b"), "tool_calls", json!([])), user("c")])),
            "Invalid 'messages[1].tool_calls': empty array.",
        ),
        (
            "tool content image",
            answered(call("c1"), with(result("c1"), "content", image)),
            "Content blocks are expected to be either text or image_url type",
        ),
        (
            "tool content null",
            answered(call("c1"), with(result("c1"), "content", Value::Null)),
            "expected a string, got null",
        ),
        (
            "error flag of the other dialect",
            answered(call("c1"), with(result("c1"), "is_error", true)),
            "Unknown parameter: 'messages[2].is_error'.",
        ),
        (
            "result without id",
            answered(call("c1"), json!({"role": "tool", "content": "x"})),
            "Missing required parameter: 'messages[2].tool_call_id'.",
        ),
        (
            "calls without tools",
            {
                let mut body = answered(call("c1"), result("c1"));
                body.as_object_mut().unwrap().remove("tools");
                body
            },
            "must define tools",
        ),
    ]
}

/// Requests whose messages are wrong in themselves.
fn misshapen() -> Vec<Broken> {
    let picture =
        |url: &str| request(json!([user(json!([{"type": "image_url", "image_url": {"url": url}}]))]));
    vec![
        ("empty text", request(json!([user("")])), "messages[0].content': empty string"),
        (
            "empty text part",
            request(json!([user(json!([{"type": "text", "text": ""}]))])),
            "messages[0].content[0].text': empty string",
        ),
        ("empty content", request(json!([user(Value::Array(vec![]))])), "empty array"),
        (
            "empty assistant",
            request(json!([user("a"), assistant(""), user("b")])),
            "messages[1].content': empty string",
        ),
        (
            "assistant of nothing",
            request(json!([user("a"), assistant(Value::Null), user("b")])),
            "expected a string, got null",
        ),
        ("no messages", request(json!([])), "Invalid 'messages': empty array"),
        (
            "unknown role",
            request(json!([{"role": "narrator", "content": "x"}])),
            "Invalid value: 'narrator'. Supported values are:",
        ),
        (
            "system later",
            request(json!([user("a"), system("b")])),
            "System message must be at the beginning.",
        ),
        ("system alone", request(json!([system("b")])), "At least one user message is required."),
        (
            "assistant first",
            request(json!([system("s"), assistant("a"), user("b")])),
            "must be a user message",
        ),
        (
            "assistant last",
            request(json!([user("a"), assistant("half")])),
            "must not be an assistant message",
        ),
        (
            "unknown field of a message",
            request(json!([with(user("a"), "cache_control", json!({"type": "ephemeral"}))])),
            "Unknown parameter: 'messages[0].cache_control'.",
        ),
        (
            "unknown field of a part",
            request(json!([user(json!([{"type": "text", "text": "a", "cache_control": {}}]))])),
            "Unknown parameter: 'messages[0].content[0].cache_control'.",
        ),
        (
            "reasoning of a user",
            request(json!([with(user("a"), "reasoning_content", "x")])),
            "Unknown parameter: 'messages[0].reasoning_content'.",
        ),
        ("image that is none", picture("data:image/png;base64,aGVsbG8="), "unsupported image"),
        ("image not in base64", picture("data:image/png;base64,é"), "Invalid base64 image_url."),
        ("image by path", picture("/home/x.png"), "Invalid image URL."),
        (
            "block of the other dialect",
            request(json!([user(json!([{"type": "tool_result", "tool_use_id": "c1"}]))])),
            "Invalid value: 'tool_result'.",
        ),
    ]
}

/// Requests that are wrong outside their messages.
fn misdeclared() -> Vec<Broken> {
    let named = |name: &str| json!({"type": "function", "function": {"name": name, "parameters": {"type": "object"}}});
    let schema =
        |schema: Value| json!([{"type": "function", "function": {"name": "a", "parameters": schema}}]);
    let many: Vec<Value> = (0..129).map(|n| named(&format!("t{n}"))).collect();
    vec![
        (
            "both max tokens",
            with(plain(), "max_tokens", 5),
            "Setting 'max_tokens' and 'max_completion_tokens' at the same time is not supported.",
        ),
        ("no answer allowed", with(plain(), "max_completion_tokens", 0), "integer below minimum value"),
        ("bad name", with(plain(), "tools", json!([named("mcp.read")])), "does not match pattern"),
        (
            "name of 65",
            with(plain(), "tools", json!([named(&"x".repeat(65))])),
            "Expected a string with maximum length 64, but got a string with length 65 instead.",
        ),
        (
            "129 tools",
            with(plain(), "tools", many),
            "Expected an array with maximum length 128, but got an array with length 129 instead.",
        ),
        ("no tools in the list of tools", with(plain(), "tools", json!([])), "Invalid 'tools': empty array"),
        ("tool twice", with(plain(), "tools", json!([tool(), tool()])), "Tool names must be unique"),
        (
            "schema not object",
            with(plain(), "tools", schema(json!({"type": "string"}))),
            "Invalid schema for function 'a': schema must be a JSON Schema of 'type: \"object\"', got 'type: \"string\"'.",
        ),
        ("schema of nothing", with(plain(), "tools", schema(json!({}))), "got 'type: \"None\"'"),
        (
            "tool of the other dialect",
            with(plain(), "tools", json!([super::anthropic::tool()])),
            "tools[0].type",
        ),
        ("unknown field", with(plain(), "system", "x"), "Unrecognized request argument supplied: system"),
        (
            "unknown stream option",
            with(plain(), "stream_options", json!({"usage": true})),
            "stream_options.usage",
        ),
        ("no stream", with(plain(), "stream", false), "streams only"),
        ("no model", with(plain(), "model", ""), "you must provide a model parameter"),
        ("unknown effort", with(plain(), "reasoning_effort", "extreme"), "Invalid value"),
        ("choice of the other dialect", with(plain(), "tool_choice", json!({"type": "auto"})), "tool_choice"),
    ]
}

#[test]
fn broken_requests_are_refused_in_the_real_shape() {
    let cases = [unpaired(), miscalled(), misshapen(), misdeclared()].concat();
    all_refused(Dialect::OpenAi, &Rules::default(), &cases, |said| {
        let error = said["error"].as_object().unwrap();
        assert_eq!(error.keys().collect::<Vec<_>>(), ["code", "message", "param", "type"]);
        assert_eq!(error["type"], "invalid_request_error");
    });
}

#[test]
fn sound_requests_are_taken() {
    let picture = json!([
        {"type": "text", "text": "what is this?"},
        {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0KGgo=", "detail": "auto"}},
    ]);
    let extra = with(call("c1"), "extra_content", json!({"google": {"thought_signature": "s"}}));
    let mut old = plain();
    old.as_object_mut().unwrap().remove("max_completion_tokens");
    let sound = [
        ("plain", plain()),
        ("max_tokens", with(old, "max_tokens", 5)),
        ("system", request(json!([system("s"), user("a")]))),
        ("developer", request(json!([{"role": "developer", "content": "s"}, user("a")]))),
        ("neighbours of one role", request(json!([user("a"), user("b"), assistant("c"), user("d")]))),
        ("a call", answered(call("c1"), result("c1"))),
        ("a call with fields of its provider", answered(extra, result("c1"))),
        ("an empty result", answered(call("c1"), with(result("c1"), "content", ""))),
        (
            "a result in parts",
            answered(call("c1"), with(result("c1"), "content", json!([{"type": "text", "text": "x"}]))),
        ),
        (
            "results in another order, then a picture",
            request(json!([
                user("a"),
                calling([call("c1"), call("functions.add:0")]),
                result("functions.add:0"),
                result("c1"),
                user(picture)
            ])),
        ),
        (
            "content of nothing beside calls",
            request(json!([user("a"), with(calling([call("c1")]), "content", ""), result("c1")])),
        ),
        (
            "reasoning comes back",
            request(json!([
                user("a"),
                with(with(calling([call("c1")]), "reasoning_content", "hm"), "reasoning_details", json!([])),
                result("c1"),
            ])),
        ),
        ("effort", with(plain(), "reasoning_effort", "high")),
        ("choice of a tool", with(plain(), "tool_choice", "none")),
    ];
    all_taken(Dialect::OpenAi, &Rules::default(), &sound);
}

/// Each switch with a request that only it refuses, the text, and the code.
#[test]
fn switches_refuse_what_only_some_servers_do() {
    let body = plain();
    let mut old = plain();
    old.as_object_mut().unwrap().remove("max_completion_tokens");
    let old = with(old, "max_tokens", 5);
    let reasoned = request(json!([user("a"), with(assistant("b"), "reasoning_content", "hm"), user("c")]));
    let on = |change: fn(&mut Rules)| {
        let mut rules = Rules::default();
        change(&mut rules);
        rules
    };
    let cases = [
        (
            on(|rules| rules.refuse_stream_options = true),
            &body,
            "Unrecognized request argument supplied: stream_options",
            None,
        ),
        (
            on(|rules| rules.refuse_max_tokens = true),
            &old,
            "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead.",
            Some("unsupported_parameter"),
        ),
        (
            on(|rules| rules.refuse_max_completion_tokens = true),
            &body,
            "Unrecognized request argument supplied: max_completion_tokens",
            None,
        ),
        (
            on(|rules| rules.refuse_sampling = true),
            &with(plain(), "temperature", 0.2),
            "Unsupported parameter: 'temperature' is not supported with this model.",
            Some("unsupported_parameter"),
        ),
        (
            on(|rules| rules.refuse_developer = true),
            &request(json!([{"role": "developer", "content": "s"}, user("a")])),
            "messages[0].role: unknown variant `developer`",
            None,
        ),
        (
            on(|rules| rules.refuse_null_content = true),
            &answered(call("c1"), result("c1")),
            "messages[1].content: Input should be a valid string",
            None,
        ),
        (
            on(|rules| rules.refuse_reasoning_effort = true),
            &with(plain(), "reasoning_effort", "low"),
            "Unsupported parameter: 'reasoning_effort' is not supported with this model.",
            Some("unsupported_parameter"),
        ),
        (
            on(|rules| rules.refuse_reasoning = true),
            &reasoned,
            "The reasoning_content is an intermediate result",
            None,
        ),
    ];
    for (rules, body, expected, code) in cases {
        let bytes = serde_json::to_vec(body).unwrap();
        assert_eq!(refusal(Dialect::OpenAi, &bytes, &Rules::default(), &Ledger::default()), None);
        let refused = refusal(Dialect::OpenAi, &bytes, &rules, &Ledger::default()).unwrap();
        assert!(refused.switched && refused.status == 400, "{refused}");
        assert!(refused.message.starts_with(expected), "{refused}");
        assert_eq!(refused.code, code, "{refused}");
    }
}

#[test]
fn mistral_and_openai_have_rules_about_ids_and_order() {
    let mistral = Rules { mistral_ids: true, mistral_order: true, ..Rules::default() };
    let nine = answered(call("abcDEF123"), result("abcDEF123"));
    let mut then_user = nine.clone();
    then_user["messages"].as_array_mut().unwrap().push(user("b"));
    let cases = [
        (
            "id of OpenAI",
            answered(call("call_abc"), result("call_abc")),
            "Tool call id was call_abc but must be a-z, A-Z, 0-9, with a length of 9.",
        ),
        ("id of ten", answered(call("abcDEF1234"), result("abcDEF1234")), "with a length of 9."),
        ("user after tool", then_user, "Unexpected role 'user' after role 'tool'"),
    ];
    all_refused(Dialect::OpenAi, &mistral, &cases, |said| assert_eq!(said["object"], "error"));
    all_taken(Dialect::OpenAi, &mistral, &[("nine characters", nine)]);
    let long = "c".repeat(41);
    let short = Rules { short_ids: true, ..Rules::default() };
    let cases = [("id of 41", answered(call(&long), result(&long)), "maximum length 40")];
    all_refused(Dialect::OpenAi, &short, &cases, |_| {});
}

#[test]
fn a_body_that_is_no_json_or_too_large_is_refused() {
    for dialect in Dialect::ALL {
        let refused = |body: &[u8]| refusal(dialect, body, &Rules::default(), &Ledger::default()).unwrap();
        assert_eq!(refused(b"{\"model\":").status, 400);
        assert_eq!(refused(b"[]").status, 400);
        assert_eq!(refused(&vec![b' '; 32 * 1024 * 1024 + 1]).status, 413);
    }
}
