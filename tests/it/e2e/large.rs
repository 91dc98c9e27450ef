//! Large answers and many large inputs stay readable by every command.

use super::{of_kind, world};
use agent_tests::events::{assert_no_holes, parse_lines};
use agent_tests::home::TestHome;
use agent_tests::scripted::Answer;
use serde_json::json;

/// Near the bound of an answer, as JSON writes it.
const LARGE_BYTES: usize = 7_200_000;

/// Reads a session with everything that reads sessions; all see the same events.
fn read_everywhere(home: &TestHome, session: &str) {
    let events = home.events(session);
    assert_no_holes(&events, 1);
    let last = format!("\"seq\":{},", events.last().unwrap().seq);
    let mut attached = home.cli(["attach", session, "--json", "--history", "full"]).within_secs(60).spawn();
    attached.wait_for_line(&last, agent_tests::deadline::Deadline::secs(60));
    attached.kill();
    let seen = parse_lines(&attached.stdout.all());
    assert!(seen == events, "attach saw {} events, events printed {}", seen.len(), events.len());
}

/// An answer of 7 MB of text, and one that writes a file of 7 MB.
#[test]
fn a_large_answer_is_read_by_everything() {
    let text = "0123456789abcde\n".repeat(LARGE_BYTES / 16);
    let answers = [
        Answer::saying(text.clone()),
        Answer::calling("toolu_w", "write_file", json!({"path": "large.txt", "content": &text})),
        Answer::saying("written"),
    ];
    let (_model, home) = world(answers);
    let session = home.new_session(["--permission-mode", "full"]);
    let said = home.cli(["send", &session, "speak", "--wait"]).within_secs(120).run().ok();
    assert!(said.stdout.trim_end() == text.trim_end(), "{} bytes came", said.stdout.len());
    home.cli(["send", &session, "write", "--wait"]).within_secs(120).run().ok();
    assert!(home.read("large.txt") == Some(text));
    read_everywhere(&home, &session);
}

/// Twenty inputs, each below the bound of one: together more than any one page may have.
#[test]
fn many_large_inputs_are_read_page_by_page() {
    let (_model, home) = world((0..20).map(|_| Answer::saying("yes")));
    let session = home.new_session::<&str>([]);
    let prompt = "x".repeat(900 * 1_000);
    for _ in 0..20 {
        home.cli(["send", &session, "-", "--wait"]).stdin(prompt.clone()).within_secs(60).run().ok();
    }
    let events = home.events(&session);
    assert_eq!(of_kind(&events, "turn_finished").len(), 20);
    read_everywhere(&home, &session);
}
