//! One content block while it streams, and what it becomes.
//!
//! Invariants: the shell that began the block keeps its keys and their order; only what deltas said is put
//! into it. A block that no delta touched goes on byte for byte. Whatever came, the result is an object that
//! the provider accepts back: the input of a tool use is always an object.

use crate::event::{Block, BlockCall, BlockKind};
use crate::model::args::{CUT_OFF, object_fault};
use crate::model::ids::{TOOL_NAME_MAX_BYTES, is_legal_name, legal_name};
use crate::model::json::{Growing, Object, quoted, string_bytes};
use crate::model::warnings::{ARGS_BROKEN, ID_REPLACED, NAME_MENDED, UNKNOWN_PIECE, Warnings};
use serde_json::value::RawValue;
use std::sync::Arc;

/// A block that has begun.
#[derive(Debug)]
pub(super) struct OpenBlock {
    pub(super) kind: BlockKind,
    shell: Object,
    shell_raw: Box<str>,
    grown: Vec<(&'static str, Growing)>,
    args: Option<Growing>,
    citations: Option<Vec<Box<str>>>,
    touched: bool,
    altered: bool,
    /// A piece of it was left out.
    incomplete: bool,
    stopped: bool,
    /// Bytes of content that came, as JSON writes them.
    pub(super) bytes: usize,
}

/// A piece of a block that people may see.
pub(super) struct Shown {
    pub(super) offset: usize,
    pub(super) text: String,
}

/// What a delta came to.
pub(super) enum Applied {
    /// It is in; there may be something to show.
    Yes(Option<Shown>),
    /// Its type is known and its content is not what the type says.
    Malformed(&'static str),
}

impl OpenBlock {
    /// Begins a block from its shell; none if that is not an object with a type.
    pub(super) fn start(shell_raw: &str) -> Option<Self> {
        let shell = Object::parse(shell_raw)?;
        let kind = match shell.text("type")?.as_str() {
            "text" => BlockKind::Text,
            "thinking" => BlockKind::Thinking,
            "redacted_thinking" => BlockKind::RedactedThinking,
            "tool_use" => BlockKind::ToolUse,
            _ => BlockKind::Other,
        };
        Some(Self {
            kind,
            shell,
            shell_raw: shell_raw.into(),
            grown: Vec::new(),
            args: None,
            citations: None,
            touched: false,
            altered: false,
            incomplete: false,
            stopped: false,
            bytes: shell_raw.len(),
        })
    }

    /// Whether this shell is the one that the block began with, and nothing came since.
    pub(super) fn is_echo(&self, shell_raw: &str) -> bool {
        !self.stopped && !self.touched && *self.shell_raw == *shell_raw
    }

    pub(super) fn stop(&mut self) {
        self.stopped = true;
    }

    /// The text so far of a block for readers.
    pub(super) fn shown_text(&self) -> Option<String> {
        let field = self.shown_field()?;
        match self.grown.iter().find(|entry| entry.0 == field) {
            Some((_, text)) => Some(text.as_str().to_owned()),
            None => self.shell.text(field),
        }
    }

    fn shown_field(&self) -> Option<&'static str> {
        match self.kind {
            BlockKind::Text => Some("text"),
            BlockKind::Thinking => Some("thinking"),
            _ => None,
        }
    }

    /// Applies one delta, given as its raw JSON.
    pub(super) fn apply(&mut self, delta_raw: &str) -> Applied {
        let Some(delta) = Object::parse(delta_raw) else {
            return Applied::Malformed("a delta is not an object");
        };
        let before = self.touched;
        self.touched = true;
        match delta.text("type").unwrap_or_default().as_str() {
            "text_delta" => return self.grow("text", &delta, "a text_delta has no text"),
            "thinking_delta" => return self.grow("thinking", &delta, "a thinking_delta has no thinking"),
            "input_json_delta" => {
                let raw = delta.get("partial_json").unwrap_or_default();
                let Some(piece) = string_bytes(raw) else {
                    return Applied::Malformed("an input_json_delta has no partial_json");
                };
                self.bytes += raw.len().saturating_sub(2);
                self.args.get_or_insert_default().push_json(&piece);
            }
            // The newest signature is the signature; it is never a piece of one.
            "signature_delta" => match delta.get("signature") {
                Some(signature) => {
                    self.bytes += signature.len();
                    self.shell.set("signature", signature);
                }
                None => return Applied::Malformed("a signature_delta has no signature"),
            },
            "citations_delta" => match delta.get("citation") {
                Some(citation) => {
                    self.bytes += citation.len();
                    self.citations_mut().push(citation.into());
                }
                None => return Applied::Malformed("a citations_delta has no citation"),
            },
            "compaction_delta" => {
                if let Some(content) = delta.get("encrypted_content") {
                    self.bytes += content.len();
                    self.shell.set("encrypted_content", content);
                }
                if delta.get("content").is_some() {
                    return self.grow("content", &delta, "a compaction_delta has no text");
                }
            }
            // A kind of piece that this build does not know: the block is then not what the provider made.
            _ => {
                self.touched = before;
                self.altered = true;
                self.incomplete = true;
            }
        }
        Applied::Yes(None)
    }

