//! What ids of calls and names of tools the server takes that is spoken to.
//!
//! Invariant: the builder and the validator ask the same questions here, so the one never sends what the other
//! refuses.

use super::ids::{TOOL_NAME_MAX_BYTES, is_legal_id};
use super::json::{Object, quoted};
use crate::event::{CallIdForm, Dialect, ModelProfile};
use serde_json::value::RawValue;

/// Bytes of a tool's name in the Chat Completions dialect.
pub(crate) const CHAT_NAME_MAX_BYTES: usize = 64;
/// Tools of one request in the Chat Completions dialect: `OpenAI` takes no more.
pub(crate) const CHAT_TOOLS_MAX: usize = 128;
/// Characters of a call's id that came from elsewhere: `OpenAI` takes 40 and no more, and so do its copies.
const CHAT_FOREIGN_ID_MAX_CHARS: usize = 40;
/// Bytes of a call's id that came from elsewhere, for Anthropic and its copies.
const ANTHROPIC_FOREIGN_ID_MAX_BYTES: usize = 64;
/// Characters of a call's id at Mistral.
pub(crate) const NINE: usize = 9;

/// What ids of calls a server takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum IdForm {
    /// Letters, digits, `_` and `-`.
    Anthropic,
    /// Any text.
    Chat,
    /// Exactly nine letters and digits.
    Nine,
}

impl IdForm {
    /// Of the server that is spoken to.
    pub(crate) fn of(profile: &ModelProfile) -> Self {
        match (profile.dialect, profile.chat.call_ids) {
            (Dialect::Anthropic, _) => Self::Anthropic,
            (_, CallIdForm::NineAlphanumeric) => Self::Nine,
            (_, CallIdForm::Any) => Self::Chat,
        }
    }

    /// Whether it takes this id.
    pub(crate) fn takes(self, id: &str) -> bool {
        match self {
            Self::Anthropic => is_legal_id(id),
            Self::Chat => !id.is_empty(),
            Self::Nine => id.len() == NINE && id.bytes().all(|byte| byte.is_ascii_alphanumeric()),
        }
    }

    /// Whether it takes this id when it has not made it itself: what a server sends it also takes back, however
    /// long.
    pub(crate) fn takes_foreign(self, id: &str) -> bool {
        self.takes(id)
            && match self {
                Self::Anthropic => id.len() <= ANTHROPIC_FOREIGN_ID_MAX_BYTES,
                Self::Chat => id.chars().count() <= CHAT_FOREIGN_ID_MAX_CHARS,
                Self::Nine => true,
            }
    }
}

/// Bytes of a tool's name at most.
pub(crate) const fn name_max_bytes(dialect: Dialect) -> usize {
    match dialect {
        Dialect::Anthropic => TOOL_NAME_MAX_BYTES,
        Dialect::OpenAiChat | Dialect::OpenAiResponses => CHAT_NAME_MAX_BYTES,
    }
}

/// Whether a tool may have this name.
pub(crate) fn takes_name(dialect: Dialect, name: &str) -> bool {
    is_legal_id(name) && name.len() <= name_max_bytes(dialect)
}

/// Whether the server wants a word of the model between results and what we say next. Mistral refuses "role 'user'
/// after role 'tool'"; it is known by its ids.
pub(crate) fn wants_word_after_results(profile: &ModelProfile) -> bool {
    IdForm::of(profile) == IdForm::Nine
}

/// A call under another id; both dialects have it at the top.
pub(crate) fn with_id(raw: &RawValue, id: &str) -> Box<RawValue> {
    let renamed = Object::parse(raw.get()).and_then(|mut block| {
        block.set("id", &quoted(id));
        RawValue::from_string(block.render()).ok()
    });
    renamed.unwrap_or_else(|| raw.to_owned())
}
