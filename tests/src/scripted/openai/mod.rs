//! The Chat Completions dialect: what a request must look like, and how an answer is written.
//!
//! The rules are OpenAI's, with texts as recorded or documented; where compatible servers are stricter and a harness
//! can please all of them, the stricter rule holds (`system` first, one user message before any answer, arguments
//! that are JSON). What only some servers refuse is a switch of [`Rules`].

mod calls;
mod messages;
mod quirk;
mod replay;
mod rules;
mod stream;

pub(super) use messages::{content_text, tool_results};
pub use quirk::Quirk;
pub(super) use rules::check_key;
pub(super) use stream::{error_body, sent, write};

use super::http::RawRequest;
use super::refusal::Shape;
use super::{Ledger, Refusal, Rules};
use serde_json::Value;

fn refuse(status: u16, kind: &'static str, message: impl Into<String>) -> Refusal {
    Refusal::new(Shape::OpenAi, status, kind, message)
}

fn invalid(message: impl Into<String>) -> Refusal {
    refuse(400, "invalid_request_error", message)
}

/// Checks a whole request. The first broken rule is the answer.
pub(super) fn check(raw: &RawRequest, rules: &Rules, ledger: &Ledger) -> Result<(), Refusal> {
    rules::check_head(raw, rules)?;
    check_body(&raw.body, rules, ledger)
}

/// Checks what does not stand in the head.
pub(super) fn check_body(body: &[u8], rules: &Rules, ledger: &Ledger) -> Result<(), Refusal> {
    if body.len() > rules::BODY_MAX_BYTES {
        return Err(refuse(413, "invalid_request_error", "Request body too large").code("request_too_large"));
    }
    let json: Value = serde_json::from_slice(body)
        .map_err(|error| invalid(format!("We could not parse the JSON body of your request. ({error})")))?;
    rules::check_body(&json, rules)?;
    messages::check(&json, rules, ledger)
}

pub(super) fn not_found(target: &str) -> Refusal {
    refuse(404, "invalid_request_error", format!("Invalid URL ({target})"))
}
