//! What a refused request can be mended by, as its refusal says.
//!
//! Texts, because no provider has a code for it. Each row names the words that have to be there, all of them; the
//! first row that fits decides. A refusal that no row knows is not mended: guessing would send requests for nothing.

use super::ProviderError;
use crate::event::{FailureClass, Mend};

/// A row: all of these are in the text.
type Row = (&'static [&'static str], Mend);

/// Texts with one meaning. In lower case.
const TEXTS: [Row; 18] = [
    (&["invalid `signature` in `thinking`"], Mend::StripThinking),
    (&["signature", "`thinking` block"], Mend::StripThinking),
    (&["`thinking` or `redacted_thinking` blocks", "cannot be modified"], Mend::StripThinking),
    (&["thinking", "blocks", "must remain as they were"], Mend::StripThinking),
    (&["encrypted content", "could not be"], Mend::StripThinking),
    (&["of type 'reasoning'", "without its required following item"], Mend::StripThinking),
    (&["messages.", ".thinking: extra inputs are not permitted"], Mend::StripThinking),
    (&["messages.", ".signature: extra inputs are not permitted"], Mend::StripThinking),
    (&["messages.", "input tag 'thinking' found"], Mend::StripThinking),
    // A server that wants a message to begin with thinking does not want it when nobody asks for thinking.
    (&["expected `thinking`"], Mend::OmitThinkingForm),
    (&["adaptive thinking is not supported"], Mend::OmitThinkingForm),
    (&["thinking: extra inputs are not permitted"], Mend::OmitThinkingForm),
    (&["thinking.", "extra inputs are not permitted"], Mend::OmitThinkingForm),
    (&["thinking.type", "not supported"], Mend::OmitThinkingForm),
    (&["thinking", "'adaptive'", "does not match"], Mend::OmitThinkingForm),
    (&["does not support thinking"], Mend::OmitThinkingForm),
    (&["thinking is not supported"], Mend::OmitThinkingForm),
    (&["thinking", "should be 'enabled' or 'disabled'"], Mend::OmitThinkingForm),
];

/// Fields that servers refuse, and what follows.
const FIELDS: [(&str, Mend); 8] = [
    ("reasoning_content", Mend::StripThinking),
    ("reasoning_details", Mend::StripThinking),
    ("max_tokens", Mend::RenameMaxTokens),
    ("max_completion_tokens", Mend::RenameMaxTokens),
    // Behind the others: it is an ordinary word too.
    ("reasoning", Mend::StripThinking),
    ("stream_options", Mend::OmitStreamOptions),
    ("include_usage", Mend::OmitStreamOptions),
    ("thinking", Mend::OmitThinkingForm),
];

/// How servers say that they do not want a field at all. In lower case.
const REFUSED: [&str; 27] = [
    // The first deepseek-reasoner: "please remove the reasoning_content from your message".
    "please remove the",
    "not supported",
    "unsupported",
    "not permitted",
    "extra inputs",
    "extra fields",
    "extra_forbidden",
    "unrecognized",
    "unrecognised",
    // Ordinary words say it only of a field.
    "unknown parameter",
    "unknown argument",
    "unknown field",
    "unknown name",
    "unknown key",
    "unknown property",
    "unexpected parameter",
    "unexpected argument",
    "unexpected field",
    "unexpected keyword",
    "unexpected property",
    "additional propert",
    "does not support",
    "doesn't support",
    "no such field",
    "cannot find field",
    "cannot be used",
    "is not allowed here",
];

/// Codes that say it.
const REFUSED_CODES: [&str; 3] = ["unsupported_parameter", "unknown_parameter", "extra_forbidden"];

impl ProviderError {
    /// What would mend the request. Only for a refusal of the request itself.
    pub fn mend(&self, status: Option<u16>) -> Option<Mend> {
        if self.class(status, false) != FailureClass::BadRequest || status == Some(404) {
            return None;
        }
        let lower = self.message.to_ascii_lowercase();
        let text = TEXTS.iter().find(|(all, _)| all.iter().all(|part| lower.contains(part)));
        if let Some((_, mend)) = text {
            return Some(*mend);
        }
        // Nothing but its refusal is ever said about this one.
        if lower.contains("stream_options")
            || self.param.as_deref().is_some_and(|p| p.starts_with("stream_options"))
        {
            return Some(Mend::OmitStreamOptions);
        }
        let by_code = self.code.as_deref().is_some_and(|code| REFUSED_CODES.contains(&code));
        if !by_code && !REFUSED.iter().any(|words| lower.contains(words)) {
            return None;
        }
        let named = |field: &str| match &self.param {
            // `messages[2].reasoning_content`: the last part is the field.
            Some(param) => param.rsplit(['.', ']']).next() == Some(field),
            None => names(&lower, field),
        };
        FIELDS.iter().find(|(field, _)| named(field)).map(|(_, mend)| *mend)
    }
}

/// Whether a text holds a field's name, and not as a part of a longer one.
fn names(lower: &str, field: &str) -> bool {
    let part = |c: char| c.is_ascii_alphanumeric() || c == '_';
    lower.match_indices(field).any(|(at, _)| {
        let before = lower[..at].chars().next_back();
        let after = lower[at + field.len()..].chars().next();
        !before.is_some_and(part) && !after.is_some_and(part)
    })
}

#[cfg(test)]
#[path = "failure_mend_tests.rs"]
mod tests;
