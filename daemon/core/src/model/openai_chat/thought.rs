//! Reasoning while it streams: a string in a field of its own, OpenRouter's details, or Mistral's parts.
//!
//! Invariants: what goes back is what came, under the name under which it came; pieces of one entry are joined,
//! different entries never. The readable text is for people.

use super::call::keep;
use crate::event::{Block, BlockKind};
use crate::limits::ANSWER_FIELDS_MAX;
use crate::model::json::{Fields, Growing, Object, is_readable, quoted, string_bytes};
use serde_json::value::RawValue;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The fields that hold reasoning as text. A gateway may send two with the same words.
pub(super) const FIELDS: [&str; 3] = ["reasoning_content", "reasoning", "reasoning_text"];
/// The fields of a detail that come in pieces.
const GROWING: [&str; 3] = ["text", "summary", "data"];

/// A text that people may see, and its place among what has begun.
#[derive(Debug)]
pub(super) struct Shown {
    pub(super) place: usize,
    pub(super) text: Growing,
}

/// Where the readable text of reasoning comes from: the first that had any, so that nothing is read twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Source {
    Field(&'static str),
    Details,
}

/// Reasoning in a field of the message.
#[derive(Debug)]
pub(super) struct Reasoning {
    pub(super) shown: Shown,
    source: Option<Source>,
    details: Vec<Detail>,
}

impl Reasoning {
    pub(super) fn new(place: usize) -> Self {
        Self { shown: Shown { place, text: Growing::default() }, source: None, details: Vec::new() }
    }

    /// The field of a delta whose text counts.
    pub(super) fn field(&mut self, has_text: impl Fn(&str) -> bool) -> Option<&'static str> {
        let known = match self.source {
            Some(Source::Details) => return None,
            Some(Source::Field(field)) => Some(field),
            None => None,
        };
        let field = known.into_iter().chain(FIELDS).find(|field| has_text(field))?;
        self.source.get_or_insert(Source::Field(field));
        Some(field)
    }

    /// Whether the readable text of details counts.
    pub(super) fn reads_details(&mut self, words: &[u8]) -> bool {
        if self.source.is_none() && !words.is_empty() {
            self.source = Some(Source::Details);
        }
        self.source == Some(Source::Details)
    }

    /// Takes an entry of `reasoning_details`; `may_join` when it can be a piece of the one before. Answers its
    /// readable text, whether it is an entry of its own, and its bytes.
    pub(super) fn detail(&mut self, raw: &str, may_join: bool) -> Option<(Vec<u8>, bool, usize)> {
        let fields = Fields::parse(raw)?;
        let mut shown = Vec::new();
        for name in ["text", "summary"] {
            shown.extend(fields.get(name).and_then(string_bytes).unwrap_or_default());
        }
        match self.details.last_mut().filter(|last| may_join && last.goes_on_with(&fields)) {
            Some(last) => {
                let bytes = last.join(&fields);
                Some((shown, false, bytes))
            }
            None => {
                self.details.push(Detail::new(raw)?);
                Some((shown, true, raw.len()))
            }
        }
    }

    /// The block. Details name calls by their ids: one that got another id is named by that.
    pub(super) fn finish(mut self, renamed: &BTreeMap<String, String>) -> Option<Block> {
        self.shown.text.close();
        let text = self.shown.text.as_str();
        let mut altered = false;
        for detail in self.details.iter_mut().filter(|_| !renamed.is_empty()) {
            if let Some(id) = detail.fields.text("id").and_then(|id| renamed.get(&id)) {
                detail.fields.set("id", &quoted(id));
                altered = true;
            }
        }
        let raw = if self.details.is_empty() {
            if text.is_empty() {
                return None;
            }
            let field = match self.source {
                Some(Source::Field(field)) => quoted(field),
                _ => return None,
            };
            format!("{{\"type\":\"reasoning\",\"field\":{field},\"text\":{}}}", quoted(text))
        } else {
            let details: Vec<String> = self.details.into_iter().map(Detail::render).collect();
            format!("{{\"type\":\"reasoning_details\",\"reasoning_details\":[{}]}}", details.join(","))
        };
        thinking(raw, text).map(|block| Block { altered, ..block })
    }
}

/// One entry of `reasoning_details`.
#[derive(Debug)]
struct Detail {
    fields: Object,
    grown: Vec<(&'static str, Growing)>,
}

impl Detail {
    /// Begins an entry. What may grow is text from the start: half a character at its end is no JSON by itself.
    fn new(raw: &str) -> Option<Self> {
        let fields = Object::parse(raw)?;
        let pieces: Vec<_> = GROWING
            .into_iter()
            .filter_map(|name| Some((name, fields.get(name).and_then(string_bytes)?)))
            .collect();
        let mut detail = Self { fields, grown: Vec::new() };
        for (name, piece) in pieces {
            detail.fields.set(name, "\"\"");
            detail.grow(name, &piece);
        }
        is_readable(&detail.fields.render()).then_some(detail)
    }

