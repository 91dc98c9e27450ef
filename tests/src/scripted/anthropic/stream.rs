//! Anthropic's stream: written from an answer, and read back for the ledger.

use super::thinking::{self, Seal, signature};
use crate::scripted::answer::{Asked, Content, Part, Usage, args_deltas, sign_of_life, text_deltas};
use crate::scripted::ledger::{Sent, data_lines};
use serde_json::{Value, json};

/// An answer as a stream.
pub(in crate::scripted) fn write(content: &Content<'_>, asked: &Asked<'_>) -> String {
    let mut stream =
        Stream { out: String::new(), index: 0, asked, previous: thinking::newest(asked.request) };
    stream.put(
        "message_start",
        &json!({"type": "message_start", "message": {
            "id": format!("msg_scripted{:08}", content.number), "type": "message", "role": "assistant",
            "model": asked.request["model"].as_str().unwrap_or("claude-scripted"), "content": [],
            "stop_reason": null, "stop_sequence": null, "stop_details": null, "usage": usage(&content.usage, 1),
        }}),
    );
    for part in content.parts {
        stream.part(part);
    }
    if content.ends {
        let details = content.refused.map(|(category, explanation)| {
            json!({"type": "refusal", "category": category, "explanation": explanation})
        });
        let sequence = (content.stop == Some("stop_sequence")).then_some("STOP");
        let delta =
            json!({"stop_reason": stop_reason(content), "stop_sequence": sequence, "stop_details": details});
        stream.put(
            "message_delta",
            &json!({"type": "message_delta", "delta": delta, "usage": usage(&content.usage, content.usage.output)}),
        );
        stream.put("message_stop", &json!({"type": "message_stop"}));
    }
    stream.out
}

/// An error as a body or an event.
pub(in crate::scripted) fn error_body(kind: &str, message: &str, code: Option<&str>, number: u64) -> Value {
    let mut body = error_event(kind, message);
    body["request_id"] = format!("req_scripted{number:08}").into();
    if let Some(code) = code {
        body["error"]["details"] = json!({"error_code": code});
    }
    body
}

fn error_event(kind: &str, message: &str) -> Value {
    json!({"type": "error", "error": {"type": kind, "message": message, "details": null}})
}

fn stop_reason(content: &Content<'_>) -> String {
    let calls = content.calls().next().is_some();
    let said = content.stop.unwrap_or(if calls { "tool_use" } else { "end_turn" });
    match said {
        "stop" => "end_turn",
        "length" => "max_tokens",
        "tool_calls" => "tool_use",
        "content_filter" => "refusal",
        other => other,
    }
    .to_owned()
}

fn usage(usage: &Usage, output: u64) -> Value {
    json!({
        "input_tokens": usage.input, "output_tokens": output, "service_tier": "standard",
        "cache_creation_input_tokens": usage.cache_written, "cache_read_input_tokens": usage.cache_read,
        "output_tokens_details": {"thinking_tokens": usage.reasoning},
    })
}

struct Stream<'a> {
    out: String,
    index: u64,
    asked: &'a Asked<'a>,
    /// The signature of the newest thinking, of the request or of this answer.
    previous: Option<String>,
}

