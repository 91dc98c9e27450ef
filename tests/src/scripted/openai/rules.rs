//! What must hold of a request outside its messages: headers, top-level fields, tools.

use super::{Refusal, invalid, refuse};
use crate::scripted::http::RawRequest;
use crate::scripted::{API_KEY, Rules};
use serde_json::{Map, Value};
use std::collections::BTreeSet;

/// Bytes of a body that the server takes.
pub(super) const BODY_MAX_BYTES: usize = 32 * 1024 * 1024;
/// Tools in one request.
const TOOLS_MAX: usize = 128;
/// Characters of a tool's name.
const NAME_MAX_CHARS: usize = 64;

const FIELDS: &[&str] = &[
    "model",
    "messages",
    "tools",
    "tool_choice",
    "parallel_tool_calls",
    "max_tokens",
    "max_completion_tokens",
    "reasoning_effort",
    "verbosity",
    "response_format",
    "stop",
    "stream",
    "stream_options",
    "prompt_cache_key",
    "prompt_cache_options",
    "prompt_cache_retention",
    "service_tier",
    "store",
    "safety_identifier",
    "user",
    "seed",
    "temperature",
    "top_p",
    "metadata",
    "n",
    "frequency_penalty",
    "presence_penalty",
    "logit_bias",
    "logprobs",
    "top_logprobs",
];

/// Method and headers.
pub(super) fn check_head(raw: &RawRequest, rules: &Rules) -> Result<(), Refusal> {
    if raw.method != "POST" {
        let message = format!("Not allowed to {} on {}", raw.method, raw.target);
        return Err(refuse(405, "invalid_request_error", message).code("method_not_supported"));
    }
    if !rules.keyless {
        check_key(raw)?;
    }
    let content_type = raw.header("content-type").and_then(|value| value.split(';').next());
    if !content_type.is_some_and(|value| value.trim().eq_ignore_ascii_case("application/json")) {
        return Err(
            refuse(415, "invalid_request_error", "Unsupported content type").code("unsupported_content_type")
        );
    }
    Ok(())
}

pub(in crate::scripted) fn check_key(raw: &RawRequest) -> Result<(), Refusal> {
    let refuse = |message: &str| Err(refuse(401, "invalid_request_error", message).code("invalid_api_key"));
    match raw.header("authorization") {
        None => refuse(
            "You didn't provide an API key. You need to provide your API key in an Authorization header using Bearer \
             auth (i.e. Authorization: Bearer YOUR_KEY).",
        ),
        Some(bearer) if bearer.strip_prefix("Bearer ") == Some(API_KEY) => Ok(()),
        Some(_) => refuse("Incorrect API key provided."),
    }
}

/// Everything of the body but its messages.
pub(super) fn check_body(json: &Value, rules: &Rules) -> Result<(), Refusal> {
    let Some(body) = json.as_object() else {
        return Err(invalid("Invalid body: failed to parse JSON value. Expected an object."));
    };
    check_switches(body, rules)?;
    let known = |field: &str| FIELDS.contains(&field) || rules.extra_fields.contains(&field);
    if let Some(field) = body.keys().find(|field| !known(field)) {
        return Err(invalid(format!("Unrecognized request argument supplied: {field}")));
    }
    if body.get("model").and_then(Value::as_str).is_none_or(str::is_empty) {
        return Err(invalid("you must provide a model parameter"));
    }
    if body.get("stream") != Some(&Value::Bool(true)) {
        return Err(invalid("stream: the scripted model answers streams only").param("stream"));
    }
    check_max_tokens(body)?;
    check_scalars(body)?;
    check_tools(body)
}

