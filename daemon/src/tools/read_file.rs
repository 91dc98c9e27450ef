//! `read_file`: one page of numbered lines, read as a stream, so that the size of the file costs neither memory nor
//! time beyond the lines that are skipped.
//!
//! A page has no hole: it ends before the first line that does not fit, and says where the next one begins. A line
//! that does not fit any page is cut, and the whole of it becomes an artifact. What is unusual about the text is
//! said in a last line in brackets.

use super::scratch::Scratch;
use super::{Tools, answer, args, blocking, neighbours, text};
use crate::inspect::{self, Existing, Found};
use crate::ports::CallContext;
use crate::redact::Redactor;
use agentd_core::command::{CallEnd, CallFault};
use agentd_core::event::{PathOp, SeenFile, Truncation};
use agentd_core::limits;
use agentd_core::path_bytes::PathBytes;
use agentd_core::policy::names::shown;
use sha2::{Digest as _, Sha256};
use std::fs::File;
use std::io::{BufRead, BufReader, Cursor, Read, Write as _};
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::sync::Arc;

/// A page before its artifact has an id.
#[derive(Default)]
struct Page {
    text: String,
    cut: Option<Cut>,
    /// Where the next page begins, and what is left.
    rest: Option<String>,
    notes: Vec<&'static str>,
    seen: Option<SeenFile>,
}

/// A line that was cut.
struct Cut {
    scratch: Scratch,
    line: u64,
    line_bytes: u64,
    shown_bytes: usize,
    redactions: u32,
}

pub(super) async fn run(tools: &Tools, ctx: &CallContext, redactor: &Arc<Redactor>) -> CallEnd {
    match page(tools, ctx, redactor).await {
        Ok(end) => end,
        Err(fault) => answer::from_fault(ctx, fault),
    }
}

async fn page(tools: &Tools, ctx: &CallContext, redactor: &Arc<Redactor>) -> Result<CallEnd, CallFault> {
    let (owned_tools, owned, owned_redactor) = (tools.clone(), ctx.clone(), redactor.clone());
    let page = blocking(move || read_page(&owned_tools, &owned, &owned_redactor)).await??;
    let mut end = answer::done(ctx, page.text);
    end.seen = page.seen.into_iter().collect();
    if let Some(cut) = page.cut {
        let blob = cut.scratch.store(tools).await;
        let blob = blob.map_err(|error| {
            answer::fault("storage", format!("The long line cannot be kept as an artifact: {error}"))
        })?;
        let artifact = tools.artifact_of(ctx, "file", &blob, cut.redactions);
        end.text.push_str(&format!(
            "\n... [line {} is cut here: the whole line ({} bytes) is artifact {}; go on with read_artifact at offset {}]",
            cut.line, cut.line_bytes, artifact.artifact_id, cut.shown_bytes
        ));
        end.truncation =
            Some(Truncation { head_lines: 1, tail_lines: 0, omitted_lines: 0, total_bytes: cut.line_bytes });
        end.artifacts.push(artifact);
    }
    if let Some(rest) = page.rest {
        end.text.push_str(&rest);
    }
    if !page.notes.is_empty() {
        end.text.push_str(&format!("\n[{}]", page.notes.join("; ")));
    }
    Ok(end)
}

fn read_page(tools: &Tools, ctx: &CallContext, redactor: &Redactor) -> Result<Page, CallFault> {
    let args: args::ReadFile = args::parse(ctx)?;
    let path = PathBytes::from(args.path.as_str());
    let looked = inspect::look(&tools.own, &ctx.session, &path, PathOp::Read)
        .map_err(|error| answer::lookup_fault(&error))?;
    let existing = match looked.found {
        _ if looked.facts.protected.is_some() => return Err(answer::out_of_reach(&looked.facts)),
        Some(Found::Existing(existing)) => existing,
        Some(Found::Missing(missing)) => return Err(neighbours::not_found(&path, &missing)),
        None => return Err(answer::out_of_reach(&looked.facts)),
    };
    answer::only_regular(&existing)?;
    let name = shown(&path);
    let failed = |error: std::io::Error| {
        answer::fault(answer::io_class(&error), format!("{name} cannot be read: {error}"))
    };
    let file = File::from(existing.open().map_err(|errno| failed(errno.into()))?);
    let before = stamp(&file).map_err(failed)?;
    let hash = hash_of(&file, &existing).map_err(failed)?;
    let request = Request {
        name: &name,
        offset: args.offset.unwrap_or(0),
        limit: args.limit.unwrap_or(u64::try_from(limits::READ_LINES_DEFAULT).unwrap_or(u64::MAX)),
        redactor,
        tools,
    };
    let mut page = request.read(&file, existing.size()).map_err(|error| match error {
        PageError::Io(error) => failed(error),
        PageError::PastEnd { lines } => answer::fault(
            "range",
            format!("Offset {} is past the end: {name} has {lines} lines.", args.offset.unwrap_or(0)),
        ),
    })?;
    // A hash of one content beside the lines of another would let that other be overwritten.
    if stamp(&file).map_err(failed)? == before {
        page.seen = hash.map(|hash| SeenFile { path: existing.path, hash });
    }
    Ok(page)
}

