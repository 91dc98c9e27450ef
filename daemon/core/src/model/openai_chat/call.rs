//! Tool calls while they stream: which call a piece belongs to, and what the call becomes.
//!
//! Invariants: a known id or name is never overwritten; no piece of one call gets into another that the server
//! tells apart by index or by id; whatever came, the result is an object that the server accepts back, with
//! arguments that are the text of an object. Each piece costs its own length, whatever came before.

use crate::event::{Block, BlockCall, BlockKind};
use crate::limits::{ANSWER_CALLS_MAX, ANSWER_FIELDS_MAX, CALL_ID_MAX_BYTES};
use crate::model::args::{CUT_OFF, Closing, object_fault};
use crate::model::ids::{IdRule, is_legal_id, legal_name, new_id};
use crate::model::json::{Fields, Growing, Object, is_readable, quoted, string_bytes};
use crate::model::warnings::{ARGS_BROKEN, ID_REPLACED, NAME_MENDED, Warnings};
use serde_json::value::RawValue;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Bytes of a tool's name in this dialect.
const NAME_MAX_BYTES: usize = 64;
const EMPTY_CALL: &str = "an empty tool call came and was left out";
const ECHO: &str = "the server sent a tool call twice, and it was taken once";

/// What one entry of `tool_calls` says.
pub(super) struct Piece<'a> {
    index: Option<u64>,
    id: Option<String>,
    name: Option<String>,
    args: Args<'a>,
    /// Every field of the entry, and of its function.
    entry: Fields<'a>,
    function: Option<Fields<'a>>,
}

enum Args<'a> {
    /// None, `null`, or nothing visible.
    Blank(Vec<u8>),
    /// A piece of their text.
    Text(Vec<u8>),
    /// They came as JSON themselves.
    Whole(&'a str),
}

