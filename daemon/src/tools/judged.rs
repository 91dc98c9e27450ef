//! What would be decided: the facts of a path, a command or a call without a session and without a run.
//!
//! Invariant: the same lookups, refusals and decision as for calls. A fault that a call would end with before
//! anything is decided (no such thing, not a regular file, a loop of links) is no decision and told in its words.

use super::{Tools, answer, blocking, neighbours, registry::Registry};
use crate::inspect::{self, Existing, Found, From};
use crate::ports::{Hypothetical, Judged, Subject};
use agentd_core::command::{CallFault, CheckedCall, Inspection};
use agentd_core::event::{BlockCall, EffectClass, PathOp, SandboxMode};
use agentd_core::path_bytes::PathBytes;
use agentd_core::policy::names::shown;
use agentd_core::policy::{NO_SANDBOX, Question, decide};
use rustix::fs::FileType;
use serde_json::Value;

/// The tools by which a path's operation is judged, with what they do.
const BY_OP: &[(PathOp, &str, EffectClass)] = &[
    (PathOp::Read, "read_file", EffectClass::ReadOnly),
    (PathOp::List, "list_dir", EffectClass::ReadOnly),
    (PathOp::Write, "write_file", EffectClass::Idempotent),
    (PathOp::Create, "write_file", EffectClass::Idempotent),
    (PathOp::Delete, "apply_patch", EffectClass::Idempotent),
];

/// Tools with a path, with what they use it for.
const WITH_PATH: &[(&str, PathOp)] = &[
    ("read_file", PathOp::Read),
    ("list_dir", PathOp::List),
    ("find_files", PathOp::List),
    ("search", PathOp::List),
    ("write_file", PathOp::Write),
    ("edit_file", PathOp::Write),
];

/// The tool whose calls have a command.
const RUN_COMMAND: &str = "run_command";

impl Tools {
    /// What would be decided.
    pub async fn judge(&self, registry: &Registry, what: Hypothetical) -> Judged {
        match &what.subject {
            Subject::Path { path, op } => self.judge_path(&what, path.clone(), *op).await,
            Subject::Command(command) => self.judge_command(&what, command),
            Subject::Call { tool, args } => {
                let call = BlockCall {
                    provider_call_id: String::new(),
                    name: tool.clone(),
                    args: args.clone(),
                    complete: true,
                    fault: None,
                };
                let effect = match registry.check(&call) {
                    CheckedCall::Valid(effect) => effect,
                    CheckedCall::Invalid(fault) => return error(fault.text, EffectClass::Unsafe),
                };
                self.judge_call(&what, tool, args.get(), effect).await
            }
        }
    }

    async fn judge_call(&self, what: &Hypothetical, tool: &str, args: &str, effect: EffectClass) -> Judged {
        // The schema was checked: what is read here has the type it must have.
        let args: Value = serde_json::from_str(args).unwrap_or_default();
        if let Some((_, op)) = WITH_PATH.iter().find(|(name, _)| *name == tool) {
            let path = PathBytes::from(args["path"].as_str().unwrap_or("."));
            return self.judge_path(what, path, *op).await;
        }
        if let (RUN_COMMAND, Some(command)) = (tool, args["command"].as_str()) {
            return self.judge_command(what, command);
        }
        let facts = Inspection { sandbox: NO_SANDBOX.to_owned(), ..Inspection::default() };
        let decision = decide(&Question { mode: what.mode, tool, effect, facts: &facts });
        Judged { decision: Ok(decision), effect, parts: Vec::new() }
    }

    async fn judge_path(&self, what: &Hypothetical, path: PathBytes, op: PathOp) -> Judged {
        let (_, tool, effect) = BY_OP.iter().find(|(of, ..)| *of == op).copied().unwrap_or(BY_OP[2]);
        let (tools, folder, mode) = (self.clone(), what.folder.clone(), what.mode);
        let looked = blocking(move || {
            let from = From { root: &folder, cwd: &folder, mode };
            tools.path_facts(&from, &path, op)
        });
        match looked.await.and_then(|found| found) {
            Ok(facts) => {
                let decision = decide(&Question { mode: what.mode, tool, effect, facts: &facts });
                Judged { decision: Ok(decision), effect, parts: Vec::new() }
            }
            Err(fault) => error(fault.text, effect),
        }
    }

    /// The facts of a path, or the fault that a call with it would end with.
    pub(super) fn path_facts(
        &self,
        from: &From<'_>,
        path: &PathBytes,
        op: PathOp,
    ) -> Result<Inspection, CallFault> {
        let looked =
            inspect::look_from(&self.own, from, path, op).map_err(|error| answer::lookup_fault(&error))?;
        // Of what is denied anyway nothing more is told.
        if looked.facts.protected.is_none() {
            match &looked.found {
                Some(Found::Existing(existing)) => may_be(existing, path, op)?,
                Some(Found::Missing(missing)) if !op.changes() || op == PathOp::Delete => {
                    return Err(neighbours::not_found(path, missing));
                }
                Some(Found::Missing(missing)) if missing.folder_meant => {
                    let text = format!("{} asks for a folder that is not there.", shown(path));
                    return Err(answer::fault("path", text));
                }
                Some(Found::Missing(_)) | None => {}
            }
        }
        Ok(Inspection { paths: vec![looked.facts], sandbox: NO_SANDBOX.to_owned(), ..Inspection::default() })
    }

    fn judge_command(&self, what: &Hypothetical, command: &str) -> Judged {
        let sandbox = if what.assume_sandbox {
            SandboxMode::WorkspaceWrite.as_str().to_owned()
        } else {
            self.command_sandbox.clone()
        };
        let found = inspect::command_facts(command, &what.folder);
        let (effect, parts) = (found.effect, found.parts.clone());
        let facts = Inspection { command: Some(found), sandbox, ..Inspection::default() };
        let question = Question { mode: what.mode, tool: RUN_COMMAND, effect, facts: &facts };
        Judged { decision: Ok(decide(&question)), effect, parts }
    }
}

fn error(text: String, effect: EffectClass) -> Judged {
    Judged { decision: Err(text), effect, parts: Vec::new() }
}

/// Refuses what an operation cannot be done to.
fn may_be(existing: &Existing, path: &PathBytes, op: PathOp) -> Result<(), CallFault> {
    match op {
        PathOp::List => answer::only_folder(existing),
        PathOp::Read | PathOp::Write => answer::only_regular(existing),
        PathOp::Create => {
            let kind = answer::kind_in_words(existing.kind());
            Err(answer::fault("exists", format!("{} is there already: {kind}.", shown(path))))
        }
        // A name is removed, whatever has it.
        PathOp::Delete if existing.kind() != FileType::Unknown => Ok(()),
        PathOp::Delete => Err(answer::fault("file_type", format!("{} cannot be removed.", shown(path)))),
    }
}
