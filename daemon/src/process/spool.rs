//! The daemon's side of the spool: reading what a job printed, also while it prints.
//!
//! Invariants: memory is bounded by what is asked for, never by what was printed. Offsets count the bytes that
//! were printed, kept or not. What was not kept is a [`SpoolPart::Gap`], never silently skipped.

use super::error::ProcessError;
use super::regular::open_regular;
use super::spool_writer::{OUT, TAIL};
use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

/// Bytes read at once when lines are counted.
const COUNT_BUFFER_BYTES: usize = 64 * 1024;
/// How often a reader that lost a segment to the writer looks again.
const LOOKS_MAX: u32 = 8;

/// A piece of a spool, in the order it was printed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SpoolPart {
    /// Kept.
    File {
        /// Where.
        path: PathBuf,
        /// Offset of its first byte in the output.
        start: u64,
        /// Bytes.
        len: u64,
    },
    /// Not kept.
    Gap {
        /// Offset of its first byte.
        start: u64,
        /// Bytes.
        len: u64,
        /// Newlines in it.
        lines: u64,
    },
}

impl SpoolPart {
    /// What stands for a gap where the whole output is stored; none for kept parts.
    pub fn marker(&self) -> Option<String> {
        match self {
            Self::File { .. } => None,
            Self::Gap { len, lines, .. } => {
                Some(format!("\n... [{len} bytes, {lines} lines were not kept] ...\n"))
            }
        }
    }
}

/// The beginning and the end of an output.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HeadTail {
    /// The whole if nothing was omitted, else the beginning. Raw bytes, cut at lines where they are short enough
    /// and never inside a UTF-8 character.
    pub head: Vec<u8>,
    /// The end; empty if nothing was omitted.
    pub tail: Vec<u8>,
    /// Lines of which nothing is shown.
    pub omitted_lines: u64,
    /// Bytes not shown.
    pub omitted_bytes: u64,
    /// Bytes printed so far.
    pub total_bytes: u64,
    /// Newlines, and one more if the end is not one.
    pub total_lines: u64,
}

/// What a job printed.
#[derive(Clone, Debug)]
pub struct Spool {
    folder: PathBuf,
}

struct Layout {
    parts: Vec<SpoolPart>,
    total_bytes: u64,
    /// Newlines before the last kept file, where its name says so.
    lines_before_last: u64,
}

impl Spool {
    pub(super) fn new(folder: PathBuf) -> Self {
        Self { folder }
    }

    /// Bytes printed so far. 0 for a job that has no spool.
    pub fn total_bytes(&self) -> Result<u64, ProcessError> {
        Ok(self.layout()?.total_bytes)
    }

    /// The parts as they are now: kept files, and the gap between them if the middle is lost.
    pub fn spool_files(&self) -> Result<Vec<SpoolPart>, ProcessError> {
        Ok(self.layout()?.parts)
    }

    /// At most `len` bytes from `offset`. If they are not kept any more, the next that are: the offset that is
    /// returned is that of the first byte.
    pub fn read(&self, offset: u64, len: usize) -> Result<(u64, Vec<u8>), ProcessError> {
        for _ in 0..LOOKS_MAX {
            let layout = self.layout()?;
            let found = layout.parts.iter().find_map(|part| match part {
                SpoolPart::File { path, start, len } if start + len > offset => Some((path, *start, *len)),
                _ => None,
            });
            let Some((path, start, part_len)) = found else { return Ok((layout.total_bytes, Vec::new())) };
            let from = offset.max(start);
            let want = len.min(usize::try_from(start + part_len - from).unwrap_or(usize::MAX));
            match read_at(path, from - start, want) {
                Ok(bytes) => return Ok((from, bytes)),
                // The writer moved on.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(ProcessError::io("reading", path)(error)),
            }
        }
        Ok((offset, Vec::new()))
    }

    /// The first `head_lines` and the last `tail_lines` lines within `max_bytes`; the whole if it fits. Uses at
    /// most three times `max_bytes` of memory.
    pub fn read_head_tail(
        &self,
        head_lines: usize,
        tail_lines: usize,
        max_bytes: usize,
    ) -> Result<HeadTail, ProcessError> {
        let total_bytes = self.total_bytes()?;
        let total_lines = self.total_lines()?;
        let mut view = HeadTail { total_bytes, total_lines, ..HeadTail::default() };
        let first = self.read_up_to(0, max_bytes)?;
        if first.len() as u64 >= total_bytes && total_lines <= (head_lines + tail_lines) as u64 {
            view.head = first;
            return Ok(view);
        }
        // The end says most about a failure: it is cut first, and the head gets what is left.
        let tail_from = total_bytes.saturating_sub((max_bytes / 2) as u64);
        let last = self.read_last(tail_from, total_bytes)?;
        let tail = last_lines(&last, tail_lines, total_bytes > last.len() as u64);
        let head_room = max_bytes - tail.len().min(max_bytes);
        // Where both ends meet in a short output, the tail keeps what it has.
        let until = total_bytes.saturating_sub(tail.len() as u64);
        let head_room = head_room.min(usize::try_from(until).unwrap_or(usize::MAX)).min(first.len());
        let head =
            first_lines(first.get(..head_room).unwrap_or_default(), head_lines, until == head_room as u64);
        view.omitted_bytes = total_bytes.saturating_sub((head.len() + tail.len()) as u64);
        let shown = count_lines(head) + count_lines(tail);
        view.omitted_lines = total_lines.saturating_sub(shown);
        (view.head, view.tail) = (head.to_vec(), tail.to_vec());
        Ok(view)
    }

