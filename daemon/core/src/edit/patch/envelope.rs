//! The envelope: `*** Begin Patch`, sections of files, `*** End Patch`.

use super::parse::{Lines, body_line, note_open_end, ranges};
use super::{Change, FilePatch, Hunk, Mark, Patch, PatchError};
use crate::limits;
use crate::path_bytes::PathBytes;

const BEGIN: &str = "*** Begin Patch";
const END: &str = "*** End Patch";
const ADD: &str = "*** Add File:";
const DELETE: &str = "*** Delete File:";
const UPDATE: &str = "*** Update File:";
const MOVE: &str = "*** Move to:";
const END_OF_FILE: &str = "*** End of File";

/// Whether a line belongs to this form and to no other.
pub(super) fn begins(line: &str) -> bool {
    line.trim_end() == BEGIN || [ADD, DELETE, UPDATE].iter().any(|head| line.starts_with(head))
}

/// A line that ends what went before: the head of a section, or the end.
fn is_head(line: &str) -> bool {
    line.trim_end() == END || [ADD, DELETE, UPDATE].iter().any(|head| line.starts_with(head))
}

/// Reads all of it.
pub(super) fn read(lines: &mut Lines<'_>) -> Result<Patch, PatchError> {
    // What stands around it: fences, and the call of a shell.
    while lines.peek().is_some_and(|line| !begins(line)) {
        let line = lines.peek().unwrap_or_default().trim();
        if !(line.is_empty() || line.starts_with("```") || line.contains("<<")) {
            return Err(lines.fault(format!("expected {BEGIN:?}, not {}", lines.shown())));
        }
        lines.step();
    }
    if lines.peek().is_some_and(|line| line.trim_end() == BEGIN) {
        lines.step();
    }
    let mut files = Vec::new();
    loop {
        match lines.peek() {
            Some("") => lines.step(),
            Some(line) if line.trim_end() == END => break,
            Some(_) => files.push(section(lines)?),
            // A missing end could be a patch that was cut off.
            None => return Err(lines.fault(format!("expected {END:?}: the patch ends without it"))),
        }
    }
    if files.is_empty() {
        return Err(lines.fault(format!("expected a file before {END:?}: {UPDATE:?}, {ADD:?} or {DELETE:?}")));
    }
    lines.step();
    // Another patch behind the first is a second one: it would be lost.
    if lines.all.iter().skip(lines.number() - 1).any(|line| begins(line)) {
        return Err(lines.fault(format!("expected nothing after {END:?}: put all files before it")));
    }
    Ok(Patch { files })
}

fn section(lines: &mut Lines<'_>) -> Result<FilePatch, PatchError> {
    let line = lines.number();
    let head = lines.peek().unwrap_or_default();
    let name = |rest: &str| -> Result<PathBytes, PatchError> {
        match rest.trim() {
            "" => Err(PatchError::Form { line, what: "expected a path after the colon".to_owned() }),
            path => Ok(PathBytes::from(path)),
        }
    };
    if let Some(rest) = head.strip_prefix(ADD) {
        let path = name(rest)?;
        lines.step();
        return Ok(FilePatch { line, path, change: added(lines)? });
    }
    if let Some(rest) = head.strip_prefix(DELETE) {
        let path = name(rest)?;
        lines.step();
        if lines.peek().is_some_and(|next| !next.is_empty() && !is_head(next)) {
            let what = format!("expected the next file or {END:?} after a deletion, not {}", lines.shown());
            return Err(lines.fault(what));
        }
        return Ok(FilePatch { line, path, change: Change::Delete { hunks: Vec::new() } });
    }
    let Some(rest) = head.strip_prefix(UPDATE) else {
        let what = format!("expected {UPDATE:?}, {ADD:?}, {DELETE:?} or {END:?}, not {}", lines.shown());
        return Err(lines.fault(what));
    };
    let path = name(rest)?;
    lines.step();
    let move_to = match lines.peek().and_then(|line| line.strip_prefix(MOVE)) {
        Some(rest) if rest.trim().is_empty() => return Err(lines.fault("expected a path after the colon")),
        Some(rest) => {
            lines.step();
            Some(PathBytes::from(rest.trim()))
        }
        None => None,
    };
    let hunks = hunks(lines)?;
    if hunks.is_empty() && move_to.is_none() {
        return Err(lines.fault(format!(
            "expected lines that change (` `, `-` or `+` before each), not {}: the update has none",
            lines.shown()
        )));
    }
    Ok(FilePatch { line, path, change: Change::Update { move_to, hunks } })
}

