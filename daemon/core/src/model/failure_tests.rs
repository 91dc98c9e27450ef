//! Errors are sorted by what they mean.

use super::*;
use FailureClass::{
    BadRequest, ContextExceeded, Credentials, Malformed, Overloaded, Quota, RateLimited, Server,
};
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
        ("However, the model is loaded with context length of only 4096 tokens", Some(4_096)),
        (
            "The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).",
            Some(1_048_576),
        ),
        (
            "This model's maximum prompt length is 131072 but the request contains 537812 tokens.",
            Some(131_072),
        ),
        ("Your request exceeded model token limit: 131072", Some(131_072)),
        ("Prompt contains 40000 tokens, too large for model with 32768 maximum context length", Some(32_768)),
        (
            "This model's maximum context length is 8192 tokens. However, you requested 9000 tokens (8000 in the messages, 1000 in the completion).",
            Some(8_192),
        ),
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

/// Status, body, class.
type Row = (u16, &'static str, FailureClass);

#[test]
fn a_definite_status_decides_against_a_vague_type() {
    let rows: [Row; 21] = [
        (400, r#"{"error":{"type":"api_error","message":"x"}}"#, BadRequest),
        (400, r#"{"error":{"type":"server_error","message":"x"}}"#, BadRequest),
        (500, r#"{"error":{"type":"invalid_request_error","message":"x"}}"#, Server),
        (400, r#"{"error":{"type":"overloaded_error","message":"x"}}"#, Overloaded),
        (500, r#"{"error":{"type":"overloaded_error","message":"x"}}"#, Overloaded),
        (500, r#"{"error":{"code":500,"status":"UNAVAILABLE","message":"x"}}"#, Overloaded),
        (400, r#"{"error":{"code":400,"status":"UNAVAILABLE","message":"x"}}"#, BadRequest),
        (401, r#"{"error":{"type":"invalid_request_error","message":"x"}}"#, Credentials),
        (403, r#"{"error":{"type":"permission_error","message":"x"}}"#, Credentials),
        (
            403,
            r#"{"error":{"type":"invalid_request_error","code":"model_not_found","message":"x"}}"#,
            BadRequest,
        ),
        (
            403,
            r#"{"error":{"code":403,"message":"Your chosen model requires moderation and your input was flagged"}}"#,
            BadRequest,
        ),
        (403, r#"{"error":{"code":"unsupported_country_region_territory","message":"x"}}"#, BadRequest),
        (404, r#"{"error":{"type":"server_error","message":"x"}}"#, BadRequest),
        (408, "", Server),
        (409, "", Server),
        (425, "", Server),
        (413, "<html><title>413 Request Entity Too Large</title></html>", BadRequest),
        (
            413,
            r#"{"error":{"type":"request_too_large","message":"Request exceeds the maximum size"}}"#,
            ContextExceeded,
        ),
        (422, "", BadRequest),
        (498, "", Overloaded),
        (529, r#"{"error":{"type":"api_error","message":"x"}}"#, Overloaded),
    ];
    for (status, body, expected) in rows {
        assert_eq!(class(status, body, false), expected, "{status} {body}");
    }
}

#[rustfmt::skip]
const SHAPES: [Row; 33] = [
        (
            429,
            r#"{"error":{"message":"Rate limit reached","type":"requests","code":"rate_limit_exceeded"}}"#,
            RateLimited,
        ),
        (
            429,
            r#"{"error":{"message":"You exceeded your current quota, please check","type":"insufficient_quota","code":"insufficient_quota"}}"#,
            Quota,
        ),
        (
            401,
            r#"{"error":{"message":"Incorrect API key provided: sk-x","type":"invalid_request_error","code":"invalid_api_key"}}"#,
            Credentials,
        ),
        (
            400,
            r#"{"error":{"message":"Incorrect API key provided","code":"Client specified an invalid argument"}}"#,
            Credentials,
        ),
        (
            404,
            r#"{"error":{"message":"The model `x` does not exist","type":"invalid_request_error","code":"model_not_found"}}"#,
            BadRequest,
        ),
        (500, r#"{"error":{"message":"The server had an error","type":"server_error"}}"#, Server),
        (
            402,
            r#"{"error":{"message":"Insufficient Balance","type":"unknown_error","code":"invalid_request_error"}}"#,
            Quota,
        ),
        (402, r#"{"error":{"code":402,"message":"This request requires more credits"}}"#, Quota),
        (429, r#"{"error":{"code":429,"message":"Rate limit exceeded: free-models-per-min"}}"#, RateLimited),
        (429, r#"{"error":{"code":"429","message":"slow"}}"#, RateLimited),
        (502, r#"{"error":{"code":502,"message":"Upstream error"}}"#, Server),
        (
            400,
            r#"{"error":{"code":400,"message":"Provider returned error","metadata":{"raw":"{\"error\":{\"message\":\"This model's maximum context length is 8192 tokens\"}}"}}}"#,
            ContextExceeded,
        ),
        (
            400,
            r#"{"object":"error","message":"This model's maximum context length is 4096 tokens.","type":"BadRequestError","param":null,"code":400}"#,
            ContextExceeded,
        ),
        (400, r#"{"object":"error","message":"bad","type":"BadRequestError","code":400}"#, BadRequest),
        (
            400,
            r#"{"object":"error","message":{"detail":[{"msg":"field required"}]},"type":"invalid_request_error"}"#,
            BadRequest,
        ),
        (
            422,
            r#"{"error":"Input validation error: `inputs` must have less than 4096 tokens. Given: 5000","error_type":"validation"}"#,
            ContextExceeded,
        ),
        (
            400,
            r#"{"error":"Trying to keep the first 5000 tokens when context the overflows. However, the model is loaded with context length of only 4096 tokens"}"#,
            ContextExceeded,
        ),
        (
            400,
            r#"{"error":{"code":400,"message":"The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).","status":"INVALID_ARGUMENT"}}"#,
            ContextExceeded,
        ),
        (
            400,
            r#"{"error":{"code":400,"message":"API key not valid. Please pass a valid API key.","status":"INVALID_ARGUMENT","details":[{"reason":"API_KEY_INVALID"}]}}"#,
            Credentials,
        ),
        (400, r#"{"error":{"code":400,"message":"Invalid value","status":"INVALID_ARGUMENT"}}"#, BadRequest),
        (
            503,
            r#"{"error":{"code":503,"message":"The model is overloaded.","status":"UNAVAILABLE"}}"#,
            Overloaded,
        ),
        (
            403,
            r#"{"error":{"code":403,"message":"Permission denied","status":"PERMISSION_DENIED"}}"#,
            Credentials,
        ),
        (
            400,
            r#"{"error":{"message":"This model's maximum prompt length is 131072 but the request contains 537812 tokens."}}"#,
            ContextExceeded,
        ),
        (
            400,
            r#"{"error":{"message":"Please reduce the length of the messages or completion.","type":"invalid_request_error","code":"context_length_exceeded"}}"#,
            ContextExceeded,
        ),
        (
            413,
            r#"{"error":{"message":"Request too large for model `x` on tokens per minute (TPM): Limit 6000, Requested 7000","type":"tokens","code":"rate_limit_exceeded"}}"#,
            ContextExceeded,
        ),
        (
            429,
            r#"{"error":{"message":"Request too large for gpt-x on tokens per min (TPM): Limit 10000, Requested 12000.","type":"tokens","code":"rate_limit_exceeded"}}"#,
            ContextExceeded,
        ),
        (400, r#"{"message":"Input is too long for requested model."}"#, ContextExceeded),
        (
            400,
            r#"{"error":{"type":"invalid_request_error","message":"Your input exceeds the context window of this model."}}"#,
            ContextExceeded,
        ),
        (429, r#"{"__type":"ThrottlingException","message":"slow"}"#, RateLimited),
        (
            400,
            r#"{"error":{"message":"Tool call validation failed","type":"invalid_request_error","code":"tool_use_failed","failed_generation":"x"}}"#,
            Malformed,
        ),
        (500, r#"{"error":"model requires more system memory"}"#, Server),
        (404, r#"{"error":"model 'x' not found"}"#, BadRequest),
        (404, r#"{"detail":"Not Found"}"#, BadRequest),
    ];

#[test]
fn the_shapes_and_codes_of_providers() {
    for (status, body, expected) in SHAPES {
        assert_eq!(class(status, body, false), expected, "{status} {body}");
    }
}

#[test]
fn inside_an_answer_the_number_stands_for_the_status() {
    let inside = |body: &str| ProviderError::read(body.as_bytes()).class(None, false);
    assert_eq!(inside(r#"{"error":{"code":429,"message":"x"}}"#), RateLimited);
    assert_eq!(inside(r#"{"error":{"code":"502","message":"x"}}"#), Server);
    assert_eq!(inside(r#"{"error":{"code":400,"message":"x"}}"#), BadRequest);
    assert_eq!(inside(r#"{"error":{"code":402,"message":"x"}}"#), Quota);
    assert_eq!(inside(r#"{"error":{"code":1234,"message":"x"}}"#), Server);
    assert_eq!(inside(r#"{"error":{"type":"server_error","code":"server_error","message":"x"}}"#), Server);
    let of_200 = ProviderError::read(br#"{"error":{"code":503,"message":"x"}}"#).class(Some(200), false);
    assert_eq!(of_200, Overloaded);
}

#[test]
fn a_minute_of_google_is_waited_for_and_a_day_is_not() {
    let body = |id: &str| {
        format!(
            r#"{{"error":{{"code":429,"status":"RESOURCE_EXHAUSTED","message":"You exceeded your current quota, please check your plan.","details":[{{"violations":[{{"quotaId":"{id}"}}]}},{{"@type":"type.googleapis.com/google.rpc.RetryInfo","retryDelay":"34s"}}]}}}}"#
        )
    };
    let minute = ProviderError::read(body("GenerateRequestsPerMinutePerProjectPerModel-FreeTier").as_bytes());
    assert_eq!((minute.class(Some(429), true), minute.retry_delay_ms), (RateLimited, Some(34_000)));
    assert_eq!(class(429, &body("GenerateRequestsPerDayPerProjectPerModel-FreeTier"), true), Quota);
    let object =
        ProviderError::read(br#"{"error":{"details":[{"retryDelay":{"seconds":2,"nanos":500000000}}]}}"#);
    assert_eq!(object.retry_delay_ms, Some(2_500));
}

#[test]
fn what_is_behind_a_gateway_is_said() {
    let words = |body: &str| ProviderError::read(body.as_bytes()).message;
    let said = words(
        r#"{"error":{"code":429,"message":"Provider returned error","metadata":{"provider_name":"G","raw":"it is busy"}}}"#,
    );
    assert_eq!(said, "Provider returned error: it is busy");
    let said = words(
        r#"{"error":{"message":"Provider returned error","metadata":{"raw":"{\"error\":{\"message\":\"inner\"}}"}}}"#,
    );
    assert_eq!(said, "Provider returned error: inner");
    let deep = r#"{"message":"a","metadata":{"raw":{"message":"b","metadata":{"raw":{"message":"c","metadata":{"raw":{"message":"d"}}}}}}}"#;
    assert_eq!(words(deep), "a: b: c", "a body within a body within a body is enough");
}

#[test]
fn what_the_model_wrote_is_shown_shortened() {
    let written = "x".repeat(5_000);
    let body = format!(
        r#"{{"error":{{"message":"failed","code":"tool_use_failed","failed_generation":"{written}"}}}}"#
    );
    let error = ProviderError::read(body.as_bytes());
    assert!(error.message.starts_with("failed (the model wrote: xxx") && error.message.ends_with("…)"));
    assert!(error.message.chars().count() < 300);
}

#[test]
fn an_error_teaches_how_much_a_model_writes() {
    for (text, most) in [
        (
            "max_tokens: 64000 > 32000, which is the maximum allowed number of output tokens for claude-x",
            Some(32_000),
        ),
        ("max_tokens is too large: 64000. This model supports at most 16384 completion tokens", Some(16_384)),
        ("`max_completion_tokens` must be less than or equal to `8192`, the maximum value for", Some(8_192)),
        ("Invalid max_tokens value, the valid range of max_tokens is [1, 8192]", Some(8_192)),
        (
            "'max_tokens' is too large: 9000. This model's maximum context length is 8192 tokens and your request has 500 input tokens (9000 > 8192 - 500).",
            None,
        ),
        ("temperature must be less than or equal to 1", None),
        ("max_tokens is wrong", None),
    ] {
        assert_eq!(output_max_in(text), most, "{text}");
    }
}

/// Every error body among the recordings; without them there is nothing to look at.
#[test]
fn recorded_errors_are_what_they_are() {
    let rows: [(&str, u16, FailureClass); 10] = [
        ("anthropic/error_400_effort_unsupported.json", 400, BadRequest),
        ("anthropic/error_400_missing_tool_result.json", 400, BadRequest),
        ("anthropic/error_404_model.json", 404, BadRequest),
        ("anthropic/error_529.json", 529, Overloaded),
        ("openai-chat/gemini_429_retry_info.json", 429, RateLimited),
        ("openai-chat/groq_400_tool_use_failed.json", 400, Malformed),
        ("openai-chat/openrouter_429.json", 429, RateLimited),
        ("openai-responses/error_insufficient_quota.json", 429, Quota),
        ("openai-responses/openai_400_missing_function_output.json", 400, BadRequest),
        ("openai-responses/openai_400_reasoning_item_orphan.json", 400, BadRequest),
    ];
    let root = std::path::PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../shared/fixtures");
    let Ok(folders) = std::fs::read_dir(&root) else {
        println!("skipped: there are no recordings at {}", root.display());
        return;
    };
    let mut seen = 0;
    for folder in folders.filter_map(Result::ok).filter(|entry| entry.path().is_dir()) {
        for file in std::fs::read_dir(folder.path()).unwrap() {
            let path = file.unwrap().path();
            let name = path.strip_prefix(&root).unwrap().to_string_lossy().into_owned();
            let Ok(value) = serde_json::from_slice::<Value>(&std::fs::read(&path).unwrap()) else { continue };
            let body = value.get("body").unwrap_or(&value);
            if body.get("error").is_none() {
                continue;
            }
            let (_, status, expected) = rows
                .iter()
                .find(|row| row.0 == name)
                .unwrap_or_else(|| panic!("{name} is new: say what it means"));
            let error = ProviderError::read(body.to_string().as_bytes());
            assert_eq!(error.class(Some(*status), false), *expected, "{name}");
            assert!(!error.message.is_empty(), "{name}");
            seen += 1;
        }
    }
    assert_eq!(seen, rows.len());
}

/// Any JSON, with the names that errors use.
fn any_json() -> impl Strategy<Value = Value> {
    let word = prop_oneof![
        Just("rate_limit_error".to_owned()),
        Just("429".to_owned()),
        Just("max_tokens: 5 > 3, maximum context length is é>".to_owned()),
        Just("34.4s".to_owned()),
        ".{0,12}",
    ];
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<u32>().prop_map(Value::from),
        word.prop_map(Value::from),
    ];
    let names = [
        "error",
        "message",
        "detail",
        "details",
        "type",
        "code",
        "status",
        "metadata",
        "raw",
        "msg",
        "param",
        "n_ctx",
        "retryDelay",
        "seconds",
        "violations",
        "quotaId",
        "reason",
        "failed_generation",
        "error_code",
    ];
    leaf.prop_recursive(6, 64, 6, move |inner| {
        let object =
            proptest::collection::vec((proptest::sample::select(names.to_vec()), inner.clone()), 0..6);
        prop_oneof![
            proptest::collection::vec(inner, 0..4).prop_map(Value::from),
            object.prop_map(|fields| fields
                .into_iter()
                .map(|(name, value)| (name.to_owned(), value))
                .collect()),
        ]
    })
}

proptest! {
    #[test]
    fn any_body_has_a_class(status in 100_u16..700, body in proptest::collection::vec(any::<u8>(), 0..200)) {
        let error = ProviderError::read(&body);
        let class = error.class(Some(status), false);
        prop_assert!(!matches!(status, 401 | 403) || class == Credentials);
    }

    #[test]
    fn any_json_is_read_and_bounded(status in 300_u16..600, value in any_json()) {
        let error = ProviderError::read(value.to_string().as_bytes());
        let class = error.class(Some(status), false);
        let most = MESSAGE_MAX_CHARS + FAILED_GENERATION_MAX_CHARS + 30;
        prop_assert!(error.message.chars().count() <= most, "{}", error.message.len());
        prop_assert!(!error.message.contains(|c: char| c.is_control()));
        prop_assert!(error.mend(Some(status)).is_none() || class == BadRequest);
        if status == 402 {
            prop_assert_eq!(class, Quota);
        }
    }
}
