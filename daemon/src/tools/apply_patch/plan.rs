//! What a patch would do, file by file. Nothing is changed here.

use super::super::{Tools, answer, args, change, neighbours, text};
use crate::inspect::{self, Existing, Found, Looked, Missing, Workspace};
use crate::ports::CallContext;
use crate::redact::Redactor;
use agentd_core::command::CallFault;
use agentd_core::edit::patch::{self, Action, FilePatch, Hunk, PatchError};
use agentd_core::event::{FileBinding, PathFacts, PathOp};
use agentd_core::limits;
use agentd_core::path_bytes::PathBytes;
use agentd_core::policy::names::shown;
use rustix::fs::Stat;
use std::collections::BTreeSet;

/// The facts of every path, and the steps unless one of them may not be looked at.
pub(super) struct Plan {
    pub(super) facts: Vec<PathFacts>,
    pub(super) steps: Option<Vec<Step>>,
}

/// What becomes of one path.
pub(super) struct Step {
    pub(super) facts: PathFacts,
    pub(super) workspace: Workspace,
    pub(super) kind: Kind,
    pub(super) binding: FileBinding,
    pub(super) summary: String,
}

pub(super) enum Kind {
    Replace {
        existing: Existing,
        before: Vec<u8>,
        content: Vec<u8>,
    },
    /// `like` is the file whose owner and mode it takes over.
    Create {
        missing: Missing,
        content: Vec<u8>,
        mode: u32,
        like: Option<Box<Stat>>,
    },
    Remove {
        existing: Existing,
        before: Vec<u8>,
    },
}

impl Step {
    pub(super) fn before(&self) -> Option<&[u8]> {
        match &self.kind {
            Kind::Replace { before, .. } | Kind::Remove { before, .. } => Some(before),
            Kind::Create { .. } => None,
        }
    }
    pub(super) fn after(&self) -> Option<&[u8]> {
        match &self.kind {
            Kind::Replace { content, .. } | Kind::Create { content, .. } => Some(content),
            Kind::Remove { .. } => None,
        }
    }

    fn new(looked: Looked, kind: Kind, summary: String) -> Self {
        let hash = |content: &Vec<u8>| Some(text::hash(content));
        let (before, after, before_mode) = match &kind {
            Kind::Replace { existing, before, content } => {
                (hash(before), hash(content), Some(existing.mode()))
            }
            Kind::Create { content, .. } => (None, hash(content), None),
            Kind::Remove { existing, before } => (hash(before), None, Some(existing.mode())),
        };
        let path = looked.facts.resolved.clone();
        let binding = FileBinding { path, before, after, before_mode };
        Self { facts: looked.facts, workspace: looked.workspace, kind, binding, summary }
    }
}

/// A file of the patch with what is at its names.
struct Place {
    file: FilePatch,
    at: Looked,
    to: Option<Looked>,
}

pub(super) fn plan(tools: &Tools, ctx: &CallContext, redactor: &Redactor) -> Result<Plan, CallFault> {
    let args: args::ApplyPatch = args::parse(ctx)?;
    let files = patch::parse(&args.patch)
        .map_err(|error| answer::fault("patch", format!("Nothing was changed: {error}.")))?;
    let look = |path: &PathBytes, op: PathOp| -> Result<Looked, CallFault> {
        // Every change is judged as a write; the facts say which it is.
        let mut looked = inspect::look(&tools.own, &ctx.session, path, PathOp::Write)
            .map_err(|error| answer::lookup_fault(&error))?;
        looked.facts.op = op;
        Ok(looked)
    };
    let (mut places, mut facts) = (Vec::with_capacity(files.len()), Vec::new());
    let (mut is_closed, mut names) = (false, BTreeSet::new());
    for file in files {
        let (op, move_to) = match &file.action {
            Action::Add { .. } => (PathOp::Create, None),
            Action::Delete { .. } => (PathOp::Delete, None),
            Action::Update { move_to: Some(to), .. } => (PathOp::Delete, Some(to)),
            Action::Update { .. } => (PathOp::Write, None),
        };
        let at = look(&file.path, op)?;
        let to = move_to.map(|to| look(to, PathOp::Create)).transpose()?;
        for looked in [Some(&at), to.as_ref()].into_iter().flatten() {
            is_closed |= looked.facts.protected.is_some() || looked.found.is_none();
            if !names.insert(looked.facts.resolved.clone()) {
                let name = shown(&looked.facts.requested);
                let text = format!(
                    "Nothing was changed: line {} of the patch: {name} is in it twice. Put all hunks of a file into one section.",
                    file.line
                );
                return Err(answer::fault("patch", text));
            }
            facts.push(looked.facts.clone());
        }
        places.push(Place { file, at, to });
    }
    if is_closed {
        return Ok(Plan { facts, steps: None });
    }
    let (mut steps, mut faults) = (Vec::new(), Vec::new());
    for place in places {
        match steps_of(ctx, place, redactor) {
            Ok(more) => steps.extend(more),
            Err(fault) => faults.push(fault),
        }
        if faults.len() == limits::PATCH_FAULTS_MAX {
            break;
        }
    }
    let texts: Vec<&str> = faults.iter().map(|fault| fault.text.as_str()).collect();
    let text = format!("Nothing was changed. {}", texts.join("\n"));
    if let Some(first) = faults.first() {
        return Err(CallFault { text, class: first.class.clone(), outcome: first.outcome });
    }
    for (facts, step) in facts.iter_mut().zip(&steps) {
        facts.content_hash.clone_from(&step.binding.before);
    }
    Ok(Plan { facts, steps: Some(steps) })
}

