//! What holds of the machine as such, whatever happens: no panic, no holes, the fold is the state, every crash is
//! recovered from, a repetition adds nothing.

use super::world_tests::*;
use super::{Session, pending_effects};
use crate::command::Reject;
use crate::event::{Event, Verdict};
use crate::prompt;
use proptest::prelude::*;

pub(super) fn cases(count: u32) -> ProptestConfig {
    ProptestConfig { cases: count, failure_persistence: None, ..ProptestConfig::default() }
}

fn digest(session: &Session) -> String {
    format!("{session:?}")
}

/// Seeds for what comes to pass after a script.
fn any_seed() -> impl Strategy<Value = u64> {
    any::<u64>()
}

proptest! {
    #![proptest_config(cases(300))]

    #[test]
    fn no_input_in_any_state_panics_and_facts_are_numbered_without_holes(
        setup in setup(), steps in steps(60),
    ) {
        let mut world = World::new(&setup);
        for step in &steps {
            let before = world.live.last_seq;
            let _ = world.step(step);
            if !matches!(step, Step::Crash { .. }) {
                prop_assert!(world.live.last_seq >= before);
            }
            prop_assert_eq!(world.live.last_seq, world.log.len() as u64);
        }
        for (at, event) in world.log.iter().enumerate() {
            prop_assert_eq!(event.seq, at as u64 + 1);
        }
        for pair in world.log.windows(2) {
            prop_assert!(pair[0].at_ms <= pair[1].at_ms, "time ran back at {:?}", pair[1]);
        }
    }

    #[test]
    fn the_fold_of_the_log_is_the_live_state(setup in setup(), steps in steps(40)) {
        let mut world = World::new(&setup);
        let mut fold = Session::fold(&world.log);
        for step in &steps {
            let from = world.log.len();
            let _ = world.step(step);
            if matches!(step, Step::Crash { .. }) {
                fold = Session::fold(&world.log);
            } else {
                world.log[from..].iter().for_each(|event| fold.apply(event));
            }
            prop_assert_eq!(digest(&fold), digest(&world.live));
        }
        prop_assert_eq!(digest(&Session::fold(&world.log)), digest(&world.live));
    }

    #[test]
    fn what_is_owed_is_a_function_of_the_log(setup in setup(), steps in steps(40)) {
        let mut world = World::new(&setup);
        for step in &steps {
            let _ = world.step(step);
            let owed = pending_effects(&world.live);
            prop_assert_eq!(&pending_effects(&Session::fold(&world.log)), &owed);
            let mut once = owed.clone();
            once.sort();
            once.dedup();
            prop_assert_eq!(once.len(), owed.len(), "an effect is owed twice");
        }
    }

    #[test]
    fn a_refused_input_changes_nothing(setup in setup(), steps in steps(40)) {
        let mut world = World::new(&setup);
        for step in &steps {
            let before = (world.log.len(), digest(&world.live));
            if let Some(Err(_)) = world.step(step) {
                prop_assert_eq!(before, (world.log.len(), digest(&world.live)));
            }
        }
    }

    #[test]
    fn a_repeated_report_is_late_and_adds_nothing(setup in setup(), steps in steps(40)) {
        let mut world = World::new(&setup);
        for step in &steps {
            let _ = world.step(step);
            let Step::Do { .. } = step else { continue };
            for report in world.reports.clone() {
                let answer = world.input(crate::command::Input::Report(report), &crate::event::Origin::Daemon);
                prop_assert!(matches!(answer, Err(Reject::Late(_))), "{answer:?}");
            }
        }
    }

    #[test]
    fn a_session_comes_to_rest_whatever_was_done_to_it(
        setup in setup(), steps in steps(40), seed in any_seed(),
    ) {
        let mut world = World::lived(&setup, &steps);
        world.rest(seed);
        prop_assert!(world.is_at_rest(), "{:?}", world.live.turn);
    }

    #[test]
    fn a_request_is_the_same_bytes_later_and_after_a_fold(setup in setup(), steps in steps(60)) {
        let world = World::lived(&setup, &steps);
        let mut fold = Session::empty();
        for event in &world.log {
            let epoch = fold.epoch.as_ref().map(|epoch| epoch.epoch);
            fold.apply(event);
            let crate::event::EventBody::ModelCallStarted(body) = &event.body else { continue };
            prop_assert_eq!(epoch, Some(body.epoch));
            let then = prompt::build(&fold, body.included_seq, body.max_output_tokens).unwrap();
            prop_assert_eq!(&then.hash, &body.request_hash);
            prop_assert_eq!(then.body.len() as u64, body.body_bytes);
            if world.live.epoch.as_ref().map(|epoch| epoch.epoch) == epoch {
                let now = prompt::build(&world.live, body.included_seq, body.max_output_tokens).unwrap();
                prop_assert_eq!(then.body, now.body);
                prop_assert_eq!(then.hash, now.hash);
            }
        }
    }
}

