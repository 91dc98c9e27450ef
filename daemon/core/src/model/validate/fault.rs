//! What can be wrong with a request, and where.
//!
//! Invariant: the names are stable; they stand in logs and in what people are told.

use std::fmt;

macro_rules! faults {
    ($($(#[$doc:meta])* $name:ident = $text:literal,)*) => {
        /// What is wrong with a request.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum FaultKind { $($(#[$doc])* $name,)* }
        impl FaultKind {
            /// Every kind.
            pub const ALL: &'static [Self] = &[$(Self::$name,)*];
            /// The stable name.
            pub const fn as_str(self) -> &'static str { match self { $(Self::$name => $text,)* } }
        }
    };
}

faults! {
    /// The model has no name.
    ModelEmpty = "model_empty",
    /// No output tokens are asked for, which cannot be streamed.
    MaxTokensZero = "max_tokens_zero",
    /// There are no messages.
    NoMessages = "no_messages",
    /// The first message is not ours.
    FirstNotUser = "first_not_user",
    /// The last message is the model's and is not to be continued.
    LastNotUser = "last_not_user",
    /// A message says nothing.
    MessageEmpty = "message_empty",
    /// A text has no visible character.
    TextEmpty = "text_empty",
    /// A block of the model is not an object with a type.
    BlockMalformed = "block_malformed",
    /// The input of a tool use is not an object.
    InputNotObject = "input_not_object",
    /// A tool use has no result in the next message.
    CallUnanswered = "call_unanswered",
    /// A result belongs to no call of the message before.
    ResultOrphan = "result_orphan",
    /// A call has two results.
    ResultRepeated = "result_repeated",
    /// A result stands after something else.
    ResultNotFirst = "result_not_first",
    /// Text stands after a tool use in a message of the model.
    TextAfterCall = "text_after_call",
    /// An id is empty.
    IdEmpty = "id_empty",
    /// An id has characters that are refused.
    IdIllegal = "id_illegal",
    /// Two tool uses share an id.
    IdRepeated = "id_repeated",
    /// Two messages in a row are from the same side.
    RoleRepeated = "role_repeated",
    /// The tools are not an array of objects.
    ToolsMalformed = "tools_malformed",
    /// More tools than a request may have.
    ToolsTooMany = "tools_too_many",
    /// The history has tool uses, and no tools are sent.
    ToolsMissing = "tools_missing",
    /// A tool's name is refused.
    ToolNameIllegal = "tool_name_illegal",
    /// Two tools share a name.
    ToolNameRepeated = "tool_name_repeated",
    /// An input schema is not of type object.
    SchemaNotObject = "schema_not_object",
    /// The body is too large.
    BodyTooLarge = "body_too_large",
    /// More cache markers than the API takes.
    TooManyMarkers = "too_many_markers",
    /// No encoder speaks the dialect.
    DialectUnknown = "dialect_unknown",
}

/// One fault and where it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestFault {
    /// What.
    pub kind: FaultKind,
    /// Which message, from 0; absent for faults of the whole request. For tools: absent.
    pub message: Option<usize>,
    /// Which part or block of the message, or which tool.
    pub part: Option<usize>,
    /// The id, name or size it is about.
    pub detail: String,
}

impl fmt::Display for RequestFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.kind.as_str())?;
        match (self.message, self.part) {
            (Some(message), Some(part)) => write!(f, " at messages.{message}.content.{part}")?,
            (Some(message), None) => write!(f, " at messages.{message}")?,
            (None, Some(tool)) => write!(f, " at tools.{tool}")?,
            (None, None) => {}
        }
        if self.detail.is_empty() { Ok(()) } else { write!(f, ": {}", self.detail) }
    }
}
