//! Content on disk: slices, dedupe, orphans, and that large content holds nobody up.

use super::*;
use crate::ports::BlobSource;
use crate::store::{blob_rows, now_ms};
use agentd_core::limits;
use bytes::Bytes;
use std::io::Write;
use std::sync::Arc;
use std::time::{Duration, Instant};

const MIB: usize = 1024 * 1024;

/// Bytes in which no two chunks are alike.
fn varied(len: usize) -> Vec<u8> {
    let mut state = 7_u64;
    (0..len)
        .map(|_| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            state.to_be_bytes()[0]
        })
        .collect()
}

#[tokio::test]
async fn a_large_file_is_stored_in_slices_and_any_range_is_read() {
    let (dir, store) = fresh();
    // Two whole slices exactly: the end is found by an empty third.
    let slice = limits::BLOB_CHUNK_BYTES * limits::BLOB_SLICE_CHUNKS;
    let bytes = varied(2 * slice);
    let path = dir.path().join("spool");
    std::fs::write(&path, &bytes).unwrap();
    let stored = store.put_blob(BlobSource::File(path.clone())).await.unwrap();
    assert_eq!(stored.size_bytes, bytes.len() as u64);
    let lines = bytes.split_inclusive(|byte| *byte == b'\n').count() as u64;
    assert_eq!(stored.line_count, lines);
    for (offset, len) in [
        (0, 10),
        (limits::BLOB_CHUNK_BYTES - 5, 10),
        (slice - 1, limits::BLOB_CHUNK_BYTES + 2),
        (bytes.len() - 3, 100),
    ] {
        let read = store.read_blob(&stored.hash, offset as u64, len).await.unwrap().unwrap();
        assert_eq!(read, bytes[offset..(offset + len).min(bytes.len())], "{offset}+{len}");
    }
    // The same again, from memory and from the file: still one blob, and no chunks of the attempts.
    assert_eq!(store.put_blob(BlobSource::File(path)).await.unwrap(), stored);
    assert_eq!(store.put_blob(BlobSource::Bytes(Bytes::from(bytes))).await.unwrap(), stored);
    let blobs = rusqlite::Connection::open(dir.path().join("blobs.db")).unwrap();
    let count = |sql: &str| blobs.query_row(sql, [], |row| row.get::<_, i64>(0)).unwrap();
    assert_eq!(count("SELECT count(*) FROM blobs"), 1);
    assert_eq!(count("SELECT count(*) FROM blob_chunks"), 2 * limits::BLOB_SLICE_CHUNKS as i64);
    assert_sound(&dir.path().join("blobs.db"));
}

#[tokio::test]
async fn what_is_no_file_is_refused() {
    let (dir, store) = fresh();
    let refused = store.put_blob(BlobSource::File(dir.path().to_owned())).await;
    assert!(matches!(refused, Err(StoreError::Failed(why)) if why.contains("not a regular file")));
}

/// `AGENTD_TEST_BLOB_MIB` sets the size for measuring by hand; the order of events is what is tested.
#[tokio::test(flavor = "multi_thread")]
async fn a_large_blob_holds_up_neither_events_nor_small_blobs() {
    let mib = std::env::var("AGENTD_TEST_BLOB_MIB").ok().and_then(|mib| mib.parse().ok()).unwrap_or(64);
    let (dir, store) = fresh();
    let store = Arc::new(store);
    let path = dir.path().join("spool");
    let mut file = std::fs::File::create(&path).unwrap();
    let block = varied(MIB);
    for n in 0_u32..mib {
        file.write_all(&n.to_be_bytes()).unwrap();
        file.write_all(&block[4..]).unwrap();
    }
    drop(file);
    let began = Instant::now();
    let large = {
        let store = Arc::clone(&store);
        tokio::spawn(async move { store.put_blob(BlobSource::File(path)).await })
    };
    let (mut lazy, mut synced, mut small) = (Vec::new(), Vec::new(), Vec::new());
    let mut seq = 0;
    while !large.is_finished() {
        lazy.push(timed(store.append(append(&session(1), seq, vec![notice("x")]))).await);
        synced.push(timed(store.append(append(&session(1), seq + 1, vec![input("x")]))).await);
        seq += 2;
        let bytes = Bytes::from(format!("small {seq}"));
        let put = Instant::now();
        store.put_blob(BlobSource::Bytes(bytes)).await.unwrap();
        small.push(put.elapsed());
    }
    let took = began.elapsed();
    assert_eq!(large.await.unwrap().unwrap().size_bytes, u64::from(mib) * MIB as u64);
    println!("{mib} MiB in {took:?}; while it was written:");
    for (what, times) in
        [("NORMAL append", &mut lazy), ("FULL append", &mut synced), ("small blob", &mut small)]
    {
        times.sort();
        println!("  {what}: {} done, median {:?}, worst {:?}", times.len(), middle(times), times.last());
    }
    assert!(lazy.len() > 3, "only {} rounds went by while {mib} MiB were written", lazy.len());
}

