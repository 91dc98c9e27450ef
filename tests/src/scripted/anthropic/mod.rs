//! The Anthropic Messages dialect: what a request must look like, and how an answer is written.
//!
//! The rules are those that the real API enforces and that a harness can break; texts are the recorded ones
//! where a recording exists. Message texts are for people: a client may depend on `error.type` only.

mod cache;
mod messages;
mod rules;
mod stream;
mod thinking;

pub use messages::{message_blocks, without_cache_markers};
pub(super) use rules::{Version, check_key};
pub(super) use stream::{error_body, sent, write};
pub(super) use thinking::{Place, Seal};

use super::http::RawRequest;
use super::refusal::Shape;
use super::{Ledger, Refusal, Rules};
use serde_json::Value;

fn refuse(status: u16, kind: &'static str, message: impl Into<String>) -> Refusal {
    Refusal::new(Shape::Anthropic, status, kind, message)
}

fn invalid(message: impl Into<String>) -> Refusal {
    refuse(400, "invalid_request_error", message)
}

/// Checks a whole request. The first broken rule is the answer, as with the real API.
pub(super) fn check(raw: &RawRequest, rules: &Rules, ledger: &Ledger) -> Result<(), Refusal> {
    let version = rules::check_head(raw, rules)?;
    check_body(&raw.body, version, rules, ledger)
}

/// Checks what does not stand in the head.
pub(super) fn check_body(
    body: &[u8],
    version: Version,
    rules: &Rules,
    ledger: &Ledger,
) -> Result<(), Refusal> {
    if body.len() > rules::BODY_MAX_BYTES {
        return Err(refuse(413, "request_too_large", "Request exceeds the maximum size"));
    }
    let json: Value = serde_json::from_slice(body)
        .map_err(|error| invalid(format!("The request body is not valid JSON: {error}")))?;
    rules::check_body(&json, version, rules)?;
    messages::check(&json, rules, ledger)
}

pub(super) fn not_found() -> Refusal {
    refuse(404, "not_found_error", "Not found")
}
