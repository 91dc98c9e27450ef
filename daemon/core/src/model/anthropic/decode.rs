//! The stream of an answer, from data fields to blocks.
//!
//! Invariants: only `data.type` decides what an event is; its `event` name is wrong or missing at many
//! gateways. Unknown events are skipped, unknown blocks kept. There is an answer only after a stop reason *and*
//! `message_stop`; everything else is a failure that says so. A known event whose content cannot be read is a
//! failure too, because an answer with a hole is not an answer.

use super::block::{Applied, OpenBlock};
use crate::event::{Block, BlockKind, FailureClass, Stop, StopClass, Usage};
use crate::limits::{
    ANSWER_CALLS_MAX, ANSWER_PIECES_MAX, CALL_ID_MAX_BYTES, RESPONSE_MAX_BYTES, RESPONSE_STREAM_MAX_BYTES,
    TOKEN_COUNT_MAX,
};
use crate::model::failure::{ProviderError, tidy};
use crate::model::ids::{IdRule, is_legal_id, new_id};
use crate::model::json::{Object, string_bytes};
use crate::model::live::{DecodeFailure, Decoded, LiveDelta, LiveKind, Progress};
use crate::model::reader::{EventDecoder, StreamReader};
use crate::model::warnings::{CALLS_MOVED, Warnings};
use crate::turn::joined_text;
use serde::Deserialize;
use serde_json::value::RawValue;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

#[derive(Deserialize)]
struct Envelope<'a> {
    #[serde(rename = "type", borrow, default)]
    kind: Option<&'a RawValue>,
    #[serde(borrow, default)]
    index: Option<&'a RawValue>,
    #[serde(borrow, default)]
    content_block: Option<&'a RawValue>,
    #[serde(borrow, default)]
    delta: Option<&'a RawValue>,
    #[serde(borrow, default)]
    message: Option<&'a RawValue>,
    #[serde(borrow, default)]
    usage: Option<&'a RawValue>,
    #[serde(borrow, default)]
    error: Option<&'a RawValue>,
}

impl Envelope<'_> {
    fn index(&self) -> Option<u64> {
        serde_json::from_str(self.index?.get()).ok()
    }
}

/// The answer so far.
#[derive(Debug, Default)]
pub struct Decoder {
    blocks: Vec<OpenBlock>,
    places: BTreeMap<u64, usize>,
    message_id: Option<String>,
    usage: Object,
    stop_reason: Option<String>,
    explanation: Option<String>,
    complete: bool,
    calls: usize,
    /// What came in all.
    bytes: usize,
    /// What of it are blocks.
    content_bytes: usize,
}

