//! Facts about turns and model calls.

use super::{
    BlockKind, CallResolution, EffectClass, FailureClass, LimitName, NoticeKind, PauseReason, StopClass,
    TurnStatus,
};
use crate::ids::{CallId, EpochNo, InputId, ModelCallId, RunId, Seq, TurnNo};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use std::sync::Arc;

/// A turn began.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct TurnStarted {
    /// Its number.
    pub turn: TurnNo,
    /// The inputs it began with.
    pub input_ids: Vec<InputId>,
    /// The run of the daemon that works on it.
    pub run_id: RunId,
}

/// An input took its place in the conversation.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct InputDelivered {
    /// Which.
    pub input_id: InputId,
    /// The step it came after; 0 begins the turn.
    pub step: u32,
}

/// The turn waits for somebody.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct TurnPaused {
    /// Why.
    pub reason: PauseReason,
    /// What it would do when told to go on, in words.
    pub next: String,
}

/// What was said about one unknown call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Resolution {
    /// The call.
    pub call_id: CallId,
    /// What it is now.
    pub resolution: CallResolution,
    /// What the person said about it, for the model.
    pub text: Option<String>,
}

/// The turn goes on.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct TurnResumed {
    /// The run that works on it now.
    pub run_id: RunId,
    /// Resumes of this turn since its last finished step, this one included.
    pub resume_count: u32,
    /// Whether the limits count from here again.
    pub limits_extended: bool,
    /// What was said about unknown calls.
    pub resolutions: Vec<Resolution>,
}

/// A person or client asked the turn, or one call, to stop. Recorded before anything is stopped, so that the
/// wish survives a crash.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct InterruptRequested {
    /// One call, or the whole turn when absent.
    pub call_id: Option<CallId>,
}

/// Tokens of one model call or of many, cached ones not counted as input again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    /// Prompt tokens that were neither read from nor written to a cache.
    pub input_tokens: u64,
    /// Tokens of the answer, thinking included.
    pub output_tokens: u64,
    /// Prompt tokens read from the provider's cache.
    pub cache_read_tokens: u64,
    /// Prompt tokens written to it.
    pub cache_write_tokens: u64,
}

impl Usage {
    /// The whole prompt, however it was billed.
    pub const fn prompt_tokens(&self) -> u64 {
        self.input_tokens + self.cache_read_tokens + self.cache_write_tokens
    }
    /// The sum of two.
    #[must_use]
    pub const fn plus(self, other: Self) -> Self {
        Self {
            input_tokens: self.input_tokens.saturating_add(other.input_tokens),
            output_tokens: self.output_tokens.saturating_add(other.output_tokens),
            cache_read_tokens: self.cache_read_tokens.saturating_add(other.cache_read_tokens),
            cache_write_tokens: self.cache_write_tokens.saturating_add(other.cache_write_tokens),
        }
    }
}

/// The turn ended.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct TurnFinished {
    /// How.
    pub status: TurnStatus,
    /// The provider's own word for the last stop, if there was one.
    pub stop_raw: Option<String>,
    /// The model call whose text is the answer; only when completed.
    pub final_model_call: Option<ModelCallId>,
    /// Model steps taken.
    pub steps: u32,
    /// Tokens of all of them.
    pub usage: Usage,
    /// Their price, in millionths of a US dollar.
    pub cost_micro_usd: i64,
    /// The price of a step was not known: the sum is not all.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub cost_unknown: bool,
    /// Calls denied because nobody could approve them.
    pub denied_unattended: u32,
    /// What went wrong and what to do, for people.
    pub error: Option<String>,
}

/// A limit was reached.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct LimitReached {
    /// Which.
    pub limit: LimitName,
    /// The value that reached it.
    pub value: i64,
    /// The bound.
    pub bound: i64,
    /// `pause`, `stop` or `notice`.
    pub action: String,
}

/// A hook or guardrail spoke.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct GuardFired {
    /// Which.
    pub guard: String,
    /// Where in the life of a call or turn.
    pub point: String,
    /// What it said.
    pub verdict: String,
    /// Its note.
    pub note: String,
}

/// A request to a model is about to be sent.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ModelCallStarted {
    /// Its id; each attempt has its own.
    pub model_call_id: ModelCallId,
    /// `turn`, `summary` or `delegate`.
    pub purpose: String,
    /// Which attempt at the same step, from 1.
    pub attempt: u32,
    /// The provider's name in the configuration.
    pub provider: String,
    /// The model's name at the provider.
    pub model: String,
    /// The epoch whose prefix is sent.
    pub epoch: EpochNo,
    /// The last event whose content is included.
    pub included_seq: Seq,
    /// SHA-256 of the body without cache markers, in hex. A resumed call must build the same.
    pub request_hash: String,
    /// Bytes of the body.
    pub body_bytes: u64,
    /// Estimated prompt tokens.
    pub est_tokens: u64,
    /// Output tokens asked for at most.
    pub max_output_tokens: u32,
}

