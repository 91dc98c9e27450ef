//! What the clients of one session follow: how far the log is, its newest events, and live text.
//!
//! Events are never lost here: a watcher that is behind reads pages from the store. Live text is a second,
//! lossy class: a slow watcher is told that it lagged and gets the open drafts from their beginning.
//!
//! Invariants: a watcher's drafts and its subscription are taken under one lock, so no byte is missing between
//! them and none comes twice; publishing never waits for a watcher.

use crate::ports::{Delta, DeltaSource};
use agentd_core::event::Event;
use agentd_core::ids::Seq;
use agentd_core::limits;
use bytes::Bytes;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use tokio::sync::{broadcast, watch};

/// Events kept for watchers that are nearly up to date; the rest comes from the store.
const RECENT_LEN: usize = 256;
/// Bytes of them: a few large answers of each session must not fill the memory. The newest is kept whatever its size.
const RECENT_MAX_BYTES: usize = limits::EVENTS_PAGE_MAX_BYTES;
/// Bytes of one draft that are kept for late watchers; the event that follows holds the whole.
const DRAFT_MAX_BYTES: usize = 256 * 1024;

/// A committed event, and its wire form once somebody has made it.
#[derive(Debug)]
pub struct Recent {
    /// The event.
    pub event: Event,
    /// Bytes of its stored form.
    bytes: usize,
    /// Its encoded form, made once for all watchers by whoever needs it first.
    pub encoded: OnceLock<Bytes>,
}

/// A piece of live text on its way to watchers.
#[derive(Debug)]
pub struct LiveFrame {
    /// The piece.
    pub delta: Delta,
    /// Its encoded form, made once.
    pub encoded: OnceLock<Bytes>,
}

/// The open end of something live.
#[derive(Clone, Debug)]
struct Draft {
    source: DeltaSource,
    block: u32,
    /// Where `text` begins in the block.
    offset: u64,
    text: String,
}

#[derive(Debug, Default)]
struct Shared {
    recent: VecDeque<Arc<Recent>>,
    recent_bytes: usize,
    drafts: Vec<Draft>,
}

impl Shared {
    fn keep_recent(&mut self, recent: Recent) {
        self.recent_bytes += recent.bytes;
        while self.recent.len() >= RECENT_LEN || self.recent_bytes > RECENT_MAX_BYTES {
            let Some(oldest) = self.recent.pop_front() else { break };
            self.recent_bytes -= oldest.bytes;
        }
        self.recent.push_back(Arc::new(recent));
    }
}

/// The feed of one session.
#[derive(Debug)]
pub struct Feed {
    head: watch::Sender<Seq>,
    live: broadcast::Sender<Arc<LiveFrame>>,
    shared: Mutex<Shared>,
}

/// One client's place in a feed.
pub struct Watcher {
    /// Wakes when the log has grown; holds its newest number.
    pub head: watch::Receiver<Seq>,
    /// Live text.
    pub live: broadcast::Receiver<Arc<LiveFrame>>,
    /// The drafts as they were when this watcher subscribed.
    pub drafts: Vec<Delta>,
}

impl Feed {
    /// The feed of a session whose log ends at `last_seq`.
    pub fn new(last_seq: Seq) -> Self {
        Self {
            head: watch::Sender::new(last_seq),
            live: broadcast::Sender::new(limits::DELTA_BUFFER_LEN),
            shared: Mutex::default(),
        }
    }

    fn shared(&self) -> MutexGuard<'_, Shared> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How far the log is.
    pub fn head(&self) -> Seq {
        *self.head.borrow()
    }

    /// Makes committed events known. Drafts that they complete are closed.
    pub fn publish(&self, events: &[Event]) {
        let Some(last) = events.last() else { return };
        // Measured before the lock: nobody waits for it.
        let sizes: Vec<usize> =
            events.iter().map(|event| event.body.encode().map_or(0, |text| text.len())).collect();
        {
            let mut shared = self.shared();
            for (event, bytes) in events.iter().zip(sizes) {
                close_drafts(&mut shared.drafts, event);
                shared.keep_recent(Recent { event: event.clone(), bytes, encoded: OnceLock::new() });
            }
        }
        self.head.send_replace(last.seq);
    }

    /// Sends a piece of live text to whoever watches.
    pub fn publish_delta(&self, delta: Delta) {
        let mut shared = self.shared();
        let open =
            shared.drafts.iter_mut().find(|draft| draft.source == delta.source && draft.block == delta.block);
        match open {
            Some(draft) => {
                draft.text.push_str(&delta.text);
                keep_end(draft);
            }
            None => shared.drafts.push(Draft {
                source: delta.source.clone(),
                block: delta.block,
                offset: delta.offset,
                text: delta.text.clone(),
            }),
        }
        // Still under the lock, so that a new watcher has this piece either in its draft or in its stream.
        let _ = self.live.send(Arc::new(LiveFrame { delta, encoded: OnceLock::new() }));
    }

    /// The events after `after`, if all of them are at hand; none if the store has to be read.
    pub fn recent_after(&self, after: Seq) -> Option<Vec<Arc<Recent>>> {
        let shared = self.shared();
        if self.head() <= after {
            return Some(Vec::new());
        }
        let first = shared.recent.front()?.event.seq;
        if first > after + 1 {
            return None;
        }
        let skip = usize::try_from(after + 1 - first).ok()?;
        Some(shared.recent.iter().skip(skip).cloned().collect())
    }

