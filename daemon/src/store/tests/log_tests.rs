//! The log on disk: large bodies, lookups, batches, faults, locks from outside, rebuilding.

use super::*;
use crate::store::project;
use agentd_core::event::CallRequested;
use agentd_core::ids::CallId;
use agentd_core::ids::Seq;
use agentd_core::limits;
use serde_json::value::RawValue;
use std::sync::Arc;

fn large_args(bytes: usize) -> String {
    // A key order and numbers that a JSON tree would change.
    format!("{{ \"z\":1.0e2, \"content\":\"{}é\",  \"a\":12345678901234567890123 }}", "x".repeat(bytes))
}

#[tokio::test]
async fn large_bodies_go_to_the_blob_store_and_come_back_to_the_byte() {
    let (dir, store) = fresh();
    let id = session(1);
    let mut bodies = Vec::new();
    for size in [10, limits::EVENT_INLINE_MAX_BYTES, 3 * limits::BLOB_CHUNK_BYTES + 17] {
        let args = RawValue::from_string(large_args(size)).unwrap();
        bodies.push(EventBody::from(CallRequested {
            call_id: CallId::new("c_1"),
            provider_call_id: "toolu_1".into(),
            position: 0,
            tool: "write_file".into(),
            args: Arc::from(args),
            complete: true,
        }));
    }
    let written = append(&id, 0, bodies);
    let events = written.events.clone();
    store.append(written).await.unwrap();
    assert_eq!(shapes(&store.events_after(&id, 0, 10).await.unwrap()), shapes(&events));
    assert_eq!(shapes(&store.events_before(&id, 4, 1).await.unwrap()), shapes(&events[2..]));

    let rows = dump(dir.path(), "events");
    assert!(rows.iter().all(|row| row.len() < limits::EVENT_ROW_MAX_BYTES));
    assert_eq!(rows.iter().filter(|row| row.contains("$blob")).count(), 2);
    assert_eq!(dump(dir.path(), "blob_refs").len(), 2);
}

#[tokio::test]
async fn a_body_that_is_gone_is_damage_and_names_its_event() {
    let (dir, store) = fresh();
    store.append(append(&session(1), 0, vec![finished(&"x".repeat(40_000))])).await.unwrap();
    let blobs = rusqlite::Connection::open(dir.path().join("blobs.db")).unwrap();
    blobs.execute("DELETE FROM blobs", []).unwrap();
    let read = store.events_after(&session(1), 0, 10).await;
    assert!(matches!(read, Err(StoreError::Corrupt(why)) if why.contains("event 1")));
}

#[tokio::test]
async fn the_log_is_where_it_was_after_a_restart() {
    let (dir, store) = fresh();
    let id = session(1);
    let mut one = append(&id, 0, every_kind());
    one.claim = Some(claim("req-1", 1));
    one.audit = vec![audit(&id, "decided")];
    one.open_work = Some(vec![request("r_1")]);
    let (events, row) = (one.events.clone(), one.summary.clone());
    store.append(one).await.unwrap();
    let revision = store.list(Default::default()).await.unwrap()[0].revision;
    assert!(!store.was_closed_in_order());
    store.close().await;
    assert!(matches!(
        store.append(append(&id, row.last_seq, vec![notice("late")])).await,
        Err(StoreError::Failed(_))
    ));
    assert_eq!(std::fs::metadata(dir.path().join("agentd.db-wal")).map_or(0, |meta| meta.len()), 0);
    drop(store);

    let store = open(dir.path()).unwrap();
    assert!(store.was_closed_in_order());
    assert_eq!(shapes(&store.events_after(&id, 0, 100).await.unwrap()), shapes(&events));
    let listed = store.list(Default::default()).await.unwrap();
    assert_eq!((&listed[0].summary, listed[0].revision), (&row, revision));
    let mut next = append(&id, row.last_seq, vec![notice("on")]);
    next.audit = vec![audit(&id, "finished")];
    store.append(next).await.unwrap();
    assert_eq!(store.verify_audit().await.unwrap().first_bad, None);
    assert!(store.list(Default::default()).await.unwrap()[0].revision > revision);
}

