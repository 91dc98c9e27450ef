//! The configuration in use, and its replacement when the file changes.
//!
//! A file that cannot be used leaves the last good configuration in place; the fault is kept for `status` and
//! said once in the log.

use super::{Config, ConfigError, load};
use agentd_core::limits::CONFIG_SETTLE_MS;
use notify::{RecommendedWatcher, RecursiveMode, Watcher};
use std::path::PathBuf;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;
use tokio::sync::{Notify, watch};

struct State {
    config: Arc<Config>,
    fault: Option<ConfigError>,
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
        let config = Arc::new(load(&file)?);
        let (changed, _) = watch::channel(config.clone());
        Ok(Arc::new(Self { file, state: RwLock::new(State { config, fault: None }), changed }))
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
        let read = load(&self.file);
        let mut state = self.state.write().unwrap_or_else(PoisonError::into_inner);
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
