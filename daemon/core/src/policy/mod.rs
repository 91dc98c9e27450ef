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
use crate::limits;

/// Tools that touch nothing but what the daemon itself keeps for this session.
const OWN_READS: &[&str] = &["read_artifact", "search_artifact"];
/// Tools whose calls have a path; without one they were not understood.
const FILE_TOOLS: &[&str] =
    &["read_file", "list_dir", "find_files", "search", "write_file", "edit_file", "apply_patch"];
/// Every built-in tool, by name: those that a configuration can name. The registry of tools has just these.
pub const BUILT_IN_TOOLS: &[&str] = &[
    "apply_patch",
    "edit_file",
    "find_files",
    "list_dir",
    "read_artifact",
    "read_file",
    "run_command",
    "search",
    "search_artifact",
    "write_file",
];
/// The tool that reads all that is below its path.
const SEARCH_TOOL: &str = "search";
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
    judge_paths(question, &mut found);
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

/// Judges the paths of a call. One call is one decision: where it has several paths, the reason names each of them.
fn judge_paths(question: &Question<'_>, found: &mut Vec<Decision>) {
    let paths = &question.facts.paths;
    let mut own = Vec::new();
    for path in paths {
        judge_holds(path, &mut own);
    }
    let is_full = question.mode == PermissionMode::Full;
    let (within, outside): (Vec<_>, Vec<_>) = paths.iter().partition(|path| path.inside || is_full);
    let (changing, still): (Vec<_>, Vec<_>) = within.into_iter().partition(|path| changes(question, path));
    if !outside.is_empty() {
        own.push(Decision::new(Verdict::Deny, "outside", outside_reason(question, outside)));
    }
    if !changing.is_empty() {
        own.push(judge_changes(question, changing));
    }
    if let Some(path) = still.first() {
        let reason = match question.mode {
            PermissionMode::Full => "this session may do everything".to_owned(),
            _ => format!("{} inside the workspace", act_of(question, path).1),
        };
        own.push(Decision::new(Verdict::Allow, mode_rule(question.mode), reason));
    }
    if paths.len() > 1 {
        found.extend(joined(own));
    } else {
        found.append(&mut own);
    }
}

/// What holds for a path in every mode.
fn judge_holds(path: &PathFacts, found: &mut Vec<Decision>) {
    let shown = || names::shown(&path.requested);
    if let Some(why) = &path.protected {
        found.push(Decision::new(Verdict::Deny, "protected", format!("{} is protected: {why}", shown())));
    }
    if let Some(why) = &path.caution {
        found.push(Decision::new(Verdict::Ask, "caution", format!("{}: {why}", shown())));
    }
}

fn changes(question: &Question<'_>, path: &PathFacts) -> bool {
    path.op.changes() || question.effect != EffectClass::ReadOnly
}

/// Changes where the mode decides about them.
fn judge_changes(question: &Question<'_>, paths: Vec<&PathFacts>) -> Decision {
    let is_one = paths.len() == 1;
    let act = paths.first().map_or("writing", |path| act_of(question, path).1);
    let listed = acts_on(question, paths);
    let (verdict, reason) = match question.mode {
        PermissionMode::ReadOnly => (Verdict::Deny, format!("{listed}: this session is read-only")),
        PermissionMode::Ask => (Verdict::Ask, format!("{listed}: changes are asked for in this session")),
        PermissionMode::Workspace if is_one => (Verdict::Allow, format!("{act} inside the workspace")),
        PermissionMode::Workspace => (Verdict::Allow, format!("{listed}: inside the workspace")),
        PermissionMode::Full if is_one => (Verdict::Allow, "this session may do everything".to_owned()),
        PermissionMode::Full => (Verdict::Allow, format!("{listed}: this session may do everything")),
    };
    Decision::new(verdict, mode_rule(question.mode), reason)
}

/// What is done to a path, in words, and how early it is to be said: what cannot be got back comes first.
fn act_of(question: &Question<'_>, path: &PathFacts) -> (u8, &'static str) {
    match path.op {
        PathOp::Delete => (0, "removing"),
        PathOp::Create => (2, "making"),
        PathOp::Write => (1, "writing"),
        PathOp::Read | PathOp::List if question.effect != EffectClass::ReadOnly => (1, "writing"),
        PathOp::List => (3, "listing"),
        PathOp::Read if question.tool == SEARCH_TOOL => (4, "searching"),
        PathOp::Read => (4, "reading"),
    }
}

/// `removing a; writing b`
fn acts_on(question: &Question<'_>, mut paths: Vec<&PathFacts>) -> String {
    paths.sort_by_key(|path| act_of(question, path).0);
    let each = paths.iter().map(|path| (act_of(question, path).1, &path.requested));
    bounded(each.map(|(act, path)| format!("{act} {}", names::shown(path))))
}

/// The decisions of several paths as one: the strictest verdict, with all that speaks for it.
fn joined(own: Vec<Decision>) -> Option<Decision> {
    let level = own.iter().map(|decision| strictness(decision.verdict)).max()?;
    let mut strictest = own.into_iter().filter(|decision| strictness(decision.verdict) == level);
    let first = strictest.next()?;
    let reason = bounded(std::iter::once(first.reason).chain(strictest.map(|decision| decision.reason)));
    Some(Decision { reason, ..first })
}

/// The first of them, and how many more there are.
fn bounded(mut all: impl Iterator<Item = String>) -> String {
    let mut named: Vec<String> = all.by_ref().take(limits::REASON_PATHS_MAX).collect();
    match all.count() {
        0 => {}
        more => named.push(format!("and {more} more")),
    }
    named.join("; ")
}

fn outside_reason(question: &Question<'_>, paths: Vec<&PathFacts>) -> String {
    let mut folders: Vec<String> = paths.iter().map(|path| outside_folder(question, path)).collect();
    folders.sort();
    folders.dedup();
    let grants = match paths.as_slice() {
        [only] => format!(
            "{} is outside the workspace; {} it needs a folder grant for {}",
            names::shown(&only.requested),
            act_of(question, only).1,
            folders.concat()
        ),
        _ => format!(
            "{}: outside the workspace; that needs folder grants for {}",
            acts_on(question, paths),
            bounded(folders.into_iter())
        ),
    };
    format!(
        "{grants}. Folder grants are not built yet: start the session in a folder above, or use mode full"
    )
}

/// The folder that a grant would have to name.
fn outside_folder(question: &Question<'_>, path: &PathFacts) -> String {
    let bytes = path.resolved.as_bytes();
    if path.op == PathOp::List {
        return names::shown_bytes(bytes);
    }
    if question.tool == SEARCH_TOOL {
        // A folder or a file: the facts do not say which.
        return format!("{} or a folder above it", names::shown_bytes(bytes));
    }
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
