//! What must hold of the messages: roles and their order, content, pairing of calls and results.

use super::rules::{check_name, empty_text, missing, too_long, unknown_parameter, wrong_type};
use super::{Refusal, invalid, replay};
use crate::scripted::refusal::Shape;
use crate::scripted::{Ledger, Rules, images};
use serde_json::Value;
use std::collections::BTreeSet;

/// Characters of a call's id at OpenAI itself.
const ID_MAX_CHARS: usize = 40;
/// Fields of reasoning in assistant messages.
const REASONING: [&str; 3] = ["reasoning_content", "reasoning", "reasoning_details"];

/// The text of a message's content, parts joined by line breaks.
pub(in crate::scripted) fn content_text(message: &Value) -> String {
    match &message["content"] {
        Value::String(text) => text.clone(),
        Value::Array(parts) => {
            parts.iter().filter_map(|part| part["text"].as_str()).collect::<Vec<_>>().join("\n")
        }
        _ => String::new(),
    }
}

/// Every tool message: its place, the id it answers, and its text.
pub(in crate::scripted) fn tool_results(messages: &[Value]) -> impl Iterator<Item = (usize, &str, String)> {
    let results = messages.iter().enumerate().filter(|(_, message)| message["role"] == "tool");
    results.map(|(index, message)| {
        (index, message["tool_call_id"].as_str().unwrap_or_default(), content_text(message))
    })
}

pub(super) fn calls(message: &Value) -> &[Value] {
    message["tool_calls"].as_array().map_or(&[], Vec::as_slice)
}

pub(super) fn check(body: &Value, rules: &Rules, ledger: &Ledger) -> Result<(), Refusal> {
    let Some(messages) = body.get("messages") else { return Err(missing("messages")) };
    let messages = messages.as_array().ok_or_else(|| wrong_type("messages", "an array of objects"))?;
    if messages.is_empty() {
        let message = "Invalid 'messages': empty array. Expected an array with minimum length 1, but got an empty \
                       array instead.";
        return Err(invalid(message).code("empty_array").param("messages"));
    }
    for (index, message) in messages.iter().enumerate() {
        check_message(index, message, rules)?;
    }
    check_order(messages, rules)?;
    check_pairing(messages)?;
    if body["tools"].as_array().is_none_or(Vec::is_empty) && messages.iter().any(|m| !calls(m).is_empty()) {
        // OpenAI takes it; gateways to Anthropic and Gemini do not.
        return Err(invalid("Requests which include tool calls must define tools").param("tools"));
    }
    replay::check(messages, rules, ledger)
}

fn check_message(index: usize, message: &Value, rules: &Rules) -> Result<(), Refusal> {
    let at = format!("messages[{index}]");
    let Some(fields) = message.as_object() else { return Err(wrong_type(&at, "an object")) };
    let role = message["role"].as_str().unwrap_or_default();
    if role == "developer" && rules.refuse_developer {
        let message = format!(
            "{at}.role: unknown variant `developer`, expected one of `system`, `user`, `assistant`, `tool`"
        );
        return Err(invalid(message).switched());
    }
    let known: &[&str] = match role {
        "system" | "developer" | "user" => &["role", "content", "name"],
        "assistant" => &["role", "content", "name", "tool_calls", "refusal"],
        "tool" => &["role", "content", "name", "tool_call_id"],
        _ => {
            let message = format!(
                "Invalid value: '{role}'. Supported values are: 'system', 'assistant', 'user', 'function', 'tool', and \
                 'developer'."
            );
            return Err(invalid(message).code("invalid_value").param(format!("{at}.role")));
        }
    };
    for field in fields.keys().map(String::as_str) {
        let reasoning = role == "assistant" && REASONING.contains(&field);
        if reasoning && rules.refuse_reasoning {
            return Err(invalid(format!("The {field} is an intermediate result for display purposes only and will not \
                 be included in the context for inference. Please remove the {field} from your message to reduce network traffic."))
            .switched());
        }
        if !reasoning && !known.contains(&field) && !rules.extra_fields.contains(&field) {
            return Err(unknown_parameter(&format!("{at}.{field}")));
        }
    }
    check_content(&at, role, message, rules)?;
    match role {
        "tool" if message["tool_call_id"].as_str().is_none() => Err(missing(&format!("{at}.tool_call_id"))),
        "assistant" => check_calls(&at, message, rules),
        _ => Ok(()),
    }
}

