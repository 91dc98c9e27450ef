//! From `provider/model` to all that is needed to speak to it.
//!
//! What is built in is a small table with a date; what a person configures goes before it; a model that nobody
//! knows gets figures that are safe rather than large.

use super::check::context_of;
use super::schema::{Config, ContextSection, ModelSection, PriceSection, Protocol, ProviderSection, micro};
use agentd_core::event::{ChatForm, Dialect, ModelProfile, Price, ThinkingForm};
use agentd_core::limits;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

/// The names that need no configuration.
pub(super) const BUILT_IN: &[&str] = &["anthropic", "openai", "demo"];

/// A model of the table.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct KnownModel {
    /// The provider.
    pub provider: &'static str,
    /// What the model's name begins with; the longest beginning counts.
    pub prefix: &'static str,
    /// Tokens of prompt and answer together.
    pub context_window: u64,
    /// Tokens of one answer.
    pub max_output_tokens: u32,
    /// How thinking is asked for.
    pub thinking: ThinkingForm,
    /// Dollars per million tokens: prompt and answer.
    pub price_in_out: (f64, f64),
    /// The price of cached tokens as a part of the prompt's: read and written.
    pub cache_read_write: (f64, f64),
}

/// State of the table: 2026-11-30. Prices of models without a published figure at hand are 0, which is shown
/// as unknown and not as free; windows are what every tier of the model has.
const KNOWN: &[KnownModel] = &[
    claude("claude-opus-5", ThinkingForm::Adaptive, (5.0, 25.0), 0.1),
    claude("claude-fable-5-1", ThinkingForm::Adaptive, (10.0, 50.0), 0.025),
    claude("claude-fable-5-2", ThinkingForm::Adaptive, (8.0, 40.0), 0.025),
    claude("claude-fable-5", ThinkingForm::Adaptive, (0.0, 0.0), 0.1),
    claude("claude-mythos-5", ThinkingForm::Adaptive, (0.0, 0.0), 0.1),
    claude("claude-sonnet-5", ThinkingForm::Adaptive, (0.0, 0.0), 0.1),
    claude("claude-haiku-5", ThinkingForm::Adaptive, (0.0, 0.0), 0.1),
    claude("claude-opus-4", ThinkingForm::Omit, (5.0, 25.0), 0.1),
    claude("claude-opus-4-6", ThinkingForm::Adaptive, (5.0, 25.0), 0.1),
    claude("claude-opus-4-7", ThinkingForm::Adaptive, (5.0, 25.0), 0.1),
    claude("claude-opus-4-8", ThinkingForm::Adaptive, (5.0, 25.0), 0.1),
    claude("claude-sonnet-4", ThinkingForm::Omit, (3.0, 15.0), 0.1),
    claude("claude-sonnet-4-6", ThinkingForm::Adaptive, (3.0, 15.0), 0.1),
    claude("claude-haiku-4-5", ThinkingForm::Omit, (1.0, 5.0), 0.1),
    KnownModel {
        provider: "demo",
        prefix: "tour",
        context_window: 200_000,
        max_output_tokens: 8_192,
        thinking: ThinkingForm::Omit,
        price_in_out: (0.0, 0.0),
        cache_read_write: (0.0, 0.0),
    },
];

const fn claude(
    prefix: &'static str,
    thinking: ThinkingForm,
    price_in_out: (f64, f64),
    cache_read: f64,
) -> KnownModel {
    KnownModel {
        provider: "anthropic",
        prefix,
        context_window: 200_000,
        max_output_tokens: 32_000,
        thinking,
        price_in_out,
        cache_read_write: (cache_read, 1.25),
    }
}

/// The built-in table, for lists.
pub const fn known_models() -> &'static [KnownModel] {
    KNOWN
}

