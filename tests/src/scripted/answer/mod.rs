//! One scripted answer, in no dialect: blocks, stop and usage. It becomes bytes when it is known who asks.
//!
//! Invariants: whatever both dialects can say is written once and means the same in both; what only one can say
//! ([`Answer::event`], [`Answer::chunk`], [`Answer::delta`]) is left out of the other. Faults are in [`faults`].

mod faults;
mod render;

pub(super) use faults::sign_of_life;
pub(super) use render::{Asked, Content, Rendered, args_deltas, text_deltas};

use super::delivery::{Delivery, Gate};
use super::{Dialect, Quirk};
use faults::Fault;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};

static NEXT_ID: AtomicU64 = AtomicU64::new(1);

/// A part of an answer.
#[derive(Clone, Debug)]
pub(super) enum Part {
    Text(String),
    /// Without a signature it gets one that binds it to what it is an answer to.
    Thinking {
        thinking: String,
        signature: Option<String>,
    },
    /// A whole block of Anthropic's.
    Whole(Value),
    ToolUse(ToolUse),
    Ping,
    Error {
        kind: String,
        message: String,
    },
    /// An event of Anthropic's, as it stands.
    Event {
        name: String,
        data: Value,
    },
    /// A chunk of Chat Completions, as it stands.
    Chunk(Value),
    /// A delta of Chat Completions, put into a chunk.
    Delta(Value),
    /// Text of the stream, for one dialect or for both.
    Literal {
        dialect: Option<Dialect>,
        text: String,
    },
}

impl Part {
    pub(super) fn as_call(&self) -> Option<&ToolUse> {
        match self {
            Self::ToolUse(call) => Some(call),
            _ => None,
        }
    }
}

/// A call.
#[derive(Clone, Debug)]
pub(super) struct ToolUse {
    pub(super) id: String,
    pub(super) name: String,
    pub(super) args: String,
    /// The block has an end.
    pub(super) whole: bool,
    /// Fields that stand beside `id` in the call.
    pub(super) extra: Value,
}

/// Tokens of an answer. The prompt is all three of input, read and written.
#[derive(Clone, Copy, Debug)]
pub(super) struct Usage {
    pub(super) input: u64,
    pub(super) output: u64,
    pub(super) cache_read: u64,
    pub(super) cache_written: u64,
    pub(super) reasoning: u64,
}

/// What an answer is instead of a stream made of parts.
#[derive(Clone, Debug)]
pub(super) enum Instead {
    /// An error in the dialect's shape.
    Error { kind: String, message: String, code: Option<String> },
    /// These bytes, whoever asks.
    Bytes(Vec<u8>),
}

/// One answer of the scripted model.
#[derive(Clone, Debug)]
pub struct Answer {
    status: u16,
    headers: Vec<(String, String)>,
    /// Only the headers that the test named are sent.
    bare: bool,
    delivery: Delivery,
    faults: Vec<Fault>,
    hold: Option<Gate>,
    /// The connection ends before the head.
    dropped: bool,
    number: u64,
    parts: Vec<Part>,
    stop: Option<String>,
    refused: Option<(String, String)>,
    usage: Usage,
    ends: bool,
    crlf: bool,
    quirks: BTreeSet<Quirk>,
    instead: Option<Instead>,
    raw: Vec<(Dialect, Vec<u8>)>,
}

impl Default for Answer {
    fn default() -> Self {
        Self::new()
    }
}

impl Answer {
    /// An answer without content that ends properly.
    pub fn new() -> Self {
        Self {
            status: 200,
            headers: Vec::new(),
            bare: false,
            delivery: Delivery::default(),
            faults: Vec::new(),
            hold: None,
            dropped: false,
            number: NEXT_ID.fetch_add(1, Ordering::Relaxed),
            parts: Vec::new(),
            stop: None,
            refused: None,
            usage: Usage { input: 10, output: 20, cache_read: 0, cache_written: 0, reasoning: 0 },
            ends: true,
            crlf: false,
            quirks: BTreeSet::new(),
            instead: None,
            raw: Vec::new(),
        }
    }

