//! Applying hunks to a content.

use super::super::{
    EditError, Edited, Quote, Span, encoded, matching, miss_text, nearest, not_only_ascii, refuse_marks,
};
use super::{Hunk, Mark, PatchError};
use crate::limits;

/// What the hunks of a file made of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Applied {
    /// The new content.
    pub bytes: Vec<u8>,
    /// The lines of the old content where the hunks are, from 1.
    pub places: Vec<usize>,
}

/// One line of a content.
struct Line {
    start: usize,
    text_end: usize,
    end: usize,
}

/// A content with its lines.
struct Content<'a> {
    bytes: &'a [u8],
    lines: Vec<Line>,
    end: &'static [u8],
    is_classic: bool,
    is_open: bool,
}

/// Applies hunks, all or none. Errors quote the file through `quote`; the first few are given.
pub fn apply(content: &[u8], hunks: &[Hunk], quote: Quote<'_>) -> Result<Applied, Vec<PatchError>> {
    let at_hunk = |hunk: &Hunk, error: &EditError| PatchError { line: hunk.line, why: error.to_string() };
    let opened = encoded::opened(content);
    for hunk in hunks {
        let joined = |lines: Vec<&str>| lines.join("\n");
        let (old, new) = (joined(hunk.old().collect()), joined(hunk.added().collect()));
        refuse_marks(&old, &new).map_err(|error| vec![at_hunk(hunk, &error)])?;
        if matches!(opened, encoded::Opened::Bytes { takes_unicode: false }) && !new.is_ascii() {
            return Err(vec![at_hunk(hunk, &not_only_ascii())]);
        }
    }
    let first = hunks.first().map_or(1, |hunk| hunk.line);
    match opened {
        encoded::Opened::Bytes { .. } => {
            let (edited, places) = Content::of(content).apply(hunks, quote)?;
            Ok(Applied { bytes: edited.bytes, places })
        }
        encoded::Opened::Text(text) => {
            let (edited, places) = Content::of(text.text.as_bytes()).apply(hunks, quote)?;
            let bytes = text.put_back(content, &edited);
            let bytes =
                bytes.map_err(|error| vec![PatchError { line: first, why: error.to_string() }])?.bytes;
            Ok(Applied { bytes, places })
        }
        encoded::Opened::Broken(encoding) => {
            let why = format!("the file is {} with parts that are no characters", encoding.name());
            Err(vec![PatchError { line: first, why }])
        }
    }
}

impl<'a> Content<'a> {
    fn of(bytes: &'a [u8]) -> Self {
        let ends = matching::line_ends(bytes);
        let newline = if ends.classic { b'\r' } else { b'\n' };
        let mut start = if bytes.starts_with(b"\xef\xbb\xbf") { 3 } else { 0 };
        let mut lines = Vec::new();
        while start < bytes.len() {
            let found = memchr::memchr(newline, &bytes[start..]).map(|len| start + len);
            let end = found.map_or(bytes.len(), |at| at + 1);
            let mut text_end = found.unwrap_or(end);
            if found.is_some() && !ends.classic && text_end > start && bytes[text_end - 1] == b'\r' {
                text_end -= 1;
            }
            lines.push(Line { start, text_end, end });
            start = end;
        }
        let is_open = lines.last().is_some_and(|line| line.text_end == line.end);
        let end = ends.dominant.map_or(&b"\n"[..], super::super::LineEnd::bytes);
        Self { bytes, lines, end, is_classic: ends.classic, is_open }
    }

