//! Hunks put into a content.

use super::super::matching::{LineEnd, line_ends};
use super::super::{Edited, Quote, Span, encoded, not_only_ascii, refuse_marks};
use super::place::{Before, Sheet, find};
use super::{Hunk, Mark, PatchError};

const MARK: &[u8] = b"\xef\xbb\xbf";

/// The content with all hunks applied. Errors quote the file through `quote`.
pub fn patched(content: &[u8], hunks: &[Hunk], quote: Quote<'_>) -> Result<Edited, PatchError> {
    let of_encoding = |error: super::super::EditError| PatchError::Encoding(error.to_string());
    for hunk in hunks {
        let text = |lines: &mut dyn Iterator<Item = &str>| lines.collect::<Vec<_>>().join("\n");
        if hunk.lines.iter().any(|line| line.text.contains(char::REPLACEMENT_CHARACTER)) {
            refuse_marks(&text(&mut hunk.old()), &text(&mut hunk.new_lines()))
                .map_err(|_| replacement_mark(hunk))?;
        }
    }
    match encoded::opened(content) {
        encoded::Opened::Bytes { takes_unicode } => {
            let is_ascii =
                |hunk: &Hunk| hunk.lines.iter().all(|line| line.mark != Mark::Add || line.text.is_ascii());
            if !takes_unicode && !hunks.iter().all(is_ascii) {
                return Err(of_encoding(not_only_ascii()));
            }
            replaced(content, hunks, quote)
        }
        encoded::Opened::Broken(encoding) => Err(PatchError::Encoding(format!(
            "the file is {} with parts that are no characters. Mend or convert it with a command",
            encoding.name()
        ))),
        encoded::Opened::Text(text) => {
            let edited = replaced(text.text.as_bytes(), hunks, quote)?;
            text.put_back(content, &edited).map_err(of_encoding)
        }
    }
}

fn replacement_mark(hunk: &Hunk) -> PatchError {
    PatchError::Encoding(format!(
        "the hunk at line {} of the patch adds a replacement mark (\u{fffd}), which stands for bytes that could not be \
         read, and is never written: leave it out, or write it as an escape of the language",
        hunk.line
    ))
}

/// Lines of the sheet that are replaced: from, to (not included), and by what.
struct Group<'a> {
    from: usize,
    to: usize,
    added: Vec<&'a str>,
}

fn replaced(content: &[u8], hunks: &[Hunk], quote: Quote<'_>) -> Result<Edited, PatchError> {
    let sheet = Sheet::new(content, if content.starts_with(MARK) { MARK.len() } else { 0 });
    let end = line_ends(content).dominant.unwrap_or(LineEnd::Lf);
    let mut edited = Edited { bytes: Vec::with_capacity(content.len()), spans: Vec::new() };
    let mut before = Before { cursor: 0, shift: 0 };
    let mut copied = 0;
    for (index, hunk) in hunks.iter().enumerate() {
        let at = find(&sheet, (index + 1, hunk), &before, quote)?;
        if let Some(start) = hunk.start {
            before.shift = at.cast_signed().saturating_sub(start.saturating_sub(1).cast_signed());
        }
        before.cursor = at + hunk.old().count();
        for group in groups(hunk, at) {
            let Some((span, written)) = span_of(&sheet, hunk, group, end) else { continue };
            edited.bytes.extend_from_slice(&content[copied..span.start]);
            edited.bytes.extend_from_slice(&written);
            copied = span.end;
            edited.spans.push(span);
        }
    }
    edited.bytes.extend_from_slice(&content[copied..]);
    Ok(edited)
}

/// The stretches of a hunk between lines that stay.
fn groups(hunk: &Hunk, at: usize) -> Vec<Group<'_>> {
    let mut groups: Vec<Group<'_>> = Vec::new();
    let (mut line, mut is_open) = (at, false);
    for part in &hunk.lines {
        if part.mark == Mark::Keep {
            line += 1;
            is_open = false;
            continue;
        }
        if !is_open {
            groups.push(Group { from: line, to: line, added: Vec::new() });
            is_open = true;
        }
        let Some(group) = groups.last_mut() else { continue };
        if part.mark == Mark::Remove {
            line += 1;
            group.to = line;
        } else {
            group.added.push(&part.text);
        }
    }
    groups
}

/// The bytes that a group replaces, and by what; none when that is nothing.
fn span_of(sheet: &Sheet<'_>, hunk: &Hunk, mut group: Group<'_>, end: LineEnd) -> Option<(Span, Vec<u8>)> {
    let is_last = group.to == sheet.len();
    let says_end = hunk.old_open || hunk.new_open;
    if !(is_last && says_end) {
        // What is the same keeps its line ends.
        let same = |at: usize, text: &str| sheet.lines.get(at).is_some_and(|line| *line == text.as_bytes());
        let old = group.from..group.to;
        let lead = old.clone().zip(&group.added).take_while(|(at, text)| same(*at, text)).count();
        let room = (old.len().min(group.added.len())) - lead;
        let pairs = old.rev().zip(group.added.iter().rev()).take(room);
        let trail = pairs.take_while(|(at, text)| same(*at, text)).count();
        group.from += lead;
        group.to -= trail;
        group.added.truncate(group.added.len() - trail);
        group.added.drain(..lead);
    }
    let is_last = group.to == sheet.len();
    if group.from == group.to && group.added.is_empty() {
        return None;
    }
    let start = sheet.starts[group.from];
    let mut written = Vec::new();
    if group.from == sheet.len() && sheet.is_open() && !group.added.is_empty() {
        written.extend_from_slice(end.bytes());
    }
    for text in &group.added {
        written.extend_from_slice(text.as_bytes());
        written.extend_from_slice(end.bytes());
    }
    let ends_open = if hunk.old_open == hunk.new_open { sheet.is_open() } else { hunk.new_open };
    if is_last && ends_open && !group.added.is_empty() {
        written.truncate(written.len() - end.bytes().len());
    }
    let span = Span { start, end: sheet.starts[group.to], line: group.from + 1, new_len: written.len() };
    Some((span, written))
}