    fn grow(&mut self, field: &'static str, delta: &Object, missing: &'static str) -> Applied {
        let raw = delta.get(field).unwrap_or_default();
        let Some(piece) = string_bytes(raw) else {
            return Applied::Malformed(missing);
        };
        // Without the quotes.
        self.bytes += raw.len().saturating_sub(2);
        let at = match self.grown.iter().position(|entry| entry.0 == field) {
            Some(at) => at,
            None => {
                let mut text = Growing::default();
                text.push(self.shell.text(field).unwrap_or_default().as_bytes());
                self.grown.push((field, text));
                self.grown.len() - 1
            }
        };
        let text = &mut self.grown[at].1;
        let offset = text.push(&piece);
        let added = text.as_str()[offset..].to_owned();
        let shown = self.shown_field() == Some(field) && !added.is_empty();
        Applied::Yes(shown.then_some(Shown { offset, text: added }))
    }

    fn citations_mut(&mut self) -> &mut Vec<Box<str>> {
        let shell = &self.shell;
        self.citations.get_or_insert_with(|| {
            let listed =
                shell.get("citations").and_then(|raw| serde_json::from_str::<Vec<&RawValue>>(raw).ok());
            listed.unwrap_or_default().into_iter().map(|raw| raw.get().into()).collect()
        })
    }

    /// The finished block; none if it is text without a visible character, which no provider takes back.
    /// `ids` gives a tool use its id: the provider's own, or another where that cannot be sent.
    /// `cut` says that an output limit may have ended the answer inside this block.
    pub(super) fn finish(
        mut self,
        cut: bool,
        ids: &mut dyn FnMut(&str) -> String,
        warnings: &mut Warnings,
    ) -> Option<Block> {
        if self.incomplete {
            warnings.add(UNKNOWN_PIECE);
        }
        for (field, text) in &mut self.grown {
            text.close();
            self.shell.set(field, &quoted(text.as_str()));
        }
        if let Some(citations) = self.citations.take() {
            self.shell.set("citations", &format!("[{}]", citations.join(",")));
        }
        let text = self.shown_text();
        // Spaces between two texts are part of what is read; the request leaves such a block out.
        if self.kind == BlockKind::Text && text.as_deref().unwrap_or_default().is_empty() {
            return None;
        }
        let call = match self.kind {
            BlockKind::ToolUse => Some(self.finish_call(cut, ids, warnings)),
            _ => {
                self.finish_input();
                None
            }
        };
        let raw = if self.touched { self.shell.render() } else { String::from(self.shell_raw) };
        let raw = RawValue::from_string(raw).ok()?;
        Some(Block { kind: self.kind, raw: Arc::from(raw), text, call, altered: self.altered })
    }

    /// The input of a server's own tool: sent back, never run.
    fn finish_input(&mut self) {
        let Some(args) = self.closed_args() else { return };
        match object_fault(&args) {
            None => self.shell.set("input", &args),
            Some(_) => {
                self.shell.set("input", "{}");
                self.altered = true;
            }
        }
    }

    /// The arguments as they streamed, if any text of them came.
    fn closed_args(&mut self) -> Option<String> {
        let mut args = self.args.take()?;
        args.close();
        let text = args.as_str().trim();
        (!text.is_empty()).then(|| text.to_owned())
    }

    fn finish_call(
        &mut self,
        cut: bool,
        ids: &mut dyn FnMut(&str) -> String,
        warnings: &mut Warnings,
    ) -> BlockCall {
        let given = self.shell.text("id").unwrap_or_default();
        let id = ids(&given);
        if id != given {
            warnings.add(ID_REPLACED);
            self.shell.set("id", &quoted(&id));
            self.touched = true;
            self.altered = true;
        }
        let streamed = self.closed_args();
        let unstreamed = streamed.is_none();
        // Without pieces the shell may hold the whole input; some servers leave the field out.
        let args = streamed
            .or_else(|| self.shell.get("input").map(str::to_owned))
            .unwrap_or_else(|| "{}".to_owned());
        let fault = if !self.stopped || (cut && unstreamed && args == "{}") {
            Some(CUT_OFF.to_owned())
        } else {
            object_fault(&args)
        };
        let args = match &fault {
            None => args,
            Some(_) => {
                warnings.add(ARGS_BROKEN);
                "{}".to_owned()
            }
        };
        if self.shell.get("input") != Some(&args) {
            self.shell.set("input", &args);
            self.touched = true;
        }
        self.altered |= fault.is_some();
        let name = self.finish_name(warnings);
        let args = RawValue::from_string(args).unwrap_or_else(|_| RawValue::NULL.to_owned());
        BlockCall { provider_call_id: id, name, args: Arc::from(args), complete: fault.is_none(), fault }
    }

    /// The name as the model wrote it; in the raw block one that can be sent back.
    fn finish_name(&mut self, warnings: &mut Warnings) -> String {
        let name = self.shell.text("name").unwrap_or_default();
        if !is_legal_name(&name) {
            warnings.add(NAME_MENDED);
            self.shell.set("name", &quoted(&legal_name(&name, TOOL_NAME_MAX_BYTES)));
            self.touched = true;
            self.altered = true;
        }
        name
    }
}
