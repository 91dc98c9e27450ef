//! One module for each promise to users; names of cases (A1, B3, …) stand beside the tests.

mod artifact_search;
mod attach;
mod bounds;
mod catalog;
mod changes;
mod commands;
mod crash;
mod demo;
mod frames;
mod killed_write;
mod large;
mod models;
mod pairing;
mod patches;
mod paths;
mod record;
mod restart;
mod sharing;
mod storage;
mod stream;
mod tool_child;

use agent_tests::events::Event;
use agent_tests::home::TestHome;
use agent_tests::scripted::{Answer, Dialect, ScriptedModel};
use std::path::PathBuf;

/// The binary that was built with these tests.
fn binary() -> PathBuf {
    agent_tests::binary(option_env!("CARGO_BIN_EXE_agentctl-under-test"))
}

/// A scripted model and a home whose sessions speak to it. Bind them in this order, so that the home goes first.
fn world(answers: impl IntoIterator<Item = Answer>) -> (ScriptedModel, TestHome) {
    let model = ScriptedModel::with(answers);
    let home = TestHome::with_model(binary(), &model);
    (model, home)
}

/// The same, with sessions in this dialect.
fn world_in(dialect: Dialect, answers: impl IntoIterator<Item = Answer>) -> (ScriptedModel, TestHome) {
    let model = ScriptedModel::with(answers);
    let home = TestHome::with_model_in(binary(), dialect, &model);
    (model, home)
}

/// A command for the model to ask for.
fn command(id: &str, line: &str) -> Answer {
    Answer::calling(id, "run_command", serde_json::json!({ "command": line }))
}

/// The events of one kind.
fn of_kind<'a>(events: &'a [Event], kind: &str) -> Vec<&'a Event> {
    events.iter().filter(|event| event.is(kind)).collect()
}
