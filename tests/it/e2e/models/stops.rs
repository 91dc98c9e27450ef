//! Each way to stop has its meaning, in each dialect.

use super::super::{of_kind, world_in};
use super::{end_of_turn, run_json};
use agent_tests::scripted::{Answer, Dialect, Quirk};
use serde_json::{Value, json};

/// C3: a refusal is shown, not resent, and the next request does not hold it.
#[test]
fn a_refusal_is_shown_and_not_repeated() {
    for dialect in Dialect::ALL {
        let answers =
            [Answer::new().refusing("cyber", "I cannot help with that."), Answer::saying("something else")];
        let (model, home) = world_in(dialect, answers);
        let (said, code) = run_json(&home, &["do it"]);
        assert_eq!((&said["status"], code), (&json!("refused"), 1), "{dialect}: {said}");
        let error = said["error"].as_str().unwrap_or_default();
        assert!(error.contains("I cannot help with that."), "{dialect}: {said}");
        assert_eq!(model.requests().len(), 1, "{dialect}: it was resent");
        let session = said["session"].as_str().unwrap().to_owned();
        home.send_and_wait(&session, "next").ok();
        let roles: Vec<Value> =
            model.last_request().messages().iter().map(|message| message["role"].clone()).collect();
        assert!(roles.iter().all(|role| role != "assistant"), "{dialect}: {roles:?}");
    }
}

/// C3: what a refused answer had asked for does not run.
#[test]
fn a_refused_answer_runs_nothing() {
    for dialect in Dialect::ALL {
        let answer = Answer::calling("call_1", "run_command", json!({"command": "echo x >> ran"}))
            .refusing("bio", "No.");
        let (model, home) = world_in(dialect, [answer]);
        let (said, code) = run_json(&home, &["--permission-mode", "full", "do it"]);
        assert_eq!((&said["status"], code), (&json!("refused"), 1), "{dialect}: {said}");
        assert_eq!((home.read("ran"), model.requests().len()), (None, 1), "{dialect}");
    }
}

/// C4: a paused turn is continued unchanged.
#[test]
fn a_paused_turn_goes_on() {
    let answers = [Answer::new().text("part1").stop("pause_turn"), Answer::saying("part2")];
    let (model, home) = world_in(Dialect::Anthropic, answers);
    let (said, code) = run_json(&home, &["go"]);
    assert_eq!((&said["status"], code), (&json!("completed"), 0), "{said}");
    assert!(model.last_request().messages().last().unwrap().to_string().contains("part1"));
}

/// C4: a stop that nobody knows keeps the text, names the word and runs nothing.
#[test]
fn an_unknown_stop_is_named() {
    for dialect in Dialect::ALL {
        let answer = Answer::new()
            .text("so far")
            .tool_use("call_1", "run_command", json!({"command": "echo x >> ran"}))
            .stop("brand_new_reason");
        let (model, home) = world_in(dialect, [answer, Answer::saying("fine")]);
        let (said, code) = run_json(&home, &["--permission-mode", "full", "go"]);
        assert_eq!((&said["status"], code), (&json!("failed"), 1), "{dialect}: {said}");
        assert!(said["error"].as_str().unwrap_or_default().contains("brand_new_reason"), "{dialect}: {said}");
        assert_eq!(said["text"], Value::Null, "{dialect}: text is for completed turns");
        assert!(said["partial_text"].as_str().unwrap_or_default().contains("so far"), "{dialect}: {said}");
        assert_eq!(home.read("ran"), None, "{dialect}");
        let session = said["session"].as_str().unwrap().to_owned();
        assert_eq!(end_of_turn(&home, &session).text("stop_raw"), "brand_new_reason", "{dialect}");
        home.send_and_wait(&session, "next").ok();
        let sent = model.last_request();
        let kept = |message: &Value| message["role"] == "assistant" && message.to_string().contains("so far");
        assert!(sent.messages().iter().any(kept), "{dialect}");
    }
}

/// C5: an empty answer, or one of thinking alone, is asked for once more and then named.
#[test]
fn an_empty_answer_is_nudged_once() {
    for dialect in Dialect::ALL {
        for thinking in [false, true] {
            let (model, home) = world_in(dialect, []);
            model.respond_with(move |_| {
                let answer = Answer::new().stop("end_turn");
                if thinking { answer.thought("Hm.") } else { answer }
            });
            let (said, code) = run_json(&home, &["go"]);
            assert_eq!((&said["status"], code), (&json!("empty"), 1), "{dialect}, {thinking}: {said}");
            assert_eq!(model.requests().len(), 2, "{dialect}, {thinking}");
            model.respond_with(|_| Answer::saying("awake"));
            let session = said["session"].as_str().unwrap().to_owned();
            assert!(
                home.send_and_wait(&session, "next").ok().stdout.contains("awake"),
                "{dialect}, {thinking}"
            );
        }
    }
}

