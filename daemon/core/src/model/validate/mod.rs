//! Refuses before sending what the API would refuse.
//!
//! Invariants: pure; every fault has a stable name and a position; a request without faults is taken by the
//! strictest server of the dialect that we know. All faults are found, not only the first.
//!
//! Deliberately absent: repair. A fault here is a bug of the builder or a damaged log, and is shown as such.

mod fault;
mod part;

pub use fault::{FaultKind, RequestFault};

use self::part::Part;
use crate::event::Dialect;
use crate::limits::REQUEST_BODY_MAX_BYTES;
use crate::model::anthropic::encode::{MARKERS_MAX, Markers};
use crate::model::form::{self, IdForm};
use crate::model::json::Object;
use crate::model::request::{AnswerPart, Message, Request, UserPart};
use crate::model::{anthropic, openai_chat};
use serde_json::value::RawValue;
use std::collections::BTreeSet;

/// Markers of one request that the API takes.
pub const API_MARKERS_MAX: usize = 4;

/// Whether the request can be sent; else everything that is wrong with it.
pub fn validate(request: &Request<'_>) -> Result<(), Vec<RequestFault>> {
    let mut check = Check {
        dialect: request.profile.dialect,
        id_form: IdForm::of(request.profile),
        faults: Vec::new(),
        ids: BTreeSet::new(),
    };
    check.frame(request);
    check.ends(request);
    check.size(request);
    let tools = check.tools(request.tools);
    check.messages(&request.messages);
    if tools == 0 && !check.ids.is_empty() {
        check.add(FaultKind::ToolsMissing, None, None, "");
    }
    if check.faults.is_empty() { Ok(()) } else { Err(check.faults) }
}

