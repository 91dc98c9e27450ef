//! A model request in no dialect: what the prompt builder says and an encoder writes.
//!
//! Invariant: it borrows everything. What it holds is what is sent; an encoder adds only the dialect's frame
//! and cache markers.

use crate::event::ModelProfile;
use serde_json::value::RawValue;

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
    /// From the model: its blocks as it sent them.
    Assistant(Vec<&'a RawValue>),
}

/// One part of a message from us. Results stand first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UserPart<'a> {
    /// The result of a call.
    ToolResult {
        /// The provider's id of the call.
        provider_call_id: &'a str,
        /// What the model reads; may be empty.
        text: &'a str,
        /// Whether the call failed.
        is_error: bool,
    },
    /// Text; never empty.
    Text(&'a str),
}
