//! `agentctl diff`: what a session changed, as `git diff` shows it.

use super::{GlobalArgs, note, print_json, print_line};
use crate::api;
use crate::connect::connect;
use crate::connect::link::Link;
use crate::error::ClientError;
use crate::render::safe;
use crate::render::style::{Ink, Style};
use agentd_proto::v1;
use serde_json::{Value, json};
use std::process::ExitCode;

/// Marks of `--stat` for one file, where the terminal does not say how wide it is.
const STAT_MARKS: u64 = 40;

/// What `diff` is told.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  agentctl diff s_01h
  agentctl diff docs --turn 3
  agentctl diff docs --stat
  agentctl diff docs --json | jq -r '.files[].path'

Each file from its content before the session (or turn) first changed it to that after its last change, from the
contents that agentd kept; what the folder looks like now does not matter, and where it differs is marked. What
commands changed is not listed.")]
pub struct DiffArgs {
    /// The session: id, beginning of an id, or name
    #[arg(value_name = "ID")]
    pub session: String,
    /// Only what this turn changed, from 1
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub turn: Option<u32>,
    /// Only how many lines changed in which file
    #[arg(long)]
    pub stat: bool,
}

/// Runs the command.
pub async fn run(args: DiffArgs, global: &GlobalArgs) -> Result<ExitCode, ClientError> {
    let link = Link::from(connect(global).await?);
    let (session, changes) = read(&link, &args).await?;
    let summary = session.summary.unwrap_or_default();
    if let Some(turn) = args.turn.filter(|turn| *turn > summary.turn) {
        return Err(ClientError::usage(no_turn(turn, summary.turn)));
    }
    if global.json {
        print_json(&as_json(&summary.session_id, &args, &changes))?;
        return Ok(ExitCode::SUCCESS);
    }
    let style = Style::of(std::io::stdout());
    let root = session.root.unwrap_or_default().path_display;
    let lines =
        if args.stat { stat(style, &root, &changes.files) } else { diff(style, &root, &changes.files) };
    for line in lines {
        print_line(&line)?;
    }
    if changes.files.is_empty() {
        note("no file tool changed anything");
    }
    match changes.commands {
        0 => {}
        1 => note("a command ran too; what it changed is not listed"),
        n => note(&format!("{n} commands ran too; what they changed is not listed")),
    }
    Ok(ExitCode::SUCCESS)
}

fn no_turn(turn: u32, turns: u32) -> String {
    let has = match turns {
        0 => "no turn yet".to_owned(),
        1 => "1 turn".to_owned(),
        _ => format!("{turns} turns"),
    };
    format!("there is no turn {turn}: the session has {has}")
}

/// All pages.
async fn read(link: &Link, args: &DiffArgs) -> Result<(v1::Session, v1::SessionChanges), ClientError> {
    let mut whole = v1::SessionChanges::default();
    let mut skip_files = 0;
    loop {
        let request = v1::GetSessionRequest {
            session: args.session.clone(),
            views: vec![v1::SessionView::Changes.into()],
            turn: args.turn,
            skip_files,
        };
        let answer = api::get_session(link, request).await?;
        let (Some(session), Some(page)) = (answer.session, answer.changes) else {
            return Err(ClientError::failed("the daemon answered without the changes"));
        };
        (whole.total_files, whole.commands) = (page.total_files, page.commands);
        whole.files.extend(page.files);
        match page.next_skip_files {
            Some(next) if next > skip_files => skip_files = next,
            _ => return Ok((session, whole)),
        }
    }
}

/// A file's name for people: below the session's folder where it lies there.
fn name(root: &str, file: &v1::ChangedFile) -> String {
    let whole = file.path.as_ref().map(|path| path.path_display.as_str()).unwrap_or_default();
    let below = whole.strip_prefix(root).and_then(|rest| rest.strip_prefix('/'));
    safe::inline(below.unwrap_or(whole)).into_owned()
}

