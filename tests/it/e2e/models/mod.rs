//! What a provider may send, and what is made of it, in each dialect.

mod calls;
mod refused;
mod retries;
mod silence;
mod stops;
mod switch;

use agent_tests::events::Event;
use agent_tests::home::TestHome;
use serde_json::Value;

/// The last `turn_finished` of a session.
fn end_of_turn(home: &TestHome, session: &str) -> Event {
    let events = home.events(session);
    events.into_iter().rev().find(|event| event.is("turn_finished")).expect("a turn has ended")
}

/// The one object that `run --output json` prints, and its exit code.
fn run_json(home: &TestHome, args: &[&str]) -> (Value, i32) {
    let mut all = vec!["run", "--output", "json"];
    all.extend_from_slice(args);
    let done = home.cli(all).within_secs(60).run();
    let object = serde_json::from_str(done.stdout.trim()).unwrap_or_else(|error| panic!("{error} in {done}"));
    (object, done.code.unwrap_or(-1))
}
