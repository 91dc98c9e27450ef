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
        // It is wanted in the tool loop that goes on; before the newest word of the user it may be left out.
        if rules.require_reasoning
            && Some(index) > messages.iter().rposition(|message| message["role"] == "user")
        {
            check_reasoning(index, message, first, ledger)?;
        }
    }
    Ok(())
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
    // By the signature and not by the id: a client may have had to give the call another one.
    let mut made = ledger.answers().flat_map(|sent| &sent.calls);
    if made.any(|known| signature(known) == Some(given)) || FOREIGN.contains(&given) {
        return Ok(());
    }
    refuse("Thought signature is not valid.".into())
}

fn check_reasoning(index: usize, message: &Value, call: &Value, ledger: &Ledger) -> Result<(), Refusal> {
    // An id that a server repeats stands for all answers that had it.
    let has_call = |sent: &&Sent| sent.calls.iter().any(|known| known["id"] == call["id"]);
    let mut missing = None;
    for sent in ledger.answers().filter(has_call) {
        match &sent.reasoning {
            Some((field, reasoning)) if message[*field].as_str() != Some(reasoning) => missing = Some(*field),
            _ => return Ok(()),
        }
    }
    let Some(field) = missing else { return Ok(()) };
    Err(invalid(format!("Missing `{field}` field in the assistant message at message index {index}.")))
}
