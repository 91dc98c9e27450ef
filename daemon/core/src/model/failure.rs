//! What a provider's error means.
//!
//! Purpose: read an error body of whatever shape and sort it into a [`FailureClass`]. What is definite decides: words
//! with one meaning (a code, a type), then the HTTP status, then words that everybody uses for everything; texts
//! decide only where providers have nothing else. The words are data, in `failure_words.rs`; what a refusal can be mended by
//! is in `failure_mend.rs`.
//!
//! Invariants: bounded in time and memory; money and keys are never retryable; the text for people holds no
//! control characters and has at most [`MESSAGE_MAX_CHARS`] characters.
//!
//! Deliberately absent: waiting, and the provider's name, which the caller knows.

#[path = "failure_mend.rs"]
mod mend;
#[path = "failure_words.rs"]
mod words;

use crate::event::FailureClass;
use serde_json::Value;
use words::{Strength, Word};

/// Characters kept of a provider's own words.
pub const MESSAGE_MAX_CHARS: usize = 600;
/// Characters shown of what a model wrote that its provider would not pass on.
const FAILED_GENERATION_MAX_CHARS: usize = 200;
/// Bodies within bodies that are read: a gateway repeats the error of the provider behind it.
const NESTED_BODIES_MAX: usize = 2;

/// What an error body or an error event says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProviderError {
    /// The type, as `overloaded_error`.
    pub kind: Option<String>,
    /// A finer, stable code, as `enforced_spend_limit_reached`.
    pub code: Option<String>,
    /// A code that is a number, which providers take from HTTP.
    pub number: Option<u16>,
    /// The field of the request that is refused, if the error names it apart from its words.
    pub param: Option<String>,
    /// The provider's words; empty when it had none.
    pub message: String,
    /// The context window, if the error names it.
    pub window: Option<u64>,
    /// The most output tokens that the model gives, if the error names them.
    pub output_max: Option<u32>,
    /// The wait that the body asks for, in milliseconds.
    pub retry_delay_ms: Option<u64>,
    /// The body says that a budget of a day or more is used up, whatever wait it names.
    day_is_used_up: bool,
}

impl ProviderError {
    /// Reads a body: Anthropic's shape, OpenAI's, Google's and llama.cpp's, a bare string, an array around one, `detail`
    /// of FastAPI, the error within the error of a gateway, an HTML page or plain text.
    pub fn read(body: &[u8]) -> Self {
        Self::read_within(body, NESTED_BODIES_MAX)
    }

    fn read_within(body: &[u8], depth: usize) -> Self {
        match serde_json::from_slice::<Value>(body) {
            Ok(value) => Self::from_value(&value, depth),
            Err(_) => Self { message: plain_text(&String::from_utf8_lossy(body)), ..Self::default() },
        }
    }

    fn from_value(value: &Value, depth: usize) -> Self {
        let value = value.as_array().and_then(|list| list.first()).unwrap_or(value);
        let inner = match value.get("error") {
            Some(error) if !error.is_null() => error,
            _ => value,
        };
        // `{"error": "words", "code": 500}`: what is not inside stands beside.
        let field = |name: &str| inner.get(name).or_else(|| value.get(name)).filter(|field| !field.is_null());
        let text = |name: &str| field(name).and_then(Value::as_str).map(str::to_owned);
        let message = [inner.get("message"), value.get("message"), value.get("detail"), Some(inner)]
            .into_iter()
            .flatten()
            .find_map(said)
            .unwrap_or_default();
        let behind = field("metadata").and_then(|metadata| error_behind(metadata, depth));
        let mut message = tidy(&message);
        if let Some(behind) = behind.as_ref().filter(|behind| !behind.message.is_empty()) {
            message = tidy(&format!("{message}: {}", behind.message));
        }
        if let Some(written) = text("failed_generation") {
            let written = shortened(&tidy(&written), FAILED_GENERATION_MAX_CHARS);
            message = format!("{message} (the model wrote: {written})");
        }
        let details = field("details").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
        let code = field("details")
            .and_then(|details| details.get("error_code"))
            .and_then(Value::as_str)
            .map(str::to_owned)
            .or_else(|| text("error_code"))
            .or_else(|| text("code").filter(|code| code.parse::<u16>().is_err()))
            .or_else(|| details.iter().find_map(|detail| detail.get("reason")?.as_str().map(str::to_owned)));
        let kind = ["type", "status", "error_type", "__type"].into_iter().find_map(text);
        Self {
            kind: kind.filter(|kind| kind != "error" && kind.parse::<u16>().is_err()),
            code: code.or_else(|| behind.as_ref().and_then(|behind| behind.code.clone())),
            number: field("code").and_then(number).or_else(|| field("status").and_then(number)),
            param: text("param"),
            window: field("n_ctx").and_then(Value::as_u64).or_else(|| window_in(&message)),
            output_max: output_max_in(&message),
            retry_delay_ms: details.iter().find_map(retry_delay_ms),
            day_is_used_up: details.iter().any(is_daily),
            message,
        }
    }

