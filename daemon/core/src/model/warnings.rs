//! What was odd about an answer, in words for people.
//!
//! Invariants: a few short lines, each said once; the same words in every dialect. Nothing is decided on them.

use crate::limits::ANSWER_WARNINGS_MAX;

/// An id of a call was missing, came twice or cannot be sent back.
pub(crate) const ID_REPLACED: &str =
    "a tool call had an id that is missing, repeated or not legal, and got another one";
/// The name of a call cannot be sent back as it is.
pub(crate) const NAME_MENDED: &str = "a tool call had a name that is not legal, which was mended";
/// The arguments of a call are of no use.
pub(crate) const ARGS_BROKEN: &str = "a tool call had arguments that cannot be read, and does not run";
/// Calls stood before text.
pub(crate) const CALLS_MOVED: &str = "text came after a tool call and was put before it";
/// A piece of an unknown kind came and was left out.
pub(crate) const UNKNOWN_PIECE: &str = "a piece of the answer was of an unknown kind and was left out";

/// The lines.
#[derive(Clone, Debug, Default)]
pub(crate) struct Warnings(Vec<String>);

impl Warnings {
    /// Adds a line, unless it is there or there are enough.
    pub(crate) fn add(&mut self, words: &str) {
        if self.0.len() < ANSWER_WARNINGS_MAX && !self.0.iter().any(|line| line == words) {
            self.0.push(words.to_owned());
        }
    }

    /// The lines, in the order in which they came up.
    pub(crate) fn into_lines(self) -> Vec<String> {
        self.0
    }
}
