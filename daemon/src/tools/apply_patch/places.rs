//! The files of a patch by their real paths, reached without following links.

use crate::inspect::{LookupError, Workspace, strip_folder};
use crate::ports::SessionContext;
use crate::tools::{commit, text};
use agentd_core::event::PermissionMode;
use agentd_core::path_bytes::PathBytes;
use agentd_core::policy::names::shown;
use rustix::fs::{AtFlags, FileType, Stat};
use rustix::io::Errno;
use std::os::fd::OwnedFd;

/// What the paths of a session lie in.
pub(super) struct Places {
    inside: Workspace,
    anywhere: Option<Workspace>,
}

impl Places {
    pub(super) fn of(session: &SessionContext) -> Result<Self, LookupError> {
        let is_free = session.settings.mode == PermissionMode::Full;
        let anywhere = if is_free { Some(Workspace::anywhere(&session.cwd)?) } else { None };
        Ok(Self { inside: Workspace::open(&session.root, &session.cwd)?, anywhere })
    }

    /// The workspace that a real path is reached from.
    pub(super) fn workspace(&self, path: &PathBytes) -> &Workspace {
        let is_inside = strip_folder(path.as_bytes(), self.inside.path().as_bytes()).is_some();
        self.anywhere.as_ref().filter(|_| !is_inside).unwrap_or(&self.inside)
    }

    /// The folder of a real path, and the last name.
    pub(super) fn folder(&self, path: &PathBytes) -> Result<(OwnedFd, Vec<u8>), LookupError> {
        self.workspace(path).parent_of(path)
    }

    /// What is there now.
    pub(super) fn now(&self, path: &PathBytes) -> Now {
        match self.folder(path) {
            Ok((folder, name)) => now_in(&folder, &name),
            Err(LookupError::Refused { errno: Errno::NOENT, .. }) => Now::Nothing,
            Err(_) => Now::Other,
        }
    }
}

/// What has a name now.
pub(super) enum Now {
    Nothing,
    File {
        hash: String,
        mode: u32,
    },
    /// No regular file, too large, or it cannot be told.
    Other,
}

impl Now {
    /// Whether it is a file with this content, or nothing where there is to be none.
    pub(super) fn is(&self, hash: Option<&str>) -> bool {
        match self {
            Self::Nothing => hash.is_none(),
            Self::File { hash: now, .. } => hash == Some(now.as_str()),
            Self::Other => false,
        }
    }
}

/// What has a name in a folder.
pub(super) fn now_in(folder: &OwnedFd, name: &[u8]) -> Now {
    let stat: Stat = match rustix::fs::statat(folder, name, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(stat) => stat,
        Err(Errno::NOENT) => return Now::Nothing,
        Err(_) => return Now::Other,
    };
    if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
        return Now::Other;
    }
    match commit::read_named(folder, name) {
        Some((stat, content)) => Now::File { hash: text::hash(&content), mode: stat.st_mode & 0o7777 },
        None => Now::Other,
    }
}

/// Names for a person or a model: not more than a few.
pub(super) fn names_of<'a>(paths: impl Iterator<Item = &'a PathBytes>) -> String {
    const NAMED: usize = 10;
    let names: Vec<String> = paths.map(shown).collect();
    let more = names.len().saturating_sub(NAMED);
    let named = names.iter().take(NAMED).cloned().collect::<Vec<_>>().join(", ");
    if more > 0 { format!("{named} and {more} more") } else { named }
}
