//! The effects wing: does what the state owes, and reports what came of it.
//!
//! Invariants: one effect makes one report; stopping a call is a signal beside its run; a call that may change
//! something holds the lease of its workspace while it runs; what a model reads was redacted here or in `tools`.
//!
//! Deliberately absent: decisions. What to do is in the launch, what it means is core's.

mod command;
mod environment;
mod lease;
mod live;
mod model;
mod stops;

pub use environment::{Environment, SessionEnvironments};

use crate::model::{CallFailure, Listings, Models, Provider, Records};
use crate::ports::{
    BoxFuture, CallContext, Clock, Delta, DeltaSource, EffectHandle, EffectMessage, Effects, Entropy,
    Evidence, Hypothetical, Judge, Judged, Launch, Store,
};
use crate::process::{JobEvidence, Jobs};
use crate::redact::Redactor;
use crate::tools::{BUSY, Registry, Tools};
use agentd_core::command::{CheckedCall, Report};
use agentd_core::event::{BlockCall, EffectClass};
use agentd_core::ids::{CallId, SessionId};
use agentd_core::limits;
use serde_json::value::RawValue;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;

/// Finds the provider of a session's model, with its key.
pub trait Providers: Send + Sync {
    /// The provider named so, for a client with this environment.
    fn find(&self, name: &str, env: &BTreeMap<String, String>) -> Result<Provider, CallFailure>;
    /// Every secret that the daemon holds for a client with this environment, by name.
    fn secrets(&self, env: &BTreeMap<String, String>) -> Vec<(String, String)>;
}

/// The effects wing.
#[derive(Clone)]
pub struct EffectsWing {
    inner: Arc<Inner>,
}

/// What the wing works with.
pub struct Parts {
    /// The tools.
    pub registry: Registry,
    /// Their hands.
    pub tools: Tools,
    /// Commands.
    pub jobs: Jobs,
    /// Models.
    pub models: Models,
    /// Where it is remembered what refusals say of models.
    pub listings: Arc<Listings>,
    /// Where requests and answers of recorded sessions go.
    pub records: Records,
    /// Where models are.
    pub providers: Arc<dyn Providers>,
    /// Contents.
    pub store: Arc<dyn Store>,
    /// Wall time.
    pub clock: Arc<dyn Clock>,
    /// Randomness.
    pub entropy: Arc<dyn Entropy>,
}

pub(crate) struct Inner {
    parts: Parts,
    environments: SessionEnvironments,
    leases: lease::Leases,
    stops: stops::Stops,
}

impl EffectsWing {
    /// The wing, idle.
    pub fn new(parts: Parts) -> Self {
        let inner = Inner {
            parts,
            environments: SessionEnvironments::default(),
            leases: lease::Leases::default(),
            stops: stops::Stops::default(),
        };
        Self { inner: Arc::new(inner) }
    }
}

impl Inner {
    fn redactor(&self, session: &SessionId) -> Arc<Redactor> {
        self.environments.redactor(session, |env| self.parts.providers.secrets(env))
    }

    async fn inspect(&self, call: &CallContext) -> Report {
        let redactor = self.redactor(&call.session.session_id);
        let mut found = self.parts.tools.inspect(call, &redactor).await;
        // A look changes nothing and is nobody's result yet, so it is repeated without an event.
        for attempt in 2..2 + limits::TOOL_RETRIES_MAX {
            if !found.as_ref().is_err_and(|fault| fault.class == BUSY) {
                break;
            }
            rest_before(attempt).await;
            found = self.parts.tools.inspect(call, &redactor).await;
        }
        let found = found.map(Box::new);
        Report::Inspected { call_id: call.call_id.clone(), found }
    }

    async fn run_tool(&self, call: &CallContext, messages: &mpsc::Sender<EffectMessage>) {
        let wish = self.stops.of(&call.call_id);
        let begin = async {
            rest_before(call.attempt).await;
            match call.effect {
                EffectClass::ReadOnly => None,
                EffectClass::Idempotent | EffectClass::Unsafe => Some(self.lease(call, messages).await),
            }
        };
        let lease = tokio::select! {
            biased;
            () = wish.asked() => {
                let end = command::not_begun(call);
                let _ = messages.send(EffectMessage::Report(Report::CallEnded(Box::new(end)))).await;
                return;
            }
            lease = begin => lease,
        };
        let redactor = self.redactor(&call.session.session_id);
        let report = Report::CallEnded(Box::new(self.parts.tools.run(call, &redactor).await));
        let _ = messages.send(EffectMessage::Report(report)).await;
        if let Some(lease) = lease {
            lease.until_recorded().await;
        }
    }

    /// Waits for the workspace; who watches is told for whom.
    async fn lease(&self, call: &CallContext, messages: &mpsc::Sender<EffectMessage>) -> lease::Lease {
        let waits = |text: String| {
            let source = DeltaSource::Waiting(call.call_id.clone());
            // Lossy: nothing depends on it.
            let _ = messages.try_send(EffectMessage::Delta(Delta { source, block: 0, offset: 0, text }));
        };
        self.leases.acquire(call, waits).await
    }
}

impl Effects for EffectsWing {
    fn check(&self, calls: &[&BlockCall]) -> Vec<CheckedCall> {
        calls.iter().map(|call| self.inner.parts.registry.check(call)).collect()
    }

