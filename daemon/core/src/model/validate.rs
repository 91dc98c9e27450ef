//! Refuses before sending what the API would refuse.
//!
//! Invariants: pure; every fault has a stable name and a position; a request without faults is taken by the
//! strictest server of the dialect that we know. All faults are found, not only the first.
//!
//! Deliberately absent: repair. A fault here is a bug of the builder or a damaged log, and is shown as such.

use crate::limits::REQUEST_BODY_MAX_BYTES;
use crate::model::anthropic::encode::{MARKERS_MAX, Markers, body_bytes};
use crate::model::ids::{is_legal_id, is_legal_name};
use crate::model::json::Object;
use crate::model::request::{Message, Request, UserPart};
use serde_json::value::RawValue;
use std::collections::BTreeSet;
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
    /// The tools are not an array of objects.
    ToolsMalformed = "tools_malformed",
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

/// Markers of one request that the API takes.
pub const API_MARKERS_MAX: usize = 4;

/// Whether the request can be sent; else everything that is wrong with it.
pub fn validate(request: &Request<'_>) -> Result<(), Vec<RequestFault>> {
    let mut check = Check { faults: Vec::new(), ids: BTreeSet::new() };
    check.frame(request);
    let tools = check.tools(request.tools);
    let mut open: Vec<String> = Vec::new();
    for (at, message) in request.messages.iter().enumerate() {
        match message {
            Message::User(parts) => {
                check.user(at, parts, &std::mem::take(&mut open));
            }
            Message::Assistant(blocks) => {
                check.unanswered(at.checked_sub(1), &std::mem::take(&mut open));
                open = check.assistant(at, blocks);
            }
        }
    }
    check.unanswered(request.messages.len().checked_sub(1), &open);
    if tools == 0 && !check.ids.is_empty() {
        check.add(FaultKind::ToolsMissing, None, None, "");
    }
    if check.faults.is_empty() { Ok(()) } else { Err(check.faults) }
}

struct Check {
    faults: Vec<RequestFault>,
    ids: BTreeSet<String>,
}

impl Check {
    fn add(
        &mut self,
        kind: FaultKind,
        message: Option<usize>,
        part: Option<usize>,
        detail: impl Into<String>,
    ) {
        self.faults.push(RequestFault { kind, message, part, detail: detail.into() });
    }

    fn frame(&mut self, request: &Request<'_>) {
        if request.profile.model.is_empty() {
            self.add(FaultKind::ModelEmpty, None, None, "");
        }
        if request.max_output_tokens == 0 {
            self.add(FaultKind::MaxTokensZero, None, None, "");
        }
        if !request.system.is_empty() && request.system.trim().is_empty() {
            self.add(FaultKind::TextEmpty, None, None, "system");
        }
        match (request.messages.first(), request.messages.last()) {
            (Some(first), Some(last)) => {
                if matches!(first, Message::Assistant(_)) {
                    self.add(FaultKind::FirstNotUser, Some(0), None, "");
                }
                if matches!(last, Message::Assistant(_)) != request.continuation {
                    self.add(FaultKind::LastNotUser, Some(request.messages.len() - 1), None, "");
                }
            }
            _ => self.add(FaultKind::NoMessages, None, None, ""),
        }
        let bytes = body_bytes(request, Markers::Sent);
        if bytes > REQUEST_BODY_MAX_BYTES {
            self.add(
                FaultKind::BodyTooLarge,
                None,
                None,
                format!("{bytes} bytes, at most {REQUEST_BODY_MAX_BYTES}"),
            );
        }
        let foreign = request.tools.get().matches("\"cache_control\"").count();
        let ours = if request.profile.cache_markers { MARKERS_MAX } else { 0 };
        if foreign + ours > API_MARKERS_MAX {
            self.add(FaultKind::TooManyMarkers, None, None, (foreign + ours).to_string());
        }
    }

