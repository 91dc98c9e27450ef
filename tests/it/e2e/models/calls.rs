//! Calls reach their tools whatever their ids and arguments look like on the wire.

use super::super::{of_kind, world_in};
use agent_tests::home::model_name;
use agent_tests::scripted::{Answer, Dialect, Quirk};
use serde_json::{Value, json};

fn read(path: &str) -> Value {
    json!({ "path": path })
}

/// A7: ids that a provider repeats or leaves out are mended; every call runs once and gets its own result.
#[test]
fn repeated_and_empty_ids_survive() {
    for dialect in Dialect::ALL {
        let twice = Answer::new().tool_use("call_1", "read_file", read("a.txt")).tool_use(
            "call_1",
            "read_file",
            read("b.txt"),
        );
        let answers = [
            twice,
            Answer::saying("both"),
            Answer::calling("call_0", "read_file", read("a.txt")),
            Answer::saying("first"),
            Answer::calling("call_0", "read_file", read("b.txt")),
            Answer::saying("second"),
            Answer::calling("call_0", "read_file", read("a.txt")),
            Answer::saying("third"),
            Answer::calling("", "read_file", read("b.txt")),
            Answer::saying("fourth"),
        ];
        let (model, home) = world_in(dialect, answers);
        home.write("a.txt", "alpha\n");
        home.write("b.txt", "beta\n");
        let session = home.new_session(["--permission-mode", "ask"]);
        for prompt in ["both", "one", "two", "three", "none"] {
            home.send_and_wait(&session, prompt).ok();
        }
        let last = model.last_request();
        let results = last.tool_results();
        let texts: Vec<bool> = results.iter().map(|result| result.text.contains("alpha")).collect();
        assert_eq!(texts, [true, false, true, false, true, false], "{dialect}: {results:?}");
        let mut ids: Vec<&str> = results.iter().map(|result| result.tool_use_id.as_str()).collect();
        assert!(ids.iter().all(|id| !id.is_empty()), "{dialect}: {ids:?}");
        ids.sort_unstable();
        ids.dedup();
        assert_eq!(ids.len(), 6, "{dialect}: ids are unique");
        assert_eq!(of_kind(&home.events(&session), "call_started").len(), 6, "{dialect}");
        model.assert_no_violations();
    }
}

/// A7 (iii): calls without any id, several in one answer.
#[test]
fn calls_without_ids_run_in_their_order() {
    let answer = Answer::new()
        .tool_use("x", "read_file", read("a.txt"))
        .tool_use("y", "read_file", read("b.txt"))
        .quirk(Quirk::NoIds)
        .quirk(Quirk::NoIndex)
        .quirk(Quirk::WholeCalls);
    let (model, home) = world_in(Dialect::OpenAi, [answer, Answer::saying("done")]);
    home.write("a.txt", "alpha\n");
    home.write("b.txt", "beta\n");
    let session = home.new_session(["--permission-mode", "ask"]);
    home.send_and_wait(&session, "go").ok();
    let results = model.last_request().tool_results();
    assert_eq!(results.len(), 2, "{results:?}");
    assert!(results[0].text.contains("alpha") && results[1].text.contains("beta"), "{results:?}");
}

