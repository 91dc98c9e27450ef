//! One answer of a model, its parts sorted by where they stand in a message of this dialect.
//!
//! Our own blocks of this dialect have these stored forms: `{"type":"text","text"}`,
//! `{"type":"reasoning","field","text"}` (reasoning beside the content, under its field's name),
//! `{"type":"reasoning_details","reasoning_details":[…]}` (`OpenRouter`), `{"type":"thinking","thinking":[…]}`
//! (a part of Mistral's content), and calls as they stand in `tool_calls`.
//!
//! Invariant: JSON strings are joined as JSON, never decoded, so that what the server wrote goes back as it wrote it.

use crate::model::json::{Object, quoted};
use crate::model::request::AnswerPart;
use crate::model::sink::Sink;
use serde_json::value::RawValue;
use std::borrow::Cow;

/// What one stored block of this dialect is.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Stored {
    /// Text, as a JSON string.
    Text(Box<str>),
    /// Reasoning in a field of its own: the field's name, and the text as a JSON string.
    Reasoning(String, Box<str>),
    /// The array of `reasoning_details`.
    Details(Box<str>),
    /// A thinking part of the content; goes back as it is.
    Thinking,
    /// A call; goes back as it is.
    Call,
}

/// Fields of a message that reasoning cannot come in.
const TAKEN_FIELDS: [&str; 8] = [
    "role",
    "content",
    "tool_calls",
    "tool_call_id",
    "reasoning_details",
    "name",
    "function_call",
    "refusal",
];

impl Stored {
    /// Reads a block; none if it is not of this dialect.
    pub(crate) fn parse(raw: &str) -> Option<Self> {
        let block = Object::parse(raw)?;
        let string = |key: &str| block.get(key).filter(|value| value.starts_with('"')).map(Box::from);
        let array = |key: &str| block.get(key).filter(|value| value.starts_with('['));
        match block.text("type")?.as_str() {
            "function" => Some(Self::Call),
            "text" => string("text").map(Self::Text),
            "reasoning" => {
                let field = block.text("field").filter(|field| !field.is_empty())?;
                let free = !TAKEN_FIELDS.contains(&field.as_str());
                if free { string("text").map(|text| Self::Reasoning(field, text)) } else { None }
            }
            "reasoning_details" => array("reasoning_details").map(|details| Self::Details(details.into())),
            "thinking" => array("thinking").map(|_| Self::Thinking),
            _ => None,
        }
    }
}

