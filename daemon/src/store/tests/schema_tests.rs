//! Opening: what the files are, what is refused, and that a refusal changes nothing.

use super::*;
use crate::store::connection::{Found, look, open_reader};
use crate::store::schema::{Migration, checksum, migrations, open_migrated};
use crate::store::{Database, OpenError};
use rusqlite::Connection;
use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt;

const TABLES: &[&str] = &[
    "meta",
    "sessions",
    "events",
    "requests",
    "grants",
    "trust",
    "audit",
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
    "snapshots",
    "drafts",
    "workspaces",
    "workspace_files",
    "mcp_cache",
];

/// Every file of a folder and its bytes.
fn files(dir: &Path) -> BTreeMap<String, Vec<u8>> {
    std::fs::read_dir(dir)
        .unwrap()
        .map(|entry| entry.unwrap())
        .map(|entry| (entry.file_name().into_string().unwrap(), std::fs::read(entry.path()).unwrap()))
        .collect()
}

fn pragma(path: &Path, name: &str) -> i64 {
    let conn = open_reader(path).unwrap();
    conn.query_row(&format!("PRAGMA {name}"), [], |row| row.get(0)).unwrap()
}

#[test]
fn a_new_store_is_private_strict_and_marked() {
    let (dir, store) = fresh();
    let (log, blobs) = (dir.path().join("agentd.db"), dir.path().join("blobs.db"));
    for name in files(dir.path()).keys() {
        let mode = std::fs::metadata(dir.path().join(name)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{name}");
    }
    for (path, database) in [(&log, Database::Log), (&blobs, Database::Blobs)] {
        assert_eq!(pragma(path, "auto_vacuum"), 2);
        assert_eq!(pragma(path, "page_size"), 4096);
        assert_ne!(pragma(path, "application_id"), 0);
        assert_eq!(look(path, database).unwrap(), Found::Schema(1));
    }
    let conn = open_reader(&log).unwrap();
    let mut statement = conn
        .prepare(
            "SELECT name, strict FROM pragma_table_list WHERE schema = 'main' AND name NOT LIKE 'sqlite%'",
        )
        .unwrap();
    let found: BTreeMap<String, bool> = statement
        .query_map([], |row| Ok((row.get(0)?, row.get(1)?)))
        .unwrap()
        .collect::<rusqlite::Result<_>>()
        .unwrap();
    assert_eq!(found.len(), TABLES.len());
    assert!(TABLES.iter().all(|table| found.get(*table) == Some(&true)), "{found:?}");
    drop(store);
}

#[test]
fn opening_again_migrates_nothing() {
    let (dir, store) = fresh();
    drop(store);
    let meta = dump(dir.path(), "meta");
    drop(open(dir.path()).unwrap());
    assert_eq!(dump(dir.path(), "meta"), meta);
    assert!(meta.iter().any(|row| row.contains("migration/0001_agentd")));
}

#[test]
fn a_newer_schema_is_refused_and_every_file_left_as_it_was() {
    for database in ["agentd.db", "blobs.db"] {
        let (dir, store) = fresh();
        drop(store);
        let newer = Connection::open(dir.path().join(database)).unwrap();
        newer.execute("UPDATE meta SET value = '99' WHERE key = 'schema'", []).unwrap();
        newer.close().unwrap();
        let before = files(dir.path());
        let error = open(dir.path()).unwrap_err();
        assert!(matches!(&error, OpenError::Newer { found: 99, known: 1, path } if path.ends_with(database)));
        let said = error.to_string();
        assert!(said.contains("99") && said.contains("up to 1"), "{said}");
        assert_eq!(files(dir.path()), before);
    }
}

#[test]
fn a_newer_schema_that_is_only_in_the_log_is_seen_too() {
    let (dir, store) = fresh();
    drop(store);
    let newer = Connection::open(dir.path().join("agentd.db")).unwrap();
    newer.execute("UPDATE meta SET value = '99' WHERE key = 'schema'", []).unwrap();
    let before = files(dir.path());
    assert!(!before["agentd.db-wal"].is_empty());
    assert!(matches!(open(dir.path()), Err(OpenError::Newer { found: 99, .. })));
    let after = files(dir.path());
    for name in ["agentd.db", "agentd.db-wal", "blobs.db"] {
        assert_eq!(after[name], before[name], "{name}");
    }
}

#[test]
fn nothing_is_made_beside_a_newer_blob_store() {
    let (dir, store) = fresh();
    drop(store);
    let newer = Connection::open(dir.path().join("blobs.db")).unwrap();
    newer.execute("UPDATE meta SET value = '2' WHERE key = 'schema'", []).unwrap();
    newer.close().unwrap();
    std::fs::remove_file(dir.path().join("agentd.db")).unwrap();
    assert!(matches!(open(dir.path()), Err(OpenError::Newer { found: 2, .. })));
    assert_eq!(files(dir.path()).into_keys().collect::<Vec<_>>(), ["blobs.db"]);
}

#[test]
fn what_is_not_ours_is_refused_and_left_as_it_was() {
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("agentd.db");
    let other = Connection::open(&path).unwrap();
    other.execute_batch("CREATE TABLE theirs (a)").unwrap();
    other.close().unwrap();
    let before = files(dir.path());
    assert!(matches!(open(dir.path()), Err(OpenError::Foreign { .. })));
    assert_eq!(files(dir.path()), before);

    std::fs::write(&path, "not a database at all, but longer than a header of one hundred bytes ".repeat(9))
        .unwrap();
    let before = files(dir.path());
    assert!(matches!(open(dir.path()), Err(OpenError::Sqlite { .. })));
    assert_eq!(files(dir.path()), before);
}

#[test]
fn line_ends_of_a_checkout_do_not_matter() {
    let sql = migrations(Database::Log)[0].sql;
    assert_eq!(checksum(sql), checksum(&sql.replace('\n', "\r\n")));
    assert_ne!(checksum(sql), checksum(&sql.replace("events", "event")));
}

#[test]
fn an_edited_migration_is_refused() {
    let (dir, store) = fresh();
    drop(store);
    let conn = Connection::open(dir.path().join("agentd.db")).unwrap();
    conn.execute("UPDATE meta SET value = 'other' WHERE key LIKE 'migration/%'", []).unwrap();
    conn.close().unwrap();
    assert!(matches!(open(dir.path()), Err(OpenError::MigrationChanged { .. })));
}

const ONE: Migration = Migration { number: 1, name: "0001_one", sql: "CREATE TABLE one (a INTEGER) STRICT;" };
const TWO: Migration = Migration {
    number: 2,
    name: "0002_two",
    sql: "CREATE TABLE two (a INTEGER) STRICT;\r\nINSERT INTO two VALUES (7);",
};
const HALF: Migration = Migration {
    number: 2,
    name: "0002_two",
    sql: "CREATE TABLE two (a INTEGER) STRICT; INSERT INTO nowhere VALUES (1);",
};

#[test]
fn a_failed_migration_leaves_the_old_schema_and_the_next_start_completes_it() {
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("agentd.db");
    let first = open_migrated(&path, Database::Log, &[ONE]).unwrap();
    assert_eq!(first.backup, None);
    first.conn.execute("INSERT INTO one VALUES (1)", []).unwrap();
    drop(first);

    let failed = open_migrated(&path, Database::Log, &[ONE, HALF]);
    assert!(matches!(failed, Err(OpenError::Migration { migration, .. }) if migration == "0002_two"));
    assert_eq!(look(&path, Database::Log).unwrap(), Found::Schema(1));

    let second = open_migrated(&path, Database::Log, &[ONE, TWO]).unwrap();
    let seven: i64 = second.conn.query_row("SELECT a FROM two", [], |row| row.get(0)).unwrap();
    assert_eq!(seven, 7);
    let backup = second.backup.clone().unwrap();
    drop(second);
    assert_eq!(look(&path, Database::Log).unwrap(), Found::Schema(2));
    assert_eq!(look(&backup, Database::Log).unwrap(), Found::Schema(1));
    assert_eq!(std::fs::metadata(&backup).unwrap().permissions().mode() & 0o777, 0o600);
    // Once is enough.
    assert_eq!(open_migrated(&path, Database::Log, &[ONE, TWO]).unwrap().backup, None);
    assert!(matches!(
        open_migrated(&path, Database::Log, &[ONE]),
        Err(OpenError::Newer { found: 2, known: 1, .. })
    ));
}

#[test]
fn two_that_migrate_at_once_both_find_it_done_once() {
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("agentd.db");
    let threads: Vec<_> = (0..4)
        .map(|_| {
            let path = path.clone();
            std::thread::spawn(move || open_migrated(&path, Database::Log, &[ONE, TWO]).map(drop))
        })
        .collect();
    for thread in threads {
        thread.join().unwrap().unwrap();
    }
    let conn = open_reader(&path).unwrap();
    let rows: i64 = conn.query_row("SELECT count(*) FROM two", [], |row| row.get(0)).unwrap();
    assert_eq!(rows, 1);
}