    fn tools(&mut self, raw: &RawValue) -> usize {
        let Ok(tools) = serde_json::from_str::<Vec<&RawValue>>(raw.get()) else {
            self.add(FaultKind::ToolsMalformed, None, None, "not an array");
            return 0;
        };
        let mut names = BTreeSet::new();
        for (at, tool) in tools.iter().enumerate() {
            let Some(tool) = Object::parse(tool.get()) else {
                self.add(FaultKind::ToolsMalformed, None, Some(at), "not an object");
                continue;
            };
            let name = tool.text("name").unwrap_or_default();
            if !is_legal_name(&name) {
                self.add(FaultKind::ToolNameIllegal, None, Some(at), &name);
            }
            let schema = tool.get("input_schema").and_then(Object::parse);
            if schema.and_then(|schema| schema.text("type")).as_deref() != Some("object") {
                self.add(FaultKind::SchemaNotObject, None, Some(at), &name);
            }
            if !names.insert(name.clone()) {
                self.add(FaultKind::ToolNameRepeated, None, Some(at), name);
            }
        }
        tools.len()
    }

    fn user(&mut self, at: usize, parts: &[UserPart<'_>], open: &[String]) {
        if parts.is_empty() {
            self.add(FaultKind::MessageEmpty, Some(at), None, "");
        }
        let known: BTreeSet<&str> = open.iter().map(String::as_str).collect();
        let mut answered = BTreeSet::new();
        let mut other = false;
        for (place, part) in parts.iter().enumerate() {
            match part {
                UserPart::Text(text) => {
                    other = true;
                    if text.trim().is_empty() {
                        self.add(FaultKind::TextEmpty, Some(at), Some(place), "");
                    }
                }
                UserPart::ToolResult { provider_call_id: id, .. } => {
                    if other {
                        self.add(FaultKind::ResultNotFirst, Some(at), Some(place), *id);
                    }
                    if !known.contains(id) {
                        self.add(FaultKind::ResultOrphan, Some(at), Some(place), *id);
                    }
                    if !answered.insert(*id) {
                        self.add(FaultKind::ResultRepeated, Some(at), Some(place), *id);
                    }
                }
            }
        }
        for id in open.iter().filter(|id| !answered.contains(id.as_str())) {
            self.add(FaultKind::CallUnanswered, at.checked_sub(1), None, id);
        }
    }

    fn unanswered(&mut self, message: Option<usize>, open: &[String]) {
        for id in open {
            self.add(FaultKind::CallUnanswered, message, None, id);
        }
    }

    fn assistant(&mut self, at: usize, blocks: &[&RawValue]) -> Vec<String> {
        if blocks.is_empty() {
            self.add(FaultKind::MessageEmpty, Some(at), None, "");
        }
        let mut calls: Vec<String> = Vec::new();
        for (place, block) in blocks.iter().enumerate() {
            let parsed = Object::parse(block.get()).and_then(|block| Some((block.text("type")?, block)));
            let Some((kind, block)) = parsed else {
                self.add(FaultKind::BlockMalformed, Some(at), Some(place), "");
                continue;
            };
            match kind.as_str() {
                "text" => {
                    if block.text("text").unwrap_or_default().trim().is_empty() {
                        self.add(FaultKind::TextEmpty, Some(at), Some(place), "");
                    }
                    if !calls.is_empty() {
                        self.add(FaultKind::TextAfterCall, Some(at), Some(place), "");
                    }
                }
                "tool_use" => calls.push(self.call(at, place, &block)),
                _ => {}
            }
        }
        calls
    }

    fn call(&mut self, at: usize, place: usize, block: &Object) -> String {
        let id = block.text("id").unwrap_or_default();
        if id.is_empty() {
            self.add(FaultKind::IdEmpty, Some(at), Some(place), "");
        } else if !is_legal_id(&id) {
            self.add(FaultKind::IdIllegal, Some(at), Some(place), &id);
        }
        if !self.ids.insert(id.clone()) {
            self.add(FaultKind::IdRepeated, Some(at), Some(place), &id);
        }
        let name = block.text("name").unwrap_or_default();
        if !is_legal_name(&name) {
            self.add(FaultKind::ToolNameIllegal, Some(at), Some(place), name);
        }
        if block.get("input").and_then(Object::parse).is_none() {
            self.add(FaultKind::InputNotObject, Some(at), Some(place), &id);
        }
        id
    }
}

#[cfg(test)]
#[path = "validate_tests.rs"]
pub(crate) mod tests;