/// What becomes of one file, in the order of its facts.
fn steps_of(ctx: &CallContext, place: Place, redactor: &Redactor) -> Result<Vec<Step>, CallFault> {
    let Place { file, mut at, to } = place;
    let name = shown(&file.path);
    let found = at.found.take();
    let (existing, missing) = match found {
        Some(Found::Existing(existing)) => (Some(existing), None),
        Some(Found::Missing(missing)) => (None, Some(missing)),
        None => (None, None),
    };
    if let Action::Add { content, is_executable } = file.action {
        check_marks(&name, &content, None)?;
        let missing = free(&name, missing)?;
        let mode = if is_executable { 0o755 } else { 0o644 };
        let summary = format!("{name}: new file, {} bytes", content.len());
        let kind = Kind::Create { missing, content: content.into_bytes(), mode, like: None };
        check_size(&name, &kind)?;
        return Ok(vec![Step::new(at, kind, summary)]);
    }
    let existing = match (existing, missing) {
        (Some(existing), _) => existing,
        (None, Some(missing)) => return Err(neighbours::not_found(&file.path, &missing)),
        (None, None) => return Err(answer::out_of_reach(&at.facts)),
    };
    let before = change::read_whole(&existing)?;
    let was_seen = check_seen(ctx, &at.facts, &before)?;
    match file.action {
        Action::Delete { hunks } => {
            refuse_link(&at, &file.path, &existing)?;
            let (after, _) = patched(&name, &before, &hunks, redactor)?;
            if !hunks.is_empty() && !after.is_empty() {
                let text =
                    format!("{name}: the patch deletes it, but its hunks do not show all of its lines.");
                return Err(answer::fault("patch", text));
            }
            if !was_seen && hunks.is_empty() {
                let text = format!(
                    "Not executed: {name} was not read in this session and would be deleted. Read it first."
                );
                return Err(answer::fault("not_read", text));
            }
            Ok(vec![Step::new(at, Kind::Remove { existing, before }, format!("{name}: deleted"))])
        }
        Action::Update { hunks, .. } => {
            let (content, lines) = patched(&name, &before, &hunks, redactor)?;
            let Some(mut to) = to else {
                if content == before {
                    return Err(answer::fault("patch", format!("{name}: the patch changes nothing in it.")));
                }
                let summary = format!("{name}: changed{lines}");
                let kind = Kind::Replace { existing, before, content };
                check_size(&name, &kind)?;
                return Ok(vec![Step::new(at, kind, summary)]);
            };
            refuse_link(&at, &file.path, &existing)?;
            let new_name = shown(&to.facts.requested);
            let missing = match to.found.take() {
                Some(Found::Missing(missing)) => Some(missing),
                _ => None,
            };
            let missing = free(&new_name, missing)?;
            let (mode, like) = (existing.mode(), Some(Box::new(existing.stat)));
            let moved = format!("{name}: moved to {new_name}{lines}");
            let kind = Kind::Create { missing, content, mode, like };
            check_size(&new_name, &kind)?;
            let made = Step::new(to, kind, format!("{new_name}: moved from {name}"));
            Ok(vec![Step::new(at, Kind::Remove { existing, before }, moved), made])
        }
        Action::Add { .. } => Err(answer::fault("internal", "a new file that exists")),
    }
}

