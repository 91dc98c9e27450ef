//! Facts before decisions: where a path really is, what it is, and why it may be special.
//!
//! Invariants:
//! * a path is resolved by the kernel from an opened workspace, never by cleaning text ([`Workspace`]);
//! * its bytes are taken as they are; nothing is expanded, decoded or normalised;
//! * nothing is opened for reading here but folders and regular files, so nothing can block;
//! * outside the workspace nothing is looked at, unless the session may do everything; only where the git folder lies
//!   that a `.git` file here names is asked.
//!
//! Deliberately absent: the decision (`agentd_core::policy`) and the shell tree, which comes with the lexer.

mod special;
mod walk;
mod workspace;

pub use workspace::{Existing, Found, LookupError, Missing, Workspace};
pub(crate) use workspace::{identity, join, strip_folder};

use crate::ports::SessionContext;
use agentd_core::event::{CommandFacts, PathFacts, PathOp, PermissionMode};
use agentd_core::path_bytes::PathBytes;
use agentd_core::policy::command;
use agentd_core::policy::names::{self, Hold};
use rustix::fs::{Dir, FileType, Mode, OFlags};
use std::os::fd::{AsFd, OwnedFd};

/// Folders of the daemon itself, known by their place.
#[derive(Clone, Debug, Default)]
pub struct OwnFolders(Vec<PathBytes>);

impl OwnFolders {
    /// Takes the config, data and runtime folders; links in them are resolved now.
    pub fn new(folders: impl IntoIterator<Item = std::path::PathBuf>) -> Self {
        use std::os::unix::ffi::OsStringExt as _;
        let real = |folder: std::path::PathBuf| std::fs::canonicalize(&folder).unwrap_or(folder);
        Self(
            folders
                .into_iter()
                .map(|folder| PathBytes::new(real(folder).into_os_string().into_vec()))
                .collect(),
        )
    }

    /// Whether a real path is one of them or lies in one.
    pub(crate) fn hold(&self, path: &[u8]) -> bool {
        self.0.iter().any(|folder| workspace::strip_folder(path, folder.as_bytes()).is_some())
    }

    /// Whether one of them is the folder `path` or below it.
    fn lie_in(&self, path: &[u8]) -> bool {
        self.0.iter().any(|folder| workspace::strip_folder(folder.as_bytes(), path).is_some())
    }

    /// Whether a file is one of ours under another name.
    fn has_file(&self, existing: &Existing) -> bool {
        existing.kind() == FileType::RegularFile
            && existing.links() > 1
            && self.0.iter().any(|folder| special::holds_file(folder, identity(&existing.stat)))
    }
}

/// A path with its facts and, if it may be touched at all, what is there.
#[derive(Debug)]
pub struct Looked {
    /// For the decision. The content hash is not filled in.
    pub facts: PathFacts,
    /// What is there; none when it is outside and the session is not free to look there.
    pub found: Option<Found>,
    /// What it was resolved from.
    pub workspace: Workspace,
}

/// Where a path is asked for, and how free the asker is.
#[derive(Clone, Copy, Debug)]
pub struct From<'a> {
    /// The root of the workspace.
    pub root: &'a PathBytes,
    /// The folder relative paths start from.
    pub cwd: &'a PathBytes,
    /// Outside the workspace something is looked at in mode `full` only.
    pub mode: PermissionMode,
}

/// Resolves a path for one operation of a session.
pub fn look(
    own: &OwnFolders,
    session: &SessionContext,
    requested: &PathBytes,
    op: PathOp,
) -> Result<Looked, LookupError> {
    let from = From { root: &session.root, cwd: &session.cwd, mode: session.settings.mode };
    look_from(own, &from, requested, op)
}

/// The same without a session.
pub fn look_from(
    own: &OwnFolders,
    from: &From<'_>,
    requested: &PathBytes,
    op: PathOp,
) -> Result<Looked, LookupError> {
    let find = |workspace: &Workspace| match op {
        PathOp::Delete => workspace.lookup_entry(requested.as_bytes()),
        _ => workspace.lookup(requested.as_bytes()),
    };
    let workspace = Workspace::open(from.root, from.cwd)?;
    match find(&workspace) {
        Ok(found) => {
            let facts = facts_of(own, &workspace, requested, op, &found);
            Ok(Looked { facts, found: Some(found), workspace })
        }
        Err(LookupError::Outside { resolved, .. }) => {
            if from.mode == PermissionMode::Full {
                let anywhere = Workspace::anywhere(from.cwd)?;
                let found = find(&anywhere)?;
                let mut facts = facts_of(own, &anywhere, requested, op, &found);
                facts.inside = false;
                return Ok(Looked { facts, found: Some(found), workspace: anywhere });
            }
            let mut facts = PathFacts {
                requested: requested.clone(),
                resolved,
                op,
                inside: false,
                protected: None,
                caution: None,
                content_hash: None,
            };
            hold_by_name(own, &mut facts, &[]);
            Ok(Looked { facts, found: None, workspace })
        }
        Err(error) => Err(error),
    }
}

