//! Edits of text as bytes: one exact match is replaced and everything else stays as it is.
//!
//! Invariants:
//! * bytes outside the returned spans are identical, whatever their encoding;
//! * line ends match each other (`\n` in the wanted text matches `\r\n` in the file and the other way round),
//!   and lines that are new get the line end that the file uses most;
//! * what is the same at the start and at the end of old and new text is not touched, so that its line ends stay;
//! * a byte order mark, a missing final newline and bytes that are not UTF-8 are kept;
//! * an edit that matches nothing, or several times without `all`, changes nothing and names the nearest places.
//!
//! Deliberately absent: fuzzy matching (a near miss is told, never applied), UTF-16 (refused in words).

mod diff;
mod matching;

pub use diff::unified_diff;
pub use matching::likeness;

use crate::limits;
use matching::{LineEnd, find_all, normalise};

/// A replaced span.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// First byte in the old content.
    pub start: usize,
    /// First byte after it in the old content.
    pub end: usize,
    /// Its line in the old content, from 1.
    pub line: usize,
    /// Bytes that stand there now.
    pub new_len: usize,
}

/// An edited content.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Edited {
    /// The new content.
    pub bytes: Vec<u8>,
    /// What was replaced, in order.
    pub spans: Vec<Span>,
}

/// A place named in an error.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// Its line, from 1.
    pub line: usize,
    /// The line as far as it may be shown.
    pub text: String,
}

/// Why an edit was not applied. Nothing has changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EditError {
    /// Nothing to look for.
    #[error("`old` is empty: give the text to replace, or use write_file for a new file")]
    OldEmpty,
    /// Old and new are the same but for line ends.
    #[error("`old` and `new` are the same but for line ends, which edit_file keeps: nothing was changed")]
    NoChange,
    /// No match.
    #[error("`old` was not found.{}{}", hint.as_deref().map(|hint| format!(" {hint}")).unwrap_or_default(), nearest_text(nearest))]
    NotFound {
        /// The lines that are most like the first line of `old`.
        nearest: Vec<Place>,
        /// What may be wrong.
        hint: Option<String>,
    },
    /// Several matches, and `all` was not said.
    #[error(
        "`old` was found {count} times, at {}; give more of the lines around it, or all=true to replace each",
        lines_text(places, *count)
    )]
    Ambiguous {
        /// How many.
        count: usize,
        /// Where the first of them are.
        places: Vec<Place>,
    },
    /// The file's encoding does not allow this edit.
    #[error("{0}")]
    Encoding(String),
}

fn nearest_text(nearest: &[Place]) -> String {
    if nearest.is_empty() {
        return String::new();
    }
    let lines: Vec<String> =
        nearest.iter().map(|place| format!("\n{:>6}\t{}", place.line, place.text)).collect();
    format!(" Nearest lines:{}", lines.concat())
}

fn lines_text(places: &[Place], count: usize) -> String {
    let lines: Vec<String> = places.iter().map(|place| format!("line {}", place.line)).collect();
    let more = if count > places.len() { ", …" } else { "" };
    format!("{}{more}", lines.join(", "))
}

/// Replaces `old` by `new` in `content`: the one match, or each with `all`.
pub fn replace(content: &[u8], old: &str, new: &str, all: bool) -> Result<Edited, EditError> {
    if old.is_empty() {
        return Err(EditError::OldEmpty);
    }
    let ends = matching::line_ends(content);
    let old_text = normalise(old);
    let new_text = if ends.dominant.is_none() { new.as_bytes().to_vec() } else { normalise(new) };
    if old_text == new_text {
        return Err(EditError::NoChange);
    }
    check_encoding(content, new)?;
    let found = choose(content, old, &old_text, all, ends.classic)?;
    let (lead, trail) = common_ends(&old_text, &new_text);
    let (old_mid, new_mid) =
        (&old_text[lead..old_text.len() - trail], &new_text[lead..new_text.len() - trail]);
    let written = match ends.dominant {
        Some(end) => matching::with_line_end(new_mid, end),
        None => new_mid.to_vec(),
    };
    let mut edited = Edited { bytes: Vec::with_capacity(content.len() + written.len()), spans: Vec::new() };
    let (mut copied, mut line, mut counted) = (0, 1, 0);
    for (start, _) in found {
        // The parts that stay are walked over in the file's own bytes, whose line ends may be longer.
        let from = matching::advance(content, start, &old_text[..lead], ends.classic);
        let to = matching::advance(content, from, old_mid, ends.classic);
        guard_split_character(content, start)?;
        line += count_lines(&content[counted..from]);
        counted = from;
        edited.bytes.extend_from_slice(&content[copied..from]);
        edited.bytes.extend_from_slice(&written);
        edited.spans.push(Span { start: from, end: to, line, new_len: written.len() });
        copied = to;
    }
    edited.bytes.extend_from_slice(&content[copied..]);
    Ok(edited)
}

