//! The stream of Chat Completions: written from an answer with its quirks, and read back for the ledger.

use super::Quirk;
use super::calls::{self, signed};
use crate::scripted::answer::{Asked, Content, Part, Usage, sign_of_life, text_deltas};
use crate::scripted::ledger::{Sent, data_lines};
use serde_json::{Map, Value, json};

/// An answer as a stream.
pub(in crate::scripted) fn write(content: &Content<'_>, asked: &Asked<'_>) -> String {
    let mut stream = Stream::new(content, asked);
    stream.begin();
    let first = content.calls().next().map(|call| call.id.as_str());
    let mut at = 0;
    while let Some(part) = content.parts.get(at) {
        let calls: Vec<_> = content.parts[at..].iter().map_while(Part::as_call).collect();
        if calls.is_empty() {
            stream.part(part);
            at += 1;
            continue;
        }
        let run: Vec<_> = calls.iter().map(|call| signed(call, first, content, asked)).collect();
        for delta in calls::deltas(&run, stream.calls, content) {
            stream.delta(json!({"tool_calls": delta}));
        }
        stream.calls += run.len();
        at += run.len();
    }
    if content.ends {
        stream.end();
    }
    stream.flush();
    if content.ends && !content.has(Quirk::NoDone) {
        stream.line("[DONE]");
    }
    stream.out
}

/// An error as a body or as a chunk: what OpenAI says in the case that Anthropic calls `kind`.
pub(in crate::scripted) fn error_body(kind: &str, message: &str, code: Option<&str>) -> Value {
    let (kind, usual) = match kind {
        "authentication_error" => ("invalid_request_error", Some("invalid_api_key")),
        "not_found_error" => ("invalid_request_error", Some("model_not_found")),
        "rate_limit_error" => ("requests", Some("rate_limit_exceeded")),
        "billing_error" => ("insufficient_quota", Some("insufficient_quota")),
        "overloaded_error" | "api_error" | "timeout_error" => ("server_error", None),
        other => (other, None),
    };
    json!({"error": {"message": message, "type": kind, "param": null, "code": code.or(usual)}})
}

fn finish_reason(content: &Content<'_>) -> &'static str {
    let calls = content.calls().next().is_some();
    match content.stop {
        _ if calls && content.has(Quirk::StopWithCalls) => "stop",
        None if calls => "tool_calls",
        None | Some("stop" | "end_turn" | "stop_sequence" | "pause_turn") => "stop",
        Some("tool_use" | "tool_calls") => "tool_calls",
        Some("max_tokens" | "length" | "model_context_window_exceeded") => "length",
        Some("refusal" | "content_filter") => "content_filter",
        Some(_) => "other",
    }
}

struct Stream<'a> {
    out: String,
    content: &'a Content<'a>,
    asked: &'a Asked<'a>,
    /// The newest chunk, which may still get the finish reason.
    pending: Option<Value>,
    usage_asked: bool,
    /// Calls so far.
    calls: usize,
}

impl<'a> Stream<'a> {
    fn new(content: &'a Content<'a>, asked: &'a Asked<'a>) -> Self {
        let usage_asked = asked.request["stream_options"]["include_usage"] == true;
        Self { out: String::new(), content, asked, pending: None, usage_asked, calls: 0 }
    }

    fn has(&self, quirk: Quirk) -> bool {
        self.content.has(quirk)
    }

    fn line(&mut self, data: &str) {
        if self.has(Quirk::EventLines) {
            self.out.push_str("event: message\n");
        }
        let space = if self.has(Quirk::NoSpace) { "" } else { " " };
        self.out.push_str(&format!("data:{space}{data}\n\n"));
    }

    fn chunk(&mut self, chunk: Value) {
        self.flush();
        self.pending = Some(chunk);
    }

    fn flush(&mut self) {
        if let Some(chunk) = self.pending.take() {
            self.line(&chunk.to_string());
        }
    }

