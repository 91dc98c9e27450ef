//! The words of providers and what they mean, as data.

use crate::event::FailureClass;
use FailureClass::{
    BadRequest, ContextExceeded, Credentials, Malformed, Overloaded, Quota, RateLimited, Server,
};

/// How much a word of an error says, against its HTTP status.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Strength {
    /// It means one thing, whatever the status.
    Definite,
    /// It decides among the meanings that its status leaves open (any 5xx, or none).
    OfStatus,
    /// Everything is called so; it decides only where there is no status.
    Vague,
}

/// One word.
#[derive(Debug)]
pub(super) struct Word {
    /// A code or a type, as it is written.
    pub(super) name: &'static str,
    /// What it means.
    pub(super) class: FailureClass,
    /// How much it says.
    pub(super) strength: Strength,
}

impl Word {
    /// Whether it decides against this status.
    pub(super) const fn beats(&self, status: u16) -> bool {
        match self.strength {
            Strength::Definite => true,
            Strength::OfStatus => status >= 500,
            Strength::Vague => false,
        }
    }
}

const fn definite(name: &'static str, class: FailureClass) -> Word {
    Word { name, class, strength: Strength::Definite }
}

const fn of_status(name: &'static str, class: FailureClass) -> Word {
    Word { name, class, strength: Strength::OfStatus }
}

const fn vague(name: &'static str, class: FailureClass) -> Word {
    Word { name, class, strength: Strength::Vague }
}

/// Codes and types. Anthropic, OpenAI, Google, Groq, OpenRouter, llama.cpp, vLLM, AWS.
const WORDS: [Word; 57] = [
    definite("enforced_spend_limit_reached", Quota),
    definite("contract_spend_limit_reached", Quota),
    definite("insufficient_quota", Quota),
    definite("billing_hard_limit_reached", Quota),
    definite("billing_not_active", Quota),
    definite("billing_error", Quota),
    definite("insufficient_balance", Quota),
    definite("insufficient_credits", Quota),
    definite("insufficient_funds", Quota),
    definite("access_terminated", Quota),
    definite("ServiceQuotaExceededException", Quota),
    definite("context_length_exceeded", ContextExceeded),
    definite("exceed_context_size_error", ContextExceeded),
    definite("request_too_large", ContextExceeded),
    definite("string_above_max_length", ContextExceeded),
    definite("tool_use_failed", Malformed),
    definite("invalid_api_key", Credentials),
    definite("account_deactivated", Credentials),
    definite("API_KEY_INVALID", Credentials),
    definite("UNAUTHENTICATED", Credentials),
    definite("authentication_error", Credentials),
    definite("AccessDeniedException", Credentials),
    definite("model_not_found", BadRequest),
    definite("unsupported_country_region_territory", BadRequest),
    definite("content_policy_violation", BadRequest),
    definite("content_filter", BadRequest),
    definite("overloaded_error", Overloaded),
    definite("engine_overloaded_error", Overloaded),
    definite("model_overloaded", Overloaded),
    definite("capacity_exceeded", Overloaded),
    definite("ServiceUnavailableException", Overloaded),
    definite("rate_limit_error", RateLimited),
    definite("rate_limit_exceeded", RateLimited),
    definite("rate_limit_reached_error", RateLimited),
    definite("too_many_requests", RateLimited),
    definite("RESOURCE_EXHAUSTED", RateLimited),
    definite("ThrottlingException", RateLimited),
    definite("ModelTimeoutException", Server),
    definite("DEADLINE_EXCEEDED", Server),
    of_status("UNAVAILABLE", Overloaded),
    of_status("unavailable_error", Overloaded),
    of_status("service_unavailable", Overloaded),
    of_status("INTERNAL", Server),
    vague("permission_error", Credentials),
    vague("PERMISSION_DENIED", Credentials),
    vague("api_error", Server),
    vague("server_error", Server),
    vague("internal_server_error", Server),
    vague("timeout_error", Server),
    vague("conflict_error", Server),
    vague("invalid_request_error", BadRequest),
    vague("not_found_error", BadRequest),
    vague("BadRequestError", BadRequest),
    vague("INVALID_ARGUMENT", BadRequest),
    vague("NOT_FOUND", BadRequest),
    vague("FAILED_PRECONDITION", BadRequest),
    vague("ValidationException", BadRequest),
];

