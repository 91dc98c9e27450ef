//! Calls as deltas, in all the forms that servers give them.

use super::Quirk;
use crate::scripted::answer::{Asked, Content, ToolUse, args_deltas};
use serde_json::{Value, json};
use std::collections::VecDeque;

/// A call with the thought signature that the first call of an answer gets where there are such.
pub(super) fn signed(
    call: &ToolUse,
    first: Option<&str>,
    content: &Content<'_>,
    asked: &Asked<'_>,
) -> ToolUse {
    let mut call = call.clone();
    let unsigned = call.extra.as_object().is_none_or(serde_json::Map::is_empty);
    if first == Some(call.id.as_str()) && unsigned {
        let signature = format!("scripted-thought-{:08}-{}", content.number, call.id);
        if content.has(Quirk::BareThoughtSignature) {
            call.extra = json!({ "thought_signature": signature });
        } else if content.has(Quirk::ThoughtSignature) || asked.rules.thought_signatures {
            call.extra = json!({"extra_content": {"google": {"thought_signature": signature}}});
        }
    }
    call
}

/// The `tool_calls` of each delta that this run of calls becomes. `before` calls were in the answer already.
pub(super) fn deltas(run: &[ToolUse], before: usize, content: &Content<'_>) -> Vec<Value> {
    let whole = [Quirk::WholeCalls, Quirk::AllCallsInOneDelta, Quirk::ObjectArguments];
    let whole = whole.into_iter().any(|quirk| content.has(quirk));
    let mut calls: Vec<VecDeque<Value>> = run
        .iter()
        .enumerate()
        .map(|(at, call)| {
            let fragments = if whole { whole_call(call, content) } else { fragments(call, content) };
            fragments.into_iter().map(|delta| indexed(delta, before + at, content)).collect()
        })
        .collect();
    if content.has(Quirk::AllCallsInOneDelta) {
        return vec![calls.into_iter().flatten().collect()];
    }
    if content.has(Quirk::Interleaved) {
        let mut deltas = Vec::new();
        while calls.iter().any(|call| !call.is_empty()) {
            deltas.extend(calls.iter_mut().filter_map(VecDeque::pop_front));
        }
        return deltas.into_iter().map(|delta| json!([delta])).collect();
    }
    calls.into_iter().flatten().map(|delta| json!([delta])).collect()
}

fn indexed(mut delta: Value, index: usize, content: &Content<'_>) -> Value {
    if !content.has(Quirk::NoIndex) {
        delta["index"] = match index {
            _ if content.has(Quirk::SameIndex) => 0,
            index if content.has(Quirk::IndexFromOne) => index + 1,
            index => index,
        }
        .into();
    }
    delta
}

/// The first delta: everything that is said once.
fn start(call: &ToolUse, content: &Content<'_>) -> Value {
    let mut delta = call.extra.clone();
    delta["function"] = json!({"name": call.name, "arguments": ""});
    if !content.has(Quirk::NoIds) {
        delta["id"] = call.id.as_str().into();
    }
    if !content.has(Quirk::NoType) {
        delta["type"] = "function".into();
    }
    delta
}

fn whole_call(call: &ToolUse, content: &Content<'_>) -> Vec<Value> {
    let mut delta = start(call, content);
    delta["function"]["arguments"] = match serde_json::from_str::<Value>(&call.args) {
        Ok(object) if content.has(Quirk::ObjectArguments) && object.is_object() => object,
        _ => call.args.as_str().into(),
    };
    vec![delta]
}

fn fragments(call: &ToolUse, content: &Content<'_>) -> Vec<Value> {
    let mut first = start(call, content);
    let mut later: Vec<Value> =
        args_deltas(&call.args).into_iter().map(|args| json!({"function": {"arguments": args}})).collect();
    if content.has(Quirk::EmptyIds) {
        for delta in &mut later {
            delta["id"] = "".into();
            delta["function"]["name"] = "".into();
        }
    }
    if content.has(Quirk::LateName) {
        first["function"] = json!({"arguments": ""});
        if later.is_empty() {
            later.push(json!({"function": {"arguments": ""}}));
        }
        later[0]["function"]["name"] = call.name.as_str().into();
    }
    std::iter::once(first).chain(later).collect()
}
