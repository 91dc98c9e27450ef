//! A refusal is believed: what can be mended is mended, what teaches is learned, and nothing is asked for ever.

use super::super::{binary, of_kind, world, world_in};
use agent_tests::events::Event;
use agent_tests::home::TestHome;
use agent_tests::scripted::{Answer, Dialect, Received, Rules, ScriptedModel};
use serde_json::{Value, json};

const SIGNATURE: &str = "messages.1.content.0: Invalid `signature` in `thinking` block. The block is bound to a different \
                         conversation.";

fn json_of(request: &Received) -> Value {
    serde_json::from_slice(request.body()).expect("a request is JSON")
}

fn mends(events: &[Event]) -> Vec<&str> {
    of_kind(events, "model_call_failed").into_iter().map(|event| event.text("mend")).collect()
}

fn turn_status(events: &[Event]) -> String {
    of_kind(events, "turn_finished").last().expect("the turn has ended").text("status").to_owned()
}

/// A server of the other dialect with these rules, and a home that knows nothing of them.
fn chat_world(answers: impl IntoIterator<Item = Answer>, rules: fn(&mut Rules)) -> (ScriptedModel, TestHome) {
    let model = ScriptedModel::with(answers);
    model.rules(|given| {
        given.keyless = true;
        rules(given);
    });
    let home = TestHome::new(binary());
    let base = model.base_url_for(Dialect::OpenAi);
    home.write_config(&format!(
        "model = \"local/small\"\n\n[retry]\nbase_ms = 20\nmax_ms = 100\n\n[providers.local]\n\
         protocol = \"openai-chat\"\nbase_url = \"{base}\"\n"
    ));
    (model, home)
}

/// One bad signature does not end a session: thinking is left out, once and for good.
#[test]
fn thinking_that_is_refused_is_left_out() {
    let (model, home) = world([
        Answer::new().thinking("hm", "c2lnbmF0dXJl").text("I think"),
        Answer::error(400, "invalid_request_error", SIGNATURE),
        Answer::saying("done"),
        Answer::saying("and again"),
    ]);
    let session = home.new_session(["--permission-mode", "workspace"]);
    home.send_and_wait(&session, "think").ok();
    assert_eq!(home.send_and_wait(&session, "go on").ok().stdout.trim_end(), "done");
    home.send_and_wait(&session, "more").ok();

    let thought: Vec<bool> = model.requests().iter().map(|request| !request.thinking().is_empty()).collect();
    assert_eq!(thought, [false, true, false, false]);
    let events = home.events(&session);
    assert_eq!(mends(&events), ["strip_thinking"]);
    let epochs = of_kind(&events, "epoch_started");
    assert_eq!(epochs.last().map(|event| event.text("reason")), Some("request_mended"));
}

