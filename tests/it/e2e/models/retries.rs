//! What is tried again, when, and what is not.

use super::super::{of_kind, world_in};
use super::{end_of_turn, run_json};
use agent_tests::deadline::Deadline;
use agent_tests::scripted::{Answer, Cut, Dialect};
use serde_json::json;
use std::time::Duration;

/// B9: an error inside a good answer is an attempt that failed; what it had said is not in the transcript.
#[test]
fn an_error_inside_a_good_answer_is_tried_again() {
    for dialect in Dialect::ALL {
        let answers = [
            Answer::new().text("half of it").error_event("overloaded_error", "Overloaded"),
            Answer::saying("the whole"),
        ];
        let (model, home) = world_in(dialect, answers);
        let session = home.new_session(["--permission-mode", "ask"]);
        let done = home.send_and_wait(&session, "go").ok();
        assert!(done.stdout.contains("the whole"), "{dialect}: {done}");
        assert_eq!(model.requests().len(), 2, "{dialect}");
        let events = home.events(&session);
        let failed = of_kind(&events, "model_call_failed");
        assert_eq!(failed.len(), 1, "{dialect}");
        // Chat Completions has no word of its own for it.
        let class = if dialect == Dialect::Anthropic { "overloaded" } else { "server" };
        assert_eq!(failed[0].text("class"), class, "{dialect}: {:?}", failed[0]);
        let answered = of_kind(&events, "model_call_finished");
        assert!(!answered[0].field("blocks").to_string().contains("half of it"), "{dialect}");
    }
}

/// B9: statuses that ask to come again are obeyed, with the wait that they ask for.
#[test]
fn statuses_are_tried_again_after_the_wait_they_ask_for() {
    for dialect in Dialect::ALL {
        let limited = Answer::error(429, "rate_limit_error", "slow down").header("retry-after", "1");
        let answers = [
            Answer::error(529, "overloaded_error", "Overloaded"),
            limited,
            Answer::error(500, "api_error", "oops"),
            Answer::saying("at last"),
        ];
        let (model, home) = world_in(dialect, answers);
        let session = home.new_session(["--permission-mode", "ask"]);
        home.send_and_wait(&session, "go").ok();
        let requests = model.requests();
        assert_eq!(requests.len(), 4, "{dialect}");
        let waited = requests[2].times.first_byte - requests[1].times.last_byte;
        assert!(waited >= Duration::from_secs(1), "{dialect}: {waited:?}");
        let prefixes: Vec<Vec<u8>> = requests.iter().map(|request| request.prefix(0)).collect();
        assert!(prefixes.windows(2).all(|pair| pair[0] == pair[1]), "{dialect}: a retry sends the same");
    }
}

/// B9: after the last attempt there is a clear error, exit code 6, and a session that goes on.
#[test]
fn a_provider_that_stays_down_is_named() {
    for dialect in Dialect::ALL {
        let (model, home) = world_in(dialect, []);
        home.configure(dialect, "");
        model.respond_with(|_| Answer::error(529, "overloaded_error", "Overloaded"));
        let (said, code) = run_json(&home, &["go"]);
        assert_eq!((&said["status"], code), (&json!("provider_failed"), 6), "{dialect}: {said}");
        assert_eq!(model.requests().len(), 8, "{dialect}");
        let error = said["error"].as_str().unwrap_or_default();
        assert!(error.contains("Overloaded") && error.contains("127.0.0.1"), "{dialect}: {error}");
        model.respond_with(|_| Answer::saying("up again"));
        let session = said["session"].as_str().unwrap().to_owned();
        assert!(home.send_and_wait(&session, "next").ok().stdout.contains("up again"), "{dialect}");
    }
}

