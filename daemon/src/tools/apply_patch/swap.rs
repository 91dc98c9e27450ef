//! Several files put in place: all of them, or none.
//!
//! First every new content is written beside its place, then all are exchanged one after the other, and what they
//! displaced stays beside them until the last one is in place. So whatever fails, the very files that were there go
//! back to their names, with owner, bits and all.
//!
//! Each file of a call has its own name for what lies beside it, made from the call's id and its number, so that
//! recovery finds what a killed daemon left.

use super::places::Places;
use super::plan::{Kind, Step};
use crate::inspect::{identity, strip_folder};
use crate::tools::commit::{self, CommitError, RenameError, io};
use agentd_core::ids::CallId;
use agentd_core::path_bytes::PathBytes;
use rustix::fs::{AtFlags, Mode, OFlags, RenameFlags};
use rustix::io::Errno;
use std::collections::BTreeSet;
use std::fs::File;
use std::os::fd::OwnedFd;

/// Why the patch is not in place.
pub(super) enum Failure {
    /// A step failed.
    Broken {
        /// Which.
        step: usize,
        error: CommitError,
        /// What could not be put back: which step, and how it is now.
        stuck: Vec<(usize, String)>,
    },
    /// It was told to stop where it was, as if the daemon had been killed.
    Halted,
}

/// How far a step is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Waiting,
    /// Its new content lies beside its place; nothing of it for a removal.
    Staged,
    /// In place; what was there lies beside it.
    Swapped,
    /// In place; what was there is gone, because the file system cannot exchange.
    Overwritten,
}

struct Slot {
    temp: String,
    state: State,
    /// Our file.
    ours: Option<(u64, u64)>,
    mode: Option<u32>,
}

/// All steps of a call on their way.
pub(super) struct Swap<'a> {
    places: &'a Places,
    steps: &'a [Step],
    slots: Vec<Slot>,
    /// Folders that were made, in order.
    made: Vec<PathBytes>,
    /// Asked before each change of a folder; yes stops there and leaves all as it is.
    halts: &'a mut dyn FnMut() -> bool,
}

impl<'a> Swap<'a> {
    pub(super) fn new(
        places: &'a Places,
        steps: &'a [Step],
        call: &CallId,
        halts: &'a mut dyn FnMut() -> bool,
    ) -> Self {
        let slot = |number| Slot {
            temp: commit::temp_name_of(call, number),
            state: State::Waiting,
            ours: None,
            mode: None,
        };
        Self { places, steps, slots: (0..steps.len()).map(slot).collect(), made: Vec::new(), halts }
    }

    /// Puts all in place. The permission bits of each file afterwards.
    pub(super) fn run(mut self) -> Result<Vec<Option<u32>>, Failure> {
        for pass in [Self::stage as fn(&mut Self, usize) -> Result<(), CommitError>, Self::swap] {
            for step in 0..self.steps.len() {
                if !self.steps[step].changes() {
                    self.slots[step].mode = self.steps[step].binding.before_mode;
                    continue;
                }
                if (self.halts)() {
                    return Err(Failure::Halted);
                }
                if let Err(error) = pass(&mut self, step) {
                    let stuck = self.undo();
                    return Err(Failure::Broken { step, error, stuck });
                }
            }
        }
        self.finish()?;
        Ok(self.slots.iter().map(|slot| slot.mode).collect())
    }

