//! When a write-ahead log is copied back into its database.
//!
//! Invariant: never by SQLite's own count inside somebody's commit (`wal_autocheckpoint=0`), but after answers
//! were sent: in a quiet time, or when the log is large.

use super::connection::wal_path;
use agentd_core::limits;
use rusqlite::Connection;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The log of one write connection.
#[derive(Debug)]
pub(super) struct Wal {
    path: PathBuf,
    dirty: bool,
    due_at_bytes: u64,
}

impl Wal {
    /// The log beside `database`. It counts as dirty: a crash may have left one.
    pub(super) fn of(database: &Path) -> Self {
        Self { path: wal_path(database), dirty: true, due_at_bytes: limits::WAL_CHECKPOINT_BYTES }
    }

    /// How long to wait for the next job before tidying up.
    pub(super) fn patience(&self) -> Option<Duration> {
        self.dirty.then_some(Duration::from_millis(limits::STORE_IDLE_MS))
    }

    /// Something was committed. Copies back when the log has become large.
    pub(super) fn written(&mut self, conn: &Connection) {
        self.dirty = true;
        let size = self.size();
        if size < limits::WAL_CHECKPOINT_BYTES {
            self.due_at_bytes = limits::WAL_CHECKPOINT_BYTES;
        } else if size >= self.due_at_bytes {
            copy_back(conn, "PASSIVE");
            // The file shrinks at the first commit that no reader hinders; until then come back only when it
            // has grown, because each time costs two syncs.
            self.due_at_bytes = size + limits::WAL_KEEP_BYTES;
        }
    }

    /// Nothing comes. Copies back.
    pub(super) fn quiet(&mut self, conn: &Connection) {
        copy_back(conn, "PASSIVE");
        self.dirty = false;
    }

    /// The store closes. Copies back and empties the log, unless somebody from outside reads it.
    pub(super) fn close(&self, conn: &Connection) {
        if conn.busy_timeout(Duration::from_millis(limits::STORE_IDLE_MS)).is_ok() {
            copy_back(conn, "TRUNCATE");
        }
    }

    fn size(&self) -> u64 {
        std::fs::metadata(&self.path).map_or(0, |meta| meta.len())
    }
}

/// A failure is no loss: the log keeps what is in it, and a disk that is broken shows itself at the next commit.
fn copy_back(conn: &Connection, mode: &str) {
    let copied = conn.query_row(&format!("PRAGMA wal_checkpoint({mode})"), [], |_| Ok(()));
    if let Err(error) = copied {
        tracing::warn!(%error, mode, "the write-ahead log could not be copied back; it grows until it can");
    }
}
