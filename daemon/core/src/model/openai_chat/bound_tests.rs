//! No bytes are too odd and none too many: what comes out is sendable, or a failure.

use super::decode::AnswerReader;
use super::decode::tests::{delta, finish, sse, stream};
use crate::event::{BlockKind, FailureClass};
use crate::limits::{
    ANSWER_CALLS_MAX, ANSWER_FIELDS_MAX, ANSWER_PIECES_MAX, ANSWER_WARNINGS_MAX, RESPONSE_MAX_BYTES,
};
use crate::model::ids::IdRule;
use crate::model::live::{DecodeFailure, Decoded, LiveDelta, Progress};
use proptest::prelude::*;
use serde_json::{Value, json};
use std::collections::BTreeSet;

fn read(bytes: &[u8], size: usize) -> (Result<Decoded, DecodeFailure>, Vec<LiveDelta>) {
    let mut live = Vec::new();
    let used = |id: &str| id == "old";
    let result = (|| {
        let mut reader = AnswerReader::new();
        for chunk in bytes.chunks(size.max(1)) {
            if reader.push(chunk, &mut |delta| live.push(delta))? == Progress::Complete {
                break;
            }
        }
        reader.finish(&IdRule { seed: "m", used: &used }, &mut |delta| live.push(delta))
    })();
    (result, live)
}

fn summary(result: &Result<Decoded, DecodeFailure>) -> String {
    match result {
        Ok(decoded) => {
            let raws: Vec<&str> = decoded.blocks.iter().map(|block| block.raw.get()).collect();
            format!("{raws:?} {:?} {:?} {:?}", decoded.stop, decoded.usage, decoded.warnings)
        }
        Err(failure) => format!("{failure:?}"),
    }
}