async fn timed(asked: impl Future<Output = Result<(), StoreError>>) -> Duration {
    let began = Instant::now();
    asked.await.unwrap();
    began.elapsed()
}

fn middle(sorted: &[Duration]) -> Duration {
    sorted[sorted.len() / 2]
}

#[tokio::test]
async fn what_a_crash_left_is_collected_and_what_is_named_stays() {
    let (dir, store) = fresh();
    let named = store.put_blob(BlobSource::Bytes(Bytes::from_static(b"named"))).await.unwrap();
    let orphan = store.put_blob(BlobSource::Bytes(Bytes::from_static(b"orphan"))).await.unwrap();
    let young = store.put_blob(BlobSource::Bytes(Bytes::from_static(b"young"))).await.unwrap();
    let mut stored = every_kind().into_iter().find(|body| body.kind() == EventKind::ArtifactStored).unwrap();
    if let EventBody::ArtifactStored(stored) = &mut stored {
        stored.hash = named.hash.clone();
    }
    store.append(append(&session(1), 0, vec![stored])).await.unwrap();
    drop(store);
    let path = dir.path().join("blobs.db");
    let blobs = rusqlite::Connection::open(&path).unwrap();
    let past = now_ms() - limits::BLOB_ORPHAN_KEEP_MS - 1;
    blobs
        .execute("UPDATE blobs SET created_at_ms = ?1 WHERE size_bytes < 7 AND size_bytes > 5", [past])
        .unwrap();
    blobs.execute("UPDATE blobs SET created_at_ms = ?1 WHERE blob_no = 1", [past]).unwrap();
    // As a crash in the middle of a large blob leaves it.
    blob_rows::begin(&blobs, 77).unwrap();
    blob_rows::Chunks::of(77).append(&blobs, &varied(3 * limits::BLOB_CHUNK_BYTES)).unwrap();
    drop(blobs);

    let store = open(dir.path()).unwrap();
    let gone = |hash: &str| {
        let read = store.read_blob(hash, 0, 1);
        async { read.await.unwrap().is_none() }
    };
    assert!(!gone(&named.hash).await);
    assert!(gone(&orphan.hash).await);
    assert!(!gone(&young.hash).await, "somebody may be about to name it");
    let blobs = rusqlite::Connection::open(&path).unwrap();
    let chunks: i64 = blobs.query_row("SELECT count(*) FROM blob_chunks", [], |row| row.get(0)).unwrap();
    assert_eq!(chunks, 2);
    let pages =
        |name: &str| -> i64 { blobs.query_row(&format!("PRAGMA {name}"), [], |row| row.get(0)).unwrap() };
    assert_eq!(pages("freelist_count"), 0);
    assert!(pages("page_count") < 64, "the file did not shrink: {} pages", pages("page_count"));
}

#[tokio::test]
async fn many_puts_at_once_are_all_answered_rightly() {
    let (_dir, store) = fresh();
    let puts = (0..100_u32).map(|n| store.put_blob(BlobSource::Bytes(Bytes::from(format!("{}", n % 10)))));
    let stored = futures_util::future::join_all(puts).await;
    for (n, stored) in stored.into_iter().enumerate() {
        let hash = stored.unwrap().hash;
        assert_eq!(store.read_blob(&hash, 0, 9).await.unwrap().unwrap(), format!("{}", n % 10));
    }
}
