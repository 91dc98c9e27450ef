//! Putting a content in place: all of it or none, in the very folder that was looked at.
//!
//! The new content is written to a file beside the old one, synced, and exchanged with it. Then what was displaced
//! is compared with what was inspected; if somebody else was faster it is exchanged back. So a change made in the
//! last moment is never lost, and a link put in the way is never followed. Where the file system cannot exchange,
//! the comparison comes first and a small window stays.
//!
//! The name beside it is made from the call's id, so that recovery finds what a killed daemon left.
//!
//! Kept: permission bits, owner and group. Not kept: access control lists and extended attributes.

use crate::inspect::{Existing, Missing, Workspace, identity};
use crate::tools::text;
use agentd_core::ids::CallId;
use agentd_core::limits;
use rustix::fs::{AtFlags, FileType, Mode, OFlags, RenameFlags, Stat};
use rustix::io::Errno;
use std::fs::File;
use std::io::{Read as _, Write as _};
use std::os::fd::OwnedFd;

/// Why the old bytes are still there.
#[derive(Debug, thiserror::Error)]
pub(super) enum CommitError {
    /// Somebody else was faster.
    #[error("it was changed by somebody else in this moment; read it again")]
    Changed,
    /// A replacement would belong to somebody else.
    #[error("its owner or group ({uid}:{gid}) cannot be kept by this user: {errno}")]
    Owner {
        /// User.
        uid: u32,
        /// Group.
        gid: u32,
        /// Why.
        errno: Errno,
    },
    /// Somebody else was faster, and what they wrote could not be put back.
    #[error(
        "the new content is there now; what somebody else wrote in this moment is in {temp} beside it, because {why}"
    )]
    Displaced {
        /// The name it has.
        temp: String,
        /// What failed.
        why: String,
    },
    /// The kernel said no.
    #[error("{what} failed: {source}")]
    Io {
        /// What was tried.
        what: &'static str,
        /// Why.
        source: std::io::Error,
    },
}

/// The permission bits of a change.
pub(super) struct Written {
    pub(super) before_mode: Option<u32>,
    pub(super) after_mode: u32,
}

pub(super) fn io(what: &'static str) -> impl FnOnce(Errno) -> CommitError {
    move |errno| CommitError::Io { what, source: errno.into() }
}

/// The name of the file that a call writes first.
pub(super) fn temp_name(call: &CallId) -> String {
    let id: String = call.as_str().chars().filter(|c| c.is_ascii_alphanumeric() || *c == '_').collect();
    format!(".agentd-{id}.tmp")
}

/// The same for one of several files of a call.
pub(super) fn temp_name_of(call: &CallId, number: usize) -> String {
    let one = temp_name(call);
    format!("{}.{number}.tmp", one.strip_suffix(".tmp").unwrap_or(&one))
}

/// A half-made file, removed unless it got its name.
pub(super) struct Temp<'a> {
    folder: &'a OwnedFd,
    name: &'a str,
    is_there: bool,
}

impl Drop for Temp<'_> {
    fn drop(&mut self) {
        if self.is_there {
            let _ = rustix::fs::unlinkat(self.folder, self.name, AtFlags::empty());
        }
    }
}

impl<'a> Temp<'a> {
    /// Creates it; never through a link, never over something else.
    pub(super) fn create(folder: &'a OwnedFd, name: &'a str, mode: u32) -> Result<(Self, File), CommitError> {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let open = || rustix::fs::openat(folder, name, flags, Mode::from_raw_mode(mode));
        let fd = match open() {
            Err(Errno::EXIST) => {
                // Only a former try of the same call can have made it.
                let _ = rustix::fs::unlinkat(folder, name, AtFlags::empty());
                open()
            }
            other => other,
        };
        let fd = fd.map_err(io("making a file beside it"))?;
        Ok((Self { folder, name, is_there: true }, File::from(fd)))
    }

    /// Leaves it there.
    pub(super) fn keep(mut self) {
        self.is_there = false;
    }
}

pub(super) fn fill(file: &mut File, content: &[u8]) -> Result<(), CommitError> {
    let failed = |source| CommitError::Io { what: "writing the new content", source };
    file.write_all(content).map_err(failed)?;
    file.sync_all().map_err(failed)
}

