//! Finding text in bytes with line ends taken as equal.

/// A line end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LineEnd {
    /// `\n`
    Lf,
    /// `\r\n`
    CrLf,
    /// `\r` alone, in files that have no other.
    Cr,
}

/// The line ends of a content.
#[derive(Clone, Copy, Debug)]
pub(super) struct LineEnds {
    pub(super) lf: usize,
    pub(super) crlf: usize,
    pub(super) cr: usize,
    /// The most frequent; none when there are no lines.
    pub(super) dominant: Option<LineEnd>,
    /// Lines end in `\r` alone and nothing else.
    pub(super) classic: bool,
}

pub(super) fn line_ends(content: &[u8]) -> LineEnds {
    let (mut lf, mut crlf, mut cr) = (0, 0, 0);
    for (at, byte) in content.iter().enumerate() {
        match byte {
            b'\n' if at > 0 && content[at - 1] == b'\r' => crlf += 1,
            b'\n' => lf += 1,
            b'\r' if content.get(at + 1) != Some(&b'\n') => cr += 1,
            _ => {}
        }
    }
    let classic = cr > 0 && lf == 0 && crlf == 0;
    let dominant = match (lf, crlf) {
        (0, 0) if classic => Some(LineEnd::Cr),
        (0, 0) => None,
        (lf, crlf) if crlf > lf => Some(LineEnd::CrLf),
        _ => Some(LineEnd::Lf),
    };
    LineEnds { lf, crlf, cr, dominant, classic }
}

/// The text with `\r\n` as `\n`.
pub(super) fn normalise(text: &str) -> Vec<u8> {
    text.replace("\r\n", "\n").into_bytes()
}

/// The text with each `\n` as the line end that is wanted.
pub(super) fn with_line_end(text: &[u8], end: LineEnd) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len());
    for byte in text {
        if *byte == b'\n' { out.extend_from_slice(end.bytes()) } else { out.push(*byte) }
    }
    out
}

/// Where the match of `wanted` that begins at `start` ends, if there is one.
fn match_at(content: &[u8], start: usize, wanted: &[u8], classic: bool) -> Option<usize> {
    let mut at = start;
    for byte in wanted {
        let here = *content.get(at)?;
        if *byte == b'\n' {
            at += match here {
                b'\n' => 1,
                b'\r' if content.get(at + 1) == Some(&b'\n') => 2,
                b'\r' if classic => 1,
                _ => return None,
            };
        } else if here == *byte {
            at += 1;
        } else {
            return None;
        }
    }
    Some(at)
}

/// The first byte after `part`, which is known to stand at `start`.
pub(super) fn advance(content: &[u8], start: usize, part: &[u8], classic: bool) -> usize {
    match_at(content, start, part, classic).unwrap_or(start)
}

/// Every match, also those that overlap, in order. Linear for ordinary text: candidates are found by the longest
/// line of `wanted`, with Knuth's failure table.
pub(super) fn find_all(content: &[u8], wanted: &[u8], classic: bool) -> Vec<(usize, usize)> {
    let mut found = Vec::new();
    // The needle: the longest stretch without a line end, which stands in the file byte for byte.
    let mut needle = (0, 0);
    let mut line_start = 0;
    for at in 0..=wanted.len() {
        if at == wanted.len() || wanted[at] == b'\n' {
            if at - line_start > needle.1 - needle.0 {
                needle = (line_start, at);
            }
            line_start = at + 1;
        }
    }
    if needle.0 == needle.1 {
        return find_line_ends(content, wanted, classic);
    }
    let lines_before = wanted[..needle.0].iter().filter(|byte| **byte == b'\n').count();
    for hit in occurrences(content, &wanted[needle.0..needle.1]) {
        // Each line end before the needle may take one byte more in the file.
        for extra in 0..=lines_before {
            let Some(start) = hit.checked_sub(needle.0 + extra) else { break };
            if let Some(end) = match_at(content, start, wanted, classic)
                && advance(content, start, &wanted[..needle.0], classic) == hit
                && !splits_line_end(content, start, wanted)
            {
                found.push((start, end));
                break;
            }
        }
    }
    found
}

/// A match of `\n…` at the second half of `\r\n` is the match one byte earlier, or none.
fn splits_line_end(content: &[u8], start: usize, wanted: &[u8]) -> bool {
    wanted.first() == Some(&b'\n') && start > 0 && content[start - 1..].starts_with(b"\r\n")
}

/// The same for a text of nothing but line ends.
fn find_line_ends(content: &[u8], wanted: &[u8], classic: bool) -> Vec<(usize, usize)> {
    (0..content.len())
        .filter(|start| !splits_line_end(content, *start, wanted))
        .filter_map(|start| match_at(content, start, wanted, classic).map(|end| (start, end)))
        .collect()
}

/// Every place where `needle` stands, also overlapping ones.
pub(super) fn occurrences<T: PartialEq>(content: &[T], needle: &[T]) -> Vec<usize> {
    let mut table = vec![0_usize; needle.len()];
    let mut length = 0;
    for at in 1..needle.len() {
        while length > 0 && needle[at] != needle[length] {
            length = table[length - 1];
        }
        length += usize::from(needle[at] == needle[length]);
        table[at] = length;
    }
    let (mut hits, mut length) = (Vec::new(), 0);
    for (at, byte) in content.iter().enumerate() {
        while length > 0 && *byte != needle[length] {
            length = table[length - 1];
        }
        length += usize::from(*byte == needle[length]);
        if length == needle.len() {
            hits.push(at + 1 - length);
            length = table[length - 1];
        }
    }
    hits
}
