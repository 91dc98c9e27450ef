//! What follows a failed model call: mends, learned bounds, waits, and what was spent.

use super::failed::mended_epoch;
use super::happening_tests::*;
use super::world_tests::*;
use super::{Session, pending_effects};
use crate::command::{Command, Input, ModelFailure, Report, Timer};
use crate::context::ledger;
use crate::event::*;
use crate::ids::ModelCallId;
use crate::limits;
use crate::transcript::{Content, Transcript};
use proptest::prelude::*;

fn unattended() -> Setup {
    Setup {
        attended: false,
        on_restart: OnRestart::Continue,
        mode: PermissionMode::Full,
        limits: TurnLimits::default(),
        ..Setup::default()
    }
}

/// A world whose first model call is open.
fn asked() -> World {
    let mut world = World::new(&unattended());
    world.send("do it", Delivery::Queue).unwrap();
    world
}

/// A world in the middle of a tool loop, whose first answer thought.
fn thought() -> World {
    let mut world = asked();
    world.model_says(vec![thinking("hm"), tool_use("t1", "read_file", true)], StopClass::ToolUse);
    world.inspect_all([0; 6]);
    world.rest_calls([0; 6]);
    assert!(world.model_call().is_some());
    world
}

fn open_call(world: &World) -> ModelCallId {
    world.model_call().expect("a model call is open")
}

fn refuse(world: &mut World, change: impl FnOnce(&mut ModelFailure)) {
    let mut failure = ModelFailure::new(open_call(world), FailureClass::BadRequest, "refused".to_owned());
    failure.http_status = Some(400);
    change(&mut failure);
    world.report(Report::ModelFailed(Box::new(failure))).unwrap();
}

fn failures(world: &World) -> Vec<&ModelCallFailed> {
    let failed = world.log.iter().filter_map(|event| match &event.body {
        EventBody::ModelCallFailed(body) => Some(body),
        _ => None,
    });
    failed.collect()
}

fn starts(world: &World) -> Vec<&ModelCallStarted> {
    let started = world.log.iter().filter_map(|event| match &event.body {
        EventBody::ModelCallStarted(body) => Some(body),
        _ => None,
    });
    started.collect()
}

fn last_end(world: &World) -> (TurnStatus, String) {
    let end = world.live.last_end.as_ref().expect("a turn has ended");
    (end.status, end.error.clone().unwrap_or_default())
}

fn kinds_since(world: &World, from: usize) -> Vec<&'static str> {
    world.log[from..].iter().map(|event| event.body.kind().as_str()).collect()
}

/// The epoch in use, as the chat dialect would have it.
fn as_chat(session: &Session, change: impl FnOnce(&mut ChatForm)) -> Session {
    let mut session = session.clone();
    let mut epoch = (**session.epoch.as_ref().unwrap()).clone();
    epoch.profile.dialect = Dialect::OpenAiChat;
    change(&mut epoch.profile.chat);
    session.epoch = Some(std::sync::Arc::new(epoch));
    // Its answers came in that dialect too: only a model's own thinking goes back to it.
    let mut transcript = Transcript::default();
    for item in session.transcript.iter() {
        let mut item = item.clone();
        if let Content::Assistant { speaker, .. } = &mut item.content {
            std::sync::Arc::make_mut(speaker).dialect = Dialect::OpenAiChat;
        }
        transcript.push(item);
    }
    session.transcript = transcript;
    session
}

#[test]
fn a_bad_signature_strips_thinking_and_asks_again_at_once() {
    let mut world = thought();
    let from = world.log.len();
    refuse(&mut world, |failure| failure.mend = Some(Mend::StripThinking));
    assert_eq!(kinds_since(&world, from), ["model_call_failed", "epoch_started", "model_call_started"]);
    let failed = failures(&world).pop().unwrap().clone();
    assert_eq!((failed.mend, failed.retry_at_ms), (Some(Mend::StripThinking), Some(world.now_ms)));
    let before = world.log[1].body.clone();
    let epoch = world.live.epoch.clone().unwrap();
    let EventBody::EpochStarted(first) = before else { panic!("the second fact is the first epoch") };
    assert_eq!((epoch.epoch, epoch.reason.as_str(), epoch.strip_thinking), (2, "request_mended", true));
    assert_eq!((&epoch.system, epoch.tools.get()), (&first.system, first.tools.get()));
    let open = world.live.turn.as_ref().unwrap().model.clone().unwrap();
    let built = crate::prompt::build(&world.live, open.included_seq, open.max_output_tokens).unwrap();
    let body = String::from_utf8(built.body).unwrap();
    assert!(!body.contains("\"hm\"") && body.contains("\"t1\""), "{body}");
    assert_eq!(starts(&world).pop().unwrap().attempt, 1, "a mend is not an attempt");
}

