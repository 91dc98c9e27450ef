//! Streams become answers, or failures that say why.

use super::*;
use crate::model::live::LiveDelta;
use crate::model::warnings::{ARGS_BROKEN, ID_REPLACED, NAME_MENDED, UNKNOWN_PIECE};
use proptest::prelude::*;
use serde_json::{Value, json};

pub(super) fn sse(events: &[Value]) -> String {
    events
        .iter()
        .map(|event| format!("event: {}\ndata: {event}\n\n", event["type"].as_str().unwrap_or("x")))
        .collect()
}

pub(super) fn start() -> Value {
    json!({"type":"message_start","message":{"id":"msg_1","content":[],"usage":{"input_tokens":10,"cache_read_input_tokens":4,"output_tokens":1}}})
}

pub(super) fn block(index: u64, shell: &Value, deltas: &[Value]) -> Vec<Value> {
    let mut events = vec![json!({"type":"content_block_start","index":index,"content_block":shell})];
    events
        .extend(deltas.iter().map(|delta| json!({"type":"content_block_delta","index":index,"delta":delta})));
    events.push(json!({"type":"content_block_stop","index":index}));
    events
}

pub(super) fn text(index: u64, words: &str) -> Vec<Value> {
    block(index, &json!({"type":"text","text":""}), &[json!({"type":"text_delta","text":words})])
}

pub(super) fn call(index: u64, id: &str, args: &[&str]) -> Vec<Value> {
    let deltas: Vec<Value> =
        args.iter().map(|part| json!({"type":"input_json_delta","partial_json":part})).collect();
    block(index, &json!({"type":"tool_use","id":id,"name":"write","input":{}}), &deltas)
}

pub(super) fn stop(reason: &str) -> Vec<Value> {
    vec![
        json!({"type":"message_delta","delta":{"stop_reason":reason},"usage":{"output_tokens":7}}),
        json!({"type":"message_stop"}),
    ]
}

pub(super) fn message(parts: &[Vec<Value>], reason: &str) -> String {
    sse(&[vec![start()], parts.concat(), stop(reason)].concat())
}

pub(super) fn decode_with(
    bytes: &str,
    used: &dyn Fn(&str) -> bool,
) -> Result<(Decoded, Vec<LiveDelta>), DecodeFailure> {
    let mut deltas = Vec::new();
    let mut reader = AnswerReader::new();
    let mut on_delta = |delta| deltas.push(delta);
    for chunk in bytes.as_bytes().chunks(7) {
        if reader.push(chunk, &mut on_delta)? == Progress::Complete {
            break;
        }
    }
    let decoded = reader.finish(&IdRule { seed: "m_seed", used }, &mut on_delta)?;
    Ok((decoded, deltas))
}

pub(super) fn decode(bytes: &str) -> Result<Decoded, DecodeFailure> {
    decode_with(bytes, &|_| false).map(|(decoded, _)| decoded)
}

#[test]
fn an_answer_is_bounded_by_its_content_and_not_by_what_is_around_it() {
    let limit = crate::limits::RESPONSE_MAX_BYTES;
    let none: &dyn Fn(&str) -> bool = &|_| false;
    let pieces = |count: usize, bytes: usize| {
        let deltas: Vec<Value> =
            (0..count).map(|_| json!({"type":"text_delta","text":"x".repeat(bytes)})).collect();
        message(&[block(0, &json!({"type":"text","text":""}), &deltas)], "end_turn")
    };
    let around = pieces(200_000, 16);
    assert!(around.len() > 2 * limit);
    assert_eq!(decode_with(&around, none).unwrap().0.blocks[0].text.as_ref().unwrap().len(), 3_200_000);
    let args =
        |bytes: usize| message(&[call(0, "toolu_1", &["{\"a\":\"", &"x".repeat(bytes), "\"}"])], "tool_use");
    for larger in [pieces(9, limit / 8), args(limit), message(&[text(0, &"x".repeat(limit))], "end_turn")] {
        let failure = decode_with(&larger, none).unwrap_err();
        assert_eq!(failure.class, FailureClass::Malformed);
        assert!(failure.message.contains("the answer is larger than"), "{}", failure.message);
    }
    assert!(decode_with(&args(limit - 1_000), none).is_ok());
}

