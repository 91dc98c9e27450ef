//! What a decoder says while an answer is still being made, and what it says when it failed.
//!
//! Both are the same for every dialect. Live pieces are for people who watch; nothing is decided on them.

use crate::event::{Block, FailureClass, Stop, Usage};
use serde_json::value::RawValue;
use std::sync::Arc;

/// What a live piece is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LiveKind {
    /// Text of the answer.
    Text,
    /// Thinking.
    Thinking,
}

/// A piece of an answer that is still being made.
///
/// A piece whose `offset` lies before what was shown already replaces everything from there on: the provider
/// began its message anew.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LiveDelta {
    /// Which block, in the order in which blocks began.
    pub block: u32,
    /// What it is.
    pub kind: LiveKind,
    /// Where in the block's text its bytes begin.
    pub offset: u64,
    /// The text; never empty.
    pub text: String,
}

/// Whether more of an answer is to come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// The stop has not come yet.
    More,
    /// The answer has ended by its own word; what follows is ignored.
    Complete,
}

/// A whole answer.
#[derive(Clone, Debug)]
pub struct Decoded {
    /// Its blocks, in order; empty ones are left out.
    pub blocks: Vec<Block>,
    /// How it stopped.
    pub stop: Stop,
    /// Tokens, normalised.
    pub usage: Usage,
    /// The provider's own usage object, the parts of one answer merged.
    pub usage_raw: Option<Arc<RawValue>>,
    /// Whether the provider reported any tokens at all; zeros everywhere count as silence.
    pub usage_reported: bool,
    /// The provider's id of the message.
    pub provider_message_id: Option<String>,
    /// What was odd and was mended or only noted: in words, for people. At most a few short lines.
    pub warnings: Vec<String>,
    /// The prompt of the provider's last own pass, where it made several (server tools) and `usage` is their sum.
    pub last_prompt_tokens: Option<u64>,
}

/// Why there is no answer. Nothing of it may enter the conversation.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct DecodeFailure {
    /// Why.
    pub class: FailureClass,
    /// In words, without the provider's name: the caller knows it.
    pub message: String,
    /// Text that had come before.
    pub partial_text: Option<String>,
    /// A context window that the error named.
    pub learned_window: Option<u64>,
    /// A wait that the error asked for.
    pub retry_after_ms: Option<u64>,
    /// What it had used by then, as far as the provider had said.
    pub usage: Option<Box<Usage>>,
}

impl DecodeFailure {
    /// A failure with nothing but its class and words.
    pub fn new(class: FailureClass, message: impl Into<String>) -> Self {
        Self {
            class,
            message: message.into(),
            partial_text: None,
            learned_window: None,
            retry_after_ms: None,
            usage: None,
        }
    }
}
