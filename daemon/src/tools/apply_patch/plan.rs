//! What a patch would do, file by file, on what is there now.

use crate::inspect::{self, Existing, Found, Looked};
use crate::ports::CallContext;
use crate::redact::Redactor;
use crate::tools::{Tools, answer, args, change, neighbours, text};
use agentd_core::command::CallFault;
use agentd_core::edit::patch::{self, Change, FilePatch, Hunk, PatchError};
use agentd_core::event::{FileBinding, PathFacts, PathOp};
use agentd_core::limits;
use agentd_core::path_bytes::PathBytes;
use agentd_core::policy::names::shown;
use rustix::fs::{AtFlags, FileType, Stat};
use std::collections::HashMap;

/// What a call would do.
pub(super) struct Plan {
    /// Every path, in the order of the patch.
    pub(super) facts: Vec<PathFacts>,
    /// Whether all paths may be touched; the steps are not complete otherwise.
    pub(super) in_reach: bool,
    /// In order.
    pub(super) steps: Vec<Step>,
}

/// What happens to one name.
pub(super) struct Step {
    /// As the patch names it.
    pub(super) name: String,
    /// Where it really is.
    pub(super) binding: FileBinding,
    pub(super) before: Option<Vec<u8>>,
    pub(super) after: Option<Vec<u8>>,
    /// What is replaced or removed.
    pub(super) old: Option<Stat>,
    pub(super) kind: Kind,
}

/// Why it happens.
pub(super) enum Kind {
    /// Lines change: which, from 1.
    Update { lines: Vec<usize> },
    /// A new file.
    Add { executable: bool },
    /// It goes.
    Delete,
    /// It comes from another name, where it is removed by the step that follows. With the bits and owner it has there.
    MovedHere { from: String, content: Vec<u8>, like: Box<Stat>, lines: Vec<usize> },
    /// It goes to the name of the step before.
    MovedAway,
}

impl Step {
    /// Whether anything is different afterwards.
    pub(super) fn changes(&self) -> bool {
        self.binding.before != self.binding.after
    }
}

/// A plan in the making.
struct Planning<'a> {
    tools: &'a Tools,
    ctx: &'a CallContext,
    redactor: &'a Redactor,
    plan: Plan,
    /// Steps by their real path.
    by_path: HashMap<PathBytes, usize>,
    bytes: usize,
}

pub(super) fn plan(tools: &Tools, ctx: &CallContext, redactor: &Redactor) -> Result<Plan, CallFault> {
    let args: args::ApplyPatch = args::parse(ctx)?;
    let patch = patch::parse(&args.patch)
        .map_err(|error| answer::fault("patch_form", format!("Nothing was changed: {error}")))?;
    let plan = Plan { facts: Vec::new(), in_reach: true, steps: Vec::new() };
    let mut planning = Planning { tools, ctx, redactor, plan, by_path: HashMap::new(), bytes: 0 };
    for file in &patch.files {
        match &file.change {
            Change::Add { content, executable } => planning.add(file, content, *executable)?,
            Change::Delete { hunks } => planning.delete(file, hunks)?,
            Change::Update { move_to: None, hunks } => planning.update(file, hunks)?,
            Change::Update { move_to: Some(to), hunks } => planning.relocate(file, to, hunks)?,
        }
    }
    inspect::caution_together(&ctx.session, &mut planning.plan.facts);
    Ok(planning.plan)
}

fn unchanged(class: &str, what: impl std::fmt::Display) -> CallFault {
    answer::fault(class, format!("Nothing was changed: {what}"))
}

