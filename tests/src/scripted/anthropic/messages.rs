//! What must hold of the messages: roles, blocks, pairing of calls and results, thinking unchanged.

use super::rules::{is_legal_id, is_legal_name};
use super::thinking;
use super::{Refusal, invalid};
use crate::scripted::images;
use crate::scripted::{Ledger, Rules};
use serde_json::{Value, json};
use std::collections::BTreeSet;

/// The content of a message as blocks; a string is one text block.
pub fn message_blocks(message: &Value) -> Vec<Value> {
    match &message["content"] {
        Value::String(text) => vec![json!({"type": "text", "text": text})],
        Value::Array(blocks) => blocks.clone(),
        _ => Vec::new(),
    }
}

/// A value without its cache markers, which say nothing and may move.
pub fn without_cache_markers(value: Value) -> Value {
    match value {
        Value::Array(items) => items.into_iter().map(without_cache_markers).collect(),
        Value::Object(fields) => fields
            .into_iter()
            .filter(|(name, _)| name != "cache_control")
            .map(|(name, field)| (name, without_cache_markers(field)))
            .collect(),
        other => other,
    }
}

/// A message after the server has merged neighbours of one role.
#[derive(Clone, Debug)]
pub(super) struct Merged {
    pub(super) role: String,
    pub(super) blocks: Vec<Value>,
}

impl Merged {
    pub(super) fn ids(&self, kind: &str, field: &str) -> Vec<&str> {
        let blocks = self.blocks.iter().filter(|block| block["type"] == kind);
        blocks.map(|block| block[field].as_str().unwrap_or_default()).collect()
    }
}

pub(super) fn merge(messages: &[Value]) -> Vec<Merged> {
    let mut merged: Vec<Merged> = Vec::new();
    for message in messages {
        let role = message["role"].as_str().unwrap_or_default().to_owned();
        let blocks = message_blocks(message);
        match merged.last_mut().filter(|last| last.role == role) {
            Some(last) => last.blocks.extend(blocks),
            None => merged.push(Merged { role, blocks }),
        }
    }
    merged
}

pub(super) fn check(body: &Value, rules: &Rules, ledger: &Ledger) -> Result<(), Refusal> {
    let Some(messages) = body["messages"].as_array() else {
        return Err(invalid("messages: Input should be a valid list"));
    };
    check_shapes(messages, rules)?;
    let merged = merge(messages);
    check_pairing(&merged)?;
    if body["tools"].as_array().is_none_or(Vec::is_empty) && merged.iter().any(has_calls) {
        return Err(invalid("Requests which include `tool_use` or `tool_result` blocks must define tools"));
    }
    check_system(&merged)?;
    check_end(body, &merged, ledger)?;
    thinking::check(body, &merged, rules, ledger)
}

fn has_calls(message: &Merged) -> bool {
    message.blocks.iter().any(|block| block["type"] == "tool_use" || block["type"] == "tool_result")
}

fn check_shapes(messages: &[Value], rules: &Rules) -> Result<(), Refusal> {
    if messages.is_empty() {
        return Err(invalid("messages: at least one message is required"));
    }
    for (index, message) in messages.iter().enumerate() {
        if let Some(field) = unknown(message, &["role", "content"], rules) {
            return Err(invalid(format!("messages.{index}.{field}: Extra inputs are not permitted")));
        }
        let role = message["role"].as_str().unwrap_or_default();
        if !["user", "assistant", "system"].contains(&role) {
            return Err(invalid(format!(
                "messages.{index}.role: Input should be 'user', 'assistant' or 'system'"
            )));
        }
        let blocks = match &message["content"] {
            Value::String(_) | Value::Array(_) => message_blocks(message),
            _ => return Err(invalid(format!("messages.{index}.content: Field required"))),
        };
        if blocks.is_empty() {
            return Err(invalid(format!("messages.{index}: {role} messages must have non-empty content")));
        }
        for (place, block) in blocks.iter().enumerate() {
            check_block(&format!("messages.{index}.content.{place}"), role, block, rules)?;
        }
    }
    if messages[0]["role"] != "user" {
        return Err(invalid("messages: first message must use the \"user\" role"));
    }
    Ok(())
}

