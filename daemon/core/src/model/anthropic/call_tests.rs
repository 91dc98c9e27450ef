//! Calls: their arguments, ids and names, whatever came.

use super::tests::*;
use super::*;
use serde_json::{Value, json};

fn first_call(bytes: &str) -> (Block, BlockCallView) {
    let block = decode(bytes).unwrap().blocks.into_iter().find(|block| block.call.is_some()).unwrap();
    let call = block.call.clone().unwrap();
    let view = BlockCallView { args: call.args.get().to_owned(), complete: call.complete, fault: call.fault };
    (block, view)
}

struct BlockCallView {
    args: String,
    complete: bool,
    fault: Option<String>,
}

#[test]
fn no_arguments_are_an_empty_object() {
    let absent = json!({"type":"tool_use","id":"t","name":"write"});
    for events in [call(0, "t", &[]), call(0, "t", &[""]), call(0, "t", &["", ""]), block(0, &absent, &[])] {
        let (block, call) = first_call(&message(&[events], "tool_use"));
        assert!(call.complete && !block.altered);
        assert_eq!(call.args, "{}");
        let raw: Value = serde_json::from_str(block.raw.get()).unwrap();
        assert_eq!(raw["input"], json!({}));
    }
}

#[test]
fn arguments_in_the_shell_count() {
    let shell = json!({"type":"tool_use","id":"t","name":"write","input":{"path":"a"}});
    let (_, call) = first_call(&message(&[block(0, &shell, &[])], "tool_use"));
    assert!(call.complete);
    assert_eq!(call.args, r#"{"path":"a"}"#);
}

#[test]
fn broken_arguments_never_become_a_call() {
    let deep = format!("{{\"a\":{}{}}}", "[".repeat(200), "]".repeat(200));
    for args in [
        "{\"path\":\"a.txt\",\"content\":\"hel",
        "[1]",
        "\"x\"",
        "null",
        "{\"a\":1}}",
        "{\"a\":1,\"a\":2}",
        &deep,
    ] {
        let (block, call) = first_call(&message(&[call(0, "t", &[args])], "tool_use"));
        assert!(!call.complete && block.altered, "{args}");
        assert!(call.fault.unwrap().contains("arguments"), "{args}");
        assert_eq!(call.args, "{}");
        let raw: Value = serde_json::from_str(block.raw.get()).unwrap();
        assert_eq!(raw["input"], json!({}), "{args}");
    }
}

#[test]
fn a_call_cut_by_the_output_limit_is_incomplete() {
    let mut open = call(1, "t", &["{\"a\":1}"]);
    open.pop();
    let (_, whole_but_open) = first_call(&message(&[text(0, "x"), open], "max_tokens"));
    assert!(!whole_but_open.complete);
    assert!(whole_but_open.fault.unwrap().contains("cut off"));
    let (_, nothing_came) = first_call(&message(&[call(0, "t", &[""])], "max_tokens"));
    assert!(!nothing_came.complete, "closed by a server at its limit, before any argument");
    let (_, earlier) = first_call(&message(&[call(0, "t", &[""]), call(1, "u", &["{"])], "max_tokens"));
    assert!(earlier.complete, "only the last block can have been cut");
}

#[test]
fn ids_become_legal_and_unique_and_the_same_every_time() {
    let bytes = message(
        &[
            call(0, "call_1", &["{}"]),
            call(1, "call_1", &["{}"]),
            call(2, "", &["{}"]),
            call(3, "functions.x:0", &["{}"]),
            call(4, "old", &["{}"]),
        ],
        "tool_use",
    );
    let ids = || -> Vec<(String, bool)> {
        let (decoded, _) = decode_with(&bytes, &|id| id == "old" || id == "toolu_m_seed_2").unwrap();
        decoded
            .blocks
            .iter()
            .map(|block| {
                let id = block.call.as_ref().unwrap().provider_call_id.clone();
                let raw: Value = serde_json::from_str(block.raw.get()).unwrap();
                assert_eq!(raw["id"], id);
                (id, block.altered)
            })
            .collect()
    };
    let expected = [
        ("call_1", false),
        ("toolu_m_seed_1", true),
        ("toolu_m_seed_2_1", true),
        ("toolu_m_seed_3", true),
        ("toolu_m_seed_4", true),
    ];
    assert_eq!(ids(), expected.map(|(id, altered)| (id.to_owned(), altered)));
    assert_eq!(ids(), ids());
}

#[test]
fn a_made_up_name_cannot_brick_the_message() {
    let shell = json!({"type":"tool_use","id":"t","name":"functions.write file","input":{}});
    let (block, _) = first_call(&message(&[block(0, &shell, &[])], "tool_use"));
    assert_eq!(block.call.unwrap().name, "functions.write file", "the model is told about the name it used");
    let raw: Value = serde_json::from_str(block.raw.get()).unwrap();
    assert_eq!(raw["name"], "functions_write_file");
}

#[test]
fn empty_text_is_left_out_spaces_are_kept_and_calls_go_last() {
    let bytes = message(&[text(0, ""), call(1, "t", &["{}"]), text(2, " \n"), text(3, "after")], "tool_use");
    let blocks = decode(&bytes).unwrap().blocks;
    let texts: Vec<Option<&str>> = blocks.iter().map(|block| block.text.as_deref()).collect();
    assert_eq!(texts, [Some(" \n"), Some("after"), None]);
    assert_eq!(blocks[2].kind, BlockKind::ToolUse);
}

/// A shell of a few bytes costs a request of work later: a server cannot ask for half a million.
#[test]
fn blocks_calls_and_ids_are_bounded() {
    let calls = |count: usize| {
        (0..count).flat_map(|at| call(at as u64, &format!("t{at}"), &["{}"])).collect::<Vec<_>>()
    };
    let decoded = decode(&message(&[calls(crate::limits::ANSWER_CALLS_MAX)], "tool_use")).unwrap();
    assert_eq!(decoded.blocks.len(), crate::limits::ANSWER_CALLS_MAX);
    let failure = decode(&message(&[calls(crate::limits::ANSWER_CALLS_MAX + 1)], "tool_use")).unwrap_err();
    assert_eq!(failure.class, FailureClass::Malformed);
    let texts =
        (0..=crate::limits::ANSWER_PIECES_MAX).flat_map(|at| text(at as u64, "x")).collect::<Vec<_>>();
    assert_eq!(decode(&message(&[texts], "end_turn")).unwrap_err().class, FailureClass::Malformed);
    let long = call(0, &"i".repeat(crate::limits::CALL_ID_MAX_BYTES + 1), &["{}"]);
    let decoded = decode(&message(&[long], "tool_use")).unwrap();
    assert_eq!(decoded.blocks[0].call.as_ref().unwrap().provider_call_id, "toolu_m_seed_0");
}
