//! What one part of an answer is, read from the JSON that will be sent.

use crate::event::Dialect;
use crate::model::json::Object;
use crate::model::openai_chat::said::Stored;
use crate::model::request::AnswerPart;

/// A part of an answer, as far as a server looks at it.
pub(super) enum Part {
    /// Text.
    Text {
        /// It has no visible character.
        is_blank: bool,
    },
    /// A call.
    Call {
        /// Its id; empty when it has none.
        id: String,
        /// The tool.
        name: String,
        /// Its input is an object.
        has_input: bool,
    },
    /// Anything else.
    Other,
}

/// Reads a part; none if it is not what the dialect knows.
pub(super) fn read(dialect: Dialect, part: &AnswerPart<'_>) -> Option<Part> {
    match (part, dialect) {
        (AnswerPart::Text(text), _) => Some(Part::Text { is_blank: text.trim().is_empty() }),
        (AnswerPart::Call { id, name, args }, _) => Some(Part::Call {
            id: id.clone().into_owned(),
            name: name.clone().into_owned(),
            has_input: Object::parse(args.get()).is_some(),
        }),
        (AnswerPart::Own { raw, .. }, Dialect::Anthropic) => anthropic(raw.get()),
        (AnswerPart::Own { raw, .. }, Dialect::OpenAiChat | Dialect::OpenAiResponses) => chat(raw.get()),
    }
}

fn anthropic(raw: &str) -> Option<Part> {
    let block = Object::parse(raw)?;
    Some(match block.text("type")?.as_str() {
        "text" => Part::Text { is_blank: block.text("text").unwrap_or_default().trim().is_empty() },
        "tool_use" => Part::Call {
            id: block.text("id").unwrap_or_default(),
            name: block.text("name").unwrap_or_default(),
            has_input: block.get("input").and_then(Object::parse).is_some(),
        },
        _ => Part::Other,
    })
}

fn chat(raw: &str) -> Option<Part> {
    Some(match Stored::parse(raw)? {
        Stored::Text(text) => {
            let text: String = serde_json::from_str(&text).ok()?;
            Part::Text { is_blank: text.trim().is_empty() }
        }
        Stored::Call => {
            let call = Object::parse(raw)?;
            let function = call.get("function").and_then(Object::parse)?;
            // The dialect writes arguments as a text; some servers parse it when it comes back.
            let arguments = function.text("arguments");
            Part::Call {
                id: call.text("id").unwrap_or_default(),
                name: function.text("name").unwrap_or_default(),
                has_input: arguments.and_then(|text| Object::parse(&text)).is_some(),
            }
        }
        Stored::Reasoning(..) | Stored::Details(_) | Stored::Thinking => Part::Other,
    })
}
