//! What Anthropic refuses, by name.

use super::anthropic::{answered, assistant, call, image, plain, request, result, text, tool, user, with};
use super::cases::{Broken, all_refused, all_taken};
use crate::scripted::{Dialect, Rules};
use serde_json::{Value, json};

/// Requests that break the pairing of calls and results.
fn unpaired() -> Vec<Broken> {
    let history = |last: Value| request(json!([user("a"), assistant([call("c1")]), last]));
    vec![
        (
            "orphan call",
            history(user("b")),
            "messages.1: `tool_use` ids were found without `tool_result` blocks immediately after: c1. Each `tool_use` block must have a corresponding `tool_result` block in the next message.",
        ),
        (
            "one call of two unanswered",
            request(json!([user("a"), assistant([call("c1"), call("c2")]), user([result("c2")])])),
            "immediately after: c1.",
        ),
        (
            "answered one message too late",
            request(json!([
                user("a"),
                assistant([call("c1")]),
                user("b"),
                assistant("c"),
                user([result("c1")])
            ])),
            "immediately after: c1.",
        ),
        ("result not first", history(user([text("first"), result("c1")])), "immediately after: c1."),
        (
            "text after a call",
            request(json!([user("a"), assistant([call("c1"), text("late")]), user([result("c1")])])),
            "immediately after: c1.",
        ),
        (
            "orphan result",
            history(user([result("c1"), result("c9")])),
            "unexpected `tool_use_id` found in `tool_result` blocks: c9. Each `tool_result` block must have a corresponding `tool_use` block in the previous message.",
        ),
        ("result without any call", request(json!([user([result("c1")])])), "unexpected `tool_use_id`"),
        ("two results of one call", history(user([result("c1"), result("c1")])), "single result"),
        (
            "repeated id in one message",
            request(json!([user("a"), assistant([call("c1"), call("c1")]), user([result("c1")])])),
            "ids must be unique",
        ),
        (
            "repeated id in a later message",
            request(json!([
                user("a"),
                assistant([call("c1")]),
                user([result("c1")]),
                assistant([call("c1")]),
                user([result("c1")])
            ])),
            "ids must be unique",
        ),
        ("ends with a call", request(json!([user("a"), assistant([call("c1")])])), "immediately after: c1."),
    ]
}

/// Requests whose calls and results are wrong in themselves.
fn miscalled() -> Vec<Broken> {
    let tool_result = |content: Value| with(result("c1"), "content", content);
    vec![
        (
            "id of another vendor",
            answered(call("functions.add:0"), result("functions.add:0")),
            "tool_use.id: String should match pattern '^[a-zA-Z0-9_-]+$'",
        ),
        ("empty id", answered(call(""), result("")), "tool_use.id"),
        ("bad name of a call", answered(with(call("c1"), "name", "a.b"), result("c1")), "tool_use.name"),
        (
            "arguments as text",
            answered(with(call("c1"), "input", "{}"), result("c1")),
            "tool_use.input: Input should be a valid dictionary",
        ),
        (
            "unknown field of a call",
            answered(with(call("c1"), "index", 0), result("c1")),
            "tool_use.index: Extra inputs are not permitted",
        ),
        ("empty text in a result", answered(call("c1"), tool_result(json!([text("")]))), "must be non-empty"),
        (
            "result of a number",
            answered(call("c1"), tool_result(json!(7))),
            "tool_result.content: Input should be a valid string or list",
        ),
        (
            "image in a result that is none",
            answered(call("c1"), tool_result(json!([image("image/png", "aGVsbG8=")]))),
            "Could not process image",
        ),
        (
            "calls without tools",
            with(answered(call("c1"), result("c1")), "tools", json!([])),
            "must define tools",
        ),
    ]
}

