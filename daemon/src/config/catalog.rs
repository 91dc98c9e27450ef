//! From `provider/model` to all that is needed to speak to it.
//!
//! Each figure comes from the first who says it: the person (`config.toml`), the built-in table of models, the
//! model's server, the table's family of later models. A model that nobody knows gets figures that are safe rather
//! than large. A limit that a server named when it refused a request bounds all but the person's.

use super::chat_servers;
use super::check::context_of;
use super::keys::{KeySource, key_for};
use super::known_models::{self, KnownModel, ListPrice};
use super::schema::{Config, ContextSection, ModelSection, PriceSection, Protocol, ProviderSection, micro};
use agentd_core::event::{ChatForm, Dialect, ModelProfile, Price, ThinkingForm};
use agentd_core::limits;
use agentd_core::model::listing::Described;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

/// The names that need no configuration.
pub(super) const BUILT_IN: &[&str] = &["anthropic", "openai", "demo"];

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

/// Who said how large a model's window is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// The person.
    Config,
    /// The built-in table.
    BuiltIn,
    /// The model's server.
    Listed,
    /// The table, of the models next to it.
    Family,
    /// Nobody: the figures are safe ones.
    Guess,
}

impl Origin {
    /// In one word, for lists.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Config => "config",
            Self::BuiltIn => "built-in",
            Self::Listed => "listed",
            Self::Family => "assumed",
            Self::Guess => "guess",
        }
    }
}

/// What was heard of a model while the daemon ran.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Heard {
    /// What its server says of it.
    pub described: Option<Described>,
    /// The window that its server named when it refused a longer request.
    pub learned_window: Option<u64>,
    /// The longest answer that it named when it refused to write a longer one.
    pub learned_output: Option<u32>,
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
    /// Who said how large its window is.
    pub origin: Origin,
    /// Its server may know what the table does not.
    pub worth_asking: bool,
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

/// Resolves a model: the named one, else the configured one. The environment is that of the client: it may say
/// where the provider is.
pub fn resolve(
    config: &Config,
    named: Option<&str>,
    env: &BTreeMap<String, String>,
) -> Result<ResolvedModel, CatalogError> {
    resolve_heard(config, named, env, &Heard::default())
}

/// Resolves a model with what was heard of it.
pub fn resolve_heard(
    config: &Config,
    named: Option<&str>,
    env: &BTreeMap<String, String>,
    heard: &Heard,
) -> Result<ResolvedModel, CatalogError> {
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
    let base_url = match key_for(env, &provider) {
        Ok(
            KeySource::Key { base_url, .. }
            | KeySource::Command { base_url, .. }
            | KeySource::Open { base_url },
        ) => base_url,
        Err(_) => provider.base_url.clone(),
    };
    let own = config.models.get(name).cloned().unwrap_or_default();
    let words = Words {
        own: &own,
        exact: known_models::of_model(provider_name, model),
        heard,
        family: known_models::of_family(provider_name, model),
    };
    let (window, origin) = words.window();
    let profile = words.profile(&provider, model, (window, origin), &base_url);
    let unsaid = matches!(origin, Origin::Family | Origin::Guess);
    Ok(ResolvedModel {
        name: name.to_owned(),
        profile,
        worth_asking: unsaid && !provider.is_demo() && chat_servers::describes(&base_url, provider_name),
        provider,
        // The file was checked when it was read.
        context: context_of(config, name).unwrap_or_else(|_| config.context.clone()),
        origin,
    })
}

/// All who have something to say about a model, in the order in which they are believed.
struct Words<'a> {
    own: &'a ModelSection,
    exact: Option<&'a KnownModel>,
    heard: &'a Heard,
    family: Option<&'a KnownModel>,
}

