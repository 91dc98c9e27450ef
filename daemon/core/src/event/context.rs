//! Facts about what a model is shown: epochs, pins, history moves.

use crate::ids::{EpochNo, TurnNo};
use crate::path_bytes::PathBytes;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use std::sync::Arc;

/// The wire dialect of a provider.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Dialect {
    /// Anthropic Messages.
    #[serde(rename = "anthropic")]
    Anthropic,
    /// OpenAI Chat Completions and compatible servers.
    #[serde(rename = "openai-chat")]
    OpenAiChat,
    /// OpenAI Responses.
    #[serde(rename = "openai-responses")]
    OpenAiResponses,
}

/// How thinking is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ThinkingForm {
    /// Nothing is said about it.
    Omit,
    /// `adaptive`.
    Adaptive,
}

/// Prices in millionths of a US dollar per million tokens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Price {
    /// Prompt tokens.
    pub input: i64,
    /// Answer tokens.
    pub output: i64,
    /// Tokens read from the cache.
    pub cache_read: i64,
    /// Tokens written to it.
    pub cache_write: i64,
}

/// What a server of the Chat Completions dialect calls the bound of an answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MaxTokensField {
    /// `max_tokens`, the older name: the only one that many servers know.
    #[default]
    MaxTokens,
    /// `max_completion_tokens`, the only one that OpenAI's reasoning models take.
    MaxCompletionTokens,
}

/// Whether reasoning that came beside an answer goes back with it. Within an epoch it is all of it or none, because
/// an earlier message must not change.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReasoningReplay {
    /// In the field it came in.
    #[default]
    SameField,
    /// Never: the server refuses a field that it sends itself.
    Never,
}

/// What ids of tool calls a server takes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CallIdForm {
    /// Any text of a reasonable length.
    #[default]
    Any,
    /// Exactly nine letters and digits (Mistral).
    NineAlphanumeric,
}

/// How one server of the Chat Completions dialect differs from the others. The default is what most take.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ChatForm {
    /// The name of the output bound.
    pub max_tokens_field: MaxTokensField,
    /// Whether `stream_options` asks for usage; servers that refuse the field are asked without.
    pub stream_options: bool,
    /// What becomes of reasoning.
    pub reasoning: ReasoningReplay,
    /// What ids of calls may look like.
    pub call_ids: CallIdForm,
    /// A message with calls and no text says `"content": ""` and not `null`.
    pub empty_content: bool,
    /// Calls of other models need a stand-in for the thought signature (Gemini).
    pub stand_in_signature: bool,
    /// Calls need `reasoning_content` beside them; where there is none, an empty one stands in (Moonshot, `DeepSeek`).
    pub reasoning_with_calls: bool,
}

impl Default for ChatForm {
    fn default() -> Self {
        Self {
            max_tokens_field: MaxTokensField::default(),
            stream_options: true,
            reasoning: ReasoningReplay::default(),
            call_ids: CallIdForm::default(),
            empty_content: false,
            stand_in_signature: false,
            reasoning_with_calls: false,
        }
    }
}

/// What request building has to know of a model. It is frozen into the epoch, so that no request depends on
/// configuration.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ModelProfile {
    /// The provider's name in the configuration.
    pub provider: String,
    /// The model's name at the provider.
    pub model: String,
    /// How it is spoken to.
    pub dialect: Dialect,
    /// Tokens of prompt and answer together.
    pub context_window: u64,
    /// Tokens of one answer at most.
    pub max_output_tokens: u32,
    /// How thinking is asked for.
    pub thinking: ThinkingForm,
    /// Whether several calls in one message are wanted.
    pub parallel_tool_calls: bool,
    /// Whether cache markers are understood.
    pub cache_markers: bool,
    /// What it costs.
    pub price: Price,
    /// Nobody has said what it costs: the zeros in `price` mean nothing.
    #[serde(default)]
    pub price_unknown: bool,
    /// How its server differs, for the Chat Completions dialect.
    #[serde(default)]
    pub chat: ChatForm,
    /// The context window is a guess: neither known nor configured. An error that names it is believed.
    #[serde(default)]
    pub window_is_guess: bool,
}

/// A new sent prefix began. Within an epoch the prefix is byte-identical after removing cache markers.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct EpochStarted {
    /// Its number, from 1.
    pub epoch: EpochNo,
    /// Why: `created`, `model_changed`, `compaction`, `tools_changed`, `request_mended`.
    pub reason: String,
    /// The model as it is spoken to.
    pub profile: ModelProfile,
    /// The system text, as sent.
    pub system: Arc<str>,
    /// The tools, as sent: an array of name, description and input schema.
    pub tools: Arc<RawValue>,
    /// A summary that stands for what is no longer sent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub summary: Option<String>,
    /// Thinking of earlier epochs is left out from here on.
    #[serde(default)]
    pub strip_thinking: bool,
    /// Estimated prompt tokens before.
    #[serde(default)]
    pub tokens_before: u64,
    /// Estimated prompt tokens after.
    #[serde(default)]
    pub tokens_after: u64,
}

/// An epoch was taken back.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct EpochReverted {
    /// Which.
    pub epoch: EpochNo,
}

/// A compaction was not accepted.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct CompactionRefused {
    /// `larger`, `lost_items`, `failed` or `breaker`.
    pub why: String,
    /// Required items that the summary lost.
    pub missing: Vec<String>,
}

/// A pinned item changed.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct PinChanged {
    /// Its id.
    pub pin_id: String,
    /// `constraint`, `plan`, `todo`, `tried_failed`, `file` or `skill`.
    pub kind: String,
    /// Its text.
    pub text: String,
    /// It is gone.
    pub removed: bool,
}

/// One file of a history move.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct MovedFile {
    /// Where.
    pub path: PathBytes,
    /// SHA-256 of the content before.
    pub from: Option<String>,
    /// SHA-256 of the content after.
    pub to: Option<String>,
}

/// Turns were undone or redone.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct HistoryMoved {
    /// `undo` or `redo`.
    pub direction: String,
    /// The last turn before.
    pub from_turn: TurnNo,
    /// The last turn after.
    pub to_turn: TurnNo,
    /// The files that were put back.
    pub files: Vec<MovedFile>,
}
