//! What the daemon as a whole is doing.

use crate::api::{Busy, Workload};
use crate::ports::{BoxFuture, Store, SummaryFilter};
use crate::process::Jobs;
use crate::session::Registry;
use agentd_core::projection::SessionState;
use std::sync::Arc;

/// Sessions counted as busy at most; beyond it the number no longer matters.
const BUSY_MAX: usize = 1_000;

/// Sessions with a turn at work, and commands that run.
pub(super) struct Work {
    registry: Arc<Registry>,
    store: Arc<dyn Store>,
    jobs: Jobs,
}

impl Work {
    pub(super) fn new(registry: Arc<Registry>, store: Arc<dyn Store>, jobs: Jobs) -> Self {
        Self { registry, store, jobs }
    }

    async fn running(&self) -> Vec<String> {
        let filter =
            SummaryFilter { state: Some(SessionState::Running), limit: BUSY_MAX, ..SummaryFilter::default() };
        match self.store.list(filter).await {
            Ok(listed) => listed.iter().map(|listed| listed.summary.session_id.to_string()).collect(),
            Err(error) => {
                tracing::warn!(%error, "the running sessions cannot be counted");
                Vec::new()
            }
        }
    }
}

impl Workload for Work {
    fn busy(&self) -> BoxFuture<'_, Busy> {
        Box::pin(async {
            let supervisors = self.jobs.supervisors().unwrap_or_else(|error| {
                tracing::warn!(%error, "the running jobs cannot be counted");
                Vec::new()
            });
            let jobs = supervisors.iter().map(|id| format!("command under pid {}", id.pid)).collect();
            Busy { sessions: self.running().await, jobs }
        })
    }

    fn drained(&self) -> BoxFuture<'_, ()> {
        Box::pin(async {
            self.registry.drain();
            let mut changes = self.registry.changes();
            // Every step of a session ends in a commit, which wakes us.
            while !self.running().await.is_empty() {
                if changes.changed().await.is_err() {
                    return;
                }
            }
        })
    }
}
