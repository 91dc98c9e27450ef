//! Following a session: the log from a place, then what happens, then live text.
//!
//! Each client has its own task and a short queue: a slow client slows only itself. Events come once and in order,
//! whatever happens; live text may be dropped, and is then repaired by a draft and in the end by its event.

use super::{Api, sessions, status, to_proto};
use crate::session::{Feed, LiveFrame, Watcher};
use agentd_core::event::{Event, EventBody};
use agentd_core::ids::{Seq, SessionId};
use agentd_core::limits;
use agentd_proto::reason::Reason;
use agentd_proto::shared::{AttachFrame, AttachFrameKind, encode_once};
use agentd_proto::v1;
use bytes::Bytes;
use std::collections::HashSet;
use std::sync::Arc;
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::Status;

/// The frames of an attach.
pub(super) type Stream = ReceiverStream<Result<AttachFrame, Status>>;

/// Frames that wait for a slow client.
const FRAMES_AHEAD: usize = 64;

/// The client is gone.
struct Gone;

struct Follower {
    api: Arc<Api>,
    session_id: SessionId,
    feed: Arc<Feed>,
    frames: mpsc::Sender<Result<AttachFrame, Status>>,
    cursor: Seq,
    include_raw: bool,
    /// What has its final event; late pieces of it are dropped.
    ended: HashSet<String>,
}

/// Begins to follow.
pub(super) async fn start(api: Arc<Api>, given: v1::AttachRequest) -> Result<Stream, Status> {
    let session_id = sessions::resolve(&api, &given.session_id).await?;
    let feed = api.registry.feed(&session_id).await.map_err(|error| status::session(&error))?;
    // Subscribed before the state is read: nothing between the two is missed.
    let watcher = feed.watch();
    let state = api.registry.state(&session_id).await.map_err(|error| status::session(&error))?;
    let head = feed.head();
    let cursor = match (given.after_seq, history(given.history)?) {
        (Some(after), _) if after > head => {
            let text = format!("event {after} is beyond the log, which ends at {head}");
            return Err(status::refuse(Reason::SeqOutOfRange, text).status());
        }
        (Some(after), _) => after,
        (None, v1::History::None) => head,
        (None, v1::History::Pending) => {
            before_open_turn(&api, &session_id, state.turn.as_ref().map(|turn| turn.no), head).await?
        }
        (None, v1::History::Full | v1::History::Unspecified) => 0,
    };
    let (frames, stream) = mpsc::channel(FRAMES_AHEAD);
    let snapshot = to_proto::session(&state).unwrap_or_default();
    let mut follower = Follower {
        api,
        session_id,
        feed,
        frames,
        cursor,
        include_raw: given.include_raw,
        ended: HashSet::new(),
    };
    tokio::spawn(async move {
        let first = AttachFrameKind::Snapshot(Box::new(snapshot));
        if follower.send(first).await.is_ok() {
            let _ = follower.run(watcher, given.deltas).await;
        }
    });
    Ok(ReceiverStream::new(stream))
}

fn history(value: i32) -> Result<v1::History, Status> {
    v1::History::try_from(value)
        .map_err(|_| status::field("history", format!("{value} is not known here")).status())
}

/// The event before the open turn began; the head when no turn is open.
async fn before_open_turn(
    api: &Api,
    session_id: &SessionId,
    turn: Option<u32>,
    head: Seq,
) -> Result<Seq, Status> {
    let Some(turn) = turn else { return Ok(head) };
    let mut before = head + 1;
    loop {
        let page = api.store.events_before(session_id, before, limits::EVENTS_PAGE_MAX).await;
        let page = page.map_err(|error| status::store(&error))?;
        let began = |event: &&Event| matches!(&event.body, EventBody::TurnStarted(body) if body.turn == turn);
        if let Some(event) = page.iter().find(began) {
            return Ok(event.seq - 1);
        }
        match page.first() {
            Some(first) if first.seq > 1 => before = first.seq,
            _ => return Ok(0),
        }
    }
}

/// Returns when the daemon takes no more work.
pub(super) async fn stopping(draining: &mut tokio::sync::watch::Receiver<bool>) {
    let _ = draining.wait_for(|draining| *draining).await;
}

