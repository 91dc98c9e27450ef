//! One reader for whoever moves the bytes.

use super::*;

const ANTHROPIC: &str = "data: {\"type\":\"message_start\",\"message\":{\"id\":\"m\"}}\n\n\
    data: {\"type\":\"content_block_start\",\"index\":0,\"content_block\":{\"type\":\"text\",\"text\":\"hi\"}}\n\n\
    data: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"end_turn\"}}\n\n\
    data: {\"type\":\"message_stop\"}\n\n";
const OPENAI: &str = "data: {\"choices\":[{\"delta\":{\"content\":\"hi\"}}]}\n\n\
    data: {\"choices\":[{\"delta\":{},\"finish_reason\":\"stop\"}]}\n\n\
    data: {\"choices\":[],\"usage\":{\"prompt_tokens\":3,\"completion_tokens\":1}}\n\n\
    data: [DONE]\n\n";

fn finish(reader: AnswerReader) -> Result<Decoded, DecodeFailure> {
    reader.finish(&IdRule { seed: "m", used: &|_| false }, &mut |_| {})
}

/// After how many events the stop was known, and after how many the answer was complete.
fn read(dialect: Dialect, stream: &str) -> (Option<usize>, Option<usize>, AnswerReader) {
    let mut reader = AnswerReader::new(dialect);
    let (mut stop, mut complete) = (None, None);
    for (at, event) in stream.split_inclusive("\n\n").enumerate() {
        let progress = reader.push(event.as_bytes(), &mut |_| {}).unwrap();
        stop = stop.or(reader.has_stop().then_some(at));
        complete = complete.or((progress == Progress::Complete).then_some(at));
    }
    (stop, complete, reader)
}

#[test]
fn each_dialect_ends_in_its_own_way() {
    for (dialect, stream, stop) in [(Dialect::Anthropic, ANTHROPIC, 3), (Dialect::OpenAiChat, OPENAI, 1)] {
        let (said, complete, reader) = read(dialect, stream);
        assert_eq!((said, complete), (Some(stop), Some(3)), "{dialect:?}");
        assert_eq!(reader.partial_text().as_deref(), Some("hi"));
        assert_eq!(finish(reader).unwrap().blocks[0].text.as_deref(), Some("hi"));
        let (said, complete, reader) = read(dialect, &stream[..stream.len() / 4]);
        assert_eq!((said, complete), (None, None));
        assert_eq!(finish(reader).unwrap_err().class, FailureClass::Cut);
    }
}

#[test]
fn a_break_after_the_stop_is_the_end() {
    let cut = OPENAI.find("data: {\"choices\":[],").unwrap();
    for tail in [0, 10, 60] {
        let (said, complete, reader) = read(Dialect::OpenAiChat, &OPENAI[..cut + tail]);
        assert_eq!((said, complete), (Some(1), None));
        assert!(!finish(reader).unwrap().usage_reported);
    }
}

#[test]
fn a_whole_body_is_read_in_both_dialects() {
    let rows = [
        (
            Dialect::Anthropic,
            r#"{"type":"message","content":[{"type":"text","text":"hi"}],"stop_reason":"end_turn"}"#,
        ),
        (Dialect::OpenAiChat, r#"{"choices":[{"message":{"content":"hi"},"finish_reason":"stop"}]}"#),
        (Dialect::OpenAiChat, r#"{"choices":[{"message":{"content":"hi"}}]}"#),
    ];
    for (dialect, body) in rows {
        let mut reader = AnswerReader::new(dialect);
        assert_eq!(reader.whole(body.as_bytes(), &mut |_| {}), Ok(Progress::Complete));
        assert!(reader.has_stop());
        assert_eq!(finish(reader).unwrap().blocks[0].text.as_deref(), Some("hi"));
    }
}

#[test]
fn what_is_not_spoken_fails_for_good() {
    let mut reader = AnswerReader::new(Dialect::OpenAiResponses);
    let failures = [
        reader.push(b"data: {}\n\n", &mut |_| {}).unwrap_err(),
        reader.whole(b"{}", &mut |_| {}).unwrap_err(),
        finish(reader).unwrap_err(),
    ];
    assert!(failures.iter().all(|failure| !failure.class.is_retryable()));
}
