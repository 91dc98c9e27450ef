//! A whole answer from its bytes, in whatever dialect.
//!
//! Purpose: the event decoder and the message decoder of a dialect together, so that whoever moves the bytes
//! needs to know neither.
//!
//! Invariants: the same bytes give the same answer however they are chunked; what follows the end of an answer
//! is ignored.
//!
//! Deliberately absent: the network, and when to stop waiting; [`AnswerReader::has_stop`] says when a break or
//! a silence is the end of the answer and not a failure.

use super::ids::IdRule;
use super::live::{DecodeFailure, Decoded, LiveDelta, Progress};
use super::sse::{SseDecoder, SseItem};
use super::{anthropic, openai_chat};
use crate::event::{Dialect, FailureClass, Usage};
use serde::de::IgnoredAny;

/// What makes an answer of the data of events; one per dialect.
pub trait EventDecoder: Default {
    /// Takes the data of one event.
    fn event(&mut self, data: &[u8], on_delta: &mut dyn FnMut(LiveDelta)) -> Result<Progress, DecodeFailure>;
    /// Takes the whole body of an answer that was not streamed.
    fn whole(&mut self, body: &[u8], on_delta: &mut dyn FnMut(LiveDelta)) -> Result<Progress, DecodeFailure>;
    /// The text that had come, for people.
    fn partial_text(&self) -> Option<String>;
    /// Whether the stop has come, so that an end of the stream is the end of the answer.
    fn has_stop(&self) -> bool;
    /// What the provider has reported to have used so far, if anything.
    fn used(&self) -> Option<Usage>;
    /// A failure about bytes that cannot be read.
    fn malformed(&self, what: &str) -> DecodeFailure;
    /// The answer, or why there is none.
    fn finish(self, ids: &IdRule<'_>) -> Result<Decoded, DecodeFailure>;
}

/// A reader of one dialect.
#[derive(Debug, Default)]
pub struct StreamReader<D> {
    sse: SseDecoder,
    decoder: D,
    complete: bool,
}

impl<D: EventDecoder> StreamReader<D> {
    /// A reader for one answer.
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes the next bytes of the body.
    pub fn push(
        &mut self,
        bytes: &[u8],
        on_delta: &mut dyn FnMut(LiveDelta),
    ) -> Result<Progress, DecodeFailure> {
        self.read(Some(bytes), on_delta)
    }

    /// Takes the whole body of an answer that was not streamed although it was asked to be, or that was
    /// streamed under the name of one that is not.
    pub fn whole(
        &mut self,
        body: &[u8],
        on_delta: &mut dyn FnMut(LiveDelta),
    ) -> Result<Progress, DecodeFailure> {
        let start = body.trim_ascii_start();
        if [&b"data:"[..], b"event:", b":"].iter().any(|mark| start.starts_with(mark)) {
            return self.read(Some(start), on_delta);
        }
        let progress = self.decoder.whole(body, on_delta)?;
        self.complete |= progress == Progress::Complete;
        Ok(progress)
    }

    /// The text that had come, for people.
    pub fn partial_text(&self) -> Option<String> {
        self.decoder.partial_text()
    }

    /// Whether the answer has said how it stops: a break, an end or a silence after it is no failure any more.
    pub fn has_stop(&self) -> bool {
        self.complete || self.decoder.has_stop()
    }

    /// The body has ended, or [`Progress::Complete`] was said, or nothing more came after the stop: the answer,
    /// or why there is none.
    pub fn finish(
        mut self,
        ids: &IdRule<'_>,
        on_delta: &mut dyn FnMut(LiveDelta),
    ) -> Result<Decoded, DecodeFailure> {
        if !self.complete {
            self.read(None, on_delta)?;
        }
        self.decoder.finish(ids)
    }

