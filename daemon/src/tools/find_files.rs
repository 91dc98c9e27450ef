//! `find_files`: the paths below a folder that match a glob, in the order of their components.

use super::search::report;
use super::walk::{Entry, Glob, Kept, LeftOut, Stop, Visitor, Walk};
use super::{Tools, answer, args, blocking};
use crate::ports::CallContext;
use crate::redact::Redactor;
use agentd_core::command::{CallEnd, CallFault};
use agentd_core::event::PathOp;
use agentd_core::limits;
use agentd_core::path_bytes::PathBytes;
use agentd_core::policy::names::shown_bytes;
use rustix::fs::FileType;
use std::sync::Arc;
use std::time::Duration;

pub(super) async fn run(tools: &Tools, ctx: &CallContext, redactor: &Arc<Redactor>) -> CallEnd {
    let (stop, guard) = Stop::after(Duration::from_millis(limits::WALK_TIME_MAX_MS));
    let (owned_tools, owned, owned_redactor) = (tools.clone(), ctx.clone(), redactor.clone());
    let found = blocking(move || find(&owned_tools, &owned, &owned_redactor, &stop)).await;
    let end = match found.and_then(|found| found) {
        Ok(whole) => report::end(tools, ctx, whole).await,
        Err(fault) => answer::from_fault(ctx, fault),
    };
    drop(guard);
    end
}

struct Names {
    kept: Kept<FileType>,
    count: u64,
}

impl Visitor for Names {
    fn visit(&mut self, entry: &Entry<'_>) {
        self.count += 1;
        self.kept.put(entry.path, 1, entry.kind);
    }
}

fn find(
    tools: &Tools,
    ctx: &CallContext,
    redactor: &Redactor,
    stop: &Stop,
) -> Result<report::Whole, CallFault> {
    let args: args::FindFiles = args::parse(ctx)?;
    let glob = Glob::new(report::without_place(ctx, &args.pattern))?;
    let path = PathBytes::from(args.path.as_deref().unwrap_or("."));
    let (existing, workspace) = tools.existing(ctx, &path, PathOp::List)?;
    answer::only_folder(&existing)?;
    let mut walk = Walk::new(&workspace, &tools.own, stop);
    walk.glob = Some(&glob);
    walk.exact = true;
    let names = || Names { kept: Kept::new(limits::SEARCH_KEPT_BYTES), count: 0 };
    let (found, left_out) = walk
        .run(&existing, &ctx.session.cwd, names)
        .map_err(|errno| report::refused(&existing.path, errno))?;
    let mut all = names();
    for one in found {
        all.count += one.count;
        all.kept.merge(one.kept);
    }
    Ok(whole(ctx, &args.pattern, &existing.path, all, left_out, stop, redactor))
}

fn whole(
    ctx: &CallContext,
    pattern: &str,
    place: &PathBytes,
    all: Names,
    left_out: LeftOut,
    stop: &Stop,
    redactor: &Redactor,
) -> report::Whole {
    let notes = left_out.in_words();
    let mut notes = if notes.is_empty() { String::new() } else { format!(" ({})", notes.join("; ")) };
    if stop.was_early() {
        notes.push_str(&report::early());
    }
    if all.count == 0 {
        let advice = if left_out.ignored_files + left_out.ignored_folders > 0 {
            "; a path or pattern that names an ignored folder without wildcards is looked into"
        } else {
            ""
        };
        return report::Whole::only(format!("No files match {}{notes}{advice}", report::said(pattern)));
    }
    let kept = u64::try_from(all.kept.len()).unwrap_or(u64::MAX);
    let mut first = format!("{} found{notes}", all.count);
    if kept < all.count {
        first.push_str(&format!("; the first {kept} by path are kept, use a narrower pattern or path"));
    }
    let show = report::Shown::new(ctx, place);
    let mut redactions = 0;
    let lines = all.kept.into_values().map(|(path, kind)| {
        let name = redactor.redact(&shown_bytes(&show.bytes(&path)));
        redactions += name.count;
        let name = name.content;
        let mark = match kind {
            FileType::Directory => "/",
            FileType::Symlink => "@",
            FileType::RegularFile => "",
            FileType::Fifo => "  (FIFO)",
            FileType::Socket => "  (socket)",
            _ => "  (device)",
        };
        report::Line { file: None, text: format!("{name}{mark}") }
    });
    let lines = lines.collect();
    report::Whole { first, lines, redactions }
}