fn diff(style: Style, root: &str, files: &[v1::ChangedFile]) -> Vec<String> {
    let mut out = Vec::new();
    let head = |text: String| style.paint(Ink::Bold, &text);
    for file in files {
        let name = name(root, file);
        let since = if file.changed_since { " (changed since)" } else { "" };
        out.push(head(format!("diff --git a/{name} b/{name}{since}")));
        match (file.before_mode, file.after_mode) {
            _ if file.before_hash.is_none() => {
                out.push(head(format!("new file mode 100{:03o}", file.after_mode.unwrap_or(0o644))));
            }
            _ if file.after_hash.is_none() => {
                out.push(head(format!("deleted file mode 100{:03o}", file.before_mode.unwrap_or(0o644))));
            }
            (Some(before), Some(after)) if before != after => {
                out.push(head(format!("old mode 100{before:03o}")));
                out.push(head(format!("new mode 100{after:03o}")));
            }
            _ => {}
        }
        if !file.note.is_empty() {
            out.push(format!("No diff: {}", safe::inline(&file.note)));
        } else if file.binary && file.before_hash != file.after_hash {
            out.push(format!("Binary file: {} -> {} bytes", file.before_bytes, file.after_bytes));
        }
        let mut in_hunk = false;
        for line in file.diff.lines() {
            in_hunk |= line.starts_with("@@");
            let shown = safe::exact(line);
            out.push(match line.as_bytes().first() {
                Some(b'@') => style.paint(Ink::Cyan, &shown),
                Some(b'+') if in_hunk => style.paint(Ink::Green, &shown),
                Some(b'-') if in_hunk => style.paint(Ink::Red, &shown),
                Some(b'+' | b'-') => style.paint(Ink::Bold, &shown),
                Some(b'\\' | b'.') => style.paint(Ink::Dim, &shown),
                _ => shown.into_owned(),
            });
        }
    }
    out
}

fn stat(style: Style, root: &str, files: &[v1::ChangedFile]) -> Vec<String> {
    if files.is_empty() {
        return Vec::new();
    }
    let names: Vec<String> = files.iter().map(|file| name(root, file)).collect();
    let width = names.iter().map(|name| name.chars().count()).max().unwrap_or(0);
    let lines = |file: &v1::ChangedFile| u64::from(file.added_lines) + u64::from(file.removed_lines);
    let most = files.iter().map(lines).max().unwrap_or(0);
    let digits = most.to_string().len().max(3);
    let marks = style.columns.map_or(STAT_MARKS, |columns| {
        u64::from(columns).saturating_sub((width + digits + 5) as u64).clamp(10, 80)
    });
    let scaled = |count: u32| {
        let count = u64::from(count);
        if most <= marks { count } else { (count * marks).div_ceil(most.max(1)) }
    };
    let mut out = Vec::new();
    for (file, name) in files.iter().zip(&names) {
        let pad = " ".repeat(width - name.chars().count());
        let since = if file.changed_since { " (changed since)" } else { "" };
        let what = if !file.note.is_empty() {
            format!("{:>digits$} {}", "?", safe::inline(&file.note))
        } else if file.binary {
            format!("{:>digits$} {} -> {} bytes", "Bin", file.before_bytes, file.after_bytes)
        } else {
            let row = |mark: &str, count: u32| mark.repeat(usize::try_from(scaled(count)).unwrap_or(0));
            format!(
                "{:>digits$} {}{}",
                lines(file),
                style.paint(Ink::Green, &row("+", file.added_lines)),
                style.paint(Ink::Red, &row("-", file.removed_lines))
            )
        };
        out.push(format!(" {name}{pad} | {what}{since}").trim_end().to_owned());
    }
    let sum = |of: fn(&v1::ChangedFile) -> u32| files.iter().map(|file| u64::from(of(file))).sum::<u64>();
    let counted = |count: u64, what: &str, mark: &str| {
        (count > 0).then(|| format!(", {count} {what}{}({mark})", if count == 1 { "" } else { "s" }))
    };
    let total = format!(
        " {} file{} changed{}{}",
        files.len(),
        if files.len() == 1 { "" } else { "s" },
        counted(sum(|file| file.added_lines), "insertion", "+").unwrap_or_default(),
        counted(sum(|file| file.removed_lines), "deletion", "-").unwrap_or_default()
    );
    out.push(total);
    out
}

