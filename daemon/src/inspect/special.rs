//! What makes a file special whatever it is called: git folders, hard links, what a folder holds.
//!
//! Invariant: everything here is bounded; what could not be looked at in full is told as if it were special where that
//! is the careful answer.

use super::read_folder;
use super::workspace::{Existing, Workspace, identity, strip_folder};
use agentd_core::event::PathOp;
use agentd_core::limits;
use agentd_core::path_bytes::PathBytes;
use agentd_core::policy::names::{self, Hold, Protection};
use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags};
use std::ffi::OsStr;
use std::io::Read as _;
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};

/// Whether a path lies in what git would take for a repository by its content: HEAD, objects and refs. `others` are
/// paths below the root that are made together with it: what is there after all of them counts.
pub(super) fn is_git_part(workspace: &Workspace, below: &[u8], others: &[&[u8]]) -> bool {
    let mut folder = workspace.root().try_clone_to_owned().ok();
    let mut start = 0;
    for part in below.split(|byte| *byte == b'/') {
        let has = |name: &str| {
            let on_disk = folder
                .as_ref()
                .is_some_and(|folder| rustix::fs::statat(folder, name, AtFlags::SYMLINK_NOFOLLOW).is_ok());
            let wanted = [&below[..start], name.as_bytes()].concat();
            on_disk || others.iter().any(|other| strip_folder(other, &wanted).is_some())
        };
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
        // The part of a work tree in its repository has a HEAD and says where the rest is.
        if signs == 3 || (signs == 2 && completes) || (has("HEAD") && has("commondir")) {
            return true;
        }
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::DIRECTORY | OFlags::CLOEXEC;
        folder = folder.and_then(|folder| rustix::fs::openat(&folder, part, flags, Mode::empty()).ok());
        if folder.is_none() && others.is_empty() {
            return false;
        }
        start += part.len() + 1;
    }
    false
}

/// Whether a file has names beside those in its own folder. Package managers link whole stores into
/// `node_modules`, where asking for each file would teach people to say yes.
pub(super) fn has_names_elsewhere(workspace: &Workspace, existing: &Existing, below: &[u8]) -> bool {
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

/// Whether a path lies in the git folder that a `.git` file on its way names, or in the folder that this one shares
/// with other work trees (`commondir`).
pub(super) fn git_folder_in_use(workspace: &Workspace, resolved: &PathBytes) -> bool {
    let below = strip_folder(resolved.as_bytes(), workspace.path().as_bytes()).unwrap_or_default();
    let mut folder = PathBuf::from(OsStr::from_bytes(workspace.path().as_bytes()));
    let parts = below.split(|byte| *byte == b'/').map(Some);
    for part in [None].into_iter().chain(parts) {
        if let Some(part) = part {
            folder.push(OsStr::from_bytes(part));
        }
        for used in git_folders(&folder) {
            if strip_folder(resolved.as_bytes(), &used).is_some() {
                return true;
            }
        }
    }
    false
}

/// The git folders of the work tree `folder`, if a file `.git` names them.
fn git_folders(folder: &Path) -> Vec<Vec<u8>> {
    let Some(named) = small_file(&folder.join(".git")) else { return Vec::new() };
    let Some(named) = named.strip_prefix(b"gitdir:") else { return Vec::new() };
    let real = |base: &Path, named: &[u8]| {
        std::fs::canonicalize(base.join(OsStr::from_bytes(named.trim_ascii()))).ok()
    };
    let Some(own) = real(folder, named) else { return Vec::new() };
    let shared = small_file(&own.join("commondir")).and_then(|named| real(&own, &named));
    [Some(own), shared].into_iter().flatten().map(|path| path.into_os_string().into_vec()).collect()
}

/// The content of a small regular file; none for anything else.
fn small_file(path: &Path) -> Option<Vec<u8>> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let fd = rustix::fs::openat(CWD, path, flags, Mode::empty()).ok()?;
    let stat = rustix::fs::fstat(&fd).ok()?;
    if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
        return None;
    }
    let mut content = Vec::new();
    let most = u64::try_from(limits::SNIFF_BYTES).unwrap_or(u64::MAX);
    std::fs::File::from(fd).take(most).read_to_end(&mut content).ok()?;
    Some(content)
}

/// What a change of a folder as a whole would touch that is protected, if something is. A folder too large to be
/// looked through is asked for.
pub(super) fn protected_inside(folder: &Existing) -> Option<Protection> {
    let root = folder.fd.try_clone().ok()?;
    let (mut todo, mut seen, mut ask) = (vec![root], 0_usize, None);
    while let Some(folder) = todo.pop() {
        let Ok(dir) = read_folder(&folder) else { continue };
        for entry in dir.filter_map(Result::ok) {
            let name = entry.file_name().to_bytes();
            if name == b"." || name == b".." {
                continue;
            }
            seen += 1;
            if seen > limits::FOLDER_DELETE_LOOK_MAX || todo.len() > limits::FOLDER_DELETE_OPEN_MAX {
                let why = "it holds more than was looked through for protected files".to_owned();
                return Some(ask.unwrap_or(Protection { hold: Hold::Ask, why }));
            }
            if let Some(found) = names::protection(name, PathOp::Delete) {
                let why = format!("it holds {}: {}", names::shown_bytes(name), found.why);
                if found.hold == Hold::Deny {
                    return Some(Protection { hold: Hold::Deny, why });
                }
                ask.get_or_insert(Protection { hold: Hold::Ask, why });
            }
            let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::DIRECTORY | OFlags::CLOEXEC;
            if let Ok(next) = rustix::fs::openat(folder.as_fd(), name, flags, Mode::empty()) {
                todo.push(next);
            }
        }
    }
    ask
}

/// Whether a file of this identity is somewhere in a folder, as far as it is looked through.
pub(super) fn holds_file(folder: &PathBytes, wanted: (u64, u64)) -> bool {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let Ok(root) = rustix::fs::openat(CWD, folder.as_bytes(), flags, Mode::empty()) else { return false };
    let (mut todo, mut seen): (Vec<OwnedFd>, usize) = (vec![root], 0);
    while let Some(folder) = todo.pop() {
        let Ok(dir) = read_folder(&folder) else { continue };
        for entry in dir.filter_map(Result::ok) {
            let name = entry.file_name();
            seen += 1;
            if seen > limits::FOLDER_READ_MAX || matches!(name.to_bytes(), b"." | b"..") {
                continue;
            }
            let Ok(stat) = rustix::fs::statat(&folder, name, AtFlags::SYMLINK_NOFOLLOW) else { continue };
            if identity(&stat) == wanted {
                return true;
            }
            let is_folder = FileType::from_raw_mode(stat.st_mode) == FileType::Directory;
            if is_folder && todo.len() < limits::FOLDER_DELETE_OPEN_MAX {
                let flags = flags | OFlags::NOFOLLOW;
                todo.extend(rustix::fs::openat(&folder, name, flags, Mode::empty()));
            }
        }
    }
    false
}
