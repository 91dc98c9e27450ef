//! Pieces become the calls that the model meant, and calls that can go back.

use super::decode::tests::{answer, args, call, calls, decode, decode_with, delta, raws, stream};
use crate::event::StopClass;
use crate::model::warnings::ARGS_BROKEN;
use serde_json::{Value, json};

/// Chunks, and the calls that they are.
type Row = (&'static str, Vec<Value>, Vec<&'static str>);

/// The finish reason decides nothing: servers say `stop` where there are calls.
fn assert_calls(rows: Vec<Row>) {
    for (what, chunks, expected) in rows {
        for reason in ["stop", "tool_calls", "function_call"] {
            assert_eq!(calls(&decode(&stream(&chunks, reason)).unwrap()), expected, "{what}");
        }
    }
}

fn bare(name: &str, args: &str) -> Value {
    call(&json!({"function":{"name":name,"arguments":args}}))
}

fn more(index: u64, args: &str) -> Value {
    call(&json!({"index":index,"function":{"arguments":args}}))
}

fn both(one: &Value, other: &Value) -> Value {
    delta(&json!({"tool_calls":[one, other]}))
}

fn entry(id: &str, args: &str) -> Value {
    json!({"id":id,"function":{"name":"f","arguments":args}})
}

#[test]
fn calls_with_numbers() {
    assert_calls(vec![
        (
            "by index",
            vec![args(0, "a", "f", ""), args(1, "b", "g", ""), more(0, "{}"), more(1, "{}")],
            vec!["a f {}", "b g {}"],
        ),
        ("all numbered 0", vec![args(0, "a", "f", "{}"), args(0, "b", "f", "{}")], vec!["a f {}", "b f {}"]),
        (
            "all numbered 0, in turns",
            vec![args(0, "a", "f", "{\"x\":"), args(0, "b", "f", "{}"), args(0, "a", "", "1}")],
            vec!["a f {\"x\":1}", "b f {}"],
        ),
        (
            "all numbered 0, no ids",
            vec![args(0, "", "f", "{}"), args(0, "", "g", "{}")],
            vec!["call_m_seed_0 f {}", "call_m_seed_1 g {}"],
        ),
        (
            "all numbered 0, no ids, the same call",
            vec![args(0, "", "f", "{}"), args(0, "", "f", "{}")],
            vec!["call_m_seed_0 f {}", "call_m_seed_1 f {}"],
        ),
        ("first index 1", vec![args(1, "a", "f", ""), more(1, "{}")], vec!["a f {}"]),
        ("gaps", vec![args(7, "a", "f", "{}"), args(3, "b", "f", "{}")], vec!["a f {}", "b f {}"]),
    ]);
}

#[test]
fn calls_without_numbers() {
    assert_calls(vec![
        (
            "no index, by id",
            vec![
                call(&entry("a", "{")),
                call(&entry("b", "{}")),
                call(&json!({"id":"a","function":{"arguments":"}"}})),
            ],
            vec!["a f {}", "b f {}"],
        ),
        (
            "no index, the last",
            vec![call(&entry("a", "{")), call(&json!({"function":{"arguments":"}"}}))],
            vec!["a f {}"],
        ),
        (
            "no index, no id",
            vec![bare("f", "{\"x\""), bare("f", ":1}"), bare("f", "{}")],
            vec!["call_m_seed_0 f {\"x\":1}", "call_m_seed_1 f {}"],
        ),
        (
            "no index, two in one list",
            vec![both(&entry("a", "{}"), &entry("b", "{}"))],
            vec!["a f {}", "b f {}"],
        ),
        (
            "no index, one id twice in one list",
            vec![both(&entry("a", "{}"), &entry("a", "{}"))],
            vec!["a f {}", "call_m_seed_1 f {}"],
        ),
    ]);
}

#[test]
fn ids_that_come_again() {
    assert_calls(vec![
        (
            "one id under two numbers, and only one name",
            vec![args(0, "a", "f", "{\"x\":"), args(1, "a", "", "1}")],
            vec!["a f {\"x\":1}"],
        ),
        (
            "one id under two numbers",
            vec![args(0, "a", "f", "{}"), args(1, "a", "f", "{}")],
            vec!["a f {}", "call_m_seed_1 f {}"],
        ),
        (
            "a stand-in, then the whole call",
            vec![args(0, "a", "f", "{}"), args(0, "a", "f", "{\"x\":1}")],
            vec!["a f {\"x\":1}"],
        ),
        (
            "one id and one number, two whole calls",
            vec![args(0, "a", "f", "{\"x\":0}"), args(0, "a", "f", "{\"x\":1}")],
            vec!["a f {\"x\":0}", "call_m_seed_1 f {\"x\":1}"],
        ),
        (
            "the whole call again",
            vec![args(0, "a", "f", "{\"x\":0}"), args(0, "a", "f", "{\"x\":0}")],
            vec!["a f {\"x\":0}"],
        ),
    ]);
}

