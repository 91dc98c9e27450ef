//! A workspace as an opened folder, and the lookup of paths below it.
//!
//! The kernel does the lookup: `openat2` with `RESOLVE_BENEATH`, `RESOLVE_NO_MAGICLINKS` and `RESOLVE_NO_XDEV`, so
//! `..` and links cannot leave the folder whatever changes meanwhile. Where it refuses or does not exist, the walk
//! of `walk.rs` goes from descriptor to descriptor: it tells links out of the workspace from absolute links that
//! stay in it, and finds the nearest folder of what is missing.
//!
//! Invariant: a descriptor that a lookup returns was reached without leaving the workspace. `/proc` must be
//! mounted (the real path of a descriptor is asked there; the walk knows it by itself).

use super::walk;
use agentd_core::limits;
use agentd_core::path_bytes::PathBytes;
use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, ResolveFlags, Stat, StatxFlags};
use rustix::io::Errno;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

/// Why a path does not lead anywhere.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LookupError {
    /// No bytes.
    #[error("the path is empty; give a path relative to the session's folder, or an absolute one")]
    Empty,
    /// A NUL byte.
    #[error("the path has a NUL byte, which no path can have")]
    Nul,
    /// It leaves the workspace.
    #[error("the path leads out of the workspace: {why}")]
    Outside {
        /// Where to, as far as it was followed.
        resolved: PathBytes,
        /// By what.
        why: &'static str,
    },
    /// Something on the way is not a folder.
    #[error("{} is not a folder", agentd_core::policy::names::shown(at))]
    NotFolder {
        /// What.
        at: PathBytes,
    },
    /// Too many links.
    #[error("the path goes round in a loop of links")]
    Loop,
    /// The workspace itself.
    #[error("the workspace {} cannot be opened: {errno}", agentd_core::policy::names::shown(root))]
    Workspace {
        /// Its path.
        root: PathBytes,
        /// Why.
        errno: Errno,
    },
    /// The kernel said no.
    #[error("{} cannot be looked at: {errno}", agentd_core::policy::names::shown(at))]
    Refused {
        /// What.
        at: PathBytes,
        /// Why.
        errno: Errno,
    },
}

/// Something that is there, held open without being read (`O_PATH`).
#[derive(Debug)]
pub struct Existing {
    /// The descriptor.
    pub fd: OwnedFd,
    /// What it is.
    pub stat: Stat,
    /// Its real path.
    pub path: PathBytes,
}

impl Existing {
    /// Its type.
    pub fn kind(&self) -> FileType {
        FileType::from_raw_mode(self.stat.st_mode)
    }
    /// Its number of names.
    #[allow(clippy::useless_conversion, reason = "the width of st_nlink differs between platforms")]
    pub fn links(&self) -> u64 {
        u64::from(self.stat.st_nlink)
    }
    /// Its inode.
    #[allow(clippy::useless_conversion, reason = "the width of st_ino differs between platforms")]
    pub fn inode(&self) -> u64 {
        u64::from(self.stat.st_ino)
    }
    /// Bytes.
    pub fn size(&self) -> u64 {
        u64::try_from(self.stat.st_size).unwrap_or(0)
    }
    /// Permission bits.
    pub fn mode(&self) -> u32 {
        self.stat.st_mode & 0o7777
    }

    /// Opens the very file for reading. Only for regular files and folders: never blocks on those.
    pub fn open(&self) -> rustix::io::Result<OwnedFd> {
        let path = format!("/proc/self/fd/{}", self.fd.as_raw_fd());
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        rustix::fs::openat(CWD, path, flags, Mode::empty())
    }

    /// Whether its permission bits let this process write it.
    pub fn is_writable(&self) -> bool {
        rustix::fs::access(format!("/proc/self/fd/{}", self.fd.as_raw_fd()), rustix::fs::Access::WRITE_OK)
            .is_ok()
    }
}

/// Something that is not there.
#[derive(Debug)]
pub struct Missing {
    /// The nearest folder that is.
    pub folder: OwnedFd,
    /// Its real path.
    pub folder_path: PathBytes,
    /// The names that are missing below it; at least one, none of them `.` or `..`.
    pub names: Vec<Vec<u8>>,
    /// The path ends in a slash, so a folder was meant.
    pub folder_meant: bool,
}

