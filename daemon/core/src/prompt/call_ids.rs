//! The ids of calls in one request.
//!
//! An id that the server takes and that no earlier call of the request has is kept; any other gets a new one, made
//! from the answer it stands in and its place there.
//!
//! Invariants: pure; the id of a call depends on itself and on what stands before it, never on what follows, so the
//! ids of a sent prefix never change; no two calls of a request share an id.

use crate::event::ModelProfile;
use crate::ids::ModelCallId;
use crate::model::form::{IdForm, NINE};
use crate::model::ids::new_id;
use sha2::{Digest, Sha256};
use std::borrow::Cow;
use std::collections::BTreeSet;

/// Which ids are taken.
pub(super) struct CallIds<'a> {
    form: IdForm,
    used: BTreeSet<Cow<'a, str>>,
}

impl<'a> CallIds<'a> {
    /// For a request to this model.
    pub(super) fn new(profile: &ModelProfile) -> Self {
        Self { form: IdForm::of(profile), used: BTreeSet::new() }
    }

    /// The id of the next call. `own`: the server that is spoken to made `id` itself.
    pub(super) fn next(
        &mut self,
        own: bool,
        id: &'a str,
        answer: &ModelCallId,
        place: usize,
    ) -> Cow<'a, str> {
        let takes = if own { self.form.takes(id) } else { self.form.takes_foreign(id) };
        let id = if takes && !self.used.contains(id) {
            Cow::Borrowed(id)
        } else {
            Cow::Owned(self.made(answer, place))
        };
        self.used.insert(id.clone());
        id
    }

    fn made(&self, answer: &ModelCallId, place: usize) -> String {
        let free = |id: &str| !self.used.contains(id);
        if self.form == IdForm::Nine {
            let mut again = 0;
            loop {
                let id = nine(answer, place, again);
                if free(&id) {
                    return id;
                }
                again += 1;
            }
        }
        new_id("call_", answer.as_str(), place, &free)
    }
}

/// Nine letters and digits.
fn nine(answer: &ModelCallId, place: usize, again: u64) -> String {
    const DIGITS: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
    let hash = Sha256::digest(format!("{answer}/{place}/{again}"));
    hash.iter().take(NINE).map(|byte| char::from(DIGITS[usize::from(*byte) % DIGITS.len()])).collect()
}

#[cfg(test)]
#[path = "call_ids_tests.rs"]
mod tests;