/// Replaces an existing file whose content was inspected as `before` (its hash).
pub(super) fn replace(
    workspace: &Workspace,
    existing: &Existing,
    before: &str,
    content: &[u8],
    temp: &str,
) -> Result<Written, CommitError> {
    let (folder, name) = workspace.parent_of(&existing.path).map_err(|_| CommitError::Changed)?;
    let here = rustix::fs::statat(&folder, name.as_slice(), AtFlags::SYMLINK_NOFOLLOW)
        .map_err(|_| CommitError::Changed)?;
    if identity(&here) != identity(&existing.stat) {
        return Err(CommitError::Changed);
    }
    let (mut guard, mut file) = Temp::create(&folder, temp, 0o600)?;
    keep_owner(&file, &existing.stat)?;
    fill(&mut file, content)?;
    let mode = existing.mode();
    rustix::fs::fchmod(&file, Mode::from_raw_mode(mode)).map_err(io("keeping its permission bits"))?;
    file.sync_all().map_err(|source| CommitError::Io { what: "syncing the new content", source })?;
    let name = name.as_slice();
    match rustix::fs::renameat_with(&folder, temp, &folder, name, RenameFlags::EXCHANGE) {
        Ok(()) => {
            if !is_as_inspected(&folder, temp.as_bytes(), &existing.stat, before) {
                // Until it is back, what lies beside is somebody else's.
                guard.is_there = false;
                let ours = rustix::fs::fstat(&file).map_err(io("looking at the new file"))?;
                put_back(&folder, temp, name, identity(&ours)).map_err(|error| CommitError::Displaced {
                    temp: temp.to_owned(),
                    why: error.to_string(),
                })?;
                guard.is_there = true;
                return Err(CommitError::Changed);
            }
        }
        Err(Errno::NOENT) => return Err(CommitError::Changed),
        Err(Errno::INVAL | Errno::NOSYS | Errno::NOTSUP | Errno::PERM) => {
            if !is_as_inspected(&folder, name, &existing.stat, before) {
                return Err(CommitError::Changed);
            }
            rustix::fs::renameat(&folder, temp, &folder, name)
                .map_err(io("putting the new content in place"))?;
            guard.is_there = false;
        }
        Err(errno) => return Err(io("putting the new content in place")(errno)),
    }
    // The displaced file goes with the guard.
    drop(guard);
    sync_folder(&folder);
    Ok(Written { before_mode: Some(mode), after_mode: mode })
}

/// Gives a name back to what our exchange displaced, or to what somebody put there since: each exchange must bring out
/// what the one before put in; if it brings out something newer, that is what belongs there.
pub(super) fn put_back(
    folder: &OwnedFd,
    temp: &str,
    name: &[u8],
    ours: (u64, u64),
) -> Result<(), CommitError> {
    // Held open, so that no inode number is given to another file meanwhile.
    let hold = || {
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let fd = rustix::fs::openat(folder, temp, flags, Mode::empty())?;
        rustix::fs::fstat(&fd).map(|stat| (Some(fd), identity(&stat)))
    };
    let failed = || io("putting back what somebody else wrote in this moment");
    let mut put = (None, ours);
    let mut going = hold().map_err(failed())?;
    for _ in 0..limits::EXCHANGES_MAX {
        match rustix::fs::renameat_with(folder, temp, folder, name, RenameFlags::EXCHANGE) {
            Ok(()) => {}
            // They removed it; then it is to be gone.
            Err(Errno::NOENT) => return Ok(()),
            Err(errno) => return Err(failed()(errno)),
        }
        let came = hold().map_err(failed())?;
        if came.1 == put.1 {
            return Ok(());
        }
        put = std::mem::replace(&mut going, came);
    }
    Ok(())
}

/// Creates a file that was not there, with the folders it needs.
pub(super) fn create(missing: &Missing, content: &[u8], temp: &str) -> Result<Written, CommitError> {
    let Some((last, folders)) = missing.names.split_last() else { return Err(CommitError::Changed) };
    let open = |at: &OwnedFd, name: &[u8]| {
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::DIRECTORY | OFlags::CLOEXEC;
        rustix::fs::openat(at, name, flags, Mode::empty())
    };
    let mut made: Vec<(OwnedFd, &[u8])> = Vec::new();
    let mut folder = open(&missing.folder, b".").map_err(io("opening its folder"))?;
    let mut result = Ok(());
    for name in folders {
        match rustix::fs::mkdirat(&folder, name.as_slice(), Mode::from_raw_mode(0o777)) {
            Ok(()) | Err(Errno::EXIST) => {}
            Err(errno) => {
                result = Err(io("making its folder")(errno));
                break;
            }
        }
        match open(&folder, name) {
            Ok(next) => {
                sync_folder(&folder);
                made.push((std::mem::replace(&mut folder, next), name));
            }
            Err(_) => {
                result = Err(CommitError::Changed);
                break;
            }
        }
    }
    let result = result.and_then(|()| place_new(&folder, last, content, temp));
    if result.is_err() {
        // Only empty folders go; what somebody else put there stays.
        for (parent, name) in made.iter().rev() {
            let _ = rustix::fs::unlinkat(parent, *name, AtFlags::REMOVEDIR);
        }
    }
    result
}

