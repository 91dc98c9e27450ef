//! A bounded queue into a thread of its own.
//!
//! Invariants: senders wait without blocking a runtime thread; the thread can wait with a deadline, which
//! the channels of tokio cannot outside a runtime; what was accepted before [`Queue::close`] is worked off.

use crate::ports::StoreError;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, TryRecvError, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};

/// The answer to one job.
pub(super) type Reply<T> = oneshot::Sender<Result<T, StoreError>>;

struct Queued<J> {
    job: J,
    // Held while the job waits; dropped when the thread takes it.
    slot: OwnedSemaphorePermit,
}

/// The sending side, and the thread.
pub(super) struct Queue<J> {
    slots: Arc<Semaphore>,
    sender: Mutex<Option<Sender<Queued<J>>>>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

/// The receiving side.
pub(super) struct Inbox<J>(Receiver<Queued<J>>);

/// What waiting for a job came to.
pub(super) enum Next<J> {
    /// A job.
    Job(J),
    /// Nothing came in time.
    Quiet,
    /// Nothing will come any more.
    Closed,
}

impl<J: Send + 'static> Queue<J> {
    /// Starts a thread that works on what is sent.
    pub(super) fn start(
        name: &str,
        len: usize,
        work: impl FnOnce(Inbox<J>) + Send + 'static,
    ) -> std::io::Result<Self> {
        let (sender, receiver) = channel();
        let thread =
            std::thread::Builder::new().name(name.to_owned()).spawn(move || work(Inbox(receiver)))?;
        Ok(Self {
            slots: Arc::new(Semaphore::new(len)),
            sender: Mutex::new(Some(sender)),
            thread: Mutex::new(Some(thread)),
        })
    }

    /// Sends a job and waits for its answer. A caller that stops waiting does not undo the job.
    pub(super) async fn ask<T>(&self, job: impl FnOnce(Reply<T>) -> J) -> Result<T, StoreError> {
        let closed = || StoreError::Failed("it is closed, nothing more is written".into());
        let slot = Arc::clone(&self.slots).acquire_owned().await.map_err(|_| closed())?;
        let (reply, answer) = oneshot::channel();
        {
            let sender = lock(&self.sender);
            let sender = sender.as_ref().ok_or_else(closed)?;
            let queued = Queued { job: job(reply), slot };
            sender.send(queued).map_err(|_| StoreError::Stopped("its thread ended".into()))?;
        }
        answer.await.map_err(|_| StoreError::Stopped("its thread ended".into()))?
    }

    /// Takes no more jobs and waits until the thread has done the ones it has. Blocks.
    pub(super) fn close(&self) {
        drop(lock(&self.sender).take());
        if let Some(thread) = lock(&self.thread).take() {
            // A panic of the thread was reported by the panic hook; its jobs were answered by dropping them.
            let _ = thread.join();
        }
    }
}

impl<J> Inbox<J> {
    /// Waits for a job; for ever without a deadline.
    pub(super) fn wait(&self, deadline: Option<Duration>) -> Next<J> {
        let received = match deadline {
            None => self.0.recv().map_err(|_| RecvTimeoutError::Disconnected),
            Some(deadline) => self.0.recv_timeout(deadline),
        };
        match received {
            Ok(queued) => Next::Job(queued.take()),
            Err(RecvTimeoutError::Timeout) => Next::Quiet,
            Err(RecvTimeoutError::Disconnected) => Next::Closed,
        }
    }

    /// Takes a job that waits already.
    pub(super) fn poll(&self) -> Next<J> {
        match self.0.try_recv() {
            Ok(queued) => Next::Job(queued.take()),
            Err(TryRecvError::Empty) => Next::Quiet,
            Err(TryRecvError::Disconnected) => Next::Closed,
        }
    }
}

impl<J> Queued<J> {
    fn take(self) -> J {
        drop(self.slot);
        self.job
    }
}

/// Locks whatever a panic elsewhere left behind: every holder leaves the value whole.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
