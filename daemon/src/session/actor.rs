//! The actor of one session: receive -> decide -> append -> apply and wake -> reconcile.

use super::feed::Feed;
use super::reconcile::Running;
use super::registry::{Ports, Registry, SessionError};
use crate::ports::{Append, EffectMessage, Evidence, FirstAnswer, RequestClaim, StoreError};
use agentd_core::command::{Command, Input, Reject, Timer};
use agentd_core::event::{CallAdopted, Event, Origin};
use agentd_core::ids::{CallId, SessionId};
use agentd_core::limits;
use agentd_core::projection::OpenWork;
use agentd_core::recover::{self, Found};
use agentd_core::session::{self, Decision, Session};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{mpsc, oneshot};

/// What a command came to, for whoever writes the answer to the client.
pub struct Committed<'a> {
    /// The facts it gave, none when there was nothing to do.
    pub events: &'a [Event],
    /// The state after them.
    pub session: &'a Session,
}

/// Writes the answer of a command from what it came to. The bytes are kept with the request id.
pub(crate) type WriteAnswer = Box<dyn FnOnce(&Committed<'_>) -> Vec<u8> + Send>;

/// A command with everything that comes with it.
pub struct Asked {
    /// What is asked.
    pub command: Command,
    /// Who asks.
    pub origin: Origin,
    /// The client's id of the request, the RPC, and SHA-256 of its content.
    pub request: Option<(String, String, [u8; 32])>,
    /// Writes the answer.
    pub write_answer: WriteAnswer,
}

/// The answer of a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answered {
    /// As `write_answer` made it, now or when the request id was first used.
    pub answer: Vec<u8>,
}

/// What reaches an actor.
pub(super) enum Mail {
    /// A command.
    Ask(Box<Asked>, oneshot::Sender<Result<Answered, SessionError>>),
    /// From an effect.
    Effect(EffectMessage),
    /// A time has come.
    Timer(Timer),
    /// The state is wanted.
    State(oneshot::Sender<Arc<Session>>),
    /// Try again to write what could not be written.
    RetryStorage,
}

/// How long the actor waits before it tries again to write to a full disk.
const STORAGE_RETRY: Duration = Duration::from_millis(1_000);

pub(super) struct Actor {
    registry: Arc<Registry>,
    ports: Ports,
    session_id: SessionId,
    session: Arc<Session>,
    feed: Arc<Feed>,
    open_work: Vec<OpenWork>,
    running: Running,
    mailbox: mpsc::WeakSender<Mail>,
    /// Inputs that could not be recorded because the disk is full; effects are held meanwhile.
    held: VecDeque<Input>,
    /// A fact could not be recorded, and not for want of space. Nothing is done in the world until a client's command
    /// can be recorded again: what is done without a record would be done again and again.
    is_stuck: bool,
}

impl Actor {
    pub(super) fn new(
        registry: Arc<Registry>,
        session_id: SessionId,
        session: Session,
        feed: Arc<Feed>,
        mailbox: mpsc::WeakSender<Mail>,
    ) -> Self {
        let ports = registry.ports().clone();
        let open_work = session::open_work(&session);
        Self {
            registry,
            ports,
            session_id,
            session: Arc::new(session),
            feed,
            open_work,
            running: Running::default(),
            mailbox,
            held: VecDeque::new(),
            is_stuck: false,
        }
    }

    pub(super) async fn run(mut self, mut mailbox: mpsc::Receiver<Mail>) {
        if let Err(error) = self.take_over().await {
            tracing::error!(session_id = %self.session_id, %error, "recovery could not be recorded");
            self.is_stuck = true;
        }
        self.reconcile();
        loop {
            let idle = self.is_idle();
            let mail = tokio::select! {
                biased;
                mail = mailbox.recv() => mail,
                () = tokio::time::sleep(Duration::from_millis(limits::ACTOR_IDLE_MS)), if idle => {
                    mailbox.close();
                    None
                }
            };
            let Some(mail) = mail else { break };
            self.receive(mail).await;
        }
        // Mail that came between the decision to sleep and the closing of the box is still answered.
        while let Some(mail) = mailbox.recv().await {
            self.receive(mail).await;
        }
    }

    fn is_idle(&self) -> bool {
        self.session.turn.is_none() && self.session.waiting.is_empty() && self.held.is_empty()
    }

    async fn receive(&mut self, mail: Mail) {
        match mail {
            Mail::Ask(asked, reply) => {
                let answer = self.command(asked).await;
                let _ = reply.send(answer);
            }
            Mail::State(reply) => {
                let _ = reply.send(self.session.clone());
                return;
            }
            Mail::Effect(EffectMessage::Delta(delta)) => {
                self.feed.publish_delta(delta);
                return;
            }
            Mail::Effect(EffectMessage::Report(report)) => self.input(Input::Report(report)).await,
            Mail::Timer(timer) => {
                self.running.timer_fired(&timer);
                self.input(Input::Timer(timer)).await;
            }
            Mail::RetryStorage => {
                let held = std::mem::take(&mut self.held);
                for input in held {
                    self.input(input).await;
                }
            }
        }
        self.reconcile();
    }