proptest! {
    #![proptest_config(cases(12))]

    #[test]
    fn every_prefix_of_every_log_is_recovered_from(
        setup in setup(), steps in steps(30), dice in any::<Dice>(), seed in any_seed(),
    ) {
        let world = World::lived(&setup, &steps);
        for length in 2..=world.log.len() {
            prefix_recovers(&setup, &world.log[..length], dice, seed)?;
        }
    }
}

fn prefix_recovers(setup: &Setup, log: &[Event], dice: Dice, seed: u64) -> Result<(), TestCaseError> {
    let mut world = World::new(setup);
    world.log = log.to_vec();
    world.now_ms = log.last().map_or(START_MS, |event| event.at_ms);
    world.crash(dice);
    world.rest(seed);
    prop_assert!(world.is_at_rest(), "{:?}", world.live.turn);
    // A person tells a paused turn to go on, as often as it asks.
    for _ in 0..40 {
        if world.live.turn.is_none() {
            break;
        }
        let word = crate::event::CallResolution::ALL[usize::from(dice[0]) % 3];
        prop_assert!(world.resume(Some(word)).is_ok());
        world.rest(seed ^ 5);
    }
    // Limits may ask for ever; a person can always end it.
    if world.live.turn.is_some() {
        world.interrupt();
        world.rest(seed);
    }
    prop_assert_eq!(digest(&Session::fold(&world.log)), digest(&world.live));
    prop_assert!(!world.log.iter().any(|event| matches!(
        &event.body,
        crate::event::EventBody::CallDecided(body) if body.verdict == Verdict::Ask && !world.live.can_ask()
    )));
    Ok(())
}

/// A property that is never put to the test holds of anything. So the scripts are counted.
#[test]
fn scripts_reach_the_rare_corners() {
    use crate::event::*;
    use proptest::strategy::ValueTree;
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let mut seen: std::collections::BTreeMap<String, u32> = std::collections::BTreeMap::new();
    for _ in 0..400 {
        let (setup, steps) = (setup(), steps(60)).new_tree(&mut runner).unwrap().current();
        for event in World::lived(&setup, &steps).log {
            let corner = match &event.body {
                EventBody::CallStarted(body) => {
                    format!("started {} {}", body.effect.as_str(), body.attempt.min(2))
                }
                EventBody::SessionRecovered(body) => {
                    for call in &body.calls {
                        *seen.entry(format!("found {}", call.found)).or_default() += 1;
                    }
                    continue;
                }
                EventBody::TurnPaused(body) => format!("paused {}", body.reason.as_str()),
                EventBody::TurnFinished(body) => format!("ended {}", body.status.as_str()),
                EventBody::RequestClosed(body) => format!("closed {}", body.close.as_str()),
                EventBody::LimitReached(body) => format!("limit {}", body.limit.as_str()),
                EventBody::CallFinished(body) => format!("call {}", body.outcome.as_str()),
                EventBody::CallAdopted(_) => "adopted".to_owned(),
                _ => continue,
            };
            *seen.entry(corner).or_default() += 1;
        }
    }
    let corners = [
        "started read_only 1",
        "started read_only 2",
        "started unsafe 1",
        "started unsafe 2",
        "started idempotent 2",
        "found not_started",
        "found running",
        "found finished",
        "found unknown",
        "adopted",
        "paused interrupted",
        "paused unknown_call",
        "paused limit",
        "paused credentials",
        "ended completed",
        "ended truncated",
        "ended refused",
        "ended limit",
        "ended interrupted",
        "ended provider_failed",
        "ended failed",
        "closed answered",
        "closed expired",
        "closed withdrawn",
        "limit max_steps",
        "limit max_cost_usd",
        "limit max_minutes",
        "limit resumes",
        "call ok",
        "call error",
        "call denied",
        "call invalid",
        "call timed_out",
        "call cancelled",
        "call unknown",
    ];
    for corner in corners {
        assert!(seen.get(corner).is_some_and(|count| *count >= 2), "{corner} is hardly reached: {seen:#?}");
    }
}
