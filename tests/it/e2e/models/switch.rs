//! One conversation with several providers, one after another.

use super::super::{of_kind, world_in};
use agent_tests::home::model_name;
use agent_tests::scripted::{Answer, Dialect};
use serde_json::json;

/// Thinking, calls and results of one dialect go on in the other and back: calls keep their results, foreign thinking
/// stays away, ids are what the server takes, and nothing is refused.
#[test]
fn a_session_changes_its_provider_and_comes_back() {
    let answer = |number: usize, id: &str| {
        Answer::new()
            .thought(&format!("Thought {number}."))
            .text(format!("Reading {number}."))
            .tool_use(id, "read_file", json!({"path": "a.txt"}))
            .tool_use(&format!("{id}b"), "read_file", json!({"path": "b.txt"}))
    };
    let (model, home) = world_in(Dialect::Anthropic, []);
    home.write("a.txt", "alpha\n");
    home.write("b.txt", "beta\n");
    let session = home.new_session(["--permission-mode", "ask"]);
    let order = [
        (Dialect::Anthropic, "toolu_01"),
        (Dialect::OpenAi, "functions.read_file:0"),
        (Dialect::Anthropic, "toolu_01"),
        (Dialect::OpenAi, "functions.read_file:0"),
    ];
    for (number, (dialect, id)) in order.into_iter().enumerate() {
        if number > 0 {
            home.cli(["set", &session, "--model", model_name(dialect)]).run().ok();
        }
        model.push(answer(number, id));
        model.push(Answer::saying(format!("done {number}")));
        home.send_and_wait(&session, &format!("turn {number}")).ok();
        let last = model.last_request();
        assert_eq!(last.dialect, dialect);
        let results = last.tool_results();
        assert_eq!(results.len(), 2 * (number + 1), "{results:?}");
        for pair in results.chunks(2) {
            assert!(pair[0].text.contains("alpha") && pair[1].text.contains("beta"), "{pair:?}");
        }
        let thoughts = last.thinking();
        assert_eq!(thoughts, [format!("Thought {number}.")], "only its own");
    }
    let events = home.events(&session);
    assert_eq!(of_kind(&events, "epoch_started").len(), 4);
    assert_eq!(of_kind(&events, "model_call_failed").len(), 0);
    model.assert_no_violations();
}
