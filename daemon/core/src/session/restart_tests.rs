//! Approvals and restarts, case by case: who is asked, what runs again, what waits.

use super::happening_tests::*;
use super::pending_effects;
use super::world_tests::*;
use crate::command::{ChangeSession, Command, Input, Inspection, Reject, Report};
use crate::effect::Effect;
use crate::event::*;
use crate::ids::CallId;
use crate::recover::Found;
use std::collections::BTreeMap;

/// A world in which the model wants these tools, and every owed inspection found nothing special.
fn wanted(setup: &Setup, tools: &[&str]) -> World {
    let mut world = World::new(setup);
    world.send("do it", Delivery::Queue).unwrap();
    let blocks = tools.iter().map(|tool| world.tool_use(tool, true)).collect();
    world.model_says(blocks, StopClass::ToolUse);
    world.inspect_all([0; 6]);
    world
}

fn count(world: &World, kind: EventKind) -> usize {
    world.log.iter().filter(|event| event.body.kind() == kind).count()
}

fn last_result(world: &World) -> (CallOutcome, String) {
    let result = world.log.iter().rev().find_map(|event| match &event.body {
        EventBody::CallFinished(body) => Some((body.outcome, body.text.clone())),
        _ => None,
    });
    result.expect("a call ended")
}

fn in_question(world: &World, found: &Found) -> BTreeMap<CallId, Found> {
    crate::recover::calls_in_question(&world.live).into_iter().map(|id| (id, found.clone())).collect()
}

fn pause_reason(world: &World) -> Option<PauseReason> {
    world.live.turn.as_ref()?.paused.as_ref().map(|pause| pause.reason)
}

fn workspace() -> Setup {
    Setup { mode: PermissionMode::Workspace, ..Setup::default() }
}

#[test]
fn a_waiting_session_shows_its_request_after_a_restart_and_goes_on_with_the_answer() {
    let mut world = wanted(&Setup::default(), &["run_command"]);
    world.crash_with(&BTreeMap::new());
    assert_eq!((pause_reason(&world), world.open_requests().len()), (None, 1));
    world.answer(true).unwrap();
    assert_eq!(count(&world, EventKind::CallStarted), 1);
}

#[test]
fn a_call_behind_an_open_request_does_not_start_by_itself_after_a_restart() {
    let mut world = World::new(&Setup::default());
    world.send("do it", Delivery::Queue).unwrap();
    let blocks = vec![world.tool_use("read_file", true), world.tool_use("read_file", true)];
    world.model_says(blocks, StopClass::ToolUse);
    let first = pending_effects(&world.live).remove(0);
    // The first read needs a person's word; the second is not inspected yet.
    world.perform(&first, [4; 6]).unwrap();
    assert_eq!(world.open_requests().len(), 1);
    world.crash_with(&BTreeMap::new());
    assert_eq!(pause_reason(&world), Some(PauseReason::Interrupted));
    world.inspect_all([0; 6]);
    assert_eq!(count(&world, EventKind::CallStarted), 0);
}

#[test]
fn a_request_that_expired_while_the_daemon_was_away_starts_nothing() {
    let mut world = wanted(&Setup::default(), &["run_command"]);
    world.now_ms += 100 * 3_600_000;
    world.crash_with(&BTreeMap::new());
    assert_eq!(count(&world, EventKind::ModelCallStarted), 1);
    assert_eq!(pause_reason(&world), Some(PauseReason::Interrupted));
    world.resume(None).unwrap();
    assert_eq!(last_result(&world).0, CallOutcome::Denied);
    assert_eq!(last_result(&world).1, "Not executed: nobody answered in time");
    assert_eq!(count(&world, EventKind::ModelCallStarted), 2);
}

#[test]
fn an_expired_request_is_a_denial() {
    let mut world = wanted(&Setup::default(), &["run_command"]);
    let (request_id, _) = world.open_requests().remove(0);
    world.now_ms += 3_600_000;
    world.input(Input::Timer(crate::command::Timer::RequestExpiry { request_id }), &Origin::Daemon).unwrap();
    assert_eq!(last_result(&world).0, CallOutcome::Denied);
    assert_eq!(count(&world, EventKind::CallStarted), 0);
}

#[test]
fn the_first_answer_wins_and_a_late_one_is_told_who_was_faster() {
    let mut world = wanted(&Setup::default(), &["run_command"]);
    let (request_id, hash) = world.open_requests().remove(0);
    let answer = |shown: &str, scope, decision| Command::Answer {
        request_id: request_id.clone(),
        shown_hash: Some(shown.to_owned()),
        decision,
        scope,
        reason: Some("no".to_owned()),
    };
    let wrong = world.command(answer("other", GrantScope::Once, Verdict::Allow));
    assert!(matches!(wrong, Err(Reject::ShownHashMismatch(_))));
    let wide = world.command(answer(&hash, GrantScope::User, Verdict::Allow));
    assert!(matches!(wide, Err(Reject::ScopeNotOffered(_))));
    world.command(answer(&hash, GrantScope::Once, Verdict::Deny)).unwrap();
    let late = world.command(answer(&hash, GrantScope::Once, Verdict::Allow));
    let Err(Reject::RequestClosed { how, .. }) = late else { panic!("{late:?}") };
    assert!(how.starts_with("denied by test (pid 7"), "{how}");
    assert_eq!(last_result(&world).1, "Not executed: the user denied it: no");
    assert_eq!(count(&world, EventKind::CallStarted), 0);
}

