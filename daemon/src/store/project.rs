//! The tables beside the log, as SQL. Called in the transaction of the events, and by a rebuild.

use super::derive::{Derived, EpochRow, TurnEnd};
use super::row::int;
use agentd_core::event::{ArtifactStored, FileChange, Usage};
use agentd_core::ids::{Seq, TurnNo};
use agentd_core::projection::{OpenWork, Summary};
use rusqlite::{Connection, Result, params};

/// Milliseconds of one day of `usage_daily`.
const DAY_MS: i64 = 24 * 3_600 * 1_000;

/// Where an event is.
#[derive(Clone, Copy, Debug)]
pub(super) struct At {
    pub(super) session_no: i64,
    pub(super) seq: Seq,
    pub(super) at_ms: i64,
    pub(super) turn: Option<TurnNo>,
}

/// Every projection: what a rebuild empties first. Rows of `session_summaries` come from the caller's fold.
pub(super) const TABLES: &[&str] = &[
    "session_summaries",
    "open_work",
    "request_sessions",
    "turns",
    "epochs",
    "artifacts",
    "file_changes",
    "model_calls_open",
    "usage_daily",
    "blob_refs",
];

/// Makes one change.
pub(super) fn apply(conn: &Connection, at: At, derived: &Derived) -> Result<()> {
    match derived {
        Derived::TurnStarted(turn) => run(
            conn,
            "INSERT INTO turns (session_no, turn_no, first_seq) VALUES (?1, ?2, ?3) ON CONFLICT DO NOTHING",
            params![at.session_no, turn, int(at.seq)],
        ),
        Derived::TurnFinished(turn, end) => turn_finished(conn, at, *turn, end),
        Derived::EpochStarted(epoch) => epoch_started(conn, at, epoch),
        Derived::EpochReverted(epoch) => run(
            conn,
            "UPDATE epochs SET reverted_seq = ?3 WHERE session_no = ?1 AND epoch_no = ?2",
            params![at.session_no, epoch, int(at.seq)],
        ),
        Derived::Artifact(stored) => artifact(conn, at, stored),
        Derived::FilesChanged { call_id, changes, coverage } => {
            files_changed(conn, at, call_id, changes, coverage)
        }
        Derived::ModelCallStarted { id, model, purpose } => run(
            conn,
            "INSERT INTO model_calls_open (model_call_id, session_no, model, purpose) VALUES (?1, ?2, ?3, ?4) \
             ON CONFLICT DO NOTHING",
            params![id, at.session_no, model, purpose],
        ),
        Derived::ModelCallFinished { id, usage, cost_micro_usd } => {
            spent(conn, at, id, usage, *cost_micro_usd)?;
            model_call_over(conn, id)
        }
        Derived::ModelCallFailed { id, spent: used } => {
            if let Some((usage, cost_micro_usd)) = used {
                spent(conn, at, id, usage, *cost_micro_usd)?;
            }
            model_call_over(conn, id)
        }
        Derived::RequestOpened(id) => run(
            conn,
            "INSERT INTO request_sessions (request_id, session_no) VALUES (?1, ?2) ON CONFLICT DO NOTHING",
            params![id, at.session_no],
        ),
        Derived::BlobHeld(hash) => run(
            conn,
            "INSERT INTO blob_refs (hash, session_no) VALUES (?1, ?2) ON CONFLICT DO NOTHING",
            params![hash, at.session_no],
        ),
    }
}

fn run(conn: &Connection, sql: &str, params: &[&dyn rusqlite::ToSql]) -> Result<()> {
    conn.prepare_cached(sql)?.execute(params).map(drop)
}