/// What only some servers refuse.
fn check_switches(body: &Map<String, Value>, rules: &Rules) -> Result<(), Refusal> {
    let has = |field: &str| body.contains_key(field);
    let unrecognized =
        |field: &str| Err(invalid(format!("Unrecognized request argument supplied: {field}")).switched());
    let unsupported = |field: &str, instead: &str| {
        let message = format!("Unsupported parameter: '{field}' is not supported with this model.{instead}");
        Err(invalid(message).code("unsupported_parameter").param(field).switched())
    };
    if rules.refuse_stream_options && has("stream_options") {
        return unrecognized("stream_options");
    }
    if rules.refuse_max_tokens && has("max_tokens") {
        return unsupported("max_tokens", " Use 'max_completion_tokens' instead.");
    }
    if rules.refuse_max_completion_tokens && has("max_completion_tokens") {
        return unrecognized("max_completion_tokens");
    }
    if let Some(field) =
        ["temperature", "top_p"].into_iter().find(|field| rules.refuse_sampling && has(field))
    {
        return unsupported(field, "");
    }
    if rules.refuse_reasoning_effort && has("reasoning_effort") {
        return unsupported("reasoning_effort", "");
    }
    Ok(())
}

fn check_max_tokens(body: &Map<String, Value>) -> Result<(), Refusal> {
    if body.contains_key("max_tokens") && body.contains_key("max_completion_tokens") {
        return Err(invalid(
            "Setting 'max_tokens' and 'max_completion_tokens' at the same time is not supported.",
        )
        .code("invalid_parameter_combination"));
    }
    for field in ["max_tokens", "max_completion_tokens"] {
        match body.get(field) {
            Some(Value::Number(number)) if number.as_u64().is_some_and(|count| count > 0) => {}
            Some(Value::Number(number)) => {
                let message = format!(
                    "Invalid '{field}': integer below minimum value. Expected a value >= 1, but got {number} instead."
                );
                return Err(invalid(message).code("integer_below_min_value").param(field));
            }
            Some(_) => return Err(wrong_type(field, "an integer")),
            None => {}
        }
    }
    Ok(())
}

fn check_scalars(body: &Map<String, Value>) -> Result<(), Refusal> {
    if let Some(options) = body.get("stream_options") {
        let fields = options.as_object().ok_or_else(|| wrong_type("stream_options", "an object"))?;
        let known = ["include_usage", "include_obfuscation"];
        if let Some(field) = fields.keys().find(|field| !known.contains(&field.as_str())) {
            return Err(unknown_parameter(&format!("stream_options.{field}")));
        }
    }
    if let Some(effort) = body.get("reasoning_effort") {
        let known = ["none", "minimal", "low", "medium", "high", "xhigh", "max"];
        if !effort.as_str().is_some_and(|effort| known.contains(&effort)) {
            return Err(invalid(format!("Invalid value: {effort}."))
                .code("invalid_value")
                .param("reasoning_effort"));
        }
    }
    if body.get("n").is_some_and(|count| *count != 1) {
        return Err(invalid("n: the scripted model gives one choice").param("n"));
    }
    let no_tools = body.get("tools").is_none_or(|tools| tools.as_array().is_some_and(Vec::is_empty));
    for field in ["tool_choice", "parallel_tool_calls"] {
        if no_tools && body.contains_key(field) {
            return Err(
                invalid(format!("'{field}' is only allowed when 'tools' are specified.")).param(field)
            );
        }
    }
    match body.get("tool_choice") {
        None => Ok(()),
        Some(Value::String(word)) if ["auto", "none", "required"].contains(&word.as_str()) => Ok(()),
        Some(Value::Object(choice)) if choice.get("type").is_some_and(|kind| kind == "function") => Ok(()),
        Some(_) => {
            Err(invalid("Invalid value for 'tool_choice'.").code("invalid_value").param("tool_choice"))
        }
    }
}

fn check_tools(body: &Map<String, Value>) -> Result<(), Refusal> {
    let Some(tools) = body.get("tools") else { return Ok(()) };
    let tools = tools.as_array().ok_or_else(|| wrong_type("tools", "an array of objects"))?;
    if tools.is_empty() {
        let message = "Invalid 'tools': empty array. Expected an array with minimum length 1, but got an empty array \
                       instead.";
        return Err(invalid(message).code("empty_array").param("tools"));
    }
    if tools.len() > TOOLS_MAX {
        let message = format!(
            "Invalid 'tools': array too long. Expected an array with maximum length {TOOLS_MAX}, but got an array with \
             length {} instead.",
            tools.len()
        );
        return Err(invalid(message).code("array_above_max_length").param("tools"));
    }
    let mut names = BTreeSet::new();
    for (index, tool) in tools.iter().enumerate() {
        check_tool(&format!("tools[{index}]"), tool)?;
        let name = tool["function"]["name"].as_str().unwrap_or_default();
        if !names.insert(name) {
            // OpenAI takes it; others (DeepSeek, Gemini) do not.
            return Err(invalid(format!("Tool names must be unique: {name}")).param("tools"));
        }
    }
    Ok(())
}