/// What changes when a file is written.
fn stamp(file: &File) -> std::io::Result<(u64, i64, i64, i64, i64)> {
    let found = file.metadata()?;
    Ok((found.size(), found.mtime(), found.mtime_nsec(), found.ctime(), found.ctime_nsec()))
}

/// The hash of a file that is small enough to be edited.
fn hash_of(file: &File, existing: &Existing) -> std::io::Result<Option<String>> {
    if existing.size() > limits::EDIT_MAX_BYTES {
        return Ok(None);
    }
    let (mut hash, mut chunk, mut at) = (Sha256::new(), vec![0_u8; 64 * 1024], 0_u64);
    loop {
        let read = file.read_at(&mut chunk, at)?;
        if read == 0 {
            return Ok(Some(text::hash_text(hash.finalize())));
        }
        hash.update(&chunk[..read]);
        at += u64::try_from(read).unwrap_or(0);
        if at > limits::EDIT_MAX_BYTES {
            return Ok(None);
        }
    }
}

enum PageError {
    Io(std::io::Error),
    PastEnd { lines: u64 },
}

impl From<std::io::Error> for PageError {
    fn from(error: std::io::Error) -> Self {
        Self::Io(error)
    }
}

struct Request<'a> {
    name: &'a str,
    offset: u64,
    limit: u64,
    redactor: &'a Redactor,
    tools: &'a Tools,
}

