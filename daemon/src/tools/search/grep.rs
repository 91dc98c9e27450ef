//! The search in one file, and what is kept of its matches.
//!
//! A small file is read in one piece into a buffer that is used again; a large one is searched as a stream. Lines are
//! redacted whole before they are cut.

use super::super::walk::{Entry, Kept, Stop, Visitor, amount};
use super::super::{answer, text};
use crate::inspect::Workspace;
use crate::redact::Redactor;
use agentd_core::command::CallFault;
use agentd_core::limits;
use grep_matcher::{LineTerminator, Matcher as _};
use grep_regex::{ErrorKind, RegexMatcher, RegexMatcherBuilder};
use grep_searcher::{Searcher, SearcherBuilder, Sink, SinkMatch};
use memchr::memmem::Finder;
use rustix::fs::FileType;
use std::fs::File;
use std::io::{Error, Read};
use std::os::fd::AsFd as _;

/// Compiles a pattern.
pub(super) fn matcher(pattern: &str) -> Result<RegexMatcher, CallFault> {
    let invalid = |why: String| answer::invalid("pattern", why);
    let literal = || format!("To search for this text as it stands, escape it: {}", escaped(pattern));
    // Asked first, because its errors show the pattern as it was given, with the place.
    if let Err(error) = regex_syntax::ast::parse::Parser::new().parse(pattern) {
        return Err(invalid(format!("Invalid pattern: {error}\n{}", literal())));
    }
    let built = builder().crlf(true).build(pattern).or_else(|error| match error.kind() {
        // A carriage return can be searched for where it is not taken as a part of a line's end.
        ErrorKind::NotAllowed(_) if !names_newline(pattern) => {
            builder().crlf(false).line_terminator(Some(b'\n')).build(pattern)
        }
        _ => Err(error),
    });
    built.map_err(|error| match error.kind() {
        ErrorKind::NotAllowed(_) => invalid(
            "Invalid pattern: it has a line break, and search goes line by line. Search for one of the lines, and read the \
             others with read_file."
                .to_owned(),
        ),
        _ => invalid(format!("Invalid pattern: {error}\n{}", literal())),
    })
}

/// Why a pattern may have found nothing: what is looked for in files without a match.
pub(super) struct Doubts {
    /// The pattern has characters that have other bytes in another encoding.
    is_beyond_ascii: bool,
    /// The pattern as plain text, where that is something else.
    plain: Option<Finder<'static>>,
}

impl Doubts {
    /// Those about a pattern.
    pub(super) fn of(pattern: &str) -> Self {
        let plain = (escaped(pattern) != pattern).then(|| Finder::new(pattern).into_owned());
        Self { is_beyond_ascii: !pattern.is_ascii(), plain }
    }
}

fn names_newline(pattern: &str) -> bool {
    pattern.contains('\n') || pattern.contains("\\n") || pattern.contains("0A") || pattern.contains("0a")
}

fn builder() -> RegexMatcherBuilder {
    let mut builder = RegexMatcherBuilder::new();
    builder
        .multi_line(true)
        .size_limit(limits::SEARCH_REGEX_MAX_BYTES)
        .dfa_size_limit(limits::SEARCH_REGEX_MAX_BYTES);
    builder
}

/// A text as a pattern that matches just it.
pub(in crate::tools) fn escaped(text: &str) -> String {
    let mut out = String::new();
    for c in text.chars() {
        if "\\.+*?()|[]{}^$#&-~".contains(c) {
            out.push('\\');
        }
        out.push(c);
    }
    out
}

/// The matches of one file.
#[derive(Default)]
pub(super) struct Hits {
    /// `LINE: text`
    pub(super) lines: Vec<String>,
    /// Of all matching lines.
    pub(super) count: u64,
    bytes: usize,
    redactions: u32,
}

/// What became of a file.
pub(super) enum Outcome {
    Text,
    Binary,
    Failed(Error),
}

/// Figures of a search.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Counts {
    pub(super) searched: u64,
    pub(super) files: u64,
    pub(super) lines: u64,
    /// Files without a match that have the pattern as plain text.
    pub(super) plain: u64,
    /// Files without a match that are not UTF-8, where the pattern is more than ASCII.
    pub(super) not_utf8: u64,
    binary: u64,
    special: u64,
    links: u64,
    linked_elsewhere: u64,
    unreadable: u64,
}

impl Counts {
    /// What was not searched, in words.
    pub(super) fn in_words(&self) -> impl Iterator<Item = String> {
        let rows = [
            (self.binary, "binary", "binary"),
            (self.special, "neither file nor folder", "neither file nor folder"),
            (self.links, "link not followed", "links not followed"),
            (
                self.linked_elsewhere,
                "with hard links elsewhere, which has to be named itself",
                "with hard links elsewhere, which have to be named one by one",
            ),
            (self.unreadable, "file that could not be read", "files that could not be read"),
        ];
        rows.into_iter()
            .filter(|(count, ..)| *count > 0)
            .map(|(count, one, several)| format!("{count} {}", if count == 1 { one } else { several }))
    }
}

