//! Where a hunk stands.

use super::super::{Place, Quote, matching, nearest};
use super::{Hunk, PatchError};
use crate::limits;

/// The lines of a content.
pub(super) struct Sheet<'a> {
    pub(super) content: &'a [u8],
    /// Lines end in `\r` alone.
    pub(super) classic: bool,
    /// The texts without their ends.
    pub(super) lines: Vec<&'a [u8]>,
    /// Where each line begins; one more at the end of the content.
    pub(super) starts: Vec<usize>,
}

impl<'a> Sheet<'a> {
    /// The lines from the byte `from` on.
    pub(super) fn new(content: &'a [u8], from: usize) -> Self {
        let classic = matching::line_ends(content).classic;
        let end = if classic { b'\r' } else { b'\n' };
        let (mut lines, mut starts, mut at) = (Vec::new(), vec![from], from);
        for line in content.get(from..).unwrap_or_default().split_inclusive(|byte| *byte == end) {
            at += line.len();
            starts.push(at);
            let text = match line.strip_suffix(&[end]) {
                Some(text) if !classic => text.strip_suffix(b"\r").unwrap_or(text),
                Some(text) => text,
                None => line,
            };
            lines.push(text);
        }
        Self { content, classic, lines, starts }
    }

    pub(super) const fn len(&self) -> usize {
        self.lines.len()
    }

    /// The last line has no end.
    pub(super) fn is_open(&self) -> bool {
        let end = if self.classic { b'\r' } else { b'\n' };
        !self.lines.is_empty() && self.content.last() != Some(&end)
    }
}

/// What is known of the place of a hunk from those before it.
pub(super) struct Before {
    /// The first line (from 0) that no hunk before it has taken.
    pub(super) cursor: usize,
    /// How far the hunk before it stood from where it was said to be.
    pub(super) shift: isize,
}

/// The line (from 0) where a hunk begins; `number` counts the hunks of the file from 1.
pub(super) fn find(
    sheet: &Sheet<'_>,
    (number, hunk): (usize, &Hunk),
    before: &Before,
    quote: Quote<'_>,
) -> Result<usize, PatchError> {
    let missing = |what: String| PatchError::Missing { hunk: number, line: hunk.line, what };
    let mut anchored = None;
    for anchor in &hunk.anchors {
        let from = anchored.map_or(before.cursor, |at: usize| at + 1);
        anchored = Some(find_anchor(sheet, anchor, from).ok_or_else(|| {
            let places = nearest_of(sheet, anchor, quote);
            missing(format!("no line is its anchor `@@ {anchor}`.{places}"))
        })?);
    }
    let old: Vec<&[u8]> = hunk.old().map(str::as_bytes).collect();
    let expected = hunk.start.map(|start| start.saturating_sub(1).saturating_add_signed(before.shift));
    if old.is_empty() {
        let at = match (anchored, expected) {
            _ if hunk.at_end => sheet.len(),
            (Some(anchor), _) => anchor + 1,
            (None, Some(line)) => line,
            (None, None) => sheet.len(),
        };
        if (before.cursor..=sheet.len()).contains(&at) {
            return Ok(at);
        }
        return Err(missing(format!(
            "it adds lines at line {}, but the file has {} lines and the hunk before ends at line {}. Give lines of \
             the file around the new ones",
            at + 1,
            sheet.len(),
            before.cursor
        )));
    }
    let is_at_end = hunk.at_end || hunk.old_open || hunk.new_open;
    let all = matching::occurrences(&sheet.lines, &old);
    let fits = |at: &usize| *at >= before.cursor && (!is_at_end || at + old.len() == sheet.len());
    let found: Vec<usize> = all.iter().copied().filter(fits).collect();
    match (found.as_slice(), anchored, expected) {
        ([], ..) => Err(missing(why_not(sheet, hunk, &all, before, quote))),
        ([only], ..) => Ok(*only),
        (several, Some(anchor), _) if several.iter().any(|at| *at >= anchor) => {
            Ok(several.iter().copied().find(|at| *at >= anchor).unwrap_or(several[0]))
        }
        (several, _, Some(line)) => {
            nearest_to(several, line).ok_or_else(|| ambiguous(sheet, (number, hunk), several, quote))
        }
        (several, ..) => Err(ambiguous(sheet, (number, hunk), several, quote)),
    }
}

/// The one that is nearest to a line; none when two are as near.
fn nearest_to(several: &[usize], line: usize) -> Option<usize> {
    let best = several.iter().map(|at| at.abs_diff(line)).min()?;
    let mut nearest = several.iter().filter(|at| at.abs_diff(line) == best);
    let first = nearest.next()?;
    nearest.next().is_none().then_some(*first)
}

/// Whether a line is what is wanted.
type Test = fn(&[u8], &[u8]) -> bool;

