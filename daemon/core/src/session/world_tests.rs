//! A scripted world around the state machine: inputs, effects that come to something, crashes at any event.
//!
//! Everything is chosen by small numbers, so that a failing case shrinks to a short script. The world performs only
//! effects that are owed, crashes at any event of the log (not only where a batch ended), and gathers evidence
//! that fits what the log says.

use super::happening_tests::*;
use super::{Decision, Session, decide, pending_effects};
use crate::call::Stage;
use crate::command::*;
use crate::effect::Effect;
use crate::event::*;
use crate::ids::{CallId, ClientId, InputId, ModelCallId, RequestId, RunId, SessionId, Stamp};
use crate::path_bytes::PathBytes;
use crate::recover::{Found, calls_in_question, recover};
use proptest::prelude::*;
use std::collections::BTreeMap;

/// Numbers from which one happening is made.
pub(super) type Dice = [u8; 6];

/// One thing that happens.
#[derive(Clone, Debug)]
pub(super) enum Step {
    Send {
        steer: bool,
        what: u8,
    },
    Withdraw(u8),
    InterruptTurn(u8),
    InterruptCall(u8),
    Answer {
        which: u8,
        allow: bool,
        odd: u8,
    },
    Resume {
        words: u8,
        extend: bool,
        odd: u8,
    },
    Change(u8),
    Jump(i32),
    /// An owed effect comes to something.
    Do {
        which: u8,
        dice: Dice,
    },
    /// A report comes again.
    Repeat(u8),
    /// The daemon dies and starts; the last `lost` events never reached the disk.
    Crash {
        lost: u8,
        dice: Dice,
    },
}

/// How the session was made.
#[derive(Clone, Debug)]
pub(super) struct Setup {
    pub(super) attended: bool,
    pub(super) approvals_wait: bool,
    pub(super) on_restart: OnRestart,
    pub(super) mode: PermissionMode,
    pub(super) limits: TurnLimits,
    pub(super) thinking_stripped: bool,
}

impl Default for Setup {
    fn default() -> Self {
        let limits = TurnLimits {
            retry_max_attempts: 3,
            max_steps: 20,
            parallel_read_only: 2,
            ..TurnLimits::default()
        };
        Self {
            attended: true,
            approvals_wait: false,
            on_restart: OnRestart::Wait,
            mode: PermissionMode::Ask,
            limits,
            thinking_stripped: false,
        }
    }
}

pub(super) fn setup() -> impl Strategy<Value = Setup> {
    let words = (any::<bool>(), any::<bool>(), any::<bool>(), 0..4_usize, any::<bool>());
    let limits = (
        1..5_u32,
        1..5_u32,
        0..4_u32,
        0..4_u32,
        1..4_u32,
        prop_oneof![Just(0_i64), Just(3_000), Just(1 << 40)],
    );
    (words, limits).prop_map(|((attended, approvals_wait, wait, mode, thinking_stripped), limits)| Setup {
        attended,
        approvals_wait,
        on_restart: if wait { OnRestart::Wait } else { OnRestart::Continue },
        mode: PermissionMode::ALL[mode],
        thinking_stripped,
        limits: TurnLimits {
            max_steps: limits.0,
            max_calls_per_message: limits.1,
            parallel_read_only: limits.2,
            retry_max_attempts: limits.3,
            max_minutes: limits.4 * 20,
            max_cost_micro_usd: limits.5,
            ..TurnLimits::default()
        },
    })
}

pub(super) fn steps(at_most: usize) -> impl Strategy<Value = Vec<Step>> {
    prop::collection::vec(step(), 1..at_most)
}

fn step() -> impl Strategy<Value = Step> {
    let dice = any::<Dice>;
    prop_oneof![
        3 => (any::<bool>(), any::<u8>()).prop_map(|(steer, what)| Step::Send { steer, what }),
        1 => any::<u8>().prop_map(Step::Withdraw),
        1 => any::<u8>().prop_map(Step::InterruptTurn),
        1 => any::<u8>().prop_map(Step::InterruptCall),
        2 => (any::<u8>(), any::<bool>(), any::<u8>())
            .prop_map(|(which, allow, odd)| Step::Answer { which, allow, odd }),
        1 => (any::<u8>(), any::<bool>(), any::<u8>())
            .prop_map(|(words, extend, odd)| Step::Resume { words, extend, odd }),
        1 => any::<u8>().prop_map(Step::Change),
        1 => prop_oneof![4 => -300_000..300_000_i32, 1 => -4_000_000..4_000_000_i32].prop_map(Step::Jump),
        40 => (any::<u8>(), dice()).prop_map(|(which, dice)| Step::Do { which, dice }),
        1 => any::<u8>().prop_map(Step::Repeat),
        4 => (any::<u8>(), dice()).prop_map(|(lost, dice)| Step::Crash { lost, dice }),
    ]
}

