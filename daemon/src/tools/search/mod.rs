//! `search`: the lines of files that match a regular expression, by file, in the order of paths.

mod grep;
pub(super) mod report;

use super::walk::{Glob, Stop, Walk, counted};
use super::{Tools, answer, args, blocking, neighbours};
use crate::inspect::{self, Existing, Found, Workspace};
use crate::ports::CallContext;
use crate::redact::Redactor;
use agentd_core::command::{CallEnd, CallFault, Inspection};
use agentd_core::event::PathOp;
use agentd_core::limits;
use agentd_core::path_bytes::PathBytes;
use agentd_core::policy::NO_SANDBOX;
use agentd_core::policy::names::shown_bytes;
pub(super) use grep::escaped;
use grep::{Counts, Doubts, Grep, Outcome};
use rustix::fs::FileType;
use std::sync::Arc;
use std::time::Duration;

pub(super) async fn run(tools: &Tools, ctx: &CallContext, redactor: &Arc<Redactor>) -> CallEnd {
    let (stop, guard) = Stop::after(Duration::from_millis(limits::WALK_TIME_MAX_MS));
    let (owned_tools, owned, owned_redactor) = (tools.clone(), ctx.clone(), redactor.clone());
    let found = blocking(move || search(&owned_tools, &owned, &owned_redactor, &stop)).await;
    let end = match found.and_then(|found| found) {
        Ok(whole) => report::end(tools, ctx, whole).await,
        Err(fault) => answer::from_fault(ctx, fault),
    };
    drop(guard);
    end
}

/// The facts: contents are read, of one file or of all below a folder.
pub(super) fn inspect(tools: &Tools, ctx: &CallContext, path: &PathBytes) -> Result<Inspection, CallFault> {
    let looked = inspect::look(&tools.own, &ctx.session, path, PathOp::Read)
        .map_err(|error| answer::lookup_fault(&error))?;
    match &looked.found {
        _ if looked.facts.protected.is_some() => {}
        Some(Found::Missing(missing)) => return Err(neighbours::not_found(path, missing)),
        Some(Found::Existing(existing)) => only_searchable(existing)?,
        None => {}
    }
    Ok(Inspection { paths: vec![looked.facts], sandbox: NO_SANDBOX.to_owned(), ..Inspection::default() })
}

fn only_searchable(existing: &Existing) -> Result<(), CallFault> {
    if existing.kind() == FileType::Directory { Ok(()) } else { answer::only_regular(existing) }
}

fn search(
    tools: &Tools,
    ctx: &CallContext,
    redactor: &Redactor,
    stop: &Stop,
) -> Result<report::Whole, CallFault> {
    let args: args::Search = args::parse(ctx)?;
    let path = PathBytes::from(args.path.as_deref().unwrap_or("."));
    let matcher = grep::matcher(&args.pattern)?;
    let glob = args.glob.as_deref().map(|glob| Glob::new(report::without_place(ctx, glob))).transpose()?;
    let (existing, workspace) = tools.existing(ctx, &path, PathOp::Read)?;
    only_searchable(&existing)?;
    let doubts = Doubts::of(&args.pattern);
    let grep = || Grep::new((&matcher, &doubts), redactor, &workspace, stop);
    let query = Query { ctx, args: &args, stop, redactor };
    if existing.kind() != FileType::Directory {
        return query.in_file(&existing, grep());
    }
    query.in_folder(tools, &workspace, &existing, glob.as_ref(), grep)
}

struct Query<'a> {
    ctx: &'a CallContext,
    args: &'a args::Search,
    stop: &'a Stop,
    redactor: &'a Redactor,
}

