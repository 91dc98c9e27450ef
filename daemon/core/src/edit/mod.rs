//! Edits of text as bytes: one exact match is replaced and everything else stays as it is.
//!
//! Invariants:
//! * bytes outside the returned spans are identical, whatever their encoding;
//! * line ends match each other (`\n` in the wanted text matches `\r\n` in the file and the other way round),
//!   and lines that are new get the line end that the file uses most;
//! * what is the same at the start and at the end of old and new text is not touched, so that its line ends stay;
//! * a byte order mark, a missing final newline and bytes that are in no encoding are kept;
//! * a text in UTF-16 or in an old encoding is matched as it is read, and only what is replaced is encoded; the
//!   result is read again and must be the edited text, or nothing is changed;
//! * U+FFFD, which stands for bytes that could not be read, is never put into a file;
//! * an edit that matches nothing, or several times without `all`, changes nothing and names the nearest places.
//!
//! Deliberately absent: fuzzy matching (a near miss is told, never applied).

mod diff;
mod encoded;
mod likeness;
mod matching;
mod nearest;
pub mod patch;
mod whole;

pub use diff::{changed_lines, unified_diff};
pub use encoded::as_read;
pub use likeness::likeness;
pub use whole::{Kept, Whole, written_over};

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
    #[error("`old` was not found.{}{}", hints.iter().map(|hint| format!(" {hint}")).collect::<String>(), miss_text(nearest, difference.as_ref()))]
    NotFound {
        /// The lines that are most like the first line of `old`, or those of the block that is most like all of it.
        nearest: Vec<Place>,
        /// Where that block first differs from `old`.
        difference: Option<Difference>,
        /// What may be wrong.
        hints: Vec<String>,
    },
    /// Several matches, and `all` was not said.
    #[error(
        "`old` was found {count} times; give more of the lines around the one that is meant, or all=true to replace \
         each:{}{}",
        lines_text(places),
        if *count > places.len() { format!("\n… and {} more", count - places.len()) } else { String::new() }
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

/// The first line of a block that is not as in `old`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// Its line in the file, from 1.
    pub line: usize,
    /// As it is in the file.
    pub there: String,
    /// As it is in `old`.
    pub wanted: String,
}

fn miss_text(nearest: &[Place], difference: Option<&Difference>) -> String {
    let mut text = match (nearest.is_empty(), difference) {
        (true, _) => return String::new(),
        (_, None) => format!(" Nearest lines:{}", lines_text(nearest)),
        (_, Some(_)) => format!(" Most like it:{}", lines_text(nearest)),
    };
    if let Some(Difference { line, there, wanted }) = difference {
        text.push_str(&format!(
            "\nThe first difference is in line {line}:\n  file: {there}\n  old:  {wanted}"
        ));
    }
    text
}

fn lines_text(places: &[Place]) -> String {
    places.iter().map(|place| format!("\n{:>6}\t{}", place.line, place.text)).collect()
}

/// A line of the file as an error may quote it: without its secrets. It is asked for whole lines, which are cut after
/// that.
pub type Quote<'a> = &'a dyn Fn(&[u8]) -> Vec<u8>;

/// Replaces `old` by `new` in `content`: the one match, or each with `all`. Both are text as it is read from the
/// content (see [`as_read`]). Errors quote the file as it is.
pub fn replace(content: &[u8], old: &str, new: &str, all: bool) -> Result<Edited, EditError> {
    replace_quoting(content, old, new, all, &<[u8]>::to_vec)
}

/// The same with errors that quote the file through `quote`.
pub fn replace_quoting(
    content: &[u8],
    old: &str,
    new: &str,
    all: bool,
    quote: Quote<'_>,
) -> Result<Edited, EditError> {
    if old.is_empty() {
        return Err(EditError::OldEmpty);
    }
    refuse_marks(old, new)?;
    match encoded::opened(content) {
        encoded::Opened::Bytes { takes_unicode } => {
            if !takes_unicode && !new.is_ascii() {
                return Err(not_only_ascii());
            }
            replace_bytes(content, (old, new), all, true, quote)
        }
        encoded::Opened::Broken(encoding) => Err(EditError::Encoding(format!(
            "the file is {} with parts that are no characters: nothing was changed. Mend or convert it with a command",
            encoding.name()
        ))),
        encoded::Opened::Text(text) => {
            let edited = replace_bytes(text.text.as_bytes(), (old, new), all, false, quote)?;
            text.put_back(content, &edited)
        }
    }
}

