//! A request as a test looks at it.

use super::anthropic::{message_blocks, without_cache_markers};
use super::http::RawRequest;
use super::{Dialect, Refusal, openai};
use serde_json::Value;
use std::time::Instant;

/// A tool result in a request.
#[derive(Clone, Debug, PartialEq)]
pub struct ToolResult {
    /// The call it answers.
    pub tool_use_id: String,
    /// Its text, blocks joined.
    pub text: String,
    /// Whether it is flagged as an error; never in Chat Completions, which has no such flag.
    pub is_error: bool,
    /// Index of the message it stands in.
    pub message: usize,
}

/// A call in a request.
#[derive(Clone, Debug, PartialEq)]
pub struct Called {
    /// Its id.
    pub id: String,
    /// The tool.
    pub name: String,
    /// Its arguments; null when they are no JSON.
    pub args: Value,
    /// The whole block or call as it stands in the request, with fields that only its provider knows.
    pub raw: Value,
}

/// One request that the server received.
#[derive(Clone, Debug)]
pub struct Received {
    pub(super) raw: RawRequest,
    /// The dialect that its path is of.
    pub dialect: Dialect,
    /// Its body as JSON; null when it is none.
    pub json: Value,
    /// Why it was refused, if it was.
    pub refused: Option<Refusal>,
    /// The answer was sent to its end.
    pub answered: bool,
    /// The client closed the connection before the answer had ended.
    pub hung_up: bool,
    /// When it came in and was answered.
    pub times: Times,
}

/// When a request passed the server's socket. What the server thinks in between lies outside both ends of a
/// client's step: from `answered` of one request to `last_byte` of the next.
#[derive(Clone, Copy, Debug)]
pub struct Times {
    /// The first bytes of the request were there.
    pub first_byte: Instant,
    /// The request was read to its end.
    pub last_byte: Instant,
    /// The last bytes of the answer were about to be handed to the socket; none while it is not that far.
    pub answered: Option<Instant>,
}

impl Received {
    pub(super) fn new(raw: RawRequest, first_byte: Instant) -> Self {
        let times = Times { first_byte, last_byte: Instant::now(), answered: None };
        let json = serde_json::from_slice(&raw.body).unwrap_or(Value::Null);
        let dialect = Dialect::of_path(raw.path()).unwrap_or_else(|| super::models::dialect(&raw));
        Self { raw, dialect, json, refused: None, answered: false, hung_up: false, times }
    }

    /// The answer went out to where the script ends it.
    pub(super) fn sent_to_its_end(&mut self, at: Option<Instant>) {
        self.answered = true;
        self.times.answered = at;
    }

    /// Its method and target, as `POST /v1/messages`.
    pub fn line(&self) -> String {
        self.raw.line()
    }

