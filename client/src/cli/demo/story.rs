//! What the demo tells while it happens, and whether it happened.

use super::LABEL;
use super::stage::kill_daemon;
use crate::api;
use crate::attach::follow::{Follow, FollowOptions, Step};
use crate::attach::outcome::{TurnWatch, Which};
use crate::attach::said::{self, Said};
use crate::attach::typed::Typed;
use crate::connect::link::Link;
use crate::error::{ClientError, ErrorKind};
use crate::render::out::Printer;
use crate::render::safe;
use crate::render::style::{Ink, Style};
use crate::render::transcript::Transcript;
use agentd_proto::v1;
use agentd_proto::v1::event::Body;
use std::collections::BTreeMap;
use std::io::IsTerminal;
use std::time::Duration;
use tokio::signal::unix::{SignalKind, signal};
use tokio::time::Instant;

/// Without a terminal an edit approves itself after this pause, which is stated.
const EDIT_PAUSE: Duration = Duration::from_millis(2_000);
/// The same for a command.
const COMMAND_PAUSE: Duration = Duration::from_millis(700);
/// The daemon is killed this long after the command started, if no output was seen by then.
const KILL_AFTER: Duration = Duration::from_millis(1_500);
/// Nothing happens for so long: the demo has failed.
const SILENCE_MAX: Duration = Duration::from_millis(30_000);

/// The demo as it goes.
pub(super) struct Story {
    link: Link,
    session_id: String,
    hello: v1::HelloResponse,
    style: Style,
    printer: Printer,
    transcript: Transcript,
    typed: Typed,
    ask: Option<Ask>,
    tools: BTreeMap<String, String>,
    edited: bool,
    long_call: Option<LongCall>,
    new_run: Option<String>,
    watch: Option<TurnWatch>,
    outcome_status: String,
}

struct Ask {
    request_id: String,
    shown_hash: String,
    /// When it is approved by itself; None when a person answers.
    due: Option<Instant>,
}

/// The command over which the daemon is killed.
#[derive(Default)]
struct LongCall {
    call_id: String,
    kill_due: Option<Instant>,
    killed: bool,
    adopted: u32,
    results: Vec<v1::CallResult>,
}

impl Story {
    /// Nothing is sent yet.
    pub(super) fn new(
        link: Link,
        session_id: String,
        hello: v1::HelloResponse,
        style: Style,
        printer: Printer,
    ) -> Self {
        let transcript = Transcript::new(style, std::process::id());
        // Off a terminal what is on stdin is not meant for the demo.
        let typed = if std::io::stdin().is_terminal() { Typed::stdin() } else { Typed::nothing() };
        Self {
            link,
            session_id,
            hello,
            style,
            printer,
            transcript,
            typed,
            ask: None,
            tools: BTreeMap::new(),
            edited: false,
            long_call: None,
            new_run: None,
            watch: None,
            outcome_status: String::new(),
        }
    }

    /// Gives the printer back.
    pub(super) fn into_printer(self) -> Printer {
        self.printer
    }

    /// Sends the prompt and tells what happens until the turn ends.
    pub(super) async fn tell(&mut self, prompt: &str) -> Result<(), ClientError> {
        let request = v1::SendInputRequest {
            request_id: api::fresh_request_id()?,
            client_label: LABEL.to_owned(),
            session_id: self.session_id.clone(),
            parts: vec![v1::InputPart { part: Some(v1::input_part::Part::Text(prompt.to_owned())) }],
            delivery: v1::Delivery::Queue.into(),
            ..Default::default()
        };
        let sent = api::send_input(&self.link, request).await?;
        let which = sent.turn_id.map_or(Which::OfInput(sent.input_id), Which::Turn);
        self.watch = Some(TurnWatch::new(&self.session_id, which));
        let options = FollowOptions {
            session_id: self.session_id.clone(),
            after_seq: Some(0),
            history: v1::History::Full,
            role: v1::AttachRole::Interactive,
            deltas: true,
            include_raw: true,
        };
        let mut follow = Follow::new(self.link.clone(), options);
        let mut ctrl_c = signal(SignalKind::interrupt())?;
        let mut silent_since = Instant::now();
        while self.outcome_status.is_empty() {
            let person = self.ask.as_ref().is_some_and(|ask| ask.due.is_none());
            let silence = (!person).then(|| silent_since + SILENCE_MAX);
            let (ask_due, kill_due) = (self.ask.as_ref().and_then(|ask| ask.due), self.kill_due());
            tokio::select! {
                biased;
                _ = ctrl_c.recv() => return Err(self.left()),
                step = follow.next() => { self.step(step?)?; silent_since = Instant::now(); }
                line = self.typed.next(), if person => self.typed(line).await?,
                () = until(ask_due) => self.answer(true).await?,
                () = until(kill_due) => self.kill()?,
                () = until(silence) => return Err(self.silent()),
            }
        }
        self.printer.end_flow()
    }