/// What the encoder relies on, whatever came.
fn assert_sendable(decoded: &Decoded) {
    let mut ids = BTreeSet::new();
    let order = |kind| match kind {
        BlockKind::Thinking => 0,
        BlockKind::Text => 1,
        _ => 2,
    };
    assert!(decoded.blocks.is_sorted_by_key(|block| order(block.kind)));
    assert!(decoded.warnings.len() <= ANSWER_WARNINGS_MAX);
    for block in &decoded.blocks {
        let raw: Value = serde_json::from_str(block.raw.get()).unwrap();
        assert!(raw.is_object());
        match &block.call {
            Some(call) => {
                assert!(ids.insert(call.provider_call_id.clone()) && call.provider_call_id != "old");
                assert!(!call.provider_call_id.is_empty() && call.provider_call_id.len() <= 512);
                assert!(!call.provider_call_id.chars().any(char::is_control));
                assert_eq!(raw["id"], call.provider_call_id.as_str());
                assert_eq!(raw["type"], "function");
                let name = raw["function"]["name"].as_str().unwrap();
                assert!((1..=64).contains(&name.len()));
                assert!(name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-'));
                let args: Value =
                    serde_json::from_str(raw["function"]["arguments"].as_str().unwrap()).unwrap();
                assert!(args.is_object());
                assert_eq!(args, serde_json::from_str::<Value>(call.args.get()).unwrap());
                assert_eq!(call.complete, call.fault.is_none());
                assert!(call.complete || block.altered);
            }
            None => assert!(raw["type"].is_string()),
        }
        if block.kind == BlockKind::Text {
            assert!(!block.text.as_deref().unwrap().trim().is_empty());
            assert_eq!(raw["text"], block.text.as_deref().unwrap());
        }
    }
}

/// Shown text is what is kept, and every piece continues its block.
fn assert_shown(live: &[LiveDelta], decoded: &Decoded) {
    let mut shown: Vec<String> = Vec::new();
    for delta in live {
        let place = delta.block as usize;
        shown.resize(shown.len().max(place + 1), String::new());
        assert_eq!(shown[place].len() as u64, delta.offset);
        assert!(!delta.text.is_empty());
        shown[place].push_str(&delta.text);
    }
    for text in decoded.blocks.iter().filter_map(|block| block.text.as_ref()).filter(|text| !text.is_empty())
    {
        // A half of a character at the very end is closed only then.
        let text = text.trim_end_matches(char::REPLACEMENT_CHARACTER);
        assert!(shown.iter().any(|shown| shown.trim_end_matches(char::REPLACEMENT_CHARACTER) == text));
    }
}

fn failure_of(bytes: &str) -> DecodeFailure {
    read(bytes.as_bytes(), 1 << 20).0.unwrap_err()
}

fn entry(index: usize, id: &str, name: &str, args: &str) -> Value {
    json!({"index":index,"id":id,"function":{"name":name,"arguments":args}})
}

#[test]
fn an_answer_is_bounded_by_its_content_and_not_by_what_is_around_it() {
    let pieces = |count: usize, bytes: usize| -> Vec<Value> {
        (0..count).map(|_| delta(&json!({"content":"x".repeat(bytes)}))).collect()
    };
    let around = stream(&pieces(100_000, 16), "stop");
    assert!(around.len() > RESPONSE_MAX_BYTES);
    let decoded = read(around.as_bytes(), 1 << 20).0.unwrap();
    assert_eq!(decoded.blocks[0].text.as_ref().unwrap().len(), 1_600_000);
    let large = "x".repeat(RESPONSE_MAX_BYTES / 4);
    let rows = [
        pieces(9, RESPONSE_MAX_BYTES / 8),
        (0..5).map(|_| delta(&json!({"reasoning":large}))).collect(),
        (0..5).map(|_| delta(&json!({"refusal":large}))).collect(),
        (0..5).map(|_| delta(&json!({"tool_calls":[entry(0, "a", "", &large)]}))).collect(),
        (0..5).map(|n| delta(&json!({"tool_calls":[{"index":0,(format!("k{n}")):large}]}))).collect(),
        (0..5).map(|_| delta(&json!({"reasoning_details":[{"index":0,"data":large}]}))).collect(),
    ];
    for chunks in rows {
        let failure = failure_of(&stream(&chunks, "stop"));
        assert_eq!(failure.class, FailureClass::Malformed);
        assert!(failure.message.contains("larger than"), "{}", failure.message);
    }
}

#[test]
fn what_is_kept_apart_is_counted() {
    let calls =
        |count: usize| -> Vec<Value> { (0..count).map(|n| entry(n, &format!("c{n}"), "f", "{}")).collect() };
    let at_most = stream(&[delta(&json!({"tool_calls":calls(ANSWER_CALLS_MAX)}))], "stop");
    assert_eq!(read(at_most.as_bytes(), 4_096).0.unwrap().blocks.len(), ANSWER_CALLS_MAX);
    let more = stream(&[delta(&json!({"tool_calls":calls(100_000)}))], "stop");
    assert!(failure_of(&more).message.contains("tool calls"));
    let details: Vec<Value> = (0..=ANSWER_PIECES_MAX).map(|n| json!({"index":n})).collect();
    assert!(
        failure_of(&stream(&[delta(&json!({"reasoning_details":details}))], "stop"))
            .message
            .contains("pieces")
    );
    let parts: Vec<Value> = (0..=ANSWER_PIECES_MAX).map(|n| json!({"n":n})).collect();
    let part = json!({"content":[{"type":"thinking","thinking":parts}]});
    assert!(failure_of(&stream(&[delta(&part)], "stop")).message.contains("pieces"));
}

/// Each of these would take minutes if a piece cost more than its own length.
#[test]
fn many_pieces_cost_what_they_weigh() {
    let many = 20_000;
    let long = format!("{{\"a\":\"{}\"}}", "x".repeat(2_000_000));
    let one = |value: Value| vec![delta(&value)];
    let repeat = |value: Value| vec![delta(&value); many];
    let choices: Vec<Value> = (0..100_000).map(|n| json!({"index":n % 7,"delta":{"content":"x"}})).collect();
    let entries: Vec<Value> = (0..100_000).map(|n| entry(n % 500, "", "", "x")).collect();
    let keys = |count: usize| -> Value {
        (0..count).map(|n| (format!("k{n}"), json!(n))).collect::<serde_json::Map<_, _>>().into()
    };
    let spaces = " ".repeat(2_000_000);
    let rows: Vec<Vec<Value>> = vec![
        vec![json!({"choices":choices})],
        one(json!({"tool_calls":entries})),
        one(json!({"tool_calls":[keys(100_000)]})),
        (0..many).map(|n| delta(&json!({"tool_calls":[{"index":0,(format!("k{n}")):n}]}))).collect(),
        (0..many).map(|n| delta(&json!({"reasoning_details":[{"index":0,(format!("k{n}")):n}]}))).collect(),
        (0..many).map(|n| json!({"usage":{"prompt_tokens":1,(format!("k{n}")):n}})).collect(),
        [
            one(json!({"tool_calls":[entry(0, "a", "f", &long)]})),
            repeat(json!({"tool_calls":[entry(0, "a", "f", "}")]})),
        ]
        .concat(),
        [
            one(json!({"tool_calls":[entry(0, "a", "f", &(spaces + "{"))]})),
            repeat(json!({"tool_calls":[entry(0, "a", "f", "1")]})),
        ]
        .concat(),
        [
            one(json!({"reasoning_details":[{"index":0,"data":long}]})),
            repeat(json!({"reasoning_details":[{"index":0,"data":"x"}]})),
        ]
        .concat(),
        [
            one(json!({"content":[{"type":"thinking","thinking":long}]})),
            repeat(json!({"content":[{"type":"thinking","thinking":"x"}]})),
        ]
        .concat(),
        repeat(json!({"content":"<tool_call>","refusal":"x","reasoning":"y","tool_calls":[{}]})),
    ];
    for chunks in rows {
        let bytes = stream(&chunks, "stop");
        let (result, live) = read(bytes.as_bytes(), 1 << 16);
        if let Ok(decoded) = result {
            assert_sendable(&decoded);
            assert_shown(&live, &decoded);
            let fields = decoded.usage_raw.map(|raw| serde_json::from_str::<Value>(raw.get()).unwrap());
            assert!(fields.is_none_or(|fields| fields.as_object().unwrap().len() <= 2 * ANSWER_FIELDS_MAX));
        }
    }
}

fn any_word() -> impl Strategy<Value = String> {
    prop_oneof![
        Just(String::new()),
        Just(" ".to_owned()),
        Just("old".to_owned()),
        "[a-z]{1,3}",
        any::<String>()
    ]
}

fn any_args() -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(json!("{")),
        Just(json!("}")),
        Just(json!("{}")),
        Just(json!("\"a\":1")),
        Just(json!("")),
        Just(json!(null)),
        Just(json!({"a":1})),
        Just(json!([1])),
        any::<String>().prop_map(Value::from),
    ]
}

