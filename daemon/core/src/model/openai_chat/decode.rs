//! The stream of an answer, from data fields to blocks.
//!
//! Invariants: there is an answer only after a finish reason or the end mark `[DONE]`; everything else is a
//! failure that says so. What decides is what came, and not the words about it: calls are calls whatever the
//! finish reason says. Blocks are stored in the form in which the encoder puts them back: thinking, then text,
//! then calls.
//!
//! Stored forms: text is a text part; reasoning names the field it came in; details of reasoning, and Mistral's
//! thinking parts, are kept as they came, with their pieces joined; a call is an entry of `tool_calls` with every
//! field that came on it.

use super::call::{Calls, Piece};
use super::fault;
use super::thought::{FIELDS, Reasoning, Shown, Thinking};
use super::usage::Report;
use crate::event::{Block, BlockKind, FailureClass, Stop, StopClass, Usage};
use crate::limits::{ANSWER_PIECES_MAX, RESPONSE_MAX_BYTES, RESPONSE_STREAM_MAX_BYTES};
use crate::model::failure::tidy;
use crate::model::ids::IdRule;
use crate::model::json::{Fields, Growing, list, quoted, string_bytes};
use crate::model::live::{DecodeFailure, Decoded, LiveDelta, LiveKind, Progress};
use crate::model::reader::{EventDecoder, StreamReader};
use crate::model::warnings::{UNKNOWN_PIECE, Warnings};
use serde_json::value::RawValue;
use std::sync::Arc;

const NO_REASON: &str = "the stream ended well, but did not say why the model stopped";
const CALL_AS_TEXT: &str = "the text looks like a tool call that the server did not recognise; it was not run (is its tool parser on?)";
const AFTER_STOP: &str = "something that cannot be read followed the end of the answer and was left out";

/// A reader of whole answers of this dialect.
pub type AnswerReader = StreamReader<Decoder>;

/// The answer so far.
#[derive(Debug, Default)]
pub struct Decoder {
    reasoning: Option<Reasoning>,
    thinking: Option<Thinking>,
    text: Option<Shown>,
    refusal: Option<Shown>,
    calls: Calls,
    /// How many of them have begun.
    begun: usize,
    /// Pieces that are kept apart.
    pieces: usize,
    message_id: Option<String>,
    usage: Report,
    finish_reason: Option<String>,
    done: bool,
    /// What came in all.
    bytes: usize,
    /// What of it is content.
    content_bytes: usize,
    warnings: Warnings,
}

/// Where live pieces go.
type Live<'a> = &'a mut dyn FnMut(LiveDelta);

impl Decoder {
    /// A decoder for one answer.
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes the data of one event. After a failure or the end nothing more may be made of the answer.
    pub fn event(&mut self, data: &[u8], on_delta: Live<'_>) -> Result<Progress, DecodeFailure> {
        if self.done {
            return Ok(Progress::Complete);
        }
        self.bytes = self.bytes.saturating_add(data.len());
        if self.bytes > RESPONSE_STREAM_MAX_BYTES {
            let what = format!("the stream of the answer is larger than {RESPONSE_STREAM_MAX_BYTES} bytes");
            return Err(self.malformed(&what));
        }
        let data = data.trim_ascii();
        if data == b"[DONE]" {
            self.done = true;
            return Ok(Progress::Complete);
        }
        if data.is_empty() {
            return Ok(Progress::More);
        }
        let text = std::str::from_utf8(data).unwrap_or_default();
        let Some(chunk) = Fields::parse(text) else {
            if fault::is_error_list(text) {
                return Err(self.broken_by(text));
            }
            if self.finish_reason.is_some() {
                self.warnings.add(AFTER_STOP);
                return Ok(Progress::More);
            }
            let start: String = tidy(&String::from_utf8_lossy(data)).chars().take(100).collect();
            return Err(self.malformed(&format!("an event of the stream is not a JSON object: {start}")));
        };
        let choices = match chunk.get("choices") {
            Some(raw) => list(raw).ok_or_else(|| self.malformed("the choices of a chunk are not a list"))?,
            None => Vec::new(),
        };
        if fault::is_error(&chunk, !choices.is_empty()) {
            return Err(self.broken_by(text));
        }
        if self.message_id.is_none() {
            self.message_id = chunk.text("id").map(|id| tidy(&id)).filter(|id| !id.is_empty());
        }
        for (place, raw) in choices.into_iter().enumerate() {
            self.choice(place, raw.get(), on_delta)?;
        }
        let groq = chunk.object("x_groq").and_then(|groq| groq.get("usage"));
        for usage in [groq, chunk.get("usage")].into_iter().flatten() {
            self.usage.take(usage);
        }
        Ok(Progress::More)
    }

