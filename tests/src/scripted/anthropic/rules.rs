//! What must hold of a request outside its messages: headers, top-level fields, tools, cache markers.

use super::Refusal;
use crate::scripted::API_KEY;
use crate::scripted::http::RawRequest;
use serde_json::{Map, Value};
use std::collections::BTreeSet;

/// Bytes of a body that the API takes.
const BODY_MAX_BYTES: usize = 32 * 1024 * 1024;
/// Cache markers in one request.
const CACHE_MARKERS_MAX: usize = 4;

/// An `anthropic-version`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Version {
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

/// Method, path and headers. In this order a real gateway looks, before it reads the body.
pub(super) fn check_head(raw: &RawRequest) -> Result<Version, Refusal> {
    let path = raw.target.split('?').next().unwrap_or_default();
    if path != "/v1/messages" {
        return Err(Refusal::new(404, "not_found_error", "Not found"));
    }
    if raw.method != "POST" {
        return Err(Refusal::new(405, "invalid_request_error", "Method Not Allowed"));
    }
    check_key(raw)?;
    let version = match raw.header("anthropic-version") {
        Some("2023-06-01") => Version::Of2023,
        Some("2026-10-21") => Version::Of2026,
        Some(other) => {
            return Err(Refusal::invalid(format!("anthropic-version: {other:?} is not a valid version")));
        }
        None => return Err(Refusal::invalid("anthropic-version: header is required")),
    };
    let content_type = raw.header("content-type").and_then(|value| value.split(';').next());
    if !content_type.is_some_and(|value| value.trim().eq_ignore_ascii_case("application/json")) {
        return Err(Refusal::invalid("content-type: must be application/json"));
    }
    if raw.body.len() > BODY_MAX_BYTES {
        return Err(Refusal::new(413, "request_too_large", "Request exceeds the maximum size"));
    }
    Ok(version)
}

fn check_key(raw: &RawRequest) -> Result<(), Refusal> {
    let refuse = |message: &str| Err(Refusal::new(401, "authentication_error", message));
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
pub(super) fn check_body(raw: &RawRequest, json: &Value, version: Version) -> Result<(), Refusal> {
    if let Err(error) = serde_json::from_slice::<serde::de::IgnoredAny>(&raw.body) {
        return Err(Refusal::invalid(format!("The request body is not valid JSON: {error}")));
    }
    let Some(body) = json.as_object() else {
        return Err(Refusal::invalid("Input should be a valid dictionary"));
    };
    if let Some(field) = body.keys().find(|field| !FIELDS.contains(&field.as_str())) {
        return Err(Refusal::invalid(format!("{field}: Extra inputs are not permitted")));
    }
    for field in ["model", "max_tokens", "messages"] {
        if !body.contains_key(field) {
            return Err(Refusal::invalid(format!("{field}: Field required")));
        }
    }
    check_scalars(body, version)?;
    check_system(&body.get("system").cloned().unwrap_or(Value::Null))?;
    check_tools(body)?;
    let markers = count_markers(json);
    if markers > CACHE_MARKERS_MAX {
        return Err(Refusal::invalid(format!(
            "A maximum of {CACHE_MARKERS_MAX} blocks with cache_control may be provided. Found {markers}."
        )));
    }
    Ok(())
}

fn check_scalars(body: &Map<String, Value>, version: Version) -> Result<(), Refusal> {
    let model = body["model"].as_str().unwrap_or_default();
    if model.is_empty() {
        return Err(Refusal::invalid("model: Input should be a valid string"));
    }
    if !model.starts_with("claude-") {
        return Err(Refusal::new(404, "not_found_error", format!("model: {model}")));
    }
    let stream = body.get("stream") == Some(&Value::Bool(true));
    match body["max_tokens"].as_u64() {
        None => return Err(Refusal::invalid("max_tokens: Input should be a valid integer")),
        Some(0) if stream => {
            return Err(Refusal::invalid("max_tokens: must be greater than 0 when streaming"));
        }
        Some(_) => {}
    }
    if !stream {
        return Err(Refusal::invalid("stream: the scripted model answers streams only"));
    }
    for field in ["temperature", "top_p", "top_k"] {
        if version == Version::Of2026 && body.contains_key(field) {
            return Err(Refusal::invalid(format!("{field}: not supported on anthropic-version 2026-10-21")));
        }
    }
    check_thinking(body)
}

fn check_thinking(body: &Map<String, Value>) -> Result<(), Refusal> {
    let Some(thinking) = body.get("thinking") else { return Ok(()) };
    match thinking["type"].as_str() {
        Some("adaptive" | "disabled" | "between_tools") => Ok(()),
        Some("enabled") => {
            let budget = thinking["budget_tokens"].as_u64().unwrap_or(0);
            if budget < 1024 {
                return Err(Refusal::invalid(
                    "thinking.enabled.budget_tokens: Input should be greater than or equal to 1024",
                ));
            }
            if body["max_tokens"].as_u64().is_some_and(|max| max <= budget) {
                return Err(Refusal::invalid("`max_tokens` must be greater than `thinking.budget_tokens`."));
            }
            Ok(())
        }
        _ => Err(Refusal::invalid("thinking: Input tag does not match any of the expected tags")),
    }
}

fn check_system(system: &Value) -> Result<(), Refusal> {
    match system {
        Value::Null => Ok(()),
        Value::String(text) if text.is_empty() => {
            Err(Refusal::invalid("system: text content blocks must be non-empty"))
        }
        Value::String(_) => Ok(()),
        Value::Array(blocks) => {
            for (index, block) in blocks.iter().enumerate() {
                if block["type"] != "text" {
                    return Err(Refusal::invalid(format!("system.{index}: Input should be a text block")));
                }
                if block["text"].as_str().is_none_or(str::is_empty) {
                    return Err(Refusal::invalid("system: text content blocks must be non-empty"));
                }
            }
            Ok(())
        }
        _ => Err(Refusal::invalid("system: Input should be a valid string or list")),
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
        return Err(Refusal::invalid("tools: Input should be a valid list"));
    };
    let mut names = BTreeSet::new();
    for (index, tool) in tools.iter().enumerate() {
        check_tool(index, tool)?;
        if !names.insert(tool["name"].as_str().unwrap_or_default()) {
            return Err(Refusal::invalid("tools: Tool names must be unique."));
        }
    }
    let choice = body.get("tool_choice").map(|choice| choice["type"].as_str().unwrap_or_default().to_owned());
    match choice.as_deref() {
        None | Some("auto" | "none") => Ok(()),
        Some("any" | "tool") => {
            Err(Refusal::invalid("tool_choice: type \"tool\" and \"any\" are not supported for this model."))
        }
        Some(_) => Err(Refusal::invalid("tool_choice: Input tag does not match any of the expected tags")),
    }
}

fn check_tool(index: usize, tool: &Value) -> Result<(), Refusal> {
    let at =
        |field: &str, message: &str| Err(Refusal::invalid(format!("tools.{index}.custom{field}: {message}")));
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

/// Markers anywhere but inside tool schemas and call arguments, where the word is just data.
fn count_markers(value: &Value) -> usize {
    match value {
        Value::Array(items) => items.iter().map(count_markers).sum(),
        Value::Object(fields) => fields
            .iter()
            .map(|(name, field)| match name.as_str() {
                "cache_control" => usize::from(!field.is_null()),
                "input_schema" | "input" => 0,
                _ => count_markers(field),
            })
            .sum(),
        _ => 0,
    }
}
