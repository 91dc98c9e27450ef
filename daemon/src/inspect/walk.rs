//! The lookup from descriptor to descriptor.
//!
//! Each component is opened in its parent without following links; links are read and their targets walked in
//! turn; `..` goes back to the descriptor it came from and never asks the file system. So nothing that changes
//! meanwhile can lead it out.

use super::workspace::{Existing, Found, LookupError, Missing, Workspace, join};
use agentd_core::limits;
use agentd_core::path_bytes::PathBytes;
use rustix::fs::{FileType, Mode, OFlags};
use rustix::io::Errno;
use std::collections::VecDeque;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// The magic number of procfs, whose links lead to things and not to paths.
const PROC_SUPER_MAGIC: i64 = 0x9fa0;

struct Walker<'a> {
    workspace: &'a Workspace,
    /// The folders below the root, each with its name.
    folders: Vec<(OwnedFd, Vec<u8>)>,
    todo: VecDeque<Vec<u8>>,
    links: u32,
}

/// Walks `below`, a path relative to the root.
pub(super) fn walk(workspace: &Workspace, below: &[u8]) -> Result<Found, LookupError> {
    let mut walker = Walker { workspace, folders: Vec::new(), todo: components(below), links: 0 };
    loop {
        let Some(name) = walker.todo.pop_front() else { return walker.at_folder() };
        match name.as_slice() {
            b"." => {}
            b".." => {
                if walker.folders.pop().is_none() && !workspace.is_file_system() {
                    let why = "it goes above the workspace";
                    return Err(LookupError::Outside { resolved: walker.above(), why });
                }
            }
            _ => {
                if let Some(found) = walker.enter(name)? {
                    return Ok(found);
                }
            }
        }
    }
}

/// The components of a path; a final slash counts as `.`, because it asks for a folder.
fn components(path: &[u8]) -> VecDeque<Vec<u8>> {
    let mut parts: VecDeque<Vec<u8>> =
        path.split(|byte| *byte == b'/').filter(|part| !part.is_empty()).map(<[u8]>::to_vec).collect();
    if path.ends_with(b"/") {
        parts.push_back(b".".to_vec());
    }
    parts
}