impl Decoder {
    /// A decoder for one answer.
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes the data of one event. After a failure or the end nothing more may be made of the answer.
    pub fn event(
        &mut self,
        data: &[u8],
        on_delta: &mut dyn FnMut(LiveDelta),
    ) -> Result<Progress, DecodeFailure> {
        if self.complete {
            return Ok(Progress::Complete);
        }
        self.bytes = self.bytes.saturating_add(data.len());
        if self.bytes > RESPONSE_STREAM_MAX_BYTES {
            let what = format!("the stream of the answer is larger than {RESPONSE_STREAM_MAX_BYTES} bytes");
            return Err(self.malformed(&what));
        }
        // Some gateways close every stream with the mark of another dialect.
        if data.is_empty() || data == b"[DONE]" {
            return Ok(Progress::More);
        }
        let envelope: Envelope<'_> = match serde_json::from_slice(data) {
            Ok(envelope) => envelope,
            Err(error) => {
                return Err(self.malformed(&format!("an event of the stream is not a JSON object: {error}")));
            }
        };
        let kind = envelope.kind.and_then(|raw| string_bytes(raw.get())).unwrap_or_default();
        match kind.as_slice() {
            b"message_start" => self.message_start(envelope.message),
            b"content_block_start" => self.block_start(&envelope, on_delta)?,
            b"content_block_delta" => self.block_delta(&envelope, on_delta)?,
            b"content_block_stop" => {
                if let Some(place) = envelope.index().and_then(|index| self.places.get(&index)) {
                    self.blocks[*place].stop();
                }
            }
            b"message_delta" => {
                self.take_usage(envelope.usage);
                self.take_stop(envelope.delta);
            }
            b"message_stop" => self.complete = true,
            b"error" => return Err(self.error_event(data)),
            // A whole message in one piece: a server that does not stream although it was asked to.
            b"message" => self.whole_message(data, on_delta)?,
            // A bare error object, as some gateways put into a stream.
            b"" if envelope.error.is_some() => return Err(self.error_event(data)),
            _ => {}
        }
        if self.content_bytes > RESPONSE_MAX_BYTES {
            return Err(self.malformed(&format!("the answer is larger than {RESPONSE_MAX_BYTES} bytes")));
        }
        Ok(if self.complete { Progress::Complete } else { Progress::More })
    }

    /// The text that had come, for people; not part of any conversation.
    pub fn partial_text(&self) -> Option<String> {
        let texts: Vec<Option<String>> = self
            .blocks
            .iter()
            .map(|block| (block.kind == BlockKind::Text).then(|| block.shown_text().unwrap_or_default()))
            .collect();
        let all = joined_text(texts.iter().map(Option::as_deref));
        (!all.is_empty()).then_some(all)
    }

    /// The answer, or why there is none.
    pub fn finish(self, ids: &IdRule<'_>) -> Result<Decoded, DecodeFailure> {
        let (true, Some(reason)) = (self.complete, &self.stop_reason) else {
            let what = match (&self.stop_reason, self.complete) {
                (_, true) => "the stream ended with message_stop but without a stop reason",
                (Some(_), false) => "the stream ended after its stop reason but without message_stop",
                (None, false) => "the stream ended before the answer was complete",
            };
            return Err(self.failure(FailureClass::Cut, what));
        };
        let class = stop_class(reason);
        let stop = Stop { raw: Some(reason.clone()), class, explanation: self.explanation.clone() };
        let (usage, usage_reported) = self.normalised_usage();
        let usage_raw = (!self.usage.is_empty())
            .then(|| RawValue::from_string(self.usage.render()).ok())
            .flatten()
            .map(Arc::from);
        let limited = matches!(class, StopClass::MaxTokens | StopClass::ContextExceeded);
        let last_prompt_tokens = self.last_prompt_tokens(&usage);
        let mut warnings = Warnings::default();
        let blocks = finish_blocks(self.blocks, limited, ids, &mut warnings);
        Ok(Decoded {
            blocks,
            stop,
            usage,
            usage_raw,
            usage_reported,
            provider_message_id: self.message_id,
            warnings: warnings.into_lines(),
            last_prompt_tokens,
        })
    }

    fn message_start(&mut self, message: Option<&RawValue>) {
        let message = message.and_then(|raw| Object::parse(raw.get())).unwrap_or_default();
        let id = message.text("id").map(|id| tidy(&id)).filter(|id| !id.is_empty());
        // A second start with another id is a gateway that began anew: what came before is not part of it. The
        // same id again is an echo.
        if !self.blocks.is_empty() {
            if id == self.message_id {
                return;
            }
            self.blocks.clear();
            self.places.clear();
            self.calls = 0;
            self.content_bytes = 0;
            self.usage = Object::default();
            self.stop_reason = None;
            self.explanation = None;
        }
        if let Some(usage) = message.get("usage").and_then(Object::parse) {
            self.usage.overwrite_with(&usage);
        }
        self.message_id = id;
    }

    fn block_start(
        &mut self,
        envelope: &Envelope<'_>,
        on_delta: &mut dyn FnMut(LiveDelta),
    ) -> Result<(), DecodeFailure> {
        let Some(shell) = envelope.content_block else {
            return Err(self.malformed("a content_block_start has no content_block"));
        };
        let index = envelope.index().unwrap_or(self.blocks.len() as u64);
        if self.places.get(&index).is_some_and(|place| self.blocks[*place].is_echo(shell.get())) {
            return Ok(());
        }
        self.push_block(index, shell.get(), on_delta)
    }

    fn push_block(
        &mut self,
        index: u64,
        shell: &str,
        on_delta: &mut dyn FnMut(LiveDelta),
    ) -> Result<(), DecodeFailure> {
        let Some(block) = OpenBlock::start(shell) else {
            return Err(self.malformed("a content block is not an object with a type"));
        };
        let place = self.blocks.len();
        self.calls += usize::from(block.kind == BlockKind::ToolUse);
        if place >= ANSWER_PIECES_MAX || self.calls > ANSWER_CALLS_MAX {
            let what = format!("more than {ANSWER_PIECES_MAX} blocks or {ANSWER_CALLS_MAX} tool calls");
            return Err(self.malformed(&format!("the answer has {what}")));
        }
        if let Some(text) = block.shown_text().filter(|text| !text.is_empty()) {
            emit(on_delta, place, block.kind, 0, text);
        }
        self.content_bytes = self.content_bytes.saturating_add(block.bytes);
        // An index that comes again stands for its newest block; the older one keeps its place.
        self.places.insert(index, place);
        self.blocks.push(block);
        Ok(())
    }

    fn block_delta(
        &mut self,
        envelope: &Envelope<'_>,
        on_delta: &mut dyn FnMut(LiveDelta),
    ) -> Result<(), DecodeFailure> {
        let place = match envelope.index() {
            Some(index) => self.places.get(&index).copied(),
            None => self.blocks.len().checked_sub(1),
        };
        let (Some(place), Some(delta)) = (place, envelope.delta) else {
            return Err(self.malformed("a content_block_delta belongs to no block"));
        };
        let block = &mut self.blocks[place];
        let kind = block.kind;
        let before = block.bytes;
        let applied = block.apply(delta.get());
        self.content_bytes = self.content_bytes.saturating_add(block.bytes - before);
        match applied {
            Applied::Yes(None) => Ok(()),
            Applied::Yes(Some(shown)) => {
                emit(on_delta, place, kind, shown.offset, shown.text);
                Ok(())
            }
            Applied::Malformed(what) => Err(self.malformed(what)),
        }
    }

    fn take_usage(&mut self, usage: Option<&RawValue>) {
        // Counts are totals, so the newer ones win; what is absent or null keeps its first value.
        if let Some(usage) = usage.and_then(|raw| Object::parse(raw.get())) {
            self.usage.overwrite_with(&usage);
        }
    }

    fn take_stop(&mut self, delta: Option<&RawValue>) {
        let Some(delta) = delta.and_then(|raw| Object::parse(raw.get())) else { return };
        if let Some(reason) = delta.text("stop_reason").filter(|reason| !reason.is_empty()) {
            self.stop_reason = Some(tidy(&reason));
        }
        // Both are shown to people and stored in small fields.
        if let Some(details) = delta.get("stop_details").and_then(Object::parse) {
            let words = details.text("explanation").or_else(|| details.text("category"));
            self.explanation = words.map(|words| tidy(&words)).or(self.explanation.take());
        }
    }

    fn whole_message(
        &mut self,
        data: &[u8],
        on_delta: &mut dyn FnMut(LiveDelta),
    ) -> Result<(), DecodeFailure> {
        let text = std::str::from_utf8(data).unwrap_or_default();
        let Ok(message) = serde_json::from_str::<&RawValue>(text) else {
            return Err(self.malformed("a message is not JSON"));
        };
        self.message_start(Some(message));
        self.take_stop(Some(message));
        let object = Object::parse(message.get()).unwrap_or_default();
        let content: Vec<&RawValue> = match serde_json::from_str(object.get("content").unwrap_or("[]")) {
            Ok(content) => content,
            Err(_) => return Err(self.malformed("the content of a message is not a list")),
        };
        for block in content {
            let index = self.blocks.len() as u64;
            self.push_block(index, block.get(), on_delta)?;
            if let Some(block) = self.blocks.last_mut() {
                block.stop();
            }
        }
        self.complete = true;
        Ok(())
    }

    fn error_event(&self, data: &[u8]) -> DecodeFailure {
        let error = ProviderError::read(data);
        let kind = error.kind.as_deref().unwrap_or("error");
        let mut failure = self.failure(
            error.class(None, false),
            format!("the stream broke off with {kind}: {}", error.message),
        );
        failure.learned_window = error.window.filter(|_| failure.class == FailureClass::ContextExceeded);
        failure.retry_after_ms = error.retry_delay_ms;
        failure
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
        let (usage, reported) = self.normalised_usage();
        reported.then_some(usage)
    }

    fn normalised_usage(&self) -> (Usage, bool) {
        let count = |name: &str| self.usage.number(name).unwrap_or(0).min(TOKEN_COUNT_MAX);
        let usage = Usage {
            input_tokens: count("input_tokens"),
            output_tokens: count("output_tokens"),
            cache_read_tokens: count("cache_read_input_tokens"),
            cache_write_tokens: count("cache_creation_input_tokens"),
        };
        (usage, usage != Usage::default())
    }

    /// The prompt of the last pass of the model. Where the provider made several (its own tools, a compaction)
    /// `usage` is their sum, and says nothing about the size of the conversation.
    fn last_prompt_tokens(&self, usage: &Usage) -> Option<u64> {
        let passes: Vec<&RawValue> = serde_json::from_str(self.usage.get("iterations")?).ok()?;
        let several = passes.len() > 1;
        let is_message = |pass: &Object| pass.text("type").is_none_or(|kind| kind == "message");
        let last = passes.iter().rev().filter_map(|pass| Object::parse(pass.get())).find(is_message)?;
        let parts = ["input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens"];
        let prompt = parts.iter().filter_map(|name| last.number(name)).fold(0_u64, u64::saturating_add);
        (prompt > 0 && (several || prompt != usage.prompt_tokens())).then_some(prompt)
    }
}

