//! The ends and faults of calls, in the words a model can act on.

use crate::inspect::{Existing, LookupError};
use crate::ports::CallContext;
use agentd_core::command::{CallEnd, CallFault};
use agentd_core::event::{CallOutcome, PathFacts};
use rustix::fs::FileType;

/// An end with nothing but an outcome and a text.
pub(super) fn end(ctx: &CallContext, outcome: CallOutcome, text: impl Into<String>) -> CallEnd {
    CallEnd {
        call_id: ctx.call_id.clone(),
        attempt: ctx.attempt,
        outcome,
        text: text.into(),
        exit_code: None,
        signal: None,
        duration_ms: 0,
        truncation: None,
        error_class: None,
        artifacts: Vec::new(),
        files: Vec::new(),
        seen: Vec::new(),
        spent_evidence: false,
        evidence: None,
        transient: None,
    }
}

pub(super) fn done(ctx: &CallContext, text: impl Into<String>) -> CallEnd {
    end(ctx, CallOutcome::Ok, text)
}

pub(super) fn failed(ctx: &CallContext, class: &str, text: impl Into<String>) -> CallEnd {
    CallEnd { error_class: Some(class.to_owned()), ..end(ctx, CallOutcome::Error, text) }
}

pub(super) fn from_fault(ctx: &CallContext, fault: CallFault) -> CallEnd {
    CallEnd { error_class: Some(fault.class), ..end(ctx, fault.outcome, fault.text) }
}

/// A failure of the tool.
pub(super) fn fault(class: &str, text: impl Into<String>) -> CallFault {
    CallFault { class: class.to_owned(), outcome: CallOutcome::Error, text: text.into() }
}

/// A call that could not be one.
pub(super) fn invalid(class: &str, text: impl Into<String>) -> CallFault {
    CallFault { class: class.to_owned(), outcome: CallOutcome::Invalid, text: text.into() }
}

pub(super) fn lookup_fault(error: &LookupError) -> CallFault {
    let class = match error {
        LookupError::Empty | LookupError::Nul => "path",
        LookupError::Outside { .. } => "outside",
        LookupError::NotFolder { .. } => "not_folder",
        LookupError::Loop => "link_loop",
        LookupError::Workspace { .. } => "workspace",
        LookupError::Refused { errno, .. } => io_class(&(*errno).into()),
    };
    let text = error.to_string();
    let mut letters = text.chars();
    let first: String = letters.next().into_iter().flat_map(char::to_uppercase).collect();
    fault(class, format!("{first}{}.", letters.as_str()))
}

/// Refuses what is not a regular file, by name of its type.
pub(super) fn only_regular(existing: &Existing) -> Result<(), CallFault> {
    if existing.kind() == FileType::RegularFile {
        return Ok(());
    }
    let shown = agentd_core::policy::names::shown(&existing.path);
    let advice = if existing.kind() == FileType::Directory { "; list_dir shows its entries" } else { "" };
    Err(fault(
        "file_type",
        format!("{shown} is {}, not a regular file{advice}.", kind_in_words(existing.kind())),
    ))
}

/// Refuses a path that no decision can have allowed. The decision holds alone, and so does this.
pub(super) fn out_of_reach(facts: &PathFacts) -> CallFault {
    let name = agentd_core::policy::names::shown(&facts.requested);
    match &facts.protected {
        Some(why) => fault("protected", format!("Not executed: {name} is protected: {why}.")),
        None => fault("outside", format!("Not executed: {name} is outside the workspace.")),
    }
}

/// Refuses what is not a folder.
pub(super) fn only_folder(existing: &Existing) -> Result<(), CallFault> {
    if existing.kind() == FileType::Directory {
        return Ok(());
    }
    let shown = agentd_core::policy::names::shown(&existing.path);
    Err(fault("not_folder", format!("{shown} is {}, not a folder.", kind_in_words(existing.kind()))))
}

pub(super) const fn kind_in_words(kind: FileType) -> &'static str {
    match kind {
        FileType::RegularFile => "a file",
        FileType::Directory => "a folder",
        FileType::Symlink => "a link",
        FileType::Fifo => "a FIFO",
        FileType::Socket => "a socket",
        FileType::CharacterDevice => "a character device",
        FileType::BlockDevice => "a block device",
        FileType::Unknown => "of an unknown type",
    }
}

/// The class of a failure that passes by itself; a call that ends with it may be tried again.
pub const BUSY: &str = "busy";

/// The class of an input or output failure: [`BUSY`] for what passes by itself, else `io`.
pub(super) fn io_class(error: &std::io::Error) -> &'static str {
    let passes = [libc::EINTR, libc::EAGAIN, libc::EBUSY, libc::ETXTBSY, libc::ENOLCK, libc::EDEADLK];
    if error.raw_os_error().is_some_and(|number| passes.contains(&number)) { BUSY } else { "io" }
}