    /// Takes the whole body of an answer that was not streamed.
    pub fn whole(&mut self, body: &[u8], on_delta: Live<'_>) -> Result<Progress, DecodeFailure> {
        self.event(body, on_delta)?;
        self.done = true;
        Ok(Progress::Complete)
    }

    /// The text that had come, for people; not part of any conversation.
    pub fn partial_text(&self) -> Option<String> {
        let texts = [&self.text, &self.refusal].into_iter().flatten().map(|shown| shown.text.as_str());
        let texts: Vec<&str> = texts.filter(|text| !text.is_empty()).collect();
        (!texts.is_empty()).then(|| texts.join("\n"))
    }

    /// Whether the stop has come: usage may follow, and an end or a silence now is the end of the answer.
    pub fn has_stop(&self) -> bool {
        self.done || self.finish_reason.is_some()
    }

    /// The answer, or why there is none.
    pub fn finish(mut self, ids: &IdRule<'_>) -> Result<Decoded, DecodeFailure> {
        if self.finish_reason.is_none() && (!self.done || self.begun == 0) {
            let what = if self.done {
                "the stream ended without an answer"
            } else {
                "the stream ended before the answer was complete"
            };
            return Err(self.failure(FailureClass::Cut, what));
        }
        let raw = self.finish_reason.take();
        if let Some((reason, class)) = raw.as_deref().and_then(|reason| Some((reason, broken_class(reason)?)))
        {
            return Err(self.failure(class, format!("the server broke the answer off ({reason})")));
        }
        let mut class = raw.as_deref().map_or(StopClass::EndTurn, stop_class);
        if raw.is_none() {
            self.warnings.add(NO_REASON);
        }
        let mut warnings = std::mem::take(&mut self.warnings);
        let limited = matches!(class, StopClass::MaxTokens | StopClass::ContextExceeded);
        let (usage, usage_reported) = self.usage.normalised();
        let (calls, renamed) = self.calls.finish(limited, ids, &mut warnings);
        let reasoning = self.reasoning.and_then(|reasoning| reasoning.finish(&renamed));
        let mut blocks: Vec<Block> = reasoning.into_iter().collect();
        blocks.extend(self.thinking.and_then(Thinking::finish));
        blocks.extend(self.text.and_then(text_block));
        let text =
            blocks.iter().find(|block| block.kind == BlockKind::Text).and_then(|block| block.text.as_deref());
        if calls.is_empty() && text.is_some_and(looks_like_call) {
            warnings.add(CALL_AS_TEXT);
        }
        let explanation =
            self.refusal.map(|shown| tidy(shown.text.as_str())).filter(|words| !words.is_empty());
        let is_silent = calls.is_empty() && blocks.iter().all(|block| block.kind == BlockKind::Thinking);
        if class == StopClass::EndTurn && is_silent && explanation.is_some() {
            class = StopClass::Refusal;
        }
        blocks.extend(calls);
        Ok(Decoded {
            blocks,
            stop: Stop { raw, class, explanation },
            usage,
            usage_raw: self.usage.raw(),
            usage_reported,
            provider_message_id: self.message_id,
            warnings: warnings.into_lines(),
            last_prompt_tokens: None,
        })
    }

