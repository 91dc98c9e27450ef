//! Blobs as rows: chunks, digests, deletion, and ranges.

use super::row::{int, uint};
use super::{hex, now_ms, unhex};
use crate::ports::BlobStored;
use agentd_core::limits;
use rusqlite::{Connection, OptionalExtension, Result, params};
use sha2::{Digest as _, Sha256};
use std::collections::HashSet;

/// Bits of a chunk number that count within its blob: 256 GiB.
const INDEX_BITS: u32 = 20;
const INDEX_MAX: i64 = (1 << INDEX_BITS) - 1;
const WRITING: i64 = 0;
const WHOLE: i64 = 1;

/// What is learned of content while it passes.
#[derive(Clone, Debug, Default)]
pub(super) struct Digest {
    hash: Sha256,
    size_bytes: u64,
    newlines: u64,
    ends_open: bool,
}

impl Digest {
    /// Of content in memory.
    pub(super) fn of(bytes: &[u8]) -> Self {
        let mut digest = Self::default();
        digest.update(bytes);
        digest
    }
    /// More content came.
    pub(super) fn update(&mut self, bytes: &[u8]) {
        let Some(last) = bytes.last() else { return };
        self.hash.update(bytes);
        self.size_bytes += bytes.len() as u64;
        self.newlines += bytes.iter().filter(|byte| **byte == b'\n').count() as u64;
        self.ends_open = *last != b'\n';
    }
    /// The key of the content so far.
    pub(super) fn key(&self) -> [u8; 32] {
        self.hash.clone().finalize().into()
    }
    /// The answer about the content so far.
    pub(super) fn stored(&self) -> BlobStored {
        BlobStored {
            hash: hex(&self.key()),
            size_bytes: self.size_bytes,
            line_count: self.newlines + u64::from(self.ends_open),
        }
    }
}

/// Where the next chunk of a blob goes.
#[derive(Debug)]
pub(super) struct Chunks {
    blob_no: i64,
    next_index: i64,
}

impl Chunks {
    /// The chunks of a new blob.
    pub(super) fn of(blob_no: i64) -> Self {
        Self { blob_no, next_index: 0 }
    }
    /// Nothing was written yet.
    pub(super) fn is_at_start(&self) -> bool {
        self.next_index == 0
    }
    /// Writes content that begins at a chunk's start. Only the last piece of a blob may end within a chunk.
    pub(super) fn append(&mut self, conn: &Connection, bytes: &[u8]) -> Result<()> {
        let mut insert = conn.prepare_cached("INSERT INTO blob_chunks (chunk_no, bytes) VALUES (?1, ?2)")?;
        for chunk in bytes.chunks(limits::BLOB_CHUNK_BYTES) {
            if self.next_index > INDEX_MAX {
                return Err(rusqlite::Error::ToSqlConversionFailure("a blob holds at most 256 GiB".into()));
            }
            insert.execute(params![self.blob_no << INDEX_BITS | self.next_index, chunk])?;
            self.next_index += 1;
        }
        Ok(())
    }
}

/// The highest number in use.
pub(super) fn last_blob_no(conn: &Connection) -> Result<i64> {
    conn.query_row("SELECT coalesce(max(blob_no), 0) FROM blobs", [], |row| row.get(0))
}

/// The answer about content that is stored already.
pub(super) fn find(conn: &Connection, key: &[u8; 32]) -> Result<Option<BlobStored>> {
    conn.prepare_cached("SELECT size_bytes, line_count FROM blobs WHERE hash = ?1 AND state = 1")?
        .query_row([key], |row| {
            Ok(BlobStored { hash: hex(key), size_bytes: uint(row.get(0)?), line_count: uint(row.get(1)?) })
        })
        .optional()
}

/// Writes content that is known to the end.
pub(super) fn insert_whole(conn: &Connection, blob_no: i64, bytes: &[u8], digest: &Digest) -> Result<()> {
    begin(conn, blob_no)?;
    Chunks::of(blob_no).append(conn, bytes)?;
    finish(conn, blob_no, digest)
}

/// Opens a blob whose content is still to come, under a name that is no hash.
pub(super) fn begin(conn: &Connection, blob_no: i64) -> Result<()> {
    let mut placeholder = vec![b'w'];
    placeholder.extend(blob_no.to_be_bytes());
    conn.prepare_cached(
        "INSERT INTO blobs (blob_no, hash, size_bytes, stored_bytes, line_count, state, created_at_ms) \
         VALUES (?1, ?2, 0, 0, 0, ?3, ?4)",
    )?
    .execute(params![blob_no, placeholder, WRITING, now_ms()])?;
    Ok(())
}

/// Gives a blob its hash and makes it visible.
pub(super) fn finish(conn: &Connection, blob_no: i64, digest: &Digest) -> Result<()> {
    let stored = digest.stored();
    conn.prepare_cached(
        "UPDATE blobs SET hash = ?2, size_bytes = ?3, stored_bytes = ?3, line_count = ?4, state = ?5 \
         WHERE blob_no = ?1",
    )?
    .execute(params![blob_no, digest.key(), int(stored.size_bytes), int(stored.line_count), WHOLE])?;
    Ok(())
}

