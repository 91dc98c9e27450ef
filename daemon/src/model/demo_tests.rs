//! The tour, played against a workspace on disk with a real `sh`.

use super::*;
use agentd_core::event::StopClass;
use agentd_core::model::ids::IdRule;
use agentd_core::model::live::Decoded;
use std::path::Path;
use std::process::Command;

fn tools() -> Value {
    TOOLS.map(|name| json!({"name": name, "input_schema": {"type": "object"}})).into()
}

fn read(bytes: &[u8]) -> Decoded {
    let mut reader = AnswerReader::new(agentd_core::event::Dialect::Anthropic);
    for chunk in bytes.chunks(PIECE_BYTES) {
        reader.push(chunk, &mut |_| {}).unwrap();
    }
    reader.finish(&IdRule { seed: "m", used: &|_| false }, &mut |_| {}).unwrap()
}

fn body(messages: &[Value]) -> Vec<u8> {
    json!({"model": "tour", "tools": tools(), "messages": messages}).to_string().into_bytes()
}

fn lay_out(folder: &Path) {
    for (path, content, _) in tour_workspace() {
        std::fs::write(folder.join(path), content).unwrap();
    }
    // The slow run waits with `sleep`; here nobody has to.
    std::fs::create_dir(folder.join("bin")).unwrap();
    std::fs::write(folder.join("bin/sleep"), "#!/bin/sh\n").unwrap();
    std::fs::set_permissions(folder.join("bin/sleep"), std::os::unix::fs::PermissionsExt::from_mode(0o755))
        .unwrap();
}

/// A tool, about as the daemon has it.
fn run(folder: &Path, tool: &str, input: &Value) -> (String, bool) {
    let path = || folder.join(input["path"].as_str().unwrap());
    match tool {
        "list_dir" => ("README.md\ngreet.sh\ntest.sh".to_owned(), false),
        "read_file" => (std::fs::read_to_string(path()).unwrap(), false),
        "run_command" => {
            let search = format!("{}:{}", folder.join("bin").display(), std::env::var("PATH").unwrap());
            let mut sh = Command::new("sh");
            sh.arg("-c").arg(input["command"].as_str().unwrap()).current_dir(folder).env("PATH", search);
            let output = sh.output().unwrap();
            let text = String::from_utf8(output.stdout).unwrap();
            (format!("Exit code {}\n{text}", output.status.code().unwrap()), !output.status.success())
        }
        "edit_file" => {
            let (old, new) = (input["old"].as_str().unwrap(), input["new"].as_str().unwrap());
            let text = std::fs::read_to_string(path()).unwrap();
            assert_eq!(text.matches(old).count(), 1, "the edit matches exactly once");
            std::fs::write(path(), text.replace(old, new)).unwrap();
            ("edited greet.sh".to_owned(), false)
        }
        other => panic!("the tour called {other}"),
    }
}

/// Plays a prompt to its end; answers the calls made and the last text.
fn play(prompt: &str, tool: impl Fn(&str, &Value) -> (String, bool)) -> (Vec<String>, String) {
    let mut messages = vec![json!({"role": "user", "content": [{"type": "text", "text": prompt}]})];
    let mut calls = Vec::new();
    for _ in 0..10 {
        let answer = read(&answer(&body(&messages)).unwrap());
        let blocks: Vec<Value> =
            answer.blocks.iter().map(|block| serde_json::from_str(block.raw.get()).unwrap()).collect();
        messages.push(json!({"role": "assistant", "content": blocks}));
        let mut results = Vec::new();
        for call in answer.blocks.iter().filter_map(|block| block.call.as_ref()) {
            assert!(call.complete);
            let input: Value = serde_json::from_str(call.args.get()).unwrap();
            calls.push(format!(
                "{} {}",
                call.name,
                input["command"].as_str().or(input["path"].as_str()).unwrap()
            ));
            let (text, is_error) = tool(&call.name, &input);
            results.push(json!({"type": "tool_result", "tool_use_id": call.provider_call_id, "content": text, "is_error": is_error}));
        }
        if results.is_empty() {
            assert_eq!(answer.stop.class, StopClass::EndTurn);
            return (calls, answer.blocks[0].text.clone().unwrap());
        }
        assert_eq!(answer.stop.class, StopClass::ToolUse);
        messages.push(json!({"role": "user", "content": results}));
    }
    panic!("the tour has no end");
}

#[test]
fn the_tour_finds_and_fixes_the_mistake() {
    let folder = tempfile::tempdir().unwrap();
    lay_out(folder.path());
    let (calls, last) = play(TOUR_PROMPT, |tool, input| run(folder.path(), tool, input));
    let expected = [
        "list_dir .",
        "read_file greet.sh",
        "run_command sh test.sh",
        "edit_file greet.sh",
        "run_command sh test.sh --slow",
    ];
    assert_eq!(calls, expected);
    assert!(last.starts_with("Done.") && last.contains("5 of 5 checks passed"), "{last}");
}

#[test]
fn a_second_tour_finds_nothing_to_fix() {
    let folder = tempfile::tempdir().unwrap();
    lay_out(folder.path());
    play(TOUR_PROMPT, |tool, input| run(folder.path(), tool, input));
    let (calls, last) = play(TOUR_PROMPT, |tool, input| run(folder.path(), tool, input));
    assert_eq!(calls.len(), 3);
    assert!(last.contains("nothing to fix"), "{last}");
}