    /// The whole as one stream with bounded memory; a gap reads as its marker.
    pub fn open_reader(&self) -> Result<SpoolReader, ProcessError> {
        Ok(SpoolReader { parts: self.layout()?.parts.into(), now: None })
    }

    /// The whole as one file: `out` where nothing else was kept, else a copy with markers in the job folder.
    pub fn assemble(&self) -> Result<PathBuf, ProcessError> {
        let parts = self.layout()?.parts;
        if let [SpoolPart::File { path, .. }] = &parts[..] {
            return Ok(path.clone());
        }
        let path = self.folder.join("whole");
        // Whatever stands there, from an earlier call or put by the command, is not written through.
        let _ = std::fs::remove_file(&path);
        let mut file = File::create_new(&path).map_err(ProcessError::io("creating", &path))?;
        io::copy(&mut self.open_reader()?, &mut file).map_err(ProcessError::io("writing", &path))?;
        Ok(path)
    }

    /// Newlines printed so far, and one more if the end is not one.
    pub fn total_lines(&self) -> Result<u64, ProcessError> {
        for _ in 0..LOOKS_MAX {
            let layout = self.layout()?;
            let Some(SpoolPart::File { path, .. }) = layout.parts.last() else { return Ok(0) };
            match count_newlines(path) {
                Ok((newlines, last)) => {
                    let open_end = layout.total_bytes > 0 && last.is_some_and(|byte| byte != b'\n');
                    return Ok(layout.lines_before_last + newlines + u64::from(open_end));
                }
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(ProcessError::io("reading", path)(error)),
            }
        }
        Ok(0)
    }

    fn layout(&self) -> Result<Layout, ProcessError> {
        let mut layout = Layout { parts: Vec::new(), total_bytes: 0, lines_before_last: 0 };
        for kept in self.files()? {
            if kept.start > layout.total_bytes {
                // Only between `out` and the segments, and those carry the count of all before them.
                let lines_kept = layout.parts.iter().map(|part| match part {
                    SpoolPart::File { path, .. } => count_newlines(path).map_or(0, |(lines, _)| lines),
                    SpoolPart::Gap { lines, .. } => *lines,
                });
                layout.parts.push(SpoolPart::Gap {
                    start: layout.total_bytes,
                    len: kept.start - layout.total_bytes,
                    lines: kept.lines_before.saturating_sub(lines_kept.sum()),
                });
            }
            layout.total_bytes = kept.start + kept.len;
            layout.lines_before_last = kept.lines_before;
            layout.parts.push(SpoolPart::File { path: kept.path, start: kept.start, len: kept.len });
        }
        Ok(layout)
    }

    /// The kept files in order. Lengths are taken after the listing, so that all but the last are final.
    fn files(&self) -> Result<Vec<Kept>, ProcessError> {
        let entries = match std::fs::read_dir(&self.folder) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(ProcessError::io("listing", &self.folder)(error)),
        };
        let mut files: Vec<Kept> = entries
            .flatten()
            .filter_map(|entry| {
                let (start, lines_before) = parse_name(entry.file_name().to_str()?)?;
                Some(Kept { path: entry.path(), start, lines_before, len: 0 })
            })
            .collect();
        files.sort_by_key(|kept| kept.start);
        files.retain_mut(|kept| match std::fs::symlink_metadata(&kept.path) {
            Ok(meta) if meta.is_file() => {
                kept.len = meta.len();
                true
            }
            // Not of the writer, or it dropped it meanwhile.
            _ => false,
        });
        Ok(files)
    }

    /// Reads on over file borders until `len` bytes, a gap or the end.
    fn read_up_to(&self, offset: u64, len: usize) -> Result<Vec<u8>, ProcessError> {
        let mut bytes = Vec::new();
        while bytes.len() < len {
            let want = offset + bytes.len() as u64;
            let (from, more) = self.read(want, len - bytes.len())?;
            if more.is_empty() || from != want {
                break;
            }
            bytes.extend_from_slice(&more);
        }
        Ok(bytes)
    }

    /// What is kept without a hole from `offset`, or later, up to `end`.
    fn read_last(&self, offset: u64, end: u64) -> Result<Vec<u8>, ProcessError> {
        let mut bytes: Vec<u8> = Vec::new();
        let mut next = offset;
        while next < end {
            let want = usize::try_from(end - next).unwrap_or(usize::MAX).min(COUNT_BUFFER_BYTES);
            let (from, more) = self.read(next, want)?;
            if more.is_empty() || from >= end {
                break;
            }
            if from != next {
                bytes.clear();
            }
            bytes.extend_from_slice(&more);
            next = from + more.len() as u64;
        }
        Ok(bytes)
    }
}

