//! Searching what was too large for the conversation: by the model, and by people.

use super::{binary, command, of_kind, world};
use agent_tests::scripted::{Answer, Received};
use serde_json::{Value, json};

#[test]
fn a_large_output_is_searched_by_the_model_and_by_people() {
    let (model, home) = world([]);
    model.respond_with(|request: &Received| match request.tool_results().len() {
        0 => command("toolu_1", "i=0; while [ $i -lt 20000 ]; do i=$((i+1)); echo line $i; done"),
        1 => {
            let text = request.result_of("toolu_1").text;
            let id =
                text[text.find("a_").unwrap()..].split(|c: char| !c.is_alphanumeric() && c != '_').next();
            Answer::calling(
                "toolu_2",
                "search_artifact",
                json!({ "id": id.unwrap(), "pattern": "^line 1234\\d$" }),
            )
        }
        _ => Answer::saying("done"),
    });
    let session = home.new_session(["--permission-mode", "full"]);
    home.send_and_wait(&session, "go").ok();
    let expected: Vec<String> = (12_340..12_350)
        .map(|n| format!("{n} (byte {}): line {n}", 124_623 + (n - 12_340) * "line 12340\n".len()))
        .collect();
    assert_eq!(model.last_request().result_of("toolu_2").text, expected.join("\n"));

    let events = home.events(&session);
    assert_eq!(of_kind(&events, "call_finished").len(), 2);
    let artifacts = home.cli(["artifacts", "ls", &session, "--json"]).run().ok().json();
    let id = artifacts[0]["artifact_id"].as_str().or_else(|| artifacts[0]["id"].as_str()).unwrap().to_owned();
    let grep = |more: &[&str]| home.cli([&["artifacts", "grep", &id], more].concat()).run();
    assert_eq!(grep(&["line 777$"]).ok().stdout, "777:line 777\n");
    let around = grep(&["line (10|20)$", "-B", "1", "-A", "1"]).ok();
    assert_eq!(around.stdout, "9-line 9\n10:line 10\n11-line 11\n--\n19-line 19\n20:line 20\n21-line 21\n");
    let some = grep(&["line", "--max", "2", "--json"]).ok();
    let rows: Vec<Value> = some.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(
        rows,
        [
            json!({ "line": 1, "text": "line 1", "match": true, "offset": 0 }),
            json!({ "line": 2, "text": "line 2", "match": true, "offset": 7 }),
        ]
    );
    assert!(some.stderr.contains("stopped after 2 matching lines"), "{some}");
    assert_eq!(grep(&["no such thing"]).code, Some(1));
    let wrong = grep(&["a(b"]);
    assert!(wrong.code == Some(1) || wrong.code == Some(2), "{wrong}");
    assert!(wrong.stderr.contains("unclosed group (at character 2"), "{wrong}");
    // A part by its bytes, as before.
    assert_eq!(home.cli(["artifacts", "get", &id, "--range", "7-14"]).run().ok().stdout, "line 2\n");
}

#[test]
fn an_artifact_that_is_not_there_is_said_to_be_gone() {
    let home = agent_tests::home::TestHome::new(binary());
    let said = home.cli(["artifacts", "grep", "a_none", "x"]).run();
    assert!(said.code != Some(0) && said.stderr.contains("there is no artifact a_none"), "{said}");
}