    fn envelope(&self, choices: &Value) -> Value {
        let empty = self.has(Quirk::EmptyChunkIds);
        let model = self.asked.request["model"].as_str().unwrap_or("gpt-scripted");
        let id = if empty { String::new() } else { format!("chatcmpl-scripted{:08}", self.content.number) };
        let mut chunk = json!({
            "id": id, "object": "chat.completion.chunk", "created": if empty { 0 } else { 1_790_000_000 },
            "model": model, "choices": choices, "service_tier": "default", "system_fingerprint": "fp_scripted",
        });
        if self.has(Quirk::UsageEverywhere) {
            chunk["usage"] = self.usage();
        } else if self.usage_asked {
            chunk["usage"] = Value::Null;
        }
        chunk["obfuscation"] =
            "padding"[..usize::try_from(self.content.number % 8).unwrap_or(0).min(7)].into();
        chunk
    }

    fn delta(&mut self, mut delta: Value) {
        if self.has(Quirk::NullToolCalls) && delta.get("tool_calls").is_none() {
            delta["tool_calls"] = Value::Null;
        }
        let mut choice = json!({"index": 0, "delta": delta, "logprobs": null});
        if !self.has(Quirk::NoFinishKey) {
            choice["finish_reason"] = Value::Null;
        }
        let chunk = self.envelope(&json!([choice]));
        self.chunk(chunk);
    }

    fn begin(&mut self) {
        if self.has(Quirk::Comments) {
            self.out.push_str(&": OPENROUTER PROCESSING\n\n".repeat(3));
        }
        if self.has(Quirk::EmptyFirstChunk) {
            self.chunk(json!({
                "choices": [], "created": 0, "id": "", "model": "", "object": "",
                "prompt_filter_results": [{"prompt_index": 0, "content_filter_results": {}}],
            }));
        }
        let text_first = matches!(self.content.parts.first(), None | Some(Part::Text(_)));
        let content = if text_first { json!("") } else { Value::Null };
        self.delta(json!({"role": "assistant", "content": content, "refusal": null}));
    }

    fn part(&mut self, part: &Part) {
        match part {
            Part::Text(text) => {
                for text in text_deltas(text) {
                    let parts = self.has(Quirk::ReasoningParts);
                    let content = if parts { json!([{"type": "text", "text": text}]) } else { json!(text) };
                    self.delta(json!({ "content": content }));
                }
            }
            Part::Thinking { thinking, .. } => self.reasoning(thinking),
            Part::Ping => self.verbatim(sign_of_life(self.asked.dialect)),
            Part::Error { kind, message } => self.chunk(error_body(kind, message, None)),
            Part::Chunk(chunk) => self.chunk(chunk.clone()),
            Part::Delta(delta) => self.delta(delta.clone()),
            Part::Literal { dialect, text } if dialect.is_none_or(|only| only == self.asked.dialect) => {
                self.verbatim(text);
            }
            Part::Literal { .. } | Part::Whole(_) | Part::Event { .. } | Part::ToolUse(_) => {}
        }
    }

    fn verbatim(&mut self, text: &str) {
        self.flush();
        self.out.push_str(text);
    }

    fn reasoning(&mut self, thinking: &str) {
        if self.has(Quirk::ThinkTags) {
            return self.part(&Part::Text(format!("<think>\n{thinking}\n</think>\n\n")));
        }
        for text in text_deltas(thinking) {
            let delta = if self.has(Quirk::ReasoningDetails) {
                let detail = json!({"type": "reasoning.text", "text": text, "format": "unknown", "index": 0});
                json!({"content": "", "reasoning": text, "reasoning_details": [detail]})
            } else if self.has(Quirk::ReasoningParts) {
                json!({"content": [{"type": "thinking", "thinking": [{"type": "text", "text": text}]}]})
            } else if self.has(Quirk::ReasoningField) {
                json!({ "reasoning": text })
            } else {
                json!({ "reasoning_content": text })
            };
            self.delta(delta);
        }
    }

