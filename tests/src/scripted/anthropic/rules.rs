//! What must hold of a request outside its messages: headers, top-level fields, tools.

use super::{Refusal, cache, invalid, refuse};
use crate::scripted::http::RawRequest;
use crate::scripted::{API_KEY, Rules};
use serde_json::{Map, Value};
use std::collections::BTreeSet;

/// Bytes of a body that the API takes.
pub(super) const BODY_MAX_BYTES: usize = 32 * 1024 * 1024;

/// An `anthropic-version`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::scripted) enum Version {
    Of2023,
    Of2026,
}

/// Top-level fields that need no beta header.
const FIELDS: &[&str] = &[
    "model",
    "max_tokens",
    "messages",
    "system",
    "tools",
    "tool_choice",
    "thinking",
    "output_config",
    "stop_sequences",
    "metadata",
    "cache_control",
    "container",
    "service_tier",
    "speed",
    "inference_geo",
    "diagnostics",
    "stream",
    "temperature",
    "top_p",
    "top_k",
];

const TOOL_FIELDS: &[&str] = &[
    "name",
    "description",
    "input_schema",
    "strict",
    "cache_control",
    "defer_loading",
    "allowed_callers",
    "input_examples",
    "eager_input_streaming",
    "type",
];

/// Method and headers. In this order a real gateway looks, before it reads the body.
pub(super) fn check_head(raw: &RawRequest, rules: &Rules) -> Result<Version, Refusal> {
    if raw.method != "POST" {
        return Err(refuse(405, "invalid_request_error", "Method Not Allowed"));
    }
    if !rules.keyless {
        check_key(raw)?;
    }
    let version = match raw.header("anthropic-version") {
        Some("2023-06-01") => Version::Of2023,
        Some("2026-10-21") => Version::Of2026,
        Some(other) => {
            return Err(invalid(format!("anthropic-version: {other:?} is not a valid version")));
        }
        None => return Err(invalid("anthropic-version: header is required")),
    };
    let content_type = raw.header("content-type").and_then(|value| value.split(';').next());
    if !content_type.is_some_and(|value| value.trim().eq_ignore_ascii_case("application/json")) {
        return Err(invalid("content-type: must be application/json"));
    }
    Ok(version)
}

pub(in crate::scripted) fn check_key(raw: &RawRequest) -> Result<(), Refusal> {
    let refuse = |message: &str| Err(refuse(401, "authentication_error", message));
    match (raw.header("x-api-key"), raw.header("authorization")) {
        (Some(_), Some(_)) => refuse("Only one of x-api-key and authorization may be given"),
        (None, None) => refuse("x-api-key header is required"),
        (Some(API_KEY), None) => Ok(()),
        (Some(_), None) => refuse("invalid x-api-key"),
        (None, Some(bearer)) if bearer.strip_prefix("Bearer ") == Some(API_KEY) => Ok(()),
        (None, Some(_)) => refuse("invalid bearer token"),
    }
}

/// Everything of the body but its messages.
pub(super) fn check_body(json: &Value, version: Version, rules: &Rules) -> Result<(), Refusal> {
    let Some(body) = json.as_object() else {
        return Err(invalid("Input should be a valid dictionary"));
    };
    if rules.refuse_output_config && body.contains_key("output_config") {
        return Err(invalid("output_config: Extra inputs are not permitted").switched());
    }
    let known = |field: &str| FIELDS.contains(&field) || rules.extra_fields.contains(&field);
    if let Some(field) = body.keys().find(|field| !known(field)) {
        return Err(invalid(format!("{field}: Extra inputs are not permitted")));
    }
    for field in ["model", "max_tokens", "messages"] {
        if !body.contains_key(field) {
            return Err(invalid(format!("{field}: Field required")));
        }
    }
    check_scalars(body, version)?;
    check_thinking(body, rules)?;
    check_others(body)?;
    check_system(&body.get("system").cloned().unwrap_or(Value::Null))?;
    check_tools(body)?;
    cache::check(json)
}

fn check_scalars(body: &Map<String, Value>, version: Version) -> Result<(), Refusal> {
    let model = body["model"].as_str().unwrap_or_default();
    if model.is_empty() {
        return Err(invalid("model: Input should be a valid string"));
    }
    if !model.starts_with("claude-") {
        return Err(refuse(404, "not_found_error", format!("model: {model}")));
    }
    let stream = body.get("stream") == Some(&Value::Bool(true));
    match body["max_tokens"].as_u64() {
        None => return Err(invalid("max_tokens: Input should be a valid integer")),
        Some(0) if stream => {
            return Err(invalid("max_tokens: must be greater than 0 when streaming"));
        }
        Some(_) => {}
    }
    if !stream {
        return Err(invalid("stream: the scripted model answers streams only"));
    }
    for field in ["temperature", "top_p", "top_k"] {
        if version == Version::Of2026 && body.contains_key(field) {
            return Err(invalid(format!("{field}: not supported on anthropic-version 2026-10-21")));
        }
    }
    Ok(())
}

