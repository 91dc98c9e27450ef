//! Leases on workspaces: calls that may change something run one after another in one workspace, first come
//! first served between sessions.

use agentd_core::path_bytes::PathBytes;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// The leases of all workspaces.
#[derive(Default)]
pub(super) struct Leases(Mutex<HashMap<PathBytes, Arc<Semaphore>>>);

/// A held lease; dropping it lets the next in.
pub(super) struct Lease {
    _permit: Option<OwnedSemaphorePermit>,
}

impl Leases {
    /// Waits for the lease of the workspace with this canonical root.
    pub(super) async fn acquire(&self, root: &PathBytes) -> Lease {
        let semaphore = {
            let mut leases = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            leases.retain(|_, lease| Arc::strong_count(lease) > 1 || lease.available_permits() == 0);
            leases.entry(root.clone()).or_insert_with(|| Arc::new(Semaphore::new(1))).clone()
        };
        // Tokio's semaphore is first come first served; it is never closed.
        Lease { _permit: semaphore.acquire_owned().await.ok() }
    }
}
