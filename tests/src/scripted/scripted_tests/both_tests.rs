//! One script for both dialects: the same answers, faults and views of requests.

use super::turn::{answer, opening, step};
use super::wire::{ask_in, read, send};
use crate::scripted::{Answer, Cut, Dialect, Gate, ScriptedModel};
use serde_json::{Value, json};
use std::io::Read;
use std::net::TcpStream;
use std::time::Duration;

#[test]
fn a_conversation_is_served_in_either_dialect() {
    for dialect in Dialect::ALL {
        let server = ScriptedModel::with([
            Answer::new()
                .thought("I should read both files.")
                .text("Let me look.")
                .tool_use("c1", "read_file", json!({"path": "é北😀"}))
                .tool_use_text("c2", "read_file", "{}")
                .usage(7, 9),
            Answer::calling("c3", "read_file", json!({"path": "a long one, in more than one piece"})),
            Answer::saying("done"),
        ]);
        let first = step(&server, dialect, opening(dialect, "hi"));
        let second = step(&server, dialect, first);
        let third = step(&server, dialect, second);
        assert_eq!(
            third["messages"].as_array().unwrap().len(),
            if dialect == Dialect::OpenAi { 8 } else { 7 }
        );
        let last = server.last_request();
        assert_eq!(last.dialect, dialect);
        assert_eq!(last.tool_use_ids(), ["c1", "c2", "c3"]);
        assert_eq!(last.tool_names(), ["read_file"]);
        assert_eq!(last.user_texts()[0], "hi");
        assert_eq!(last.last_user_text(), "");
        assert_eq!(last.thinking(), ["I should read both files."]);
        assert_eq!(last.result_of("c3").text, "x");
        let calls = last.calls();
        assert_eq!((calls[0].name.as_str(), &calls[0].args), ("read_file", &json!({"path": "é北😀"})));
        let requests = server.requests();
        assert_eq!(requests[0].prefix(0), requests[1].prefix(requests[1].messages().len() - 1), "{dialect}");
        assert_ne!(requests[0].prefix(0), requests[1].prefix(0));
        assert_eq!(server.unused_answers(), 0);
    }
}

#[test]
fn stops_and_usage_mean_the_same() {
    let scripted = Answer::saying("x").stop("max_tokens").usage(10, 20).cached(300, 4_000).reasoned(5);
    let request = opening(Dialect::OpenAi, "hi");
    let chat = scripted.body_to(Dialect::OpenAi, &request, &crate::scripted::Rules::default());
    let chat: Vec<Value> = crate::scripted::ledger::data_lines(&chat).collect();
    let [.., finish, usage] = chat.as_slice() else { panic!("{chat:?}") };
    assert_eq!(finish["choices"][0]["finish_reason"], "length");
    assert_eq!(usage["choices"], json!([]));
    assert_eq!(usage["usage"]["prompt_tokens"], 4_310);
    assert_eq!(usage["usage"]["prompt_tokens_details"]["cached_tokens"], 300);
    assert_eq!(usage["usage"]["completion_tokens_details"]["reasoning_tokens"], 5);
    assert!(chat[..chat.len() - 1].iter().all(|chunk| chunk.get("usage") == Some(&Value::Null)));
    let unasked = String::from_utf8(scripted.body_in(Dialect::OpenAi)).unwrap();
    assert!(!unasked.contains("usage") && unasked.ends_with("data: [DONE]\n\n"), "{unasked}");
    let messages = String::from_utf8(scripted.body()).unwrap();
    assert!(
        messages.contains("\"stop_reason\":\"max_tokens\"")
            && messages.contains("\"cache_read_input_tokens\":300")
    );

    for (said, anthropic, openai) in [
        ("tool_calls", "tool_use", "tool_calls"),
        ("stop", "end_turn", "stop"),
        ("model_context_window_exceeded", "model_context_window_exceeded", "length"),
        ("some_new_reason", "some_new_reason", "some_new_reason"),
    ] {
        let scripted = Answer::saying("x").stop(said);
        for (dialect, expected) in [(Dialect::Anthropic, anthropic), (Dialect::OpenAi, openai)] {
            let body = String::from_utf8(scripted.body_in(dialect)).unwrap();
            assert!(body.contains(&format!("_reason\":\"{expected}\"")), "{said} in {dialect}: {body}");
        }
    }
    let refusing = Answer::saying("half").refusing("cyber", "I cannot help");
    let said = String::from_utf8(refusing.body()).unwrap();
    assert!(
        said.contains("\"stop_reason\":\"refusal\"") && said.contains("\"category\":\"cyber\""),
        "{said}"
    );
    let said = String::from_utf8(refusing.body_in(Dialect::OpenAi)).unwrap();
    assert!(said.contains("\"content_filter\"") && said.contains("\"refusal\":\"I cannot help\""), "{said}");
}

/// Reads until this has come, chunk framing and all.
fn read_until(stream: &mut TcpStream, needle: &str) -> String {
    let mut seen = String::new();
    let mut buffer = [0_u8; 512];
    while !seen.contains(needle) {
        let read = stream.read(&mut buffer).unwrap();
        assert!(read > 0, "the stream ended without {needle:?}: {seen}");
        seen.push_str(&String::from_utf8_lossy(&buffer[..read]));
    }
    seen
}