    /// Subscribes, with the drafts as they are at this moment.
    pub fn watch(&self) -> Watcher {
        let shared = self.shared();
        Watcher {
            head: self.head.subscribe(),
            live: self.live.subscribe(),
            drafts: shared.drafts.iter().map(as_delta).collect(),
        }
    }

    /// Subscribes anew after a lag: what was missed is in the drafts.
    pub fn rewatch(&self, watcher: &mut Watcher) {
        let shared = self.shared();
        watcher.live = self.live.subscribe();
        watcher.drafts = shared.drafts.iter().map(as_delta).collect();
    }

    /// The text of the answer being made, for a turn that is interrupted now.
    pub fn partial_text(&self) -> Option<String> {
        let shared = self.shared();
        let texts = shared.drafts.iter().filter(|draft| matches!(draft.source, DeltaSource::Text(_)));
        let text: String = texts.map(|draft| draft.text.as_str()).collect();
        (!text.is_empty()).then_some(text)
    }
}

fn as_delta(draft: &Draft) -> Delta {
    Delta { source: draft.source.clone(), block: draft.block, offset: draft.offset, text: draft.text.clone() }
}

fn keep_end(draft: &mut Draft) {
    if draft.text.len() <= DRAFT_MAX_BYTES {
        return;
    }
    let least = draft.text.len() - DRAFT_MAX_BYTES / 2;
    let cut =
        (least..draft.text.len()).find(|at| draft.text.is_char_boundary(*at)).unwrap_or(draft.text.len());
    draft.text.drain(..cut);
    draft.offset += cut as u64;
}

fn close_drafts(drafts: &mut Vec<Draft>, event: &Event) {
    use agentd_core::event::EventBody;
    match &event.body {
        EventBody::ModelCallFinished(_) | EventBody::ModelCallFailed(_) => {
            drafts.retain(|draft| matches!(draft.source, DeltaSource::Output(_) | DeltaSource::Waiting(_)));
        }
        EventBody::CallFinished(body) => {
            let (output, waiting) =
                (DeltaSource::Output(body.call_id.clone()), DeltaSource::Waiting(body.call_id.clone()));
            drafts.retain(|draft| draft.source != output && draft.source != waiting);
        }
        EventBody::TurnFinished(_) => drafts.clear(),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use agentd_core::event::{NoticeAdded, NoticeKind, Origin};
    use agentd_core::ids::ModelCallId;

    fn event(seq: Seq) -> Event {
        let body = NoticeAdded { kind: NoticeKind::Budget, text: seq.to_string() };
        Event { seq, at_ms: 0, turn: None, origin: Origin::Daemon, body: body.into() }
    }

    fn piece(offset: u64, text: &str) -> Delta {
        Delta { source: DeltaSource::Text(ModelCallId::new("m_1")), block: 0, offset, text: text.to_owned() }
    }

    #[test]
    fn recent_events_are_given_only_without_holes() {
        let feed = Feed::new(5);
        assert!(feed.recent_after(5).is_some_and(|events| events.is_empty()));
        assert!(feed.recent_after(4).is_none());
        feed.publish(&[event(6), event(7)]);
        let seqs = |after| {
            feed.recent_after(after).map(|events| events.iter().map(|e| e.event.seq).collect::<Vec<_>>())
        };
        assert_eq!(seqs(5), Some(vec![6, 7]));
        assert_eq!(seqs(6), Some(vec![7]));
        assert_eq!(seqs(4), None);
    }

    #[test]
    fn recent_events_are_bounded_by_bytes_but_the_newest_stays() {
        let large = |seq, bytes| {
            let body = NoticeAdded { kind: NoticeKind::Budget, text: "x".repeat(bytes) };
            Event { seq, at_ms: 0, turn: None, origin: Origin::Daemon, body: body.into() }
        };
        let feed = Feed::new(0);
        feed.publish(&[large(1, 10), large(2, RECENT_MAX_BYTES / 2), large(3, RECENT_MAX_BYTES / 2)]);
        assert!(feed.recent_after(1).is_none());
        assert_eq!(feed.recent_after(2).map(|events| events.len()), Some(1));
        feed.publish(&[large(4, 2 * RECENT_MAX_BYTES)]);
        assert!(feed.recent_after(2).is_none());
        assert_eq!(feed.recent_after(3).map(|events| events.len()), Some(1));
        feed.publish(&[large(5, 10)]);
        assert_eq!(feed.recent_after(4).map(|events| events.len()), Some(1));
        assert!(feed.recent_after(3).is_none());
    }

    #[test]
    fn a_late_watcher_gets_the_draft_and_then_only_what_is_new() {
        let feed = Feed::new(0);
        feed.publish_delta(piece(0, "ab"));
        let mut watcher = feed.watch();
        feed.publish_delta(piece(2, "cd"));
        assert_eq!(watcher.drafts, vec![piece(0, "ab")]);
        assert_eq!(watcher.live.try_recv().unwrap().delta, piece(2, "cd"));
        feed.rewatch(&mut watcher);
        assert_eq!(watcher.drafts, vec![piece(0, "abcd")]);
        assert!(watcher.live.try_recv().is_err());
    }

    #[test]
    fn a_long_draft_keeps_its_end_and_says_where_it_begins() {
        let feed = Feed::new(0);
        let text = "é".repeat(DRAFT_MAX_BYTES);
        feed.publish_delta(piece(0, &text));
        feed.publish_delta(piece(text.len() as u64, "x"));
        let draft = &feed.watch().drafts[0];
        assert!(draft.text.len() <= DRAFT_MAX_BYTES);
        assert_eq!(draft.offset + draft.text.len() as u64, text.len() as u64 + 1);
    }
}