/// What is known of a command before it is judged.
pub fn command_facts(command: &str, cwd: &PathBytes) -> CommandFacts {
    let judged = command::judge(command);
    CommandFacts {
        command: command.to_owned(),
        cwd: cwd.clone(),
        effect: judged.effect,
        parts: judged.parts,
        forbidden: judged.forbidden,
    }
}

/// Looks at paths that are changed together once more: what is harmless one by one may be a git folder as a whole.
pub fn caution_together(session: &SessionContext, facts: &mut [PathFacts]) {
    let Ok(workspace) = Workspace::open(&session.root, &session.cwd) else { return };
    let below: Vec<Vec<u8>> = facts
        .iter()
        .filter(|facts| facts.op.changes() && facts.op != PathOp::Delete)
        .filter_map(|facts| strip_folder(facts.resolved.as_bytes(), workspace.path().as_bytes()))
        .map(<[u8]>::to_vec)
        .collect();
    let others: Vec<&[u8]> = below.iter().map(Vec::as_slice).collect();
    for facts in facts.iter_mut().filter(|facts| facts.op.changes() && facts.caution.is_none()) {
        let resolved = facts.resolved.clone();
        let Some(here) = strip_folder(resolved.as_bytes(), workspace.path().as_bytes()) else { continue };
        if special::is_git_part(&workspace, here, &others) {
            facts.caution = Some(GIT_PART.to_owned());
        }
    }
}

const GIT_PART: &str = "it belongs to a git folder, whose hooks and config run programs later";

fn facts_of(
    own: &OwnFolders,
    workspace: &Workspace,
    requested: &PathBytes,
    op: PathOp,
    found: &Found,
) -> PathFacts {
    let resolved = found.path();
    let mut facts = PathFacts {
        requested: requested.clone(),
        resolved: resolved.clone(),
        op,
        inside: true,
        protected: None,
        caution: None,
        content_hash: None,
    };
    // Names above the workspace are not the session's business: it may live below a folder `.cursor`.
    let below = workspace::strip_folder(resolved.as_bytes(), workspace.path().as_bytes()).unwrap_or_default();
    hold_by_name(own, &mut facts, below);
    if op.changes() && facts.protected.is_none() {
        facts.protected = special::git_folder_in_use(workspace, &resolved)
            .then(|| "it is git's own folder of a work tree here; use git commands instead".to_owned());
    }
    if op.changes() && facts.caution.is_none() && special::is_git_part(workspace, below, &[]) {
        facts.caution = Some(GIT_PART.to_owned());
    }
    if let Found::Existing(existing) = found {
        hold_by_content(own, workspace, &mut facts, existing, below);
    }
    facts
}

/// What is held for what is there, whatever it is called.
fn hold_by_content(
    own: &OwnFolders,
    workspace: &Workspace,
    facts: &mut PathFacts,
    existing: &Existing,
    below: &[u8],
) {
    if facts.op != PathOp::Delete && own.has_file(existing) {
        facts.protected = Some("it is one of agentd's own files, under another name (hard link)".to_owned());
    } else if facts.op == PathOp::Read && special::has_names_elsewhere(workspace, existing, below) {
        facts.caution = Some(format!(
            "the file has {} names (hard links), and another of them may lie outside the workspace",
            existing.links()
        ));
    }
    if facts.op == PathOp::Delete && existing.kind() == FileType::Directory && facts.protected.is_none() {
        if below.is_empty() {
            facts.protected = Some("it is the workspace itself".to_owned());
        } else if own.lie_in(facts.resolved.as_bytes()) {
            facts.protected = Some("agentd's own files are in it".to_owned());
        } else if let Some(found) = special::protected_inside(existing) {
            match found.hold {
                Hold::Deny => facts.protected = Some(found.why),
                Hold::Ask => facts.caution = Some(found.why),
            }
        }
    }
}

fn hold_by_name(own: &OwnFolders, facts: &mut PathFacts, below: &[u8]) {
    if own.hold(facts.resolved.as_bytes()) || own.hold(facts.requested.as_bytes()) {
        facts.protected = Some("it is one of agentd's own files".to_owned());
        return;
    }
    if let Some(why) = names::unexpanded(facts.requested.as_bytes()) {
        facts.protected = Some(why.to_owned());
        return;
    }
    // By both names: a link `x` to `.git/config` and a link `.git` to elsewhere are the same danger.
    let requested = if facts.inside && facts.requested.as_bytes().starts_with(b"/") {
        &[][..]
    } else {
        facts.requested.as_bytes()
    };
    for path in [below, requested] {
        let Some(protection) = names::protection(path, facts.op) else { continue };
        match protection.hold {
            Hold::Deny => facts.protected = Some(protection.why),
            Hold::Ask => facts.caution = Some(protection.why),
        }
    }
}

/// Opens a folder that is held by an `O_PATH` descriptor so that its entries can be read.
pub fn read_folder(folder: impl AsFd) -> rustix::io::Result<Dir> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC | OFlags::NONBLOCK;
    let fd: OwnedFd = rustix::fs::openat(folder, ".", flags, Mode::empty())?;
    Dir::new(fd)
}

#[cfg(test)]
#[path = "inspect_tests.rs"]
mod tests;