impl Query<'_> {
    fn in_file(&self, existing: &Existing, mut grep: Grep<'_>) -> Result<report::Whole, CallFault> {
        let fd = existing.open().map_err(|errno| report::refused(&existing.path, errno))?;
        let show = report::Shown::new(self.ctx, &existing.path);
        match grep.file(&fd.into(), existing.size(), b"") {
            Outcome::Text => {}
            Outcome::Binary => {
                let name = shown_bytes(&show.bytes(b""));
                return Ok(report::Whole::only(format!("{name} is a binary file; it was not searched")));
            }
            Outcome::Failed(error) => {
                let name = shown_bytes(&show.bytes(b""));
                let text = format!("{name} cannot be searched: {error}");
                return Err(answer::fault(answer::io_class(&error), text));
            }
        }
        Ok(self.whole(&show, grep, Vec::new(), ""))
    }

    fn in_folder<'g>(
        &self,
        tools: &Tools,
        workspace: &Workspace,
        existing: &Existing,
        glob: Option<&Glob>,
        grep: impl Fn() -> Grep<'g> + Sync,
    ) -> Result<report::Whole, CallFault> {
        let mut walk = Walk::new(workspace, &tools.own, self.stop);
        walk.glob = glob;
        let (found, left_out) = walk
            .run(existing, &self.ctx.session.cwd, &grep)
            .map_err(|errno| report::refused(&existing.path, errno))?;
        let mut all = grep();
        for one in found {
            all.merge(one);
        }
        let advice = if left_out.ignored_files + left_out.ignored_folders > 0 {
            "; a path or glob that names an ignored file or folder without wildcards is searched"
        } else {
            ""
        };
        let show = report::Shown::new(self.ctx, &existing.path);
        Ok(self.whole(&show, all, left_out.in_words(), advice))
    }

    fn whole(
        &self,
        show: &report::Shown,
        all: Grep<'_>,
        mut notes: Vec<String>,
        advice: &str,
    ) -> report::Whole {
        notes.extend(all.counts.in_words());
        let searched = counted(all.counts.searched, "file").unwrap_or_else(|| "no files".to_owned());
        let mut around = format!("{searched} searched");
        for note in notes {
            around.push_str(&format!("; {note}"));
        }
        let early = if self.stop.was_early() { report::early() } else { String::new() };
        if all.counts.lines == 0 {
            let case = if self.args.pattern.starts_with("(?i") { "" } else { ", case counts" };
            return report::Whole::only(format!(
                "No matches for {}{case} ({around}{advice}){early}{}",
                report::said(&self.args.pattern),
                doubts_in_words(&all.counts, &self.args.pattern)
            ));
        }
        let lines = counted(all.counts.lines, "matching line").unwrap_or_default();
        let files = counted(all.counts.files, "file").unwrap_or_default();
        let mut first = format!("{lines} in {files} ({around}){early}");
        let (kept_files, counts, mut redactions) = (all.kept.len(), all.counts, all.redactions);
        let mut out = Vec::new();
        let mut kept_lines = 0;
        for (path, hits) in all.kept.into_values() {
            let name = self.redactor.redact(&shown_bytes(&show.bytes(&path)));
            redactions += name.count;
            let name: Arc<str> = Arc::from(name.content);
            out.push(report::Line { file: None, text: name.to_string() });
            kept_lines += u64::try_from(hits.lines.len()).unwrap_or(0);
            let unkept = hits.count - u64::try_from(hits.lines.len()).unwrap_or(0);
            out.extend(hits.lines.into_iter().map(|text| report::Line { file: Some(name.clone()), text }));
            if unkept > 0 {
                let text = format!("  ... {unkept} more matching lines in this file");
                out.push(report::Line { file: Some(name.clone()), text });
            }
        }
        if kept_lines < counts.lines {
            first.push_str(&format!(
                "; {kept_lines} lines of the first {kept_files} files by path are kept, use a narrower pattern, path or glob"
            ));
        }
        report::Whole { first, lines: out, redactions }
    }
}

/// Why there may be no match.
fn doubts_in_words(counts: &Counts, pattern: &str) -> String {
    let mut words = String::new();
    if let Some(files) = counted(counts.plain, "file") {
        let has = if counts.plain == 1 { "has" } else { "have" };
        words.push_str(&format!(
            ". {files} {has} it as plain text: \\ ( ) [ ] {{ }} . * + ? | ^ $ mean something else in a pattern, escape them \
             with \\: {}",
            report::said(&escaped(pattern))
        ));
    }
    match counts.not_utf8 {
        0 => {}
        1 => words
            .push_str(". 1 file is not UTF-8 and was searched as bytes, in which only ASCII text is found"),
        more => words.push_str(&format!(
            ". {more} files are not UTF-8 and were searched as bytes, in which only ASCII text is found"
        )),
    }
    words
}
