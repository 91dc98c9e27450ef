//! How a turn ends: the stop table of the contract row by row, limits, breakers, interrupts, resumes.

use super::happening_tests::*;
use super::pending_effects;
use super::world_tests::*;
use crate::command::Report;
use crate::effect::Effect;
use crate::event::*;
use crate::recover::Found;
use std::collections::BTreeMap;

/// A world whose first model call is open.
fn asked(setup: &Setup) -> World {
    let mut world = World::new(setup);
    world.send("do it", Delivery::Queue).unwrap();
    assert!(world.model_call().is_some());
    world
}

fn unattended() -> Setup {
    Setup { attended: false, on_restart: OnRestart::Continue, mode: PermissionMode::Full, ..Setup::default() }
}

fn end(world: &World) -> Option<&TurnFinished> {
    world.log.iter().rev().find_map(|event| match &event.body {
        EventBody::TurnFinished(body) => Some(body),
        _ => None,
    })
}

fn status(world: &World) -> Option<TurnStatus> {
    end(world).map(|end| end.status)
}

fn requests(world: &World) -> usize {
    world.log.iter().filter(|event| event.body.kind() == EventKind::ModelCallStarted).count()
}

fn results(world: &World) -> Vec<(CallOutcome, String)> {
    let results = world.log.iter().filter_map(|event| match &event.body {
        EventBody::CallFinished(body) => Some((body.outcome, body.text.clone())),
        _ => None,
    });
    results.collect()
}

fn started(world: &World) -> usize {
    world.log.iter().filter(|event| event.body.kind() == EventKind::CallStarted).count()
}

/// What the next request would say, after the session is told something new.
fn next_body(world: &mut World) -> String {
    world.send("next", Delivery::Queue).unwrap();
    let open =
        world.live.turn.as_ref().and_then(|turn| turn.model.as_ref()).expect("a new turn asks the model");
    let built = crate::prompt::build(&world.live, open.included_seq, open.max_output_tokens).unwrap();
    String::from_utf8(built.body).unwrap()
}

#[test]
fn end_turn_with_text_completes() {
    for class in [StopClass::EndTurn, StopClass::ToolUse] {
        let mut world = asked(&unattended());
        world.model_says(vec![text("done")], class);
        assert_eq!(status(&world), Some(TurnStatus::Completed));
        assert!(end(&world).unwrap().final_model_call.is_some());
    }
}

#[test]
fn an_empty_answer_is_nudged_once_and_then_ends_the_turn() {
    for blocks in [Vec::new(), vec![thinking("hm")], vec![text("  ")]] {
        let mut world = asked(&unattended());
        world.model_says(blocks.clone(), StopClass::EndTurn);
        assert_eq!(status(&world), None);
        assert!(world.log.iter().any(|event| event.body.kind() == EventKind::NoticeAdded));
        world.model_says(blocks, StopClass::EndTurn);
        assert_eq!(status(&world), Some(TurnStatus::Empty));
        assert_eq!(requests(&world), 2);
        let body = next_body(&mut world);
        assert!(!body.contains("hm") && !body.contains("assistant"), "{body}");
    }
}

#[test]
fn complete_calls_decide_and_not_the_stop_word() {
    for class in [StopClass::EndTurn, StopClass::ToolUse, StopClass::PauseTurn] {
        let mut world = asked(&unattended());
        world.model_says(vec![text("I run it"), tool_use("t1", "run_command", true)], class);
        world.inspect_all([0; 6]);
        assert_eq!(started(&world), 1, "{class:?}");
        assert_eq!(status(&world), None);
    }
}

#[test]
fn a_cut_answer_is_asked_for_again_with_more_room_and_none_of_its_calls_runs() {
    let mut world = asked(&unattended());
    let cut =
        || vec![text("so far"), tool_use("t1", "run_command", true), tool_use("t2", "write_file", false)];
    let room = |world: &World| world.live.turn.as_ref().unwrap().model.as_ref().unwrap().max_output_tokens;
    assert_eq!(room(&world), 16_384);
    world.model_says(cut(), StopClass::MaxTokens);
    assert_eq!(room(&world), 32_768);
    world.model_says(cut(), StopClass::MaxTokens);
    assert_eq!(room(&world), 64_000);
    world.model_says(cut(), StopClass::MaxTokens);
    assert_eq!(status(&world), Some(TurnStatus::Truncated));
    assert_eq!((started(&world), results(&world).len()), (0, 2));
    assert!(results(&world).iter().all(|(outcome, text)| {
        *outcome == CallOutcome::Invalid && text.starts_with("Not executed: ") && text.contains("max_tokens")
    }));
    assert_eq!(end(&world).unwrap().stop_raw.as_deref(), Some("max_tokens"));
    let body = next_body(&mut world);
    assert_eq!(body.matches("so far").count(), 1);
}