/// B2: no arguments are `{}`, which is also what is sent back.
#[test]
fn no_arguments_are_an_empty_object() {
    let chat = |function: Value| {
        let call =
            json!({"tool_calls": [{"index": 0, "id": "call_1", "type": "function", "function": function}]});
        Answer::new().delta(call).stop("tool_use")
    };
    let forms = [
        (Dialect::Anthropic, Answer::new().tool_use_text("toolu_1", "list_dir", "")),
        (
            Dialect::Anthropic,
            Answer::new()
                .block(json!({"type": "tool_use", "id": "toolu_1", "name": "list_dir", "input": {}}))
                .stop("tool_use"),
        ),
        (Dialect::OpenAi, chat(json!({"name": "list_dir", "arguments": ""}))),
        (Dialect::OpenAi, chat(json!({"name": "list_dir"}))),
        (Dialect::OpenAi, chat(json!({"name": "list_dir", "arguments": null}))),
        (Dialect::OpenAi, chat(json!({"name": "list_dir", "arguments": {}}))),
    ];
    for (dialect, answer) in forms {
        let shown = format!("{dialect}: {answer:?}");
        let (model, home) = world_in(dialect, [answer, Answer::saying("listed")]);
        home.write("seen.txt", "");
        let session = home.new_session(["--permission-mode", "ask"]);
        home.send_and_wait(&session, "list").ok();
        let last = model.last_request();
        assert!(last.tool_results()[0].text.contains("seen.txt"), "{shown}: {:?}", last.tool_results());
        assert_eq!(last.calls()[0].args, json!({}), "{shown}");
        let events = home.events(&session);
        assert_eq!(of_kind(&events, "call_requested")[0].field("args"), &json!({}), "{shown}");
    }
}

/// What compatible servers do differently, each in turn: both calls run, their results go back, and nothing that is
/// sent would be refused.
#[test]
fn every_deviation_of_compatible_servers_is_understood() {
    let (model, home) = world_in(Dialect::OpenAi, []);
    home.write("a.txt", "alpha\n");
    home.write("b.txt", "beta\n");
    for quirk in Quirk::ALL {
        model.rules(|rules| rules.reasoning_parts = quirk == Quirk::ReasoningParts);
        // Without ids, an index that repeats leaves nothing to tell calls by but their beginnings.
        let calls = Answer::new()
            .thought("Two files.")
            .text("Reading both.")
            .tool_use("call_a", "read_file", read("a.txt"))
            .tool_use("call_b", "read_file", read("b.txt"))
            .quirk(quirk);
        model.push(calls);
        model.push(Answer::saying("read both").quirk(quirk));
        let session = home.new_session(["--permission-mode", "ask"]);
        let done = home.send_and_wait(&session, "read");
        assert_eq!(done.code, Some(0), "{quirk:?}: {done}\n{:?}", model.violations());
        assert!(done.stdout.contains("read both"), "{quirk:?}: {done}");
        let last = model.last_request();
        let results = last.tool_results();
        assert_eq!(results.len(), 2, "{quirk:?}: {results:?}");
        assert!(
            results[0].text.contains("alpha") && results[1].text.contains("beta"),
            "{quirk:?}: {results:?}"
        );
        assert!(last.calls().iter().all(|call| call.args.is_object()), "{quirk:?}: {:?}", last.calls());
        model.assert_no_violations();
    }
}

/// One call at a time is asked for, and held to when the model sends more.
#[test]
fn one_call_at_a_time_is_sent_and_enforced() {
    for dialect in Dialect::ALL {
        let both = Answer::new()
            .tool_use("call_1", "run_command", json!({"command": "echo x >> first"}))
            .tool_use("call_2", "run_command", json!({"command": "echo x >> second"}));
        let (model, home) = world_in(dialect, [both, Answer::saying("done")]);
        home.write_config(&format!(
            "model = \"{0}\"\n\n[models.\"{0}\"]\ncontext_window = 100000\nparallel_tool_calls = false\n",
            model_name(dialect)
        ));
        let session = home.new_session(["--permission-mode", "full"]);
        home.send_and_wait(&session, "go").ok();
        assert_eq!((home.read("first").as_deref(), home.read("second")), (Some("x\n"), None), "{dialect}");
        let requests = model.requests();
        let said = &requests[0].json;
        let asked = match dialect {
            Dialect::Anthropic => &said["tool_choice"]["disable_parallel_tool_use"],
            Dialect::OpenAi => &said["parallel_tool_calls"],
        };
        assert_eq!(asked, &json!(dialect == Dialect::Anthropic), "{dialect}");
        let results = requests[1].tool_results();
        assert!(results[1].text.contains("more than 1 calls in one message"), "{dialect}: {results:?}");
    }
}
