//! The one place that knows both wings of the daemon and joins them: store, effects, sessions, services.
//!
//! Everything else gets what it needs handed in.

use super::providers::{ConfiguredProviders, ProviderLists};
use super::workload::Work;
use crate::api::peer::{Classify, PeerKind};
use crate::api::server::ServerError;
use crate::api::{Api, DaemonFacts, DaemonService, Stopping, Workload};
use crate::config::LiveConfig;
use crate::effects::{self, EffectsWing};
use crate::inspect::OwnFolders;
use crate::model::{Listings, Models, Records};
use crate::paths::{Place, private_folder};
use crate::ports::{Clock, Effects, Entropy, Store, StoreError};
use crate::process::{Jobs, ProcId, ProcessError, SandboxSpec, procfs};
use crate::session::{Ports, Registry};
use crate::store;
use crate::tools::{self, RegistryError, Tools};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tonic::service::Routes;

/// The program that plays the supervisor: this one, also after an upgrade has put another file in its place, so
/// that a daemon and its supervisors are always of one version.
const OWN_PROGRAM: &str = "/proc/self/exe";

/// What the rooms are built from.
#[derive(Clone)]
pub struct Parts {
    /// Where things are.
    pub place: Place,
    /// The configuration in use.
    pub config: Arc<LiveConfig>,
    /// Who this daemon is.
    pub facts: Arc<DaemonFacts>,
    /// Whether it is ending.
    pub stopping: Stopping,
    /// The wall clock.
    pub clock: Arc<dyn Clock>,
    /// Randomness.
    pub entropy: Arc<dyn Entropy>,
}

/// The rooms, built and joined.
pub struct Wired {
    /// The services.
    pub routes: Routes,
    /// What is at work.
    pub workload: Arc<dyn Workload>,
    /// What a calling process is.
    pub classify: Classify,
    /// The sessions.
    pub registry: Arc<Registry>,
    /// The store, to be closed last.
    pub store: Arc<store::SqliteStore>,
}

