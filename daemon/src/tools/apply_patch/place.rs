//! Putting several contents in place: all or none.
//!
//! Every new content is written beside its target before the first name changes. Then the names change one by one;
//! what a change displaces stays beside its target until all are done, so that a failure puts it back as it was:
//! the very file, with its owner and bits.

use super::super::commit::{
    CommitError, create_temp, fill, io, is_as_inspected, keep_owner, put_back, sync_folder, temp_name_of,
};
use super::super::text;
use super::plan::{Kind, Step};
use crate::inspect::{Missing, identity};
use agentd_core::ids::CallId;
use agentd_core::policy::names::shown;
use rustix::fs::{AtFlags, Mode, OFlags, RenameFlags, Stat};
use rustix::io::Errno;
use std::fs::File;
use std::os::fd::OwnedFd;

/// Why nothing was changed.
pub(super) struct Failure {
    /// The step that failed.
    pub(super) at: usize,
    /// Why.
    pub(super) error: CommitError,
    /// Files that could not be put back, each with its state in words.
    pub(super) not_restored: Vec<String>,
}

/// A step with its new content beside the target.
struct Staged<'a> {
    step: &'a Step,
    folder: OwnedFd,
    name: Vec<u8>,
    temp: String,
    /// The new file, held so that its inode number is not given to another.
    ours: Option<(File, Stat)>,
    keeps_temp: bool,
}

type Made = Vec<(OwnedFd, Vec<u8>)>;

/// Makes all steps, and gives the permission bits after each. `before_each` is told the number of every step before
/// its name changes, and at the end how many there were.
pub(super) fn place_all(
    steps: &[Step],
    call: &CallId,
    before_each: &mut dyn FnMut(usize),
) -> Result<Vec<Option<u32>>, Failure> {
    let (mut staged, mut made) = (Vec::with_capacity(steps.len()), Made::new());
    let mut failed = None;
    for (at, step) in steps.iter().enumerate() {
        match stage(step, temp_name_of(call, at), &mut made) {
            Ok(one) => staged.push(one),
            Err(error) => {
                failed = Some((at, error));
                break;
            }
        }
    }
    let mut done = 0;
    while failed.is_none() && done < staged.len() {
        before_each(done);
        match staged[done].swap() {
            Ok(()) => done += 1,
            Err(error) => failed = Some((done, error)),
        }
    }
    let Some((at, error)) = failed else {
        before_each(done);
        for one in &staged {
            one.clean();
        }
        return Ok(staged
            .iter()
            .map(|one| one.ours.as_ref().map(|(_, stat)| stat.st_mode & 0o7777))
            .collect());
    };
    let mut not_restored = Vec::new();
    for one in staged.iter_mut().take(done).rev() {
        if let Err(why) = one.undo() {
            one.keeps_temp = matches!(one.step.kind, Kind::Replace { .. } | Kind::Remove { .. });
            let kept = if one.keeps_temp {
                format!("; what it was is beside it as {}", one.temp)
            } else {
                String::new()
            };
            not_restored.push(format!("{}: {why}{kept}", shown(&one.step.binding.path)));
        }
    }
    for one in &staged {
        one.clean();
    }
    for (parent, name) in made.iter().rev() {
        // Only empty folders go; what somebody else put there stays.
        let _ = rustix::fs::unlinkat(parent, name.as_slice(), AtFlags::REMOVEDIR);
    }
    Err(Failure { at, error, not_restored })
}

fn stage<'a>(step: &'a Step, temp: String, made: &mut Made) -> Result<Staged<'a>, CommitError> {
    let (folder, name) = match &step.kind {
        Kind::Create { missing, .. } => make_folders(missing, made)?,
        Kind::Replace { existing, .. } | Kind::Remove { existing, .. } => {
            step.workspace.parent_of(&existing.path).map_err(|_| CommitError::Changed)?
        }
    };
    let mut staged = Staged { step, folder, name, temp, ours: None, keeps_temp: false };
    if let Err(error) = staged.write() {
        staged.clean();
        return Err(error);
    }
    Ok(staged)
}

fn make_folders(missing: &Missing, made: &mut Made) -> Result<(OwnedFd, Vec<u8>), CommitError> {
    let Some((last, folders)) = missing.names.split_last() else { return Err(CommitError::Changed) };
    let open = |at: &OwnedFd, name: &[u8]| {
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::DIRECTORY | OFlags::CLOEXEC;
        rustix::fs::openat(at, name, flags, Mode::empty())
    };
    let mut folder = open(&missing.folder, b".").map_err(io("opening its folder"))?;
    for name in folders {
        let is_made = match rustix::fs::mkdirat(&folder, name.as_slice(), Mode::from_raw_mode(0o777)) {
            Ok(()) => true,
            Err(Errno::EXIST) => false,
            Err(errno) => return Err(io("making its folder")(errno)),
        };
        let next = open(&folder, name).map_err(|_| CommitError::Changed)?;
        let parent = std::mem::replace(&mut folder, next);
        if is_made {
            sync_folder(&parent);
            made.push((parent, name.clone()));
        }
    }
    Ok((folder, last.clone()))
}