    /// A header, by its name in lower case.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.raw.header(name)
    }

    /// All headers, names in lower case, in order of arrival.
    pub fn headers(&self) -> &[(String, String)] {
        &self.raw.headers
    }

    /// The body as it was sent.
    pub fn body(&self) -> &[u8] {
        &self.raw.body
    }

    /// The messages.
    pub fn messages(&self) -> &[Value] {
        self.json["messages"].as_array().map_or(&[], Vec::as_slice)
    }

    /// The text of the newest user message, blocks joined; tool results are not text, and a message of nothing else
    /// has none. In Chat Completions, where results are messages, it is all that the user said since the last answer.
    pub fn last_user_text(&self) -> String {
        match self.dialect {
            Dialect::Anthropic => {
                let last = self.messages().iter().rev().find(|message| message["role"] == "user");
                last.map(text_of_blocks).unwrap_or_default()
            }
            Dialect::OpenAi => {
                let since = self.messages().rsplit(|message| message["role"] == "assistant").next();
                let said = since.into_iter().flatten().filter(|message| message["role"] == "user");
                said.map(openai::content_text).collect::<Vec<_>>().join("\n")
            }
        }
    }

    /// Every text of every user message, in order.
    pub fn user_texts(&self) -> Vec<String> {
        let said = self.messages().iter().filter(|message| message["role"] == "user");
        match self.dialect {
            Dialect::Anthropic => said.map(text_of_blocks).collect(),
            Dialect::OpenAi => said.map(openai::content_text).collect(),
        }
    }

    /// Every tool result, in order.
    pub fn tool_results(&self) -> Vec<ToolResult> {
        if self.dialect == Dialect::OpenAi {
            let results = openai::tool_results(self.messages());
            return results
                .map(|(message, id, text)| ToolResult {
                    tool_use_id: id.to_owned(),
                    text,
                    is_error: false,
                    message,
                })
                .collect();
        }
        let mut results = Vec::new();
        for (index, message) in self.messages().iter().enumerate() {
            for block in message_blocks(message) {
                if block["type"] == "tool_result" {
                    results.push(ToolResult {
                        tool_use_id: block["tool_use_id"].as_str().unwrap_or_default().to_owned(),
                        text: result_text(&block["content"]),
                        is_error: block["is_error"] == true,
                        message: index,
                    });
                }
            }
        }
        results
    }

    /// Every call, in order.
    pub fn calls(&self) -> Vec<Called> {
        let said = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        match self.dialect {
            Dialect::Anthropic => {
                let blocks = self.messages().iter().flat_map(message_blocks);
                let calls = blocks.filter(|block| block["type"] == "tool_use");
                calls
                    .map(|raw| Called {
                        id: said(&raw["id"]),
                        name: said(&raw["name"]),
                        args: raw["input"].clone(),
                        raw,
                    })
                    .collect()
            }
            Dialect::OpenAi => {
                let calls = self.messages().iter().filter_map(|message| message["tool_calls"].as_array());
                calls
                    .flatten()
                    .map(|raw| Called {
                        id: said(&raw["id"]),
                        name: said(&raw["function"]["name"]),
                        args: serde_json::from_str(&said(&raw["function"]["arguments"]))
                            .unwrap_or(Value::Null),
                        raw: raw.clone(),
                    })
                    .collect()
            }
        }
    }

    /// The thinking of every answer that came back with some, in order.
    pub fn thinking(&self) -> Vec<String> {
        let said = self.messages().iter().filter(|message| message["role"] == "assistant");
        match self.dialect {
            Dialect::Anthropic => said
                .flat_map(message_blocks)
                .filter_map(|block| Some(block["thinking"].as_str()?.to_owned()))
                .collect(),
            Dialect::OpenAi => said
                .filter_map(|message| message["reasoning_content"].as_str().or(message["reasoning"].as_str()))
                .map(str::to_owned)
                .collect(),
        }
    }

    /// The results of one call. A request that the API takes has at most one.
    pub fn results_of(&self, tool_use_id: &str) -> Vec<ToolResult> {
        self.tool_results().into_iter().filter(|result| result.tool_use_id == tool_use_id).collect()
    }

    /// The one result of one call.
    pub fn result_of(&self, tool_use_id: &str) -> ToolResult {
        let mut results = self.results_of(tool_use_id);
        assert_eq!(results.len(), 1, "results of {tool_use_id} in {:#}", self.json["messages"]);
        results.remove(0)
    }

    /// Ids of every call, in order.
    pub fn tool_use_ids(&self) -> Vec<String> {
        self.calls().into_iter().map(|call| call.id).collect()
    }

    /// Names of the tools that are offered.
    pub fn tool_names(&self) -> Vec<String> {
        let tools = self.json["tools"].as_array().into_iter().flatten();
        let name = |tool: &Value| match self.dialect {
            Dialect::Anthropic => Some(tool["name"].as_str()?.to_owned()),
            Dialect::OpenAi => Some(tool["function"]["name"].as_str()?.to_owned()),
        };
        tools.filter_map(name).collect()
    }

    /// The system text, blocks joined.
    pub fn system_text(&self) -> String {
        match (self.dialect, &self.json["system"]) {
            (Dialect::OpenAi, _) => {
                let first = self.messages().first();
                let first = first.filter(|first| first["role"] == "system" || first["role"] == "developer");
                first.map(openai::content_text).unwrap_or_default()
            }
            (Dialect::Anthropic, Value::String(text)) => text.clone(),
            (Dialect::Anthropic, blocks) => result_text(blocks),
        }
    }

    /// System, tools and all messages but the newest `leave_out`, as canonical bytes without cache markers: equal
    /// for two requests exactly if their prefix is.
    pub fn prefix(&self, leave_out: usize) -> Vec<u8> {
        let mut prefix = self.json.clone();
        if let Some(messages) = prefix["messages"].as_array_mut() {
            messages.truncate(messages.len().saturating_sub(leave_out));
        }
        let kept = serde_json::json!([prefix["system"], prefix["tools"], prefix["messages"]]);
        serde_json::to_vec(&without_cache_markers(kept)).unwrap_or_default()
    }

    /// One line about it, for failure messages.
    pub fn summary(&self) -> String {
        let last = self.messages().last().map(ToString::to_string).unwrap_or_default();
        let last: String = last.chars().take(200).collect();
        format!("{} with {} messages, the last: {last}", self.line(), self.messages().len())
    }
}

fn text_of_blocks(message: &Value) -> String {
    let texts: Vec<String> = message_blocks(message)
        .iter()
        .filter(|block| block["type"] == "text")
        .filter_map(|block| Some(block["text"].as_str()?.to_owned()))
        .collect();
    texts.join("\n")
}

fn result_text(content: &Value) -> String {
    match content {
        Value::String(text) => text.clone(),
        Value::Array(blocks) => {
            blocks.iter().filter_map(|block| block["text"].as_str()).collect::<Vec<_>>().join("\n")
        }
        _ => String::new(),
    }
}
