//! Streams of this dialect become answers, or failures that say why.

use super::*;
use crate::event::Usage;
use serde_json::{Value, json};

pub(in crate::model::openai_chat) fn sse(chunks: &[Value]) -> String {
    chunks.iter().map(|chunk| format!("data: {chunk}\n\n")).collect()
}

/// A chunk with one choice that has this delta.
pub(in crate::model::openai_chat) fn delta(delta: &Value) -> Value {
    json!({"id":"chatcmpl-1","object":"chat.completion.chunk","choices":[{"index":0,"delta":delta,"finish_reason":null}]})
}

pub(in crate::model::openai_chat) fn finish(reason: &str) -> Value {
    json!({"id":"chatcmpl-1","choices":[{"index":0,"delta":{},"finish_reason":reason}]})
}

fn usage(usage: &Value) -> Value {
    json!({"id":"chatcmpl-1","choices":[],"usage":usage})
}

pub(in crate::model::openai_chat) fn call(entry: &Value) -> Value {
    delta(&json!({"tool_calls":[entry]}))
}

pub(in crate::model::openai_chat) fn args(index: u64, id: &str, name: &str, args: &str) -> Value {
    call(&json!({"index":index,"id":id,"type":"function","function":{"name":name,"arguments":args}}))
}

/// A whole stream: these chunks, a finish reason and the end mark.
pub(in crate::model::openai_chat) fn stream(chunks: &[Value], reason: &str) -> String {
    sse(chunks) + &sse(&[finish(reason)]) + "data: [DONE]\n\n"
}

pub(in crate::model::openai_chat) fn decode_with(
    bytes: &str,
    used: &dyn Fn(&str) -> bool,
) -> Result<(Decoded, Vec<LiveDelta>), DecodeFailure> {
    let mut live = Vec::new();
    let mut reader = AnswerReader::new();
    for chunk in bytes.as_bytes().chunks(7) {
        if reader.push(chunk, &mut |delta| live.push(delta))? == Progress::Complete {
            break;
        }
    }
    let decoded = reader.finish(&IdRule { seed: "m_seed", used }, &mut |delta| live.push(delta))?;
    Ok((decoded, live))
}

pub(in crate::model::openai_chat) fn decode(bytes: &str) -> Result<Decoded, DecodeFailure> {
    decode_with(bytes, &|_| false).map(|(decoded, _)| decoded)
}

pub(in crate::model::openai_chat) fn answer(chunks: &[Value]) -> Decoded {
    decode(&stream(chunks, "stop")).unwrap()
}

/// Each call as `id name args`, with a mark where it is not complete.
pub(in crate::model::openai_chat) fn calls(decoded: &Decoded) -> Vec<String> {
    decoded
        .blocks
        .iter()
        .filter_map(|block| block.call.as_ref())
        .map(|call| {
            let mark = if call.complete { "" } else { " !" };
            format!("{} {} {}{mark}", call.provider_call_id, call.name, call.args.get())
        })
        .collect()
}

pub(in crate::model::openai_chat) fn raws(decoded: &Decoded) -> Vec<&str> {
    decoded.blocks.iter().map(|block| block.raw.get()).collect()
}