/// A session and its surroundings.
pub(super) struct World {
    pub(super) live: Session,
    pub(super) log: Vec<Event>,
    pub(super) now_ms: i64,
    /// Reports of this run of the daemon.
    pub(super) reports: Vec<Report>,
    run: u32,
    draws: u64,
    tool_uses: u64,
}

pub(super) const START_MS: i64 = 1_700_000_000_000;

pub(super) fn client() -> Origin {
    Origin::Client { client_id: ClientId::new("k_1"), label: "test".to_owned(), uid: 1000, pid: 7 }
}

pub(super) fn settings(setup: &Setup) -> Settings {
    Settings {
        name: None,
        model: "fake/small".to_owned(),
        mode: setup.mode,
        sandbox: SandboxMode::WorkspaceWrite,
        attended: setup.attended,
        unattended_approvals: if setup.approvals_wait {
            UnattendedApprovals::Wait
        } else {
            UnattendedApprovals::Deny
        },
        approvals_expire_ms: 3_600_000,
        on_restart: setup.on_restart,
        limits: setup.limits.clone(),
    }
}

impl World {
    pub(super) fn new(setup: &Setup) -> Self {
        let mut world = Self {
            live: Session::empty(),
            log: Vec::new(),
            now_ms: START_MS,
            reports: Vec::new(),
            run: 1,
            draws: 0,
            tool_uses: 0,
        };
        let mut first = epoch("created");
        first.strip_thinking = setup.thinking_stripped;
        let create = CreateSession {
            session_id: SessionId::new("s_test"),
            cwd: PathBytes::new("/w"),
            root: PathBytes::new("/w"),
            settings: settings(setup),
            parent: None,
            epoch: first,
        };
        world.command(Command::Create(Box::new(create))).unwrap();
        world
    }

    /// A world that has lived through a script.
    pub(super) fn lived(setup: &Setup, steps: &[Step]) -> Self {
        let mut world = Self::new(setup);
        world.send("begin", Delivery::Queue).unwrap();
        for step in steps {
            let _ = world.step(step);
        }
        world
    }

    pub(super) fn stamp(&mut self) -> Stamp {
        self.draws += 1;
        let mut entropy = [0; 16];
        entropy[..8].copy_from_slice(&self.draws.to_be_bytes());
        Stamp::new(self.now_ms, RunId::new(format!("d_{}", self.run)), entropy)
    }

    fn take(&mut self, decision: Decision) -> usize {
        let count = decision.events.len();
        self.log.extend(decision.events);
        self.live = decision.next;
        count
    }

    /// Facts that an input came to.
    pub(super) fn input(&mut self, input: Input, origin: &Origin) -> Result<usize, Reject> {
        let mut stamp = self.stamp();
        let decision = decide(&self.live, input, origin, &mut stamp)?;
        Ok(self.take(decision))
    }

    pub(super) fn command(&mut self, command: Command) -> Result<usize, Reject> {
        self.input(Input::Command(command), &client())
    }

    pub(super) fn report(&mut self, report: Report) -> Result<usize, Reject> {
        self.reports.push(report.clone());
        self.input(Input::Report(report), &Origin::Daemon)
    }

    pub(super) fn send(&mut self, text: &str, delivery: Delivery) -> Result<usize, Reject> {
        self.command(Command::SendInput { parts: vec![InputPart::Text(text.to_owned())], delivery })
    }

    pub(super) fn interrupt(&mut self) {
        self.command(Command::Interrupt { turn: None, call_id: None, partial_text: Some("half".to_owned()) })
            .unwrap();
    }

