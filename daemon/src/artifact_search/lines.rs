//! Lines out of chunks, and which of them match.

use super::{Searched, Wanted};
use agentd_core::limits;
use regex::bytes::Regex;
use std::collections::VecDeque;

/// A line that matches, or that stands near one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FoundLine {
    /// Its number, from 1.
    pub number: u64,
    /// Where the shown part begins, in bytes of the whole content.
    pub at_bytes: u64,
    /// As text, without its end; cut around the match where it is long, with `…` for what is left out.
    pub text: String,
    /// It matches; else it is context.
    pub is_match: bool,
}

/// The lines of a content that comes in chunks.
pub struct Lines {
    regex: Regex,
    wanted: Wanted,
    /// The line that has no end yet, or its last piece.
    open: Vec<u8>,
    /// Bytes at the start of `open` that an earlier piece had too.
    overlap: usize,
    /// Where `open` begins in the content.
    open_at: u64,
    number: u64,
    /// `open` is not the first piece of its line.
    is_later_piece: bool,
    /// The line was told already: no line is told twice.
    is_told: bool,
    before: VecDeque<FoundLine>,
    after_left: usize,
    found: Searched,
    is_done: bool,
}

impl Lines {
    /// Nothing yet.
    pub fn new(regex: Regex, wanted: Wanted) -> Self {
        Self {
            regex,
            wanted,
            open: Vec::new(),
            overlap: 0,
            open_at: 0,
            number: 1,
            is_later_piece: false,
            is_told: false,
            before: VecDeque::new(),
            after_left: 0,
            found: Searched::default(),
            is_done: false,
        }
    }

    /// Whether nothing more will be told.
    pub fn is_done(&self) -> bool {
        self.is_done
    }

    /// What was found so far.
    pub fn searched(&self) -> Searched {
        self.found
    }

    /// Takes the next bytes.
    pub fn push(&mut self, mut chunk: &[u8], found: &mut Vec<FoundLine>) {
        while !chunk.is_empty() && !self.is_done {
            let room = limits::ARTIFACT_SEARCH_LINE_MAX_BYTES.saturating_sub(self.open.len()).max(1);
            let part = &chunk[..chunk.len().min(room)];
            if let Some(end) = memchr::memchr(b'\n', part) {
                self.open.extend_from_slice(&part[..end]);
                chunk = &chunk[end + 1..];
                self.end_line(found);
            } else {
                self.open.extend_from_slice(part);
                chunk = &chunk[part.len()..];
                if self.open.len() >= limits::ARTIFACT_SEARCH_LINE_MAX_BYTES {
                    self.end_piece(found);
                }
            }
        }
    }

    /// There are no more bytes.
    pub fn finish(&mut self, found: &mut Vec<FoundLine>) {
        if !self.is_done && self.open.len() > self.overlap {
            self.end_line(found);
        }
    }

    fn end_line(&mut self, found: &mut Vec<FoundLine>) {
        let whole = self.open.len() + 1;
        if self.open.ends_with(b"\r") {
            self.open.pop();
        }
        self.look(true, found);
        self.open_at += u64::try_from(whole).unwrap_or(0);
        self.open.clear();
        self.overlap = 0;
        self.number += 1;
        self.is_later_piece = false;
        self.is_told = false;
    }

    fn end_piece(&mut self, found: &mut Vec<FoundLine>) {
        if !self.is_later_piece {
            self.found.long_lines += 1;
        }
        self.look(false, found);
        let gone = self.open.len() - limits::ARTIFACT_SEARCH_OVERLAP_BYTES;
        self.open.drain(..gone);
        self.open_at += u64::try_from(gone).unwrap_or(0);
        self.overlap = limits::ARTIFACT_SEARCH_OVERLAP_BYTES;
        self.is_later_piece = true;
    }

    /// Looks at the open line or piece. `is_end`: its line ends here.
    fn look(&mut self, is_end: bool, found: &mut Vec<FoundLine>) {
        let matched = if self.is_told { None } else { self.first_match(is_end) };
        match matched {
            Some((start, end)) => {
                self.is_told = true;
                if self.found.matches >= u64::try_from(self.wanted.max).unwrap_or(u64::MAX) {
                    self.found.stopped = true;
                    self.is_done = true;
                    return;
                }
                self.found.matches += 1;
                found.extend(self.before.drain(..));
                found.push(self.shown(start, end, true));
                self.after_left = self.wanted.after;
            }
            None if is_end && !self.is_told && self.after_left > 0 => {
                self.after_left -= 1;
                found.push(self.shown(0, 0, false));
            }
            None if is_end && !self.is_told && self.wanted.before > 0 => {
                if self.before.len() == self.wanted.before {
                    self.before.pop_front();
                }
                self.before.push_back(self.shown(0, 0, false));
            }
            None => {}
        }
    }

    /// The first match. `^` and `$` count at the ends of the line only, not at the edges of a piece.
    fn first_match(&self, is_end: bool) -> Option<(usize, usize)> {
        let found = self.regex.find_at(&self.open, usize::from(self.is_later_piece))?;
        let (start, end) = (found.start(), found.end());
        // One that needs the edge is left to the next piece, which has these bytes too.
        let needs_edge = !is_end
            && end == self.open.len()
            && self.regex.shortest_match_at(&self.open, start).is_none_or(|shortest| shortest == end);
        (!needs_edge).then_some((start, end))
    }

    fn shown(&self, start: usize, end: usize, is_match: bool) -> FoundLine {
        let max = limits::ARTIFACT_SEARCH_SHOWN_MAX_BYTES;
        let line = &self.open;
        let (from, to) = if line.len() <= max {
            (0, line.len())
        } else {
            let from = start.saturating_sub(max / 4).min(line.len().saturating_sub(max));
            (from, (from + max).min(line.len()).max(end.min(from + max)))
        };
        let (from, to) = (whole(line, from), whole(line, to));
        let mut text = String::new();
        if from > 0 || self.is_later_piece {
            text.push('…');
        }
        // NUL has a picture, because no provider takes it.
        text.push_str(&String::from_utf8_lossy(&line[from..to]).replace('\0', "\u{2400}"));
        if to < line.len() {
            text.push('…');
        }
        let at_bytes = self.open_at + u64::try_from(from).unwrap_or(0);
        FoundLine { number: self.number, at_bytes, text, is_match }
    }
}

/// The next place at or before `at` where a character begins.
fn whole(bytes: &[u8], at: usize) -> usize {
    let is_inside = |at: usize| bytes.get(at).is_some_and(|byte| byte & 0xc0 == 0x80);
    (0..4).filter_map(|back| at.checked_sub(back)).find(|at| !is_inside(*at)).unwrap_or(at)
}
