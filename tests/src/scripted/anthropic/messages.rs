//! What must hold of the messages: roles, blocks, pairing of calls and results, thinking unchanged.

use super::rules::{is_legal_id, is_legal_name};
use super::{Ledger, Refusal};
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
struct Merged {
    role: String,
    blocks: Vec<Value>,
}

impl Merged {
    fn ids(&self, kind: &str, field: &str) -> Vec<&str> {
        let blocks = self.blocks.iter().filter(|block| block["type"] == kind);
        blocks.map(|block| block[field].as_str().unwrap_or_default()).collect()
    }
}

fn merge(messages: &[Value]) -> Vec<Merged> {
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

/// The bytes that a thinking block is bound to: everything before it, without cache markers and without earlier
/// thinking (whose leading run may be removed).
pub(super) fn prefix(body: &Value, messages: usize) -> Vec<u8> {
    let merged = merge(body["messages"].as_array().map_or(&[], Vec::as_slice));
    let kept: Vec<Value> = merged
        .iter()
        .take(messages)
        .map(|message| {
            let blocks: Vec<&Value> =
                message.blocks.iter().filter(|block| signature(block).is_none()).collect();
            json!({"role": message.role, "blocks": blocks})
        })
        .collect();
    serde_json::to_vec(&without_cache_markers(json!([body["system"], body["tools"], kept])))
        .unwrap_or_default()
}

/// How many messages a request has after merging: where its answer will stand.
pub(super) fn merged_len(body: &Value) -> usize {
    merge(body["messages"].as_array().map_or(&[], Vec::as_slice)).len()
}

/// What proves a thinking block's origin: its signature, or its sealed data.
pub(super) fn signature(block: &Value) -> Option<&str> {
    match block["type"].as_str()? {
        "thinking" => Some(block["signature"].as_str().unwrap_or_default()),
        "redacted_thinking" => Some(block["data"].as_str().unwrap_or_default()),
        _ => None,
    }
}

pub(super) fn check(body: &Value, ledger: &Ledger) -> Result<(), Refusal> {
    let Some(messages) = body["messages"].as_array() else {
        return Err(Refusal::invalid("messages: Input should be a valid list"));
    };
    check_shapes(messages)?;
    let merged = merge(messages);
    check_pairing(&merged)?;
    if body["tools"].as_array().is_none_or(Vec::is_empty) && merged.iter().any(has_calls) {
        return Err(Refusal::invalid(
            "Requests which include `tool_use` or `tool_result` blocks must define tools",
        ));
    }
    check_end(&merged, ledger)?;
    check_thinking(body, &merged, ledger)
}

fn has_calls(message: &Merged) -> bool {
    message.blocks.iter().any(|block| block["type"] == "tool_use" || block["type"] == "tool_result")
}

fn check_shapes(messages: &[Value]) -> Result<(), Refusal> {
    if messages.is_empty() {
        return Err(Refusal::invalid("messages: at least one message is required"));
    }
    for (index, message) in messages.iter().enumerate() {
        if let Some(field) =
            message.as_object().and_then(|fields| fields.keys().find(|f| *f != "role" && *f != "content"))
        {
            return Err(Refusal::invalid(format!(
                "messages.{index}.{field}: Extra inputs are not permitted"
            )));
        }
        let role = message["role"].as_str().unwrap_or_default();
        if !["user", "assistant", "system"].contains(&role) {
            return Err(Refusal::invalid(format!(
                "messages.{index}.role: Input should be 'user', 'assistant' or 'system'"
            )));
        }
        let blocks = match &message["content"] {
            Value::String(_) | Value::Array(_) => message_blocks(message),
            _ => return Err(Refusal::invalid(format!("messages.{index}.content: Field required"))),
        };
        if blocks.is_empty() {
            return Err(Refusal::invalid(format!(
                "messages.{index}: {role} messages must have non-empty content"
            )));
        }
        for (place, block) in blocks.iter().enumerate() {
            check_block(&format!("messages.{index}.content.{place}"), role, block)?;
        }
    }
    if messages[0]["role"] != "user" {
        return Err(Refusal::invalid("messages: first message must use the \"user\" role"));
    }
    Ok(())
}

fn check_block(at: &str, role: &str, block: &Value) -> Result<(), Refusal> {
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
            "web_search_tool_result",
            "fallback",
        ],
    };
    if !allowed.contains(&kind) {
        return Err(Refusal::invalid(format!("{at}: `{kind}` blocks are not permitted in a {role} message")));
    }
    match kind {
        "text" => check_text(at, block),
        "tool_use" => check_tool_use(at, block),
        "tool_result" => check_tool_result(at, block),
        _ => Ok(()),
    }
}

fn check_text(at: &str, block: &Value) -> Result<(), Refusal> {
    match block["text"].as_str() {
        None => Err(Refusal::invalid(format!("{at}.text.text: Field required"))),
        Some("") => Err(Refusal::invalid("messages: text content blocks must be non-empty")),
        Some(text) if text.trim().is_empty() => {
            Err(Refusal::invalid("messages: text content blocks must contain non-whitespace text"))
        }
        Some(_) => Ok(()),
    }
}