fn free(name: &str, missing: Option<Missing>) -> Result<Missing, CallFault> {
    match missing {
        Some(missing) if !missing.folder_meant => Ok(missing),
        Some(_) => {
            Err(answer::fault("path", format!("{name} names a folder that does not exist, not a file.")))
        }
        None => {
            Err(answer::fault("exists", format!("{name} exists already: update it, or take another name.")))
        }
    }
}

fn check_size(name: &str, kind: &Kind) -> Result<(), CallFault> {
    let (Kind::Replace { content, .. } | Kind::Create { content, .. }) = kind else { return Ok(()) };
    if u64::try_from(content.len()).unwrap_or(u64::MAX) > limits::EDIT_MAX_BYTES {
        return Err(change::too_large(name, content.len()));
    }
    Ok(())
}

/// Whether the model knows this content.
fn check_seen(ctx: &CallContext, facts: &PathFacts, before: &[u8]) -> Result<bool, CallFault> {
    match ctx.seen_files.get(&facts.resolved) {
        None => Ok(false),
        Some(seen) if *seen == text::hash(before) => Ok(true),
        Some(_) => {
            let name = shown(&facts.requested);
            let text = format!("Not executed: {name} has changed since it was read. Read it again.");
            Err(answer::fault("changed", text))
        }
    }
}

/// Whether the last name of a path is a link: then the file elsewhere is not what is to go.
fn refuse_link(at: &Looked, requested: &PathBytes, existing: &Existing) -> Result<(), CallFault> {
    let bytes = requested.as_bytes();
    let (folder, last) = match memchr::memrchr(b'/', bytes) {
        Some(0) => (&b"/"[..], &bytes[1..]),
        Some(slash) => (&bytes[..slash], &bytes[slash + 1..]),
        None => (&b"."[..], bytes),
    };
    let direct = match at.workspace.lookup(folder) {
        Ok(Found::Existing(folder)) => {
            let mut path = folder.path.as_bytes().to_vec();
            if path != b"/" {
                path.push(b'/');
            }
            path.extend_from_slice(last);
            path == existing.path.as_bytes()
        }
        _ => false,
    };
    if direct {
        return Ok(());
    }
    let (name, path) = (shown(requested), shown(&existing.path));
    let text = format!(
        "{name} is a link to {path}; a patch removes and moves only files. Name {path}, or use a command."
    );
    Err(answer::fault("file_type", text))
}

fn check_marks(name: &str, added: &str, before: Option<&[u8]>) -> Result<(), CallFault> {
    const MARK: &str = "[REDACTED:";
    let is_new = |mark: &str| {
        added.contains(mark) && before.is_none_or(|old| memchr::memmem::find(old, mark.as_bytes()).is_none())
    };
    if before.is_some() && is_new(MARK) {
        let text = format!(
            "Not executed: an added line for {name} has a redaction mark ([REDACTED:…]), which stands for a secret in it. \
             Leave such lines as they are."
        );
        return Err(answer::fault("redaction_mark", text));
    }
    if before.is_none() && is_new("\u{fffd}") {
        let text = format!(
            "Not executed: the content of {name} has a replacement mark (\u{fffd}), which stands for bytes that could not \
             be read, and is never written."
        );
        return Err(answer::fault("encoding", text));
    }
    Ok(())
}

/// The content after the hunks, and where they are in words.
fn patched(
    name: &str,
    before: &[u8],
    hunks: &[Hunk],
    redactor: &Redactor,
) -> Result<(Vec<u8>, String), CallFault> {
    if hunks.is_empty() {
        return Ok((before.to_vec(), String::new()));
    }
    for hunk in hunks {
        let added: Vec<&str> = hunk.added().collect();
        check_marks(name, &added.join("\n"), Some(before))?;
    }
    let quote = |line: &[u8]| redactor.redact_bytes(line).content;
    let applied = patch::apply(before, hunks, &quote).map_err(|errors| {
        let number =
            |error: &PatchError| hunks.iter().position(|hunk| hunk.line == error.line).map_or(1, |at| at + 1);
        let texts: Vec<String> =
            errors.iter().map(|error| format!("{name}, hunk {}, {error}", number(error))).collect();
        answer::fault("patch_mismatch", texts.join("\n"))
    })?;
    let shown: Vec<String> =
        applied.places.iter().take(limits::EDIT_PLACES_MAX).map(ToString::to_string).collect();
    let more = if applied.places.len() > shown.len() { ", …" } else { "" };
    let word = if applied.places.len() == 1 { "line" } else { "lines" };
    Ok((applied.bytes, format!(", {word} {}{more}", shown.join(", "))))
}