#[test]
fn text_and_a_call() {
    let decoded = answer(&[
        delta(&json!({"role":"assistant","content":""})),
        delta(&json!({"content":"He"})),
        delta(&json!({"content":"llo"})),
        args(0, "call_1", "write", ""),
        call(&json!({"index":0,"function":{"arguments":"{\"a\":"}})),
        call(&json!({"index":0,"function":{"arguments":"1}"}})),
    ]);
    assert_eq!(
        raws(&decoded),
        [
            r#"{"type":"text","text":"Hello"}"#,
            r#"{"id":"call_1","type":"function","function":{"name":"write","arguments":"{\"a\":1}"}}"#
        ]
    );
    assert_eq!(calls(&decoded), [r#"call_1 write {"a":1}"#]);
    assert_eq!(decoded.stop.class, StopClass::EndTurn);
    assert!(decoded.warnings.is_empty(), "{:?}", decoded.warnings);
}

#[test]
fn calls_of_a_whole_message_are_calls_each() {
    let one = json!({"id":"a","type":"function","function":{"name":"f","arguments":"{}"}});
    let body = json!({"object":"chat.completion","id":"c","choices":[{"index":0,"finish_reason":"stop",
        "message":{"role":"assistant","content":"hm","reasoning_content":"r","tool_calls":[one, one]}}],
        "usage":{"prompt_tokens":3,"completion_tokens":4,"total_tokens":7}});
    for whole in [true, false] {
        let mut reader = AnswerReader::new();
        let mut live = Vec::new();
        if whole {
            let progress = reader.whole(body.to_string().as_bytes(), &mut |delta| live.push(delta));
            assert_eq!(progress, Ok(Progress::Complete));
        } else {
            reader.push(sse(std::slice::from_ref(&body)).as_bytes(), &mut |delta| live.push(delta)).unwrap();
        }
        let decoded = reader.finish(&IdRule { seed: "m", used: &|_| false }, &mut |_| {}).unwrap();
        assert_eq!(calls(&decoded), ["a f {}", "call_m_1 f {}"]);
        assert_eq!(
            raws(&decoded)[..2],
            [
                r#"{"type":"reasoning","field":"reasoning_content","text":"r"}"#,
                r#"{"type":"text","text":"hm"}"#
            ]
        );
        assert_eq!((decoded.usage.input_tokens, decoded.usage.output_tokens), (3, 4));
        assert_eq!(live.len(), 2);
    }
}

#[test]
fn a_stream_under_the_name_of_a_whole_message_is_read() {
    let mut reader = AnswerReader::new();
    let body = stream(&[delta(&json!({"content":"x"}))], "stop");
    reader.whole(body.as_bytes(), &mut |_| {}).unwrap();
    assert!(reader.finish(&IdRule { seed: "m", used: &|_| false }, &mut |_| {}).is_ok());
}

#[test]
fn reasoning_is_stored_as_it_came() {
    let field = |field: &str, text: &str| delta(&json!({field: text, "content": null}));
    let string =
        |field: &str, text: &str| format!(r#"{{"type":"reasoning","field":"{field}","text":"{text}"}}"#);
    let detail = |text: &str| json!({"type":"reasoning.text","text":text,"format":null,"index":0});
    let details =
        |reasoning: Value, entries: Value| delta(&json!({"reasoning":reasoning,"reasoning_details":entries}));
    let rows: Vec<(&str, Vec<Value>, String, &str)> = vec![
        ("a field", vec![field("reasoning_content", ""), field("reasoning_content", "a"), field("reasoning_content", "b")], string("reasoning_content", "ab"), "ab"),
        ("another", vec![field("reasoning", "a")], string("reasoning", "a"), "a"),
        ("two with the same words", vec![delta(&json!({"reasoning":"a","reasoning_content":"a"})), delta(&json!({"reasoning":"b","reasoning_content":"b"}))], string("reasoning_content", "ab"), "ab"),
        ("details beside a field", vec![details(json!("a"), json!([detail("a")])), details(json!("b"), json!([detail("b")])),
            details(json!(null), json!([{"type":"reasoning.text","signature":"S","index":0}]))],
            r#"{"type":"reasoning_details","reasoning_details":[{"format":null,"index":0,"text":"ab","type":"reasoning.text","signature":"S"}]}"#.to_owned(), "ab"),
        ("details alone", vec![details(json!(null), json!([detail("a")])), details(json!(null), json!([detail("b")]))],
            r#"{"type":"reasoning_details","reasoning_details":[{"format":null,"index":0,"text":"ab","type":"reasoning.text"}]}"#.to_owned(), "ab"),
        (
            "a field after details that were read",
            vec![details(json!(null), json!([detail("a")])), details(json!("a"), json!([]))],
            r#"{"type":"reasoning_details","reasoning_details":[{"format":null,"index":0,"text":"a","type":"reasoning.text"}]}"#.to_owned(),
            "a",
        ),
        ("entries of several kinds", vec![details(json!(null), json!([{"type":"reasoning.summary","summary":"a","index":0},{"type":"reasoning.encrypted","data":"D","id":"x","index":1}])),
            details(json!(null), json!([{"type":"reasoning.encrypted","data":"E","id":"y","index":1}]))],
            r#"{"type":"reasoning_details","reasoning_details":[{"index":0,"summary":"a","type":"reasoning.summary"},{"data":"D","id":"x","index":1,"type":"reasoning.encrypted"},{"data":"E","id":"y","index":1,"type":"reasoning.encrypted"}]}"#.to_owned(), "a"),
        ("a signature ends a text", vec![details(json!("a"), json!([{"type":"reasoning.text","text":"a","signature":"S","index":0}])), details(json!("b"), json!([{"type":"reasoning.text","text":"b","index":0}]))],
            r#"{"type":"reasoning_details","reasoning_details":[{"index":0,"signature":"S","text":"a","type":"reasoning.text"},{"index":0,"text":"b","type":"reasoning.text"}]}"#.to_owned(), "ab"),
        ("parts of the content", vec![delta(&json!({"content":[{"type":"thinking","thinking":[{"type":"text","text":"a"}]}]})),
            delta(&json!({"content":[{"type":"thinking","thinking":[{"type":"text","text":"b"},{"type":"reference","reference_ids":[1]}],"closed":true}]}))],
            r#"{"type":"thinking","thinking":[{"type":"text","text":"ab"},{"reference_ids":[1],"type":"reference"}],"closed":true}"#.to_owned(), "ab"),
    ];
    for (what, chunks, raw, text) in rows {
        let (decoded, live) =
            decode_with(&stream(&[chunks, vec![delta(&json!({"content":"x"}))]].concat(), "stop"), &|_| {
                false
            })
            .unwrap();
        assert_eq!(raws(&decoded), [raw.as_str(), r#"{"type":"text","text":"x"}"#], "{what}");
        assert_eq!(
            (decoded.blocks[0].kind, decoded.blocks[0].text.as_deref()),
            (BlockKind::Thinking, Some(text)),
            "{what}"
        );
        let shown: String = live
            .iter()
            .filter(|delta| delta.kind == LiveKind::Thinking)
            .map(|delta| delta.text.as_str())
            .collect();
        assert_eq!(shown, text, "{what}");
        assert!(decoded.warnings.is_empty(), "{what}: {:?}", decoded.warnings);
    }
}

#[test]
fn content_may_be_a_list_of_parts() {
    let parts = json!({"content":[{"type":"text","text":"a"},"b",{"type":"text","text":"c"},{"type":"reference","reference_ids":[1]}]});
    let decoded = answer(&[delta(&parts), delta(&json!({"content":"d"}))]);
    assert_eq!(raws(&decoded), [r#"{"type":"text","text":"abcd"}"#]);
    assert_eq!(decoded.warnings, [UNKNOWN_PIECE]);
}

#[test]
fn blocks_stand_in_the_order_in_which_they_go_back() {
    let decoded = answer(&[
        args(0, "a", "f", "{}"),
        delta(&json!({"content":"x"})),
        delta(&json!({"reasoning":"r"})),
        delta(&json!({"content":"y"})),
    ]);
    let kinds: Vec<BlockKind> = decoded.blocks.iter().map(|block| block.kind).collect();
    assert_eq!(kinds, [BlockKind::Thinking, BlockKind::Text, BlockKind::ToolUse]);
    assert_eq!(decoded.blocks[1].text.as_deref(), Some("xy"));
    assert!(answer(&[delta(&json!({"content":" \n"}))]).blocks.is_empty());
}

#[test]
fn refusals_say_why() {
    let refusal = |words: &str| delta(&json!({"content":null,"refusal":words}));
    let rows = [
        (vec![refusal("I "), refusal("won't")], "stop", StopClass::Refusal, Some("I won't"), 0),
        (vec![refusal("no")], "content_filter", StopClass::Refusal, Some("no"), 0),
        (vec![delta(&json!({"content":"x"}))], "content_filter", StopClass::Refusal, None, 1),
        (vec![refusal("no"), delta(&json!({"content":"x"}))], "stop", StopClass::EndTurn, Some("no"), 1),
        (vec![refusal("no")], "length", StopClass::MaxTokens, Some("no"), 0),
        (vec![refusal(""), delta(&json!({"content":"x"}))], "stop", StopClass::EndTurn, None, 1),
    ];
    for (chunks, reason, class, explanation, blocks) in rows {
        let (decoded, live) = decode_with(&stream(&chunks, reason), &|_| false).unwrap();
        assert_eq!((decoded.stop.class, decoded.stop.explanation.as_deref()), (class, explanation));
        assert_eq!(decoded.blocks.len(), blocks);
        assert!(live.iter().all(|delta| delta.kind == LiveKind::Text) && !live.is_empty());
    }
}

#[test]
fn stop_words_have_their_meaning() {
    let rows = [
        ("stop", StopClass::EndTurn),
        ("tool_calls", StopClass::ToolUse),
        ("function_call", StopClass::ToolUse),
        ("length", StopClass::MaxTokens),
        ("content_filter", StopClass::Refusal),
        ("model_length", StopClass::ContextExceeded),
        ("brand_new", StopClass::Unknown),
    ];
    for (word, class) in rows {
        let stop = decode(&stream(&[delta(&json!({"content":"x"}))], word)).unwrap().stop;
        assert_eq!((stop.class, stop.raw.as_deref()), (class, Some(word)));
    }
    for (word, class) in [
        ("error", FailureClass::Server),
        ("network_error", FailureClass::Server),
        ("insufficient_system_resource", FailureClass::Overloaded),
    ] {
        let failure = decode(&stream(&[delta(&json!({"content":"x"}))], word)).unwrap_err();
        assert_eq!((failure.class, failure.partial_text.as_deref()), (class, Some("x")));
    }
    let twice = sse(&[delta(&json!({"content":"x"})), finish("length"), finish("stop")]) + "data: [DONE]\n\n";
    assert_eq!(decode(&twice).unwrap().stop.raw.as_deref(), Some("length"));
}

#[test]
fn an_answer_is_complete_by_its_reason_or_its_end_mark() {
    let text = delta(&json!({"content":"x"}));
    let role = delta(&json!({"role":"assistant","content":""}));
    let done = "data: [DONE]\n\n";
    let rows = [
        (sse(&[text.clone(), finish("stop")]), Some(0)),
        (sse(&[text.clone(), finish("stop")]) + done, Some(0)),
        (sse(&[text.clone(), finish("stop")]) + "data: [DONE]", Some(0)),
        (sse(std::slice::from_ref(&text)) + done, Some(1)),
        (sse(&[args(0, "a", "f", "{}")]) + done, Some(1)),
        (sse(&[finish("stop")]), Some(0)),
        (sse(&[text.clone(), finish("stop")]) + "data: {\"choi", Some(0)),
        (sse(&[text.clone(), finish("stop")]) + "data: garbage\n\n" + done, Some(1)),
        (sse(std::slice::from_ref(&text)), None),
        (sse(&[role]) + done, None),
        (sse(&[usage(&json!({"prompt_tokens":1}))]) + done, None),
        (done.to_owned(), None),
        (String::new(), None),
    ];
    for (bytes, warnings) in rows {
        match (decode(&bytes), warnings) {
            (Ok(decoded), Some(count)) => assert_eq!(decoded.warnings.len(), count, "{bytes}"),
            (Err(failure), None) => assert_eq!(failure.class, FailureClass::Cut, "{bytes}"),
            (result, _) => panic!("{bytes}: {result:?}"),
        }
    }
    let mut decoder = Decoder::new();
    let mut has_stop = |chunk: &Value| {
        assert_eq!(decoder.event(chunk.to_string().as_bytes(), &mut |_| {}), Ok(Progress::More));
        decoder.has_stop()
    };
    assert_eq!([has_stop(&text), has_stop(&finish("stop")), has_stop(&text)], [false, true, true]);
    assert_eq!(decoder.event(b"[DONE]", &mut |_| {}), Ok(Progress::Complete));
    assert_eq!(
        decoder.event(b"garbage", &mut |_| {}),
        Ok(Progress::Complete),
        "what follows the end is ignored"
    );
}

#[test]
fn only_the_first_choice_counts() {
    let two = json!({"choices":[{"index":1,"delta":{"content":"no"}},{"index":0,"delta":{"content":"yes"}}]});
    let unnumbered = json!({"choices":[{"delta":{"content":"!"}},{"delta":{"content":"no"}}]});
    let decoded = answer(&[two, unnumbered, json!({"choices":null}), json!({"choices":[{"index":0}]})]);
    assert_eq!(decoded.blocks[0].text.as_deref(), Some("yes!"));
    let again = json!({"choices":[{"index":0,"message":{"content":"yes"},"finish_reason":"stop"}]});
    let decoded = answer(&[delta(&json!({"content":"yes"})), again]);
    assert_eq!(decoded.blocks[0].text.as_deref(), Some("yes"), "a message beside deltas says the same again");
}

#[test]
fn errors_in_the_stream_have_their_class() {
    use FailureClass as F;
    let rows = [
        (r#"{"error":{"message":"boom","type":"server_error"}}"#, F::Server, "boom"),
        (r#"{"error":"model runner has unexpectedly stopped"}"#, F::Server, "model runner"),
        (
            r#"[{"error":{"code":429,"message":"slow down","status":"RESOURCE_EXHAUSTED"}}]"#,
            F::RateLimited,
            "slow down",
        ),
        (r#"{"error":{"code":502,"message":"bad gateway"}}"#, F::Server, "bad gateway"),
        (r#"{"error":{"code":"429","message":"slow down"},"choices":[]}"#, F::RateLimited, "slow down"),
        (r#"{"error":{"code":503,"message":"busy"}}"#, F::Overloaded, "busy"),
        (r#"{"error":{"code":401,"message":"who?"}}"#, F::Credentials, "who?"),
        (
            r#"{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}"#,
            F::Overloaded,
            "Overloaded",
        ),
        (r#"{"object":"error","message":"bad","code":40001}"#, F::BadRequest, "bad"),
        (r#"{"detail":"Internal"}"#, F::Server, "Internal"),
        (
            r#"{"error":{"message":"no","code":"tool_use_failed","failed_generation":"<f>{"}}"#,
            F::Malformed,
            "<f>{",
        ),
        (
            r#"{"choices":[{"index":0,"delta":{"content":""},"finish_reason":null}],"error":{"code":400,"message":"Token limit reached"}}"#,
            F::BadRequest,
            "Token limit",
        ),
        (
            r#"{"choices":[{"index":0,"delta":{},"finish_reason":"error"}],"error":{"code":502,"message":"gone"}}"#,
            F::Server,
            "gone",
        ),
        ("oh no", F::Malformed, "oh no"),
        ("[1]", F::Malformed, "not a JSON object"),
        (r#"{"choices":{}}"#, F::Malformed, "choices"),
        (r#"{"choices":[7]}"#, F::Malformed, "choice"),
        (r#"{"choices":[{"delta":7}]}"#, F::Malformed, "delta"),
        (r#"{"choices":[{"delta":{"content":7}}]}"#, F::Malformed, "content"),
        (r#"{"choices":[{"delta":{"tool_calls":7}}]}"#, F::Malformed, "tool_calls"),
        (r#"{"choices":[{"delta":{"tool_calls":[7]}}]}"#, F::Malformed, "tool call"),
    ];
    for (data, class, words) in rows {
        for name in ["", "event: error\n"] {
            let bytes =
                sse(&[delta(&json!({"content":"half"}))]) + name + "data: " + data + "\n\ndata: [DONE]\n\n";
            let failure = decode(&bytes).unwrap_err();
            assert_eq!(failure.class, class, "{data}: {failure}");
            assert!(failure.message.contains(words), "{failure}");
            assert_eq!(failure.partial_text.as_deref(), Some("half"), "{data}");
            let unclosed = bytes.replace("\n\ndata: [DONE]\n\n", "");
            if class != F::Malformed {
                assert_eq!(decode(&unclosed).unwrap_err().class, class, "{data}");
            }
        }
    }
    let late =
        sse(&[delta(&json!({"content":"x"})), finish("stop"), json!({"error":{"code":500,"message":"no"}})]);
    assert_eq!(decode(&late).unwrap_err().class, FailureClass::Server, "an error after the stop is one");
    let no_error = json!({"error":null,"choices":[{"index":0,"delta":{"content":"x"}}]});
    assert!(decode(&stream(&[no_error], "stop")).is_ok());
}

#[test]
fn usage_is_normalised() {
    let full = |input, output, read, write| Usage {
        input_tokens: input,
        output_tokens: output,
        cache_read_tokens: read,
        cache_write_tokens: write,
    };
    let rows = [
        (
            json!({"prompt_tokens":60_000,"completion_tokens":5,"prompt_tokens_details":{"cached_tokens":59_000}}),
            full(1_000, 5, 59_000, 0),
        ),
        (
            json!({"prompt_tokens":10,"completion_tokens":5,"prompt_cache_hit_tokens":4,"prompt_cache_miss_tokens":6}),
            full(6, 5, 4, 0),
        ),
        (json!({"prompt_tokens":10,"completion_tokens":5,"cached_tokens":3}), full(7, 5, 3, 0)),
        (
            json!({"prompt_tokens":10,"completion_tokens":5,"prompt_tokens_details":{"cached_tokens":3,"cache_write_tokens":2}}),
            full(5, 5, 3, 2),
        ),
        (
            json!({"prompt_tokens":10,"completion_tokens":5,"prompt_tokens_details":{"cached_tokens":30}}),
            full(0, 5, 30, 0),
        ),
        (
            json!({"prompt_tokens":10,"completion_tokens":5,"total_tokens":22,"completion_tokens_details":{"reasoning_tokens":7}}),
            full(10, 12, 0, 0),
        ),
        (
            json!({"prompt_tokens":10,"completion_tokens":8,"total_tokens":18,"completion_tokens_details":{"reasoning_tokens":7}}),
            full(10, 8, 0, 0),
        ),
        (json!({"prompt_tokens":10.0,"completion_tokens":8,"prompt_tokens_details":null}), full(10, 8, 0, 0)),
    ];
    let text = delta(&json!({"content":"x"}));
    for (reported, expected) in rows {
        let places = [
            usage(&reported),
            json!({"choices":[],"x_groq":{"usage":reported}}),
            json!({"choices":[{"index":0,"delta":{},"usage":reported}]}),
        ];
        for place in places {
            let decoded = answer(&[
                json!({"choices":[],"usage":null}),
                text.clone(),
                usage(&json!({"prompt_tokens":1,"completion_tokens":1})),
                place,
                usage(&json!({"prompt_tokens":0,"completion_tokens":0,"total_tokens":0})),
            ]);
            assert_eq!(decoded.usage, expected, "{reported}");
            assert!(decoded.usage_reported && decoded.usage_raw.is_some());
        }
    }
    let silent = answer(&[text, usage(&json!({"prompt_tokens":0,"completion_tokens":0}))]);
    assert!(!silent.usage_reported && silent.usage_raw.is_none());
    let vast = usage(
        &json!({"prompt_tokens":u64::MAX,"completion_tokens":1e300,"prompt_tokens_details":{"cached_tokens":u64::MAX,"cache_write_tokens":u64::MAX}}),
    );
    assert!(answer(&[vast, delta(&json!({"content":"x"}))]).usage.prompt_tokens() > 0, "no sum overflows");
}

#[test]
fn a_call_as_text_is_told_and_not_run() {
    for text in [
        "<tool_call>{\"name\":\"f\"}</tool_call>",
        "ok [TOOL_CALLS][{}]",
        "<|python_tag|>f()",
        "<function=f>",
        "{\"name\":\"f\",\"parameters\":{}}",
    ] {
        let decoded = answer(&[delta(&json!({"content":text}))]);
        assert_eq!(decoded.warnings, [CALL_AS_TEXT], "{text}");
        assert_eq!(decoded.blocks.len(), 1);
        let beside = answer(&[delta(&json!({"content":text})), args(0, "a", "f", "{}")]);
        assert!(beside.warnings.is_empty());
    }
    assert!(answer(&[delta(&json!({"content":"{\"name\":\"x\"}"}))]).warnings.is_empty());
}

#[test]
fn live_pieces_have_their_places() {
    let chunks = [
        delta(&json!({"reasoning":"r"})),
        delta(&json!({"content":"é"})),
        args(0, "a", "f", "{}"),
        delta(&json!({"content":"北"})),
        delta(&json!({"refusal":"no"})),
    ];
    let (_, live) = decode_with(&stream(&chunks, "stop"), &|_| false).unwrap();
    let places: Vec<(u32, LiveKind, u64, &str)> =
        live.iter().map(|d| (d.block, d.kind, d.offset, d.text.as_str())).collect();
    let expected = [
        (0, LiveKind::Thinking, 0, "r"),
        (1, LiveKind::Text, 0, "é"),
        (1, LiveKind::Text, 2, "北"),
        (3, LiveKind::Text, 0, "no"),
    ];
    assert_eq!(places, expected);
}

#[test]
fn halves_of_a_character_are_joined() {
    let bytes = "data: {\"choices\":[{\"delta\":{\"content\":\"\\ud83d\"}}]}\n\ndata: {\"choices\":[{\"delta\":{\"content\":\"\\ude00\"},\"finish_reason\":\"stop\"}]}\n\n";
    assert_eq!(decode(bytes).unwrap().blocks[0].text.as_deref(), Some("😀"));
}
