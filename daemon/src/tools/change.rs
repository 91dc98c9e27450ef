//! `write_file` and `edit_file`: what they would change, and the change.
//!
//! Both are planned twice by the same function: before the decision, which binds the content before and after,
//! and again when they run, where anything but the same plan is refused.
//!
//! What is written over a file keeps its encoding, byte order mark and line ends, and says so. Previews show files as
//! they are read.
//!
//! A file with several names (hard links) is replaced under the given name only; the others keep the old content,
//! so nothing outside the workspace changes through a link made earlier.

use super::commit::{self, CommitError, Written};
use super::walk::amount;
use super::{Tools, answer, args, blocking, neighbours, text};
use crate::inspect::{self, Existing, Found, Missing, Workspace};
use crate::ports::{BlobSource, CallContext};
use crate::redact::Redactor;
use agentd_core::command::{CallEnd, CallFault, Inspection};
use agentd_core::edit;
use agentd_core::event::{Binding, FileChange, PathFacts, PathOp, SeenFile};
use agentd_core::limits;
use agentd_core::path_bytes::PathBytes;
use agentd_core::policy::NO_SANDBOX;
use agentd_core::policy::names::shown;
use agentd_core::text::Charset;
use std::borrow::Cow;
use std::fs::File;
use std::io::Read as _;
use std::sync::Arc;

/// What a call would do.
struct Plan {
    facts: PathFacts,
    /// None when the path may not be looked at: it is protected, or outside.
    change: Option<Change>,
}

struct Change {
    workspace: Workspace,
    target: Target,
    before: Option<Vec<u8>>,
    after: Vec<u8>,
    binding: Binding,
    summary: String,
}

enum Target {
    Existing(Existing),
    Missing(Missing),
}

/// The arguments of either tool.
enum Wish {
    Write(args::WriteFile),
    Edit(args::EditFile),
}

impl Wish {
    fn of(ctx: &CallContext) -> Result<Self, CallFault> {
        if ctx.tool == "write_file" {
            args::parse(ctx).map(Self::Write)
        } else {
            args::parse(ctx).map(Self::Edit)
        }
    }
    fn path(&self) -> PathBytes {
        match self {
            Self::Write(args) => PathBytes::from(args.path.as_str()),
            Self::Edit(args) => PathBytes::from(args.path.as_str()),
        }
    }
}

/// The facts about a change, with the diff a person would be shown.
pub(super) fn inspect(
    tools: &Tools,
    ctx: &CallContext,
    redactor: &Redactor,
) -> Result<Inspection, CallFault> {
    let plan = plan(tools, ctx, redactor)?;
    let mut found =
        Inspection { paths: vec![plan.facts], sandbox: NO_SANDBOX.to_owned(), ..Inspection::default() };
    if let Some(change) = plan.change {
        let label = match found.paths.first() {
            Some(facts) => shown(&facts.resolved),
            None => String::new(),
        };
        let label = label.strip_prefix(&format!("{}/", shown(&ctx.session.root))).unwrap_or(&label);
        let diff = diff_as_read(label, change.before.as_deref(), &change.after, redactor);
        found.preview = Some(if diff.is_empty() { format!("{label}: no change") } else { diff });
        found.binding = Some(change.binding);
    }
    Ok(found)
}

/// The diff of what a reader sees, whatever encoding it is in. Secrets go before its long lines are cut, unless that
/// would hide the change.
pub(super) fn diff_as_read(label: &str, before: Option<&[u8]>, after: &[u8], redactor: &Redactor) -> String {
    let bytes = |content| match edit::as_read(content) {
        Some((encoding, text)) if encoding.charset != Charset::Utf8 => {
            Cow::Owned(text.into_owned().into_bytes())
        }
        _ => Cow::Borrowed(content),
    };
    let (before, after) = (before.map(bytes), bytes(after));
    let bare = |content: &[u8]| redactor.redact_bytes(content).content;
    if !redactor.is_empty() {
        let diff = edit::unified_diff(label, before.as_deref().map(bare).as_deref(), &bare(&after));
        if !diff.is_empty() {
            return diff;
        }
    }
    edit::unified_diff(label, before.as_deref(), &after)
}

/// Makes the change that was bound.
pub(super) async fn run(tools: &Tools, ctx: &CallContext, redactor: &Arc<Redactor>) -> CallEnd {
    match make(tools, ctx, redactor).await {
        Ok(end) => end,
        Err(fault) => answer::from_fault(ctx, fault),
    }
}