#[test]
fn an_answer_cut_in_its_thinking_leaves_nothing_that_is_refused_later() {
    let mut world = asked(&unattended());
    for _ in 0..3 {
        world.model_says(vec![thinking("first"), text("so far"), thinking("cut")], StopClass::MaxTokens);
    }
    assert_eq!(status(&world), Some(TurnStatus::Truncated));
    let body = next_body(&mut world);
    assert!(body.contains("first") && body.contains("so far") && !body.contains("cut"), "{body}");
}

#[test]
fn a_refusal_ends_the_turn_is_not_sent_again_and_none_of_its_calls_runs() {
    for blocks in [Vec::new(), vec![text("I will not"), tool_use("t1", "run_command", true)]] {
        let mut world = asked(&unattended());
        world.model_says(blocks, StopClass::Refusal);
        assert_eq!(status(&world), Some(TurnStatus::Refused));
        assert_eq!((requests(&world), started(&world)), (1, 0));
        let body = next_body(&mut world);
        assert!(!body.contains("assistant") && !body.contains("I will not"), "{body}");
    }
}

#[test]
fn pause_turn_is_sent_again_unchanged_five_times_and_then_is_a_limit() {
    let mut world = asked(&unattended());
    for part in 0..6 {
        assert_eq!(status(&world), None, "after {part}");
        world.model_says(vec![text(&format!("part{part}"))], StopClass::PauseTurn);
    }
    assert_eq!(status(&world), Some(TurnStatus::Limit));
    assert_eq!(requests(&world), 6);

    // In between, the parts go back as one message and the loop goes on.
    let mut world = asked(&unattended());
    world.model_says(vec![text("part1")], StopClass::PauseTurn);
    world.model_says(vec![text("part2")], StopClass::EndTurn);
    assert_eq!(status(&world), Some(TurnStatus::Completed));
    let body = next_body(&mut world);
    assert!(body.contains(r#"{"type":"text","text":"part1"},{"type":"text","text":"part2"}"#), "{body}");

    // Somebody who attends may let it go on.
    let mut world = asked(&Setup::default());
    for _ in 0..6 {
        world.model_says(vec![text("part")], StopClass::PauseTurn);
    }
    assert_eq!(world.live.turn.as_ref().unwrap().paused.as_ref().unwrap().reason, PauseReason::Limit);
    world.resume(None).unwrap();
    assert!(world.model_call().is_some());
}

#[test]
fn a_full_window_truncates() {
    let mut world = asked(&unattended());
    world.model_says(vec![text("so far")], StopClass::ContextExceeded);
    assert_eq!(status(&world), Some(TurnStatus::Truncated));
    let mut world = asked(&unattended());
    fail(&mut world, FailureClass::ContextExceeded);
    assert_eq!((status(&world), requests(&world)), (Some(TurnStatus::Truncated), 1));
}

#[test]
fn an_unknown_stop_fails_keeps_the_text_names_the_word_and_runs_nothing() {
    let mut world = asked(&unattended());
    world.model_says(vec![text("kept"), tool_use("t1", "run_command", true)], StopClass::Unknown);
    assert_eq!(status(&world), Some(TurnStatus::Failed));
    assert_eq!(end(&world).unwrap().stop_raw.as_deref(), Some("unknown"));
    assert!(end(&world).unwrap().error.as_deref().unwrap().contains("unknown"));
    assert_eq!((started(&world), results(&world).len()), (0, 1));
    assert!(next_body(&mut world).contains("kept"));
}

fn fail(world: &mut World, class: FailureClass) {
    let model_call_id = world.model_call().expect("a model call is open");
    let mut failure = model_failure(&model_call_id, [1; 6]);
    failure.class = class;
    world.report(Report::ModelFailed(Box::new(failure))).unwrap();
}

/// Lets the next timer come.
fn wake(world: &mut World) {
    let effect =
        pending_effects(&world.live).into_iter().find(|effect| matches!(effect, Effect::Wake { .. }));
    world.perform(&effect.unwrap(), [0; 6]).unwrap();
}

#[test]
fn a_provider_is_tried_again_so_often_and_then_the_turn_ends_and_the_session_goes_on() {
    let mut world = asked(&unattended());
    for _ in 0..2 {
        fail(&mut world, FailureClass::Overloaded);
        assert!(world.model_call().is_none(), "it waits before it tries again");
        wake(&mut world);
    }
    fail(&mut world, FailureClass::Overloaded);
    assert_eq!((status(&world), requests(&world)), (Some(TurnStatus::ProviderFailed), 3));
    assert!(next_body(&mut world).contains("next"));
    for class in [FailureClass::BadRequest, FailureClass::Quota] {
        let mut world = asked(&unattended());
        fail(&mut world, class);
        assert_eq!((status(&world), requests(&world)), (Some(TurnStatus::ProviderFailed), 1));
    }
}

#[test]
fn a_missing_key_pauses_and_any_number_of_resumes_may_mend_it() {
    for setup in [Setup::default(), unattended()] {
        let mut world = asked(&setup);
        a_missing_key_is_mended_in(&mut world);
    }
}

fn a_missing_key_is_mended_in(world: &mut World) {
    for _ in 0..5 {
        fail(world, FailureClass::Credentials);
        assert_eq!(
            world.live.turn.as_ref().unwrap().paused.as_ref().unwrap().reason,
            PauseReason::Credentials
        );
        world.resume(None).unwrap();
    }
    world.model_says(vec![text("at last")], StopClass::EndTurn);
    assert_eq!(status(world), Some(TurnStatus::Completed));
}

#[test]
fn an_interrupt_ends_the_turn_with_what_had_been_shown() {
    let mut world = asked(&Setup::default());
    let from = world.log.len();
    world.interrupt();
    assert_eq!(world.kinds(from), ["interrupt_requested", "model_call_failed", "turn_finished"]);
    let EventBody::ModelCallFailed(failed) = &world.log[from + 1].body else { panic!() };
    assert_eq!(failed.partial_text.as_deref(), Some("half"));
    assert_eq!(status(&world), Some(TurnStatus::Interrupted));
}

#[test]
fn an_interrupt_stops_what_runs_and_every_call_has_its_result() {
    let mut world = asked(&unattended());
    let calls = vec![tool_use("t1", "run_command", true), tool_use("t2", "run_command", true)];
    world.model_says(calls, StopClass::ToolUse);
    world.inspect_all([0; 6]);
    world.interrupt();
    world.interrupt();
    let owed = pending_effects(&world.live);
    // The stop is a signal; the run goes on until it has reported what there was.
    let [run @ Effect::Run { call_id, .. }, Effect::Stop { call_id: stopped }] = owed.as_slice() else {
        panic!("{owed:?}")
    };
    assert_eq!(stopped, call_id);
    world.perform(run, [4, 1, 3, 3, 1, 1]).unwrap();
    assert_eq!(status(&world), Some(TurnStatus::Interrupted));
    assert_eq!(results(&world).len(), 2);
    let body = next_body(&mut world);
    assert_eq!(body.matches("tool_result").count(), 2);
}

#[test]
fn limits_pause_where_somebody_attends_and_stop_where_nobody_does() {
    let mut setup = unattended();
    setup.limits.max_steps = 1;
    let step = |world: &mut World| {
        let call = world_call(world);
        world.model_says(vec![call], StopClass::ToolUse);
        world.inspect_all([0; 6]);
        world.rest_calls([0; 6]);
    };
    let mut world = asked(&setup);
    step(&mut world);
    assert_eq!(status(&world), Some(TurnStatus::Limit));
    assert!(end(&world).unwrap().error.as_deref().unwrap().contains("max_steps"));
    setup.attended = true;
    let mut world = asked(&setup);
    step(&mut world);
    assert_eq!(world.live.turn.as_ref().unwrap().paused.as_ref().unwrap().reason, PauseReason::Limit);
    world.resume(None).unwrap();
    step(&mut world);
    assert_eq!(requests(&world), 2, "one step more, not any number");
    // What is written to it is the word to go on, and is delivered in this turn.
    world.send("go on", Delivery::Steer).unwrap();
    assert_eq!(requests(&world), 3);

    let mut setup = unattended();
    setup.limits.max_cost_micro_usd = 1_000;
    let mut world = asked(&setup);
    step(&mut world);
    assert!(end(&world).unwrap().error.as_deref().unwrap().contains("max_cost_usd"));

    let mut world = asked(&unattended());
    wake(&mut world);
    assert!(end(&world).unwrap().error.as_deref().unwrap().contains("max_minutes"));
}

fn world_call(world: &mut World) -> Block {
    world.tool_use("read_file", true)
}

#[test]
fn the_time_that_people_take_is_not_counted() {
    let mut world = asked(&Setup::default());
    world.model_says(vec![tool_use("t1", "run_command", true)], StopClass::ToolUse);
    world.inspect_all([0; 6]);
    assert_eq!(world.open_requests().len(), 1);
    let deadline = |world: &World| world.live.turn.as_ref().unwrap().deadline_ms(120);
    assert_eq!(deadline(&world), None);
    // A restart pauses nothing that waits for a person only; an answer while paused goes on waiting.
    world.now_ms += 1_000_000;
    world.answer(true).unwrap();
    assert_eq!(deadline(&world), Some(START_MS + 1_000_000 + 120 * 60_000));
    world.crash_with(&BTreeMap::new());
    world.now_ms += 500_000;
    world.resume(Some(CallResolution::Done)).unwrap();
    assert_eq!(deadline(&world), Some(START_MS + 1_500_000 + 120 * 60_000));
}

#[test]
fn the_third_failure_brings_advice_and_the_sixth_ends_the_turn_with_loop() {
    let failing = |world: &mut World, calls: usize| {
        let blocks = (0..calls).map(|_| world_call(world)).collect();
        world.model_says(blocks, StopClass::ToolUse);
        // Inspection finds no such file.
        world.inspect_all([7; 6]);
    };
    let mut world = asked(&unattended());
    for number in 1..=6 {
        assert_eq!(status(&world), None);
        failing(&mut world, 1);
        let (_, text) = results(&world).pop().unwrap();
        assert_eq!(text.contains("failure 3 in a row"), number == 3, "{text}");
        assert_eq!(text.contains("in a row"), number >= 3, "{text}");
    }
    assert_eq!(status(&world), Some(TurnStatus::Loop));

    // Many guesses in one message are one mistake.
    let mut world = asked(&unattended());
    failing(&mut world, 8);
    assert_eq!(status(&world), None);

    // A success begins the count anew.
    let mut world = asked(&unattended());
    for _ in 0..3 {
        for _ in 0..4 {
            failing(&mut world, 1);
        }
        world.model_says(
            vec![tool_use(&format!("ok{}", world.log.len()), "read_file", true)],
            StopClass::ToolUse,
        );
        world.inspect_all([0; 6]);
        world.rest_calls([0; 6]);
    }
    assert_eq!(status(&world), None);
}

#[test]
fn calls_over_the_limit_of_a_message_get_a_result_and_never_run() {
    let mut setup = unattended();
    setup.limits.max_calls_per_message = 2;
    let mut world = asked(&setup);
    let blocks = (0..4).map(|_| world_call(&mut world)).collect();
    world.model_says(blocks, StopClass::ToolUse);
    world.inspect_all([0; 6]);
    world.rest_calls([0; 6]);
    assert_eq!((started(&world), results(&world).len()), (2, 4));
    let refused = "Not executed: more than 2 calls in one message";
    assert_eq!(results(&world).iter().filter(|(_, text)| text == refused).count(), 2);
}

#[test]
fn arguments_that_are_not_whole_never_run_even_if_they_were_taken_for_valid() {
    let mut world = asked(&unattended());
    world.model_says(vec![tool_use("t1", "write_file", false)], StopClass::ToolUse);
    world.inspect_all([0; 6]);
    assert_eq!((started(&world), status(&world)), (0, None));
    let (outcome, text) = results(&world).remove(0);
    assert_eq!((outcome, text.as_str()), (CallOutcome::Invalid, "Invalid arguments for write_file: cut off"));
    assert!(world.model_call().is_some(), "the model is told and goes on");
}

#[test]
fn three_resumes_without_progress_end_the_turn_failed() {
    // Death during the model call.
    let mut world = asked(&unattended());
    for _ in 0..2 {
        world.crash_with(&BTreeMap::new());
        assert!(world.model_call().is_some());
    }
    world.crash_with(&BTreeMap::new());
    assert_eq!((status(&world), requests(&world)), (Some(TurnStatus::Failed), 3));

    // Death of a read that kills the daemon each time it is run.
    let mut world = asked(&unattended());
    world.model_says(vec![tool_use("t1", "read_file", true)], StopClass::ToolUse);
    world.inspect_all([0; 6]);
    for _ in 0..3 {
        assert_eq!(status(&world), None);
        world.crash_with(&BTreeMap::new());
    }
    assert_eq!((status(&world), started(&world)), (Some(TurnStatus::Failed), 3));

    // A finished step in between begins the count anew.
    let mut world = asked(&unattended());
    for _ in 0..4 {
        world.crash_with(&BTreeMap::new());
        let call = world_call(&mut world);
        world.model_says(vec![call], StopClass::ToolUse);
        world.inspect_all([0; 6]);
        world.rest_calls([0; 6]);
        assert_eq!(status(&world), None);
    }

    // A command that runs on through any number of restarts is not stopped for it.
    let mut world = asked(&unattended());
    world.model_says(vec![tool_use("t1", "run_command", true)], StopClass::ToolUse);
    world.inspect_all([0; 6]);
    let call_id = crate::recover::calls_in_question(&world.live).remove(0);
    for _ in 0..5 {
        let running = Found::Running(CallAdopted {
            call_id: call_id.clone(),
            pid: 1,
            start_ticks: 1,
            boot_id: "b".to_owned(),
            bytes_seen: 0,
        });
        world.crash_with(&BTreeMap::from([(call_id.clone(), running)]));
    }
    let owed = pending_effects(&world.live);
    assert!(owed.contains(&Effect::Follow { call_id }), "{owed:?}");
    world.rest_calls([0; 6]);
    assert_eq!(status(&world), None);
    assert!(world.model_call().is_some());
}
