//! Unified diffs, with the headers of git.

use super::parse::{Lines, body_line, note_open_end, quoted, ranges};
use super::{Change, FilePatch, Hunk, Mark, Patch, PatchError};
use crate::path_bytes::PathBytes;

/// What the headers say of one file.
#[derive(Default)]
struct Head {
    line: usize,
    old: Option<Name>,
    new: Option<Name>,
    is_new: bool,
    is_deleted: bool,
    is_rename: bool,
    executable: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Name {
    Nothing,
    Path(Vec<u8>),
}

/// Reads all of it.
pub(super) fn read(lines: &mut Lines<'_>) -> Result<Patch, PatchError> {
    let mut files = Vec::new();
    while let Some(line) = lines.peek() {
        if line.starts_with("diff --git ") || is_names(lines) {
            files.push(file(lines)?);
        } else if line.starts_with("@@ -")
            || (!files.is_empty() && line.starts_with(['+', '-']) && !is_signature(lines))
        {
            let what = format!("expected `--- a/PATH` and `+++ b/PATH` before {}", lines.shown());
            return Err(lines.fault(what));
        } else {
            lines.step();
        }
    }
    if files.is_empty() {
        return Err(PatchError::Form {
            line: 1,
            what: "expected \"*** Begin Patch\", or a unified diff with `--- a/PATH` and `+++ b/PATH`"
                .to_owned(),
        });
    }
    Ok(Patch { files })
}

fn is_names(lines: &Lines<'_>) -> bool {
    lines.peek().is_some_and(|line| line.starts_with("--- "))
        && lines.peek_at(1).is_some_and(|line| line.starts_with("+++ "))
}

/// What `git format-patch` ends with.
fn is_signature(lines: &Lines<'_>) -> bool {
    matches!(lines.peek(), Some("-- " | "--"))
        && lines.peek_at(1).is_none_or(|next| next.starts_with(|c: char| c.is_ascii_digit()))
}

fn file(lines: &mut Lines<'_>) -> Result<FilePatch, PatchError> {
    let mut head = Head { line: lines.number(), ..Head::default() };
    if let Some(rest) = lines.peek().and_then(|line| line.strip_prefix("diff --git ")) {
        if let Some((old, new)) = both_names(rest) {
            head.old = Some(Name::Path(old));
            head.new = Some(Name::Path(new));
        }
        lines.step();
        git_headers(lines, &mut head)?;
    }
    let mut hunks = Vec::new();
    if is_names(lines) {
        let old = lines.peek().and_then(|line| named(&line[4..]));
        lines.step();
        let new = lines.peek().and_then(|line| named(&line[4..]));
        let (Some(old), Some(new)) = (old, new) else {
            return Err(lines.fault(format!("expected paths after `---` and `+++`, not {}", lines.shown())));
        };
        lines.step();
        (head.old, head.new) = without_sides(old, new);
        while lines.peek().is_some_and(|line| line.starts_with("@@")) {
            hunks.push(hunk(lines)?);
        }
        if hunks.is_empty() {
            return Err(
                lines.fault(format!("expected `@@ -LINE,COUNT +LINE,COUNT @@`, not {}", lines.shown()))
            );
        }
    }
    change_of(head, hunks)
}

fn git_headers(lines: &mut Lines<'_>, head: &mut Head) -> Result<(), PatchError> {
    while let Some(line) = lines.peek() {
        let path = |rest: &str| Some(Name::Path(unquoted(rest).unwrap_or_else(|| rest.as_bytes().to_vec())));
        if let Some(mode) = line.strip_prefix("new file mode ") {
            head.is_new = true;
            match mode.trim() {
                "100755" => head.executable = true,
                "100644" | "100664" | "100600" => {}
                _ => {
                    return Err(
                        lines.fault("only regular files can be made by a patch, not links or submodules")
                    );
                }
            }
        } else if line.starts_with("deleted file mode ") {
            head.is_deleted = true;
        } else if let Some(rest) = line.strip_prefix("rename from ") {
            (head.is_rename, head.old) = (true, path(rest));
        } else if let Some(rest) = line.strip_prefix("rename to ") {
            (head.is_rename, head.new) = (true, path(rest));
        } else if line.starts_with("old mode ") || line.starts_with("new mode ") {
            return Err(lines.fault("a patch does not change permission bits; use chmod in a command"));
        } else if line.starts_with("copy from ") || line.starts_with("copy to ") {
            return Err(lines.fault("a patch does not copy files; add the new file with its content"));
        } else if line.starts_with("GIT binary patch") || line.starts_with("Binary files ") {
            return Err(lines.fault("binary patches are not applied; use a command"));
        } else if !(["index ", "similarity index ", "dissimilarity index "]
            .iter()
            .any(|h| line.starts_with(h)))
        {
            break;
        }
        lines.step();
    }
    Ok(())
}

fn change_of(head: Head, hunks: Vec<Hunk>) -> Result<FilePatch, PatchError> {
    let line = head.line;
    let fault = |what: &str| Err(PatchError::Form { line, what: what.to_owned() });
    let (Some(old), Some(new)) = (head.old, head.new) else {
        return fault("expected `--- a/PATH` and `+++ b/PATH` after this header");
    };
    match (old, new) {
        (Name::Nothing, Name::Nothing) => fault("expected a path on one side: both are /dev/null"),
        (Name::Nothing, Name::Path(path)) => add(line, path, &hunks, head.executable),
        (Name::Path(_), Name::Path(path)) if head.is_new => add(line, path, &hunks, head.executable),
        (Name::Path(path), Name::Nothing) => {
            Ok(FilePatch { line, path: PathBytes::new(path), change: Change::Delete { hunks } })
        }
        (Name::Path(path), Name::Path(_)) if head.is_deleted => {
            Ok(FilePatch { line, path: PathBytes::new(path), change: Change::Delete { hunks } })
        }
        (Name::Path(old), Name::Path(new)) => {
            if old != new && !head.is_rename {
                return fault(
                    "the paths after `---` and `+++` differ: expected the same path, or git's `rename from` and `rename to`",
                );
            }
            let move_to = (old != new).then(|| PathBytes::new(new));
            if hunks.is_empty() && move_to.is_none() {
                return fault(
                    "expected `--- a/PATH`, `+++ b/PATH` and hunks after this header: it changes nothing",
                );
            }
            Ok(FilePatch { line, path: PathBytes::new(old), change: Change::Update { move_to, hunks } })
        }
    }
}

fn add(line: usize, path: Vec<u8>, hunks: &[Hunk], executable: bool) -> Result<FilePatch, PatchError> {
    let mut content = String::new();
    for hunk in hunks {
        if let Some(at) = hunk.lines.iter().position(|line| line.mark != Mark::Add) {
            return Err(PatchError::Form {
                line: hunk.line + at + 1,
                what: "expected only lines with + before them in a new file".to_owned(),
            });
        }
        for line in &hunk.lines {
            content.push_str(&line.text);
            content.push('\n');
        }
        if hunk.new_open {
            content.pop();
        }
    }
    Ok(FilePatch { line, path: PathBytes::new(path), change: Change::Add { content, executable } })
}

fn hunk(lines: &mut Lines<'_>) -> Result<Hunk, PatchError> {
    let mut hunk = Hunk { line: lines.number(), ..Hunk::default() };
    let counts = lines.peek().and_then(ranges);
    let head = lines.peek().unwrap_or_default();
    // Counts are often wrong; they only tell what could be read in two ways.
    let (mut old_left, mut new_left) = match counts {
        // `-l,0` names the line after which new ones come, as if the hunk began with the next.
        Some((start, old, new)) => {
            hunk.start = Some(if old == 0 { start.saturating_add(1) } else { start });
            (old, new)
        }
        None if head.trim_end() == "@@" || head.starts_with("@@ ...") => (usize::MAX, usize::MAX),
        None => {
            let what = format!("expected `@@ -LINE,COUNT +LINE,COUNT @@`, not {}", quoted(head));
            return Err(lines.fault(what));
        }
    };
    lines.step();
    while let Some(line) = lines.peek() {
        let is_full = old_left == 0 && new_left == 0;
        if line.starts_with("@@") || line.starts_with("diff --git ") {
            break;
        }
        if ends_here(lines, old_left, new_left) {
            break;
        }
        if line.is_empty() && !lines.after_blanks(|next| body_line(next).is_some() || next.starts_with("\\ "))
        {
            break;
        }
        if line.is_empty() && is_full {
            break;
        }
        if line.starts_with("\\ ") {
            note_open_end(&mut hunk);
        } else if let Some(line) = body_line(line) {
            old_left = old_left.saturating_sub(usize::from(line.mark != Mark::Add));
            new_left = new_left.saturating_sub(usize::from(line.mark != Mark::Remove));
            hunk.lines.push(line);
        } else if is_full {
            break;
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

/// Whether lines that could be of the body are the head of the next file, or what stands after a patch.
fn ends_here(lines: &Lines<'_>, old_left: usize, new_left: usize) -> bool {
    if is_signature(lines) {
        return old_left == 0 && new_left == 0;
    }
    if !is_names(lines) {
        return false;
    }
    if old_left == 0 && new_left == 0 {
        return true;
    }
    // No body goes on with `@@`: either these two end it, or the counts are wrong.
    lines.peek_at(2).is_some_and(|line| line.starts_with("@@")) && (old_left, new_left) != (1, 1)
}

/// A name after `---` or `+++`: up to a tab, after which times stand.
fn named(rest: &str) -> Option<Name> {
    let bytes = match unquoted(rest) {
        Some(bytes) => bytes,
        None => rest.split('\t').next().unwrap_or_default().trim_end().as_bytes().to_vec(),
    };
    match bytes.as_slice() {
        b"" => None,
        b"/dev/null" => Some(Name::Nothing),
        _ => Some(Name::Path(bytes)),
    }
}

/// Without the `a/` and `b/` of git, where both sides have theirs.
fn without_sides(old: Name, new: Name) -> (Option<Name>, Option<Name>) {
    let has = |name: &Name, side: &[u8]| match name {
        Name::Nothing => true,
        Name::Path(path) => path.starts_with(side) && path.len() > side.len(),
    };
    if !(has(&old, b"a/") && has(&new, b"b/")) {
        return (Some(old), Some(new));
    }
    let strip = |name: Name| match name {
        Name::Nothing => Name::Nothing,
        Name::Path(path) => Name::Path(path[2..].to_vec()),
    };
    (Some(strip(old)), Some(strip(new)))
}

/// The two names of `diff --git a/X b/X`; none when they cannot be told apart.
fn both_names(rest: &str) -> Option<(Vec<u8>, Vec<u8>)> {
    let (old, new) = if rest.starts_with('"') {
        let end = closing_quote(rest)?;
        let second = rest.get(end + 2..)?;
        (unquoted(&rest[..=end])?, unquoted(second).unwrap_or_else(|| second.as_bytes().to_vec()))
    } else {
        let half = rest.len().checked_sub(1)? / 2;
        let (old, new) = (rest.get(..half)?, rest.get(half + 1..)?);
        (old.as_bytes().to_vec(), new.as_bytes().to_vec())
    };
    let (Some(Name::Path(old)), Some(Name::Path(new))) = without_sides(Name::Path(old), Name::Path(new))
    else {
        return None;
    };
    (old == new).then_some((old, new))
}

fn closing_quote(text: &str) -> Option<usize> {
    let bytes = text.as_bytes();
    let mut at = 1;
    while at < bytes.len() {
        match bytes[at] {
            b'\\' => at += 2,
            b'"' => return Some(at),
            _ => at += 1,
        }
    }
    None
}

/// A name in the quotes of C, as git writes unusual ones.
fn unquoted(text: &str) -> Option<Vec<u8>> {
    let text = text.trim_end();
    if !text.starts_with('"') {
        return None;
    }
    let end = closing_quote(text)?;
    let bytes = text.as_bytes().get(1..end)?;
    let (mut out, mut at) = (Vec::with_capacity(bytes.len()), 0);
    while let Some(byte) = bytes.get(at) {
        at += 1;
        if *byte != b'\\' {
            out.push(*byte);
            continue;
        }
        let escaped = *bytes.get(at)?;
        at += 1;
        out.push(match escaped {
            b'n' => b'\n',
            b't' => b'\t',
            b'r' => b'\r',
            b'a' => 7,
            b'b' => 8,
            b'f' => 12,
            b'v' => 11,
            b'0'..=b'3' => {
                let digits = bytes.get(at - 1..at + 2)?;
                at += 2;
                u8::from_str_radix(std::str::from_utf8(digits).ok()?, 8).ok()?
            }
            other => other,
        });
    }
    Some(out)
}