#[tokio::test]
async fn projections_are_made_again_from_the_log_and_equal() {
    let (dir, store) = fresh();
    let mut folds = Vec::new();
    for n in 1..=2 {
        let mut bodies = every_kind();
        bodies.push(finished(&"x".repeat(limits::EVENT_INLINE_MAX_BYTES + n as usize)));
        let mut one = append(&session(n), 0, bodies);
        one.open_work = Some(vec![request(&format!("r_{n}"))]);
        folds.push((one.summary.clone(), one.open_work.clone().unwrap()));
        store.append(one).await.unwrap();
    }
    let dumps = || -> Vec<(&str, Vec<String>)> {
        project::TABLES.iter().map(|table| (*table, dump(dir.path(), table))).collect()
    };
    let before = dumps();
    for (table, rows) in &before {
        // A model call that ended leaves nothing, and both sessions ended theirs.
        assert_eq!(rows.is_empty(), *table == "model_calls_open", "{table}");
    }
    store.rebuild_projections(folds).await.unwrap();
    assert_eq!(dumps(), before);
}

#[tokio::test]
async fn a_page_of_large_events_ends_early_and_never_empty() {
    let (_dir, store) = fresh();
    let id = session(1);
    let sizes = [10, limits::EVENTS_PAGE_MAX_BYTES / 2, limits::EVENTS_PAGE_MAX_BYTES / 2, 9 << 20, 10];
    let bodies = sizes.iter().map(|size| finished(&"x".repeat(*size))).collect();
    store.append(append(&id, 0, bodies)).await.unwrap();
    let seqs = |events: Vec<agentd_core::event::Event>| events.iter().map(|e| e.seq).collect::<Vec<_>>();
    assert_eq!(seqs(store.events_after(&id, 0, 9).await.unwrap()), [1, 2]);
    assert_eq!(seqs(store.events_after(&id, 2, 9).await.unwrap()), [3]);
    assert_eq!(seqs(store.events_after(&id, 3, 9).await.unwrap()), [4]);
    assert_eq!(seqs(store.events_before(&id, Seq::MAX, 9).await.unwrap()), [5]);
    assert_eq!(seqs(store.events_before(&id, 5, 9).await.unwrap()), [4]);
    assert_eq!(seqs(store.events_before(&id, 3, 9).await.unwrap()), [1, 2]);
}

#[tokio::test]
async fn daily_usage_counts_finished_calls_once() {
    let (dir, store) = fresh();
    store.append(append(&session(1), 0, every_kind())).await.unwrap();
    store.append(append(&session(2), 0, every_kind())).await.unwrap();
    let rows = dump(dir.path(), "usage_daily");
    assert_eq!(rows.len(), 1);
    let day = T0 / 86_400_000;
    assert!(rows[0].starts_with(&format!("Integer({day})")), "{rows:?}");
    assert!(
        rows[0].ends_with("Integer(2)|Integer(200)|Integer(40)|Integer(6)|Integer(8)|Integer(690)"),
        "{rows:?}"
    );
}

#[tokio::test]
async fn a_full_disk_fails_the_batch_and_the_store_goes_on_when_there_is_space() {
    let (_dir, store) = fresh();
    let id = session(1);
    let mut one = append(&id, 0, vec![notice("1")]);
    one.audit = vec![audit(&id, "decided")];
    store.append(one).await.unwrap();
    let mut two = append(&id, 1, vec![input("2")]);
    two.audit = vec![audit(&id, "finished")];
    store.commit_fault.arm(rusqlite::ffi::SQLITE_FULL);
    assert!(is_full(&store.append(two.clone()).await));
    assert_eq!(store.last_seq(&id).await.unwrap(), Some(1));
    store.append(two).await.unwrap();
    assert_eq!(store.last_seq(&id).await.unwrap(), Some(2));
    assert_eq!(store.verify_audit().await.unwrap().rows, 2);
    assert_eq!(store.verify_audit().await.unwrap().first_bad, None);
}

