//! The lines of a file as bytes: passed over, counted and read in large pieces, in constant memory.
//!
//! Holes of sparse files have no line ends and are passed over without being read.

use super::places::Place;
use agentd_core::limits;
use agentd_core::text::Encoding;
use rustix::fs::SeekFrom;
use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::time::{Duration, Instant};

/// Reads lines from a place on.
pub(super) struct Lines<'a> {
    file: &'a File,
    newline: &'static [u8],
    /// Bytes read at once; even.
    chunk: usize,
    buffer: Vec<u8>,
    /// The part of the buffer that is still to come.
    from: usize,
    len: usize,
    /// Where in the file the buffer begins. Even for encodings of two bytes.
    base: u64,
}

/// How passing over lines ended.
pub(super) enum Skipped {
    /// At the line that was wanted, if it exists.
    There,
    /// The file ended after so many lines from its start.
    Ended { lines: u64 },
    /// It took too long.
    Late { line: u64 },
}

/// What of a line was read.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Taken {
    /// There is none.
    Nothing,
    /// All of it, with its end.
    Whole,
    /// Its start.
    Start,
}

/// What is left after a page.
pub(super) struct Left {
    pub(super) lines: u64,
    pub(super) is_all: bool,
}

impl<'a> Lines<'a> {
    pub(super) fn new(file: &'a File, encoding: Encoding, at: u64) -> Self {
        Self::in_chunks(file, encoding, at, limits::READ_CHUNK_BYTES)
    }

    fn in_chunks(file: &'a File, encoding: Encoding, at: u64, chunk: usize) -> Self {
        Self { file, newline: encoding.newline(), chunk, buffer: Vec::new(), from: 0, len: 0, base: at }
    }

    /// The place of the next byte.
    pub(super) fn position(&self) -> u64 {
        self.base + to_u64(self.from)
    }

    pub(super) fn seek(&mut self, to: u64) {
        if to >= self.base && to <= self.base + to_u64(self.len) {
            self.from = usize::try_from(to - self.base).unwrap_or(self.len);
        } else {
            (self.base, self.from, self.len) = (to, 0, 0);
        }
    }

