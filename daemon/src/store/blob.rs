//! The one thread that writes content.
//!
//! Invariants: content is whole and on disk before anyone learns its hash; the same content is stored once;
//! a large source is read and written in slices, and small ones that arrive meanwhile go first. What a crash
//! leaves behind is never visible and is collected when the store opens.

use super::blob_rows::{self, Chunks, Digest};
use super::fault::{stops_writer, store_error};
use super::queue::{Inbox, Next, Reply};
use super::wal::Wal;
use crate::ports::{BlobSource, BlobStored, StoreError};
use agentd_core::limits;
use bytes::Bytes;
use rusqlite::Connection;
use std::collections::VecDeque;
use std::fs::File;
use std::io::{Cursor, Read};
use std::path::{Path, PathBuf};

/// Content up to this is taken as one piece.
const SLICE_BYTES: usize = limits::BLOB_CHUNK_BYTES * limits::BLOB_SLICE_CHUNKS;

/// What the thread is asked: store this.
pub(super) struct Put(pub(super) BlobSource, pub(super) Reply<BlobStored>);

/// The state of the thread.
pub(super) struct BlobWriter {
    conn: Connection,
    path: PathBuf,
    next_no: i64,
    wal: Wal,
    large: VecDeque<Large>,
    stopped: Option<StoreError>,
}

/// Content that is being written in slices.
struct Large {
    blob_no: i64,
    source: Box<dyn Read + Send>,
    name: String,
    chunks: Chunks,
    digest: Digest,
    reply: Reply<BlobStored>,
}

type Small = Vec<(Bytes, Reply<BlobStored>)>;

impl BlobWriter {
    /// A writer on an opened and migrated database.
    pub(super) fn new(conn: Connection, path: &Path) -> rusqlite::Result<Self> {
        Ok(Self {
            next_no: blob_rows::last_blob_no(&conn)? + 1,
            conn,
            wal: Wal::of(path),
            path: path.to_owned(),
            large: VecDeque::new(),
            stopped: None,
        })
    }

    /// Works until the queue is closed and empty.
    pub(super) fn run(mut self, inbox: &Inbox<Put>) {
        let mut open = true;
        while open || !self.large.is_empty() {
            let mut next = if self.large.is_empty() { inbox.wait(self.wal.patience()) } else { inbox.poll() };
            if self.large.is_empty() && matches!(next, Next::Quiet) {
                self.wal.quiet(&self.conn);
                continue;
            }
            let mut small = Small::new();
            let mut held = 0;
            loop {
                match next {
                    Next::Job(put) => held += self.sort(put, &mut small),
                    Next::Quiet => break,
                    Next::Closed => {
                        open = false;
                        break;
                    }
                }
                if held >= SLICE_BYTES {
                    break;
                }
                next = inbox.poll();
            }
            self.write_small(small);
            self.write_slice();
        }
        self.wal.close(&self.conn);
    }

    /// Puts a job where it belongs and says how many bytes it holds in memory.
    fn sort(&mut self, Put(source, reply): Put, small: &mut Small) -> usize {
        if let Some(stopped) = &self.stopped {
            drop(reply.send(Err(stopped.clone())));
            return 0;
        }
        let opened = match source {
            BlobSource::Bytes(bytes) if bytes.len() <= SLICE_BYTES => Ok(Opened::Small(bytes)),
            BlobSource::Bytes(bytes) => {
                Ok(Opened::Large(Box::new(Cursor::new(bytes)), "bytes in memory".into()))
            }
            BlobSource::File(path) => open_source(&path),
        };
        match opened {
            Ok(Opened::Small(bytes)) => {
                let held = bytes.len();
                small.push((bytes, reply));
                held
            }
            Ok(Opened::Large(source, name)) => {
                self.begin(source, name, reply);
                0
            }
            Err(error) => {
                drop(reply.send(Err(error)));
                0
            }
        }
    }

    fn begin(&mut self, source: Box<dyn Read + Send>, name: String, reply: Reply<BlobStored>) {
        let blob_no = self.next_no;
        self.next_no += 1;
        let (chunks, digest) = (Chunks::of(blob_no), Digest::default());
        self.large.push_back(Large { blob_no, source, name, chunks, digest, reply });
    }

    fn write_small(&mut self, small: Small) {
        if small.is_empty() {
            return;
        }
        let before = self.next_no;
        let written = self.transact(|conn, next_no| {
            small
                .iter()
                .map(|(bytes, _)| {
                    let digest = Digest::of(bytes);
                    if let Some(stored) = blob_rows::find(conn, &digest.key())? {
                        return Ok(stored);
                    }
                    blob_rows::insert_whole(conn, *next_no, bytes, &digest)?;
                    *next_no += 1;
                    Ok(digest.stored())
                })
                .collect::<rusqlite::Result<Vec<_>>>()
        });
        match written {
            Ok(stored) => {
                for ((_, reply), stored) in small.into_iter().zip(stored) {
                    drop(reply.send(Ok(stored)));
                }
                self.wal.written(&self.conn);
            }
            Err(error) => {
                self.next_no = before;
                for (_, reply) in small {
                    drop(reply.send(Err(error.clone())));
                }
            }
        }
    }

