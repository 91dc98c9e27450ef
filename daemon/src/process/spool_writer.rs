//! The supervisor's side of the spool: any amount of output into a bounded number of bytes on disk.
//!
//! The first half of the bound goes to `out`. What follows goes to segments `tail-START-LINES`, each a quarter of
//! the second half, of which the last four are kept: START is the offset of a segment's first byte, LINES the
//! newlines before it.
//! Files are only appended to or deleted, so that a reader needs no lock.
//!
//! Invariant: every byte is counted, kept or not. A failing disk stops the keeping, never the counting.

use std::collections::VecDeque;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// Segments that share the second half of the bound.
const SEGMENTS: u64 = 4;
pub(super) const OUT: &str = "out";
pub(super) const TAIL: &str = "tail-";

/// The name of a segment; also what [`super::spool`] parses.
fn segment_name(start: u64, lines_before: u64) -> String {
    format!("{TAIL}{start}-{lines_before}")
}

struct Segment {
    path: PathBuf,
    file: File,
    len: u64,
}

/// Writes the spool of one job.
pub(super) struct SpoolWriter {
    folder: PathBuf,
    head_max: u64,
    segment_max: u64,
    out: Option<File>,
    segment: Option<Segment>,
    older: VecDeque<PathBuf>,
    total_bytes: u64,
    newlines: u64,
    last_byte: u8,
    error: Option<String>,
}

impl SpoolWriter {
    /// Creates `out`, empty. A disk that refuses even that is an error of the spool, not of the job.
    pub(super) fn create(folder: &Path, max_bytes: u64) -> Self {
        let head_max = max_bytes.div_ceil(2);
        let mut writer = Self {
            folder: folder.to_path_buf(),
            head_max,
            segment_max: ((max_bytes - head_max) / SEGMENTS).max(1),
            out: None,
            segment: None,
            older: VecDeque::new(),
            total_bytes: 0,
            newlines: 0,
            last_byte: b'\n',
            error: None,
        };
        match create(&folder.join(OUT)) {
            Ok(file) => writer.out = Some(file),
            Err(error) => writer.fail(OUT, &error),
        }
        writer
    }

    /// Takes the next bytes of output.
    pub(super) fn push(&mut self, bytes: &[u8]) {
        let mut rest = bytes;
        while !rest.is_empty() {
            let room = self.room();
            let take = usize::try_from(room).unwrap_or(usize::MAX).min(rest.len());
            let (now, later) = rest.split_at(take);
            if self.error.is_none()
                && let Err(error) = self.keep(now)
            {
                self.fail("output", &error);
            }
            self.total_bytes += now.len() as u64;
            self.newlines += memchr::memchr_iter(b'\n', now).count() as u64;
            self.last_byte = now.last().copied().unwrap_or(self.last_byte);
            rest = later;
        }
    }

    /// Bytes until the next file begins; never 0.
    fn room(&self) -> u64 {
        if self.total_bytes < self.head_max {
            return self.head_max - self.total_bytes;
        }
        self.segment_max - (self.total_bytes - self.head_max) % self.segment_max
    }

    fn keep(&mut self, bytes: &[u8]) -> io::Result<()> {
        if self.total_bytes < self.head_max {
            return self.out.as_mut().map_or(Ok(()), |out| out.write_all(bytes));
        }
        if self.segment.as_ref().is_none_or(|segment| segment.len >= self.segment_max) {
            self.next_segment()?;
        }
        let Some(segment) = self.segment.as_mut() else { return Ok(()) };
        segment.file.write_all(bytes)?;
        segment.len += bytes.len() as u64;
        Ok(())
    }

    fn next_segment(&mut self) -> io::Result<()> {
        if let Some(full) = self.segment.take() {
            self.older.push_back(full.path);
        }
        while self.older.len() as u64 >= SEGMENTS {
            if let Some(oldest) = self.older.pop_front() {
                std::fs::remove_file(oldest)?;
            }
        }
        let path = self.folder.join(segment_name(self.total_bytes, self.newlines));
        self.segment = Some(Segment { file: create(&path)?, path, len: 0 });
        Ok(())
    }

    fn fail(&mut self, what: &str, error: &io::Error) {
        self.error = Some(format!(
            "{what} was not kept beyond byte {}: {error} in {}",
            self.total_bytes,
            self.folder.display()
        ));
    }

    /// Gives space back when not even the result fits on the disk: drops the tail, then half of the head.
    pub(super) fn give_way(&mut self) {
        for path in self.older.drain(..).chain(self.segment.take().map(|segment| segment.path)) {
            let _ = std::fs::remove_file(path);
        }
        if let Some(out) = self.out.take() {
            let _ = out.metadata().and_then(|meta| out.set_len(meta.len() / 2));
        }
        self.error
            .get_or_insert_with(|| "the disk was full: kept output was dropped to record the end".into());
    }

    pub(super) fn total_bytes(&self) -> u64 {
        self.total_bytes
    }
    /// Newlines, and one more if the end is not one.
    pub(super) fn total_lines(&self) -> u64 {
        self.newlines + u64::from(self.last_byte != b'\n')
    }
    pub(super) fn error(&self) -> Option<String> {
        self.error.clone()
    }
}

fn create(path: &Path) -> io::Result<File> {
    OpenOptions::new().append(true).create_new(true).mode(0o600).open(path)
}
