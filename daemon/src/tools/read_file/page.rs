//! The lines of one page as text.

use super::lines::{Lines, Rest, Skipped, Taken};
use super::places::{FileKey, Place};
use super::{Cut, Page, Scratch, Tools, text};
use crate::redact::Redactor;
use agentd_core::limits;
use agentd_core::text::{Charset, Content, Detected, Detector, Encoding, Ground, Stream};
use std::borrow::Cow;
use std::fs::File;
use std::io::{Read, Write as _};
use std::os::unix::fs::FileExt as _;
use std::time::Duration;

pub(super) enum PageError {
    Io(std::io::Error),
    PastEnd { lines: u64 },
    Late { line: u64, is_kept: bool },
}

impl From<std::io::Error> for PageError {
    fn from(error: std::io::Error) -> Self {
        Self::Io(error)
    }
}

/// What is wanted, and with what.
pub(super) struct Request<'a> {
    pub(super) name: &'a str,
    pub(super) offset: u64,
    pub(super) limit: u64,
    pub(super) max_bytes: usize,
    pub(super) redactor: &'a Redactor,
    pub(super) tools: &'a Tools,
    /// To remember places by; none while the file may be changing.
    pub(super) key: Option<FileKey>,
}

impl Request<'_> {
    pub(super) fn read(&self, file: &File, mut found: Detected) -> Result<Page, PageError> {
        let mut lines = self.at_offset(file, found.encoding)?;
        let (mut page, mut shown, mut facts, mut line) = (Page::default(), 0, Facts::default(), Vec::new());
        let mut is_told_here = false;
        // Enough to see that a line does not fit, and to find a secret that begins in what does.
        let most = (self.room() + self.redactor.overlap_bytes() + 1) * found.encoding.newline().len();
        while shown < self.limit {
            let start = lines.position();
            let taken = lines.take(most, &mut line)?;
            if taken == Taken::Nothing {
                break;
            }
            if found.ground == Ground::Valid && std::str::from_utf8(&line).is_err() && taken == Taken::Whole {
                // Beyond what the encoding was told by.
                (found, is_told_here) = (told_here(file, start)?.unwrap_or(found), true);
            }
            let number = self.offset + shown + 1;
            let (rendered, seen) = if taken == Taken::Whole {
                self.render(found.encoding, &line)
            } else {
                (String::new(), Facts::default())
            };
            let width = format!("{number:>6}\t").len() + 1;
            if taken == Taken::Start || page.text.len() + rendered.len() + width > self.room() {
                lines.seek(start);
                if shown > 0 {
                    break;
                }
                let goes_on = self.cut_line(&mut page, found.encoding, &mut lines, number)?;
                shown += 1;
                if goes_on {
                    let max = limits::LINE_ARTIFACT_MAX_BYTES;
                    page.rest =
                        Some(format!("\n... the line goes on after {max} bytes; next offset {number}"));
                    return Ok(page);
                }
                break;
            }
            if shown > 0 {
                page.text.push('\n');
            }
            page.text.push_str(&format!("{number:>6}\t{rendered}"));
            facts.add(seen);
            shown += 1;
        }
        if shown == 0 && self.offset > 0 {
            return Err(PageError::PastEnd { lines: self.offset });
        }
        self.remember(&[(self.offset + shown, lines.position())]);
        let left = lines.count_ahead()?;
        if left.lines > 0 {
            let more = if left.is_all { "" } else { "more than " };
            page.rest =
                Some(format!("\n... {more}{} more lines; next offset {}", left.lines, self.offset + shown));
        }
        page.notes.extend(encoding_note(found, is_told_here));
        page.notes.extend(facts.in_words(found.encoding, left.lines == 0 && page.cut.is_none()));
        Ok(page)
    }

    /// Bytes for lines: what a result may have, less the words at its end.
    fn room(&self) -> usize {
        self.max_bytes.saturating_sub(limits::READ_WORDS_BYTES).max(self.max_bytes / 2)
    }

    /// At the first line of the page, from the nearest place that is known.
    fn at_offset<'a>(&self, file: &'a File, encoding: Encoding) -> Result<Lines<'a>, PageError> {
        let first = (0, u64::try_from(encoding.mark().len()).unwrap_or(0));
        let known = self.key.as_ref().and_then(|key| self.tools.places.at_or_before(key, self.offset));
        let (line, byte) = known.unwrap_or(first);
        let mut lines = Lines::new(file, encoding, byte);
        let mut noted = Vec::new();
        let within = Duration::from_millis(limits::READ_SKIP_MS);
        let skipped = lines.skip(line, self.offset, within, &mut noted);
        self.remember(&noted);
        match skipped? {
            Skipped::There => Ok(lines),
            Skipped::Ended { lines } => Err(PageError::PastEnd { lines }),
            Skipped::Late { line } => Err(PageError::Late { line, is_kept: self.key.is_some() }),
        }
    }

    fn remember(&self, places: &[Place]) {
        if let Some(key) = &self.key {
            self.tools.places.remember(key, places);
        }
    }

    /// A line without its end, without secrets, as text.
    fn render(&self, encoding: Encoding, line: &[u8]) -> (String, Facts) {
        let (line, is_exact) = match encoding.charset {
            // Before anything is replaced: a secret need not be text.
            Charset::Utf8 => (Cow::Borrowed(line), std::str::from_utf8(line).is_ok()),
            _ => {
                let decoded = encoding.decode(line);
                (Cow::Owned(decoded.text.into_owned().into_bytes()), decoded.is_exact)
            }
        };
        let facts = Facts::of(&line, is_exact);
        let line = line.strip_suffix(b"\n").unwrap_or(&line);
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        let shown = text::readable(&self.redactor.redact_bytes(line).content);
        // A lone CR would look like a line end that is not one.
        (if shown.contains('\r') { shown.replace('\r', "\u{240d}") } else { shown }, facts)
    }

    /// Puts the start of a long line on the page and all of it into a scratch file. Says whether the line is longer
    /// than what is kept.
    fn cut_line(
        &self,
        page: &mut Page,
        encoding: Encoding,
        lines: &mut Lines<'_>,
        number: u64,
    ) -> Result<bool, PageError> {
        let (scratch, mut file) = Scratch::create(self.tools)?;
        let mut line = LineReader {
            lines,
            stream: encoding.stream(),
            left: limits::LINE_ARTIFACT_MAX_BYTES,
            piece: Vec::new(),
            ready: Vec::new(),
            from: 0,
            state: LineState::Within,
        };
        let redactions = self.redactor.copy(&mut line, &mut file)?;
        let goes_on = line.state == LineState::TooLong;
        file.flush()?;
        let line_bytes = file.metadata()?.len();
        let room = self.room();
        let mut head = vec![0_u8; room + 3];
        let read = file.read_at(&mut head, 0)?;
        head.truncate(read);
        // Replacement marks take three bytes for one.
        let mut kept = text::whole_characters(&head, room);
        while text::readable(&head[..kept]).len() > room {
            kept = text::whole_characters(&head, kept / 2);
        }
        page.text = format!("{number:>6}\t{}", text::readable(&head[..kept]).replace('\r', "\u{240d}"));
        page.cut = Some(Cut { scratch, line: number, line_bytes, shown_bytes: kept, redactions });
        Ok(goes_on)
    }
}