#[test]
fn pieces_that_say_little() {
    assert_calls(vec![
        ("id and name empty later", vec![args(0, "a", "f", "{"), args(0, "", "", "}")], vec!["a f {}"]),
        (
            "id and name null later",
            vec![
                args(0, "a", "f", "{"),
                call(&json!({"index":0,"id":null,"function":{"name":null,"arguments":"}"}})),
            ],
            vec!["a f {}"],
        ),
        (
            "id and name always",
            vec![args(0, "a", "f", "{"), args(0, "a", "f", "}"), args(0, "a", "f", "")],
            vec!["a f {}"],
        ),
        (
            "a new id with each piece",
            vec![args(0, "a", "f", ""), args(0, "b", "", "{"), args(0, "c", "", "}")],
            vec!["a f {}"],
        ),
        ("name late", vec![args(0, "a", "", ""), args(0, "", "f", "{}")], vec!["a f {}"]),
        ("id late", vec![args(0, "", "f", "{"), args(0, "a", "", "}")], vec!["a f {}"]),
        (
            "id late, no index",
            vec![bare("f", "{"), call(&json!({"id":"a","function":{"arguments":"}"}}))],
            vec!["a f {}"],
        ),
        (
            "a stand-in before the arguments",
            vec![args(0, "a", "f", "{}"), more(0, "{\"x\""), more(0, ":1}")],
            vec!["a f {\"x\":1}"],
        ),
    ]);
}

#[test]
fn calls_in_other_forms() {
    assert_calls(vec![
        (
            "arguments as an object",
            vec![call(&json!({"index":0,"id":"a","function":{"name":"f","arguments":{"x":[1]}}}))],
            vec!["a f {\"x\":[1]}"],
        ),
        ("not a list", vec![delta(&json!({"tool_calls":entry("a", "{}")}))], vec!["a f {}"]),
        ("no function", vec![call(&json!({"id":"a","name":"f","arguments":"{}"}))], vec!["a f {}"]),
        (
            "the older form",
            vec![
                delta(&json!({"function_call":{"name":"f","arguments":"{\"x\":"}})),
                delta(&json!({"function_call":{"arguments":"1}"}})),
            ],
            vec!["call_m_seed_0 f {\"x\":1}"],
        ),
        (
            "both forms",
            vec![delta(
                &json!({"function_call":{"name":"f","arguments":"{}"},"tool_calls":[entry("a", "{}")]}),
            )],
            vec!["a f {}"],
        ),
        (
            "nothing",
            vec![delta(&json!({"tool_calls":[{"index":0}, null]})), delta(&json!({"tool_calls":null}))],
            vec![],
        ),
    ]);
}

