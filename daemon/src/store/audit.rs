//! The audit chain: each row's hash covers all of its fields and the hash before it.
//!
//! Invariants: rows are numbered from 1 without holes; the number and the hash of the last row are kept apart
//! in `meta`, so a chain whose end was cut off is found too. What this shows is that rows were changed or
//! removed by something that does not know the chain; whoever can run this code can also forge it.

use super::hex;
use super::row::{int, uint};
use crate::ports::{AuditRow, AuditVerdict};
use agentd_core::ids::SessionId;
use agentd_core::limits;
use agentd_core::projection::AuditEntry;
use rusqlite::{Connection, OptionalExtension, Row, params};
use sha2::{Digest, Sha256};

/// SHA-256 of one link.
pub(super) type LinkHash = [u8; 32];

/// The end of the chain.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct AuditHead {
    /// Number of the last row; 0 before the first.
    pub(super) audit_no: u64,
    /// Its hash; zeros before the first.
    pub(super) hash: LinkHash,
}

const COLUMNS: &str = "audit_no, at_ms, session_id, call_id, actor, action, tool, decision, rule, args_hash, \
                       args_redacted, outcome, hash, prev_hash";

impl AuditHead {
    /// The head after one more row: a hash over a domain mark, the hash before, the number, and every field as
    /// presence, length and bytes, so that no two different rows have the same encoding.
    pub(super) fn next(&self, entry: &AuditEntry) -> Self {
        let audit_no = self.audit_no + 1;
        let mut hash = Sha256::new();
        hash.update(b"agentd audit 1\n");
        hash.update(self.hash);
        hash.update(audit_no.to_be_bytes());
        hash.update(entry.at_ms.to_be_bytes());
        let fields = [
            Some(entry.session_id.as_str()),
            entry.call_id.as_deref(),
            Some(entry.actor.as_str()),
            Some(entry.action.as_str()),
            entry.tool.as_deref(),
            entry.decision.as_deref(),
            entry.rule.as_deref(),
            entry.args_hash.as_deref(),
            entry.args.as_deref(),
            entry.outcome.as_deref(),
        ];
        for field in fields {
            match field {
                None => hash.update([0]),
                Some(text) => {
                    hash.update([1]);
                    hash.update((text.len() as u64).to_be_bytes());
                    hash.update(text.as_bytes());
                }
            }
        }
        Self { audit_no, hash: hash.finalize().into() }
    }

    /// Reads the end of the chain from the rows: the truth if `meta` lags, which it cannot.
    pub(super) fn load(conn: &Connection) -> rusqlite::Result<Self> {
        let last = conn
            .prepare_cached("SELECT audit_no, hash FROM audit ORDER BY audit_no DESC LIMIT 1")?
            .query_row([], |row| Ok(Self { audit_no: uint(row.get(0)?), hash: row.get(1)? }))
            .optional()?;
        let kept = Self::kept(conn)?;
        Ok(match (last, kept) {
            // The end was cut off from outside. Going on from the head that was kept leaves the hole visible.
            (last, Some(kept)) if last.is_none_or(|last| last.audit_no < kept.audit_no) => kept,
            (last, _) => last.unwrap_or_default(),
        })
    }

    /// Keeps the end of the chain beside it, in the transaction of its rows.
    pub(super) fn keep(&self, conn: &Connection) -> rusqlite::Result<()> {
        let value = format!("{} {}", self.audit_no, hex(&self.hash));
        conn.prepare_cached(
            "INSERT INTO meta (key, value) VALUES ('audit_head', ?1) ON CONFLICT (key) DO UPDATE SET value = ?1",
        )?
        .execute([value])?;
        Ok(())
    }

    fn kept(conn: &Connection) -> rusqlite::Result<Option<Self>> {
        let value: Option<String> = conn
            .query_row("SELECT value FROM meta WHERE key = 'audit_head'", [], |row| row.get(0))
            .optional()?;
        Ok(value.and_then(|value| {
            let (number, hash) = value.split_once(' ')?;
            Some(Self { audit_no: number.parse().ok()?, hash: super::unhex(hash)? })
        }))
    }
}