impl Planning<'_> {
    /// Looks a path up for one operation. None when it may not be touched.
    fn look(&mut self, path: &PathBytes, op: PathOp) -> Result<Option<(Looked, Found)>, CallFault> {
        let looked = inspect::look(&self.tools.own, &self.ctx.session, path, op).map_err(|error| {
            let fault = answer::lookup_fault(&error);
            CallFault { text: format!("{}: {}", shown(path), fault.text), ..fault }
        })?;
        self.plan.facts.push(looked.facts.clone());
        let Looked { facts, found, workspace } = looked;
        match found {
            Some(found) if facts.protected.is_none() => {
                Ok(Some((Looked { facts, found: None, workspace }, found)))
            }
            _ => {
                self.plan.in_reach = false;
                Ok(None)
            }
        }
    }

    /// The content of a file that the model may change, and its hash.
    fn content(&mut self, existing: &Existing, facts: &PathFacts) -> Result<(Vec<u8>, String), CallFault> {
        let content = change::read_whole(existing)?;
        let hash = text::hash(&content);
        if let Some(facts) = self.plan.facts.last_mut() {
            facts.content_hash = Some(hash.clone());
        }
        let name = shown(&facts.requested);
        match self.ctx.seen_files.get(&facts.resolved) {
            Some(seen) if *seen != hash => Err(answer::fault(
                "changed",
                format!("Not executed: {name} has changed since it was read. Read it again."),
            )),
            _ => Ok((content, hash)),
        }
    }

    fn is_seen(&self, facts: &PathFacts) -> bool {
        self.ctx.seen_files.contains_key(&facts.resolved)
    }

    fn push(&mut self, step: Step) -> Result<(), CallFault> {
        let path = step.binding.path.clone();
        if self.by_path.contains_key(&path) {
            return Err(unchanged(
                "patch_twice",
                format!(
                    "{} is named twice in this patch, and not only to change lines of it. Put all that happens to a file \
                     into one section, or use two patches.",
                    step.name
                ),
            ));
        }
        self.bytes += step.before.as_ref().map_or(0, Vec::len) + step.after.as_ref().map_or(0, Vec::len);
        if self.bytes > limits::PATCH_MAX_BYTES {
            let max = limits::PATCH_MAX_BYTES;
            let what =
                format!("the files of this patch have more than {max} bytes together. Use several patches.");
            return Err(unchanged("too_large", what));
        }
        self.by_path.insert(path, self.plan.steps.len());
        self.plan.steps.push(step);
        Ok(())
    }

    fn add(&mut self, file: &FilePatch, content: &str, executable: bool) -> Result<(), CallFault> {
        let Some((looked, found)) = self.look(&file.path, PathOp::Create)? else { return Ok(()) };
        self.check_free(&file.path, &found)?;
        let name = shown(&file.path);
        if content.contains(char::REPLACEMENT_CHARACTER) {
            return Err(replacement_mark(&name));
        }
        let after = content.as_bytes().to_vec();
        check_size(&name, &after)?;
        self.push(Step {
            name,
            binding: FileBinding {
                path: looked.facts.resolved,
                before: None,
                after: Some(text::hash(&after)),
                before_mode: None,
            },
            before: None,
            after: Some(after),
            old: None,
            kind: Kind::Add { executable },
        })
    }

    /// Refuses a path where something is.
    fn check_free(&self, path: &PathBytes, found: &Found) -> Result<(), CallFault> {
        let name = shown(path);
        match found {
            Found::Existing(existing) => Err(unchanged(
                "exists",
                format!(
                    "{name} is there already ({}). Change it with `*** Update File`, or write it whole with write_file.",
                    answer::kind_in_words(existing.kind())
                ),
            )),
            Found::Missing(missing) if missing.folder_meant => {
                Err(unchanged("path", format!("{name} names a folder that does not exist, not a file.")))
            }
            Found::Missing(_) => Ok(()),
        }
    }

    fn update(&mut self, file: &FilePatch, hunks: &[Hunk]) -> Result<(), CallFault> {
        let Some((looked, found)) = self.look(&file.path, PathOp::Write)? else { return Ok(()) };
        if let Some(index) = self.by_path.get(&looked.facts.resolved).copied() {
            return self.update_again(index, file, hunks);
        }
        let existing = existing(&file.path, found)?;
        let (before, hash) = self.content(&existing, &looked.facts)?;
        let (after, lines) = self.patched(file, &before, hunks)?;
        self.push(Step {
            name: shown(&file.path),
            binding: FileBinding {
                path: looked.facts.resolved,
                before: Some(hash),
                after: Some(text::hash(&after)),
                before_mode: Some(existing.mode()),
            },
            before: Some(before),
            after: Some(after),
            old: Some(existing.stat),
            kind: Kind::Update { lines },
        })
    }

    /// Another section about a file whose lines change: on top of the first.
    fn update_again(&mut self, index: usize, file: &FilePatch, hunks: &[Hunk]) -> Result<(), CallFault> {
        let twice = || {
            let name = shown(&file.path);
            unchanged(
                "patch_twice",
                format!("{name} is changed and also added, deleted or moved by this patch. Use two patches."),
            )
        };
        let step = self.plan.steps.get(index).ok_or_else(twice)?;
        let (Kind::Update { .. }, Some(base)) = (&step.kind, &step.after) else { return Err(twice()) };
        let (after, more) = self.patched(file, base, hunks)?;
        let hash = step.binding.before.clone();
        if let Some(facts) = self.plan.facts.last_mut() {
            facts.content_hash = hash;
        }
        let Some(step) = self.plan.steps.get_mut(index) else { return Err(twice()) };
        if let Kind::Update { lines } = &mut step.kind {
            lines.extend(more);
        }
        step.binding.after = Some(text::hash(&after));
        step.after = Some(after);
        Ok(())
    }

    fn delete(&mut self, file: &FilePatch, hunks: &[Hunk]) -> Result<(), CallFault> {
        let Some((looked, found)) = self.look(&file.path, PathOp::Delete)? else { return Ok(()) };
        let existing = existing(&file.path, found)?;
        refuse_link(&looked, &file.path, "deleted")?;
        let (before, hash) = self.content(&existing, &looked.facts)?;
        let name = shown(&file.path);
        // A patch that has every line of it knows it.
        if hunks.is_empty() && !self.is_seen(&looked.facts) {
            return Err(unchanged(
                "not_read",
                format!(
                    "{name} is to be deleted and was not read in this session. Read it first with read_file."
                ),
            ));
        }
        if !hunks.is_empty() {
            let (left, _) = self.patched(file, &before, hunks)?;
            if !left.is_empty() && left != b"\xef\xbb\xbf" {
                let what = format!("{name} is to be deleted, but the patch removes only some of its lines.");
                return Err(unchanged("patch_not_found", what));
            }
        }
        self.push(Step {
            name,
            binding: FileBinding {
                path: looked.facts.resolved,
                before: Some(hash),
                after: None,
                before_mode: Some(existing.mode()),
            },
            before: Some(before),
            after: None,
            old: Some(existing.stat),
            kind: Kind::Delete,
        })
    }

    fn relocate(&mut self, file: &FilePatch, to: &PathBytes, hunks: &[Hunk]) -> Result<(), CallFault> {
        let source = self.look(&file.path, PathOp::Delete)?;
        let mut content = None;
        if let Some((looked, found)) = source {
            let existing = existing(&file.path, found)?;
            refuse_link(&looked, &file.path, "moved")?;
            let (before, hash) = self.content(&existing, &looked.facts)?;
            content = Some((looked.facts.resolved, existing, before, hash));
        }
        let target = self.look(to, PathOp::Create)?;
        let (Some((old_path, existing, before, hash)), Some((looked, found))) = (content, target) else {
            return Ok(());
        };
        self.check_free(to, &found)?;
        let (after, lines) = self.patched(file, &before, hunks)?;
        let (from, name) = (shown(&file.path), shown(to));
        self.push(Step {
            name,
            binding: FileBinding {
                path: looked.facts.resolved,
                before: None,
                after: Some(text::hash(&after)),
                before_mode: None,
            },
            before: None,
            after: Some(after),
            old: None,
            kind: Kind::MovedHere {
                from: from.clone(),
                content: before.clone(),
                like: Box::new(existing.stat),
                lines,
            },
        })?;
        self.push(Step {
            name: from,
            binding: FileBinding {
                path: old_path,
                before: Some(hash),
                after: None,
                before_mode: Some(existing.mode()),
            },
            before: Some(before),
            after: None,
            old: Some(existing.stat),
            kind: Kind::MovedAway,
        })
    }

    /// The content with its hunks, and the lines they are at.
    fn patched(
        &self,
        file: &FilePatch,
        before: &[u8],
        hunks: &[Hunk],
    ) -> Result<(Vec<u8>, Vec<usize>), CallFault> {
        const MARK: &[u8] = b"[REDACTED:";
        let name = shown(&file.path);
        let quote = |line: &[u8]| self.redactor.redact_bytes(line).content;
        let edited = patch::patched(before, hunks, &quote).map_err(|error| {
            let class = match error {
                PatchError::Form { .. } => "patch_form",
                PatchError::Missing { .. } => "patch_not_found",
                PatchError::Ambiguous { .. } => "patch_ambiguous",
                PatchError::Encoding(_) => "encoding",
            };
            unchanged(class, format!("{name}: {error}"))
        })?;
        let has = |content: &[u8]| memchr::memmem::find(content, MARK).is_some();
        if has(&edited.bytes) && !has(before) {
            return Err(unchanged(
                "redaction_mark",
                format!(
                    "a line that the patch adds to {name} has a redaction mark ([REDACTED:…]), which stands for a secret. \
                     Leave such lines as they are."
                ),
            ));
        }
        check_size(&name, &edited.bytes)?;
        Ok((edited.bytes, edited.spans.iter().map(|span| span.line).collect()))
    }
}