fn emit(on_delta: &mut dyn FnMut(LiveDelta), place: usize, kind: BlockKind, offset: usize, text: String) {
    let kind = if kind == BlockKind::Thinking { LiveKind::Thinking } else { LiveKind::Text };
    on_delta(LiveDelta {
        block: u32::try_from(place).unwrap_or(u32::MAX),
        kind,
        offset: offset as u64,
        text,
    });
}

/// What a stop reason of this dialect means.
pub fn stop_class(reason: &str) -> StopClass {
    match reason {
        "end_turn" | "stop_sequence" => StopClass::EndTurn,
        "tool_use" => StopClass::ToolUse,
        "max_tokens" => StopClass::MaxTokens,
        "refusal" => StopClass::Refusal,
        "pause_turn" => StopClass::PauseTurn,
        "model_context_window_exceeded" => StopClass::ContextExceeded,
        _ => StopClass::Unknown,
    }
}

fn finish_blocks(
    open: Vec<OpenBlock>,
    limited: bool,
    ids: &IdRule<'_>,
    warnings: &mut Warnings,
) -> Vec<Block> {
    let mut seen = BTreeSet::new();
    let last = open.len().saturating_sub(1);
    let mut blocks: Vec<Block> = Vec::with_capacity(open.len());
    for (place, mut block) in open.into_iter().enumerate() {
        let cut = limited && place == last;
        // The message has ended by its own word; gateways that never end a block are no reason to doubt its arguments.
        if !limited {
            block.stop();
        }
        let mut give = |given: &str| {
            let free = |id: &str| !seen.contains(id) && !(ids.used)(id);
            let fits = is_legal_id(given) && given.len() <= CALL_ID_MAX_BYTES;
            let id =
                if fits && free(given) { given.to_owned() } else { new_id("toolu_", ids.seed, place, &free) };
            seen.insert(id.clone());
            id
        };
        blocks.extend(block.finish(cut, &mut give, warnings));
    }
    calls_last(blocks, warnings)
}