#[test]
fn no_arguments_are_an_empty_object() {
    let rows = [json!(""), json!(" \n"), json!(null), json!({})];
    let mut entries: Vec<Value> = rows
        .iter()
        .map(|args| json!({"index":0,"id":"a","function":{"name":"f","arguments":args}}))
        .collect();
    entries.push(json!({"index":0,"id":"a","function":{"name":"f"}}));
    for entry in entries {
        let decoded = answer(&[call(&entry)]);
        assert_eq!(calls(&decoded), ["a f {}"], "{entry}");
        assert_eq!(
            raws(&decoded),
            [r#"{"id":"a","type":"function","function":{"name":"f","arguments":"{}"}}"#],
            "{entry}"
        );
        assert!(!decoded.blocks[0].altered && decoded.warnings.is_empty());
    }
}

#[test]
fn broken_arguments_never_become_a_call() {
    let deep = format!("{{\"a\":{}{}}}", "[".repeat(200), "]".repeat(200));
    let texts = ["{\"a\":\"hel", "[1]", "\"x\"", "null", "{\"a\":1}}", "{\"a\":1,\"a\":2}", "{a:1}", &deep];
    for text in texts {
        let decoded = answer(&[args(0, "a", "f", text)]);
        let block = &decoded.blocks[0];
        let made = block.call.as_ref().unwrap();
        assert!(!made.complete && block.altered, "{text}");
        assert!(made.fault.as_ref().unwrap().contains("arguments"), "{text}");
        assert_eq!(made.args.get(), "{}", "{text}");
        assert!(block.raw.get().ends_with(r#""arguments":"{}"}}"#), "{text}");
        assert_eq!(decoded.warnings, [ARGS_BROKEN]);
    }
    let list = call(&json!({"index":0,"id":"a","function":{"name":"f","arguments":[1]}}));
    assert_eq!(calls(&answer(&[list])), ["a f {} !"]);
}

#[test]
fn a_call_cut_by_the_output_limit_is_incomplete() {
    let fault = |chunks: &[Value]| {
        let decoded = decode(&stream(chunks, "length")).unwrap();
        assert_eq!(decoded.stop.class, StopClass::MaxTokens);
        decoded.blocks.last().unwrap().call.as_ref().unwrap().fault.clone()
    };
    assert!(fault(&[args(0, "a", "f", "{\"x\":\"he")]).unwrap().contains("cut off"));
    assert!(fault(&[args(0, "a", "f", "")]).unwrap().contains("cut off"));
    assert_eq!(fault(&[args(0, "a", "f", "{}")]), None);
}

#[test]
fn fields_that_are_not_of_the_dialect_go_back_on_their_call() {
    let decoded = answer(&[
        call(
            &json!({"index":0,"id":"a","type":"function","extra_content":{"google":{"thought_signature":"S"}},
            "function":{"name":"f","arguments":"{","strict":true}}),
        ),
        call(&json!({"index":0,"thought_signature":"T","extra_content":null,"function":{"arguments":"}"}})),
    ]);
    assert_eq!(
        raws(&decoded),
        [
            r#"{"id":"a","type":"function","function":{"name":"f","arguments":"{}","strict":true},"extra_content":{"google":{"thought_signature":"S"}},"thought_signature":"T"}"#
        ]
    );
    assert!(!decoded.blocks[0].altered);
}

#[test]
fn ids_are_kept_unless_they_break_something() {
    let long = "x".repeat(600);
    let rows = [
        ("functions.add:0", Some("functions.add:0")),
        ("a b", Some("a b")),
        ("old", None),
        ("a\nb", None),
        (&long, None),
    ];
    for (given, kept) in rows {
        let bytes = stream(&[args(0, given, "f", "{}")], "tool_calls");
        let (decoded, _) = decode_with(&bytes, &|id| id == "old" || id == "call_m_seed_0").unwrap();
        let block = &decoded.blocks[0];
        let id = &block.call.as_ref().unwrap().provider_call_id;
        assert_eq!(id, kept.unwrap_or("call_m_seed_0_1"));
        assert_eq!(block.altered, kept.is_none());
        assert_eq!(decoded.warnings.len(), usize::from(kept.is_none()));
        let raw: Value = serde_json::from_str(block.raw.get()).unwrap();
        assert_eq!(raw["id"], id.as_str());
    }
}

#[test]
fn a_made_up_name_cannot_brick_the_message() {
    let long = "n".repeat(70);
    for (name, sent) in
        [("functions.write file", "functions_write_file"), (long.as_str(), &long[..64]), ("", "unnamed")]
    {
        let decoded = answer(&[args(0, "a", name, "{}")]);
        let block = &decoded.blocks[0];
        assert_eq!(block.call.as_ref().unwrap().name, name, "the model is told about the name it used");
        let raw: Value = serde_json::from_str(block.raw.get()).unwrap();
        assert_eq!(raw["function"]["name"], sent);
        assert!(block.altered);
    }
}

#[test]
fn a_detail_of_reasoning_follows_the_id_of_its_call() {
    let detail = |id: &str| json!({"type":"reasoning.encrypted","data":"D","id":id,"index":0});
    let chunks = [
        delta(&json!({"reasoning_details":[detail("old"), detail("new")]})),
        args(0, "old", "f", "{}"),
        args(1, "new", "f", "{}"),
        args(2, "new", "f", "{}"),
    ];
    let (decoded, _) = decode_with(&stream(&chunks, "tool_calls"), &|id| id == "old").unwrap();
    assert_eq!(calls(&decoded), ["call_m_seed_0 f {}", "new f {}", "call_m_seed_2 f {}"]);
    let raw: Value = serde_json::from_str(decoded.blocks[0].raw.get()).unwrap();
    let ids: Vec<&Value> =
        raw["reasoning_details"].as_array().unwrap().iter().map(|detail| &detail["id"]).collect();
    assert_eq!(ids, ["call_m_seed_0", "new"]);
    assert!(decoded.blocks[0].altered);
}

#[test]
fn a_field_that_nobody_could_read_is_not_kept() {
    let deep = format!("{}{}", "[".repeat(200), "]".repeat(200));
    for odd in [r#""\ud800""#, "1e999", &deep] {
        let bytes = format!(
            "data: {{\"choices\":[{{\"delta\":{{\"tool_calls\":[{{\"id\":\"a\",\"odd\":{odd},\"function\":{{\"name\":\"f\",\"odd\":{odd}}}}}],\
             \"content\":[{{\"type\":\"thinking\",\"odd\":{odd},\"thinking\":[{{\"odd\":{odd}}},{{\"text\":\"r\"}}]}}],\
             \"reasoning_details\":[{{\"index\":0,\"odd\":{odd}}},{{\"index\":1,\"text\":\"\\ud83d\"}},{{\"index\":1,\"text\":\"\\ude00\",\"odd\":{odd}}}]}},\
             \"finish_reason\":\"stop\"}}]}}\n\n"
        );
        let decoded = decode(&bytes).unwrap();
        let expected = [
            r#"{"type":"reasoning_details","reasoning_details":[{"index":1,"text":"😀"}]}"#,
            r#"{"type":"thinking","thinking":[{"type":"text","text":"r"}]}"#,
            r#"{"id":"a","type":"function","function":{"name":"f","arguments":"{}"}}"#,
        ];
        assert_eq!(raws(&decoded), expected, "{odd}");
    }
}