impl<'a> Piece<'a> {
    /// Reads an entry of `tool_calls`.
    pub(super) fn read(raw: &'a str) -> Result<Self, &'static str> {
        let entry = Fields::parse(raw).ok_or("a tool call is not an object")?;
        let function = match entry.get("function") {
            Some(raw) => Some(Fields::parse(raw).ok_or("the function of a tool call is not an object")?),
            None => None,
        };
        // Without a function some proxies put its fields beside the id.
        let said = function.as_ref().unwrap_or(&entry);
        Ok(Self {
            index: entry.get("index").and_then(|raw| serde_json::from_str(raw).ok()),
            id: entry.text("id"),
            name: said.text("name"),
            args: Args::read(said.get("arguments")),
            entry,
            function,
        })
    }

    /// Reads the older form of a call, of which an answer has one at most.
    pub(super) fn read_old(raw: &'a str) -> Result<Self, &'static str> {
        let entry = Fields::parse(raw).ok_or("a function_call is not an object")?;
        Ok(Self {
            index: Some(u64::MAX),
            id: None,
            name: entry.text("name"),
            args: Args::read(entry.get("arguments")),
            entry,
            function: None,
        })
    }

    /// Whether it says nothing but arguments, and so begins no call.
    fn only_goes_on(&self) -> bool {
        self.name.is_none() && self.has_args()
    }

    fn has_args(&self) -> bool {
        !matches!(self.args, Args::Blank(_))
    }
}

impl<'a> Args<'a> {
    fn read(raw: Option<&'a str>) -> Self {
        let Some(raw) = raw else { return Self::Blank(Vec::new()) };
        match string_bytes(raw) {
            Some(text) if text.trim_ascii().is_empty() => Self::Blank(text),
            Some(text) => Self::Text(text),
            None => Self::Whole(raw),
        }
    }

    fn bytes(&self) -> &[u8] {
        match self {
            Self::Blank(text) | Self::Text(text) => text,
            Self::Whole(raw) => raw.as_bytes(),
        }
    }
}

/// A call that has begun.
#[derive(Debug, Default)]
struct OpenCall {
    id: String,
    name: String,
    args: Growing,
    closing: Closing,
    /// Fields that are not of the dialect, which some models want back.
    extra: Object,
    function_extra: Object,
    /// The delta that touched it last.
    touched: u64,
}

/// The calls of one answer.
#[derive(Debug, Default)]
pub(super) struct Calls {
    calls: Vec<OpenCall>,
    by_index: BTreeMap<u64, usize>,
    by_id: BTreeMap<String, usize>,
    deltas: u64,
}

/// Where a piece goes.
enum Place {
    New,
    At(usize),
    /// It says again what is known.
    Echo,
}

impl Calls {
    /// A new list of pieces begins: what stands in one list side by side are different calls.
    pub(super) fn begin_delta(&mut self) {
        self.deltas += 1;
    }

    /// Takes a piece; says whether it began a call, and how many bytes of content it had. `whole` says that the
    /// list is that of a finished message, where each entry is a call.
    pub(super) fn take(
        &mut self,
        piece: &Piece<'_>,
        whole: bool,
        warnings: &mut Warnings,
    ) -> Result<(bool, usize), String> {
        let place = if whole { Place::New } else { self.place(piece) };
        let (at, is_new) = match place {
            Place::At(at) => (at, false),
            Place::Echo => {
                if piece.has_args() {
                    warnings.add(ECHO);
                }
                return Ok((false, 0));
            }
            Place::New if self.calls.len() >= ANSWER_CALLS_MAX => {
                return Err(format!("the answer has more than {ANSWER_CALLS_MAX} tool calls"));
            }
            Place::New => {
                self.calls.push(OpenCall::default());
                (self.calls.len() - 1, true)
            }
        };
        if let Some(index) = piece.index {
            self.by_index.insert(index, at);
        }
        let call = &mut self.calls[at];
        call.touched = self.deltas;
        let mut bytes = call.apply(piece);
        if let Some(id) = piece.id.as_ref().filter(|_| call.id.is_empty()) {
            call.id.clone_from(id);
            bytes += id.len();
            // An id that comes again stands for its newest call.
            self.by_id.insert(id.clone(), at);
        }
        Ok((is_new, bytes))
    }

    /// Servers number all calls 0, or not at all, or from 1; they leave ids out, or send them once or always.
    fn place(&self, piece: &Piece<'_>) -> Place {
        let known = piece.id.as_ref().and_then(|id| self.by_id.get(id).copied());
        match piece.index {
            Some(index) => match self.by_index.get(&index).copied() {
                Some(at) => {
                    let call = &self.calls[at];
                    match &piece.id {
                        Some(id) if !call.id.is_empty() && *id != call.id => match known {
                            Some(at) => self.at(at, piece),
                            // Older vLLM makes up an id for each piece.
                            None if call.wants_more() && piece.only_goes_on() => Place::At(at),
                            None => Place::New,
                        },
                        _ => self.at(at, piece),
                    }
                }
                // The same id under a new number, and nothing that begins a call.
                None => match known {
                    Some(at) if piece.name.is_none() => Place::At(at),
                    _ => Place::New,
                },
            },
            None => {
                let last = self.calls.len().checked_sub(1);
                let at = match (&piece.id, known, last) {
                    (_, Some(at), _) => at,
                    // An id that comes later than its call.
                    (Some(_), None, Some(at)) if self.calls[at].id.is_empty() && piece.name.is_none() => at,
                    (Some(_), None, _) | (None, None, None) => return Place::New,
                    (None, None, Some(at)) => at,
                };
                if self.calls[at].touched == self.deltas && piece.name.is_some() {
                    return Place::New;
                }
                self.at(at, piece)
            }
        }
    }

    /// Whether a piece that points at a call goes on with it.
    fn at(&self, at: usize, piece: &Piece<'_>) -> Place {
        let call = &self.calls[at];
        let Some(name) = piece.name.as_ref().filter(|_| !call.name.is_empty()) else { return Place::At(at) };
        let same_id = piece.id.as_ref().is_some_and(|id| *id == call.id);
        if *name != call.name {
            // Names do not come in pieces: without an id to say otherwise this is another call.
            let other = !same_id || (call.closing.is_closed() && piece.has_args());
            return if other { Place::New } else { Place::At(at) };
        }
        if !call.closing.is_closed() || !piece.has_args() {
            return Place::At(at);
        }
        match same_id {
            true if call.args.as_str().as_bytes() == piece.args.bytes() => Place::Echo,
            true if call.has_stand_in() => Place::At(at),
            _ => Place::New,
        }
    }

    /// The finished blocks, and the ids that are not in use any more with those that took their place. `limited`
    /// says that an output limit may have ended the answer inside the last call.
    pub(super) fn finish(
        self,
        limited: bool,
        ids: &IdRule<'_>,
        warnings: &mut Warnings,
    ) -> (Vec<Block>, BTreeMap<String, String>) {
        let mut seen = BTreeSet::new();
        let mut renamed = BTreeMap::new();
        let last = self.calls.len().saturating_sub(1);
        let mut blocks = Vec::with_capacity(self.calls.len());
        for (place, call) in self.calls.into_iter().enumerate() {
            if call.is_nothing() {
                warnings.add(EMPTY_CALL);
                continue;
            }
            let free = |id: &str| !seen.contains(id) && !(ids.used)(id);
            let id = if keeps_id(&call.id) && free(&call.id) {
                call.id.clone()
            } else {
                warnings.add(ID_REPLACED);
                let id = new_id("call_", ids.seed, place, &free);
                if !call.id.is_empty() && !seen.contains(&call.id) {
                    renamed.entry(call.id.clone()).or_insert_with(|| id.clone());
                }
                id
            };
            seen.insert(id.clone());
            blocks.extend(call.finish(id, limited && place == last, warnings));
        }
        (blocks, renamed)
    }
}

/// Whether an id can go back as it is. Kimi wants its `functions.NAME:N` back, so only what breaks things is not
/// taken.
fn keeps_id(id: &str) -> bool {
    !id.is_empty() && id.len() <= CALL_ID_MAX_BYTES && !id.chars().any(char::is_control)
}

impl OpenCall {
    fn apply(&mut self, piece: &Piece<'_>) -> usize {
        let mut bytes = 0;
        if let Some(name) = piece.name.as_ref().filter(|_| self.name.is_empty()) {
            self.name.clone_from(name);
            bytes += name.len();
        }
        let args = piece.args.bytes();
        if piece.has_args() && self.has_stand_in() {
            self.args = Growing::default();
            self.closing = Closing::default();
        }
        self.args.push_json(args);
        self.closing.push(args);
        bytes += args.len();
        let flat = piece.function.is_none();
        for (key, value) in piece.entry.iter() {
            let ours = matches!(key, "index" | "id" | "type" | "function")
                || (flat && matches!(key, "name" | "arguments"));
            if !ours {
                bytes += keep(&mut self.extra, key, value);
            }
        }
        for (key, value) in piece.function.iter().flat_map(Fields::iter) {
            if !matches!(key, "name" | "arguments") {
                bytes += keep(&mut self.function_extra, key, value);
            }
        }
        bytes
    }

    fn wants_more(&self) -> bool {
        !self.name.is_empty() && !self.closing.is_closed()
    }

    /// Some proxies begin a call with an empty object and then send its arguments.
    fn has_stand_in(&self) -> bool {
        let args = self.args.as_str();
        args.len() <= 8 && args.trim() == "{}"
    }

    fn is_nothing(&self) -> bool {
        self.id.is_empty()
            && self.name.is_empty()
            && self.args.as_str().trim().is_empty()
            && self.extra.is_empty()
            && self.function_extra.is_empty()
    }

    fn finish(mut self, id: String, cut: bool, warnings: &mut Warnings) -> Option<Block> {
        self.args.close();
        let text = self.args.as_str().trim();
        let fault = if text.is_empty() {
            cut.then(|| CUT_OFF.to_owned())
        } else {
            object_fault(text).map(|fault| if cut { CUT_OFF.to_owned() } else { fault })
        };
        let args = if fault.is_some() || text.is_empty() { "{}" } else { text };
        let mut altered = id != self.id || fault.is_some();
        if fault.is_some() {
            warnings.add(ARGS_BROKEN);
        }
        let name = if is_legal_id(&self.name) && self.name.len() <= NAME_MAX_BYTES {
            self.name.clone()
        } else {
            warnings.add(NAME_MENDED);
            altered = true;
            legal_name(&self.name, NAME_MAX_BYTES)
        };
        let mut function = Object::default();
        function.set("name", &quoted(&name));
        function.set("arguments", &quoted(args));
        put_all(&mut function, &self.function_extra);
        let mut raw = Object::default();
        raw.set("id", &quoted(&id));
        raw.set("type", "\"function\"");
        raw.set("function", &function.render());
        put_all(&mut raw, &self.extra);
        let call = BlockCall {
            provider_call_id: id,
            args: Arc::from(RawValue::from_string(args.to_owned()).ok()?),
            name: self.name,
            complete: fault.is_none(),
            fault,
        };
        let raw = RawValue::from_string(raw.render()).ok()?;
        Some(Block { kind: BlockKind::ToolUse, raw: Arc::from(raw), text: None, call: Some(call), altered })
    }
}

/// Keeps a field as it came: newer values win, nothing and what nobody could read do not. Answers how many bytes
/// are new.
pub(super) fn keep(object: &mut Object, key: &str, value: &str) -> usize {
    let known = object.has(key);
    if matches!(value, "null" | "\"\"") && known {
        return 0;
    }
    if (!known && object.len() >= ANSWER_FIELDS_MAX) || object.get(key) == Some(value) {
        return 0;
    }
    if !is_readable(value) {
        return 0;
    }
    object.set(key, value);
    key.len() + value.len()
}

fn put_all(object: &mut Object, extra: &Object) {
    for (key, value) in extra.iter() {
        object.set(key, value);
    }
}
