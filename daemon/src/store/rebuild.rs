//! The projections, made again from the log: the proof that they hold nothing of their own.
//!
//! Deliberately absent: the fold. List rows and open work are a fold of core's; the caller brings them.

use super::blob_rows;
use super::connection::open_reader;
use super::derive::derive;
use super::fault::store_error;
use super::project::{self, At};
use super::read::{self, Page};
use super::row::{int, pointed_to};
use crate::ports::StoreError;
use agentd_core::ids::SessionId;
use agentd_core::limits;
use agentd_core::projection::{OpenWork, Summary};
use rusqlite::{Connection, OptionalExtension, params};
use std::path::{Path, PathBuf};

/// What a rebuild is made from, beside the log.
pub(super) struct Rebuild {
    /// Where the large bodies are.
    pub(super) blobs_path: PathBuf,
    /// The fold of each session.
    pub(super) sessions: Vec<(Summary, Vec<OpenWork>)>,
}

/// Empties the projections and makes them again, inside the caller's transaction. All sessions of the log take
/// part; one without a fold has no list row afterwards.
pub(super) fn run(conn: &Connection, path: &Path, asked: &Rebuild) -> Result<(), StoreError> {
    let failed = |error| store_error(path, &error);
    let blobs = open_reader(&asked.blobs_path).map_err(|error| store_error(&asked.blobs_path, &error))?;
    for table in project::TABLES {
        conn.execute(&format!("DELETE FROM {table}"), []).map_err(failed)?;
    }
    for (session_no, id) in sessions(conn).map_err(failed)? {
        events(conn, path, &blobs, session_no, &id)?;
    }
    for (summary, work) in &asked.sessions {
        fold(conn, summary, work).map_err(failed)?;
    }
    Ok(())
}

fn sessions(conn: &Connection) -> rusqlite::Result<Vec<(i64, SessionId)>> {
    conn.prepare("SELECT session_no, session_id FROM sessions ORDER BY session_no")?
        .query_map([], |row| Ok((row.get(0)?, SessionId::new(row.get::<_, String>(1)?))))?
        .collect()
}

fn events(
    conn: &Connection,
    path: &Path,
    blobs: &Connection,
    session_no: i64,
    id: &SessionId,
) -> Result<(), StoreError> {
    let failed = |error| store_error(path, &error);
    let mut after = 0;
    loop {
        let page =
            read::stored_events(conn, id, Page::After(after), limits::EVENTS_PAGE_MAX).map_err(failed)?;
        for stored in &page {
            let mut derived = Vec::new();
            let event = match pointed_to(&stored.body) {
                None => stored.decode(id, None)?,
                Some(hash) => {
                    derived.push(super::derive::Derived::BlobHeld(hash.to_owned()));
                    let body = blob_rows::read_range(blobs, hash, 0, usize::MAX).map_err(failed)?;
                    let gone = || {
                        StoreError::Corrupt(format!(
                            "session {id}, event {}: blob {hash} is gone",
                            stored.seq
                        ))
                    };
                    stored.decode(id, Some(&body.ok_or_else(gone)?))?
                }
            };
            derived.extend(derive(&event));
            let at = At { session_no, seq: event.seq, at_ms: event.at_ms, turn: event.turn };
            for change in &derived {
                project::apply(conn, at, change).map_err(failed)?;
            }
            after = event.seq;
        }
        if page.len() < limits::EVENTS_PAGE_MAX {
            return Ok(());
        }
    }
}

fn fold(conn: &Connection, summary: &Summary, work: &[OpenWork]) -> rusqlite::Result<()> {
    let found: Option<(i64, i64)> = conn
        .prepare_cached(
            "SELECT s.session_no, e.event_no FROM sessions s JOIN events e ON e.session_no = s.session_no \
             WHERE s.session_id = ?1 AND e.seq = ?2",
        )?
        .query_row(params![summary.session_id.as_str(), int(summary.last_seq)], |row| {
            Ok((row.get(0)?, row.get(1)?))
        })
        .optional()?;
    if let Some((session_no, revision)) = found {
        project::put_summary(conn, session_no, revision, summary)?;
        project::put_open_work(conn, session_no, work)?;
    }
    Ok(())
}