    /// A new run of the daemon looks at what a former one left in flight.
    async fn take_over(&mut self) -> Result<(), StoreError> {
        let has_open_work = self.session.turn.is_some() || !self.session.waiting.is_empty();
        if !has_open_work {
            return Ok(());
        }
        let mut found = BTreeMap::new();
        for call_id in recover::calls_in_question(&self.session) {
            let Some(context) = super::reconcile::call_context(&self.session, &call_id) else { continue };
            let evidence = self.ports.effects.evidence(context).await;
            found.insert(call_id.clone(), as_found(call_id, evidence));
        }
        let decision = recover::recover(&self.session, &found, &mut self.ports.stamp());
        self.commit(decision, None).await
    }

    async fn command(&mut self, asked: Box<Asked>) -> Result<Answered, SessionError> {
        if let Some((request_id, method, hash)) = &asked.request
            && let Some(first) = self.ports.store.first_answer(request_id).await?
        {
            return repeated(request_id, method, hash, first);
        }
        if !self.held.is_empty() {
            return Err(StoreError::Full { path: "the data folder".to_owned() }.into());
        }
        let decision = session::decide(
            &self.session,
            Input::Command(asked.command),
            &asked.origin,
            &mut self.ports.stamp(),
        )?;
        let committed = Committed { events: &decision.events, session: &decision.next };
        let answer = (asked.write_answer)(&committed);
        let claim = asked.request.map(|(request_id, method, content_hash)| RequestClaim {
            request_id,
            method,
            content_hash,
            answer: answer.clone(),
        });
        match (self.commit(decision, claim.clone()).await, claim) {
            (Ok(()), _) => Ok(Answered { answer }),
            // The same request reached another session's actor at the same time and was first.
            (Err(StoreError::RequestRepeated(request_id)), Some(claim)) => {
                let first = self.ports.store.first_answer(&request_id).await?;
                let first = first.ok_or(StoreError::RequestRepeated(request_id))?;
                repeated(&claim.request_id, &claim.method, &claim.content_hash, first)
            }
            (Err(error), _) => Err(error.into()),
        }
    }

    async fn input(&mut self, input: Input) {
        if !self.held.is_empty() {
            self.held.push_back(input);
            return;
        }
        let kept = input.clone();
        let decision = match session::decide(&self.session, input, &Origin::Daemon, &mut self.ports.stamp()) {
            Ok(decision) => decision,
            Err(Reject::Late(what)) => {
                tracing::debug!(session_id = %self.session_id, what, "a late report was ignored");
                return;
            }
            Err(reject) => {
                tracing::warn!(session_id = %self.session_id, %reject, "a report was refused");
                return;
            }
        };
        match self.commit(decision, None).await {
            Ok(()) => {}
            Err(StoreError::Full { path }) => {
                tracing::error!(session_id = %self.session_id, path, "the disk is full; the session waits for space");
                self.held.push_back(kept);
                self.retry_storage_later();
            }
            Err(error) => {
                tracing::error!(session_id = %self.session_id, %error, "a fact could not be recorded; the session stops");
                self.running.stop_all();
                self.is_stuck = true;
            }
        }
    }

    fn retry_storage_later(&self) {
        let mailbox = self.mailbox.clone();
        tokio::spawn(async move {
            tokio::time::sleep(STORAGE_RETRY).await;
            if let Some(mailbox) = mailbox.upgrade() {
                let _ = mailbox.send(Mail::RetryStorage).await;
            }
        });
    }

    async fn commit(&mut self, decision: Decision, claim: Option<RequestClaim>) -> Result<(), StoreError> {
        if decision.events.is_empty() && claim.is_none() {
            return Ok(());
        }
        let Some(summary) = session::summary(&decision.next) else { return Ok(()) };
        let open_work = session::open_work(&decision.next);
        let audit = session::audit(&self.session, &decision.next, &decision.events);
        let append = Append {
            session_id: self.session_id.clone(),
            expected_seq: self.session.last_seq,
            events: decision.events.clone(),
            claim,
            audit,
            summary,
            open_work: (open_work != self.open_work).then(|| open_work.clone()),
        };
        let asked = append.claim.is_some();
        self.ports.store.append(append).await?;
        self.is_stuck &= !asked;
        let spent: Vec<String> =
            super::reconcile::spent_jobs(&self.session, &decision.next, &decision.events);
        self.session = Arc::new(decision.next);
        self.open_work = open_work;
        self.feed.publish(&decision.events);
        self.registry.note_change();
        for job in spent {
            self.ports.effects.forget(&job);
        }
        Ok(())
    }

    fn reconcile(&mut self) {
        if self.held.is_empty() && !self.is_stuck {
            self.running.reconcile(&self.session, &self.ports, &self.mailbox);
        }
    }
}

fn repeated(
    request_id: &str,
    method: &str,
    hash: &[u8; 32],
    first: FirstAnswer,
) -> Result<Answered, SessionError> {
    if first.method != method || first.content_hash != *hash {
        return Err(StoreError::RequestIdReused(request_id.to_owned()).into());
    }
    Ok(Answered { answer: first.answer })
}

fn as_found(call_id: CallId, evidence: Evidence) -> Found {
    match evidence {
        Evidence::NotStarted { why } => Found::NotStarted { evidence: why },
        Evidence::Running { pid, start_ticks, boot_id, bytes_seen } => {
            Found::Running(CallAdopted { call_id, pid, start_ticks, boot_id, bytes_seen })
        }
        Evidence::Finished { why } => Found::Finished { evidence: why },
        Evidence::Unknown { why, output } => Found::Unknown {
            evidence: match output {
                Some(output) if !output.is_empty() => format!("{why}; output so far:\n{output}"),
                _ => why,
            },
        },
    }
}
