//! What happens in a scripted world, one thing after another.

use super::super::happening_tests::{epoch, pick};
use super::super::{Session, pending_effects};
use super::speakers::speaker;
use super::{Dice, World};
use crate::command::*;
use crate::effect::Effect;
use crate::event::*;
use crate::ids::{CallId, InputId, RequestId};
use crate::recover::{Found, calls_in_question, recover};
use proptest::prelude::*;
use std::collections::BTreeMap;

/// One thing that happens.
#[derive(Clone, Debug)]
pub(in crate::session) enum Step {
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
    /// A person stops what runs and goes on with another model.
    Switch {
        to: u8,
        strip: bool,
    },
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

pub(in crate::session) fn steps(at_most: usize) -> impl Strategy<Value = Vec<Step>> {
    prop::collection::vec(step(), 1..at_most)
}

/// Steps between which the model changes again and again.
pub(in crate::session) fn switching_steps(at_most: usize) -> impl Strategy<Value = Vec<Step>> {
    let switch = (any::<u8>(), any::<bool>()).prop_map(|(to, strip)| Step::Switch { to, strip });
    prop::collection::vec(prop_oneof![12 => step(), 1 => switch], 1..at_most)
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
        6 => (any::<u8>(), dice()).prop_map(|(lost, dice)| Step::Crash { lost, dice }),
    ]
}

impl World {
    /// One step of a script. Answers what the machine said; none when there was nothing to do.
    pub(in crate::session) fn step(&mut self, step: &Step) -> Option<Result<usize, Reject>> {
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
            Step::Switch { to, strip } => Some(self.switch(*to, *strip)),
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
            2 | 3 => return self.change_model(what / 8, what % 8 == 2),
            4 => {
                let profile = self.live.epoch.as_ref().unwrap().profile.clone();
                let mut stripped = epoch(profile, "tools_changed");
                stripped.strip_thinking = true;
                return self.command(Command::StartEpoch(Box::new(stripped)));
            }
            _ => change.mode = Some(PermissionMode::ALL[usize::from(what / 8) % 4]),
        }
        self.command(Command::Change(change))
    }

    fn change_model(&mut self, to: u8, strip: bool) -> Result<usize, Reject> {
        let profile = speaker(to);
        let name = format!("{}/{}", profile.provider, profile.model);
        let mut changed = epoch(profile, "model_changed");
        changed.strip_thinking = strip;
        let model = Some((name, Box::new(changed)));
        self.command(Command::Change(ChangeSession { model, ..ChangeSession::default() }))
    }

    fn switch(&mut self, to: u8, strip: bool) -> Result<usize, Reject> {
        if self.live.turn.is_none() {
            return self.change_model(to, strip);
        }
        self.interrupt();
        self.rest(u64::from(to));
        // What waited has begun another turn, perhaps.
        Ok(self.change_model(to, strip).unwrap_or_default())
    }

    /// The daemon starts again on what the log holds.
    pub(in crate::session) fn crash(&mut self, dice: Dice) -> usize {
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
    pub(in crate::session) fn crash_with(&mut self, found: &BTreeMap<CallId, Found>) -> usize {
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
}