fn added(lines: &mut Lines<'_>) -> Result<Change, PatchError> {
    let mut content = String::new();
    while let Some(line) = lines.peek() {
        if is_head(line) {
            break;
        }
        if line.is_empty() && lines.after_blanks(is_head) {
            lines.step();
            continue;
        }
        match line.strip_prefix('+') {
            Some(text) => content.push_str(text),
            None if line.is_empty() => {}
            None if line.starts_with('\\') => {
                // No newline at the end.
                content.pop();
                lines.step();
                break;
            }
            None if line.trim_end() == END_OF_FILE => {
                lines.step();
                continue;
            }
            None => {
                let what = format!("expected a line of the new file with + before it, not {}", lines.shown());
                return Err(lines.fault(what));
            }
        }
        content.push('\n');
        lines.step();
    }
    Ok(Change::Add { content, executable: false })
}

fn hunks(lines: &mut Lines<'_>) -> Result<Vec<Hunk>, PatchError> {
    let mut hunks = Vec::new();
    // The head of a unified diff under the name.
    let is_diff_head = lines.peek().is_some_and(|line| line.starts_with("--- "))
        && lines.peek_at(1).is_some_and(|line| line.starts_with("+++ "))
        && lines.peek_at(2).is_some_and(|line| line.starts_with("@@"));
    if is_diff_head {
        lines.step();
        lines.step();
    }
    loop {
        while lines.peek() == Some("") && lines.after_blanks(|line| is_head(line) || line.starts_with("@@")) {
            lines.step();
        }
        match lines.peek() {
            None => break,
            Some(line) if is_head(line) => break,
            Some(_) => hunks.push(hunk(lines)?),
        }
    }
    Ok(hunks)
}

fn hunk(lines: &mut Lines<'_>) -> Result<Hunk, PatchError> {
    let mut hunk = Hunk { line: lines.number(), ..Hunk::default() };
    while let Some(rest) = lines.peek().and_then(|line| line.strip_prefix("@@")) {
        if let Some((start, old, _)) = lines.peek().and_then(ranges) {
            hunk.start = Some(if old == 0 { start.saturating_add(1) } else { start });
        } else if !matches!(rest.trim(), "" | "@@" | "..." | "... @@") {
            let anchor = rest.strip_prefix(' ').unwrap_or(rest);
            let anchor = anchor.strip_suffix(" @@").unwrap_or(anchor);
            hunk.anchors.push(anchor.to_owned());
            if hunk.anchors.len() > limits::PATCH_ANCHORS_MAX {
                let max = limits::PATCH_ANCHORS_MAX;
                return Err(lines.fault(format!("expected at most {max} lines with @@ before a hunk")));
            }
        }
        lines.step();
    }
    while let Some(line) = lines.peek() {
        if is_head(line) || line.starts_with("@@") {
            break;
        }
        if line.trim_end() == END_OF_FILE {
            hunk.at_end = true;
            lines.step();
            break;
        }
        if line.is_empty() && lines.after_blanks(|next| is_head(next) || next.starts_with("@@")) {
            lines.step();
            continue;
        }
        if line.starts_with("\\ ") {
            note_open_end(&mut hunk);
        } else if let Some(line) = body_line(line) {
            hunk.lines.push(line);
        } else {
            let what = format!(
                "expected a line with ` ` (stays), `-` (goes) or `+` (comes) before it, not {}",
                lines.shown()
            );
            return Err(lines.fault(what));
        }
        lines.step();
    }
    if hunk.lines.iter().all(|line| line.mark == Mark::Keep) {
        let what = "expected lines with `-` or `+` in this hunk: it changes nothing".to_owned();
        return Err(PatchError::Form { line: hunk.line, what });
    }
    Ok(hunk)
}