/// A piece of the content.
enum Piece<'a> {
    /// Text, as a JSON string.
    Text(Cow<'a, str>),
    /// A whole part of another kind.
    Thinking(&'a str),
}

enum Called<'a> {
    Own(&'a str),
    Foreign { id: &'a str, name: &'a str, args: &'a RawValue },
}

/// One answer.
#[derive(Default)]
pub(super) struct Said<'a> {
    content: Vec<Piece<'a>>,
    fields: Vec<(String, Vec<Box<str>>)>,
    details: Vec<Box<str>>,
    calls: Vec<Called<'a>>,
}

impl<'a> Said<'a> {
    /// Sorts the parts of an answer.
    pub(super) fn of(parts: &'a [AnswerPart<'a>]) -> Self {
        let mut said = Self::default();
        for part in parts {
            match part {
                AnswerPart::Text(text) => said.content.push(Piece::Text(quoted(text).into())),
                AnswerPart::Call { id, name, args } => said.calls.push(Called::Foreign { id, name, args }),
                AnswerPart::Own { raw, .. } => said.own(raw.get()),
            }
        }
        said
    }

    fn own(&mut self, raw: &'a str) {
        match Stored::parse(raw) {
            Some(Stored::Text(text)) => self.content.push(Piece::Text(String::from(text).into())),
            Some(Stored::Thinking) => self.content.push(Piece::Thinking(raw)),
            Some(Stored::Details(details)) => self.details.push(details),
            Some(Stored::Call) => self.calls.push(Called::Own(raw)),
            Some(Stored::Reasoning(field, text)) => {
                match self.fields.iter_mut().find(|entry| entry.0 == field) {
                    Some(entry) => entry.1.push(text),
                    None => self.fields.push((field, vec![text])),
                }
            }
            // The validator has refused it.
            None => {}
        }
    }

    pub(super) fn has_text(&self) -> bool {
        self.content.iter().any(|piece| matches!(piece, Piece::Text(_)))
    }

    pub(super) fn has_thinking_parts(&self) -> bool {
        self.content.iter().any(|piece| matches!(piece, Piece::Thinking(_)))
    }

    /// The content as one string.
    pub(super) fn content_text(&self, out: &mut impl Sink) {
        let texts = self.content.iter().filter_map(|piece| match piece {
            Piece::Text(text) => Some(&**text),
            Piece::Thinking(_) => None,
        });
        joined(b"\"", texts, b"", out);
        out.put(b"\"");
    }

    /// The content as an array of parts, in order.
    pub(super) fn content_parts(&self, out: &mut impl Sink) {
        out.put(b"[");
        let mut first = true;
        for piece in &self.content {
            out.comma(&mut first);
            match piece {
                Piece::Text(text) => {
                    out.put(b"{\"type\":\"text\",\"text\":");
                    out.put(text.as_bytes());
                    out.put(b"}");
                }
                Piece::Thinking(raw) => out.put(raw.as_bytes()),
            }
        }
        out.put(b"]");
    }

    /// The fields beside the content that hold reasoning, each with its comma. `with_calls`: calls need one.
    pub(super) fn reasoning(&self, with_calls: bool, out: &mut impl Sink) {
        let is_there = self.fields.iter().any(|entry| entry.0 == NEEDED_FIELD);
        if with_calls && !self.calls.is_empty() && !is_there {
            out.put(b",");
            out.text(NEEDED_FIELD);
            // An empty text counts as missing.
            out.put(b":\" \"");
        }
        for (field, texts) in &self.fields {
            out.put(b",");
            out.text(field);
            out.put(b":");
            joined(b"\"", texts.iter().map(|text| &**text), b"", out);
            out.put(b"\"");
        }
        let full = self.details.iter().map(|details| &**details).filter(|details| !is_empty_array(details));
        if let [only] = self.details.as_slice() {
            out.put(b",\"reasoning_details\":");
            out.put(only.as_bytes());
        } else if !self.details.is_empty() {
            out.put(b",\"reasoning_details\":");
            joined(b"[", full, b",", out);
            out.put(b"]");
        }
    }

    /// The calls, with their comma.
    pub(super) fn calls(&self, stand_in_signature: bool, out: &mut impl Sink) {
        if self.calls.is_empty() {
            return;
        }
        out.put(b",\"tool_calls\":[");
        for (at, call) in self.calls.iter().enumerate() {
            if at > 0 {
                out.put(b",");
            }
            match call {
                Called::Own(raw) => out.put(raw.as_bytes()),
                Called::Foreign { id, name, args } => {
                    out.put(b"{\"id\":");
                    out.text(id);
                    out.put(b",\"type\":\"function\",\"function\":{\"name\":");
                    out.text(name);
                    out.put(b",\"arguments\":");
                    out.text(args.get());
                    out.put(b"}");
                    // Only the first of parallel calls carries a signature.
                    if stand_in_signature && at == 0 {
                        out.put(STAND_IN);
                    }
                    out.put(b"}");
                }
            }
        }
        out.put(b"]");
    }
}

/// Where servers that need reasoning beside calls look for it.
const NEEDED_FIELD: &str = "reasoning_content";

/// What Google documents for calls that another model made.
const STAND_IN: &[u8] =
    b",\"extra_content\":{\"google\":{\"thought_signature\":\"skip_thought_signature_validator\"}}";

/// The insides of JSON strings or arrays, after `open`.
fn joined<'t>(open: &[u8], raws: impl Iterator<Item = &'t str>, between: &[u8], out: &mut impl Sink) {
    out.put(open);
    for (at, raw) in raws.enumerate() {
        if at > 0 {
            out.put(between);
        }
        out.put(inside(raw).as_bytes());
    }
}

/// Between the first and the last byte, which are quotes or brackets.
fn inside(raw: &str) -> &str {
    raw.get(1..raw.len().saturating_sub(1)).unwrap_or_default()
}

fn is_empty_array(raw: &str) -> bool {
    inside(raw).trim().is_empty()
}