/// Why the rooms cannot be built.
#[derive(Debug, thiserror::Error)]
pub enum WiringError {
    /// The folder of the jobs.
    #[error(transparent)]
    Process(#[from] ProcessError),
    /// The databases.
    #[error(transparent)]
    Open(#[from] store::OpenError),
    /// The databases, while they were read.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The place of files on their way to the store.
    #[error(transparent)]
    Place(#[from] crate::paths::PlaceError),
    /// The built-in tools.
    #[error(transparent)]
    Tools(#[from] RegistryError),
    /// The built-in tools, as they are offered.
    #[error("the tools cannot be described: {0}")]
    Offer(#[from] serde_json::Error),
    /// The server.
    #[error(transparent)]
    Server(#[from] ServerError),
}

/// Builds and joins the rooms, and takes over what a former run left in flight. Called once, within the runtime,
/// with the lock held.
pub(super) async fn wire(parts: &Parts) -> Result<Wired, WiringError> {
    let jobs = Jobs::open(&parts.place.jobs_dir(), PathBuf::from(OWN_PROGRAM))?;
    jobs.own_process()?;
    let data_dir = parts.place.data_dir.clone();
    let opened = tokio::task::spawn_blocking(move || store::open(&data_dir)).await;
    let store = Arc::new(opened.map_err(|error| StoreError::Failed(error.to_string()))??);
    let models = Models::new();
    let listings = Arc::new(Listings::new(models.clone()));
    let wing = effects_wing(parts, jobs.clone(), store.clone(), models, listings.clone())?;
    let wing = Arc::new(wing);
    let effects: Arc<dyn Effects> = wing.clone();
    let registry = Registry::new(Ports {
        clock: parts.clock.clone(),
        entropy: parts.entropy.clone(),
        store: store.clone(),
        effects: effects.clone(),
        run_id: parts.facts.run_id.clone(),
    });
    let recovered = registry.recover_all().await?;
    if recovered > 0 {
        tracing::info!(recovered, "sessions with open work were taken over");
    }
    let workload: Arc<dyn Workload> = Arc::new(Work::new(registry.clone(), store.clone(), jobs.clone()));
    let daemon = DaemonService::new(parts.facts.clone(), workload.clone(), parts.stopping.clone());
    let api = Api {
        registry: registry.clone(),
        store: store.clone(),
        effects,
        judge: wing,
        config: parts.config.clone(),
        lists: Arc::new(ProviderLists::new(parts.config.clone(), listings)),
        own_folders: own_folders(&parts.place),
    };
    let routes = api.into_routes(daemon).await?;
    Ok(Wired { routes, workload, classify: classifier(jobs), registry, store })
}

fn effects_wing(
    parts: &Parts,
    jobs: Jobs,
    store: Arc<dyn Store>,
    models: Models,
    listings: Arc<Listings>,
) -> Result<EffectsWing, WiringError> {
    let scratch = parts.place.data_dir.join("scratch");
    private_folder(&scratch)?;
    let tools = Tools {
        store: store.clone(),
        clock: parts.clock.clone(),
        entropy: parts.entropy.clone(),
        run_id: parts.facts.run_id.clone(),
        // The socket may lie elsewhere, in a folder that is not only ours.
        own: Arc::new(OwnFolders::new(
            own_folders(&parts.place).into_iter().chain([parts.place.socket.clone()]),
        )),
        scratch,
        command_sandbox: SandboxSpec::default().name().to_owned(),
        places: Arc::default(),
    };
    Ok(EffectsWing::new(effects::Parts {
        registry: tools::Registry::built_in()?,
        tools,
        jobs,
        models,
        listings,
        records: Records::new(parts.place.records_dir()),
        providers: Arc::new(ConfiguredProviders::new(parts.config.clone())),
        store,
        clock: parts.clock.clone(),
        entropy: parts.entropy.clone(),
    }))
}

fn own_folders(place: &Place) -> Vec<PathBuf> {
    vec![place.config_dir.clone(), place.data_dir.clone(), place.run_dir.clone()]
}

/// Tells programs of the user from what tool calls started. Whatever is below the daemon itself is a tool too: a
/// command that killed its supervisor. (One that killed a supervisor of a former run is not below us, and is found
/// only by its mark.)
fn classifier(jobs: Jobs) -> Classify {
    let own = ProcId::current();
    Arc::new(move |pid| {
        let why = match (jobs.supervisors(), &own) {
            (Ok(mut above), Ok(own)) => {
                above.push(own.clone());
                return kind_of(pid, &above);
            }
            (Err(error), _) => error.to_string(),
            (_, Err(error)) => error.to_string(),
        };
        tracing::warn!(why, pid, "it cannot be told whether this is a tool");
        PeerKind::Unknown
    })
}

/// What a process is to us, given what only tools are below: our living supervisors, and the daemon. A child that left its session or was orphaned is still
/// below its supervisor, which is the reaper of all that descends from it.
fn kind_of(pid: u32, above: &[ProcId]) -> PeerKind {
    let line = procfs::ancestors(pid);
    let Some(own) = line.first().filter(|own| own.pid == pid) else { return PeerKind::Unknown };
    if line.iter().any(|ancestor| above.contains(ancestor)) {
        return PeerKind::Tool;
    }
    // If it ended meanwhile, the line may have been read of two processes with one number.
    if own.is_alive() { PeerKind::Program } else { PeerKind::Unknown }
}

/// Whether a process was started by a tool call of this home's daemon.
pub(super) fn is_tool_of(place: &Place, pid: u32) -> bool {
    if !place.jobs_dir().is_dir() {
        return false;
    }
    let supervisors = Jobs::open(&place.jobs_dir(), Path::new(OWN_PROGRAM).to_path_buf())
        .and_then(|jobs| jobs.supervisors())
        .unwrap_or_default();
    kind_of(pid, &supervisors) == PeerKind::Tool
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_descends_from_a_supervisor_is_a_tool() {
        let own = ProcId::current().unwrap();
        let mut child = std::process::Command::new("sh")
            .args(["-c", "read line"])
            .stdin(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        assert_eq!(kind_of(child.id(), &[]), PeerKind::Program);
        assert_eq!(kind_of(child.id(), std::slice::from_ref(&own)), PeerKind::Tool);
        // The same number in another life is not the same process.
        let reused = ProcId { start_ticks: own.start_ticks + 1, ..own.clone() };
        assert_eq!(kind_of(child.id(), &[reused]), PeerKind::Program);
        drop(child.stdin.take());
        child.wait().unwrap();
        assert_eq!(kind_of(child.id(), &[own]), PeerKind::Unknown);
    }
}
