//! A session in a terminal, line by line, or without a terminal.
//!
//! Invariants: reading what is typed never holds up the stream; a request is shown whole before it can be
//! answered, and the answer names what was shown; leaving never touches the session.

use super::follow::{Follow, FollowOptions, Step};
use super::known::Known;
use super::said::{self, Said};
use super::typed::Typed;
use crate::api;
use crate::connect::link::Link;
use crate::connect::session_env;
use crate::error::{ClientError, ErrorKind};
use crate::render::out::Printer;
use crate::render::transcript::Transcript;
use crate::render::{json, ledger, safe};
use agentd_proto::reason::Reason;
use agentd_proto::v1;
use tokio::signal::unix::{SignalKind, signal};

/// What this client calls itself.
pub(crate) const LABEL: &str = "agentctl attach";

/// How the session is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Manner {
    /// NDJSON instead of a transcript.
    pub(crate) json: bool,
    /// Nothing typed is acted on but leaving and looking.
    pub(crate) read_only: bool,
}

/// A session in a terminal.
pub(crate) struct Attached {
    link: Link,
    session_id: String,
    manner: Manner,
    known: Known,
    transcript: Transcript,
    printer: Printer,
    caught_up: bool,
}

/// Why the loop goes on or not.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Then {
    GoOn,
    Leave,
}

impl Attached {
    /// A session that is shown on `printer`.
    pub(crate) fn new(
        link: Link,
        session_id: String,
        manner: Manner,
        transcript: Transcript,
        printer: Printer,
    ) -> Self {
        Self { link, session_id, manner, known: Known::default(), transcript, printer, caught_up: false }
    }

    /// Shows the session until the person leaves or the session is gone.
    pub(crate) async fn run(mut self, options: FollowOptions, mut typed: Typed) -> Result<(), ClientError> {
        let mut follow = Follow::new(self.link.clone(), options);
        let mut ctrl_c = signal(SignalKind::interrupt())?;
        loop {
            let then = tokio::select! {
                biased;
                _ = ctrl_c.recv() => Then::Leave,
                step = follow.next() => self.step(step?)?,
                // What is typed waits until it is known how things are; nothing of it is lost meanwhile.
                line = typed.next(), if self.caught_up => match line {
                    Some(line) => self.typed(line, &mut typed).await?,
                    // Without a terminal the end of the input is not the end of the interest.
                    None if typed.is_terminal() => Then::Leave,
                    None => Then::GoOn,
                },
            };
            if then == Then::Leave {
                self.printer.end_flow()?;
                let at = follow.seen_seq();
                let id = &self.session_id;
                self.printer.note(&format!("left the session; to go on: agentctl attach {id} --after {at}"));
                return Ok(());
            }
        }
    }

    fn step(&mut self, step: Step) -> Result<Then, ClientError> {
        match step {
            Step::Snapshot(session) => self.known.snapshot(&session),
            Step::Event(event) => self.event(&event)?,
            Step::Delta(delta) if self.manner.json => self.printer.data(&json::delta(&delta))?,
            Step::Delta(delta) => {
                let pieces = self.transcript.delta(&delta);
                self.printer.pieces(&pieces)?;
            }
            Step::CaughtUp => self.on_caught_up()?,
            // The draft that follows repairs it.
            Step::Lagged(_) => {}
            Step::Lost(why) => {
                self.caught_up = false;
                self.printer.note(&format!("! the daemon is gone ({}); looking for it", safe::inline(&why)));
            }
            Step::Back { run_id, new_run } => {
                let what =
                    if new_run { "a new run of the daemon answers" } else { "the daemon answers again" };
                self.printer.note(&format!("! {what} ({}); nothing was missed", safe::inline(&run_id)));
            }
            Step::Ended(why) => {
                self.printer.note(&format!("the session is gone ({})", safe::inline(&why)));
                return Ok(Then::Leave);
            }
            Step::Stopped => {
                self.printer.note("! the daemon was stopped; the session goes on when one runs again");
                return Ok(Then::Leave);
            }
        }
        Ok(Then::GoOn)
    }

    fn event(&mut self, event: &v1::Event) -> Result<(), ClientError> {
        let asked_before = self.known.asks().len();
        self.known.event(event);
        if self.manner.json {
            let line = json::event(event).map_err(|source| bad_body(event, source))?;
            self.printer.data(&line)?;
        } else {
            let pieces = self.transcript.event(event);
            self.printer.pieces(&pieces)?;
        }
        if self.caught_up && self.known.asks().len() > asked_before {
            self.prompt();
        }
        Ok(())
    }

    fn on_caught_up(&mut self) -> Result<(), ClientError> {
        for open in self.known.caught_up() {
            if !self.manner.json {
                let pieces = self.transcript.open_request(&open);
                self.printer.pieces(&pieces)?;
            }
        }
        self.caught_up = true;
        if !self.known.asks().is_empty() {
            self.prompt();
        }
        Ok(())
    }

    fn prompt(&mut self) {
        let Some(last) = self.known.asks().last() else { return };
        let id = safe::inline(&last.request_id).into_owned();
        let line = if self.manner.read_only {
            format!("  (read-only here) agentctl approve {id}")
        } else if last.kind == "approval" {
            match self.known.asks().len() {
                1 => "approve? [y]es/[n]o, or /deny REASON".to_owned(),
                more => format!(
                    "approve? {more} requests wait, y and n answer the first: or /approve ID, /deny ID"
                ),
            }
        } else {
            format!("answer with /approve {id} or /deny {id}")
        };
        self.printer.note(&line);
    }