    fn path(&self, step: usize) -> &'a PathBytes {
        &self.steps[step].binding.path
    }

    fn folder(&self, step: usize) -> Result<(OwnedFd, Vec<u8>), CommitError> {
        self.places.folder(self.path(step)).map_err(|_| CommitError::Changed)
    }

    /// Writes the new content beside its place.
    fn stage(&mut self, number: usize) -> Result<(), CommitError> {
        let step = &self.steps[number];
        let (folder, name) = match &step.old {
            None => (self.folder_or_new(number)?, Vec::new()),
            Some(_) => self.folder(number)?,
        };
        if let Some(old) = &step.old {
            let here = rustix::fs::statat(&folder, name.as_slice(), AtFlags::SYMLINK_NOFOLLOW);
            if here.map_or(true, |here| identity(&here) != identity(old)) {
                return Err(CommitError::Changed);
            }
        }
        if let Some(content) = &step.after {
            let (like, create_mode) = match &step.kind {
                Kind::MovedHere { like, .. } => (Some(&**like), 0o600),
                Kind::Add { executable: true } => (None, 0o755),
                Kind::Add { executable: false } => (None, 0o644),
                _ => (step.old.as_ref(), 0o600),
            };
            let slot = &mut self.slots[number];
            let (guard, mut file) = commit::Temp::create(&folder, &slot.temp, create_mode)?;
            if let Some(like) = like {
                commit::keep_owner(&file, like)?;
            }
            commit::fill(&mut file, content)?;
            if let Some(like) = like {
                let mode = Mode::from_raw_mode(like.st_mode & 0o7777);
                rustix::fs::fchmod(&file, mode).map_err(io("keeping its permission bits"))?;
                let synced = file.sync_all();
                synced.map_err(|source| CommitError::Io { what: "syncing the new content", source })?;
            }
            let stat = rustix::fs::fstat(&file).map_err(io("looking at the new file"))?;
            slot.ours = Some(identity(&stat));
            slot.mode = Some(stat.st_mode & 0o7777);
            guard.keep();
        }
        self.slots[number].state = State::Staged;
        Ok(())
    }

    /// The folder of a new file, made with those above it where they are missing.
    fn folder_or_new(&mut self, number: usize) -> Result<OwnedFd, CommitError> {
        let path = self.path(number);
        let workspace = self.places.workspace(path);
        let root = workspace.path().as_bytes();
        let below = strip_folder(path.as_bytes(), root).ok_or(CommitError::Changed)?;
        let mut names: Vec<&[u8]> =
            below.split(|byte| *byte == b'/').filter(|name| !name.is_empty()).collect();
        names.pop();
        let open = |at: &OwnedFd, name: &[u8]| {
            let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::DIRECTORY | OFlags::CLOEXEC;
            rustix::fs::openat(at, name, flags, Mode::empty())
        };
        let root_fd = workspace.root().try_clone_to_owned();
        let mut folder = root_fd.map_err(|source| CommitError::Io { what: "opening its folder", source })?;
        let mut at = workspace.path().clone();
        for name in names {
            at =
                PathBytes::new([at.as_bytes().strip_suffix(b"/").unwrap_or(at.as_bytes()), name].join(&b'/'));
            folder = match open(&folder, name) {
                Ok(next) => next,
                Err(Errno::NOENT) => {
                    match rustix::fs::mkdirat(&folder, name, Mode::from_raw_mode(0o777)) {
                        Ok(()) => self.made.push(at.clone()),
                        Err(Errno::EXIST) => {}
                        Err(errno) => return Err(io("making its folder")(errno)),
                    }
                    commit::sync_folder(&folder);
                    open(&folder, name).map_err(io("opening its folder"))?
                }
                Err(errno) => return Err(io("opening its folder")(errno)),
            };
        }
        Ok(folder)
    }

    /// Gives the new content its name.
    fn swap(&mut self, number: usize) -> Result<(), CommitError> {
        let step = &self.steps[number];
        let (folder, name) = self.folder(number)?;
        let slot = &mut self.slots[number];
        let temp = slot.temp.as_bytes();
        let before = step.binding.before.as_deref().unwrap_or_default();
        slot.state = match (&step.old, slot.ours) {
            (Some(old), Some(ours)) => replace(&folder, &name, &slot.temp, (identity(old), before), ours)?,
            (Some(old), None) => {
                let gone = commit::rename_new(&folder, &name, temp).map_err(|error| match error {
                    RenameError::Taken => CommitError::Changed,
                    RenameError::Refused(errno) => io("removing it")(errno),
                })?;
                if !commit::holds(&folder, temp, identity(old), before) {
                    if gone {
                        let _ = commit::rename_new(&folder, temp, &name);
                    } else {
                        let _ = rustix::fs::unlinkat(&folder, &slot.temp, AtFlags::empty());
                    }
                    return Err(CommitError::Changed);
                }
                if !gone {
                    // It has both names; it keeps the one beside.
                    rustix::fs::unlinkat(&folder, name.as_slice(), AtFlags::empty()).map_err(|errno| {
                        let _ = rustix::fs::unlinkat(&folder, &slot.temp, AtFlags::empty());
                        io("removing it")(errno)
                    })?;
                }
                State::Swapped
            }
            (None, _) => {
                if !commit::rename_new(&folder, temp, &name).map_err(RenameError::placing)? {
                    let _ = rustix::fs::unlinkat(&folder, &slot.temp, AtFlags::empty());
                }
                State::Swapped
            }
        };
        Ok(())
    }

    /// All are in place: what they displaced goes.
    fn finish(&mut self) -> Result<(), Failure> {
        let mut synced = BTreeSet::new();
        for number in 0..self.steps.len() {
            if !self.steps[number].changes() {
                continue;
            }
            if (self.halts)() {
                return Err(Failure::Halted);
            }
            let Ok((folder, _)) = self.folder(number) else { continue };
            if self.steps[number].old.is_some() {
                let _ = rustix::fs::unlinkat(&folder, &self.slots[number].temp, AtFlags::empty());
            }
            let path = self.path(number).as_bytes();
            let end = path.iter().rposition(|byte| *byte == b'/').unwrap_or(0);
            if synced.insert(&path[..end]) {
                commit::sync_folder(&folder);
            }
        }
        Ok(())
    }

    /// Puts everything back, the last first. What could not be, and how it is now.
    fn undo(&mut self) -> Vec<(usize, String)> {
        let mut stuck = Vec::new();
        for number in (0..self.steps.len()).rev() {
            let slot = &self.slots[number];
            if slot.state == State::Waiting {
                continue;
            }
            let Ok((folder, name)) = self.folder(number) else {
                stuck.push((number, "its folder has gone".to_owned()));
                continue;
            };
            let result = match slot.state {
                State::Staged => {
                    // Only what is ours: a failed exchange may have left there what somebody else wrote.
                    let there = rustix::fs::statat(&folder, &slot.temp, AtFlags::SYMLINK_NOFOLLOW);
                    if there.is_ok_and(|there| Some(identity(&there)) == slot.ours) {
                        let _ = rustix::fs::unlinkat(&folder, &slot.temp, AtFlags::empty());
                    }
                    Ok(())
                }
                State::Swapped => put_back(&folder, &name, &self.steps[number], slot),
                State::Overwritten => rewrite(&folder, &name, &self.steps[number], slot),
                State::Waiting => Ok(()),
            };
            if let Err(how) = result {
                stuck.push((number, how));
            }
            commit::sync_folder(&folder);
        }
        for folder in self.made.iter().rev() {
            // Only empty ones go; what somebody else put there stays.
            if let Ok((parent, name)) = self.places.folder(folder) {
                let _ = rustix::fs::unlinkat(&parent, name.as_slice(), AtFlags::REMOVEDIR);
            }
        }
        stuck.reverse();
        stuck
    }
}