/// Requests whose messages are wrong in themselves.
fn misshapen() -> Vec<Broken> {
    let forged = json!({"type": "thinking", "thinking": "t", "signature": "forged"});
    vec![
        (
            "assistant first",
            request(json!([assistant("hi"), user("a")])),
            "first message must use the \"user\" role",
        ),
        (
            "prefill",
            request(json!([user("a"), assistant("half")])),
            "does not support assistant message prefill",
        ),
        ("empty text", request(json!([user("")])), "text content blocks must be non-empty"),
        ("empty text block", request(json!([user([text("")])])), "text content blocks must be non-empty"),
        (
            "empty text of an assistant",
            request(json!([user("a"), assistant([text("")]), user("b")])),
            "text content blocks must be non-empty",
        ),
        ("blank text", request(json!([user(" \n")])), "non-whitespace"),
        ("empty content", request(json!([user(Value::Array(vec![]))])), "must have non-empty content"),
        ("no content", request(json!([{"role": "user"}])), "messages.0.content: Field required"),
        ("no messages", request(json!([])), "at least one message is required"),
        ("role of the other dialect", request(json!([{"role": "tool", "content": "x"}])), "messages.0.role"),
        (
            "unknown field of a message",
            request(json!([with(user("a"), "name", "x")])),
            "messages.0.name: Extra inputs are not permitted",
        ),
        (
            "thinking of nobody",
            request(json!([user("a"), assistant([forged, text("x")]), user("b")])),
            "Invalid `signature` in `thinking` block",
        ),
        (
            "image of an unknown type",
            request(json!([user([image("image/tiff", "AAAA")])])),
            "media_type: Input should be 'image/jpeg', 'image/png', 'image/gif' or 'image/webp'",
        ),
        (
            "image that is another",
            request(json!([user([image("image/gif", "iVBORw0KGgo=")])])),
            "Could not process image",
        ),
        ("image not in base64", request(json!([user([image("image/png", "é")])])), "Invalid base64"),
        (
            "system after an answer",
            request(json!([user("a"), assistant("b"), json!({"role": "system", "content": "c"}), user("d")])),
            "a system message must follow a user message",
        ),
        (
            "citations of a user",
            request(json!([user([with(text("a"), "citations", json!([{}]))])])),
            "citations: not permitted in a user message",
        ),
        (
            "block of the other dialect",
            request(json!([user([json!({"type": "image_url", "image_url": {"url": "x"}})])])),
            "`image_url` blocks are not permitted",
        ),
    ]
}

/// Requests that are wrong outside their messages.
fn misdeclared() -> Vec<Broken> {
    vec![
        ("empty system", with(plain(), "system", ""), "system: text content blocks must be non-empty"),
        ("tool twice", with(plain(), "tools", json!([tool(), tool()])), "Tool names must be unique"),
        ("bad name", with(plain(), "tools", json!([with(tool(), "name", "a.b")])), "tools.0.custom.name"),
        (
            "schema not object",
            with(plain(), "tools", json!([with(tool(), "input_schema", json!({"type": "string"}))])),
            "input_schema.type",
        ),
        (
            "schema with a choice at its top",
            with(
                plain(),
                "tools",
                json!([with(tool(), "input_schema", json!({"type": "object", "anyOf": []}))]),
            ),
            "does not support oneOf, allOf, or anyOf",
        ),
        (
            "tool of the other dialect",
            with(plain(), "tools", json!([with(tool(), "parameters", json!({}))])),
            "parameters: Extra inputs are not permitted",
        ),
        ("unknown field", with(plain(), "n", 1), "n: Extra inputs are not permitted"),
        ("temperature", with(plain(), "temperature", 1.0), "temperature"),
        ("top_p at its default", with(plain(), "top_p", 1), "top_p"),
        ("max_tokens as text", with(plain(), "max_tokens", "many"), "max_tokens"),
        ("forced tool", with(plain(), "tool_choice", json!({"type": "any"})), "not supported for this model"),
        (
            "thinking budget over the answer",
            with(plain(), "thinking", json!({"type": "enabled", "budget_tokens": 2000})),
            "`max_tokens` must be greater than `thinking.budget_tokens`.",
        ),
        (
            "block binding without its beta",
            with(plain(), "thinking", json!({"type": "adaptive", "block_binding": {}})),
            "block_binding: Extra inputs are not permitted",
        ),
        (
            "unknown effort",
            with(plain(), "output_config", json!({"effort": "extreme"})),
            "This model does not support effort level 'extreme'.",
        ),
        (
            "personal data",
            with(plain(), "metadata", json!({"email": "x"})),
            "metadata.email: Extra inputs are not permitted",
        ),
    ]
}

