//! What a command line is, before it is judged.
//!
//! This build reads no shell: every command is [`EffectClass::Unsafe`], so it asks wherever asking is possible.
//! The strict lexer and its flag tables belong behind [`judge`], which is all that callers know.
//!
//! Deliberately absent: a list of forbidden commands. Without reading the shell it would be a search in text,
//! which quotes evade and which hits harmless words; a wrong "forbidden" is as bad as a missed one. What holds
//! meanwhile are the mode, the person asked, and the sandbox.

use crate::event::{CommandPart, EffectClass};

/// What a command line was found to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommandJudgement {
    /// The whole line.
    pub effect: EffectClass,
    /// Its parts, as far as they were understood; empty when nothing was.
    pub parts: Vec<CommandPart>,
    /// Why it must not run in any mode, if so.
    pub forbidden: Option<String>,
}

/// Judges the exact bytes that would be given to the shell.
pub fn judge(_command: &str) -> CommandJudgement {
    CommandJudgement { effect: EffectClass::Unsafe, parts: Vec::new(), forbidden: None }
}
