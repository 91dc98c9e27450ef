//! The demo does what the README says it does.

use super::{binary, of_kind};
use agent_tests::events::{assert_no_holes, parse_lines, show};
use agent_tests::home::TestHome;
use serde_json::json;
use std::collections::BTreeSet;

/// Without a terminal the approval answers itself after a pause, so this takes its time.
const DEMO_SECS: u64 = 60;

#[test]
fn the_demo_survives_its_own_kill_and_says_so() {
    let home = TestHome::new(binary());
    let place = home.root().join("demo");
    let place = place.to_str().unwrap();
    let shown = home.cli(["--home", place, "demo"]).within_secs(DEMO_SECS).run().ok();

    let listed = home.cli(["--home", place, "ls", "--json"]).run().ok().json();
    let session = listed[0]["id"].as_str().unwrap().to_owned();
    let read = home.cli(["--home", place, "events", &session, "--json"]).run().ok();
    let events = parse_lines(&read.stdout.lines().map(str::to_owned).collect::<Vec<_>>());
    assert_no_holes(&events, 1);

    // Two lives of the daemon, both named on the screen.
    let started = of_kind(&events, "turn_started")[0].text("run_id").to_owned();
    let recovered: Vec<String> =
        of_kind(&events, "session_recovered").iter().map(|event| event.text("run_id").to_owned()).collect();
    let runs: BTreeSet<&String> = recovered.iter().chain([&started]).collect();
    assert_eq!(runs.len(), 2, "{}", show(&events));
    for run in runs {
        assert!(shown.stdout.contains(run.as_str()), "the transcript does not name {run}:\n{shown}");
    }

    // One command lived through it: one process, all its lines, its exit code, once.
    let adopted = of_kind(&events, "call_adopted");
    assert_eq!(adopted.len(), 1, "{}", show(&events));
    assert!(adopted[0].field("start_ticks").as_u64().is_some_and(|ticks| ticks > 0), "{}", adopted[0].json);
    let call = adopted[0].call_id.clone();
    let finished: Vec<_> =
        of_kind(&events, "call_finished").into_iter().filter(|event| event.call_id == call).collect();
    assert_eq!(finished.len(), 1, "{}", show(&events));
    assert_eq!(finished[0].field("exit_code"), &json!(0), "{}", finished[0].json);
    let text = finished[0].text("text");
    for number in 1..=5 {
        let line = format!("ok {number} - ");
        assert_eq!(text.lines().filter(|found| found.starts_with(&line)).count(), 1, "{line:?} in {text}");
    }
    assert_eq!(text.matches("5 of 5 checks passed").count(), 1, "{text}");

    let end = of_kind(&events, "turn_finished");
    assert_eq!((end.len(), end[0].text("status")), (1, "completed"), "{}", show(&events));
    assert!(!of_kind(&events, "request_closed").is_empty(), "an approval was asked and answered");
    for hint in ["attach", "events", "audit ls"] {
        assert!(
            shown.stdout.contains(&format!("agentctl {hint}")) || shown.stdout.contains(hint),
            "{hint}: {shown}"
        );
    }
    home.cli(["--home", place, "daemon", "stop", "--now"]).run();
}
