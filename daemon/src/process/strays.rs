//! What a command makes of itself by killing its supervisor: strays below the daemon.
//!
//! The daemon is a child subreaper as well. So a process whose supervisor died, in whatever session and with
//! whatever environment, is below the daemon and not below init: it can be told from a program of the user, found
//! and ended.
//!
//! Invariants: nothing is killed but descendants of this process that are not below a living supervisor of ours;
//! no supervisor is started meanwhile (the caller holds the nursery). Only exact pids are reaped, never "any
//! child", which would take the status of a supervisor from who waits for it.
//!
//! Absent on purpose: any hold over what supervisors of a former run leave. They are not our children, so their
//! strays go to init; only the mark is left to find those by, and they count as programs of the user if they drop
//! it. A pid namespace around a command is what ends that.

use super::procfs::{self, Stat};
use super::tree::pid;
use rustix::process::{
    Signal, WaitId, WaitIdOptions, WaitOptions, kill_process, set_child_subreaper, waitid, waitpid,
};
use std::collections::BTreeSet;
use std::io;
use std::time::Duration;

/// Rounds of looking for strays. Each kills all it finds, so more than one is needed only against processes that
/// fork meanwhile.
const ROUNDS_MAX: u32 = 20;
/// Between two rounds.
const ROUND: Duration = Duration::from_millis(1);

/// Makes this process the one that orphans below it fall to.
pub(super) fn adopt() -> io::Result<()> {
    set_child_subreaper(pid(std::process::id())).map_err(io::Error::from)
}

/// Kills all below this process that is neither one of `supervisors`, by pid, nor below one; then reaps what it
/// can. Gives the number of the killed.
pub(super) fn kill(supervisors: &BTreeSet<u32>) -> usize {
    let mut killed = BTreeSet::new();
    for _ in 0..ROUNDS_MAX {
        let found: Vec<Stat> = strays(procfs::descendants(std::process::id()), supervisors)
            .into_iter()
            .filter(|stat| !stat.ended())
            .collect();
        if found.is_empty() {
            break;
        }
        for stray in found {
            if pid(stray.pid).is_some_and(|pid| kill_process(pid, Signal::KILL).is_ok()) {
                killed.insert(stray.pid);
            }
        }
        // A killed process ends, and its children fall to us, in its own time.
        std::thread::sleep(ROUND);
    }
    reap(supervisors);
    killed.len()
}

/// Takes the statuses of ended children that are not `supervisors`, so that they do not stay as zombies.
pub(super) fn reap(supervisors: &BTreeSet<u32>) {
    // Mostly there is none, and asking for that is one call; /proc is many.
    let peek = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    if !matches!(waitid(WaitId::All, peek), Ok(Some(_))) {
        return;
    }
    let me = std::process::id();
    for stray in strays(procfs::descendants(me), supervisors) {
        if stray.ppid == me && stray.ended() {
            let _ = waitpid(pid(stray.pid), WaitOptions::NOHANG);
        }
    }
}

/// The descendants, parents before children, without supervisors and what is below them.
fn strays(tree: Vec<Stat>, supervisors: &BTreeSet<u32>) -> Vec<Stat> {
    let mut kept = supervisors.clone();
    let mut strays = Vec::new();
    for stat in tree {
        if kept.contains(&stat.ppid) || kept.contains(&stat.pid) {
            kept.insert(stat.pid);
        } else {
            strays.push(stat);
        }
    }
    strays
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn supervisors_and_what_is_below_them_are_no_strays() {
        let stat = |pid, ppid| Stat { pid, state: b'S', ppid, pgrp: pid, session: pid, start_ticks: 1 };
        let tree = vec![stat(10, 1), stat(11, 10), stat(12, 11), stat(20, 1), stat(21, 20), stat(9, 12)];
        let pids = |found: Vec<Stat>| found.iter().map(|stat| stat.pid).collect::<Vec<_>>();
        assert_eq!(pids(strays(tree.clone(), &BTreeSet::from([10]))), [20, 21]);
        assert_eq!(pids(strays(tree.clone(), &BTreeSet::from([11, 20]))), [10]);
        assert_eq!(pids(strays(tree, &BTreeSet::new())).len(), 6);
    }
}