impl Request<'_> {
    fn read(&self, file: &File, size: u64) -> Result<Page, PageError> {
        let mut sniffed = vec![0_u8; limits::SNIFF_BYTES];
        let read = file.read_at(&mut sniffed, 0)?;
        sniffed.truncate(read);
        if sniffed.is_empty() {
            return Ok(Page { text: format!("{} is empty (0 bytes)", self.name), ..Page::default() });
        }
        if let Some(note) = utf16_note(&sniffed)
            && size <= limits::EDIT_MAX_BYTES
        {
            let mut bytes = Vec::new();
            let mut from: &File = file;
            (&mut from).take(limits::EDIT_MAX_BYTES).read_to_end(&mut bytes)?;
            let mut page = self.lines(&mut Cursor::new(decode_utf16(&bytes).into_bytes()))?;
            page.notes.insert(0, note);
            return Ok(page);
        }
        if sniffed.contains(&0) {
            return Ok(Page { text: describe_binary(self.name, size, &sniffed), ..Page::default() });
        }
        let mut reader = BufReader::with_capacity(64 * 1024, file);
        let has_bom = sniffed.starts_with(b"\xef\xbb\xbf");
        if has_bom {
            reader.read_exact(&mut [0; 3])?;
        }
        let mut page = self.lines(&mut reader)?;
        if has_bom {
            page.notes.insert(0, "UTF-8 with byte order mark");
        }
        Ok(page)
    }

    fn lines(&self, reader: &mut dyn BufRead) -> Result<Page, PageError> {
        for lines in 0..self.offset {
            if reader.skip_until(b'\n')? == 0 {
                return Err(PageError::PastEnd { lines });
            }
        }
        let mut page = Page::default();
        let (mut shown, mut facts, mut buffer) = (0, Facts::default(), Vec::new());
        // Enough to see that a line does not fit, and to find a secret that begins in what does.
        let taken = limits::RESULT_MAX_BYTES + self.redactor.overlap_bytes() + 1;
        let mut unshown = 0;
        while shown < self.limit {
            buffer.clear();
            let read = (&mut *reader)
                .take(u64::try_from(taken).unwrap_or(u64::MAX))
                .read_until(b'\n', &mut buffer)?;
            if read == 0 {
                break;
            }
            let number = self.offset + shown + 1;
            let is_cut = read == taken && !buffer.ends_with(b"\n");
            let line = if is_cut { String::new() } else { self.render(&buffer) };
            let width = format!("{number:>6}\t").len() + 1;
            if is_cut || page.text.len() + line.len() + width > limits::RESULT_MAX_BYTES {
                if shown > 0 {
                    unshown = 1;
                    if is_cut {
                        reader.skip_until(b'\n')?;
                    }
                    break;
                }
                let goes_on = self.cut_line(&mut page, &buffer, reader, number)?;
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
            page.text.push_str(&format!("{number:>6}\t{line}"));
            facts.note(&buffer);
            shown += 1;
        }
        if shown == 0 && self.offset > 0 {
            return Err(PageError::PastEnd { lines: self.offset });
        }
        let left = count_ahead(reader, unshown)?;
        if left.lines > 0 {
            let more = if left.is_all { "" } else { "more than " };
            page.rest =
                Some(format!("\n... {more}{} more lines; next offset {}", left.lines, self.offset + shown));
        }
        page.notes.extend(facts.in_words(left.lines == 0 && page.cut.is_none()));
        Ok(page)
    }

    /// A line without its end, without secrets, as text.
    fn render(&self, line: &[u8]) -> String {
        let line = line.strip_suffix(b"\n").unwrap_or(line);
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        let shown = text::readable(&self.redactor.redact_bytes(line).content);
        // A lone CR would look like a line end that is not one.
        if shown.contains('\r') { shown.replace('\r', "\u{240d}") } else { shown }
    }

    /// Puts the start of a long line on the page and all of it into a scratch file. Says whether the line is longer
    /// than what is kept.
    fn cut_line(
        &self,
        page: &mut Page,
        begun: &[u8],
        reader: &mut dyn BufRead,
        number: u64,
    ) -> Result<bool, PageError> {
        let (scratch, mut file) = Scratch::create(self.tools)?;
        let mut line =
            LineReader { begun, reader, left: limits::LINE_ARTIFACT_MAX_BYTES, state: LineState::Begun };
        let redactions = self.redactor.copy(&mut line, &mut file)?;
        let goes_on = line.state == LineState::TooLong;
        file.flush()?;
        let line_bytes = file.metadata()?.len();
        let head_room = limits::RESULT_MAX_BYTES - 512;
        let mut head = vec![0_u8; head_room + 3];
        let read = file.read_at(&mut head, 0)?;
        head.truncate(read);
        // Replacement marks take three bytes for one.
        let mut kept = text::whole_characters(&head, head_room);
        while text::readable(&head[..kept]).len() > head_room {
            kept = text::whole_characters(&head, kept / 2);
        }
        page.text = format!("{number:>6}\t{}", text::readable(&head[..kept]).replace('\r', "\u{240d}"));
        page.cut = Some(Cut { scratch, line: number, line_bytes, shown_bytes: kept, redactions });
        Ok(goes_on)
    }
}

/// Reads to the end of a line that was begun, without its end.
struct LineReader<'a> {
    begun: &'a [u8],
    reader: &'a mut dyn BufRead,
    left: u64,
    state: LineState,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum LineState {
    Begun,
    Within,
    Ended,
    TooLong,
}

impl Read for LineReader<'_> {
    fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
        if self.state == LineState::Begun {
            if self.begun.is_empty() {
                self.state = LineState::Within;
            } else if self.begun == b"\n" {
                self.state = LineState::Ended;
            } else {
                let end = self.begun.len() - usize::from(self.begun.ends_with(b"\n"));
                let count = end.min(into.len());
                into[..count].copy_from_slice(&self.begun[..count]);
                self.begun = &self.begun[count..];
                self.left = self.left.saturating_sub(u64::try_from(count).unwrap_or(0));
                return Ok(count);
            }
        }
        if self.state != LineState::Within {
            return Ok(0);
        }
        if self.left == 0 {
            self.state = LineState::TooLong;
            return Ok(0);
        }
        let ready = self.reader.fill_buf()?;
        let end = ready.iter().position(|byte| *byte == b'\n');
        let most = into.len().min(usize::try_from(self.left).unwrap_or(usize::MAX));
        let count = end.unwrap_or(ready.len()).min(most);
        into[..count].copy_from_slice(&ready[..count]);
        let is_end = end == Some(count);
        if count == 0 || is_end {
            self.state = LineState::Ended;
        }
        self.reader.consume(count + usize::from(is_end));
        self.left -= u64::try_from(count).unwrap_or(0);
        Ok(count)
    }
}

