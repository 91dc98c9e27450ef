//! The log, its projections and the content beside it, in two SQLite files of one folder.
//!
//! `agentd.db` is the truth and what is derived from it; `blobs.db` holds content by its hash. One thread
//! writes each; a few read-only connections read both. Content is whole and on disk before the event that
//! names it is written, so no transaction spans the files and an orphan is harmless.
//!
//! Invariants: an answer is sent after its commit; a commit with a barrier event is synced first; an append
//! is all or nothing and costs the same however long the log is; no row exceeds 64 KiB; nothing is written to
//! a database of a newer build.
//!
//! Deliberately absent: the fold (core's), retention of sessions and artifacts, and any knowledge of
//! protobuf. [`MemoryStore`] is the same contract without files and threads, for simulation.

mod append;
mod audit;
mod blob;
mod blob_rows;
mod connection;
mod derive;
mod fault;
mod memory;
mod open;
mod project;
mod queue;
mod read;
mod readers;
mod rebuild;
mod row;
mod schema;
mod wal;
mod writer;

#[cfg(test)]
mod tests;

pub use memory::MemoryStore;
pub use open::{OpenError, SqliteStore, open};

use crate::ports::{
    Append, ArtifactRow, AuditRow, AuditVerdict, BlobSource, BlobStored, BoxFuture, FirstAnswer,
    ListedSession, Store, StoreError, SummaryFilter,
};
use agentd_core::event::Event;
use agentd_core::ids::{ArtifactId, Seq, SessionId};
use agentd_core::projection::{OpenWork, Summary};
use bytes::Bytes;
use fault::store_error;
use read::Page;
use rebuild::Rebuild;
use row::Prepared;
use std::time::{SystemTime, UNIX_EPOCH};

/// Which of the two files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Database {
    /// `agentd.db`.
    Log,
    /// `blobs.db`.
    Blobs,
}

impl SqliteStore {
    /// Takes no more writes, does the ones it has, and copies the write-ahead logs back. A dropped store
    /// does the same, blocking.
    pub async fn close(&self) {
        let parts = self.parts.clone();
        // The threads may have a sync before them; a runtime thread must not wait for it.
        if let Err(error) = tokio::task::spawn_blocking(move || parts.close()).await {
            tracing::warn!(%error, "the store was not closed in order; nothing that was answered is lost");
        }
    }

    /// Whether the run of the daemon before this one closed the store in order.
    pub fn was_closed_in_order(&self) -> bool {
        self.clean_stop
    }

    /// Empties the projections and makes them again from the log; `sessions` is the fold of each session.
    pub async fn rebuild_projections(
        &self,
        sessions: Vec<(Summary, Vec<OpenWork>)>,
    ) -> Result<(), StoreError> {
        let asked = Rebuild { blobs_path: self.parts.readers.blobs_path().to_owned(), sessions };
        self.parts.writer.ask(|reply| writer::Job::Rebuild(asked, reply)).await
    }

    async fn prepare(&self, append: Append) -> Result<Prepared, StoreError> {
        let mut prepared = Prepared::new(append)?;
        for row in prepared.rows.iter_mut().filter(|row| row.is_large()) {
            let body = BlobSource::Bytes(Bytes::from(std::mem::take(&mut row.body)));
            let stored = self.parts.blobs.ask(|reply| blob::Put(body, reply)).await?;
            row.point_to(&stored.hash);
        }
        Ok(prepared)
    }

    async fn page(&self, id: SessionId, page: Page, limit: usize) -> Result<Vec<Event>, StoreError> {
        let readers = self.parts.readers.clone();
        self.parts.readers.run(move |reader| read::events(&readers, reader, &id, page, limit)).await
    }
}

