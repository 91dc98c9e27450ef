//! Each quirk changes what it says, and nothing that a client needs is lost to it.

use super::openai::plain;
use crate::scripted::ledger::data_lines;
use crate::scripted::{Answer, Dialect, Quirk, Rules};
use serde_json::{Value, json};

fn script() -> Answer {
    Answer::new()
        .thought("Two files it is.")
        .text("Let me look.")
        .tool_use("c1", "read_file", json!({"path": "first/of/the/files"}))
        .tool_use("c2", "list_files", json!({"path": "second/of/the/files"}))
        .cached(5, 0)
}

fn body(quirks: &[Quirk]) -> String {
    let answer = quirks.iter().fold(script(), |answer, quirk| answer.quirk(*quirk));
    // One number for the answer, so that bodies can be compared.
    let text = answer.body_to(Dialect::OpenAi, &plain(), &Rules::default());
    let text = String::from_utf8(text).unwrap();
    let id = text.find("chatcmpl-scripted").map(|at| text[at..at + 25].to_owned());
    let text = id.map_or(text.clone(), |id| text.replace(&id, "chatcmpl-1"));
    let padding = regexless_padding(&text);
    padding.map_or(text.clone(), |padding| text.replace(&padding, "\"obfuscation\":\"\""))
}

/// The padding of an answer, which differs from answer to answer.
fn regexless_padding(text: &str) -> Option<String> {
    let at = text.find("\"obfuscation\":\"")?;
    let end = text[at + 15..].find('"')? + at + 16;
    Some(text[at..end].to_owned())
}

fn chunks(quirks: &[Quirk]) -> Vec<Value> {
    data_lines(body(quirks).as_bytes()).collect()
}

fn deltas(quirks: &[Quirk]) -> Vec<Value> {
    let chunks = chunks(quirks);
    let calls = chunks.iter().filter_map(|chunk| chunk["choices"][0]["delta"]["tool_calls"].as_array());
    calls.flatten().cloned().collect()
}

#[test]
fn every_quirk_says_something_else_than_openai() {
    let usual = body(&[]);
    assert_eq!(usual, body(&[]), "the same script gives the same bytes");
    for quirk in Quirk::ALL {
        // Usage that was asked for is no quirk.
        let differs = body(&[quirk]) != usual;
        assert_eq!(differs, quirk != Quirk::UsageUnasked, "{quirk:?}");
        let chunks = chunks(&[quirk]);
        assert!(chunks.len() >= 5, "{quirk:?}");
        for name in ["read_file", "list_files"] {
            assert!(body(&[quirk]).contains(name), "{quirk:?} loses {name}");
        }
    }
    let unasked = script().quirk(Quirk::UsageUnasked).body_in(Dialect::OpenAi);
    assert!(String::from_utf8(unasked).unwrap().contains("\"prompt_tokens\":15"));
}

