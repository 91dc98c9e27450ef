//! What the caller says about a provider.

use crate::config::{Secret, is_credential_header};
use agentd_core::event::Dialect;
use agentd_core::limits::{FIRST_BYTE_TIMEOUT_S, IDLE_TIMEOUT_S};
use reqwest::Url;
use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

/// One provider, as configured, with the key of the session that calls.
#[derive(Clone)]
pub struct Provider {
    /// Its name in the configuration.
    pub name: String,
    /// How it is spoken to.
    pub dialect: Dialect,
    /// Where it is, as `https://api.anthropic.com`; a slash or `/v1` at the end is tolerated.
    pub base_url: String,
    /// The key, if there is one.
    pub key: Option<Secret>,
    /// The API version to ask for; the newest for Anthropic itself, else the one that everybody knows.
    pub version: Option<String>,
    /// More headers; an `authorization` or `x-api-key` among them stands for the key.
    pub headers: BTreeMap<String, String>,
    /// A file of certificates to trust beside the system's.
    pub ca_file: Option<PathBuf>,
    /// Wait for the first byte of an answer, connecting included.
    pub first_byte_timeout: Duration,
    /// Silence within an answer; any byte is life, pings and comments too.
    pub idle_timeout: Duration,
}

/// Without the key and the values of headers, which may be keys.
impl fmt::Debug for Provider {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let headers: Vec<&str> = self.headers.keys().map(String::as_str).collect();
        f.debug_struct("Provider")
            .field("place", &self.place())
            .field("dialect", &self.dialect)
            .field("headers", &headers)
            .finish_non_exhaustive()
    }
}

/// The base URL that stands for the scripted model in this process.
pub(super) const DEMO_URL: &str = "demo:tour";
const ANTHROPIC_HOST: &str = "api.anthropic.com";
const OPENAI_HOST: &str = "api.openai.com";
const NEWEST_VERSION: &str = "2026-10-21";
const COMMON_VERSION: &str = "2023-06-01";

impl Provider {
    /// A provider with the default deadlines and nothing else set.
    pub fn new(name: &str, dialect: Dialect, base_url: &str, key: Option<Secret>) -> Self {
        Self {
            name: name.to_owned(),
            dialect,
            base_url: base_url.to_owned(),
            key,
            version: None,
            headers: BTreeMap::new(),
            ca_file: None,
            first_byte_timeout: Duration::from_secs(u64::from(FIRST_BYTE_TIMEOUT_S)),
            idle_timeout: Duration::from_secs(u64::from(IDLE_TIMEOUT_S)),
        }
    }

    /// The same of the Anthropic dialect.
    pub fn anthropic(name: &str, base_url: &str, key: Option<Secret>) -> Self {
        Self::new(name, Dialect::Anthropic, base_url, key)
    }

    /// The provider of `demo/tour`: a script in this process, without key and network.
    pub fn demo() -> Self {
        Self::new("demo", Dialect::Anthropic, DEMO_URL, None)
    }

    pub(super) fn is_demo(&self) -> bool {
        self.base_url == DEMO_URL
    }

    /// Whether something in it stands for a key.
    pub(super) fn has_credentials(&self) -> bool {
        self.key.as_ref().is_some_and(|key| !key.expose().is_empty())
            || self.headers.keys().any(|name| is_credential_header(name))
    }

    /// Whether it is known to answer nobody without a key.
    pub(super) fn needs_key(&self, url: &Url) -> bool {
        matches!(url.host_str(), Some(ANTHROPIC_HOST | OPENAI_HOST))
    }

    pub(super) fn version_for(&self, url: &Url) -> &str {
        match &self.version {
            Some(version) => version,
            None if url.host_str() == Some(ANTHROPIC_HOST) => NEWEST_VERSION,
            None => COMMON_VERSION,
        }
    }

    /// Where requests are posted; the error says what is wrong with the base URL. Anthropic's convention is a base
    /// without `/v1`, OpenAI's one with it or with whatever stands there at that server; each is forgiven the
    /// other's form, and a base that is the whole address.
    pub(super) fn endpoint(&self) -> Result<Url, String> {
        let mut url = Url::parse(&self.base_url).map_err(|error| error.to_string())?;
        if !matches!(url.scheme(), "http" | "https") || url.host_str().is_none() {
            return Err("it must begin with http:// or https:// and name a host".to_owned());
        }
        let path = url.path().trim_end_matches('/');
        let path = match self.dialect {
            Dialect::Anthropic => {
                let path = path.strip_suffix("/messages").unwrap_or(path);
                let path = path.strip_suffix("/v1").unwrap_or(path);
                format!("{path}/v1/messages")
            }
            Dialect::OpenAiChat | Dialect::OpenAiResponses => {
                let last =
                    if self.dialect == Dialect::OpenAiChat { "/chat/completions" } else { "/responses" };
                let path = path.strip_suffix(last).unwrap_or(path);
                format!("{}{last}", if path.is_empty() { "/v1" } else { path })
            }
        };
        url.set_path(&path);
        Ok(url)
    }

