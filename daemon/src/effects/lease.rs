//! Leases on workspaces: calls that may change something run one after another in one workspace, first come
//! first served between sessions.
//!
//! Invariants: a lease has one holder; who waits can be told for whom. A lease is held until the result of its call is
//! recorded, so the order of the log is the order in which the workspace changed.
//!
//! Deliberately absent: leases of workspaces inside one another. What guards those is that a file is only changed over
//! the content that was inspected.

use crate::ports::CallContext;
use agentd_core::ids::{CallId, SessionId};
use agentd_core::limits;
use agentd_core::path_bytes::PathBytes;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// The leases of all workspaces.
#[derive(Default)]
pub(super) struct Leases {
    lines: Mutex<HashMap<PathBytes, Arc<Line>>>,
    waiting: Mutex<HashMap<CallId, Arc<Line>>>,
}

/// Those who want one workspace.
struct Line {
    turn: Arc<Semaphore>,
    holder: Mutex<Option<Holder>>,
}

/// Who has a workspace.
#[derive(Clone)]
struct Holder {
    session_id: SessionId,
    tool: String,
    since: Instant,
}

/// A held lease; dropping it lets the next in.
pub(super) struct Lease {
    line: Arc<Line>,
    _permit: Option<OwnedSemaphorePermit>,
}

/// Forgets that a call waits, however its wait ends.
struct Wait<'a>(&'a Leases, &'a CallId);

impl Drop for Wait<'_> {
    fn drop(&mut self) {
        lock(&self.0.waiting).remove(self.1);
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        *lock(&self.line.holder) = None;
    }
}

impl Lease {
    /// Keeps the lease until its result is recorded: whoever records it drops the effect that waits here. A session that
    /// cannot record anything must not hold others up for ever.
    pub(super) async fn until_recorded(self) {
        tokio::time::sleep(Duration::from_millis(limits::LEASE_RECORD_MS)).await;
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Leases {
    /// Waits for the lease of the call's workspace. `waits` is told once, in words, if somebody else has it.
    pub(super) async fn acquire(&self, call: &CallContext, waits: impl FnOnce(String)) -> Lease {
        let line = self.line(&call.session.root);
        let permit = match line.turn.clone().try_acquire_owned() {
            Ok(permit) => Some(permit),
            Err(_) => {
                lock(&self.waiting).insert(call.call_id.clone(), line.clone());
                let _wait = Wait(self, &call.call_id);
                if let Some(words) = line.in_words() {
                    waits(words);
                }
                // Tokio's semaphore is first come first served; it is never closed.
                line.turn.clone().acquire_owned().await.ok()
            }
        };
        *lock(&line.holder) = Some(Holder {
            session_id: call.session.session_id.clone(),
            tool: call.tool.clone(),
            since: Instant::now(),
        });
        Lease { line, _permit: permit }
    }

    /// For whom a call waits, if it does.
    pub(super) fn waits_for(&self, call: &CallId) -> Option<String> {
        let line = lock(&self.waiting).get(call).cloned()?;
        line.in_words()
    }

    fn line(&self, root: &PathBytes) -> Arc<Line> {
        let mut lines = lock(&self.lines);
        lines.retain(|_, line| Arc::strong_count(line) > 1);
        let fresh = || Arc::new(Line { turn: Arc::new(Semaphore::new(1)), holder: Mutex::new(None) });
        lines.entry(root.clone()).or_insert_with(fresh).clone()
    }
}

impl Line {
    fn in_words(&self) -> Option<String> {
        let holder = lock(&self.holder).clone()?;
        let (since, session) = (holder.since.elapsed().as_secs(), holder.session_id);
        Some(format!(
            "waits for the workspace, which session {session} has had for {since} s ({})",
            holder.tool
        ))
    }
}