impl Stream<'_> {
    fn put(&mut self, name: &str, data: &Value) {
        // The real API pads its lines; a client that trims or counts them breaks.
        self.out.push_str(&format!("event: {name}\ndata: {data}   \n\n"));
    }

    fn part(&mut self, part: &Part) {
        match part {
            Part::Text(text) => {
                let deltas = text_deltas(text).into_iter();
                let deltas = deltas.map(|text| json!({"type": "text_delta", "text": text}));
                self.block(&json!({"type": "text", "text": ""}), deltas, true);
            }
            Part::Thinking { thinking, signature } => self.thinking(thinking, signature.as_deref()),
            Part::Whole(shell) => {
                self.previous = signature(shell).map(str::to_owned).or(self.previous.take());
                self.block(shell, std::iter::empty(), true);
            }
            Part::ToolUse(call) => {
                let mut shell = json!({"type": "tool_use", "id": call.id, "name": call.name, "input": {}});
                shell["caller"] = json!({"type": "direct"});
                // The first fragment of the real API is empty.
                let deltas = std::iter::once(String::new())
                    .chain(args_deltas(&call.args))
                    .map(|text| json!({"type": "input_json_delta", "partial_json": text}));
                self.block(&shell, deltas, call.whole);
            }
            Part::Ping => self.out.push_str(sign_of_life(self.asked.dialect)),
            Part::Error { kind, message } => self.put("error", &error_event(kind, message)),
            Part::Event { name, data } => self.put(name, data),
            Part::Literal { dialect, text } if dialect.is_none_or(|only| only == self.asked.dialect) => {
                self.out.push_str(text);
            }
            Part::Literal { .. } | Part::Chunk(_) | Part::Delta(_) => {}
        }
    }

    fn thinking(&mut self, text: &str, given: Option<&str>) {
        let signature = given.map(str::to_owned).unwrap_or_else(|| {
            let place = thinking::place_of_answer(self.asked.request);
            Seal::new(place, self.previous.as_deref(), text).signature()
        });
        let shell = json!({"type": "thinking", "thinking": "", "signature": ""});
        let deltas = text_deltas(text)
            .into_iter()
            .map(|text| json!({"type": "thinking_delta", "thinking": text}))
            .chain([json!({"type": "signature_delta", "signature": &signature})]);
        self.block(&shell, deltas, true);
        self.previous = Some(signature);
    }

    fn block(&mut self, shell: &Value, deltas: impl Iterator<Item = Value>, whole: bool) {
        let index = self.index;
        self.put(
            "content_block_start",
            &json!({"type": "content_block_start", "index": index, "content_block": shell}),
        );
        for delta in deltas {
            self.put(
                "content_block_delta",
                &json!({"type": "content_block_delta", "index": index, "delta": delta}),
            );
        }
        if whole {
            self.put("content_block_stop", &json!({"type": "content_block_stop", "index": index}));
        }
        self.index += 1;
    }
}

/// What the ledger keeps of a stream that answers `request`.
pub(in crate::scripted) fn sent(request: &Value, body: &[u8]) -> Sent {
    let mut sent = Sent { place: thinking::place_of_answer(request), ..Sent::default() };
    let mut previous = thinking::newest(request);
    let mut open = Value::Null;
    for data in data_lines(body) {
        match data["type"].as_str() {
            Some("content_block_start") => open = data["content_block"].clone(),
            Some("content_block_delta") => extend(&mut open, &data["delta"]),
            Some("content_block_stop") => {
                let block = open.take();
                if let Some(signature) = signature(&block) {
                    let text = block["thinking"].as_str().unwrap_or_default();
                    sent.seals.push(Seal::new(sent.place.clone(), previous.as_deref(), text));
                    previous = Some(signature.to_owned());
                }
                sent.blocks.push(block);
            }
            Some("message_delta") => {
                let reason = data["delta"]["stop_reason"].as_str();
                sent.stop_reason = reason.map(str::to_owned).or(sent.stop_reason);
            }
            _ => {}
        }
    }
    sent
}

fn extend(block: &mut Value, delta: &Value) {
    let Some(block) = block.as_object_mut() else { return };
    for field in ["text", "thinking"] {
        let Some(more) = delta[field].as_str() else { continue };
        match block.get_mut(field) {
            // In place: a large answer has very many deltas.
            Some(Value::String(text)) => text.push_str(more),
            _ => drop(block.insert(field.into(), more.into())),
        }
    }
    if let Some(signature) = delta["signature"].as_str() {
        // It replaces, it does not append.
        block.insert("signature".into(), signature.into());
    }
}