/// Requests with markers of the cache that are too many or in the wrong order.
fn mismarked() -> Vec<Broken> {
    let block = json!({"type": "text", "text": "x", "cache_control": {"type": "ephemeral"}});
    vec![
        (
            "long cache after short",
            request(json!([user(vec![
                block.clone(),
                with(text("y"), "cache_control", json!({"type": "ephemeral", "ttl": "1h"}))
            ])])),
            "a ttl='1h' cache_control block must not come after a ttl='5m' cache_control block.",
        ),
        (
            "five markers, one of them automatic",
            with(
                request(json!([user(vec![block.clone(); 4])])),
                "cache_control",
                json!({"type": "ephemeral"}),
            ),
            "Found 5.",
        ),
        (
            "five cache markers",
            request(json!([user(vec![block; 5])])),
            "A maximum of 4 blocks with cache_control may be provided. Found 5.",
        ),
    ]
}

#[test]
fn broken_requests_are_refused_in_the_real_shape() {
    let cases = [unpaired(), miscalled(), misshapen(), misdeclared(), mismarked()].concat();
    all_refused(Dialect::Anthropic, &Rules::default(), &cases, |said| {
        assert_eq!(
            (&said["type"], &said["error"]["type"]),
            (&json!("error"), &json!("invalid_request_error"))
        );
        assert!(said["request_id"].as_str().is_some_and(|id| id.starts_with("req_")), "{said}");
    });
}

#[test]
fn sound_requests_are_taken() {
    let marked = json!({"type": "text", "text": "x", "cache_control": {"type": "ephemeral"}});
    let failed = with(
        with(result("c1"), "content", json!([text("no"), image("image/png", "iVBORw0KGgo=")])),
        "is_error",
        true,
    );
    let sound = [
        ("plain", plain()),
        ("system as blocks", with(plain(), "system", json!([marked.clone()]))),
        ("four cache markers", request(json!([user(vec![marked; 4])]))),
        (
            "system in the middle",
            request(json!([
                user("a"),
                json!({"role": "system", "content": "c"}),
                assistant("b"),
                user("d"),
                json!({"role": "system", "content": "e"})
            ])),
        ),
        (
            "neighbours of one role",
            request(json!([user("a"), user("b"), assistant("c"), assistant("d"), user("e")])),
        ),
        ("a failed call with an image", answered(call("c1"), failed)),
        (
            "a result without content",
            answered(call("c1"), json!({"type": "tool_result", "tool_use_id": "c1"})),
        ),
        (
            "text after the results",
            request(json!([user("a"), assistant([call("c1")]), user([result("c1"), text("also")])])),
        ),
        (
            "results in another order, in two messages",
            request(json!([
                user("a"),
                assistant([text("b"), call("c1"), call("c2")]),
                user([result("c2")]),
                user([result("c1")])
            ])),
        ),
        ("adaptive thinking", with(plain(), "thinking", json!({"type": "adaptive", "display": "omitted"}))),
        ("effort", with(plain(), "output_config", json!({"effort": "xhigh"}))),
        (
            "a marker on a tool",
            with(plain(), "tools", json!([with(tool(), "cache_control", json!({"type": "ephemeral"}))])),
        ),
        (
            "the word in arguments is data",
            answered(with(call("c1"), "input", json!({"cache_control": [1, 2, 3, 4, 5]})), result("c1")),
        ),
    ];
    all_taken(Dialect::Anthropic, &Rules::default(), &sound);
}

#[test]
fn switches_refuse_and_are_no_violations() {
    let thinks = with(plain(), "thinking", json!({"type": "adaptive"}));
    let rules = Rules { refuse_thinking: true, ..Rules::default() };
    let cases = [("thinking", thinks.clone(), "adaptive thinking is not supported on this model")];
    all_refused(Dialect::Anthropic, &rules, &cases, |_| {});
    let server = crate::scripted::ScriptedModel::with([crate::scripted::Answer::saying("ok")]);
    server.rules(|rules| rules.refuse_thinking = true);
    assert_eq!(super::wire::ask(&server, &thinks).status, 400);
    server.rules(|rules| *rules = Rules::default());
    assert_eq!(super::wire::ask(&server, &thinks).status, 200);
    server.assert_no_violations();
    let extra = Rules { extra_fields: vec!["top_a"], ..Rules::default() };
    all_taken(Dialect::Anthropic, &extra, &[("a field of this server", with(plain(), "top_a", 1))]);
}
