//! `list_dir`: the entries of a folder, in the order of their names' bytes, with kinds and sizes.

use super::{Tools, answer, args, blocking};
use crate::inspect::{self, Found};
use crate::ports::CallContext;
use agentd_core::command::{CallEnd, CallFault};
use agentd_core::event::PathOp;
use agentd_core::limits;
use agentd_core::path_bytes::PathBytes;
use agentd_core::policy::names::{shown, shown_bytes};
use rustix::fs::{AtFlags, FileType};
use std::os::fd::{AsFd, OwnedFd};

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
    let looked = inspect::look(&tools.own, &ctx.session, &path, PathOp::List)
        .map_err(|error| answer::lookup_fault(&error))?;
    let existing = match looked.found {
        _ if looked.facts.protected.is_some() => return Err(answer::out_of_reach(&looked.facts)),
        Some(Found::Existing(existing)) => existing,
        Some(Found::Missing(missing)) => return Err(super::neighbours::not_found(&path, &missing)),
        None => return Err(answer::out_of_reach(&looked.facts)),
    };
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
    let dir = inspect::read_folder(&existing.fd).map_err(refused)?;
    let mut names = Vec::new();
    let mut is_whole = true;
    for entry in dir {
        let entry = entry.map_err(refused)?;
        let name = entry.file_name().to_bytes();
        if name == b"." || name == b".." {
            continue;
        }
        if names.len() == limits::FOLDER_READ_MAX {
            is_whole = false;
            break;
        }
        names.push(name.to_vec());
    }
    names.sort();
    if names.is_empty() {
        return Ok(format!("{} is an empty folder", shown(&path)));
    }
    let more = names.len().saturating_sub(limits::LIST_ENTRIES_MAX);
    names.truncate(limits::LIST_ENTRIES_MAX);
    let mut lines: Vec<String> = names.iter().map(|name| describe(&existing.fd, name)).collect();
    if more > 0 {
        let or_more = if is_whole { "" } else { "at least " };
        lines.push(format!("... {or_more}{more} more entries"));
    }
    Ok(lines.join("\n"))
}

fn describe(folder: &OwnedFd, name: &[u8]) -> String {
    let shown = shown_bytes(name);
    let Ok(stat) = rustix::fs::statat(folder.as_fd(), name, AtFlags::SYMLINK_NOFOLLOW) else {
        return format!("{shown}  (gone)");
    };
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile => {
            let exec = if stat.st_mode & 0o111 == 0 { "" } else { ", executable" };
            format!("{shown}  {} bytes{exec}", stat.st_size)
        }
        FileType::Directory => format!("{shown}/"),
        FileType::Symlink => match rustix::fs::readlinkat(folder, name, Vec::new()) {
            Ok(target) => format!("{shown} -> {}", shown_bytes(target.as_bytes())),
            Err(_) => format!("{shown}  a link"),
        },
        kind => format!("{shown}  {}", answer::kind_in_words(kind)),
    }
}