impl Store for SqliteStore {
    fn append(&self, append: Append) -> BoxFuture<'_, Result<(), StoreError>> {
        Box::pin(async move {
            let prepared = Box::new(self.prepare(append).await?);
            self.parts.writer.ask(|reply| writer::Job::Append(prepared, reply)).await
        })
    }

    fn first_answer(&self, request_id: &str) -> BoxFuture<'_, Result<Option<FirstAnswer>, StoreError>> {
        let request_id = request_id.to_owned();
        Box::pin(self.parts.readers.run_log(move |log| read::first_answer(log, &request_id)))
    }

    fn events_after(
        &self,
        id: &SessionId,
        after_seq: Seq,
        limit: usize,
    ) -> BoxFuture<'_, Result<Vec<Event>, StoreError>> {
        Box::pin(self.page(id.clone(), Page::After(after_seq), limit))
    }

    fn events_before(
        &self,
        id: &SessionId,
        before_seq: Seq,
        limit: usize,
    ) -> BoxFuture<'_, Result<Vec<Event>, StoreError>> {
        Box::pin(self.page(id.clone(), Page::Before(before_seq), limit))
    }

    fn last_seq(&self, id: &SessionId) -> BoxFuture<'_, Result<Option<Seq>, StoreError>> {
        let id = id.clone();
        Box::pin(self.parts.readers.run_log(move |log| read::last_seq(log, &id)))
    }

    fn find_sessions(&self, text: &str) -> BoxFuture<'_, Result<Vec<Summary>, StoreError>> {
        let text = text.to_owned();
        Box::pin(self.parts.readers.run_log(move |log| read::find_sessions(log, &text)))
    }

    fn list(&self, filter: SummaryFilter) -> BoxFuture<'_, Result<Vec<ListedSession>, StoreError>> {
        Box::pin(self.parts.readers.run_log(move |log| read::list(log, &filter)))
    }

    fn sessions_with_open_work(&self) -> BoxFuture<'_, Result<Vec<SessionId>, StoreError>> {
        Box::pin(self.parts.readers.run_log(read::sessions_with_open_work))
    }

    fn session_of_request(&self, request_id: &str) -> BoxFuture<'_, Result<Option<SessionId>, StoreError>> {
        let request_id = request_id.to_owned();
        Box::pin(self.parts.readers.run_log(move |log| read::session_of_request(log, &request_id)))
    }

    fn put_blob(&self, source: BlobSource) -> BoxFuture<'_, Result<BlobStored, StoreError>> {
        Box::pin(self.parts.blobs.ask(|reply| blob::Put(source, reply)))
    }

    fn read_blob(
        &self,
        hash: &str,
        offset: u64,
        len: usize,
    ) -> BoxFuture<'_, Result<Option<Bytes>, StoreError>> {
        let hash = hash.to_owned();
        let path = self.parts.readers.blobs_path().to_owned();
        Box::pin(self.parts.readers.run(move |reader| {
            let range = blob_rows::read_range(&reader.blobs, &hash, offset, len);
            range.map(|bytes| bytes.map(Bytes::from)).map_err(|error| store_error(&path, &error))
        }))
    }

    fn artifact(&self, id: &ArtifactId) -> BoxFuture<'_, Result<Option<ArtifactRow>, StoreError>> {
        let id = id.clone();
        Box::pin(self.parts.readers.run_log(move |log| read::artifact(log, &id)))
    }

    fn artifacts(&self, id: &SessionId) -> BoxFuture<'_, Result<Vec<ArtifactRow>, StoreError>> {
        let id = id.clone();
        Box::pin(self.parts.readers.run_log(move |log| read::artifacts(log, &id)))
    }

    fn audit_after(
        &self,
        id: Option<&SessionId>,
        after_no: u64,
        limit: usize,
    ) -> BoxFuture<'_, Result<Vec<AuditRow>, StoreError>> {
        let id = id.cloned();
        Box::pin(self.parts.readers.run_log(move |log| audit::page(log, id.as_ref(), after_no, limit)))
    }

    fn verify_audit(&self) -> BoxFuture<'_, Result<AuditVerdict, StoreError>> {
        Box::pin(async move {
            let mut walk = audit::Walk::default();
            loop {
                let (at_end, walked) = self
                    .parts
                    .readers
                    .run_log(move |log| {
                        let at_end = walk.step(log)?;
                        Ok((at_end, walk))
                    })
                    .await?;
                walk = walked;
                if at_end {
                    return Ok(walk.verdict());
                }
            }
        })
    }
}

/// Wall time for what is only ever compared with itself: the age of content and of backups.
fn now_ms() -> i64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(now.as_millis()).unwrap_or(i64::MAX)
}

/// Bytes as lower-case hex.
fn hex(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    bytes
        .iter()
        .flat_map(|byte| [DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 15)]])
        .map(char::from)
        .collect()
}

/// A SHA-256 in hex as bytes; none when it is anything else.
fn unhex(text: &str) -> Option<[u8; 32]> {
    let digit = |byte: u8| char::from(byte).to_digit(16);
    let text = text.as_bytes();
    if text.len() != 64 {
        return None;
    }
    let mut bytes = [0_u8; 32];
    for (byte, pair) in bytes.iter_mut().zip(text.chunks_exact(2)) {
        *byte = u8::try_from(digit(pair[0])? << 4 | digit(pair[1])?).ok()?;
    }
    Some(bytes)
}

/// A commit that fails once, for tests of what a broken disk does.
#[cfg(test)]
#[derive(Clone, Debug, Default)]
struct CommitFault(std::sync::Arc<std::sync::atomic::AtomicI32>);

#[cfg(test)]
impl CommitFault {
    /// The next commit fails with this extended code of SQLite.
    fn arm(&self, code: i32) {
        self.0.store(code, std::sync::atomic::Ordering::SeqCst);
    }
    fn strike(&self, path: &std::path::Path) -> Result<(), StoreError> {
        match self.0.swap(0, std::sync::atomic::Ordering::SeqCst) {
            0 => Ok(()),
            code => {
                let error = rusqlite::Error::SqliteFailure(rusqlite::ffi::Error::new(code), None);
                Err(store_error(path, &error))
            }
        }
    }
}
