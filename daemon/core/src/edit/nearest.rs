//! What to say when a text is not where it was thought to be: the place most like it, and what may be wrong.

use super::{Difference, EditError, Place, Quote, count_lines, likeness::likeness, matching};
use crate::limits;
use std::collections::HashMap;

/// Bytes of a line that are shown.
const SHOWN_BYTES: usize = 200;

/// The line that has this byte.
pub(super) fn place_of(content: &[u8], at: usize, quote: Quote<'_>) -> Place {
    let start = memchr::memrchr(b'\n', &content[..at]).map_or(0, |end| end + 1);
    let end = memchr::memchr(b'\n', &content[at..]).map_or(content.len(), |len| at + len);
    // The start of a match that begins with a line end is the line before it.
    Place { line: 1 + count_lines(&content[..at]), text: shown_line(&quote(&content[start..end])) }
}

/// What is said of a text that is not in the content. `whole_lines`: it would have to be lines from end to end, so that
/// a part of a line is not found either.
pub(super) fn not_found(
    content: &[u8],
    old: &str,
    old_text: &[u8],
    (classic, whole_lines): (bool, bool),
    quote: Quote<'_>,
) -> EditError {
    let end = if classic { b'\r' } else { b'\n' };
    let lines = || content.split(move |byte| *byte == end);
    let wanted: Vec<&[u8]> = old_text.split(|byte| *byte == b'\n').collect();
    let mut hints = hints(content, old, old_text, (classic, whole_lines));
    let Some(start) = best_block(lines(), &wanted) else {
        let nearest = nearest_lines(lines().take(limits::EDIT_NEAREST_LINES_MAX), &wanted, quote);
        return EditError::NotFound { nearest, difference: None, hints };
    };
    let block: Vec<&[u8]> = lines().skip(start).take(wanted.len()).collect();
    let Some((at, there, wanted_line)) = first_difference(&block, &wanted) else {
        return EditError::NotFound { nearest: places(&block, start, 0, quote), difference: None, hints };
    };
    hints.extend(indent_hint(there, wanted_line));
    let (there, wanted) = visible_pair(&quote(there), wanted_line);
    let difference = Some(Difference { line: start + at + 1, there, wanted });
    // The lines before the difference, where those at the start would not reach it.
    let from = (at + 2).saturating_sub(limits::EDIT_PLACES_MAX);
    EditError::NotFound { nearest: places(&block, start, from, quote), difference, hints }
}

/// Lines of a block that begins at line `start` (from 0), from the one at `from`.
fn places(block: &[&[u8]], start: usize, from: usize, quote: Quote<'_>) -> Vec<Place> {
    let shown = block.iter().enumerate().skip(from).take(limits::EDIT_PLACES_MAX);
    let mut places: Vec<Place> =
        shown.map(|(at, text)| Place { line: start + at + 1, text: shown_line(&quote(text)) }).collect();
    // What follows a last line end is not part of the text.
    if from + places.len() == block.len()
        && places.len() > 1
        && places.last().is_some_and(|p| p.text.is_empty())
    {
        places.pop();
    }
    places
}

/// Where a block begins (counted from 0) that shares most lines with the wanted ones, blanks at their ends not
/// counted. Only for texts of several lines.
fn best_block<'a>(lines: impl Iterator<Item = &'a [u8]>, wanted: &[&[u8]]) -> Option<usize> {
    // A closing brace says nothing of the place, where there is anything else.
    const TELLING_BYTES: usize = 4;
    if wanted.len() < 2 {
        return None;
    }
    let longest = wanted.iter().map(|line| line.trim_ascii().len()).max()?;
    let mut by_text: HashMap<&[u8], Vec<usize>> = HashMap::new();
    for (index, line) in wanted.iter().enumerate() {
        let line = line.trim_ascii();
        if !line.is_empty() && line.len() >= TELLING_BYTES.min(longest) {
            by_text.entry(line).or_default().push(index);
        }
    }
    let mut votes: HashMap<usize, usize> = HashMap::new();
    for (at, line) in lines.enumerate() {
        let line = line.trim_ascii();
        for index in by_text.get(line).into_iter().flatten().take(limits::EDIT_PLACES_MAX) {
            if let Some(start) = at.checked_sub(*index) {
                *votes.entry(start).or_default() += line.len().min(SHOWN_BYTES);
            }
        }
        if votes.len() > limits::EDIT_NEAREST_LINES_MAX {
            break;
        }
    }
    let best = votes.into_iter().max_by_key(|(start, votes)| (*votes, std::cmp::Reverse(*start)))?;
    let whole: usize = wanted.iter().map(|line| line.trim_ascii().len().min(SHOWN_BYTES)).sum();
    // One line of many does not make a place.
    (best.1 * 4 >= whole).then_some(best.0)
}

