//! The Anthropic Messages dialect: what a request must look like, and how an answer is written.
//!
//! The rules are those that the real API enforces and that a harness can break; texts are the recorded ones
//! where a recording exists. Message texts are for people: a client may depend on `error.type` only.

mod answer;
mod messages;
mod rules;

pub use answer::Answer;
pub use messages::{message_blocks, without_cache_markers};

use super::http::RawRequest;
use serde_json::Value;
use std::fmt;

/// Why a request is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The HTTP status.
    pub status: u16,
    /// `error.type`.
    pub kind: &'static str,
    /// `error.message`.
    pub message: String,
}

impl Refusal {
    pub(super) fn new(status: u16, kind: &'static str, message: impl Into<String>) -> Self {
        Self { status, kind, message: message.into() }
    }

    fn invalid(message: impl Into<String>) -> Self {
        Self::new(400, "invalid_request_error", message)
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}: {}", self.status, self.kind, self.message)
    }
}

/// One answer as it was sent: what later requests must give back unchanged.
#[derive(Clone, Debug, Default)]
pub struct Sent {
    /// Thinking blocks, whole, in order.
    pub thinking: Vec<Value>,
    /// Ids of its calls.
    pub tool_use_ids: Vec<String>,
    /// Its stop reason; none when the stream has no end.
    pub stop_reason: Option<String>,
    /// What it was bound to: system, tools and messages of its request.
    pub prefix: Vec<u8>,
}

/// What the server has sent so far.
#[derive(Clone, Debug, Default)]
pub struct Ledger {
    sent: Vec<Sent>,
}

impl Ledger {
    pub(super) fn record(&mut self, sent: Sent) {
        self.sent.push(sent);
    }

    fn last_stop(&self) -> Option<&str> {
        self.sent.last()?.stop_reason.as_deref()
    }

    fn thinking(&self, signature: &str) -> Option<(&Sent, &Value)> {
        self.sent.iter().find_map(|sent| {
            let block = sent.thinking.iter().find(|block| messages::signature(block) == Some(signature))?;
            Some((sent, block))
        })
    }

    fn by_call(&self, tool_use_id: &str) -> Option<&Sent> {
        self.sent.iter().rev().find(|sent| sent.tool_use_ids.iter().any(|id| id == tool_use_id))
    }
}

/// Checks a whole request. The first broken rule is the answer, as with the real API.
pub(super) fn check(raw: &RawRequest, json: &Value, ledger: &Ledger) -> Result<(), Refusal> {
    let version = rules::check_head(raw)?;
    rules::check_body(raw, json, version)?;
    messages::check(json, ledger)
}
