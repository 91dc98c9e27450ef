//! Reading /proc: who a process is, who its parents and its descendants are.
//!
//! Invariant: a process is named by pid, start ticks and boot id together. A pid alone names nobody.

use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Read};

/// More than 52 numbers and a name need.
const STAT_MAX_BYTES: usize = 2048;

/// One process for ever: pids come back, the three together do not.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ProcId {
    /// Process id.
    pub pid: u32,
    /// Start time in clock ticks since boot.
    pub start_ticks: u64,
    /// The boot it lives in.
    pub boot_id: String,
}

impl ProcId {
    /// This process.
    pub fn current() -> io::Result<Self> {
        let pid = std::process::id();
        Self::of(pid)?.ok_or_else(|| io::Error::other("this process is not in /proc; is /proc mounted?"))
    }

    /// The process that has this pid now.
    pub fn of(pid: u32) -> io::Result<Option<Self>> {
        let Some(stat) = stat(pid) else { return Ok(None) };
        Ok(Some(Self { pid, start_ticks: stat.start_ticks, boot_id: boot_id()? }))
    }

    /// It lives in this boot and has not ended. One that ended and waits to be reaped counts as dead.
    pub fn is_alive(&self) -> bool {
        boot_id().is_ok_and(|boot| boot == self.boot_id)
            && stat(self.pid).is_some_and(|stat| stat.start_ticks == self.start_ticks && !stat.ended())
    }
}

/// What /proc/PID/stat says, as far as it matters here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stat {
    /// Process id.
    pub pid: u32,
    /// State letter: `R`, `S`, `D`, `Z`, …
    pub state: u8,
    /// Parent.
    pub ppid: u32,
    /// Process group.
    pub pgrp: u32,
    /// Session.
    pub session: u32,
    /// Start time in clock ticks since boot.
    pub start_ticks: u64,
}

impl Stat {
    /// It runs no code any more.
    pub fn ended(&self) -> bool {
        matches!(self.state, b'Z' | b'X' | b'x')
    }
}

/// The id of this boot.
pub fn boot_id() -> io::Result<String> {
    Ok(std::fs::read_to_string("/proc/sys/kernel/random/boot_id")?.trim().to_owned())
}

/// The process with this pid, if there is one.
pub fn stat(pid: u32) -> Option<Stat> {
    // One read takes it whole: the size of a file in /proc is not known before.
    let mut buffer = [0; STAT_MAX_BYTES];
    let len = std::fs::File::open(format!("/proc/{pid}/stat")).ok()?.read(&mut buffer).ok()?;
    parse_stat(buffer.get(..len)?)
}

/// The name in the middle may hold anything, also spaces and brackets: fields count from the last `)`.
fn parse_stat(text: &[u8]) -> Option<Stat> {
    let open = text.iter().position(|byte| *byte == b'(')?;
    let close = text.iter().rposition(|byte| *byte == b')')?;
    let pid = std::str::from_utf8(text.get(..open)?).ok()?.trim().parse().ok()?;
    let rest = std::str::from_utf8(text.get(close + 1..)?).ok()?;
    let fields: Vec<&str> = rest.split_ascii_whitespace().take(20).collect();
    Some(Stat {
        pid,
        state: *fields.first()?.as_bytes().first()?,
        ppid: fields.get(1)?.parse().ok()?,
        pgrp: fields.get(2)?.parse().ok()?,
        session: fields.get(3)?.parse().ok()?,
        start_ticks: fields.get(19)?.parse().ok()?,
    })
}

/// Every pid there is.
pub(super) fn all_pids() -> Vec<u32> {
    let Ok(entries) = std::fs::read_dir("/proc") else { return Vec::new() };
    entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
}

/// All living and ended-but-unreaped descendants of a process, nearest first.
pub fn descendants(root: u32) -> Vec<Stat> {
    let mut children: BTreeMap<u32, Vec<Stat>> = BTreeMap::new();
    for found in all_pids().into_iter().filter_map(stat) {
        children.entry(found.ppid).or_default().push(found);
    }
    let mut tree = Vec::new();
    let mut next = vec![root];
    while let Some(parent) = next.pop() {
        for child in children.remove(&parent).unwrap_or_default() {
            next.push(child.pid);
            tree.push(child);
        }
    }
    tree
}

/// The process and its ancestors up to the first, nearest first. Pids that go in circles while /proc is read
/// (a parent died, its pid came back) end the walk.
pub fn ancestors(pid: u32) -> Vec<ProcId> {
    let Ok(boot_id) = boot_id() else { return Vec::new() };
    let mut line = Vec::new();
    let mut seen = BTreeSet::new();
    let mut next = pid;
    while next != 0 && seen.insert(next) {
        let Some(stat) = stat(next) else { break };
        line.push(ProcId { pid: next, start_ticks: stat.start_ticks, boot_id: boot_id.clone() });
        next = stat.ppid;
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_brackets_and_spaces_does_not_shift_the_fields() {
        let text = b"42 (a) R 1 (b) S 7 8 9 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 777 1000 2 3";
        let stat = parse_stat(text).unwrap();
        assert_eq!((stat.pid, stat.state, stat.ppid, stat.pgrp, stat.session), (42, b'S', 7, 8, 9));
        assert_eq!(stat.start_ticks, 777);
        assert!(parse_stat(b"").is_none());
        assert!(parse_stat(b"42 (x) S 7").is_none());
    }

    #[test]
    fn this_process_is_alive_and_another_boot_or_start_is_not() {
        let me = ProcId::current().unwrap();
        assert!(me.is_alive());
        assert!(!ProcId { start_ticks: me.start_ticks + 1, ..me.clone() }.is_alive());
        assert!(!ProcId { boot_id: "another".into(), ..me }.is_alive());
        assert_eq!(ancestors(me.pid)[0], me);
        assert_eq!(ancestors(me.pid).last().unwrap().pid, 1);
    }
}