/// What a lookup found.
#[derive(Debug)]
pub enum Found {
    /// It is there.
    Existing(Existing),
    /// It is not, and this is how far the path goes.
    Missing(Missing),
}

impl Found {
    /// Where it is, or would be.
    pub fn path(&self) -> PathBytes {
        match self {
            Self::Existing(existing) => existing.path.clone(),
            Self::Missing(missing) => missing
                .names
                .iter()
                .fold(missing.folder_path.clone(), |path, name| join(path.as_bytes(), name)),
        }
    }
}

/// An opened workspace.
#[derive(Debug)]
pub struct Workspace {
    root: OwnedFd,
    path: PathBytes,
    identity: (u64, u64),
    /// Where relative paths start, as a path below the root; none when the session's folder is outside.
    start: Option<Vec<u8>>,
    cwd: PathBytes,
    /// Mounts below the root count as outside.
    one_mount: bool,
}

impl Workspace {
    /// Opens the folder `root`; relative paths will start in `cwd`.
    pub fn open(root: &PathBytes, cwd: &PathBytes) -> Result<Self, LookupError> {
        Self::open_as(root, cwd, true)
    }

    /// The whole file system, for sessions that may do everything.
    pub fn anywhere(cwd: &PathBytes) -> Result<Self, LookupError> {
        Self::open_as(&PathBytes::from("/"), cwd, false)
    }

    fn open_as(root: &PathBytes, cwd: &PathBytes, one_mount: bool) -> Result<Self, LookupError> {
        let failed = |errno| LookupError::Workspace { root: root.clone(), errno };
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let fd = rustix::fs::openat(CWD, root.as_bytes(), flags, Mode::empty()).map_err(failed)?;
        let stat = rustix::fs::fstat(&fd).map_err(failed)?;
        let path = real_path(&fd).unwrap_or_else(|| root.clone());
        let mut workspace =
            Self { root: fd, path, identity: identity(&stat), start: None, cwd: cwd.clone(), one_mount };
        workspace.start = workspace.below_root(cwd.as_bytes());
        Ok(workspace)
    }

