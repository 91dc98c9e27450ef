//! What is kept of what a walk finds: the first by path, up to a size, whatever the order of finding.
//!
//! Why this does not depend on the order: what belongs to the first that fit is never the last of too much, so it is
//! never dropped; and what was dropped once marks the end, behind which nothing is kept.

use std::collections::BTreeMap;

/// Values by path.
pub(in crate::tools) struct Kept<T> {
    found: BTreeMap<Vec<u8>, (usize, T)>,
    bytes: usize,
    max_bytes: usize,
    end: Option<Vec<u8>>,
}

/// The order of paths by their components: a folder's entries stay together.
fn key(path: &[u8]) -> Vec<u8> {
    path.iter().map(|byte| if *byte == b'/' { 0 } else { *byte }).collect()
}

fn path(key: Vec<u8>) -> Vec<u8> {
    let mut path = key;
    for byte in &mut path {
        if *byte == 0 {
            *byte = b'/';
        }
    }
    path
}

impl<T> Kept<T> {
    /// Nothing yet.
    pub(in crate::tools) const fn new(max_bytes: usize) -> Self {
        Self { found: BTreeMap::new(), bytes: 0, max_bytes, end: None }
    }

    /// Takes a value that has a size of `bytes` beside its path.
    pub(in crate::tools) fn put(&mut self, path: &[u8], bytes: usize, value: T) {
        let size = path.len() + bytes;
        self.put_key(key(path), size, value);
    }

    fn put_key(&mut self, key: Vec<u8>, size: usize, value: T) {
        if self.end.as_ref().is_some_and(|end| key >= *end) {
            return;
        }
        self.bytes += size;
        self.found.insert(key, (size, value));
        while self.bytes > self.max_bytes {
            let Some((last, (size, _))) = self.found.pop_last() else { break };
            self.bytes -= size;
            self.end = Some(last);
        }
    }

    /// Takes what another one kept.
    pub(in crate::tools) fn merge(&mut self, other: Self) {
        if let Some(end) = other.end
            && self.end.as_ref().is_none_or(|own| end < *own)
        {
            for (_, (size, _)) in self.found.split_off(&end) {
                self.bytes -= size;
            }
            self.end = Some(end);
        }
        for (key, (size, value)) in other.found {
            self.put_key(key, size, value);
        }
    }

    /// The values in order.
    pub(in crate::tools) fn into_values(self) -> impl Iterator<Item = (Vec<u8>, T)> {
        self.found.into_iter().map(|(key, (_, value))| (path(key), value))
    }

    /// How many are kept.
    pub(in crate::tools) fn len(&self) -> usize {
        self.found.len()
    }
}