/// A provider as it is spoken to, without its key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProviderSettings {
    /// Its name.
    pub name: String,
    /// How it is spoken to.
    pub dialect: Dialect,
    /// Where it is; empty for the scripted model inside the daemon.
    pub base_url: String,
    /// The variable that may replace `base_url`, together with a key from the same environment.
    pub base_url_env: Option<String>,
    /// The variable that holds its key.
    pub api_key_env: Option<String>,
    /// A command that prints its key.
    pub api_key_command: Option<Vec<String>>,
    /// Whether it answers nobody without a key.
    pub needs_key: bool,
    /// The `anthropic-version` to ask for.
    pub version: Option<String>,
    /// More headers.
    pub headers: BTreeMap<String, String>,
    /// Certificates to trust beside the system's.
    pub ca_file: Option<PathBuf>,
    /// Wait for the first byte of an answer.
    pub first_byte_timeout: Duration,
    /// Silence within an answer.
    pub idle_timeout: Duration,
}

impl ProviderSettings {
    /// Whether it is the scripted model inside the daemon.
    pub fn is_demo(&self) -> bool {
        self.name == "demo" && self.base_url.is_empty()
    }
}

/// A model and its provider, resolved.
#[derive(Clone, Debug, PartialEq)]
pub struct ResolvedModel {
    /// `provider/model`.
    pub name: String,
    /// What request building needs; frozen into the epoch.
    pub profile: ModelProfile,
    /// What speaking to it needs, but for the key.
    pub provider: ProviderSettings,
    /// Its context budget.
    pub context: ContextSection,
    /// Whether the figures are known, or only safe.
    pub known: bool,
}

/// Why a model cannot be resolved.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CatalogError {
    /// Nothing names a model.
    #[error(
        "no model is named: pass --model provider/model, or set `model` in config.toml; `--model demo/tour` needs no key"
    )]
    NoModel,
    /// The name has another form.
    #[error("{0:?} is not of the form provider/model, as anthropic/claude-sonnet-5-5")]
    Malformed(String),
    /// No such provider.
    #[error(
        "provider {provider:?} of model {name:?} is not known; known are {known}; add [providers.{provider}] to config.toml"
    )]
    UnknownProvider {
        /// What was asked for.
        name: String,
        /// The provider in it.
        provider: String,
        /// What there is.
        known: String,
    },
}

/// Takes `provider/model` apart at its first slash; model names may have more of them.
pub(super) fn split_name(name: &str) -> Option<(&str, &str)> {
    name.split_once('/').filter(|(provider, model)| !provider.is_empty() && !model.is_empty())
}

/// Resolves a model: the named one, else the configured one.
pub fn resolve(config: &Config, named: Option<&str>) -> Result<ResolvedModel, CatalogError> {
    let name = named
        .map(str::trim)
        .filter(|name| !name.is_empty())
        .or(config.model.as_deref())
        .ok_or(CatalogError::NoModel)?;
    let (provider_name, model) = split_name(name).ok_or_else(|| CatalogError::Malformed(name.to_owned()))?;
    let provider = provider(config, provider_name).ok_or_else(|| CatalogError::UnknownProvider {
        name: name.to_owned(),
        provider: provider_name.to_owned(),
        known: provider_names(config).join(", "),
    })?;
    let known = KNOWN
        .iter()
        .filter(|known| known.provider == provider_name && model.starts_with(known.prefix))
        .max_by_key(|known| known.prefix.len());
    let own = config.models.get(name).cloned().unwrap_or_default();
    let profile = profile(&provider, model, known, &own);
    Ok(ResolvedModel {
        name: name.to_owned(),
        profile,
        provider,
        // The file was checked when it was read.
        context: context_of(config, name).unwrap_or_else(|_| config.context.clone()),
        known: known.is_some() || own.context_window.is_some(),
    })
}

fn profile(
    provider: &ProviderSettings,
    model: &str,
    known: Option<&KnownModel>,
    own: &ModelSection,
) -> ModelProfile {
    let context_window = own
        .context_window
        .or_else(|| known.map(|known| known.context_window))
        .unwrap_or(limits::UNKNOWN_CONTEXT_WINDOW);
    // An answer never takes more than a quarter of a window that somebody set by hand.
    let quarter = u32::try_from(context_window / 4).unwrap_or(u32::MAX).max(1);
    let max_output_tokens = own
        .max_output_tokens
        .or_else(|| known.map(|known| known.max_output_tokens))
        .unwrap_or(limits::UNKNOWN_MAX_OUTPUT_TOKENS)
        .min(if own.max_output_tokens.is_some() { u32::MAX } else { quarter });
    ModelProfile {
        provider: provider.name.clone(),
        model: model.to_owned(),
        dialect: provider.dialect,
        context_window,
        max_output_tokens,
        thinking: known.map_or(ThinkingForm::Omit, |known| known.thinking),
        parallel_tool_calls: own.parallel_tool_calls.unwrap_or(true),
        // Servers that only speak the dialect ignore or refuse them; the provider itself honours them.
        cache_markers: provider.dialect == Dialect::Anthropic && provider.name == "anthropic",
        price: own.price.map_or_else(|| known.map_or_else(Price::default, price_of_known), price_of_section),
        chat: ChatForm::default(),
        window_is_guess: own.context_window.is_none() && known.is_none(),
    }
}