#[tokio::test]
async fn after_an_error_on_sync_nothing_is_written_and_reads_go_on() {
    let (_dir, store) = fresh();
    let id = session(1);
    store.append(append(&id, 0, vec![input("1")])).await.unwrap();
    store.commit_fault.arm(rusqlite::ffi::SQLITE_IOERR_FSYNC);
    for _ in 0..2 {
        let refused = store.append(append(&id, 1, vec![input("2")])).await;
        assert!(matches!(refused, Err(StoreError::Stopped(_))), "{refused:?}");
    }
    assert!(store.rebuild_projections(vec![]).await.is_err());
    assert_eq!(seqs(&store.events_after(&id, 0, 10).await.unwrap()), [1]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lock_from_outside_delays_an_append_and_no_read() {
    let (dir, store) = fresh();
    let store = Arc::new(store);
    store.append(append(&session(1), 0, vec![notice("1")])).await.unwrap();
    let outside = rusqlite::Connection::open(dir.path().join("agentd.db")).unwrap();
    outside.execute_batch("BEGIN IMMEDIATE").unwrap();
    let waiting = {
        let store = Arc::clone(&store);
        tokio::spawn(async move { store.append(append(&session(1), 1, vec![input("2")])).await })
    };
    for _ in 0..20 {
        assert_eq!(store.last_seq(&session(1)).await.unwrap(), Some(1));
    }
    assert!(!waiting.is_finished());
    outside.execute_batch("COMMIT").unwrap();
    waiting.await.unwrap().unwrap();
    assert_eq!(store.last_seq(&session(1)).await.unwrap(), Some(2));
}

#[tokio::test]
async fn old_request_ids_are_forgotten_in_quiet_times() {
    let (dir, store) = fresh();
    let mut old = append(&session(1), 0, vec![notice("1")]);
    old.claim = Some(claim("old", 1));
    store.append(old).await.unwrap();
    let mut new = append(&session(1), 1, vec![notice("2")]);
    new.claim = Some(claim("new", 1));
    new.summary.updated_at_ms = T0 + limits::REQUEST_ID_KEEP_MS + 1_000;
    store.append(new).await.unwrap();
    drop(store);
    // The thread tidies when nothing comes for a while; here the same step is taken by hand.
    let path = dir.path().join("agentd.db");
    let conn = rusqlite::Connection::open(&path).unwrap();
    let ledger = crate::store::append::Ledger::load(&conn, &path).unwrap();
    assert!(!ledger.prune_requests(&conn).unwrap());
    let store = open(dir.path()).unwrap();
    assert_eq!(store.first_answer("old").await.unwrap(), None);
    assert!(store.first_answer("new").await.unwrap().is_some());
}

/// The statements of the hot path find their rows by an index, whatever is in the tables.
#[tokio::test]
async fn no_statement_of_an_append_or_a_page_scans() {
    let (dir, _store) = fresh();
    let conn = crate::store::connection::open_reader(&dir.path().join("agentd.db")).unwrap();
    for sql in [
        "SELECT max(seq) FROM events WHERE session_no = 1",
        "SELECT * FROM events WHERE session_no = 1 AND seq > 2 ORDER BY seq LIMIT 3",
        "SELECT * FROM events WHERE session_no = 1 AND seq < 2 ORDER BY seq DESC LIMIT 3",
        "SELECT content_hash FROM requests WHERE request_id = ''",
        "SELECT * FROM open_work WHERE session_no = 1",
        "SELECT id FROM open_work WHERE kind = 'request' AND id >= 'a' AND id < 'b' ORDER BY id LIMIT 2",
        "SELECT * FROM artifacts WHERE session_no = 1 ORDER BY seq",
        "SELECT * FROM audit WHERE session_id = 's' AND audit_no > 3 ORDER BY audit_no LIMIT 3",
        "SELECT * FROM session_summaries WHERE revision > 3 ORDER BY revision DESC LIMIT 3",
        "SELECT request_id FROM requests WHERE at_ms < 3 ORDER BY at_ms LIMIT 3",
    ] {
        let mut statement = conn.prepare(&format!("EXPLAIN QUERY PLAN {sql}")).unwrap();
        let plan: Vec<String> =
            statement.query_map([], |row| row.get(3)).unwrap().collect::<rusqlite::Result<_>>().unwrap();
        assert!(plan.iter().all(|step| !step.contains("SCAN") && !step.contains("TEMP")), "{sql}: {plan:?}");
    }
}
