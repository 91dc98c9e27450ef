//! Every call has exactly one result, whatever happens to it.

use super::{command, of_kind, world};
use agent_tests::deadline::{Deadline, poll};
use agent_tests::scripted::{Answer, Cut};
use serde_json::json;

/// A1: an interrupted command gets its result, and the session stays usable.
#[test]
fn an_interrupted_call_is_answered_and_its_process_is_gone() {
    let (model, home) =
        world([command("toolu_sleep", "echo begun; sleep 60.25"), Answer::saying("going on")]);
    let session = home.new_session(["--permission-mode", "full"]);
    home.send(&session, "wait a minute");
    poll("the command runs", Deadline::secs(20), || home.processes_with("sleep 60.25").pop());

    home.cli(["interrupt", &session]).run().ok();
    assert_eq!(home.wait_for_turn_end(&session, 1, Deadline::secs(20)), "interrupted");
    home.wait_gone("sleep 60.25", Deadline::secs(10));

    let next = home.send_and_wait(&session, "continue").ok();
    assert!(next.stdout.contains("going on"), "{next}");
    let requests = model.requests();
    assert_eq!(requests.len(), 2);
    let result = requests[1].result_of("toolu_sleep");
    assert!(result.is_error && result.text.starts_with("Interrupted; output so far:"), "{result:?}");
    assert!(result.text.contains("begun"), "what it had printed is kept: {result:?}");
    assert_eq!(result.message, 2, "directly after the assistant message");
    assert_eq!(requests[1].last_user_text(), "continue");
    assert_eq!(home.show(&session)["state"], "idle");
}

/// A3: calls that fail inside the harness are results like any other, in call order.
#[test]
fn calls_that_cannot_run_are_answered_beside_those_that_can() {
    let batch = Answer::new()
        .text("Looking.")
        .tool_use("toolu_good", "read_file", json!({"path": "notes.txt"}))
        .tool_use("toolu_nope", "nope", json!({}))
        .tool_use("toolu_args", "read_file", json!({"path": 5}));
    let (model, home) = world([batch, Answer::saying("done")]);
    home.write("notes.txt", "remember the milk\n");
    let session = home.new_session(["--permission-mode", "workspace"]);
    home.send_and_wait(&session, "look").ok();

    let results = model.last_request().tool_results();
    let ids: Vec<&str> = results.iter().map(|result| result.tool_use_id.as_str()).collect();
    assert_eq!(ids, ["toolu_good", "toolu_nope", "toolu_args"]);
    assert!(results.iter().all(|result| result.message == 2), "all in one message: {results:?}");
    assert!(!results[0].is_error && results[0].text.contains("remember the milk"), "{:?}", results[0]);
    assert!(
        results[1].is_error && results[1].text.starts_with("Unknown tool nope. Tools: ["),
        "{:?}",
        results[1]
    );
    assert!(results[2].is_error, "{:?}", results[2]);
    assert!(
        results[2].text.starts_with("Invalid arguments for read_file: at /path expected "),
        "{:?}",
        results[2]
    );
    let calls = &home.show(&session)["calls"];
    assert_eq!((&calls["ok"], &calls["invalid"]), (&json!(1), &json!(2)), "{calls}");
}

/// A8: what a failed attempt had asked for never runs and is not in the history.
#[test]
fn a_call_of_an_aborted_attempt_never_runs() {
    let aborted = Answer::new()
        .text("First try.")
        .tool_use("toolu_aborted", "run_command", json!({"command": "echo x >> aborted"}))
        .cut_after("{\"index\":1,\"type\":\"content_block_stop\"}   \n\n", Cut::Reset);
    let (model, home) = world([aborted, command("toolu_second", "echo y >> second"), Answer::saying("done")]);
    let session = home.new_session(["--permission-mode", "full"]);
    home.send_and_wait(&session, "go").ok();

    assert_eq!(home.read("aborted"), None, "the aborted attempt's call ran");
    assert_eq!(home.read("second").as_deref(), Some("y\n"));
    let requests = model.requests();
    assert_eq!(requests.len(), 3);
    assert_eq!(requests[0].prefix(0), requests[1].prefix(0), "a retry sends the same");
    assert_eq!(requests[2].tool_use_ids(), ["toolu_second"]);
    let events = home.events(&session);
    assert_eq!(of_kind(&events, "model_call_failed").len(), 1);
    assert_eq!(of_kind(&events, "call_requested").len(), 1, "only whole answers request calls");
}