async fn make(tools: &Tools, ctx: &CallContext, redactor: &Arc<Redactor>) -> Result<CallEnd, CallFault> {
    let (owned_tools, owned, redactor) = (tools.clone(), ctx.clone(), redactor.clone());
    let plan = blocking(move || plan(&owned_tools, &owned, &redactor)).await??;
    let name = shown(&plan.facts.requested);
    let Some(change) = plan.change else {
        return Err(answer::out_of_reach(&plan.facts));
    };
    check_binding(ctx, &change, &name)?;
    // Both contents are safe before the first byte is written: one to undo, one to know our own work by.
    if let Some(before) = &change.before {
        store(tools, before.clone()).await?;
    }
    store(tools, change.after.clone()).await?;
    let call_id = ctx.call_id.clone();
    let (change, written) = blocking(move || {
        let temp = commit::temp_name(&call_id);
        let written = apply(&change, &temp);
        (change, written)
    })
    .await?;
    let written = written.map_err(|error| commit_fault(&name, &error))?;
    let Binding::File { path, before, after } = change.binding else {
        return Err(answer::fault("internal", "the change had no binding"));
    };
    let mut end = answer::done(ctx, change.summary);
    end.seen = vec![SeenFile { path: path.clone(), hash: after.clone() }];
    if before.as_ref() != Some(&after) {
        end.files = vec![FileChange {
            path,
            before,
            after: Some(after),
            before_mode: written.before_mode,
            after_mode: Some(written.after_mode),
        }];
    }
    Ok(end)
}

fn apply(change: &Change, temp: &str) -> Result<Written, CommitError> {
    match (&change.target, &change.binding) {
        (Target::Existing(existing), Binding::File { before: Some(before), after, .. })
            if before == after =>
        {
            Ok(Written { before_mode: Some(existing.mode()), after_mode: existing.mode() })
        }
        (Target::Existing(existing), Binding::File { before: Some(before), .. }) => {
            commit::replace(&change.workspace, existing, before, &change.after, temp)
        }
        (Target::Missing(missing), _) => commit::create(missing, &change.after, temp),
        _ => Err(CommitError::Changed),
    }
}

pub(super) async fn store(tools: &Tools, bytes: Vec<u8>) -> Result<(), CallFault> {
    match tools.store.put_blob(BlobSource::Bytes(bytes.into())).await {
        Ok(_) => Ok(()),
        Err(error) => Err(answer::fault(
            "storage",
            format!("Nothing was changed: the contents cannot be kept: {error}"),
        )),
    }
}

/// What was inspected, and perhaps approved, must be what would be done now.
fn check_binding(ctx: &CallContext, change: &Change, name: &str) -> Result<(), CallFault> {
    let changed = |what: &str| {
        let text = format!(
            "Not executed: {what} since this call was checked. Nothing was changed. Read {name} again."
        );
        Err(answer::fault("changed", text))
    };
    match (&ctx.binding, &change.binding) {
        (Some(bound), now) if bound == now => Ok(()),
        (Some(Binding::File { path, .. }), Binding::File { path: now, .. }) if path != now => {
            changed(&format!("{name} led to {} and leads to {}", shown(path), shown(now)))
        }
        (Some(Binding::File { before: None, .. }), Binding::File { before: Some(_), .. }) => {
            changed(&format!("a file {name} has come into being"))
        }
        (Some(Binding::File { before: Some(_), .. }), Binding::File { before: None, .. }) => {
            changed(&format!("the file {name} has gone"))
        }
        (Some(_), _) => changed(&format!("the content of {name} has changed")),
        (None, _) => Err(answer::fault("internal", format!("Not executed: {name} was never inspected."))),
    }
}

fn plan(tools: &Tools, ctx: &CallContext, redactor: &Redactor) -> Result<Plan, CallFault> {
    let wish = Wish::of(ctx)?;
    let path = wish.path();
    let looked = inspect::look(&tools.own, &ctx.session, &path, PathOp::Write)
        .map_err(|error| answer::lookup_fault(&error))?;
    let mut facts = looked.facts;
    let (target, before) = match looked.found {
        _ if facts.protected.is_some() => return Ok(Plan { facts, change: None }),
        None => return Ok(Plan { facts, change: None }),
        Some(Found::Existing(existing)) => {
            let content = read_whole(&existing)?;
            (Target::Existing(existing), Some(content))
        }
        Some(Found::Missing(missing)) => {
            check_missing(&wish, &path, &missing)?;
            (Target::Missing(missing), None)
        }
    };
    let hash = before.as_deref().map(text::hash);
    facts.content_hash.clone_from(&hash);
    if let Some(hash) = &hash {
        check_seen(ctx, &wish, &facts, hash)?;
    }
    let (after, summary) = content_after(&wish, before.as_deref(), &target, redactor)?;
    if u64::try_from(after.len()).unwrap_or(u64::MAX) > limits::EDIT_MAX_BYTES {
        return Err(too_large(&shown(&path), after.len()));
    }
    let binding = Binding::File { path: facts.resolved.clone(), before: hash, after: text::hash(&after) };
    let change = Change { workspace: looked.workspace, target, before, after, binding, summary };
    Ok(Plan { facts, change: Some(change) })
}

