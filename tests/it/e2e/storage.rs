//! A fact that cannot be recorded is the end of doing, not the beginning of doing it again.

use super::{of_kind, world};
use agent_tests::deadline::{Deadline, try_poll};
use agent_tests::home::TestHome;
use agent_tests::scripted::Answer;

/// Changes the schema under the running daemon, as no user would: a row that its database refuses.
fn sql(home: &TestHome, statement: &str) {
    let file = home.agentd().join("data/agentd.db");
    let database = rusqlite::Connection::open(file).expect("the log can be opened");
    database.busy_timeout(std::time::Duration::from_secs(10)).expect("a timeout can be set");
    database.execute_batch(statement).expect("the statement holds");
}

/// The answer cannot be recorded, so the model must not be asked for it again and again: each request costs money.
#[test]
fn an_answer_that_cannot_be_recorded_is_not_asked_for_again() {
    let (model, home) = world([Answer::saying("lost"), Answer::saying("kept")]);
    let session = home.new_session(["--permission-mode", "ask"]);
    sql(
        &home,
        "CREATE TRIGGER refuse BEFORE INSERT ON events WHEN NEW.kind = 'model_call_finished' \
         BEGIN SELECT RAISE(ABORT, 'refused by a test'); END",
    );
    home.send(&session, "go");
    model.wait_for_requests(1, Deadline::secs(10));
    let again = try_poll(Deadline::secs(2), || (model.requests().len() > 1).then_some(()));
    assert!(again.is_none(), "the model was asked again: {} requests", model.requests().len());

    sql(&home, "DROP TRIGGER refuse");
    home.cli(["interrupt", &session]).run().ok();
    assert_eq!(home.wait_for_turn_end(&session, 1, Deadline::secs(10)), "interrupted");
    let done = home.send_and_wait(&session, "next").ok();
    assert!(done.stdout.contains("kept"), "{done}");
    assert_eq!(of_kind(&home.events(&session), "model_call_finished").len(), 1);
}