fn turn_finished(conn: &Connection, at: At, turn: TurnNo, end: &TurnEnd) -> Result<()> {
    run(
        conn,
        "UPDATE turns SET last_seq = ?3, status = ?4, steps = ?5, tokens_in = ?6, tokens_out = ?7, \
         tokens_cache_read = ?8, tokens_cache_write = ?9, cost_micro_usd = ?10 \
         WHERE session_no = ?1 AND turn_no = ?2",
        params![
            at.session_no,
            turn,
            int(at.seq),
            end.status,
            end.steps,
            int(end.usage.input_tokens),
            int(end.usage.output_tokens),
            int(end.usage.cache_read_tokens),
            int(end.usage.cache_write_tokens),
            end.cost_micro_usd,
        ],
    )
}

fn epoch_started(conn: &Connection, at: At, row: &EpochRow) -> Result<()> {
    run(
        conn,
        "INSERT INTO epochs (session_no, epoch_no, start_seq, reason, model, system_hash, tools_hash, thinking, \
         tokens_before, tokens_after) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10) ON CONFLICT DO NOTHING",
        params![
            at.session_no,
            row.epoch,
            int(at.seq),
            row.reason,
            row.model,
            row.system_hash,
            row.tools_hash,
            row.thinking,
            int(row.tokens_before),
            int(row.tokens_after),
        ],
    )
}

fn artifact(conn: &Connection, at: At, stored: &ArtifactStored) -> Result<()> {
    run(
        conn,
        "INSERT INTO artifacts (artifact_id, session_no, seq, call_id, kind, mime, blob_hash, size_bytes, \
         line_count, redactions, created_at_ms) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11) \
         ON CONFLICT DO NOTHING",
        params![
            stored.artifact_id.as_str(),
            at.session_no,
            int(at.seq),
            stored.call_id.as_ref().map(AsRef::<str>::as_ref),
            stored.source,
            stored.mime,
            stored.hash,
            int(stored.size_bytes),
            int(stored.line_count),
            stored.redactions,
            at.at_ms,
        ],
    )
}

fn files_changed(
    conn: &Connection,
    at: At,
    call_id: &str,
    changes: &[FileChange],
    coverage: &str,
) -> Result<()> {
    for (position, change) in (0_i64..).zip(changes) {
        run(
            conn,
            "INSERT INTO file_changes (session_no, seq, position, turn_no, call_id, path, before_hash, after_hash, \
             before_mode, after_mode, coverage) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)",
            params![
                at.session_no,
                int(at.seq),
                position,
                at.turn,
                call_id,
                change.path.as_bytes(),
                change.before,
                change.after,
                change.before_mode,
                change.after_mode,
                coverage,
            ],
        )?;
    }
    Ok(())
}

fn spent(conn: &Connection, at: At, id: &str, usage: &Usage, cost_micro_usd: i64) -> Result<()> {
    run(
        conn,
        "INSERT INTO usage_daily (day, project, model, purpose, model_calls, tokens_in, tokens_out, \
         tokens_cache_read, tokens_cache_write, cost_micro_usd) \
         SELECT ?2, s.root, m.model, m.purpose, 1, ?3, ?4, ?5, ?6, ?7 \
         FROM model_calls_open m JOIN sessions s ON s.session_no = m.session_no WHERE m.model_call_id = ?1 \
         ON CONFLICT (day, project, model, purpose) DO UPDATE SET model_calls = model_calls + 1, \
         tokens_in = min(tokens_in, ?8 - excluded.tokens_in) + excluded.tokens_in, \
         tokens_out = min(tokens_out, ?8 - excluded.tokens_out) + excluded.tokens_out, \
         tokens_cache_read = min(tokens_cache_read, ?8 - excluded.tokens_cache_read) + excluded.tokens_cache_read, \
         tokens_cache_write = min(tokens_cache_write, ?8 - excluded.tokens_cache_write) + excluded.tokens_cache_write, \
         cost_micro_usd = min(cost_micro_usd, ?8 - excluded.cost_micro_usd) + excluded.cost_micro_usd",
        params![
            id,
            at.at_ms.div_euclid(DAY_MS),
            int(usage.input_tokens),
            int(usage.output_tokens),
            int(usage.cache_read_tokens),
            int(usage.cache_write_tokens),
            cost_micro_usd,
            // A sum that does not fit would become a float, which the column refuses with all that stands beside it.
            i64::MAX,
        ],
    )
}