#[test]
fn the_tour_says_what_really_happened() {
    let folder = tempfile::tempdir().unwrap();
    lay_out(folder.path());
    let with = |tool_that_fails: &'static str, words: &'static str| {
        play(TOUR_PROMPT, |tool, input| {
            if tool == tool_that_fails { (words.to_owned(), true) } else { run(folder.path(), tool, input) }
        })
    };
    let (calls, last) = with("edit_file", "Not executed: denied by the user");
    assert_eq!(calls.len(), 4);
    assert!(last.contains("still fail") && last.contains("denied by the user"), "{last}");
    let (calls, last) = with("run_command", "Not executed: read-only");
    assert_eq!(calls.len(), 3);
    assert!(last.contains("change nothing") && last.contains("read-only"), "{last}");
    let (calls, last) = with("read_file", "File not found: greet.sh");
    assert_eq!(calls.len(), 2);
    assert!(last.contains("File not found"), "{last}");
    let (_, last) = play(TOUR_PROMPT, |tool, input| {
        if input["command"] == SLOW_TEST {
            ("Interrupted; output so far:\nok 1".into(), true)
        } else {
            run(folder.path(), tool, input)
        }
    });
    assert!(last.contains("cannot say") && last.contains("Interrupted"), "{last}");
}

#[test]
fn other_prompts_are_answered_honestly() {
    let (calls, text) = play("What is the capital of France?", |_, _| panic!("no tool is needed"));
    assert!(calls.is_empty() && text.contains("no language model"), "{text}");
    let request = json!({"model": "tour", "messages": [{"role": "user", "content": TOUR_PROMPT}]});
    let text = read(&answer(request.to_string().as_bytes()).unwrap()).blocks[0].text.clone().unwrap();
    assert!(text.contains("not offered list_dir"), "{text}");
    assert_eq!(answer(b"{").unwrap_err().class, FailureClass::BadRequest);
}

#[test]
fn the_same_request_gets_the_same_bytes_and_fresh_ids() {
    let first = body(&[json!({"role": "user", "content": TOUR_PROMPT})]);
    assert_eq!(answer(&first).unwrap(), answer(&first).unwrap());
    let call = json!({"type": "tool_use", "id": "toolu_demo_1", "name": "list_dir", "input": {}});
    let result = json!({"type": "tool_result", "tool_use_id": "toolu_demo_1", "content": "x"});
    let later = read(
        &answer(&body(&[
            json!({"role": "user", "content": "hello"}),
            json!({"role": "assistant", "content": [call]}),
            json!({"role": "user", "content": [result]}),
            json!({"role": "user", "content": TOUR_PROMPT}),
        ]))
        .unwrap(),
    );
    let ids: Vec<&str> = later
        .blocks
        .iter()
        .filter_map(|block| block.call.as_ref())
        .map(|call| call.provider_call_id.as_str())
        .collect();
    assert_eq!(ids, ["toolu_demo_2", "toolu_demo_3"]);
}

#[test]
fn the_failing_run_shows_numbered_lines() {
    let folder = tempfile::tempdir().unwrap();
    lay_out(folder.path());
    let (text, is_error) = run(folder.path(), "run_command", &json!({"command": SLOW_TEST}));
    assert!(is_error && text.starts_with("Exit code 1\n"));
    assert_eq!(text.lines().filter(|line| line.starts_with("not ok ")).count(), 5, "{text}");
    assert!(text.contains("0 of 5 checks passed"), "{text}");
}

#[tokio::test]
async fn it_streams_through_the_real_reader() {
    let body = body(&[json!({"role": "user", "content": TOUR_PROMPT})]);
    let mut shown = Vec::new();
    let answer = call("m_1", &body.into(), &Recorder::off(), &mut |delta: LiveDelta| shown.push(delta.text))
        .await
        .unwrap();
    assert!(shown.len() > 3, "the text comes in pieces");
    assert_eq!(answer.decoded.blocks[0].text.as_deref(), Some(shown.concat().as_str()));
    assert!(answer.decoded.usage_reported);
}

#[test]
fn remarks_do_not_end_the_tour_and_prompts_do() {
    let folder = tempfile::tempdir().unwrap();
    lay_out(folder.path());
    let source = run(folder.path(), "read_file", &json!({"path": "greet.sh"})).0;
    let call = json!({"type": "tool_use", "id": "t1", "name": "read_file", "input": {"path": "greet.sh"}});
    let result = json!({"type": "tool_result", "tool_use_id": "t1", "content": source});
    let mut messages = vec![
        json!({"role": "user", "content": TOUR_PROMPT}),
        json!({"role": "assistant", "content": [call]}),
        json!({"role": "user", "content": [result, {"type": "text", "text": "hurry up"}]}),
        json!({"role": "user", "content": [{"type": "text", "text": "The session was resumed after a restart."}]}),
    ];
    let next = read(&answer(&body(&messages)).unwrap());
    assert_eq!(next.blocks[1].call.as_ref().unwrap().name, "run_command");
    messages.push(json!({"role": "assistant", "content": [{"type": "text", "text": "Stopped."}]}));
    messages.push(json!({"role": "user", "content": "What else can you do?"}));
    let next = read(&answer(&body(&messages)).unwrap());
    assert!(next.blocks[0].text.as_ref().unwrap().contains("no language model"));
}
