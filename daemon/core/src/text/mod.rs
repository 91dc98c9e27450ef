//! Bytes as text and text as bytes, in the encodings that files have.
//!
//! What a file is in is found once, by [`detect`], from the same bytes for whoever asks: what a model is shown and
//! what its edits are matched against are the same text.
//!
//! Invariants:
//! * what is not text stays bytes: nothing here turns an unknown byte into a character and back;
//! * encoding never replaces: a character that an encoding has not is an error that names it;
//! * `\n` ends a line in every encoding here as one unit of its own, so a content may be cut into lines before it
//!   is decoded.
//!
//! Deliberately absent: UTF-32, UTF-7 and the encodings with shift states (ISO-2022-JP and its kin), which are
//! told as what they are and left to commands.

mod detect;
mod media;
mod stream;

pub use detect::{Content, Detected, Detector, Ground, detect};
pub use media::{Media, kind_of};
pub use stream::Stream;

use std::borrow::Cow;

/// A way to write characters as bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Charset {
    /// UTF-8, plain ASCII too.
    Utf8,
    /// UTF-16, the low byte first.
    Utf16Le,
    /// UTF-16, the high byte first.
    Utf16Be,
    /// One of the older ones: ASCII and, above it, one to four bytes for a character.
    Legacy(&'static encoding_rs::Encoding),
}

/// What a file is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Encoding {
    /// The characters.
    pub charset: Charset,
    /// Whether a byte order mark stands before them.
    pub has_mark: bool,
}

/// A text from bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decoded<'a> {
    /// The text; U+FFFD stands for what is no character.
    pub text: Cow<'a, str>,
    /// Every byte was part of a character.
    pub is_exact: bool,
}

/// A character that an encoding has not.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{character:?} (U+{:04X}) does not exist in {encoding}", u32::from(*character))]
pub struct Unexpressible {
    /// The first one.
    pub character: char,
    /// The name of the encoding.
    pub encoding: &'static str,
}

impl Encoding {
    /// UTF-8 without a mark.
    pub const UTF8: Self = Self { charset: Charset::Utf8, has_mark: false };