fn model_call_over(conn: &Connection, id: &str) -> Result<()> {
    run(conn, "DELETE FROM model_calls_open WHERE model_call_id = ?1", params![id])
}

/// Writes the list row of a session.
pub(super) fn put_summary(conn: &Connection, session_no: i64, revision: i64, row: &Summary) -> Result<()> {
    run(
        conn,
        "INSERT INTO session_summaries (session_no, name, cwd, model, mode, state, last_seq, revision, turn_no, \
         open_calls, open_requests, calls_ok, calls_error, calls_denied, calls_invalid, calls_timed_out, \
         calls_cancelled, calls_unknown, tokens_in, tokens_out, tokens_cache_read, tokens_cache_write, \
         cost_micro_usd, created_at_ms, updated_at_ms) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, \
         ?13, ?14, ?15, ?16, ?17, ?18, ?19, ?20, ?21, ?22, ?23, ?24, ?25) \
         ON CONFLICT (session_no) DO UPDATE SET name = ?2, cwd = ?3, model = ?4, mode = ?5, state = ?6, \
         last_seq = ?7, revision = ?8, turn_no = ?9, open_calls = ?10, open_requests = ?11, calls_ok = ?12, \
         calls_error = ?13, calls_denied = ?14, calls_invalid = ?15, calls_timed_out = ?16, \
         calls_cancelled = ?17, calls_unknown = ?18, tokens_in = ?19, tokens_out = ?20, \
         tokens_cache_read = ?21, tokens_cache_write = ?22, cost_micro_usd = ?23, created_at_ms = ?24, \
         updated_at_ms = ?25",
        params![
            session_no,
            row.name,
            row.cwd.as_bytes(),
            row.model,
            row.mode.as_str(),
            row.state.as_str(),
            int(row.last_seq),
            revision,
            row.turn,
            row.open_calls,
            row.open_requests,
            row.calls.ok,
            row.calls.error,
            row.calls.denied,
            row.calls.invalid,
            row.calls.timed_out,
            row.calls.cancelled,
            row.calls.unknown,
            int(row.usage.input_tokens),
            int(row.usage.output_tokens),
            int(row.usage.cache_read_tokens),
            int(row.usage.cache_write_tokens),
            row.cost_micro_usd,
            row.created_at_ms,
            row.updated_at_ms,
        ],
    )
}

/// Replaces the open work of a session: rows that stay are not touched.
pub(super) fn put_open_work(conn: &Connection, session_no: i64, work: &[OpenWork]) -> Result<()> {
    let stored: Vec<(String, String, String)> = conn
        .prepare_cached("SELECT kind, id, detail FROM open_work WHERE session_no = ?1")?
        .query_map([session_no], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?
        .collect::<Result<_>>()?;
    for (kind, id, _) in &stored {
        if !work.iter().any(|item| item.kind.as_str() == kind && item.id == *id) {
            run(
                conn,
                "DELETE FROM open_work WHERE session_no = ?1 AND kind = ?2 AND id = ?3",
                params![session_no, kind, id],
            )?;
        }
    }
    for item in work {
        let kind = item.kind.as_str();
        if stored.iter().any(|(k, id, detail)| k == kind && *id == item.id && *detail == item.detail) {
            continue;
        }
        run(
            conn,
            "INSERT INTO open_work (session_no, kind, id, detail) VALUES (?1, ?2, ?3, ?4) \
             ON CONFLICT (session_no, kind, id) DO UPDATE SET detail = ?4",
            params![session_no, kind, item.id, item.detail],
        )?;
    }
    Ok(())
}
