//! The one thread that writes the log.
//!
//! Invariants: one batch is all that waits when the thread wakes, with no added delay; it is one transaction,
//! synced when any append of it is a barrier; each append has its own savepoint, so a conflict of one session
//! fails only that one; answers are sent after the commit. After an error that leaves the disk in doubt
//! nothing is written any more, and every caller is told so.

use super::append::Ledger;
use super::fault::{stops_writer, store_error};
use super::queue::{Inbox, Next, Reply};
use super::rebuild::{self, Rebuild};
use super::row::Prepared;
use super::wal::Wal;
use crate::ports::StoreError;
use agentd_core::limits;
use rusqlite::Connection;
use std::path::{Path, PathBuf};

/// What the thread is asked.
pub(super) enum Job {
    /// Write this.
    Append(Box<Prepared>, Reply<()>),
    /// Empty the projections and make them again.
    Rebuild(Rebuild, Reply<()>),
}

/// The state of the thread.
pub(super) struct Writer {
    conn: Connection,
    path: PathBuf,
    ledger: Ledger,
    wal: Wal,
    synced: bool,
    stopped: Option<StoreError>,
    #[cfg(test)]
    pub(super) commit_fault: super::CommitFault,
}

type Batch = Vec<(Box<Prepared>, Reply<()>)>;

impl Writer {
    /// A writer on an opened and migrated database.
    pub(super) fn new(conn: Connection, path: &Path) -> rusqlite::Result<Self> {
        let ledger = Ledger::load(&conn, path)?;
        Ok(Self {
            conn,
            ledger,
            wal: Wal::of(path),
            path: path.to_owned(),
            synced: false,
            stopped: None,
            #[cfg(test)]
            commit_fault: super::CommitFault::default(),
        })
    }

    /// Works until the queue is closed and empty.
    pub(super) fn run(mut self, inbox: &Inbox<Job>) {
        loop {
            match inbox.wait(self.wal.patience()) {
                Next::Job(job) => self.take(job, inbox),
                Next::Quiet => self.tidy(),
                Next::Closed => break,
            }
        }
        if self.stopped.is_none() {
            // The last word of a run that ended in order; the next start may look less closely.
            let stopped = self.conn.execute("UPDATE meta SET value = '1' WHERE key = 'clean_stop'", []);
            if let Err(error) = stopped {
                tracing::warn!(%error, "the clean stop could not be noted");
            }
            self.wal.close(&self.conn);
        }
    }

    fn take(&mut self, first: Job, inbox: &Inbox<Job>) {
        let mut batch = Batch::new();
        let mut next = Some(first);
        while let Some(job) = next.take() {
            match job {
                Job::Append(append, reply) => {
                    batch.push((append, reply));
                    if batch.len() < limits::WRITER_QUEUE_LEN
                        && let Next::Job(job) = inbox.poll()
                    {
                        next = Some(job);
                    }
                }
                Job::Rebuild(asked, reply) => {
                    self.write(std::mem::take(&mut batch));
                    let rebuilt = self.rebuild(&asked);
                    drop(reply.send(rebuilt));
                }
            }
        }
        self.write(batch);
    }

    fn write(&mut self, batch: Batch) {
        if batch.is_empty() {
            return;
        }
        if let Some(stopped) = &self.stopped {
            for (_, reply) in batch {
                drop(reply.send(Err(stopped.clone())));
            }
            return;
        }
        let barrier = batch.iter().any(|(append, _)| append.barrier);
        match self.transact(&batch, barrier) {
            Ok(results) => {
                self.ledger.committed();
                // A caller that went away does not change what was written.
                for ((_, reply), result) in batch.into_iter().zip(results) {
                    drop(reply.send(result));
                }
                self.wal.written(&self.conn);
            }
            Err(error) => {
                self.recover(&error);
                for (_, reply) in batch {
                    drop(reply.send(Err(error.clone())));
                }
            }
        }
    }

    /// One transaction. An error means that nothing of it is in the log.
    fn transact(&mut self, batch: &Batch, barrier: bool) -> Result<Vec<Result<(), StoreError>>, StoreError> {
        self.set_synced(barrier)?;
        self.execute("BEGIN IMMEDIATE")?;
        let mut results = Vec::with_capacity(batch.len());
        for (append, _) in batch {
            self.execute("SAVEPOINT one_append")?;
            let result = self.ledger.append(&self.conn, append);
            match &result {
                Ok(()) => {}
                // SQLite may have given up the whole transaction; if so nothing of the batch is left.
                Err(error) if stops_writer(error) || self.conn.is_autocommit() => return Err(error.clone()),
                Err(StoreError::Full { .. }) => return result.map(|()| Vec::new()),
                Err(_) => self.execute("ROLLBACK TO one_append")?,
            }
            self.execute("RELEASE one_append")?;
            results.push(result);
        }
        self.ledger.finish(&self.conn).map_err(|error| store_error(&self.path, &error))?;
        #[cfg(test)]
        self.commit_fault.strike(&self.path)?;
        self.execute("COMMIT")?;
        Ok(results)
    }

    /// After a failed transaction: rolled back, and nothing remembered of it.
    fn recover(&mut self, error: &StoreError) {
        if !self.conn.is_autocommit()
            && let Err(rollback) = self.conn.execute_batch("ROLLBACK")
        {
            tracing::error!(error = %rollback, "a failed transaction could not be rolled back");
        }
        if stops_writer(error) {
            tracing::error!(%error, "the log is not written any more; reads go on");
            self.stopped = Some(error.clone());
            return;
        }
        match Ledger::load(&self.conn, &self.path) {
            Ok(ledger) => self.ledger = ledger,
            Err(reading) => self.stopped = Some(StoreError::Stopped(format!("{error}; then: {reading}"))),
        }
    }

    fn rebuild(&mut self, asked: &Rebuild) -> Result<(), StoreError> {
        if let Some(stopped) = &self.stopped {
            return Err(stopped.clone());
        }
        self.set_synced(true)?;
        self.execute("BEGIN IMMEDIATE")?;
        let rebuilt = rebuild::run(&self.conn, &self.path, asked).and_then(|()| self.execute("COMMIT"));
        if let Err(error) = &rebuilt {
            self.recover(error);
        }
        rebuilt
    }

    fn tidy(&mut self) {
        if self.stopped.is_some() {
            return;
        }
        match self.ledger.prune_requests(&self.conn) {
            Ok(true) => return,
            Ok(false) => {}
            Err(error) => tracing::warn!(%error, "old request ids could not be forgotten"),
        }
        self.wal.quiet(&self.conn);
    }

    fn set_synced(&mut self, synced: bool) -> Result<(), StoreError> {
        if self.synced != synced {
            // Not through the cache: this pragma does its work while it is prepared.
            let sql = if synced { "PRAGMA synchronous=FULL" } else { "PRAGMA synchronous=NORMAL" };
            self.conn.execute_batch(sql).map_err(|error| store_error(&self.path, &error))?;
            self.synced = synced;
        }
        Ok(())
    }

    fn execute(&self, sql: &str) -> Result<(), StoreError> {
        self.conn
            .prepare_cached(sql)
            .and_then(|mut statement| statement.execute([]).map(drop))
            .map_err(|error| store_error(&self.path, &error))
    }
}