/// One block of an assistant message: the provider's bytes, and what we understand of them.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Block {
    /// What it is.
    pub kind: BlockKind,
    /// The provider's JSON, sent back byte for byte.
    pub raw: Arc<RawValue>,
    /// The text of a text or thinking block, for readers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// The call in a tool use block.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub call: Option<BlockCall>,
    /// The block differs from what the provider sent (a secret was removed, arguments were not JSON).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub altered: bool,
}

/// A tool call as the provider wrote it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct BlockCall {
    /// The provider's id, as `raw` has it.
    pub provider_call_id: String,
    /// The tool's name.
    pub name: String,
    /// Arguments: an object when `complete`, else `{}`.
    pub args: Arc<RawValue>,
    /// The arguments were whole and are valid JSON.
    pub complete: bool,
    /// Why not, for the model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fault: Option<String>,
}

/// How an answer stopped.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Stop {
    /// The provider's word.
    pub raw: Option<String>,
    /// What it means.
    pub class: StopClass,
    /// The provider's explanation of a refusal, if it gave one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub explanation: Option<String>,
}

/// A model answered.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ModelCallFinished {
    /// Which call.
    pub model_call_id: ModelCallId,
    /// The answer, in order.
    pub blocks: Vec<Block>,
    /// How it stopped.
    pub stop: Stop,
    /// Tokens, normalised.
    pub usage: Usage,
    /// The provider's own usage object.
    pub usage_raw: Option<Arc<RawValue>>,
    /// Whether the provider reported usage at all.
    pub usage_reported: bool,
    /// The provider's id of the message.
    pub provider_message_id: Option<String>,
    /// The provider's id of the request.
    pub provider_request_id: Option<String>,
    /// Price, in millionths of a US dollar.
    pub cost_micro_usd: i64,
    /// What the schema check said of each call, in order.
    #[serde(default)]
    pub checks: Vec<CallCheck>,
    /// What was odd about the answer and was mended or only noted, for people.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
    /// The prompt of the provider's last own pass, where it made several and `usage` is their sum.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_prompt_tokens: Option<u64>,
}

/// What the schema check said of a call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CallCheck {
    /// It names a tool and fits its schema.
    Valid(EffectClass),
    /// It does not.
    Invalid {
        /// What kind of fault, for the breaker.
        class: String,
        /// What the model reads.
        text: String,
    },
}

/// A model call failed; nothing of it enters the conversation.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ModelCallFailed {
    /// Which call.
    pub model_call_id: ModelCallId,
    /// Why.
    pub class: FailureClass,
    /// In words: what failed, where, and what to do.
    pub message: String,
    /// The HTTP status, if one came.
    pub http_status: Option<u16>,
    /// When the next attempt is made, in Unix milliseconds; absent when there is none.
    pub retry_at_ms: Option<i64>,
    /// Text that had been shown.
    pub partial_text: Option<String>,
    /// A context window that the error taught us.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub learned_window: Option<u64>,
    /// What the next request leaves out or changes, because this one was refused for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mend: Option<Mend>,
    /// The most output tokens that the model gives, if the error taught us.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub learned_output: Option<u32>,
    /// Which attempt at the same step it was, from 1; 0 in logs that do not say it.
    #[serde(default)]
    pub attempt: u32,
    /// Attempts at one step at most; 0 in logs that do not say it.
    #[serde(default)]
    pub max_attempts: u32,
    /// Tokens of an answer that came and could not be kept: they are paid for all the same.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<Usage>,
    /// Their price, in millionths of a US dollar.
    #[serde(default)]
    pub cost_micro_usd: i64,
}

impl ModelCallFailed {
    /// A failure of which nothing more is known, and after which there is no other attempt.
    pub fn new(model_call_id: ModelCallId, class: FailureClass, message: String) -> Self {
        Self {
            model_call_id,
            class,
            message,
            http_status: None,
            retry_at_ms: None,
            partial_text: None,
            learned_window: None,
            mend: None,
            learned_output: None,
            attempt: 0,
            max_attempts: 0,
            usage: None,
            cost_micro_usd: 0,
        }
    }
}

/// What a request can be mended by after a provider refused it. Each is tried once and holds for the rest of the
/// session, as a new epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Mend {
    /// Thinking of earlier answers is left out.
    StripThinking,
    /// Thinking is not asked for.
    OmitThinkingForm,
    /// `stream_options` is left out.
    OmitStreamOptions,
    /// The output bound goes by its other name.
    RenameMaxTokens,
}

impl Mend {
    /// The outside word.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::StripThinking => "strip_thinking",
            Self::OmitThinkingForm => "omit_thinking_form",
            Self::OmitStreamOptions => "omit_stream_options",
            Self::RenameMaxTokens => "rename_max_tokens",
        }
    }
}

/// A fact was added for the model, the only way to add one inside an epoch.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct NoticeAdded {
    /// What about.
    pub kind: NoticeKind,
    /// The words the model reads.
    pub text: String,
}