fn any_entry() -> impl Strategy<Value = Value> {
    let index = prop_oneof![(0_u64..3).prop_map(Value::from), Just(json!(null)), Just(json!("0"))];
    let id = prop_oneof![
        Just(json!("a")),
        Just(json!("b")),
        Just(json!("")),
        Just(json!(null)),
        any_word().prop_map(Value::from)
    ];
    let name = prop_oneof![
        Just(json!("f")),
        Just(json!("g")),
        Just(json!("")),
        Just(json!(null)),
        any_word().prop_map(Value::from)
    ];
    (index, id, name, any_args(), any::<u8>()).prop_map(|(index, id, name, args, keep)| {
        let mut entry = json!({"index":index,"id":id,"function":{"name":name,"arguments":args}});
        if keep & 1 == 0 {
            entry.as_object_mut().unwrap().remove("index");
        }
        if keep & 2 == 0 {
            entry.as_object_mut().unwrap().remove("id");
        }
        if keep & 12 == 0 {
            entry["extra_content"] = json!({"google":{"thought_signature":"S"}});
        }
        if keep & 48 == 0 {
            entry.as_object_mut().unwrap().remove("function");
        }
        entry
    })
}

fn any_delta() -> impl Strategy<Value = Value> {
    let detail = (0_u64..2, any_word(), any_word()).prop_map(|(index, text, signature)| {
        json!([{"type":"reasoning.text","index":index,"text":text},{"type":"reasoning.text","index":index,"signature":signature}])
    });
    prop_oneof![
        any_word().prop_map(|words| json!({"content":words})),
        any_word().prop_map(|words| json!({"reasoning":words,"content":null})),
        any_word().prop_map(|words| json!({"reasoning_content":words})),
        any_word().prop_map(|words| json!({"refusal":words})),
        any_word().prop_map(|words| json!({"content":[{"type":"text","text":words},{"type":"thinking","thinking":[{"type":"text","text":words},{"type":"r"}]}]})),
        detail.prop_map(|details| json!({"reasoning_details":details})),
        proptest::collection::vec(any_entry(), 0..3).prop_map(|entries| json!({"tool_calls":entries})),
        (any_word(), any_args()).prop_map(|(name, args)| json!({"function_call":{"name":name,"arguments":args}})),
        Just(json!({"role":"assistant"})),
    ]
}