    fn text(&self, at: usize) -> &'a [u8] {
        self.lines.get(at).map(|line| &self.bytes[line.start..line.text_end]).unwrap_or_default()
    }

    fn apply(&self, hunks: &[Hunk], quote: Quote<'_>) -> Result<(Edited, Vec<usize>), Vec<PatchError>> {
        let (mut from, mut moved) = (0_usize, 0_isize);
        let (mut edited, mut places) = (Edited { bytes: Vec::new(), spans: Vec::new() }, Vec::new());
        let (mut faults, mut copied) = (Vec::new(), 0);
        for hunk in hunks {
            match self.place(hunk, from, moved, quote) {
                Ok(at) => {
                    let count = hunk.old().count();
                    if let Some(hint) = hunk.hint {
                        moved = at.cast_signed() - hint.saturating_sub(usize::from(count > 0)).cast_signed();
                    }
                    from = at + count;
                    places.push(at + 1);
                    let start = self.start_of(at);
                    let end = self.start_of(from).max(start);
                    let new = self.rewritten(hunk, at);
                    edited.bytes.extend_from_slice(&self.bytes[copied..start]);
                    edited.bytes.extend_from_slice(&new);
                    edited.spans.push(Span { start, end, line: at + 1, new_len: new.len() });
                    copied = end;
                }
                Err(why) => {
                    faults.push(PatchError { line: hunk.line, why });
                    if faults.len() == limits::PATCH_FAULTS_MAX {
                        break;
                    }
                }
            }
        }
        if !faults.is_empty() {
            return Err(faults);
        }
        edited.bytes.extend_from_slice(&self.bytes[copied..]);
        Ok((edited, places))
    }

    fn start_of(&self, at: usize) -> usize {
        self.lines.get(at).map_or(self.bytes.len(), |line| line.start)
    }

    /// The line where a hunk begins, from 0.
    fn place(&self, hunk: &Hunk, from: usize, moved: isize, quote: Quote<'_>) -> Result<usize, String> {
        let old: Vec<&str> = hunk.old().collect();
        let mut from = from;
        for anchor in &hunk.anchors {
            from = self.anchor(anchor, from)?;
        }
        if old.is_empty() {
            return match hunk.anchors.last() {
                _ if self.lines.is_empty() || hunk.is_at_end => Ok(self.lines.len()),
                Some(_) => Ok(from + 1),
                None => {
                    Err("the hunk has no line to find its place by: give at least one line of context, or \
                             `*** End of File` to add at the end"
                        .to_owned())
                }
            };
        }
        let is_here =
            |at: usize| old.iter().enumerate().all(|(n, line)| self.text(at + n) == line.as_bytes());
        let last = (self.lines.len() + 1).saturating_sub(old.len());
        let must_end = hunk.is_at_end || hunk.old_is_open || hunk.new_is_open;
        let fits = |at: &usize| is_here(*at) && (!must_end || *at + old.len() == self.lines.len());
        let all: Vec<usize> = (from..last).filter(fits).collect();
        let hinted = hunk.hint.map(|hint| hint.cast_signed() - 1 + moved);
        match all.as_slice() {
            [only] if !hunk.old_is_open || self.is_open => Ok(*only),
            [_] => Err("the file ends with a newline, which the hunk denies".to_owned()),
            [first, ..] if !hunk.anchors.is_empty() => Ok(*first),
            [] => Err(self.missing(&old, (0..from.min(last)).any(is_here), must_end, quote)),
            several => match several.iter().find(|at| Some(at.cast_signed()) == hinted) {
                Some(at) => Ok(*at),
                None => {
                    let shown = several.iter().take(limits::EDIT_PLACES_MAX).map(|at| (at + 1).to_string());
                    let more = if several.len() > limits::EDIT_PLACES_MAX { ", …" } else { "" };
                    Err(format!(
                        "its lines are there {} times, at lines {}{more}: give more lines of context, or `@@` with a \
                         line before it",
                        several.len(),
                        shown.collect::<Vec<_>>().join(", ")
                    ))
                }
            },
        }
    }

    fn anchor(&self, anchor: &str, from: usize) -> Result<usize, String> {
        let wanted = anchor.as_bytes();
        let is_it = |at: &usize| self.text(*at).trim_ascii() == wanted;
        let mut found = (from..self.lines.len()).filter(is_it);
        match (found.next(), found.next()) {
            (Some(only), None) => Ok(only),
            (Some(one), Some(two)) => Err(format!(
                "the line after `@@`, {anchor:?}, is there several times, at lines {}, {}{}: put one before it",
                one + 1,
                two + 1,
                if found.next().is_some() { ", …" } else { "" }
            )),
            (None, _) => Err(format!(
                "the line after `@@`, {anchor:?}, was not found after line {from}: it must be a whole line of the file"
            )),
        }
    }

    fn missing(&self, old: &[&str], is_before: bool, must_end: bool, quote: Quote<'_>) -> String {
        if is_before {
            return "its lines are only before the place where it is searched: hunks must be in the order of the \
                    file, not overlap, and follow their `@@` lines"
                .to_owned();
        }
        let text = old.join("\n");
        let at_end = if must_end { " at the end of the file" } else { "" };
        match nearest::not_found(self.bytes, &text, text.as_bytes(), self.is_classic, quote) {
            EditError::NotFound { nearest, difference, hints } => {
                let hints: String = hints.iter().map(|hint| format!(" {hint}")).collect();
                let nearest = miss_text(&nearest, difference.as_ref());
                format!("its old lines were not found{at_end}.{hints}{nearest}")
            }
            other => other.to_string(),
        }
    }

    /// The bytes in place of a hunk's old lines: those that stay as they are, those that come with the file's line end.
    fn rewritten(&self, hunk: &Hunk, at: usize) -> Vec<u8> {
        let mut new = Vec::new();
        let (mut here, mut has_lines) = (at, false);
        let reaches_end = at + hunk.old().count() == self.lines.len();
        if reaches_end && self.is_open && here == self.lines.len() {
            new.extend_from_slice(self.end);
        }
        for (mark, text) in &hunk.lines {
            match (mark, self.lines.get(here)) {
                (Mark::Added, _) => {
                    new.extend_from_slice(text.as_bytes());
                    new.extend_from_slice(self.end);
                    has_lines = true;
                }
                (Mark::Context, Some(line)) => {
                    new.extend_from_slice(&self.bytes[line.start..line.end]);
                    if line.text_end == line.end {
                        new.extend_from_slice(self.end);
                    }
                    here += 1;
                    has_lines = true;
                }
                _ => here += 1,
            }
        }
        let is_open = hunk.new_is_open || self.is_open && !hunk.old_is_open;
        if reaches_end && is_open && has_lines {
            let cut = [&b"\r\n"[..], b"\n", b"\r"]
                .into_iter()
                .find(|end| new.ends_with(end))
                .map_or(0, <[u8]>::len);
            new.truncate(new.len() - cut);
        }
        new
    }
}