/// The first line of a block that is not the wanted one: which of them, and both lines.
fn first_difference<'a>(block: &[&'a [u8]], wanted: &[&'a [u8]]) -> Option<(usize, &'a [u8], &'a [u8])> {
    let last = wanted.len() - 1;
    wanted.iter().enumerate().find_map(|(index, wanted)| {
        let there = block.get(index).copied().unwrap_or_default();
        let there = there.strip_suffix(b"\r").unwrap_or(there);
        let is_same = match index {
            // The first may begin and the last may end within a line.
            0 => there.ends_with(wanted),
            _ if index == last => there.starts_with(wanted),
            _ => there == *wanted,
        };
        (!is_same).then_some((index, there, *wanted))
    })
}

/// The lines most like the first line of the wanted text that says something.
fn nearest_lines<'a>(
    lines: impl Iterator<Item = &'a [u8]>,
    wanted: &[&[u8]],
    quote: Quote<'_>,
) -> Vec<Place> {
    let Some(line) = wanted.iter().map(|line| line.trim_ascii()).find(|line| !line.is_empty()) else {
        return Vec::new();
    };
    let mut scored: Vec<(usize, usize, &[u8])> = lines
        .enumerate()
        .map(|(index, text)| (likeness(line, text.trim_ascii()), index + 1, text))
        .filter(|(score, ..)| *score >= 400)
        .collect();
    scored.sort_by_key(|(score, line, _)| (std::cmp::Reverse(*score), *line));
    scored.truncate(limits::EDIT_PLACES_MAX);
    scored.into_iter().map(|(_, line, text)| Place { line, text: shown_line(&quote(text)) }).collect()
}

pub(super) fn shown_line(text: &[u8]) -> String {
    let cut = &text[..text.len().min(SHOWN_BYTES)];
    let mut shown = String::from_utf8_lossy(cut).trim_end().replace('\0', "\u{2400}");
    if text.len() > SHOWN_BYTES {
        shown.push('…');
    }
    shown
}

/// Two lines from a little before their first difference, with blanks that cannot be told apart written out.
fn visible_pair(there: &[u8], wanted: &[u8]) -> (String, String) {
    let (there, wanted) = (String::from_utf8_lossy(there), String::from_utf8_lossy(wanted));
    let same = there.chars().zip(wanted.chars()).take_while(|(a, b)| a == b).count();
    let skip = same.saturating_sub(SHOWN_BYTES / 2);
    let differ_in_blanks = there.split_whitespace().eq(wanted.split_whitespace());
    let show = |text: &str| {
        let mut shown = String::new();
        if skip > 0 {
            shown.push('…');
        }
        let mut letters = text.chars().skip(skip);
        for char in letters.by_ref().take(SHOWN_BYTES) {
            match char {
                '\t' => shown.push_str("\\t"),
                ' ' if differ_in_blanks => shown.push('·'),
                '\0' => shown.push('\u{2400}'),
                c if c != ' ' && (c.is_whitespace() || c.is_control()) => {
                    shown.extend(c.escape_unicode());
                }
                c => shown.push(c),
            }
        }
        if letters.next().is_some() {
            shown.push('…');
        }
        shown
    };
    (show(&there), show(&wanted))
}

fn indent_hint(there: &[u8], wanted: &[u8]) -> Option<String> {
    let indent = |line: &[u8]| -> Vec<u8> {
        line.iter().copied().take_while(|byte| matches!(byte, b' ' | b'\t')).collect()
    };
    let (there, wanted) = (indent(there), indent(wanted));
    let count = |count: usize, what: &str| format!("{count} {what}{}", if count == 1 { "" } else { "s" });
    let in_words = |indent: &[u8]| {
        let tabs = indent.iter().filter(|byte| **byte == b'\t').count();
        match (tabs, indent.len() - tabs) {
            (0, spaces) => count(spaces, "space"),
            (tabs, 0) => count(tabs, "tab"),
            (tabs, spaces) => format!("{} and {}", count(tabs, "tab"), count(spaces, "space")),
        }
    };
    (there != wanted).then(|| {
        format!(
            "The line is indented with {} in the file, with {} in `old`.",
            in_words(&there),
            in_words(&wanted)
        )
    })
}

fn hints(content: &[u8], old: &str, old_text: &[u8], (classic, whole_lines): (bool, bool)) -> Vec<String> {
    let mut hints = Vec::new();
    if old.contains(char::REPLACEMENT_CHARACTER) {
        hints.push(
            "It has replacement marks (\u{fffd}), which stand for bytes that could not be read: leave those out."
                .to_owned(),
        );
    }
    if old.contains("[REDACTED:") {
        hints.push(
            "It has a redaction mark, which stands for a secret in the file: leave that out.".to_owned(),
        );
    }
    if let Some(bare) = without_numbers(old)
        && !matching::find_all(content, &matching::normalise(&bare), classic).is_empty()
    {
        hints.push("It has the line numbers of read_file before its lines: leave those out.".to_owned());
    }
    if !hints.is_empty() {
        return hints;
    }
    if !old.is_ascii() && std::str::from_utf8(content).is_err() {
        hints.push("The file has bytes that are in no known encoding: use only ASCII text of it.".to_owned());
    } else if let Some(hint) = blank_hint(content, old_text, whole_lines) {
        hints.push(hint);
    } else if let Some(hint) = look_alike_hint(content, old) {
        hints.push(hint);
    }
    hints
}

