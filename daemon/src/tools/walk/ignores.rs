//! What ignore files say: `.ignore` before `.gitignore` before `.git/info/exclude`, deeper folders before those above.
//!
//! Ignore files are read through descriptors: regular files only, without waiting and up to a bound, so that a FIFO of
//! that name holds nothing up. Rules of git end at the top folder of a repository; `.gitignore` counts without one.

use crate::inspect::Workspace;
use agentd_core::limits;
use ignore::Match;
use ignore::gitignore::{Gitignore, GitignoreBuilder};
use rustix::fs::{AtFlags, FileType};
use std::ffi::{CStr, OsStr};
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::sync::Arc;

/// The rules of one folder, and those above it.
pub(super) struct Ignores {
    above: Option<Arc<Ignores>>,
    /// Bytes of a path before what is below this folder.
    base: usize,
    dot: Option<Gitignore>,
    git: Option<Gitignore>,
    exclude: Option<Gitignore>,
    is_repository: bool,
}

/// Which names that concern rules a folder has.
#[derive(Clone, Copy, Default)]
pub(super) struct RuleFiles {
    dot: bool,
    git: bool,
    repository: Option<FileType>,
}

impl RuleFiles {
    /// Notes one entry of the folder.
    pub(super) fn note(&mut self, name: &[u8], kind: FileType) {
        match name {
            b".ignore" => self.dot = true,
            b".gitignore" => self.git = true,
            b".git" => self.repository = Some(kind),
            _ => {}
        }
    }

    /// For a folder whose entries are not read: looks for each.
    pub(super) fn look(folder: BorrowedFd<'_>) -> Self {
        let mut files = Self::default();
        for name in [c".ignore", c".gitignore", c".git"] {
            if let Ok(stat) = rustix::fs::statat(folder, name, AtFlags::SYMLINK_NOFOLLOW) {
                files.note(name.to_bytes(), FileType::from_raw_mode(stat.st_mode));
            }
        }
        files
    }
}

impl Ignores {
    /// The rules in a folder: those above it if it has none of its own.
    pub(super) fn of_folder(
        above: Option<&Arc<Self>>,
        workspace: &Workspace,
        folder: BorrowedFd<'_>,
        path: &[u8],
        files: RuleFiles,
    ) -> Option<Arc<Self>> {
        let is_repository = files.repository.is_some();
        if !files.dot && !files.git && !is_repository {
            return above.cloned();
        }
        let rules = |name: &CStr| rules_of(workspace, folder, name);
        let exclude = || {
            let git = workspace.open_entry(folder, c".git", true).ok()?;
            let info = workspace.open_entry(git.as_fd(), c"info", true).ok()?;
            rules_of(workspace, info.as_fd(), c"exclude")
        };
        Some(Arc::new(Self {
            above: above.cloned(),
            base: if path.is_empty() { 0 } else { path.len() + 1 },
            dot: if files.dot { rules(c".ignore") } else { None },
            git: if files.git { rules(c".gitignore") } else { None },
            exclude: if files.repository == Some(FileType::Directory) { exclude() } else { None },
            is_repository,
        }))
    }

    /// Whether a path (from the same place as `path` of [`Self::of_folder`]) is ignored. What lies in an ignored
    /// folder is not asked about.
    pub(super) fn is_ignored(&self, path: &[u8], is_folder: bool) -> bool {
        let (mut git, mut exclude) = (Found::None, Found::None);
        let mut within = true;
        let mut level = Some(self);
        while let Some(rules) = level {
            let below = Path::new(OsStr::from_bytes(path.get(rules.base..).unwrap_or_default()));
            let ask = |matcher: &Option<Gitignore>| Found::of(matcher.as_ref(), below, is_folder);
            match ask(&rules.dot) {
                Found::None => {}
                found => return found == Found::Ignored,
            }
            if within && git == Found::None {
                git = ask(&rules.git);
            }
            if within && exclude == Found::None {
                exclude = ask(&rules.exclude);
            }
            within &= !rules.is_repository;
            level = rules.above.as_deref();
        }
        let found = if git == Found::None { exclude } else { git };
        found == Found::Ignored
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Found {
    None,
    Ignored,
    Kept,
}

impl Found {
    fn of(matcher: Option<&Gitignore>, path: &Path, is_folder: bool) -> Self {
        match matcher.map_or(Match::None, |matcher| matcher.matched(path, is_folder).map(|_| ())) {
            Match::None => Self::None,
            Match::Ignore(()) => Self::Ignored,
            Match::Whitelist(()) => Self::Kept,
        }
    }
}

/// The rules of one file, if it is one. Lines that are no rules count as nothing, as git has it.
fn rules_of(workspace: &Workspace, folder: BorrowedFd<'_>, name: &CStr) -> Option<Gitignore> {
    let fd = workspace.open_entry(folder, name, false).ok()?;
    let bytes = read_rules(&fd)?;
    let text = String::from_utf8_lossy(&bytes);
    let mut builder = GitignoreBuilder::new("");
    for (number, line) in text.lines().enumerate() {
        let line = if number == 0 { line.trim_start_matches('\u{feff}') } else { line };
        let _ = builder.add_line(None, line);
    }
    builder.build().ok().filter(|rules| !rules.is_empty())
}

fn read_rules(fd: &OwnedFd) -> Option<Vec<u8>> {
    let stat = rustix::fs::fstat(fd).ok()?;
    if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
        return None;
    }
    let mut bytes = Vec::new();
    let file = std::fs::File::from(fd.try_clone().ok()?);
    let most = u64::try_from(limits::IGNORE_FILE_MAX_BYTES).unwrap_or(u64::MAX);
    std::io::Read::read_to_end(&mut std::io::Read::take(file, most), &mut bytes).ok()?;
    Some(bytes)
}
