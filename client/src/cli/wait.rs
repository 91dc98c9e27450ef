//! Waiting for a turn: what `run` and `send --wait` do after their input is accepted.
//!
//! Invariants: the turn is followed over lost daemons until it ends; the first Ctrl-C, SIGTERM or SIGHUP asks
//! the turn to stop and goes on waiting for its end, the second leaves; data goes to stdout in one of three forms.

use crate::api;
use crate::attach::follow::{Follow, FollowOptions, Step};
use crate::attach::interactive::bad_body;
use crate::attach::outcome::{Outcome, TurnWatch};
use crate::connect::link::Link;
use crate::connect::session_env;
use crate::error::{ClientError, ErrorKind};
use crate::render::out::{Printer, To};
use crate::render::style::Style;
use crate::render::transcript::Transcript;
use crate::render::{json, safe};
use agentd_proto::v1;
use agentd_proto::v1::event::Body;
use std::io::IsTerminal;
use std::process::ExitCode;
use std::time::Duration;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::time::Instant;

/// How a turn is printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Output {
    /// The answer on stdout, what happens on stderr
    Text,
    /// One JSON object at the end
    Json,
    /// NDJSON: each event as it happens, then the object
    StreamJson,
}

/// What is waited for and how.
pub(crate) struct Wait {
    /// The way to the daemon.
    pub(crate) link: Link,
    /// What this client calls itself.
    pub(crate) label: &'static str,
    /// The session.
    pub(crate) session_id: String,
    /// Events after this one are shown.
    pub(crate) after_seq: u64,
    /// The turn.
    pub(crate) watch: TurnWatch,
    /// How it is printed.
    pub(crate) output: Output,
    /// After so long the turn is asked to stop.
    pub(crate) timeout: Option<Duration>,
}

struct Waiting {
    wait: Wait,
    transcript: Transcript,
    printer: Printer,
    stopping: Option<Stopping>,
    /// A new run of the daemon answers, which does not know our key.
    key_owed: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Stopping {
    Person,
    Timeout,
}

impl Wait {
    /// Waits for the end of the turn and prints it; the exit code of the contract.
    pub(crate) async fn finish(self) -> Result<ExitCode, ClientError> {
        let (flow_to, lines_to) = match self.output {
            // Off a terminal stdout holds the answer and nothing else: it is printed once it is one.
            Output::Text if std::io::stdout().is_terminal() => (To::Stdout, To::Stderr),
            Output::Text => (To::Nowhere, To::Stderr),
            Output::Json | Output::StreamJson => (To::Nowhere, To::Nowhere),
        };
        let transcript = Transcript::new(Style::of(std::io::stderr()), std::process::id());
        let printer = Printer::new(flow_to, lines_to);
        let mut waiting = Waiting { wait: self, transcript, printer, stopping: None, key_owed: false };
        let outcome = waiting.until_over().await?;
        waiting.print(&outcome)?;
        Ok(ExitCode::from(outcome.exit_code()))
    }
}

impl Waiting {
    async fn until_over(&mut self) -> Result<Outcome, ClientError> {
        let mut follow = Follow::new(
            self.wait.link.clone(),
            FollowOptions {
                session_id: self.wait.session_id.clone(),
                after_seq: Some(self.wait.after_seq),
                history: v1::History::Full,
                role: v1::AttachRole::Interactive,
                deltas: true,
                include_raw: self.wait.output == Output::StreamJson,
            },
        );
        let mut end = Signals::new()?;
        let deadline = self.wait.timeout.map(|timeout| Instant::now() + timeout);
        loop {
            let due = deadline.filter(|_| self.stopping.is_none());
            tokio::select! {
                biased;
                () = end.recv() => {
                    if self.stopping == Some(Stopping::Person) {
                        return Ok(self.left());
                    }
                    self.stop(Stopping::Person, "asked the turn to stop; Ctrl-C again leaves without waiting").await?;
                }
                () = sleep_until(due) => self.stop(Stopping::Timeout, "out of time: asked the turn to stop").await?,
                step = follow.next() => {
                    let Some(outcome) = self.step(step?)? else { continue };
                    if self.key_owed && self.waits_for_key() {
                        self.bring_key().await?;
                        continue;
                    }
                    return Ok(outcome);
                }
            }
        }
    }

    fn step(&mut self, step: Step) -> Result<Option<Outcome>, ClientError> {
        match step {
            Step::Event(event) => return self.event(&event),
            Step::Delta(delta) => {
                let pieces = self.transcript.delta(&delta);
                match self.wait.output {
                    Output::StreamJson => self.printer.data(&json::delta(&delta))?,
                    _ => self.printer.pieces(&pieces)?,
                }
            }
            Step::Lost(why) => {
                self.note(&format!("! the daemon is gone ({}); looking for it", safe::inline(&why)));
            }
            Step::Back { run_id, new_run } => {
                self.key_owed |= new_run;
                let what =
                    if new_run { "a new run of the daemon answers" } else { "the daemon answers again" };
                self.note(&format!("! {what} ({}); nothing was missed", safe::inline(&run_id)));
            }
            Step::Ended(why) => {
                let error = format!("the session is gone ({why})");
                return Ok(Some(self.wait.watch.unfinished("failed", &error, &self.transcript.open_text())));
            }
            Step::Stopped => return Ok(Some(self.stopped())),
            Step::Snapshot(_) | Step::CaughtUp | Step::Lagged(_) => {}
        }
        Ok(None)
    }

