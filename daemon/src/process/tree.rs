//! Ending process trees.
//!
//! The supervisor is a child subreaper: whatever its command leaves, in whatever session, becomes its child.
//! So "no children" means "nothing is left", and costs one call to learn.

use super::job::JOB_MARK;
use super::procfs::{self, Stat};
use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use std::collections::BTreeSet;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// Rounds of looking for what carries the mark of a job. Each kills all it finds, so more than one is needed
/// only against processes that fork meanwhile.
const SWEEP_ROUNDS_MAX: u32 = 20;

/// The living descendants of this process.
pub(super) fn living() -> Vec<Stat> {
    procfs::descendants(std::process::id()).into_iter().filter(|stat| !stat.ended()).collect()
}

/// Signals a whole tree. Groups first: the kernel signals a group at once, so that a group cannot outrun it by
/// forking. All groups below a command are its own, as it has its own session.
pub(super) fn signal(tree: &[Stat], signal: Signal) {
    let own_group = procfs::stat(std::process::id()).map_or(0, |me| me.pgrp);
    let groups: BTreeSet<u32> = tree.iter().map(|stat| stat.pgrp).filter(|pgrp| *pgrp != own_group).collect();
    for group in groups.into_iter().filter_map(pid) {
        let _ = kill_process_group(group, signal);
    }
    // Those that changed their group meanwhile, and those that had none of their own.
    for stat in tree.iter().filter(|stat| signal == Signal::KILL || stat.pgrp == own_group) {
        if let Some(pid) = pid(stat.pid) {
            let _ = kill_process(pid, signal);
        }
    }
}

pub(super) fn pid(raw: u32) -> Option<Pid> {
    i32::try_from(raw).ok().and_then(Pid::from_raw)
}

/// Kills every process that carries the mark of a job whose supervisor is dead. Gives their number.
pub(super) fn sweep(job: &Path) -> u32 {
    let mark = [JOB_MARK.as_bytes(), b"=", job.as_os_str().as_bytes()].concat();
    let me = std::process::id();
    let mut killed = BTreeSet::new();
    for _ in 0..SWEEP_ROUNDS_MAX {
        let marked: Vec<Stat> = procfs::all_pids()
            .into_iter()
            .filter(|pid| *pid != me && carries(*pid, &mark))
            .filter_map(procfs::stat)
            .filter(|stat| !stat.ended())
            .collect();
        if marked.is_empty() {
            break;
        }
        for stat in marked {
            if pid(stat.pid).is_some_and(|pid| kill_process(pid, Signal::KILL).is_ok()) {
                killed.insert(stat.pid);
            }
        }
    }
    u32::try_from(killed.len()).unwrap_or(u32::MAX)
}

fn carries(pid: u32, mark: &[u8]) -> bool {
    std::fs::read(format!("/proc/{pid}/environ"))
        .is_ok_and(|environ| environ.split(|byte| *byte == 0).any(|entry| entry == mark))
}
