//! Who may do what: the judgement on one call, as a pure function of its facts.
//!
//! The table is the one of the contract ("Permission modes"). Above it stand, in every mode: what a command
//! must never do, protected names and the daemon's own files. The strictest reason wins: deny over ask over
//! allow. What is not understood asks.
//!
//! Invariants: no mode allows what a stricter mode could not; `read-only` never allows a write; the answer
//! depends on nothing but the arguments.
//!
//! Deliberately absent, until grants and rules exist: configured rules, folder grants, session grants. They
//! will be further fields of [`Question`]. Turning `ask` into `deny` where nobody can be asked is the session's
//! business, not a judgement.

pub mod command;
pub mod names;

use crate::command::Inspection;
use crate::event::{CommandFacts, EffectClass, PathFacts, PathOp, PermissionMode, Verdict};

/// Tools that touch nothing but what the daemon itself keeps for this session.
const OWN_READS: &[&str] = &["read_artifact", "search_artifact"];
/// Tools whose calls have a path; without one they were not understood.
const FILE_TOOLS: &[&str] =
    &["read_file", "list_dir", "find_files", "search", "write_file", "edit_file", "apply_patch"];
/// The tool whose calls have a command.
const COMMAND_TOOL: &str = "run_command";
/// The word of an inspection for "no sandbox would hold this".
pub const NO_SANDBOX: &str = "none";

/// What is to be judged.
#[derive(Clone, Copy, Debug)]
pub struct Question<'a> {
    /// What the session may do without asking.
    pub mode: PermissionMode,
    /// The tool.
    pub tool: &'a str,
    /// What its calls may do.
    pub effect: EffectClass,
    /// What was found about this one.
    pub facts: &'a Inspection,
}

/// A judgement and what it rests on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decision {
    /// May it run?
    pub verdict: Verdict,
    /// The rule it rests on (`mode:ask`, `protected`, `forbidden`, `caution`, `unknown`).
    pub rule: String,
    /// Why, in words, for people and for the model.
    pub reason: String,
}

impl Decision {
    fn new(verdict: Verdict, rule: impl Into<String>, reason: impl Into<String>) -> Self {
        Self { verdict, rule: rule.into(), reason: reason.into() }
    }
}

/// How strict a verdict is; the strictest of several wins.
const fn strictness(verdict: Verdict) -> u8 {
    match verdict {
        Verdict::Allow => 0,
        Verdict::Ask => 1,
        Verdict::Deny => 2,
    }
}

/// Judges one call.
pub fn decide(question: &Question<'_>) -> Decision {
    let mut found = Vec::new();
    for path in &question.facts.paths {
        judge_path(question, path, &mut found);
    }
    if let Some(command) = &question.facts.command {
        judge_command(question, command, &mut found);
    }
    if let Some(gap) = missing_facts(question) {
        let verdict = if question.mode == PermissionMode::ReadOnly { Verdict::Deny } else { Verdict::Ask };
        found.push(Decision::new(verdict, "unknown", gap));
    } else if found.is_empty() {
        found.push(judge_bare(question));
    }
    // The first of the strictest: reasons are pushed from the most to the least telling.
    let mut strictest = Decision::new(Verdict::Ask, "unknown", "nothing is known about this call");
    let mut best = None;
    for decision in found {
        if best.is_none_or(|level| strictness(decision.verdict) > level) {
            best = Some(strictness(decision.verdict));
            strictest = decision;
        }
    }
    strictest
}

