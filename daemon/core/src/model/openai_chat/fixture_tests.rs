//! Every recorded stream decodes, and the same at every chunking, and to what a second, simpler reading finds in
//! it. The recordings lie beside the repository; without them the tests say so and pass.

use super::decode::AnswerReader;
use crate::event::{BlockKind, FailureClass, StopClass, Usage};
use crate::model::ids::IdRule;
use crate::model::live::{DecodeFailure, Decoded, LiveDelta, Progress};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::PathBuf;

fn folder(name: &str) -> Option<PathBuf> {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../shared/fixtures").join(name);
    if path.is_dir() {
        return Some(path);
    }
    println!("skipped: there are no recordings at {}", path.display());
    None
}

fn read(bytes: &[u8], size: usize) -> (Result<Decoded, DecodeFailure>, Vec<LiveDelta>) {
    let mut live = Vec::new();
    let result = (|| {
        let mut reader = AnswerReader::new();
        for chunk in bytes.chunks(size.max(1)) {
            if reader.push(chunk, &mut |delta| live.push(delta))? == Progress::Complete {
                break;
            }
        }
        reader.finish(&IdRule { seed: "m_1", used: &|_| false }, &mut |delta| live.push(delta))
    })();
    (result, live)
}

fn summary(result: &Result<Decoded, DecodeFailure>) -> String {
    match result {
        Ok(decoded) => {
            let raws: Vec<&str> = decoded.blocks.iter().map(|block| block.raw.get()).collect();
            let (stop, id) = (&decoded.stop, &decoded.provider_message_id);
            format!("{raws:?} {:?} {stop:?} {id:?} {:?}", decoded.usage, decoded.warnings)
        }
        Err(failure) => format!("{failure:?}"),
    }
}

fn decoded(name: &str) -> Option<Result<Decoded, DecodeFailure>> {
    let bytes = std::fs::read(folder("openai-chat")?.join(name)).unwrap();
    Some(read(&bytes, bytes.len()).0)
}

fn streams() -> Vec<(String, Vec<u8>)> {
    let mut found = Vec::new();
    for (name, prefix) in [("openai-chat", ""), ("local-servers", "openai_")] {
        let Some(folder) = folder(name) else { continue };
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let file = path.file_name().unwrap().to_string_lossy().into_owned();
            if file.ends_with(".sse") && file.starts_with(prefix) {
                found.push((file, std::fs::read(&path).unwrap()));
            }
        }
    }
    found.sort();
    found
}

/// The two recordings that end in an error.
fn is_failure(file: &str) -> bool {
    matches!(file, "groq_error_event_midstream.sse" | "openrouter_error_in_stream.sse")
}

/// What a plain reading with `serde_json` finds: text, reasoning, calls as (id, name, arguments), finish reason.
#[derive(Debug, Default, PartialEq)]
struct Plain {
    text: String,
    reasoning: String,
    calls: Vec<(String, String, String)>,
    reason: Option<String>,
    prompt_tokens: u64,
}

fn plain(stream: &str) -> Plain {
    let mut found = Plain::default();
    let mut calls: BTreeMap<u64, (String, String, String)> = BTreeMap::new();
    let data = stream.lines().filter_map(|line| line.strip_prefix("data: "));
    for chunk in data.filter_map(|data| serde_json::from_str::<Value>(data).ok()) {
        for usage in [&chunk["x_groq"]["usage"], &chunk["usage"]] {
            found.prompt_tokens = usage["prompt_tokens"].as_u64().unwrap_or(found.prompt_tokens);
        }
        let choice = &chunk["choices"][0];
        let delta = &choice["delta"];
        found.text += delta["content"].as_str().unwrap_or_default();
        for part in delta["content"].as_array().into_iter().flatten() {
            found.text += part["text"].as_str().unwrap_or_default();
            found.reasoning += part["thinking"][0]["text"].as_str().unwrap_or_default();
        }
        let reasoning = ["reasoning_content", "reasoning"].iter().find_map(|field| delta[field].as_str());
        found.reasoning += reasoning.unwrap_or_default();
        for entry in delta["tool_calls"].as_array().into_iter().flatten() {
            let call = calls.entry(entry["index"].as_u64().unwrap_or(0)).or_default();
            let word = |value: &Value| value.as_str().unwrap_or_default().to_owned();
            let (id, name) = (word(&entry["id"]), word(&entry["function"]["name"]));
            if call.0.is_empty() {
                call.0 = id;
            }
            if call.1.is_empty() {
                call.1 = name;
            }
            call.2 += &word(&entry["function"]["arguments"]);
        }
        let reason = choice["finish_reason"].as_str().map(str::to_owned);
        found.reason = found.reason.or(reason);
    }
    found.calls = calls.into_values().collect();
    found
}