    /// What the error means. `status` is absent for an error inside a stream that began well. Whether the
    /// provider named a time to wait tells a rate from a used-up budget.
    pub fn class(&self, status: Option<u16>, has_retry_after: bool) -> FailureClass {
        // An answer that is an error in spite of its status has the one it names.
        let status =
            status.filter(|status| *status >= 300).or(self.number.filter(|n| (400..600).contains(n)));
        if self.is_quota(status, has_retry_after || self.retry_delay_ms.is_some()) {
            return FailureClass::Quota;
        }
        if self.is_context(status) {
            return FailureClass::ContextExceeded;
        }
        if status == Some(403) && words::phrase_in(&words::FORBIDDEN_BUT_NO_KEY, &self.lower()) {
            return FailureClass::BadRequest;
        }
        if words::phrase_in(&words::BAD_KEY, &self.lower()) && status.is_none_or(|status| status < 500) {
            return FailureClass::Credentials;
        }
        let named = self.word();
        match (named, status) {
            (Some(word), None) => word.class,
            (Some(word), Some(status)) if word.beats(status) => word.class,
            (_, Some(status)) => class_of_status(status),
            (None, None) => FailureClass::Server,
        }
    }

    /// The most definite word of the error: its code before its type.
    fn word(&self) -> Option<&'static Word> {
        let named = || [self.code.as_deref(), self.kind.as_deref()].into_iter().flatten();
        let rank = |strength| named().filter_map(words::find).find(|word| word.strength == strength);
        rank(Strength::Definite).or_else(|| rank(Strength::OfStatus)).or_else(|| rank(Strength::Vague))
    }

    fn lower(&self) -> String {
        self.message.to_ascii_lowercase()
    }

    fn is_quota(&self, status: Option<u16>, has_retry_after: bool) -> bool {
        let named = || [self.code.as_deref(), self.kind.as_deref()].into_iter().flatten();
        let is = |name: &str| named().any(|word| word == name);
        if self.day_is_used_up || named().any(|name| words::is_of(name, FailureClass::Quota)) {
            return true;
        }
        // Google says the same of a minute and of a day; a minute is waited for.
        let says_so = words::phrase_in(&words::QUOTA, &self.lower()) && !is("RESOURCE_EXHAUSTED");
        status == Some(402)
            || (is("ramp_limit_exceeded") && !has_retry_after)
            || (says_so && !has_retry_after)
    }

    fn is_context(&self, status: Option<u16>) -> bool {
        let mut named = [self.code.as_deref(), self.kind.as_deref()].into_iter().flatten();
        let message = self.lower();
        match status {
            Some(401 | 403) => false,
            // More than a minute's budget in one request never fits, however long one waits.
            Some(429) => words::phrase_in(&words::LARGER_THAN_THE_RATE, &message),
            _ => {
                named.any(|name| words::is_of(name, FailureClass::ContextExceeded))
                    || words::phrase_in(&words::CONTEXT, &message)
                    || words::phrase_in(&words::LARGER_THAN_THE_RATE, &message)
            }
        }
    }
}

/// What an HTTP status means when nothing better is known.
pub const fn class_of_status(status: u16) -> FailureClass {
    match status {
        401 | 403 | 407 => FailureClass::Credentials,
        402 => FailureClass::Quota,
        408 | 409 | 425 => FailureClass::Server,
        429 => FailureClass::RateLimited,
        // 498 is Groq's word for a full house.
        498 | 503 | 529 => FailureClass::Overloaded,
        500..=599 => FailureClass::Server,
        _ => FailureClass::BadRequest,
    }
}

/// The words in a value: a text, the first of a list that has one, or what an object says in its usual places.
fn said(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Array(list) => list.iter().find_map(|entry| said(entry.get("msg").unwrap_or(entry))),
        Value::Object(object) => ["message", "msg", "detail"]
            .into_iter()
            .filter_map(|name| object.get(name))
            .find_map(|inner| if inner.is_object() { None } else { said(inner) }),
        _ => None,
    }
}

