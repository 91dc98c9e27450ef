//! A patch that a killed daemon left: found done, found not begun, or undone.
//!
//! Invariant: a file that has neither the content before nor the one after is never touched, and then nothing else is
//! undone either.

use super::places::{Now, Places, names_of, now_in};
use super::swap::write_over;
use crate::inspect::identity;
use crate::ports::{CallContext, Evidence};
use crate::tools::{Tools, answer, blocking, commit, text};
use agentd_core::command::CallEnd;
use agentd_core::event::{FileBinding, FileChange, SeenFile};
use agentd_core::ids::CallId;
use agentd_core::limits;
use agentd_core::policy::names::shown;
use rustix::fs::{AtFlags, Mode, OFlags, RenameFlags};
use std::collections::BTreeMap;
use std::os::fd::OwnedFd;

/// The evidence of a call of several files. One that is half done is undone, so that it can run again.
pub(crate) async fn evidence(tools: &Tools, ctx: &CallContext, files: &[FileBinding]) -> Evidence {
    let (owned, bound) = (ctx.clone(), files.to_vec());
    let needed = match blocking(move || survey(&owned, &bound)).await {
        Ok(Survey::Known(evidence)) => return evidence,
        Ok(Survey::Mixed { needed }) => needed,
        Err(fault) => return unknown(fault.text),
    };
    // What lies beside a file is taken first; the store has the contents of those that have nothing there.
    let mut contents = BTreeMap::new();
    for hash in needed {
        let most = usize::try_from(limits::EDIT_MAX_BYTES).unwrap_or(usize::MAX);
        match tools.store.read_blob(&hash, 0, most).await {
            Ok(Some(bytes)) if text::hash(&bytes) == hash => {
                contents.insert(hash, bytes);
            }
            Ok(_) => {
                return unknown(format!("a half-done patch cannot be undone: the store has lost {hash}"));
            }
            Err(error) => return unknown(format!("a half-done patch cannot be undone: {error}")),
        }
    }
    let (owned, bound) = (ctx.clone(), files.to_vec());
    match blocking(move || undo(&owned, &bound, &contents)).await {
        Ok(Ok(count)) => Evidence::NotStarted {
            why: format!("{count} of {} files were changed and are as before again", files.len()),
        },
        Ok(Err(why)) => unknown(why),
        Err(fault) => unknown(fault.text),
    }
}

fn unknown(why: String) -> Evidence {
    Evidence::Unknown { why, output: None }
}

enum Survey {
    /// Nothing is to be undone.
    Known(Evidence),
    /// Some files are done and some are not: contents (hashes) that must come from the store.
    Mixed { needed: Vec<String> },
}

fn is_after(now: &Now, file: &FileBinding) -> bool {
    now.is(file.after.as_deref())
}

fn is_before(now: &Now, file: &FileBinding) -> bool {
    now.is(file.before.as_deref())
}

/// How each file is, and what lies beside it. Removes what a call that is done, or not begun, left beside its files.
fn survey(ctx: &CallContext, files: &[FileBinding]) -> Survey {
    let places = match Places::of(&ctx.session) {
        Ok(places) => places,
        Err(error) => return Survey::Known(unknown(error.to_string())),
    };
    let now: Vec<Now> = files.iter().map(|file| places.now(&file.path)).collect();
    let pairs = || now.iter().zip(files);
    let neither = pairs().filter(|(now, file)| !is_after(now, file) && !is_before(now, file));
    let neither = names_of(neither.map(|(_, file)| &file.path));
    if !neither.is_empty() {
        sweep_own(&places, &ctx.call_id, &now, files);
        if !pairs().any(|(now, file)| is_after(now, file) && file.before != file.after) {
            let why = format!(
                "none of the files was changed by this call; since then these were by others: {neither}"
            );
            return Survey::Known(Evidence::NotStarted { why });
        }
        return Survey::Known(unknown(format!(
            "these have neither the content before nor the intended one: {neither}; {}",
            state_of(&now, files)
        )));
    }
    let foreign = foreign_beside(&places, &ctx.call_id, &now, files);
    if !foreign.is_empty() {
        return Survey::Known(unknown(format!(
            "what somebody else wrote in the last moment is in {foreign}"
        )));
    }
    let changing = || pairs().filter(|(_, file)| file.before != file.after);
    if changing().all(|(now, file)| is_after(now, file)) {
        sweep(&places, &ctx.call_id, files);
        let why = format!("all {} files have the intended content", files.len());
        return Survey::Known(Evidence::Finished { why });
    }
    if changing().all(|(now, file)| is_before(now, file)) {
        sweep(&places, &ctx.call_id, files);
        let why = format!("all {} files have the content they had before", files.len());
        return Survey::Known(Evidence::NotStarted { why });
    }
    let mut needed = Vec::new();
    for (number, (now, file)) in pairs().enumerate() {
        let Some(before) = file.before.clone().filter(|_| file.before != file.after && is_after(now, file))
        else {
            continue;
        };
        if !beside(&places, &ctx.call_id, number, file).is_some_and(|now| now.is(Some(&before))) {
            needed.push(before);
        }
    }
    Survey::Mixed { needed }
}