/// Each server says what it does not take, and is asked again without it, within one turn.
#[test]
fn a_server_teaches_its_dialect() {
    type Row = (&'static str, fn(&mut Rules), &'static [&'static str]);
    let rows: [Row; 3] = [
        ("stream_options", |rules| rules.refuse_stream_options = true, &["omit_stream_options"]),
        ("max_tokens", |rules| rules.refuse_max_tokens = true, &["rename_max_tokens"]),
        (
            "both",
            |rules| (rules.refuse_stream_options, rules.refuse_max_tokens) = (true, true),
            &["omit_stream_options", "rename_max_tokens"],
        ),
    ];
    for (name, rules, expected) in rows {
        let (model, home) = chat_world([Answer::saying("done"), Answer::saying("again")], rules);
        let session = home.new_session(["--permission-mode", "workspace"]);
        assert_eq!(home.send_and_wait(&session, "go").ok().stdout.trim_end(), "done", "{name}");
        home.send_and_wait(&session, "more").ok();
        assert_eq!(mends(&home.events(&session)), expected, "{name}");
        assert_eq!(model.requests().len(), 2 + expected.len(), "{name}: learned once for all");
        let last = json_of(&model.last_request());
        assert_eq!(last.get("stream_options").is_none(), name != "max_tokens", "{name}: {last}");
        assert_eq!(last.get("max_completion_tokens").is_some(), name != "stream_options", "{name}: {last}");
    }
}

/// Reasoning that a server sends and does not take back.
#[test]
fn reasoning_that_is_refused_is_not_sent_back() {
    let answers = [
        Answer::new().thought("hm").tool_use("call_r", "read_file", json!({"path": "a.txt"})),
        Answer::new().thought("hm again").tool_use("call_s", "read_file", json!({"path": "a.txt"})),
        Answer::saying("done"),
    ];
    let (model, home) = chat_world(answers, |rules| rules.refuse_reasoning = true);
    home.write("a.txt", "a");
    let session = home.new_session(["--permission-mode", "workspace"]);
    assert_eq!(home.send_and_wait(&session, "read").ok().stdout.trim_end(), "done");
    assert_eq!(mends(&home.events(&session)), ["strip_thinking"]);
    assert_eq!(model.requests().len(), 4);
}

/// A conversation that is too long is one clear end, and no bricked session.
#[test]
fn a_conversation_that_is_too_long_ends_the_turn() {
    let too_long = r#"{"error":{"message":"This model's maximum context length is 4096 tokens.","type":"invalid_request_error","param":"messages","code":"context_length_exceeded"}}"#;
    let answers =
        [Answer::http(400, &[("content-type", "application/json")], too_long), Answer::saying("short")];
    let (model, home) = chat_world(answers, |_| {});
    let session = home.new_session(["--permission-mode", "workspace"]);
    let long = home.send_and_wait(&session, &"word ".repeat(8_000)).expect_code(1);
    assert!(long.stderr.contains("4096 tokens") && long.stderr.contains("larger window"), "{}", long.stderr);
    assert_eq!(turn_status(&home.events(&session)), "truncated");
    assert_eq!(model.requests().len(), 1);
    home.send_and_wait(&session, "short").ok();
    let asked = json_of(&model.last_request())["max_tokens"].as_u64();
    assert_eq!(asked, Some(1_024), "a quarter of the window that was named");
}

/// B9 and its kin: attempts wait as they are told, are bounded, and say so.
#[test]
fn attempts_are_bounded_and_the_servers_word_counts() {
    let busy = || Answer::error(529, "overloaded_error", "Overloaded");
    let rows: [(&str, Vec<Answer>, usize, &str); 4] = [
        ("all attempts", (0..8).map(|_| busy()).collect(), 8, "attempt 8 of 8"),
        ("the server says no", vec![busy().header("x-should-retry", "false")], 1, "Overloaded"),
        ("it asks for an hour", vec![busy().header("retry-after", "3600")], 1, "asks to wait 60 min"),
        (
            "money is used up",
            vec![Answer::error(429, "rate_limit_error", "spent").code("enforced_spend_limit_reached")],
            1,
            "not tried again",
        ),
    ];
    for (name, answers, requests, words) in rows {
        let (model, home) = world(answers);
        let session = home.new_session(["--permission-mode", "workspace"]);
        let failed = home.send_and_wait(&session, "go").expect_code(6);
        assert!(failed.stderr.contains(words), "{name}: {}", failed.stderr);
        assert_eq!(model.requests().len(), requests, "{name}");
        let events = home.events(&session);
        assert_eq!(turn_status(&events), "provider_failed", "{name}");
        model.push(Answer::saying("fine"));
        home.send_and_wait(&session, "again").ok();
    }
}

fn refusing(
    dialect: Dialect,
    rule: impl FnOnce(&mut Rules),
    answers: &[Answer],
) -> (ScriptedModel, TestHome) {
    let (model, home) = world_in(dialect, answers.iter().cloned());
    model.rules(rule);
    (model, home)
}

#[test]
fn the_output_bound_goes_by_its_other_name() {
    for refuse in [true, false] {
        let rule = move |rules: &mut Rules| {
            rules.refuse_max_tokens = refuse;
            rules.refuse_max_completion_tokens = !refuse;
        };
        let (model, home) = refusing(Dialect::OpenAi, rule, &[Answer::saying("one")]);
        let session = home.new_session(["--permission-mode", "ask"]);
        home.send_and_wait(&session, "go").ok();
        let last = model.last_request();
        let (new, old) = (&last.json["max_completion_tokens"], &last.json["max_tokens"]);
        assert_eq!((new.is_u64(), old.is_u64()), (refuse, !refuse), "{new} {old}");
    }
}

#[test]
fn thinking_is_not_asked_for_where_it_is_refused() {
    let (model, home) = refusing(
        Dialect::Anthropic,
        |rules| rules.refuse_thinking = true,
        &[Answer::saying("one"), Answer::saying("two")],
    );
    let session = home.new_session(["--permission-mode", "ask"]);
    home.send_and_wait(&session, "go").ok();
    home.send_and_wait(&session, "again").ok();
    let asked: Vec<bool> =
        model.requests().iter().map(|request| !request.json["thinking"].is_null()).collect();
    assert_eq!(asked, [true, false, false]);
}

/// A header that stands for a key is a secret like any other: no tool gives it to a model, no error repeats it.
#[test]
fn a_key_in_a_header_stays_out_of_sight() {
    const SECRET: &str = "az-0123456789-secret";
    let echo = Answer::error(400, "invalid_request_error", &format!("the api-key {SECRET} is odd"));
    let (model, home) = world_in(
        Dialect::Anthropic,
        [Answer::calling("call_1", "read_file", json!({"path": "leak.txt"})), echo],
    );
    home.configure(
        Dialect::Anthropic,
        &format!("\n[providers.anthropic]\nheaders = {{ api-key = \"{SECRET}\" }}\n"),
    );
    model.rules(|rules| rules.keyless = true);
    home.write("leak.txt", format!("the key is {SECRET}\n"));
    let session = home.new_session(["--permission-mode", "ask"]);
    let done = home.send_and_wait(&session, "read it");
    assert!(!done.stdout.contains(SECRET) && !done.stderr.contains(SECRET), "{done}");
    let sent = String::from_utf8_lossy(model.last_request().body()).into_owned();
    assert!(sent.contains("the key is") && !sent.contains(SECRET), "{sent}");
    let log = agent_tests::events::show(&home.events(&session));
    assert!(log.contains("is odd") && !log.contains(SECRET), "{log}");
}
