//! What a session changed: the fold of its `FilesChanged` events, with diffs of the kept contents.
//!
//! Each file from its content before the first change in the span to that after the last one. A file that ends as it
//! began is not listed. Pages end where a frame would become too large.
//!
//! Deliberately absent: what commands changed. They are counted, because a list without them is not the whole.

use super::{Api, status, to_proto};
use crate::ports::Store;
use agentd_core::edit;
use agentd_core::event::{EventBody, FileChange};
use agentd_core::ids::{SessionId, TurnNo};
use agentd_core::limits;
use agentd_core::path_bytes::PathBytes;
use agentd_core::policy::names::shown;
use agentd_core::text::Charset;
use agentd_proto::v1;
use bytes::Bytes;
use sha2::{Digest as _, Sha256};
use std::collections::BTreeMap;
use std::io::Read as _;
use tonic::Status;

/// The net changes of a span, and how many commands ran in it.
#[derive(Default)]
struct Net {
    files: BTreeMap<PathBytes, FileChange>,
    commands: u32,
}

impl Net {
    fn add(&mut self, change: &FileChange) {
        let net = self.files.entry(change.path.clone()).or_insert_with(|| change.clone());
        net.after.clone_from(&change.after);
        net.after_mode = change.after_mode;
    }

    fn take(&mut self, body: &EventBody) {
        match body {
            EventBody::FilesChanged(body) => body.changes.iter().for_each(|change| self.add(change)),
            // Only commands have job folders. A try that repeats another is the same command.
            EventBody::CallStarted(body) if body.job.is_some() && body.attempt == 1 => self.commands += 1,
            _ => {}
        }
    }
}

/// The view CHANGES of a session: of all turns, or of one.
pub(super) async fn view(
    api: &Api,
    session_id: &SessionId,
    root: &PathBytes,
    turn: Option<u32>,
    skip: u32,
) -> Result<v1::SessionChanges, Status> {
    let mut net = Net::default();
    let mut after = 0;
    loop {
        let page = api.store.events_after(session_id, after, limits::EVENTS_PAGE_MAX).await;
        let page = page.map_err(|error| status::store(&error))?;
        let Some(last) = page.last() else { break };
        after = last.seq;
        let wanted = |of: Option<TurnNo>| turn.is_none() || of == turn;
        page.iter().filter(|event| wanted(event.turn)).for_each(|event| net.take(&event.body));
    }
    let is_change =
        |change: &FileChange| change.before != change.after || change.before_mode != change.after_mode;
    let changed: Vec<FileChange> = net.files.into_values().filter(is_change).collect();
    let total = u32::try_from(changed.len()).unwrap_or(u32::MAX);
    let mut answer = v1::SessionChanges { total_files: total, commands: net.commands, ..Default::default() };
    let (mut at, mut bytes) = (skip, 0);
    for change in changed.into_iter().skip(usize::try_from(skip).unwrap_or(usize::MAX)) {
        let file = changed_file(&*api.store, root, change).await?;
        let more = file.diff.len() + limits::CHANGED_FILE_BYTES;
        if !answer.files.is_empty() && bytes + more > limits::FRAME_TARGET_BYTES {
            answer.next_skip_files = Some(at);
            break;
        }
        (at, bytes) = (at + 1, bytes + more);
        answer.files.push(file);
    }
    Ok(answer)
}

async fn changed_file(
    store: &dyn Store,
    root: &PathBytes,
    change: FileChange,
) -> Result<v1::ChangedFile, Status> {
    let mut file = v1::ChangedFile {
        path: Some(to_proto::path(&change.path)),
        before_mode: change.before_mode,
        after_mode: change.after_mode,
        ..Default::default()
    };
    let before = content(store, change.before.as_deref()).await?;
    let after = content(store, change.after.as_deref()).await?;
    if let (Content::Is(old), Content::Is(new)) = (&before, &after) {
        let label = label(root, &change.path);
        (file.before_bytes, file.after_bytes) = (old.len() as u64, new.len() as u64);
        // As a reader sees them, whatever encoding they are in.
        let (old, new) = (as_read(old), as_read(new));
        file.binary = old.is_none() || new.is_none();
        if let (Some(old), Some(new)) = (old, new)
            && change.before != change.after
        {
            let (is_new, is_gone) = (change.before.is_none(), change.after.is_none());
            // A comparison of large files takes its time.
            let compared = tokio::task::spawn_blocking(move || {
                let mut diff = edit::unified_diff(&label, (!is_new).then_some(&old[..]), &new);
                if is_gone {
                    diff = diff.replacen(&format!("+++ b/{label}\n"), "+++ /dev/null\n", 1);
                }
                (diff, edit::changed_lines(&old, &new))
            });
            let (diff, (added, removed)) =
                compared.await.map_err(|error| status::internal("a diff", &error))?;
            file.diff = diff;
            file.added_lines = u32::try_from(added).unwrap_or(u32::MAX);
            file.removed_lines = u32::try_from(removed).unwrap_or(u32::MAX);
        }
    }
    file.note = match (&before, &after) {
        (Content::Gone, _) | (_, Content::Gone) => "its contents were removed by retention".to_owned(),
        (Content::TooLarge, _) | (_, Content::TooLarge) => {
            format!("it is larger than {} bytes", limits::CHANGED_CONTENT_MAX_BYTES)
        }
        _ if file.diff.is_empty() && !file.binary && is_rewritten(&change) => {
            "only its encoding changed, not its text".to_owned()
        }
        _ => String::new(),
    };
    let (path, left) = (change.path.clone(), change.after.clone());
    let now = tokio::task::spawn_blocking(move || is_changed_since(&path, left.as_deref()));
    file.changed_since = now.await.map_err(|error| status::internal("a diff", &error))?;
    (file.before_hash, file.after_hash) = (change.before, change.after);
    Ok(file)
}