fn check_block(at: &str, role: &str, block: &Value, rules: &Rules) -> Result<(), Refusal> {
    let kind = block["type"].as_str().unwrap_or_default();
    let allowed: &[&str] = match role {
        "user" => &["text", "image", "document", "search_result", "tool_result"],
        "system" => &["text"],
        _ => &[
            "text",
            "thinking",
            "redacted_thinking",
            "tool_use",
            "server_tool_use",
            "fallback",
            "compaction",
            "container_upload",
            "mcp_tool_use",
            "mcp_tool_result",
            "mcp_tool_listing",
        ],
    };
    // The results of server tools, new ones too, stand in the assistant's turn.
    let of_server = role == "assistant" && kind.ends_with("_tool_result");
    if !allowed.contains(&kind) && !of_server {
        return Err(invalid(format!("{at}: `{kind}` blocks are not permitted in a {role} message")));
    }
    if let Some(field) = fields_of(kind).and_then(|known| unknown(block, known, rules)) {
        return Err(invalid(format!("{at}.{kind}.{field}: Extra inputs are not permitted")));
    }
    match kind {
        "text" if role == "user" && block["citations"].as_array().is_some_and(|all| !all.is_empty()) => {
            Err(invalid(format!("{at}.text.citations: not permitted in a user message")))
        }
        "text" => check_text(at, block),
        "image" => check_image(at, block),
        "tool_use" => check_tool_use(at, block),
        "tool_result" => check_tool_result(at, block),
        _ => Ok(()),
    }
}

/// The fields of a block; none for those that are the server's own and come back as they are.
fn fields_of(kind: &str) -> Option<&'static [&'static str]> {
    Some(match kind {
        "text" => &["type", "text", "cache_control", "citations"],
        "image" => &["type", "source", "cache_control", "transformations"],
        "thinking" => &["type", "thinking", "signature"],
        "redacted_thinking" => &["type", "data"],
        "tool_use" => &["type", "id", "name", "input", "cache_control", "caller", "toolset_name"],
        "tool_result" => &["type", "tool_use_id", "content", "is_error", "cache_control", "toolset_name"],
        _ => return None,
    })
}

fn unknown(value: &Value, known: &[&str], rules: &Rules) -> Option<String> {
    let mut fields = value.as_object()?.keys().map(String::as_str);
    fields.find(|field| !known.contains(field) && !rules.extra_fields.contains(field)).map(str::to_owned)
}

fn check_image(at: &str, block: &Value) -> Result<(), Refusal> {
    let source = &block["source"];
    match source["type"].as_str() {
        Some("base64") => {
            let kind = source["media_type"].as_str().unwrap_or_default();
            if !images::TYPES.contains(&kind) {
                return Err(invalid(format!(
                    "{at}.image.source.base64.media_type: Input should be 'image/jpeg', 'image/png', 'image/gif' or \
                     'image/webp'"
                )));
            }
            match images::check(kind, source["data"].as_str().unwrap_or_default()) {
                Ok(()) => Ok(()),
                Err(images::Fault::TooLarge) => {
                    Err(invalid(format!("{at}.image.source.base64: image exceeds 5 MB maximum")))
                }
                Err(images::Fault::NotBase64) => {
                    Err(invalid(format!("{at}.image.source.base64.data: Invalid base64 data")))
                }
                Err(images::Fault::NotThatImage) => Err(invalid("Could not process image")),
            }
        }
        Some("url" | "file") => Ok(()),
        _ => Err(invalid(format!("{at}.image.source: Input tag does not match any of the expected tags"))),
    }
}

fn check_text(at: &str, block: &Value) -> Result<(), Refusal> {
    match block["text"].as_str() {
        None => Err(invalid(format!("{at}.text.text: Field required"))),
        Some("") => Err(invalid("messages: text content blocks must be non-empty")),
        Some(text) if text.trim().is_empty() => {
            Err(invalid("messages: text content blocks must contain non-whitespace text"))
        }
        Some(_) => Ok(()),
    }
}

fn check_tool_use(at: &str, block: &Value) -> Result<(), Refusal> {
    if !block["id"].as_str().is_some_and(is_legal_id) {
        return Err(invalid(format!("{at}.tool_use.id: String should match pattern '^[a-zA-Z0-9_-]+$'")));
    }
    if !block["name"].as_str().is_some_and(is_legal_name) {
        return Err(invalid(format!(
            "{at}.tool_use.name: String should match pattern '^[a-zA-Z0-9_-]{{1,128}}$'"
        )));
    }
    if !block["input"].is_object() {
        return Err(invalid(format!("{at}.tool_use.input: Input should be a valid dictionary")));
    }
    Ok(())
}

fn check_tool_result(at: &str, block: &Value) -> Result<(), Refusal> {
    if !block["tool_use_id"].as_str().is_some_and(is_legal_id) {
        return Err(invalid(format!(
            "{at}.tool_result.tool_use_id: String should match pattern '^[a-zA-Z0-9_-]+$'"
        )));
    }
    match &block["content"] {
        Value::Null | Value::String(_) => Ok(()),
        Value::Array(parts) => {
            for (index, part) in parts.iter().enumerate() {
                match part["type"].as_str() {
                    Some("text") if part["text"].as_str().is_some_and(|text| !text.is_empty()) => {}
                    Some("text") => {
                        return Err(invalid("messages: text content blocks must be non-empty"));
                    }
                    Some("image") => check_image(&format!("{at}.tool_result.content.{index}"), part)?,
                    Some("document" | "search_result" | "tool_reference") => {}
                    _ => {
                        return Err(invalid(format!("{at}.tool_result.content.{index}: unknown block type")));
                    }
                }
            }
            Ok(())
        }
        _ => Err(invalid(format!("{at}.tool_result.content: Input should be a valid string or list"))),
    }
}