/// Money is never tried again, whatever its status; neither are keys and names.
#[test]
fn money_keys_and_names_are_not_tried_again() {
    let chat_quota = Answer::error(429, "insufficient_quota", "You exceeded your current quota")
        .code("insufficient_quota");
    let cases = [
        (Dialect::Anthropic, Answer::error(402, "billing_error", "no money"), "provider_failed"),
        (
            Dialect::Anthropic,
            Answer::error(400, "invalid_request_error", "You have reached your specified API usage limits."),
            "provider_failed",
        ),
        (Dialect::OpenAi, chat_quota, "provider_failed"),
        (Dialect::Anthropic, Answer::error(404, "not_found_error", "model: nope"), "provider_failed"),
        (
            Dialect::OpenAi,
            Answer::error(404, "invalid_request_error", "no such model").code("model_not_found"),
            "provider_failed",
        ),
        (Dialect::OpenAi, Answer::error(400, "invalid_request_error", "bad"), "provider_failed"),
    ];
    for (dialect, answer, status) in cases {
        let shown = format!("{answer:?}");
        let (model, home) = world_in(dialect, [answer]);
        let (said, code) = run_json(&home, &["go"]);
        assert_eq!((&said["status"], code), (&json!(status), 6), "{shown}: {said}");
        assert_eq!(model.requests().len(), 1, "{shown}");
    }
}

/// A conversation that is too long ends the turn with a word that says so, and the session goes on.
#[test]
fn too_long_is_truncated() {
    for dialect in Dialect::ALL {
        let answer = match dialect {
            Dialect::Anthropic => Answer::error(
                400,
                "invalid_request_error",
                "prompt is too long: 210000 tokens > 200000 maximum",
            ),
            Dialect::OpenAi => Answer::error(
                400,
                "invalid_request_error",
                "This model's maximum context length is 128000 tokens. However, your messages resulted in 130000 tokens.",
            )
            .code("context_length_exceeded"),
        };
        let (model, home) = world_in(dialect, [answer, Answer::saying("short")]);
        let (said, code) = run_json(&home, &["go"]);
        assert_eq!((&said["status"], code), (&json!("truncated"), 1), "{dialect}: {said}");
        assert_eq!(model.requests().len(), 1, "{dialect}");
        let session = said["session"].as_str().unwrap().to_owned();
        let error = end_of_turn(&home, &session).text("error").to_owned();
        assert!(error.contains("000 tokens") && error.contains("model"), "{dialect}: {error}");
        home.send_and_wait(&session, "next").ok();
    }
}

/// A connection that breaks at any event before the stop is an attempt that failed.
#[test]
fn a_break_at_any_event_is_tried_again() {
    for dialect in Dialect::ALL {
        let (model, home) = world_in(dialect, []);
        let session = home.new_session(["--permission-mode", "full"]);
        for events in 0..5 {
            let broken = Answer::new()
                .text("First.")
                .tool_use("call_broken", "run_command", json!({"command": "echo x >> ran"}))
                .cut_after_events(events, Cut::Reset);
            model.push(broken);
            model.push(Answer::saying("whole"));
            home.send_and_wait(&session, "go").ok();
            assert_eq!(home.read("ran"), None, "{dialect}: cut after {events} events");
        }
        assert_eq!(model.requests().len(), 10, "{dialect}");
    }
}

/// What waits behind a turn that waits for a key is told so, and does not wait for ever.
#[test]
fn input_behind_a_missing_key_is_not_waited_for() {
    for dialect in Dialect::ALL {
        let refused = || Answer::error(401, "authentication_error", "invalid key");
        let (model, home) = world_in(dialect, [refused(), refused(), Answer::saying("heard")]);
        let session = home.new_session(["--permission-mode", "ask"]);
        assert_eq!(home.send_and_wait(&session, "first").code, Some(3), "{dialect}");
        assert_eq!(home.send_and_wait(&session, "second").code, Some(3), "{dialect}");
        assert_eq!(model.requests().len(), 2, "{dialect}");
        // The second input is not lost: it is the next turn.
        home.cli(["interrupt", &session]).run().ok();
        assert_eq!(home.wait_for_turn_end(&session, 2, Deadline::secs(20)), "completed", "{dialect}");
    }
}

/// An attempt that broke off is paid for, as far as its server had said what it used.
#[test]
fn a_broken_attempt_is_counted() {
    let broken = Answer::new().text("half").usage(5_000, 10).cut_after_events(3, Cut::Reset);
    let (_model, home) = world_in(Dialect::Anthropic, [broken, Answer::saying("whole").usage(100, 7)]);
    let (said, code) = run_json(&home, &["go"]);
    assert_eq!(code, 0, "{said}");
    assert_eq!(said["usage"]["input_tokens"], json!(5_100), "{said}");
}
