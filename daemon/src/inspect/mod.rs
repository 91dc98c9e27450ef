//! Facts before decisions: where a path really is, what it is, and why it may be special.
//!
//! Invariants:
//! * a path is resolved by the kernel from an opened workspace, never by cleaning text ([`Workspace`]);
//! * its bytes are taken as they are; nothing is expanded, decoded or normalised;
//! * nothing is opened for reading here but folders and regular files, so nothing can block;
//! * outside the workspace nothing is looked at, unless the session may do everything.
//!
//! Deliberately absent: the decision (`agentd_core::policy`) and the shell tree, which comes with the lexer.

mod walk;
mod workspace;

pub(crate) use workspace::identity;
pub use workspace::{Existing, Found, LookupError, Missing, Workspace};

use crate::ports::SessionContext;
use agentd_core::event::{CommandFacts, PathFacts, PathOp, PermissionMode};
use agentd_core::limits;
use agentd_core::path_bytes::PathBytes;
use agentd_core::policy::command;
use agentd_core::policy::names::{self, Hold};
use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags};
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

    fn hold(&self, path: &[u8]) -> bool {
        self.0.iter().any(|folder| workspace::strip_folder(path, folder.as_bytes()).is_some())
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

/// Resolves a path for one operation of a session.
pub fn look(
    own: &OwnFolders,
    session: &SessionContext,
    requested: &PathBytes,
    op: PathOp,
) -> Result<Looked, LookupError> {
    let workspace = Workspace::open(&session.root, &session.cwd)?;
    match workspace.lookup(requested.as_bytes()) {
        Ok(found) => {
            let facts = facts_of(own, &workspace, requested, op, &found);
            Ok(Looked { facts, found: Some(found), workspace })
        }
        Err(LookupError::Outside { resolved, .. }) => {
            if session.settings.mode == PermissionMode::Full {
                let anywhere = Workspace::anywhere(&session.cwd)?;
                let found = anywhere.lookup(requested.as_bytes())?;
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
    if op == PathOp::Write && facts.caution.is_none() && is_git_part(workspace, below) {
        facts.caution =
            Some("it belongs to a git folder, whose hooks and config run programs later".to_owned());
    }
    if op == PathOp::Read
        && let Found::Existing(existing) = found
        && has_names_elsewhere(workspace, existing, below)
    {
        facts.caution = Some(format!(
            "the file has {} names (hard links), and another of them may lie outside the workspace",
            existing.links()
        ));
    }
    facts
}

fn hold_by_name(own: &OwnFolders, facts: &mut PathFacts, below: &[u8]) {
    if own.hold(facts.resolved.as_bytes()) || own.hold(facts.requested.as_bytes()) {
        facts.protected = Some("it is one of agentd's own files".to_owned());
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

/// Whether a path lies in what git would take for a repository by its content: HEAD, objects and refs.
fn is_git_part(workspace: &Workspace, below: &[u8]) -> bool {
    let parts: Vec<&[u8]> = below.split(|byte| *byte == b'/').collect();
    let Ok(mut folder) = workspace.root().try_clone_to_owned() else { return false };
    for part in &parts {
        let has = |name: &str| rustix::fs::statat(&folder, name, AtFlags::SYMLINK_NOFOLLOW).is_ok();
        let signs = usize::from(has("HEAD")) + usize::from(has("objects")) + usize::from(has("refs"));
        let name = names::fold(part);
        let completes = matches!(
            name.as_str(),
            "head"
                | "objects"
                | "refs"
                | "config"
                | "config.worktree"
                | "hooks"
                | "info"
                | "modules"
                | "worktrees"
        );
        if signs == 3 || (signs == 2 && completes) {
            return true;
        }
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::DIRECTORY | OFlags::CLOEXEC;
        match rustix::fs::openat(&folder, *part, flags, Mode::empty()) {
            Ok(next) => folder = next,
            Err(_) => return false,
        }
    }
    false
}

/// Whether a file has names beside those in its own folder. Package managers link whole stores into
/// `node_modules`, where asking for each file would teach people to say yes.
fn has_names_elsewhere(workspace: &Workspace, existing: &Existing, below: &[u8]) -> bool {
    if existing.kind() != FileType::RegularFile
        || existing.links() < 2
        || below.split(|byte| *byte == b'/').any(|part| part == b"node_modules")
    {
        return false;
    }
    let names_here = workspace.parent_of(&existing.path).ok().and_then(|(parent, _)| {
        let dir = read_folder(&parent).ok()?;
        let same = |entry: &rustix::fs::DirEntry| entry.ino() == existing.inode();
        Some(dir.take(limits::FOLDER_READ_MAX).filter_map(Result::ok).filter(same).count())
    });
    names_here.is_none_or(|count| u64::try_from(count).unwrap_or(0) < existing.links())
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