/// What is left after a page.
struct Left {
    lines: u64,
    is_all: bool,
}

fn count_ahead(reader: &mut dyn BufRead, unshown: u64) -> std::io::Result<Left> {
    let (mut lines, mut bytes, mut is_open) = (unshown, 0_u64, false);
    loop {
        let ready = reader.fill_buf()?;
        if ready.is_empty() {
            return Ok(Left { lines: lines + u64::from(is_open), is_all: true });
        }
        let newlines = ready.iter().filter(|byte| **byte == b'\n').count();
        lines += u64::try_from(newlines).unwrap_or(0);
        is_open = ready.last() != Some(&b'\n');
        let count = ready.len();
        bytes += u64::try_from(count).unwrap_or(0);
        reader.consume(count);
        if bytes >= limits::READ_COUNT_AHEAD_BYTES {
            let is_all = reader.fill_buf()?.is_empty();
            return Ok(Left { lines: (lines + u64::from(is_open)).max(1), is_all });
        }
    }
}

/// What is unusual about the lines of a page.
#[derive(Default)]
struct Facts {
    lf: bool,
    crlf: bool,
    lone_cr: bool,
    invalid: bool,
    nul: bool,
    unended: bool,
}

impl Facts {
    fn note(&mut self, line: &[u8]) {
        let is_crlf = line.ends_with(b"\r\n");
        self.crlf |= is_crlf;
        self.unended = !line.ends_with(b"\n");
        self.lf |= !is_crlf && !self.unended;
        let body = line.strip_suffix(b"\n").unwrap_or(line);
        let body = body.strip_suffix(b"\r").unwrap_or(body);
        self.lone_cr |= body.contains(&b'\r');
        self.nul |= body.contains(&0);
        self.invalid |= std::str::from_utf8(body).is_err();
    }

    fn in_words(&self, at_end: bool) -> Vec<&'static str> {
        let mut notes = Vec::new();
        match (self.crlf, self.lf) {
            (true, false) => notes.push("lines end in CRLF"),
            (true, true) => notes.push("lines end in LF and in CRLF"),
            _ => {}
        }
        if self.lone_cr {
            notes.push("\u{240d} is a CR");
        }
        if self.nul {
            notes.push("\u{2400} is a NUL");
        }
        if self.invalid {
            notes.push("not UTF-8: \u{fffd} stands for other bytes");
        }
        if at_end && self.unended {
            notes.push("no newline at the end");
        }
        notes
    }
}

fn utf16_note(bytes: &[u8]) -> Option<&'static str> {
    match bytes {
        [0xff, 0xfe, ..] => Some("UTF-16LE, shown as UTF-8"),
        [0xfe, 0xff, ..] => Some("UTF-16BE, shown as UTF-8"),
        _ => None,
    }
}

/// Text after a UTF-16 byte order mark.
fn decode_utf16(bytes: &[u8]) -> String {
    let is_little = bytes.starts_with(&[0xff, 0xfe]);
    let units = bytes.get(2..).unwrap_or_default().chunks_exact(2).map(|pair| {
        let pair = [pair[0], pair[1]];
        if is_little { u16::from_le_bytes(pair) } else { u16::from_be_bytes(pair) }
    });
    char::decode_utf16(units).map(|unit| unit.unwrap_or(char::REPLACEMENT_CHARACTER)).collect()
}

/// A file that is not text, in words.
fn describe_binary(name: &str, size: u64, start: &[u8]) -> String {
    let kinds: &[(&[u8], &str)] = &[
        (b"\x7fELF", "an ELF program or library"),
        (b"\x89PNG", "a PNG image"),
        (b"\xff\xd8\xff", "a JPEG image"),
        (b"GIF8", "a GIF image"),
        (b"%PDF", "a PDF document"),
        (b"PK\x03\x04", "a ZIP archive"),
        (b"\x1f\x8b", "gzip data"),
        (b"\x28\xb5\x2f\xfd", "zstd data"),
        (b"SQLite format 3\0", "an SQLite database"),
        (b"\0asm", "a WebAssembly module"),
        (b"RIFF", "a RIFF file"),
    ];
    let kind = kinds.iter().find(|(magic, _)| start.starts_with(magic)).map_or("", |(_, kind)| kind);
    let kind = if kind.is_empty() { String::new() } else { format!(", {kind}") };
    format!(
        "{name} is a binary file{kind}: {size} bytes, beginning with {}",
        text::hex(&start[..start.len().min(16)])
    )
}
