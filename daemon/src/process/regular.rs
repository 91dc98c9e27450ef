//! Opening the files of a job, whose folder the command may write to.
//!
//! Invariant: a read never waits for another process and never leaves the folder. What stands where a file should
//! be, a fifo, a link, a device, is an error of the kind `InvalidData` that says what it is.

use rustix::fs::{Mode, OFlags, open};
use rustix::io::Errno;
use std::fs::{File, FileType};
use std::io;
use std::os::unix::fs::FileTypeExt;
use std::path::Path;

/// Opens a regular file for reading.
pub(super) fn open_regular(path: &Path) -> io::Result<File> {
    // A fifo or a device opens at once with NONBLOCK, which means nothing for regular files.
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC | OFlags::NOCTTY;
    let file = match open(path, flags, Mode::empty()) {
        Ok(file) => File::from(file),
        Err(Errno::LOOP) => return Err(not_a_file("link")),
        // A socket.
        Err(Errno::NXIO) => return Err(not_a_file("socket")),
        Err(error) => return Err(error.into()),
    };
    let kind = file.metadata()?.file_type();
    if kind.is_file() { Ok(file) } else { Err(not_a_file(name_of(kind))) }
}

/// Opens a folder, to sync it.
pub(super) fn open_folder(path: &Path) -> io::Result<File> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::DIRECTORY | OFlags::CLOEXEC;
    Ok(File::from(open(path, flags, Mode::empty())?))
}

/// Whether there is a folder, not a link to one.
pub(super) fn is_folder(path: &Path) -> bool {
    path.symlink_metadata().is_ok_and(|meta| meta.is_dir())
}

fn not_a_file(kind: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("it is a {kind}, not a file"))
}

fn name_of(kind: FileType) -> &'static str {
    if kind.is_fifo() {
        "fifo"
    } else if kind.is_dir() {
        "folder"
    } else if kind.is_symlink() {
        "link"
    } else {
        "device"
    }
}