    fn choice(&mut self, place: usize, raw: &str, on_delta: Live<'_>) -> Result<(), DecodeFailure> {
        let Some(choice) = Fields::parse(raw) else {
            return Err(self.malformed("a choice is not an object"));
        };
        // One answer was asked for; without a number the first is meant.
        let index = choice.get("index").and_then(|raw| serde_json::from_str::<u64>(raw).ok());
        if index.unwrap_or(place as u64) != 0 {
            return Ok(());
        }
        let (message, whole) = match choice.get("delta") {
            Some(delta) => (Some(delta), false),
            // A message beside deltas says again what they said.
            None => (choice.get("message").filter(|_| self.begun == 0), true),
        };
        if let Some(message) = message {
            let Some(message) = Fields::parse(message) else {
                return Err(self.malformed("the delta of a choice is not an object"));
            };
            self.message(&message, whole, on_delta)?;
        }
        if self.content_bytes > RESPONSE_MAX_BYTES {
            return Err(self.malformed(&format!("the answer is larger than {RESPONSE_MAX_BYTES} bytes")));
        }
        if self.pieces > ANSWER_PIECES_MAX {
            return Err(self.malformed(&format!("the answer has more than {ANSWER_PIECES_MAX} pieces")));
        }
        // Some servers say it twice; the first word counts.
        if self.finish_reason.is_none() {
            self.finish_reason = choice.text("finish_reason").map(|reason| tidy(&reason));
        }
        if let Some(usage) = choice.get("usage") {
            self.usage.take(usage);
        }
        Ok(())
    }

    fn message(&mut self, delta: &Fields<'_>, whole: bool, on_delta: Live<'_>) -> Result<(), DecodeFailure> {
        self.reasoning(delta, whole, on_delta);
        if let Some(content) = delta.get("content") {
            self.content(content, on_delta)?;
        }
        if let Some(words) = delta.get("refusal").and_then(string_bytes) {
            self.content_bytes += words.len();
            grow(&mut self.refusal, &mut self.begun, &words, on_delta);
        }
        self.calls.begin_delta();
        let entries = match delta.get("tool_calls") {
            // Some proxies send a single call without its list.
            Some(raw) if raw.starts_with('{') => serde_json::from_str(raw).ok().map(|entry| vec![entry]),
            Some(raw) => list(raw),
            None => Some(Vec::new()),
        };
        let Some(entries) = entries else {
            return Err(self.malformed("tool_calls is not a list"));
        };
        // A gateway may say the same call in both forms.
        if let Some(old) = delta.get("function_call").filter(|_| entries.is_empty()) {
            self.call(Piece::read_old(old), whole)?;
        }
        for entry in entries.iter().filter(|entry| entry.get() != "null") {
            self.call(Piece::read(entry.get()), whole)?;
        }
        Ok(())
    }

    fn call(&mut self, piece: Result<Piece<'_>, &'static str>, whole: bool) -> Result<(), DecodeFailure> {
        let piece = piece.map_err(|what| self.malformed(what))?;
        let taken = self.calls.take(&piece, whole, &mut self.warnings);
        let (is_new, bytes) = taken.map_err(|what| self.malformed(&what))?;
        self.begun += usize::from(is_new);
        self.content_bytes = self.content_bytes.saturating_add(bytes);
        Ok(())
    }

    fn content(&mut self, raw: &str, on_delta: Live<'_>) -> Result<(), DecodeFailure> {
        match raw.as_bytes().first() {
            Some(b'[') => {
                for part in list(raw).unwrap_or_default() {
                    self.part(part.get(), on_delta)?;
                }
                Ok(())
            }
            _ => self.part(raw, on_delta),
        }
    }

    /// A text, or a part of a content that is a list.
    fn part(&mut self, raw: &str, on_delta: Live<'_>) -> Result<(), DecodeFailure> {
        if let Some(words) = string_bytes(raw) {
            self.say(&words, on_delta);
            return Ok(());
        }
        let Some(part) = Fields::parse(raw) else {
            return Err(self.malformed("the content of a delta is neither text nor a list of parts"));
        };
        let words = |name: &str| part.get(name).and_then(string_bytes);
        match part.text("type").as_deref() {
            None | Some("text" | "output_text") => match words("text") {
                Some(words) => self.say(&words, on_delta),
                None if part.get("text").is_some() => {
                    return Err(self.malformed("the text of a part is not a string"));
                }
                None => {}
            },
            Some("thinking") => self.think(&part, on_delta),
            Some("refusal") => {
                let words = words("refusal").unwrap_or_default();
                self.content_bytes += words.len();
                grow(&mut self.refusal, &mut self.begun, &words, on_delta);
            }
            // A reference, an image: nothing that could be sent back.
            Some(_) => self.warnings.add(UNKNOWN_PIECE),
        }
        Ok(())
    }

