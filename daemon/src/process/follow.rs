//! Live output of a running job: woken by the kernel's file events, read from the spool.
//!
//! One watcher serves all jobs, own and adopted alike. Lossy on purpose: under a flood a slow reader skips what
//! is not kept any more, and offsets show it. Where no watcher can be had (the user's inotify instances are used
//! up) there is no progress in between, and the end still brings the rest.

use super::error::ProcessError;
use super::jobs::Jobs;
use super::spool::Spool;
use agentd_core::limits::OUTPUT_CHUNK_BYTES;
use notify::{EventKind, RecommendedWatcher, RecursiveMode, Watcher};
use std::collections::HashMap;
use std::future::Future;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use tokio::sync::Notify;

/// A piece of output.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OutputChunk {
    /// Offset of its first byte. More than the end of the piece before: the rest between was not kept.
    pub offset: u64,
    /// Raw bytes; may begin and end inside a character.
    pub bytes: Vec<u8>,
}

type Ended = Pin<Box<dyn Future<Output = ()> + Send>>;

/// The output of one job as it comes.
pub struct Follow {
    spool: Spool,
    bell: Option<Bell>,
    offset: u64,
    ended: Option<Ended>,
}

impl Follow {
    pub(super) fn new(jobs: Jobs, name: String, spool: Spool, bell: Option<Bell>, offset: u64) -> Self {
        let ended: Ended = Box::pin(async move {
            // An unreadable `id` counts as the end here; waiting for the job tells what is wrong.
            let _ = jobs.supervisor_ended(&name).await;
        });
        Self { spool, bell, offset, ended: Some(ended) }
    }

    /// Leaves out what is more than `most` bytes behind the end. Says how many bytes that was.
    pub fn skip_behind(&mut self, most: u64) -> u64 {
        let end = self.spool.total_bytes().unwrap_or(self.offset);
        let to = end.saturating_sub(most);
        let skipped = to.saturating_sub(self.offset);
        self.offset = self.offset.max(to);
        skipped
    }

    /// The next piece; none when the job has ended and all was read. May be dropped and called again.
    pub async fn next(&mut self) -> Result<Option<OutputChunk>, ProcessError> {
        loop {
            let (offset, bytes) = self.spool.read(self.offset, OUTPUT_CHUNK_BYTES)?;
            if !bytes.is_empty() {
                self.offset = offset + bytes.len() as u64;
                return Ok(Some(OutputChunk { offset, bytes }));
            }
            let Some(ended) = self.ended.as_mut() else { return Ok(None) };
            tokio::select! {
                () = ended => self.ended = None,
                () = rung(self.bell.as_ref()) => {}
            }
        }
    }
}

async fn rung(bell: Option<&Bell>) {
    match bell {
        Some(bell) => bell.ring.notified().await,
        None => std::future::pending().await,
    }
}

/// Rings when something was written in a folder. Watching ends when it is dropped.
pub(super) struct Bell {
    ring: Arc<Notify>,
    folder: PathBuf,
    bells: Weak<Mutex<Hung>>,
}

#[derive(Default)]
struct Hung {
    watcher: Option<RecommendedWatcher>,
    rings: Rings,
}

/// Those who wait, by folder. Its own lock: the watcher's thread takes only this one.
type Rings = Arc<Mutex<HashMap<PathBuf, Vec<Arc<Notify>>>>>;

/// The watcher and all that hangs on it.
#[derive(Default)]
pub(super) struct Bells(Arc<Mutex<Hung>>);

impl Bells {
    /// A bell for a folder; none where nothing can be watched.
    pub(super) fn hang(&self, folder: &Path) -> Option<Bell> {
        let mut hung = lock(&self.0);
        let hung = &mut *hung;
        let watcher = match &mut hung.watcher {
            Some(watcher) => watcher,
            empty => match new_watcher(Arc::clone(&hung.rings)) {
                Ok(watcher) => empty.insert(watcher),
                Err(error) => {
                    tracing::warn!(%error, "no file watcher: the output of commands shows only at their end");
                    return None;
                }
            },
        };
        let ring = Arc::new(Notify::new());
        lock(&hung.rings).entry(folder.to_path_buf()).or_default().push(Arc::clone(&ring));
        let bell = Bell { ring, folder: folder.to_path_buf(), bells: Arc::downgrade(&self.0) };
        if let Err(error) = watcher.watch(folder, RecursiveMode::NonRecursive) {
            tracing::warn!(%error, folder = %folder.display(), "output shows only at its end");
        }
        Some(bell)
    }
}

impl Drop for Bell {
    fn drop(&mut self) {
        let Some(bells) = self.bells.upgrade() else { return };
        let mut hung = lock(&bells);
        let last = {
            let mut rings = lock(&hung.rings);
            let Some(here) = rings.get_mut(&self.folder) else { return };
            here.retain(|ring| !Arc::ptr_eq(ring, &self.ring));
            let last = here.is_empty();
            if last {
                rings.remove(&self.folder);
            }
            last
        };
        if last && let Some(watcher) = hung.watcher.as_mut() {
            // Fails when the folder is deleted already.
            let _ = watcher.unwatch(&self.folder);
        }
    }
}

fn new_watcher(rings: Rings) -> notify::Result<RecommendedWatcher> {
    notify::recommended_watcher(move |event: notify::Result<notify::Event>| {
        let Ok(event) = event else { return };
        // Reading makes events too; waking for those would never end.
        if !matches!(event.kind, EventKind::Modify(_) | EventKind::Create(_)) && !event.need_rescan() {
            return;
        }
        let rings = lock(&rings);
        if event.need_rescan() {
            rings.values().flatten().for_each(|ring| ring.notify_one());
        }
        for folder in event.paths.iter().filter_map(|path| path.parent()) {
            rings.get(folder).into_iter().flatten().for_each(|ring| ring.notify_one());
        }
    })
}

/// A panic elsewhere leaves these maps whole: each change is one step.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