    /// Writes one slice of the large blob that waited longest, and puts it at the end of the line.
    fn write_slice(&mut self) {
        let Some(mut large) = self.large.pop_front() else { return };
        if let Some(stopped) = &self.stopped {
            drop(large.reply.send(Err(stopped.clone())));
            return;
        }
        match self.slice_of(&mut large) {
            Ok(None) => self.large.push_back(large),
            Ok(Some(stored)) => drop(large.reply.send(Ok(stored))),
            Err(error) => {
                self.discard(large.blob_no);
                drop(large.reply.send(Err(error)));
            }
        }
        self.wal.written(&self.conn);
    }

    fn slice_of(&mut self, large: &mut Large) -> Result<Option<BlobStored>, StoreError> {
        let mut slice = Vec::with_capacity(SLICE_BYTES);
        let limit = SLICE_BYTES as u64;
        (&mut large.source)
            .take(limit)
            .read_to_end(&mut slice)
            .map_err(|error| unreadable(&large.name, &error))?;
        large.digest.update(&slice);
        let last = slice.len() < SLICE_BYTES;
        let (blob_no, chunks) = (large.blob_no, &mut large.chunks);
        let digest = last.then(|| large.digest.clone());
        // Each slice is synced: a disk that has to catch up with 300 MB at once would hold up the log as well.
        let outcome = self.transact(|conn, _| {
            if chunks.is_at_start() {
                blob_rows::begin(conn, blob_no)?;
            }
            chunks.append(conn, &slice)?;
            let Some(digest) = &digest else { return Ok(None) };
            if let Some(stored) = blob_rows::find(conn, &digest.key())? {
                return Ok(Some((stored, true)));
            }
            blob_rows::finish(conn, blob_no, digest)?;
            Ok(Some((digest.stored(), false)))
        })?;
        if let Some((_, true)) = &outcome {
            self.discard(blob_no);
        }
        Ok(outcome.map(|(stored, _)| stored))
    }

    /// Takes back what was written of a blob; what cannot be taken back now is collected when the store opens.
    fn discard(&mut self, blob_no: i64) {
        if let Err(error) = blob_rows::delete(&self.conn, blob_no) {
            tracing::warn!(%error, blob_no, "an unfinished blob stays until the next start");
        }
    }

    fn transact<T>(
        &mut self,
        work: impl FnOnce(&Connection, &mut i64) -> rusqlite::Result<T>,
    ) -> Result<T, StoreError> {
        let written = (|| {
            let tx = rusqlite::Transaction::new(&mut self.conn, rusqlite::TransactionBehavior::Immediate)?;
            let value = work(&tx, &mut self.next_no)?;
            tx.commit()?;
            Ok(value)
        })();
        written.map_err(|error| {
            let error = store_error(&self.path, &error);
            if stops_writer(&error) {
                tracing::error!(%error, "content is not written any more; reads go on");
                self.stopped = Some(error.clone());
            }
            error
        })
    }
}

/// Content at hand, and how to get at the rest of it.
enum Opened {
    /// All of it.
    Small(Bytes),
    /// A source, and what it is called.
    Large(Box<dyn Read + Send>, String),
}

fn open_source(path: &Path) -> Result<Opened, StoreError> {
    let name = path.display().to_string();
    read_head(path)
        .map(|(head, file)| match file {
            None => Opened::Small(Bytes::from(head)),
            Some(file) => Opened::Large(Box::new(Cursor::new(head).chain(file)), name.clone()),
        })
        .map_err(|error| unreadable(&name, &error))
}

/// The first slice of a file and a little more, and the file when it goes on after it.
fn read_head(path: &Path) -> std::io::Result<(Vec<u8>, Option<File>)> {
    // Before opening: opening a pipe would wait for its other end.
    if !std::fs::metadata(path)?.is_file() {
        return Err(std::io::Error::other("it is not a regular file"));
    }
    let mut file = File::open(path)?;
    let mut head = Vec::new();
    (&mut file).take(SLICE_BYTES as u64 + 1).read_to_end(&mut head)?;
    let goes_on = head.len() > SLICE_BYTES;
    Ok((head, goes_on.then_some(file)))
}

fn unreadable(name: &str, error: &std::io::Error) -> StoreError {
    StoreError::Failed(format!("{name} cannot be read to be stored: {error}"))
}
