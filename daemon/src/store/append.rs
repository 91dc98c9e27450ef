//! One append, inside a transaction that the writer opened.
//!
//! Invariants: either all of an append is written or nothing; an append costs the same however long the log
//! is. What is remembered here is only ever what the transaction saw, and is forgotten when it fails.

use super::audit::{self, AuditHead};
use super::fault::store_error;
use super::project::{self, At};
use super::row::{EventRow, Prepared, int, uint};
use crate::ports::{RequestClaim, StoreError};
use agentd_core::ids::{Seq, SessionId};
use agentd_core::limits;
use rusqlite::{Connection, OptionalExtension, params};
use std::collections::HashMap;
use std::path::{Path, PathBuf};

/// Where a session is in the log.
#[derive(Clone, Copy, Debug)]
struct Place {
    session_no: i64,
    last_seq: Seq,
}

/// What the writer knows of the log without asking it.
#[derive(Debug)]
pub(super) struct Ledger {
    path: PathBuf,
    places: HashMap<SessionId, Place>,
    next_event_no: i64,
    audit: AuditHead,
    audit_kept: AuditHead,
    newest_ms: i64,
}

impl Ledger {
    /// Reads what there is to know.
    pub(super) fn load(conn: &Connection, path: &Path) -> rusqlite::Result<Self> {
        let (last_event_no, newest_ms): (i64, i64) = conn.query_row(
            "SELECT coalesce(max(event_no), 0), coalesce((SELECT max(at_ms) FROM requests), 0) FROM events",
            [],
            |row| Ok((row.get(0)?, row.get(1)?)),
        )?;
        let audit = AuditHead::load(conn)?;
        Ok(Self {
            path: path.to_owned(),
            places: HashMap::new(),
            next_event_no: last_event_no + 1,
            audit,
            audit_kept: audit,
            newest_ms,
        })
    }

    /// Writes one append. On an error the caller rolls back to before it; what is remembered is as before.
    pub(super) fn append(&mut self, conn: &Connection, append: &Prepared) -> Result<(), StoreError> {
        let before = (self.next_event_no, self.audit);
        let place = self.place(conn, &append.session_id)?;
        let written = self.write(conn, append, place);
        match written {
            Ok(Some(place)) => {
                if self.places.len() >= limits::SESSION_PLACES_MAX {
                    self.places.clear();
                }
                self.places.insert(append.session_id.clone(), place);
            }
            Ok(None) => {}
            Err(_) => {
                (self.next_event_no, self.audit) = before;
                self.places.remove(&append.session_id);
            }
        }
        written.map(drop)
    }

    /// What has to be written once for all appends of a transaction.
    pub(super) fn finish(&mut self, conn: &Connection) -> rusqlite::Result<()> {
        if self.audit != self.audit_kept {
            self.audit.keep(conn)?;
        }
        Ok(())
    }

    /// The transaction is durable.
    pub(super) fn committed(&mut self) {
        self.audit_kept = self.audit;
    }

    /// Forgets old request ids, a few at a time; true when there may be more.
    pub(super) fn prune_requests(&self, conn: &Connection) -> rusqlite::Result<bool> {
        let deleted = conn
            .prepare_cached(
                "DELETE FROM requests WHERE request_id IN \
                 (SELECT request_id FROM requests WHERE at_ms < ?1 ORDER BY at_ms LIMIT ?2)",
            )?
            .execute(params![
                self.newest_ms - limits::REQUEST_ID_KEEP_MS,
                int(limits::REQUEST_IDS_PRUNED_PER_STEP as u64)
            ])?;
        Ok(deleted == limits::REQUEST_IDS_PRUNED_PER_STEP)
    }

    fn write(
        &mut self,
        conn: &Connection,
        append: &Prepared,
        place: Option<Place>,
    ) -> Result<Option<Place>, StoreError> {
        if let Some(claim) = &append.claim {
            refuse_repetition(conn, claim).map_err(|error| store_error(&self.path, &error))??;
        }
        let current = place.map_or(0, |place| place.last_seq);
        if current != append.expected_seq {
            return Err(StoreError::SeqConflict {
                session_id: append.session_id.clone(),
                expected: append.expected_seq,
                current,
            });
        }
        let written = self.insert(conn, append, place);
        written.map_err(|error| store_error(&self.path, &error))
    }

