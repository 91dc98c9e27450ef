//! Which stream a stretch of output came from, said in the output itself.
//!
//! A line of its own stands where the stream changes: `[stderr]` before what came from standard error, `[stdout]` where
//! standard output goes on. Output that is all stdout has none. A stretch goes to the end of a line where that comes soon; else it is ended.

use super::spool_writer::SpoolWriter;
use super::streams::Stream;
use agentd_core::limits::{STDERR_END_BYTES, STREAM_WAITING_BYTES};
use std::collections::VecDeque;

/// Puts the marks between the stretches of one output.
pub(super) struct Marks {
    now: Stream,
    last_byte: u8,
    /// What the other stream brought within a line of this one.
    waiting: Vec<u8>,
    err_end: VecDeque<u8>,
    err_is_cut: bool,
}

impl Default for Marks {
    fn default() -> Self {
        Self {
            now: Stream::Out,
            last_byte: b'\n',
            waiting: Vec::new(),
            err_end: VecDeque::new(),
            err_is_cut: false,
        }
    }
}

/// The line before a stretch.
const fn mark_of(stream: Stream) -> &'static [u8] {
    match stream {
        Stream::Out => b"[stdout]\n",
        Stream::Err => b"[stderr]\n",
    }
}

impl Marks {
    /// Takes the next piece of a stream. Within a line of one stream the other waits for the end of that line.
    pub(super) fn push(&mut self, stream: Stream, bytes: &[u8], spool: &mut SpoolWriter) {
        if stream == Stream::Err {
            self.keep(bytes);
        }
        if stream == self.now {
            let end = if self.is_waiting() { memchr::memchr(b'\n', bytes) } else { None };
            let Some(end) = end else { return self.write(bytes, spool) };
            let (line, rest) = bytes.split_at(end + 1);
            self.write(line, spool);
            self.settle(spool);
            if rest.is_empty() {
                return;
            }
            // The other stream may be within a line now, and then it is this one that waits.
            return self.push_other(stream, rest, spool);
        }
        self.push_other(stream, bytes, spool);
    }

    fn push_other(&mut self, stream: Stream, bytes: &[u8], spool: &mut SpoolWriter) {
        if self.last_byte == b'\n' {
            return self.change(stream, bytes, spool);
        }
        self.waiting.extend_from_slice(bytes);
        if self.waiting.len() > STREAM_WAITING_BYTES {
            self.settle(spool);
        }
    }

    /// Whether something waits for the end of a line.
    pub(super) fn is_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Lets what waits go on: the line it waits for does not end.
    pub(super) fn settle(&mut self, spool: &mut SpoolWriter) {
        let waiting = std::mem::take(&mut self.waiting);
        if waiting.is_empty() {
            return;
        }
        let other = if self.now == Stream::Out { Stream::Err } else { Stream::Out };
        self.change(other, &waiting, spool);
    }

    fn change(&mut self, stream: Stream, bytes: &[u8], spool: &mut SpoolWriter) {
        if self.last_byte != b'\n' {
            spool.push(b"\n");
        }
        spool.push(mark_of(stream));
        self.now = stream;
        self.write(bytes, spool);
    }

    fn write(&mut self, bytes: &[u8], spool: &mut SpoolWriter) {
        spool.push(bytes);
        self.last_byte = bytes.last().copied().unwrap_or(self.last_byte);
    }

    fn keep(&mut self, bytes: &[u8]) {
        let from = bytes.len().saturating_sub(STDERR_END_BYTES);
        self.err_end.extend(&bytes[from..]);
        let spare = self.err_end.len().saturating_sub(STDERR_END_BYTES);
        self.err_is_cut |= spare > 0 || from > 0;
        self.err_end.drain(..spare);
    }

    /// Whether the output ends in what came from standard error. To be asked when nothing waits.
    pub(super) fn is_in_stderr(&self) -> bool {
        self.now == Stream::Err
    }

    /// The last whole lines of standard error, as text.
    pub(super) fn stderr_end(&self) -> String {
        let bytes: Vec<u8> = self.err_end.iter().copied().collect();
        let whole = match memchr::memchr(b'\n', &bytes) {
            Some(end) if self.err_is_cut && end + 1 < bytes.len() => &bytes[end + 1..],
            _ => &bytes[..],
        };
        String::from_utf8_lossy(whole).into_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spooled(pieces: &[(Stream, &str)]) -> (String, Marks) {
        let folder = tempfile::tempdir().unwrap();
        let (mut spool, mut marks) = (SpoolWriter::create(folder.path(), 1 << 20), Marks::default());
        for (stream, piece) in pieces {
            marks.push(*stream, piece.as_bytes(), &mut spool);
        }
        marks.settle(&mut spool);
        (std::fs::read_to_string(folder.path().join("out")).unwrap(), marks)
    }

    #[test]
    fn a_mark_stands_where_the_stream_changes_and_nowhere_else() {
        use Stream::{Err, Out};
        let rows: &[(&[(Stream, &str)], &str)] = &[
            (&[(Out, "a\n"), (Out, "b\n")], "a\nb\n"),
            (&[(Err, "a\n")], "[stderr]\na\n"),
            (&[(Out, "a\n"), (Err, "b\n"), (Err, "c\n"), (Out, "d\n")], "a\n[stderr]\nb\nc\n[stdout]\nd\n"),
            (&[(Out, "a"), (Err, "b"), (Out, "c\n")], "ac\n[stderr]\nb"),
            (&[(Out, "a"), (Err, "b\n")], "a\n[stderr]\nb\n"),
            (&[(Out, "a"), (Err, "b\n"), (Out, "c\nd\n")], "ac\n[stderr]\nb\n[stdout]\nd\n"),
            (&[(Out, "a"), (Err, "b"), (Out, "c\nd"), (Err, "e\n")], "ac\n[stderr]\nbe\n[stdout]\nd"),
        ];
        for (pieces, wanted) in rows {
            assert_eq!(spooled(pieces).0, *wanted);
        }
    }

    #[test]
    fn the_end_of_stderr_is_whole_lines_and_bounded() {
        let lines: String = (0..1_000).map(|at| format!("error {at}\n")).collect();
        let (_, marks) = spooled(&[(Stream::Err, &lines), (Stream::Out, "noise\n")]);
        let end = marks.stderr_end();
        assert!(end.len() <= STDERR_END_BYTES && end.len() > STDERR_END_BYTES - 20, "{}", end.len());
        assert!(lines.ends_with(&end) && end.starts_with("error "), "{end}");
        assert!(!marks.is_in_stderr());
        assert_eq!(spooled(&[(Stream::Err, "one\ntwo")]).1.stderr_end(), "one\ntwo");
    }
}