/// A limit inside a call: it never runs, has its result, and the answer is asked for again with more room first.
#[test]
fn a_cut_answer_runs_nothing() {
    for dialect in Dialect::ALL {
        let cut = || {
            Answer::new()
                .text("Writing.")
                .tool_use_cut("call_1", "run_command", "{\"command\": \"echo x >> ran")
                .stop("max_tokens")
        };
        let (model, home) = world_in(dialect, []);
        model.respond_with(move |_| cut());
        let (said, code) = run_json(&home, &["--permission-mode", "full", "go"]);
        assert_eq!((&said["status"], code), (&json!("truncated"), 1), "{dialect}: {said}");
        assert_eq!(home.read("ran"), None, "{dialect}");
        let limits: Vec<u64> = model
            .requests()
            .iter()
            .map(|request| {
                let json = &request.json;
                json["max_tokens"].as_u64().or(json["max_completion_tokens"].as_u64()).unwrap()
            })
            .collect();
        assert!(limits.windows(2).all(|pair| pair[0] < pair[1]), "{dialect}: {limits:?}");
        model.respond_with(|_| Answer::saying("on"));
        let session = said["session"].as_str().unwrap().to_owned();
        home.send_and_wait(&session, "next").ok();
        assert_eq!(model.last_request().tool_results().len(), 1, "{dialect}");
    }
}

/// Complete calls decide and not the word; an end mark without a word is an end with a warning.
#[test]
fn the_word_of_chat_servers_is_not_trusted() {
    let call = Answer::calling("call_1", "list_dir", json!({})).quirk(Quirk::StopWithCalls);
    let silent = Answer::saying("done").quirk(Quirk::NoFinish);
    let (_model, home) = world_in(Dialect::OpenAi, [call, silent]);
    let (said, code) = run_json(&home, &["go"]);
    assert_eq!((&said["status"], code), (&json!("completed"), 0), "{said}");
    let events = home.events(said["session"].as_str().unwrap());
    let answered = of_kind(&events, "model_call_finished");
    assert!(!answered[1].field("warnings").as_array().unwrap().is_empty(), "{:?}", answered[1]);
}

/// G6: both dialects show the same figures for the same prompt, cached or not.
#[test]
fn cached_tokens_are_counted_once() {
    for dialect in Dialect::ALL {
        let (_model, home) =
            world_in(dialect, [Answer::saying("counted").usage(1_000, 20).cached(59_000, 0)]);
        let session = home.new_session(["--permission-mode", "ask"]);
        home.send_and_wait(&session, "count").ok();
        let events = home.events(&session);
        let usage = of_kind(&events, "model_call_finished")[0].field("usage").clone();
        assert_eq!(
            (&usage["input_tokens"], &usage["cache_read_tokens"], &usage["output_tokens"]),
            (&json!(1_000), &json!(59_000), &json!(20)),
            "{dialect}: {usage}"
        );
        let ledger = home.cli(["context", &session, "--json"]).run().ok();
        let ledger: Value = serde_json::from_str(&ledger.stdout).unwrap();
        let used = ledger["used"].as_u64().unwrap();
        assert!((60_000..61_000).contains(&used), "{dialect}: {used}");
    }
}

/// G6: usage is asked for; a server that never counts leaves an estimate.
#[test]
fn without_counts_there_is_an_estimate() {
    for quirk in [Quirk::NoUsage, Quirk::UsageEverywhere, Quirk::UsageOfDeepSeek] {
        let (model, home) = world_in(Dialect::OpenAi, [Answer::saying("hm").quirk(quirk)]);
        home.write("a.txt", "x");
        let session = home.new_session(["--permission-mode", "ask"]);
        home.send_and_wait(&session, "hello").ok();
        assert_eq!(model.last_request().json["stream_options"]["include_usage"], true, "{quirk:?}");
        let events = home.events(&session);
        let reported = of_kind(&events, "model_call_finished")[0].field("usage_reported").clone();
        assert_eq!(reported, json!(quirk != Quirk::NoUsage), "{quirk:?}");
        let ledger = home.cli(["context", &session, "--json"]).run().ok();
        let ledger: Value = serde_json::from_str(&ledger.stdout).unwrap();
        assert!(ledger["used"].as_u64().unwrap() > 0, "{quirk:?}: {ledger}");
    }
}

/// A limit that was used up by thinking is a cut answer like any other, and costs no more attempts than it.
#[test]
fn a_limit_without_a_word_is_truncated() {
    for dialect in Dialect::ALL {
        for thinking in [false, true] {
            let (model, home) = world_in(dialect, []);
            model.respond_with(move |_| {
                let answer = Answer::new().stop("max_tokens");
                if thinking { answer.thought("Hm.") } else { answer }
            });
            let (said, code) = run_json(&home, &["go"]);
            assert_eq!((&said["status"], code), (&json!("truncated"), 1), "{dialect}, {thinking}: {said}");
            assert!(model.requests().len() <= 3, "{dialect}, {thinking}: {}", model.requests().len());
            model.respond_with(|_| Answer::saying("on"));
            let session = said["session"].as_str().unwrap().to_owned();
            assert!(home.send_and_wait(&session, "next").ok().stdout.contains("on"), "{dialect}, {thinking}");
        }
    }
}

/// Figures that nobody can have used neither stop a session nor make it ask again and again.
#[test]
fn absurd_usage_is_survived() {
    for dialect in Dialect::ALL {
        let huge = || Answer::saying("fine").usage(u64::MAX / 2 + 1, u64::MAX / 4);
        let (model, home) = world_in(dialect, [huge(), huge(), huge()]);
        let session = home.new_session(["--permission-mode", "ask"]);
        for prompt in ["one", "two", "three"] {
            home.cli(["set", &session, "--name", prompt]).run().ok();
            let done = home.send_and_wait(&session, prompt);
            assert!(done.stdout.contains("fine"), "{dialect}: {done}");
        }
        assert_eq!(model.requests().len(), 3, "{dialect}");
    }
}
