//! The list of models: `GET /v1/models` and `GET /v1/models/ID`, in each dialect's shape.

use super::answer::Rendered;
use super::http::RawRequest;
use super::{Dialect, Rules, anthropic, openai};
use serde_json::{Value, json};

/// Models on a page of Anthropic's list when the client names no limit.
const PAGE: usize = 20;

/// A model of the list.
#[derive(Clone, Debug)]
pub struct ListedModel {
    id: String,
    max_input_tokens: Option<u64>,
    max_tokens: Option<u64>,
    adaptive: Option<bool>,
    fields: Vec<(String, Value)>,
}

impl ListedModel {
    /// A model about which nothing is known but its id.
    pub fn new(id: &str) -> Self {
        Self {
            id: id.to_owned(),
            max_input_tokens: None,
            max_tokens: None,
            adaptive: None,
            fields: Vec::new(),
        }
    }

    /// Tokens of its prompt and of its answer; said by Anthropic only.
    #[must_use]
    pub fn limits(mut self, max_input_tokens: u64, max_tokens: u64) -> Self {
        self.max_input_tokens = Some(max_input_tokens);
        self.max_tokens = Some(max_tokens);
        self
    }

    /// Whether it thinks adaptively; said by Anthropic only.
    #[must_use]
    pub fn adaptive(mut self, supported: bool) -> Self {
        self.adaptive = Some(supported);
        self
    }

    /// Adds a top-level field, in either dialect: `max_model_len` (vLLM), `context_length` and `pricing` (OpenRouter),
    /// `meta` with `n_ctx_train` (llama.cpp).
    #[must_use]
    pub fn field(mut self, name: &str, value: Value) -> Self {
        self.fields.push((name.to_owned(), value));
        self
    }

    fn shown(&self, dialect: Dialect) -> Value {
        let supported = |flag: Option<bool>| flag.map(|supported| json!({ "supported": supported }));
        let mut shown = match dialect {
            Dialect::Anthropic => json!({
                "type": "model", "id": self.id, "display_name": self.id, "created_at": "2026-10-01T00:00:00Z",
                "lifecycle": "active", "deprecated_at": null, "retires_at": null,
                "max_input_tokens": self.max_input_tokens, "max_tokens": self.max_tokens,
                "capabilities": {
                    "thinking": {
                        "supported": self.adaptive.unwrap_or(false),
                        "types": {"adaptive": supported(self.adaptive), "enabled": supported(self.adaptive.map(|on| !on))},
                    },
                    "image_input": {"supported": true},
                },
            }),
            Dialect::OpenAi => json!({
                "id": self.id, "object": "model", "created": 1_790_000_000, "owned_by": "scripted",
            }),
        };
        for (name, value) in &self.fields {
            shown[name] = value.clone();
        }
        shown
    }
}

/// What the server answers about models.
#[derive(Clone, Debug)]
pub(super) enum Models {
    Listed(Vec<ListedModel>),
    /// This, whatever was asked.
    Raw(u16, Value),
}

/// The answer to a request that is not for an answer of a model: a list or one of its models, else 404.
pub(super) fn look_up(raw: &RawRequest, models: Option<&Models>, rules: &Rules) -> Rendered {
    let dialect = dialect(raw);
    let key = match dialect {
        _ if rules.keyless => Ok(()),
        Dialect::Anthropic => anthropic::check_key(raw),
        Dialect::OpenAi => openai::check_key(raw),
    };
    if let Err(refusal) = key {
        return Rendered::refusal(&refusal);
    }
    let (path, query) = raw.target.split_once('?').unwrap_or((&raw.target, ""));
    let asked = path.strip_prefix("/v1/models").or(path.strip_prefix("/models"));
    let found = match (asked, models) {
        (Some(_), Some(Models::Raw(status, body))) => return Rendered::json(*status, body),
        (Some("" | "/"), Some(Models::Listed(models))) => Some(list(dialect, models, query)),
        (Some(id), Some(Models::Listed(models))) => {
            let id = decoded(id.trim_start_matches('/'));
            models.iter().find(|model| model.id == id).map(|model| model.shown(dialect))
        }
        _ => None,
    };
    match (found, dialect) {
        (Some(found), _) => Rendered::json(200, &found),
        (None, Dialect::Anthropic) => Rendered::refusal(&anthropic::not_found()),
        (None, Dialect::OpenAi) => Rendered::refusal(&openai::not_found(&raw.line())),
    }
}

/// Lists of both dialects are on one path; the headers tell.
pub(super) fn dialect(raw: &RawRequest) -> Dialect {
    let anthropic = raw.header("anthropic-version").or(raw.header("x-api-key")).is_some();
    if anthropic { Dialect::Anthropic } else { Dialect::OpenAi }
}

fn list(dialect: Dialect, models: &[ListedModel], query: &str) -> Value {
    if dialect == Dialect::OpenAi {
        let shown: Vec<Value> = models.iter().map(|model| model.shown(dialect)).collect();
        return json!({"object": "list", "data": shown});
    }
    let said = |name: &str| {
        let mut pairs = query.split('&').filter_map(|pair| pair.split_once('='));
        pairs.find_map(|(known, value)| (known == name).then(|| decoded(value)))
    };
    let limit = said("limit").and_then(|limit| limit.parse().ok()).unwrap_or(PAGE).clamp(1, 1000);
    let start = said("after_id").and_then(|id| models.iter().position(|model| model.id == id));
    let start = start.map_or(0, |at| at + 1);
    let page: Vec<&ListedModel> = models.iter().skip(start).take(limit).collect();
    json!({
        "data": page.iter().map(|model| model.shown(dialect)).collect::<Vec<_>>(),
        "has_more": start + page.len() < models.len(),
        "first_id": page.first().map(|model| &model.id),
        "last_id": page.last().map(|model| &model.id),
    })
}

/// Percent-encoding undone.
fn decoded(text: &str) -> String {
    let mut bytes = Vec::new();
    let mut rest = text.as_bytes();
    while let [first, after @ ..] = rest {
        let code = after.get(..2).and_then(|hex| std::str::from_utf8(hex).ok());
        match code.filter(|_| *first == b'%').and_then(|hex| u8::from_str_radix(hex, 16).ok()) {
            Some(byte) => {
                bytes.push(byte);
                rest = &after[2..];
            }
            None => {
                bytes.push(*first);
                rest = after;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}
