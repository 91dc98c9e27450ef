//! A whole new content for a file that is there: in the form that the file has.

use super::matching;
use crate::text::{Charset, Content, Detected, Encoding, Ground, Unexpressible, detect};

/// The bytes to write, and what of the old form they keep.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Whole {
    /// The content.
    pub bytes: Vec<u8>,
    /// What was kept that the text alone would not have had.
    pub kept: Vec<Kept>,
}

/// A trait of the old content that the new one has too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kept {
    /// Its encoding.
    Encoding(&'static str),
    /// The byte order mark of UTF-8.
    Mark,
    /// Line ends that are all `\r\n`.
    CrLf,
}

impl std::fmt::Display for Kept {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Encoding(name) => write!(f, "encoding kept: {name}"),
            Self::Mark => f.write_str("byte order mark kept"),
            Self::CrLf => f.write_str("line ends kept: CRLF"),
        }
    }
}

/// `text` as the bytes that replace `before`. Line ends are kept where the old ones are all `\r\n` and the new ones
/// all `\n`. An encoding that is only guessed is kept for characters that the old content has; with others, or
/// where an old encoding has not all of the text, nothing is to be written.
pub fn written_over(before: &[u8], text: &str) -> Result<Whole, Unexpressible> {
    let Content::Text(Detected { encoding, ground }) = detect(before) else {
        return Ok(Whole { bytes: text.as_bytes().to_vec(), kept: Vec::new() });
    };
    let body = &before[encoding.mark().len()..];
    let old = encoding.decode(body).text;
    let mut kept = Vec::new();
    // A mark in the text is the one that is kept; where there was none, it is wanted.
    let is_plain = encoding == Encoding::UTF8;
    let bare = text.strip_prefix('\u{feff}').filter(|_| !is_plain).unwrap_or(text);
    let mut text = std::borrow::Cow::Borrowed(bare);
    let (ends, new_ends) = (matching::line_ends(old.as_bytes()), matching::line_ends(text.as_bytes()));
    if ends.crlf > 0 && (ends.lf, ends.cr) == (0, 0) && new_ends.lf > 0 && new_ends.crlf == 0 {
        text = text.replace('\n', "\r\n").into();
        kept.push(Kept::CrLf);
    }
    if ground == (Ground::Letters { is_sure: false })
        && let Some(character) = text.chars().find(|char| !char.is_ascii() && !old.contains(*char))
    {
        return Err(Unexpressible { character, encoding: encoding.name() });
    }
    let mut bytes = encoding.mark().to_vec();
    bytes.extend(encoding.encode(&text)?);
    if encoding.charset != Charset::Utf8 {
        kept.insert(0, Kept::Encoding(encoding.name()));
    } else if encoding.has_mark {
        kept.insert(0, Kept::Mark);
    }
    // ASCII in an old encoding is UTF-8 from now on; there is nothing to keep.
    if matches!(encoding, Encoding { charset: Charset::Legacy(_), .. }) && text.is_ascii() {
        kept.retain(|kept| !matches!(kept, Kept::Encoding(_)));
    }
    Ok(Whole { bytes, kept })
}
