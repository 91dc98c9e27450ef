//! What holds of every log, seen from outside: one result for each call, who may start, what waits, what is sent.

use super::machine_tests::cases;
use super::world_tests::*;
use crate::event::*;
use crate::ids::{CallId, InputId};
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};

/// A log that ended: whatever is open is interrupted at last.
fn ended(setup: &Setup, steps: &[Step], seed: u64) -> World {
    let mut world = World::lived(setup, steps);
    world.rest(seed);
    for _ in 0..70 {
        if world.live.turn.is_none() && world.live.waiting.is_empty() {
            return world;
        }
        world.interrupt();
        world.rest(seed);
    }
    panic!("the session cannot be ended: {:?}", world.live.turn);
}

fn by_call(log: &[Event]) -> BTreeMap<CallId, Vec<&EventBody>> {
    let mut calls: BTreeMap<CallId, Vec<&EventBody>> = BTreeMap::new();
    let mut requests = BTreeMap::new();
    for event in log {
        let call_id = match &event.body {
            EventBody::CallRequested(body) => &body.call_id,
            EventBody::CallValidated(body) => &body.call_id,
            EventBody::CallInspected(body) => &body.call_id,
            EventBody::CallDecided(body) => &body.call_id,
            EventBody::CallStarted(body) => &body.call_id,
            EventBody::CallFinished(body) => &body.call_id,
            EventBody::RequestOpened(body) => {
                requests.insert(body.request_id.clone(), body.call_id.clone());
                &body.call_id
            }
            EventBody::RequestClosed(body) => &requests[&body.request_id],
            _ => continue,
        };
        calls.entry(call_id.clone()).or_default().push(&event.body);
    }
    calls
}

