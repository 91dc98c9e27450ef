//! `list_dir`: the entries of a folder, in the order of their names' bytes, with kinds and sizes.

use super::walk::amount;
use super::{Tools, answer, args, blocking};
use crate::inspect;
use crate::ports::CallContext;
use agentd_core::command::{CallEnd, CallFault};
use agentd_core::event::PathOp;
use agentd_core::limits;
use agentd_core::path_bytes::PathBytes;
use agentd_core::policy::names::{shown, shown_bytes};
use rustix::fs::{AtFlags, FileType};
use std::collections::BinaryHeap;
use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

pub(super) async fn run(tools: &Tools, ctx: &CallContext) -> CallEnd {
    let (owned_tools, owned) = (tools.clone(), ctx.clone());
    match blocking(move || list(&owned_tools, &owned)).await.and_then(|found| found) {
        Ok(text) => answer::done(ctx, text),
        Err(fault) => answer::from_fault(ctx, fault),
    }
}

fn list(tools: &Tools, ctx: &CallContext) -> Result<String, CallFault> {
    let args: args::ListDir = args::parse(ctx)?;
    let path = PathBytes::from(args.path.as_deref().unwrap_or("."));
    let (existing, _) = tools.existing(ctx, &path, PathOp::List)?;
    if existing.kind() != FileType::Directory {
        let kind = answer::kind_in_words(existing.kind());
        return Err(answer::fault(
            "not_folder",
            format!("{} is {kind}, not a folder.", shown(&existing.path)),
        ));
    }
    let refused = |errno: rustix::io::Errno| {
        answer::fault(
            answer::io_class(&errno.into()),
            format!("{} cannot be listed: {errno}", shown(&existing.path)),
        )
    };
    let (names, count, is_whole) =
        first_names(inspect::read_folder(&existing.fd).map_err(refused)?).map_err(refused)?;
    if names.is_empty() {
        return Ok(format!("{} is an empty folder", shown(&path)));
    }
    let (mut text, mut lines) = (String::new(), 0);
    // The last line has to fit as well.
    let room = ctx.bounds.max_bytes.saturating_sub(MORE_LINE_BYTES);
    for name in &names {
        let line = describe(&existing.fd, name);
        if lines > 0 && text.len() + 1 + line.len() > room {
            break;
        }
        if lines > 0 {
            text.push('\n');
        }
        text.push_str(&line);
        lines += 1;
    }
    let more = count - lines;
    if more > 0 || !is_whole {
        let or_more = if is_whole { "" } else { "at least " };
        text.push_str(&format!("\n... {or_more}{more} more entries"));
    }
    Ok(text)
}

/// Bytes kept free for the line that says what is left.
const MORE_LINE_BYTES: usize = 100;

/// The first names in order, how many there are, and whether all were counted. Takes memory for the first ones only.
fn first_names(dir: rustix::fs::Dir) -> rustix::io::Result<(Vec<Vec<u8>>, usize, bool)> {
    let deadline = Instant::now() + Duration::from_millis(limits::WALK_TIME_MAX_MS);
    let (mut first, mut count) = (BinaryHeap::new(), 0);
    for entry in dir {
        let entry = entry?;
        let name = entry.file_name().to_bytes();
        if name == b"." || name == b".." {
            continue;
        }
        count += 1;
        if first.len() < limits::LIST_ENTRIES_MAX {
            first.push(name.to_vec());
        } else if first.peek().is_some_and(|last: &Vec<u8>| name < last.as_slice()) {
            first.pop();
            first.push(name.to_vec());
        }
        if count % 1_024 == 0 && Instant::now() >= deadline {
            return Ok((first.into_sorted_vec(), count, false));
        }
    }
    Ok((first.into_sorted_vec(), count, true))
}

fn describe(folder: &OwnedFd, name: &[u8]) -> String {
    let shown = shown_bytes(name);
    let Ok(stat) = rustix::fs::statat(folder.as_fd(), name, AtFlags::SYMLINK_NOFOLLOW) else {
        return format!("{shown}  (gone)");
    };
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile => {
            let exec = if stat.st_mode & 0o111 == 0 { "" } else { ", executable" };
            format!("{shown}  {}{exec}", amount(u64::try_from(stat.st_size).unwrap_or(0), "byte"))
        }
        FileType::Directory => format!("{shown}/"),
        FileType::Symlink => match rustix::fs::readlinkat(folder, name, Vec::new()) {
            Ok(target) => format!("{shown} -> {}", shown_bytes(target.as_bytes())),
            Err(_) => format!("{shown}  a link"),
        },
        kind => format!("{shown}  {}", answer::kind_in_words(kind)),
    }
}
