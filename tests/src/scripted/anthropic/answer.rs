//! Building an answer: blocks, stop, usage, faults, and the bytes that they become.

use super::{Refusal, Sent, messages};
use crate::scripted::delivery::{Cut, Delivery, Gate};
use serde_json::{Value, json};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Characters of text in one delta.
const TEXT_DELTA_CHARS: usize = 16;
/// Characters of arguments in one delta.
const ARGS_DELTA_CHARS: usize = 12;

static NEXT_ID: AtomicU64 = AtomicU64::new(1);

#[derive(Clone, Debug)]
enum Part {
    Text(String),
    Thinking { thinking: String, signature: String },
    Whole(Value),
    ToolUse { id: String, name: String, args: String, whole: bool },
    Event { name: String, data: Value },
    Literal(String),
}

/// One answer of the scripted model.
#[derive(Clone, Debug)]
pub struct Answer {
    pub(in crate::scripted) status: u16,
    pub(in crate::scripted) headers: Vec<(String, String)>,
    pub(in crate::scripted) delivery: Delivery,
    pub(in crate::scripted) hold: Option<Gate>,
    id: String,
    parts: Vec<Part>,
    stop: Option<String>,
    usage: Value,
    output_tokens: u64,
    ends: bool,
    crlf: bool,
    raw: Option<Vec<u8>>,
}

impl Default for Answer {
    fn default() -> Self {
        Self::new()
    }
}

impl Answer {
    /// An answer without content that ends properly.
    pub fn new() -> Self {
        let number = NEXT_ID.fetch_add(1, Ordering::Relaxed);
        Self {
            status: 200,
            headers: vec![
                ("content-type".into(), "text/event-stream; charset=utf-8".into()),
                ("request-id".into(), format!("req_scripted{number:08}")),
                // The real API sends this on plain answers too; it means nothing there.
                ("retry-after".into(), "17".into()),
            ],
            delivery: Delivery::default(),
            hold: None,
            id: format!("msg_scripted{number:08}"),
            parts: Vec::new(),
            stop: None,
            usage: json!({
                "input_tokens": 10, "cache_creation_input_tokens": 0, "cache_read_input_tokens": 0,
                "service_tier": "standard",
            }),
            output_tokens: 20,
            ends: true,
            crlf: false,
            raw: None,
        }
    }

    /// One text block and `end_turn`.
    pub fn saying(text: impl Into<String>) -> Self {
        Self::new().text(text)
    }

    /// One call and `tool_use`.
    pub fn calling(id: &str, name: &str, args: impl Into<Value>) -> Self {
        Self::new().tool_use(id, name, args)
    }

    /// Bytes of a recorded stream, as they are.
    pub fn recorded(bytes: impl Into<Vec<u8>>) -> Self {
        Self { raw: Some(bytes.into()), ends: false, ..Self::new() }
    }

    /// A status and a body that are not a stream.
    pub fn http(status: u16, headers: &[(&str, &str)], body: impl Into<Vec<u8>>) -> Self {
        let headers = headers.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        Self { status, headers, ..Self::recorded(body) }
    }

    /// An error in the API's shape.
    pub fn error(status: u16, kind: &str, message: &str) -> Self {
        let answer = Self::new();
        let request_id = answer.id.replace("msg_", "req_");
        let body = json!({
            "type": "error",
            "error": {"type": kind, "message": message, "details": null},
            "request_id": request_id,
        });
        let headers = [("content-type", "application/json"), ("request-id", request_id.as_str())];
        Self::http(status, &headers, body.to_string())
    }

    pub(in crate::scripted) fn refusal(refusal: &Refusal) -> Self {
        Self::error(refusal.status, refusal.kind, &refusal.message)
    }

    /// Never an answer: the request is read and nothing comes, until `gate` opens (then this answer does).
    #[must_use]
    pub fn held_by(mut self, gate: &Gate) -> Self {
        self.hold = Some(gate.clone());
        self
    }

    /// Adds a header.
    #[must_use]
    pub fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.retain(|(known, _)| known != name);
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Adds a text block.
    #[must_use]
    pub fn text(mut self, text: impl Into<String>) -> Self {
        self.parts.push(Part::Text(text.into()));
        self
    }

    /// Adds a thinking block. The signature is its identity: make it unique.
    #[must_use]
    pub fn thinking(mut self, thinking: &str, signature: &str) -> Self {
        self.parts.push(Part::Thinking { thinking: thinking.to_owned(), signature: signature.to_owned() });
        self
    }

    /// Adds a sealed thinking block.
    #[must_use]
    pub fn redacted_thinking(self, data: &str) -> Self {
        self.block(json!({"type": "redacted_thinking", "data": data}))
    }

    /// Adds a block that comes whole in its start event, such as a server tool's result.
    #[must_use]
    pub fn block(mut self, block: Value) -> Self {
        self.parts.push(Part::Whole(block));
        self
    }

    /// Adds a call.
    #[must_use]
    pub fn tool_use(self, id: &str, name: &str, args: impl Into<Value>) -> Self {
        let args = args.into().to_string();
        self.tool_use_text(id, name, &args)
    }

