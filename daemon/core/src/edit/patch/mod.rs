//! Patches of several files: what models write, read strictly and applied exactly.
//!
//! Two forms are read: the envelope (`*** Begin Patch`) and unified diffs, with the headers of git.
//!
//! Invariants:
//! * any text is read or refused, never a panic; an error names the line of the patch and what was expected there;
//! * a hunk stands where all its old lines stand, line for line; line numbers and anchors only choose among such
//!   places, and what is left ambiguous is refused with the places named;
//! * hunks go down the file in order and never overlap;
//! * lines that stay keep their bytes, new ones get the file's line end, and the end of the file stays as it is (with
//!   or without a newline) unless the patch says otherwise.
//!
//! Deliberately absent: paths in a file system, and fuzzy matching.

mod apply;
mod envelope;
mod parse;
mod place;
mod unified;

pub use apply::patched;
pub use parse::parse;

use crate::path_bytes::PathBytes;

/// Why a patch cannot be read or does not fit. Nothing has changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PatchError {
    /// It is no patch.
    #[error("line {line} of the patch: {what}")]
    Form {
        /// The line of the patch, from 1.
        line: usize,
        /// What is wrong there, and what was expected.
        what: String,
    },
    /// A hunk has no place in its file.
    #[error("hunk {hunk} (line {line} of the patch): {what}")]
    Missing {
        /// Which hunk of the file, from 1.
        hunk: usize,
        /// Its line in the patch, from 1.
        line: usize,
        /// What is most like it.
        what: String,
    },
    /// A hunk has several places.
    #[error("hunk {hunk} (line {line} of the patch): {what}")]
    Ambiguous {
        /// Which hunk of the file, from 1.
        hunk: usize,
        /// Its line in the patch, from 1.
        line: usize,
        /// Where.
        what: String,
    },
    /// The encoding of the file does not allow it.
    #[error("{0}")]
    Encoding(String),
}

/// A patch: files in the order in which it names them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Patch {
    /// At least one.
    pub files: Vec<FilePatch>,
}

/// What happens to one file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FilePatch {
    /// The line of the patch that names it, from 1.
    pub line: usize,
    /// Its path as written, without the `a/` and `b/` of git.
    pub path: PathBytes,
    /// What.
    pub change: Change,
}

/// The kinds of change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// A new file.
    Add {
        /// Its lines, each but the last ended by `\n`, the last too unless the patch says otherwise.
        content: String,
        /// It may be run.
        executable: bool,
    },
    /// The file goes.
    Delete {
        /// Its whole content, where the patch has it: it must be that.
        hunks: Vec<Hunk>,
    },
    /// Lines of it change.
    Update {
        /// Its new path, if it gets one.
        move_to: Option<PathBytes>,
        /// What changes, down the file; may be empty only with a new path.
        hunks: Vec<Hunk>,
    },
}

/// Lines that change at one place.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Hunk {
    /// Its first line in the patch, from 1.
    pub line: usize,
    /// Lines of the file after which it stands, each found after the one before.
    pub anchors: Vec<String>,
    /// The line of the file where it is said to begin, from 1; 0 only in an empty file.
    pub start: Option<usize>,
    /// Its lines.
    pub lines: Vec<HunkLine>,
    /// Its last old line is the last of the file.
    pub at_end: bool,
    /// The old file is said to end without a newline.
    pub old_open: bool,
    /// The new file is said to end without a newline.
    pub new_open: bool,
}

/// A line of a hunk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HunkLine {
    /// What happens to it.
    pub mark: Mark,
    /// Its text without line end.
    pub text: String,
}

/// What happens to a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mark {
    /// It stays.
    Keep,
    /// It goes.
    Remove,
    /// It comes.
    Add,
}

impl Hunk {
    /// The lines that must be in the file.
    pub fn old(&self) -> impl Iterator<Item = &str> {
        self.lines.iter().filter(|line| line.mark != Mark::Add).map(|line| line.text.as_str())
    }
    /// The lines that are there afterwards.
    pub fn new_lines(&self) -> impl Iterator<Item = &str> {
        self.lines.iter().filter(|line| line.mark != Mark::Remove).map(|line| line.text.as_str())
    }
}

#[cfg(test)]
#[path = "patch_tests.rs"]
mod tests;