    /// The provider for messages to people: its name and the host, without user, path and key.
    pub(super) fn place(&self) -> String {
        let host = Url::parse(&self.base_url).ok().and_then(|url| host_and_port(&url));
        host.map_or_else(|| self.name.clone(), |host| format!("{} ({host})", self.name))
    }

    /// A text in which the key does not appear: servers like to repeat what they refused.
    pub(super) fn without_key(&self, text: &str) -> String {
        let values = self
            .headers
            .iter()
            .filter(|(name, _)| is_secret_name(name))
            .map(|(_, value)| value.strip_prefix("Bearer ").unwrap_or(value));
        let keys = self.key.iter().map(Secret::expose).chain(values);
        let url = Url::parse(&self.base_url).ok();
        let password = url.as_ref().and_then(Url::password);
        let keys = keys.chain(password);
        keys.filter(|key| !key.is_empty()).fold(text.to_owned(), |text, key| text.replace(key, "[key]"))
    }
}

/// Whether the value under this name may be a secret: it appears in no text, record or log.
pub fn is_secret_name(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    ["key", "token", "secret", "cookie", "auth", "session", "pass", "cred"]
        .iter()
        .any(|word| name.contains(word))
}

fn host_and_port(url: &Url) -> Option<String> {
    let host = url.host_str()?;
    Some(url.port().map_or_else(|| host.to_owned(), |port| format!("{host}:{port}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base_urls_are_taken_in_every_usual_form() {
        for base in [
            "https://h.example",
            "https://h.example/",
            "https://h.example/v1",
            "https://h.example/v1/",
            "https://h.example/v1/messages",
        ] {
            let url = Provider::new("a", Dialect::Anthropic, base, None).endpoint().unwrap();
            assert_eq!(url.as_str(), "https://h.example/v1/messages", "{base}");
        }
        let url = Provider::new("a", Dialect::Anthropic, "http://127.0.0.1:8080/api/anthropic/", None)
            .endpoint()
            .unwrap();
        assert_eq!(url.as_str(), "http://127.0.0.1:8080/api/anthropic/v1/messages");
        for base in ["", "h.example", "file:///etc/passwd", "http://"] {
            assert!(Provider::new("a", Dialect::Anthropic, base, None).endpoint().is_err(), "{base}");
        }
    }

    #[test]
    fn chat_completions_are_found_below_every_usual_base() {
        for (base, endpoint) in [
            ("http://h.example:8080", "http://h.example:8080/v1/chat/completions"),
            ("https://h.example/v1", "https://h.example/v1/chat/completions"),
            ("https://h.example/v1/", "https://h.example/v1/chat/completions"),
            ("https://h.example/v1/chat/completions", "https://h.example/v1/chat/completions"),
            ("https://h.example/v1beta/openai/", "https://h.example/v1beta/openai/chat/completions"),
            ("https://h.example/api/v1", "https://h.example/api/v1/chat/completions"),
        ] {
            let provider = Provider::new("o", Dialect::OpenAiChat, base, None);
            assert_eq!(provider.endpoint().unwrap().as_str(), endpoint, "{base}");
        }
    }

    #[test]
    fn a_key_appears_nowhere() {
        let provider = Provider::new(
            "a",
            Dialect::Anthropic,
            "https://user:pw@h.example:444/x",
            Some(Secret::new(" sk-abc\n")),
        );
        assert!(!format!("{provider:?}").contains("sk-abc"));
        assert_eq!(provider.place(), "a (h.example:444)");
        assert_eq!(provider.without_key("bad key sk-abc!"), "bad key [key]!");
        assert_eq!(provider.key.unwrap().expose(), "sk-abc");
        let mut azure = Provider::anthropic("a", "https://h.example", None);
        azure.headers.insert("api-key".to_owned(), "az-123".to_owned());
        assert!(!format!("{azure:?}").contains("az-123"));
        assert_eq!(
            (azure.without_key("bad az-123!"), azure.has_credentials()),
            ("bad [key]!".to_owned(), true)
        );
    }

    #[test]
    fn the_version_follows_the_host() {
        let at = |base: &str| {
            let provider = Provider::new("a", Dialect::Anthropic, base, None);
            provider.version_for(&provider.endpoint().unwrap()).to_owned()
        };
        assert_eq!(at("https://api.anthropic.com"), "2026-10-21");
        assert_eq!(at("https://gateway.example"), "2023-06-01");
    }
}
