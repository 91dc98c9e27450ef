//! Finds the actor of a session, or loads one.

use super::actor::{self, Answered, Asked, Mail};
use super::feed::Feed;
use crate::ports::{Clock, Effects, Entropy, Store, StoreError};
use agentd_core::command::Reject;
use agentd_core::ids::{RunId, Seq, SessionId, Stamp};
use agentd_core::limits;
use agentd_core::session::Session;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use tokio::sync::{mpsc, oneshot, watch};

/// The seams a session works through.
#[derive(Clone)]
pub struct Ports {
    /// Wall time.
    pub clock: Arc<dyn Clock>,
    /// Randomness.
    pub entropy: Arc<dyn Entropy>,
    /// The log.
    pub store: Arc<dyn Store>,
    /// The effects wing.
    pub effects: Arc<dyn Effects>,
    /// This run of the daemon.
    pub run_id: RunId,
}

impl Ports {
    /// A stamp for one decision.
    pub fn stamp(&self) -> Stamp {
        Stamp::new(self.clock.now_ms(), self.run_id.clone(), self.entropy.draw())
    }
}

/// Why a session did not do what was asked.
#[derive(Debug, thiserror::Error)]
pub enum SessionError {
    /// There is no such session.
    #[error("there is no session {0}")]
    NotFound(SessionId),
    /// The state machine refused.
    #[error(transparent)]
    Rejected(#[from] Reject),
    /// The store refused.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The session's actor failed twice.
    #[error(
        "session {session_id} failed twice and is not worked on any more: {why}; its events can still be read"
    )]
    Failed {
        /// Which.
        session_id: SessionId,
        /// What happened.
        why: String,
    },
    /// The daemon is stopping.
    #[error("the daemon is stopping; try again in a moment")]
    Draining,
}

#[derive(Default)]
struct Live {
    actors: HashMap<SessionId, mpsc::Sender<Mail>>,
    feeds: HashMap<SessionId, Weak<Feed>>,
    panics: HashMap<SessionId, u32>,
    failed: HashMap<SessionId, String>,
}

/// All sessions of this daemon.
pub struct Registry {
    ports: Ports,
    live: Mutex<Live>,
    /// Serialises loading, so that a session never has two actors.
    loading: tokio::sync::Mutex<()>,
    draining: watch::Sender<bool>,
    /// Grows with every commit of any session: what list watchers wait on.
    changes: watch::Sender<u64>,
}

/// Actors that panicked so often are not loaded again.
const PANICS_MAX: u32 = 2;

impl Registry {
    /// A registry without sessions.
    pub fn new(ports: Ports) -> Arc<Self> {
        Arc::new(Self {
            ports,
            live: Mutex::default(),
            loading: tokio::sync::Mutex::default(),
            draining: watch::Sender::new(false),
            changes: watch::Sender::new(0),
        })
    }

    /// The seams.
    pub fn ports(&self) -> &Ports {
        &self.ports
    }

    fn live(&self) -> MutexGuard<'_, Live> {
        self.live.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Wakes whenever any session has changed.
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    pub(super) fn note_change(&self) {
        self.changes.send_modify(|count| *count += 1);
    }

    /// Whether the daemon takes no new input.
    pub fn is_draining(&self) -> bool {
        *self.draining.borrow()
    }

    /// Takes no new input from here on.
    pub fn drain(&self) {
        self.draining.send_replace(true);
    }

    /// Wakes when draining begins.
    pub fn draining(&self) -> watch::Receiver<bool> {
        self.draining.subscribe()
    }

    /// Sessions with an actor: those that have, or just had, something to do.
    pub fn loaded(&self) -> usize {
        self.live().actors.len()
    }

    /// Takes over the sessions in which a former run left open work. Each is folded and recovered by its own actor;
    /// one that cannot be is left `failed` and disturbs no other.
    pub async fn recover_all(self: &Arc<Self>) -> Result<usize, StoreError> {
        // Listed before anything can start a new one.
        let mut old_jobs = self.ports.effects.jobs().await;
        let sessions = self.ports.store.sessions_with_open_work().await?;
        let count = sessions.len();
        let mut all_known = true;
        for session_id in sessions {
            match self.state(&session_id).await {
                Ok(state) => super::reconcile::open_jobs(&state).for_each(|job| {
                    old_jobs.remove(&job);
                }),
                Err(error) => {
                    all_known = false;
                    tracing::error!(%session_id, %error, "a session with open work could not be recovered");
                }
            }
        }
        // The evidence of a session that cannot be folded is kept for whoever mends it.
        if all_known {
            self.ports.effects.sweep(old_jobs);
        }
        Ok(count)
    }

    /// Asks a session for something and waits for its commit.
    pub async fn ask(
        self: &Arc<Self>,
        session_id: &SessionId,
        asked: Asked,
    ) -> Result<Answered, SessionError> {
        if self.is_draining() {
            return Err(SessionError::Draining);
        }
        let creates = matches!(asked.command, agentd_core::command::Command::Create(_));
        let mut asked = Box::new(asked);
        // An actor may have gone to sleep between finding and asking it; it then hands the mail back unread.
        for _ in 0..3 {
            let actor =
                if creates { self.fresh_actor(session_id).await? } else { self.actor(session_id).await? };
            let (reply, answer) = oneshot::channel();
            match actor.send(Mail::Ask(asked, reply)).await {
                Ok(()) => {
                    return answer.await.unwrap_or_else(|_| Err(self.failure(session_id)));
                }
                Err(mpsc::error::SendError(mail)) => {
                    self.forget_closed(session_id);
                    let Mail::Ask(unread, _) = mail else { return Err(self.failure(session_id)) };
                    asked = unread;
                }
            }
        }
        Err(self.failure(session_id))
    }

