//! The few system calls that have no safe wrapper: signals and descriptors of a single-threaded process.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

fn check(result: libc::c_int) -> io::Result<libc::c_int> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

/// Closes every descriptor from 3 on: whatever a careless ancestor let through.
pub fn close_inherited() {
    // SAFETY: plain system call. Called first in a process that owns no descriptors yet but 0, 1 and 2.
    unsafe { libc::syscall(libc::SYS_close_range, 3_u32, u32::MAX, 0_u32) };
}

/// Blocks the signals a supervisor acts on and gives a descriptor they are read from. SIGPIPE and SIGXFSZ are
/// ignored, so that their causes come as errors.
pub(super) fn take_signals() -> io::Result<OwnedFd> {
    // SAFETY: `set` is initialised by sigemptyset before use; all pointers are to live locals; no handler is set.
    unsafe {
        for ignored in [libc::SIGPIPE, libc::SIGXFSZ] {
            libc::signal(ignored, libc::SIG_IGN);
        }
        // An ignored SIGCHLD would be inherited, and exit codes would be lost.
        libc::signal(libc::SIGCHLD, libc::SIG_DFL);
        let mut set: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&raw mut set);
        for taken in [libc::SIGCHLD, libc::SIGTERM, libc::SIGINT, libc::SIGHUP, libc::SIGQUIT] {
            libc::sigaddset(&raw mut set, taken);
        }
        check(libc::sigprocmask(libc::SIG_SETMASK, &raw const set, std::ptr::null_mut()))?;
        let fd = check(libc::signalfd(-1, &raw const set, libc::SFD_CLOEXEC | libc::SFD_NONBLOCK))?;
        Ok(OwnedFd::from_raw_fd(fd))
    }
}

/// The next pending signal's number.
pub(super) fn next_signal(signals: &OwnedFd) -> Option<i32> {
    // SAFETY: signalfd_siginfo is plain data, valid as zeroes; the kernel writes at most its size.
    unsafe {
        let mut info: libc::signalfd_siginfo = std::mem::zeroed();
        let size = size_of::<libc::signalfd_siginfo>();
        let len = libc::read(signals.as_raw_fd(), (&raw mut info).cast(), size);
        (len == size as isize).then_some(info.ssi_signo as i32)
    }
}
