//! A faithful client in a few lines: what came of a stream becomes the assistant message of the next request.

use super::wire::ask_in;
use super::{anthropic, openai};
use crate::scripted::ledger::data_lines;
use crate::scripted::{Dialect, ScriptedModel};
use serde_json::{Value, json};

/// A first request with this text.
pub(super) fn opening(dialect: Dialect, text: &str) -> Value {
    match dialect {
        Dialect::Anthropic => anthropic::request(json!([anthropic::user(text)])),
        Dialect::OpenAi => openai::request(json!([openai::user(text)])),
    }
}

/// Asks, and returns the request continued by the answer and the results of its calls.
pub(super) fn step(server: &ScriptedModel, dialect: Dialect, mut request: Value) -> Value {
    let reply = ask_in(server, dialect, &request);
    assert_eq!(reply.status, 200, "{}", reply.text());
    let answer = answer(dialect, &reply.body);
    let messages = request["messages"].as_array_mut().unwrap();
    messages.push(answer.clone());
    match dialect {
        Dialect::Anthropic => {
            let blocks = answer["content"].as_array().unwrap();
            let calls = blocks.iter().filter(|block| block["type"] == "tool_use");
            let results: Vec<Value> =
                calls.map(|call| anthropic::result(call["id"].as_str().unwrap())).collect();
            messages.push(anthropic::user(if results.is_empty() { json!("go on") } else { results.into() }));
        }
        Dialect::OpenAi => {
            let calls = answer["tool_calls"].as_array().into_iter().flatten();
            messages.extend(calls.map(|call| openai::result(call["id"].as_str().unwrap())));
            if answer.get("tool_calls").is_none() {
                messages.push(openai::user("go on"));
            }
        }
    }
    request
}

/// The assistant message of a stream.
pub(super) fn answer(dialect: Dialect, body: &[u8]) -> Value {
    match dialect {
        Dialect::Anthropic => of_anthropic(body),
        Dialect::OpenAi => of_openai(body),
    }
}

fn of_anthropic(body: &[u8]) -> Value {
    let mut blocks: Vec<Value> = Vec::new();
    let mut args = String::new();
    for data in data_lines(body) {
        match data["type"].as_str().unwrap() {
            "content_block_start" => {
                blocks.push(data["content_block"].clone());
                args.clear();
            }
            "content_block_delta" => {
                let block = blocks.last_mut().unwrap();
                for (field, value) in data["delta"].as_object().unwrap() {
                    match field.as_str() {
                        "type" => {}
                        "partial_json" => args.push_str(value.as_str().unwrap()),
                        field => append(block, field, value.as_str().unwrap()),
                    }
                }
            }
            "content_block_stop" if !args.is_empty() => {
                blocks.last_mut().unwrap()["input"] = serde_json::from_str(&args).unwrap();
            }
            _ => {}
        }
    }
    anthropic::assistant(blocks)
}

fn of_openai(body: &[u8]) -> Value {
    let mut message = json!({"role": "assistant", "content": null});
    let mut calls: Vec<Value> = Vec::new();
    for data in data_lines(body) {
        let delta = &data["choices"][0]["delta"];
        for field in ["content", "reasoning_content", "reasoning"] {
            if let Some(text) = delta[field].as_str().filter(|text| !text.is_empty()) {
                append(&mut message, field, text);
            }
        }
        for part in delta["tool_calls"].as_array().into_iter().flatten() {
            let index = usize::try_from(part["index"].as_u64().unwrap()).unwrap();
            if index == calls.len() {
                let mut call = part.clone();
                call.as_object_mut().unwrap().remove("index");
                calls.push(call);
            } else {
                append(
                    &mut calls[index]["function"],
                    "arguments",
                    part["function"]["arguments"].as_str().unwrap(),
                );
            }
        }
    }
    if !calls.is_empty() {
        message["tool_calls"] = calls.into();
    }
    message
}

fn append(to: &mut Value, field: &str, more: &str) {
    let text = to[field].as_str().unwrap_or_default();
    to[field] = format!("{text}{more}").into();
}