fn plainly(decoded: &Decoded) -> Plain {
    let texts = |kind| -> String {
        let blocks = decoded.blocks.iter().filter(move |block| block.kind == kind);
        blocks.filter_map(|block| block.text.as_deref()).collect()
    };
    let calls = decoded.blocks.iter().filter(|block| block.call.is_some());
    let calls = calls.map(|block| {
        let raw: Value = serde_json::from_str(block.raw.get()).unwrap();
        let word = |value: &Value| value.as_str().unwrap().to_owned();
        (word(&raw["id"]), word(&raw["function"]["name"]), word(&raw["function"]["arguments"]))
    });
    Plain {
        text: texts(BlockKind::Text),
        reasoning: texts(BlockKind::Thinking),
        calls: calls.collect(),
        reason: decoded.stop.raw.clone(),
        prompt_tokens: decoded.usage.prompt_tokens(),
    }
}

#[test]
fn every_recording_says_what_a_second_reading_finds() {
    for (file, bytes) in streams() {
        let result = read(&bytes, bytes.len()).0;
        assert_eq!(result.is_err(), is_failure(&file), "{file}: {result:?}");
        let Ok(decoded) = result else { continue };
        let mut expected = plain(std::str::from_utf8(&bytes).unwrap());
        // What the output limit cut is no call, and goes back without its arguments.
        if let Some(call) = expected.calls.last_mut().filter(|_| decoded.stop.class == StopClass::MaxTokens) {
            assert!(serde_json::from_str::<Value>(&call.2).is_err(), "{file}");
            call.2 = "{}".to_owned();
        }
        assert_eq!(plainly(&decoded), expected, "{file}");
        assert_eq!(
            decoded.usage_reported,
            std::str::from_utf8(&bytes).unwrap().contains("prompt_tokens"),
            "{file}"
        );
    }
}

#[test]
fn every_recording_is_read_the_same_at_every_chunking() {
    for (file, bytes) in streams() {
        let (whole, live) = read(&bytes, bytes.len());
        for size in 1..=64 {
            let (pieces, live_pieces) = read(&bytes, size);
            assert_eq!(summary(&pieces), summary(&whole), "{file} in pieces of {size}");
            assert_eq!(live_pieces, live, "{file} in pieces of {size}");
        }
        let crlf = String::from_utf8(bytes.clone()).unwrap().replace('\n', "\r\n");
        assert_eq!(summary(&read(crlf.as_bytes(), 1).0), summary(&whole), "{file} with CRLF");
        let unclosed = String::from_utf8(bytes.clone()).unwrap();
        assert_eq!(
            summary(&read(unclosed.trim_end().as_bytes(), 5).0),
            summary(&whole),
            "{file} without its end"
        );
    }
}

