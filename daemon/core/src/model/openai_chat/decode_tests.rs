//! Streams of this dialect become answers, or failures that say why.

use super::*;
use serde_json::{Value, json};

pub(super) fn sse(chunks: &[Value]) -> String {
    chunks.iter().map(|chunk| format!("data: {chunk}\n\n")).collect()
}

/// A chunk with one choice that has this delta.
pub(super) fn delta(delta: &Value) -> Value {
    json!({"id":"chatcmpl-1","object":"chat.completion.chunk","choices":[{"index":0,"delta":delta,"finish_reason":null}]})
}

pub(super) fn finish(reason: &str) -> Value {
    json!({"id":"chatcmpl-1","choices":[{"index":0,"delta":{},"finish_reason":reason}]})
}

fn usage(usage: &Value) -> Value {
    json!({"id":"chatcmpl-1","choices":[],"usage":usage})
}

fn call(entry: &Value) -> Value {
    delta(&json!({"tool_calls":[entry]}))
}

fn args(index: u64, id: &str, name: &str, args: &str) -> Value {
    call(&json!({"index":index,"id":id,"type":"function","function":{"name":name,"arguments":args}}))
}

/// A whole stream: these chunks, a finish reason and the end mark.
pub(super) fn stream(chunks: &[Value], reason: &str) -> String {
    sse(chunks) + &sse(&[finish(reason)]) + "data: [DONE]\n\n"
}

fn decode_with(bytes: &str, used: &dyn Fn(&str) -> bool) -> Result<(Decoded, Vec<LiveDelta>), DecodeFailure> {
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

fn decode(bytes: &str) -> Result<Decoded, DecodeFailure> {
    decode_with(bytes, &|_| false).map(|(decoded, _)| decoded)
}

fn answer(chunks: &[Value]) -> Decoded {
    decode(&stream(chunks, "stop")).unwrap()
}

/// Each call as `id name args`, with a mark where it is not complete.
fn calls(decoded: &Decoded) -> Vec<String> {
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

fn raws(decoded: &Decoded) -> Vec<&str> {
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
