//! Deadlines, and the one place where the harness looks again and again.
//!
//! Invariant: no test waits without a deadline, and none sleeps for a fixed time. [`poll`] is for what cannot
//! announce itself (a line of `/proc`, a file of a job folder); everything else waits on
//! [`crate::watched::Watched`] or on a process descriptor.

use std::time::{Duration, Instant};

/// How long between two looks. Short against what is waited for, long against a look.
const LOOK_EVERY: Duration = Duration::from_millis(5);

/// A point in time after which waiting is a failure.
#[derive(Clone, Copy, Debug)]
pub struct Deadline {
    at: Instant,
    allowed: Duration,
}

impl Deadline {
    /// `seconds` from now, times `AGENT_TESTS_PATIENCE` (for slow machines; 1 when unset).
    pub fn secs(seconds: u64) -> Self {
        Self::after(Duration::from_secs(seconds))
    }

    /// `allowed` from now, times `AGENT_TESTS_PATIENCE`.
    pub fn after(allowed: Duration) -> Self {
        let patience =
            std::env::var("AGENT_TESTS_PATIENCE").ok().and_then(|text| text.parse().ok()).unwrap_or(1);
        let allowed = allowed * patience;
        Self { at: Instant::now() + allowed, allowed }
    }

    /// What is left; zero when it has passed.
    pub fn remaining(&self) -> Duration {
        self.at.saturating_duration_since(Instant::now())
    }

    /// Whether it has passed.
    pub fn passed(&self) -> bool {
        self.remaining().is_zero()
    }

    /// The whole time that was allowed, for messages.
    pub fn allowed(&self) -> Duration {
        self.allowed
    }
}

/// Looks until `look` finds something; `None` when the deadline passes first.
pub fn try_poll<T>(deadline: Deadline, mut look: impl FnMut() -> Option<T>) -> Option<T> {
    loop {
        if let Some(found) = look() {
            return Some(found);
        }
        if deadline.passed() {
            return None;
        }
        std::thread::sleep(LOOK_EVERY);
    }
}

/// Looks until `look` finds something, and fails the test with `what` when the deadline passes first.
pub fn poll<T>(what: &str, deadline: Deadline, look: impl FnMut() -> Option<T>) -> T {
    try_poll(deadline, look).unwrap_or_else(|| panic!("{what}: not within {:?}", deadline.allowed()))
}
