//! What the files say about a patch that a former run of the daemon started: all new, all old, or a mixture, which is
//! put back to what was before from the contents kept.

use super::super::commit::{create_temp, fill, sync_folder, temp_name_of};
use super::super::{Tools, answer, blocking, text};
use crate::inspect::{Existing, Found, Workspace};
use crate::ports::{CallContext, Evidence};
use agentd_core::command::CallEnd;
use agentd_core::event::{FileBinding, FileChange, PermissionMode, SeenFile};
use agentd_core::limits;
use agentd_core::policy::names::shown;
use rustix::fs::{AtFlags, FileType, Mode};
use std::fs::File;
use std::io::Read as _;

/// The state of one file.
#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Before,
    After,
    Other,
}

/// The evidence of a patch. A mixture is put back; a file that has another content is never touched.
pub(in crate::tools) async fn evidence(tools: &Tools, ctx: &CallContext, files: &[FileBinding]) -> Evidence {
    match settle(tools, ctx, files).await {
        Ok(evidence) => evidence,
        Err(why) => Evidence::Unknown { why, output: None },
    }
}

async fn settle(tools: &Tools, ctx: &CallContext, files: &[FileBinding]) -> Result<Evidence, String> {
    let (owned, bindings) = (ctx.clone(), files.to_vec());
    let looked =
        blocking(move || bindings.iter().map(|file| state_of(&owned, file)).collect::<Result<Vec<_>, _>>());
    let states = looked.await.map_err(|fault| fault.text)??;
    let others: Vec<String> = files
        .iter()
        .zip(&states)
        .filter(|(_, state)| **state == State::Other)
        .map(|(file, _)| shown(&file.path))
        .take(limits::EDIT_PLACES_MAX)
        .collect();
    if !others.is_empty() {
        return Err(format!("{}: neither the content before nor the intended one", others.join(", ")));
    }
    let mut back = Vec::new();
    if states.contains(&State::Before) {
        for (at, file) in files.iter().enumerate().filter(|(at, _)| states.get(*at) == Some(&State::After)) {
            let content = match &file.before {
                Some(hash) => Some(kept(tools, hash).await?),
                None => None,
            };
            back.push((at, file.clone(), content));
        }
    }
    let (owned, bindings) = (ctx.clone(), files.to_vec());
    let count = back.len();
    let restored = blocking(move || {
        for (at, file, content) in &back {
            restore(&owned, *at, file, content.as_deref())?;
        }
        for (at, file) in bindings.iter().enumerate() {
            let (workspace, _) = found(&owned, file)?;
            if let Ok((folder, _)) = workspace.parent_of(&file.path) {
                let _ = rustix::fs::unlinkat(&folder, temp_name_of(&owned.call_id, at), AtFlags::empty());
            }
        }
        Ok::<(), String>(())
    });
    restored.await.map_err(|fault| fault.text)??;
    Ok(if !states.contains(&State::Before) {
        Evidence::Finished { why: format!("all {} files have the intended content", files.len()) }
    } else if count == 0 {
        Evidence::NotStarted { why: format!("all {} files have the content they had before", files.len()) }
    } else {
        Evidence::NotStarted {
            why: format!("{count} of {} files were changed and were put back", files.len()),
        }
    })
}

fn found(ctx: &CallContext, file: &FileBinding) -> Result<(Workspace, Found), String> {
    let session = &ctx.session;
    let inside = Workspace::open(&session.root, &session.cwd).map_err(|error| error.to_string())?;
    match inside.lookup(file.path.as_bytes()) {
        Ok(found) => Ok((inside, found)),
        Err(_) if session.settings.mode == PermissionMode::Full => {
            let anywhere = Workspace::anywhere(&session.cwd).map_err(|error| error.to_string())?;
            let found = anywhere.lookup(file.path.as_bytes()).map_err(|error| error.to_string())?;
            Ok((anywhere, found))
        }
        Err(error) => Err(error.to_string()),
    }
}

fn state_of(ctx: &CallContext, file: &FileBinding) -> Result<State, String> {
    let now = match found(ctx, file)?.1 {
        Found::Missing(_) => None,
        Found::Existing(existing)
            if existing.path == file.path && existing.kind() == FileType::RegularFile =>
        {
            Some(hash_of(&existing)?)
        }
        Found::Existing(_) => return Ok(State::Other),
    };
    Ok(match now {
        now if now == file.after => State::After,
        now if now == file.before => State::Before,
        _ => State::Other,
    })
}