#[test]
fn a_mend_that_changes_nothing_is_none() {
    for (name, mut world, mend) in [
        ("no thinking is sent", asked(), Mend::StripThinking),
        ("thinking is not asked for", asked(), Mend::OmitThinkingForm),
        ("another dialect has no such field", thought(), Mend::OmitStreamOptions),
        ("another dialect has one name only", thought(), Mend::RenameMaxTokens),
    ] {
        refuse(&mut world, |failure| failure.mend = Some(mend));
        assert_eq!(failures(&world).pop().unwrap().mend, None, "{name}");
        assert_eq!(last_end(&world).0, TurnStatus::ProviderFailed, "{name}");
        assert_eq!(world.live.epoch.as_ref().unwrap().epoch, 1, "{name}");
    }
}

/// Thinking of a model before is not sent to the next, so there is none to strip.
#[test]
fn thinking_of_another_model_is_not_what_is_mended() {
    let chat = as_chat(&thought().live, |_| {});
    assert!(mended_epoch(&chat, Mend::StripThinking).is_some());
    let mut switched = chat;
    let mut epoch = (**switched.epoch.as_ref().unwrap()).clone();
    epoch.profile.model = "another".to_owned();
    switched.epoch = Some(std::sync::Arc::new(epoch));
    assert!(mended_epoch(&switched, Mend::StripThinking).is_none());
}

#[test]
fn the_same_refusal_again_ends_the_turn() {
    let mut world = thought();
    refuse(&mut world, |failure| failure.mend = Some(Mend::StripThinking));
    refuse(&mut world, |failure| failure.mend = Some(Mend::StripThinking));
    assert_eq!(last_end(&world), (TurnStatus::ProviderFailed, "refused".to_owned()));
    assert_eq!(world.live.epoch.as_ref().unwrap().epoch, 2);
    world.send("again", Delivery::Queue).unwrap();
    assert!(world.model_call().is_some(), "the session goes on");
}

#[test]
fn mends_of_the_chat_dialect_change_one_thing_each() {
    let world = thought();
    let chat = as_chat(&world.live, |_| {});
    let after = |mend| mended_epoch(&chat, mend).map(|epoch| epoch.profile.chat);
    let form = ChatForm::default();
    assert_eq!(after(Mend::OmitStreamOptions), Some(ChatForm { stream_options: false, ..form }));
    assert_eq!(
        after(Mend::RenameMaxTokens),
        Some(ChatForm { max_tokens_field: MaxTokensField::MaxCompletionTokens, ..form })
    );
    assert_eq!(after(Mend::StripThinking), Some(ChatForm { reasoning: ReasoningReplay::Never, ..form }));
    let other = as_chat(&world.live, |chat| {
        chat.max_tokens_field = MaxTokensField::MaxCompletionTokens;
        chat.stream_options = false;
        chat.reasoning = ReasoningReplay::Never;
    });
    let back = mended_epoch(&other, Mend::RenameMaxTokens).unwrap();
    assert_eq!(back.profile.chat.max_tokens_field, MaxTokensField::MaxTokens);
    assert!(mended_epoch(&other, Mend::OmitStreamOptions).is_none());
    assert!(mended_epoch(&other, Mend::StripThinking).is_none());
}

#[test]
fn a_mend_is_tried_once_and_holds_for_the_model() {
    let mut world = adaptive();
    refuse(&mut world, |failure| failure.mend = Some(Mend::OmitThinkingForm));
    assert_eq!(world.live.learned.mends, [Mend::OmitThinkingForm]);
    world.model_says(vec![text("done")], StopClass::EndTurn);
    // The shell renders the prefix anew and knows nothing of the mend.
    let mut again = epoch(profile(), "tools_changed");
    again.profile.thinking = ThinkingForm::Adaptive;
    world.command(Command::StartEpoch(Box::new(again.clone()))).unwrap();
    assert_eq!(world.live.epoch.as_ref().unwrap().profile.thinking, ThinkingForm::Omit);
    again.profile.model = "other".to_owned();
    world.command(Command::StartEpoch(Box::new(again))).unwrap();
    assert_eq!(world.live.epoch.as_ref().unwrap().profile.thinking, ThinkingForm::Adaptive);
    assert!(world.live.learned.mends.is_empty());
}

/// A world that asks for thinking and whose first model call is open.
fn adaptive() -> World {
    let mut world = World::new(&unattended());
    let mut first = epoch(profile(), "tools_changed");
    first.profile.thinking = ThinkingForm::Adaptive;
    world.command(Command::StartEpoch(Box::new(first))).unwrap();
    world.send("do it", Delivery::Queue).unwrap();
    world
}