struct Check {
    dialect: Dialect,
    id_form: IdForm,
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
    }

    fn ends(&mut self, request: &Request<'_>) {
        let (Some(first), Some(last)) = (request.messages.first(), request.messages.last()) else {
            self.add(FaultKind::NoMessages, None, None, "");
            return;
        };
        if matches!(first, Message::Assistant(_)) {
            self.add(FaultKind::FirstNotUser, Some(0), None, "");
        }
        // Only Anthropic pauses a turn that is continued without a word from us.
        let may_continue = request.continuation && self.dialect == Dialect::Anthropic;
        let ends_with_model = matches!(last, Message::Assistant(_));
        if ends_with_model != request.continuation || ends_with_model && !may_continue {
            self.add(FaultKind::LastNotUser, Some(request.messages.len() - 1), None, "");
        }
    }

    fn size(&mut self, request: &Request<'_>) {
        let bytes = match self.dialect {
            Dialect::Anthropic => anthropic::body_bytes(request, Markers::Sent),
            Dialect::OpenAiChat => openai_chat::body_bytes(request),
            Dialect::OpenAiResponses => {
                self.add(FaultKind::DialectUnknown, None, None, "openai-responses");
                return;
            }
        };
        if bytes > REQUEST_BODY_MAX_BYTES {
            self.add(
                FaultKind::BodyTooLarge,
                None,
                None,
                format!("{bytes} bytes, at most {REQUEST_BODY_MAX_BYTES}"),
            );
        }
        let ours = if request.profile.cache_markers { MARKERS_MAX } else { 0 };
        let foreign = request.tools.get().matches("\"cache_control\"").count();
        if self.dialect == Dialect::Anthropic && foreign + ours > API_MARKERS_MAX {
            self.add(FaultKind::TooManyMarkers, None, None, (foreign + ours).to_string());
        }
    }

    fn tools(&mut self, raw: &RawValue) -> usize {
        let Ok(tools) = serde_json::from_str::<Vec<&RawValue>>(raw.get()) else {
            self.add(FaultKind::ToolsMalformed, None, None, "not an array");
            return 0;
        };
        if self.dialect != Dialect::Anthropic && tools.len() > form::CHAT_TOOLS_MAX {
            let detail = format!("{}, at most {}", tools.len(), form::CHAT_TOOLS_MAX);
            self.add(FaultKind::ToolsTooMany, None, None, detail);
        }
        let mut names = BTreeSet::new();
        for (at, tool) in tools.iter().enumerate() {
            let Some(tool) = Object::parse(tool.get()) else {
                self.add(FaultKind::ToolsMalformed, None, Some(at), "not an object");
                continue;
            };
            let name = tool.text("name").unwrap_or_default();
            if !form::takes_name(self.dialect, &name) {
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

    fn messages(&mut self, messages: &[Message<'_>]) {
        let mut open: Vec<String> = Vec::new();
        let mut before: Option<bool> = None;
        for (at, message) in messages.iter().enumerate() {
            let ours = matches!(message, Message::User(_));
            // Anthropic merges such messages itself.
            if before.replace(ours) == Some(ours) && self.dialect != Dialect::Anthropic {
                self.add(FaultKind::RoleRepeated, Some(at), None, "");
            }
            match message {
                Message::User(parts) => self.user(at, parts, &std::mem::take(&mut open)),
                Message::Assistant(parts) => {
                    self.unanswered(at.checked_sub(1), &std::mem::take(&mut open));
                    open = self.assistant(at, parts);
                }
            }
        }
        self.unanswered(messages.len().checked_sub(1), &open);
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
                    let id = &**id;
                    if other {
                        self.add(FaultKind::ResultNotFirst, Some(at), Some(place), id);
                    }
                    if !known.contains(id) {
                        self.add(FaultKind::ResultOrphan, Some(at), Some(place), id);
                    }
                    if !answered.insert(id) {
                        self.add(FaultKind::ResultRepeated, Some(at), Some(place), id);
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

    fn assistant(&mut self, at: usize, parts: &[AnswerPart<'_>]) -> Vec<String> {
        let mut calls: Vec<String> = Vec::new();
        let mut says_something = false;
        for (place, part) in parts.iter().enumerate() {
            let Some(part) = part::read(self.dialect, part) else {
                says_something = true;
                self.add(FaultKind::BlockMalformed, Some(at), Some(place), "");
                continue;
            };
            // Reasoning alone is a message at Anthropic only.
            says_something |= self.dialect == Dialect::Anthropic || !matches!(part, Part::Other);
            match part {
                Part::Text { is_blank } => {
                    if is_blank {
                        self.add(FaultKind::TextEmpty, Some(at), Some(place), "");
                    }
                    // The other dialects keep calls apart from text.
                    if !calls.is_empty() && self.dialect == Dialect::Anthropic {
                        self.add(FaultKind::TextAfterCall, Some(at), Some(place), "");
                    }
                }
                Part::Call { id, name, has_input } => {
                    self.call(at, place, &id, &name, has_input);
                    calls.push(id);
                }
                Part::Other => {}
            }
        }
        if !says_something {
            self.add(FaultKind::MessageEmpty, Some(at), None, "");
        }
        calls
    }

    fn call(&mut self, at: usize, place: usize, id: &str, name: &str, has_input: bool) {
        if id.is_empty() {
            self.add(FaultKind::IdEmpty, Some(at), Some(place), "");
        } else if !self.id_form.takes(id) {
            self.add(FaultKind::IdIllegal, Some(at), Some(place), id);
        }
        if !self.ids.insert(id.to_owned()) {
            self.add(FaultKind::IdRepeated, Some(at), Some(place), id);
        }
        if !form::takes_name(self.dialect, name) {
            self.add(FaultKind::ToolNameIllegal, Some(at), Some(place), name);
        }
        if !has_input {
            self.add(FaultKind::InputNotObject, Some(at), Some(place), id);
        }
    }
}

#[cfg(test)]
#[path = "validate_tests.rs"]
pub(crate) mod tests;
