//! Content that is not UTF-8, edited as the text that it is read as.

use super::{EditError, Edited, Span};
use crate::text::{Charset, Content, Detected, Encoding, Ground, detect};
use std::borrow::Cow;

/// A content as it can be edited.
pub(super) enum Opened<'a> {
    /// As its own bytes: it is UTF-8, or cannot be read.
    Bytes {
        /// Whether more than ASCII may be put into it.
        takes_unicode: bool,
    },
    /// As decoded text.
    Text(Decoded<'a>),
    /// Not at all: its characters take two bytes, and some of them are none.
    Broken(Encoding),
}

/// Text that goes with its bytes character by character.
pub(super) struct Decoded<'a> {
    encoding: Encoding,
    is_sure: bool,
    pub(super) text: Cow<'a, str>,
}

pub(super) fn opened(content: &[u8]) -> Opened<'_> {
    let Content::Text(Detected { encoding, ground }) = detect(content) else {
        return Opened::Bytes { takes_unicode: content.is_empty() };
    };
    if encoding.charset == Charset::Utf8 {
        return Opened::Bytes { takes_unicode: true };
    }
    let decoded = encoding.decode(content.get(encoding.mark().len()..).unwrap_or_default());
    if !decoded.is_exact && encoding.newline().len() > 1 {
        return Opened::Broken(encoding);
    }
    if !decoded.is_exact {
        return Opened::Bytes { takes_unicode: false };
    }
    let is_sure = ground != Ground::Letters { is_sure: false };
    Opened::Text(Decoded { encoding, is_sure, text: decoded.text })
}

/// A content as text in the form that a model reads and edits it, without its mark; none when it is no text.
pub fn as_read(content: &[u8]) -> Option<(Encoding, Cow<'_, str>)> {
    match detect(content) {
        Content::Empty => Some((Encoding::UTF8, Cow::Borrowed(""))),
        Content::Text(found) => {
            let body = content.get(found.encoding.mark().len()..).unwrap_or_default();
            Some((found.encoding, found.encoding.decode(body).text))
        }
        Content::Binary => None,
    }
}

impl Decoded<'_> {
    /// The content with the edit of its text, and nothing else of it touched.
    pub(super) fn put_back(&self, content: &[u8], edited: &Edited) -> Result<Edited, EditError> {
        let mark = self.encoding.mark().len();
        let body = &content[mark..];
        let places: Vec<usize> = edited.spans.iter().flat_map(|span| [span.start, span.end]).collect();
        let places =
            self.encoding.places_in_bytes(body, &self.text, &places).ok_or_else(|| self.not_kept())?;
        let mut out =
            Edited { bytes: content[..mark].to_vec(), spans: Vec::with_capacity(edited.spans.len()) };
        let (mut copied, mut in_text, mut written) = (0, 0, 0);
        for (span, place) in edited.spans.iter().zip(places.chunks_exact(2)) {
            let (start, end) = (place[0], place[1]);
            written += span.start - in_text;
            let new = edited.bytes.get(written..written + span.new_len).unwrap_or_default();
            let new = std::str::from_utf8(new).map_err(|_| self.not_kept())?;
            written += span.new_len;
            in_text = span.end;
            if !self.is_sure && (may_be_inside(body, start) || may_be_inside(body, end)) {
                return Err(self.may_split());
            }
            let bytes = self.encode(new)?;
            out.bytes.extend_from_slice(&body[copied..start]);
            out.bytes.extend_from_slice(&bytes);
            out.spans.push(Span {
                start: mark + start,
                end: mark + end,
                line: span.line,
                new_len: bytes.len(),
            });
            copied = end;
        }
        out.bytes.extend_from_slice(&body[copied..]);
        let again = self.encoding.decode(&out.bytes[mark..]);
        if !again.is_exact || again.text.as_bytes() != edited.bytes {
            return Err(self.not_kept());
        }
        Ok(out)
    }

    fn encode(&self, new: &str) -> Result<Vec<u8>, EditError> {
        if !self.is_sure {
            // A character that the file has already is written as the file writes it, whatever that encoding is.
            let stranger = new.chars().find(|char| !char.is_ascii() && !self.text.contains(*char));
            if let Some(char) = stranger {
                return Err(EditError::Encoding(format!(
                    "the file is not UTF-8 and has too few letters to be sure that it is {}, so {char:?} (U+{:04X}) \
                     cannot be put into it: nothing was changed. Use ASCII and letters that the file has, or convert \
                     it with a command",
                    self.encoding.name(),
                    u32::from(char)
                )));
            }
        }
        self.encoding.encode(new).map_err(|missing| {
            EditError::Encoding(format!(
                "the file is {} and {missing}: nothing was changed. Use other characters, or convert the file with a \
                 command",
                self.encoding.name()
            ))
        })
    }

    fn may_split(&self) -> EditError {
        EditError::Encoding(format!(
            "the file is not UTF-8 and has too few letters to be sure that it is {}, and this edit begins or ends where \
             another encoding has the middle of a character: nothing was changed. Let `old` begin and end at blanks or \
             at the ends of lines",
            self.encoding.name()
        ))
    }

    fn not_kept(&self) -> EditError {
        EditError::Encoding(format!(
            "the file is read as {}, and this edit cannot be made without changing other bytes of it: nothing was \
             changed. Edit it with a command",
            self.encoding.name()
        ))
    }
}

/// Whether a place may be the middle of a character in one of the old encodings of two bytes, whose second one can
/// look like ASCII.
fn may_be_inside(body: &[u8], at: usize) -> bool {
    let before = at.checked_sub(1).and_then(|before| body.get(before));
    before.is_some_and(|byte| *byte >= 0x81)
        && body.get(at).is_some_and(|byte| *byte >= 0x40 && *byte != 0x7f)
}

#[cfg(test)]
#[path = "encoded_tests.rs"]
mod tests;
