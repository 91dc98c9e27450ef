//! The scripted model against requests by hand: what is broken is refused in the real shape, what is sound is
//! answered byte for byte.

use super::{API_KEY, Answer, Cut, Gate, ScriptedModel};
use crate::deadline::Deadline;
use serde_json::{Value, json};
use std::io::{Read, Write};
use std::net::TcpStream;

struct Reply {
    status: u16,
    head: String,
    body: Vec<u8>,
}

impl Reply {
    fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap()
    }
}

const HEADERS: &[(&str, &str)] =
    &[("x-api-key", API_KEY), ("anthropic-version", "2026-10-21"), ("content-type", "application/json")];

fn post(server: &ScriptedModel, headers: &[(&str, &str)], body: &[u8]) -> TcpStream {
    let mut stream = TcpStream::connect(server.address()).unwrap();
    stream.set_read_timeout(Some(std::time::Duration::from_secs(10))).unwrap();
    let mut head = format!("POST /v1/messages HTTP/1.1\r\nhost: x\r\ncontent-length: {}\r\n", body.len());
    for (name, value) in headers {
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    stream.write_all(format!("{head}\r\n").as_bytes()).unwrap();
    stream.write_all(body).unwrap();
    stream
}

/// Reads one answer. Chunks are joined; a body without an end is what came of it.
fn read(stream: &mut TcpStream) -> Reply {
    let mut bytes = Vec::new();
    let mut buffer = [0_u8; 4096];
    while !bytes.ends_with(b"\r\n0\r\n\r\n") {
        match stream.read(&mut buffer) {
            Ok(read @ 1..) => bytes.extend_from_slice(&buffer[..read]),
            _ => break,
        }
    }
    let end = bytes.windows(4).position(|window| window == b"\r\n\r\n").unwrap() + 4;
    let head = String::from_utf8(bytes[..end].to_vec()).unwrap();
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    let mut rest = &bytes[end..];
    let mut body = Vec::new();
    if !head.contains("chunked") {
        body.extend_from_slice(rest);
        return Reply { status, head, body };
    }
    while let Some(line) = rest.windows(2).position(|window| window == b"\r\n") {
        let size = usize::from_str_radix(std::str::from_utf8(&rest[..line]).unwrap(), 16).unwrap();
        rest = &rest[line + 2..];
        body.extend_from_slice(&rest[..size.min(rest.len())]);
        rest = &rest[(size + 2).min(rest.len())..];
    }
    Reply { status, head, body }
}

fn ask(server: &ScriptedModel, body: &Value) -> Reply {
    read(&mut post(server, HEADERS, body.to_string().as_bytes()))
}

fn tool() -> Value {
    json!({"name": "read_file", "description": "Reads.", "input_schema": {"type": "object", "properties": {}}})
}

fn request(messages: impl Into<Value>) -> Value {
    let messages = messages.into();
    json!({"model": "claude-sonnet-5-5", "max_tokens": 1000, "stream": true, "tools": [tool()], "messages": messages})
}

fn user(content: impl Into<Value>) -> Value {
    json!({"role": "user", "content": content.into()})
}

fn assistant(content: impl Into<Value>) -> Value {
    json!({"role": "assistant", "content": content.into()})
}

fn call(id: &str) -> Value {
    json!({"type": "tool_use", "id": id, "name": "read_file", "input": {}})
}

fn result(id: &str) -> Value {
    json!({"type": "tool_result", "tool_use_id": id, "content": "x"})
}

fn text(text: &str) -> Value {
    json!({"type": "text", "text": text})
}

fn with(mut body: Value, field: &str, value: Value) -> Value {
    body[field] = value;
    body
}

fn plain() -> Value {
    request(json!([user("hi")]))
}

/// Requests that break the pairing of calls and results, with a part of the text they are refused with.
fn unpaired() -> Vec<(Value, &'static str)> {
    vec![
        (
            request(json!([user("a"), assistant([call("c1")]), user("b")])),
            "messages.1: `tool_use` ids were found without `tool_result` blocks immediately after: c1. Each `tool_use` block must have a corresponding `tool_result` block in the next message.",
        ),
        (
            request(json!([user("a"), assistant([call("c1"), call("c2")]), user([result("c2")])])),
            "immediately after: c1.",
        ),
        (
            request(json!([user("a"), assistant([call("c1")]), user([text("first"), result("c1")])])),
            "immediately after: c1.",
        ),
        (
            request(json!([user("a"), assistant([call("c1"), text("late")]), user([result("c1")])])),
            "immediately after: c1.",
        ),
        (
            request(json!([user("a"), assistant([call("c1")]), user([result("c1"), result("c9")])])),
            "unexpected `tool_use_id` found in `tool_result` blocks: c9.",
        ),
        (request(json!([user([result("c1")])])), "unexpected `tool_use_id`"),
        (
            request(json!([user("a"), assistant([call("c1")]), user([result("c1"), result("c1")])])),
            "single result",
        ),
        (
            request(json!([user("a"), assistant([call("c1"), call("c1")]), user([result("c1")])])),
            "ids must be unique",
        ),
        (
            request(json!([
                user("a"),
                assistant([call("functions.add:0")]),
                user([result("functions.add:0")])
            ])),
            "tool_use.id: String should match pattern '^[a-zA-Z0-9_-]+$'",
        ),
        (request(json!([user("a"), assistant([call("")]), user([result("")])])), "tool_use.id"),
        (
            request(json!([
                user("a"),
                assistant([with(call("c1"), "input", json!("{}"))]),
                user([result("c1")])
            ])),
            "tool_use.input: Input should be a valid dictionary",
        ),
        (
            with(
                request(json!([user("a"), assistant([call("c1")]), user([result("c1")])])),
                "tools",
                json!([]),
            ),
            "must define tools",
        ),
    ]
}

/// Requests whose messages are wrong in themselves.
fn misshapen() -> Vec<(Value, &'static str)> {
    vec![
        (request(json!([assistant("hi"), user("a")])), "first message must use the \"user\" role"),
        (request(json!([user("a"), assistant("half")])), "does not support assistant message prefill"),
        (request(json!([user("")])), "text content blocks must be non-empty"),
        (request(json!([user(" \n")])), "non-whitespace"),
        (request(json!([user(Value::Array(vec![]))])), "must have non-empty content"),
        (request(json!([])), "at least one message is required"),
        (request(json!([{"role": "tool", "content": "x"}])), "messages.0.role"),
        (
            request(json!([
                user("a"),
                assistant([json!({"type": "thinking", "thinking": "t", "signature": "forged"})]),
                user("b")
            ])),
            "Invalid `signature` in `thinking` block",
        ),
    ]
}

/// Requests that are wrong outside their messages.
fn misdeclared() -> Vec<(Value, &'static str)> {
    let block = json!({"type": "text", "text": "x", "cache_control": {"type": "ephemeral"}});
    vec![
        (with(plain(), "system", json!("")), "system: text content blocks must be non-empty"),
        (with(plain(), "tools", json!([tool(), tool()])), "Tool names must be unique"),
        (with(plain(), "tools", json!([with(tool(), "name", json!("a.b"))])), "tools.0.custom.name"),
        (
            with(plain(), "tools", json!([with(tool(), "input_schema", json!({"type": "string"}))])),
            "input_schema.type",
        ),
        (
            with(plain(), "tools", json!([with(tool(), "parameters", json!({}))])),
            "parameters: Extra inputs are not permitted",
        ),
        (with(plain(), "n", json!(1)), "n: Extra inputs are not permitted"),
        (with(plain(), "temperature", json!(1.0)), "temperature"),
        (with(plain(), "max_tokens", json!("many")), "max_tokens"),
        (
            request(json!([user(vec![block; 5])])),
            "A maximum of 4 blocks with cache_control may be provided. Found 5.",
        ),
    ]
}

fn broken() -> Vec<(Value, &'static str)> {
    [unpaired(), misshapen(), misdeclared()].concat()
}

#[test]
fn broken_requests_are_refused_in_the_real_shape_and_never_reach_the_script() {
    let server = ScriptedModel::with([Answer::saying("never sent")]);
    server.expect_violations();
    for (body, expected) in broken() {
        let reply = ask(&server, &body);
        let said = reply.json();
        assert_eq!(reply.status, 400, "{body}");
        assert_eq!(
            (&said["type"], &said["error"]["type"]),
            (&json!("error"), &json!("invalid_request_error"))
        );
        assert!(said["request_id"].as_str().is_some_and(|id| id.starts_with("req_")), "{said}");
        let message = said["error"]["message"].as_str().unwrap();
        assert!(message.contains(expected), "{message:?} does not say {expected:?} for {body}");
    }
    assert_eq!(server.unused_answers(), 1);
    assert_eq!(server.violations().len(), broken().len());
}

#[test]
fn headers_keys_models_and_paths_are_checked() {
    let server = ScriptedModel::start();
    server.expect_violations();
    let body = plain().to_string();
    let without = |name: &str| -> Vec<(&str, &str)> {
        HEADERS.iter().filter(|(known, _)| *known != name).copied().collect()
    };
    let and = |extra: (&'static str, &'static str)| -> Vec<(&str, &str)> {
        HEADERS.iter().copied().chain([extra]).collect()
    };
    for (headers, status, kind) in [
        (without("x-api-key"), 401, "authentication_error"),
        (and(("authorization", "Bearer x")), 401, "authentication_error"),
        (without("anthropic-version"), 400, "invalid_request_error"),
        (without("content-type"), 400, "invalid_request_error"),
    ] {
        let reply = read(&mut post(&server, &headers, body.as_bytes()));
        assert_eq!(
            (reply.status, reply.json()["error"]["type"].as_str().unwrap()),
            (status, kind),
            "{headers:?}"
        );
    }
    let reply = ask(&server, &with(plain(), "model", json!("gpt-9")));
    assert_eq!((reply.status, reply.json()["error"]["message"].as_str().unwrap()), (404, "model: gpt-9"));
    let reply = read(&mut post(&server, HEADERS, b"{\"model\":"));
    assert!(reply.json()["error"]["message"].as_str().unwrap().contains("not valid JSON"));
    let reply = read(&mut post(&server, HEADERS, &vec![b' '; 33 * 1024 * 1024]));
    assert_eq!((reply.status, reply.json()["error"]["type"].as_str().unwrap()), (413, "request_too_large"));
}

#[test]
fn sound_requests_are_answered_and_recorded() {
    let server = ScriptedModel::with([
        Answer::calling("c1", "read_file", json!({"path": "é北😀"})).usage(7, 9),
        Answer::saying("done"),
    ]);
    let first = ask(&server, &plain());
    let body = String::from_utf8(first.body).unwrap();
    assert_eq!(first.status, 200);
    assert!(first.head.contains("retry-after: 17"), "plain answers carry it too");
    assert!(
        body.contains("\"stop_reason\":\"tool_use\"") && body.ends_with("message_stop\"}   \n\n"),
        "{body}"
    );
    let whole: String = body
        .lines()
        .filter_map(|line| serde_json::from_str::<Value>(line.strip_prefix("data: ")?).ok())
        .filter_map(|data| Some(data["delta"]["partial_json"].as_str()?.to_owned()))
        .collect();
    assert_eq!(whole, "{\"path\":\"é北😀\"}");
    let failed = json!({"type": "tool_result", "tool_use_id": "c1", "content": [text("no such file")], "is_error": true});
    let second =
        ask(&server, &request(json!([user("hi"), assistant([call("c1")]), user([failed, text("also")])])));
    assert_eq!(second.status, 200);
    let last = server.last_request();
    let result = last.result_of("c1");
    assert!(result.is_error && result.text == "no such file" && result.message == 2);
    assert_eq!(last.last_user_text(), "also");
    assert_eq!((last.tool_names(), last.tool_use_ids()), (vec!["read_file".into()], vec!["c1".into()]));
    server.assert_no_violations();
}

#[test]
fn thinking_must_come_back_as_it_was_after_the_same_prefix() {
    let answer = || Answer::new().thinking("long", "sig-1").tool_use("c1", "read_file", json!({}));
    let thought = json!({"type": "thinking", "thinking": "long", "signature": "sig-1"});
    let history = |first: &str, thinking: Value| {
        request(json!([user(first), assistant([thinking, call("c1")]), user([result("c1")])]))
    };
    let server = ScriptedModel::with([answer(), Answer::saying("ok"), Answer::saying("ok")]);
    server.expect_violations();
    assert_eq!(ask(&server, &plain()).status, 200);
    assert_eq!(ask(&server, &history("hi", thought.clone())).status, 200);
    let marked = json!([{"type": "text", "text": "hi", "cache_control": {"type": "ephemeral"}}]);
    let mut moved = history("hi", thought.clone());
    moved["messages"][0]["content"] = marked;
    assert_eq!(ask(&server, &moved).status, 200, "cache markers may move");
    let altered = ask(&server, &history("hi", with(thought.clone(), "thinking", json!("short"))));
    assert!(altered.json()["error"]["message"].as_str().unwrap().contains("cannot be modified"));
    let other = ask(&server, &history("hello", thought));
    assert!(other.json()["error"]["message"].as_str().unwrap().contains("bound to a different conversation"));
}

#[test]
fn a_paused_answer_may_be_continued() {
    let server = ScriptedModel::with([Answer::saying("half").stop("pause_turn"), Answer::saying("whole")]);
    assert_eq!(ask(&server, &plain()).status, 200);
    assert_eq!(ask(&server, &request(json!([user("hi"), assistant("half")]))).status, 200);
}

#[test]
fn bytes_reach_the_client_as_the_plan_says() {
    let gate = Gate::new();
    let server = ScriptedModel::with([
        Answer::saying("é北😀").crlf().one_byte_per_write(),
        Answer::saying("reset here").cut_after("reset he", Cut::Reset),
        Answer::saying("close here").until_close().cut_after("close he", Cut::Close),
        Answer::saying("stall here").cut_after("stall he", Cut::Stall(gate.clone())),
        Answer::saying("x").error_event("overloaded_error", "Overloaded"),
        Answer::error(529, "overloaded_error", "Overloaded").header("retry-after", "3"),
    ]);
    let slow = String::from_utf8(ask(&server, &plain()).body).unwrap();
    assert!(slow.contains("é北😀") && slow.contains("event: message_stop\r\ndata: "), "{slow}");

    for whole in ["reset here", "close here"] {
        let mut stream = post(&server, HEADERS, plain().to_string().as_bytes());
        let cut = String::from_utf8(read(&mut stream).body).unwrap();
        assert!(cut.ends_with(&whole[..8]), "{cut:?} should end in the middle of {whole:?}");
    }

    let mut stream = post(&server, HEADERS, plain().to_string().as_bytes());
    gate.wait_reached(Deadline::secs(10));
    gate.open();
    assert!(String::from_utf8(read(&mut stream).body).unwrap().contains("message_stop"));

    let broken = String::from_utf8(ask(&server, &plain()).body).unwrap();
    assert!(
        broken.trim_end().ends_with("\"type\":\"error\"}") && !broken.contains("message_delta"),
        "{broken}"
    );
    let busy = ask(&server, &plain());
    assert!(busy.status == 529 && busy.head.contains("retry-after: 3"), "{}", busy.head);
}

#[test]
fn a_client_that_hangs_up_is_noticed() {
    let gate = Gate::new();
    let server = ScriptedModel::with([Answer::saying("late").held_by(&gate)]);
    let stream = post(&server, HEADERS, plain().to_string().as_bytes());
    gate.wait_reached(Deadline::secs(10));
    drop(stream);
    server.wait_for_hang_up(0, Deadline::secs(10));
    assert!(!server.last_request().answered);
}