#[test]
fn stripped_thinking_is_not_readmitted_by_a_later_epoch() {
    let mut world = thought();
    refuse(&mut world, |failure| failure.mend = Some(Mend::StripThinking));
    world.model_says(vec![text("done")], StopClass::EndTurn);
    world.command(Command::StartEpoch(Box::new(epoch(profile(), "tools_changed")))).unwrap();
    assert!(world.live.epoch.as_ref().unwrap().strip_thinking);
}

#[test]
fn new_thinking_that_is_refused_can_be_stripped_too() {
    let mut world = thought();
    refuse(&mut world, |failure| failure.mend = Some(Mend::StripThinking));
    world.model_says(vec![thinking("more"), tool_use("t2", "read_file", true)], StopClass::ToolUse);
    world.inspect_all([0; 6]);
    world.rest_calls([0; 6]);
    refuse(&mut world, |failure| failure.mend = Some(Mend::StripThinking));
    assert_eq!(world.live.epoch.as_ref().unwrap().epoch, 3);
    assert!(world.model_call().is_some());
}

#[test]
fn a_log_cut_between_the_refusal_and_the_epoch_comes_out_the_same() {
    let mut world = thought();
    refuse(&mut world, |failure| failure.mend = Some(Mend::StripThinking));
    let at = world.log.iter().rposition(|event| event.body.kind() == EventKind::ModelCallFailed).unwrap();
    for keep in at + 1..=world.log.len() {
        let mut cut = thought();
        refuse(&mut cut, |failure| failure.mend = Some(Mend::StripThinking));
        cut.log.truncate(keep);
        cut.crash([0; 6]);
        let epoch = cut.live.epoch.as_ref().unwrap();
        assert_eq!((epoch.epoch, epoch.reason.as_str()), (2, "request_mended"), "cut at {keep}");
        assert!(cut.model_call().is_some(), "cut at {keep}");
        let epochs = cut.log.iter().filter(|event| event.body.kind() == EventKind::EpochStarted).count();
        assert_eq!(epochs, 2, "cut at {keep}");
    }
}

#[test]
fn an_interrupt_between_them_ends_the_turn() {
    let mut world = thought();
    refuse(&mut world, |failure| failure.mend = Some(Mend::StripThinking));
    world.interrupt();
    assert_eq!(last_end(&world).0, TurnStatus::Interrupted);
}

#[test]
fn attempts_are_counted_across_a_mend() {
    let mut world = thought();
    for _ in 0..2 {
        refuse(&mut world, |failure| failure.class = FailureClass::Server);
        due(&mut world);
    }
    assert_eq!(starts(&world).pop().unwrap().attempt, 3);
    refuse(&mut world, |failure| failure.mend = Some(Mend::StripThinking));
    assert_eq!(starts(&world).pop().unwrap().attempt, 3);
    let failed = failures(&world);
    let said: Vec<(u32, u32)> = failed.iter().map(|failed| (failed.attempt, failed.max_attempts)).collect();
    assert_eq!(said, [(1, 8), (2, 8), (3, 8)]);
}

/// Lets the wait for the next attempt pass.
fn due(world: &mut World) {
    let retry = world.live.turn.as_ref().unwrap().retry.clone().expect("an attempt is waited for");
    world.now_ms = retry.at_ms;
    world.input(Input::Timer(Timer::Retry { model_call_id: retry.model_call_id }), &Origin::Daemon).unwrap();
}

/// A world of a guessed window whose first model call is open.
fn guessed(window: u64, words: usize) -> World {
    let mut world = World::new(&unattended());
    let mut first = epoch(profile(), "tools_changed");
    first.profile.context_window = window;
    first.profile.window_is_guess = true;
    first.profile.max_output_tokens = 16_384;
    world.command(Command::StartEpoch(Box::new(first))).unwrap();
    world.send(&"word ".repeat(words), Delivery::Queue).unwrap();
    world
}

fn too_long(world: &mut World, window: Option<u64>) {
    refuse(world, |failure| {
        failure.class = FailureClass::ContextExceeded;
        failure.message = "too long".to_owned();
        failure.learned_window = window;
    });
}