#[test]
fn text_comes_with_places_for_its_pieces() {
    let deltas = [json!({"type":"text_delta","text":"é北"}), json!({"type":"text_delta","text":"😀"})];
    let bytes = message(&[block(0, &json!({"type":"text","text":"a"}), &deltas)], "end_turn");
    let (decoded, live) = decode_with(&bytes, &|_| false).unwrap();
    assert_eq!(decoded.blocks[0].text.as_deref(), Some("aé北😀"));
    assert_eq!(decoded.blocks[0].raw.get(), r#"{"text":"aé北😀","type":"text"}"#);
    let places: Vec<(u64, &str)> = live.iter().map(|delta| (delta.offset, delta.text.as_str())).collect();
    assert_eq!(places, [(0, "a"), (1, "é北"), (6, "😀")]);
    assert_eq!(decoded.provider_message_id.as_deref(), Some("msg_1"));
}

#[test]
fn the_order_of_keys_is_the_providers() {
    let shell =
        r#"{"type":"tool_use","name":"write","zeta":1,"id":"toolu_1","alpha":{"b":1,"a":2},"input":{}}"#;
    let events = format!(
        "data: {{\"type\":\"content_block_start\",\"index\":0,\"content_block\":{shell}}}\n\n\
         data: {{\"type\":\"content_block_delta\",\"index\":0,\"delta\":{{\"type\":\"input_json_delta\",\"partial_json\":\"{{\\\"z\\\": 1, \\\"a\\\":2}}\"}}}}\n\n\
         data: {{\"type\":\"content_block_stop\",\"index\":0}}\n\n{}",
        sse(&stop("tool_use"))
    );
    let block = &decode(&events).unwrap().blocks[0];
    assert_eq!(
        block.raw.get(),
        r#"{"type":"tool_use","name":"write","zeta":1,"id":"toolu_1","alpha":{"b":1,"a":2},"input":{"z": 1, "a":2}}"#
    );
    assert!(!block.altered);
}

#[test]
fn a_block_without_deltas_is_kept_byte_for_byte() {
    let shell = r#"{"type":"redacted_thinking" , "data": "AA\u0041=="  }"#;
    let events = format!(
        "data: {{\"type\":\"content_block_start\",\"index\":0,\"content_block\":{shell}}}\n\ndata: {{\"type\":\"content_block_stop\",\"index\":0}}\n\n{}",
        sse(&[text(1, "x"), stop("end_turn")].concat())
    );
    let blocks = decode(&events).unwrap().blocks;
    assert_eq!(blocks[0].raw.get(), shell);
    assert_eq!(blocks[0].kind, BlockKind::RedactedThinking);
}

#[test]
fn thinking_grows_and_its_signature_is_replaced() {
    let deltas = [
        json!({"type":"thinking_delta","thinking":"a"}),
        json!({"type":"signature_delta","signature":"one"}),
        json!({"type":"thinking_delta","thinking":"b"}),
        json!({"type":"signature_delta","signature":"two"}),
    ];
    let bytes =
        message(&[block(0, &json!({"type":"thinking","thinking":""}), &deltas), text(1, "x")], "end_turn");
    let (decoded, live) = decode_with(&bytes, &|_| false).unwrap();
    assert_eq!(decoded.blocks[0].raw.get(), r#"{"thinking":"ab","type":"thinking","signature":"two"}"#);
    assert_eq!(live.iter().filter(|delta| delta.kind == LiveKind::Thinking).count(), 2);
}

#[test]
fn citations_are_appended() {
    let deltas = [
        json!({"type":"text_delta","text":"x"}),
        json!({"type":"citations_delta","citation":{"n":1}}),
        json!({"type":"citations_delta","citation":{"n":2}}),
    ];
    let bytes = message(&[block(0, &json!({"type":"text","text":"","citations":null}), &deltas)], "end_turn");
    assert_eq!(
        decode(&bytes).unwrap().blocks[0].raw.get(),
        r#"{"citations":[{"n":1},{"n":2}],"text":"x","type":"text"}"#
    );
}

#[test]
fn usage_is_overwritten_and_absent_fields_stay() {
    let bytes = sse(&[
        vec![start()],
        text(0, "x"),
        vec![json!({"type":"message_delta","delta":{"stop_reason":null},"usage":{"output_tokens":3,"input_tokens":null}})],
        stop("end_turn"),
    ].concat());
    let decoded = decode(&bytes).unwrap();
    assert_eq!(
        decoded.usage,
        Usage { input_tokens: 10, output_tokens: 7, cache_read_tokens: 4, cache_write_tokens: 0 }
    );
    assert!(decoded.usage_reported);
    assert_eq!(
        decoded.usage_raw.unwrap().get(),
        r#"{"cache_read_input_tokens":4,"input_tokens":10,"output_tokens":7}"#
    );
}

#[test]
fn nothing_is_complete_without_both_stops() {
    let only_reason = sse(&[vec![start()], text(0, "x"), vec![stop("end_turn").remove(0)]].concat());
    let only_stop = sse(&[vec![start()], text(0, "x"), vec![json!({"type":"message_stop"})]].concat());
    for bytes in [only_reason, only_stop, sse(&[start()]), String::new()] {
        let failure = decode(&bytes).unwrap_err();
        assert_eq!(failure.class, FailureClass::Cut, "{bytes}");
    }
}

#[test]
fn a_second_start_begins_anew_and_an_echo_does_not() {
    let other = json!({"type":"message_start","message":{"id":"msg_2","usage":{"input_tokens":3}}});
    let spliced =
        sse(&[vec![start()], text(0, "old"), vec![other], text(0, "new"), stop("end_turn")].concat());
    let decoded = decode(&spliced).unwrap();
    assert_eq!(decoded.blocks.len(), 1);
    assert_eq!(decoded.blocks[0].text.as_deref(), Some("new"));
    assert_eq!(decoded.usage.input_tokens, 3);
    let echoed =
        sse(&[vec![start()], text(0, "kept"), vec![start()], text(1, "and more"), stop("end_turn")].concat());
    assert_eq!(decode(&echoed).unwrap().blocks.len(), 2);
}

#[test]
fn an_index_that_comes_again_is_another_block() {
    let bytes = message(&[text(0, "one"), text(0, "two")], "end_turn");
    let texts: Vec<Option<String>> =
        decode(&bytes).unwrap().blocks.into_iter().map(|block| block.text).collect();
    assert_eq!(texts, [Some("one".to_owned()), Some("two".to_owned())]);
}

#[test]
fn errors_in_the_stream_keep_what_was_shown() {
    let error = json!({"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}});
    let failure = decode(&sse(&[vec![start()], text(0, "half"), vec![error]].concat())).unwrap_err();
    assert_eq!(failure.class, FailureClass::Overloaded);
    assert_eq!(failure.partial_text.as_deref(), Some("half"));
    assert!(failure.message.contains("overloaded_error: Overloaded"));
}

#[test]
fn a_hole_in_the_answer_is_a_failure() {
    let orphan = json!({"type":"content_block_delta","index":9,"delta":{"type":"text_delta","text":"x"}});
    let wrong = json!({"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":7}});
    for event in [orphan, wrong] {
        let bytes = sse(&[vec![start()], text(0, "x"), vec![event], stop("end_turn")].concat());
        assert_eq!(decode(&bytes).unwrap_err().class, FailureClass::Malformed);
    }
    let bytes = format!("{}data: {{broken\n\n{}", sse(&[start()]), sse(&stop("end_turn")));
    assert_eq!(decode(&bytes).unwrap_err().class, FailureClass::Malformed);
}

#[test]
fn an_unknown_delta_marks_its_block() {
    let deltas = [json!({"type":"text_delta","text":"x"}), json!({"type":"hologram_delta","data":1})];
    let bytes = message(&[block(0, &json!({"type":"text","text":""}), &deltas)], "end_turn");
    assert!(decode(&bytes).unwrap().blocks[0].altered);
}

#[test]
fn what_was_mended_is_said_once() {
    let odd = json!({"type":"tool_use","id":"a.b","name":"odd name","input":{}});
    let unknown = [json!({"type":"text_delta","text":"x"}), json!({"type":"hologram_delta","data":1})];
    let bytes = message(
        &[
            call(0, "", &["{"]),
            block(1, &odd, &[]),
            call(2, "", &["{"]),
            block(3, &json!({"type":"text","text":""}), &unknown),
        ],
        "tool_use",
    );
    let decoded = decode(&bytes).unwrap();
    assert_eq!(decoded.warnings, [ID_REPLACED, ARGS_BROKEN, NAME_MENDED, UNKNOWN_PIECE, CALLS_MOVED]);
    assert!(
        decode(&message(&[text(0, "x"), call(1, "t", &["{}"])], "tool_use")).unwrap().warnings.is_empty()
    );
}

#[test]
fn the_last_pass_of_several_is_kept() {
    let pass = |kind: &str, input: u64| json!({"type":kind,"input_tokens":input,"cache_read_input_tokens":5,"cache_creation_input_tokens":2});
    let rows = [
        (json!([pass("message", 1), pass("message", 30)]), Some(37)),
        (json!([pass("message", 30), pass("advisor_message", 1)]), Some(37)),
        (json!([pass("message", 30)]), Some(37)),
        (json!([pass("message", 7)]), None),
        (json!([pass("compaction", 7)]), None),
        (json!([]), None),
        (json!("odd"), None),
    ];
    for (passes, expected) in rows {
        let reported = json!({"type":"message_delta","delta":{},"usage":{"iterations":passes}});
        let bytes = sse(&[vec![start()], text(0, "x"), vec![reported], stop("end_turn")].concat());
        assert_eq!(decode(&bytes).unwrap().last_prompt_tokens, expected, "{passes}");
    }
}

#[test]
fn stop_words_have_their_meaning() {
    for (word, class) in [
        ("end_turn", StopClass::EndTurn),
        ("stop_sequence", StopClass::EndTurn),
        ("tool_use", StopClass::ToolUse),
        ("max_tokens", StopClass::MaxTokens),
        ("refusal", StopClass::Refusal),
        ("pause_turn", StopClass::PauseTurn),
        ("model_context_window_exceeded", StopClass::ContextExceeded),
        ("brand_new_reason", StopClass::Unknown),
    ] {
        let stop = decode(&message(&[text(0, "x")], word)).unwrap().stop;
        assert_eq!((stop.class, stop.raw.as_deref()), (class, Some(word)));
    }
}

#[test]
fn words_of_a_provider_are_short_and_without_control_characters() {
    let stop = decode(&message(&[text(0, "x")], &format!("odd\u{1b}[2J{}", "y".repeat(9_000)))).unwrap().stop;
    let raw = stop.raw.unwrap();
    assert!(raw.starts_with("odd [2J") && raw.chars().count() < 700, "{raw}");
    assert_eq!(stop.class, StopClass::Unknown);
}

#[test]
fn an_answer_that_was_not_streamed_is_read_too() {
    let body = json!({"type":"message","id":"msg_w","content":[{"type":"text","text":"hi"},{"type":"tool_use","id":"t","name":"write","input":{"a":1}}],
        "stop_reason":"tool_use","usage":{"input_tokens":2,"output_tokens":3}});
    let mut reader = AnswerReader::new();
    let mut live = Vec::new();
    assert_eq!(
        reader.whole(body.to_string().as_bytes(), &mut |delta| live.push(delta)),
        Ok(Progress::Complete)
    );
    let decoded = reader.finish(&IdRule { seed: "m", used: &|_| false }, &mut |_| {}).unwrap();
    assert_eq!(decoded.blocks.len(), 2);
    assert!(decoded.blocks[1].call.as_ref().unwrap().complete);
    assert_eq!(decoded.usage.output_tokens, 3);
    assert_eq!(live.len(), 1);
}

#[test]
fn what_follows_the_end_is_ignored() {
    let bytes =
        message(&[text(0, "x")], "end_turn") + "data: garbage\n\ndata: {\"type\":\"error\",\"error\":{}}\n\n";
    assert!(decode(&bytes).is_ok());
    let mut decoder = Decoder::new();
    for event in stop("end_turn") {
        decoder.event(event.to_string().as_bytes(), &mut |_| {}).unwrap();
    }
    assert_eq!(decoder.event(b"garbage", &mut |_| {}), Ok(Progress::Complete));
}

pub(super) fn any_event() -> impl Strategy<Value = Value> {
    let id =
        prop_oneof![Just("call_1".to_owned()), Just(String::new()), Just("a.b:0".to_owned()), "[a-z]{3}"];
    let name = prop_oneof![Just("write".to_owned()), Just(String::new()), any::<String>()];
    let words = prop_oneof![Just(String::new()), Just(" ".to_owned()), any::<String>()];
    let args =
        prop_oneof![Just("{".to_owned()), Just("}".to_owned()), Just("\"a\":1".to_owned()), any::<String>()];
    let index = 0_u64..4;
    prop_oneof![
        Just(start()),
        (index.clone(), id, name)
            .prop_map(|(index, id, name)| json!({"type":"content_block_start","index":index,
            "content_block":{"type":"tool_use","id":id,"name":name}})),
        (index.clone(), prop_oneof![Just("text"), Just("thinking"), Just("new_kind")]).prop_map(
            |(index, kind)| json!({"type":"content_block_start","index":index,"content_block":{"type":kind}})
        ),
        (index.clone(), words).prop_map(|(index, words)| json!({"type":"content_block_delta","index":index,
            "delta":{"type":"text_delta","text":words}})),
        (index.clone(), args).prop_map(|(index, args)| json!({"type":"content_block_delta","index":index,
            "delta":{"type":"input_json_delta","partial_json":args}})),
        index.prop_map(|index| json!({"type":"content_block_stop","index":index})),
        Just(json!({"type":"ping"})),
        Just(json!({"type":"future_event","index":"x"})),
    ]
}

fn summary(result: &Result<Decoded, DecodeFailure>) -> String {
    match result {
        Ok(decoded) => {
            let raws: Vec<&str> = decoded.blocks.iter().map(|block| block.raw.get()).collect();
            format!("{raws:?} {:?}", decoded.usage)
        }
        Err(failure) => format!("{failure:?}"),
    }
}

fn read_chunks(bytes: &[u8], size: usize) -> Result<Decoded, DecodeFailure> {
    let mut reader = AnswerReader::new();
    for chunk in bytes.chunks(size) {
        if reader.push(chunk, &mut |_| {})? == Progress::Complete {
            break;
        }
    }
    reader.finish(&IdRule { seed: "m", used: &|_| false }, &mut |_| {})
}

proptest! {
    #[test]
    fn any_bytes_and_chunks_are_survived(bytes in proptest::collection::vec(any::<u8>(), 0..400), size in 1_usize..50) {
        let whole = read_chunks(&bytes, bytes.len().max(1));
        prop_assert!(whole.is_err());
        prop_assert_eq!(summary(&read_chunks(&bytes, size)), summary(&whole));
    }

    #[test]
    fn any_events_read_the_same_in_any_chunks(events in proptest::collection::vec(any_event(), 0..20), size in 1_usize..90) {
        let bytes = sse(&[events, stop("tool_use")].concat());
        let whole = read_chunks(bytes.as_bytes(), bytes.len());
        prop_assert_eq!(summary(&read_chunks(bytes.as_bytes(), size)), summary(&whole));
    }

    #[test]
    fn no_cut_is_an_answer(events in proptest::collection::vec(any_event(), 0..12), at in any::<prop::sample::Index>()) {
        let all = [vec![start()], events, stop("end_turn")].concat();
        let kept = at.index(all.len());
        prop_assert!(read_chunks(sse(&all[..kept]).as_bytes(), 4096).is_err());
    }

    /// Whatever a provider sends as an answer, the provider takes it back.
    #[test]
    fn no_answer_can_brick_a_conversation(events in proptest::collection::vec(any_event(), 0..20), reason in prop_oneof![Just("tool_use"), Just("max_tokens")]) {
        let bytes = sse(&[vec![start()], events, stop(reason)].concat());
        if let Ok(decoded) = read_chunks(bytes.as_bytes(), 4096) {
            super::super::super::validate::tests::assert_sendable(&decoded);
        }
    }
}
