//! Providers as the configuration and the client's environment have them.

use crate::config::{self, KeySource, LiveConfig};
use crate::effects::Providers;
use crate::model::{CallFailure, Listings, Provider, is_secret_name};
use crate::ports::{BoxFuture, LearnedLimits, ModelLists};
use agentd_core::event::FailureClass;
use agentd_core::model::listing::Described;
use std::collections::BTreeMap;
use std::sync::Arc;

/// A shorter header value is a word, and would be removed from every text that holds it.
const HEADER_SECRET_MIN_BYTES: usize = 8;

/// The providers of the configuration in use.
pub(super) struct ConfiguredProviders {
    config: Arc<LiveConfig>,
}

impl ConfiguredProviders {
    pub(super) fn new(config: Arc<LiveConfig>) -> Self {
        Self { config }
    }
}

impl Providers for ConfiguredProviders {
    fn find(&self, name: &str, env: &BTreeMap<String, String>) -> Result<Provider, CallFailure> {
        let config = self.config.current();
        let settings = config::provider(&config, name).ok_or_else(|| {
            let message =
                format!("provider {name} is not configured any more; add [providers.{name}] to config.toml");
            CallFailure::new(FailureClass::BadRequest, message)
        })?;
        if settings.is_demo() {
            return Ok(Provider::demo());
        }
        let source = config::key_for(env, &settings)
            .map_err(|error| CallFailure::new(FailureClass::Credentials, error.to_string()))?;
        let (key, base_url) = match source {
            KeySource::Key { key, base_url } => (Some(key), base_url),
            KeySource::Open { base_url } => (None, base_url),
            KeySource::Command { .. } => {
                let message = format!(
                    "providers.{name}.api_key_command is not built in version {}; set {} in the terminal that sends \
                     the prompt",
                    env!("CARGO_PKG_VERSION"),
                    settings.api_key_env.as_deref().unwrap_or("api_key_env")
                );
                return Err(CallFailure::new(FailureClass::Credentials, message));
            }
        };
        Ok(Provider {
            name: settings.name,
            dialect: settings.dialect,
            base_url,
            key,
            version: settings.version,
            headers: settings.headers,
            ca_file: settings.ca_file,
            first_byte_timeout: settings.first_byte_timeout,
            idle_timeout: settings.idle_timeout,
        })
    }

    fn secrets(&self, env: &BTreeMap<String, String>) -> Vec<(String, String)> {
        let config = self.config.current();
        let headers = config.providers.values().flat_map(|provider| &provider.headers);
        let of_headers = headers
            .filter(|(name, value)| is_secret_name(name) && value.len() >= HEADER_SECRET_MIN_BYTES)
            .map(|(name, value)| (name.clone(), value.trim_start_matches("Bearer ").to_owned()));
        config::secrets_in(env).into_iter().chain(of_headers).collect()
    }
}

/// The lists of the providers' servers.
pub(super) struct ProviderLists {
    providers: ConfiguredProviders,
    listings: Arc<Listings>,
}

impl ProviderLists {
    pub(super) fn new(config: Arc<LiveConfig>, listings: Arc<Listings>) -> Self {
        Self { providers: ConfiguredProviders::new(config), listings }
    }
}

impl ModelLists for ProviderLists {
    fn learned(&self, provider: &str, model: &str, env: &BTreeMap<String, String>) -> LearnedLimits {
        let found = self.providers.find(provider, env);
        found.map(|provider| self.listings.learned_limits(&provider, model)).unwrap_or_default()
    }

    fn described<'a>(
        &'a self,
        provider: &'a str,
        model: &'a str,
        env: &'a BTreeMap<String, String>,
    ) -> BoxFuture<'a, Option<Described>> {
        Box::pin(async move {
            // Without a key the session begins all the same and its first call says what is missing.
            let provider = self.providers.find(provider, env).ok()?;
            self.listings.described(&provider, model).await
        })
    }

    fn listed<'a>(
        &'a self,
        provider: &'a str,
        env: &'a BTreeMap<String, String>,
    ) -> BoxFuture<'a, Result<Vec<(String, Described)>, String>> {
        Box::pin(async move {
            let provider = self.providers.find(provider, env).map_err(|failure| failure.message)?;
            self.listings.listed(&provider).await
        })
    }
}
