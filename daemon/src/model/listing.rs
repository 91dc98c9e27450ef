//! What servers say of their models, asked once and remembered, and what their refusals taught.
//!
//! Invariants: a look never fails a session and never holds it up longer than [`LISTING_TIMEOUT_MS`]; a good answer
//! is remembered as long as the daemon lives, a missing one for [`LISTING_RETRY_MS`]; nothing is written to disk,
//! because the next daemon may meet another server at the same address.
//!
//! Deliberately absent: whose word counts (`config`), and when anybody is asked (`api`).

use super::http::{Models, Way, headers};
use super::outcome::CallFailure;
use super::provider::Provider;
use crate::ports::LearnedLimits;
use agentd_core::event::Dialect;
use agentd_core::limits::{
    CONTEXT_WINDOW_MIN, LEARNED_OUTPUT_MIN, LISTED_WINDOW_MAX, LISTING_MAX_BYTES, LISTING_REMEMBERED_MAX,
    LISTING_RETRY_MS, LISTING_TIMEOUT_MS, PROBE_TIMEOUT_MS,
};
use agentd_core::model::listing::{self, Described};
use reqwest::Url;
use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::time::{Instant, timeout};

/// What is remembered. One for the daemon; shared.
#[derive(Debug, Default)]
pub struct Listings {
    models: Models,
    kept: Mutex<Kept>,
}

#[derive(Debug, Default)]
struct Kept {
    /// By address and model.
    heard: HashMap<(String, String), Heard>,
    /// By the provider's name and model.
    learned: HashMap<(String, String), LearnedLimits>,
}

#[derive(Clone, Copy, Debug)]
struct Heard {
    at: Instant,
    said: Option<Described>,
}

impl Heard {
    /// A server that says no window may know it later: one on this machine loads its model when it is first used.
    fn holds(&self) -> bool {
        let is_good = self.said.is_some_and(|said| said.context_window.is_some());
        is_good || self.at.elapsed() < Duration::from_millis(LISTING_RETRY_MS)
    }
}