    fn event(&mut self, event: &v1::Event) -> Result<Option<Outcome>, ClientError> {
        self.wait.watch.event(event);
        if self.wait.output == Output::StreamJson {
            let line = json::event(event).map_err(|source| bad_body(event, source))?;
            self.printer.data(&line)?;
        }
        let open_text = self.transcript.open_text();
        let pieces = self.transcript.event(event);
        self.printer.pieces(&pieces)?;
        if let Some(Body::Request(info)) = &event.body {
            let id = safe::inline(&info.request_id).into_owned();
            self.note(&format!("  waits for: agentctl approve {id}   or   agentctl deny {id}"));
        }
        if let Some(mut outcome) = self.wait.watch.outcome(&open_text) {
            if self.stopping == Some(Stopping::Timeout) && outcome.status == "interrupted" {
                "limit".clone_into(&mut outcome.status);
                outcome.error = Some("out of time (--timeout)".to_owned());
                outcome = outcome.with_kind(ErrorKind::Failed);
            }
            return Ok(Some(outcome));
        }
        Ok(self.wait.watch.pause().map(|pause| self.paused(pause)))
    }

    fn waits_for_key(&self) -> bool {
        self.wait.watch.pause().is_some_and(|pause| pause.reason == "credentials")
    }

    /// A new run of the daemon does not know our key: keys are kept in memory only. It gets ours once; if that does
    /// not help the turn waits for somebody who knows better.
    async fn bring_key(&mut self) -> Result<(), ClientError> {
        self.key_owed = false;
        let request = v1::ResumeTurnRequest {
            request_id: api::fresh_request_id()?,
            client_label: self.wait.label.to_owned(),
            session_id: self.wait.session_id.clone(),
            env: session_env().into_iter().collect(),
            ..Default::default()
        };
        api::resume_turn(&self.wait.link, request).await.map(drop)
    }

    /// A turn that waits for a person is not waited for: nobody is there.
    fn paused(&self, pause: &v1::PauseInfo) -> Outcome {
        let kind = if pause.reason == "credentials" { ErrorKind::Config } else { ErrorKind::Failed };
        let error = format!("the turn waits ({}): {}", pause.reason, pause.next);
        self.wait.watch.unfinished("paused", &error, &self.transcript.open_text()).with_kind(kind)
    }

    fn stopped(&mut self) -> Outcome {
        let id = &self.wait.session_id;
        let error =
            "the daemon was stopped before the turn ended; the session is taken up when one runs again";
        let hint = format!("agentctl attach {id}");
        if self.wait.output == Output::Text {
            self.printer.note(&format!("error: {error}\n  hint: {hint}"));
        }
        let error = format!("{error}: {hint}");
        self.wait.watch.unfinished("failed", &error, &self.transcript.open_text())
    }

    fn left(&mut self) -> Outcome {
        let id = &self.wait.session_id;
        self.printer.note(&format!("left; the session goes on by itself: agentctl attach {id}"));
        self.wait
            .watch
            .unfinished("interrupted", "left before the turn ended", &self.transcript.open_text())
            .with_kind(ErrorKind::Interrupted)
    }

    fn note(&mut self, line: &str) {
        if self.wait.output == Output::Text {
            self.printer.note(line);
        }
    }

    async fn stop(&mut self, why: Stopping, line: &str) -> Result<(), ClientError> {
        self.stopping = Some(why);
        self.printer.note(line);
        let target = self.wait.watch.turn_id().map(|id| v1::interrupt_request::Target::TurnId(id.to_owned()));
        if target.is_none() && why == Stopping::Timeout {
            // Our input still waits behind somebody else's turn, which is not ours to stop.
            return Ok(());
        }
        let request = v1::InterruptRequest {
            request_id: api::fresh_request_id()?,
            client_label: self.wait.label.to_owned(),
            session_id: self.wait.session_id.clone(),
            target,
            hard: false,
        };
        match api::interrupt(&self.wait.link, request).await {
            Ok(_) => Ok(()),
            // It ended in the meantime; its end is on the stream.
            Err(error) if error.reason == Some(agentd_proto::reason::Reason::TurnMismatch) => Ok(()),
            Err(error) => Err(error),
        }
    }

    fn print(&mut self, outcome: &Outcome) -> Result<(), ClientError> {
        self.printer.end_flow()?;
        if self.wait.output != Output::Text {
            let text = json::line(outcome).map_err(|source| {
                ClientError::failed("the outcome cannot be written as JSON").because(source)
            })?;
            return self.printer.data(&text);
        }
        let shown_live = std::io::stdout().is_terminal();
        match &outcome.text {
            Some(text) if !shown_live => self.printer.data(text.trim_end_matches('\n'))?,
            _ => {}
        }
        if let (None, Some(partial), false) = (&outcome.text, &outcome.partial_text, shown_live) {
            self.printer.note(&format!("partial answer, not a result:\n{}", safe::text(partial)));
        }
        if outcome.status == "paused" {
            let id = &outcome.session;
            let error = outcome.error.as_deref().unwrap_or("the turn waits");
            self.printer.note(&format!("error: {}", safe::text(error)));
            self.printer.note(&format!("  hint: agentctl attach {id}   or   agentctl resume {id}"));
        }
        Ok(())
    }
}

/// What asks a command to end: Ctrl-C, a service manager or script, a terminal that goes away.
struct Signals([Signal; 3]);

impl Signals {
    fn new() -> std::io::Result<Self> {
        Ok(Self([
            signal(SignalKind::interrupt())?,
            signal(SignalKind::terminate())?,
            signal(SignalKind::hangup())?,
        ]))
    }

    async fn recv(&mut self) {
        let [interrupt, terminate, hangup] = &mut self.0;
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
            _ = hangup.recv() => {}
        }
    }
}

async fn sleep_until(deadline: Option<Instant>) {
    match deadline {
        Some(deadline) => tokio::time::sleep_until(deadline).await,
        None => std::future::pending().await,
    }
}