proptest! {
    #![proptest_config(cases(300))]

    #[test]
    fn every_requested_call_has_exactly_one_result(
        setup in setup(), steps in steps(60), seed in any::<u64>(),
    ) {
        let world = ended(&setup, &steps, seed);
        for (call_id, bodies) in by_call(&world.log) {
            prop_assert!(matches!(bodies[0], EventBody::CallRequested(_)), "{:?}", bodies[0]);
            let results = bodies.iter().filter(|body| matches!(body, EventBody::CallFinished(_))).count();
            prop_assert_eq!(results, 1, "{} of {}", results, call_id);
            prop_assert!(matches!(bodies[bodies.len() - 1], EventBody::CallFinished(_)));
        }
    }

    #[test]
    fn a_call_starts_only_when_allowed_and_never_after_a_denial(
        setup in setup(), steps in steps(60), seed in any::<u64>(),
    ) {
        let world = ended(&setup, &steps, seed);
        for bodies in by_call(&world.log).values() {
            let (mut allowed, mut denied, mut whole) = (false, false, false);
            for body in bodies {
                match body {
                    EventBody::CallDecided(body) => {
                        allowed = body.verdict == Verdict::Allow;
                        denied |= body.verdict == Verdict::Deny;
                    }
                    EventBody::RequestClosed(body) => {
                        allowed = body.close == RequestClose::Answered && body.decision == Some(Verdict::Allow);
                        denied |= !allowed;
                    }
                    EventBody::CallRequested(body) => whole = body.complete,
                    EventBody::CallStarted(_) => prop_assert!(allowed && !denied && whole, "{bodies:?}"),
                    EventBody::CallFinished(body) if denied => prop_assert!(
                        matches!(body.outcome, CallOutcome::Denied | CallOutcome::Cancelled), "{bodies:?}"
                    ),
                    _ => {}
                }
            }
        }
    }

    #[test]
    fn an_unsafe_call_starts_again_only_on_evidence_or_a_persons_word(
        setup in setup(), steps in steps(60), seed in any::<u64>(),
    ) {
        let world = ended(&setup, &steps, seed);
        let mut may_start: BTreeSet<CallId> = BTreeSet::new();
        let mut attempts: BTreeMap<CallId, u32> = BTreeMap::new();
        let mut repeated: BTreeMap<CallId, u32> = BTreeMap::new();
        for event in &world.log {
            match &event.body {
                EventBody::CallRequested(body) => {
                    may_start.insert(body.call_id.clone());
                }
                EventBody::CallStarted(body) => {
                    let repeats = body.repeats.is_some() && body.effect != EffectClass::Unsafe;
                    prop_assert!(may_start.remove(&body.call_id) || repeats, "{} was started again", body.call_id);
                    let tries = repeated.entry(body.call_id.clone()).or_default();
                    *tries += u32::from(repeats);
                    prop_assert!(*tries <= crate::limits::TOOL_RETRIES_MAX, "{} was tried too often", body.call_id);
                    let attempt = attempts.entry(body.call_id.clone()).or_default();
                    *attempt += 1;
                    prop_assert_eq!(body.attempt, *attempt);
                }
                EventBody::SessionRecovered(body) => {
                    let never = body.calls.iter().filter(|call| call.found == "not_started");
                    may_start.extend(never.map(|call| call.call_id.clone()));
                }
                EventBody::TurnResumed(body) => {
                    let said = body.resolutions.iter().filter(|said| said.resolution == CallResolution::Retry);
                    may_start.extend(said.map(|said| said.call_id.clone()));
                }
                _ => {}
            }
        }
    }

    #[test]
    fn calls_that_change_something_run_alone_and_in_order(
        setup in setup(), steps in steps(60), seed in any::<u64>(),
    ) {
        let world = ended(&setup, &steps, seed);
        let mut order: Vec<CallId> = Vec::new();
        let mut finished: BTreeSet<CallId> = BTreeSet::new();
        let mut running: BTreeMap<CallId, EffectClass> = BTreeMap::new();
        for event in &world.log {
            match &event.body {
                EventBody::ModelCallFinished(_) => order.clear(),
                EventBody::CallRequested(body) => order.push(body.call_id.clone()),
                EventBody::CallStarted(body) => {
                    // A further try stands where the one before stood.
                    if body.repeats.is_some() {
                        running.remove(&body.call_id);
                    }
                    let reads = running.values().all(|effect| *effect == EffectClass::ReadOnly);
                    if body.effect == EffectClass::ReadOnly {
                        prop_assert!(reads);
                        prop_assert!(running.len() < setup.limits.parallel_read_only.max(1) as usize);
                    } else {
                        prop_assert!(running.is_empty());
                        let before = order.iter().take_while(|call_id| **call_id != body.call_id);
                        prop_assert!(before.clone().all(|call_id| finished.contains(call_id)));
                    }
                    running.insert(body.call_id.clone(), body.effect);
                }
                EventBody::SessionRecovered(body) => {
                    for call in body.calls.iter().filter(|call| call.found != "running" && call.found != "finished") {
                        running.remove(&call.call_id);
                    }
                }
                EventBody::CallFinished(body) => {
                    running.remove(&body.call_id);
                    finished.insert(body.call_id.clone());
                }
                _ => {}
            }
        }
        prop_assert!(running.is_empty());
    }

    #[test]
    fn an_interrupted_turn_ends_and_asks_no_model_again(
        setup in setup(), steps in steps(60), seed in any::<u64>(),
    ) {
        let world = ended(&setup, &steps, seed);
        let mut interrupted = None;
        for event in &world.log {
            match &event.body {
                EventBody::InterruptRequested(body) if body.call_id.is_none() => interrupted = event.turn,
                EventBody::TurnFinished(body) => {
                    let was = interrupted.take();
                    prop_assert!(was.is_none() || body.status == TurnStatus::Interrupted, "{body:?}");
                }
                EventBody::ModelCallStarted(_) | EventBody::CallStarted(_) | EventBody::TurnPaused(_) => {
                    prop_assert_eq!(interrupted, None, "{:?} in an interrupted turn", event.body);
                }
                _ => {}
            }
        }
        prop_assert_eq!(interrupted, None);
    }

    #[test]
    fn a_waiting_session_starts_nothing_before_a_person_says_so(
        mut setup in setup(), steps in steps(60), seed in any::<u64>(),
    ) {
        setup.attended = true;
        setup.on_restart = OnRestart::Wait;
        let world = ended(&setup, &steps, seed);
        let mut since: Option<i64> = None;
        for event in &world.log {
            match &event.body {
                EventBody::SessionRecovered(_) => since = Some(event.at_ms),
                // A person who stops one of its calls has spoken too.
                EventBody::TurnResumed(_) | EventBody::TurnFinished(_) | EventBody::InterruptRequested(_) => {
                    since = None;
                }
                EventBody::RequestClosed(body) => match body.close {
                    RequestClose::Answered => since = None,
                    // What expires in the running daemon is an answer; what had expired before it came up is not.
                    _ => since = since.filter(|at_ms| event.at_ms <= *at_ms),
                },
                EventBody::ModelCallStarted(_) | EventBody::CallStarted(_) => {
                    prop_assert_eq!(since, None, "{:?}", event.body);
                }
                _ => {}
            }
        }
    }

    #[test]
    fn an_accepted_input_is_delivered_once_or_taken_back(
        setup in setup(), steps in steps(60), seed in any::<u64>(),
    ) {
        let world = ended(&setup, &steps, seed);
        let mut ends: BTreeMap<InputId, u32> = BTreeMap::new();
        for event in &world.log {
            match &event.body {
                EventBody::InputAccepted(body) => {
                    ends.insert(body.input_id.clone(), 0);
                }
                EventBody::InputDelivered(InputDelivered { input_id, .. })
                | EventBody::InputWithdrawn(InputWithdrawn { input_id, .. }) => {
                    *ends.get_mut(input_id).unwrap() += 1;
                }
                _ => {}
            }
        }
        for (input_id, count) in ends {
            prop_assert_eq!(count, 1, "{} came to {} ends", input_id, count);
        }
    }

    #[test]
    fn nobody_is_asked_where_nobody_answers(
        mut setup in setup(), steps in steps(60), seed in any::<u64>(),
    ) {
        setup.attended = false;
        setup.approvals_wait = false;
        let world = ended(&setup, &steps, seed);
        let mut denied: BTreeSet<CallId> = BTreeSet::new();
        let mut count = 0;
        for event in &world.log {
            match &event.body {
                EventBody::RequestOpened(_) => prop_assert!(false, "a person was asked"),
                // A key can be brought by any client.
                EventBody::TurnPaused(body) => prop_assert!(
                    matches!(body.reason, PauseReason::Interrupted | PauseReason::Credentials),
                    "{:?}",
                    body.reason
                ),
                EventBody::CallDecided(body) if body.unattended => {
                    prop_assert_eq!(body.verdict, Verdict::Deny);
                    denied.insert(body.call_id.clone());
                }
                EventBody::CallFinished(body) if body.outcome == CallOutcome::Denied => {
                    count += u32::from(denied.contains(&body.call_id));
                }
                EventBody::TurnStarted(_) => count = 0,
                EventBody::TurnFinished(body) => prop_assert_eq!(body.denied_unattended, count),
                _ => {}
            }
        }
    }

    #[test]
    fn limits_hold_and_are_named(setup in setup(), steps in steps(60), seed in any::<u64>()) {
        let world = ended(&setup, &steps, seed);
        let mut steps = 0;
        let mut reached: Option<&LimitReached> = None;
        for event in &world.log {
            match &event.body {
                EventBody::TurnStarted(_) => (steps, reached) = (0, None),
                EventBody::TurnResumed(body) => {
                    reached = None;
                    if body.limits_extended {
                        steps = 0;
                    }
                }
                EventBody::ModelCallStarted(_) => {
                    prop_assert!(steps < setup.limits.max_steps, "a step over the limit");
                    prop_assert!(reached.is_none(), "{reached:?} was passed over");
                }
                EventBody::ModelCallFinished(_) => steps += 1,
                EventBody::LimitReached(body) => {
                    prop_assert_eq!(
                        body.action == "stop",
                        !setup.attended || body.limit == LimitName::Resumes
                    );
                    reached = Some(body);
                }
                EventBody::TurnFinished(body) if body.status != TurnStatus::Interrupted => {
                    if let Some(limit) = reached.filter(|limit| limit.action == "stop") {
                        let status = match limit.limit {
                            LimitName::RepeatedFailures => TurnStatus::Loop,
                            LimitName::Resumes => TurnStatus::Failed,
                            _ => TurnStatus::Limit,
                        };
                        prop_assert_eq!(body.status, status);
                    }
                }
                _ => {}
            }
        }
    }

    #[test]
    fn a_model_call_is_tried_so_often_and_no_more(
        setup in setup(), steps in steps(60), seed in any::<u64>(),
    ) {
        let world = ended(&setup, &steps, seed);
        let mut resumes = 0;
        let mut failures = 0;
        for event in &world.log {
            match &event.body {
                EventBody::ModelCallFailed(body) => match body.class {
                    FailureClass::Interrupted => {}
                    // Another request, and not one more attempt at the same; it is bounded by what it changes.
                    _ if body.mend.is_some() => {}
                    _ => {
                        failures += 1;
                        prop_assert!(body.retry_at_ms.is_none() || failures < setup.limits.retry_max_attempts);
                        if body.retry_at_ms.is_none() {
                            failures = 0;
                        }
                    }
                },
                EventBody::ModelCallFinished(_) | EventBody::CallFinished(_) => (failures, resumes) = (0, 0),
                EventBody::TurnStarted(_) => (failures, resumes) = (0, 0),
                EventBody::TurnResumed(body) => {
                    prop_assert!(body.resume_count <= resumes + 1);
                    resumes = body.resume_count;
                }
                EventBody::ModelCallStarted(_) => prop_assert!(resumes < 3, "resumed {resumes} times"),
                _ => {}
            }
        }
    }
}