#[test]
fn where_nobody_can_be_asked_it_is_denied_at_once_and_counted() {
    let setup = Setup { attended: false, ..Setup::default() };
    let mut world = wanted(&setup, &["run_command", "write_file"]);
    world.inspect_all([0; 6]);
    world.model_says(vec![text("cannot")], StopClass::EndTurn);
    let EventBody::TurnFinished(end) = &world.log.last().unwrap().body else { panic!() };
    assert_eq!((end.status, end.denied_unattended), (TurnStatus::Completed, 2));
    assert!(last_result(&world).1.contains("nobody can approve"));
}

#[test]
fn a_mode_that_became_stricter_holds_for_what_was_allowed_before() {
    for found in ["never begun", "answered"] {
        let mut world = if found == "answered" {
            wanted(&Setup::default(), &["run_command"])
        } else {
            let mut world = wanted(&workspace(), &["run_command"]);
            assert_eq!(count(&world, EventKind::CallStarted), 1);
            let evidence = Found::NotStarted { evidence: "no job folder".to_owned() };
            world.crash_with(&in_question(&world, &evidence));
            world
        };
        let before = count(&world, EventKind::CallStarted);
        let mode = Some(PermissionMode::ReadOnly);
        world.command(Command::Change(ChangeSession { mode, ..ChangeSession::default() })).unwrap();
        if found == "answered" {
            world.answer(true).unwrap();
        } else {
            world.resume(None).unwrap();
        }
        assert_eq!(count(&world, EventKind::CallStarted), before, "{found}");
        assert_eq!(last_result(&world).0, CallOutcome::Denied, "{found}");
    }
}

#[test]
fn what_never_began_starts_again_without_asking_twice() {
    let mut world = wanted(&Setup::default(), &["run_command"]);
    world.answer(true).unwrap();
    let evidence = Found::NotStarted { evidence: "no job folder".to_owned() };
    world.crash_with(&in_question(&world, &evidence));
    assert_eq!(pause_reason(&world), Some(PauseReason::Interrupted));
    assert_eq!(count(&world, EventKind::CallStarted), 1);
    world.resume(None).unwrap();
    assert_eq!((count(&world, EventKind::CallStarted), count(&world, EventKind::RequestOpened)), (2, 1));
    let EventBody::CallStarted(again) = &world.log.last().unwrap().body else { panic!() };
    assert_eq!(again.attempt, 2);
    assert!(again.job.as_deref().unwrap().ends_with("-2"));
}

#[test]
fn an_unknown_outcome_waits_for_a_person_and_takes_each_word() {
    for (word, outcome) in [
        (CallResolution::Done, Some(CallOutcome::Ok)),
        (CallResolution::Failed, Some(CallOutcome::Error)),
        (CallResolution::Retry, None),
    ] {
        let mut world = wanted(&workspace(), &["run_command"]);
        world.crash_with(&in_question(&world, &Found::Unknown { evidence: "id is dead".to_owned() }));
        assert_eq!(pause_reason(&world), Some(PauseReason::UnknownCall));
        assert!(matches!(world.resume(None), Err(Reject::CallStillUnknown(_))));
        world.send("and?", Delivery::Queue).unwrap();
        assert_eq!(
            pause_reason(&world),
            Some(PauseReason::UnknownCall),
            "an input does not say what became of it"
        );
        world.resume(Some(word)).unwrap();
        match outcome {
            Some(outcome) => assert_eq!(last_result(&world).0, outcome),
            None => assert_eq!(count(&world, EventKind::CallStarted), 2),
        }
    }
}

#[test]
fn an_unknown_outcome_is_told_at_once_where_nobody_attends() {
    for on_restart in [OnRestart::Continue, OnRestart::Wait] {
        let setup = Setup { attended: false, on_restart, ..workspace() };
        let mut world = wanted(&setup, &["run_command"]);
        world.crash_with(&in_question(&world, &Found::Unknown { evidence: "id is dead".to_owned() }));
        assert_eq!(last_result(&world).0, CallOutcome::Unknown);
        assert!(last_result(&world).1.contains("id is dead"));
        if on_restart == OnRestart::Wait {
            assert_eq!(pause_reason(&world), Some(PauseReason::Interrupted));
            world.resume(None).unwrap();
        }
        assert_eq!(count(&world, EventKind::ModelCallStarted), 2);
    }
}

