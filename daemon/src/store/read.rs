//! What is read from the log and the tables beside it.

use super::blob_rows;
use super::fault::store_error;
use super::readers::{Reader, Readers};
use super::row::{EVENT_COLUMNS, StoredEvent, int, pointed_to, uint};
use crate::ports::{ArtifactRow, FirstAnswer, ListedSession, StoreError, SummaryFilter};
use agentd_core::event::{ArtifactStored, Event, PermissionMode, Usage};
use agentd_core::ids::{ArtifactId, CallId, RequestId, Seq, SessionId};
use agentd_core::limits;
use agentd_core::path_bytes::PathBytes;
use agentd_core::projection::{CallCounts, OpenKind, OpenWork, SessionState, Summary};
use rusqlite::types::Type;
use rusqlite::{Connection, OptionalExtension, Result, Row, ToSql, params};

/// Which page of a session's log.
#[derive(Clone, Copy, Debug)]
pub(super) enum Page {
    /// The one that begins after this event.
    After(Seq),
    /// The one that ends before this event.
    Before(Seq),
}

/// One page of events, in order, with the bodies that are in the blob store. It ends early, but not before its first
/// event, when the bodies have [`limits::EVENTS_PAGE_MAX_BYTES`].
pub(super) fn events(
    readers: &Readers,
    reader: &Reader,
    id: &SessionId,
    page: Page,
    limit: usize,
) -> std::result::Result<Vec<Event>, StoreError> {
    let stored = stored_events(&reader.log, id, page, limit)
        .map_err(|error| store_error(readers.log_path(), &error))?;
    let backwards = matches!(page, Page::Before(_));
    let rows: Box<dyn Iterator<Item = &StoredEvent>> =
        if backwards { Box::new(stored.iter().rev()) } else { Box::new(stored.iter()) };
    let (mut events, mut bytes) = (Vec::new(), 0);
    for row in rows {
        let (event, size) = decode(readers, reader, id, row)?;
        bytes += size;
        if bytes > limits::EVENTS_PAGE_MAX_BYTES && !events.is_empty() {
            break;
        }
        events.push(event);
    }
    if backwards {
        events.reverse();
    }
    Ok(events)
}

/// An event and the bytes of its body.
fn decode(
    readers: &Readers,
    reader: &Reader,
    id: &SessionId,
    event: &StoredEvent,
) -> std::result::Result<(Event, usize), StoreError> {
    let Some(hash) = pointed_to(&event.body) else { return Ok((event.decode(id, None)?, event.body.len())) };
    let large = blob_rows::read_range(&reader.blobs, hash, 0, usize::MAX)
        .map_err(|error| store_error(readers.blobs_path(), &error))?
        .ok_or_else(|| {
            StoreError::Corrupt(format!("session {id}, event {}: its body, blob {hash}, is gone", event.seq))
        })?;
    Ok((event.decode(id, Some(&large))?, large.len()))
}

/// One page of rows, in order.
pub(super) fn stored_events(
    conn: &Connection,
    id: &SessionId,
    page: Page,
    limit: usize,
) -> Result<Vec<StoredEvent>> {
    let (seq, comparison, order) = match page {
        Page::After(seq) => (seq, ">", "ASC"),
        Page::Before(seq) => (seq, "<", "DESC"),
    };
    let mut rows: Vec<StoredEvent> = conn
        .prepare_cached(&format!(
            "SELECT {EVENT_COLUMNS} FROM events \
             WHERE session_no = (SELECT session_no FROM sessions WHERE session_id = ?1) AND seq {comparison} ?2 \
             ORDER BY seq {order} LIMIT ?3"
        ))?
        .query_map(params![id.as_str(), int(seq), int(limit as u64)], StoredEvent::read)?
        .collect::<Result<_>>()?;
    if matches!(page, Page::Before(_)) {
        rows.reverse();
    }
    Ok(rows)
}

/// The first use of a request id.
pub(super) fn first_answer(conn: &Connection, request_id: &str) -> Result<Option<FirstAnswer>> {
    conn.prepare_cached("SELECT method, content_hash, answer FROM requests WHERE request_id = ?1")?
        .query_row([request_id], |row| {
            Ok(FirstAnswer { method: row.get(0)?, content_hash: row.get(1)?, answer: row.get(2)? })
        })
        .optional()
}

/// The number of a session's last event.
pub(super) fn last_seq(conn: &Connection, id: &SessionId) -> Result<Option<Seq>> {
    conn.prepare_cached(
        "SELECT (SELECT max(seq) FROM events e WHERE e.session_no = s.session_no) \
         FROM sessions s WHERE session_id = ?1",
    )?
    .query_row([id.as_str()], |row| row.get::<_, Option<i64>>(0))
    .optional()
    .map(|found| found.flatten().map(uint))
}

