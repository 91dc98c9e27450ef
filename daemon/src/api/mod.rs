//! The gRPC services: the contract's words in, domain words to the session wing, and back.
//!
//! The only room of the daemon that knows protobuf. One file for each service; `from_proto` and `to_proto` hold
//! the conversions, `status` the one table from errors to statuses, `peer` who is on the other end.
//!
//! Invariants: identity is the connection (`peer`), never a field of a request; every mutation passes
//! [`peer::require_actor`], which refuses what a tool call started; a mutation with a request id that was used is
//! answered as it was the first time; wire types do not leave this room.
//!
//! Deliberately absent: decisions about sessions, and everything that is refused with `NOT_BUILT`.

mod artifacts;
mod attach;
mod audit;
mod catalog;
mod changes;
mod context;
mod daemon_service;
mod from_proto;
pub mod peer;
mod policy;
mod requests;
pub mod server;
mod session_name;
mod sessions;
pub mod status;
mod to_proto;
mod turns;
mod watch;

pub use daemon_service::{Busy, DaemonFacts, DaemonService, StopWhen, Stopping, Workload};

use crate::config::{self, LiveConfig};
use crate::ports::{Effects, Judge, ModelLists, Store};
use crate::session::Registry;
use agentd_core::event::{ModelProfile, OnRestart, ResultLimits, SandboxMode, TurnLimits};
use agentd_core::model::listing::Described;
use server::{ServerError, Services};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use tonic::Status;
use tonic::service::Routes;

/// All that the services of sessions work with.
pub struct Api {
    /// The sessions.
    pub registry: Arc<Registry>,
    /// The log, for reading.
    pub store: Arc<dyn Store>,
    /// For the environments of clients and the offered tools.
    pub effects: Arc<dyn Effects>,
    /// What would be decided.
    pub judge: Arc<dyn Judge>,
    /// The configuration in use.
    pub config: Arc<LiveConfig>,
    /// What servers say of their models.
    pub lists: Arc<dyn ModelLists>,
    /// The daemon's own folders, which a workspace must not hold by accident.
    pub own_folders: Vec<PathBuf>,
}

/// What a new session gets where its client says nothing.
struct SessionDefaults {
    model: String,
    profile: ModelProfile,
    limits: TurnLimits,
    on_restart: OnRestart,
    approvals_expire_ms: i64,
    sandbox: SandboxMode,
    results: ResultLimits,
    disabled_tools: Vec<String>,
}

impl Api {
    /// The services, joined with the daemon's own.
    pub async fn into_routes(self, daemon: DaemonService) -> Result<Routes, ServerError> {
        let api = Arc::new(self);
        let services = Services {
            daemon,
            catalog: catalog::Service(api.clone()),
            sessions: sessions::Service(api.clone()),
            turns: turns::Service(api.clone()),
            requests: requests::Service(api.clone()),
            context: context::Service(api.clone()),
            artifacts: artifacts::Service(api.clone()),
            policy: policy::Service(api.clone()),
            audit: audit::Service(api),
        };
        services.into_routes().await
    }

    /// What a session gets with this model, or the configured one. Its server is asked what it is like only where
    /// neither the configuration nor the built-in table says that.
    async fn defaults(
        &self,
        model: Option<&str>,
        env: &BTreeMap<String, String>,
    ) -> Result<SessionDefaults, Status> {
        let config = self.config.fresh();
        let refused = |error: config::CatalogError| status::catalog(&error);
        let mut resolved = config::resolve(&config, model, env).map_err(refused)?;
        let (provider, id) = (resolved.profile.provider.clone(), resolved.profile.model.clone());
        let described =
            if resolved.worth_asking { self.lists.described(&provider, &id, env).await } else { None };
        let heard = self.heard(&provider, &id, env, described);
        if heard != config::Heard::default() {
            resolved = config::resolve_heard(&config, model, env, &heard).map_err(refused)?;
        }
        let results = config.result_limits(&resolved.name);
        Ok(SessionDefaults {
            model: resolved.name,
            profile: resolved.profile,
            limits: config.turn_limits(),
            on_restart: config.session.on_restart,
            approvals_expire_ms: i64::from(config.session.approvals_expire_h) * 3_600_000,
            sandbox: config.sandbox.mode,
            results,
            disabled_tools: config.tools.disable.clone(),
        })
    }

    /// What was heard of a model: now from its server, and from refusals before.
    fn heard(
        &self,
        provider: &str,
        model: &str,
        env: &BTreeMap<String, String>,
        described: Option<Described>,
    ) -> config::Heard {
        let learned = self.lists.learned(provider, model, env);
        config::Heard { described, learned_window: learned.window, learned_output: learned.output }
    }

    /// Whether it is known what a model costs, as far as that can be said without asking its server.
    fn is_priced(&self, model: &str) -> bool {
        let resolved = config::resolve(&self.config.current(), Some(model), &BTreeMap::new());
        resolved.is_ok_and(|resolved| !resolved.profile.price_unknown)
    }
}