/// A search of one thread.
pub(super) struct Grep<'a> {
    matcher: RegexMatcher,
    searcher: Searcher,
    redactor: &'a Redactor,
    workspace: &'a Workspace,
    stop: &'a Stop,
    doubts: &'a Doubts,
    buffer: Vec<u8>,
    pub(super) kept: Kept<Hits>,
    pub(super) counts: Counts,
    pub(super) redactions: u32,
}

impl Visitor for Grep<'_> {
    fn visit(&mut self, entry: &Entry<'_>) {
        match entry.kind {
            FileType::RegularFile => self.entry(entry),
            FileType::Directory => {}
            FileType::Symlink => self.counts.links += 1,
            _ => self.counts.special += 1,
        }
    }
}

impl<'a> Grep<'a> {
    /// A search that has found nothing yet.
    pub(super) fn new(
        (matcher, doubts): (&RegexMatcher, &'a Doubts),
        redactor: &'a Redactor,
        workspace: &'a Workspace,
        stop: &'a Stop,
    ) -> Self {
        let ends = matcher_ends(matcher);
        let searcher = SearcherBuilder::new()
            .line_number(true)
            .line_terminator(ends)
            .heap_limit(Some(limits::SEARCH_LINE_MAX_BYTES))
            .build();
        Self {
            matcher: matcher.clone(),
            searcher,
            redactor,
            workspace,
            stop,
            doubts,
            buffer: Vec::new(),
            kept: Kept::new(limits::SEARCH_KEPT_BYTES),
            counts: Counts::default(),
            redactions: 0,
        }
    }

    /// Takes what another thread found.
    pub(super) fn merge(&mut self, other: Self) {
        let (own, more) = (&mut self.counts, other.counts);
        own.searched += more.searched;
        own.files += more.files;
        own.lines += more.lines;
        own.plain += more.plain;
        own.not_utf8 += more.not_utf8;
        own.binary += more.binary;
        own.special += more.special;
        own.links += more.links;
        own.linked_elsewhere += more.linked_elsewhere;
        own.unreadable += more.unreadable;
        self.redactions += other.redactions;
        self.kept.merge(other.kept);
    }

    fn entry(&mut self, entry: &Entry<'_>) {
        let Ok(fd) = self.workspace.open_entry(entry.folder.fd.as_fd(), entry.name, false) else {
            self.counts.unreadable += 1;
            return;
        };
        let Ok(stat) = rustix::fs::fstat(&fd) else {
            self.counts.unreadable += 1;
            return;
        };
        if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
            self.counts.special += 1;
            return;
        }
        // As when one file is read: another name of it may lie outside, and then people are asked.
        #[allow(clippy::useless_conversion, reason = "the widths differ between platforms")]
        let (links, inode) = (u64::from(stat.st_nlink), u64::from(stat.st_ino));
        if links > 1
            && u64::try_from(entry.folder.names_of(inode)).unwrap_or(0) < links
            && !entry.folder.is_in_modules()
        {
            self.counts.linked_elsewhere += 1;
            return;
        }
        let size = u64::try_from(stat.st_size).unwrap_or(0);
        match self.file(&File::from(fd), size, entry.path) {
            Outcome::Text => {}
            Outcome::Binary => self.counts.binary += 1,
            Outcome::Failed(_) => self.counts.unreadable += 1,
        }
    }

    /// Searches an opened regular file; `path` is its name among what is kept.
    pub(super) fn file(&mut self, file: &File, size: u64, path: &[u8]) -> Outcome {
        let mut buffer = std::mem::take(&mut self.buffer);
        let outcome = self.with_buffer(file, size, path, &mut buffer);
        self.buffer = buffer;
        outcome
    }

    fn with_buffer(&mut self, file: &File, size: u64, path: &[u8], buffer: &mut Vec<u8>) -> Outcome {
        let size = usize::try_from(size).unwrap_or(usize::MAX);
        let wanted = size.saturating_add(1).min(limits::SEARCH_WHOLE_MAX_BYTES + 1);
        if buffer.len() < wanted {
            buffer.resize(wanted.max(limits::SEARCH_SNIFF_BYTES), 0);
        }
        let read = match fill(file, size, &mut buffer[..wanted]) {
            Ok(read) => read,
            Err(error) => return Outcome::Failed(error),
        };
        let begun = &buffer[..read];
        let has_mark = begun.starts_with(&[0xff, 0xfe]) || begun.starts_with(&[0xfe, 0xff]);
        let sniffed = &begun[..begun.len().min(limits::SEARCH_SNIFF_BYTES)];
        if !has_mark && memchr::memchr(0, sniffed).is_some() {
            return Outcome::Binary;
        }
        let mut hits = Hits::default();
        let sink =
            Collect { hits: &mut hits, redactor: self.redactor, matcher: &self.matcher, stop: self.stop };
        // A file that is not longer than it said is in the buffer as a whole.
        let result = if read < wanted {
            self.searcher.search_slice(&self.matcher, begun, sink)
        } else {
            let rest = Stoppable { file, stop: self.stop };
            self.searcher.search_reader(&self.matcher, begun.chain(rest), sink)
        };
        if let Err(error) = result {
            return Outcome::Failed(error);
        }
        self.counts.searched += 1;
        if hits.count > 0 {
            self.counts.files += 1;
            self.counts.lines += hits.count;
            self.redactions += hits.redactions;
            self.kept.put(path, hits.bytes, hits);
        } else if !has_mark {
            self.doubt(begun);
        }
        Outcome::Text
    }