fn check_tool_use(at: &str, block: &Value) -> Result<(), Refusal> {
    if !block["id"].as_str().is_some_and(is_legal_id) {
        return Err(Refusal::invalid(format!(
            "{at}.tool_use.id: String should match pattern '^[a-zA-Z0-9_-]+$'"
        )));
    }
    if !block["name"].as_str().is_some_and(is_legal_name) {
        return Err(Refusal::invalid(format!(
            "{at}.tool_use.name: String should match pattern '^[a-zA-Z0-9_-]{{1,128}}$'"
        )));
    }
    if !block["input"].is_object() {
        return Err(Refusal::invalid(format!("{at}.tool_use.input: Input should be a valid dictionary")));
    }
    Ok(())
}

fn check_tool_result(at: &str, block: &Value) -> Result<(), Refusal> {
    let known = ["type", "tool_use_id", "content", "is_error", "cache_control", "toolset_name"];
    if let Some(field) =
        block.as_object().and_then(|fields| fields.keys().find(|f| !known.contains(&f.as_str())))
    {
        return Err(Refusal::invalid(format!("{at}.tool_result.{field}: Extra inputs are not permitted")));
    }
    if !block["tool_use_id"].as_str().is_some_and(is_legal_id) {
        return Err(Refusal::invalid(format!(
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
                        return Err(Refusal::invalid("messages: text content blocks must be non-empty"));
                    }
                    Some("image" | "document" | "search_result" | "tool_reference") => {}
                    _ => {
                        return Err(Refusal::invalid(format!(
                            "{at}.tool_result.content.{index}: unknown block type"
                        )));
                    }
                }
            }
            Ok(())
        }
        _ => {
            Err(Refusal::invalid(format!("{at}.tool_result.content: Input should be a valid string or list")))
        }
    }
}

fn check_pairing(merged: &[Merged]) -> Result<(), Refusal> {
    let mut seen = BTreeSet::new();
    for (index, message) in merged.iter().enumerate() {
        for (place, block) in
            message.blocks.iter().enumerate().filter(|(_, block)| block["type"] == "tool_use")
        {
            if !seen.insert(block["id"].as_str().unwrap_or_default()) {
                return Err(Refusal::invalid(format!(
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
    Err(Refusal::invalid(format!(
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
            return Err(Refusal::invalid(format!(
                "messages.{index}.content.{place}: unexpected `tool_use_id` found in `tool_result` blocks: {id}. Each \
                 `tool_result` block must have a corresponding `tool_use` block in the previous message."
            )));
        }
        if !answered.insert(id) {
            return Err(Refusal::invalid(format!(
                "messages.{index}.content.{place}: each tool_use must have a single result. Found multiple \
                 `tool_result` blocks with id: {id}"
            )));
        }
    }
    Ok(())
}

/// The conversation ends with the user, unless a paused answer is to be continued.
fn check_end(merged: &[Merged], ledger: &Ledger) -> Result<(), Refusal> {
    let ends_with_assistant = merged.last().is_some_and(|last| last.role == "assistant");
    if ends_with_assistant && ledger.last_stop() != Some("pause_turn") {
        return Err(Refusal::invalid(
            "This model does not support assistant message prefill. The conversation must end with a user message.",
        ));
    }
    Ok(())
}

/// Thinking comes back as it was sent, after the same prefix, and whole in an open tool loop.
fn check_thinking(body: &Value, merged: &[Merged], ledger: &Ledger) -> Result<(), Refusal> {
    let mut any = false;
    for (index, message) in merged.iter().enumerate() {
        for (place, block) in message.blocks.iter().enumerate() {
            let Some(signature) = signature(block) else { continue };
            any = true;
            let at = format!("messages.{index}.content.{place}");
            let bound = ledger.thinking(signature);
            let Some((sent, original)) = bound.filter(|(sent, _)| sent.prefix == prefix(body, index)) else {
                return Err(Refusal::invalid(format!(
                    "{at}: Invalid `signature` in `thinking` block. The block is bound to a different conversation. \
                     Remove the block, or set `thinking.block_binding.prefix_mismatch_behavior` to \"drop_block\"."
                )));
            };
            if without_cache_markers(block.clone()) != *original || sent.thinking.is_empty() {
                return Err(modified(&at));
            }
        }
    }
    let Some((index, last)) =
        merged.iter().enumerate().rev().find(|(_, message)| message.role == "assistant")
    else {
        return Ok(());
    };
    let sent = last.ids("tool_use", "id").first().and_then(|id| ledger.by_call(id));
    let here: Vec<&Value> = last.blocks.iter().filter(|block| signature(block).is_some()).collect();
    // A client may strip all thinking of a request, never some of the latest message's.
    if any && sent.is_some_and(|sent| sent.thinking.iter().collect::<Vec<_>>() != here) {
        return Err(modified(&format!("messages.{index}.content.0")));
    }
    Ok(())
}

fn modified(at: &str) -> Refusal {
    Refusal::invalid(format!(
        "{at}: `thinking` or `redacted_thinking` blocks in the latest assistant message cannot be modified. These \
         blocks must remain as they were in the original response."
    ))
}
