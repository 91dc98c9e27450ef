//! The lines of a patch, and which of the two forms they are in.

use super::{Hunk, HunkLine, Mark, Patch, PatchError, envelope, unified};
use crate::limits;

/// Reads a patch in either form.
pub fn parse(text: &str) -> Result<Patch, PatchError> {
    let mut lines = Lines::new(text);
    let is_envelope = lines.all.iter().any(|line| envelope::begins(line));
    let patch = if is_envelope { envelope::read(&mut lines)? } else { unified::read(&mut lines)? };
    let hunks = patch.files.iter().map(super::FilePatch::hunk_count).sum::<usize>();
    let (files, max) = (patch.files.len(), limits::PATCH_FILES_MAX);
    if files > max {
        let what =
            format!("{files} files are more than the {max} that one patch may have. Use several patches.");
        return Err(PatchError::Form { line: 1, what });
    }
    if hunks > limits::PATCH_HUNKS_MAX {
        let max = limits::PATCH_HUNKS_MAX;
        let what =
            format!("{hunks} hunks are more than the {max} that one patch may have. Use several patches.");
        return Err(PatchError::Form { line: 1, what });
    }
    Ok(patch)
}

impl super::FilePatch {
    fn hunk_count(&self) -> usize {
        match &self.change {
            super::Change::Add { .. } => 0,
            super::Change::Delete { hunks } | super::Change::Update { hunks, .. } => hunks.len(),
        }
    }
}

/// The lines of a patch and the place of the reader.
pub(super) struct Lines<'a> {
    pub(super) all: Vec<&'a str>,
    /// For each line the next that is not blank, itself included.
    telling: Vec<usize>,
    at: usize,
}

impl<'a> Lines<'a> {
    fn new(text: &'a str) -> Self {
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        let text = text.strip_suffix('\n').unwrap_or(text);
        let all: Vec<&str> = text.split('\n').map(|line| line.strip_suffix('\r').unwrap_or(line)).collect();
        let mut telling = vec![all.len(); all.len()];
        let mut next = all.len();
        for (at, line) in all.iter().enumerate().rev() {
            next = if line.is_empty() { next } else { at };
            telling[at] = next;
        }
        Self { all, telling, at: 0 }
    }
    /// The next line, which stays.
    pub(super) fn peek(&self) -> Option<&'a str> {
        self.peek_at(0)
    }
    /// A line further on.
    pub(super) fn peek_at(&self, ahead: usize) -> Option<&'a str> {
        self.all.get(self.at + ahead).copied()
    }
    /// Goes on by one line.
    pub(super) fn step(&mut self) {
        self.at += 1;
    }
    /// The number of the next line, from 1.
    pub(super) fn number(&self) -> usize {
        self.at + 1
    }
    /// A fault of the next line.
    pub(super) fn fault(&self, what: impl Into<String>) -> PatchError {
        PatchError::Form { line: self.number(), what: what.into() }
    }
    /// How the next line looks in an error.
    pub(super) fn shown(&self) -> String {
        match self.peek() {
            None => "the end of the patch".to_owned(),
            Some(line) => quoted(line),
        }
    }
    /// Whether blank lines come next, and then something for which `test` holds.
    pub(super) fn after_blanks(&self, test: impl Fn(&str) -> bool) -> bool {
        let next = self.telling.get(self.at).and_then(|at| self.all.get(*at));
        next.is_some_and(|line| test(line))
    }
}

/// A line of the patch as an error shows it.
pub(super) fn quoted(line: &str) -> String {
    const SHOWN_CHARS: usize = 80;
    let mut shown: String = line.chars().take(SHOWN_CHARS).collect();
    if shown.len() < line.len() {
        shown.push('…');
    }
    format!("{shown:?}")
}

/// A line of a hunk's body. A blank line is a kept one whose space was lost.
pub(super) fn body_line(line: &str) -> Option<HunkLine> {
    let (mark, text) = match line.as_bytes().first() {
        None => (Mark::Keep, ""),
        Some(b' ') => (Mark::Keep, &line[1..]),
        Some(b'-') => (Mark::Remove, &line[1..]),
        Some(b'+') => (Mark::Add, &line[1..]),
        _ => return None,
    };
    Some(HunkLine { mark, text: text.to_owned() })
}

/// Takes `\ No newline at end of file`: it is about the line before it.
pub(super) fn note_open_end(hunk: &mut Hunk) {
    match hunk.lines.last().map(|line| line.mark) {
        Some(Mark::Keep) => (hunk.old_open, hunk.new_open) = (true, true),
        Some(Mark::Remove) => hunk.old_open = true,
        Some(Mark::Add) => hunk.new_open = true,
        None => {}
    }
}

/// `@@ -l,c +l,c @@`: the old start, and both counts.
pub(super) fn ranges(line: &str) -> Option<(usize, usize, usize)> {
    let rest = line.strip_prefix("@@ -")?;
    let (old, rest) = rest.split_once(" +")?;
    let (new, _) = rest.split_once(" @@")?;
    let range = |text: &str| -> Option<(usize, usize)> {
        match text.split_once(',') {
            Some((start, count)) => Some((start.trim().parse().ok()?, count.trim().parse().ok()?)),
            None => Some((text.trim().parse().ok()?, 1)),
        }
    };
    let ((start, old), (_, new)) = (range(old)?, range(new)?);
    Some((start, old, new))
}