    fn read(
        &mut self,
        bytes: Option<&[u8]>,
        on_delta: &mut dyn FnMut(LiveDelta),
    ) -> Result<Progress, DecodeFailure> {
        let decoder = &mut self.decoder;
        let mut outcome = Ok(Progress::More);
        let is_end = bytes.is_none();
        let each = |item: SseItem<'_>| {
            if let (Ok(Progress::More), SseItem::Event { data, .. }) = (&outcome, item) {
                // The last event had no closing line: if it does not parse it was cut, and is no mistake.
                if !is_end || is_whole(data) {
                    outcome = decoder.event(data, on_delta);
                }
            }
        };
        let cut = match bytes {
            Some(bytes) => self.sse.push(bytes, each),
            None => self.sse.finish(each),
        };
        self.complete |= matches!(outcome, Ok(Progress::Complete));
        match (outcome?, cut) {
            (Progress::Complete, _) => Ok(Progress::Complete),
            (Progress::More, Ok(())) => Ok(Progress::More),
            (Progress::More, Err(error)) => Err(self.decoder.malformed(&error.to_string())),
        }
    }
}

fn is_whole(data: &[u8]) -> bool {
    data.trim_ascii() == b"[DONE]" || serde_json::from_slice::<IgnoredAny>(data).is_ok()
}

/// A reader for one answer, whatever its dialect.
#[derive(Debug)]
pub enum AnswerReader {
    /// Anthropic Messages.
    Anthropic(Box<StreamReader<anthropic::Decoder>>),
    /// OpenAI Chat Completions.
    OpenAiChat(Box<StreamReader<openai_chat::Decoder>>),
    /// A dialect that is not spoken: everything fails, and no attempt can mend it.
    Unspoken,
}

impl AnswerReader {
    /// A reader for an answer in `dialect`.
    pub fn new(dialect: Dialect) -> Self {
        match dialect {
            Dialect::Anthropic => Self::Anthropic(Box::default()),
            Dialect::OpenAiChat => Self::OpenAiChat(Box::default()),
            Dialect::OpenAiResponses => Self::Unspoken,
        }
    }

    /// Takes the next bytes of the body.
    pub fn push(
        &mut self,
        bytes: &[u8],
        on_delta: &mut dyn FnMut(LiveDelta),
    ) -> Result<Progress, DecodeFailure> {
        match self {
            Self::Anthropic(reader) => reader.push(bytes, on_delta),
            Self::OpenAiChat(reader) => reader.push(bytes, on_delta),
            Self::Unspoken => Err(unspoken()),
        }
    }

    /// Takes the whole body of an answer that was not streamed although it was asked to be.
    pub fn whole(
        &mut self,
        body: &[u8],
        on_delta: &mut dyn FnMut(LiveDelta),
    ) -> Result<Progress, DecodeFailure> {
        match self {
            Self::Anthropic(reader) => reader.whole(body, on_delta),
            Self::OpenAiChat(reader) => reader.whole(body, on_delta),
            Self::Unspoken => Err(unspoken()),
        }
    }

    /// The text that had come, for people.
    pub fn partial_text(&self) -> Option<String> {
        match self {
            Self::Anthropic(reader) => reader.partial_text(),
            Self::OpenAiChat(reader) => reader.partial_text(),
            Self::Unspoken => None,
        }
    }

    /// What the provider has reported to have used so far, if anything: an attempt that breaks is paid for too.
    pub fn used(&self) -> Option<Usage> {
        match self {
            Self::Anthropic(reader) => reader.decoder.used(),
            Self::OpenAiChat(reader) => reader.decoder.used(),
            Self::Unspoken => None,
        }
    }

    /// Whether a break, an end or a silence from here on is the end of the answer and not a failure. In the
    /// Anthropic dialect only the last event is that.
    pub fn has_stop(&self) -> bool {
        match self {
            Self::Anthropic(reader) => reader.has_stop(),
            Self::OpenAiChat(reader) => reader.has_stop(),
            Self::Unspoken => false,
        }
    }

    /// The body has ended, or there is no more to wait for: the answer, or why there is none.
    pub fn finish(
        self,
        ids: &IdRule<'_>,
        on_delta: &mut dyn FnMut(LiveDelta),
    ) -> Result<Decoded, DecodeFailure> {
        match self {
            Self::Anthropic(reader) => reader.finish(ids, on_delta),
            Self::OpenAiChat(reader) => reader.finish(ids, on_delta),
            Self::Unspoken => Err(unspoken()),
        }
    }
}

fn unspoken() -> DecodeFailure {
    DecodeFailure::new(FailureClass::Unsendable, "this version does not speak the protocol of this provider")
}

#[cfg(test)]
#[path = "reader_tests.rs"]
mod tests;
