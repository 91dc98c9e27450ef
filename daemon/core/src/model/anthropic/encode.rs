//! A request as the bytes of its body.
//!
//! Invariants: pure, and the same request gives the same bytes; blocks of the model are copied byte for byte;
//! always streamed; no sampling parameters, which newer API versions refuse even at their defaults. Moving
//! the cache markers changes nothing else, and [`request_hash`] does not see them.

use crate::event::ThinkingForm;
use crate::model::request::{AnswerPart, Message, Request, UserPart};
use crate::model::sink::{Length, Sink, hex_of};
use sha2::{Digest, Sha256};

/// Whether cache markers are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Markers {
    /// As sent: at the end of the system text, and at the end of the newest two user messages, if the model
    /// understands them. The older of the two is where the last request had its newest, so a step with more
    /// blocks than the provider looks back still finds its entry.
    Sent,
    /// Never: for comparing what is said with what was said before.
    Left,
}

/// Markers that [`encode`] writes at most; the API takes four.
pub const MARKERS_MAX: usize = 3;

/// The body.
pub fn encode(request: &Request<'_>, markers: Markers) -> Vec<u8> {
    let mut body = Vec::with_capacity(body_bytes(request, markers));
    write(request, markers, &mut body);
    body
}

/// The size of the body without making it.
pub fn body_bytes(request: &Request<'_>, markers: Markers) -> usize {
    let mut length = Length::default();
    write(request, markers, &mut length);
    length.0
}

/// SHA-256 of the body without markers, in hex.
pub fn request_hash(request: &Request<'_>) -> String {
    let mut hash = Sha256::new();
    write(request, Markers::Left, &mut hash);
    hex_of(hash)
}

const MARK: &[u8] = b",\"cache_control\":{\"type\":\"ephemeral\"}";

fn write(request: &Request<'_>, markers: Markers, out: &mut impl Sink) {
    let marked = markers == Markers::Sent && request.profile.cache_markers;
    out.put(b"{\"model\":");
    out.text(&request.profile.model);
    out.put(b",\"max_tokens\":");
    out.put(request.max_output_tokens.to_string().as_bytes());
    out.put(b",\"stream\":true");
    if !request.system.is_empty() {
        out.put(b",\"system\":[{\"type\":\"text\",\"text\":");
        out.text(request.system);
        if marked {
            out.put(MARK);
        }
        out.put(b"}]");
    }
    if request.has_tools() {
        out.put(b",\"tools\":");
        out.put(request.tools.get().as_bytes());
        if !request.profile.parallel_tool_calls {
            out.put(b",\"tool_choice\":{\"type\":\"auto\",\"disable_parallel_tool_use\":true}");
        }
    }
    match request.profile.thinking {
        ThinkingForm::Omit => {}
        ThinkingForm::Adaptive => out.put(b",\"thinking\":{\"type\":\"adaptive\"}"),
    }
    out.put(b",\"messages\":[");
    let places = if marked { newest_two_user(request) } else { [None, None] };
    for (at, message) in request.messages.iter().enumerate() {
        if at > 0 {
            out.put(b",");
        }
        match message {
            Message::User(parts) => user(parts, places.contains(&Some(at)), out),
            Message::Assistant(parts) => answer(parts, out),
        }
    }
    out.put(b"]}");
}

fn newest_two_user(request: &Request<'_>) -> [Option<usize>; 2] {
    let mut places =
        request.messages.iter().enumerate().rev().filter(|(_, message)| matches!(message, Message::User(_)));
    [places.next(), places.next()].map(|place| place.map(|(at, _)| at))
}

fn answer(parts: &[AnswerPart<'_>], out: &mut impl Sink) {
    out.put(b"{\"role\":\"assistant\",\"content\":[");
    let mut first = true;
    for part in parts {
        out.comma(&mut first);
        match part {
            AnswerPart::Own { raw, .. } => out.put(raw.get().as_bytes()),
            AnswerPart::Text(text) => {
                out.put(b"{\"type\":\"text\",\"text\":");
                out.text(text);
                out.put(b"}");
            }
            AnswerPart::Call { id, name, args } => {
                out.put(b"{\"type\":\"tool_use\",\"id\":");
                out.text(id);
                out.put(b",\"name\":");
                out.text(name);
                out.put(b",\"input\":");
                out.put(args.get().as_bytes());
                out.put(b"}");
            }
        }
    }
    out.put(b"]}");
}

fn user(parts: &[UserPart<'_>], marked: bool, out: &mut impl Sink) {
    out.put(b"{\"role\":\"user\",\"content\":[");
    for (at, part) in parts.iter().enumerate() {
        if at > 0 {
            out.put(b",");
        }
        match part {
            UserPart::Text(text) => {
                out.put(b"{\"type\":\"text\",\"text\":");
                out.text(text);
            }
            UserPart::ToolResult { provider_call_id, text, is_error } => {
                out.put(b"{\"type\":\"tool_result\",\"tool_use_id\":");
                out.text(provider_call_id);
                // A result without content is allowed; one with an empty text is not.
                if !text.is_empty() {
                    out.put(b",\"content\":");
                    out.text(text);
                }
                if *is_error {
                    out.put(b",\"is_error\":true");
                }
            }
        }
        if marked && at + 1 == parts.len() {
            out.put(MARK);
        }
        out.put(b"}");
    }
    out.put(b"]}");
}

#[cfg(test)]
#[path = "encode_tests.rs"]
mod tests;
