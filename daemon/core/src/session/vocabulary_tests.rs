//! The words of events are the words of the documents, and a stored body comes back as it was.

use super::Session;
use super::happening_tests::*;
use super::world_tests::*;
use crate::event::*;
use crate::ids::*;
use crate::path_bytes::PathBytes;
use crate::prompt;
use std::collections::BTreeSet;

/// The kinds in snake_case, as the outside relies on them.
const NAMES: &[&str] = &[
    "session_created",
    "session_changed",
    "grant_added",
    "input_accepted",
    "input_withdrawn",
    "turn_started",
    "input_delivered",
    "turn_paused",
    "turn_resumed",
    "turn_finished",
    "history_moved",
    "epoch_started",
    "epoch_reverted",
    "compaction_refused",
    "notice_added",
    "pin_changed",
    "model_call_started",
    "model_call_finished",
    "model_call_failed",
    "call_requested",
    "call_validated",
    "call_inspected",
    "call_decided",
    "request_opened",
    "request_closed",
    "call_started",
    "call_adopted",
    "call_finished",
    "files_changed",
    "job_finished",
    "artifact_stored",
    "child_linked",
    "limit_reached",
    "guard_fired",
    "session_recovered",
    "interrupt_requested",
];

#[test]
fn kinds_have_the_names_of_the_documents() {
    let names: BTreeSet<&str> = EventKind::ALL.iter().map(|kind| kind.as_str()).collect();
    assert_eq!(names, NAMES.iter().copied().collect());
    for kind in EventKind::ALL {
        assert_eq!(EventKind::from_name(kind.as_str()), Some(*kind));
    }
    let adding: Vec<&str> =
        EventKind::ALL.iter().filter(|kind| kind.adds_content()).map(|kind| kind.as_str()).collect();
    assert_eq!(
        adding,
        ["input_delivered", "epoch_started", "notice_added", "model_call_finished", "call_finished"]
    );
}

