//! What is known of models, who is asked for it, and what a run says when nobody knows the price.

use super::{binary, world};
use agent_tests::home::{MODEL, TestHome};
use agent_tests::scripted::{API_KEY, Answer, Dialect, ListedModel, ScriptedModel};
use serde_json::{Value, json};

fn row<'a>(rows: &'a Value, name: &str) -> &'a Value {
    let found = rows.as_array().and_then(|rows| rows.iter().find(|row| row["name"] == name));
    found.unwrap_or_else(|| panic!("{name} is not in {rows}"))
}

/// A home whose sessions speak to `model` as a local server of the Chat Completions dialect.
fn local(model: &ScriptedModel) -> TestHome {
    let mut home = TestHome::new(binary());
    home.env("LOCAL_KEY", API_KEY);
    home.write_config(&format!(
        "model = \"local/small\"\n\n[providers.local]\nprotocol = \"openai-chat\"\nbase_url = \"{}\"\n\
         api_key_env = \"LOCAL_KEY\"\n\n[retry]\nbase_ms = 20\nmax_ms = 100\n",
        model.base_url_for(Dialect::OpenAi)
    ));
    home
}

#[test]
fn the_list_says_what_is_known_and_never_a_key() {
    let (model, home) = world([]);
    let listed = home.cli(["models", "--json"]).run().ok();
    assert!(!listed.stdout.contains(API_KEY), "{listed}");
    let rows = listed.json();
    let own = row(&rows, MODEL);
    assert_eq!(
        (&own["default"], &own["state"], &own["price"]),
        (&json!(true), &json!("ready"), &Value::Null)
    );
    let opus = row(&rows, "anthropic/claude-opus-5");
    assert_eq!((&opus["price"]["output"], &opus["context_window"]), (&json!(25.0), &json!(200_000)));
    assert_eq!((&opus["origin"], &opus["default"]), (&json!("built-in"), &json!(false)));
    assert_eq!(row(&rows, "openai/gpt-5")["state"], "no_key");
    assert_eq!(row(&rows, "demo/tour")["state"], "ready");

    let text = home.cli(["models"]).run().ok().stdout;
    let line = |name: &str| text.lines().find(|line| line.contains(name)).unwrap_or_default().to_owned();
    assert!(line(MODEL).starts_with("* ") && line(MODEL).contains("price unknown"), "{text}");
    assert!(line("anthropic/claude-opus-5 ").contains("$5/$25"), "{text}");
    assert!(line("demo/tour").contains("free") && !text.contains("$0/"), "{text}");
    assert!(model.lookups().is_empty(), "a list of what is known asks nobody");
}

#[test]
fn a_known_model_costs_no_question_and_an_unpriced_one_no_made_up_price() {
    let (model, home) = world([Answer::saying("done")]);
    let run = home.cli(["run", "--output", "json", "say"]).run().ok();
    assert!(model.lookups().is_empty());
    let outcome = run.json();
    assert_eq!((&outcome["status"], &outcome["cost_usd"]), (&json!("completed"), &Value::Null));
    let session = outcome["session"].as_str().unwrap();
    assert_eq!(home.show(session)["cost_usd"], Value::Null);
    let rows = home.cli(["ls", "--json"]).run().ok().json();
    assert_eq!(rows[0]["cost_usd"], Value::Null);
    let shown = home.cli(["show", session]).run().ok().stdout;
    assert!(shown.contains("unknown") && !shown.contains("$0"), "{shown}");

    for args in [["run", "--max-cost", "1", "say"], ["run", "--continue", "--max-cost=1", "say"]] {
        let refused = home.cli(args).run();
        assert!(refused.code != Some(0) && refused.stderr.contains("price"), "{refused}");
    }
    let nothing = home.cli(["set", session]).run().expect_code(2);
    assert!(nothing.stderr.contains("--name"), "{nothing}");
}

#[test]
fn a_server_is_asked_once_what_its_model_is_like() {
    let model = ScriptedModel::with([Answer::saying("one"), Answer::saying("two")]);
    model.list_models([ListedModel::new("small").field("max_model_len", json!(40_960))]);
    let home = local(&model);
    let mut sessions = Vec::new();
    for _ in 0..2 {
        let run = home.cli(["run", "--output", "json", "say"]).run().ok().json();
        sessions.push(run["session"].as_str().unwrap().to_owned());
    }
    assert_eq!(model.lookups().len(), 1);
    for session in &sessions {
        let context = home.cli(["context", session, "--json"]).run().ok().json();
        assert_eq!(context["window"], 40_960);
    }

    let probed = home.cli(["models", "--probe", "local", "--json"]).run().ok().json();
    let small = row(&probed, "local/small");
    assert_eq!((&small["origin"], &small["context_window"]), (&json!("listed"), &json!(40_960)));
    assert_eq!(model.lookups().len(), 2, "who asks for the list is told what it is now");
    let refused = home.cli(["models", "--probe", "nobody"]).run();
    assert!(
        refused.code != Some(0) && refused.stderr.contains("anthropic, openai, demo, local"),
        "{refused}"
    );
}

#[test]
fn a_server_that_does_not_say_does_not_hold_a_session_up() {
    let model = ScriptedModel::with([Answer::saying("one")]);
    model.list_models_as(500, json!({"error": "no list here"}));
    let home = local(&model);
    let run = home.cli(["run", "--output", "json", "say"]).run().ok().json();
    assert_eq!(run["status"], "completed");
    let context = home.cli(["context", run["session"].as_str().unwrap(), "--json"]).run().ok().json();
    assert_eq!(context["window"], 32_768);
    let refused = home.cli(["models", "--probe", "local"]).run().expect_code(3);
    assert!(refused.stderr.contains("500") && !refused.stderr.contains(API_KEY), "{refused}");
}

#[test]
fn the_window_that_a_refusal_names_is_that_of_the_next_session() {
    let too_long = json!({"error": {
        "message": "This model's maximum context length is 8192 tokens. However, you requested 9000 tokens.",
        "type": "invalid_request_error", "param": "messages", "code": "context_length_exceeded"}});
    let refusal = Answer::http(400, &[("content-type", "application/json")], too_long.to_string());
    let model = ScriptedModel::with([refusal]);
    model.respond_with(|_| Answer::saying("done"));
    let home = local(&model);
    home.cli(["run", "say"]).run();
    let run = home.cli(["run", "--output", "json", "say"]).run().ok().json();
    let context = home.cli(["context", run["session"].as_str().unwrap(), "--json"]).run().ok().json();
    assert_eq!(context["window"], 8_192);
}
