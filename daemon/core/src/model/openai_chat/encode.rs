//! A request as the bytes of its body.
//!
//! Invariants: pure, and the same request gives the same bytes; the calls and the reasoning of the model go back as
//! it wrote them; always streamed; no sampling parameters. Each text is one string: many servers of this dialect
//! take nothing else, and want roles to alternate.
//!
//! Deliberately absent: `developer` messages, which few servers besides `OpenAI` know.

use super::said::Said;
use crate::event::{MaxTokensField, ReasoningReplay};
use crate::model::form;
use crate::model::json::Object;
use crate::model::request::{Message, Request, UserPart};
use crate::model::sink::{Length, Sink, hex_of};
use serde_json::value::RawValue;
use sha2::{Digest, Sha256};

/// The body.
pub fn encode(request: &Request<'_>) -> Vec<u8> {
    let mut body = Vec::with_capacity(body_bytes(request));
    write(request, &mut body);
    body
}

/// The size of the body without making it.
pub fn body_bytes(request: &Request<'_>) -> usize {
    let mut length = Length::default();
    write(request, &mut length);
    length.0
}

/// SHA-256 of the body, in hex.
pub fn request_hash(request: &Request<'_>) -> String {
    let mut hash = Sha256::new();
    write(request, &mut hash);
    hex_of(hash)
}

fn write(request: &Request<'_>, out: &mut impl Sink) {
    let form = &request.profile.chat;
    out.put(b"{\"model\":");
    out.text(&request.profile.model);
    out.put(b",\"stream\":true");
    if form.stream_options {
        out.put(b",\"stream_options\":{\"include_usage\":true}");
    }
    out.put(match form.max_tokens_field {
        MaxTokensField::MaxTokens => b",\"max_tokens\":".as_slice(),
        MaxTokensField::MaxCompletionTokens => b",\"max_completion_tokens\":",
    });
    out.put(request.max_output_tokens.to_string().as_bytes());
    if request.has_tools() {
        // The default is true, and not every server knows the field.
        if !request.profile.parallel_tool_calls {
            out.put(b",\"parallel_tool_calls\":false");
        }
        tools(request.tools, out);
    }
    out.put(b",\"messages\":[");
    let mut first = true;
    if !request.system.is_empty() {
        out.comma(&mut first);
        spoken("system", request.system, out);
    }
    for message in &request.messages {
        match message {
            Message::User(parts) => user(request, parts, &mut first, out),
            Message::Assistant(parts) => {
                out.comma(&mut first);
                answer(request, &Said::of(parts), out);
            }
        }
    }
    out.put(b"]}");
}

fn tools(tools: &RawValue, out: &mut impl Sink) {
    let tools: Vec<&RawValue> = serde_json::from_str(tools.get()).unwrap_or_default();
    out.put(b",\"tools\":[");
    let mut first = true;
    for tool in tools.iter().filter_map(|tool| Object::parse(tool.get())) {
        out.comma(&mut first);
        out.put(b"{\"type\":\"function\",\"function\":{\"name\":");
        out.put(tool.get("name").unwrap_or("\"\"").as_bytes());
        for (key, from) in [("description", "description"), ("parameters", "input_schema")] {
            if let Some(raw) = tool.get(from) {
                out.put(b",");
                out.text(key);
                out.put(b":");
                out.put(raw.as_bytes());
            }
        }
        out.put(b"}}");
    }
    out.put(b"]");
}

fn spoken(role: &str, content: &str, out: &mut impl Sink) {
    out.put(b"{\"role\":");
    out.text(role);
    out.put(b",\"content\":");
    out.text(content);
    out.put(b"}");
}

/// A word of the model that it has not said, for servers that want one after results.
const BRIDGE: &str = "Done.";

fn user(request: &Request<'_>, parts: &[UserPart<'_>], first: &mut bool, out: &mut impl Sink) {
    let mut texts: Vec<&str> = Vec::new();
    let mut after_results = false;
    for part in parts {
        match part {
            UserPart::Text(text) => texts.push(text),
            UserPart::ToolResult { provider_call_id, text, is_error } => {
                after_results = true;
                out.comma(first);
                out.put(b"{\"role\":\"tool\",\"tool_call_id\":");
                out.text(provider_call_id);
                out.put(b",\"content\":");
                if *is_error {
                    out.text(&error_text(text));
                } else {
                    out.text(text);
                }
                out.put(b"}");
            }
        }
    }
    if texts.is_empty() {
        return;
    }
    if after_results && form::wants_word_after_results(request.profile) {
        out.comma(first);
        spoken("assistant", BRIDGE, out);
    }
    out.comma(first);
    spoken("user", &texts.join("\n\n"), out);
}

/// The dialect has no flag for a failed call, so the text has to say it.
fn error_text(text: &str) -> String {
    const WORD: &str = "error";
    let says_so = text.trim_start().get(..WORD.len()).is_some_and(|head| head.eq_ignore_ascii_case(WORD));
    match text {
        _ if says_so => text.to_owned(),
        "" => "Error: no output".to_owned(),
        _ => format!("Error: {text}"),
    }
}

fn answer(request: &Request<'_>, said: &Said<'_>, out: &mut impl Sink) {
    let form = &request.profile.chat;
    let replay = form.reasoning == ReasoningReplay::SameField;
    out.put(b"{\"role\":\"assistant\",\"content\":");
    if replay && said.has_thinking_parts() {
        said.content_parts(out);
    } else if said.has_text() {
        said.content_text(out);
    } else if form.empty_content {
        out.put(b"\"\"");
    } else {
        out.put(b"null");
    }
    if replay {
        said.reasoning(form.reasoning_with_calls, out);
    }
    said.calls(form.stand_in_signature, out);
    out.put(b"}");
}

#[cfg(test)]
#[path = "encode_tests.rs"]
mod tests;