    async fn typed(&mut self, line: String, typed: &mut Typed) -> Result<Then, ClientError> {
        let said = said::parse(&line);
        match said {
            Said::Quit => return Ok(Then::Leave),
            Said::Empty => return Ok(Then::GoOn),
            Said::Help => said::HELP.iter().for_each(|line| self.printer.note(line)),
            Said::Wrong(why) => self.printer.note(&format!("! {}", safe::inline(&why))),
            Said::Context => self.told(Self::context(self).await)?,
            _ if self.manner.read_only => self.printer.note("! attached read-only: nothing was sent"),
            Said::Answer { allow } => self.told(self.answer(None, allow, None).await)?,
            Said::AnswerTo { request, allow, reason } => {
                self.told(self.answer(request.as_deref(), allow, reason).await)?;
            }
            Said::Interrupt => self.told(self.interrupt().await)?,
            Said::Resume(resolutions) => self.told(self.resume(resolutions).await)?,
            Said::Text(first) => {
                let is_text = |line: &str| matches!(said::parse(line), Said::Text(_) | Said::Empty);
                let text = typed.with_paste(first, is_text).await;
                let sent = self.send(text.clone()).await;
                if sent.is_err() {
                    self.printer.note(&format!("! not sent: {}", safe::text(&text)));
                }
                self.told(sent)?;
            }
        }
        Ok(Then::GoOn)
    }

    /// Says what a typed command came to. Only a broken output or a daemon that cannot be had ends the loop.
    fn told(&mut self, result: Result<Option<String>, ClientError>) -> Result<(), ClientError> {
        match result {
            Ok(Some(line)) => self.printer.note(&line),
            Ok(None) => {}
            Err(error) if matches!(error.kind, ErrorKind::BrokenPipe | ErrorKind::Unreachable) => {
                return Err(error);
            }
            Err(error) => {
                self.printer.note(&format!("! {}", safe::text(&error.message)));
                for hint in &error.hints {
                    self.printer.note(&format!("  {}", safe::text(hint)));
                }
            }
        }
        Ok(())
    }

    async fn answer(
        &self,
        prefix: Option<&str>,
        allow: bool,
        reason: Option<String>,
    ) -> Result<Option<String>, ClientError> {
        let Some(ask) = self.known.ask(prefix) else {
            let line = match prefix {
                Some(prefix) => format!("! no single open request begins with {}", safe::inline(prefix)),
                None => "! nothing waits for an answer (to say the word itself: /send TEXT)".to_owned(),
            };
            return Ok(Some(line));
        };
        let request = v1::AnswerRequestRequest {
            request_id: api::fresh_request_id()?,
            client_label: LABEL.to_owned(),
            answered_request_id: ask.request_id.clone(),
            shown_hash: Some(ask.shown_hash.clone()),
            decision: if allow { v1::Verdict::Allow } else { v1::Verdict::Deny }.into(),
            scope: v1::GrantScope::Once.into(),
            reason,
            ..Default::default()
        };
        match api::answer_request(&self.link, request).await {
            Ok(answer) if answer.won => Ok(None),
            Ok(answer) => Ok(Some(format!("! already answered by {}", safe::inline(&answer.answered_by)))),
            Err(error) if error.reason == Some(Reason::RequestAlreadyAnswered) => {
                Ok(Some(format!("! {}", safe::inline(&error.message))))
            }
            Err(error) => Err(error),
        }
    }

    async fn interrupt(&self) -> Result<Option<String>, ClientError> {
        let target = self.known.turn_id().map(|id| v1::interrupt_request::Target::TurnId(id.to_owned()));
        let request = v1::InterruptRequest {
            request_id: api::fresh_request_id()?,
            client_label: LABEL.to_owned(),
            session_id: self.session_id.clone(),
            target,
            hard: false,
        };
        let answer = api::interrupt(&self.link, request).await?;
        Ok(answer.already_over.then(|| "! nothing is running".to_owned()))
    }

    async fn resume(&self, resolutions: Vec<v1::ResolvedCall>) -> Result<Option<String>, ClientError> {
        let request = v1::ResumeTurnRequest {
            request_id: api::fresh_request_id()?,
            client_label: LABEL.to_owned(),
            session_id: self.session_id.clone(),
            resolutions,
            extend_limits: true,
            env: session_env().into_iter().collect(),
        };
        api::resume_turn(&self.link, request).await?;
        Ok(None)
    }

    async fn send(&self, text: String) -> Result<Option<String>, ClientError> {
        let delivery = if self.known.is_running() { v1::Delivery::Steer } else { v1::Delivery::Queue };
        let request = v1::SendInputRequest {
            request_id: api::fresh_request_id()?,
            client_label: LABEL.to_owned(),
            session_id: self.session_id.clone(),
            parts: vec![v1::InputPart { part: Some(v1::input_part::Part::Text(text)) }],
            delivery: delivery.into(),
            withdraw_input_id: None,
            env: session_env().into_iter().collect(),
        };
        api::send_input(&self.link, request).await?;
        Ok(None)
    }

    async fn context(&self) -> Result<Option<String>, ClientError> {
        let request = v1::GetContextRequest {
            session_id: self.session_id.clone(),
            items: Some(0),
            ..Default::default()
        };
        let answer = api::get_context(&self.link, request).await?;
        Ok(Some(ledger::regions(self.transcript.style(), &answer).join("\n")))
    }
}

/// A stored body that is not JSON: the daemon is at fault, and says so.
pub(crate) fn bad_body(event: &v1::Event, source: serde_json::Error) -> ClientError {
    ClientError::failed(format!(
        "the daemon sent event {} ({}) with a body that is not JSON",
        event.seq, event.kind
    ))
    .because(source)
}