impl Walker<'_> {
    fn here(&self) -> BorrowedFd<'_> {
        self.folders.last().map_or_else(|| self.workspace.root(), |(fd, _)| fd.as_fd())
    }

    fn path(&self) -> PathBytes {
        self.folders.iter().fold(self.workspace.path().clone(), |path, (_, name)| join(path.as_bytes(), name))
    }

    fn outside(&self, name: &[u8], why: &'static str) -> LookupError {
        LookupError::Outside { resolved: join(self.path().as_bytes(), name), why }
    }

    /// Where the rest of the path would lead from above the root, as far as text can tell: nothing is looked at there.
    fn above(&self) -> PathBytes {
        let root = self.workspace.path().as_bytes();
        let mut parts: Vec<&[u8]> =
            root.split(|byte| *byte == b'/').filter(|part| !part.is_empty()).collect();
        parts.pop();
        for part in &self.todo {
            match part.as_slice() {
                b"." => {}
                b".." => drop(parts.pop()),
                part => parts.push(part),
            }
        }
        parts.iter().fold(PathBytes::from("/"), |path, part| join(path.as_bytes(), part))
    }

    /// The path ended at a folder.
    fn at_folder(&self) -> Result<Found, LookupError> {
        let refused = |errno| LookupError::Refused { at: self.path(), errno };
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let fd = rustix::fs::openat(self.here(), ".", flags, Mode::empty()).map_err(refused)?;
        let stat = rustix::fs::fstat(&fd).map_err(refused)?;
        Ok(Found::Existing(Existing { fd, stat, path: self.path() }))
    }

    /// Goes one name down. Returns what was found when the path ends there.
    fn enter(&mut self, name: Vec<u8>) -> Result<Option<Found>, LookupError> {
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let at = join(self.path().as_bytes(), &name);
        let fd = match rustix::fs::openat(self.here(), name.as_slice(), flags, Mode::empty()) {
            Ok(fd) => fd,
            Err(Errno::NOENT) => return self.missing(name).map(Some),
            Err(Errno::NOTDIR) => return Err(LookupError::NotFolder { at: self.path() }),
            Err(errno) => return Err(LookupError::Refused { at, errno }),
        };
        let stat = rustix::fs::fstat(&fd).map_err(|errno| LookupError::Refused { at: at.clone(), errno })?;
        if !self.workspace.is_same_mount(fd.as_fd()) {
            return Err(LookupError::Outside { resolved: at, why: "another file system is mounted there" });
        }
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::Symlink => self.follow(&fd, at).map(|()| None),
            FileType::Directory => {
                self.folders.push((fd, name));
                Ok(None)
            }
            _ if self.todo.is_empty() => Ok(Some(Found::Existing(Existing { fd, stat, path: at }))),
            // Whoever cleans such a path as text comes out above: that is what it is judged by.
            _ if self.climbs_out() => Err(self.outside(&name, "it goes above the workspace")),
            _ => Err(LookupError::NotFolder { at }),
        }
    }

    /// Whether what is left of the path, read as text from the name that was just found, goes above the root.
    fn climbs_out(&self) -> bool {
        let mut depth = self.folders.len() + 1;
        for part in &self.todo {
            match part.as_slice() {
                b"." => {}
                b".." if depth == 0 => return !self.workspace.is_file_system(),
                b".." => depth -= 1,
                _ => depth += 1,
            }
        }
        false
    }

    /// Puts the target of a link before what is left of the path.
    fn follow(&mut self, link: &OwnedFd, at: PathBytes) -> Result<(), LookupError> {
        self.links += 1;
        if self.links > limits::LINKS_MAX {
            return Err(LookupError::Loop);
        }
        #[allow(clippy::unnecessary_cast, reason = "the width of f_type differs between platforms")]
        let is_magic = rustix::fs::fstatfs(link).is_ok_and(|fs| fs.f_type as i64 == PROC_SUPER_MAGIC);
        if is_magic {
            return Err(LookupError::Outside { resolved: at, why: "it is a link of /proc" });
        }
        let target = rustix::fs::readlinkat(link, "", Vec::new())
            .map_err(|errno| LookupError::Refused { at, errno })?
            .into_bytes();
        let next = if target.starts_with(b"/") {
            let Some(below) = self.workspace.below_root(&target) else {
                let whole =
                    self.todo.iter().fold(PathBytes::new(target), |path, part| join(path.as_bytes(), part));
                return Err(LookupError::Outside {
                    resolved: whole,
                    why: "a link leads to an absolute path elsewhere",
                });
            };
            self.folders.clear();
            components(&below)
        } else {
            components(&target)
        };
        for part in next.into_iter().rev() {
            self.todo.push_front(part);
        }
        Ok(())
    }

    /// Nothing has this name here.
    fn missing(&self, name: Vec<u8>) -> Result<Found, LookupError> {
        // What follows a missing folder is text only. If it climbs, it is counted, not cleaned: `x/../y` does not
        // exist while `x` does not.
        if self.climbs_out() {
            return Err(self.outside(&name, "it goes above the workspace"));
        }
        let climbs = self.todo.iter().any(|part| part.as_slice() == b"..");
        let folder_meant = self.todo.back().is_some_and(|part| part == b".");
        let mut names = vec![name];
        if !climbs {
            names.extend(self.todo.iter().filter(|part| part.as_slice() != b".").cloned());
        }
        let Found::Existing(folder) = self.at_folder()? else { return Err(LookupError::Loop) };
        Ok(Found::Missing(Missing {
            folder: folder.fd,
            folder_path: folder.path,
            names,
            folder_meant: folder_meant || climbs,
        }))
    }
}