fn price_of_known(known: &KnownModel) -> Price {
    let (input, output) = known.price_in_out;
    let (read, write) = known.cache_read_write;
    price_of_section(PriceSection { input, output, cache_read: input * read, cache_write: input * write })
}

fn price_of_section(price: PriceSection) -> Price {
    Price {
        input: micro(price.input),
        output: micro(price.output),
        cache_read: micro(price.cache_read),
        cache_write: micro(price.cache_write),
    }
}

fn provider_names(config: &Config) -> Vec<String> {
    let mut names: Vec<String> = BUILT_IN.iter().map(|name| (*name).to_owned()).collect();
    names.extend(config.providers.keys().filter(|name| !BUILT_IN.contains(&name.as_str())).cloned());
    names
}

/// The provider of this name, configured or built in.
pub fn provider(config: &Config, name: &str) -> Option<ProviderSettings> {
    let section = config.providers.get(name);
    let mut settings = match (name, section) {
        ("anthropic", _) => built_in(name, Dialect::Anthropic, "https://api.anthropic.com", "ANTHROPIC"),
        ("openai", _) => built_in(name, Dialect::OpenAiChat, "https://api.openai.com/v1", "OPENAI"),
        ("demo", _) => ProviderSettings {
            base_url_env: None,
            api_key_env: None,
            needs_key: false,
            ..built_in(name, Dialect::Anthropic, "", "")
        },
        (_, Some(_)) => ProviderSettings {
            base_url_env: None,
            api_key_env: None,
            needs_key: false,
            ..built_in(name, Dialect::Anthropic, "", "")
        },
        (_, None) => return None,
    };
    if let Some(section) = section {
        apply(&mut settings, section);
    }
    Some(settings)
}

fn built_in(name: &str, dialect: Dialect, base_url: &str, prefix: &str) -> ProviderSettings {
    ProviderSettings {
        name: name.to_owned(),
        dialect,
        base_url: base_url.to_owned(),
        base_url_env: Some(format!("{prefix}_BASE_URL")),
        api_key_env: Some(format!("{prefix}_API_KEY")),
        api_key_command: None,
        needs_key: true,
        version: None,
        headers: BTreeMap::new(),
        ca_file: None,
        first_byte_timeout: Duration::from_secs(u64::from(limits::FIRST_BYTE_TIMEOUT_S)),
        idle_timeout: Duration::from_secs(u64::from(limits::IDLE_TIMEOUT_S)),
    }
}

fn apply(settings: &mut ProviderSettings, section: &ProviderSection) {
    if let Some(protocol) = section.protocol {
        settings.dialect = Protocol::dialect(protocol);
    }
    if let Some(url) = &section.base_url {
        settings.base_url.clone_from(url);
        // A server of one's own decides itself whether it wants a key.
        settings.needs_key = false;
    }
    if section.api_key_env.is_some() {
        settings.api_key_env.clone_from(&section.api_key_env);
        settings.needs_key = true;
    }
    if section.api_key_command.is_some() {
        settings.api_key_command.clone_from(&section.api_key_command);
        settings.needs_key = true;
    }
    settings.version.clone_from(&section.version);
    settings.headers.clone_from(&section.headers);
    settings.ca_file = (!section.ca_file.is_empty()).then(|| PathBuf::from(&section.ca_file));
    if let Some(seconds) = section.first_byte_timeout_s {
        settings.first_byte_timeout = Duration::from_secs(u64::from(seconds));
    }
    if let Some(seconds) = section.idle_timeout_s {
        settings.idle_timeout = Duration::from_secs(u64::from(seconds));
    }
}
