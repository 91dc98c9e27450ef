//! What one attempt at a model call came to.

use agentd_core::command::{CheckedCall, ModelAnswer, ModelFailure};
use agentd_core::event::{FailureClass, Mend, Usage};
use agentd_core::ids::ModelCallId;
use agentd_core::model::live::{DecodeFailure, Decoded};

/// A whole answer.
#[derive(Clone, Debug)]
pub struct Answer {
    /// What it says.
    pub decoded: Decoded,
    /// The provider's id of the request.
    pub provider_request_id: Option<String>,
}

impl Answer {
    /// The report for core. `checked` has one verdict on each tool use block, in order.
    pub fn into_report(self, model_call_id: ModelCallId, checked: Vec<CheckedCall>) -> ModelAnswer {
        let Decoded {
            blocks,
            stop,
            usage,
            usage_raw,
            usage_reported,
            provider_message_id,
            warnings,
            last_prompt_tokens,
        } = self.decoded;
        ModelAnswer {
            model_call_id,
            blocks,
            stop,
            usage,
            usage_raw,
            usage_reported,
            provider_message_id,
            provider_request_id: self.provider_request_id,
            checked,
            warnings,
            last_prompt_tokens,
        }
    }
}

/// Why an attempt has no answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct CallFailure {
    /// Why; it says whether another attempt can help.
    pub class: FailureClass,
    /// In words: what failed, where, and what to do. Never a key.
    pub message: String,
    /// The HTTP status, if one came.
    pub http_status: Option<u16>,
    /// The wait that the provider asked for.
    pub retry_after_ms: Option<u64>,
    /// Text that had been shown.
    pub partial_text: Option<String>,
    /// A context window that the error named.
    pub learned_window: Option<u64>,
    /// The provider's id of the request.
    pub provider_request_id: Option<Box<str>>,
    /// What would mend the request, if the refusal says so.
    pub mend: Option<Mend>,
    /// The server's own word on whether to try again.
    pub should_retry: Option<bool>,
    /// What it had used by then, as far as the provider had said.
    pub usage: Option<Box<Usage>>,
    /// The most output tokens that the model gives, if the error names them.
    pub learned_output: Option<u32>,
}

impl CallFailure {
    /// A failure of this class.
    pub fn new(class: FailureClass, message: impl Into<String>) -> Self {
        Self {
            class,
            message: message.into(),
            http_status: None,
            retry_after_ms: None,
            partial_text: None,
            learned_window: None,
            provider_request_id: None,
            mend: None,
            should_retry: None,
            usage: None,
            learned_output: None,
        }
    }

    /// A failure of the decoder, with the place it came from.
    pub(super) fn decoding(failure: DecodeFailure, place: &str) -> Self {
        Self {
            partial_text: failure.partial_text,
            learned_window: failure.learned_window,
            retry_after_ms: failure.retry_after_ms,
            usage: failure.usage,
            ..Self::new(failure.class, format!("{place}: {}", failure.message))
        }
    }

    /// The report for core. `jitter` is a random number that spreads attempts.
    pub fn into_report(self, model_call_id: ModelCallId, jitter: u64) -> ModelFailure {
        ModelFailure {
            model_call_id,
            class: self.class,
            message: self.message,
            http_status: self.http_status,
            retry_after_ms: self.retry_after_ms,
            jitter,
            partial_text: self.partial_text,
            learned_window: self.learned_window,
            mend: self.mend,
            should_retry: self.should_retry,
            usage: self.usage.map(|usage| *usage),
            learned_output: self.learned_output,
        }
    }
}
