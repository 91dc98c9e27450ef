//! What a provider's error means.
//!
//! Purpose: read an error body of whatever shape and sort it into a [`FailureClass`]. The stable fields decide
//! (error code, then type, then HTTP status); words decide only where providers have nothing else.
//!
//! Invariants: bounded in time and memory; money and keys are never retryable; the text for people holds no
//! control characters and has at most [`MESSAGE_MAX_CHARS`] characters.
//!
//! Deliberately absent: waiting, and the provider's name, which the caller knows.

use crate::event::FailureClass;
use serde_json::Value;

/// Characters kept of a provider's own words.
pub const MESSAGE_MAX_CHARS: usize = 600;

/// What an error body or an error event says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProviderError {
    /// The type, as `overloaded_error`.
    pub kind: Option<String>,
    /// A finer, stable code, as `enforced_spend_limit_reached`.
    pub code: Option<String>,
    /// The provider's words; empty when it had none.
    pub message: String,
    /// The context window, if the error names it.
    pub window: Option<u64>,
}

impl ProviderError {
    /// Reads a body: Anthropic's shape, OpenAI's and llama.cpp's, a bare string, an array around one, `detail`
    /// of FastAPI, an HTML page or plain text.
    pub fn read(body: &[u8]) -> Self {
        match serde_json::from_slice::<Value>(body) {
            Ok(value) => Self::from_value(&value),
            Err(_) => Self { message: plain_text(&String::from_utf8_lossy(body)), ..Self::default() },
        }
    }

    fn from_value(value: &Value) -> Self {
        let value = value.as_array().and_then(|list| list.first()).unwrap_or(value);
        let inner = match value.get("error") {
            Some(error) if !error.is_null() => error,
            _ => value,
        };
        let message = [inner.get("message"), value.get("message"), value.get("detail"), Some(inner)]
            .into_iter()
            .flatten()
            .find_map(words)
            .unwrap_or_default();
        let field = |name: &str| inner.get(name).and_then(Value::as_str).map(str::to_owned);
        let code = inner
            .get("details")
            .and_then(|details| details.get("error_code"))
            .and_then(Value::as_str)
            .map(str::to_owned)
            .or_else(|| field("error_code"))
            .or_else(|| field("code"));
        let message = tidy(&message);
        let window = inner.get("n_ctx").and_then(Value::as_u64).or_else(|| window_in(&message));
        Self {
            kind: field("type").filter(|kind| kind != "error").or_else(|| field("status")),
            code,
            message,
            window,
        }
    }

    /// What the error means. `status` is absent for an error inside a stream that began well. Whether the
    /// provider named a time to wait tells a rate from a used-up budget.
    pub fn class(&self, status: Option<u16>, has_retry_after: bool) -> FailureClass {
        if self.is_quota(status, has_retry_after) {
            return FailureClass::Quota;
        }
        let may_be_too_long = !matches!(status, Some(401 | 403 | 429));
        if may_be_too_long && self.is_context(status) {
            return FailureClass::ContextExceeded;
        }
        self.class_of_kind().or_else(|| status.map(class_of_status)).unwrap_or(FailureClass::Server)
    }

    fn is_quota(&self, status: Option<u16>, has_retry_after: bool) -> bool {
        const CODES: [&str; 4] = [
            "enforced_spend_limit_reached",
            "contract_spend_limit_reached",
            "insufficient_quota",
            "billing_hard_limit_reached",
        ];
        let code = self.code.as_deref().unwrap_or_default();
        let kind = self.kind.as_deref().unwrap_or_default();
        let message = self.message.to_ascii_lowercase();
        status == Some(402)
            || CODES.contains(&code)
            || matches!(kind, "billing_error" | "insufficient_quota")
            || (code == "ramp_limit_exceeded" && !has_retry_after)
            || message.starts_with("you have reached your specified api usage limits")
            || message.contains("credit balance is too low")
            || message.contains("you exceeded your current quota")
    }