    /// The state of a session, as of its last commit.
    pub async fn state(self: &Arc<Self>, session_id: &SessionId) -> Result<Arc<Session>, SessionError> {
        for _ in 0..3 {
            let actor = self.actor(session_id).await?;
            let (reply, answer) = oneshot::channel();
            if actor.send(Mail::State(reply)).await.is_ok()
                && let Ok(state) = answer.await
            {
                return Ok(state);
            }
            self.forget_closed(session_id);
        }
        Err(self.failure(session_id))
    }

    /// The feed of a session, whether it has an actor or not.
    pub async fn feed(&self, session_id: &SessionId) -> Result<Arc<Feed>, SessionError> {
        if let Some(feed) = self.live().feeds.get(session_id).and_then(Weak::upgrade) {
            return Ok(feed);
        }
        // Under the loading lock: between reading the last event and keeping the feed nobody may append.
        let _guard = self.loading.lock().await;
        self.feed_locked(session_id).await
    }

    async fn feed_locked(&self, session_id: &SessionId) -> Result<Arc<Feed>, SessionError> {
        if let Some(feed) = self.live().feeds.get(session_id).and_then(Weak::upgrade) {
            return Ok(feed);
        }
        let last = self.ports.store.last_seq(session_id).await?;
        let last = last.ok_or_else(|| SessionError::NotFound(session_id.clone()))?;
        Ok(self.keep_feed(session_id, last))
    }

    fn keep_feed(&self, session_id: &SessionId, last_seq: Seq) -> Arc<Feed> {
        let feed = Arc::new(Feed::new(last_seq));
        let mut live = self.live();
        live.feeds.retain(|_, feed| feed.strong_count() > 0);
        live.feeds.insert(session_id.clone(), Arc::downgrade(&feed));
        feed
    }

    fn running(&self, session_id: &SessionId) -> Option<mpsc::Sender<Mail>> {
        self.live().actors.get(session_id).filter(|actor| !actor.is_closed()).cloned()
    }

    async fn actor(self: &Arc<Self>, session_id: &SessionId) -> Result<mpsc::Sender<Mail>, SessionError> {
        if let Some(actor) = self.running(session_id) {
            return Ok(actor);
        }
        let _guard = self.loading.lock().await;
        if let Some(actor) = self.running(session_id) {
            return Ok(actor);
        }
        if let Some(why) = self.live().failed.get(session_id) {
            return Err(SessionError::Failed { session_id: session_id.clone(), why: why.clone() });
        }
        let feed = self.feed_locked(session_id).await?;
        let session = self.fold(session_id).await?;
        Ok(self.spawn(session_id, session, feed))
    }

    async fn fresh_actor(
        self: &Arc<Self>,
        session_id: &SessionId,
    ) -> Result<mpsc::Sender<Mail>, SessionError> {
        if let Some(actor) = self.running(session_id) {
            return Ok(actor);
        }
        let _guard = self.loading.lock().await;
        let feed = self.keep_feed(session_id, 0);
        Ok(self.spawn(session_id, Session::empty(), feed))
    }

    async fn fold(&self, session_id: &SessionId) -> Result<Session, SessionError> {
        let mut session = Session::empty();
        loop {
            let page =
                self.ports.store.events_after(session_id, session.last_seq, limits::EVENTS_PAGE_MAX).await?;
            if page.is_empty() {
                break;
            }
            for event in &page {
                session.apply(event);
            }
        }
        if session.created.is_none() {
            return Err(SessionError::NotFound(session_id.clone()));
        }
        Ok(session)
    }

    fn spawn(
        self: &Arc<Self>,
        session_id: &SessionId,
        session: Session,
        feed: Arc<Feed>,
    ) -> mpsc::Sender<Mail> {
        let (sender, mailbox) = mpsc::channel(limits::MAILBOX_LEN);
        self.live().actors.insert(session_id.clone(), sender.clone());
        let actor = actor::Actor::new(self.clone(), session_id.clone(), session, feed, sender.downgrade());
        let task = tokio::spawn(actor.run(mailbox));
        let (registry, session_id) = (self.clone(), session_id.clone());
        tokio::spawn(async move {
            if let Err(error) = task.await {
                registry.note_panic(&session_id, &error.to_string());
            }
            registry.forget_closed(&session_id);
        });
        sender
    }

    fn note_panic(&self, session_id: &SessionId, why: &str) {
        tracing::error!(%session_id, why, "an actor ended by a panic");
        let mut live = self.live();
        let panics = live.panics.entry(session_id.clone()).or_insert(0);
        *panics += 1;
        if *panics >= PANICS_MAX {
            live.failed.insert(session_id.clone(), why.to_owned());
        }
    }

    fn forget_closed(&self, session_id: &SessionId) {
        let mut live = self.live();
        if live.actors.get(session_id).is_some_and(mpsc::Sender::is_closed) {
            live.actors.remove(session_id);
        }
    }

    fn failure(&self, session_id: &SessionId) -> SessionError {
        let why = self.live().failed.get(session_id).cloned();
        SessionError::Failed {
            session_id: session_id.clone(),
            why: why.unwrap_or_else(|| {
                "its actor ended in the middle; the daemon's log has the reason".to_owned()
            }),
        }
    }
}
