use super::*;
use agentd_core::command::CheckedCall;
use agentd_core::event::{BlockCall, CallOutcome, EffectClass};
use serde_json::value::RawValue;

fn call(name: &str, args: &str) -> BlockCall {
    BlockCall {
        provider_call_id: "toolu_1".to_owned(),
        name: name.to_owned(),
        args: Arc::from(RawValue::from_string(args.to_owned()).unwrap()),
        complete: true,
        fault: None,
    }
}

fn fault(call: &BlockCall) -> CallFault {
    match Registry::built_in().unwrap().check(call) {
        CheckedCall::Invalid(fault) => fault,
        CheckedCall::Valid(effect) => panic!("{} is valid: {effect:?}", call.name),
    }
}

#[test]
fn specs_are_stable_sorted_and_tight() {
    let first = specs_json(&[]).unwrap();
    assert_eq!(first.get(), specs_json(&[]).unwrap().get());
    let specs: Vec<Value> = serde_json::from_str(first.get()).unwrap();
    let names: Vec<&str> = specs.iter().map(|spec| spec["name"].as_str().unwrap()).collect();
    assert!(names.is_sorted());
    assert_eq!(names, Registry::built_in().unwrap().names());
    // A configuration may name just these.
    assert_eq!(names, agentd_core::policy::BUILT_IN_TOOLS);
    for spec in &specs {
        let (name, schema) = (spec["name"].as_str().unwrap(), &spec["input_schema"]);
        assert_eq!(schema["additionalProperties"], false, "{name}");
        let properties = schema["properties"].as_object().unwrap();
        assert!(properties.len() <= if name == "edit_file" { 4 } else { 3 }, "{name}");
        for (property, schema) in properties {
            if schema["type"] == "integer" {
                assert!(schema["minimum"].is_i64() && schema["maximum"].is_i64(), "{name}.{property}");
            }
            assert!(schema["description"].is_string() && schema["type"].is_string(), "{name}.{property}");
        }
    }
}

#[test]
fn effects_are_those_of_the_tools() {
    let registry = Registry::built_in().unwrap();
    let effects: Vec<_> =
        registry.names().iter().map(|name| (*name, registry.find(name).unwrap().effect)).collect();
    let expected = [
        ("apply_patch", EffectClass::Idempotent),
        ("edit_file", EffectClass::Idempotent),
        ("find_files", EffectClass::ReadOnly),
        ("list_dir", EffectClass::ReadOnly),
        ("read_artifact", EffectClass::ReadOnly),
        ("read_file", EffectClass::ReadOnly),
        ("run_command", EffectClass::Unsafe),
        ("search", EffectClass::ReadOnly),
        ("search_artifact", EffectClass::ReadOnly),
        ("write_file", EffectClass::Idempotent),
    ];
    assert_eq!(effects, expected);
}

#[test]
fn faults_have_the_forms_of_the_contract() {
    let rows = [
        (
            "Read",
            "{}",
            "Unknown tool Read. Tools: [apply_patch, edit_file, find_files, list_dir, read_artifact, read_file, run_command, search, search_artifact, write_file]",
        ),
        (
            "read_file",
            "{}",
            "Invalid arguments for read_file: at / expected the argument \"path\", which is missing",
        ),
        (
            "read_file",
            r#"{"path":1}"#,
            "Invalid arguments for read_file: at /path expected string, not a number",
        ),
        (
            "read_file",
            r#"{"path":"a","limit":1.5}"#,
            "Invalid arguments for read_file: at /limit expected integer, not 1.5",
        ),
        (
            "read_file",
            r#"{"path":"a","limit":"5"}"#,
            "Invalid arguments for read_file: at /limit expected integer, not a string",
        ),
        (
            "read_file",
            r#"{"path":"a","limit":null}"#,
            "Invalid arguments for read_file: at /limit expected integer, not null",
        ),
        (
            "read_file",
            r#"{"path":"a","limit":0}"#,
            "Invalid arguments for read_file: at /limit expected at least 1, not 0",
        ),
        (
            "read_file",
            r#"{"path":"a","limit":2001}"#,
            "Invalid arguments for read_file: at /limit expected at most 2000, not 2001",
        ),
        (
            "read_file",
            r#"{"path":"a","lines":3}"#,
            "Invalid arguments for read_file: at / expected only \"limit\", \"offset\", \"path\", not \"lines\"",
        ),
        ("read_file", "[]", "Invalid arguments for read_file: at / expected object, not an array"),
        (
            "edit_file",
            r#"{"path":"a","old":"x","new":"y","all":"true"}"#,
            "Invalid arguments for edit_file: at /all expected boolean, not a string",
        ),
        (
            "run_command",
            r#"{"command":""}"#,
            "Invalid arguments for run_command: at /command expected at least 1 characters",
        ),
    ];
    for (name, args, expected) in rows {
        let fault = fault(&call(name, args));
        assert_eq!(fault.text, expected);
        assert_eq!(fault.outcome, CallOutcome::Invalid);
        assert_eq!(fault.class, if name == "Read" { "unknown_tool" } else { "arguments" });
    }
    let cut = BlockCall {
        complete: false,
        fault: Some("cut by the output limit".to_owned()),
        ..call("read_file", "{}")
    };
    assert_eq!(fault(&cut).text, "Not executed: read_file was not whole: cut by the output limit");
}

#[test]
fn good_calls_pass_and_are_read_as_they_were_checked() {
    let registry = Registry::built_in().unwrap();
    assert_eq!(registry.check(&call("list_dir", "{}")), CheckedCall::Valid(EffectClass::ReadOnly));
    let odd = call("read_file", r#"{"path":"x","path":"a","limit":5.0,"offset":1e2}"#);
    assert_eq!(registry.check(&odd), CheckedCall::Valid(EffectClass::ReadOnly));
    let bench = Bench::new();
    let ctx = CallContext { args: odd.args, ..bench.call("read_file", &json!({})) };
    let args: args::ReadFile = args::parse(&ctx).unwrap();
    assert_eq!((args.path.as_str(), args.limit, args.offset), ("a", Some(5), Some(100)));
}
