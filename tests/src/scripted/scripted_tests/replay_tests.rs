//! What came with calls of Chat Completions and must come back with them.

use super::turn::{opening, step};
use super::wire::ask_in;
use crate::scripted::{Answer, Dialect, Ledger, Quirk, Rules, ScriptedModel, refusal};
use serde_json::{Value, json};

const MISSING: &str = "Function call is missing a thought_signature in functionCall parts";

fn two_calls() -> Answer {
    Answer::new().thought("Hm.").tool_use("c1", "read_file", json!({})).tool_use("c2", "read_file", json!({}))
}

/// Asks again with the first call changed; the status and the text of the refusal.
fn again(server: &ScriptedModel, mut request: Value, change: impl FnOnce(&mut Value)) -> (u16, String) {
    change(&mut request["messages"][1]);
    let reply = ask_in(server, Dialect::OpenAi, &request);
    let said = if reply.status == 200 { Value::Null } else { reply.json() };
    (
        reply.status,
        said[0]["error"]["message"].as_str().or(said["error"]["message"].as_str()).unwrap_or_default().into(),
    )
}

fn without(call: &mut Value, field: &str) {
    call.as_object_mut().unwrap().remove(field);
}

#[test]
fn a_thought_signature_must_come_back_on_the_first_call() {
    let server = ScriptedModel::with([two_calls()]);
    server.respond_with(|_| Answer::saying("ok"));
    server.expect_violations();
    server.rules(|rules| rules.thought_signatures = true);
    let request = step(&server, Dialect::OpenAi, opening(Dialect::OpenAi, "hi"));
    let calls = request["messages"][1]["tool_calls"].as_array().unwrap();
    assert!(calls[0].get("extra_content").is_some() && calls[1].get("extra_content").is_none());

    assert_eq!(again(&server, request.clone(), |_| {}).0, 200);
    let (status, said) =
        again(&server, request.clone(), |message| without(&mut message["tool_calls"][0], "extra_content"));
    assert!(status == 400 && said.starts_with(MISSING), "{said}");
    let (status, said) = again(&server, request.clone(), |message| {
        message["tool_calls"][0]["extra_content"]["google"]["thought_signature"] = "other".into();
    });
    assert_eq!((status, said.as_str()), (400, "Thought signature is not valid."));
    let moved = again(&server, request.clone(), |message| {
        let extra = message["tool_calls"][0]["extra_content"].take();
        without(&mut message["tool_calls"][0], "extra_content");
        message["tool_calls"][1]["extra_content"] = extra;
    });
    assert!(moved.0 == 400 && moved.1.starts_with(MISSING), "{moved:?}");

    // A history that Gemini did not make.
    let foreign = |signature: &str| {
        let mut foreign = super::openai::answered(super::openai::call("f1"), super::openai::result("f1"));
        foreign["messages"][1]["tool_calls"][0]["extra_content"] =
            json!({"google": {"thought_signature": signature}});
        ask_in(&server, Dialect::OpenAi, &foreign).status
    };
    assert_eq!((foreign("skip_thought_signature_validator"), foreign("made up")), (200, 400));
}

#[test]
fn the_rule_holds_without_a_server_too() {
    let rules = Rules { thought_signatures: true, ..Rules::default() };
    let mut ledger = Ledger::default();
    let opening = opening(Dialect::OpenAi, "hi");
    let body = two_calls().quirk(Quirk::BareThoughtSignature).body_to(Dialect::OpenAi, &opening, &rules);
    let mut request = opening.clone();
    let messages = request["messages"].as_array_mut().unwrap();
    messages.push(super::turn::answer(Dialect::OpenAi, &body));
    messages.extend(["c1", "c2"].map(super::openai::result));
    let refused = |ledger: &Ledger| refusal(Dialect::OpenAi, request.to_string().as_bytes(), &rules, ledger);
    assert_eq!(refused(&ledger).unwrap().message, "Thought signature is not valid.");
    ledger.record(Dialect::OpenAi, &opening, &body);
    assert_eq!(refused(&ledger), None);
}

#[test]
fn reasoning_must_come_back_with_calls_where_that_is_the_rule() {
    let server = ScriptedModel::with([two_calls()]);
    server.respond_with(|_| Answer::saying("ok"));
    server.expect_violations();
    server.rules(|rules| rules.require_reasoning = true);
    let request = step(&server, Dialect::OpenAi, opening(Dialect::OpenAi, "hi"));
    assert_eq!(again(&server, request.clone(), |_| {}).0, 200);
    let (status, said) = again(&server, request.clone(), |message| without(message, "reasoning_content"));
    assert!(status == 400 && said.starts_with("Missing `reasoning_content` field"), "{said}");
    assert_eq!(
        again(&server, request.clone(), |message| message["reasoning_content"] = "Changed.".into()).0,
        400
    );
    let moved = again(&server, request, |message| {
        message["reasoning"] = message["reasoning_content"].take();
        without(message, "reasoning_content");
    });
    assert_eq!(moved.0, 400, "the field is another one");
}