    /// Makes sure that something is to come. False at the end.
    fn fill(&mut self) -> std::io::Result<bool> {
        if self.from < self.len {
            return Ok(true);
        }
        self.base += to_u64(self.len);
        (self.from, self.len) = (0, 0);
        if self.buffer.is_empty() {
            self.buffer = vec![0; self.chunk];
        }
        // Full but at the end, so that no character of two bytes is cut.
        while self.len < self.buffer.len() {
            match self.file.read_at(&mut self.buffer[self.len..], self.base + to_u64(self.len)) {
                Ok(0) => break,
                Ok(read) => self.len += read,
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(self.len > 0)
    }

    fn ready(&self) -> &[u8] {
        &self.buffer[self.from..self.len]
    }

    /// Where lines end in what is ready: the first byte after each end.
    fn ends(&self) -> impl Iterator<Item = usize> {
        let (ready, newline, is_odd) = (self.ready(), self.newline, self.from % 2 == 1);
        memchr::memchr_iter(b'\n', ready).filter_map(move |at| match newline {
            [b'\n', 0] => ((at % 2 == 1) == is_odd && ready.get(at + 1) == Some(&0)).then_some(at + 2),
            [0, b'\n'] => ((at % 2 == 0) == is_odd && at > 0 && ready[at - 1] == 0).then_some(at + 1),
            _ => Some(at + 1),
        })
    }

    fn count(&self) -> u64 {
        if self.newline.len() == 1 {
            to_u64(memchr::memchr_iter(b'\n', self.ready()).count())
        } else {
            to_u64(self.ends().count())
        }
    }

    /// Drops what is ready, and a hole after it. Returns the bytes passed.
    fn pass(&mut self) -> u64 {
        let is_zero = self.buffer[..self.len].ends_with(&[0; 64]);
        let passed = self.len - self.from;
        self.from = self.len;
        if !is_zero {
            return to_u64(passed);
        }
        let at = self.position();
        let next = match rustix::fs::seek(self.file, SeekFrom::Data(at)) {
            Ok(next) => next & !1,
            // A hole to the end.
            Err(rustix::io::Errno::NXIO) => self.file.metadata().map_or(at, |found| found.len()),
            Err(_) => at,
        };
        if next > at {
            // A line that a hole is part of still has to be seen as begun.
            let to =
                if next == self.file.metadata().map_or(0, |found| found.len()) { next - 2 } else { next };
            if to > at {
                self.seek(to);
            }
        }
        to_u64(passed)
    }

    /// Passes over lines: from the line `at` to the line `wanted`. Notes places on the way.
    pub(super) fn skip(
        &mut self,
        at: u64,
        wanted: u64,
        within: Duration,
        noted: &mut Vec<Place>,
    ) -> std::io::Result<Skipped> {
        let (began, mut line, mut since_note, mut is_open) = (Instant::now(), at, 0, false);
        while line < wanted {
            if !self.fill()? {
                return Ok(Skipped::Ended { lines: line + u64::from(is_open) });
            }
            let count = self.count();
            if line + count >= wanted {
                let nth = usize::try_from(wanted - line - 1).unwrap_or(usize::MAX);
                let end = self.ends().nth(nth).unwrap_or(0);
                self.from += end;
                return Ok(Skipped::There);
            }
            line += count;
            let last = if count > 0 { self.last_end() } else { None };
            is_open = last.map_or(is_open || count == 0, |end| end < self.ready().len());
            let place = last.map(|end| (line, self.position() + to_u64(end)));
            since_note += self.pass();
            if let Some(place) = place.filter(|_| since_note >= limits::LINE_PLACES_EVERY_BYTES) {
                noted.push(place);
                since_note = 0;
            }
            if began.elapsed() > within {
                noted.extend(place);
                return Ok(Skipped::Late { line });
            }
        }
        Ok(Skipped::There)
    }

    fn last_end(&self) -> Option<usize> {
        if self.newline.len() == 1 {
            memchr::memrchr(b'\n', self.ready()).map(|at| at + 1)
        } else {
            self.ends().last()
        }
    }

    /// Takes the next line with its end, or its first `max` bytes.
    pub(super) fn take(&mut self, max: usize, line: &mut Vec<u8>) -> std::io::Result<Taken> {
        line.clear();
        while self.fill()? {
            let room = max - line.len();
            let end = self.ends().next();
            let count = end.unwrap_or(self.ready().len()).min(room);
            line.extend_from_slice(&self.ready()[..count]);
            self.from += count;
            if end == Some(count) {
                return Ok(Taken::Whole);
            }
            if line.len() == max {
                return Ok(if self.fill()? { Taken::Start } else { Taken::Whole });
            }
        }
        Ok(if line.is_empty() { Taken::Nothing } else { Taken::Whole })
    }

    /// Counts the lines to come, for a bounded time.
    pub(super) fn count_ahead(&mut self) -> std::io::Result<Left> {
        let (began, within) = (Instant::now(), Duration::from_millis(limits::READ_COUNT_AHEAD_MS));
        let (mut lines, mut bytes, mut is_open) = (0, 0, false);
        while self.fill()? {
            let count = self.count();
            lines += count;
            is_open = match self.last_end() {
                Some(end) => end < self.ready().len(),
                None => true,
            };
            bytes += self.pass();
            if bytes >= limits::READ_COUNT_AHEAD_BYTES || began.elapsed() > within {
                let is_all = !self.fill()?;
                return Ok(Left { lines: (lines + u64::from(is_open)).max(1), is_all });
            }
        }
        Ok(Left { lines: lines + u64::from(is_open), is_all: true })
    }

    /// The next bytes of a line that was begun, at most `max` of them, without its end; none after it.
    pub(super) fn rest(&mut self, max: usize, out: &mut Vec<u8>) -> std::io::Result<Rest> {
        out.clear();
        if !self.fill()? {
            return Ok(Rest::Ended);
        }
        let end = self.ends().next();
        let without = end.map(|end| end - self.newline.len());
        let count = without.unwrap_or(self.ready().len()).min(max);
        out.extend_from_slice(&self.ready()[..count]);
        self.from += count;
        if without == Some(count) {
            self.from += self.newline.len();
            return Ok(Rest::Ended);
        }
        Ok(Rest::GoesOn)
    }
}

/// Whether more of a line follows.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Rest {
    GoesOn,
    Ended,
}

fn to_u64(count: usize) -> u64 {
    u64::try_from(count).unwrap_or(u64::MAX)
}

#[cfg(test)]
#[path = "lines_tests.rs"]
mod tests;