fn check_content(at: &str, role: &str, message: &Value, rules: &Rules) -> Result<(), Refusal> {
    let path = format!("{at}.content");
    let has_calls = !calls(message).is_empty();
    match message.get("content") {
        None | Some(Value::Null) if rules.refuse_null_content => {
            Err(invalid(format!("{path}: Input should be a valid string")).switched())
        }
        None | Some(Value::Null) if role == "assistant" && has_calls => Ok(()),
        None => Err(missing(&path)),
        Some(Value::Null) => {
            Err(invalid("Invalid value for 'content': expected a string, got null.").param(path))
        }
        Some(Value::String(text)) if text.is_empty() && role != "tool" && !has_calls => {
            Err(empty_text(&path))
        }
        Some(Value::String(_)) => Ok(()),
        Some(Value::Array(parts)) if parts.is_empty() => {
            let message = format!("Invalid '{path}': empty array. Expected an array with minimum length 1.");
            Err(invalid(message).code("empty_array").param(path))
        }
        Some(Value::Array(parts)) => {
            let mut parts = parts.iter().enumerate();
            parts.try_for_each(|(place, part)| check_part(&format!("{path}[{place}]"), role, part, rules))
        }
        Some(_) => Err(wrong_type(&path, "one of a string or array of objects")),
    }
}

fn check_part(at: &str, role: &str, part: &Value, rules: &Rules) -> Result<(), Refusal> {
    let kind = part["type"].as_str().unwrap_or_default();
    let known: &[&str] = match (role, kind) {
        (_, "text") => &["type", "text"],
        ("user", "image_url") => &["type", "image_url"],
        ("user", "input_audio") => &["type", "input_audio"],
        ("user", "file") => &["type", "file"],
        ("assistant", "refusal") => &["type", "refusal"],
        ("assistant", "thinking") if rules.mistral_ids || rules.reasoning_parts => {
            &["type", "thinking", "closed"]
        }
        ("tool", _) => {
            return Err(invalid(format!(
                "Invalid content type. Content blocks are expected to be either text or image_url type, and a tool \
                 message takes text only; got '{kind}'."
            ))
            .param(at));
        }
        _ => {
            let message = format!("Invalid value: '{kind}'. Supported values are: 'text'.");
            return Err(invalid(message).code("invalid_value").param(format!("{at}.type")));
        }
    };
    let unknown =
        |field: &&String| !known.contains(&field.as_str()) && !rules.extra_fields.contains(&field.as_str());
    if let Some(field) = part.as_object().and_then(|fields| fields.keys().find(unknown)) {
        return Err(unknown_parameter(&format!("{at}.{field}")));
    }
    match kind {
        "text" => match part["text"].as_str() {
            None => Err(missing(&format!("{at}.text"))),
            Some("") if role != "tool" => Err(empty_text(&format!("{at}.text"))),
            Some(_) => Ok(()),
        },
        "image_url" => check_image(at, &part["image_url"]),
        _ => Ok(()),
    }
}

fn check_image(at: &str, image: &Value) -> Result<(), Refusal> {
    let path = format!("{at}.image_url.url");
    let Some(url) = image["url"].as_str() else { return Err(missing(&path)) };
    if url.starts_with("https://") || url.starts_with("http://") {
        return Ok(());
    }
    let parsed = url.strip_prefix("data:").and_then(|rest| rest.split_once(";base64,"));
    let Some((kind, data)) = parsed.filter(|(kind, _)| images::TYPES.contains(kind)) else {
        let message = "Invalid image URL. Expected a base64-encoded data URL with an image MIME type (e.g. \
                       'data:image/png;base64,aW1nIGJ5dGVzIGhlcmU='), but got something else.";
        return Err(invalid(message).code("invalid_value").param(path));
    };
    images::check(kind, data).map_err(|fault| match fault {
        images::Fault::NotBase64 => invalid("Invalid base64 image_url.").code("invalid_base64").param(path),
        images::Fault::TooLarge => invalid("Image is too large.").code("image_too_large").param(path),
        images::Fault::NotThatImage => {
            invalid("You uploaded an unsupported image. Please make sure your image is valid.")
                .code("invalid_image_format")
        }
    })
}

fn check_calls(at: &str, message: &Value, rules: &Rules) -> Result<(), Refusal> {
    let Some(field) = message.get("tool_calls") else { return Ok(()) };
    let path = format!("{at}.tool_calls");
    let Some(calls) = field.as_array() else { return Err(wrong_type(&path, "an array of objects")) };
    if calls.is_empty() {
        let message = format!(
            "Invalid '{path}': empty array. Expected an array with minimum length 1, but got an empty array instead."
        );
        return Err(invalid(message).code("empty_array").param(path));
    }
    for (place, call) in calls.iter().enumerate() {
        check_call(&format!("{path}[{place}]"), call, rules)?;
    }
    Ok(())
}