    pub(super) fn resume(&mut self, word: Option<CallResolution>) -> Result<usize, Reject> {
        let resolutions = match word {
            None => Vec::new(),
            Some(resolution) => self
                .unknown()
                .into_iter()
                .map(|call_id| ResolveCall { call_id, resolution, text: None })
                .collect(),
        };
        self.command(Command::Resume { resolutions, extend_limits: false })
    }

    pub(super) fn unknown(&self) -> Vec<CallId> {
        let calls = self.live.turn.iter().flat_map(|turn| &turn.calls);
        calls.filter(|call| call.stage == Stage::Unknown).map(|call| call.call_id.clone()).collect()
    }

    /// The requests that are open.
    pub(super) fn open_requests(&self) -> Vec<(RequestId, String)> {
        let calls = self.live.turn.iter().flat_map(|turn| &turn.calls);
        calls
            .filter_map(|call| call.request.as_ref())
            .map(|open| (open.request_id.clone(), open.shown_hash.clone()))
            .collect()
    }

    pub(super) fn answer(&mut self, allow: bool) -> Result<usize, Reject> {
        let (request_id, hash) = self.open_requests().into_iter().next().expect("a request is open");
        self.command(Command::Answer {
            request_id,
            shown_hash: Some(hash),
            decision: if allow { Verdict::Allow } else { Verdict::Deny },
            scope: GrantScope::Once,
            reason: None,
        })
    }

    /// One step of a script. Answers what the machine said; none when there was nothing to do.
    pub(super) fn step(&mut self, step: &Step) -> Option<Result<usize, Reject>> {
        match step {
            Step::Send { steer, what } => {
                let text =
                    ["do it", " ", "and this", "more", "go on", "", "why?", "x"][usize::from(what % 8)];
                Some(self.send(text, if *steer { Delivery::Steer } else { Delivery::Queue }))
            }
            Step::Withdraw(which) => {
                let accepted: Vec<InputId> = self
                    .log
                    .iter()
                    .filter_map(|event| match &event.body {
                        EventBody::InputAccepted(body) => Some(body.input_id.clone()),
                        _ => None,
                    })
                    .collect();
                let input_id = pick(&accepted, *which)?.clone();
                Some(self.command(Command::WithdrawInput { input_id }))
            }
            Step::InterruptTurn(which) => {
                let running = self.live.turn.as_ref().map(|turn| turn.no);
                let turn = match which % 4 {
                    0 => None,
                    1 => Some(self.live.turn_count.saturating_sub(1)),
                    _ => running,
                };
                Some(self.command(Command::Interrupt { turn, call_id: None, partial_text: None }))
            }
            Step::InterruptCall(which) => {
                let calls: Vec<CallId> = self
                    .live
                    .turn
                    .iter()
                    .flat_map(|turn| &turn.calls)
                    .map(|call| call.call_id.clone())
                    .collect();
                let call_id = Some(pick(&calls, *which)?.clone());
                Some(self.command(Command::Interrupt { turn: None, call_id, partial_text: None }))
            }
            Step::Answer { which, allow, odd } => self.odd_answer(*which, *allow, *odd),
            Step::Resume { words, extend, odd } => Some(self.odd_resume(*words, *extend, *odd)),
            Step::Change(what) => Some(self.change(*what)),
            Step::Jump(ms) => {
                self.now_ms += i64::from(*ms);
                Some(self.input(Input::Timer(Timer::TurnTime { turn: 1 }), &Origin::Daemon))
            }
            Step::Do { which, dice } => self.go_on(*which, *dice),
            Step::Repeat(which) => {
                let report = pick(&self.reports, *which)?.clone();
                Some(self.input(Input::Report(report), &Origin::Daemon))
            }
            Step::Crash { lost, dice } => {
                let kept = self.cut(*lost);
                self.log.truncate(kept);
                Some(Ok(self.crash(*dice)))
            }
        }
    }

    /// How much of the log reached the disk: mostly all or nearly all of it, often up to where a call had just
    /// started, sometimes much less.
    fn cut(&self, lost: u8) -> usize {
        let whole = self.log.len();
        let last_start = self.log.iter().rposition(|event| event.body.kind() == EventKind::CallStarted);
        match (lost, last_start) {
            (0..=99, _) => whole - usize::from(lost % 3),
            (100..=199, Some(at)) if whole - at < 16 => at + 1,
            _ => whole - usize::from(lost % 24).min(whole),
        }
        .max(2)
    }