    fn say(&mut self, words: &[u8], on_delta: Live<'_>) {
        self.content_bytes = self.content_bytes.saturating_add(words.len());
        grow(&mut self.text, &mut self.begun, words, on_delta);
    }

    fn think(&mut self, part: &Fields<'_>, on_delta: Live<'_>) {
        let raw = part.get("thinking").unwrap_or("[]");
        let alone = string_bytes(raw);
        let entries = list(raw).unwrap_or_default();
        if alone.as_ref().is_none_or(Vec::is_empty) && entries.is_empty() && self.thinking.is_none() {
            return;
        }
        let begun = &mut self.begun;
        let thinking = self.thinking.get_or_insert_with(|| {
            *begun += 1;
            Thinking::new(*begun - 1)
        });
        self.content_bytes = self.content_bytes.saturating_add(thinking.beside(part));
        for piece in alone.into_iter().chain(entries.iter().filter_map(|entry| text_of(entry.get()))) {
            self.content_bytes = self.content_bytes.saturating_add(piece.len());
            thinking.text(&piece);
            show(&mut thinking.shown, &piece, LiveKind::Thinking, on_delta);
        }
        for other in entries.iter().filter(|entry| text_of(entry.get()).is_none()) {
            self.content_bytes = self.content_bytes.saturating_add(other.get().len());
            self.pieces += 1;
            if !thinking.other(other.get()) {
                self.warnings.add(UNKNOWN_PIECE);
            }
        }
    }

    /// Reasoning beside the content.
    fn reasoning(&mut self, delta: &Fields<'_>, whole: bool, on_delta: Live<'_>) {
        let words = |field: &str| delta.get(field).and_then(string_bytes).filter(|words| !words.is_empty());
        if FIELDS.iter().filter_map(|field| delta.get(field)).any(|raw| !raw.starts_with('"')) {
            self.warnings.add(UNKNOWN_PIECE);
        }
        let details =
            delta.get("reasoning_details").map(|raw| list(raw).unwrap_or_default()).unwrap_or_default();
        if details.is_empty() && !FIELDS.iter().any(|field| words(field).is_some()) {
            return;
        }
        let begun = &mut self.begun;
        let reasoning = self.reasoning.get_or_insert_with(|| {
            *begun += 1;
            Reasoning::new(*begun - 1)
        });
        if let Some(words) = reasoning.field(|field| words(field).is_some()).and_then(words) {
            self.content_bytes = self.content_bytes.saturating_add(words.len());
            show(&mut reasoning.shown, &words, LiveKind::Thinking, on_delta);
        }
        for (place, entry) in details.iter().enumerate() {
            let may_join = !whole && (place == 0 || entry.get().contains("\"index\""));
            let Some((words, is_new, bytes)) = reasoning.detail(entry.get(), may_join) else {
                self.warnings.add(UNKNOWN_PIECE);
                continue;
            };
            self.pieces += usize::from(is_new);
            self.content_bytes = self.content_bytes.saturating_add(bytes);
            if reasoning.reads_details(&words) {
                show(&mut reasoning.shown, &words, LiveKind::Thinking, on_delta);
            }
        }
    }

    fn broken_by(&self, text: &str) -> DecodeFailure {
        DecodeFailure {
            partial_text: self.partial_text(),
            usage: self.used().map(Box::new),
            ..fault::read(text)
        }
    }

    fn malformed(&self, what: &str) -> DecodeFailure {
        self.failure(FailureClass::Malformed, what)
    }

    fn failure(&self, class: FailureClass, message: impl Into<String>) -> DecodeFailure {
        let partial_text = self.partial_text();
        DecodeFailure { partial_text, usage: self.used().map(Box::new), ..DecodeFailure::new(class, message) }
    }

    /// What the provider has reported so far, if anything.
    pub fn used(&self) -> Option<Usage> {
        let (usage, reported) = self.usage.normalised();
        reported.then_some(usage)
    }
}