fn check_call(at: &str, call: &Value, rules: &Rules) -> Result<(), Refusal> {
    let Some(id) = call["id"].as_str() else { return Err(missing(&format!("{at}.id"))) };
    if id.is_empty() {
        return Err(empty_text(&format!("{at}.id")));
    }
    if rules.short_ids && id.chars().count() > ID_MAX_CHARS {
        return Err(too_long(&format!("{at}.id"), ID_MAX_CHARS, id.chars().count()));
    }
    if rules.mistral_ids && !(id.len() == 9 && id.bytes().all(|byte| byte.is_ascii_alphanumeric())) {
        let message = format!("Tool call id was {id} but must be a-z, A-Z, 0-9, with a length of 9.");
        return Err(Refusal::new(Shape::Mistral, 400, "invalid_request_error", message).code("3280"));
    }
    if call["type"] != "function" {
        return Err(missing(&format!("{at}.type")));
    }
    let Some(function) = call["function"].as_object() else { return Err(missing(&format!("{at}.function"))) };
    if let Some(field) = function.keys().find(|field| !["name", "arguments"].contains(&field.as_str())) {
        return Err(unknown_parameter(&format!("{at}.function.{field}")));
    }
    check_name(&format!("{at}.function.name"), &call["function"]["name"])?;
    let path = format!("{at}.function.arguments");
    let Some(arguments) = call["function"]["arguments"].as_str() else {
        return Err(if function.contains_key("arguments") {
            invalid(format!("Invalid type for '{path}': expected a string, but got an object instead."))
                .code("invalid_type")
                .param(path)
        } else {
            missing(&path)
        });
    };
    match serde_json::from_str::<Value>(arguments) {
        Ok(Value::Object(_)) => Ok(()),
        // OpenAI takes anything; vLLM, DeepSeek and gateways parse it.
        _ => Err(invalid(format!("Invalid '{path}': expected a string that holds a JSON object."))
            .code("invalid_value")
            .param(path)),
    }
}

fn check_order(messages: &[Value], rules: &Rules) -> Result<(), Refusal> {
    let is_system = |message: &Value| message["role"] == "system" || message["role"] == "developer";
    if let Some(index) = messages.iter().skip(1).position(is_system) {
        return Err(invalid("System message must be at the beginning.")
            .param(format!("messages[{}].role", index + 1)));
    }
    match messages.iter().find(|message| !is_system(message)) {
        None => return Err(invalid("At least one user message is required.").param("messages")),
        // A tool message has its own text, below.
        Some(first) if first["role"] == "assistant" => {
            return Err(invalid("The first message after the system message must be a user message.")
                .param("messages"));
        }
        Some(_) => {}
    }
    if messages.last().is_some_and(|last| last["role"] == "assistant" && calls(last).is_empty()) {
        return Err(invalid("The last message must not be an assistant message.").param("messages"));
    }
    let after_tool = messages.windows(2).position(|two| two[0]["role"] == "tool" && two[1]["role"] == "user");
    if rules.mistral_order && after_tool.is_some() {
        let message = "Unexpected role 'user' after role 'tool'";
        return Err(Refusal::new(Shape::Mistral, 400, "invalid_request_message_order", message).code("3230"));
    }
    Ok(())
}

/// Each call has one tool message right after its assistant message, and each tool message has its call.
fn check_pairing(messages: &[Value]) -> Result<(), Refusal> {
    let mut seen = BTreeSet::new();
    // The ids that the tool messages from here on may answer, and those that they still must.
    let (mut asked, mut open): (Vec<&str>, Vec<&str>) = (Vec::new(), Vec::new());
    for (index, message) in messages.iter().enumerate() {
        if message["role"] == "tool" {
            let id = message["tool_call_id"].as_str().unwrap_or_default();
            if !asked.contains(&id) {
                return Err(invalid(
                    "Invalid parameter: messages with role 'tool' must be a response to a preceeding message with \
                     'tool_calls'.",
                )
                .param(format!("messages.[{index}].role")));
            }
            if !open.contains(&id) {
                return Err(invalid(format!(
                    "Duplicate value for 'tool_call_id' of '{id}' in message[{index}]"
                )));
            }
            open.retain(|known| *known != id);
            continue;
        }
        if !open.is_empty() {
            return Err(unanswered(index, &open));
        }
        asked = calls(message).iter().filter_map(|call| call["id"].as_str()).collect();
        open.clone_from(&asked);
        for id in &asked {
            if !seen.insert(*id) {
                return Err(invalid(format!(
                    "Duplicate value for 'tool_call_id' of '{id}' in message[{index}]"
                )));
            }
        }
    }
    if open.is_empty() { Ok(()) } else { Err(unanswered(messages.len(), &open)) }
}

fn unanswered(index: usize, open: &[&str]) -> Refusal {
    invalid(format!(
        "An assistant message with 'tool_calls' must be followed by tool messages responding to each 'tool_call_id'. \
         The following tool_call_ids did not have response messages: {}",
        open.join(", ")
    ))
    .param(format!("messages.[{index}].role"))
}