const SUMMARY_COLUMNS: &str = "s.session_id, m.name, m.cwd, m.model, m.mode, m.state, m.last_seq, m.turn_no, \
    m.open_calls, m.open_requests, m.calls_ok, m.calls_error, m.calls_denied, m.calls_invalid, \
    m.calls_timed_out, m.calls_cancelled, m.calls_unknown, m.tokens_in, m.tokens_out, m.tokens_cache_read, \
    m.tokens_cache_write, m.cost_micro_usd, m.created_at_ms, m.updated_at_ms";
const SUMMARY_TABLES: &str = "session_summaries m JOIN sessions s ON s.session_no = m.session_no";

fn read_summary(row: &Row<'_>) -> Result<Summary> {
    Ok(Summary {
        session_id: SessionId::new(row.get::<_, String>(0)?),
        name: row.get(1)?,
        cwd: PathBytes::new(row.get::<_, Vec<u8>>(2)?),
        model: row.get(3)?,
        mode: word(row, 4, PermissionMode::from_word)?,
        state: word(row, 5, SessionState::from_word)?,
        last_seq: uint(row.get(6)?),
        turn: row.get(7)?,
        open_calls: row.get(8)?,
        open_requests: row.get(9)?,
        calls: CallCounts {
            ok: row.get(10)?,
            error: row.get(11)?,
            denied: row.get(12)?,
            invalid: row.get(13)?,
            timed_out: row.get(14)?,
            cancelled: row.get(15)?,
            unknown: row.get(16)?,
        },
        usage: Usage {
            input_tokens: uint(row.get(17)?),
            output_tokens: uint(row.get(18)?),
            cache_read_tokens: uint(row.get(19)?),
            cache_write_tokens: uint(row.get(20)?),
        },
        cost_micro_usd: row.get(21)?,
        created_at_ms: row.get(22)?,
        updated_at_ms: row.get(23)?,
    })
}

fn word<T>(row: &Row<'_>, index: usize, of: impl Fn(&str) -> Option<T>) -> Result<T> {
    let text = row.get_ref(index)?.as_str()?;
    of(text).ok_or_else(|| {
        let why = format!("{text:?} is no word that this build knows");
        rusqlite::Error::FromSqlConversionFailure(index, Type::Text, why.into())
    })
}

/// The sessions that `text` means: the one with this id; else those with this name; else those whose id, with
/// or without its prefix, begins so. At most [`limits::FIND_SESSIONS_MAX`].
pub(super) fn find_sessions(conn: &Connection, text: &str) -> Result<Vec<Summary>> {
    if text.is_empty() {
        return Ok(Vec::new());
    }
    let visible = "s.hidden_at_ms IS NULL";
    let exact = summaries(conn, &format!("s.session_id = ?1 AND {visible}"), &[&text])?;
    if !exact.is_empty() {
        return Ok(exact);
    }
    let named = summaries(conn, &format!("m.name = ?1 AND {visible}"), &[&text])?;
    if !named.is_empty() {
        return Ok(named);
    }
    let (from, to) = prefix_range(text, SessionId::PREFIX);
    summaries(conn, &format!("s.session_id >= ?1 AND s.session_id < ?2 AND {visible}"), &[&from, &to])
}

fn summaries(conn: &Connection, condition: &str, params: &[&dyn ToSql]) -> Result<Vec<Summary>> {
    let limit = limits::FIND_SESSIONS_MAX;
    conn.prepare_cached(&format!(
        "SELECT {SUMMARY_COLUMNS} FROM {SUMMARY_TABLES} WHERE {condition} ORDER BY s.session_id LIMIT {limit}"
    ))?
    .query_map(params, read_summary)?
    .collect()
}

/// The range of ids that begin with `text`, whether or not it has the prefix that all of them have.
fn prefix_range(text: &str, prefix: &str) -> (String, String) {
    let from = if text.starts_with(prefix) || prefix.starts_with(text) {
        text.to_owned()
    } else {
        format!("{prefix}{text}")
    };
    let to = format!("{from}{}", char::MAX);
    (from, to)
}