impl EventDecoder for Decoder {
    fn event(&mut self, data: &[u8], on_delta: Live<'_>) -> Result<Progress, DecodeFailure> {
        Self::event(self, data, on_delta)
    }
    fn whole(&mut self, body: &[u8], on_delta: Live<'_>) -> Result<Progress, DecodeFailure> {
        Self::whole(self, body, on_delta)
    }
    fn partial_text(&self) -> Option<String> {
        Self::partial_text(self)
    }
    fn has_stop(&self) -> bool {
        Self::has_stop(self)
    }
    fn used(&self) -> Option<Usage> {
        Self::used(self)
    }
    fn malformed(&self, what: &str) -> DecodeFailure {
        Self::malformed(self, what)
    }
    fn finish(self, ids: &IdRule<'_>) -> Result<Decoded, DecodeFailure> {
        Self::finish(self, ids)
    }
}

/// What a finish reason means. The words of the dialect, Mistral's and Z.ai's own ones, and those of Anthropic,
/// which gateways pass on.
pub fn stop_class(reason: &str) -> StopClass {
    match reason {
        "stop" | "end_turn" | "stop_sequence" => StopClass::EndTurn,
        "tool_calls" | "function_call" | "tool_use" => StopClass::ToolUse,
        "length" | "max_tokens" => StopClass::MaxTokens,
        "content_filter" | "refusal" | "sensitive" => StopClass::Refusal,
        "model_length" | "model_context_window_exceeded" => StopClass::ContextExceeded,
        _ => StopClass::Unknown,
    }
}

/// What a finish reason means that is none: the server gave up.
fn broken_class(reason: &str) -> Option<FailureClass> {
    match reason {
        "error" | "network_error" => Some(FailureClass::Server),
        // DeepSeek's word for a server without room.
        "insufficient_system_resource" => Some(FailureClass::Overloaded),
        _ => None,
    }
}

/// Grows a text that may not have begun yet. Nothing begins nothing: many servers send empty content first.
fn grow(slot: &mut Option<Shown>, begun: &mut usize, words: &[u8], on_delta: Live<'_>) {
    if words.is_empty() {
        return;
    }
    let shown = slot.get_or_insert_with(|| {
        *begun += 1;
        Shown { place: *begun - 1, text: Growing::default() }
    });
    show(shown, words, LiveKind::Text, on_delta);
}

fn show(shown: &mut Shown, words: &[u8], kind: LiveKind, on_delta: Live<'_>) {
    let offset = shown.text.push(words);
    let text = shown.text.as_str()[offset..].to_owned();
    if !text.is_empty() {
        let block = u32::try_from(shown.place).unwrap_or(u32::MAX);
        on_delta(LiveDelta { block, kind, offset: offset as u64, text });
    }
}

/// The text of a part that is nothing but text.
fn text_of(raw: &str) -> Option<Vec<u8>> {
    let part = Fields::parse(raw)?;
    let plain = part.iter().all(|(key, _)| matches!(key, "type" | "text"));
    part.get("text").filter(|_| plain).and_then(string_bytes)
}

/// The block of a text; none without a visible character, which some servers do not take back.
fn text_block(mut shown: Shown) -> Option<Block> {
    shown.text.close();
    let text = shown.text.as_str();
    if text.trim().is_empty() {
        return None;
    }
    let raw = RawValue::from_string(format!("{{\"type\":\"text\",\"text\":{}}}", quoted(text))).ok()?;
    let text = Some(text.to_owned());
    Some(Block { kind: BlockKind::Text, raw: Arc::from(raw), text, call: None, altered: false })
}

/// Whether a text is, or holds, a call in the form in which models write it for their own server.
fn looks_like_call(text: &str) -> bool {
    const MARKS: [&str; 6] = [
        "<tool_call>",
        "[TOOL_CALLS]",
        "<|python_tag|>",
        "<function=",
        "<|tool_calls_section_begin|>",
        "<tool_calls>",
    ];
    let bare = text.trim();
    let bare = bare.starts_with('{').then(|| Fields::parse(bare)).flatten();
    let is_call = |fields: &Fields<'_>| {
        fields.text("name").is_some()
            && ["arguments", "parameters"].iter().any(|key| fields.get(key).is_some())
    };
    bare.as_ref().is_some_and(is_call) || MARKS.iter().any(|mark| text.contains(mark))
}

#[cfg(test)]
#[path = "decode_tests.rs"]
pub(super) mod tests;