    /// What moves the session most likely: an effect, a person's word, a timer.
    fn go_on(&mut self, which: u8, dice: Dice) -> Option<Result<usize, Reject>> {
        let owed = pending_effects(&self.live);
        let busy: Vec<&Effect> =
            owed.iter().filter(|effect| !matches!(effect, Effect::Wake { .. })).collect();
        if let Some(effect) = pick(&busy, which) {
            return Some(self.perform(&(*effect).clone(), dice));
        }
        if which % 16 == 15 {
            return Some(self.perform(&pick(&owed, which)?.clone(), dice));
        }
        if !self.open_requests().is_empty() {
            return self.odd_answer(dice[0], !dice[1].is_multiple_of(3), dice[2]);
        }
        let retry = owed
            .iter()
            .find(|effect| matches!(effect, Effect::Wake { timer: Timer::Retry { .. }, .. }))
            .cloned();
        if let Some(effect) = retry {
            return Some(self.perform(&effect, dice));
        }
        match &self.live.turn {
            None => Some(self.send("again", Delivery::Queue)),
            Some(turn) if turn.paused.is_some() => {
                Some(self.odd_resume(dice[0], dice[1].is_multiple_of(2), dice[2]))
            }
            Some(_) => Some(self.perform(&pick(&owed, which)?.clone(), dice)),
        }
    }

    fn odd_answer(&mut self, which: u8, allow: bool, odd: u8) -> Option<Result<usize, Reject>> {
        // Mostly an open request, sometimes any that ever was.
        let known: Vec<(RequestId, String)> = if odd.is_multiple_of(4) {
            self.log
                .iter()
                .filter_map(|event| match &event.body {
                    EventBody::RequestOpened(body) => {
                        Some((body.request_id.clone(), body.shown_hash.clone()))
                    }
                    _ => None,
                })
                .collect()
        } else {
            self.open_requests()
        };
        let (request_id, hash) = pick(&known, which)?.clone();
        let shown_hash = match odd % 8 {
            1 => Some("another".to_owned()),
            2 => None,
            _ => Some(hash),
        };
        let scope = if odd % 16 == 9 { GrantScope::User } else { GrantScope::Once };
        let decision = if allow { Verdict::Allow } else { Verdict::Deny };
        let reason = (odd.is_multiple_of(3)).then(|| "because".to_owned());
        Some(self.command(Command::Answer { request_id, shown_hash, decision, scope, reason }))
    }

    fn odd_resume(&mut self, words: u8, extend: bool, odd: u8) -> Result<usize, Reject> {
        let mut resolutions: Vec<ResolveCall> = self
            .unknown()
            .into_iter()
            .enumerate()
            .map(|(at, call_id)| {
                let word = CallResolution::ALL[(usize::from(words) + at) % 3];
                ResolveCall {
                    call_id,
                    resolution: word,
                    text: (words.is_multiple_of(2)).then(|| "seen".to_owned()),
                }
            })
            .collect();
        match odd % 8 {
            0 => resolutions.truncate(0),
            1 => resolutions.push(ResolveCall {
                call_id: CallId::new("c_none"),
                resolution: CallResolution::Retry,
                text: None,
            }),
            _ => {}
        }
        self.command(Command::Resume { resolutions, extend_limits: extend })
    }

    fn change(&mut self, what: u8) -> Result<usize, Reject> {
        let mut change = ChangeSession::default();
        match what % 8 {
            0 => change.name = Some("n".to_owned()),
            1 => change.expected_seq = Some(self.live.last_seq.saturating_sub(1)),
            2 | 3 => change.model = Some(("fake/other".to_owned(), Box::new(epoch("model_changed")))),
            4 => {
                let mut stripped = epoch("tools_changed");
                stripped.strip_thinking = true;
                return self.command(Command::StartEpoch(Box::new(stripped)));
            }
            _ => change.mode = Some(PermissionMode::ALL[usize::from(what / 8) % 4]),
        }
        self.command(Command::Change(change))
    }