fn check_missing(wish: &Wish, path: &PathBytes, missing: &Missing) -> Result<(), CallFault> {
    if matches!(wish, Wish::Edit(_)) {
        return Err(neighbours::not_found(path, missing));
    }
    if missing.folder_meant {
        let text = format!("{} names a folder that does not exist, not a file.", shown(path));
        return Err(answer::fault("path", text));
    }
    Ok(())
}

/// The whole of a file that may be changed.
pub(super) fn read_whole(existing: &Existing) -> Result<Vec<u8>, CallFault> {
    answer::only_regular(existing)?;
    let name = shown(&existing.path);
    if !existing.is_writable() {
        let text =
            format!("{name} may not be written (mode {:04o}). Change its mode first.", existing.mode());
        return Err(answer::fault("permission", text));
    }
    if existing.size() > limits::EDIT_MAX_BYTES {
        return Err(too_large(&name, existing.size()));
    }
    let failed = |error: std::io::Error| {
        answer::fault(answer::io_class(&error), format!("{name} cannot be read: {error}"))
    };
    let file = File::from(existing.open().map_err(|errno| failed(errno.into()))?);
    let mut content = Vec::with_capacity(usize::try_from(existing.size()).unwrap_or(0));
    file.take(limits::EDIT_MAX_BYTES + 1).read_to_end(&mut content).map_err(failed)?;
    if u64::try_from(content.len()).unwrap_or(u64::MAX) > limits::EDIT_MAX_BYTES {
        return Err(too_large(&name, content.len()));
    }
    Ok(content)
}

pub(super) fn too_large(name: &str, bytes: impl std::fmt::Display) -> CallFault {
    let max = limits::EDIT_MAX_BYTES;
    answer::fault(
        "too_large",
        format!("{name}: {bytes} bytes are more than the {max} that file tools change. Use a command."),
    )
}

/// A file is changed only over a content that the model knows.
fn check_seen(ctx: &CallContext, wish: &Wish, facts: &PathFacts, hash: &str) -> Result<(), CallFault> {
    let name = shown(&facts.requested);
    match (ctx.seen_files.get(&facts.resolved), wish) {
        (Some(seen), _) if seen == hash => Ok(()),
        (Some(_), _) => {
            let text = format!("Not executed: {name} has changed since it was read. Read it again.");
            Err(answer::fault("changed", text))
        }
        // What `old` matched exactly and once is known well enough.
        (None, Wish::Edit(_)) => Ok(()),
        (None, Wish::Write(_)) => {
            let text = format!(
                "Not executed: {name} exists and was not read in this session. Read it first with read_file, or change a \
                 part with edit_file."
            );
            Err(answer::fault("not_read", text))
        }
    }
}

/// The content there would be, and what is said when it is.
fn content_after(
    wish: &Wish,
    before: Option<&[u8]>,
    target: &Target,
    redactor: &Redactor,
) -> Result<(Vec<u8>, String), CallFault> {
    match (wish, before) {
        (Wish::Edit(args), Some(before)) => {
            // What an error quotes is cut, so secrets go before that.
            let quote = |line: &[u8]| redactor.redact_bytes(line).content;
            let edited = edit::replace_quoting(before, &args.old, &args.new, args.all, &quote)
                .map_err(|error| edit_fault(args, &error))?;
            let lines: Vec<String> =
                edited.spans.iter().take(limits::EDIT_PLACES_MAX).map(|s| s.line.to_string()).collect();
            let more = if edited.spans.len() > lines.len() { ", …" } else { "" };
            let (count, word) = match edited.spans.len() {
                1 => ("1 replacement".to_owned(), "line"),
                count => (format!("{count} replacements"), "lines"),
            };
            let summary =
                format!("Edited {}: {count}, {word} {}{more}", shown(&wish.path()), lines.join(", "));
            Ok((edited.bytes, summary))
        }
        (Wish::Edit(_), None) => Err(answer::fault("internal", "an edit without a file")),
        (Wish::Write(args), before) => {
            check_marks(args, before)?;
            let (content, kept) = in_old_form(args, before)?;
            let folders = match target {
                Target::Missing(missing) if missing.names.len() > 1 => ", folders made",
                _ => "",
            };
            let what = if before.is_some() { "replaced" } else { "new file" };
            let summary = format!(
                "Wrote {}: {}, {what}{folders}{kept}{}",
                shown(&wish.path()),
                amount(u64::try_from(content.len()).unwrap_or(u64::MAX), "byte"),
                lost(before, &content)
            );
            Ok((content, summary))
        }
    }
}

