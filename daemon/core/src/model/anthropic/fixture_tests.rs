//! Every recorded stream decodes, and the same at every chunking. The recordings lie beside the repository;
//! without them the tests say so and pass.

use super::AnswerReader;
use crate::event::{BlockKind, FailureClass, StopClass, Usage};
use crate::model::ids::IdRule;
use crate::model::live::{DecodeFailure, Decoded, LiveDelta, Progress};
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
        for chunk in bytes.chunks(size) {
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
            format!("{raws:?} {:?} {:?} {:?}", decoded.usage, decoded.stop.raw, decoded.provider_message_id)
        }
        Err(failure) => format!("{failure:?}"),
    }
}

fn decoded(name: &str) -> Option<Result<Decoded, DecodeFailure>> {
    let bytes = std::fs::read(folder("anthropic")?.join(name)).unwrap();
    Some(read(&bytes, bytes.len()).0)
}

fn streams() -> Vec<(String, Vec<u8>)> {
    let mut found = Vec::new();
    for (name, prefix) in [("anthropic", ""), ("local-servers", "anthropic_")] {
        let Some(folder) = folder(name) else { continue };
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let file = path.file_name().unwrap().to_string_lossy().into_owned();
            if file.ends_with(".sse") && file.starts_with(prefix) {
                found.push((file, std::fs::read(&path).unwrap()));
            }
        }
    }
    found
}

#[test]
fn every_recording_is_read_the_same_at_every_chunking() {
    for (file, bytes) in streams() {
        let (whole, live) = read(&bytes, bytes.len());
        assert_eq!(whole.is_ok(), !file.starts_with("error_event"), "{file}: {whole:?}");
        for size in [1, 2, 3, 5, 7, 16, 61, 256, 1_024, 4_096] {
            let (pieces, live_pieces) = read(&bytes, size);
            assert_eq!(summary(&pieces), summary(&whole), "{file} in pieces of {size}");
            assert_eq!(live_pieces, live, "{file} in pieces of {size}");
        }
        let crlf = String::from_utf8(bytes.clone()).unwrap().replace('\n', "\r\n");
        assert_eq!(summary(&read(crlf.as_bytes(), 1).0), summary(&whole), "{file} with CRLF");
    }
}

#[test]
fn every_answer_could_be_sent_back() {
    for (file, bytes) in streams() {
        if let Ok(decoded) = read(&bytes, bytes.len()).0 {
            println!("{file}");
            crate::model::validate::tests::assert_sendable(&decoded);
        }
    }
}

#[test]
fn no_cut_recording_is_an_answer() {
    for (file, bytes) in streams() {
        let text = String::from_utf8(bytes).unwrap();
        let Some(end) = text.find("\"message_stop\"") else { continue };
        let events: Vec<usize> = text[..end].match_indices("\n\n").map(|(at, _)| at + 2).collect();
        for cut in events {
            assert!(read(&text.as_bytes()[..cut], 4_096).0.is_err(), "{file} cut at {cut}");
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
            shown[place].truncate(usize::try_from(delta.offset).unwrap());
            shown[place].push_str(&delta.text);
        }
        shown.retain(|text| !text.trim().is_empty());
        let kept: Vec<String> = decoded
            .blocks
            .iter()
            .filter_map(|block| block.text.clone())
            .filter(|text| !text.trim().is_empty())
            .collect();
        assert_eq!(shown, kept, "{file}");
    }
}

#[test]
fn plain_text() {
    let Some(answer) = decoded("text_basic.sse") else { return };
    let answer = answer.unwrap();
    assert_eq!(answer.blocks[0].text.as_deref(), Some("Hello"));
    assert_eq!(answer.stop.class, StopClass::EndTurn);
    assert_eq!(answer.usage, Usage { input_tokens: 10, output_tokens: 4, ..Usage::default() });
}

#[test]
fn parallel_calls() {
    let Some(answer) = decoded("tool_call_parallel.sse") else { return };
    let answer = answer.unwrap();
    let calls: Vec<_> = answer.blocks.iter().filter_map(|block| block.call.as_ref()).collect();
    assert_eq!(calls.len(), 2);
    assert!(calls.iter().all(|call| call.complete));
    assert_ne!(calls[0].provider_call_id, calls[1].provider_call_id);
    assert_eq!(answer.stop.class, StopClass::ToolUse);
}

#[test]
fn calls_without_arguments() {
    for name in ["tool_call_no_args.sse", "tool_call_no_args_capture.sse"] {
        let Some(answer) = decoded(name) else { return };
        let answer = answer.unwrap();
        let call = answer.blocks.iter().find_map(|block| block.call.as_ref()).unwrap();
        assert!(call.complete, "{name}");
        assert_eq!(call.args.get(), "{}", "{name}");
    }
}