/// Why there is no list.
#[derive(Debug, thiserror::Error)]
enum NoList {
    /// The connection cannot be set up, or there is no key.
    #[error(transparent)]
    Call(#[from] CallFailure),
    /// The address is none.
    #[error("base_url of provider {provider} cannot be used: {why}")]
    Address {
        /// The provider.
        provider: String,
        /// What is wrong.
        why: String,
    },
    /// Nothing came, or not all of it.
    #[error("{place}: {why}")]
    Broken {
        /// The provider and its host.
        place: String,
        /// What happened.
        why: String,
    },
}

impl Listings {
    /// Nothing is remembered yet. The connections are those of `models`.
    pub fn new(models: Models) -> Self {
        Self { models, kept: Mutex::default() }
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A server refused a request and named the window of its model. Later sessions begin with it. A figure that
    /// cannot be true is not remembered.
    pub fn learned(&self, provider: &Provider, model: &str, window: u64) {
        if (CONTEXT_WINDOW_MIN..=LISTED_WINDOW_MAX).contains(&window) {
            self.learn(provider, model, |limits| limits.window = Some(window));
        }
    }

    /// The same for the longest answer.
    pub fn learned_output(&self, provider: &Provider, model: &str, tokens: u32) {
        if tokens >= LEARNED_OUTPUT_MIN {
            self.learn(provider, model, |limits| limits.output = Some(tokens));
        }
    }

    fn learn(&self, provider: &Provider, model: &str, change: impl FnOnce(&mut LearnedLimits)) {
        let learned = &mut self.kept().learned;
        // By the address: another server under the same name is another server.
        let key = (provider.base_url.clone(), model.to_owned());
        if learned.len() >= LISTING_REMEMBERED_MAX && !learned.contains_key(&key) {
            learned.clear();
        }
        change(learned.entry(key).or_default());
    }

    /// What refusals named in this run of the daemon.
    pub fn learned_limits(&self, provider: &Provider, model: &str) -> LearnedLimits {
        self.kept().learned.get(&(provider.base_url.clone(), model.to_owned())).copied().unwrap_or_default()
    }

    /// What the server says of a model; from memory where it was asked before.
    pub async fn described(&self, provider: &Provider, model: &str) -> Option<Described> {
        if provider.is_demo() {
            return None;
        }
        let key = (provider.base_url.clone(), model.to_owned());
        if let Some(heard) = self.kept().heard.get(&key).filter(|heard| heard.holds()) {
            return heard.said;
        }
        let said = timeout(Duration::from_millis(LISTING_TIMEOUT_MS), self.ask(provider, model)).await;
        let said = match said {
            Ok(Ok(said)) => said,
            Ok(Err(error)) => {
                tracing::debug!(%error, model, "the model's server does not describe it");
                None
            }
            Err(_) => {
                tracing::debug!(
                    place = provider.place(),
                    model,
                    "the model's server did not describe it in time"
                );
                None
            }
        };
        let heard = &mut self.kept().heard;
        if heard.len() >= LISTING_REMEMBERED_MAX {
            heard.clear();
        }
        heard.insert(key, Heard { at: Instant::now(), said });
        said
    }

    /// Every model that the server names, asked now. The error is for people.
    pub async fn listed(&self, provider: &Provider) -> Result<Vec<(String, Described)>, String> {
        let url = models_url(provider).map_err(|error| error.to_string())?;
        match timeout(Duration::from_millis(PROBE_TIMEOUT_MS), self.get(provider, url)).await {
            Ok(Ok(body)) => listing::listed(&body).ok_or_else(|| {
                format!("{} answered with something else than a list of models", provider.place())
            }),
            Ok(Err(error)) => Err(provider.without_key(&error.to_string())),
            Err(_) => Err(format!("{} sent no list within {PROBE_TIMEOUT_MS} ms", provider.place())),
        }
    }

    /// Asks for the one model where the dialect has that, then for the list.
    async fn ask(&self, provider: &Provider, model: &str) -> Result<Option<Described>, NoList> {
        let url = models_url(provider)?;
        if provider.dialect == Dialect::Anthropic {
            let mut one = url.clone();
            one.set_query(None);
            if let Ok(mut segments) = one.path_segments_mut() {
                segments.push(model);
            }
            // Servers that only speak the dialect know the list alone, and an error says no more than that.
            if let Ok(body) = self.get(provider, one).await
                && let Some(said) = listing::described(&body, model)
            {
                return Ok(Some(said));
            }
        }
        Ok(listing::described(&self.get(provider, url).await?, model))
    }

    async fn get(&self, provider: &Provider, url: Url) -> Result<Vec<u8>, NoList> {
        let broken = |why: String| NoList::Broken { place: provider.place(), why };
        let headers = headers(provider, &url)?;
        let client = self.models.client(Way::of(&url, provider), provider).await?;
        let sent = client.get(url).headers(headers).send().await;
        let mut response = sent.map_err(|error| broken(error.without_url().to_string()))?;
        if !response.status().is_success() {
            return Err(broken(format!(
                "answered {} to the question for its models",
                response.status().as_u16()
            )));
        }
        let mut body = Vec::new();
        while let Some(chunk) =
            response.chunk().await.map_err(|error| broken(error.without_url().to_string()))?
        {
            if body.len() + chunk.len() > LISTING_MAX_BYTES {
                return Err(broken(format!("its list of models is longer than {LISTING_MAX_BYTES} bytes")));
            }
            body.extend_from_slice(&chunk);
        }
        Ok(body)
    }
}

/// Where the list is: `models` in the place of what calls are posted to.
fn models_url(provider: &Provider) -> Result<Url, NoList> {
    let bad = |why: String| NoList::Address { provider: provider.name.clone(), why };
    let mut url = provider.endpoint().map_err(bad)?;
    let path = url.path();
    let base = ["/messages", "/chat/completions", "/responses"].iter().find_map(|end| path.strip_suffix(end));
    let path = format!("{}/models", base.unwrap_or(path));
    url.set_path(&path);
    if provider.dialect == Dialect::Anthropic {
        // Its pages are short unless told otherwise.
        url.set_query(Some("limit=1000"));
    }
    Ok(url)
}

#[cfg(test)]
#[path = "listing_tests.rs"]
mod tests;