fn check_others(body: &Map<String, Value>) -> Result<(), Refusal> {
    if let Some(stops) = body.get("stop_sequences") {
        let stops =
            stops.as_array().ok_or_else(|| invalid("stop_sequences: Input should be a valid list"))?;
        if stops.iter().any(|stop| stop.as_str().is_none_or(|stop| stop.trim().is_empty())) {
            return Err(invalid("stop_sequences: each stop sequence must contain non-whitespace"));
        }
    }
    if let Some(field) =
        body.get("metadata").and_then(Value::as_object).and_then(|data| data.keys().find(|f| *f != "user_id"))
    {
        return Err(invalid(format!("metadata.{field}: Extra inputs are not permitted")));
    }
    let Some(output) = body.get("output_config") else { return Ok(()) };
    match output.get("effort").map(|effort| effort.as_str().unwrap_or_default()) {
        None | Some("low" | "medium" | "high" | "xhigh" | "max") => Ok(()),
        Some(effort) => Err(invalid(format!(
            "This model does not support effort level '{effort}'. Supported levels: high, low, max, medium, xhigh."
        ))),
    }
}

fn check_thinking(body: &Map<String, Value>, rules: &Rules) -> Result<(), Refusal> {
    let Some(thinking) = body.get("thinking") else { return Ok(()) };
    if rules.refuse_thinking {
        return Err(invalid("adaptive thinking is not supported on this model").switched());
    }
    if thinking.get("block_binding").is_some() {
        return Err(invalid("thinking.adaptive.block_binding: Extra inputs are not permitted"));
    }
    match thinking["type"].as_str() {
        Some("adaptive" | "disabled" | "between_tools") => Ok(()),
        Some("enabled") => {
            let budget = thinking["budget_tokens"].as_u64().unwrap_or(0);
            if budget < 1024 {
                return Err(invalid(
                    "thinking.enabled.budget_tokens: Input should be greater than or equal to 1024",
                ));
            }
            if body["max_tokens"].as_u64().is_some_and(|max| max <= budget) {
                return Err(invalid("`max_tokens` must be greater than `thinking.budget_tokens`."));
            }
            Ok(())
        }
        _ => Err(invalid("thinking: Input tag does not match any of the expected tags")),
    }
}

fn check_system(system: &Value) -> Result<(), Refusal> {
    match system {
        Value::Null => Ok(()),
        Value::String(text) if text.is_empty() => {
            Err(invalid("system: text content blocks must be non-empty"))
        }
        Value::String(_) => Ok(()),
        Value::Array(blocks) => {
            for (index, block) in blocks.iter().enumerate() {
                if block["type"] != "text" {
                    return Err(invalid(format!("system.{index}: Input should be a text block")));
                }
                if block["text"].as_str().is_none_or(str::is_empty) {
                    return Err(invalid("system: text content blocks must be non-empty"));
                }
            }
            Ok(())
        }
        _ => Err(invalid("system: Input should be a valid string or list")),
    }
}

/// A name that the API takes for a tool.
pub(super) fn is_legal_name(name: &str) -> bool {
    (1..=128).contains(&name.len()) && is_legal_id(name)
}

/// An id that the API takes for a call.
pub(super) fn is_legal_id(id: &str) -> bool {
    !id.is_empty() && id.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-')
}

fn check_tools(body: &Map<String, Value>) -> Result<(), Refusal> {
    let Some(tools) = body.get("tools") else { return Ok(()) };
    let Some(tools) = tools.as_array() else {
        return Err(invalid("tools: Input should be a valid list"));
    };
    let mut names = BTreeSet::new();
    for (index, tool) in tools.iter().enumerate() {
        check_tool(index, tool)?;
        if !names.insert(tool["name"].as_str().unwrap_or_default()) {
            return Err(invalid("tools: Tool names must be unique."));
        }
    }
    let choice = body.get("tool_choice").map(|choice| choice["type"].as_str().unwrap_or_default().to_owned());
    match choice.as_deref() {
        None | Some("auto" | "none") => Ok(()),
        Some("any" | "tool") => {
            Err(invalid("tool_choice: type \"tool\" and \"any\" are not supported for this model."))
        }
        Some(_) => Err(invalid("tool_choice: Input tag does not match any of the expected tags")),
    }
}

fn check_tool(index: usize, tool: &Value) -> Result<(), Refusal> {
    let at = |field: &str, message: &str| Err(invalid(format!("tools.{index}.custom{field}: {message}")));
    let Some(fields) = tool.as_object() else { return at("", "Input should be a valid dictionary") };
    if fields.get("type").is_some_and(|kind| kind != "custom") {
        // Server and Anthropic-defined tools are typed and have no schema; the harness uses none.
        return at("", "server tools are not scripted");
    }
    if let Some(field) = fields.keys().find(|field| !TOOL_FIELDS.contains(&field.as_str())) {
        return at(&format!(".{field}"), "Extra inputs are not permitted");
    }
    if !tool["name"].as_str().is_some_and(is_legal_name) {
        return at(".name", "String should match pattern '^[a-zA-Z0-9_-]{1,128}$'");
    }
    let Some(schema) = tool["input_schema"].as_object() else { return at(".input_schema", "Field required") };
    if schema.get("type") != Some(&Value::from("object")) {
        return at(".input_schema.type", "Input should be 'object'");
    }
    if ["oneOf", "allOf", "anyOf"].iter().any(|word| schema.contains_key(*word)) {
        return at("", "input_schema does not support oneOf, allOf, or anyOf at the top level");
    }
    Ok(())
}