fn as_json(session: &str, args: &DiffArgs, changes: &v1::SessionChanges) -> Value {
    let file = |file: &v1::ChangedFile| {
        let path = file.path.clone().unwrap_or_default();
        let mode = |mode: Option<u32>| mode.map(|mode| format!("{mode:04o}"));
        let mut value = json!({
            "path": path.path_display,
            "before_hash": file.before_hash,
            "after_hash": file.after_hash,
            "before_mode": mode(file.before_mode),
            "after_mode": mode(file.after_mode),
            "added": file.added_lines,
            "removed": file.removed_lines,
            "binary": file.binary,
            "changed_since": file.changed_since,
        });
        if std::str::from_utf8(&path.path).is_err() {
            value["path_bytes"] = json!(path.path);
        }
        if !file.note.is_empty() {
            value["note"] = file.note.as_str().into();
        }
        if !args.stat {
            value["diff"] = file.diff.as_str().into();
        }
        value
    };
    json!({
        "session": session,
        "turn": args.turn,
        "files": changes.files.iter().map(file).collect::<Vec<_>>(),
        "commands": changes.commands,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(path: &str, diff: &str, added: u32, removed: u32) -> v1::ChangedFile {
        v1::ChangedFile {
            path: Some(v1::Path { path: path.as_bytes().to_vec(), path_display: path.to_owned() }),
            before_hash: Some("0".to_owned()),
            after_hash: Some("1".to_owned()),
            before_mode: Some(0o644),
            after_mode: Some(0o644),
            diff: diff.to_owned(),
            added_lines: added,
            removed_lines: removed,
            ..Default::default()
        }
    }

    #[test]
    fn files_are_told_as_git_tells_them() {
        let mut mode = file("/w/run.sh", "", 0, 0);
        (mode.after_hash, mode.after_mode) = (mode.before_hash.clone(), Some(0o755));
        let new = v1::ChangedFile { before_hash: None, before_mode: None, ..file("/w/new", "", 0, 0) };
        let gone = v1::ChangedFile { after_hash: None, after_mode: None, ..file("/w/gone", "", 0, 0) };
        let bin =
            v1::ChangedFile { binary: true, after_bytes: 7, changed_since: true, ..file("/out/b", "", 0, 0) };
        let lines = diff(Style::PLAIN, "/w", &[mode, new, gone, bin]);
        assert_eq!(
            lines,
            [
                "diff --git a/run.sh b/run.sh",
                "old mode 100644",
                "new mode 100755",
                "diff --git a/new b/new",
                "new file mode 100644",
                "diff --git a/gone b/gone",
                "deleted file mode 100644",
                "diff --git a//out/b b//out/b (changed since)",
                "Binary file: 0 -> 7 bytes",
            ]
        );
    }

    #[test]
    fn nothing_in_a_diff_reaches_the_terminal_raw() {
        let text = "--- a/x\n+++ b/x\n@@ -1,1 +1,1 @@\n-a\n+\x1b[2Jb\u{202e}\n";
        let lines = diff(Style { colour: true, columns: None }, "/w", &[file("/w/x\x1b", text, 1, 1)]);
        assert_eq!(lines[0], "\x1b[1mdiff --git a/x\\x1b b/x\\x1b\x1b[0m");
        assert_eq!(lines[1], "\x1b[1m--- a/x\x1b[0m");
        assert_eq!(lines[5], "\x1b[32m+\\x1b[2Jb\\u{202e}\x1b[0m");
    }

    #[test]
    fn the_table_of_changes_is_gits() {
        let files = [file("/w/a.txt", "", 3, 1), file("/w/long/name.txt", "", 400, 0)];
        assert_eq!(
            stat(Style::PLAIN, "/w", &files),
            [
                " a.txt         |   4 +-".to_owned(),
                format!(" long/name.txt | 400 {}", "+".repeat(40)),
                " 2 files changed, 403 insertions(+), 1 deletion(-)".to_owned(),
            ]
        );
    }
}
