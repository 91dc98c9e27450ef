//! Where lines begin, remembered from page to page, so that going on costs no more than the page.
//!
//! A file is known by its identity, size and times. One that was changed a moment ago is not remembered: the next
//! change might carry the same time.

use agentd_core::limits;
use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt as _;
use std::sync::{Mutex, PoisonError};

/// A file in one of its states.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::tools) struct FileKey {
    dev: u64,
    ino: u64,
    size: u64,
    mtime: (i64, i64),
    ctime: (i64, i64),
}

impl FileKey {
    pub(super) fn of(found: &std::fs::Metadata) -> Self {
        Self {
            dev: found.dev(),
            ino: found.ino(),
            size: found.size(),
            mtime: (found.mtime(), found.mtime_nsec()),
            ctime: (found.ctime(), found.ctime_nsec()),
        }
    }

    /// Whether its times are so old that a change from now on shows in them.
    pub(super) fn is_settled(&self, now_ms: i64) -> bool {
        let changed_ms = self.ctime.0.max(self.mtime.0).saturating_mul(1_000);
        now_ms.saturating_sub(changed_ms) > limits::LINE_PLACES_SETTLE_MS
    }
}

/// A line and the byte it begins at, both from 0.
pub(super) type Place = (u64, u64);

/// Places of lines in the files read last. Bounded.
#[derive(Debug, Default)]
pub struct LinePlaces(Mutex<Vec<Known>>);

#[derive(Debug)]
struct Known {
    key: FileKey,
    places: BTreeMap<u64, u64>,
}

impl LinePlaces {
    /// The nearest known place at or before a line.
    pub(super) fn at_or_before(&self, key: &FileKey, line: u64) -> Option<Place> {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let known = known.iter().find(|known| known.key == *key)?;
        known.places.range(..=line).next_back().map(|(line, byte)| (*line, *byte))
    }

    pub(super) fn remember(&self, key: &FileKey, places: &[Place]) {
        if places.is_empty() {
            return;
        }
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // Other states of the same file are over.
        let at = known.iter().position(|known| (known.key.dev, known.key.ino) == (key.dev, key.ino));
        let mut entry = match at.map(|at| known.remove(at)) {
            Some(entry) if entry.key == *key => entry,
            _ => Known { key: *key, places: BTreeMap::new() },
        };
        entry.places.extend(places.iter().copied());
        while entry.places.len() > limits::LINE_PLACES_MAX {
            entry.places.pop_first();
        }
        known.push(entry);
        if known.len() > limits::LINE_PLACES_FILES_MAX {
            known.remove(0);
        }
    }

    #[cfg(test)]
    pub(in crate::tools) fn len(&self) -> (usize, usize) {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        (known.len(), known.iter().map(|known| known.places.len()).max().unwrap_or(0))
    }
}