fn state_of(now: &[Now], files: &[FileBinding]) -> String {
    let done = now.iter().zip(files).filter(|(now, file)| is_after(now, file) && file.before != file.after);
    match names_of(done.map(|(_, file)| &file.path)) {
        done if done.is_empty() => "no other is changed".to_owned(),
        done => format!("done: {done}"),
    }
}

/// What lies beside a file.
fn beside(places: &Places, call: &CallId, number: usize, file: &FileBinding) -> Option<Now> {
    let (folder, _) = places.folder(&file.path).ok()?;
    Some(now_in(&folder, commit::temp_name_of(call, number).as_bytes()))
}

/// The names of what lies beside files that are done and is not of this call: somebody wrote to a file in the moment
/// in which it was exchanged.
fn foreign_beside(places: &Places, call: &CallId, now: &[Now], files: &[FileBinding]) -> String {
    let is_foreign = |number: usize, now: &Now, file: &FileBinding| {
        let there = beside(places, call, number, file);
        file.before != file.after
            && is_after(now, file)
            && there.is_some_and(|there| {
                !matches!(there, Now::Nothing) && !is_before(&there, file) && !is_after(&there, file)
            })
    };
    let named =
        now.iter().zip(files).enumerate().filter(|(number, (now, file))| is_foreign(*number, now, file));
    named
        .map(|(number, (_, file))| {
            format!("{} (beside {})", commit::temp_name_of(call, number), shown(&file.path))
        })
        .collect::<Vec<_>>()
        .join(", ")
}

/// Removes what lies beside the files and is certainly of this call: an old or a new content, or what was begun beside a
/// file that still has its old one.
fn sweep_own(places: &Places, call: &CallId, now: &[Now], files: &[FileBinding]) {
    for (number, (now, file)) in now.iter().zip(files).enumerate() {
        let own = beside(places, call, number, file)
            .is_some_and(|there| is_before(&there, file) || is_after(&there, file) || is_before(now, file));
        if own && let Ok((folder, _)) = places.folder(&file.path) {
            let _ = rustix::fs::unlinkat(&folder, commit::temp_name_of(call, number), AtFlags::empty());
        }
    }
}

fn sweep(places: &Places, call: &CallId, files: &[FileBinding]) {
    for (number, file) in files.iter().enumerate() {
        if let Ok((folder, _)) = places.folder(&file.path) {
            let _ = rustix::fs::unlinkat(&folder, commit::temp_name_of(call, number), AtFlags::empty());
        }
    }
}

/// Gives each file that is done its content before. How many those were.
fn undo(
    ctx: &CallContext,
    files: &[FileBinding],
    contents: &BTreeMap<String, bytes::Bytes>,
) -> Result<usize, String> {
    let places = Places::of(&ctx.session).map_err(|error| error.to_string())?;
    let mut undone = 0;
    for (number, file) in files.iter().enumerate().rev() {
        if file.before == file.after || !is_after(&places.now(&file.path), file) {
            continue;
        }
        let failed = |why: String| {
            let files: Vec<Now> = files.iter().map(|file| places.now(&file.path)).collect();
            (files, format!("a half-done patch was not undone at {}: {why}", shown(&file.path)))
        };
        let result =
            places.folder(&file.path).map_err(|error| error.to_string()).and_then(|(folder, name)| {
                undo_one(&folder, &name, &commit::temp_name_of(&ctx.call_id, number), file, contents)
            });
        if let Err(why) = result {
            let (now, why) = failed(why);
            return Err(format!("{why}; {}", state_of(&now, files)));
        }
        undone += 1;
    }
    let now: Vec<Now> = files.iter().map(|file| places.now(&file.path)).collect();
    let odd = now.iter().zip(files).filter(|(now, file)| !is_before(now, file));
    let odd = names_of(odd.map(|(_, file)| &file.path));
    if !odd.is_empty() {
        return Err(format!("these have not the content before: {odd}"));
    }
    sweep(&places, &ctx.call_id, files);
    Ok(undone)
}