    /// What did not happen as told; nothing when all did.
    pub(super) fn faults(&self) -> Vec<String> {
        let mut faults = Vec::new();
        let mut check = |holds: bool, fault: &str| {
            if !holds {
                faults.push(fault.to_owned());
            }
        };
        check(self.outcome_status == "completed", &format!("the turn ended as {}", self.outcome_status));
        check(self.edited, "the file was not edited");
        let Some(long) = &self.long_call else {
            check(false, "the long command never started");
            return faults;
        };
        check(long.killed, "the daemon was not killed while the command ran");
        let another = self.new_run.as_ref().is_some_and(|run| *run != self.hello.run_id);
        check(another, "no other run of the daemon took over");
        check(long.adopted == 1, &format!("the command was adopted {} times, not once", long.adopted));
        check(long.results.len() == 1, &format!("the command has {} results, not one", long.results.len()));
        let result = long.results.first();
        check(result.is_some_and(|result| result.exit_code == Some(0)), "the command's exit code is not 0");
        check(result.is_some_and(|result| is_whole(&result.text)), "the command's output is not whole");
        faults
    }

    fn kill_due(&self) -> Option<Instant> {
        self.long_call.as_ref().filter(|long| !long.killed).and_then(|long| long.kill_due)
    }

    fn say(&mut self, line: &str) -> Result<(), ClientError> {
        self.printer.data(&self.style.paint(Ink::Bold, &format!("## {line}")))
    }

    fn step(&mut self, step: Step) -> Result<(), ClientError> {
        match step {
            Step::Event(event) => self.event(&event),
            Step::Delta(delta) => {
                let pieces = self.transcript.delta(&delta);
                self.printer.pieces(&pieces)?;
                if let Some(long) = self.long_call.as_mut().filter(|long| long.call_id == delta.source_id) {
                    // A first line was seen: now is the moment.
                    if delta.text.contains('\n') {
                        long.kill_due = Some(Instant::now());
                    }
                }
                Ok(())
            }
            Step::Back { run_id, new_run } => {
                let what = if new_run { "a new run answers" } else { "it answers again" };
                let line = format!("the daemon is started again: {what}, {}", safe::inline(&run_id));
                if new_run {
                    self.new_run = Some(run_id);
                }
                self.say(&line)
            }
            Step::Ended(why) => Err(ClientError::failed(format!("the session is gone ({why})"))),
            Step::Stopped => Err(ClientError::failed("the demo's daemon was stopped")),
            Step::Snapshot(_) | Step::CaughtUp | Step::Lagged(_) | Step::Lost(_) => Ok(()),
        }
    }

    fn event(&mut self, event: &v1::Event) -> Result<(), ClientError> {
        let pieces = self.transcript.event(event);
        self.printer.pieces(&pieces)?;
        match &event.body {
            Some(Body::Call(call)) if event.kind == "call_requested" => {
                self.tools.insert(event.call_id.clone(), call.tool.clone());
            }
            Some(Body::Call(_)) if event.kind == "call_started" => self.call_started(&event.call_id),
            Some(Body::CallResult(result)) => self.call_finished(&event.call_id, result),
            Some(Body::Request(info)) => self.asked(info)?,
            Some(Body::RequestEnd(end))
                if self.ask.as_ref().is_some_and(|ask| ask.request_id == end.request_id) =>
            {
                self.ask = None;
            }
            Some(Body::Recovery(_)) if event.kind == "call_adopted" => {
                if let Some(long) = self.long_call.as_mut().filter(|long| long.call_id == event.call_id) {
                    long.adopted += 1;
                }
                self.say(&adopted(&event.raw_json))?;
            }
            Some(Body::Pause(pause)) => {
                return Err(ClientError::failed(format!(
                    "the turn waits ({}): {}",
                    pause.reason, pause.next
                )));
            }
            _ => {}
        }
        if let Some(watch) = self.watch.as_mut() {
            watch.event(event);
            if let Some(outcome) = watch.outcome("") {
                self.outcome_status = outcome.status;
            }
        }
        Ok(())
    }

    fn call_started(&mut self, call_id: &str) {
        let is_command = self.tools.get(call_id).is_some_and(|tool| tool == "run_command");
        if is_command && self.edited && self.long_call.is_none() {
            self.long_call = Some(LongCall {
                call_id: call_id.to_owned(),
                kill_due: Some(Instant::now() + KILL_AFTER),
                ..LongCall::default()
            });
        }
    }

    fn call_finished(&mut self, call_id: &str, result: &v1::CallResult) {
        let ok = result.outcome == v1::CallOutcome::Ok as i32;
        if ok && self.tools.get(call_id).is_some_and(|tool| tool == "edit_file") {
            self.edited = true;
        }
        if let Some(long) = self.long_call.as_mut().filter(|long| long.call_id == call_id) {
            long.kill_due = None;
            long.results.push(result.clone());
        }
    }

