//! A scripted world around the state machine: inputs, effects that come to something, crashes at any event.
//!
//! Everything is chosen by small numbers, so that a failing case shrinks to a short script. The world performs only
//! effects that are owed, crashes at any event of the log (not only where a batch ended), and gathers evidence
//! that fits what the log says.

mod answers;
mod speakers;
mod steps;

pub(super) use steps::{Step, steps, switching_steps};

use super::happening_tests::*;
use super::{Decision, Session, decide, pending_effects};
use crate::call::Stage;
use crate::command::*;
use crate::effect::Effect;
use crate::event::*;
use crate::ids::{CallId, ClientId, ModelCallId, RequestId, RunId, SessionId, Stamp};
use crate::path_bytes::PathBytes;
use proptest::prelude::*;

/// Numbers from which one happening is made.
pub(super) type Dice = [u8; 6];

/// How the session was made.
#[derive(Clone, Debug)]
pub(super) struct Setup {
    pub(super) attended: bool,
    pub(super) approvals_wait: bool,
    pub(super) on_restart: OnRestart,
    pub(super) mode: PermissionMode,
    pub(super) limits: TurnLimits,
    pub(super) thinking_stripped: bool,
    /// The model it begins with.
    pub(super) speaker: u8,
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
            speaker: 0,
        }
    }
}

pub(super) fn setup() -> impl Strategy<Value = Setup> {
    let words =
        (any::<bool>(), any::<bool>(), any::<bool>(), 0..4_usize, any::<bool>(), 0..speakers::SPEAKERS);
    let limits = (
        1..5_u32,
        1..5_u32,
        0..4_u32,
        0..4_u32,
        1..4_u32,
        prop_oneof![Just(0_i64), Just(3_000), Just(1 << 40)],
    );
    (words, limits).prop_map(
        |((attended, approvals_wait, wait, mode, thinking_stripped, speaker), limits)| Setup {
            speaker,
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
        },
    )
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
    thoughts: u64,
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
        record: false,
        results: crate::event::ResultLimits::default(),
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
            thoughts: 0,
        };
        let mut first = epoch(speakers::speaker(setup.speaker), "created");
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