enum Content {
    /// No file is an empty content.
    Is(Bytes),
    Gone,
    TooLarge,
}

async fn content(store: &dyn Store, hash: Option<&str>) -> Result<Content, Status> {
    let Some(hash) = hash else { return Ok(Content::Is(Bytes::new())) };
    let mut whole = Vec::new();
    loop {
        let at = u64::try_from(whole.len()).unwrap_or(u64::MAX);
        let part = store.read_blob(hash, at, limits::FRAME_TARGET_BYTES).await;
        match part.map_err(|error| status::store(&error))? {
            None => return Ok(Content::Gone),
            Some(part) if part.is_empty() => return Ok(Content::Is(whole.into())),
            Some(part) => whole.extend_from_slice(&part),
        }
        if whole.len() > limits::CHANGED_CONTENT_MAX_BYTES {
            return Ok(Content::TooLarge);
        }
    }
}

/// Whether a file was there, is there, and has another content.
fn is_rewritten(change: &FileChange) -> bool {
    change.before.is_some() && change.after.is_some() && change.before != change.after
}

/// A content as it is compared; none when it is no text.
fn as_read(content: &Bytes) -> Option<Bytes> {
    let (encoding, text) = edit::as_read(content)?;
    Some(if encoding.charset == Charset::Utf8 { content.clone() } else { text.into_owned().into() })
}

/// A path as a diff names it: relative to the workspace where it lies there.
fn label(root: &PathBytes, path: &PathBytes) -> String {
    let whole = path.as_bytes();
    let below = whole.strip_prefix(root.as_bytes()).and_then(|rest| rest.strip_prefix(b"/"));
    shown(&PathBytes::new(below.unwrap_or(whole)))
}

/// Whether a file is not what our last change left. What cannot be read counts as changed, a link too: we leave files.
fn is_changed_since(path: &PathBytes, left: Option<&str>) -> bool {
    use rustix::fs::{CWD, FileType, Mode, OFlags};
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let fd = match rustix::fs::openat(CWD, path.as_bytes(), flags, Mode::empty()) {
        Ok(fd) => fd,
        Err(rustix::io::Errno::NOENT | rustix::io::Errno::NOTDIR) => return left.is_some(),
        Err(_) => return true,
    };
    let is_file = rustix::fs::fstat(&fd)
        .is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile);
    let Some(left) = left.filter(|_| is_file) else { return true };
    let (mut file, mut hash, mut chunk) = (std::fs::File::from(fd), Sha256::new(), vec![0_u8; 64 * 1024]);
    let mut total = 0;
    loop {
        match file.read(&mut chunk) {
            Ok(0) => break,
            Ok(read) => hash.update(&chunk[..read]),
            Err(_) => return true,
        }
        total += chunk.len();
        // Ours are never that large.
        if total > limits::CHANGED_READ_MAX_BYTES {
            return true;
        }
    }
    let now: String = hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
    now != left
}

#[cfg(test)]
mod tests {
    use super::*;

    fn change(before: Option<&str>, after: Option<&str>) -> FileChange {
        FileChange {
            path: PathBytes::from("/w/a"),
            before: before.map(str::to_owned),
            after: after.map(str::to_owned),
            before_mode: before.map(|_| 0o644),
            after_mode: after.map(|_| 0o755),
        }
    }

    #[test]
    fn changes_of_one_file_become_one() {
        let mut net = Net::default();
        net.add(&change(None, Some("1")));
        net.add(&change(Some("1"), Some("2")));
        let all: Vec<_> = net.files.values().cloned().collect();
        assert_eq!(all, [change(None, Some("2"))]);
        net.add(&change(Some("2"), None));
        assert_eq!(net.files.values().cloned().collect::<Vec<_>>(), [change(None, None)]);
    }

    #[test]
    fn what_is_on_disk_is_compared_by_content() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a");
        let bytes = PathBytes::from(path.to_str().unwrap());
        let hash = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert!(is_changed_since(&bytes, Some(hash)) && !is_changed_since(&bytes, None));
        std::fs::write(&path, "abc").unwrap();
        assert!(!is_changed_since(&bytes, Some(hash)) && is_changed_since(&bytes, None));
        std::fs::write(&path, "abcd").unwrap();
        assert!(is_changed_since(&bytes, Some(hash)));
    }

    #[test]
    fn labels_are_relative_to_the_workspace() {
        let root = PathBytes::from("/w");
        assert_eq!(label(&root, &PathBytes::from("/w/a/b")), "a/b");
        assert_eq!(label(&root, &PathBytes::from("/wider/b")), "/wider/b");
        assert_eq!(label(&root, &PathBytes::new(*b"/w/f\xffo")), "\"f\\xffo\"");
    }
}
