//! What a server says of its models in the answer to `GET /v1/models`.
//!
//! Every kind of server has its own words for the same few figures; all of them are read here, by the presence of
//! a field and never by the server's name. A figure that cannot be true is taken for absent.
//!
//! Invariants: pure; nothing in a body, however broken, panics; only what the server itself will hold to is
//! believed. So the window that llama.cpp was *trained* with (`n_ctx_train`) is not read, nor the largest one that
//! LM Studio could load a model with: both cut prompts silently at the smaller window that is really served.

use crate::event::Price;
use crate::limits::{CONTEXT_WINDOW_MIN, LISTED_MODELS_MAX, LISTED_WINDOW_MAX, LISTING_MAX_BYTES};
use serde_json::Value;

/// What a server says of one model; absent is what it does not say.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Described {
    /// Tokens of prompt and answer together.
    pub context_window: Option<u64>,
    /// Tokens of one answer.
    pub max_output_tokens: Option<u32>,
    /// Whether adaptive thinking can be asked for.
    pub adaptive_thinking: Option<bool>,
    /// What it costs.
    pub price: Option<Price>,
}

/// What the body says of `model`. None when it does not name it, or cannot be read.
pub fn described(body: &[u8], model: &str) -> Option<Described> {
    let whole = parse(body)?;
    entry_of(&whole, model).map(read)
}

/// The ids of all models in the body, in its order. None when it is no list of anything.
pub fn listed(body: &[u8]) -> Option<Vec<(String, Described)>> {
    let whole = parse(body)?;
    let ids = entries(&whole).filter_map(|entry| Some((id(entry)?.to_owned(), read(entry))));
    Some(ids.take(LISTED_MODELS_MAX).collect())
}

fn parse(body: &[u8]) -> Option<Value> {
    if body.len() > LISTING_MAX_BYTES {
        return None;
    }
    serde_json::from_slice(body).ok()
}

/// The models of a body: `{"data": […]}` nearly everywhere, `{"models": […]}` at Ollama and Gemini, a bare array at
/// Together, one object where one model was asked for.
fn entries(whole: &Value) -> impl Iterator<Item = &Value> {
    let list = whole.as_array().or_else(|| ["data", "models"].iter().find_map(|key| whole[key].as_array()));
    let one = list.is_none() && id(whole).is_some();
    list.into_iter().flatten().chain(one.then_some(whole)).filter(|entry| entry.is_object())
}

fn id(entry: &Value) -> Option<&str> {
    let text = ["id", "name", "model"].iter().find_map(|key| entry[key].as_str())?;
    let plain = text.strip_prefix("models/").unwrap_or(text);
    (!plain.is_empty() && plain.len() <= ID_MAX_BYTES).then_some(plain)
}

/// No server has longer ids; what is longer is no id.
const ID_MAX_BYTES: usize = 512;

fn entry_of<'a>(whole: &'a Value, model: &str) -> Option<&'a Value> {
    if let Some(exact) = entries(whole).find(|entry| id(entry) == Some(model)) {
        return Some(exact);
    }
    let alias = |entry: &&Value| {
        let aliases = entry["aliases"].as_array().into_iter().flatten();
        aliases.chain([&entry["root"], &entry["model"]]).any(|alias| alias.as_str() == Some(model))
    };
    if let Some(alias) = entries(whole).find(alias) {
        return Some(alias);
    }
    // llama.cpp serves its one model by whatever name it is asked for.
    let mut all = entries(whole);
    match (all.next(), all.next()) {
        (Some(only), None) if only["owned_by"] == "llamacpp" => Some(only),
        _ => None,
    }
}

fn read(entry: &Value) -> Described {
    let context_window = window(entry);
    let max_output_tokens =
        output(entry).filter(|tokens| context_window.is_none_or(|window| u64::from(*tokens) <= window));
    let adaptive = &entry["capabilities"]["thinking"]["types"]["adaptive"];
    Described {
        context_window,
        max_output_tokens,
        adaptive_thinking: adaptive["supported"].as_bool().or_else(|| adaptive.as_bool()),
        price: price(entry),
    }
}

fn tokens(value: &Value) -> Option<u64> {
    let number = value.as_u64().or_else(|| value.as_str()?.trim().parse().ok())?;
    (number > 0).then_some(number)
}

fn window(entry: &Value) -> Option<u64> {
    // Only a server of local files says how its model is packed; what it could load is not what it serves.
    let is_local_file = !entry["quantization"].is_null() || !entry["compatibility_type"].is_null();
    let largest = if is_local_file { &Value::Null } else { &entry["max_context_length"] };
    let said = [
        // Anthropic.
        &entry["max_input_tokens"],
        // llama.cpp: what is served, where it says so.
        &entry["meta"]["n_ctx"],
        &entry["n_ctx"],
        // LM Studio.
        &entry["loaded_context_length"],
        // vLLM, SGLang.
        &entry["max_model_len"],
        // OpenRouter: the provider that serves may have less than the model.
        &entry["top_provider"]["context_length"],
        // OpenRouter, Together, Fireworks, Moonshot.
        &entry["context_length"],
        // Groq.
        &entry["context_window"],
        // Mistral.
        largest,
        // Gemini's own list.
        &entry["inputTokenLimit"],
    ];
    let first = said.into_iter().find_map(tokens)?;
    (CONTEXT_WINDOW_MIN..=LISTED_WINDOW_MAX).contains(&first).then_some(first)
}

fn output(entry: &Value) -> Option<u32> {
    // `max_tokens` means an answer only beside Anthropic's own word for the prompt; elsewhere it is anything.
    let of_anthropic = if entry["max_input_tokens"].is_null() { &Value::Null } else { &entry["max_tokens"] };
    let said = [
        of_anthropic,
        &entry["top_provider"]["max_completion_tokens"],
        &entry["max_completion_tokens"],
        &entry["max_output_tokens"],
        &entry["outputTokenLimit"],
    ];
    said.into_iter().find_map(tokens).and_then(|tokens| u32::try_from(tokens).ok())
}

/// OpenRouter writes dollars per token as text, Together dollars per million as numbers.
fn price(entry: &Value) -> Option<Price> {
    let said = &entry["pricing"];
    let (scale, input, output, read, write) = if said["prompt"].is_null() {
        (1.0, "input", "output", "cached_input", "cache_write")
    } else {
        (1_000_000.0, "prompt", "completion", "input_cache_read", "input_cache_write")
    };
    let of = |key: &str| micro_per_million(&said[key], scale);
    let (input, output) = (of(input)?, of(output)?);
    // What is not told apart costs what the prompt costs.
    Some(Price {
        input,
        output,
        cache_read: of(read).unwrap_or(input),
        cache_write: of(write).unwrap_or(input),
    })
}

/// Dollars (for a token, with `scale` a million) as millionths of a dollar for a million tokens. A negative price
/// means "it depends" at OpenRouter.
fn micro_per_million(value: &Value, scale: f64) -> Option<i64> {
    let dollars = value.as_f64().or_else(|| value.as_str()?.trim().parse().ok())? * scale;
    if !(0.0..=PRICE_MAX_USD).contains(&dollars) {
        return None;
    }
    #[allow(clippy::cast_possible_truncation)]
    let micro = (dollars * 1_000_000.0).round() as i64;
    Some(micro)
}

/// Dollars per million tokens beyond which a price is a mistake.
const PRICE_MAX_USD: f64 = 100_000.0;

#[cfg(test)]
#[path = "listing_tests.rs"]
mod tests;