/// Text after a tool use makes the provider refuse the message when it comes back: the calls go to the end.
fn calls_last(mut blocks: Vec<Block>, warnings: &mut Warnings) -> Vec<Block> {
    let first_call = blocks.iter().position(|block| block.kind == BlockKind::ToolUse);
    let last_text = blocks.iter().rposition(|block| block.kind == BlockKind::Text);
    let (Some(first_call), Some(last_text)) = (first_call, last_text) else { return blocks };
    if first_call > last_text {
        return blocks;
    }
    warnings.add(CALLS_MOVED);
    for block in &mut blocks[first_call..last_text] {
        block.altered |= block.kind == BlockKind::ToolUse;
    }
    let (calls, mut rest): (Vec<Block>, Vec<Block>) =
        blocks.into_iter().partition(|block| block.kind == BlockKind::ToolUse);
    rest.extend(calls);
    rest
}

/// A reader of whole answers of this dialect.
pub type AnswerReader = StreamReader<Decoder>;

impl EventDecoder for Decoder {
    fn event(&mut self, data: &[u8], on_delta: &mut dyn FnMut(LiveDelta)) -> Result<Progress, DecodeFailure> {
        Self::event(self, data, on_delta)
    }
    fn whole(&mut self, body: &[u8], on_delta: &mut dyn FnMut(LiveDelta)) -> Result<Progress, DecodeFailure> {
        Self::event(self, body, on_delta)
    }
    fn partial_text(&self) -> Option<String> {
        Self::partial_text(self)
    }
    fn has_stop(&self) -> bool {
        self.complete
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

#[cfg(test)]
#[path = "call_tests.rs"]
mod call_tests;

#[cfg(test)]
#[path = "decode_tests.rs"]
mod tests;