impl Words<'_> {
    fn described(&self) -> Described {
        self.heard.described.unwrap_or_default()
    }

    fn window(&self) -> (u64, Origin) {
        if let Some(window) = self.own.context_window {
            return (window, Origin::Config);
        }
        let said = self
            .exact
            .map(|row| (row.context_window, Origin::BuiltIn))
            .or_else(|| Some((self.described().context_window?, Origin::Listed)));
        let learned = self.heard.learned_window;
        if let Some((window, origin)) = said {
            return (learned.map_or(window, |learned| window.min(learned)), origin);
        }
        match (learned, self.family) {
            (Some(learned), _) => (learned, Origin::Listed),
            (None, Some(row)) => (row.context_window, Origin::Family),
            (None, None) => (limits::UNKNOWN_CONTEXT_WINDOW, Origin::Guess),
        }
    }

    fn output(&self, window: u64) -> u32 {
        if let Some(tokens) = self.own.max_output_tokens {
            return tokens;
        }
        // An answer never takes more than a quarter of the window without being told to.
        let quarter = u32::try_from(window / 4).unwrap_or(u32::MAX).max(1);
        let row = |row: &KnownModel| row.max_output_tokens;
        let learned = self.heard.learned_output;
        self.exact
            .map(row)
            .or(self.described().max_output_tokens)
            .or(self.family.map(row))
            .unwrap_or(limits::UNKNOWN_MAX_OUTPUT_TOKENS)
            .min(quarter)
            .min(learned.unwrap_or(u32::MAX))
    }

    fn thinking(&self, dialect: Dialect) -> ThinkingForm {
        let of_server = match (dialect, self.described().adaptive_thinking) {
            (Dialect::Anthropic, Some(true)) => Some(ThinkingForm::Adaptive),
            _ => None,
        };
        self.own
            .thinking
            .or(self.exact.map(|row| row.thinking))
            .or(of_server)
            .or(self.family.map(|row| row.thinking))
            .unwrap_or(ThinkingForm::Omit)
    }

    fn price(&self) -> Option<Price> {
        self.own
            .price
            .map(price_of_section)
            .or_else(|| self.exact.and_then(|row| row.price).map(price_of_list))
            .or(self.described().price)
    }

    fn chat(&self, provider: &ProviderSettings, model: &str, base_url: &str) -> ChatForm {
        if provider.dialect != Dialect::OpenAiChat {
            return ChatForm::default();
        }
        let mut form = chat_servers::form_of(base_url, &provider.name, model);
        if let Some(field) = self.own.max_tokens_field {
            form.max_tokens_field = field;
        }
        if let Some(reasoning) = self.own.reasoning {
            form.reasoning = reasoning;
        }
        if let Some(asks) = self.own.stream_options {
            form.stream_options = asks;
        }
        if let Some(ids) = self.own.call_ids {
            form.call_ids = ids;
        }
        for (own, of_form) in [
            (self.own.empty_content, &mut form.empty_content),
            (self.own.stand_in_signature, &mut form.stand_in_signature),
            (self.own.reasoning_with_calls, &mut form.reasoning_with_calls),
        ] {
            *of_form = own.unwrap_or(*of_form);
        }
        form
    }

    fn profile(
        &self,
        provider: &ProviderSettings,
        model: &str,
        window: (u64, Origin),
        base_url: &str,
    ) -> ModelProfile {
        let (context_window, origin) = window;
        let price = self.price();
        let parallel = self.exact.or(self.family).is_none_or(|row| row.parallel_tool_calls);
        ModelProfile {
            provider: provider.name.clone(),
            model: model.to_owned(),
            dialect: provider.dialect,
            context_window,
            max_output_tokens: self.output(context_window),
            thinking: self.thinking(provider.dialect),
            parallel_tool_calls: self.own.parallel_tool_calls.unwrap_or(parallel),
            // Servers that only speak the dialect ignore or refuse them; the provider itself honours them.
            cache_markers: provider.dialect == Dialect::Anthropic && provider.name == "anthropic",
            price: price.unwrap_or_default(),
            price_unknown: price.is_none(),
            chat: self.chat(provider, model, base_url),
            window_is_guess: matches!(origin, Origin::Family | Origin::Guess),
        }
    }
}

fn price_of_list(price: ListPrice) -> Price {
    let ListPrice { input, output, cache_read, cache_write, source: _ } = price;
    price_of_section(PriceSection { input, output, cache_read, cache_write })
}

fn price_of_section(price: PriceSection) -> Price {
    Price {
        input: micro(price.input),
        output: micro(price.output),
        cache_read: micro(price.cache_read),
        cache_write: micro(price.cache_write),
    }
}

/// Every model that has a name here: the configured ones first, then the table's, each once.
pub fn named_models(config: &Config) -> Vec<String> {
    let of_person = config.model.iter().chain(config.models.keys()).cloned();
    let of_table = known_models::known_models()
        .iter()
        .filter(|row| !row.family)
        .map(|row| format!("{}/{}", row.provider, row.id));
    let mut names: Vec<String> = Vec::new();
    for name in of_person.chain(of_table) {
        if !names.contains(&name) {
            names.push(name);
        }
    }
    names
}

/// The providers that there are, the built-in ones first.
pub fn provider_names(config: &Config) -> Vec<String> {
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