fn check_tool(at: &str, tool: &Value) -> Result<(), Refusal> {
    let Some(fields) = tool.as_object() else { return Err(wrong_type(at, "an object")) };
    if fields.get("type").is_none_or(|kind| kind != "function") {
        return Err(missing(&format!("{at}.type")));
    }
    if let Some(field) = fields.keys().find(|field| !["type", "function"].contains(&field.as_str())) {
        return Err(unknown_parameter(&format!("{at}.{field}")));
    }
    let Some(function) = tool["function"].as_object() else { return Err(missing(&format!("{at}.function"))) };
    let known = ["name", "description", "parameters", "strict"];
    if let Some(field) = function.keys().find(|field| !known.contains(&field.as_str())) {
        return Err(unknown_parameter(&format!("{at}.function.{field}")));
    }
    check_name(&format!("{at}.function.name"), &tool["function"]["name"])?;
    let name = tool["function"]["name"].as_str().unwrap_or_default();
    let Some(schema) = function.get("parameters") else { return Ok(()) };
    let kind = schema["type"].as_str();
    if kind != Some("object") {
        let got = kind.map_or("type: \"None\"".to_owned(), |kind| format!("type: \"{kind}\""));
        let message = format!(
            "Invalid schema for function '{name}': schema must be a JSON Schema of 'type: \"object\"', got '{got}'."
        );
        return Err(invalid(message)
            .code("invalid_function_parameters")
            .param(format!("{at}.function.parameters")));
    }
    if schema.get("properties").is_some_and(|properties| !properties.is_object()) {
        let message = format!("Invalid schema for function '{name}': object schema missing properties.");
        return Err(invalid(message)
            .code("invalid_function_parameters")
            .param(format!("{at}.function.parameters")));
    }
    Ok(())
}

/// A name that the server takes for a tool.
pub(super) fn check_name(at: &str, name: &Value) -> Result<(), Refusal> {
    let Some(name) = name.as_str() else { return Err(missing(at)) };
    if name.is_empty() {
        return Err(empty_text(at));
    }
    if name.chars().count() > NAME_MAX_CHARS {
        return Err(too_long(at, NAME_MAX_CHARS, name.chars().count()));
    }
    if !name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-') {
        let message = format!(
            "Invalid '{at}': string does not match pattern. Expected a string that matches the pattern \
             '^[a-zA-Z0-9_-]+$'."
        );
        return Err(invalid(message).code("invalid_value").param(at));
    }
    Ok(())
}

pub(super) fn missing(at: &str) -> Refusal {
    invalid(format!("Missing required parameter: '{at}'.")).code("missing_required_parameter").param(at)
}

pub(super) fn unknown_parameter(at: &str) -> Refusal {
    invalid(format!("Unknown parameter: '{at}'.")).code("unknown_parameter").param(at)
}

pub(super) fn wrong_type(at: &str, expected: &str) -> Refusal {
    invalid(format!("Invalid type for '{at}': expected {expected}.")).code("invalid_type").param(at)
}

pub(super) fn empty_text(at: &str) -> Refusal {
    let message = format!(
        "Invalid '{at}': empty string. Expected a string with minimum length 1, but got an empty string instead."
    );
    invalid(message).code("empty_string").param(at)
}

pub(super) fn too_long(at: &str, most: usize, got: usize) -> Refusal {
    let message = format!(
        "Invalid '{at}': string too long. Expected a string with maximum length {most}, but got a string with length \
         {got} instead."
    );
    invalid(message).code("string_above_max_length").param(at)
}
