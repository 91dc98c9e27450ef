//! Connections: files with mode 0600, the pragmas, and a look that changes nothing.
//!
//! Invariant: nothing is written to a database before [`look`] has seen that this build may.

use super::{Database, OpenError};
use agentd_core::limits;
use rusqlite::{Connection, OpenFlags, OptionalExtension};
use std::fs::OpenOptions;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// "agtd" and "agtb" in ASCII: what `file` and a wrong path see.
pub(super) const fn application_id(database: Database) -> i32 {
    match database {
        Database::Log => i32::from_be_bytes(*b"agtd"),
        Database::Blobs => i32::from_be_bytes(*b"agtb"),
    }
}

/// What is in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Found {
    /// Nothing yet.
    Nothing,
    /// A database of ours with this schema; 0 before its first migration.
    Schema(u32),
}

/// Opens for writing, making the file when there is none.
pub(super) fn open_writer(path: &Path, database: Database) -> Result<Connection, OpenError> {
    let failed = |what| move |source| OpenError::sqlite(path, what, source);
    create_private(path)?;
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let conn = Connection::open_with_flags(path, flags).map_err(failed("open"))?;
    set_common(&conn).map_err(failed("set up"))?;
    if is_fresh(&conn).map_err(failed("read"))? {
        // Before the first table: the setting is part of the file's first page.
        conn.execute_batch("PRAGMA page_size=4096; PRAGMA auto_vacuum=INCREMENTAL;")
            .map_err(failed("set up"))?;
    }
    let mode: String =
        conn.query_row("PRAGMA journal_mode=WAL", [], |row| row.get(0)).map_err(failed("switch to WAL"))?;
    if mode != "wal" {
        return Err(OpenError::Unusable {
            path: path.to_owned(),
            why: format!("its file system cannot hold a write-ahead log (journal mode is {mode})"),
        });
    }
    let pragmas = format!(
        "PRAGMA synchronous=NORMAL; PRAGMA wal_autocheckpoint=0; PRAGMA journal_size_limit={};",
        limits::WAL_KEEP_BYTES
    );
    conn.execute_batch(&pragmas).map_err(failed("set up"))?;
    let marked: i32 =
        conn.query_row("PRAGMA application_id", [], |row| row.get(0)).map_err(failed("read"))?;
    if marked != application_id(database) {
        conn.execute_batch(&format!("PRAGMA application_id={}", application_id(database)))
            .map_err(failed("mark"))?;
    }
    Ok(conn)
}

/// Opens for reading.
pub(super) fn open_reader(path: &Path) -> rusqlite::Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let conn = Connection::open_with_flags(path, flags)?;
    set_common(&conn)?;
    conn.execute_batch("PRAGMA query_only=ON")?;
    Ok(conn)
}

/// Reads what is in a file without changing it.
pub(super) fn look(path: &Path, database: Database) -> Result<Found, OpenError> {
    match std::fs::metadata(path) {
        Ok(meta) if meta.len() > 0 => {}
        Ok(_) => return Ok(Found::Nothing),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Found::Nothing),
        Err(source) => return Err(OpenError::Folder { path: path.to_owned(), source }),
    }
    let failed = |source| OpenError::sqlite(path, "read", source);
    let conn = open_to_look(path).map_err(failed)?;
    let id: i32 = conn.query_row("PRAGMA application_id", [], |row| row.get(0)).map_err(failed)?;
    let fresh = is_fresh(&conn).map_err(failed)?;
    if id != application_id(database) && !(id == 0 && fresh) {
        return Err(OpenError::Foreign { path: path.to_owned(), application_id: id });
    }
    if fresh { Ok(Found::Nothing) } else { schema_of(&conn).map(Found::Schema).map_err(failed) }
}

/// The schema a database says it has; 0 when it has none.
pub(super) fn schema_of(conn: &Connection) -> rusqlite::Result<u32> {
    let has_meta: bool =
        conn.query_row("SELECT EXISTS (SELECT 1 FROM sqlite_schema WHERE name = 'meta')", [], |row| {
            row.get(0)
        })?;
    if !has_meta {
        return Ok(0);
    }
    let text: Option<String> =
        conn.query_row("SELECT value FROM meta WHERE key = 'schema'", [], |row| row.get(0)).optional()?;
    Ok(text.and_then(|text| text.parse().ok()).unwrap_or(0))
}

/// Without a log beside it a database is read as a plain file, so that not even a `-shm` appears.
fn open_to_look(path: &Path) -> rusqlite::Result<Connection> {
    let has_wal = std::fs::metadata(wal_path(path)).is_ok_and(|meta| meta.len() > 0);
    if has_wal {
        return open_reader(path);
    }
    let flags =
        OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX | OpenFlags::SQLITE_OPEN_URI;
    Connection::open_with_flags(format!("file:{}?immutable=1", percent_encoded(path)), flags)
}

/// The write-ahead log beside a database.
pub(super) fn wal_path(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push("-wal");
    PathBuf::from(name)
}

fn set_common(conn: &Connection) -> rusqlite::Result<()> {
    conn.set_prepared_statement_cache_capacity(limits::STORE_STATEMENTS_CACHED);
    conn.busy_timeout(Duration::from_millis(limits::STORE_BUSY_TIMEOUT_MS))?;
    conn.execute_batch("PRAGMA foreign_keys=ON; PRAGMA trusted_schema=OFF; PRAGMA cell_size_check=ON;")
}

fn is_fresh(conn: &Connection) -> rusqlite::Result<bool> {
    conn.query_row("SELECT NOT EXISTS (SELECT 1 FROM sqlite_schema)", [], |row| row.get(0))
}

fn create_private(path: &Path) -> Result<(), OpenError> {
    let failed = |source| OpenError::Folder { path: path.to_owned(), source };
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .open(path)
        .map_err(failed)?;
    let permissions = file.metadata().map_err(failed)?.permissions();
    if permissions.mode() & 0o777 != 0o600 {
        // SQLite gives its side files the mode of the database, so this covers them too.
        file.set_permissions(std::fs::Permissions::from_mode(0o600)).map_err(failed)?;
    }
    Ok(())
}

fn percent_encoded(path: &Path) -> String {
    let mut text = String::new();
    for byte in path.as_os_str().as_bytes() {
        if byte.is_ascii_alphanumeric() || b"/-._~".contains(byte) {
            text.push(char::from(*byte));
        } else {
            text.push_str(&format!("%{byte:02X}"));
        }
    }
    text
}