fn place_new(folder: &OwnedFd, name: &[u8], content: &[u8], temp: &str) -> Result<Written, CommitError> {
    let (mut guard, mut file) = Temp::create(folder, temp, 0o644)?;
    fill(&mut file, content)?;
    let stat = rustix::fs::fstat(&file).map_err(io("looking at the new file"))?;
    if rename_new(folder, temp.as_bytes(), name).map_err(|error| error.placing())? {
        guard.is_there = false;
    }
    drop(guard);
    sync_folder(folder);
    Ok(Written { before_mode: None, after_mode: stat.st_mode & 0o7777 })
}

/// Why a name could not be given.
pub(super) enum RenameError {
    /// Something has it.
    Taken,
    /// The kernel said no.
    Refused(Errno),
}

impl RenameError {
    pub(super) fn placing(self) -> CommitError {
        match self {
            Self::Taken => CommitError::Changed,
            Self::Refused(errno) => io("putting the new file in place")(errno),
        }
    }
}

/// Gives a file a name that nothing has. Whether its old name is gone: where the file system cannot rename like this
/// it has both.
pub(super) fn rename_new(folder: &OwnedFd, from: &[u8], to: &[u8]) -> Result<bool, RenameError> {
    match rustix::fs::renameat_with(folder, from, folder, to, RenameFlags::NOREPLACE) {
        Ok(()) => Ok(true),
        Err(Errno::EXIST) => Err(RenameError::Taken),
        Err(Errno::INVAL | Errno::NOSYS | Errno::NOTSUP | Errno::PERM) => {
            match rustix::fs::linkat(folder, from, folder, to, AtFlags::empty()) {
                Ok(()) => Ok(false),
                Err(Errno::EXIST) => Err(RenameError::Taken),
                Err(errno) => Err(RenameError::Refused(errno)),
            }
        }
        Err(errno) => Err(RenameError::Refused(errno)),
    }
}

pub(super) fn keep_owner(file: &File, old: &Stat) -> Result<(), CommitError> {
    let new = rustix::fs::fstat(file).map_err(io("looking at the new file"))?;
    if (new.st_uid, new.st_gid) == (old.st_uid, old.st_gid) {
        return Ok(());
    }
    let (uid, gid) = (rustix::fs::Uid::from_raw(old.st_uid), rustix::fs::Gid::from_raw(old.st_gid));
    rustix::fs::fchown(file, Some(uid), Some(gid)).map_err(|errno| CommitError::Owner {
        uid: old.st_uid,
        gid: old.st_gid,
        errno,
    })
}

/// Whether a name holds the very file that was inspected, with the content it had.
fn is_as_inspected(folder: &OwnedFd, name: &[u8], old: &Stat, before: &str) -> bool {
    holds(folder, name, identity(old), before)
}

/// Whether a name holds this very file with this content (its hash).
pub(super) fn holds(folder: &OwnedFd, name: &[u8], file: (u64, u64), content_hash: &str) -> bool {
    read_named(folder, name)
        .is_some_and(|(stat, content)| identity(&stat) == file && text::hash(&content) == content_hash)
}

/// The regular file of this name, never through a link; none for anything else, and for what is too large.
pub(super) fn read_named(folder: &OwnedFd, name: &[u8]) -> Option<(Stat, Vec<u8>)> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let fd = rustix::fs::openat(folder, name, flags, Mode::empty()).ok()?;
    let stat = rustix::fs::fstat(&fd).ok()?;
    if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
        return None;
    }
    let mut content = Vec::new();
    File::from(fd).take(limits::EDIT_MAX_BYTES + 1).read_to_end(&mut content).ok()?;
    (u64::try_from(content.len()).unwrap_or(u64::MAX) <= limits::EDIT_MAX_BYTES).then_some((stat, content))
}

/// Makes a rename survive a power loss. Best effort: some file systems cannot.
pub(super) fn sync_folder(folder: &OwnedFd) {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    if let Ok(fd) = rustix::fs::openat(folder, ".", flags, Mode::empty()) {
        let _ = rustix::fs::fsync(fd);
    }
}
