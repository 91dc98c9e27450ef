//! The rules as a pure function: what a real server of a dialect would refuse a request body with.
//!
//! Invariants: nothing here knows the product's code; a rule comes from the vendors' documents or a recorded
//! refusal. The first broken rule is the answer, as with the real servers.

use super::{Dialect, Ledger, anthropic, openai};
use serde_json::{Value, json};
use std::fmt;

/// In which form an error body is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shape {
    /// `{"type":"error","error":{…},"request_id":…}`
    Anthropic,
    /// `{"error":{"message","type","param","code"}}`
    OpenAi,
    /// `[{"error":{"code","message","status"}}]`: Gemini's compatible endpoint.
    Gemini,
    /// `{"object":"error","message","type","param","code"}`
    Mistral,
}

/// Why a request is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The HTTP status.
    pub status: u16,
    /// `error.type`.
    pub kind: &'static str,
    /// `error.message`.
    pub message: String,
    /// `error.code` of Chat Completions.
    pub code: Option<&'static str>,
    /// `error.param` of Chat Completions.
    pub param: Option<String>,
    /// A switch of [`Rules`] that a test turned on refuses it: no violation, but what the test asked for.
    pub switched: bool,
    pub(super) shape: Shape,
}

impl Refusal {
    pub(super) fn new(shape: Shape, status: u16, kind: &'static str, message: impl Into<String>) -> Self {
        Self { status, kind, message: message.into(), code: None, param: None, switched: false, shape }
    }

    pub(super) fn code(mut self, code: &'static str) -> Self {
        self.code = Some(code);
        self
    }

    pub(super) fn param(mut self, param: impl Into<String>) -> Self {
        self.param = Some(param.into());
        self
    }

    pub(super) fn switched(mut self) -> Self {
        self.switched = true;
        self
    }

    /// The body it is sent as.
    pub fn body(&self) -> Value {
        match self.shape {
            Shape::Anthropic => json!({
                "type": "error",
                "error": {"type": self.kind, "message": self.message, "details": null},
                "request_id": "req_scripted_refusal",
            }),
            Shape::OpenAi => json!({"error": {
                "message": self.message, "type": self.kind, "param": self.param, "code": self.code,
            }}),
            Shape::Gemini => json!([{"error": {
                "code": self.status, "message": self.message, "status": "INVALID_ARGUMENT",
            }}]),
            Shape::Mistral => json!({
                "object": "error", "message": self.message, "type": self.kind, "param": self.param, "code": self.code,
            }),
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}: {}", self.status, self.kind, self.message)
    }
}

/// What a server differs in from the usual one of its dialect. All off by default.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rules {
    /// No key is asked for, as with local servers. Both dialects.
    pub keyless: bool,
    /// Unknown fields that this server takes all the same, at any place. Both dialects.
    pub extra_fields: Vec<&'static str>,
    /// Anthropic: the `thinking` parameter is refused, as by models and servers without it.
    pub refuse_thinking: bool,
    /// Anthropic: thinking that comes back is refused as bound to another conversation, whatever it is.
    pub refuse_replayed_thinking: bool,
    /// Anthropic: `output_config` is refused as an unknown field.
    pub refuse_output_config: bool,
    /// Chat Completions: `stream_options` is refused.
    pub refuse_stream_options: bool,
    /// Chat Completions: `max_tokens` is refused, as by OpenAI's reasoning models.
    pub refuse_max_tokens: bool,
    /// Chat Completions: `max_completion_tokens` is refused, as by older compatible servers.
    pub refuse_max_completion_tokens: bool,
    /// Chat Completions: `reasoning_effort` is refused.
    pub refuse_reasoning_effort: bool,
    /// Chat Completions: `temperature` and `top_p` are refused, as by OpenAI's reasoning models.
    pub refuse_sampling: bool,
    /// Chat Completions: the role `developer` is refused, as by most compatible servers.
    pub refuse_developer: bool,
    /// Chat Completions: content that is null or absent is refused, beside calls too.
    pub refuse_null_content: bool,
    /// Chat Completions: reasoning in assistant messages is refused, as by the first deepseek-reasoner.
    pub refuse_reasoning: bool,
    /// Chat Completions: reasoning that came with calls must come back with them in the same field, as at DeepSeek and Moonshot.
    pub require_reasoning: bool,
    /// Chat Completions: Gemini's rule. The first call of each answer gets a thought signature and must come
    /// back with it.
    pub thought_signatures: bool,
    /// Chat Completions: reasoning comes back as content parts, as Mistral sends it.
    pub reasoning_parts: bool,
    /// Chat Completions: Mistral's rule. Ids of calls have exactly nine letters and digits.
    pub mistral_ids: bool,
    /// Chat Completions: Mistral's other rule. No user message right after a tool message.
    pub mistral_order: bool,
    /// Chat Completions: OpenAI's own bound of 40 characters for ids of calls.
    pub short_ids: bool,
}

/// What the server of `dialect` would refuse this body with; `None` when it takes it.
///
/// `ledger` knows the answers given so far ([`Ledger::record`]): what must come back as it was. Anthropic bodies are
/// checked as under `anthropic-version: 2026-10-21`.
pub fn refusal(dialect: Dialect, body: &[u8], rules: &Rules, ledger: &Ledger) -> Option<Refusal> {
    let checked = match dialect {
        Dialect::Anthropic => anthropic::check_body(body, anthropic::Version::Of2026, rules, ledger),
        Dialect::OpenAi => openai::check_body(body, rules, ledger),
    };
    checked.err()
}