/// Exchanges what was inspected for the new content.
fn replace(
    folder: &OwnedFd,
    name: &[u8],
    temp: &str,
    (old, before): ((u64, u64), &str),
    ours: (u64, u64),
) -> Result<State, CommitError> {
    match rustix::fs::renameat_with(folder, temp, folder, name, RenameFlags::EXCHANGE) {
        Ok(()) => {
            if !commit::holds(folder, temp.as_bytes(), old, before) {
                commit::put_back(folder, temp, name, ours)?;
                return Err(CommitError::Changed);
            }
            Ok(State::Swapped)
        }
        Err(Errno::NOENT) => Err(CommitError::Changed),
        Err(Errno::INVAL | Errno::NOSYS | Errno::NOTSUP | Errno::PERM) => {
            if !commit::holds(folder, name, old, before) {
                return Err(CommitError::Changed);
            }
            rustix::fs::renameat(folder, temp, folder, name)
                .map_err(io("putting the new content in place"))?;
            Ok(State::Overwritten)
        }
        Err(errno) => Err(io("putting the new content in place")(errno)),
    }
}

const THEIRS: &str = "somebody else changed it in this moment, and it stays as they left it";

/// Undoes a swap. Never over what is not ours.
fn put_back(folder: &OwnedFd, name: &[u8], step: &Step, slot: &Slot) -> Result<(), String> {
    let (temp, after) = (slot.temp.as_bytes(), step.binding.after.as_deref().unwrap_or_default());
    let is_ours = |at: &[u8]| slot.ours.is_some_and(|ours| commit::holds(folder, at, ours, after));
    let failed = |errno: Errno| format!("it has the new content ({errno})");
    match (&step.old, slot.ours) {
        (Some(_), Some(_)) => {
            let exchange =
                || rustix::fs::renameat_with(folder, &slot.temp, folder, name, RenameFlags::EXCHANGE);
            exchange().map_err(failed)?;
            if !is_ours(temp) {
                exchange()
                    .map_err(|errno| format!("what somebody else wrote is in {} ({errno})", slot.temp))?;
                let _ = rustix::fs::unlinkat(folder, &slot.temp, AtFlags::empty());
                return Err(THEIRS.to_owned());
            }
        }
        (Some(_), None) => {
            return match commit::rename_new(folder, temp, name) {
                Ok(true) => Ok(()),
                Ok(false) => {
                    let _ = rustix::fs::unlinkat(folder, &slot.temp, AtFlags::empty());
                    Ok(())
                }
                Err(RenameError::Taken) => Err(format!("{THEIRS}; the old file is {}", slot.temp)),
                Err(RenameError::Refused(errno)) => {
                    Err(format!("it is gone ({errno}); the old file is {}", slot.temp))
                }
            };
        }
        (None, _) => {
            rustix::fs::renameat(folder, name, folder, &slot.temp).map_err(failed)?;
            if !is_ours(temp) {
                let _ = commit::rename_new(folder, temp, name);
                return Err(THEIRS.to_owned());
            }
        }
    }
    let _ = rustix::fs::unlinkat(folder, &slot.temp, AtFlags::empty());
    Ok(())
}

