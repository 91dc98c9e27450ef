//! A few read-only connections, used on the blocking threads of tokio.
//!
//! Invariants: a read never waits for a writer; a transaction is as short as one page; no runtime thread blocks
//! on SQLite.

use super::connection::open_reader;
use super::fault::store_error;
use super::queue::lock;
use crate::ports::StoreError;
use agentd_core::limits;
use rusqlite::Connection;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use tokio::sync::Semaphore;

/// Connections to both databases.
pub(super) struct Reader {
    /// The log.
    pub(super) log: Connection,
    /// The content.
    pub(super) blobs: Connection,
}

/// The connections that are not in use, and how many may be.
pub(super) struct Readers {
    slots: Arc<Semaphore>,
    idle: Mutex<Vec<Reader>>,
    log_path: PathBuf,
    blobs_path: PathBuf,
}

impl Readers {
    /// A pool with one connection open, which shows that reading works.
    pub(super) fn open(log_path: &Path, blobs_path: &Path) -> Result<Arc<Self>, StoreError> {
        let readers = Self {
            slots: Arc::new(Semaphore::new(limits::STORE_READERS)),
            idle: Mutex::new(Vec::new()),
            log_path: log_path.to_owned(),
            blobs_path: blobs_path.to_owned(),
        };
        let first = readers.take()?;
        lock(&readers.idle).push(first);
        Ok(Arc::new(readers))
    }

    /// Runs a read on a blocking thread.
    pub(super) async fn run<T: Send + 'static>(
        self: &Arc<Self>,
        read: impl FnOnce(&Reader) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        let closed = || StoreError::Failed("it is closed, nothing more is read".into());
        let slot = Arc::clone(&self.slots).acquire_owned().await.map_err(|_| closed())?;
        let readers = Arc::clone(self);
        let task = tokio::task::spawn_blocking(move || {
            let reader = readers.take()?;
            let result = read(&reader);
            if !slot.semaphore().is_closed() {
                lock(&readers.idle).push(reader);
            }
            drop(slot);
            result
        });
        task.await.map_err(|error| StoreError::Failed(format!("a read was given up: {error}")))?
    }

    /// As [`Self::run`], for errors of SQLite on the log.
    pub(super) async fn run_log<T: Send + 'static>(
        self: &Arc<Self>,
        read: impl FnOnce(&Connection) -> rusqlite::Result<T> + Send + 'static,
    ) -> Result<T, StoreError> {
        let path = self.log_path.clone();
        self.run(move |reader| read(&reader.log).map_err(|error| store_error(&path, &error))).await
    }

    /// Where the log is, for errors.
    pub(super) fn log_path(&self) -> &Path {
        &self.log_path
    }
    /// Where the content is, for errors.
    pub(super) fn blobs_path(&self) -> &Path {
        &self.blobs_path
    }

    /// Closes the connections that are not in use; the others close when their read ends.
    pub(super) fn close(&self) {
        self.slots.close();
        lock(&self.idle).clear();
    }

    fn take(&self) -> Result<Reader, StoreError> {
        // A statement of its own: the lock is not held while a connection opens.
        let idle = lock(&self.idle).pop();
        if let Some(reader) = idle {
            return Ok(reader);
        }
        Ok(Reader { log: open(&self.log_path)?, blobs: open(&self.blobs_path)? })
    }
}

fn open(path: &Path) -> Result<Connection, StoreError> {
    open_reader(path).map_err(|error| store_error(path, &error))
}