/// Deletes a blob in steps, so that no transaction grows with its size; its row goes last.
pub(super) fn delete(conn: &Connection, blob_no: i64) -> Result<()> {
    let first = blob_no << INDEX_BITS;
    loop {
        let deleted = conn
            .prepare_cached(
                "DELETE FROM blob_chunks WHERE chunk_no IN \
                 (SELECT chunk_no FROM blob_chunks WHERE chunk_no BETWEEN ?1 AND ?2 LIMIT ?3)",
            )?
            .execute(params![first, first | INDEX_MAX, limits::BLOB_DELETE_CHUNKS])?;
        if deleted == 0 {
            break;
        }
    }
    conn.prepare_cached("DELETE FROM blobs WHERE blob_no = ?1")?.execute([blob_no])?;
    Ok(())
}

/// Gives free pages back to the file system, in steps that are each a short transaction.
pub(super) fn shrink(conn: &Connection) -> Result<()> {
    let free = || conn.query_row("PRAGMA freelist_count", [], |row| row.get::<_, i64>(0));
    let mut left = free()?;
    while left > 0 {
        // Each row of this pragma is one page: it must be read to its end to free more than the first.
        let mut statement =
            conn.prepare(&format!("PRAGMA incremental_vacuum({})", limits::VACUUM_STEP_PAGES))?;
        let mut pages = statement.query([])?;
        while pages.next()?.is_some() {}
        let now = free()?;
        if now >= left {
            break;
        }
        left = now;
    }
    Ok(())
}

/// Deletes what crashes left: blobs that were never finished, and finished ones that no event has come to name
/// in [`limits::BLOB_ORPHAN_KEEP_MS`]. Each blob is looked at once in its life. Returns how many went.
pub(super) fn collect(blobs: &Connection, log: &Connection, now_ms: i64) -> Result<usize> {
    let writing: Vec<i64> = blobs
        .prepare("SELECT blob_no FROM blobs WHERE state = 0")?
        .query_map([], |row| row.get(0))?
        .collect::<Result<_>>()?;
    let looked_upto: i64 = blobs
        .query_row("SELECT CAST(value AS INTEGER) FROM meta WHERE key = 'looked_upto'", [], |row| row.get(0))
        .optional()?
        .unwrap_or(0);
    let aged: Vec<(i64, Vec<u8>)> = blobs
        .prepare(
            "SELECT blob_no, hash FROM blobs WHERE blob_no > ?1 AND state = 1 AND created_at_ms < ?2 \
             ORDER BY blob_no LIMIT ?3",
        )?
        .query_map(
            params![
                looked_upto,
                now_ms - limits::BLOB_ORPHAN_KEEP_MS,
                int(limits::BLOB_ORPHANS_PER_OPEN as u64)
            ],
            |row| Ok((row.get(0)?, row.get(1)?)),
        )?
        .collect::<Result<_>>()?;
    let mut gone: HashSet<i64> = writing.into_iter().collect();
    let mut named = log.prepare("SELECT EXISTS (SELECT 1 FROM blob_refs WHERE hash = ?1)")?;
    for (blob_no, hash) in &aged {
        let is_named: bool = named.query_row([hex(hash)], |row| row.get(0))?;
        if !is_named {
            gone.insert(*blob_no);
        }
    }
    for blob_no in &gone {
        delete(blobs, *blob_no)?;
    }
    if !gone.is_empty() {
        shrink(blobs)?;
    }
    if let Some((last, _)) = aged.last() {
        blobs.execute(
            "INSERT INTO meta (key, value) VALUES ('looked_upto', ?1) ON CONFLICT (key) DO UPDATE SET value = ?1",
            [last.to_string()],
        )?;
    }
    Ok(gone.len())
}

/// Bytes of a blob from `offset`, at most `len`; none when it is not there. Reads only the chunks it needs.
pub(super) fn read_range(conn: &Connection, hash: &str, offset: u64, len: usize) -> Result<Option<Vec<u8>>> {
    let Some(key) = unhex(hash) else { return Ok(None) };
    let found: Option<(i64, i64)> = conn
        .prepare_cached("SELECT blob_no, size_bytes FROM blobs WHERE hash = ?1 AND state = 1")?
        .query_row([key], |row| Ok((row.get(0)?, row.get(1)?)))
        .optional()?;
    let Some((blob_no, size)) = found else { return Ok(None) };
    let end = uint(size).min(offset.saturating_add(len as u64));
    if offset >= end {
        return Ok(Some(Vec::new()));
    }
    let chunk_bytes = limits::BLOB_CHUNK_BYTES as u64;
    let first = blob_no << INDEX_BITS | int(offset / chunk_bytes);
    let last = blob_no << INDEX_BITS | int((end - 1) / chunk_bytes);
    let wanted = usize::try_from(end - offset).unwrap_or(len);
    let mut skip = usize::try_from(offset % chunk_bytes).unwrap_or(0);
    let mut bytes = Vec::with_capacity(wanted);
    let mut statement = conn
        .prepare_cached("SELECT bytes FROM blob_chunks WHERE chunk_no BETWEEN ?1 AND ?2 ORDER BY chunk_no")?;
    let mut rows = statement.query([first, last])?;
    while let Some(row) = rows.next()? {
        let chunk = row.get_ref(0)?.as_blob()?;
        let rest = wanted - bytes.len();
        bytes.extend(chunk.iter().skip(skip).take(rest));
        skip = 0;
    }
    Ok(Some(bytes))
}