#[test]
fn words_outside_are_the_words_of_the_contract() {
    fn all<T: Copy>(words: &[T], as_str: fn(T) -> &'static str) -> Vec<&'static str> {
        words.iter().map(|word| as_str(*word)).collect()
    }
    assert_eq!(all(PermissionMode::ALL, PermissionMode::as_str), ["read-only", "ask", "workspace", "full"]);
    assert_eq!(
        all(TurnStatus::ALL, TurnStatus::as_str),
        [
            "completed",
            "empty",
            "truncated",
            "refused",
            "limit",
            "loop",
            "interrupted",
            "provider_failed",
            "failed"
        ]
    );
    assert_eq!(
        all(CallOutcome::ALL, CallOutcome::as_str),
        ["ok", "error", "denied", "invalid", "timed_out", "cancelled", "unknown"]
    );
    assert_eq!(all(GrantScope::ALL, GrantScope::as_str), ["once", "session", "project", "user"]);
    assert_eq!(all(CallResolution::ALL, CallResolution::as_str), ["done", "retry", "failed"]);
    assert_eq!(all(OnRestart::ALL, OnRestart::as_str), ["wait", "continue"]);
    assert_eq!(all(EffectClass::ALL, EffectClass::as_str), ["read_only", "idempotent", "unsafe"]);
    assert_eq!(all(Verdict::ALL, Verdict::as_str), ["allow", "ask", "deny"]);
    assert_eq!(all(RequestKind::ALL, RequestKind::as_str), ["approval", "question", "elicitation"]);
}

/// Bodies that a scripted life does not write.
fn rare() -> Vec<EventBody> {
    let call_id = CallId::new("c_1");
    vec![
        GrantAdded {
            grant_id: GrantId::new("g_1"),
            tool: "run_command".to_owned(),
            matcher: "make".to_owned(),
            decision: Verdict::Allow,
            scope: GrantScope::Session,
            request_id: None,
            expires_at_ms: Some(1),
        }
        .into(),
        HistoryMoved { direction: "undo".to_owned(), from_turn: 2, to_turn: 1, files: Vec::new() }.into(),
        EpochReverted { epoch: 2 }.into(),
        CompactionRefused { why: "larger".to_owned(), missing: vec!["plan".to_owned()] }.into(),
        PinChanged {
            pin_id: "p".to_owned(),
            kind: "plan".to_owned(),
            text: "a plan".to_owned(),
            removed: false,
        }
        .into(),
        JobFinished { job_id: "j".to_owned(), call_id: call_id.clone(), exit_code: Some(0), artifact: None }
            .into(),
        ChildLinked { child: SessionId::new("s_2"), call_id, purpose: "look".to_owned() }.into(),
        GuardFired {
            guard: "g".to_owned(),
            point: "before".to_owned(),
            verdict: "ok".to_owned(),
            note: "n".to_owned(),
        }
        .into(),
        SessionChanged { name: Some("n".to_owned()), ..SessionChanged::default() }.into(),
        InputWithdrawn { input_id: InputId::new("i_1"), reason: "taken back".to_owned() }.into(),
    ]
}

/// One life after another until every kind was written.
fn one_of_each() -> Vec<EventBody> {
    use proptest::strategy::{Strategy, ValueTree};
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let mut bodies: std::collections::BTreeMap<EventKind, EventBody> =
        rare().into_iter().map(|body| (body.kind(), body)).collect();
    for _ in 0..400 {
        if bodies.len() == EventKind::ALL.len() {
            break;
        }
        let (setup, steps) = (setup(), steps(60)).new_tree(&mut runner).unwrap().current();
        for event in World::lived(&setup, &steps).log {
            bodies.entry(event.body.kind()).or_insert(event.body);
        }
    }
    bodies.into_values().collect()
}

#[test]
fn a_stored_body_of_every_kind_comes_back_as_it_was() {
    let bodies = one_of_each();
    let seen: BTreeSet<EventKind> = bodies.iter().map(EventBody::kind).collect();
    assert_eq!(seen, EventKind::ALL.iter().copied().collect(), "a kind that no script writes");
    for body in bodies {
        let kind = body.kind();
        let stored = body.encode().unwrap();
        let read = EventBody::decode(kind.as_str(), kind.version(), &stored).unwrap();
        assert_eq!(read.kind(), kind);
        assert_eq!(read.encode().unwrap(), stored);
        assert_eq!(format!("{read:?}"), format!("{body:?}"));
        let newer = EventBody::decode(kind.as_str(), kind.version() + 1, &stored);
        assert!(matches!(newer, Err(EventDecodeError::NewerVersion { .. })));
        assert!(EventBody::decode(kind.as_str(), kind.version(), "7").is_err());
    }
    assert!(matches!(EventBody::decode("no_such", 1, "{}"), Err(EventDecodeError::UnknownKind(_))));
}

#[test]
fn bytes_of_the_provider_are_stored_and_read_unchanged() {
    let odd = r#"{"type":"tool_use","input":{"b":1.0,"a":1e2,"a ":"\u00e9"},"id":"t","name":"n"}"#;
    let mut block = text("x");
    block.raw = raw(odd);
    let body = EventBody::from(ModelCallFinished {
        model_call_id: ModelCallId::new("m"),
        blocks: vec![block],
        stop: Stop { raw: None, class: StopClass::EndTurn, explanation: None },
        usage: Usage::default(),
        usage_raw: None,
        usage_reported: false,
        provider_message_id: None,
        provider_request_id: None,
        cost_micro_usd: 0,
        checks: Vec::new(),
        warnings: Vec::new(),
        last_prompt_tokens: None,
    });
    let stored = body.encode().unwrap();
    let EventBody::ModelCallFinished(read) = EventBody::decode("model_call_finished", 1, &stored).unwrap()
    else {
        panic!()
    };
    assert_eq!(read.blocks[0].raw.get(), odd);
}

#[test]
fn a_kind_that_adds_nothing_leaves_the_request_alone_in_any_state() {
    let mut world = World::new(&Setup::default());
    world.send("do it", Delivery::Queue).unwrap();
    let call = world.tool_use("read_file", true);
    world.model_says(vec![text("a"), call], StopClass::ToolUse);
    let bodies = one_of_each();
    for length in 2..=world.log.len() {
        let state = Session::fold(&world.log[..length]);
        let before = prompt::unmarked_body(&state, u64::MAX, 1_000);
        for body in bodies.iter().filter(|body| !body.kind().adds_content()) {
            let mut after = state.clone();
            let event = Event {
                seq: state.last_seq + 1,
                at_ms: START_MS,
                turn: Some(1),
                origin: Origin::Daemon,
                body: body.clone(),
            };
            after.apply(&event);
            assert_eq!(prompt::unmarked_body(&after, u64::MAX, 1_000), before, "{:?}", body.kind());
        }
    }
}

#[test]
fn every_file_the_model_saw_is_known_by_its_content() {
    let mut world = World::new(&Setup { mode: PermissionMode::Full, ..Setup::default() });
    world.send("do it", Delivery::Queue).unwrap();
    let call = world.tool_use("read_file", true);
    world.model_says(vec![call], StopClass::ToolUse);
    world.inspect_all([0; 6]);
    world.rest_calls([0, 1, 2, 0, 0, 0]);
    assert_eq!(world.live.seen_files.get(&PathBytes::new("/w/a")).map(String::as_str), Some("h"));
}