/// The list, newest change first; a limit of 0 is none.
pub(super) fn list(conn: &Connection, filter: &SummaryFilter) -> Result<Vec<ListedSession>> {
    // One transaction: a request that is open in one read and gone in the next would be shown half.
    let tx = conn.unchecked_transaction()?;
    let mut condition = String::from("s.hidden_at_ms IS NULL");
    let mut values: Vec<Box<dyn ToSql>> = Vec::new();
    if let Some(cwd) = &filter.cwd {
        values.push(Box::new(cwd.as_bytes().to_vec()));
        condition.push_str(&format!(" AND m.cwd = ?{}", values.len()));
    }
    if let Some(state) = filter.state {
        values.push(Box::new(state.as_str()));
        condition.push_str(&format!(" AND m.state = ?{}", values.len()));
    }
    if let Some(revision) = filter.after_revision {
        values.push(Box::new(int(revision)));
        condition.push_str(&format!(" AND m.revision > ?{}", values.len()));
    }
    let limit = if filter.limit == 0 { -1 } else { int(filter.limit as u64) };
    values.push(Box::new(limit));
    let sql = format!(
        "SELECT {SUMMARY_COLUMNS}, m.revision, m.session_no FROM {SUMMARY_TABLES} \
         WHERE {condition} ORDER BY m.revision DESC LIMIT ?{}",
        values.len()
    );
    let rows: Vec<(Summary, i64, i64)> = tx
        .prepare_cached(&sql)?
        .query_map(rusqlite::params_from_iter(values.iter()), |row| {
            Ok((read_summary(row)?, row.get(24)?, row.get(25)?))
        })?
        .collect::<Result<_>>()?;
    rows.into_iter()
        .map(|(summary, revision, session_no)| {
            let requests = open_requests(&tx, session_no)?;
            Ok(ListedSession { summary, revision: uint(revision), requests })
        })
        .collect()
}

fn open_requests(conn: &Connection, session_no: i64) -> Result<Vec<OpenWork>> {
    conn.prepare_cached("SELECT id, detail FROM open_work WHERE session_no = ?1 AND kind = 'request'")?
        .query_map([session_no], |row| {
            Ok(OpenWork { kind: OpenKind::Request, id: row.get(0)?, detail: row.get(1)? })
        })?
        .collect()
}

/// Sessions with open work.
pub(super) fn sessions_with_open_work(conn: &Connection) -> Result<Vec<SessionId>> {
    conn.prepare_cached(
        "SELECT session_id FROM sessions WHERE session_no IN (SELECT session_no FROM open_work) \
         ORDER BY session_no",
    )?
    .query_map([], |row| Ok(SessionId::new(row.get::<_, String>(0)?)))?
    .collect()
}

/// Where a request is open, or was. Of several that begin so, the one that is open.
pub(super) fn session_of_request(conn: &Connection, text: &str) -> Result<Option<SessionId>> {
    if text.is_empty() {
        return Ok(None);
    }
    let (from, to) = prefix_range(text, RequestId::PREFIX);
    let open = "SELECT w.id, s.session_id FROM open_work w JOIN sessions s ON s.session_no = w.session_no \
                WHERE w.kind = 'request' AND w.id >= ?1 AND w.id < ?2 ORDER BY w.id LIMIT 2";
    let ever = "SELECT r.request_id, s.session_id FROM request_sessions r \
                JOIN sessions s ON s.session_no = r.session_no \
                WHERE r.request_id >= ?1 AND r.request_id < ?2 ORDER BY r.request_id LIMIT 2";
    for sql in [open, ever] {
        let found: Vec<(String, String)> = conn
            .prepare_cached(sql)?
            .query_map([&from, &to], |row| Ok((row.get(0)?, row.get(1)?)))?
            .collect::<Result<_>>()?;
        match found.as_slice() {
            [] => {}
            // In the order of ids the one that is `from` itself comes first.
            [(id, session), rest @ ..] if *id == from || rest.is_empty() => {
                return Ok(Some(SessionId::new(session.clone())));
            }
            _ => return Ok(None),
        }
    }
    Ok(None)
}

const ARTIFACT_COLUMNS: &str = "s.session_id, a.artifact_id, a.call_id, a.kind, a.blob_hash, a.size_bytes, \
    a.line_count, a.mime, a.redactions, a.created_at_ms \
    FROM artifacts a JOIN sessions s ON s.session_no = a.session_no";

fn read_artifact(row: &Row<'_>) -> Result<ArtifactRow> {
    Ok(ArtifactRow {
        session_id: SessionId::new(row.get::<_, String>(0)?),
        stored: ArtifactStored {
            artifact_id: ArtifactId::new(row.get::<_, String>(1)?),
            call_id: row.get::<_, Option<String>>(2)?.map(CallId::new),
            source: row.get(3)?,
            hash: row.get(4)?,
            size_bytes: uint(row.get(5)?),
            line_count: uint(row.get(6)?),
            mime: row.get(7)?,
            redactions: row.get(8)?,
        },
        created_at_ms: row.get(9)?,
    })
}

/// One artifact.
pub(super) fn artifact(conn: &Connection, id: &ArtifactId) -> Result<Option<ArtifactRow>> {
    conn.prepare_cached(&format!("SELECT {ARTIFACT_COLUMNS} WHERE a.artifact_id = ?1"))?
        .query_row([id.as_str()], read_artifact)
        .optional()
}

/// The artifacts of a session, in the order of their events.
pub(super) fn artifacts(conn: &Connection, id: &SessionId) -> Result<Vec<ArtifactRow>> {
    conn.prepare_cached(&format!("SELECT {ARTIFACT_COLUMNS} WHERE s.session_id = ?1 ORDER BY a.seq"))?
        .query_map([id.as_str()], read_artifact)?
        .collect()
}