    /// The daemon starts again on what the log holds.
    pub(super) fn crash(&mut self, dice: Dice) -> usize {
        self.live = Session::fold(&self.log);
        self.run += 1;
        self.reports.clear();
        self.now_ms += i64::from(dice[5]) * 100;
        let found: BTreeMap<CallId, Found> = calls_in_question(&self.live)
            .into_iter()
            .enumerate()
            .filter_map(|(at, call_id)| {
                let found = self.evidence(&call_id, dice[at % 4].wrapping_add(dice[4]))?;
                Some((call_id, found))
            })
            .collect();
        self.crash_with(&found)
    }

    /// Recovery on given evidence, on the state as it is.
    pub(super) fn crash_with(&mut self, found: &BTreeMap<CallId, Found>) -> usize {
        self.live = Session::fold(&self.log);
        self.run += 1;
        self.reports.clear();
        let mut stamp = self.stamp();
        let decision = recover(&self.live, found, &mut stamp);
        self.take(decision)
    }

    fn evidence(&self, call_id: &CallId, die: u8) -> Option<Found> {
        let call =
            self.live.turn.iter().flat_map(|turn| &turn.calls).find(|call| call.call_id == *call_id)?;
        let evidence = "what was found".to_owned();
        if call.effect == EffectClass::ReadOnly {
            return (die.is_multiple_of(2)).then_some(Found::NotStarted { evidence });
        }
        match die % 5 {
            0 => Some(Found::NotStarted { evidence }),
            1 => Some(Found::Running(CallAdopted {
                call_id: call_id.clone(),
                pid: 12,
                start_ticks: 99,
                boot_id: "b".to_owned(),
                bytes_seen: 3,
            })),
            2 => Some(Found::Finished { evidence }),
            3 => Some(Found::Unknown { evidence }),
            _ => None,
        }
    }

    /// Performs one effect.
    pub(super) fn perform(&mut self, effect: &Effect, dice: Dice) -> Result<usize, Reject> {
        match effect {
            Effect::CallModel { model_call_id } => {
                let report = if dice[0] % 8 == 7 {
                    Report::ModelFailed(Box::new(model_failure(model_call_id, dice)))
                } else {
                    let answer = self.model_answer(model_call_id, dice);
                    Report::ModelFinished(Box::new(answer))
                };
                self.report(report)
            }
            Effect::Inspect { call_id } => {
                let calls = self.live.turn.iter().flat_map(|turn| &turn.calls);
                let tool =
                    calls.clone().find(|call| call.call_id == *call_id).map(|call| call.tool.to_string());
                let found = inspection(&tool.unwrap_or_default(), dice);
                self.report(Report::Inspected { call_id: call_id.clone(), found })
            }
            // A signal; what comes of it is the report of the run beside it.
            Effect::Stop { .. } => Ok(0),
            Effect::Run { call_id, .. } | Effect::Follow { call_id } => {
                self.report(Report::CallEnded(Box::new(call_end(call_id, dice))))
            }
            Effect::Wake { timer, at_ms } => {
                self.now_ms = self.now_ms.max(*at_ms);
                self.input(Input::Timer(timer.clone()), &Origin::Daemon)
            }
        }
    }

    pub(super) fn tool_use(&mut self, name: &str, complete: bool) -> Block {
        self.tool_uses += 1;
        tool_use(&format!("toolu_{}", self.tool_uses), name, complete)
    }

    fn model_answer(&mut self, model_call_id: &ModelCallId, dice: Dice) -> ModelAnswer {
        let mut blocks = Vec::new();
        if dice[1] % 4 == 1 {
            blocks.push(thinking("hm"));
        }
        match dice[1] % 8 {
            0..=3 => blocks.push(text("some words")),
            4 => blocks.push(text(" ")),
            _ => {}
        }
        let count = [0, 1, 2, 3, 5, 1, 2, 1][usize::from(dice[2] % 8)];
        let mut checked = Vec::new();
        for at in 0..count {
            let kind = dice[3].wrapping_mul(31).wrapping_add(dice[4].wrapping_mul(at).wrapping_add(at)) % 12;
            let (name, check) = match kind {
                0..=3 => ("read_file", CheckedCall::Valid(EffectClass::ReadOnly)),
                4..=5 => ("write_file", CheckedCall::Valid(EffectClass::Idempotent)),
                6..=8 => ("run_command", CheckedCall::Valid(EffectClass::Unsafe)),
                9 => ("nope", CheckedCall::Invalid(fault("unknown_tool", "Unknown tool nope. Tools: []"))),
                // A shell that forgot to look at completeness.
                10 => ("run_command", CheckedCall::Valid(EffectClass::Unsafe)),
                _ => ("write_file", CheckedCall::Invalid(fault("arguments", "Invalid arguments"))),
            };
            blocks.push(self.tool_use(name, kind != 10));
            // And one that forgot to check at all.
            if dice[5] % 16 != 3 {
                checked.push(check);
            }
        }
        if dice[5] % 16 == 5 && count == 0 {
            blocks.push(thinking("late"));
        }
        let class = match dice[0] % 7 {
            0..=3 if count > 0 => StopClass::ToolUse,
            0..=3 => StopClass::EndTurn,
            4 => StopClass::MaxTokens,
            5 => StopClass::PauseTurn,
            _ => StopClass::ALL[usize::from(dice[5]) % StopClass::ALL.len()],
        };
        model_answer(model_call_id, blocks, class, checked)
    }