/// The same in bytes that are UTF-8, or that nobody can read (`is_raw`).
fn replace_bytes(
    content: &[u8],
    (old, new): (&str, &str),
    all: bool,
    is_raw: bool,
    quote: Quote<'_>,
) -> Result<Edited, EditError> {
    let ends = matching::line_ends(content);
    let old_text = normalise(old);
    let new_text = if ends.dominant.is_none() { new.as_bytes().to_vec() } else { normalise(new) };
    if old_text == new_text {
        return Err(EditError::NoChange);
    }
    let found = choose(content, (old, &old_text), all, ends.classic, quote)?;
    let (lead, trail) = common_ends(&old_text, &new_text);
    let (old_mid, new_mid) =
        (&old_text[lead..old_text.len() - trail], &new_text[lead..new_text.len() - trail]);
    let written = match ends.dominant {
        Some(end) => matching::with_line_end(new_mid, end),
        None => new_mid.to_vec(),
    };
    let may_split = is_raw && std::str::from_utf8(content).is_err();
    let mut edited = Edited { bytes: Vec::with_capacity(content.len() + written.len()), spans: Vec::new() };
    let (mut copied, mut line, mut counted) = (0, 1, 0);
    for (start, _) in found {
        // The parts that stay are walked over in the file's own bytes, whose line ends may be longer.
        let from = matching::advance(content, start, &old_text[..lead], ends.classic);
        let to = matching::advance(content, from, old_mid, ends.classic);
        if may_split {
            guard_split_character(content, start)?;
        }
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

/// A replacement mark stands for bytes that could not be read; written, it would take their place.
fn refuse_marks(old: &str, new: &str) -> Result<(), EditError> {
    let marks = |text: &str| text.matches(char::REPLACEMENT_CHARACTER).count();
    if marks(new) <= marks(old) {
        return Ok(());
    }
    Err(EditError::Encoding(
        "`new` has a replacement mark (\u{fffd}), which stands for bytes that could not be read, and is never written: \
         leave it out, or write it as an escape of the language"
            .to_owned(),
    ))
}

fn not_only_ascii() -> EditError {
    EditError::Encoding(
        "the file is in no encoding that can be told, so only ASCII text can be put into it: nothing was changed. \
         Convert the file first, or write the text in its own encoding with a command"
            .to_owned(),
    )
}

/// The matches to replace, in order.
fn choose(
    content: &[u8],
    (old, old_text): (&str, &[u8]),
    all: bool,
    classic: bool,
    quote: Quote<'_>,
) -> Result<Vec<(usize, usize)>, EditError> {
    let found = find_all(content, old_text, classic);
    if found.is_empty() {
        return Err(nearest::not_found(content, old, old_text, (classic, false), quote));
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
        .map(|(start, _)| nearest::place_of(content, *start, quote))
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

/// In an old double-byte encoding (Shift-JIS, GBK, Big5) the second byte of a character can look like ASCII. A
/// match that may begin there is refused.
fn guard_split_character(content: &[u8], start: usize) -> Result<(), EditError> {
    let Some(before) = start.checked_sub(1).and_then(|at| content.get(at)) else { return Ok(()) };
    let may_be_second = content.get(start).is_some_and(|byte| (0x40..=0x7e).contains(byte));
    if *before < 0x81 || !may_be_second {
        return Ok(());
    }
    Err(EditError::Encoding(
        "the file is not UTF-8 and `old` begins right after a byte that may be half of a character: nothing was \
         changed. Begin `old` earlier, at a blank or at the start of the line"
            .to_owned(),
    ))
}

pub(crate) fn count_lines(bytes: &[u8]) -> usize {
    memchr::memchr_iter(b'\n', bytes).count()
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