    /// Adds a call whose argument text is exactly this: not necessarily JSON. An empty text is a call without
    /// arguments.
    #[must_use]
    pub fn tool_use_text(mut self, id: &str, name: &str, args: &str) -> Self {
        self.parts.push(Part::ToolUse { id: id.into(), name: name.into(), args: args.into(), whole: true });
        self
    }

    /// Adds a call that is cut off: its block never stops.
    #[must_use]
    pub fn tool_use_cut(mut self, id: &str, name: &str, args: &str) -> Self {
        self.parts.push(Part::ToolUse { id: id.into(), name: name.into(), args: args.into(), whole: false });
        self
    }

    /// Adds a ping.
    #[must_use]
    pub fn ping(self) -> Self {
        self.event("ping", json!({"type": "ping"}))
    }

    /// Adds any event.
    #[must_use]
    pub fn event(mut self, name: &str, data: Value) -> Self {
        self.parts.push(Part::Event { name: name.to_owned(), data });
        self
    }

    /// Adds text to the stream as it stands, such as a comment line.
    #[must_use]
    pub fn literal(mut self, text: &str) -> Self {
        self.parts.push(Part::Literal(text.to_owned()));
        self
    }

    /// Ends the stream here with an error event instead of a stop.
    #[must_use]
    pub fn error_event(self, kind: &str, message: &str) -> Self {
        let error = json!({"type": "error", "error": {"type": kind, "message": message, "details": null}});
        self.event("error", error).without_end()
    }

    /// Leaves out the stop reason and everything after it.
    #[must_use]
    pub fn without_end(mut self) -> Self {
        self.ends = false;
        self
    }

    /// Sets the stop reason; without it, `tool_use` when there is a call and `end_turn` when there is none.
    #[must_use]
    pub fn stop(mut self, reason: &str) -> Self {
        self.stop = Some(reason.to_owned());
        self
    }

    /// Sets the tokens of prompt and answer.
    #[must_use]
    pub fn usage(mut self, input_tokens: u64, output_tokens: u64) -> Self {
        self.usage["input_tokens"] = input_tokens.into();
        self.output_tokens = output_tokens;
        self
    }

    /// Sets the tokens read from and written to the cache.
    #[must_use]
    pub fn cached(mut self, read: u64, written: u64) -> Self {
        self.usage["cache_read_input_tokens"] = read.into();
        self.usage["cache_creation_input_tokens"] = written.into();
        self
    }

    /// Ends lines with CR LF.
    #[must_use]
    pub fn crlf(mut self) -> Self {
        self.crlf = true;
        self
    }

    /// Sends everything, chunk framing included, one byte a write.
    #[must_use]
    pub fn one_byte_per_write(mut self) -> Self {
        self.delivery.write_size = Some(1);
        self
    }

    /// Splits the body into writes at these offsets.
    #[must_use]
    pub fn split_at(mut self, offsets: &[usize]) -> Self {
        self.delivery.splits.extend_from_slice(offsets);
        self
    }

    /// Ends the body with the connection instead of a last chunk.
    #[must_use]
    pub fn until_close(mut self) -> Self {
        self.delivery.until_close = true;
        self
    }

    /// Does something at this byte of the body.
    #[must_use]
    pub fn cut_at(mut self, offset: usize, cut: Cut) -> Self {
        self.delivery.cuts.push((offset, cut));
        self
    }

    /// Does something right after the first place in the body where `needle` stands. Call it last: what is added
    /// afterwards moves the place.
    #[must_use]
    pub fn cut_after(self, needle: &str, cut: Cut) -> Self {
        let body = self.body();
        let at = body.windows(needle.len()).position(|window| window == needle.as_bytes());
        let at = at.unwrap_or_else(|| {
            panic!("{needle:?} is not in the answer:\n{}", String::from_utf8_lossy(&body))
        });
        self.cut_at(at + needle.len(), cut)
    }

    /// Sends nothing but pings after `needle` until the gate opens.
    #[must_use]
    pub fn babble_after(self, needle: &str, every: Duration, gate: &Gate) -> Self {
        let text = "event: ping\ndata: {\"type\": \"ping\"}\n\n".to_owned();
        self.cut_after(needle, Cut::Babble { text, every, gate: gate.clone() })
    }

    /// The body as it is sent.
    pub fn body(&self) -> Vec<u8> {
        if let Some(raw) = &self.raw {
            return raw.clone();
        }
        let mut out = String::new();
        let mut usage = self.usage.clone();
        usage["output_tokens"] = 1.into();
        put(
            &mut out,
            "message_start",
            &json!({"type": "message_start", "message": {
                "id": self.id, "type": "message", "role": "assistant", "model": "claude-scripted", "content": [],
                "stop_reason": null, "stop_sequence": null, "stop_details": null, "usage": usage,
            }}),
        );
        let mut index = 0;
        for part in &self.parts {
            part.write(&mut out, &mut index);
        }
        if self.ends {
            let mut usage = self.usage.clone();
            usage["output_tokens"] = self.output_tokens.into();
            put(
                &mut out,
                "message_delta",
                &json!({
                    "type": "message_delta",
                    "delta": {"stop_reason": self.stop_reason(), "stop_sequence": null, "stop_details": null},
                    "usage": usage,
                }),
            );
            put(&mut out, "message_stop", &json!({"type": "message_stop"}));
        }
        if self.crlf { out.replace('\n', "\r\n").into_bytes() } else { out.into_bytes() }
    }

