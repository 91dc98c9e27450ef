//! `config.toml`: what a person says about models, limits and the rest.
//!
//! Invariants: a key that is not known is an error that names file, line and key, never ignored; every default
//! is one of `agentd_core::limits` or stands here with its reason; a bad file never replaces a good
//! configuration that is in use.
//!
//! Absent on purpose: project configuration (it may only tighten, and needs trust; see `policy`), and keys: a
//! configuration names where a key is. A person may put one into a header all the same; it is treated as a secret.

mod catalog;
mod chat_servers;
mod check;
mod keys;
mod known_models;
mod live;
mod schema;

pub use catalog::{
    CatalogError, Heard, Origin, ProviderSettings, ResolvedModel, named_models, provider, provider_names,
    resolve, resolve_heard,
};
pub use keys::{KeyError, KeySource, Secret, is_credential_header, key_for, secrets_in};
pub use known_models::{KnownModel, ListPrice, Source, known_models};
pub use live::{LiveConfig, Watching};
pub use schema::{
    Config, ContextSection, DaemonSection, Decision, LimitsSection, LogLevel, McpSection, McpServer,
    ModelSection, PriceSection, Protocol, ProviderSection, RetentionSection, RetrySection, RuleSection,
    SandboxSection, SessionSection, ToolsSection,
};

use std::path::{Path, PathBuf};

/// Why a configuration cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    /// The file is there and cannot be read.
    #[error("{file}: cannot be read: {why}", file = file.display())]
    Unreadable {
        /// The file.
        file: PathBuf,
        /// What the system said.
        why: String,
    },
    /// Something in it is wrong.
    #[error("{file}:{line}: {}{message}", key_part(key), file = file.display())]
    Invalid {
        /// The file.
        file: PathBuf,
        /// The line, from 1.
        line: usize,
        /// The key, dotted; empty where there is none.
        key: String,
        /// What is wrong and what would be right.
        message: String,
    },
}

fn key_part(key: &str) -> String {
    if key.is_empty() { String::new() } else { format!("key `{key}`: ") }
}

/// Reads the file; without one everything has its default.
pub fn load(file: &Path) -> Result<Config, ConfigError> {
    match std::fs::read_to_string(file) {
        Ok(text) => parse(&text, file),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Config::default()),
        Err(error) => Err(ConfigError::Unreadable { file: file.to_path_buf(), why: error.to_string() }),
    }
}

/// Reads the text of a file; the file is for messages.
pub fn parse(text: &str, file: &Path) -> Result<Config, ConfigError> {
    let config: Config = toml::from_str(text).map_err(|error| {
        let offset = error.span().map_or(0, |span| span.start);
        let line = check::line_at(text, offset);
        ConfigError::Invalid {
            file: file.to_path_buf(),
            line,
            key: check::key_at(text, line),
            message: error.message().trim().to_owned(),
        }
    })?;
    check::check(&config).map_err(|fault| ConfigError::Invalid {
        file: file.to_path_buf(),
        line: check::line_of(text, &fault.path),
        key: fault.path.join("."),
        message: fault.message,
    })?;
    Ok(config)
}

#[cfg(test)]
#[path = "config_tests.rs"]
mod tests;
