//! When a walk ends before it is done: after a time, or when nobody waits for it any more.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// When a walk ends early.
#[derive(Clone)]
pub(in crate::tools) struct Stop {
    dropped: Arc<AtomicBool>,
    late: Arc<AtomicBool>,
    deadline: Instant,
}

/// Ends a walk when nobody waits for it any more.
pub(in crate::tools) struct StopOnDrop(Arc<AtomicBool>);

impl Drop for StopOnDrop {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

impl Stop {
    /// After `time`, or when the guard goes.
    pub(in crate::tools) fn after(time: Duration) -> (Self, StopOnDrop) {
        let dropped = Arc::new(AtomicBool::new(false));
        let guard = StopOnDrop(dropped.clone());
        (Self { dropped, late: Arc::default(), deadline: Instant::now() + time }, guard)
    }

    /// Whether to end now.
    pub(in crate::tools) fn now(&self) -> bool {
        if self.dropped.load(Ordering::Relaxed) || self.late.load(Ordering::Relaxed) {
            return true;
        }
        let is_late = Instant::now() >= self.deadline;
        if is_late {
            self.late.store(true, Ordering::Relaxed);
        }
        is_late
    }

    /// Whether the walk ended early.
    pub(in crate::tools) fn was_early(&self) -> bool {
        self.late.load(Ordering::Relaxed) || self.dropped.load(Ordering::Relaxed)
    }
}
