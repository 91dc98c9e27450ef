//! What the decoders read in recorded streams is what an independent reader reads in them.
//!
//! `tests/independent/read_stream.py` was written from the wire formats alone. The recordings lie beside the
//! repository; where they are missing these tests say so and pass. Where they are, `python3` is needed.

use agentd_core::event::{BlockKind, Dialect, StopClass};
use agentd_core::model::ids::IdRule;
use agentd_core::model::live::{DecodeFailure, Decoded, Progress};
use agentd_core::model::reader::AnswerReader;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::process::Command;

struct Recording {
    path: PathBuf,
    dialect: Dialect,
    bytes: Vec<u8>,
}

fn recordings() -> Vec<Recording> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shared/fixtures");
    if !root.is_dir() {
        println!("skipped: there are no recordings at {}", root.display());
        return Vec::new();
    }
    let folders = [
        ("anthropic", "", Dialect::Anthropic),
        ("openai-chat", "", Dialect::OpenAiChat),
        ("local-servers", "anthropic_", Dialect::Anthropic),
        ("local-servers", "openai_", Dialect::OpenAiChat),
    ];
    let mut found = Vec::new();
    for (folder, prefix, dialect) in folders {
        for entry in std::fs::read_dir(root.join(folder)).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            if name.ends_with(".sse") && name.starts_with(prefix) {
                let bytes = std::fs::read(&path).unwrap();
                found.push(Recording { path, dialect, bytes });
            }
        }
    }
    assert!(found.len() > 50, "only {} recordings were found in {}", found.len(), root.display());
    found
}

/// What the other reader says of a file.
fn second_opinion(recording: &Recording) -> Value {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("independent/read_stream.py");
    let dialect = if recording.dialect == Dialect::Anthropic { "anthropic" } else { "openai-chat" };
    let output = Command::new("python3")
        .arg(script)
        .arg(&recording.path)
        .args(["--dialect", dialect])
        .output()
        .unwrap_or_else(|error| panic!("this test needs python3 on the PATH: {error}"));
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

fn decode<'a>(
    dialect: Dialect,
    pieces: impl IntoIterator<Item = &'a [u8]>,
) -> Result<Decoded, DecodeFailure> {
    let mut reader = AnswerReader::new(dialect);
    for piece in pieces {
        if reader.push(piece, &mut |_| {})? == Progress::Complete {
            break;
        }
    }
    reader.finish(&IdRule { seed: "m_1", used: &|_| false }, &mut |_| {})
}

/// An answer in the other reader's words.
fn in_words(decoded: &Decoded) -> Value {
    let blocks: Vec<Value> = decoded
        .blocks
        .iter()
        .filter(|block| {
            block.kind != BlockKind::Text || block.text.as_deref().is_some_and(|text| !text.trim().is_empty())
        })
        .map(|block| match (&block.kind, &block.call) {
            (_, Some(call)) => json!({
                "kind": "tool_use",
                "id": call.provider_call_id,
                "name": call.name,
                "complete": call.complete,
                "args": serde_json::from_str::<Value>(call.args.get()).unwrap(),
            }),
            // Encrypted reasoning has no text and no kind of its own in this dialect.
            (BlockKind::Thinking, None) if block.text.as_deref().unwrap_or_default().is_empty() => {
                json!({"kind": "redacted_thinking"})
            }
            (BlockKind::Text | BlockKind::Thinking, None) => {
                json!({"kind": block.kind.as_str(), "text": block.text})
            }
            (kind, None) => json!({"kind": kind.as_str()}),
        })
        .collect();
    let usage = &decoded.usage;
    json!({
        "blocks": blocks,
        "class": decoded.stop.class.as_str(),
        "word": decoded.stop.raw,
        "usage": decoded.usage_reported.then(|| json!({
            "input": usage.input_tokens,
            "output": usage.output_tokens,
            "cache_read": usage.cache_read_tokens,
            "cache_write": usage.cache_write_tokens,
        })),
    })
}

