//! Requests in Anthropic's dialect, by hand.

use serde_json::{Value, json};

pub(super) fn tool() -> Value {
    json!({"name": "read_file", "description": "Reads.", "input_schema": {"type": "object", "properties": {}}})
}

pub(super) fn request(messages: impl Into<Value>) -> Value {
    let messages = messages.into();
    json!({"model": "claude-sonnet-5-5", "max_tokens": 1000, "stream": true, "tools": [tool()], "messages": messages})
}

pub(super) fn user(content: impl Into<Value>) -> Value {
    json!({"role": "user", "content": content.into()})
}

pub(super) fn assistant(content: impl Into<Value>) -> Value {
    json!({"role": "assistant", "content": content.into()})
}

pub(super) fn call(id: &str) -> Value {
    json!({"type": "tool_use", "id": id, "name": "read_file", "input": {}})
}

pub(super) fn result(id: &str) -> Value {
    json!({"type": "tool_result", "tool_use_id": id, "content": "x"})
}

pub(super) fn text(text: &str) -> Value {
    json!({"type": "text", "text": text})
}

pub(super) fn with(mut body: Value, field: &str, value: impl Into<Value>) -> Value {
    body[field] = value.into();
    body
}

pub(super) fn plain() -> Value {
    request(json!([user("hi")]))
}

/// A request whose one call is answered, both as given.
pub(super) fn answered(call: Value, result: Value) -> Value {
    request(json!([user("a"), assistant([call]), user([result])]))
}

pub(super) fn image(media_type: &str, data: &str) -> Value {
    json!({"type": "image", "source": {"type": "base64", "media_type": media_type, "data": data}})
}