    /// Whether an entry that comes next is a piece of this one: the same kind, number and id, as far as both say
    /// them. A signature ends the text before it.
    fn goes_on_with(&self, next: &Fields<'_>) -> bool {
        let same = |key| match (self.fields.get(key), next.get(key)) {
            (Some(one), Some(other)) => one == other,
            _ => true,
        };
        let named = next.get("index").is_some() || next.get("id").is_some();
        let signed = self.fields.get("signature").is_some_and(|signature| signature != "\"\"");
        let has_text = next.get("text").is_some_and(|text| text != "\"\"");
        // An entry with very many fields is not one that comes in pieces, and would be looked through each time.
        let small = self.fields.len() <= ANSWER_FIELDS_MAX;
        let known = named || next.get("type").is_some();
        small && known && !(signed && has_text) && ["type", "index", "id"].into_iter().all(same)
    }

    fn join(&mut self, next: &Fields<'_>) -> usize {
        let mut bytes = 0;
        for (key, value) in next.iter() {
            let piece = GROWING.into_iter().find(|name| *name == key).zip(string_bytes(value));
            match piece {
                Some((name, piece)) => {
                    bytes += piece.len();
                    self.grow(name, &piece);
                }
                None => bytes += keep(&mut self.fields, key, value),
            }
        }
        bytes
    }

    fn grow(&mut self, name: &'static str, piece: &[u8]) {
        let at = match self.grown.iter().position(|entry| entry.0 == name) {
            Some(at) => at,
            None => {
                if !self.fields.has(name) {
                    self.fields.set(name, "\"\"");
                }
                self.grown.push((name, Growing::default()));
                self.grown.len() - 1
            }
        };
        self.grown[at].1.push(piece);
    }

    fn render(mut self) -> String {
        for (name, text) in &mut self.grown {
            text.close();
            self.fields.set(name, &quoted(text.as_str()));
        }
        self.fields.render()
    }
}

/// Reasoning as parts of the content.
#[derive(Debug)]
pub(super) struct Thinking {
    pub(super) shown: Shown,
    parts: Vec<Part>,
    /// Fields beside the parts, as they came.
    extra: Object,
}

#[derive(Debug)]
enum Part {
    Text(Growing),
    Other(Box<str>),
}

impl Thinking {
    pub(super) fn new(place: usize) -> Self {
        let shown = Shown { place, text: Growing::default() };
        Self { shown, parts: Vec::new(), extra: Object::default() }
    }

    /// Takes the fields of a part that are not its thinking; answers their bytes.
    pub(super) fn beside(&mut self, part: &Fields<'_>) -> usize {
        let beside = part.iter().filter(|(key, _)| !matches!(*key, "type" | "thinking"));
        beside.map(|(key, value)| keep(&mut self.extra, key, value)).sum()
    }

    /// Takes a piece of text.
    pub(super) fn text(&mut self, piece: &[u8]) {
        if !matches!(self.parts.last(), Some(Part::Text(_))) {
            self.parts.push(Part::Text(Growing::default()));
        }
        if let Some(Part::Text(text)) = self.parts.last_mut() {
            text.push(piece);
        }
    }

    /// Takes a part that is not text, as a reference; not what nobody could read.
    pub(super) fn other(&mut self, raw: &str) -> bool {
        let readable = is_readable(raw);
        if readable {
            self.parts.push(Part::Other(raw.into()));
        }
        readable
    }

    pub(super) fn finish(mut self) -> Option<Block> {
        self.shown.text.close();
        let parts: Vec<String> = self
            .parts
            .into_iter()
            .map(|part| match part {
                Part::Text(mut text) => {
                    text.close();
                    format!("{{\"type\":\"text\",\"text\":{}}}", quoted(text.as_str()))
                }
                Part::Other(raw) => raw.into(),
            })
            .collect();
        if parts.is_empty() {
            return None;
        }
        let mut raw = Object::default();
        raw.set("type", "\"thinking\"");
        raw.set("thinking", &format!("[{}]", parts.join(",")));
        for (key, value) in self.extra.iter() {
            raw.set(key, value);
        }
        thinking(raw.render(), self.shown.text.as_str())
    }
}

fn thinking(raw: String, text: &str) -> Option<Block> {
    Some(Block {
        kind: BlockKind::Thinking,
        raw: Arc::from(RawValue::from_string(raw).ok()?),
        text: Some(text.to_owned()),
        call: None,
        altered: false,
    })
}