/// A cut before the finish reason is a failure. After it the answer is complete, whatever usage is still to come
/// and whether or not the end mark does: many servers send none.
#[test]
fn a_cut_recording_is_an_answer_only_after_its_finish_reason() {
    for (file, bytes) in streams() {
        let text = std::str::from_utf8(&bytes).unwrap();
        let whole = read(&bytes, bytes.len()).0.map(|decoded| plainly(&decoded).calls).unwrap_or_default();
        for cut in text.match_indices("\n\n").map(|(at, _)| at + 2) {
            let head = &text[..cut];
            let said = plain(head).reason.is_some() || head.contains("[DONE]");
            let result = read(head.as_bytes(), 4_096).0;
            match result {
                Ok(decoded) => {
                    assert!(said, "{file} cut at {cut}");
                    assert_eq!(
                        plainly(&decoded).calls,
                        if is_failure(&file) { Vec::new() } else { whole.clone() }
                    );
                }
                Err(failure) if said => assert!(is_failure(&file), "{file} cut at {cut}: {failure}"),
                Err(failure) => {
                    let broken = head.contains("\"error\"");
                    assert!(broken || failure.class == FailureClass::Cut, "{file} cut at {cut}: {failure}");
                }
            }
        }
    }
}

#[test]
fn live_pieces_add_up_to_the_text() {
    for (file, bytes) in streams() {
        let (result, live) = read(&bytes, 61);
        let Ok(decoded) = result else { continue };
        let mut shown: Vec<String> = Vec::new();
        for delta in live {
            let place = delta.block as usize;
            shown.resize(shown.len().max(place + 1), String::new());
            assert_eq!(shown[place].len() as u64, delta.offset, "{file}");
            shown[place].push_str(&delta.text);
        }
        shown.retain(|text| !text.trim().is_empty());
        let mut kept: Vec<String> = decoded.blocks.iter().filter_map(|block| block.text.clone()).collect();
        kept.retain(|text| !text.trim().is_empty());
        assert_eq!(shown, kept, "{file}");
    }
}

#[test]
fn what_each_server_does_differently() {
    // Class, kinds in order (r reasoning, t text, c call), usage as input, output, read, and warnings.
    let rows = [
        ("anthropic_compat_tool_index1.sse", StopClass::ToolUse, "tc", (0, 0, 0), 0),
        ("azure_model_router.sse", StopClass::EndTurn, "t", (15, 78, 0), 0),
        ("deepseek_tool.sse", StopClass::ToolUse, "rc", (19, 83, 320), 0),
        ("gemini_thought_signature_parallel.sse", StopClass::ToolUse, "rcc", (74, 173, 0), 0),
        ("huggingface_novita_text.sse", StopClass::EndTurn, "t", (40, 2, 0), 0),
        ("mistral_incremental_tool.sse", StopClass::ToolUse, "c", (43, 14, 128), 0),
        ("mistral_reasoning.sse", StopClass::EndTurn, "rt", (10, 46, 0), 0),
        ("moonshot_kimi_reasoning.sse", StopClass::EndTurn, "rt", (9, 12, 0), 0),
        ("openrouter_gemini_tool_parallel.sse", StopClass::ToolUse, "rcc", (157, 32, 0), 0),
        ("openrouter_reasoning_details.sse", StopClass::EndTurn, "rt", (43, 36, 0), 0),
        ("snowflake_text_no_finish.sse", StopClass::EndTurn, "t", (22, 5, 0), 1),
        ("xai_tool_parallel.sse", StopClass::ToolUse, "cc", (279, 204, 153), 0),
        ("zai_glm_reasoning_tool_parallel.sse", StopClass::ToolUse, "rtcc", (232, 112, 43), 0),
    ];
    for (file, class, kinds, (input, output, read), warnings) in rows {
        let Some(answer) = decoded(file) else { return };
        let answer = answer.unwrap();
        let found: String = answer
            .blocks
            .iter()
            .map(|block| match block.kind {
                BlockKind::Thinking => 'r',
                BlockKind::Text => 't',
                BlockKind::ToolUse => 'c',
                _ => '?',
            })
            .collect();
        assert_eq!((answer.stop.class, found.as_str()), (class, kinds), "{file}");
        let usage = Usage {
            input_tokens: input,
            output_tokens: output,
            cache_read_tokens: read,
            cache_write_tokens: 0,
        };
        assert_eq!(answer.usage, usage, "{file}");
        assert_eq!(answer.warnings.len(), warnings, "{file}: {:?}", answer.warnings);
        assert!(answer.blocks.iter().all(|block| !block.altered), "{file}");
    }
}
