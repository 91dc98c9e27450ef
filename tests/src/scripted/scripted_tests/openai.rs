//! Requests of Chat Completions, by hand.

use serde_json::{Value, json};

pub(super) fn tool() -> Value {
    json!({"type": "function", "function": {
        "name": "read_file", "description": "Reads.", "parameters": {"type": "object", "properties": {}},
    }})
}

pub(super) fn request(messages: impl Into<Value>) -> Value {
    let messages = messages.into();
    json!({
        "model": "gpt-5.6", "max_completion_tokens": 1000, "stream": true, "tools": [tool()],
        "stream_options": {"include_usage": true}, "messages": messages,
    })
}

pub(super) fn system(content: impl Into<Value>) -> Value {
    json!({"role": "system", "content": content.into()})
}

pub(super) fn user(content: impl Into<Value>) -> Value {
    json!({"role": "user", "content": content.into()})
}

pub(super) fn assistant(content: impl Into<Value>) -> Value {
    json!({"role": "assistant", "content": content.into()})
}

pub(super) fn calling(calls: impl Into<Value>) -> Value {
    json!({"role": "assistant", "content": null, "tool_calls": calls.into()})
}

pub(super) fn call(id: &str) -> Value {
    json!({"id": id, "type": "function", "function": {"name": "read_file", "arguments": "{}"}})
}

pub(super) fn result(id: &str) -> Value {
    json!({"role": "tool", "tool_call_id": id, "content": "x"})
}

pub(super) fn plain() -> Value {
    request(json!([user("hi")]))
}

/// A request whose one call is answered, both as given.
pub(super) fn answered(call: Value, result: Value) -> Value {
    request(vec![user("a"), calling([call]), result])
}
