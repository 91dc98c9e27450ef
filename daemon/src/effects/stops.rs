//! Wishes to stop a call, which may come before, while or after it runs.

use agentd_core::ids::CallId;
use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use tokio::sync::watch;

/// The calls that run, and whether each is to stop.
#[derive(Default)]
pub(super) struct Stops(Mutex<HashMap<CallId, watch::Sender<bool>>>);

/// The wish about one call; forgotten when it is dropped.
pub(super) struct Wish<'a> {
    stops: &'a Stops,
    call_id: CallId,
    asked: watch::Receiver<bool>,
}

impl Stops {
    fn all(&self) -> MutexGuard<'_, HashMap<CallId, watch::Sender<bool>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Asks for a call to stop, now or as soon as it begins.
    pub(super) fn stop(&self, call_id: &CallId) {
        self.all().entry(call_id.clone()).or_insert_with(|| watch::Sender::new(false)).send_replace(true);
    }

    /// The wish about a call that begins.
    pub(super) fn of(&self, call_id: &CallId) -> Wish<'_> {
        let asked =
            self.all().entry(call_id.clone()).or_insert_with(|| watch::Sender::new(false)).subscribe();
        Wish { stops: self, call_id: call_id.clone(), asked }
    }
}

impl Wish<'_> {
    /// Whether it is to stop.
    pub(super) fn is_asked(&self) -> bool {
        *self.asked.borrow()
    }

    /// Returns when it is to stop.
    pub(super) async fn asked(&self) {
        let mut asked = self.asked.clone();
        if asked.wait_for(|asked| *asked).await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}

impl Drop for Wish<'_> {
    fn drop(&mut self) {
        self.stops.all().remove(&self.call_id);
    }
}