    /// One text block and the end of the turn.
    pub fn saying(text: impl Into<String>) -> Self {
        Self::new().text(text)
    }

    /// One call.
    pub fn calling(id: &str, name: &str, args: impl Into<Value>) -> Self {
        Self::new().tool_use(id, name, args)
    }

    /// Bytes of a recorded stream, as they are, whoever asks.
    pub fn recorded(bytes: impl Into<Vec<u8>>) -> Self {
        Self { instead: Some(Instead::Bytes(bytes.into())), ..Self::new() }
    }

    /// Gives these bytes instead of the parts when asked in `dialect`.
    #[must_use]
    pub fn recorded_for(mut self, dialect: Dialect, bytes: impl Into<Vec<u8>>) -> Self {
        self.raw.push((dialect, bytes.into()));
        self
    }

    /// A status and a body that are not a stream, with these headers and no others.
    pub fn http(status: u16, headers: &[(&str, &str)], body: impl Into<Vec<u8>>) -> Self {
        let headers = headers.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        Self { status, headers, bare: true, ..Self::recorded(body) }
    }

    /// An error in the shape of the dialect it is asked in. `kind` is Anthropic's `error.type`; Chat Completions gets
    /// what OpenAI says in that case (and 503 for 529, which it does not know).
    pub fn error(status: u16, kind: &str, message: &str) -> Self {
        let instead = Instead::Error { kind: kind.to_owned(), message: message.to_owned(), code: None };
        Self { status, instead: Some(instead), ..Self::new() }
    }

    /// Sets the code of an error: `error.code` of Chat Completions, `error.details.error_code` of Anthropic.
    #[must_use]
    pub fn code(mut self, given: &str) -> Self {
        if let Some(Instead::Error { code, .. }) = &mut self.instead {
            *code = Some(given.to_owned());
        }
        self
    }

    /// Adds a header.
    #[must_use]
    pub fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.retain(|(known, _)| known != name);
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Adds a text block.
    #[must_use]
    pub fn text(self, text: impl Into<String>) -> Self {
        self.part(Part::Text(text.into()))
    }

    /// Adds thinking with this signature, which is its identity: make it unique. Chat Completions has no signatures.
    #[must_use]
    pub fn thinking(self, thinking: &str, signature: &str) -> Self {
        self.part(Part::Thinking { thinking: thinking.to_owned(), signature: Some(signature.to_owned()) })
    }

    /// Adds thinking; the server signs it for the conversation it is made in. Empty text is thinking that is not shown.
    #[must_use]
    pub fn thought(self, thinking: &str) -> Self {
        self.part(Part::Thinking { thinking: thinking.to_owned(), signature: None })
    }

    /// Adds a sealed thinking block (Anthropic only).
    #[must_use]
    pub fn redacted_thinking(self, data: &str) -> Self {
        self.block(json!({"type": "redacted_thinking", "data": data}))
    }

    /// Adds a block that comes whole in its start event, such as a server tool's result (Anthropic only).
    #[must_use]
    pub fn block(self, block: Value) -> Self {
        self.part(Part::Whole(block))
    }

    /// Adds a call.
    #[must_use]
    pub fn tool_use(self, id: &str, name: &str, args: impl Into<Value>) -> Self {
        let args = args.into().to_string();
        self.tool_use_text(id, name, &args)
    }

    /// Adds a call whose argument text is exactly this: not necessarily JSON. An empty text is a call without
    /// arguments.
    #[must_use]
    pub fn tool_use_text(self, id: &str, name: &str, args: &str) -> Self {
        self.call(id, name, args, true)
    }

    /// Adds a call that is cut off: its block never stops.
    #[must_use]
    pub fn tool_use_cut(self, id: &str, name: &str, args: &str) -> Self {
        self.call(id, name, args, false)
    }