/// What should be known about a call of this tool and is not.
fn missing_facts(question: &Question<'_>) -> Option<&'static str> {
    if FILE_TOOLS.contains(&question.tool) && question.facts.paths.is_empty() {
        return Some("the path of this call could not be inspected");
    }
    if question.tool == COMMAND_TOOL && question.facts.command.is_none() {
        return Some("the command of this call could not be inspected");
    }
    None
}

/// A call without path and command.
fn judge_bare(question: &Question<'_>) -> Decision {
    let rule = mode_rule(question.mode);
    if question.effect == EffectClass::ReadOnly && OWN_READS.contains(&question.tool) {
        return Decision::new(Verdict::Allow, "own", "reads what the daemon keeps for this session");
    }
    match question.mode {
        PermissionMode::ReadOnly => Decision::new(
            Verdict::Deny,
            rule,
            format!("{} is not known to change nothing, and this session is read-only", question.tool),
        ),
        PermissionMode::Full => Decision::new(Verdict::Allow, rule, "this session may do everything"),
        PermissionMode::Ask | PermissionMode::Workspace => {
            Decision::new(Verdict::Ask, "unknown", format!("what {} touches is not known", question.tool))
        }
    }
}

fn judge_path(question: &Question<'_>, path: &PathFacts, found: &mut Vec<Decision>) {
    let writes = path.op.changes() || question.effect != EffectClass::ReadOnly;
    let shown = names::shown(&path.requested);
    if let Some(why) = &path.protected {
        found.push(Decision::new(Verdict::Deny, "protected", format!("{shown} is protected: {why}")));
    }
    if let Some(why) = &path.caution {
        found.push(Decision::new(Verdict::Ask, "caution", format!("{shown}: {why}")));
    }
    let rule = mode_rule(question.mode);
    let act = match (writes, path.op) {
        (true, PathOp::Delete) => "removing",
        (true, _) => "writing",
        (false, PathOp::List) => "listing",
        (false, _) => "reading",
    };
    let decision = match (question.mode, path.inside, writes) {
        (PermissionMode::Full, ..) => Decision::new(Verdict::Allow, rule, "this session may do everything"),
        (_, false, _) => Decision::new(
            Verdict::Deny,
            "outside",
            format!(
                "{shown} is outside the workspace; {act} it needs a folder grant for {}",
                outside_folder(path)
            ),
        ),
        (_, true, false) => Decision::new(Verdict::Allow, rule, format!("{act} inside the workspace")),
        (PermissionMode::ReadOnly, true, true) => {
            Decision::new(Verdict::Deny, rule, format!("{act} {shown}: this session is read-only"))
        }
        (PermissionMode::Ask, true, true) => {
            Decision::new(Verdict::Ask, rule, format!("{act} {shown}: changes are asked for in this session"))
        }
        (PermissionMode::Workspace, true, true) => {
            Decision::new(Verdict::Allow, rule, format!("{act} inside the workspace"))
        }
    };
    found.push(decision);
}

/// The folder that a grant would have to name.
fn outside_folder(path: &PathFacts) -> String {
    let bytes = path.resolved.as_bytes();
    let end = bytes.iter().rposition(|byte| *byte == b'/').map_or(0, |at| at.max(1));
    if end == 0 { "its folder".to_owned() } else { names::shown_bytes(&bytes[..end]) }
}

fn judge_command(question: &Question<'_>, command: &CommandFacts, found: &mut Vec<Decision>) {
    if let Some(why) = &command.forbidden {
        found.push(Decision::new(Verdict::Deny, "forbidden", format!("this command is forbidden: {why}")));
    }
    let rule = mode_rule(question.mode);
    // The line as a whole is never milder than one of its parts.
    let read_only = command.effect == EffectClass::ReadOnly
        && command.parts.iter().all(|part| part.effect == EffectClass::ReadOnly);
    let decision = match question.mode {
        PermissionMode::Full => Decision::new(Verdict::Allow, rule, "this session may do everything"),
        _ if read_only => Decision::new(Verdict::Allow, "read-only-command", "the command changes nothing"),
        PermissionMode::ReadOnly => Decision::new(
            Verdict::Deny,
            rule,
            "the command is not known to change nothing, and this session is read-only",
        ),
        PermissionMode::Ask => Decision::new(Verdict::Ask, rule, "commands are asked for in this session"),
        PermissionMode::Workspace if sandbox_holds(&question.facts.sandbox) => Decision::new(
            Verdict::Allow,
            rule,
            format!("runs inside the sandbox ({})", question.facts.sandbox),
        ),
        PermissionMode::Workspace => Decision::new(
            Verdict::Ask,
            "no-sandbox",
            "this mode allows commands only inside a sandbox, and none is built yet",
        ),
    };
    found.push(decision);
}

/// Whether an inspection's sandbox bounds writes. An unknown word does not.
fn sandbox_holds(sandbox: &str) -> bool {
    matches!(sandbox, "read-only" | "workspace-write")
}

fn mode_rule(mode: PermissionMode) -> String {
    format!("mode:{}", mode.as_str())
}

#[cfg(test)]
#[path = "decide_tests.rs"]
mod tests;