#[test]
fn calls_that_must_not_run() {
    for (name, stop) in [
        ("max_tokens_inside_tool_args.sse", StopClass::MaxTokens),
        ("tool_args_invalid_json.sse", StopClass::ToolUse),
    ] {
        let Some(answer) = decoded(name) else { return };
        let answer = answer.unwrap();
        let block = answer.blocks.iter().find(|block| block.call.is_some()).unwrap();
        let call = block.call.as_ref().unwrap();
        assert!(!call.complete && block.altered && call.fault.is_some(), "{name}");
        assert_eq!(answer.stop.class, stop, "{name}");
    }
}

#[test]
fn thinking_before_a_call() {
    let Some(answer) = decoded("thinking_then_tool_haiku.sse") else { return };
    let answer = answer.unwrap();
    assert_eq!(answer.blocks[0].kind, BlockKind::Thinking);
    assert!(answer.blocks[0].raw.get().contains("\"signature\":\""));
    assert_eq!(answer.blocks.last().unwrap().kind, BlockKind::ToolUse);
    assert!(answer.blocks.iter().all(|block| !block.altered));
}

#[test]
fn refusals_say_why() {
    let Some(answer) = decoded("refusal_stop_details.sse") else { return };
    let answer = answer.unwrap();
    assert!(answer.blocks.is_empty());
    assert_eq!(answer.stop.class, StopClass::Refusal);
    assert_eq!(answer.stop.explanation.as_deref(), Some("This request was refused due to policy."));
}

#[test]
fn gateways_that_start_twice() {
    let Some(answer) = decoded("spliced_message_start.sse") else { return };
    let answer = answer.unwrap();
    assert_eq!(answer.blocks.len(), 2);
    assert_eq!(answer.blocks[1].call.as_ref().unwrap().provider_call_id, "toolu_second");
    let answer = decoded("duplicate_message_start.sse").unwrap().unwrap();
    assert_eq!(answer.blocks[0].text.as_deref(), Some("Hello, World!"));
}

#[test]
fn usage_of_the_last_word() {
    let Some(answer) = decoded("message_delta_all_fields.sse") else { return };
    let answer = answer.unwrap();
    let expected = Usage { input_tokens: 40, output_tokens: 8, cache_read_tokens: 7, cache_write_tokens: 12 };
    assert_eq!(answer.usage, expected);
    assert!(answer.usage_raw.unwrap().get().contains("thinking_tokens"));
    let unknown = decoded("unknown_events.sse").unwrap().unwrap();
    assert_eq!((unknown.usage.input_tokens, unknown.usage.output_tokens), (11, 6));
}

#[test]
fn blocks_of_other_kinds_are_kept() {
    let Some(answer) = decoded("compaction_delta.sse") else { return };
    let raw = answer.unwrap().blocks[0].raw.get().to_owned();
    assert_eq!(
        raw,
        r#"{"type":"compaction","content":"Earlier conversation summarized.","encrypted_content":"EpwBCioIDxgCEAEYASJALd_opaque_compaction_payload"}"#
    );
    let web = decoded("web_search_server_tool.sse").unwrap().unwrap();
    assert!(
        web.blocks.iter().any(|block| block.kind == BlockKind::Other && block.raw.get().contains("San Fran"))
    );
    assert!(web.blocks.iter().any(|block| block.raw.get().contains("\"citations\":[{")));
    assert!(web.blocks.iter().all(|block| !block.altered));
    let paused = decoded("pause_turn_web_search_1.sse").unwrap().unwrap();
    assert_eq!(paused.stop.class, StopClass::PauseTurn);
}

#[test]
fn errors_inside_a_good_status() {
    let Some(answer) = decoded("error_event_midstream.sse") else { return };
    let failure = answer.unwrap_err();
    assert_eq!((failure.class, failure.partial_text.as_deref()), (FailureClass::Overloaded, Some("Hello")));
    assert!(decoded("error_event_first.sse").unwrap().unwrap_err().class.is_retryable());
}

#[test]
fn the_last_own_pass_tells_the_size_of_the_conversation() {
    let Some(answer) = decoded("compaction_real.sse") else { return };
    let answer = answer.unwrap();
    assert_eq!(answer.last_prompt_tokens, Some(181), "the pass of the compaction read 55,196");
    assert_eq!(answer.usage.prompt_tokens(), 181);
    for name in ["fallback_block.sse", "web_search_server_tool.sse", "server_fallback_two_models.sse"] {
        let answer = decoded(name).unwrap().unwrap();
        assert_eq!(answer.last_prompt_tokens, None, "{name}: one pass, or nothing said of several");
        assert!(answer.usage_reported && answer.warnings.is_empty(), "{name}: {:?}", answer.warnings);
    }
}
