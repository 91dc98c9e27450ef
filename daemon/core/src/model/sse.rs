//! Server-sent events at the level of bytes.
//!
//! Purpose: cut a stream, in whatever pieces it arrives, into events. Field values are handed on as bytes, so
//! no character is ever judged before it is whole.
//!
//! Invariants: the same bytes give the same items however they are chunked; each byte is looked at once; a
//! line or an event beyond the bound is an error and not memory. CR, LF and CRLF end lines; comments are
//! items, because they show that the server lives.
//!
//! Deliberately absent: `id` and `retry` (no provider resumes a stream), and any meaning of the data.

use crate::limits::SSE_LINE_MAX_BYTES;

/// One thing that the stream said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SseItem<'a> {
    /// An event with data.
    Event {
        /// Its `event` field; empty when there was none. Providers get it wrong: dispatch on the data.
        name: &'a [u8],
        /// Its `data` lines, joined with LF.
        data: &'a [u8],
    },
    /// A comment line, which is only a sign of life.
    Comment,
}

/// The stream is larger than anything that is meant well.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SseError {
    /// A line does not end.
    #[error("a line of the event stream is longer than {max} bytes")]
    LineTooLong {
        /// The bound.
        max: usize,
    },
    /// The data lines of one event do not end.
    #[error("an event of the stream has more than {max} bytes of data")]
    EventTooLong {
        /// The bound.
        max: usize,
    },
}

/// A buffer that grew beyond this is given back after its event.
const KEPT_CAPACITY_BYTES: usize = 256 * 1024;
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// The decoder of one stream.
#[derive(Debug)]
pub struct SseDecoder {
    max: usize,
    line: Vec<u8>,
    name: Vec<u8>,
    data: Vec<u8>,
    has_data: bool,
    skip_lf: bool,
    first_line: bool,
}

impl Default for SseDecoder {
    fn default() -> Self {
        Self::with_max(SSE_LINE_MAX_BYTES)
    }
}

impl SseDecoder {
    /// A decoder whose lines, and whose events, have at most `max` bytes.
    pub fn with_max(max: usize) -> Self {
        Self {
            max,
            line: Vec::new(),
            name: Vec::new(),
            data: Vec::new(),
            has_data: false,
            skip_lf: false,
            first_line: true,
        }
    }

    /// Takes the next bytes and hands on what became whole by them. After an error the decoder is spent.
    pub fn push(&mut self, bytes: &[u8], mut each: impl FnMut(SseItem<'_>)) -> Result<(), SseError> {
        let mut rest = bytes;
        if self.skip_lf && !rest.is_empty() {
            self.skip_lf = false;
            rest = rest.strip_prefix(b"\n").unwrap_or(rest);
        }
        while let Some(end) = rest.iter().position(|byte| matches!(byte, b'\n' | b'\r')) {
            let (head, tail) = rest.split_at(end);
            if self.line.len() + head.len() > self.max {
                return Err(SseError::LineTooLong { max: self.max });
            }
            if self.line.is_empty() {
                self.take_line(head, &mut each)?;
            } else {
                let mut line = std::mem::take(&mut self.line);
                line.extend_from_slice(head);
                self.take_line(&line, &mut each)?;
                line.clear();
                line.shrink_to(KEPT_CAPACITY_BYTES);
                self.line = line;
            }
            rest = &tail[1..];
            if tail[0] == b'\r' {
                match rest.first() {
                    Some(b'\n') => rest = &rest[1..],
                    Some(_) => {}
                    None => self.skip_lf = true,
                }
            }
        }
        if self.line.len() + rest.len() > self.max {
            return Err(SseError::LineTooLong { max: self.max });
        }
        self.line.extend_from_slice(rest);
        Ok(())
    }

    /// The stream has ended: hands on an event that lacks only its closing blank line. Some servers never
    /// send it; whether the event is whole is for its reader to see.
    pub fn finish(&mut self, mut each: impl FnMut(SseItem<'_>)) -> Result<(), SseError> {
        let line = std::mem::take(&mut self.line);
        if !line.is_empty() {
            self.take_line(&line, &mut each)?;
        }
        self.dispatch(&mut each);
        Ok(())
    }

    fn take_line(&mut self, line: &[u8], each: &mut impl FnMut(SseItem<'_>)) -> Result<(), SseError> {
        let line = if std::mem::take(&mut self.first_line) {
            line.strip_prefix(BYTE_ORDER_MARK).unwrap_or(line)
        } else {
            line
        };
        if line.is_empty() {
            self.dispatch(each);
            return Ok(());
        }
        let (field, value) = match line.iter().position(|byte| *byte == b':') {
            Some(0) => {
                each(SseItem::Comment);
                return Ok(());
            }
            Some(colon) => (&line[..colon], &line[colon + 1..]),
            None => (line, &[][..]),
        };
        let value = value.strip_prefix(b" ").unwrap_or(value);
        match field {
            b"data" => self.take_data(value)?,
            b"event" => {
                self.name.clear();
                self.name.extend_from_slice(value);
            }
            _ => {}
        }
        Ok(())
    }

    fn take_data(&mut self, value: &[u8]) -> Result<(), SseError> {
        let joint = usize::from(self.has_data);
        if self.data.len() + joint + value.len() > self.max {
            return Err(SseError::EventTooLong { max: self.max });
        }
        if self.has_data {
            self.data.push(b'\n');
        }
        self.has_data = true;
        self.data.extend_from_slice(value);
        Ok(())
    }

    fn dispatch(&mut self, each: &mut impl FnMut(SseItem<'_>)) {
        if std::mem::take(&mut self.has_data) {
            each(SseItem::Event { name: &self.name, data: &self.data });
            self.data.clear();
            self.data.shrink_to(KEPT_CAPACITY_BYTES);
        }
        self.name.clear();
        self.name.shrink_to(KEPT_CAPACITY_BYTES);
    }
}

#[cfg(test)]
#[path = "sse_tests.rs"]
mod tests;