    fn asked(&mut self, info: &v1::RequestInfo) -> Result<(), ClientError> {
        let person = self.typed.is_terminal();
        let pause = if info.tool == "run_command" { COMMAND_PAUSE } else { EDIT_PAUSE };
        self.ask = Some(Ask {
            request_id: info.request_id.clone(),
            shown_hash: info.shown_hash.clone(),
            due: (!person).then(|| Instant::now() + pause),
        });
        if person {
            self.printer.note("approve? [y]es/[n]o");
            return Ok(());
        }
        self.say(&format!("nobody is at the terminal: approved by itself in {:.1} s", pause.as_secs_f64()))
    }

    async fn typed(&mut self, line: Option<String>) -> Result<(), ClientError> {
        match line.as_deref().map(said::parse) {
            // Nobody is left to answer: it goes on by itself.
            None => {
                if let Some(ask) = self.ask.as_mut() {
                    ask.due = Some(Instant::now() + EDIT_PAUSE);
                }
                Ok(())
            }
            Some(Said::Answer { allow } | Said::AnswerTo { request: None, allow, .. }) => {
                self.answer(allow).await
            }
            Some(Said::Quit) => Err(self.left()),
            Some(_) => {
                self.printer.note("y approves, n denies, /quit leaves");
                Ok(())
            }
        }
    }

    async fn answer(&mut self, allow: bool) -> Result<(), ClientError> {
        let Some(ask) = self.ask.take() else { return Ok(()) };
        let request = v1::AnswerRequestRequest {
            request_id: api::fresh_request_id()?,
            client_label: LABEL.to_owned(),
            answered_request_id: ask.request_id,
            shown_hash: Some(ask.shown_hash),
            decision: if allow { v1::Verdict::Allow } else { v1::Verdict::Deny }.into(),
            scope: v1::GrantScope::Once.into(),
            ..Default::default()
        };
        // Somebody else may have been faster, from another terminal: that is fine too.
        match api::answer_request(&self.link, request).await {
            Err(error) if error.reason != Some(agentd_proto::reason::Reason::RequestAlreadyAnswered) => {
                Err(error)
            }
            _ => Ok(()),
        }
    }

    fn kill(&mut self) -> Result<(), ClientError> {
        let pid = self.hello.pid;
        let run = safe::inline(&self.hello.run_id).into_owned();
        self.say(&format!("kill -9 {pid}: the daemon (run {run}) dies now, in the middle of that command"))?;
        kill_daemon(&self.hello)?;
        if let Some(long) = self.long_call.as_mut() {
            long.killed = true;
        }
        Ok(())
    }

    fn left(&self) -> ClientError {
        ClientError::new(ErrorKind::Interrupted, "the demo was left; its session goes on")
            .hint(format!("agentctl --home {} daemon stop", self.hello.home))
    }

    fn silent(&self) -> ClientError {
        ClientError::failed(format!("nothing happened for {} s", SILENCE_MAX.as_secs()))
            .hint(format!("agentctl --home {} daemon logs", self.hello.home))
    }
}

/// Which process the new run took over, by what names it for ever.
fn adopted(raw_body: &str) -> String {
    let body: serde_json::Value = serde_json::from_str(raw_body).unwrap_or_default();
    let number = |key: &str| body[key].as_u64().unwrap_or_default();
    let (pid, ticks) = (number("pid"), number("start_ticks"));
    format!("call_adopted: the command never stopped (its supervisor is pid {pid}, started at tick {ticks})")
}

/// Every check of the test once, in order, and its sum.
fn is_whole(output: &str) -> bool {
    let numbers: Vec<usize> = output
        .lines()
        .filter_map(|line| line.trim().strip_prefix("ok ")?.split(' ').next()?.parse().ok())
        .collect();
    let sum = format!("{0} of {0} checks passed", numbers.len());
    !numbers.is_empty() && numbers.iter().copied().eq(1..=numbers.len()) && output.matches(&sum).count() == 1
}

async fn until(due: Option<Instant>) {
    match due {
        Some(due) => tokio::time::sleep_until(due).await,
        None => std::future::pending().await,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_output_is_whole_only_with_every_line_once() {
        let whole = "Exit code 0\nok 1 - Hello\nok 2 - Hello\n2 of 2 checks passed\n";
        assert!(is_whole(whole));
        for broken in [
            "",
            "ok 1 - a\nok 3 - b\n2 of 2 checks passed\n",
            "ok 1 - a\nok 1 - a\nok 2 - b\n3 of 3 checks passed\n",
            "ok 1 - a\nok 2 - b\n",
            "ok 1 - a\n1 of 1 checks passed\n1 of 1 checks passed\n",
        ] {
            assert!(!is_whole(broken), "{broken:?}");
        }
    }
}