#[test]
fn what_a_person_writes_to_an_interrupted_session_lets_it_go_on() {
    let mut world = World::new(&Setup::default());
    world.send("do it", Delivery::Queue).unwrap();
    world.crash_with(&BTreeMap::new());
    assert_eq!((pause_reason(&world), world.model_call()), (Some(PauseReason::Interrupted), None));
    let EventBody::TurnPaused(pause) = &world.log.last().unwrap().body else { panic!() };
    assert!(pause.next.contains("ask the model again"), "{}", pause.next);
    world.send("go on", Delivery::Queue).unwrap();
    assert!(world.model_call().is_some());
}

#[test]
fn an_accepted_input_survives_the_crash_before_its_turn() {
    for (on_restart, asked) in [(OnRestart::Wait, false), (OnRestart::Continue, true)] {
        let mut world = World::new(&Setup { on_restart, ..Setup::default() });
        world.send("do it", Delivery::Queue).unwrap();
        world.log.truncate(3);
        world.crash_with(&BTreeMap::new());
        assert_eq!(count(&world, EventKind::InputDelivered), 1);
        assert_eq!(world.model_call().is_some(), asked);
    }
}

#[test]
fn facts_gathered_out_of_turn_start_nothing() {
    let mut world = wanted(&workspace(), &["run_command", "run_command"]);
    let second = world.live.turn.as_ref().unwrap().calls[1].call_id.clone();
    let early = Report::Inspected { call_id: second, found: Ok(Box::<Inspection>::default()) };
    assert!(matches!(world.report(early), Err(Reject::Late(_))));
}

#[test]
fn one_call_is_stopped_and_its_siblings_go_on() {
    let mut world = wanted(&workspace(), &["run_command", "read_file"]);
    let call_id = world.live.turn.as_ref().unwrap().calls[0].call_id.clone();
    world
        .command(Command::Interrupt { turn: Some(1), call_id: Some(call_id.clone()), partial_text: None })
        .unwrap();
    assert!(pending_effects(&world.live).contains(&Effect::Stop { call_id }));
    world.rest_calls([4; 6]);
    world.inspect_all([0; 6]);
    assert_eq!(count(&world, EventKind::CallStarted), 2);
    world.rest_calls([0; 6]);
    assert!(world.model_call().is_some());
}

#[test]
fn an_answer_that_could_not_be_sent_back_is_a_failed_attempt() {
    let mut world = wanted(&workspace(), &["read_file"]);
    world.rest_calls([0; 6]);
    let with_raw = |json: &str, block: Block| Block { raw: raw(json), ..block };
    let bad = [
        vec![tool_use("a", "read file", true), with_raw(r#"{"text":"no type"}"#, text("words"))],
        vec![with_raw(
            r#"{"type":"tool_use","id":"b","name":"read_file","input":[]}"#,
            tool_use("b", "read_file", true),
        )],
        vec![with_raw(r#"{"type":"text","text":" "}"#, text("words"))],
    ];
    for blocks in bad {
        let before = count(&world, EventKind::ModelCallFailed);
        world.model_says(blocks, StopClass::ToolUse);
        assert_eq!(count(&world, EventKind::ModelCallFailed), before + 1);
        let EventBody::ModelCallFailed(failed) = &world.log.last().unwrap().body else { break };
        world.now_ms = failed.retry_at_ms.unwrap();
        let again = crate::command::Timer::Retry { model_call_id: failed.model_call_id.clone() };
        world.input(Input::Timer(again), &Origin::Daemon).unwrap();
    }
    // The session is as usable as before.
    world.send("next", Delivery::Queue).unwrap();
    world.model_says(vec![text("fine")], StopClass::EndTurn);
    assert!(world.live.turn.is_none());
}

#[test]
fn ids_that_repeat_or_are_refused_cost_no_attempt() {
    let mut world = wanted(&workspace(), &["read_file"]);
    world.rest_calls([0; 6]);
    let odd = [
        vec![tool_use("toolu_1", "read_file", true)],
        vec![tool_use("a", "read_file", true), tool_use("a", "read_file", true)],
        vec![tool_use("", "read_file", true), tool_use("f.x:0", "read_file", true)],
    ];
    let started = count(&world, EventKind::CallStarted);
    for blocks in odd {
        world.model_says(blocks, StopClass::ToolUse);
        world.inspect_all([0; 6]);
        world.rest_calls([0; 6]);
        assert!(world.model_call().is_some());
    }
    assert_eq!(count(&world, EventKind::ModelCallFailed), 0);
    assert_eq!(count(&world, EventKind::CallStarted), started + 5);
}

#[test]
fn audit_rows_name_who_answered_about_which_call() {
    let mut world = wanted(&Setup::default(), &["run_command"]);
    let before = world.live.clone();
    let from = world.log.len();
    world.answer(true).unwrap();
    let rows = super::audit(&before, &world.live, &world.log[from..]);
    let told: Vec<_> = rows.iter().map(|row| (row.action.as_str(), row.tool.as_deref())).collect();
    assert_eq!(told, [("answered", Some("run_command")), ("started", Some("run_command"))]);
    assert_eq!(rows[0].call_id, rows[1].call_id);
    assert!(rows[0].call_id.is_some());
    assert_eq!(rows[0].actor, "test (pid 7, uid 1000)");
}
