//! Processes as `/proc` shows them: waiting for an exit, and finding what a test left behind.

use crate::deadline::Deadline;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process, pidfd_open};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::Child;

/// A process that was found running.
#[derive(Clone, Debug)]
pub struct Found {
    /// Its id.
    pub pid: u32,
    /// Its parent's id.
    pub parent: u32,
    /// The state letter of `/proc/PID/stat` (`Z` is a zombie).
    pub state: char,
    /// Its command line, words joined by spaces.
    pub command: String,
}

/// Waits for the exit of a process without reaping it. True when it has exited.
pub fn wait_exit(pid: u32, deadline: Deadline) -> bool {
    let Some(pid) = i32::try_from(pid).ok().and_then(Pid::from_raw) else { return true };
    // A process that is gone, or that somebody else reaped, has exited.
    let Ok(descriptor) = pidfd_open(pid, PidfdFlags::empty()) else { return true };
    loop {
        let left = deadline.remaining();
        let timeout = Timespec {
            tv_sec: i64::try_from(left.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: i64::from(left.subsec_nanos()),
        };
        let mut fds = [PollFd::new(&descriptor, PollFlags::IN)];
        match poll(&mut fds, Some(&timeout)) {
            Ok(ready) if ready > 0 => return true,
            Ok(_) if deadline.passed() => return false,
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => panic!("poll on a process descriptor failed: {error}"),
        }
    }
}

/// Waits for a child and reaps it; `None` when it still runs at the deadline.
pub fn wait_child(child: &mut Child, deadline: Deadline) -> Option<std::process::ExitStatus> {
    wait_exit(child.id(), deadline).then(|| child.wait().expect("a child that exited can be reaped"))
}

/// Sends a signal. False when there is no such process any more.
pub fn signal(pid: u32, signal: Signal) -> bool {
    i32::try_from(pid).ok().and_then(Pid::from_raw).is_some_and(|pid| kill_process(pid, signal).is_ok())
}

/// Whether a process exists and is not a zombie.
pub fn is_alive(pid: u32) -> bool {
    describe(pid).is_some_and(|found| found.state != 'Z')
}

/// What `/proc` says of one process.
pub fn describe(pid: u32) -> Option<Found> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name stands in brackets and may hold anything, so the fields are counted from the last bracket.
    let mut fields = stat.rsplit_once(')')?.1.split_ascii_whitespace();
    let state = fields.next()?.chars().next()?;
    let parent = fields.next()?.parse().ok()?;
    let command = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let command = String::from_utf8_lossy(&command).replace('\0', " ").trim_end().to_owned();
    Some(Found { pid, parent, state, command })
}

/// Every process that belongs to a test's folder: its working folder lies inside, or its environment or
/// command line names it. Zombies count when their parent belongs.
pub fn belonging_to(root: &Path) -> Vec<Found> {
    let mut found = Vec::new();
    let mut zombies = Vec::new();
    for entry in std::fs::read_dir("/proc").into_iter().flatten().flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse::<u32>().ok()) else {
            continue;
        };
        if pid == std::process::id() {
            continue;
        }
        let Some(process) = describe(pid) else { continue };
        if process.state == 'Z' {
            zombies.push(process);
        } else if belongs(pid, root) {
            found.push(process);
        }
    }
    let owners: Vec<u32> = found.iter().map(|process| process.pid).collect();
    found.extend(zombies.into_iter().filter(|zombie| owners.contains(&zombie.parent)));
    found
}

fn belongs(pid: u32, root: &Path) -> bool {
    let names = |file: &str| {
        std::fs::read(format!("/proc/{pid}/{file}"))
            .is_ok_and(|bytes| contains(&bytes, root.as_os_str().as_bytes()))
    };
    std::fs::read_link(format!("/proc/{pid}/cwd")).is_ok_and(|cwd| cwd.starts_with(root))
        || names("cmdline")
        || names("environ")
}

fn contains(bytes: &[u8], needle: &[u8]) -> bool {
    bytes.windows(needle.len()).any(|window| window == needle)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn a_process_is_found_by_its_folder_and_gone_after_its_exit() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        let mut child = Command::new("sleep").arg("60").current_dir(&root).spawn().unwrap();
        assert!(belonging_to(&root).iter().any(|found| found.pid == child.id()));
        assert!(!wait_exit(child.id(), Deadline::after(std::time::Duration::from_millis(1))));
        assert!(signal(child.id(), Signal::KILL));
        assert!(wait_exit(child.id(), Deadline::secs(5)), "a killed process exits");
        assert!(!is_alive(child.id()), "a zombie is not alive");
        wait_child(&mut child, Deadline::secs(5)).unwrap();
        assert!(belonging_to(&root).is_empty());
    }
}
