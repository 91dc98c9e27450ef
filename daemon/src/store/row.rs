//! Events as rows, and back.
//!
//! Invariants: a body is stored as the bytes that the event encodes to, never through a JSON tree, so the key
//! order and the numbers of raw provider JSON survive. A body beyond [`limits::EVENT_INLINE_MAX_BYTES`] is in
//! the blob store and the row names it as `{"$blob":"HASH"}`; no event has such a field.

use super::derive::{Derived, Identity, derive, identity};
use crate::ports::{Append, RequestClaim, StoreError};
use agentd_core::event::{Event, EventBody};
use agentd_core::ids::{Seq, SessionId, TurnNo};
use agentd_core::limits;
use agentd_core::projection::{AuditEntry, OpenWork, Summary};
use rusqlite::Row;

const POINTER_HEAD: &str = "{\"$blob\":\"";
const POINTER_TAIL: &str = "\"}";

/// An event ready to be written.
#[derive(Debug)]
pub(super) struct EventRow {
    pub(super) seq: Seq,
    pub(super) at_ms: i64,
    pub(super) kind: &'static str,
    pub(super) version: u32,
    pub(super) turn: Option<TurnNo>,
    pub(super) origin: String,
    pub(super) body: String,
    pub(super) identity: Option<Identity>,
    pub(super) derived: Vec<Derived>,
}

/// An append ready to be written: all encoding is done on the caller's thread.
#[derive(Debug)]
pub(super) struct Prepared {
    pub(super) session_id: SessionId,
    pub(super) expected_seq: Seq,
    pub(super) rows: Vec<EventRow>,
    pub(super) claim: Option<RequestClaim>,
    pub(super) audit: Vec<AuditEntry>,
    pub(super) summary: Summary,
    pub(super) open_work: Option<Vec<OpenWork>>,
    /// The commit must reach the disk.
    pub(super) barrier: bool,
}

impl Prepared {
    /// Encodes an append. Bodies that are too large are still inline.
    pub(super) fn new(append: Append) -> Result<Self, StoreError> {
        check_numbers(&append)?;
        let rows = append
            .events
            .iter()
            .map(|event| encode(&append.session_id, event))
            .collect::<Result<Vec<_>, _>>()?;
        Ok(Self {
            session_id: append.session_id,
            expected_seq: append.expected_seq,
            barrier: append.events.iter().any(|event| event.body.is_barrier()),
            rows,
            claim: append.claim,
            audit: append.audit,
            summary: append.summary,
            open_work: append.open_work,
        })
    }
}

/// Refuses an append that contradicts itself: a mistake of the caller, found before anything is written.
pub(super) fn check_numbers(append: &Append) -> Result<(), StoreError> {
    if append.summary.session_id != append.session_id {
        return Err(StoreError::Failed(format!(
            "an append to session {} came with the summary of {}",
            append.session_id, append.summary.session_id
        )));
    }
    for (event, seq) in append.events.iter().zip(append.expected_seq + 1..) {
        if event.seq != seq {
            return Err(StoreError::Failed(format!(
                "session {}: event {} came where {seq} was due",
                append.session_id, event.seq
            )));
        }
    }
    Ok(())
}

fn encode(session_id: &SessionId, event: &Event) -> Result<EventRow, StoreError> {
    let failed = |error| {
        StoreError::Failed(format!(
            "session {session_id}, event {}: a {} cannot be written as JSON: {error}",
            event.seq,
            event.body.kind().as_str()
        ))
    };
    let kind = event.body.kind();
    Ok(EventRow {
        seq: event.seq,
        at_ms: event.at_ms,
        kind: kind.as_str(),
        version: kind.version(),
        turn: event.turn,
        origin: serde_json::to_string(&event.origin).map_err(failed)?,
        body: event.body.encode().map_err(failed)?,
        identity: identity(event),
        derived: derive(event),
    })
}

impl EventRow {
    /// Whether the body must go to the blob store.
    pub(super) fn is_large(&self) -> bool {
        self.body.len() > limits::EVENT_INLINE_MAX_BYTES
    }
    /// Names the blob that holds the body.
    pub(super) fn point_to(&mut self, hash: &str) {
        self.body = format!("{POINTER_HEAD}{hash}{POINTER_TAIL}");
        self.derived.push(Derived::BlobHeld(hash.to_owned()));
    }
}

/// The blob that a stored body names, if it is such a name.
pub(super) fn pointed_to(body: &str) -> Option<&str> {
    body.strip_prefix(POINTER_HEAD)?.strip_suffix(POINTER_TAIL)
}

/// The columns of [`StoredEvent::read`], in order.
pub(super) const EVENT_COLUMNS: &str = "seq, at_ms, kind, version, turn_no, origin, body";

/// An event as its row has it.
#[derive(Debug)]
pub(super) struct StoredEvent {
    pub(super) seq: i64,
    at_ms: i64,
    kind: String,
    version: u32,
    turn: Option<TurnNo>,
    origin: String,
    pub(super) body: String,
}

impl StoredEvent {
    /// Reads [`EVENT_COLUMNS`].
    pub(super) fn read(row: &Row<'_>) -> rusqlite::Result<Self> {
        Ok(Self {
            seq: row.get(0)?,
            at_ms: row.get(1)?,
            kind: row.get(2)?,
            version: row.get(3)?,
            turn: row.get(4)?,
            origin: row.get(5)?,
            body: row.get(6)?,
        })
    }

    /// Decodes the event from its body, which is `large` when the row only names it.
    pub(super) fn decode(&self, session_id: &SessionId, large: Option<&[u8]>) -> Result<Event, StoreError> {
        let damaged =
            |what: &str| StoreError::Corrupt(format!("session {session_id}, event {}: {what}", self.seq));
        let body = match large {
            None => self.body.as_str(),
            Some(bytes) => std::str::from_utf8(bytes).map_err(|error| damaged(&error.to_string()))?,
        };
        Ok(Event {
            seq: Seq::try_from(self.seq).map_err(|_| damaged("its number is negative"))?,
            at_ms: self.at_ms,
            turn: self.turn,
            origin: serde_json::from_str(&self.origin)
                .map_err(|error| damaged(&format!("origin: {error}")))?,
            body: EventBody::decode(&self.kind, self.version, body)
                .map_err(|error| damaged(&error.to_string()))?,
        })
    }
}

/// An unsigned number as SQLite keeps it; nothing we count comes near the end of the range.
pub(super) fn int(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

/// A stored number that is never negative.
pub(super) fn uint(value: i64) -> u64 {
    u64::try_from(value).unwrap_or(0)
}