fn any_chunk() -> impl Strategy<Value = Value> {
    prop_oneof![
        12 => any_delta().prop_map(|inner| delta(&inner)),
        1 => any_delta().prop_map(|inner| json!({"choices":[{"index":0,"message":inner}]})),
        1 => (any::<u64>(), any::<u64>()).prop_map(|(prompt, cached)| json!({"choices":[],"usage":{"prompt_tokens":prompt,"completion_tokens":1,"prompt_tokens_details":{"cached_tokens":cached}}})),
        1 => Just(finish("stop")),
        1 => Just(json!({"choices":null,"x_groq":{"usage":null}})),
    ]
}

proptest! {
    #[test]
    fn any_bytes_and_chunks_are_survived(bytes in proptest::collection::vec(any::<u8>(), 0..400), size in 1_usize..50) {
        let (whole, live) = read(&bytes, bytes.len());
        let (pieces, live_pieces) = read(&bytes, size);
        prop_assert_eq!(summary(&pieces), summary(&whole));
        prop_assert_eq!(live_pieces, live);
    }

    #[test]
    fn any_chunks_become_something_sendable(chunks in proptest::collection::vec(any_chunk(), 0..20), reason in prop_oneof![Just("stop"), Just("length"), Just("tool_calls")], size in 1_usize..90) {
        let bytes = stream(&chunks, reason);
        let (whole, live) = read(bytes.as_bytes(), bytes.len());
        let (pieces, live_pieces) = read(bytes.as_bytes(), size);
        prop_assert_eq!(summary(&pieces), summary(&whole));
        prop_assert_eq!(&live_pieces, &live);
        let decoded = whole.unwrap();
        assert_sendable(&decoded);
        assert_shown(&live, &decoded);
    }

    /// A byte changed anywhere, or the end cut off: still sendable, or a failure.
    #[test]
    fn any_damage_is_survived(chunks in proptest::collection::vec(any_chunk(), 0..12), at in any::<prop::sample::Index>(), byte in any::<u8>(), cut in any::<bool>()) {
        let mut bytes = stream(&chunks, "stop").into_bytes();
        let at = at.index(bytes.len());
        if cut {
            bytes.truncate(at);
        } else {
            bytes[at] = byte;
        }
        let (whole, live) = read(&bytes, bytes.len());
        prop_assert_eq!(summary(&read(&bytes, 3).0), summary(&whole));
        if let Ok(decoded) = whole {
            assert_sendable(&decoded);
            assert_shown(&live, &decoded);
        }
    }

    /// Without its finish reason no part of an answer is one.
    #[test]
    fn no_cut_is_an_answer(inner in proptest::collection::vec(any_delta(), 0..12), keep in any::<prop::sample::Index>()) {
        let chunks: Vec<Value> = inner.iter().map(delta).collect();
        let kept = keep.index(chunks.len() + 1);
        let failure = read(sse(&chunks[..kept]).as_bytes(), 4_096).0.unwrap_err();
        prop_assert_eq!(failure.class, FailureClass::Cut);
    }
}