#[test]
fn calls_take_the_forms_that_servers_give_them() {
    let usual = deltas(&[]);
    let (first, later): (Vec<&Value>, Vec<&Value>) =
        usual.iter().partition(|delta| delta.get("id").is_some());
    assert_eq!(first.len(), 2);
    assert_eq!(
        first[1],
        &json!({"index": 1, "id": "c2", "type": "function", "function": {"name": "list_files", "arguments": ""}})
    );
    assert!(
        later
            .iter()
            .all(|delta| delta.as_object().unwrap().len() == 2 && delta["function"].get("name").is_none())
    );

    assert!(deltas(&[Quirk::SameIndex]).iter().all(|delta| delta["index"] == 0));
    assert!(deltas(&[Quirk::NoIndex]).iter().all(|delta| delta.get("index").is_none()));
    assert_eq!(deltas(&[Quirk::IndexFromOne])[0]["index"], 1);
    assert!(deltas(&[Quirk::NoIds]).iter().all(|delta| delta.get("id").is_none()));
    assert!(deltas(&[Quirk::NoType]).iter().all(|delta| delta.get("type").is_none()));
    let empty = deltas(&[Quirk::EmptyIds]);
    assert_eq!(
        (&empty[0]["id"], &empty[1]["id"], &empty[1]["function"]["name"]),
        (&json!("c1"), &json!(""), &json!(""))
    );
    let late = deltas(&[Quirk::LateName]);
    assert_eq!((late[0]["function"].get("name"), &late[1]["function"]["name"]), (None, &json!("read_file")));
    let whole = deltas(&[Quirk::WholeCalls]);
    assert_eq!(whole.len(), 2);
    assert_eq!(whole[0]["function"]["arguments"], "{\"path\":\"first/of/the/files\"}");
    assert_eq!(
        deltas(&[Quirk::ObjectArguments])[0]["function"]["arguments"],
        json!({"path": "first/of/the/files"})
    );
    let at_once = chunks(&[Quirk::AllCallsInOneDelta]);
    assert_eq!(
        at_once.iter().filter(|chunk| chunk["choices"][0]["delta"].get("tool_calls").is_some()).count(),
        1
    );
    let woven: Vec<Value> =
        deltas(&[Quirk::Interleaved]).iter().map(|delta| delta["index"].clone()).collect();
    assert_eq!(woven[..4], [0, 1, 0, 1]);
    let signed = deltas(&[Quirk::ThoughtSignature]);
    let signatures = signed.iter().filter(|delta| delta.get("extra_content").is_some()).count();
    assert!(signatures == 1 && signed[0]["extra_content"]["google"]["thought_signature"].is_string());
    assert!(deltas(&[Quirk::BareThoughtSignature])[0]["thought_signature"].is_string());
}

#[test]
fn ends_and_usage_take_the_forms_that_servers_give_them() {
    let reasons = |quirks: &[Quirk]| -> Vec<String> {
        let chunks = chunks(quirks);
        let reasons = chunks.iter().filter_map(|chunk| chunk["choices"][0]["finish_reason"].as_str());
        reasons.map(str::to_owned).collect()
    };
    assert_eq!(reasons(&[]), ["tool_calls"]);
    assert_eq!(reasons(&[Quirk::NoFinish]), Vec::<String>::new());
    assert_eq!(reasons(&[Quirk::StopWithCalls]), ["stop"]);
    assert_eq!(reasons(&[Quirk::FinishTwice]), ["tool_calls", "tool_calls"]);
    let on_last = chunks(&[Quirk::FinishOnLastDelta]);
    let finish = on_last.iter().find(|chunk| chunk["choices"][0]["finish_reason"].is_string()).unwrap();
    assert!(finish["choices"][0]["delta"].get("tool_calls").is_some());
    assert!(body(&[]).ends_with("data: [DONE]\n\n") && !body(&[Quirk::NoDone]).contains("[DONE]"));

    let with_usage =
        |quirks: &[Quirk]| chunks(quirks).iter().filter(|chunk| chunk["usage"].is_object()).count();
    assert_eq!(
        (with_usage(&[]), with_usage(&[Quirk::NoUsage]), with_usage(&[Quirk::UsageInGroq])),
        (1, 0, 0)
    );
    assert!(with_usage(&[Quirk::UsageEverywhere]) > 5);
    let groq = chunks(&[Quirk::UsageInGroq]);
    assert_eq!(groq.last().unwrap()["x_groq"]["usage"]["prompt_tokens"], 15);
    let on_finish = chunks(&[Quirk::UsageOnFinish]);
    assert!(on_finish.last().unwrap()["choices"][0]["finish_reason"].is_string());
    assert!(on_finish.last().unwrap()["usage"].is_object());
}

#[test]
fn reasoning_takes_the_forms_that_servers_give_it() {
    for (quirk, expected) in [
        (None, "\"reasoning_content\":\"Two files it is.\""),
        (Some(Quirk::ReasoningField), "\"reasoning\":\"Two files it is.\""),
        (Some(Quirk::ReasoningDetails), "\"reasoning_details\":[{"),
        (Some(Quirk::ReasoningParts), "\"content\":[{\"thinking\":[{"),
        (Some(Quirk::ThinkTags), "\"content\":\"<think>"),
    ] {
        let body = body(quirk.as_slice());
        assert!(body.contains(expected), "{quirk:?}: {body}");
    }
}
