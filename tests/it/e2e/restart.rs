//! H3: what happened before a `kill -9` is there after it, once.

use super::{of_kind, world};
use agent_tests::deadline::{Deadline, poll};
use agent_tests::events::{assert_no_holes, show};
use agent_tests::scripted::Answer;
use serde_json::json;

fn two_calls(second: &str) -> Answer {
    Answer::new()
        .tool_use("toolu_log", "run_command", json!({"command": "echo x >> log; echo logged"}))
        .tool_use("toolu_slow", "run_command", json!({"command": second}))
}

/// The daemon dies, the command does not: it is adopted and its real result arrives once.
#[test]
fn a_running_command_is_adopted_after_kill_9() {
    let (model, home) = world([two_calls("echo begun; sleep 3.125; echo done"), Answer::saying("finished")]);
    let session = home.new_session(["--permission-mode", "full"]);
    home.send(&session, "prompt P");
    poll("the second command runs", Deadline::secs(20), || home.processes_with("sleep 3.125").pop());
    let before = home.events(&session);
    let first = home.kill_daemon();
    home.start_daemon();
    assert_ne!(home.daemon_pid(), first);

    let follower = home.follow(&session, 0);
    let adopted = follower.wait_for_kind("call_adopted", Deadline::secs(20));
    let is_slow =
        |event: &agent_tests::events::Event| event.is("call_finished") && event.call_id == adopted.call_id;
    let slow = follower.wait_for("the result of the adopted call", Deadline::secs(20), is_slow);
    assert_eq!((slow.field("exit_code"), slow.text("outcome")), (&json!(0), "ok"), "{}", slow.json);
    for line in ["begun", "done"] {
        assert_eq!(slow.text("text").lines().filter(|found| *found == line).count(), 1, "{}", slow.json);
    }
    // Attended: it waits to be told, and says what it would do.
    let paused = follower.wait_for_kind("turn_paused", Deadline::secs(20));
    assert_eq!(paused.text("reason"), "interrupted", "{}", paused.json);
    assert!(!paused.text("next").is_empty(), "{}", paused.json);
    assert_eq!(home.show(&session)["state"], "interrupted");
    assert_eq!(model.requests().len(), 1, "no model request before it is told to go on");

    home.cli(["resume", &session]).run().ok();
    assert_eq!(home.wait_for_turn_end(&session, 1, Deadline::secs(20)), "completed");
    assert_eq!(home.read("log").as_deref(), Some("x\n"), "the first command ran again");
    let events = home.events(&session);
    assert_no_holes(&events, 1);
    assert_eq!(events[..before.len()], before[..], "events changed by the crash:\n{}", show(&events));
    assert_eq!(of_kind(&events, "call_adopted").len(), 1);
    assert_eq!(of_kind(&events, "call_finished").len(), 2);
    assert!(model.last_request().user_texts().contains(&"prompt P".to_owned()));
}

/// The supervisor dies too: nobody knows, nothing is run again, and a person says what it was.
#[test]
fn a_command_whose_supervisor_died_is_unknown() {
    let (model, home) =
        world([two_calls("echo begun; sleep 30.125; echo done"), Answer::saying("understood")]);
    let session = home.new_session(["--permission-mode", "full"]);
    home.send(&session, "prompt P");
    poll("the second command runs", Deadline::secs(20), || home.processes_with("sleep 30.125").pop());
    let follower = home.follow(&session, 0);
    let is_started = |event: &agent_tests::events::Event| event.is("call_started");
    let slow = follower.wait_for_nth("the second start", 2, Deadline::secs(20), is_started).call_id.unwrap();
    drop(follower);
    home.kill_daemon();
    for supervisor in home.processes_with("__exec") {
        home.kill(supervisor.pid);
    }
    // The death of a supervisor takes the shell along; what the shell had started outlives both until a sandbox
    // holds it in a process namespace. It is ended here, as a person would. (The shell names it too, and may be dying.)
    for orphan in home.processes_with("sleep 30.125").iter().filter(|found| found.command == "sleep 30.125") {
        home.kill(orphan.pid);
    }
    home.start_daemon();

    let paused = home.follow(&session, 0).wait_for_kind("turn_paused", Deadline::secs(20));
    assert!(["interrupted", "unknown_call"].contains(&paused.text("reason")), "{}", paused.json);
    let refused = home.cli(["resume", &session]).run();
    assert_ne!(refused.code, Some(0), "an unknown call takes a word about it: {refused}");
    assert!(refused.stderr.contains(&slow), "the refusal names the call: {refused}");
    assert_eq!(model.requests().len(), 1);

    let resolution = format!("{slow}=failed");
    home.cli(["resume", &session, "--call", &resolution]).run().ok();
    assert_eq!(home.wait_for_turn_end(&session, 1, Deadline::secs(20)), "completed");
    let result = model.last_request().result_of("toolu_slow");
    assert!(result.is_error && result.text.contains("begun"), "{result:?}");
    assert!(!result.text.lines().any(|line| line == "done"), "{result:?}");
    assert_eq!(home.read("log").as_deref(), Some("x\n"));
    let events = home.events(&session);
    assert_eq!(of_kind(&events, "call_finished").len(), 2, "{}", show(&events));
}