    fn insert(
        &mut self,
        conn: &Connection,
        append: &Prepared,
        place: Option<Place>,
    ) -> rusqlite::Result<Option<Place>> {
        let session_no = match (place, append.rows.first()) {
            (Some(place), _) => Some(place.session_no),
            (None, Some(first)) => Some(insert_session(conn, append, first)?),
            (None, None) => None,
        };
        if let Some(session_no) = session_no {
            self.insert_rows(conn, session_no, append)?;
            if !append.rows.is_empty() {
                project::put_summary(conn, session_no, self.next_event_no - 1, &append.summary)?;
            }
            if let Some(work) = &append.open_work {
                project::put_open_work(conn, session_no, work)?;
            }
        }
        for entry in &append.audit {
            self.audit = audit::insert(conn, &self.audit, entry)?;
        }
        if let Some(claim) = &append.claim {
            insert_claim(conn, claim, session_no, append)?;
            self.newest_ms = self.newest_ms.max(append.summary.updated_at_ms);
        }
        Ok(session_no
            .map(|session_no| Place { session_no, last_seq: append.expected_seq + append.rows.len() as u64 }))
    }

    fn insert_rows(&mut self, conn: &Connection, session_no: i64, append: &Prepared) -> rusqlite::Result<()> {
        let mut statement = conn.prepare_cached(
            "INSERT INTO events (event_no, session_no, seq, at_ms, kind, version, turn_no, origin, body) \
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)",
        )?;
        for row in &append.rows {
            statement.execute(params![
                self.next_event_no,
                session_no,
                int(row.seq),
                row.at_ms,
                row.kind,
                row.version,
                row.turn,
                row.origin,
                row.body,
            ])?;
            self.next_event_no += 1;
            let at = At { session_no, seq: row.seq, at_ms: row.at_ms, turn: row.turn };
            for derived in &row.derived {
                project::apply(conn, at, derived)?;
            }
        }
        Ok(())
    }

    fn place(&self, conn: &Connection, id: &SessionId) -> Result<Option<Place>, StoreError> {
        if let Some(place) = self.places.get(id) {
            return Ok(Some(*place));
        }
        let found = conn
            .prepare_cached(
                "SELECT session_no, \
                 coalesce((SELECT max(seq) FROM events e WHERE e.session_no = s.session_no), 0) \
                 FROM sessions s WHERE session_id = ?1",
            )
            .and_then(|mut statement| {
                statement
                    .query_row([id.as_str()], |row| {
                        Ok(Place { session_no: row.get(0)?, last_seq: uint(row.get(1)?) })
                    })
                    .optional()
            });
        found.map_err(|error| store_error(&self.path, &error))
    }
}

/// A request id is used once. The caller reads the first answer of a repetition.
fn refuse_repetition(conn: &Connection, claim: &RequestClaim) -> rusqlite::Result<Result<(), StoreError>> {
    let used: Option<Vec<u8>> = conn
        .prepare_cached("SELECT content_hash FROM requests WHERE request_id = ?1")?
        .query_row([&claim.request_id], |row| row.get(0))
        .optional()?;
    Ok(match used {
        None => Ok(()),
        Some(hash) if hash == claim.content_hash => {
            Err(StoreError::RequestRepeated(claim.request_id.clone()))
        }
        Some(_) => Err(StoreError::RequestIdReused(claim.request_id.clone())),
    })
}

fn insert_session(conn: &Connection, append: &Prepared, first: &EventRow) -> rusqlite::Result<i64> {
    let root = first.identity.as_ref().map_or(&append.summary.cwd, |identity| &identity.root);
    let parent = first.identity.as_ref().and_then(|identity| identity.parent.as_ref());
    conn.prepare_cached(
        "INSERT INTO sessions (session_id, root, parent_no, fork_seq, created_at_ms) \
         VALUES (?1, ?2, (SELECT session_no FROM sessions WHERE session_id = ?3), ?4, ?5)",
    )?
    .execute(params![
        append.session_id.as_str(),
        root.as_bytes(),
        parent.map(|(id, _)| id.as_str()),
        parent.map(|(_, seq)| int(*seq)),
        first.at_ms,
    ])?;
    Ok(conn.last_insert_rowid())
}

fn insert_claim(
    conn: &Connection,
    claim: &RequestClaim,
    session_no: Option<i64>,
    append: &Prepared,
) -> rusqlite::Result<()> {
    conn.prepare_cached(
        "INSERT INTO requests (request_id, method, content_hash, session_no, first_seq, last_seq, answer, at_ms) \
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
    )?
    .execute(params![
        claim.request_id,
        claim.method,
        claim.content_hash,
        session_no,
        append.rows.first().map(|row| int(row.seq)),
        append.rows.last().map(|row| int(row.seq)),
        claim.answer,
        append.summary.updated_at_ms,
    ])?;
    Ok(())
}
