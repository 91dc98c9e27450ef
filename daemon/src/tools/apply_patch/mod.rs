//! `apply_patch`: several files changed by one call, all of them or none.
//!
//! Like the other changes it is planned twice by the same function, before the decision and when it runs, and anything
//! but the same plan is refused. Every path is looked at, and judged, by itself: a file that is moved counts as
//! removed in one place and made in another.
//!
//! Invariants:
//! * contents before and after are in the store before the first file is touched;
//! * when anything fails, every file is as it was, or the result says which is not;
//! * after a kill the files are all new or all old ([`evidence`]).
//!
//! Deliberately absent: links (a patch changes the file behind one, and neither deletes nor moves one), permission
//! bits, binary patches.

mod places;
mod plan;
mod recover;
mod swap;
mod words;

pub(super) use recover::{evidence, finished};

use super::commit::CommitError;
use super::{Tools, answer, blocking, change};
use crate::ports::CallContext;
use crate::redact::Redactor;
use agentd_core::command::{CallEnd, CallFault, Inspection};
use agentd_core::event::{Binding, FileBinding, PathFacts};
use agentd_core::policy::NO_SANDBOX;
use agentd_core::policy::names::shown;
use places::Places;
use plan::{Plan, Step};
use std::sync::Arc;
use swap::{Failure, Swap};

/// The facts about a patch, with the diff a person would be shown.
pub(super) fn inspect(
    tools: &Tools,
    ctx: &CallContext,
    redactor: &Redactor,
) -> Result<Inspection, CallFault> {
    let plan = plan::plan(tools, ctx, redactor)?;
    let mut found = Inspection { paths: plan.facts, sandbox: NO_SANDBOX.to_owned(), ..Inspection::default() };
    if plan.in_reach {
        if !plan.steps.iter().any(Step::changes) {
            let text =
                "Nothing was changed: the patch makes no difference but for line ends, which are kept.";
            return Err(answer::fault("edit_empty", text));
        }
        found.preview = Some(words::preview(&ctx.session.root, &plan.steps, redactor));
        found.binding = Some(Binding::Files(plan.steps.iter().map(|step| step.binding.clone()).collect()));
    }
    Ok(found)
}

/// Makes the changes that were bound.
pub(super) async fn run(tools: &Tools, ctx: &CallContext, redactor: &Arc<Redactor>) -> CallEnd {
    match make(tools, ctx, redactor, || false).await {
        Ok(end) => end,
        Err(fault) => answer::from_fault(ctx, fault),
    }
}

/// The same; `halts` is asked before each change of a folder and may stop it there, as a kill would.
async fn make(
    tools: &Tools,
    ctx: &CallContext,
    redactor: &Arc<Redactor>,
    mut halts: impl FnMut() -> bool + Send + 'static,
) -> Result<CallEnd, CallFault> {
    let (owned_tools, owned, owned_redactor) = (tools.clone(), ctx.clone(), redactor.clone());
    let plan = blocking(move || {
        check_unchanged(&owned)?;
        plan::plan(&owned_tools, &owned, &owned_redactor)
    })
    .await??;
    if let Some(facts) = out_of_reach(&plan) {
        return Err(answer::out_of_reach(facts));
    }
    check_binding(ctx, &plan.steps)?;
    // All contents are safe before the first file is touched: to undo, and to know our own work by.
    for step in plan.steps.iter().filter(|step| step.changes()) {
        for content in [&step.before, &step.after].into_iter().flatten() {
            change::store(tools, content.clone()).await?;
        }
    }
    let owned = ctx.clone();
    let (plan, result) = blocking(move || {
        let places = Places::of(&owned.session).map_err(|error| answer::lookup_fault(&error));
        let result = places.map(|places| Swap::new(&places, &plan.steps, &owned.call_id, &mut halts).run());
        (plan, result)
    })
    .await?;
    Ok(match result? {
        Ok(modes) => {
            let mut end = answer::done(ctx, words::summary(&plan.steps, ctx.bounds.max_bytes));
            for (step, mode) in plan.steps.iter().zip(modes) {
                recover::note(&mut end, &step.binding, mode);
            }
            end
        }
        Err(Failure::Halted) => answer::failed(ctx, "internal", "it was stopped half-way"),
        Err(Failure::Broken { step, error, stuck }) => broken(ctx, &plan.steps, (step, &error), &stuck),
    })
}

fn out_of_reach(plan: &Plan) -> Option<&PathFacts> {
    let is_bad = |facts: &&PathFacts| facts.protected.is_some() || !facts.inside;
    if plan.in_reach { None } else { plan.facts.iter().find(is_bad).or(plan.facts.first()) }
}

fn changed(name: &str) -> CallFault {
    let text = format!(
        "Not executed: {name} has changed since this call was checked. Nothing was changed. Read it again."
    );
    answer::fault("changed", text)
}

/// What was there when the call was checked must be there now; asked first, because a hunk that has lost its place
/// would say less.
fn check_unchanged(ctx: &CallContext) -> Result<(), CallFault> {
    let Some(Binding::Files(bound)) = &ctx.binding else {
        return Err(answer::fault("internal", "Not executed: the patch was never inspected."));
    };
    let places = Places::of(&ctx.session).map_err(|error| answer::lookup_fault(&error))?;
    let is_other = |file: &&FileBinding| !places.now(&file.path).is(file.before.as_deref());
    bound.iter().find(is_other).map_or(Ok(()), |file| Err(changed(&shown(&file.path))))
}

fn check_binding(ctx: &CallContext, steps: &[Step]) -> Result<(), CallFault> {
    let Some(Binding::Files(bound)) = &ctx.binding else { return Err(changed("the patch")) };
    if bound.len() != steps.len() {
        return Err(changed("where a path of it leads"));
    }
    let other = bound.iter().zip(steps).find(|(bound, step)| **bound != step.binding);
    other.map_or(Ok(()), |(_, step)| Err(changed(&step.name)))
}

fn broken(
    ctx: &CallContext,
    steps: &[Step],
    (at, error): (usize, &CommitError),
    stuck: &[(usize, String)],
) -> CallEnd {
    let name = |at: usize| steps.get(at).map_or_else(String::new, |step| step.name.clone());
    if stuck.is_empty() {
        let class = match error {
            CommitError::Changed => "changed",
            CommitError::Owner { .. } => "permission",
            CommitError::Io { source, .. } => answer::io_class(source),
            CommitError::Displaced { .. } => "displaced",
        };
        let text = format!(
            "Nothing was changed. {} could not be changed, and the others were put back: {error}",
            name(at)
        );
        return answer::failed(ctx, class, text);
    }
    let mut text = format!(
        "Only in part undone. {} could not be changed: {error}. These could not be put back, all others are as before:",
        name(at)
    );
    let mut end = answer::failed(ctx, "partly", String::new());
    for (at, how) in stuck {
        text.push_str(&format!("\n{}: {how}", name(*at)));
        if let Some(step) = steps.get(*at) {
            recover::note(&mut end, &step.binding, None);
        }
    }
    // What they hold now is not known for sure.
    end.seen.clear();
    end.text = text;
    end
}

#[cfg(test)]
mod tests;