    fn call(self, id: &str, name: &str, args: &str, whole: bool) -> Self {
        let (id, name, args) = (id.to_owned(), name.to_owned(), args.to_owned());
        self.part(Part::ToolUse(ToolUse { id, name, args, whole, extra: json!({}) }))
    }

    /// Adds fields to the newest call, beside its `id`, such as
    /// `{"extra_content": {"google": {"thought_signature": "…"}}}`.
    #[must_use]
    pub fn with_extra(mut self, fields: Value) -> Self {
        match self.parts.last_mut() {
            Some(Part::ToolUse(call)) => call.extra = fields,
            _ => panic!("with_extra comes right after a call"),
        }
        self
    }

    /// Adds a sign of life: a ping, or a comment where there are no pings.
    #[must_use]
    pub fn ping(self) -> Self {
        self.part(Part::Ping)
    }

    /// Adds any event of Anthropic's; left out of Chat Completions.
    #[must_use]
    pub fn event(self, name: &str, data: Value) -> Self {
        self.part(Part::Event { name: name.to_owned(), data })
    }

    /// Adds any chunk of Chat Completions as it stands; left out of Anthropic's stream.
    #[must_use]
    pub fn chunk(self, chunk: Value) -> Self {
        self.part(Part::Chunk(chunk))
    }

    /// Adds any delta of Chat Completions in a chunk of this answer; left out of Anthropic's stream.
    #[must_use]
    pub fn delta(self, delta: Value) -> Self {
        self.part(Part::Delta(delta))
    }

    /// Adds text to the stream as it stands, such as a comment line.
    #[must_use]
    pub fn literal(self, text: &str) -> Self {
        self.part(Part::Literal { dialect: None, text: text.to_owned() })
    }

    /// Adds text to the stream of one dialect.
    #[must_use]
    pub fn literal_for(self, dialect: Dialect, text: &str) -> Self {
        self.part(Part::Literal { dialect: Some(dialect), text: text.to_owned() })
    }

    /// Ends the stream here with an error inside the 200 instead of a stop.
    #[must_use]
    pub fn error_event(self, kind: &str, message: &str) -> Self {
        self.part(Part::Error { kind: kind.to_owned(), message: message.to_owned() }).without_end()
    }

    fn part(mut self, part: Part) -> Self {
        self.parts.push(part);
        self
    }

    /// Leaves out the stop reason and everything after it.
    #[must_use]
    pub fn without_end(mut self) -> Self {
        self.ends = false;
        self
    }

    /// Sets the stop reason; without it, `tool_use` when there is a call and `end_turn` when there is none. What one
    /// dialect calls differently is translated (`max_tokens` and `length`); anything else is sent as it stands.
    #[must_use]
    pub fn stop(mut self, reason: &str) -> Self {
        self.stop = Some(reason.to_owned());
        self
    }

    /// Ends with a refusal. Anthropic says the category, Chat Completions the explanation.
    #[must_use]
    pub fn refusing(mut self, category: &str, explanation: &str) -> Self {
        self.refused = Some((category.to_owned(), explanation.to_owned()));
        self.stop("refusal")
    }

    /// Sets the tokens of prompt and answer.
    #[must_use]
    pub fn usage(mut self, input_tokens: u64, output_tokens: u64) -> Self {
        self.usage.input = input_tokens;
        self.usage.output = output_tokens;
        self
    }

    /// Sets the tokens read from and written to the cache, which are part of the prompt beside `usage`.
    #[must_use]
    pub fn cached(mut self, read: u64, written: u64) -> Self {
        self.usage.cache_read = read;
        self.usage.cache_written = written;
        self
    }

    /// Sets how many of the answer's tokens are thinking.
    #[must_use]
    pub fn reasoned(mut self, tokens: u64) -> Self {
        self.usage.reasoning = tokens;
        self
    }

    /// Speaks Chat Completions as some server does and OpenAI does not. No effect on Anthropic's stream.
    #[must_use]
    pub fn quirk(mut self, quirk: Quirk) -> Self {
        self.quirks.insert(quirk);
        self
    }
}