fn check_pairing(merged: &[Merged]) -> Result<(), Refusal> {
    let mut seen = BTreeSet::new();
    for (index, message) in merged.iter().enumerate() {
        for (place, block) in
            message.blocks.iter().enumerate().filter(|(_, block)| block["type"] == "tool_use")
        {
            if !seen.insert(block["id"].as_str().unwrap_or_default()) {
                return Err(invalid(format!(
                    "messages.{index}.content.{place}: `tool_use` ids must be unique"
                )));
            }
        }
        match message.role.as_str() {
            "assistant" => check_calls_answered(index, message, merged.get(index + 1))?,
            _ => check_results_asked(index, message, index.checked_sub(1).map(|before| &merged[before]))?,
        }
    }
    Ok(())
}

/// Every call has its result in the very next message, before anything else there; and the call stands last.
fn check_calls_answered(index: usize, message: &Merged, next: Option<&Merged>) -> Result<(), Refusal> {
    let calls = message.ids("tool_use", "id");
    if calls.is_empty() {
        return Ok(());
    }
    let first_call = message.blocks.iter().position(|block| block["type"] == "tool_use").unwrap_or_default();
    let text_after = message.blocks[first_call..].iter().any(|block| block["type"] == "text");
    let leading: Vec<&str> = next
        .into_iter()
        .flat_map(|next| next.blocks.iter().take_while(|block| block["type"] == "tool_result"))
        .map(|block| block["tool_use_id"].as_str().unwrap_or_default())
        .collect();
    let orphans: Vec<&str> = calls.into_iter().filter(|id| text_after || !leading.contains(id)).collect();
    if orphans.is_empty() {
        return Ok(());
    }
    Err(invalid(format!(
        "messages.{index}: `tool_use` ids were found without `tool_result` blocks immediately after: {}. Each \
         `tool_use` block must have a corresponding `tool_result` block in the next message.",
        orphans.join(", ")
    )))
}

/// Every result answers a call of the message before, once.
fn check_results_asked(index: usize, message: &Merged, before: Option<&Merged>) -> Result<(), Refusal> {
    let calls = before.map(|before| before.ids("tool_use", "id")).unwrap_or_default();
    let mut answered = BTreeSet::new();
    for (place, block) in
        message.blocks.iter().enumerate().filter(|(_, block)| block["type"] == "tool_result")
    {
        let id = block["tool_use_id"].as_str().unwrap_or_default();
        if !calls.contains(&id) {
            return Err(invalid(format!(
                "messages.{index}.content.{place}: unexpected `tool_use_id` found in `tool_result` blocks: {id}. Each \
                 `tool_result` block must have a corresponding `tool_use` block in the previous message."
            )));
        }
        if !answered.insert(id) {
            return Err(invalid(format!(
                "messages.{index}.content.{place}: each tool_use must have a single result. Found multiple \
                 `tool_result` blocks with id: {id}"
            )));
        }
    }
    Ok(())
}

/// A system message in the middle follows the user and is followed by the assistant, if by anything.
fn check_system(merged: &[Merged]) -> Result<(), Refusal> {
    for (index, _) in merged.iter().enumerate().filter(|(_, message)| message.role == "system") {
        let role = |at: Option<usize>| at.and_then(|at| merged.get(at)).map(|message| message.role.as_str());
        let after_server_tool = role(index.checked_sub(1)) == Some("assistant")
            && merged[index - 1].blocks.last().is_some_and(|block| block["type"] == "server_tool_use");
        let follows = after_server_tool || role(index.checked_sub(1)) == Some("user");
        if !follows || role(Some(index + 1)) == Some("user") {
            return Err(invalid(format!(
                "messages.{index}: a system message must follow a user message and be last or followed by an assistant \
                 message"
            )));
        }
    }
    Ok(())
}

/// The conversation ends with the user, unless a paused answer is to be continued, which comes back unchanged.
fn check_end(body: &Value, merged: &[Merged], ledger: &Ledger) -> Result<(), Refusal> {
    let Some(last) = merged.last().filter(|last| last.role == "assistant") else { return Ok(()) };
    let paused = ledger.answers().filter(|sent| sent.stop_reason.as_deref() == Some("pause_turn"));
    if thinking::continues(body, merged, paused, last) {
        return Ok(());
    }
    Err(invalid(
        "This model does not support assistant message prefill. The conversation must end with a user message.",
    ))
}
