//! The list of models.

use super::wire::{BEARER, HEADERS, get};
use crate::scripted::{ListedModel, ScriptedModel};
use serde_json::json;

#[test]
fn models_are_listed_in_each_shape() {
    let server = ScriptedModel::start();
    assert_eq!(get(&server, "/v1/models", HEADERS).status, 404);
    assert_eq!(get(&server, "/v1/models", BEARER).json()["error"]["type"], "invalid_request_error");
    server.list_models([
        ListedModel::new("claude-sonnet-5-5").limits(1_000_000, 64_000).adaptive(true),
        ListedModel::new("qwen/q4 k")
            .field("max_model_len", json!(32_768))
            .field("meta", json!({"n_ctx_train": 131_072})),
    ]);
    let listed = get(&server, "/v1/models", HEADERS).json();
    let first = &listed["data"][0];
    assert_eq!((&first["max_input_tokens"], &first["max_tokens"]), (&json!(1_000_000), &json!(64_000)));
    assert_eq!(first["capabilities"]["thinking"]["types"]["adaptive"]["supported"], true);
    assert_eq!(listed["data"][1]["max_input_tokens"], json!(null));
    assert_eq!(listed["has_more"], false);
    let page = get(&server, "/v1/models?limit=1", HEADERS).json();
    assert_eq!((&page["has_more"], &page["last_id"]), (&json!(true), &json!("claude-sonnet-5-5")));
    let page = get(&server, "/v1/models?limit=1&after_id=claude-sonnet-5-5", HEADERS).json();
    assert_eq!((&page["has_more"], &page["first_id"]), (&json!(false), &json!("qwen/q4 k")));

    let chat = get(&server, "/v1/models", BEARER).json();
    assert_eq!((&chat["object"], chat["data"].as_array().unwrap().len()), (&json!("list"), 2));
    assert_eq!(chat["data"][0].get("max_input_tokens"), None);
    let one = get(&server, "/models/qwen%2Fq4%20k", BEARER).json();
    assert_eq!((&one["max_model_len"], &one["meta"]["n_ctx_train"]), (&json!(32_768), &json!(131_072)));
    assert_eq!(get(&server, "/v1/models/qwen", BEARER).status, 404);
    assert_eq!(get(&server, "/v1/models", &[]).status, 401);
    server.rules(|rules| rules.keyless = true);
    assert_eq!(get(&server, "/v1/models", &[]).status, 200);
    assert_eq!(get(&server, "/props", &[]).status, 404);
    server.list_models_as(200, json!({"models": []}));
    assert_eq!(get(&server, "/v1/models", &[]).json(), json!({"models": []}));
    assert!(server.requests().is_empty() && server.lookups().len() == 12, "{}", server.lookups().len());
}
