//! What the server has said so far, as far as later requests must give it back.

use super::{Dialect, Refusal, anthropic, openai};
use serde_json::Value;

/// One answer as it was sent, read from its bytes, so that it holds for recorded streams too.
#[derive(Clone, Debug, Default)]
pub(super) struct Sent {
    /// Anthropic: its blocks, whole ones only, in order.
    pub(super) blocks: Vec<Value>,
    /// Anthropic: what its thinking is bound to, block by block.
    pub(super) seals: Vec<anthropic::Seal>,
    /// Anthropic: the conversation it was made on.
    pub(super) place: anthropic::Place,
    /// Its stop reason; none when the stream has no end.
    pub(super) stop_reason: Option<String>,
    /// Chat Completions: its calls with all fields but index and function.
    pub(super) calls: Vec<Value>,
    /// Chat Completions: its reasoning, and the field that it came in.
    pub(super) reasoning: Option<(&'static str, String)>,
}

/// What a server has sent. A caller without a server keeps one of these itself.
#[derive(Clone, Debug, Default)]
pub struct Ledger {
    sent: Vec<Sent>,
    thinking_refused: bool,
}

impl Ledger {
    /// Remembers the body of an answer to this request: signatures, ids and what came with them are valid from now on.
    pub fn record(&mut self, dialect: Dialect, request: &Value, answer_body: &[u8]) {
        self.sent.push(match dialect {
            Dialect::Anthropic => anthropic::sent(request, answer_body),
            Dialect::OpenAi => openai::sent(answer_body),
        });
    }

    /// Remembers that a request was refused. After a refusal of its thinking a client may leave it all out.
    pub fn record_refusal(&mut self, refusal: &Refusal) {
        self.thinking_refused |= refusal.message.contains("`thinking`");
    }

    pub(super) fn thinking_was_refused(&self) -> bool {
        self.thinking_refused
    }

    /// Newest first.
    pub(super) fn answers(&self) -> impl Iterator<Item = &Sent> {
        self.sent.iter().rev()
    }
}

/// The JSON of each `data:` line of a stream.
pub(super) fn data_lines(body: &[u8]) -> impl Iterator<Item = Value> {
    body.split(|byte| *byte == b'\n')
        .filter_map(|line| serde_json::from_slice(line.strip_prefix(b"data:")?).ok())
}