fn number(value: &Value) -> Option<u16> {
    match value {
        Value::Number(number) => number.as_u64().and_then(|number| u16::try_from(number).ok()),
        Value::String(text) => text.parse().ok(),
        _ => None,
    }
}

/// The error of the provider behind a gateway, as `metadata.raw` of OpenRouter has it.
fn error_behind(metadata: &Value, depth: usize) -> Option<ProviderError> {
    let depth = depth.checked_sub(1)?;
    match metadata.get("raw")? {
        Value::String(text) => Some(ProviderError::read_within(text.as_bytes(), depth)),
        Value::Null => None,
        raw => Some(ProviderError::from_value(raw, depth)),
    }
}

/// `"retryDelay": "34.4s"` of Google's `RetryInfo`, or its form as an object.
fn retry_delay_ms(detail: &Value) -> Option<u64> {
    match detail.get("retryDelay")? {
        Value::String(text) => super::retry_after::duration_ms(text),
        Value::Object(parts) => {
            let seconds = parts.get("seconds").map_or(Some(0), |seconds| match seconds {
                Value::String(text) => text.parse().ok(),
                other => other.as_u64(),
            })?;
            let nanos = parts.get("nanos").and_then(Value::as_u64).unwrap_or(0);
            Some(seconds.saturating_mul(1_000).saturating_add(nanos.div_ceil(1_000_000)))
        }
        _ => None,
    }
}

/// Whether one of Google's quota violations is about a day.
fn is_daily(detail: &Value) -> bool {
    let violations =
        detail.get("violations").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    violations
        .iter()
        .filter_map(|violation| violation.get("quotaId")?.as_str())
        .any(|id| id.contains("PerDay") || id.contains("PerMonth"))
}

/// The context window that an error's words name, as in `prompt is too long: 210000 tokens > 200000 maximum`.
pub fn window_in(message: &str) -> Option<u64> {
    let lower = message.to_ascii_lowercase();
    let named = words::WINDOW_BEFORE.iter().find_map(|phrase| number_after(&lower, phrase));
    if named.is_some() {
        return named;
    }
    let behind = words::WINDOW_BEHIND.iter().find_map(|phrase| number_before(&lower, phrase));
    if behind.is_some() {
        return behind;
    }
    let too_long = lower.contains("too long") || lower.contains("context");
    let (_, after) = lower.split_once('>').filter(|_| too_long)?;
    first_number(after)
}

/// The most output tokens that an error's words allow, as in `max_tokens: 64000 > 32000, which is the maximum`.
pub fn output_max_in(message: &str) -> Option<u32> {
    let lower = message.to_ascii_lowercase();
    if !lower.contains("max_tokens")
        && !lower.contains("max_completion_tokens")
        && !lower.contains("max_output_tokens")
    {
        return None;
    }
    // A sum of prompt and answer is about the window.
    if words::phrase_in(&words::CONTEXT, &lower) {
        return None;
    }
    let compared = || {
        let (_, after) = lower.split_once('>')?;
        after.contains("maximum").then(|| first_number(after)).flatten()
    };
    let range = || {
        let (_, after) = lower.split_once("range of max_tokens is [")?;
        first_number(after.split_once(',')?.1)
    };
    let named = || words::OUTPUT_BEFORE.iter().find_map(|phrase| number_after(&lower, phrase));
    range().or_else(named).or_else(compared).and_then(|number| u32::try_from(number).ok())
}

fn number_after(lower: &str, phrase: &str) -> Option<u64> {
    first_number(lower.split_once(phrase)?.1)
}

fn number_before(lower: &str, phrase: &str) -> Option<u64> {
    let before = lower.split_once(phrase)?.0.trim_end();
    let start =
        before.rfind(|c: char| !(c.is_ascii_digit() || matches!(c, ',' | '_'))).map_or(0, |at| at + 1);
    first_number(before.get(start..)?)
}

fn first_number(text: &str) -> Option<u64> {
    let text = text.trim_start_matches([' ', ':', '`', '\'', '(', '"', '=']);
    let digits: String = text
        .chars()
        .take_while(|c| c.is_ascii_digit() || matches!(c, ',' | '_'))
        .filter(char::is_ascii_digit)
        .collect();
    digits.parse().ok().filter(|number| *number > 0)
}

/// The beginning of a text.
fn shortened(text: &str, max_chars: usize) -> String {
    let mut short: String = text.chars().take(max_chars).collect();
    if short.len() < text.len() {
        short.push('…');
    }
    short
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
