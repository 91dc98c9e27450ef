//! A value that threads change and tests wait for.

use crate::deadline::Deadline;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// A value with a bell: whoever changes it wakes whoever waits.
#[derive(Debug, Default)]
pub struct Watched<T> {
    value: Mutex<T>,
    changed: Condvar,
}

impl<T> Watched<T> {
    /// Watches `value`.
    pub fn new(value: T) -> Self {
        Self { value: Mutex::new(value), changed: Condvar::new() }
    }

    // A panic in one reader must not hide what the others have to report.
    fn lock(&self) -> MutexGuard<'_, T> {
        self.value.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes the value and wakes all waiters.
    pub fn update<R>(&self, change: impl FnOnce(&mut T) -> R) -> R {
        let result = change(&mut self.lock());
        self.changed.notify_all();
        result
    }

    /// Looks at the value.
    pub fn read<R>(&self, look: impl FnOnce(&T) -> R) -> R {
        look(&self.lock())
    }

    /// Waits until `look` finds something in the value; `None` when the deadline passes first.
    pub fn wait<R>(&self, deadline: Deadline, mut look: impl FnMut(&T) -> Option<R>) -> Option<R> {
        let mut value = self.lock();
        loop {
            if let Some(found) = look(&value) {
                return Some(found);
            }
            let left = deadline.remaining();
            if left.is_zero() {
                return None;
            }
            value = self.changed.wait_timeout(value, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}
