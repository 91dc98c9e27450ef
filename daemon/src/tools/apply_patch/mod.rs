//! `apply_patch`: several files, all or none, also over a kill.
//!
//! Planned twice like the other changes: once before the decision, which binds every content, and once when it runs.
//! A file that was not read may be patched, because its lines matched exactly; it may not be deleted, unless the
//! patch shows all of it.
//!
//! Deliberately absent: removal of links (refused in words), several sections for one file.

mod place;
mod plan;
mod recover;

pub(super) use recover::{evidence, finished};

use super::{Tools, answer, blocking, change, commit::CommitError};
use crate::ports::CallContext;
use crate::redact::Redactor;
use agentd_core::command::{CallEnd, CallFault, Inspection};
use agentd_core::event::{Binding, FileBinding, FileChange, SeenFile};
use agentd_core::limits;
use agentd_core::policy::NO_SANDBOX;
use agentd_core::policy::names::shown;
use plan::{Kind, Plan, Step, plan};
use std::sync::Arc;

/// The facts about every file, with the diffs a person would be shown.
pub(super) fn inspect(
    tools: &Tools,
    ctx: &CallContext,
    redactor: &Redactor,
) -> Result<Inspection, CallFault> {
    let Plan { facts, steps } = plan(tools, ctx, redactor)?;
    let mut found = Inspection { paths: facts, sandbox: NO_SANDBOX.to_owned(), ..Inspection::default() };
    if let Some(steps) = steps {
        let root = format!("{}/", shown(&ctx.session.root));
        let mut preview = String::new();
        for (done, step) in steps.iter().enumerate() {
            if preview.len() > limits::DIFF_MAX_BYTES {
                preview.push_str(&format!("… and {} more files\n", steps.len() - done));
                break;
            }
            let label = shown(&step.binding.path);
            let label = label.strip_prefix(&root).unwrap_or(&label);
            let after = step.after().unwrap_or_default();
            preview.push_str(&change::diff_as_read(label, step.before(), after, redactor));
            match &step.kind {
                Kind::Remove { .. } => preview.push_str(&format!("{label}: removed\n")),
                Kind::Create { mode, .. } if mode & 0o111 != 0 => {
                    preview.push_str(&format!("{label}: new, mode {mode:04o}\n"));
                }
                Kind::Create { content, .. } if content.is_empty() => {
                    preview.push_str(&format!("{label}: new, empty\n"));
                }
                _ => {}
            }
        }
        found.preview = Some(preview);
        found.binding = Some(binding_of(&steps));
    }
    Ok(found)
}

fn binding_of(steps: &[Step]) -> Binding {
    Binding::Files(steps.iter().map(|step| step.binding.clone()).collect())
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
    let Plan { facts, steps } = blocking(move || plan(&owned_tools, &owned, &redactor)).await??;
    let Some(steps) = steps else {
        let closed = facts.iter().find(|facts| facts.protected.is_some() || !facts.inside);
        return Err(closed
            .or(facts.first())
            .map_or_else(|| answer::fault("internal", "the patch has no file"), answer::out_of_reach));
    };
    check_binding(ctx, &steps)?;
    for step in &steps {
        for content in [step.before(), step.after()].into_iter().flatten() {
            change::store(tools, content.to_vec()).await?;
        }
    }
    let call_id = ctx.call_id.clone();
    let (steps, placed) = blocking(move || {
        let placed = place::place_all(&steps, &call_id, &mut |_| {});
        (steps, placed)
    })
    .await?;
    let modes = placed.map_err(|failure| place_fault(&steps, &failure))?;
    let mut lines = Vec::with_capacity(steps.len());
    let (mut files, mut seen) = (Vec::new(), Vec::new());
    for (step, after_mode) in steps.iter().zip(modes) {
        lines.push(step.summary.clone());
        let FileBinding { path, before, after, before_mode } = step.binding.clone();
        if let Some(hash) = &after {
            seen.push(SeenFile { path: path.clone(), hash: hash.clone() });
        }
        files.push(FileChange { path, before, after, before_mode, after_mode });
    }
    let mut text = format!("Patched {} {}:", steps.len(), if steps.len() == 1 { "file" } else { "files" });
    for (done, line) in lines.iter().enumerate() {
        if text.len() + line.len() > ctx.bounds.max_bytes {
            text.push_str(&format!("\n… and {} more", lines.len() - done));
            break;
        }
        text.push('\n');
        text.push_str(line);
    }
    Ok(CallEnd { files, seen, ..answer::done(ctx, text) })
}

fn check_binding(ctx: &CallContext, steps: &[Step]) -> Result<(), CallFault> {
    let bound = match &ctx.binding {
        Some(bound) if *bound == binding_of(steps) => return Ok(()),
        Some(Binding::Files(bound)) => bound.as_slice(),
        _ => return Err(answer::fault("internal", "Not executed: the patch was never inspected.")),
    };
    let other = steps.iter().enumerate().find(|(at, step)| bound.get(*at) != Some(&step.binding));
    let name = other.map_or_else(|| "a file".to_owned(), |(_, step)| shown(&step.facts.requested));
    let text = format!(
        "Not executed: {name} has changed since this call was checked. Nothing was changed. Read it again."
    );
    Err(answer::fault("changed", text))
}

fn place_fault(steps: &[Step], failure: &place::Failure) -> CallFault {
    let name = steps.get(failure.at).map_or_else(String::new, |step| shown(&step.facts.requested));
    let error = &failure.error;
    let class = match error {
        CommitError::Changed => "changed",
        CommitError::Owner { .. } => "permission",
        CommitError::Io { source, .. } => answer::io_class(source),
    };
    if failure.not_restored.is_empty() {
        return answer::fault(class, format!("Nothing was changed: {name}: {error}"));
    }
    let states = failure.not_restored.join("\n");
    answer::fault(
        "half_done",
        format!(
            "{name} was not changed: {error}. All other files were put back, but these were not:\n{states}"
        ),
    )
}

#[cfg(test)]
#[path = "patch_tests.rs"]
mod tests;