fn hash_of(existing: &Existing) -> Result<String, String> {
    let mut content = Vec::new();
    existing
        .open()
        .map_err(std::io::Error::from)
        .and_then(|fd| File::from(fd).take(limits::EDIT_MAX_BYTES + 1).read_to_end(&mut content))
        .map_err(|error| format!("{} cannot be read: {error}", shown(&existing.path)))?;
    Ok(text::hash(&content))
}

/// A content from the store, whole.
async fn kept(tools: &Tools, hash: &str) -> Result<Vec<u8>, String> {
    const PART: usize = 1024 * 1024;
    let mut content = Vec::new();
    loop {
        let offset = u64::try_from(content.len()).unwrap_or(u64::MAX);
        let part = tools.store.read_blob(hash, offset, PART).await.map_err(|error| error.to_string())?;
        let Some(part) = part else { return Err(format!("the kept content {hash} is gone")) };
        if part.is_empty() {
            break;
        }
        content.extend_from_slice(&part);
    }
    if text::hash(&content) == hash {
        Ok(content)
    } else {
        Err(format!("the kept content {hash} is damaged"))
    }
}

/// Puts one file back. The displaced file itself, if it is still beside, with its owner and bits; else its content.
fn restore(ctx: &CallContext, at: usize, file: &FileBinding, content: Option<&[u8]>) -> Result<(), String> {
    let name = shown(&file.path);
    let failed = |error: &dyn std::fmt::Display| format!("{name} could not be put back: {error}");
    // Somebody may have changed it since it was looked at.
    if state_of(ctx, file)? != State::After {
        return Err(format!("{name} was changed by somebody else while it was put back"));
    }
    let (workspace, now) = found(ctx, file)?;
    let (folder, last) = workspace.parent_of(&file.path).map_err(|error| failed(&error))?;
    let temp = temp_name_of(&ctx.call_id, at);
    let Some(content) = content else {
        rustix::fs::unlinkat(&folder, last.as_slice(), AtFlags::empty()).map_err(|errno| failed(&errno))?;
        sync_folder(&folder);
        return Ok(());
    };
    let mut beside = file.path.as_bytes().to_vec();
    beside.truncate(beside.len() - last.len());
    beside.extend_from_slice(temp.as_bytes());
    let is_beside = match workspace.lookup(&beside) {
        Ok(Found::Existing(old)) if old.path.as_bytes() == beside && old.kind() == FileType::RegularFile => {
            Some(hash_of(&old)?) == file.before
        }
        _ => false,
    };
    if !is_beside {
        let mut new = create_temp(&folder, &temp, 0o600).map_err(|error| failed(&error))?;
        if let Found::Existing(existing) = &now {
            super::super::commit::keep_owner(&new, &existing.stat).map_err(|error| failed(&error))?;
        }
        fill(&mut new, content).map_err(|error| failed(&error))?;
        let mode = Mode::from_raw_mode(file.before_mode.unwrap_or(0o644));
        rustix::fs::fchmod(&new, mode).map_err(|errno| failed(&errno))?;
        new.sync_all().map_err(|error| failed(&error))?;
    }
    rustix::fs::renameat(&folder, temp.as_str(), &folder, last.as_slice()).map_err(|errno| failed(&errno))?;
    sync_folder(&folder);
    Ok(())
}

/// The result of a patch that was found finished.
pub(in crate::tools) fn finished(ctx: &CallContext, files: &[FileBinding]) -> CallEnd {
    let mut end = answer::done(ctx, format!("Patched {} files (found done after a restart)", files.len()));
    for file in files {
        match state_of(ctx, file) {
            Ok(State::After) => {}
            _ => {
                let text = format!("{} has changed again since it was patched", shown(&file.path));
                return answer::failed(ctx, "changed", text);
            }
        }
        if let Some(hash) = &file.after {
            end.seen.push(SeenFile { path: file.path.clone(), hash: hash.clone() });
        }
        let after_mode = match found(ctx, file) {
            Ok((_, Found::Existing(existing))) => Some(existing.mode()),
            _ => None,
        };
        let FileBinding { path, before, after, before_mode } = file.clone();
        end.files.push(FileChange { path, before, after, before_mode, after_mode });
    }
    end.evidence = Some("all files have the intended content".to_owned());
    end
}