#[test]
fn a_conversation_that_is_too_long_ends_truncated_with_a_way_out() {
    let mut world = guessed(100_000, 10_000);
    too_long(&mut world, Some(8_192));
    let (status, error) = last_end(&world);
    assert_eq!(status, TurnStatus::Truncated);
    assert!(error.contains("window is 8192 tokens") && error.contains("larger window"), "{error}");
    assert_eq!(failures(&world).len(), 1, "it is not tried again");
    let mut untold = guessed(100_000, 10_000);
    too_long(&mut untold, None);
    assert!(!last_end(&untold).1.contains("window is"), "a guess is not said");
    assert_eq!(world.live.context_window(), 8_192);
    assert_eq!(ledger(&world.live).unwrap().window_tokens, 8_192);
    world.send("short", Delivery::Queue).unwrap();
    let asked = starts(&world).pop().unwrap().max_output_tokens;
    assert!(asked <= 2_048, "a quarter of the window, not {asked}");
}

#[test]
fn an_error_is_believed_where_we_guessed_or_hoped() {
    // Window of the profile, whether it is a guess, the named one, the one in use.
    for (window, is_guess, named, expected) in [
        (32_768, true, Some(8_192), 8_192),
        (32_768, true, Some(131_072), 131_072),
        (200_000, false, Some(100_000), 100_000),
        (8_192, false, Some(131_072), 8_192),
        (32_768, true, Some(limits::LEARNED_WINDOW_MIN - 1), 32_768),
        (32_768, true, None, 32_768),
    ] {
        let mut world = guessed(window, 60_000);
        let mut own = epoch(profile(), "tools_changed");
        own.profile.context_window = window;
        own.profile.window_is_guess = is_guess;
        world.live.epoch = Some(std::sync::Arc::new(EpochStarted { epoch: 2, ..own }));
        too_long(&mut world, named);
        assert_eq!(world.live.context_window(), expected, "{window} {is_guess} {named:?}");
        assert_eq!(last_end(&world).0, TurnStatus::Truncated);
    }
}

#[test]
fn another_model_has_not_been_taught() {
    let mut world = guessed(32_768, 60_000);
    too_long(&mut world, Some(8_192));
    world.command(Command::StartEpoch(Box::new(epoch(profile(), "tools_changed")))).unwrap();
    assert_eq!(world.live.context_window(), 8_192, "the same model");
    let mut other = epoch(profile(), "model_changed");
    other.profile.model = "other".to_owned();
    world.command(Command::StartEpoch(Box::new(other))).unwrap();
    assert_eq!(world.live.context_window(), 100_000);
}

#[test]
fn less_is_asked_for_where_only_the_answer_did_not_fit() {
    let mut world = guessed(100_000, 3_000);
    let first = starts(&world).pop().unwrap().clone();
    assert!((first.est_tokens, first.max_output_tokens) > (4_000, 8_000), "{first:?}");
    too_long(&mut world, Some(8_192));
    let second = starts(&world).pop().unwrap().clone();
    assert_eq!(second.attempt, 2);
    assert!(second.est_tokens + u64::from(second.max_output_tokens) <= 8_192, "{second:?}");
    assert!(second.max_output_tokens >= 1_024, "{second:?}");
    too_long(&mut world, Some(8_192));
    assert_eq!(last_end(&world).0, TurnStatus::Truncated, "once");
}

#[test]
fn the_most_that_a_model_writes_is_learned() {
    let mut world = asked();
    let first = starts(&world).pop().unwrap().max_output_tokens;
    refuse(&mut world, |failure| failure.learned_output = Some(4_096));
    assert!(first > 4_096);
    assert_eq!(starts(&world).pop().unwrap().max_output_tokens, 4_096);
    refuse(&mut world, |failure| failure.learned_output = Some(4_096));
    assert_eq!(last_end(&world).0, TurnStatus::ProviderFailed, "it was asked for less, in vain");
    world.send("again", Delivery::Queue).unwrap();
    assert_eq!(starts(&world).pop().unwrap().max_output_tokens, 4_096);
}

#[test]
fn what_ends_the_attempts_is_said() {
    let mut world = asked();
    refuse(&mut world, |failure| {
        failure.class = FailureClass::RateLimited;
        failure.retry_after_ms = Some(3_600_000);
    });
    assert_eq!(
        last_end(&world).1,
        "refused. The provider asks to wait 60 min, and a turn waits for 5 min at most; send again then"
    );
    let mut world = asked();
    for _ in 0..7 {
        refuse(&mut world, |failure| failure.class = FailureClass::Server);
        due(&mut world);
    }
    refuse(&mut world, |failure| failure.class = FailureClass::Server);
    assert_eq!(last_end(&world), (TurnStatus::ProviderFailed, "refused (attempt 8 of 8)".to_owned()));
}

