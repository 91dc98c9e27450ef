//! What people read about a refusal.

use super::*;
use crate::config::Secret;
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