impl Staged<'_> {
    fn write(&mut self) -> Result<(), CommitError> {
        let (content, mode, like) = match &self.step.kind {
            Kind::Replace { existing, content, .. } => (content, existing.mode(), Some(&existing.stat)),
            Kind::Create { content, mode, like, .. } => (content, *mode, like.as_deref()),
            Kind::Remove { .. } => return Ok(()),
        };
        // Until it has its owner nobody else may read it; a new file takes its bits from the umask.
        let first_mode = if like.is_some() { 0o600 } else { mode };
        let mut file = create_temp(&self.folder, &self.temp, first_mode)?;
        if let Some(like) = like {
            keep_owner(&file, like)?;
        }
        fill(&mut file, content)?;
        if like.is_some() {
            rustix::fs::fchmod(&file, Mode::from_raw_mode(mode))
                .map_err(io("keeping its permission bits"))?;
        }
        file.sync_all().map_err(|source| CommitError::Io { what: "syncing the new content", source })?;
        let stat = rustix::fs::fstat(&file).map_err(io("looking at the new file"))?;
        self.ours = Some((file, stat));
        Ok(())
    }

    fn rename(&self, back: bool, flags: RenameFlags) -> Result<(), Errno> {
        let (temp, name) = (self.temp.as_bytes(), self.name.as_slice());
        let (from, to) = if back { (name, temp) } else { (temp, name) };
        match rustix::fs::renameat_with(&self.folder, from, &self.folder, to, flags) {
            Err(Errno::INVAL | Errno::NOSYS | Errno::NOTSUP) if flags == RenameFlags::NOREPLACE => {
                rustix::fs::linkat(&self.folder, from, &self.folder, to, AtFlags::empty())?;
                rustix::fs::unlinkat(&self.folder, from, AtFlags::empty())
            }
            other => other,
        }
    }

    /// Gives the name to the new file, or takes it away.
    fn swap(&self) -> Result<(), CommitError> {
        let changed = |errno: Errno, what| match errno {
            Errno::NOENT | Errno::EXIST => CommitError::Changed,
            errno => io(what)(errno),
        };
        let before = self.step.binding.before.as_deref().unwrap_or_default();
        let is_old = |stat: &Stat| is_as_inspected(&self.folder, self.temp.as_bytes(), stat, before);
        match &self.step.kind {
            Kind::Create { .. } => {
                let placed = self.rename(false, RenameFlags::NOREPLACE);
                placed.map_err(|errno| changed(errno, "putting the new file in place"))
            }
            Kind::Replace { existing, .. } => {
                // Nothing is touched when it is plainly another already; the test after the exchange is the one that holds.
                if !is_as_inspected(&self.folder, &self.name, &existing.stat, before) {
                    return Err(CommitError::Changed);
                }
                let swapped = self.rename(false, RenameFlags::EXCHANGE);
                swapped.map_err(|errno| changed(errno, "putting the new content in place"))?;
                if is_old(&existing.stat) {
                    return Ok(());
                }
                if let Some((ours, _)) = &self.ours {
                    put_back(&self.folder, &self.temp, &self.name, ours)?;
                }
                Err(CommitError::Changed)
            }
            Kind::Remove { existing, .. } => {
                let taken = self.rename(true, RenameFlags::NOREPLACE);
                taken.map_err(|errno| changed(errno, "removing it"))?;
                if is_old(&existing.stat) {
                    return Ok(());
                }
                self.rename(false, RenameFlags::NOREPLACE)
                    .map_err(io("putting back what somebody else wrote in this moment"))?;
                Err(CommitError::Changed)
            }
        }
    }

    /// Undoes [`Self::swap`]. The error says in what state the file is.
    fn undo(&self) -> Result<(), String> {
        let is_ours = |name: &[u8]| {
            let Some((_, stat)) = &self.ours else { return false };
            let after = self.step.after().map(text::hash).unwrap_or_default();
            is_as_inspected(&self.folder, name, stat, &after)
        };
        let failed =
            |errno: Errno| format!("it has the new content, because putting it back failed ({errno})");
        match self.step.kind {
            Kind::Remove { .. } => self
                .rename(false, RenameFlags::NOREPLACE)
                .map_err(|errno| format!("it is removed, because putting it back failed ({errno})")),
            _ if !is_ours(&self.name) => {
                Err("somebody else changed it in this moment, and it is left so".to_owned())
            }
            Kind::Replace { .. } => self.rename(false, RenameFlags::EXCHANGE).map_err(failed),
            Kind::Create { .. } => self.rename(true, RenameFlags::NOREPLACE).map_err(failed),
        }
    }

    /// Removes what is beside the target.
    fn clean(&self) {
        let is_there = |stat: &Stat| {
            let flags = AtFlags::SYMLINK_NOFOLLOW;
            rustix::fs::statat(&self.folder, self.temp.as_str(), flags)
                .is_ok_and(|now| identity(&now) == identity(stat))
        };
        // Only what was written here or was displaced as inspected.
        let old = match &self.step.kind {
            Kind::Replace { existing, .. } | Kind::Remove { existing, .. } => Some(&existing.stat),
            Kind::Create { .. } => None,
        };
        let is_known = old.is_some_and(is_there)
            || self.ours.as_ref().is_none_or(|(_, stat)| is_there(stat))
                && !matches!(self.step.kind, Kind::Remove { .. });
        if is_known && !self.keeps_temp {
            let _ = rustix::fs::unlinkat(&self.folder, self.temp.as_str(), AtFlags::empty());
        }
        sync_folder(&self.folder);
    }
}