/// The other reader's document, brought to what is to be equal: blocks without visible text are not kept, calls stand
/// last, arguments that are not whole are no arguments, and the word of a stop has its own class whatever the answer
/// holds (complete calls decide later, for all dialects).
fn expected(opinion: &Value, decoded: &Decoded) -> Value {
    let kept = |block: &&Value| match block["kind"].as_str() {
        Some("text") => !block["text"].as_str().unwrap_or_default().trim().is_empty(),
        Some("other") => block["type"] != "refusal",
        _ => true,
    };
    let (calls, rest): (Vec<&Value>, Vec<&Value>) = opinion["blocks"]
        .as_array()
        .unwrap()
        .iter()
        .filter(kept)
        .partition(|block| block["kind"] == "tool_use");
    let rest = rest.into_iter().map(|block| match block["kind"].as_str() {
        Some("thinking") if block["text"] == "" => json!({"kind": "redacted_thinking"}),
        Some("text" | "thinking") => json!({"kind": block["kind"], "text": block["text"]}),
        _ => json!({"kind": block["kind"]}),
    });
    let calls = calls.into_iter().map(|block| {
        let whole = block["complete"] == true && block["args_valid"] == true;
        json!({
            "kind": "tool_use",
            "id": block["id"],
            "name": block["name"],
            "complete": whole,
            "args": if whole { block["args"].clone() } else { json!({}) },
        })
    });
    let ended = matches!(decoded.stop.class, StopClass::EndTurn | StopClass::ToolUse);
    let class = &opinion["stop"]["class"];
    let class = if ended && (class == "tool_use" || class == "end_turn") {
        json!(decoded.stop.class.as_str())
    } else {
        class.clone()
    };
    json!({
        "blocks": rest.chain(calls).collect::<Vec<Value>>(),
        "class": class,
        "word": opinion["stop"]["word"],
        "usage": if is_silent(&opinion["usage"]) { &Value::Null } else { &opinion["usage"] },
    })
}

/// Zeros everywhere are a server that does not count.
fn is_silent(usage: &Value) -> bool {
    usage.as_object().is_none_or(|counts| counts.values().all(|count| *count == 0))
}

#[test]
fn every_recording_reads_as_the_independent_reader_says() {
    let mut wrong = Vec::new();
    for recording in recordings() {
        let name = recording.path.display();
        let opinion = second_opinion(&recording);
        let whole = decode(recording.dialect, [&recording.bytes[..]]);
        match (&whole, opinion["complete"] == true) {
            (Ok(decoded), true) => {
                let (ours, theirs) = (in_words(decoded), expected(&opinion, decoded));
                if ours != theirs {
                    wrong.push(format!("{name}:\n  ours   {ours}\n  theirs {theirs}"));
                }
            }
            (Err(_), false) => {}
            (ours, _) => wrong.push(format!("{name}: {} but we say {ours:?}", opinion["ending"])),
        }
        let single = decode(recording.dialect, recording.bytes.chunks(1));
        if format!("{single:?}") != format!("{whole:?}") {
            wrong.push(format!("{name}: single bytes give another answer"));
        }
    }
    assert!(wrong.is_empty(), "{} of them differ:\n{}", wrong.len(), wrong.join("\n"));
}

/// Every place at which a short recording can be cut in two; the longer ones are read in pieces of every size up to
/// 64 elsewhere.
#[test]
fn a_cut_anywhere_changes_nothing() {
    const SHORT_BYTES: usize = 3_000;
    let mut cuts = 0;
    for recording in recordings().iter().filter(|recording| recording.bytes.len() <= SHORT_BYTES) {
        let whole = format!("{:?}", decode(recording.dialect, [&recording.bytes[..]]));
        for at in 0..=recording.bytes.len() {
            let (head, tail) = recording.bytes.split_at(at);
            let cut = format!("{:?}", decode(recording.dialect, [head, tail]));
            assert_eq!(cut, whole, "{} cut at {at}", recording.path.display());
            cuts += 1;
        }
    }
    println!("{cuts} cuts");
}

/// A stream that ends at any event before its stop is no answer, so none of its calls can run.
#[test]
fn half_a_recording_is_never_an_answer() {
    for recording in recordings() {
        let text = String::from_utf8(recording.bytes.clone()).unwrap().replace("\r\n", "\n");
        let stop = match recording.dialect {
            Dialect::Anthropic => "message_stop",
            _ => "\"finish_reason\":\"",
        };
        for (at, _) in text.match_indices("\n\n") {
            let half = &text[..at + 2];
            let said_stop = half.replace(": ", ":").contains(stop) || half.contains("[DONE]");
            let decoded = decode(recording.dialect, [half.as_bytes()]);
            assert!(
                decoded.is_err() || said_stop,
                "{} cut at {at} counts as an answer: {decoded:?}",
                recording.path.display()
            );
        }
    }
}