/// Writes the old content again.
fn rewrite(folder: &OwnedFd, name: &[u8], step: &Step, slot: &Slot) -> Result<(), String> {
    let after = step.binding.after.as_deref().unwrap_or_default();
    let (Some(old), Some(before)) = (&step.old, &step.before) else { return Ok(()) };
    if !slot.ours.is_some_and(|ours| commit::holds(folder, name, ours, after)) {
        return Err(THEIRS.to_owned());
    }
    let mode = old.st_mode & 0o7777;
    write_over(folder, name, &slot.temp, before, mode, |file| commit::keep_owner(file, old))
        .map_err(|error| format!("it has the new content ({error})"))
}

/// Writes a content beside a name and gives it the name.
pub(super) fn write_over(
    folder: &OwnedFd,
    name: &[u8],
    temp: &str,
    content: &[u8],
    mode: u32,
    own: impl FnOnce(&File) -> Result<(), CommitError>,
) -> Result<(), CommitError> {
    let (guard, mut file) = commit::Temp::create(folder, temp, 0o600)?;
    own(&file)?;
    rustix::fs::fchmod(&file, Mode::from_raw_mode(mode)).map_err(io("keeping its permission bits"))?;
    commit::fill(&mut file, content)?;
    rustix::fs::renameat(folder, temp, folder, name).map_err(io("putting the old content in place"))?;
    guard.keep();
    commit::sync_folder(folder);
    Ok(())
}
