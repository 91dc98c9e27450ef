//! What people read about a refusal.

use super::*;
use crate::config::Secret;
use agentd_core::event::Mend;
use reqwest::header::HeaderValue;

fn judged(status: u16, headers: &[(&'static str, &str)], body: &str) -> CallFailure {
    let mut map = HeaderMap::new();
    for (name, value) in headers {
        map.insert(*name, HeaderValue::from_str(value).unwrap());
    }
    let provider = Provider::anthropic("anthropic", "https://api.anthropic.com", Some(Secret::new("sk-key")));
    judge(status, &map, body.as_bytes(), &provider)
}

#[test]
fn a_message_names_who_where_what_and_the_way_out() {
    let body = r#"{"type":"error","error":{"type":"not_found_error","message":"model: claude-sonet-4-5"},"request_id":"req_0"}"#;
    let failure = judged(404, &[("request-id", "req_0")], body);
    assert_eq!(
        failure.message,
        "anthropic (api.anthropic.com) answered 404 not_found_error: model: claude-sonet-4-5 (request req_0). \
         Check the model's name and providers.anthropic.base_url"
    );
    assert_eq!(failure.class, FailureClass::BadRequest);
}

#[test]
fn money_is_never_tried_again() {
    let body = r#"{"type":"error","error":{"type":"rate_limit_error","message":"Limit.","details":{"error_code":"enforced_spend_limit_reached"}}}"#;
    let failure = judged(429, &[], body);
    assert!(failure.class == FailureClass::Quota && !failure.class.is_retryable());
    assert!(
        failure.message.contains("enforced_spend_limit_reached")
            && failure.message.contains("not tried again")
    );
}

#[test]
fn a_date_is_compared_with_the_servers_own_clock() {
    let headers =
        [("date", "Sun, 06 Nov 1994 08:49:30 GMT"), ("retry-after", "Sun, 06 Nov 1994 08:49:37 GMT")];
    assert_eq!(judged(503, &headers, "").retry_after_ms, Some(7_000));
    assert_eq!(
        judged(429, &[("retry-after-ms", "1500"), ("retry-after", "60")], "").retry_after_ms,
        Some(1_500)
    );
    assert_eq!(judged(429, &[], "").retry_after_ms, None);
}

#[test]
fn a_proxy_that_wants_credentials_is_named() {
    let failure = judged(407, &[], "<html><title>Proxy Authentication Required</title></html>");
    assert_eq!(failure.class, FailureClass::Credentials);
    assert!(failure.message.contains("HTTPS_PROXY"), "{}", failure.message);
}

#[test]
fn a_wait_is_found_wherever_it_is_said() {
    let retry_info = r#"{"error":{"code":429,"status":"RESOURCE_EXHAUSTED","message":"You exceeded your current quota.","details":[{"@type":"type.googleapis.com/google.rpc.RetryInfo","retryDelay":"34.4s"}]}}"#;
    let resets = [("x-ratelimit-remaining-requests", "0"), ("x-ratelimit-reset-requests", "1m0s")];
    let both = [resets[0], resets[1], ("retry-after", "2")];
    type Row<'a> = (&'a str, u16, &'a [(&'static str, &'a str)], &'a str, Option<u64>);
    let rows: [Row<'_>; 6] = [
        ("the header before the body", 429, &[("retry-after", "2")], retry_info, Some(2_000)),
        ("the body where there is no header", 429, &[], retry_info, Some(34_400)),
        ("the resets where there is neither", 429, &resets, "", Some(60_000)),
        ("the resets only behind the others", 429, &both, "", Some(2_000)),
        ("the resets only of a 429", 503, &resets, "", None),
        ("nothing", 429, &[], "", None),
    ];
    for (name, status, headers, body, expected) in rows {
        let failure = judged(status, headers, body);
        assert_eq!(failure.retry_after_ms, expected, "{name}");
        assert!(failure.class.is_retryable(), "{name}: {:?}", failure.class);
    }
}

#[test]
fn resets_do_not_make_a_used_up_budget_a_rate() {
    let body = r#"{"error":{"type":"rate_limit_error","message":"x","details":{"error_code":"ramp_limit_exceeded"}}}"#;
    let resets = [
        ("anthropic-ratelimit-tokens-remaining", "0"),
        ("anthropic-ratelimit-tokens-reset", "2030-01-01T00:00:00Z"),
    ];
    assert_eq!(judged(429, &resets, body).class, FailureClass::Quota);
}

#[test]
fn the_servers_word_and_what_the_refusal_teaches_are_passed_on() {
    for (word, expected) in [("true", Some(true)), ("False", Some(false)), ("maybe", None)] {
        assert_eq!(judged(500, &[("x-should-retry", word)], "").should_retry, expected, "{word}");
    }
    let body = r#"{"error":{"message":"Unrecognized request argument supplied: stream_options","type":"invalid_request_error"}}"#;
    assert_eq!(judged(400, &[], body).mend, Some(Mend::OmitStreamOptions));
    let body = r#"{"error":{"message":"max_tokens: 64000 > 32000, which is the maximum allowed number of output tokens for m","type":"invalid_request_error"}}"#;
    let failure = judged(400, &[], body);
    assert_eq!((failure.class, failure.learned_output), (FailureClass::BadRequest, Some(32_000)));
    let body = r#"{"error":{"message":"This model's maximum context length is 8192 tokens.","code":"context_length_exceeded"}}"#;
    assert_eq!(judged(400, &[], body).learned_window, Some(8_192));
}
