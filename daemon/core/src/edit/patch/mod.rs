//! Patches of several files: what they say, and what one makes of a content.
//!
//! Two forms are read: the envelope (`*** Begin Patch` … `*** End Patch`) and unified diffs, plain or of git.
//!
//! Invariants:
//! * lines of context and removed lines match exactly, line ends aside; numbers are hints, never a reason to guess;
//! * hunks are in the order of the file and do not overlap;
//! * everything outside the hunks stays byte by byte, as does a byte order mark, a missing final newline and an
//!   encoding;
//! * any text is a patch or an error that names a line of it; nothing panics.
//!
//! Deliberately absent: fuzz, changes of permission bits, copies, binary patches (refused in words).

mod apply;
mod parse;

pub use apply::{Applied, apply};
pub use parse::parse;

use crate::path_bytes::PathBytes;

/// What a patch says of one file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FilePatch {
    /// The file, as the patch names it.
    pub path: PathBytes,
    /// The line of the patch that names it, from 1.
    pub line: usize,
    /// What is to be done.
    pub action: Action,
}

/// What is to be done with a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Made anew.
    Add {
        /// Its whole content.
        content: String,
        /// Whether it may be run.
        is_executable: bool,
    },
    /// Removed. The hunks, if any, show all of what it has.
    Delete {
        /// In the order of the file.
        hunks: Vec<Hunk>,
    },
    /// Changed, moved, or both.
    Update {
        /// Its new name.
        move_to: Option<PathBytes>,
        /// In the order of the file; may be none where it is moved.
        hunks: Vec<Hunk>,
    },
}

/// One line of a hunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mark {
    /// Is there and stays.
    Context,
    /// Is there and goes.
    Removed,
    /// Comes.
    Added,
}

/// A place that changes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Hunk {
    /// The line of the patch where it begins, from 1.
    pub line: usize,
    /// Lines that come before it, in order, each searched from the one before.
    pub anchors: Vec<String>,
    /// The line of the old content where it should be, from 1.
    pub hint: Option<usize>,
    /// Its lines.
    pub lines: Vec<(Mark, String)>,
    /// It ends where the file ends.
    pub is_at_end: bool,
    /// The old file has no newline at its end.
    pub old_is_open: bool,
    /// The new file has none.
    pub new_is_open: bool,
}

impl Hunk {
    /// The lines that must be there.
    pub fn old(&self) -> impl Iterator<Item = &str> {
        self.lines.iter().filter(|line| line.0 != Mark::Added).map(|line| line.1.as_str())
    }
    /// The lines that come.
    pub fn added(&self) -> impl Iterator<Item = &str> {
        self.lines.iter().filter(|line| line.0 == Mark::Added).map(|line| line.1.as_str())
    }
}

/// What is wrong with a patch, or with a hunk of it. Nothing has changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line} of the patch: {why}")]
pub struct PatchError {
    /// The line of the patch, from 1.
    pub line: usize,
    /// What was expected or not found there.
    pub why: String,
}

#[cfg(test)]
#[path = "patch_tests.rs"]
mod tests;