fn undo_one(
    folder: &OwnedFd,
    name: &[u8],
    temp: &str,
    file: &FileBinding,
    contents: &BTreeMap<String, bytes::Bytes>,
) -> Result<(), String> {
    let errno = |errno: rustix::io::Errno| errno.to_string();
    let Some(before) = &file.before else { return remove_new(folder, name, temp, file) };
    let is_beside = now_in(folder, temp.as_bytes()).is(Some(before));
    match (&file.after, is_beside) {
        (Some(_), true) => {
            let exchange = || rustix::fs::renameat_with(folder, temp, folder, name, RenameFlags::EXCHANGE);
            exchange().map_err(errno)?;
            if !is_after(&now_in(folder, temp.as_bytes()), file) {
                exchange().map_err(errno)?;
                return Err("somebody else changed it in this moment".to_owned());
            }
        }
        (None, true) => {
            if !commit::rename_new(folder, temp.as_bytes(), name)
                .map_err(|error| error.placing().to_string())?
            {
                rustix::fs::unlinkat(folder, temp, AtFlags::empty()).map_err(errno)?;
            }
        }
        (after, false) => {
            let content = contents.get(before).ok_or("its content before is not in the store")?;
            from_store(folder, name, temp, (content, file.before_mode), after.is_some())?;
        }
    }
    commit::sync_folder(folder);
    Ok(())
}

/// Writes a content from the store: over the new content, or where the file was removed.
fn from_store(
    folder: &OwnedFd,
    name: &[u8],
    temp: &str,
    (content, mode): (&[u8], Option<u32>),
    is_there: bool,
) -> Result<(), String> {
    let words = |error: commit::CommitError| error.to_string();
    if is_there {
        let stat =
            rustix::fs::statat(folder, name, AtFlags::SYMLINK_NOFOLLOW).map_err(|errno| errno.to_string())?;
        let mode = mode.unwrap_or(stat.st_mode & 0o7777);
        return write_over(folder, name, temp, content, mode, |new| commit::keep_owner(new, &stat))
            .map_err(words);
    }
    let (guard, mut new) = commit::Temp::create(folder, temp, 0o600).map_err(words)?;
    commit::fill(&mut new, content).map_err(words)?;
    rustix::fs::fchmod(&new, Mode::from_raw_mode(mode.unwrap_or(0o644)))
        .map_err(|errno| errno.to_string())?;
    let is_moved =
        commit::rename_new(folder, temp.as_bytes(), name).map_err(|error| error.placing().to_string())?;
    if is_moved {
        guard.keep();
    }
    Ok(())
}

/// Removes a file that the call made, if it is still that.
fn remove_new(folder: &OwnedFd, name: &[u8], temp: &str, file: &FileBinding) -> Result<(), String> {
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let fd = rustix::fs::openat(folder, name, flags, Mode::empty()).map_err(|errno| errno.to_string())?;
    let stat = rustix::fs::fstat(&fd).map_err(|errno| errno.to_string())?;
    rustix::fs::renameat(folder, name, folder, temp).map_err(|errno| errno.to_string())?;
    let is_ours =
        commit::holds(folder, temp.as_bytes(), identity(&stat), file.after.as_deref().unwrap_or_default());
    if !is_ours {
        let _ = commit::rename_new(folder, temp.as_bytes(), name);
        return Err("somebody else changed it in this moment".to_owned());
    }
    rustix::fs::unlinkat(folder, temp, AtFlags::empty()).map_err(|errno| errno.to_string())
}

/// The result of a call whose evidence says that it finished.
pub(crate) fn finished(ctx: &CallContext, files: &[FileBinding]) -> CallEnd {
    let places = match Places::of(&ctx.session) {
        Ok(places) => places,
        Err(error) => return answer::failed(ctx, "workspace", error.to_string()),
    };
    let mut end = answer::done(ctx, String::new());
    for file in files {
        let now = places.now(&file.path);
        if !is_after(&now, file) {
            let name = shown(&file.path);
            return answer::failed(ctx, "changed", format!("{name} has changed again since it was written"));
        }
        let after_mode = if let Now::File { mode, .. } = now { Some(mode) } else { None };
        note(&mut end, file, after_mode);
    }
    let names = names_of(files.iter().map(|file| &file.path));
    end.text = format!("Patched {names} (found done after a restart)");
    end.evidence = Some("all files have the intended content".to_owned());
    end
}

/// Adds a file to what a call reports: what the model knows from here on, and what has changed.
pub(super) fn note(end: &mut CallEnd, file: &FileBinding, after_mode: Option<u32>) {
    if let Some(hash) = &file.after {
        end.seen.push(SeenFile { path: file.path.clone(), hash: hash.clone() });
    }
    if file.before != file.after {
        end.files.push(FileChange {
            path: file.path.clone(),
            before: file.before.clone(),
            after: file.after.clone(),
            before_mode: file.before_mode,
            after_mode,
        });
    }
}
