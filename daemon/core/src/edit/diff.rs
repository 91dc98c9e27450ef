//! A unified diff for people, bounded in time and size.
//!
//! Lines are compared as bytes. The middle that is left after equal starts and ends is compared by Myers'
//! algorithm up to a distance; beyond it the middle counts as replaced, which is true and only less pretty.

use crate::limits;

/// One line of a diff.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Keep,
    Remove,
    Add,
}

/// The changes from `old` to `new` as `diff -u` prints them, under the name `label`; empty when they are equal.
/// `old` absent means that there was no file. Cut after [`limits::DIFF_MAX_BYTES`], which it then says.
pub fn unified_diff(label: &str, old: Option<&[u8]>, new: &[u8]) -> String {
    let old_lines = split_lines(old.unwrap_or_default());
    let new_lines = split_lines(new);
    let steps = compare(&old_lines, &new_lines);
    if steps.iter().all(|step| *step == Step::Keep) && old.is_some() {
        return String::new();
    }
    let mut out = match old {
        Some(_) => format!("--- a/{label}\n+++ b/{label}\n"),
        None => format!("--- /dev/null\n+++ b/{label}\n"),
    };
    let mut shown = 0;
    let hunks = hunks(&steps);
    for hunk in &hunks {
        if out.len() > limits::DIFF_MAX_BYTES {
            break;
        }
        write_hunk(&mut out, hunk, &steps, &old_lines, &new_lines);
        shown += 1;
    }
    if shown < hunks.len() || out.len() > limits::DIFF_MAX_BYTES {
        let mut end = limits::DIFF_MAX_BYTES.min(out.len());
        while !out.is_char_boundary(end) {
            end -= 1;
        }
        let left: usize = out[end..].lines().count();
        out.truncate(end);
        let hunks_left = hunks.len() - shown;
        out.push_str(&format!("\n... [diff cut: {left} more lines here, {hunks_left} more places] ...\n"));
    }
    out
}

/// How many lines are added and removed from `old` to `new`, by the same comparison.
pub fn changed_lines(old: &[u8], new: &[u8]) -> (usize, usize) {
    let steps = compare(&split_lines(old), &split_lines(new));
    let count = |wanted: Step| steps.iter().filter(|step| **step == wanted).count();
    (count(Step::Add), count(Step::Remove))
}

/// Lines with their ends.
fn split_lines(bytes: &[u8]) -> Vec<&[u8]> {
    bytes.split_inclusive(|byte| *byte == b'\n').collect()
}

fn compare(old: &[&[u8]], new: &[&[u8]]) -> Vec<Step> {
    let lead = old.iter().zip(new).take_while(|(a, b)| a == b).count();
    let room = old.len().min(new.len()) - lead;
    let trail = old.iter().rev().zip(new.iter().rev()).take(room).take_while(|(a, b)| a == b).count();
    let (old_mid, new_mid) = (&old[lead..old.len() - trail], &new[lead..new.len() - trail]);
    let mut steps = vec![Step::Keep; lead];
    match myers(old_mid, new_mid) {
        Some(middle) => steps.extend(middle),
        None => {
            steps.extend(std::iter::repeat_n(Step::Remove, old_mid.len()));
            steps.extend(std::iter::repeat_n(Step::Add, new_mid.len()));
        }
    }
    steps.extend(std::iter::repeat_n(Step::Keep, trail));
    steps
}

/// The shortest edit script, or none when it is longer than the bound.
fn myers(old: &[&[u8]], new: &[&[u8]]) -> Option<Vec<Step>> {
    let (n, m) = (old.len(), new.len());
    let max = (n + m).min(limits::DIFF_DISTANCE_MAX);
    let width = 2 * max + 3;
    // best[k + max + 1]: how far in `old` the best path on diagonal k came.
    let at = |k: isize| usize::try_from(k + max as isize + 1).unwrap_or(0);
    let mut best = vec![0_usize; width];
    let mut trace: Vec<Vec<usize>> = Vec::new();
    for distance in 0..=max as isize {
        trace.push(best[at(-distance)..=at(distance)].to_vec());
        let mut k = -distance;
        while k <= distance {
            let down = k == -distance || (k != distance && best[at(k - 1)] < best[at(k + 1)]);
            let mut x = if down { best[at(k + 1)] } else { best[at(k - 1)] + 1 };
            let mut y = usize::try_from(x as isize - k).unwrap_or(usize::MAX);
            while x < n && y < m && old[x] == new[y] {
                x += 1;
                y += 1;
            }
            best[at(k)] = x;
            if x >= n && y >= m {
                return Some(walk_back(&trace, n, m));
            }
            k += 2;
        }
    }
    None
}