    fn is_context(&self, status: Option<u16>) -> bool {
        const CODES: [&str; 2] = ["context_length_exceeded", "exceed_context_size_error"];
        const PHRASES: [&str; 6] = [
            "prompt is too long",
            "exceed context limit",
            "maximum context length",
            "exceeds the available context size",
            "input token count exceeds",
            "exceeds the context window",
        ];
        let named = [self.code.as_deref(), self.kind.as_deref()].into_iter().flatten();
        let message = self.message.to_ascii_lowercase();
        status == Some(413)
            || self.kind.as_deref() == Some("request_too_large")
            || named.into_iter().any(|name| CODES.contains(&name))
            || PHRASES.iter().any(|phrase| message.contains(phrase))
    }

    fn class_of_kind(&self) -> Option<FailureClass> {
        Some(match self.kind.as_deref()? {
            "overloaded_error" => FailureClass::Overloaded,
            "rate_limit_error" | "rate_limit_exceeded" | "RESOURCE_EXHAUSTED" => FailureClass::RateLimited,
            "api_error" | "timeout_error" | "conflict_error" | "server_error" => FailureClass::Server,
            "authentication_error" | "permission_error" => FailureClass::Credentials,
            "invalid_request_error" | "not_found_error" => FailureClass::BadRequest,
            _ => return None,
        })
    }
}

/// What an HTTP status means when nothing better is known.
pub const fn class_of_status(status: u16) -> FailureClass {
    match status {
        401 | 403 | 407 => FailureClass::Credentials,
        402 => FailureClass::Quota,
        408 | 409 | 425 => FailureClass::Server,
        413 => FailureClass::ContextExceeded,
        429 => FailureClass::RateLimited,
        503 | 529 => FailureClass::Overloaded,
        500..=599 => FailureClass::Server,
        _ => FailureClass::BadRequest,
    }
}

fn words(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Array(list) => list.iter().find_map(|entry| words(entry.get("msg").unwrap_or(entry))),
        _ => None,
    }
}

/// The context window that an error's words name, as in `prompt is too long: 210000 tokens > 200000 maximum`.
pub fn window_in(message: &str) -> Option<u64> {
    let lower = message.to_ascii_lowercase();
    let too_long = lower.contains("too long") || lower.contains("context");
    if let Some((_, after)) = lower.split_once('>').filter(|_| too_long) {
        return first_number(after);
    }
    ["maximum context length is", "available context size (", "context window of"]
        .iter()
        .find_map(|phrase| first_number(lower.split_once(phrase)?.1))
}

fn first_number(text: &str) -> Option<u64> {
    let text = text.trim_start();
    let digits: String = text
        .chars()
        .take_while(|c| c.is_ascii_digit() || matches!(c, ',' | '_'))
        .filter(char::is_ascii_digit)
        .collect();
    digits.parse().ok().filter(|number| *number > 0)
}

/// A page or a text as one line: the title of HTML, else the words without tags.
fn plain_text(text: &str) -> String {
    let lower = text.to_ascii_lowercase();
    let title = lower.find("<title>").and_then(|from| {
        let from = from + "<title>".len();
        text.get(from..from + lower.get(from..)?.find("</title>")?)
    });
    if let Some(title) = title {
        return tidy(title);
    }
    let mut words = String::new();
    let mut depth = 0_usize;
    for c in text.chars().take(16 * MESSAGE_MAX_CHARS) {
        match c {
            '<' => depth += 1,
            '>' if depth > 0 => {
                depth -= 1;
                words.push(' ');
            }
            _ if depth == 0 => words.push(c),
            _ => {}
        }
    }
    tidy(&words)
}

/// One line of bounded length without control characters.
pub(crate) fn tidy(text: &str) -> String {
    let mut line = String::new();
    let mut count = 0;
    for c in text.trim().chars() {
        let c = if c.is_whitespace() || c.is_control() { ' ' } else { c };
        if c == ' ' && line.ends_with(' ') {
            continue;
        }
        if count == MESSAGE_MAX_CHARS {
            line.push('…');
            break;
        }
        line.push(c);
        count += 1;
    }
    line
}

#[cfg(test)]
#[path = "failure_tests.rs"]
mod tests;