/// The matches to replace, in order.
fn choose(
    content: &[u8],
    old: &str,
    old_text: &[u8],
    all: bool,
    classic: bool,
) -> Result<Vec<(usize, usize)>, EditError> {
    let found = find_all(content, old_text, classic);
    if found.is_empty() {
        return Err(not_found(content, old, old_text));
    }
    if all {
        return Ok(without_overlaps(&found));
    }
    if found.len() == 1 {
        return Ok(found);
    }
    // Line ends spelled out may single one out.
    if old.contains('\r') {
        let exact: Vec<_> = found
            .iter()
            .copied()
            .filter(|(start, end)| content.get(*start..*end) == Some(old.as_bytes()))
            .collect();
        if exact.len() == 1 {
            return Ok(exact);
        }
    }
    let places = found
        .iter()
        .take(limits::EDIT_PLACES_MAX)
        .map(|(start, _)| Place { line: 1 + count_lines(&content[..*start]), text: String::new() })
        .collect();
    Err(EditError::Ambiguous { count: found.len(), places })
}

fn without_overlaps(found: &[(usize, usize)]) -> Vec<(usize, usize)> {
    let mut kept: Vec<(usize, usize)> = Vec::with_capacity(found.len());
    for match_ in found {
        if kept.last().is_none_or(|last| match_.0 >= last.1) {
            kept.push(*match_);
        }
    }
    kept
}

/// How much of the start and of the end two texts share, never cutting a UTF-8 character in two.
fn common_ends(old: &[u8], new: &[u8]) -> (usize, usize) {
    let is_inside = |text: &[u8], at: usize| text.get(at).is_some_and(|byte| byte & 0xc0 == 0x80);
    let mut lead = old.iter().zip(new).take_while(|(a, b)| a == b).count();
    while lead > 0 && (is_inside(old, lead) || is_inside(new, lead)) {
        lead -= 1;
    }
    let room = old.len().min(new.len()) - lead;
    let mut trail = old.iter().rev().zip(new.iter().rev()).take(room).take_while(|(a, b)| a == b).count();
    while trail > 0 && is_inside(old, old.len() - trail) {
        trail -= 1;
    }
    (lead, trail)
}

/// Refuses what would put two encodings into one file.
fn check_encoding(content: &[u8], new: &str) -> Result<(), EditError> {
    if content.starts_with(&[0xff, 0xfe]) || content.starts_with(&[0xfe, 0xff]) {
        return Err(EditError::Encoding(
            "the file is UTF-16, which edit_file does not edit: nothing was changed. Convert it with a command first"
                .to_owned(),
        ));
    }
    if !new.is_ascii() && std::str::from_utf8(content).is_err() {
        return Err(EditError::Encoding(
            "the file is not UTF-8, so only ASCII text can be put into it without mixing encodings: nothing was \
             changed. Convert the file, or write the text in its own encoding with a command"
                .to_owned(),
        ));
    }
    Ok(())
}

/// In an old double-byte encoding (Shift-JIS, GBK, Big5) the second byte of a character can look like ASCII. A
/// match that may begin there is refused.
fn guard_split_character(content: &[u8], start: usize) -> Result<(), EditError> {
    let Some(before) = start.checked_sub(1).and_then(|at| content.get(at)) else { return Ok(()) };
    let may_be_second = content.get(start).is_some_and(|byte| (0x40..=0x7e).contains(byte));
    if *before < 0x81 || !may_be_second || std::str::from_utf8(content).is_ok() {
        return Ok(());
    }
    Err(EditError::Encoding(
        "the file is not UTF-8 and `old` begins right after a byte that may be half of a character: nothing was \
         changed. Begin `old` earlier, at a blank or at the start of the line"
            .to_owned(),
    ))
}

fn not_found(content: &[u8], old: &str, old_text: &[u8]) -> EditError {
    let hint = if old.contains('\u{fffd}') {
        Some(
            "It has replacement marks (\u{fffd}), which stand for bytes that are not UTF-8: leave those out."
                .to_owned(),
        )
    } else if old.contains("[REDACTED:") {
        Some("It has a redaction mark, which stands for a secret in the file: leave that out.".to_owned())
    } else if !old.is_ascii() && std::str::from_utf8(content).is_err() {
        Some("The file is not UTF-8: use only ASCII text of it.".to_owned())
    } else {
        matching::blank_hint(content, old_text)
    };
    EditError::NotFound { nearest: matching::nearest_lines(content, old_text), hint }
}

pub(crate) fn count_lines(bytes: &[u8]) -> usize {
    bytes.iter().filter(|byte| **byte == b'\n').count()
}

impl LineEnd {
    const fn bytes(self) -> &'static [u8] {
        match self {
            Self::Lf => b"\n",
            Self::CrLf => b"\r\n",
            Self::Cr => b"\r",
        }
    }
}

/// How a content ends its lines, in words; absent for plain `\n` and for a single line.
pub fn line_ends_in_words(content: &[u8]) -> Option<&'static str> {
    let ends = matching::line_ends(content);
    match (ends.lf, ends.crlf, ends.cr) {
        (_, 0, 0) => None,
        (0, _, 0) => Some("CRLF"),
        (0, 0, _) => Some("CR"),
        _ => Some("mixed"),
    }
}

#[cfg(test)]
#[path = "edit_tests.rs"]
mod tests;