    /// Looks why there may be no match in a content, as far as it was read in one piece.
    fn doubt(&mut self, begun: &[u8]) {
        if self.doubts.plain.as_ref().is_some_and(|plain| plain.find(begun).is_some()) {
            self.counts.plain += 1;
        }
        // A character that is cut at the end of what was read is none that is wrong.
        if self.doubts.is_beyond_ascii
            && std::str::from_utf8(begun).is_err_and(|error| error.error_len().is_some())
        {
            self.counts.not_utf8 += 1;
        }
    }
}

/// The line ends that a pattern was compiled for.
fn matcher_ends(matcher: &RegexMatcher) -> LineTerminator {
    matcher.line_terminator().unwrap_or_else(|| LineTerminator::byte(b'\n'))
}

/// Reads until the buffer is full, or all that the file said it has is read: one read for most files.
fn fill(mut file: &File, size: usize, buffer: &mut [u8]) -> std::io::Result<usize> {
    let mut at = 0;
    loop {
        match file.read(&mut buffer[at..]) {
            Ok(0) => return Ok(at),
            Ok(read) => {
                at += read;
                if at == buffer.len() || at >= size {
                    return Ok(at);
                }
            }
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

/// The rest of a large file, up to when the search has to end.
struct Stoppable<'a> {
    file: &'a File,
    stop: &'a Stop,
}

impl Read for Stoppable<'_> {
    fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
        if self.stop.now() { Ok(0) } else { self.file.read(into) }
    }
}

struct Collect<'a> {
    hits: &'a mut Hits,
    redactor: &'a Redactor,
    matcher: &'a RegexMatcher,
    stop: &'a Stop,
}

impl Sink for Collect<'_> {
    type Error = Error;

    fn matched(&mut self, _: &Searcher, found: &SinkMatch<'_>) -> Result<bool, Error> {
        self.hits.count += 1;
        if self.hits.bytes < limits::SEARCH_FILE_KEPT_BYTES {
            let line = self.line(found.bytes());
            let line = format!("  {}: {line}", found.line_number().unwrap_or(0));
            // What a line costs beside its bytes counts too: most lines are short.
            self.hits.bytes += line.len() + size_of::<String>();
            self.hits.lines.push(line);
        }
        Ok(!self.hits.count.is_multiple_of(256) || !self.stop.now())
    }
}

impl Collect<'_> {
    /// A line without its end and without secrets, cut around the match.
    fn line(&mut self, line: &[u8]) -> String {
        let line = line.strip_suffix(b"\n").unwrap_or(line);
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        let clean = self.redactor.redact_bytes(line);
        self.hits.redactions += clean.count;
        let bytes = clean.content;
        if bytes.len() <= limits::SEARCH_LINE_SHOWN_BYTES {
            return one_line(&bytes);
        }
        let at = self.matcher.find(&bytes).ok().flatten().map_or(0, |found| found.start());
        // A quarter before the match, the rest from it on.
        let from = at.saturating_sub(limits::SEARCH_LINE_SHOWN_BYTES / 4);
        let from = from.min(bytes.len() - limits::SEARCH_LINE_SHOWN_BYTES);
        let from = if from == 0 { 0 } else { text::whole_characters(&bytes, from) };
        let kept = text::whole_characters(&bytes[from..], limits::SEARCH_LINE_SHOWN_BYTES);
        let (before, after) = (from, bytes.len() - from - kept);
        let mut out = String::new();
        if before > 0 {
            out.push_str(&format!("[... {}] ", bytes_of(before)));
        }
        out.push_str(&one_line(&bytes[from..from + kept]));
        if after > 0 {
            out.push_str(&format!(" [{} ...]", bytes_of(after)));
        }
        out
    }
}

fn bytes_of(count: usize) -> String {
    amount(u64::try_from(count).unwrap_or(u64::MAX), "byte")
}

/// As text on one line: a lone carriage return is shown.
fn one_line(bytes: &[u8]) -> String {
    let shown = text::readable(bytes);
    if shown.contains('\r') { shown.replace('\r', "\u{240d}") } else { shown }
}