/// What is known of a word.
pub(super) fn find(name: &str) -> Option<&'static Word> {
    WORDS.iter().find(|word| word.name == name)
}

/// Whether a word means this class, whatever the status.
pub(super) fn is_of(name: &str, class: FailureClass) -> bool {
    find(name).is_some_and(|word| word.class == class && word.strength == Strength::Definite)
}

/// Whether a text, in lower case, holds one of these.
pub(super) fn phrase_in(phrases: &[&str], lower: &str) -> bool {
    phrases.iter().any(|phrase| lower.contains(phrase))
}

/// Money or quota, where no code says it.
pub(super) const QUOTA: [&str; 5] = [
    "you have reached your specified api usage limits",
    "credit balance is too low",
    "you exceeded your current quota",
    "insufficient balance",
    "insufficient credits",
];

/// A request that is larger than what is given in a minute.
pub(super) const LARGER_THAN_THE_RATE: [&str; 1] = ["request too large for"];

/// A conversation that is longer than the window.
pub(super) const CONTEXT: [&str; 22] = [
    "prompt is too long",
    "input is too long for requested model",
    "exceed context limit",
    "exceeds context limit",
    "maximum context length",
    "exceeds the available context size",
    "input token count exceeds",
    "exceeds the maximum number of tokens allowed",
    "exceeds the context window",
    "exceeds the context length",
    "context window exceeds limit",
    "context length exceeded",
    "maximum prompt length is",
    "exceeded model token limit",
    "prompt exceeds max length",
    "prompt token count of",
    "reduce the length of the messages",
    "context the overflows",
    "must have less than",
    "greater than the context length",
    "too many tokens: total number of tokens in the prompt",
    "range of input length should be",
];

/// A key that is wrong, where the status does not say it.
pub(super) const BAD_KEY: [&str; 4] =
    ["incorrect api key provided", "api key not valid", "invalid api key", "invalid x-api-key"];

/// What is forbidden, and no other key would change it.
pub(super) const FORBIDDEN_BUT_NO_KEY: [&str; 3] = ["requires moderation", "was flagged", "content policy"];

/// What stands before the number of a window.
pub(super) const WINDOW_BEFORE: [&str; 11] = [
    "maximum context length is",
    "maximum context length of",
    "maximum context length:",
    "available context size (",
    "context window of",
    "maximum number of tokens allowed (",
    "maximum prompt length is",
    "exceeded model token limit:",
    "context length of only",
    "must have less than",
    "exceeds the limit of",
];

/// What stands behind it.
pub(super) const WINDOW_BEHIND: [&str; 1] = ["maximum context length"];

/// What stands before the number of output tokens that a model gives.
pub(super) const OUTPUT_BEFORE: [&str; 4] = [
    "supports at most",
    "must be less than or equal to",
    "must be at most",
    "should be less than or equal to",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_stands_once() {
        for (at, word) in WORDS.iter().enumerate() {
            assert!(WORDS[..at].iter().all(|earlier| earlier.name != word.name), "{}", word.name);
        }
    }

    #[test]
    fn a_phrase_is_in_lower_case() {
        for phrases in [&QUOTA[..], &CONTEXT, &BAD_KEY, &FORBIDDEN_BUT_NO_KEY, &WINDOW_BEFORE, &OUTPUT_BEFORE]
        {
            assert!(phrases.iter().all(|phrase| phrase.to_ascii_lowercase() == **phrase));
        }
    }
}
