//! Where a provider's key comes from: the environment of the session's client, or a header of the configuration that
//! stands for one.
//!
//! Invariants: environments are held in memory only and die with the daemon; a key is never in a `Debug`, an
//! error or a log; an address from a client's environment is used only together with a key from the same
//! environment, so that a key never goes to a server that the key's owner did not name.
//!
//! Deliberately absent so far: running `api_key_command` (it is read, and refused where it would be needed) and logins.

use super::catalog::ProviderSettings;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

/// A key. Its `Debug` says only that it is there.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(Arc<str>);

impl Secret {
    /// Takes a key; white space around it, as files and commands leave it, is not part of it.
    pub fn new(text: &str) -> Self {
        Self(text.trim().into())
    }
    /// The key itself: for the wire and for redaction, nowhere else.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(..)")
    }
}

/// Why there is no key.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KeyError {
    /// Nobody has one.
    #[error("no key for provider {provider}: {remedy}")]
    Missing {
        /// The provider.
        provider: String,
        /// What to do.
        remedy: String,
    },
}

/// Where to speak to, and with what.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeySource {
    /// A key is at hand.
    Key {
        /// The key.
        key: Secret,
        /// Where it goes.
        base_url: String,
    },
    /// This command prints it; it is run as a tied process, by whoever may start one.
    Command {
        /// The program and its arguments.
        command: Vec<String>,
        /// Where it goes.
        base_url: String,
    },
    /// None is needed.
    Open {
        /// Where to speak to.
        base_url: String,
    },
}

/// Where the model calls of a client with this environment go, and with what key.
pub fn key_for(env: &BTreeMap<String, String>, provider: &ProviderSettings) -> Result<KeySource, KeyError> {
    let value = |name: &str| env.get(name).map(String::as_str).filter(|value| !value.trim().is_empty());
    let own_url = provider.base_url.clone();
    if let Some(key) = provider.api_key_env.as_deref().and_then(value) {
        let from_env = provider.base_url_env.as_deref().and_then(value);
        return Ok(KeySource::Key {
            key: Secret::new(key),
            base_url: from_env.map_or(own_url, |url| url.trim().to_owned()),
        });
    }
    // A header that stands for the key is one.
    if provider.headers.keys().any(|name| is_credential_header(name)) {
        return Ok(KeySource::Open { base_url: own_url });
    }
    if let Some(command) = &provider.api_key_command {
        return Ok(KeySource::Command { command: command.clone(), base_url: own_url });
    }
    if !provider.needs_key {
        return Ok(KeySource::Open { base_url: own_url });
    }
    let name = &provider.name;
    let remedy = match &provider.api_key_env {
        Some(variable) if !is_sent(variable) => format!(
            "terminals send only variables that end in _KEY (without SECRET, ACCESS or PRIVATE in their names), so not \
             {variable}: export the key under such a name and put that into api_key_env of [providers.{name}]"
        ),
        Some(variable) => format!("set {variable} in the terminal that sends the prompt"),
        None => format!("set api_key_env in [providers.{name}] of config.toml"),
    };
    Err(KeyError::Missing { provider: name.clone(), remedy })
}

/// Whether a header stands for the key: no other is sent beside it.
pub fn is_credential_header(name: &str) -> bool {
    ["authorization", "x-api-key", "api-key", "x-goog-api-key"]
        .iter()
        .any(|known| name.eq_ignore_ascii_case(known))
}

/// Every value of a client's environment that is named like a key, for redaction.
pub fn secrets_in(env: &BTreeMap<String, String>) -> Vec<(String, String)> {
    let named = env.iter().filter(|(name, value)| is_key_name(name) && !value.trim().is_empty());
    named.map(|(name, value)| (name.clone(), value.trim().to_owned())).collect()
}

/// Whether a client's terminal sends a variable of this name; the other side of it is `connect/env.rs` of the client.
fn is_sent(name: &str) -> bool {
    name.ends_with("_API_KEY")
        || name.ends_with("_KEY") && !["SECRET", "ACCESS", "PRIVATE"].iter().any(|word| name.contains(word))
}

fn is_key_name(name: &str) -> bool {
    name.ends_with("_KEY") || name.ends_with("_TOKEN") || name.ends_with("_SECRET")
}

#[cfg(test)]
mod tests {
    use super::super::{Config, parse, resolve};
    use super::*;
    use std::path::Path;

    fn env(vars: &[(&str, &str)]) -> BTreeMap<String, String> {
        vars.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    fn of(model: &str, config: &Config) -> ProviderSettings {
        resolve(config, Some(model), &BTreeMap::new()).unwrap().provider
    }

    #[test]
    fn an_address_comes_only_with_a_key_of_the_same_environment() {
        let provider = of("anthropic/claude-opus-5", &Config::default());
        let both = env(&[("ANTHROPIC_API_KEY", "k1\n"), ("ANTHROPIC_BASE_URL", "http://127.0.0.1:1")]);
        assert_eq!(
            key_for(&both, &provider),
            Ok(KeySource::Key { key: Secret::new("k1"), base_url: "http://127.0.0.1:1".into() })
        );
        let url_only = env(&[("ANTHROPIC_BASE_URL", "http://evil"), ("ANTHROPIC_API_KEY", " ")]);
        assert!(key_for(&url_only, &provider).is_err());
        let config = parse("[providers.anthropic]\napi_key_command = [\"pass\"]\n", Path::new("c")).unwrap();
        let provider = of("anthropic/claude-opus-5", &config);
        assert_eq!(
            key_for(&url_only, &provider),
            Ok(KeySource::Command {
                command: vec!["pass".into()],
                base_url: "https://api.anthropic.com".into()
            })
        );
    }

    #[test]
    fn local_servers_and_the_demo_need_none() {
        let config = parse(
            "[providers.local]\nprotocol = \"openai-chat\"\nbase_url = \"http://127.0.0.1:8080/v1\"\n",
            Path::new("c"),
        )
        .unwrap();
        for model in ["local/small", "demo/tour"] {
            let source = key_for(&env(&[]), &of(model, &config));
            assert!(matches!(source, Ok(KeySource::Open { .. })), "{model}: {source:?}");
        }
    }

    #[test]
    fn nothing_prints_a_key() {
        let found = key_for(&env(&[("ANTHROPIC_API_KEY", "sekrit")]), &of("anthropic/x", &Config::default()));
        assert!(!format!("{found:?}").contains("sekrit"));
        assert_eq!(secrets_in(&env(&[("X_API_KEY", "sekrit"), ("PATH", "/bin")])).len(), 1);
    }
}
