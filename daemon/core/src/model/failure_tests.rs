//! Errors are sorted by what they mean.

use super::*;
use FailureClass::{BadRequest, ContextExceeded, Credentials, Overloaded, Quota, RateLimited, Server};
use proptest::prelude::*;

fn class(status: u16, body: &str, has_retry_after: bool) -> FailureClass {
    ProviderError::read(body.as_bytes()).class(Some(status), has_retry_after)
}

fn anthropic(kind: &str, message: &str, code: &str) -> String {
    let details = if code.is_empty() { "null".to_owned() } else { format!("{{\"error_code\":\"{code}\"}}") };
    format!(
        "{{\"type\":\"error\",\"error\":{{\"type\":\"{kind}\",\"message\":\"{message}\",\"details\":{details}}},\"request_id\":\"req_1\"}}"
    )
}

#[test]
fn the_table_of_anthropic() {
    let cases = [
        (400, "invalid_request_error", "x: Extra inputs are not permitted", "", BadRequest),
        (400, "invalid_request_error", "You have reached your specified API usage limits. Wait.", "", Quota),
        (400, "invalid_request_error", "Your credit balance is too low to access the API.", "", Quota),
        (
            400,
            "invalid_request_error",
            "prompt is too long: 210000 tokens > 200000 maximum",
            "",
            ContextExceeded,
        ),
        (401, "authentication_error", "invalid x-api-key", "", Credentials),
        (402, "billing_error", "pay", "", Quota),
        (403, "permission_error", "no", "", Credentials),
        (404, "not_found_error", "model: claude-sonet", "", BadRequest),
        (408, "timeout_error", "slow", "", Server),
        (409, "conflict_error", "in flight", "thread_continue_in_flight", Server),
        (413, "request_too_large", "too large", "", ContextExceeded),
        (429, "rate_limit_error", "slow down", "enforced_spend_limit_reached", Quota),
        (429, "rate_limit_error", "slow down", "contract_spend_limit_reached", Quota),
        (429, "rate_limit_error", "slow down", "ramp_limit_exceeded", Quota),
        (500, "api_error", "oops", "", Server),
        (504, "timeout_error", "slow", "", Server),
        (529, "overloaded_error", "Overloaded", "", Overloaded),
    ];
    for (status, kind, message, code, expected) in cases {
        assert_eq!(class(status, &anthropic(kind, message, code), false), expected, "{status} {kind} {code}");
    }
    assert_eq!(class(429, &anthropic("rate_limit_error", "slow down", ""), true), RateLimited);
    assert_eq!(class(429, &anthropic("rate_limit_error", "slow down", ""), false), RateLimited);
    assert_eq!(class(429, &anthropic("rate_limit_error", "x", "ramp_limit_exceeded"), true), RateLimited);
    assert_eq!(class(429, &anthropic("rate_limit_error", "x", "enforced_spend_limit_reached"), true), Quota);
}

#[test]
fn inside_a_stream_the_type_decides() {
    let inside = |kind: &str| ProviderError::read(anthropic(kind, "x", "").as_bytes()).class(None, false);
    assert_eq!(inside("overloaded_error"), Overloaded);
    assert_eq!(inside("rate_limit_error"), RateLimited);
    assert_eq!(inside("api_error"), Server);
    assert_eq!(inside("authentication_error"), Credentials);
    assert_eq!(inside("invalid_request_error"), BadRequest);
    assert_eq!(inside("something_new"), Server);
}

#[test]
fn other_shapes_are_read_too() {
    let llama = r#"{"error":{"code":400,"message":"the request exceeds the available context size, try increasing it","type":"exceed_context_size_error","n_prompt_tokens":9001,"n_ctx":4096}}"#;
    let error = ProviderError::read(llama.as_bytes());
    assert_eq!((error.class(Some(400), false), error.window), (ContextExceeded, Some(4096)));
    let cases = [
        (
            429,
            r#"{"error":{"message":"You exceeded your current quota","type":"insufficient_quota","code":"insufficient_quota"}}"#,
            Quota,
        ),
        (
            400,
            r#"{"error":{"message":"This model's maximum context length is 8192 tokens.","code":"context_length_exceeded"}}"#,
            ContextExceeded,
        ),
        (500, r#"{"error":"model not loaded"}"#, Server),
        (429, r#"[{"error":{"code":429,"message":"exhausted","status":"RESOURCE_EXHAUSTED"}}]"#, RateLimited),
        (422, r#"{"detail":[{"loc":["body"],"msg":"field required"}]}"#, BadRequest),
        (502, "<html><head><title>502 Bad Gateway</title></head><body>nginx</body></html>", Server),
        (503, "", Overloaded),
        (418, "short and stout", BadRequest),
    ];
    for (status, body, expected) in cases {
        assert_eq!(class(status, body, false), expected, "{body}");
    }
    let words = |body: &str| ProviderError::read(body.as_bytes()).message;
    assert_eq!(words(r#"{"error":"model not loaded"}"#), "model not loaded");
    assert_eq!(words(r#"{"detail":[{"msg":"field required"}]}"#), "field required");
    assert_eq!(words("<html><title> 502\n Bad Gateway</title>"), "502 Bad Gateway");
    assert_eq!(words("<p>one</p><p>two</p>"), "one two");
}

#[test]
fn an_error_teaches_the_window() {
    for (text, window) in [
        ("prompt is too long: 210000 tokens > 200000 maximum", Some(200_000)),
        (
            "input length and `max_tokens` exceed context limit: 188240 + 21333 > 200000, decrease input",
            Some(200_000),
        ),
        ("This model's maximum context length is 8,192 tokens", Some(8_192)),
        ("request (900 tokens) exceeds the available context size (512 tokens)", Some(512)),
        ("a > 3 is not about it", None),
        ("prompt is too long", None),
    ] {
        assert_eq!(window_in(text), window, "{text}");
    }
}

#[test]
fn words_for_people_are_one_bounded_line() {
    let long = tidy(&"a\u{1b}[31m\nb ".repeat(1_000));
    assert_eq!(long.chars().count(), MESSAGE_MAX_CHARS + 1);
    assert!(!long.contains(|c: char| c.is_control()));
}

proptest! {
    #[test]
    fn any_body_has_a_class(status in 100_u16..700, body in proptest::collection::vec(any::<u8>(), 0..200)) {
        let error = ProviderError::read(&body);
        let class = error.class(Some(status), false);
        prop_assert!(!matches!(status, 401 | 403) || class == Credentials);
    }
}