    /// The opened folder.
    pub fn root(&self) -> BorrowedFd<'_> {
        self.root.as_fd()
    }

    /// Its real path.
    pub const fn path(&self) -> &PathBytes {
        &self.path
    }

    /// Looks a path up as the model wrote it.
    pub fn lookup(&self, requested: &[u8]) -> Result<Found, LookupError> {
        if requested.is_empty() {
            return Err(LookupError::Empty);
        }
        if requested.contains(&0) {
            return Err(LookupError::Nul);
        }
        let outside = |path: &[u8], why| LookupError::Outside { resolved: PathBytes::new(path), why };
        let below = if requested.starts_with(b"/") {
            self.below_root(requested)
                .ok_or_else(|| outside(requested, "it is an absolute path elsewhere"))?
        } else if let Some(start) = &self.start {
            [start.as_slice(), requested].join(&b'/')
        } else {
            let joined = join(self.cwd.as_bytes(), requested);
            return Err(outside(joined.as_bytes(), "the session's folder is not in the workspace"));
        };
        match self.by_kernel(&below) {
            Some(existing) => Ok(Found::Existing(existing)),
            None => walk::walk(self, &below),
        }
    }

    /// Looks a directory entry up: a link at the end is itself what is meant, never what it leads to. A path that
    /// ends in a slash or a dot asks for a folder, and there the link is followed, as the kernel does.
    pub fn lookup_entry(&self, requested: &[u8]) -> Result<Found, LookupError> {
        let split = requested.iter().rposition(|byte| *byte == b'/');
        let (folder, name) = match split {
            Some(0) => (&b"/"[..], &requested[1..]),
            Some(at) => (&requested[..at], &requested[at + 1..]),
            None => (&b"."[..], requested),
        };
        if matches!(name, b"" | b"." | b"..") || requested.contains(&0) {
            return self.lookup(requested);
        }
        let parent = match self.lookup(folder)? {
            Found::Existing(parent) => parent,
            Found::Missing(mut missing) => {
                missing.names.push(name.to_vec());
                missing.folder_meant = false;
                return Ok(Found::Missing(missing));
            }
        };
        if parent.kind() != FileType::Directory {
            return Err(LookupError::NotFolder { at: parent.path });
        }
        let path = join(parent.path.as_bytes(), name);
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let fd = match rustix::fs::openat(&parent.fd, name, flags, Mode::empty()) {
            Ok(fd) => fd,
            Err(Errno::NOENT) => {
                return Ok(Found::Missing(Missing {
                    folder: parent.fd,
                    folder_path: parent.path,
                    names: vec![name.to_vec()],
                    folder_meant: false,
                }));
            }
            Err(errno) => return Err(LookupError::Refused { at: path, errno }),
        };
        if !self.is_same_mount(fd.as_fd()) {
            return Err(LookupError::Outside { resolved: path, why: "another file system is mounted there" });
        }
        let stat =
            rustix::fs::fstat(&fd).map_err(|errno| LookupError::Refused { at: path.clone(), errno })?;
        Ok(Found::Existing(Existing { fd, stat, path }))
    }

    /// The kernel's own lookup; none when it did not simply succeed.
    #[cfg(target_os = "linux")]
    pub(super) fn by_kernel(&self, below: &[u8]) -> Option<Existing> {
        let mut resolve = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
        if self.one_mount {
            resolve |= ResolveFlags::NO_XDEV;
        }
        let relative: Vec<u8> = below.iter().copied().skip_while(|byte| *byte == b'/').collect();
        let relative = if relative.is_empty() { b".".to_vec() } else { relative };
        for _ in 0..limits::LOOKUP_RETRIES_MAX {
            let flags = OFlags::PATH | OFlags::CLOEXEC;
            match rustix::fs::openat2(&self.root, relative.as_slice(), flags, Mode::empty(), resolve) {
                Ok(fd) => {
                    let path = real_path(&fd)?;
                    strip_folder(path.as_bytes(), self.path.as_bytes())?;
                    let stat = rustix::fs::fstat(&fd).ok()?;
                    return Some(Existing { fd, stat, path });
                }
                // A rename somewhere made the kernel unsure; it says so instead of guessing.
                Err(Errno::AGAIN | Errno::INTR) => {}
                Err(_) => return None,
            }
        }
        None
    }

    #[cfg(not(target_os = "linux"))]
    pub(super) fn by_kernel(&self, _below: &[u8]) -> Option<Existing> {
        None
    }

    /// An absolute path as a path below the root, without looking at links below it. Compared by components, and
    /// where the text differs by what the folders really are, so that a workspace can be named through a link.
    pub(super) fn below_root(&self, absolute: &[u8]) -> Option<Vec<u8>> {
        if let Some(below) = strip_folder(absolute, self.path.as_bytes()) {
            return Some(below.to_vec());
        }
        let ends =
            absolute.iter().enumerate().filter(|(at, byte)| **byte == b'/' && *at > 0).map(|(at, _)| at);
        for end in ends.chain([absolute.len()]) {
            let prefix = &absolute[..end];
            if folder_identity(prefix)? == self.identity {
                return Some(absolute[end..].to_vec());
            }
        }
        None
    }

    /// Opens the folder that holds the real path `path`, without following any link, and gives the last name. For
    /// writing: what is renamed there is in that very folder.
    pub fn parent_of(&self, path: &PathBytes) -> Result<(OwnedFd, Vec<u8>), LookupError> {
        let refused = |errno| LookupError::Refused { at: path.clone(), errno };
        let below = strip_folder(path.as_bytes(), self.path.as_bytes()).ok_or_else(|| {
            LookupError::Outside { resolved: path.clone(), why: "it is not below the workspace" }
        })?;
        let mut names: Vec<&[u8]> =
            below.split(|byte| *byte == b'/').filter(|name| !name.is_empty()).collect();
        let Some(last) = names.pop() else { return Err(LookupError::NotFolder { at: path.clone() }) };
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let mut folder = rustix::fs::openat(&self.root, ".", flags, Mode::empty()).map_err(refused)?;
        for name in names {
            folder = rustix::fs::openat(&folder, name, flags, Mode::empty()).map_err(refused)?;
        }
        Ok((folder, last.to_vec()))
    }

    /// Opens an entry of a folder below the root for reading, as a folder or as a file: never through a link, and
    /// never on another mount where that counts as outside (`XDEV`). A FIFO does not block it.
    pub fn open_entry(
        &self,
        folder: BorrowedFd<'_>,
        name: &std::ffi::CStr,
        as_folder: bool,
    ) -> rustix::io::Result<OwnedFd> {
        let mut flags =
            OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        if as_folder {
            flags |= OFlags::DIRECTORY;
        }
        #[cfg(target_os = "linux")]
        if self.one_mount {
            let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_XDEV;
            match rustix::fs::openat2(folder, name, flags, Mode::empty(), resolve) {
                // Not there, or forbidden by an old sandbox around the daemon, or unsure: the same by two steps.
                Err(Errno::NOSYS | Errno::PERM | Errno::AGAIN) => {}
                answer => return answer,
            }
        }
        let fd = rustix::fs::openat(folder, name, flags, Mode::empty())?;
        if self.is_same_mount(fd.as_fd()) { Ok(fd) } else { Err(Errno::XDEV) }
    }

    /// Whether a descriptor is on the mount of the root, where that matters.
    pub(super) fn is_same_mount(&self, fd: BorrowedFd<'_>) -> bool {
        !self.one_mount || mount_of(self.root.as_fd()) == mount_of(fd)
    }

    /// Whether the root is the root of the file system, where `..` stays.
    pub(super) fn is_file_system(&self) -> bool {
        self.path.as_bytes() == b"/"
    }
}