    fn stop_reason(&self) -> String {
        let calls = self.parts.iter().any(|part| matches!(part, Part::ToolUse { .. }));
        self.stop.clone().unwrap_or_else(|| if calls { "tool_use".into() } else { "end_turn".into() })
    }

    /// What the ledger keeps of this answer to `request`. Read from the bytes themselves, so that it holds for
    /// recorded streams too.
    pub(in crate::scripted) fn sent(&self, request: &Value) -> Sent {
        let mut sent =
            Sent { prefix: messages::prefix(request, messages::merged_len(request)), ..Sent::default() };
        let body = self.body();
        let mut open = Value::Null;
        for line in body.split(|byte| *byte == b'\n') {
            let Some(data) = line.strip_prefix(b"data:") else { continue };
            let Ok(data) = serde_json::from_slice::<Value>(data) else { continue };
            match data["type"].as_str() {
                Some("content_block_start") => open = data["content_block"].clone(),
                Some("content_block_delta") => extend(&mut open, &data["delta"]),
                Some("content_block_stop") => sent.keep(open.take()),
                Some("message_delta") => {
                    let reason = data["delta"]["stop_reason"].as_str();
                    sent.stop_reason = reason.map(str::to_owned).or(sent.stop_reason);
                }
                _ => {}
            }
        }
        sent
    }
}

impl Sent {
    fn keep(&mut self, block: Value) {
        if let Some(id) = block["id"].as_str().filter(|_| block["type"] == "tool_use") {
            self.tool_use_ids.push(id.to_owned());
        }
        if messages::signature(&block).is_some() {
            self.thinking.push(block);
        }
    }
}

fn extend(block: &mut Value, delta: &Value) {
    if let Some(more) = delta["thinking"].as_str() {
        let text = block["thinking"].as_str().unwrap_or_default();
        block["thinking"] = format!("{text}{more}").into();
    }
    if let Some(signature) = delta["signature"].as_str() {
        // It replaces, it does not append.
        block["signature"] = signature.into();
    }
}

fn put(out: &mut String, name: &str, data: &Value) {
    // The real API pads its lines; a client that trims or counts them breaks.
    out.push_str(&format!("event: {name}\ndata: {data}   \n\n"));
}

impl Part {
    fn write(&self, out: &mut String, index: &mut u64) {
        match self {
            Self::Text(text) => {
                let deltas =
                    pieces(text, TEXT_DELTA_CHARS).map(|text| json!({"type": "text_delta", "text": text}));
                block(out, index, &json!({"type": "text", "text": ""}), deltas, true);
            }
            Self::Thinking { thinking, signature } => {
                let shell = json!({"type": "thinking", "thinking": "", "signature": ""});
                let deltas = pieces(thinking, TEXT_DELTA_CHARS)
                    .map(|text| json!({"type": "thinking_delta", "thinking": text}))
                    .chain([json!({"type": "signature_delta", "signature": signature})]);
                block(out, index, &shell, deltas, true);
            }
            Self::Whole(shell) => block(out, index, shell, std::iter::empty(), true),
            Self::ToolUse { id, name, args, whole } => {
                let shell = json!({"type": "tool_use", "id": id, "name": name, "input": {}, "caller": {"type": "direct"}});
                // The first fragment of the real API is empty.
                let deltas = std::iter::once(String::new())
                    .chain(pieces(args, ARGS_DELTA_CHARS))
                    .map(|text| json!({"type": "input_json_delta", "partial_json": text}));
                block(out, index, &shell, deltas, *whole);
            }
            Self::Event { name, data } => put(out, name, data),
            Self::Literal(text) => out.push_str(text),
        }
    }
}

fn block(out: &mut String, index: &mut u64, shell: &Value, deltas: impl Iterator<Item = Value>, whole: bool) {
    put(
        out,
        "content_block_start",
        &json!({"type": "content_block_start", "index": *index, "content_block": shell}),
    );
    for delta in deltas {
        put(
            out,
            "content_block_delta",
            &json!({"type": "content_block_delta", "index": *index, "delta": delta}),
        );
    }
    if whole {
        put(out, "content_block_stop", &json!({"type": "content_block_stop", "index": *index}));
    }
    *index += 1;
}

fn pieces(text: &str, chars: usize) -> impl Iterator<Item = String> {
    let all: Vec<char> = text.chars().collect();
    all.chunks(chars).map(|piece| piece.iter().collect()).collect::<Vec<String>>().into_iter()
}
