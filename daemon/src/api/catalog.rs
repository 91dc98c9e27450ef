//! What there is: so far the models.

use super::{Api, peer, status};
use crate::config::{self, Config, KeySource, Origin, ResolvedModel};
use agentd_core::event::{Dialect, Price};
use agentd_core::limits;
use agentd_core::model::listing::Described;
use agentd_proto::v1;
use agentd_proto::v1::CatalogKind;
use std::collections::BTreeMap;
use std::sync::Arc;
use tonic::{Request, Response, Status};

pub(super) struct Service(pub(super) Arc<Api>);

type Environment = BTreeMap<String, String>;

#[tonic::async_trait]
impl agentd_proto::server::catalog_server::Catalog for Service {
    async fn get_catalog(
        &self,
        request: Request<v1::GetCatalogRequest>,
    ) -> Result<Response<v1::GetCatalogResponse>, Status> {
        // Reading is for everybody; a question to a server of the asking client's choice is more than that.
        if request.get_ref().probe.is_some() {
            peer::require_actor(&request)?;
        } else {
            peer::reader(&request)?;
        }
        let given = request.into_inner();
        let env: Environment = given.env.into_iter().collect();
        for kind in &given.kinds {
            match CatalogKind::try_from(*kind) {
                Ok(CatalogKind::Models) => {}
                Ok(CatalogKind::Unspecified) | Err(_) => {
                    return Err(status::field("kinds", format!("{kind} is not known here")).status());
                }
                Ok(other) => {
                    let name = other.as_str_name().trim_start_matches("CATALOG_KIND_").to_lowercase();
                    return Err(status::not_built(&format!("Catalog.GetCatalog of {name}")));
                }
            }
        }
        let config = self.0.config.fresh();
        let entries = match given.probe.as_deref() {
            Some(provider) => self.probed(&config, provider, &env).await?,
            None => self.named(&config, &env),
        };
        Ok(Response::new(v1::GetCatalogResponse { entries }))
    }
}

impl Service {
    /// The models that have a name in the configuration or the built-in table.
    fn named(&self, config: &Config, env: &Environment) -> Vec<v1::CatalogEntry> {
        let names = config::named_models(config);
        names.iter().map(|name| self.entry(config, name, env, None)).collect()
    }

    /// The models that a provider's server names.
    async fn probed(
        &self,
        config: &Config,
        provider: &str,
        env: &Environment,
    ) -> Result<Vec<v1::CatalogEntry>, Status> {
        let Some(settings) = config::provider(config, provider) else {
            let text = format!(
                "names no provider: {provider}; known are {}",
                config::provider_names(config).join(", ")
            );
            return Err(status::field("probe", text).status());
        };
        if settings.is_demo() {
            return Ok(vec![self.entry(config, "demo/tour", env, None)]);
        }
        let listed = match self.0.lists.listed(provider, env).await {
            Ok(listed) => listed,
            Err(why) => {
                let no_key = config::key_for(env, &settings).is_err();
                let state = if no_key { "no_key" } else { "unreachable" };
                return Ok(vec![v1::CatalogEntry {
                    kind: CatalogKind::Models.into(),
                    name: provider.to_owned(),
                    state: state.to_owned(),
                    origin: Origin::Listed.as_str().to_owned(),
                    detail: why,
                    model: None,
                }]);
            }
        };
        let entry = |(id, said): &(String, Described)| {
            self.entry(config, &format!("{provider}/{id}"), env, Some(*said))
        };
        Ok(listed.iter().map(entry).collect())
    }

    fn entry(
        &self,
        config: &Config,
        name: &str,
        env: &Environment,
        described: Option<Described>,
    ) -> v1::CatalogEntry {
        let kind = CatalogKind::Models.into();
        let (provider, model) = name.split_once('/').unwrap_or((name, ""));
        let heard = self.0.heard(provider, model, env, described);
        match config::resolve_heard(config, Some(name), env, &heard) {
            Ok(resolved) => {
                let (state, detail) = key_state(env, &resolved);
                // On a list of its server, that is where it comes from, whoever knows its figures.
                let origin = if described.is_some() { Origin::Listed } else { resolved.origin };
                let is_default = config.model.as_deref() == Some(name);
                v1::CatalogEntry {
                    kind,
                    name: name.to_owned(),
                    state,
                    origin: origin.as_str().to_owned(),
                    detail,
                    model: Some(facts(&resolved, is_default, described)),
                }
            }
            Err(error) => v1::CatalogEntry {
                kind,
                name: name.to_owned(),
                state: "unusable".to_owned(),
                origin: Origin::Config.as_str().to_owned(),
                detail: error.to_string(),
                model: None,
            },
        }
    }
}

/// Whether a client with this environment could use the model now, in a word, and what to do if not. Never a key.
fn key_state(env: &Environment, resolved: &ResolvedModel) -> (String, String) {
    let unusable = |why: &str| ("unusable".to_owned(), why.to_owned());
    if resolved.profile.dialect == Dialect::OpenAiResponses {
        return unusable("this build does not speak openai-responses yet; openai-chat is");
    }
    match config::key_for(env, &resolved.provider) {
        Ok(KeySource::Key { .. } | KeySource::Open { .. }) => ("ready".to_owned(), String::new()),
        Ok(KeySource::Command { .. }) => {
            unusable("this build does not run api_key_command yet; use api_key_env")
        }
        Err(error) => ("no_key".to_owned(), error.to_string()),
    }
}

fn facts(resolved: &ResolvedModel, is_default: bool, described: Option<Described>) -> v1::ModelFacts {
    let profile = &resolved.profile;
    let is_known = resolved.origin != Origin::Guess;
    // Of a model that nobody knows, the safe figures are no facts.
    let output_known = is_known
        || profile.max_output_tokens != limits::UNKNOWN_MAX_OUTPUT_TOKENS
        || described.is_some_and(|said| said.max_output_tokens.is_some());
    v1::ModelFacts {
        is_default,
        protocol: protocol(profile.dialect).to_owned(),
        context_window: is_known.then_some(profile.context_window),
        max_output_tokens: output_known.then_some(profile.max_output_tokens),
        price: (!profile.price_unknown).then(|| price(&profile.price)),
    }
}

const fn protocol(dialect: Dialect) -> &'static str {
    match dialect {
        Dialect::Anthropic => "anthropic",
        Dialect::OpenAiChat => "openai-chat",
        Dialect::OpenAiResponses => "openai-responses",
    }
}

const fn price(price: &Price) -> v1::ModelPrice {
    v1::ModelPrice {
        input_micro_usd: price.input,
        output_micro_usd: price.output,
        cache_read_micro_usd: price.cache_read,
        cache_write_micro_usd: price.cache_write,
    }
}