struct Kept {
    path: PathBuf,
    start: u64,
    lines_before: u64,
    len: u64,
}

/// Offset of the first byte and newlines before it, from the name of a spool file.
fn parse_name(name: &str) -> Option<(u64, u64)> {
    if name == OUT {
        return Some((0, 0));
    }
    let (start, lines) = name.strip_prefix(TAIL)?.split_once('-')?;
    Some((start.parse().ok()?, lines.parse().ok()?))
}

fn read_at(path: &Path, offset: u64, len: usize) -> io::Result<Vec<u8>> {
    let mut file = open_regular(path)?;
    file.seek(SeekFrom::Start(offset))?;
    let mut bytes = Vec::with_capacity(len);
    file.take(len as u64).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Newlines in a file, and its last byte.
fn count_newlines(path: &Path) -> io::Result<(u64, Option<u8>)> {
    let mut file = open_regular(path)?;
    let mut buffer = vec![0; COUNT_BUFFER_BYTES];
    let (mut newlines, mut last) = (0, None);
    loop {
        let len = file.read(&mut buffer)?;
        let Some(read) = buffer.get(..len).filter(|read| !read.is_empty()) else {
            return Ok((newlines, last));
        };
        newlines += memchr::memchr_iter(b'\n', read).count() as u64;
        last = read.last().copied();
    }
}

/// Newlines, and one more if the end is not one.
fn count_lines(bytes: &[u8]) -> u64 {
    let open_end = bytes.last().is_some_and(|byte| *byte != b'\n');
    memchr::memchr_iter(b'\n', bytes).count() as u64 + u64::from(open_end)
}

/// The first `lines` lines. A last line that is cut is left out, unless it is the only one. `complete`: the bytes
/// end where a line ends or the shown rest begins.
fn first_lines(bytes: &[u8], lines: usize, complete: bool) -> &[u8] {
    if lines == 0 {
        return &[];
    }
    if let Some(end) = memchr::memchr_iter(b'\n', bytes).nth(lines - 1) {
        return bytes.get(..=end).unwrap_or(bytes);
    }
    if complete {
        return bytes;
    }
    match memchr::memrchr(b'\n', bytes) {
        Some(end) => bytes.get(..=end).unwrap_or(bytes),
        None => bytes.get(..char_end(bytes)).unwrap_or(bytes),
    }
}

/// The last `lines` lines. A first line whose beginning is missing is left out, unless it is the only one.
fn last_lines(bytes: &[u8], lines: usize, cut: bool) -> &[u8] {
    if lines == 0 || bytes.is_empty() {
        return &[];
    }
    // The newline at the very end closes the last line; it begins none.
    let body = bytes.strip_suffix(b"\n").unwrap_or(bytes);
    if let Some(before) = memchr::memrchr_iter(b'\n', body).nth(lines - 1) {
        return bytes.get(before + 1..).unwrap_or_default();
    }
    if !cut {
        return bytes;
    }
    match memchr::memchr(b'\n', body) {
        Some(first) => bytes.get(first + 1..).unwrap_or_default(),
        None => {
            let skip = bytes.iter().take(3).take_while(|byte| **byte & 0xc0 == 0x80).count();
            bytes.get(skip..).unwrap_or_default()
        }
    }
}

/// Where the last whole UTF-8 character ends; the end itself where the last bytes are not UTF-8.
fn char_end(bytes: &[u8]) -> usize {
    let Some(back) = bytes.iter().rev().take(4).position(|byte| byte & 0xc0 != 0x80) else {
        return bytes.len();
    };
    let start = bytes.len() - 1 - back;
    let last = std::str::from_utf8(bytes.get(start..).unwrap_or_default());
    if last.is_err_and(|error| error.error_len().is_none()) { start } else { bytes.len() }
}

/// A whole spool as one stream.
pub struct SpoolReader {
    parts: VecDeque<SpoolPart>,
    now: Option<Box<dyn Read + Send>>,
}

impl Read for SpoolReader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            if let Some(now) = self.now.as_mut() {
                let len = now.read(buffer)?;
                if len > 0 || buffer.is_empty() {
                    return Ok(len);
                }
                self.now = None;
            }
            let Some(part) = self.parts.pop_front() else { return Ok(0) };
            self.now = Some(match (&part, part.marker()) {
                (_, Some(marker)) => Box::new(io::Cursor::new(marker.into_bytes())),
                (SpoolPart::File { path, len, .. }, None) => Box::new(open_regular(path)?.take(*len)),
                (SpoolPart::Gap { .. }, None) => Box::new(io::empty()),
            });
        }
    }
}

#[cfg(test)]
#[path = "spool_tests.rs"]
mod tests;
