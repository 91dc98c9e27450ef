//! What came with an answer and must come back with it: thought signatures and reasoning.

use super::messages::calls;
use super::{Refusal, invalid};
use crate::scripted::ledger::Sent;
use crate::scripted::refusal::Shape;
use crate::scripted::{Ledger, Rules};
use serde_json::Value;

/// What Google documents for calls that Gemini did not make.
const FOREIGN: [&str; 2] = ["skip_thought_signature_validator", "context_engineering_is_the_way_to_go"];

pub(super) fn check(messages: &[Value], rules: &Rules, ledger: &Ledger) -> Result<(), Refusal> {
    for (index, message) in messages.iter().enumerate() {
        let Some(first) = calls(message).first() else { continue };
        if rules.thought_signatures {
            check_signature(index, first, ledger)?;
        }
        if rules.require_reasoning {
            check_reasoning(index, message, first, ledger)?;
        }
    }
    Ok(())
}

fn answer_with<'a>(call: &Value, ledger: &'a Ledger) -> Option<&'a Sent> {
    ledger.answers().find(|sent| sent.calls.iter().any(|known| known["id"] == call["id"]))
}

/// The thought signature of a call, in any of the places that servers have for it.
fn signature(call: &Value) -> Option<&str> {
    let extra = &call["extra_content"];
    let places = [&extra["google"], &extra["vertex"], call];
    places.into_iter().find_map(|place| place["thought_signature"].as_str())
}

fn check_signature(index: usize, call: &Value, ledger: &Ledger) -> Result<(), Refusal> {
    let refuse = |message: String| Err(Refusal::new(Shape::Gemini, 400, "INVALID_ARGUMENT", message));
    let name = call["function"]["name"].as_str().unwrap_or_default();
    let Some(given) = signature(call) else {
        return refuse(format!(
            "Function call is missing a thought_signature in functionCall parts. This is required for tools to work \
             correctly, and missing thought_signature may lead to degraded model performance. Additional data, \
             function call `default_api:{name}`, position {index}."
        ));
    };
    let sent = answer_with(call, ledger).into_iter().flat_map(|sent| &sent.calls);
    let known = sent.filter(|known| known["id"] == call["id"]).find_map(signature);
    match known {
        Some(known) if known == given => Ok(()),
        None if FOREIGN.contains(&given) => Ok(()),
        _ => refuse("Thought signature is not valid.".into()),
    }
}

fn check_reasoning(index: usize, message: &Value, call: &Value, ledger: &Ledger) -> Result<(), Refusal> {
    let sent = answer_with(call, ledger).and_then(|sent| sent.reasoning.as_ref());
    let Some((field, reasoning)) = sent else { return Ok(()) };
    if message[*field].as_str() == Some(reasoning) {
        return Ok(());
    }
    Err(invalid(format!("Missing `{field}` field in the assistant message at message index {index}.")))
}