/// Reads the script from the end: `trace[d]` holds the diagonals -d..=d as they were before round d.
fn walk_back(trace: &[Vec<usize>], n: usize, m: usize) -> Vec<Step> {
    let mut steps = Vec::with_capacity(n + m);
    let (mut x, mut y) = (n as isize, m as isize);
    for (distance, before) in trace.iter().enumerate().rev() {
        let d = distance as isize;
        let reach = |k: isize| -> isize {
            usize::try_from(k + d).ok().and_then(|index| before.get(index)).map_or(0, |x| *x as isize)
        };
        let k = x - y;
        let down = k == -d || (k != d && reach(k - 1) < reach(k + 1));
        let from_k = if down { k + 1 } else { k - 1 };
        let (from_x, from_y) = if d == 0 { (0, 0) } else { (reach(from_k), reach(from_k) - from_k) };
        while x > from_x && y > from_y {
            steps.push(Step::Keep);
            x -= 1;
            y -= 1;
        }
        if d > 0 {
            steps.push(if down { Step::Add } else { Step::Remove });
            (x, y) = (from_x, from_y);
        }
    }
    steps.reverse();
    steps
}

/// The ranges of steps to print: each change with its context, near ones joined.
fn hunks(steps: &[Step]) -> Vec<std::ops::Range<usize>> {
    let context = limits::DIFF_CONTEXT_LINES;
    let mut hunks: Vec<std::ops::Range<usize>> = Vec::new();
    for (index, step) in steps.iter().enumerate() {
        if *step == Step::Keep {
            continue;
        }
        let (start, end) = (index.saturating_sub(context), (index + 1 + context).min(steps.len()));
        match hunks.last_mut() {
            Some(last) if start <= last.end => last.end = end,
            _ => hunks.push(start..end),
        }
    }
    hunks
}

fn write_hunk(out: &mut String, hunk: &std::ops::Range<usize>, steps: &[Step], old: &[&[u8]], new: &[&[u8]]) {
    let count = |range: &[Step], skip: Step| range.iter().filter(|step| **step != skip).count();
    let (before, inside) = (&steps[..hunk.start], &steps[hunk.clone()]);
    let (mut old_at, mut new_at) = (count(before, Step::Add), count(before, Step::Remove));
    let (old_len, new_len) = (count(inside, Step::Add), count(inside, Step::Remove));
    // A range of no lines is named by the line before it.
    let first = |at: usize, len: usize| if len == 0 { at } else { at + 1 };
    let header = (first(old_at, old_len), old_len, first(new_at, new_len), new_len);
    out.push_str(&format!("@@ -{},{} +{},{} @@\n", header.0, header.1, header.2, header.3));
    for step in inside {
        let (mark, line) = match step {
            Step::Keep => (' ', old.get(old_at)),
            Step::Remove => ('-', old.get(old_at)),
            Step::Add => ('+', new.get(new_at)),
        };
        old_at += usize::from(*step != Step::Add);
        new_at += usize::from(*step != Step::Remove);
        write_line(out, mark, line.copied().unwrap_or_default());
    }
}

fn write_line(out: &mut String, mark: char, line: &[u8]) {
    let (text, ended) = match line.strip_suffix(b"\n") {
        Some(text) => (text, true),
        None => (line, false),
    };
    out.push(mark);
    let cut = &text[..text.len().min(limits::DIFF_LINE_MAX_BYTES)];
    for c in String::from_utf8_lossy(cut).chars() {
        match c {
            // A changed line end is a change; it must be seen.
            '\r' => out.push('␍'),
            '\0' => out.push('␀'),
            c => out.push(c),
        }
    }
    if cut.len() < text.len() {
        out.push_str(&format!("... [{} more bytes in this line]", text.len() - cut.len()));
    }
    out.push('\n');
    if !ended {
        out.push_str("\\ No newline at end of file\n");
    }
}