/// The content in the encoding, with the mark and the line ends of what it replaces, and that in words.
fn in_old_form(args: &args::WriteFile, before: Option<&[u8]>) -> Result<(Vec<u8>, String), CallFault> {
    let Some(before) = before else { return Ok((args.content.as_bytes().to_vec(), String::new())) };
    let whole = edit::written_over(before, &args.content).map_err(|missing| {
        answer::fault(
            "encoding",
            format!(
                "{} was not changed: it is read as {}, and it cannot be told how to write {:?} (U+{:04X}) in it. Use \
                 other characters, or convert the file with a command first, or remove it and write it anew.",
                shown(&PathBytes::from(args.path.as_str())),
                missing.encoding,
                missing.character,
                u32::from(missing.character)
            ),
        )
    })?;
    let kept = whole.kept.iter().map(|kept| format!(", {kept}")).collect();
    Ok((whole.bytes, kept))
}

/// What a whole new content does to the line ends of the old one.
fn lost(before: Option<&[u8]>, after: &[u8]) -> String {
    let text = |content| edit::as_read(content).map(|(_, text)| text.into_owned());
    let (Some(before), Some(after)) = (before.and_then(text), text(after)) else { return String::new() };
    let has_lines = |text: &str| text.contains(['\n', '\r']);
    if !has_lines(&before) || after.is_empty() {
        return String::new();
    }
    let mut notes = String::new();
    let words = |text: &str| edit::line_ends_in_words(text.as_bytes());
    if words(&before) != words(&after) && has_lines(&after) {
        let (old, new) = (words(&before).unwrap_or("LF"), words(&after).unwrap_or("LF"));
        notes.push_str(&format!(", line ends were {old} and are {new}"));
    }
    if before.ends_with(['\n', '\r']) && !after.ends_with(['\n', '\r']) {
        notes.push_str(", the newline at the end is gone");
    }
    notes
}

/// A redaction mark stands for a secret in the file, a replacement mark for bytes that could not be read; written
/// back they would destroy those.
fn check_marks(args: &args::WriteFile, before: Option<&[u8]>) -> Result<(), CallFault> {
    const MARK: &str = "[REDACTED:";
    const REPLACEMENT: &str = "\u{fffd}";
    let name = shown(&PathBytes::from(args.path.as_str()));
    let is_new = |mark: &str| {
        let is_there = before.is_some_and(|before| memchr::memmem::find(before, mark.as_bytes()).is_some());
        args.content.contains(mark) && !is_there
    };
    if is_new(REPLACEMENT) {
        return Err(answer::fault(
            "encoding",
            format!(
                "Not executed: the content has a replacement mark (\u{fffd}), which stands for bytes that could not be \
                 read, and is never written. Change the other parts of {name} with edit_file, or write it as an \
                 escape of the language."
            ),
        ));
    }
    if before.is_some() && is_new(MARK) {
        return Err(answer::fault(
            "redaction_mark",
            format!(
                "Not executed: the content has a redaction mark ([REDACTED:…]), which stands for a secret in {name}. \
                 Change the other parts with edit_file."
            ),
        ));
    }
    Ok(())
}

fn edit_fault(args: &args::EditFile, error: &edit::EditError) -> CallFault {
    let class = match error {
        edit::EditError::OldEmpty | edit::EditError::NoChange => "edit_empty",
        edit::EditError::NotFound { .. } => "edit_not_found",
        edit::EditError::Ambiguous { .. } => "edit_ambiguous",
        edit::EditError::Encoding(_) => "encoding",
    };
    answer::fault(class, format!("{} was not changed: {error}", shown(&PathBytes::from(args.path.as_str()))))
}

fn commit_fault(name: &str, error: &CommitError) -> CallFault {
    let class = match error {
        CommitError::Changed => "changed",
        CommitError::Owner { .. } => "permission",
        CommitError::Io { source, .. } => answer::io_class(source),
        // It was changed, and more than that.
        CommitError::Displaced { .. } => return answer::fault("displaced", format!("{name}: {error}")),
    };
    answer::fault(class, format!("{name} was not changed: {error}"))
}
