//! Where a command runs: the session's folder while it is there, and what takes its place when it was deleted.
//!
//! A deleted folder must not make a session useless, and a command that was meant for it must not run anywhere that
//! matters. So its nearest folder inside the workspace stands in for it; where the workspace itself is gone, an empty
//! private folder does. The binding of a call names the folder that was meant when it was approved.

use super::command::command_binding;
use crate::inspect::{Found, Workspace};
use crate::ports::{CallContext, SessionContext};
use agentd_core::event::Binding;
use agentd_core::path_bytes::PathBytes;
use agentd_core::policy::names::shown;
use rustix::fs::FileType;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

/// The private folder of a call whose workspace is gone.
pub(crate) fn stand_in(ctx: &CallContext, scratch: &Path) -> PathBuf {
    scratch.join(format!("gone-{}", ctx.call_id))
}

/// Makes the private folder, if a command is to run there.
pub(crate) fn make_stand_in(ctx: &CallContext, folder: &PathBytes, scratch: &Path) -> std::io::Result<()> {
    let private = stand_in(ctx, scratch);
    if folder.as_bytes() != private.as_os_str().as_bytes() {
        return Ok(());
    }
    std::fs::DirBuilder::new().mode(0o700).recursive(true).create(private)
}

/// Where a command of this call would run now.
pub(crate) fn working_folder(ctx: &CallContext, scratch: &Path) -> PathBytes {
    let session = &ctx.session;
    let Ok(workspace) = Workspace::open(&session.root, &session.root) else {
        return PathBytes::new(stand_in(ctx, scratch).as_os_str().as_bytes());
    };
    above(session)
        .find(|folder| {
            let found = workspace.lookup(folder.as_bytes());
            // Under its own name: not a link that stands in its place now.
            matches!(found, Ok(Found::Existing(found))
                if found.kind() == FileType::Directory && found.path == *folder)
        })
        .unwrap_or_else(|| workspace.path().clone())
}

/// Where the command of a call that was bound before ran or runs: the folder that its binding was made with.
pub(crate) fn bound_folder(
    ctx: &CallContext,
    command: &str,
    sandbox: &str,
    scratch: &Path,
) -> Option<PathBytes> {
    let bound = ctx.binding.as_ref()?;
    let is_bound = |folder: &PathBytes| {
        matches!(bound, Binding::Command { .. }) && command_binding(command, folder, sandbox) == *bound
    };
    let stand_in = PathBytes::new(stand_in(ctx, scratch).as_os_str().as_bytes());
    above(&ctx.session).chain([ctx.session.root.clone(), stand_in]).find(is_bound)
}

/// What to say of a command that ran elsewhere than in its session's folder.
pub(crate) fn notice(session: &SessionContext, folder: &PathBytes, scratch: &Path) -> Option<String> {
    if *folder == session.cwd {
        return None;
    }
    let is_private = folder.as_bytes().starts_with(scratch.as_os_str().as_bytes());
    let place = if is_private { "an empty private folder".to_owned() } else { shown(folder) };
    Some(format!("[the session's folder {} is gone: this ran in {place}]", shown(&session.cwd)))
}

/// The session's folder and those above it, down to the root of the workspace.
fn above(session: &SessionContext) -> impl Iterator<Item = PathBytes> {
    let (cwd, root) = (session.cwd.as_bytes().to_vec(), session.root.as_bytes().to_vec());
    let ends: Vec<usize> =
        cwd.iter().enumerate().filter(|(_, byte)| **byte == b'/').map(|(at, _)| at).collect();
    let folders = [cwd.len()].into_iter().chain(ends.into_iter().rev());
    folders.map(move |end| PathBytes::new(&cwd[..end])).take_while(move |folder| {
        folder.as_bytes().starts_with(&root) && folder.as_bytes().len() >= root.len().max(1)
    })
}

#[cfg(test)]
mod tests {
    use super::super::tests::Bench;
    use super::*;
    use serde_json::json;

    #[test]
    fn a_deleted_folder_has_its_nearest_folder_and_a_deleted_workspace_a_private_one() {
        let mut world = Bench::new();
        let root = PathBuf::from(std::ffi::OsStr::from_bytes(world.root.as_bytes()));
        std::fs::create_dir_all(root.join("a/b/c")).unwrap();
        world.cwd = PathBytes::new(root.join("a/b/c").as_os_str().as_bytes());
        let call = world.call("run_command", &json!({"command": "true"}));
        let scratch = Path::new("/scratch");
        let folder = |relative: &str| PathBytes::new(root.join(relative).as_os_str().as_bytes());
        assert_eq!(working_folder(&call, scratch), folder("a/b/c"));
        assert_eq!(notice(&call.session, &folder("a/b/c"), scratch), None);
        std::fs::remove_dir(root.join("a/b/c")).unwrap();
        assert_eq!(working_folder(&call, scratch), folder("a/b"));
        assert!(notice(&call.session, &folder("a/b"), scratch).unwrap().contains("this ran in"));
        // A link in its place leads elsewhere, and is not it.
        std::os::unix::fs::symlink("/", root.join("a/b/c")).unwrap();
        assert_eq!(working_folder(&call, scratch), folder("a/b"));
        std::fs::remove_dir_all(root.join("a")).unwrap();
        assert_eq!(working_folder(&call, scratch).as_bytes(), root.as_os_str().as_bytes());
        std::fs::remove_dir_all(&root).unwrap();
        let private = working_folder(&call, scratch);
        assert!(private.as_bytes().starts_with(b"/scratch/gone-"));
        assert!(notice(&call.session, &private, scratch).unwrap().contains("an empty private folder"));
        let bound = |folder: &PathBytes| {
            let mut call = call.clone();
            call.binding = Some(command_binding("true", folder, "none"));
            bound_folder(&call, "true", "none", scratch)
        };
        assert_eq!(bound(&folder("a/b")), Some(folder("a/b")));
        assert_eq!(bound(&private), Some(private));
        assert_eq!(bound(&PathBytes::new("/etc")), None);
    }
}