/// The text without the `     7\t` that read_file puts before each line; none when not all lines have it.
fn without_numbers(old: &str) -> Option<String> {
    let mut bare = String::with_capacity(old.len());
    for line in old.split_inclusive('\n') {
        let (number, text) = line.split_once('\t')?;
        let number = number.trim_start_matches(' ');
        if number.is_empty() || !number.bytes().all(|byte| byte.is_ascii_digit()) {
            return None;
        }
        bare.push_str(text);
    }
    Some(bare)
}

/// A hint when the text would match but for blanks.
fn blank_hint(content: &[u8], wanted: &[u8], whole_lines: bool) -> Option<String> {
    let squeeze =
        |bytes: &[u8]| -> Vec<u8> { bytes.iter().copied().filter(|b| !b.is_ascii_whitespace()).collect() };
    let wanted = squeeze(wanted);
    if wanted.is_empty() {
        return None;
    }
    // Where lines end among what is left, in order.
    let (mut bare, mut ends) = (Vec::with_capacity(content.len()), vec![0]);
    for byte in content {
        match byte {
            b'\n' | b'\r' => ends.push(bare.len()),
            blank if blank.is_ascii_whitespace() => {}
            other => bare.push(*other),
        }
    }
    ends.push(bare.len());
    let is_edge = |at: usize| ends.binary_search(&at).is_ok();
    let mut found = memchr::memmem::find_iter(&bare, &wanted);
    if !found.any(|at| !whole_lines || (is_edge(at) && is_edge(at + wanted.len()))) {
        return None;
    }
    Some(
        "It would match but for blanks: copy indentation and line breaks exactly, without the line numbers."
            .to_owned(),
    )
}

/// A hint when the text would match but for characters that look the same.
fn look_alike_hint(content: &[u8], old: &str) -> Option<String> {
    let text = std::str::from_utf8(content).ok()?;
    let wanted: String = folded(old).map(|(_, char)| char).collect();
    let whole: String = folded(text).map(|(_, char)| char).collect();
    if wanted.is_empty() {
        return None;
    }
    let at = memchr::memmem::find(whole.as_bytes(), wanted.as_bytes())?;
    // Back to where that stands in the file.
    let mut passed = 0;
    let start = folded(text).find_map(|(from, char)| {
        let is_it = passed == at;
        passed += char.len_utf8();
        is_it.then_some(from)
    })?;
    let there = text[start..].chars();
    let (there, wanted) = there.zip(old.chars()).find(|(a, b)| a != b)?;
    let name = |char: char| match char {
        '\u{a0}' => " (a no-break space)",
        '\u{301}' | '\u{300}' | '\u{302}' | '\u{303}' | '\u{308}' => " (an accent of its own)",
        '\u{200b}' | '\u{feff}' => " (a character of no width)",
        _ => "",
    };
    Some(format!(
        "It would match but for characters that look alike: the file has U+{:04X}{} where `old` has U+{:04X}{}.",
        u32::from(there),
        name(there),
        u32::from(wanted),
        name(wanted)
    ))
}

/// Characters reduced to what they look like, with where each stands. Line ends become `\n`.
fn folded(text: &str) -> impl Iterator<Item = (usize, char)> {
    const BASES: &str = "AAAAAAACEEEEIIIIDNOOOOO*OUUUUYTsaaaaaaaceeeeiiiidnooooo/ouuuuytyAaAaAaCcCcCcCcDdDdEeEeEeEeEeGgGg\
GgGgHhHhIiIiIiIiIiIiJjKkkLlLlLlLlLlNnNnNnnNnOoOoOoOoRrRrRrSsSsSsSsTtTtTtUuUuUuUuUuUuWwYyYZzZzZzs";
    text.char_indices().filter_map(|(at, char)| {
        let plain = match char {
            '\r' | '\u{200b}'..='\u{200f}' | '\u{feff}' | '\u{ad}' | '\u{300}'..='\u{36f}' => return None,
            '\u{a0}' | '\u{2000}'..='\u{200a}' | '\u{202f}' | '\u{205f}' | '\u{3000}' => ' ',
            '\u{2018}'..='\u{201b}' | '\u{2032}' | '\u{b4}' | '`' => '\'',
            '\u{201c}'..='\u{201f}' | '\u{2033}' | '\u{ab}' | '\u{bb}' => '"',
            '\u{2010}'..='\u{2015}' | '\u{2212}' => '-',
            '\u{c0}'..='\u{17f}' => {
                let index = usize::try_from(u32::from(char) - 0xc0).unwrap_or(0);
                BASES.as_bytes().get(index).map_or(char, |base| char::from(*base))
            }
            '\u{ff01}'..='\u{ff5e}' => char::from_u32(u32::from(char) - 0xfee0).unwrap_or(char),
            other => other,
        };
        Some((at, plain))
    })
}

#[cfg(test)]
#[path = "nearest_tests.rs"]
mod tests;