fn existing(path: &PathBytes, found: Found) -> Result<Existing, CallFault> {
    match found {
        Found::Existing(existing) => Ok(existing),
        Found::Missing(missing) => {
            let fault = neighbours::not_found(path, &missing);
            Err(CallFault { text: format!("Nothing was changed: {}", fault.text), ..fault })
        }
    }
}

fn check_size(name: &str, content: &[u8]) -> Result<(), CallFault> {
    if u64::try_from(content.len()).unwrap_or(u64::MAX) > limits::EDIT_MAX_BYTES {
        return Err(change::too_large(name, content.len()));
    }
    Ok(())
}

fn replacement_mark(name: &str) -> CallFault {
    unchanged(
        "encoding",
        format!(
            "a line of {name} has a replacement mark (\u{fffd}), which stands for bytes that could not be read, and is \
             never written: leave it out, or write it as an escape of the language."
        ),
    )
}

/// Of a link it would not be clear whether it or the file behind it is meant.
fn refuse_link(looked: &Looked, path: &PathBytes, act: &str) -> Result<(), CallFault> {
    let bytes = path.as_bytes();
    let (folder, last) = match bytes.iter().rposition(|byte| *byte == b'/') {
        Some(0) => (&b"/"[..], &bytes[1..]),
        Some(at) => (&bytes[..at], &bytes[at + 1..]),
        None => (&b"."[..], bytes),
    };
    let Ok(Found::Existing(folder)) = looked.workspace.lookup(folder) else { return Ok(()) };
    let is_link = rustix::fs::statat(&folder.fd, last, AtFlags::SYMLINK_NOFOLLOW)
        .is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::Symlink);
    if is_link {
        let (name, real) = (shown(path), shown(&looked.facts.resolved));
        let what = format!(
            "{name} is a link to {real}, and links are not {act} by a patch. Name the file itself, or use a command."
        );
        return Err(unchanged("file_type", what));
    }
    Ok(())
}