#[test]
fn faults_strike_both_dialects() {
    for dialect in Dialect::ALL {
        let gate = Gate::new();
        let server = ScriptedModel::with([
            Answer::saying("never").reset_at_once(),
            Answer::saying("reset here").cut_after("reset he", Cut::Reset),
            Answer::saying("three events and no more").cut_after_events(3, Cut::Close),
            Answer::saying("babble here").babble_after("babble he", Duration::from_millis(1), &gate),
            Answer::saying("x").ping().error_event("overloaded_error", "Overloaded"),
            Answer::error(429, "rate_limit_error", "Slow down").header("retry-after", "3"),
            Answer::error(529, "overloaded_error", "Overloaded"),
            Answer::saying("é北😀").crlf().one_byte_per_write(),
        ]);
        let request = opening(dialect, "hi");
        let path = if dialect == Dialect::OpenAi { "/chat/completions" } else { "/v1/messages" };
        let headers = if dialect == Dialect::OpenAi { super::wire::BEARER } else { super::wire::HEADERS };
        let mut stream = send(&server, &format!("POST {path}"), headers, request.to_string().as_bytes());
        let mut buffer = [0_u8; 1];
        assert!(!matches!(stream.read(&mut buffer), Ok(1)), "not even a head comes");
        let reset = ask_in(&server, dialect, &request).text();
        assert!(reset.ends_with("reset he"), "{reset}");
        let three = ask_in(&server, dialect, &request).text();
        assert_eq!(three.matches("\n\n").count(), 3, "{three}");

        let mut stream = send(&server, &format!("POST {path}"), headers, request.to_string().as_bytes());
        let sign = if dialect == Dialect::OpenAi { ": keepalive\n\n" } else { "event: ping\n" };
        let babbled = read_until(&mut stream, sign);
        assert!(babbled.contains("babble here") && !babbled.contains("finish_reason\":\"stop"), "{babbled}");
        gate.open();
        let end = if dialect == Dialect::OpenAi { "[DONE]" } else { "message_stop" };
        assert!(read_until(&mut stream, end).contains(end));

        let broken = ask_in(&server, dialect, &request).text();
        assert!(broken.contains(sign) && broken.contains("Overloaded"), "{broken}");
        assert!(!broken.contains("[DONE]") && !broken.contains("message_stop"), "{broken}");
        let slow = ask_in(&server, dialect, &request);
        assert!(slow.status == 429 && slow.head.contains("retry-after: 3\r\n"), "{}", slow.head);
        let kind = if dialect == Dialect::OpenAi { "requests" } else { "rate_limit_error" };
        assert_eq!(slow.json()["error"]["type"], kind);
        let busy = ask_in(&server, dialect, &request);
        assert_eq!(busy.status, if dialect == Dialect::OpenAi { 503 } else { 529 });
        let whole = ask_in(&server, dialect, &request);
        assert!(whole.text().contains("\r\n\r\n"));
        assert!(answer(dialect, &whole.body)["content"].to_string().contains("é北😀"));
    }
}

#[test]
fn what_only_one_dialect_can_say_is_left_out_of_the_other() {
    let scripted = Answer::new()
        .redacted_thinking("sealed")
        .event("strange", json!({"type": "strange_event"}))
        .chunk(json!({"strange": "chunk"}))
        .delta(json!({"content": "raw delta"}))
        .literal_for(Dialect::OpenAi, ": only chat\n\n")
        .literal(": both\n\n");
    let anthropic = String::from_utf8(scripted.body()).unwrap();
    let openai = String::from_utf8(scripted.body_in(Dialect::OpenAi)).unwrap();
    for (text, in_anthropic, in_openai) in [
        ("redacted_thinking", true, false),
        ("strange_event", true, false),
        ("{\"strange\":\"chunk\"}", false, true),
        ("raw delta", false, true),
        (": only chat", false, true),
        (": both", true, true),
    ] {
        assert_eq!((anthropic.contains(text), openai.contains(text)), (in_anthropic, in_openai), "{text}");
    }
    let recorded = Answer::saying("written").recorded_for(Dialect::OpenAi, "data: [DONE]\n\n");
    assert_eq!(recorded.body_in(Dialect::OpenAi), b"data: [DONE]\n\n");
    assert!(String::from_utf8(recorded.body()).unwrap().contains("written"));
}

#[test]
fn keys_and_paths_of_chat_completions_are_checked() {
    let server = ScriptedModel::with([Answer::saying("local")]);
    server.expect_violations();
    let body = opening(Dialect::OpenAi, "hi").to_string();
    let json = ("content-type", "application/json");
    let line = "POST /v1/chat/completions";
    for (line, headers, status, code) in [
        (line, vec![json], 401, json!("invalid_api_key")),
        (line, vec![json, ("authorization", "Bearer other")], 401, json!("invalid_api_key")),
        (line, vec![super::wire::BEARER[0]], 415, json!("unsupported_content_type")),
        ("POST /v1/v1/chat/completions", super::wire::BEARER.to_vec(), 404, Value::Null),
        ("PUT /v1/chat/completions", super::wire::BEARER.to_vec(), 405, json!("method_not_supported")),
    ] {
        let reply = read(&mut send(&server, line, &headers, body.as_bytes()));
        assert_eq!((reply.status, &reply.json()["error"]["code"]), (status, &code), "{line} {headers:?}");
    }
    server.rules(|rules| rules.keyless = true);
    assert_eq!(read(&mut send(&server, line, &[json], body.as_bytes())).status, 200);
}

#[test]
fn a_script_that_does_not_fit_is_the_tests_mistake() {
    let server = ScriptedModel::with([Answer::saying("x").cut_after("message_stop", Cut::Close)]);
    server.expect_violations();
    assert_eq!(ask_in(&server, Dialect::OpenAi, &opening(Dialect::OpenAi, "hi")).status, 500);
    assert_eq!(ask_in(&server, Dialect::OpenAi, &opening(Dialect::OpenAi, "hi")).status, 500);
    let violations = server.violations();
    assert!(violations[0].contains("message_stop") && violations[1].contains("no answer"), "{violations:?}");
}
