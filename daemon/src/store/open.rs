//! Opening: look at both files, refuse what is not ours or newer, migrate, collect orphans, start the threads.

use super::blob::{BlobWriter, Put};
use super::queue::{Inbox, Queue};
use super::readers::Readers;
use super::schema::{migrations, open_migrated, refuse_newer};
use super::writer::{Job, Writer};
use super::{Database, blob_rows, now_ms};
use agentd_core::limits;
use rusqlite::{Connection, OptionalExtension};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Why a store could not be opened. Nothing was written unless it says so.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The file or its folder cannot be used.
    #[error("{path} cannot be opened: {source}; check that the folder exists and is yours")]
    Folder {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// A newer build wrote it. The files are as they were.
    #[error(
        "{path} has schema {found} and this build reads up to {known}: a newer agentd wrote it; use that one, or \
         another AGENTD_HOME"
    )]
    Newer {
        /// The database.
        path: PathBuf,
        /// Its schema.
        found: u32,
        /// The newest schema of this build.
        known: u32,
    },
    /// Some other program wrote it. The file is as it was.
    #[error("{path} is not a database of agentd (application id {application_id}); move it away")]
    Foreign {
        /// The database.
        path: PathBuf,
        /// What it says it is.
        application_id: i32,
    },
    /// A migration was applied in another form than this build has it.
    #[error(
        "{path}: migration {migration} was applied as {recorded} and this build has {ours}; use the build that \
         made the database"
    )]
    MigrationChanged {
        /// The database.
        path: PathBuf,
        /// The migration.
        migration: String,
        /// SHA-256 of what was applied.
        recorded: String,
        /// SHA-256 of what this build would apply.
        ours: String,
    },
    /// A migration failed and was rolled back.
    #[error("{path}: migration {migration} failed and was rolled back: {source}")]
    Migration {
        /// The database.
        path: PathBuf,
        /// The migration.
        migration: String,
        /// What SQLite said.
        source: rusqlite::Error,
    },
    /// The file is of no use here.
    #[error("{path} cannot be used: {why}")]
    Unusable {
        /// The database.
        path: PathBuf,
        /// Why.
        why: String,
    },
    /// Anything else of SQLite.
    #[error("cannot {what} {path}: {source}")]
    Sqlite {
        /// The database.
        path: PathBuf,
        /// What was tried.
        what: &'static str,
        /// What SQLite said.
        source: rusqlite::Error,
    },
}

impl OpenError {
    pub(super) fn sqlite(path: &Path, what: &'static str, source: rusqlite::Error) -> Self {
        Self::Sqlite { path: path.to_owned(), what, source }
    }
}

/// The store on disk. Cheap to share behind an `Arc`; see [`SqliteStore::close`].
pub struct SqliteStore {
    pub(super) parts: Arc<Parts>,
    pub(super) clean_stop: bool,
    backup: Option<PathBuf>,
    #[cfg(test)]
    pub(super) commit_fault: super::CommitFault,
}

/// The threads and connections of a store.
pub(super) struct Parts {
    pub(super) writer: Queue<Job>,
    pub(super) blobs: Queue<Put>,
    pub(super) readers: Arc<Readers>,
}

impl Parts {
    /// Blocks until what was accepted is written. Readers go first: the log is emptied when nobody reads it.
    pub(super) fn close(&self) {
        self.readers.close();
        self.writer.close();
        self.blobs.close();
    }
}

impl SqliteStore {
    /// The copy of `agentd.db` from before it was migrated, when opening did that.
    pub fn backup(&self) -> Option<&Path> {
        self.backup.as_deref()
    }
}

impl Drop for SqliteStore {
    fn drop(&mut self) {
        self.parts.close();
    }
}

impl std::fmt::Debug for SqliteStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SqliteStore").field("log", &self.parts.readers.log_path()).finish_non_exhaustive()
    }
}

/// Opens the store in `dir`, making it when there is none. Blocks. The caller holds the lock of the home, so
/// that there is one store per folder; that `dir` exists and is private is the caller's duty too.
///
/// # Errors
/// See [`OpenError`]. A database of a newer build is refused with both versions before anything is written.
pub fn open(dir: &Path) -> Result<SqliteStore, OpenError> {
    let log_path = dir.join("agentd.db");
    let blobs_path = dir.join("blobs.db");
    // Both are looked at before either is touched.
    refuse_newer(&log_path, Database::Log, migrations(Database::Log))?;
    refuse_newer(&blobs_path, Database::Blobs, migrations(Database::Blobs))?;
    let log = open_migrated(&log_path, Database::Log, migrations(Database::Log))?;
    let blobs = open_migrated(&blobs_path, Database::Blobs, migrations(Database::Blobs))?;

    let on_log = |source| OpenError::sqlite(&log_path, "read", source);
    let on_blobs = |source| OpenError::sqlite(&blobs_path, "write", source);
    let clean_stop = take_clean_stop(&log.conn).map_err(on_log)?;
    let collected = blob_rows::collect(&blobs.conn, &log.conn, now_ms()).map_err(on_blobs)?;
    if collected > 0 {
        tracing::info!(collected, "content that nothing names was deleted");
    }
    // Content is always synced: the event that names it may be a barrier.
    blobs.conn.execute_batch("PRAGMA synchronous=FULL").map_err(on_blobs)?;

    let writer = Writer::new(log.conn, &log_path).map_err(on_log)?;
    #[cfg(test)]
    let commit_fault = writer.commit_fault.clone();
    let blob_writer = BlobWriter::new(blobs.conn, &blobs_path).map_err(on_blobs)?;
    let readers = Readers::open(&log_path, &blobs_path)
        .map_err(|error| OpenError::Unusable { path: log_path.clone(), why: error.to_string() })?;
    let no_thread = |source| OpenError::Folder { path: log_path.clone(), source };
    let parts = Parts {
        writer: Queue::start("store-log", limits::WRITER_QUEUE_LEN, move |inbox: Inbox<Job>| {
            writer.run(&inbox);
        })
        .map_err(no_thread)?,
        blobs: Queue::start("store-blobs", limits::BLOB_QUEUE_LEN, move |inbox: Inbox<Put>| {
            blob_writer.run(&inbox);
        })
        .map_err(no_thread)?,
        readers,
    };
    Ok(SqliteStore {
        parts: Arc::new(parts),
        clean_stop,
        backup: log.backup,
        #[cfg(test)]
        commit_fault,
    })
}

/// Whether the last run ended in order; from here on this run has not.
fn take_clean_stop(conn: &Connection) -> rusqlite::Result<bool> {
    let before: Option<String> =
        conn.query_row("SELECT value FROM meta WHERE key = 'clean_stop'", [], |row| row.get(0)).optional()?;
    if before.as_deref() != Some("0") {
        conn.execute(
            "INSERT INTO meta (key, value) VALUES ('clean_stop', '0') ON CONFLICT (key) DO UPDATE SET value = '0'",
            [],
        )?;
    }
    Ok(before.as_deref() == Some("1"))
}
