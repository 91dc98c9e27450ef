//! The log of the daemon: files that are rotated by day, of which a few are kept.
//!
//! Invariant: nothing secret is logged. What a model, a tool or a person said is content, and content is not
//! logged at all; events and the audit trail have it.

use agentd_core::limits::LOG_FILES_KEPT;
use std::path::Path;
use tracing::level_filters::LevelFilter;
use tracing_appender::rolling::{RollingFileAppender, Rotation};
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::reload;
use tracing_subscriber::util::SubscriberInitExt;

/// Why there is no log.
#[derive(Debug, thiserror::Error)]
pub enum TelemetryError {
    /// The files cannot be made.
    #[error("the log in {folder} cannot be written: {why}")]
    Folder {
        /// Where.
        folder: std::path::PathBuf,
        /// What the system said.
        why: String,
    },
    /// Somebody else logs in this process.
    #[error("logging was set up twice in this process")]
    Twice,
}

/// Changes how much is logged.
#[derive(Clone)]
pub struct LogControl {
    set: reload::Handle<Targets, tracing_subscriber::Registry>,
    fixed: bool,
}

impl LogControl {
    /// Logs so much from now on, unless the environment has the word.
    pub fn set_level(&self, level: LevelFilter) {
        if self.fixed {
            return;
        }
        if let Err(error) = self.set.reload(targets(level)) {
            tracing::warn!(%error, "the log level stays as it was");
        }
    }
}

/// Begins to log into `folder`. `AGENTD_LOG` (`debug`, `trace`, …) has more say than the configuration.
pub fn start(folder: &Path, level: LevelFilter) -> Result<LogControl, TelemetryError> {
    let from_env: Option<LevelFilter> = std::env::var("AGENTD_LOG").ok().and_then(|word| word.parse().ok());
    let appender = RollingFileAppender::builder()
        .rotation(Rotation::DAILY)
        .filename_prefix("agentd")
        .filename_suffix("log")
        .max_log_files(LOG_FILES_KEPT)
        .build(folder)
        .map_err(|error| TelemetryError::Folder { folder: folder.to_path_buf(), why: error.to_string() })?;
    let (filter, set) = reload::Layer::new(targets(from_env.unwrap_or(level)));
    let lines = tracing_subscriber::fmt::layer().with_ansi(false).with_writer(appender);
    tracing_subscriber::registry().with(filter).with(lines).try_init().map_err(|_| TelemetryError::Twice)?;
    log_panics();
    Ok(LogControl { set, fixed: from_env.is_some() })
}

/// Our own rooms at the level; what lies beneath only when it complains.
fn targets(level: LevelFilter) -> Targets {
    Targets::new()
        .with_targets([("agentd", level), ("agentd_core", level)])
        .with_default(level.min(LevelFilter::WARN))
}

/// A panic ends one task; the log says where it was, and the former hook still says it on stderr.
fn log_panics() {
    let former = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        let place = info.location().map(ToString::to_string).unwrap_or_default();
        let what = info
            .payload()
            .downcast_ref::<&str>()
            .copied()
            .or_else(|| info.payload().downcast_ref::<String>().map(String::as_str))
            .unwrap_or("a panic without words");
        tracing::error!(place, what, "panicked");
        former(info);
    }));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_crates_never_say_more_than_warnings() {
        let chatty = targets(LevelFilter::TRACE);
        assert!(chatty.would_enable("agentd::lifecycle", &tracing::Level::TRACE));
        assert!(!chatty.would_enable("h2::codec", &tracing::Level::INFO));
        let quiet = targets(LevelFilter::ERROR);
        assert!(!quiet.would_enable("h2::codec", &tracing::Level::WARN));
    }
}