#[test]
fn the_servers_word_is_heard() {
    let mut world = asked();
    refuse(&mut world, |failure| failure.should_retry = Some(true));
    assert!(pending_effects(&world.live).iter().any(|effect| format!("{effect:?}").contains("Retry")));
    due(&mut world);
    refuse(&mut world, |failure| {
        failure.class = FailureClass::Server;
        failure.should_retry = Some(false);
    });
    assert_eq!(last_end(&world).0, TurnStatus::ProviderFailed);
}

#[test]
fn an_answer_that_could_not_be_kept_is_paid_for() {
    let mut world = thought();
    let (before, cost) = (world.live.usage, world.live.cost_micro_usd);
    world.model_says(vec![unsendable_use("t2", "read_file")], StopClass::ToolUse);
    let failed = failures(&world).pop().unwrap().clone();
    let used = failed.usage.expect("the provider reported it");
    assert_eq!(
        (failed.class, used.output_tokens, failed.cost_micro_usd),
        (FailureClass::Malformed, 100, 1_000)
    );
    assert_eq!(world.live.usage, before.plus(used));
    assert_eq!(world.live.cost_micro_usd, cost + 1_000);
    let turn = world.live.turn.as_ref().unwrap();
    assert_eq!((turn.usage, turn.cost_micro_usd), (world.live.usage, world.live.cost_micro_usd));
}

/// A failure of any kind, with anything that it may teach.
fn any_failure() -> impl Strategy<Value = ModelFailure> {
    let mends = [Mend::StripThinking, Mend::OmitThinkingForm, Mend::OmitStreamOptions, Mend::RenameMaxTokens];
    (
        proptest::sample::select(FailureClass::ALL),
        proptest::option::of(proptest::sample::select(mends.to_vec())),
        proptest::option::of(0..200_000_u64),
        proptest::option::of(0..20_000_u32),
        proptest::option::weighted(0.2, any::<bool>()),
        proptest::option::weighted(0.2, 0..400_000_u64),
    )
        .prop_map(|(class, mend, learned_window, learned_output, should_retry, retry_after_ms)| {
            ModelFailure {
                mend,
                learned_window,
                learned_output,
                should_retry,
                retry_after_ms,
                ..ModelFailure::new(ModelCallId::new("m"), class, "it failed".to_owned())
            }
        })
}

proptest! {
    #![proptest_config(super::machine_tests::cases(200))]

    #[test]
    fn whatever_a_server_refuses_it_is_asked_so_often_and_no_more(
        refusals in proptest::collection::vec(any_failure(), 40..60), thinks in any::<bool>(),
    ) {
        let mut world = if thinks { thought() } else { adaptive() };
        let before = starts(&world).len();
        let mut smaller = u32::MAX;
        for refusal in refusals {
            let Some(model_call_id) = world.model_call() else { break };
            world.report(Report::ModelFailed(Box::new(ModelFailure { model_call_id, ..refusal }))).unwrap();
            prop_assert_eq!(format!("{:?}", Session::fold(&world.log)), format!("{:?}", &world.live));
            let waits = world.live.turn.as_ref().is_some_and(|turn| turn.retry.is_some());
            if waits {
                due(&mut world);
            }
            let asked = starts(&world).pop().unwrap().max_output_tokens;
            prop_assert!((1..=smaller).contains(&asked), "{} after {}", asked, smaller);
            smaller = asked;
        }
        prop_assert!(world.model_call().is_none());
        // Eight attempts, and each mend of this dialect once.
        let requests = starts(&world).len() - before + 1;
        prop_assert!(requests <= 10, "{} requests", requests);
    }
}

/// Renamed for a refusal that meant something else: the refusal of the other name takes it back, and that is all.
#[test]
fn a_name_that_was_wrongly_changed_is_taken_back_once() {
    let chat = as_chat(&thought().live, |_| {});
    let mut session = chat;
    for (times, expected) in [(0, true), (1, true), (2, false)] {
        session.learned.mends = vec![Mend::RenameMaxTokens; times];
        assert_eq!(super::failed::can_mend(&session, Mend::RenameMaxTokens), expected, "{times}");
    }
}

/// Where the provider made several passes, their sum is paid for, and the last one says how large the conversation is.
#[test]
fn the_last_pass_measures_the_prompt() {
    let mut world = asked();
    let open = world.live.turn.as_ref().unwrap().model.clone().unwrap();
    let mut answer = model_answer(&open.model_call_id, vec![text("done")], StopClass::EndTurn, Vec::new());
    answer.last_prompt_tokens = Some(300);
    world.input(Input::Report(Report::ModelFinished(Box::new(answer))), &Origin::Daemon).unwrap();
    assert_eq!((world.live.token_truth.measured, world.live.usage.input_tokens), (300, 900));
}
