//! Errors inside a stream that began well.
//!
//! Invariant: an error is never taken for an answer, whatever its shape and wherever it stands.

use crate::event::FailureClass;
use crate::model::failure::{ProviderError, tidy};
use crate::model::json::{Fields, list};
use crate::model::live::DecodeFailure;

/// Whether an object is, or holds, an error.
pub(super) fn is_error(fields: &Fields<'_>, has_choices: bool) -> bool {
    match fields.get("error") {
        Some("false" | "\"\"" | "{}" | "[]") if has_choices => false,
        Some(_) => true,
        None if has_choices => false,
        None => {
            let says = |key: &str| fields.text(key).is_some_and(|word| word == "error");
            let names_code = fields.get("message").is_some() && fields.get("code").is_some();
            says("type") || says("object") || fields.get("detail").is_some() || names_code
        }
    }
}

/// Whether data that is not an object is an error in a list.
pub(super) fn is_error_list(text: &str) -> bool {
    let first = list(text).and_then(|entries| entries.first().copied());
    first.and_then(|raw| Fields::parse(raw.get())).is_some_and(|fields| is_error(&fields, false))
}

/// What the error means.
pub(super) fn read(text: &str) -> DecodeFailure {
    let error = ProviderError::read(text.as_bytes());
    let inner = Inner::read(text);
    if error.code.as_deref() == Some("tool_use_failed") || inner.has_failed_call {
        // The words hold what the model wrote, shortened.
        let message = format!("the server did not take the tool call of the model: {}", error.message);
        return DecodeFailure::new(FailureClass::Malformed, message);
    }
    let kind = match (&error.kind, &error.code, inner.status) {
        (Some(kind), _, _) | (None, Some(kind), _) => tidy(kind),
        (None, None, Some(status)) => format!("error {status}"),
        (None, None, None) => "an error".to_owned(),
    };
    let message = format!("the stream broke off with {kind}: {}", error.message);
    let class = error.class(inner.status, false);
    DecodeFailure {
        learned_window: error.window.filter(|_| class == FailureClass::ContextExceeded),
        retry_after_ms: error.retry_delay_ms,
        ..DecodeFailure::new(class, message)
    }
}

struct Inner {
    status: Option<u16>,
    has_failed_call: bool,
}

impl Inner {
    fn read(text: &str) -> Self {
        let first = list(text).and_then(|entries| entries.first().copied());
        let outer = Fields::parse(first.map_or(text, |raw| raw.get())).unwrap_or_default();
        let inner = outer.object("error").unwrap_or_default();
        let number =
            |name: &str| [inner.get(name), outer.get(name)].into_iter().flatten().find_map(status_of);
        Self {
            status: number("code").or_else(|| number("status_code")).or_else(|| number("status")),
            has_failed_call: inner.text("failed_generation").is_some(),
        }
    }
}

/// The HTTP status that a number stands for: itself, or with two more digits, as 40001.
fn status_of(raw: &str) -> Option<u16> {
    let number: u64 = raw.trim_matches('"').parse().ok()?;
    let status = if number >= 10_000 { number / 100 } else { number };
    u16::try_from(status).ok().filter(|status| (400..600).contains(status))
}