    fn end(&mut self) {
        if let Some((_, explanation)) = self.content.refused {
            for text in text_deltas(explanation) {
                self.delta(json!({ "refusal": text }));
            }
        }
        if !self.has(Quirk::NoFinish) {
            let reason = match (finish_reason(self.content), self.content.stop) {
                ("other", Some(said)) => said,
                (known, _) => known,
            };
            if !self.has(Quirk::FinishOnLastDelta) {
                self.delta(json!({}));
            }
            let usage = self.usage();
            let twice = self.has(Quirk::FinishTwice);
            let (on_finish, in_groq) = (self.has(Quirk::UsageOnFinish), self.has(Quirk::UsageInGroq));
            if let Some(chunk) = &mut self.pending {
                chunk["choices"][0]["finish_reason"] = reason.into();
                if in_groq {
                    chunk["x_groq"] = json!({"id": "req_scripted", "usage": usage});
                }
                if on_finish {
                    chunk["usage"] = usage.clone();
                }
            }
            if twice && let Some(mut again) = self.pending.clone() {
                again["choices"][0]["delta"] = json!({"role": "assistant", "content": ""});
                again["usage"] = usage;
                self.chunk(again);
            }
        }
        let elsewhere = [
            Quirk::NoUsage,
            Quirk::UsageOnFinish,
            Quirk::UsageInGroq,
            Quirk::UsageEverywhere,
            Quirk::FinishTwice,
        ];
        let wanted = self.usage_asked || self.has(Quirk::UsageUnasked);
        if wanted && !elsewhere.into_iter().any(|quirk| self.has(quirk)) {
            let mut chunk = self.envelope(&json!([]));
            chunk["usage"] = self.usage();
            self.chunk(chunk);
        }
    }

    fn usage(&self) -> Value {
        let Usage { input, output, cache_read, cache_written, reasoning } = self.content.usage;
        let prompt = input + cache_read + cache_written;
        let mut usage = json!({
            "prompt_tokens": prompt, "completion_tokens": output, "total_tokens": prompt + output,
            "completion_tokens_details": {"reasoning_tokens": reasoning},
        });
        if self.has(Quirk::UsageOfDeepSeek) {
            usage["prompt_cache_hit_tokens"] = cache_read.into();
            usage["prompt_cache_miss_tokens"] = (input + cache_written).into();
        } else {
            usage["prompt_tokens_details"] = json!({"cached_tokens": cache_read, "audio_tokens": 0});
        }
        usage
    }
}

/// What the ledger keeps of a stream.
pub(in crate::scripted) fn sent(body: &[u8]) -> Sent {
    let mut sent = Sent::default();
    for data in data_lines(body) {
        let choice = &data["choices"][0];
        let delta = &choice["delta"];
        for call in delta["tool_calls"].as_array().into_iter().flatten() {
            keep(&mut sent.calls, call);
        }
        for field in ["reasoning_content", "reasoning"] {
            if let Some(more) = delta[field].as_str() {
                sent.reasoning.get_or_insert((field, String::new())).1.push_str(more);
            }
        }
        let reason = choice["finish_reason"].as_str();
        sent.stop_reason = reason.map(str::to_owned).or(sent.stop_reason);
    }
    sent
}

/// Keeps a call's id and all that stands beside it but index and function.
fn keep(calls: &mut Vec<Value>, delta: &Value) {
    // Later pieces say nothing but arguments; a call that never had an id is kept for what stands beside it.
    let id = delta["id"].as_str().unwrap_or_default();
    let says_more = delta.get("extra_content").is_some() || delta.get("thought_signature").is_some();
    if id.is_empty() && !says_more {
        return;
    }
    let fields = delta.as_object().into_iter().flatten();
    let fields = fields.filter(|(name, _)| !["index", "function"].contains(&name.as_str()));
    match calls.iter_mut().find(|call| !id.is_empty() && call["id"] == id).and_then(Value::as_object_mut) {
        Some(known) => known.extend(fields.map(|(name, value)| (name.clone(), value.clone()))),
        None => {
            let fields: Map<String, Value> =
                fields.map(|(name, value)| (name.clone(), value.clone())).collect();
            calls.push(Value::Object(fields));
        }
    }
}
