//! Where an encoder's bytes go: into a body, a length or a hash, by the same walk.

use super::json::quote_into;
use sha2::{Digest, Sha256};
use std::fmt::Write as _;

/// Takes bytes.
pub(super) trait Sink {
    /// Takes the next bytes as they are.
    fn put(&mut self, bytes: &[u8]);
    /// Takes a text as a JSON string.
    fn text(&mut self, text: &str) {
        quote_into(text, |bytes| self.put(bytes));
    }
    /// Takes a comma, unless it is the first time.
    fn comma(&mut self, first: &mut bool) {
        if !std::mem::replace(first, false) {
            self.put(b",");
        }
    }
}

/// Counts.
#[derive(Default)]
pub(super) struct Length(pub(super) usize);

impl Sink for Length {
    fn put(&mut self, bytes: &[u8]) {
        self.0 += bytes.len();
    }
}
impl Sink for Vec<u8> {
    fn put(&mut self, bytes: &[u8]) {
        self.extend_from_slice(bytes);
    }
}
impl Sink for Sha256 {
    fn put(&mut self, bytes: &[u8]) {
        self.update(bytes);
    }
}

/// What a hash came to, in lower-case hex.
pub(super) fn hex_of(hash: Sha256) -> String {
    hash.finalize().iter().fold(String::with_capacity(64), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}
