//! A model request in no dialect: what the prompt builder says and an encoder writes.
//!
//! Invariant: what it holds is what is sent; an encoder adds only the dialect's frame and cache markers. It
//! borrows all but the few ids and names that had to be changed.

use crate::event::{BlockKind, ModelProfile};
use serde_json::value::RawValue;
use std::borrow::Cow;

/// One request.
#[derive(Clone, Debug)]
pub struct Request<'a> {
    /// The model as it is spoken to.
    pub profile: &'a ModelProfile,
    /// The system text; empty for none.
    pub system: &'a str,
    /// The tools, as frozen in the epoch: an array of name, description and input schema.
    pub tools: &'a RawValue,
    /// The conversation.
    pub messages: Vec<Message<'a>>,
    /// Tokens of the answer at most.
    pub max_output_tokens: u32,
    /// The last message is the model's own, to be continued after `pause_turn`.
    pub continuation: bool,
}

/// One message.
#[derive(Clone, Debug)]
pub enum Message<'a> {
    /// From us.
    User(Vec<UserPart<'a>>),
    /// From a model. Calls stand last.
    Assistant(Vec<AnswerPart<'a>>),
}

/// One part of an answer.
#[derive(Clone, Debug)]
pub enum AnswerPart<'a> {
    /// A block of the very provider and dialect that is spoken to, spliced back byte for byte. Owned only where an
    /// id that repeats had to be changed in it.
    Own {
        /// What it is.
        kind: BlockKind,
        /// The provider's JSON.
        raw: Cow<'a, RawValue>,
    },
    /// What another model wrote; never blank.
    Text(&'a str),
    /// What another model called.
    Call {
        /// Its id, as the provider takes it.
        id: Cow<'a, str>,
        /// The tool, by a name that the provider takes.
        name: Cow<'a, str>,
        /// Its arguments: an object.
        args: &'a RawValue,
    },
}

impl<'a> AnswerPart<'a> {
    /// A block that goes back as it came.
    pub const fn own(kind: BlockKind, raw: &'a RawValue) -> Self {
        Self::Own { kind, raw: Cow::Borrowed(raw) }
    }

    /// Whether it is a call.
    pub const fn is_call(&self) -> bool {
        matches!(self, Self::Call { .. } | Self::Own { kind: BlockKind::ToolUse, .. })
    }
}

/// One part of a message from us. Results stand first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum UserPart<'a> {
    /// The result of a call.
    ToolResult {
        /// The id of the call in this request.
        provider_call_id: Cow<'a, str>,
        /// What the model reads; may be empty.
        text: &'a str,
        /// Whether the call failed.
        is_error: bool,
    },
    /// Text; never empty.
    Text(&'a str),
}

impl Request<'_> {
    /// Whether there are tools. An empty array of tools says nothing and is refused by some servers.
    pub(crate) fn has_tools(&self) -> bool {
        !self.tools.get().trim_start_matches('[').trim_start().starts_with(']') && self.tools.get() != "null"
    }
}