    fn launch(&self, launch: Launch, messages: mpsc::Sender<EffectMessage>) -> EffectHandle {
        let wing = self.inner.clone();
        let task = match launch {
            Launch::CallModel { session, model_call_id, body } => tokio::spawn(async move {
                let report = model::call(&wing, &session, model_call_id, body, &messages).await;
                let _ = messages.send(EffectMessage::Report(report)).await;
            }),
            Launch::Inspect(call) => tokio::spawn(async move {
                let report = wing.inspect(&call).await;
                let _ = messages.send(EffectMessage::Report(report)).await;
            }),
            Launch::Run(call) if call.job.is_some() => tokio::spawn(async move {
                command::run(&wing, &call, command::Begin::Start, &messages).await;
            }),
            Launch::Follow(call) if call.job.is_some() => tokio::spawn(async move {
                command::run(&wing, &call, command::Begin::Adopt, &messages).await;
            }),
            Launch::Run(call) => tokio::spawn(async move { wing.run_tool(&call, &messages).await }),
            Launch::Follow(call) => tokio::spawn(async move {
                let end = wing.parts.tools.finished(&call).await;
                let _ = messages.send(EffectMessage::Report(Report::CallEnded(Box::new(end)))).await;
            }),
            Launch::Stop(call) => {
                wing.stops.stop(&call.call_id);
                return EffectHandle::none();
            }
        };
        EffectHandle::task(task.abort_handle())
    }

    fn evidence(&self, call: CallContext) -> BoxFuture<'_, Evidence> {
        Box::pin(async move {
            let Some(job) = call.job.clone() else { return self.inner.parts.tools.evidence(&call).await };
            let jobs = self.inner.parts.jobs.clone();
            let found = tokio::task::spawn_blocking(move || jobs.evidence(&job)).await;
            let redactor = self.inner.redactor(&call.session.session_id);
            match found {
                Ok(Ok(evidence)) => of_job(evidence, &redactor),
                Ok(Err(error)) => Evidence::Unknown { why: error.to_string(), output: None },
                Err(error) => Evidence::Unknown {
                    why: format!("its evidence could not be read: {error}"),
                    output: None,
                },
            }
        })
    }

    fn forget(&self, job: &str) {
        let (jobs, job) = (self.inner.parts.jobs.clone(), job.to_owned());
        tokio::spawn(async move {
            // Its word is heard before it has written the result and left.
            let ended = jobs.supervisor_ended(&job).await;
            let removed = tokio::task::spawn_blocking(move || ended.and_then(|()| jobs.remove(&job))).await;
            if let Ok(Err(error)) = removed {
                tracing::warn!(%error, "a job folder could not be deleted; it is harmless and goes at the next start");
            }
        });
    }

    fn jobs(&self) -> BoxFuture<'_, BTreeSet<String>> {
        let jobs = self.inner.parts.jobs.clone();
        Box::pin(async move {
            match tokio::task::spawn_blocking(move || jobs.list()).await {
                Ok(Ok(names)) => names.into_iter().collect(),
                Ok(Err(error)) => {
                    tracing::warn!(%error, "job folders cannot be listed");
                    BTreeSet::new()
                }
                Err(_) => BTreeSet::new(),
            }
        })
    }

    fn sweep(&self, names: BTreeSet<String>) {
        let jobs = self.inner.parts.jobs.clone();
        tokio::task::spawn_blocking(move || {
            for name in names {
                // Looked at first: what outlived its supervisor is ended by that.
                if let Err(error) = jobs.evidence(&name).and_then(|_| jobs.remove(&name)) {
                    tracing::warn!(%error, "an old job folder could not be deleted");
                }
            }
        });
    }

    fn tools(&self, disabled: &[String]) -> Result<Arc<RawValue>, serde_json::Error> {
        crate::tools::specs_json(disabled)
    }

    fn waits_for(&self, call: &CallId) -> Option<String> {
        self.inner.leases.waits_for(call)
    }

    fn keep_env(&self, session: &SessionId, env: BTreeMap<String, String>) {
        self.inner.environments.keep(session, env);
    }
}

/// A further try waits a little, longer each time: what was busy may be free then.
async fn rest_before(attempt: u32) {
    if let Some(repeated) = attempt.checked_sub(2) {
        let rest = limits::TOOL_RETRY_BASE_MS << (2 * repeated.min(limits::TOOL_RETRIES_MAX));
        tokio::time::sleep(Duration::from_millis(rest)).await;
    }
}

impl Judge for EffectsWing {
    fn judge(&self, what: Hypothetical) -> BoxFuture<'_, Judged> {
        Box::pin(async move { self.inner.parts.tools.judge(&self.inner.parts.registry, what).await })
    }
}

fn of_job(evidence: JobEvidence, redactor: &Redactor) -> Evidence {
    match evidence {
        JobEvidence::NotStarted { why } => Evidence::NotStarted { why },
        JobEvidence::Running { id, bytes_seen } => {
            Evidence::Running { pid: id.pid, start_ticks: id.start_ticks, boot_id: id.boot_id, bytes_seen }
        }
        JobEvidence::Finished(_) => Evidence::Finished { why: "its result record is there".to_owned() },
        JobEvidence::Unknown { why, output } => {
            let text = String::from_utf8_lossy(&[output.head, output.tail].concat()).into_owned();
            Evidence::Unknown { why, output: Some(redactor.redact(&text).content) }
        }
    }
}