/// Adds a row and returns the new head.
pub(super) fn insert(conn: &Connection, head: &AuditHead, entry: &AuditEntry) -> rusqlite::Result<AuditHead> {
    let next = head.next(entry);
    conn.prepare_cached(
        "INSERT INTO audit (audit_no, at_ms, session_id, call_id, actor, action, tool, decision, rule, \
         args_hash, args_redacted, outcome, prev_hash, hash) \
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14)",
    )?
    .execute(params![
        int(next.audit_no),
        entry.at_ms,
        entry.session_id.as_str(),
        entry.call_id,
        entry.actor,
        entry.action,
        entry.tool,
        entry.decision,
        entry.rule,
        entry.args_hash,
        entry.args,
        entry.outcome,
        head.hash,
        next.hash,
    ])?;
    Ok(next)
}

/// A page of rows.
pub(super) fn page(
    conn: &Connection,
    session: Option<&SessionId>,
    after_no: u64,
    limit: usize,
) -> rusqlite::Result<Vec<AuditRow>> {
    let read = |row: &Row<'_>| Ok(read_row(row)?.row);
    match session {
        Some(id) => conn
            .prepare_cached(&format!(
                "SELECT {COLUMNS} FROM audit WHERE session_id = ?1 AND audit_no > ?2 ORDER BY audit_no LIMIT ?3"
            ))?
            .query_map(params![id.as_str(), int(after_no), int(limit as u64)], read)?
            .collect(),
        None => conn
            .prepare_cached(&format!("SELECT {COLUMNS} FROM audit WHERE audit_no > ?1 ORDER BY audit_no LIMIT ?2"))?
            .query_map(params![int(after_no), int(limit as u64)], read)?
            .collect(),
    }
}

/// Where a walk along the chain is.
#[derive(Debug, Default)]
pub(super) struct Walk {
    head: AuditHead,
    rows: u64,
    first_bad: Option<u64>,
}

impl Walk {
    /// Reads one page; true when the chain is at its end. Each page is its own short transaction.
    pub(super) fn step(&mut self, conn: &Connection) -> rusqlite::Result<bool> {
        let tx = conn.unchecked_transaction()?;
        let mut statement = tx.prepare_cached(&format!(
            "SELECT {COLUMNS} FROM audit WHERE audit_no > ?1 ORDER BY audit_no LIMIT ?2"
        ))?;
        let page: Vec<Link> = statement
            .query_map(params![int(self.head.audit_no), int(limits::AUDIT_PAGE_ROWS as u64)], read_row)?
            .collect::<rusqlite::Result<_>>()?;
        for link in &page {
            self.take(link);
        }
        if page.len() == limits::AUDIT_PAGE_ROWS {
            return Ok(false);
        }
        // In the same transaction as the last page, else a row that is appended meanwhile looks like a hole.
        if let Some(kept) = AuditHead::kept(&tx)?
            && kept != self.head
            && self.first_bad.is_none()
        {
            self.first_bad = Some(self.head.audit_no.min(kept.audit_no) + 1);
        }
        Ok(true)
    }

    fn take(&mut self, link: &Link) {
        self.rows += 1;
        let expected = self.head.next(&link.row.entry);
        let follows = expected.audit_no == link.row.audit_no
            && link.prev_hash.as_slice() == self.head.hash
            && link.hash.as_slice() == expected.hash;
        if !follows && self.first_bad.is_none() {
            self.first_bad = Some(expected.audit_no);
        }
        // Go on from what is stored, so that the walk ends and counts whatever was found.
        self.head = AuditHead {
            audit_no: link.row.audit_no,
            hash: LinkHash::try_from(link.hash.as_slice()).unwrap_or_default(),
        };
    }

    /// What was found so far.
    pub(super) fn verdict(self) -> AuditVerdict {
        AuditVerdict { rows: self.rows, first_bad: self.first_bad }
    }
}

struct Link {
    row: AuditRow,
    hash: Vec<u8>,
    prev_hash: Vec<u8>,
}

fn read_row(row: &Row<'_>) -> rusqlite::Result<Link> {
    let hash: Vec<u8> = row.get(12)?;
    Ok(Link {
        row: AuditRow {
            audit_no: uint(row.get(0)?),
            entry: AuditEntry {
                at_ms: row.get(1)?,
                session_id: SessionId::new(row.get::<_, String>(2)?),
                call_id: row.get(3)?,
                actor: row.get(4)?,
                action: row.get(5)?,
                tool: row.get(6)?,
                decision: row.get(7)?,
                rule: row.get(8)?,
                args_hash: row.get(9)?,
                args: row.get(10)?,
                outcome: row.get(11)?,
            },
            hash: hex(&hash),
        },
        hash,
        prev_hash: row.get(13)?,
    })
}