/// What an absolute path leads to. Not through the links of `/proc`: `/proc/PID/fd/3` may well be our own descriptor of
/// the workspace, and is no name of it. None where the kernel cannot promise that.
#[cfg(target_os = "linux")]
fn folder_identity(path: &[u8]) -> Option<(u64, u64)> {
    let flags = OFlags::PATH | OFlags::CLOEXEC;
    let fd = rustix::fs::openat2(CWD, path, flags, Mode::empty(), ResolveFlags::NO_MAGICLINKS).ok()?;
    rustix::fs::fstat(fd).ok().map(|stat| identity(&stat))
}

#[cfg(not(target_os = "linux"))]
fn folder_identity(path: &[u8]) -> Option<(u64, u64)> {
    rustix::fs::statat(CWD, path, AtFlags::empty()).ok().map(|stat| identity(&stat))
}

/// Device and inode: what a file is, whatever it is called.
#[allow(clippy::useless_conversion, clippy::unnecessary_cast, reason = "the widths differ between platforms")]
pub(crate) fn identity(stat: &Stat) -> (u64, u64) {
    (stat.st_dev as u64, stat.st_ino as u64)
}

/// The mount a descriptor is on; the device where the kernel does not tell mounts apart.
fn mount_of(fd: BorrowedFd<'_>) -> Option<u64> {
    const MNT_ID: StatxFlags = StatxFlags::MNT_ID;
    let found = rustix::fs::statx(fd, "", AtFlags::EMPTY_PATH, MNT_ID | StatxFlags::BASIC_STATS).ok()?;
    if found.stx_mask & MNT_ID.bits() != 0 {
        return Some(found.stx_mnt_id);
    }
    Some((u64::from(found.stx_dev_major) << 32) | u64::from(found.stx_dev_minor))
}

/// The real path of a descriptor, if it still has one.
fn real_path(fd: &OwnedFd) -> Option<PathBytes> {
    let link = rustix::fs::readlinkat(CWD, format!("/proc/self/fd/{}", fd.as_raw_fd()), Vec::new()).ok()?;
    let path = link.into_bytes();
    (path.starts_with(b"/") && !path.ends_with(b" (deleted)")).then(|| PathBytes::new(path))
}

/// What is left of `path` below `folder`, compared by whole components.
pub(crate) fn strip_folder<'a>(path: &'a [u8], folder: &[u8]) -> Option<&'a [u8]> {
    let folder = folder.strip_suffix(b"/").unwrap_or(folder);
    let rest = path.strip_prefix(folder)?;
    match rest.first() {
        None => Some(rest),
        Some(b'/') => Some(&rest[1..]),
        Some(_) => None,
    }
}

/// A name below a folder.
pub(crate) fn join(folder: &[u8], name: &[u8]) -> PathBytes {
    let folder = folder.strip_suffix(b"/").unwrap_or(folder);
    PathBytes::new([folder, name].join(&b'/'))
}
