//! What each refusal is mended by.

use super::*;
use Mend::{OmitStreamOptions, OmitThinkingForm, RenameMaxTokens, StripThinking};

fn refusal(message: &str, more: &str) -> ProviderError {
    let message = serde_json::to_string(message).unwrap();
    let body = format!(r#"{{"error":{{"type":"invalid_request_error","message":{message}{more}}}}}"#);
    ProviderError::read(body.as_bytes())
}

#[test]
fn each_refusal_has_its_mend() {
    let rows: [(&str, Option<Mend>); 36] = [
        (
            "messages.1.content.0: Invalid `signature` in `thinking` block. The block is bound to a different conversation.",
            Some(StripThinking),
        ),
        ("messages.5.content.0: Invalid `signature` in `thinking` block", Some(StripThinking)),
        (
            "messages.1.content.0: `thinking` or `redacted_thinking` blocks in the latest assistant message cannot be modified. These blocks must remain as they were in the original response.",
            Some(StripThinking),
        ),
        ("messages.3.content.1.thinking: Extra inputs are not permitted", Some(StripThinking)),
        (
            "messages.1.content.0.type: Expected `thinking` or `redacted_thinking`, but found `tool_use`.",
            Some(OmitThinkingForm),
        ),
        ("messages.2.reasoning_content: Extra inputs are not permitted", Some(StripThinking)),
        (
            "'messages.1' : for 'role:assistant' the following must be satisfied[('messages.1' : property 'reasoning_content' is unsupported)]",
            Some(StripThinking),
        ),
        ("Unrecognized request argument supplied: reasoning_content", Some(StripThinking)),
        ("Unknown parameter: 'messages[2].reasoning'.", Some(StripThinking)),
        ("property 'reasoning_details' is not supported", Some(StripThinking)),
        (
            "Item 'rs_1' of type 'reasoning' was provided without its required following item.",
            Some(StripThinking),
        ),
        ("The encrypted content gAAA could not be verified.", Some(StripThinking)),
        (
            "The reasoning_content is an intermediate result for display purposes only and will not be included in the context for inference. Please remove the reasoning_content from your message to reduce network traffic.",
            Some(StripThinking),
        ),
        ("Missing `reasoning_content` field in the assistant message at index 2", None),
        ("Function call is missing a thought_signature in functionCall parts", None),
        ("This model does not support effort level 'xhigh'. Supported levels: high, low, max, medium.", None),
        ("Unsupported value: 'reasoning_effort' does not support 'xhigh' with this model.", None),
        ("adaptive thinking is not supported on this model", Some(OmitThinkingForm)),
        ("thinking: Extra inputs are not permitted", Some(OmitThinkingForm)),
        ("thinking.adaptive.display: Extra inputs are not permitted", Some(OmitThinkingForm)),
        ("\"thinking.type.adaptive\" is not supported for this model.", Some(OmitThinkingForm)),
        (
            "thinking: Input tag 'adaptive' found using 'type' does not match any of the expected tags: 'disabled', 'enabled'",
            Some(OmitThinkingForm),
        ),
        ("\"small:1b\" does not support thinking", Some(OmitThinkingForm)),
        ("Unrecognized request argument supplied: stream_options", Some(OmitStreamOptions)),
        ("stream_options is only allowed when stream is set", Some(OmitStreamOptions)),
        ("body.stream_options: extra fields not permitted", Some(OmitStreamOptions)),
        (
            "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead.",
            Some(RenameMaxTokens),
        ),
        ("Reasoning models: 'max_tokens' is not supported", Some(RenameMaxTokens)),
        ("max_completion_tokens: Extra inputs are not permitted", Some(RenameMaxTokens)),
        ("Unrecognized request argument supplied: max_completion_tokens", Some(RenameMaxTokens)),
        ("property 'max_completion_tokens' is unsupported", Some(RenameMaxTokens)),
        ("max_tokens: 64000 > 32000, which is the maximum allowed number of output tokens", None),
        ("`max_completion_tokens` must be less than or equal to `8192`", None),
        (
            "messages.1: `tool_use` ids were found without `tool_result` blocks immediately after: call_1.",
            None,
        ),
        ("temperature: Extra inputs are not permitted", None),
        ("", None),
    ];
    for (message, expected) in rows {
        assert_eq!(refusal(message, "").mend(Some(400)), expected, "{message}");
    }
}

/// Refusals of something else that happen to name a field: a mend that is wrong holds for the whole session.
#[test]
fn a_field_that_is_only_mentioned_is_not_mended() {
    for message in [
        "max_tokens 4096 is not allowed for free tier today",
        "Unexpected error while validating max_tokens",
        "Your account is not allowed to use reasoning models at this hour",
        "Unknown model 'reasoning'",
        "thinking of everything, an unknown error occurred",
    ] {
        assert_eq!(refusal(message, "").mend(Some(400)), None, "{message}");
    }
}

#[test]
fn the_field_that_is_named_apart_decides() {
    let rows: [(&str, &str, Option<Mend>); 6] = [
        ("Not here", r#","param":"max_tokens","code":"unsupported_parameter""#, Some(RenameMaxTokens)),
        (
            "Not here",
            r#","param":"messages[2].reasoning_content","code":"unknown_parameter""#,
            Some(StripThinking),
        ),
        (
            "Not here",
            r#","param":"stream_options.include_usage","code":"unknown_parameter""#,
            Some(OmitStreamOptions),
        ),
        (
            "'max_tokens' with reasoning is unsupported",
            r#","param":"max_tokens","code":null"#,
            Some(RenameMaxTokens),
        ),
        ("Not here", r#","param":"temperature","code":"unsupported_parameter""#, None),
        ("too large", r#","param":"max_tokens","code":"invalid_value""#, None),
    ];
    for (message, more, expected) in rows {
        assert_eq!(refusal(message, more).mend(Some(400)), expected, "{message} {more}");
    }
}

#[test]
fn only_a_refusal_of_the_request_is_mended() {
    let error = refusal("stream_options: Extra inputs are not permitted", "");
    for status in [401, 403, 404, 413, 429, 500, 529] {
        let expected = (status == 413).then_some(OmitStreamOptions);
        assert_eq!(error.mend(Some(status)), expected, "{status}");
    }
    for status in [400, 422] {
        assert_eq!(error.mend(Some(status)), Some(OmitStreamOptions), "{status}");
    }
    let words = ProviderError::read(b"Extra inputs are not permitted: stream_options");
    assert_eq!(words.mend(Some(400)), Some(OmitStreamOptions), "also without JSON");
}
