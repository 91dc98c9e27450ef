//! A provider that says nothing is waited for so long and no longer; signs of life count.

use super::super::{of_kind, world_in};
use agent_tests::deadline::Deadline;
use agent_tests::home::TestHome;
use agent_tests::scripted::{Answer, Cut, Dialect, Gate};
use serde_json::json;
use std::time::{Duration, Instant};

fn quick(home: &TestHome, dialect: Dialect) {
    let provider = if dialect == Dialect::Anthropic { "anthropic" } else { "openai" };
    home.configure(
        dialect,
        &format!("\n[providers.{provider}]\nfirst_byte_timeout_s = 1\nidle_timeout_s = 1\n"),
    );
}

/// B6: silence in the middle of a call, and before the first byte, ends the attempt; the next one succeeds, and nothing
/// of the silent ones runs.
#[test]
fn silence_ends_an_attempt() {
    for dialect in Dialect::ALL {
        let gate = Gate::new();
        let half = Answer::calling("call_half", "run_command", json!({"command": "echo x >> ran"}))
            .cut_after("command", Cut::Stall(gate.clone()));
        let never = Answer::saying("too late").held_by(&gate);
        let (model, home) = world_in(dialect, [half, never, Answer::saying("here")]);
        quick(&home, dialect);
        let session = home.new_session(["--permission-mode", "full"]);
        let done = home.send_and_wait(&session, "go").ok();
        assert!(done.stdout.contains("here"), "{dialect}: {done}");
        let events = home.events(&session);
        let classes: Vec<&str> =
            of_kind(&events, "model_call_failed").iter().map(|event| event.text("class")).collect();
        assert_eq!(classes, ["idle_timeout", "first_byte_timeout"], "{dialect}");
        assert_eq!(home.read("ran"), None, "{dialect}");
        assert_eq!(model.requests().len(), 3, "{dialect}");
        gate.open();
    }
}

/// B6: a stalled answer can be interrupted at once, and does not hold the daemon up.
#[test]
fn a_stalled_answer_is_interrupted_at_once_and_holds_nothing_up() {
    for dialect in Dialect::ALL {
        let gate = Gate::new();
        let stalled = || Answer::saying("never").cut_after_events(2, Cut::Stall(gate.clone()));
        let (model, home) = world_in(dialect, [stalled(), Answer::saying("never").held_by(&gate)]);
        let session = home.new_session(["--permission-mode", "ask"]);
        home.send(&session, "go");
        model.wait_for_requests(1, Deadline::secs(10));
        let begun = Instant::now();
        home.cli(["interrupt", &session]).run().ok();
        assert_eq!(home.wait_for_turn_end(&session, 1, Deadline::secs(5)), "interrupted");
        assert!(begun.elapsed() < Duration::from_secs(3), "{dialect}: {:?}", begun.elapsed());
        home.send(&session, "again");
        model.wait_for_requests(2, Deadline::secs(10));
        let begun = Instant::now();
        home.cli(["daemon", "stop", "--now"]).run().ok();
        assert!(begun.elapsed() < Duration::from_secs(10), "{dialect}: {:?}", begun.elapsed());
        home.start_daemon();
        assert_eq!(home.show(&session)["state"], "interrupted", "{dialect}");
        gate.open();
    }
}

/// B8: pings, comments and unknown events are life, and nothing else.
#[test]
fn signs_of_life_keep_an_answer_waiting() {
    for dialect in Dialect::ALL {
        let gate = Gate::new();
        let odd = match dialect {
            Dialect::Anthropic => "event: new_kind\ndata: {\"type\":\"new_kind\",\"x\":1}\n\n: keepalive\n\n",
            Dialect::OpenAi => ": keepalive\n\ndata: {\"object\":\"odd\",\"choices\":[]}\n\n",
        };
        let answer = Answer::new().ping().literal(odd).text("thought long").ping().babble_after(
            "keepalive",
            Duration::from_millis(200),
            &gate,
        );
        let (model, home) = world_in(dialect, [answer]);
        quick(&home, dialect);
        let session = home.new_session(["--permission-mode", "ask"]);
        home.send(&session, "think");
        model.wait_for_requests(1, Deadline::secs(10));
        // Three times the idle timeout: the turn has not ended, whatever else happens meanwhile.
        let early = agent_tests::deadline::try_poll(Deadline::secs(3), || {
            let events = home.events(&session);
            events
                .iter()
                .any(|event| event.is("turn_finished") || event.is("model_call_failed"))
                .then_some(())
        });
        assert!(early.is_none(), "{dialect}: signs of life did not count");
        gate.open();
        assert_eq!(home.wait_for_turn_end(&session, 1, Deadline::secs(10)), "completed", "{dialect}");
        assert_eq!(model.requests().len(), 1, "{dialect}: one request");
        let events = home.events(&session);
        let answered = of_kind(&events, "model_call_finished");
        assert!(answered[0].field("blocks").to_string().contains("thought long"), "{dialect}");
    }
}
