//! What the files themselves say about a call that was started before the daemon went away.

use super::{answer, apply_patch, commit, text};
use crate::inspect::{Existing, Found, Workspace};
use crate::ports::{CallContext, Evidence};
use agentd_core::command::CallEnd;
use agentd_core::event::{Binding, FileChange, PermissionMode, SeenFile};
use agentd_core::limits;
use agentd_core::path_bytes::PathBytes;
use agentd_core::policy::names::shown;
use rustix::fs::{AtFlags, FileType, Mode, OFlags};
use rustix::io::Errno;
use std::fs::File;
use std::io::Read as _;
use std::os::fd::OwnedFd;

/// The evidence of a call. Removes a half-made file beside its target.
pub(super) fn of_call(ctx: &CallContext) -> Evidence {
    let Some(binding @ Binding::File { path, .. }) = &ctx.binding else {
        return Evidence::NotStarted { why: format!("{} changes nothing, so it runs again", ctx.tool) };
    };
    match content_now(ctx, path) {
        Ok(now) => of_contents(binding, now.as_ref().map(|(hash, _)| hash.as_str())),
        Err(why) => Evidence::Unknown { why, output: None },
    }
}

/// The evidence of a binding and a content.
pub(super) fn of_contents(binding: &Binding, now: Option<&str>) -> Evidence {
    let Binding::File { path, before, after } = binding else {
        return Evidence::Unknown { why: "the call is not about a file".to_owned(), output: None };
    };
    let name = shown(path);
    if now == Some(after.as_str()) {
        return Evidence::Finished { why: format!("{name} has the intended content") };
    }
    if now == before.as_deref() {
        return Evidence::NotStarted { why: format!("{name} has the content it had before") };
    }
    let why = format!("{name} has neither the content before nor the intended one");
    Evidence::Unknown { why, output: None }
}

/// The result of a call whose evidence says that it finished.
pub(super) fn finished(ctx: &CallContext) -> CallEnd {
    if let Some(Binding::Files(files)) = &ctx.binding {
        return apply_patch::finished(ctx, files);
    }
    let Some(Binding::File { path, before, after }) = &ctx.binding else {
        return answer::failed(ctx, "internal", "the call is not about a file");
    };
    let mode = match content_now(ctx, path) {
        Ok(Some((hash, mode))) if hash == *after => Some(mode),
        _ => {
            return answer::failed(
                ctx,
                "changed",
                format!("{} has changed again since it was written", shown(path)),
            );
        }
    };
    let mut end = answer::done(ctx, format!("Wrote {} (found done after a restart)", shown(path)));
    end.seen = vec![SeenFile { path: path.clone(), hash: after.clone() }];
    if before.as_ref() != Some(after) {
        end.files = vec![FileChange {
            path: path.clone(),
            before: before.clone(),
            after: Some(after.clone()),
            // A replacement keeps the bits, so those found are those before.
            before_mode: before.as_ref().and(mode),
            after_mode: mode,
        }];
    }
    end.evidence = Some("the file has the intended content".to_owned());
    end
}

/// The hash and the permission bits of what is there now.
fn content_now(ctx: &CallContext, path: &PathBytes) -> Result<Option<(String, u32)>, String> {
    let session = &ctx.session;
    let inside = Workspace::open(&session.root, &session.cwd).map_err(|error| error.to_string())?;
    let found = match inside.lookup(path.as_bytes()) {
        Ok(found) => Ok((inside, found)),
        Err(_) if session.settings.mode == PermissionMode::Full => Workspace::anywhere(&session.cwd)
            .and_then(|anywhere| anywhere.lookup(path.as_bytes()).map(|found| (anywhere, found))),
        Err(error) => Err(error),
    };
    let (workspace, found) = found.map_err(|error| error.to_string())?;
    if let Ok((folder, _)) = workspace.parent_of(path) {
        tidy(ctx, &folder)?;
    }
    match found {
        Found::Missing(_) => Ok(None),
        Found::Existing(existing) => hash_of(&existing).map(|hash| Some((hash, existing.mode()))),
    }
}

/// Removes what the call left beside its file. What is neither its old nor its new content is somebody else's, who wrote
/// in the moment of the exchange; that stays, and is named.
fn tidy(ctx: &CallContext, folder: &OwnedFd) -> Result<(), String> {
    let name = commit::temp_name(&ctx.call_id);
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let fd = match rustix::fs::openat(folder, &name, flags, Mode::empty()) {
        Ok(fd) => fd,
        Err(Errno::NOENT) => return Ok(()),
        Err(errno) => return Err(format!("{name}, which this call left, cannot be looked at: {errno}")),
    };
    let mut content = Vec::new();
    let read = File::from(fd).take(limits::EDIT_MAX_BYTES + 1).read_to_end(&mut content);
    read.map_err(|error| format!("{name}, which this call left, cannot be read: {error}"))?;
    let hash = text::hash(&content);
    let is_whole = matches!(&ctx.binding, Some(Binding::File { before, after, .. })
        if before.as_deref() == Some(hash.as_str()) || *after == hash);
    // A half-written file is the start of the new content; nobody else writes there. It is in place only when whole.
    let is_begun = || {
        matches!(&ctx.binding, Some(Binding::File { path, before, .. })
            if is_unexchanged(ctx, path, before.as_deref()))
    };
    if !is_whole && !is_begun() {
        return Err(format!(
            "what somebody else wrote in the moment of the change is kept in {name} beside it"
        ));
    }
    rustix::fs::unlinkat(folder, &name, AtFlags::empty())
        .map_err(|errno| format!("{name}, which this call left, cannot be removed: {errno}"))
}

/// Whether the file still has its old content, so that no exchange has taken place.
fn is_unexchanged(ctx: &CallContext, path: &PathBytes, before: Option<&str>) -> bool {
    let session = &ctx.session;
    let found = Workspace::open(&session.root, &session.cwd)
        .or_else(|_| Workspace::anywhere(&session.cwd))
        .and_then(|workspace| workspace.lookup(path.as_bytes()));
    match found {
        Ok(Found::Missing(_)) => before.is_none(),
        Ok(Found::Existing(existing)) => hash_of(&existing).ok().as_deref() == before,
        Err(_) => false,
    }
}

fn hash_of(existing: &Existing) -> Result<String, String> {
    let name = shown(&existing.path);
    if existing.kind() != FileType::RegularFile || existing.size() > limits::EDIT_MAX_BYTES {
        return Err(format!("{name} is no longer a file of this size"));
    }
    let mut content = Vec::new();
    existing
        .open()
        .map_err(std::io::Error::from)
        .and_then(|fd| File::from(fd).take(limits::EDIT_MAX_BYTES + 1).read_to_end(&mut content))
        .map_err(|error| format!("{name} cannot be read: {error}"))?;
    Ok(text::hash(&content))
}
