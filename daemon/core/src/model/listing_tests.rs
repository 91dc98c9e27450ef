//! The shapes of real servers, and what must not be believed.

use super::*;
use proptest::prelude::*;
use serde_json::json;

fn of(body: &Value, model: &str) -> Option<Described> {
    described(body.to_string().as_bytes(), model)
}

fn figures(body: &Value, model: &str) -> (Option<u64>, Option<u32>) {
    let found = of(body, model).unwrap_or_else(|| panic!("{model} is not in {body}"));
    (found.context_window, found.max_output_tokens)
}

#[test]
fn anthropic_says_windows_and_how_thinking_is_asked_for() {
    let one = json!({
        "type": "model", "id": "claude-opus-5-5", "display_name": "Claude Opus 5.5", "line": "opus",
        "max_input_tokens": 400_000, "max_tokens": 64_000, "lifecycle": "active",
        "capabilities": {"thinking": {"supported": true, "types": {
            "adaptive": {"supported": true}, "enabled": {"supported": false}}}},
    });
    let found = of(&one, "claude-opus-5-5").unwrap();
    assert_eq!((found.context_window, found.max_output_tokens), (Some(400_000), Some(64_000)));
    assert_eq!((found.adaptive_thinking, found.price), (Some(true), None));
    let nulls =
        json!({"data": [{"id": "a", "max_input_tokens": null, "max_tokens": null, "capabilities": null}]});
    assert_eq!(of(&nulls, "a"), Some(Described::default()));
    assert_eq!(of(&one, "claude-opus-5"), None, "another model is not this one");
}

#[test]
fn servers_that_say_nothing_are_believed_to_say_nothing() {
    let openai = json!({"object": "list", "data": [
        {"id": "gpt-5.5", "object": "model", "created": 1, "owned_by": "openai"}]});
    assert_eq!(of(&openai, "gpt-5.5"), Some(Described::default()));
    assert_eq!(of(&openai, "gpt-5"), None);
    let ollama = json!({"models": [{"name": "qwen3:8b", "model": "qwen3:8b", "details": {}}]});
    assert_eq!(of(&ollama, "qwen3:8b"), Some(Described::default()));
}

#[test]
fn each_kind_of_server_has_its_own_words() {
    let vllm =
        json!({"data": [{"id": "Qwen/Qwen3-8B", "root": "/m", "max_model_len": 40_960, "owned_by": "vllm"}]});
    assert_eq!(figures(&vllm, "Qwen/Qwen3-8B"), (Some(40_960), None));
    let groq = json!({"data": [{"id": "g", "context_window": 131_072, "max_completion_tokens": 65_536}]});
    assert_eq!(figures(&groq, "g"), (Some(131_072), Some(65_536)));
    let mistral = json!({"data": [{"id": "mistral-large-2512", "aliases": ["mistral-large-latest"],
        "max_context_length": 262_144}]});
    assert_eq!(figures(&mistral, "mistral-large-latest"), (Some(262_144), None));
    let llama = json!({"data": [{"id": "/m/x.gguf", "owned_by": "llamacpp",
        "meta": {"n_ctx_train": 262_144, "n_ctx": 8_192}}]});
    assert_eq!(figures(&llama, "any name"), (Some(8_192), None));
    let gemini = json!({"models": [{"name": "models/gemini-3-pro", "inputTokenLimit": 1_048_576,
        "outputTokenLimit": 65_536}]});
    assert_eq!(figures(&gemini, "gemini-3-pro"), (Some(1_048_576), Some(65_536)));
}

#[test]
fn what_is_not_served_is_not_believed() {
    let trained = json!({"data": [{"id": "x", "owned_by": "llamacpp", "meta": {"n_ctx_train": 262_144}}]});
    assert_eq!(figures(&trained, "x"), (None, None));
    let studio = |loaded: Value| {
        json!({"data": [{"id": "q", "quantization": "Q4_K_M", "state": "loaded",
            "loaded_context_length": loaded, "max_context_length": 131_072}]})
    };
    assert_eq!(figures(&studio(json!(4_096)), "q"), (Some(4_096), None));
    assert_eq!(figures(&studio(Value::Null), "q"), (None, None));
    for window in [json!(0), json!(-1), json!(12), json!(1e30), json!("many"), json!([1]), json!(u64::MAX)] {
        let body = json!({"id": "x", "context_length": window.clone(), "max_completion_tokens": -5});
        assert_eq!(figures(&body, "x"), (None, None), "{window}");
    }
    let more_than_fits = json!({"id": "x", "context_length": 8_192, "max_completion_tokens": 1_000_000});
    assert_eq!(figures(&more_than_fits, "x"), (Some(8_192), None));
}

#[test]
fn prices_come_per_token_or_per_million() {
    let router = json!({"data": [
        {"id": "a/b", "context_length": 200_000,
         "pricing": {"prompt": "0.000003", "completion": "0.000015", "input_cache_read": "0.0000003"},
         "top_provider": {"context_length": 128_000, "max_completion_tokens": 32_000}},
        {"id": "openrouter/auto", "pricing": {"prompt": "-1", "completion": "-1"}},
        {"id": "free", "pricing": {"prompt": "0", "completion": "0"}}]});
    let found = of(&router, "a/b").unwrap();
    assert_eq!((found.context_window, found.max_output_tokens), (Some(128_000), Some(32_000)));
    let price = Price { input: 3_000_000, output: 15_000_000, cache_read: 300_000, cache_write: 3_000_000 };
    assert_eq!(found.price, Some(price));
    assert_eq!(of(&router, "openrouter/auto").unwrap().price, None, "it depends");
    assert_eq!(of(&router, "free").unwrap().price, Some(Price::default()), "known to cost nothing");
    let together =
        json!([{"id": "t", "context_length": 131_072, "pricing": {"input": 0.88, "output": 0.88}}]);
    assert_eq!(of(&together, "t").unwrap().price.map(|price| price.output), Some(880_000));
}

#[test]
fn a_list_is_its_ids_in_order_and_bounded() {
    let body = json!({"data": [{"id": "b"}, {"id": ""}, 7, {"id": "a"}]}).to_string();
    let ids: Vec<String> = listed(body.as_bytes()).unwrap().into_iter().map(|(id, _)| id).collect();
    assert_eq!(ids, ["b", "a"]);
    let many: Vec<Value> = (0..LISTED_MODELS_MAX + 5).map(|n| json!({"id": n.to_string()})).collect();
    assert_eq!(listed(Value::from(many).to_string().as_bytes()).unwrap().len(), LISTED_MODELS_MAX);
    let huge = format!("{{\"id\":\"x\",\"pad\":\"{}\"}}", "x".repeat(LISTING_MAX_BYTES));
    assert_eq!(described(huge.as_bytes(), "x"), None);
}

proptest! {
    #[test]
    fn no_body_panics(body in prop::collection::vec(any::<u8>(), 0..200), text in "[\\[\\]{}\":,a-z0-9-]{0,80}") {
        let _ = (described(&body, "x"), listed(&body), described(text.as_bytes(), "x"), listed(text.as_bytes()));
    }
}