/// The encoding by what stands from a place on, where the start of the file was ASCII; none when that is UTF-8 too.
fn told_here(file: &File, at: u64) -> std::io::Result<Option<Detected>> {
    let mut piece = vec![0_u8; limits::DETECT_SAMPLE_BYTES];
    let read = file.read_at(&mut piece, at)?;
    let mut detector = Detector::default();
    detector.push(&piece[..read]);
    Ok(match detector.finish(false) {
        // Lines are already being read in single bytes.
        Content::Text(found) if found.encoding.newline().len() == 1 && !found.encoding.has_mark => {
            Some(found)
        }
        _ => None,
    })
}

/// Reads a line to its end, without that, as UTF-8.
struct LineReader<'a, 'f> {
    lines: &'a mut Lines<'f>,
    stream: Stream,
    left: u64,
    piece: Vec<u8>,
    ready: Vec<u8>,
    from: usize,
    state: LineState,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum LineState {
    Within,
    Ended,
    TooLong,
}

impl Read for LineReader<'_, '_> {
    fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
        while self.from == self.ready.len() {
            if self.state != LineState::Within {
                return Ok(0);
            }
            let most = usize::try_from(self.left).unwrap_or(usize::MAX);
            let rest = self.lines.rest(most, &mut self.piece)?;
            self.left -= u64::try_from(self.piece.len()).unwrap_or(0);
            self.state = match rest {
                Rest::Ended => LineState::Ended,
                Rest::GoesOn if self.left == 0 => LineState::TooLong,
                Rest::GoesOn => LineState::Within,
            };
            self.ready.clear();
            self.from = 0;
            self.stream.push(&self.piece, self.state != LineState::Within, &mut self.ready);
        }
        let count = (self.ready.len() - self.from).min(into.len());
        into[..count].copy_from_slice(&self.ready[self.from..self.from + count]);
        self.from += count;
        Ok(count)
    }
}

