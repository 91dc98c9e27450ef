//! Requests by hand over loopback: what is sound is answered byte for byte.

use super::wire::{HEADERS, ask, post, read};
use crate::deadline::Deadline;
use crate::scripted::scripted_tests::anthropic::{assistant, call, plain, request, text, user, with};
use crate::scripted::{Answer, Cut, Gate, ScriptedModel};
use serde_json::{Value, json};

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