    /// Lets everything that is owed come to something, until nothing moves without a person. Answers how many
    /// steps it took.
    pub(super) fn rest(&mut self, seed: u64) -> usize {
        let mut dice = seed;
        let bound = 600 * (self.live.waiting.len() + 2);
        for taken in 0..bound {
            let owed = pending_effects(&self.live);
            let busy = owed.iter().find(|effect| !matches!(effect, Effect::Wake { .. }));
            let paused = self.live.turn.as_ref().is_some_and(|turn| turn.paused.is_some());
            let wake = owed.iter().min_by_key(|effect| match effect {
                Effect::Wake { at_ms, .. } => *at_ms,
                _ => i64::MAX,
            });
            let Some(effect) = busy.or(wake.filter(|_| !paused)) else { return taken };
            dice = dice.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let bytes = (dice >> 16).to_be_bytes();
            let rolled = [bytes[2], bytes[3], bytes[4], bytes[5], bytes[6], bytes[7]];
            self.perform(&effect.clone(), rolled).expect("an owed effect is never late");
        }
        panic!("the session never came to rest: {:?}", self.log.iter().rev().take(20).collect::<Vec<_>>());
    }

    /// Whether nothing moves without a person, and the state says why.
    pub(super) fn is_at_rest(&self) -> bool {
        match &self.live.turn {
            None => self.live.waiting.is_empty(),
            Some(turn) => turn.paused.is_some(),
        }
    }

    /// The owed effect of the model call, if one is open.
    pub(super) fn model_call(&self) -> Option<ModelCallId> {
        self.live.turn.as_ref()?.model.as_ref().map(|open| open.model_call_id.clone())
    }

    /// The model answers with blocks, all calls valid.
    pub(super) fn model_says(&mut self, blocks: Vec<Block>, class: StopClass) {
        let model_call_id = self.model_call().expect("a model call is open");
        let checked = blocks
            .iter()
            .filter_map(|block| block.call.as_ref())
            .map(|call| {
                CheckedCall::Valid(match call.name.as_str() {
                    "read_file" => EffectClass::ReadOnly,
                    "write_file" => EffectClass::Idempotent,
                    _ => EffectClass::Unsafe,
                })
            })
            .collect();
        let answer = model_answer(&model_call_id, blocks, class, checked);
        self.report(Report::ModelFinished(Box::new(answer))).unwrap();
    }

    /// Every inspection that is owed finds the same.
    pub(super) fn inspect_all(&mut self, dice: Dice) {
        while let Some(effect) =
            pending_effects(&self.live).into_iter().find(|effect| matches!(effect, Effect::Inspect { .. }))
        {
            self.perform(&effect, dice).unwrap();
        }
    }

    /// Every call that runs ends.
    pub(super) fn rest_calls(&mut self, dice: Dice) {
        while let Some(effect) = pending_effects(&self.live)
            .into_iter()
            .find(|effect| matches!(effect, Effect::Run { .. } | Effect::Follow { .. } | Effect::Stop { .. }))
        {
            self.perform(&effect, dice).unwrap();
        }
    }

    /// Names of the events since `from`.
    pub(super) fn kinds(&self, from: usize) -> Vec<&'static str> {
        self.log[from..].iter().map(|event| event.body.kind().as_str()).collect()
    }
}