/// What is unusual about the lines of a page.
#[derive(Clone, Copy, Default)]
struct Facts {
    lf: bool,
    crlf: bool,
    lone_cr: bool,
    invalid: bool,
    nul: bool,
    escapes: bool,
    unended: bool,
}

impl Facts {
    fn of(line: &[u8], is_exact: bool) -> Self {
        let (crlf, unended) = (line.ends_with(b"\r\n"), !line.ends_with(b"\n"));
        let body = line.strip_suffix(b"\n").unwrap_or(line);
        let body = body.strip_suffix(b"\r").unwrap_or(body);
        Self {
            lf: !crlf && !unended,
            crlf,
            lone_cr: memchr::memchr(b'\r', body).is_some(),
            invalid: !is_exact,
            nul: memchr::memchr(0, body).is_some(),
            escapes: memchr::memchr_iter(0x1b, body)
                .any(|at| matches!(body.get(at + 1..at + 3), Some(b"$B" | b"$@"))),
            unended,
        }
    }

    fn add(&mut self, line: Self) {
        self.lf |= line.lf;
        self.crlf |= line.crlf;
        self.lone_cr |= line.lone_cr;
        self.invalid |= line.invalid;
        self.nul |= line.nul;
        self.escapes |= line.escapes;
        self.unended = line.unended;
    }

    fn in_words(self, encoding: Encoding, at_end: bool) -> Vec<String> {
        let mut notes = Vec::new();
        match (self.crlf, self.lf) {
            (true, false) => notes.push("lines end in CRLF".to_owned()),
            (true, true) => notes.push("lines end in LF and in CRLF".to_owned()),
            _ => {}
        }
        if self.lone_cr {
            notes.push("\u{240d} is a CR".to_owned());
        }
        if self.nul {
            notes.push("\u{2400} is a NUL".to_owned());
        }
        if self.escapes {
            notes.push("has the escapes of ISO-2022-JP, which is not decoded here".to_owned());
        }
        if self.invalid {
            notes.push(format!("not {}: \u{fffd} stands for other bytes", encoding.name()));
        }
        if at_end && self.unended {
            notes.push("no newline at the end".to_owned());
        }
        notes
    }
}

/// In what a text is, where that is not plain UTF-8.
fn encoding_note(found: Detected, is_told_here: bool) -> Option<String> {
    let name = found.encoding.name();
    let here = if is_told_here { " from this page on" } else { "" };
    match (found.encoding.charset, found.ground) {
        (Charset::Utf8, _) => found.encoding.has_mark.then(|| "UTF-8 with byte order mark".to_owned()),
        (_, Ground::Mark) => Some(format!("{name}, shown as UTF-8")),
        (_, Ground::Zeros) => Some(format!("{name} without byte order mark, shown as UTF-8")),
        (_, Ground::Letters { is_sure: false }) => {
            Some(format!("read as {name}{here}, a guess: there are too few letters to be sure"))
        }
        _ => Some(format!("read as {name}{here}, by detection")),
    }
}
