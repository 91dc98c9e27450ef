//! The configuration in use, and its replacement when the file changes.
//!
//! A file that cannot be used leaves the last good configuration in place; the fault is kept for `status` and
//! said once in the log.

use super::{Config, ConfigError, load};
use agentd_core::limits::CONFIG_SETTLE_MS;
use notify::{RecommendedWatcher, RecursiveMode, Watcher};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Duration, SystemTime};
use tokio::sync::{Notify, watch};

struct State {
    config: Arc<Config>,
    seen: Option<Stamp>,
    fault: Option<ConfigError>,
}

/// What tells one state of the file from another.
type Stamp = (SystemTime, u64, u64);

fn stamp(file: &Path) -> Option<Stamp> {
    let found = std::fs::metadata(file).ok()?;
    Some((found.modified().ok()?, found.len(), found.ino()))
}

/// The configuration in use.
pub struct LiveConfig {
    file: PathBuf,
    state: RwLock<State>,
    changed: watch::Sender<Arc<Config>>,
}

/// Watches the file as long as it lives.
pub struct Watching {
    _watcher: Option<RecommendedWatcher>,
    task: tokio::task::JoinHandle<()>,
}

impl Drop for Watching {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl LiveConfig {
    /// Reads the file for the first time; there is no earlier configuration to fall back to.
    pub fn read(file: PathBuf) -> Result<Arc<Self>, ConfigError> {
        let seen = stamp(&file);
        let config = Arc::new(load(&file)?);
        let (changed, _) = watch::channel(config.clone());
        Ok(Arc::new(Self { file, state: RwLock::new(State { config, seen, fault: None }), changed }))
    }

    /// The configuration in use, after a look whether the file changed: for what a person does right after an edit,
    /// which the watcher sees a moment later, or not at all where the system has no watches left.
    pub fn fresh(&self) -> Arc<Config> {
        let seen = self.state.read().unwrap_or_else(PoisonError::into_inner).seen;
        if stamp(&self.file) != seen {
            self.reload();
        }
        self.current()
    }

    /// The configuration in use.
    pub fn current(&self) -> Arc<Config> {
        self.state.read().unwrap_or_else(PoisonError::into_inner).config.clone()
    }

    /// Why the file as it is now is not in use.
    pub fn fault(&self) -> Option<ConfigError> {
        self.state.read().unwrap_or_else(PoisonError::into_inner).fault.clone()
    }

    /// Says when the configuration in use changes.
    pub fn changes(&self) -> watch::Receiver<Arc<Config>> {
        self.changed.subscribe()
    }

    /// Reads the file again. True when the configuration in use changed.
    pub fn reload(&self) -> bool {
        let seen = stamp(&self.file);
        let read = load(&self.file);
        let mut state = self.state.write().unwrap_or_else(PoisonError::into_inner);
        state.seen = seen;
        match read {
            Ok(config) => {
                if state.fault.take().is_some() {
                    tracing::info!(file = %self.file.display(), "the configuration can be used again");
                }
                if *state.config == config {
                    return false;
                }
                state.config = Arc::new(config);
                self.changed.send_replace(state.config.clone());
                tracing::info!(file = %self.file.display(), "the configuration changed");
                true
            }
            Err(fault) => {
                if state.fault.as_ref() != Some(&fault) {
                    tracing::warn!(%fault, "the configuration stays as it was");
                }
                state.fault = Some(fault);
                false
            }
        }
    }

    /// Begins to follow changes of the file. Where the system has no watches left, changes are picked up at the
    /// next start only, and the log says so.
    pub fn watch(self: &Arc<Self>) -> Watching {
        let touched = Arc::new(Notify::new());
        let bell = touched.clone();
        let name = self.file.file_name().map(std::ffi::OsStr::to_os_string);
        let watcher = notify::recommended_watcher(move |event: notify::Result<notify::Event>| {
            // Reading the file again is an event too; taking it for a change would never end.
            let ours = event.is_ok_and(|event| {
                !event.kind.is_access() && event.paths.iter().any(|path| path.file_name() == name.as_deref())
            });
            if ours {
                bell.notify_one();
            }
        })
        .and_then(|mut watcher| {
            let folder = self.file.parent().unwrap_or(&self.file);
            watcher.watch(folder, RecursiveMode::NonRecursive)?;
            Ok(watcher)
        })
        .inspect_err(|error| {
            tracing::warn!(
                %error,
                "changes of the configuration are seen at the next start only (fs.inotify.max_user_watches?)"
            );
        })
        .ok();
        let live = self.clone();
        let task = tokio::spawn(async move {
            loop {
                touched.notified().await;
                // Editors write in several steps; the last of them is the file that is meant.
                tokio::time::sleep(Duration::from_millis(CONFIG_SETTLE_MS)).await;
                live.reload();
            }
        });
        Watching { _watcher: watcher, task }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bad_file_leaves_the_last_good_one_in_use() {
        let temp = tempfile::tempdir().unwrap();
        let file = temp.path().join("config.toml");
        let live = LiveConfig::read(file.clone()).unwrap();
        std::fs::write(&file, "model = \"demo/tour\"\n").unwrap();
        assert!(live.reload() && !live.reload());
        std::fs::write(&file, "model = \"demo/tour\"\nmodle = 1\n").unwrap();
        assert!(!live.reload());
        assert_eq!(live.current().model.as_deref(), Some("demo/tour"));
        assert!(matches!(live.fault(), Some(ConfigError::Invalid { line: 2, .. })));
        std::fs::write(&file, "model = \"anthropic/x\"\n").unwrap();
        assert_eq!(live.fresh().model.as_deref(), Some("anthropic/x"), "a look at the file is enough");
        std::fs::write(&file, "").unwrap();
        assert!(live.reload());
        assert_eq!((live.current().model.clone(), live.fault()), (None, None));
    }

    #[tokio::test]
    async fn a_written_file_is_noticed_without_a_restart() {
        let temp = tempfile::tempdir().unwrap();
        let file = temp.path().join("config.toml");
        let live = LiveConfig::read(file.clone()).unwrap();
        let mut changes = live.changes();
        let _watching = live.watch();
        // As editors do it: another file, renamed over.
        std::fs::write(temp.path().join("new"), "model = \"demo/tour\"\n").unwrap();
        std::fs::rename(temp.path().join("new"), &file).unwrap();
        tokio::time::timeout(Duration::from_secs(20), changes.changed()).await.unwrap().unwrap();
        assert_eq!(live.current().model.as_deref(), Some("demo/tour"));
    }
}