/// The first line from `from` on, or else of all, that is the anchor; without the blanks around it where none is
/// that exactly, and at last one that begins with it.
fn find_anchor(sheet: &Sheet<'_>, anchor: &str, from: usize) -> Option<usize> {
    let (exact, bare) = (anchor.as_bytes(), anchor.trim().as_bytes());
    let tests: [(Test, &[u8]); 3] = [
        (|line, wanted| line == wanted, exact),
        (|line, wanted| line.trim_ascii() == wanted, bare),
        (|line, wanted| line.trim_ascii().starts_with(wanted), bare),
    ];
    let from = from.min(sheet.len());
    let (head, tail) = sheet.lines.split_at(from);
    tests.iter().find_map(|(test, wanted)| {
        let later = tail.iter().position(|line| test(line, wanted)).map(|at| at + from);
        later.or_else(|| head.iter().position(|line| test(line, wanted)))
    })
}

fn ambiguous(
    sheet: &Sheet<'_>,
    (number, hunk): (usize, &Hunk),
    several: &[usize],
    quote: Quote<'_>,
) -> PatchError {
    let places: String = several
        .iter()
        .take(limits::EDIT_PLACES_MAX)
        .map(|at| place_text(&nearest::place_of(sheet.content, sheet.starts[*at], quote)))
        .collect();
    let more = several.len().saturating_sub(limits::EDIT_PLACES_MAX);
    let more = if more > 0 { format!("\n… and {more} more") } else { String::new() };
    let what = format!(
        "its lines were found {} times; give more of the lines around the change, or `@@` with a line above it:{places}{more}",
        several.len()
    );
    PatchError::Ambiguous { hunk: number, line: hunk.line, what }
}

fn place_text(place: &Place) -> String {
    format!("\n{:>6}\t{}", place.line, place.text)
}

fn nearest_of(sheet: &Sheet<'_>, text: &str, quote: Quote<'_>) -> String {
    let text = text.trim();
    let part = part_hint(sheet, &[text.as_bytes()], quote);
    part + &told(nearest::not_found(sheet.content, text, text.as_bytes(), (sheet.classic, true), quote))
}

/// Why a hunk has no place: it stands too early, or what is most like it.
fn why_not(sheet: &Sheet<'_>, hunk: &Hunk, all: &[usize], before: &Before, quote: Quote<'_>) -> String {
    if let Some(at) = all.iter().find(|at| **at < before.cursor) {
        return format!(
            "its lines stand at line {}, above or in the hunk before it, which ends at line {}: put the hunks in the \
             order of the file, and each line in one hunk only",
            at + 1,
            before.cursor
        );
    }
    if let Some(at) = all.first() {
        return format!(
            "its lines stand at line {}, but not at the end of the file, where it says they are",
            at + 1
        );
    }
    let mut old = String::new();
    for line in hunk.old() {
        old.push_str(line);
        old.push('\n');
    }
    old.pop();
    let lines: Vec<&[u8]> = hunk.old().map(str::as_bytes).collect();
    let part = part_hint(sheet, &lines, quote);
    let nearest = nearest::not_found(sheet.content, &old, old.as_bytes(), (sheet.classic, true), quote);
    format!("its lines (those with ` ` and `-`) were not found.{part}{}", told(nearest))
}

/// What to say when the lines are there but for one of which only a part was given; else nothing. Blanks around lines
/// do not count here.
fn part_hint(sheet: &Sheet<'_>, old: &[&[u8]], quote: Quote<'_>) -> String {
    // Less than this is in too many lines to say anything.
    const TELLING_BYTES: usize = 3;
    let is_part = |line: &[u8], wanted: &[u8]| {
        wanted.len() >= TELLING_BYTES && memchr::memmem::find(line, wanted).is_some()
    };
    let mut blocks = sheet.lines.windows(old.len().max(1)).enumerate();
    let found = blocks.find_map(|(start, block)| {
        let mut cut = None;
        for (index, (line, wanted)) in block.iter().zip(old).enumerate() {
            let (line, wanted) = (line.trim_ascii(), wanted.trim_ascii());
            if line == wanted {
                continue;
            }
            if !is_part(line, wanted) {
                return None;
            }
            cut = cut.or(Some((start + index, wanted)));
        }
        cut
    });
    let Some((at, wanted)) = found else { return String::new() };
    // Redacted as a whole line, and cut after that.
    let line = quote(sheet.lines[at]);
    let line = line.trim_ascii();
    let shown = match line.strip_prefix(wanted) {
        Some(rest) => format!("the line goes on: {}", nearest::shown_line(rest)),
        None => format!("the whole line is: {}", nearest::shown_line(line)),
    };
    format!(" Only a part of line {} was given, and lines are matched whole; {shown}", at + 1)
}

/// What an edit that found nothing says, in the words of a patch.
fn told(error: super::super::EditError) -> String {
    let super::super::EditError::NotFound { nearest, difference, hints } = error else {
        return String::new();
    };
    let mut text: String =
        hints.iter().map(|hint| format!(" {}", hint.replace("`old`", "the patch"))).collect();
    if !nearest.is_empty() {
        text.push_str(if difference.is_some() { " Most like it:" } else { " Nearest lines:" });
        text.extend(nearest.iter().map(place_text));
    }
    if let Some(difference) = difference {
        text.push_str(&format!(
            "\nThe first difference is in line {}:\n  file:  {}\n  patch: {}",
            difference.line, difference.there, difference.wanted
        ));
    }
    text
}