impl Follower {
    async fn send(&self, kind: AttachFrameKind) -> Result<(), Gone> {
        self.frames.send(Ok(AttachFrame::new(kind))).await.map_err(|_| Gone)
    }

    async fn run(&mut self, mut watcher: Watcher, deltas: bool) -> Result<(), Gone> {
        let mut draining = self.api.registry.draining();
        self.catch_up().await?;
        self.send(AttachFrameKind::CaughtUp(v1::AttachCaughtUp { last_seq: self.cursor })).await?;
        if deltas {
            self.drafts(&watcher).await?;
        }
        loop {
            let frames = self.frames.clone();
            tokio::select! {
                biased;
                () = frames.closed() => return Err(Gone),
                changed = watcher.head.changed() => {
                    if changed.is_err() {
                        return self.go("the session's feed has ended").await;
                    }
                    self.catch_up().await?;
                }
                live = watcher.live.recv(), if deltas => match live {
                    Ok(frame) => self.live(&frame).await?,
                    Err(RecvError::Lagged(dropped)) => {
                        self.send(AttachFrameKind::Lagged(v1::AttachLagged { dropped })).await?;
                        self.feed.rewatch(&mut watcher);
                        self.drafts(&watcher).await?;
                    }
                    Err(RecvError::Closed) => return self.go("the session's feed has ended").await,
                },
                () = stopping(&mut draining) => return self.go("the daemon is stopping").await,
            }
        }
    }

    async fn go(&self, reason: &str) -> Result<(), Gone> {
        self.send(AttachFrameKind::GoingAway(v1::GoingAway { reason: reason.to_owned() })).await
    }

    async fn drafts(&self, watcher: &Watcher) -> Result<(), Gone> {
        for draft in &watcher.drafts {
            let draft = to_proto::delta(draft);
            if !self.ended.contains(&draft.source_id) {
                self.send(AttachFrameKind::Draft(draft)).await?;
            }
        }
        Ok(())
    }

    async fn live(&self, frame: &LiveFrame) -> Result<(), Gone> {
        let source = match &frame.delta.source {
            crate::ports::DeltaSource::Text(id) | crate::ports::DeltaSource::Thinking(id) => id.as_str(),
            crate::ports::DeltaSource::Output(id) | crate::ports::DeltaSource::Waiting(id) => id.as_str(),
        };
        if self.ended.contains(source) {
            return Ok(());
        }
        let bytes = frame.encoded.get_or_init(|| encode_once(&to_proto::delta(&frame.delta))).clone();
        self.send(AttachFrameKind::Delta(bytes)).await
    }

    /// Sends every event up to the head, from memory where it is there, else from the store.
    async fn catch_up(&mut self) -> Result<(), Gone> {
        while self.cursor < self.feed.head() {
            if let Some(recent) = self.feed.recent_after(self.cursor) {
                for entry in recent {
                    let bytes = if self.include_raw {
                        self.encode(&entry.event)
                    } else {
                        entry.encoded.get_or_init(|| self.encode(&entry.event)).clone()
                    };
                    self.event(&entry.event, bytes).await?;
                }
                continue;
            }
            let page =
                self.api.store.events_after(&self.session_id, self.cursor, limits::EVENTS_PAGE_MAX).await;
            match page {
                Ok(page) if page.is_empty() => return Ok(()),
                Ok(page) => {
                    for event in &page {
                        self.event(event, self.encode(event)).await?;
                    }
                }
                Err(error) => {
                    let _ = self.frames.send(Err(status::store(&error))).await;
                    return Err(Gone);
                }
            }
        }
        Ok(())
    }

    fn encode(&self, event: &Event) -> Bytes {
        encode_once(&to_proto::event(&self.session_id, event, self.include_raw))
    }

    async fn event(&mut self, event: &Event, bytes: Bytes) -> Result<(), Gone> {
        match &event.body {
            EventBody::ModelCallFinished(body) => {
                self.ended.insert(body.model_call_id.to_string());
            }
            EventBody::ModelCallFailed(body) => {
                self.ended.insert(body.model_call_id.to_string());
            }
            EventBody::CallFinished(body) => {
                self.ended.insert(body.call_id.to_string());
            }
            EventBody::TurnStarted(_) => self.ended.clear(),
            _ => {}
        }
        self.cursor = event.seq;
        self.send(AttachFrameKind::Event(bytes)).await
    }
}