    /// Its name, as `iconv` and editors know it.
    pub fn name(self) -> &'static str {
        match self.charset {
            Charset::Utf8 => "UTF-8",
            Charset::Utf16Le => "UTF-16LE",
            Charset::Utf16Be => "UTF-16BE",
            Charset::Legacy(encoding) => encoding.name(),
        }
    }

    /// The mark before the text; empty when there is none.
    pub const fn mark(self) -> &'static [u8] {
        match (self.charset, self.has_mark) {
            (Charset::Utf8, true) => b"\xef\xbb\xbf",
            (Charset::Utf16Le, true) => b"\xff\xfe",
            (Charset::Utf16Be, true) => b"\xfe\xff",
            _ => b"",
        }
    }

    /// The bytes of a line end, `\n`.
    pub const fn newline(self) -> &'static [u8] {
        match self.charset {
            Charset::Utf16Le => b"\n\0",
            Charset::Utf16Be => b"\0\n",
            Charset::Utf8 | Charset::Legacy(_) => b"\n",
        }
    }

    /// The text of bytes that stand after the mark.
    pub fn decode(self, bytes: &[u8]) -> Decoded<'_> {
        match self.charset {
            Charset::Utf8 => {
                let text = String::from_utf8_lossy(bytes);
                // Borrowed means that nothing had to be replaced.
                let is_exact = matches!(text, Cow::Borrowed(_));
                Decoded { text, is_exact }
            }
            Charset::Utf16Le => decode_utf16(bytes, u16::from_le_bytes),
            Charset::Utf16Be => decode_utf16(bytes, u16::from_be_bytes),
            Charset::Legacy(encoding) => {
                let (text, had_errors) = encoding.decode_without_bom_handling(bytes);
                Decoded { text, is_exact: !had_errors }
            }
        }
    }

    /// The bytes of a text, without a mark.
    pub fn encode(self, text: &str) -> Result<Vec<u8>, Unexpressible> {
        match self.charset {
            Charset::Utf8 => Ok(text.as_bytes().to_vec()),
            Charset::Utf16Le => Ok(text.encode_utf16().flat_map(u16::to_le_bytes).collect()),
            Charset::Utf16Be => Ok(text.encode_utf16().flat_map(u16::to_be_bytes).collect()),
            Charset::Legacy(encoding) => {
                let (bytes, _, had_errors) = encoding.encode(text);
                if !had_errors {
                    return Ok(bytes.into_owned());
                }
                let is_missing = |character: &char| encoding.encode(character.encode_utf8(&mut [0; 4])).2;
                let character = text.chars().find(is_missing).unwrap_or(char::REPLACEMENT_CHARACTER);
                Err(Unexpressible { character, encoding: encoding.name() })
            }
        }
    }

    /// Bytes of the character that begins `bytes`, in a content that decodes exactly; at least 1 and never beyond
    /// its end.
    pub fn character_bytes(self, bytes: &[u8]) -> usize {
        let first = bytes.first().copied().unwrap_or(0);
        let unit = |at: usize| bytes.get(at).copied().unwrap_or(0);
        let is_surrogate = |high: u8| (0xd8..0xdc).contains(&high);
        let wanted = match self.charset {
            Charset::Utf8 => match first {
                0..0xc0 => 1,
                0xc0..0xe0 => 2,
                0xe0..0xf0 => 3,
                _ => 4,
            },
            Charset::Utf16Le => 2 + 2 * usize::from(is_surrogate(unit(1))),
            Charset::Utf16Be => 2 + 2 * usize::from(is_surrogate(first)),
            Charset::Legacy(encoding) => legacy_bytes(encoding, first, unit(1)),
        };
        wanted.min(bytes.len()).max(1)
    }

    /// Where places of the decoded text stand in the bytes it came from. `places` ascend; each must be the start of
    /// a character or the end. None when bytes and text do not go together character by character.
    pub fn places_in_bytes(self, bytes: &[u8], text: &str, places: &[usize]) -> Option<Vec<usize>> {
        let mut found = Vec::with_capacity(places.len());
        let (mut in_bytes, mut in_text) = (0, 0);
        let mut letters = text.chars();
        for place in places {
            while in_text < *place {
                let rest = bytes.get(in_bytes..).filter(|rest| !rest.is_empty())?;
                let code = rest.get(..self.character_bytes(rest))?;
                // A few codes of Big5 are a letter and its accent.
                for _ in 0..if self.is_pair(code) { 2 } else { 1 } {
                    in_text += letters.next()?.len_utf8();
                }
                in_bytes += code.len();
            }
            if in_text != *place {
                return None;
            }
            found.push(in_bytes);
        }
        Some(found)
    }

    fn is_pair(self, code: &[u8]) -> bool {
        matches!(self.charset, Charset::Legacy(encoding) if encoding == encoding_rs::BIG5)
            && matches!(code, [0x88, 0x62 | 0x64 | 0xa3 | 0xa5])
    }
}

/// Bytes of a character in an old encoding, by its first two.
fn legacy_bytes(encoding: &'static encoding_rs::Encoding, first: u8, second: u8) -> usize {
    if encoding.is_single_byte() || first < 0x80 {
        return 1;
    }
    if encoding == encoding_rs::SHIFT_JIS {
        // 0xa1 to 0xdf are the narrow katakana.
        return if matches!(first, 0x81..=0x9f | 0xe0..=0xfc) { 2 } else { 1 };
    }
    if encoding == encoding_rs::EUC_JP && first == 0x8f {
        return 3;
    }
    if encoding == encoding_rs::GBK || encoding == encoding_rs::GB18030 {
        return match (first, second) {
            (0x80, _) => 1,
            (_, b'0'..=b'9') => 4,
            _ => 2,
        };
    }
    // 0x80 alone is a character in some, and begins none.
    if first == 0x80 { 1 } else { 2 }
}

fn decode_utf16(bytes: &[u8], unit: fn([u8; 2]) -> u16) -> Decoded<'static> {
    let mut is_exact = bytes.len().is_multiple_of(2);
    let units = bytes.chunks_exact(2).map(|pair| unit([pair[0], pair[1]]));
    let mut text = String::with_capacity(bytes.len());
    for found in char::decode_utf16(units) {
        is_exact &= found.is_ok();
        text.push(found.unwrap_or(char::REPLACEMENT_CHARACTER));
    }
    if bytes.len() % 2 == 1 {
        text.push(char::REPLACEMENT_CHARACTER);
    }
    Decoded { text: Cow::Owned(text), is_exact }
}

#[cfg(test)]
#[path = "text_tests.rs"]
mod tests;
