//! A request that a provider refuses for something it could do without is sent once more without it.

use super::super::{of_kind, world_in};
use agent_tests::events::Event;
use agent_tests::home::TestHome;
use agent_tests::scripted::{Answer, Dialect, Rules, ScriptedModel};
use serde_json::{Value, json};

fn mended(home: &TestHome, session: &str) -> Vec<Value> {
    let events = home.events(session);
    let failed: Vec<&Event> = of_kind(&events, "model_call_failed");
    failed.iter().map(|event| event.field("mend").clone()).collect()
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
fn stream_options_are_left_out_where_they_are_refused() {
    let answers = [Answer::saying("one"), Answer::saying("two")];
    let (model, home) = refusing(Dialect::OpenAi, |rules| rules.refuse_stream_options = true, &answers);
    let session = home.new_session(["--permission-mode", "ask"]);
    home.send_and_wait(&session, "go").ok();
    home.send_and_wait(&session, "again").ok();
    let requests = model.requests();
    let asked: Vec<bool> = requests.iter().map(|request| !request.json["stream_options"].is_null()).collect();
    assert_eq!(asked, [true, false, false], "refused once, and remembered");
    assert_eq!(mended(&home, &session), [json!("omit_stream_options")]);
}

#[test]
fn the_output_bound_goes_by_its_other_name() {
    for (dialect, refuse) in [(Dialect::OpenAi, true), (Dialect::OpenAi, false)] {
        let rule = move |rules: &mut Rules| {
            rules.refuse_max_tokens = refuse;
            rules.refuse_max_completion_tokens = !refuse;
        };
        let (model, home) = refusing(dialect, rule, &[Answer::saying("one")]);
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

/// Thinking that the provider does not take back is left out, once for all, and the conversation goes on.
#[test]
fn refused_thinking_is_stripped_once() {
    for dialect in Dialect::ALL {
        let first = Answer::new().thought("Hm.").tool_use("call_1", "list_dir", json!({}));
        let rule = move |rules: &mut Rules| match dialect {
            Dialect::Anthropic => rules.refuse_replayed_thinking = true,
            Dialect::OpenAi => rules.refuse_reasoning = true,
        };
        let answers = [first, Answer::saying("one"), Answer::saying("two")];
        let (model, home) = refusing(dialect, rule, &answers);
        let session = home.new_session(["--permission-mode", "ask"]);
        home.send_and_wait(&session, "go").ok();
        home.send_and_wait(&session, "again").ok();
        let thoughts: Vec<usize> = model.requests().iter().map(|request| request.thinking().len()).collect();
        let log = agent_tests::events::show(&home.events(&session));
        assert_eq!(thoughts, [0, 1, 0, 0], "{dialect}\n{log}");
        assert_eq!(mended(&home, &session), [json!("strip_thinking")], "{dialect}");
    }
}
