//! Migrations: embedded, checksummed, each applied once in one transaction.
//!
//! Invariants: an applied migration is never edited (its checksum is kept, line ends aside); a crash leaves
//! either the old or the new schema; a database of a newer build is refused before anything is written.

use super::connection::{Found, look, open_writer, schema_of};
use super::{Database, OpenError, hex, now_ms};
use rusqlite::{Connection, OptionalExtension, TransactionBehavior, params};
use sha2::{Digest, Sha256};
use std::path::{Path, PathBuf};

/// One step from a schema to the next.
#[derive(Clone, Copy, Debug)]
pub(super) struct Migration {
    /// The schema after it: its place in the list, from 1.
    pub(super) number: u32,
    /// Its file name without the ending.
    pub(super) name: &'static str,
    /// Its SQL.
    pub(super) sql: &'static str,
}

const LOG: &[Migration] =
    &[Migration { number: 1, name: "0001_agentd", sql: include_str!("../../migrations/0001_agentd.sql") }];
const BLOBS: &[Migration] =
    &[Migration { number: 1, name: "0001_blobs", sql: include_str!("../../migrations/0001_blobs.sql") }];

/// The migrations of a database, in order.
pub(super) const fn migrations(database: Database) -> &'static [Migration] {
    match database {
        Database::Log => LOG,
        Database::Blobs => BLOBS,
    }
}

/// What a database was before it was opened.
#[derive(Debug)]
pub(super) struct Opened {
    /// The connection that may write.
    pub(super) conn: Connection,
    /// A copy from before a migration, when one was made.
    pub(super) backup: Option<PathBuf>,
}

/// Refuses what this build cannot use. Changes nothing.
pub(super) fn refuse_newer(path: &Path, database: Database, list: &[Migration]) -> Result<Found, OpenError> {
    let found = look(path, database)?;
    let known = list.last().map_or(0, |migration| migration.number);
    match found {
        Found::Schema(schema) if schema > known => {
            Err(OpenError::Newer { path: path.to_owned(), found: schema, known })
        }
        found => Ok(found),
    }
}

/// Opens for writing and brings the schema up to the end of `list`.
pub(super) fn open_migrated(
    path: &Path,
    database: Database,
    list: &[Migration],
) -> Result<Opened, OpenError> {
    let found = refuse_newer(path, database, list)?;
    let known = list.last().map_or(0, |migration| migration.number);
    let mut conn = open_writer(path, database)?;
    let mut backup = None;
    if let (Database::Log, Found::Schema(schema)) = (database, found)
        && 0 < schema
        && schema < known
    {
        backup = Some(back_up(&conn, path, schema)?);
    }
    for migration in list {
        apply(&mut conn, path, migration)?;
    }
    Ok(Opened { conn, backup })
}

/// Line ends are those of the checkout; the checksum and what is run must not be.
fn normalised(sql: &str) -> String {
    sql.replace("\r\n", "\n")
}

/// SHA-256 of a migration, in hex, whatever its line ends.
pub(super) fn checksum(sql: &str) -> String {
    hex(&Sha256::digest(normalised(sql)))
}

fn apply(conn: &mut Connection, path: &Path, migration: &Migration) -> Result<(), OpenError> {
    let failed =
        |source| OpenError::Migration { path: path.to_owned(), migration: migration.name.into(), source };
    let sum = checksum(migration.sql);
    // The lock is taken before the look: of two daemons that migrate at once, the second finds it done.
    let tx = conn.transaction_with_behavior(TransactionBehavior::Immediate).map_err(failed)?;
    tx.execute_batch(
        "CREATE TABLE IF NOT EXISTS meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT, WITHOUT ROWID",
    )
    .map_err(failed)?;
    let key = format!("migration/{}", migration.name);
    if schema_of(&tx).map_err(failed)? >= migration.number {
        let recorded: Option<String> = tx
            .query_row("SELECT value FROM meta WHERE key = ?1", [&key], |row| row.get(0))
            .optional()
            .map_err(failed)?;
        return match recorded {
            Some(recorded) if recorded == sum => tx.commit().map_err(failed),
            recorded => Err(OpenError::MigrationChanged {
                path: path.to_owned(),
                migration: migration.name.into(),
                recorded: recorded.unwrap_or_else(|| "none".into()),
                ours: sum,
            }),
        };
    }
    tx.execute_batch(&normalised(migration.sql)).map_err(failed)?;
    let put = "INSERT INTO meta (key, value) VALUES (?1, ?2) ON CONFLICT (key) DO UPDATE SET value = ?2";
    tx.execute(put, params![key, sum]).map_err(failed)?;
    tx.execute(put, params!["schema", migration.number.to_string()]).map_err(failed)?;
    let created = "INSERT INTO meta (key, value) VALUES (?1, ?2) ON CONFLICT (key) DO NOTHING";
    tx.execute(created, params!["created_by", env!("CARGO_PKG_VERSION")]).map_err(failed)?;
    tx.execute_batch(&format!("PRAGMA user_version={}", migration.number)).map_err(failed)?;
    tx.commit().map_err(failed)
}

/// A copy of the database as it is, beside it. Only of the log: content is never changed by a migration.
fn back_up(conn: &Connection, path: &Path, schema: u32) -> Result<PathBuf, OpenError> {
    let mut name = path.as_os_str().to_owned();
    name.push(format!(".schema-{schema}-{}.backup", now_ms()));
    let backup = PathBuf::from(name);
    let text = backup.to_str().ok_or_else(|| OpenError::Unusable {
        path: path.to_owned(),
        why: "its path is not UTF-8, which the backup before a migration needs".into(),
    })?;
    conn.execute("VACUUM INTO ?1", [text]).map_err(|source| OpenError::sqlite(path, "back up", source))?;
    std::fs::set_permissions(&backup, std::os::unix::fs::PermissionsExt::from_mode(0o600))
        .map_err(|source| OpenError::Folder { path: backup.clone(), source })?;
    Ok(backup)
}
