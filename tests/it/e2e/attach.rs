//! Several terminals on one session: one truth, first answer wins, anyone may leave.

use super::{binary, command, world};
use agent_tests::deadline::Deadline;
use agent_tests::events::{Event, assert_no_holes};
use agent_tests::home::TestHome;
use agent_tests::pty::Terminal;
use agent_tests::scripted::Answer;
use serde_json::Value;

fn attach(home: &TestHome, session: &str, more: &[&str]) -> Terminal {
    let mut command = home.command(binary());
    command.args(["attach", session]).args(more);
    Terminal::spawn(&command, 120, 40)
}

/// The events on a terminal that shows JSON, between whatever else is said there.
fn events_on(text: &str) -> Vec<Event> {
    let lines = text.lines().filter_map(|line| line.find('{').map(|at| &line[at..]));
    lines
        .filter_map(|line| serde_json::from_str::<Value>(line).ok())
        .filter_map(|line| Event::parse(&line))
        .collect()
}

#[track_caller]
fn wait_for_kind(terminal: &Terminal, kind: &str) -> Vec<Event> {
    events_on(&terminal.wait_for_text(&format!("\"kind\":\"{kind}\""), Deadline::secs(20)))
}

#[test]
fn three_terminals_see_the_same_and_each_may_leave() {
    let answers =
        [command("toolu_ask", "echo hi >> made"), Answer::saying("made it"), Answer::saying("second answer")];
    let (_model, home) = world(answers);
    let session = home.new_session(["--permission-mode", "ask"]);
    let mut one = attach(&home, &session, &["--json"]);
    let mut two = attach(&home, &session, &["--json"]);
    let three = attach(&home, &session, &["--json"]);
    let reader = attach(&home, &session, &["--plain"]);
    home.send(&session, "make it");
    for terminal in [&one, &two, &three] {
        wait_for_kind(terminal, "request_opened");
    }
    reader.wait_for_text("echo hi >> made", Deadline::secs(20));
    assert_eq!(home.read("made"), None, "nothing runs before somebody says yes");

    // One approves; the others are told who.
    one.send("y\r");
    for terminal in [&two, &three] {
        let closed = wait_for_kind(terminal, "request_closed")
            .into_iter()
            .find(|event| event.is("request_closed"))
            .unwrap();
        assert_eq!(closed.json["origin"]["client"]["pid"], one.pid(), "{}", closed.json);
        assert_eq!(closed.text("decision"), "allow", "{}", closed.json);
    }
    reader.wait_for_text(&format!("approved by agentctl attach (pid {})", one.pid()), Deadline::secs(20));
    for terminal in [&one, &two, &three] {
        wait_for_kind(terminal, "turn_finished");
    }
    assert_eq!(home.read("made").as_deref(), Some("hi\n"));
    let seen = events_on(&one.text());
    assert_no_holes(&seen, 1);
    for other in [&two, &three] {
        assert_eq!(events_on(&other.text()), seen, "the same events in the same order");
    }

    // One is killed and nothing notices.
    two.kill();
    home.send_and_wait(&session, "and now?").ok();
    let last = home.events(&session).last().unwrap().seq;
    let text = format!("\"seq\":{last},");
    for terminal in [&one, &three] {
        terminal.wait_for_text(&text, Deadline::secs(20));
    }
    assert_eq!(events_on(&one.text()), events_on(&three.text()));

    // A fourth gets exactly the rest.
    let after = seen.last().unwrap().seq;
    let fourth = attach(&home, &session, &["--json", "--after", &after.to_string()]);
    fourth.wait_for_text(&text, Deadline::secs(20));
    let rest = events_on(&fourth.text());
    assert_no_holes(&rest, after + 1);
    assert_eq!(rest.last().unwrap().seq, last);
    assert_eq!(rest[..], events_on(&one.text())[seen.len()..]);
}

/// A terminal that waits brings a lost daemon back, misses nothing and sees nothing twice.
#[test]
fn a_terminal_outlives_the_daemon() {
    let (_model, home) = world([Answer::saying("one"), Answer::saying("two")]);
    let session = home.new_session::<&str>([]);
    let terminal = attach(&home, &session, &["--json"]);
    home.send_and_wait(&session, "first").ok();
    wait_for_kind(&terminal, "turn_finished");
    let killed = home.kill_daemon();
    home.send_and_wait(&session, "second").ok();
    assert_ne!(home.daemon_pid(), killed);
    let last = home.events(&session).last().unwrap().seq;
    terminal.wait_for_text(&format!("\"seq\":{last},"), Deadline::secs(20));
    assert_no_holes(&events_on(&terminal.text()), 1);
}

/// A daemon that a person stops stays stopped, however many terminals are open; a restarted one is followed.
#[test]
fn an_open_terminal_does_not_undo_a_stop() {
    let (_model, home) = world([Answer::saying("one"), Answer::saying("two")]);
    let session = home.new_session::<&str>([]);
    home.send_and_wait(&session, "first").ok();
    let mut open = home.cli(["attach", &session, "--json"]).spawn();
    open.wait_for_line("turn_finished", Deadline::secs(20));
    let first = home.daemon_pid();
    home.cli(["daemon", "restart"]).run().ok();
    assert_ne!(home.daemon_pid(), first);
    home.send_and_wait(&session, "second").ok();
    let last = home.events(&session).last().unwrap().seq;
    open.wait_for_line(&format!("\"seq\":{last},"), Deadline::secs(20));

    home.cli(["daemon", "stop"]).run().ok();
    assert_eq!(open.wait(Deadline::secs(40)), Some(0), "{}", open.so_far());
    assert_eq!(home.daemon_status(), None);
    let said = open.stderr.all().join("\n");
    assert!(
        said.contains("was stopped") && said.contains(&format!("agentctl attach {session} --after {last}")),
        "{said}"
    );
}
