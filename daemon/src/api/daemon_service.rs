//! The `Daemon` service: who answers, stopping, and the checks.
//!
//! Hello and Stop are frozen: clients of every version call them on daemons of every version.

use super::peer::{Peer, reader, require_any_version};
use super::status::{field, refuse};
use crate::ports::BoxFuture;
use agentd_core::ids::RunId;
use agentd_proto::reason::Reason;
use agentd_proto::server::daemon_server::Daemon;
use agentd_proto::{PROTOCOL_MIN, PROTOCOL_VERSION, v1};
use futures_util::stream::Empty;
use std::path::PathBuf;
use std::sync::Arc;
use tokio::sync::watch;
use tonic::{Request, Response, Status, async_trait};

/// What is known of this daemon for as long as it runs.
#[derive(Clone, Debug)]
pub struct DaemonFacts {
    /// The id of this home's daemon.
    pub daemon_id: String,
    /// The id of this run.
    pub run_id: RunId,
    /// When it started, in Unix milliseconds.
    pub started_at_ms: i64,
    /// The home to show.
    pub home: PathBuf,
    /// The socket.
    pub socket: PathBuf,
}

/// What is at work.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Busy {
    /// Sessions with a turn at work, by id.
    pub sessions: Vec<String>,
    /// Commands and jobs that run, by name.
    pub jobs: Vec<String>,
}

impl Busy {
    /// Whether nothing is.
    pub fn is_idle(&self) -> bool {
        self.sessions.is_empty() && self.jobs.is_empty()
    }
}

/// What the daemon as a whole is doing.
pub trait Workload: Send + Sync {
    /// What is at work now.
    fn busy(&self) -> BoxFuture<'_, Busy>;
    /// Resolves when the running steps have ended; new ones do not begin any more.
    fn drained(&self) -> BoxFuture<'_, ()>;
}

/// When to end; a later word is a more urgent one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum StopWhen {
    /// Nothing is at work.
    Idle,
    /// The running steps have ended.
    Drained,
    /// Now; running commands go on without us.
    Now,
}

/// Whether, and how, the daemon is ending. Cheap to clone; all clones are one.
#[derive(Clone, Debug)]
pub struct Stopping(watch::Sender<Option<StopWhen>>);

impl Default for Stopping {
    fn default() -> Self {
        Self(watch::Sender::new(None))
    }
}

impl Stopping {
    /// Asks for the end. A later word may only hurry it.
    pub fn ask(&self, when: StopWhen) {
        self.0.send_if_modified(|now| {
            let more = *now < Some(when);
            if more {
                *now = Some(when);
            }
            more
        });
    }
    /// How it was asked for, if it was.
    pub fn mode(&self) -> Option<StopWhen> {
        *self.0.borrow()
    }
    /// Follows it.
    pub fn watch(&self) -> watch::Receiver<Option<StopWhen>> {
        self.0.subscribe()
    }
    /// Refuses new work once the end was asked for.
    pub fn refuse_new_work(&self) -> Result<(), Status> {
        if self.mode().is_none() {
            return Ok(());
        }
        Err(refuse(Reason::Draining, "the daemon is stopping and takes no new work")
            .retry_after_ms(1_000)
            .status())
    }
}

/// The service.
pub struct DaemonService {
    facts: Arc<DaemonFacts>,
    workload: Arc<dyn Workload>,
    stopping: Stopping,
}

impl DaemonService {
    /// Of these facts.
    pub fn new(facts: Arc<DaemonFacts>, workload: Arc<dyn Workload>, stopping: Stopping) -> Self {
        Self { facts, workload, stopping }
    }
}

#[async_trait]
impl Daemon for DaemonService {
    async fn hello(&self, request: Request<v1::HelloRequest>) -> Result<Response<v1::HelloResponse>, Status> {
        let peer = request.extensions().get::<Peer>().cloned();
        let said = request.into_inner();
        if let Some(peer) = &peer {
            let speaks_ours = said.protocol_min <= PROTOCOL_VERSION && PROTOCOL_MIN <= said.protocol_max;
            let label = if said.client_name.is_empty() { "unnamed client" } else { &said.client_name };
            peer.greet(label, speaks_ours);
            tracing::debug!(client = %peer.client_id(), pid = peer.pid(), label, "hello");
        }
        let busy = self.workload.busy().await;
        let count = |names: &[String]| u32::try_from(names.len()).unwrap_or(u32::MAX);
        Ok(Response::new(v1::HelloResponse {
            daemon_id: self.facts.daemon_id.clone(),
            run_id: self.facts.run_id.as_str().to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            build: build(),
            protocol_min: PROTOCOL_MIN,
            protocol_max: PROTOCOL_VERSION,
            home: self.facts.home.display().to_string(),
            started_at_ms: self.facts.started_at_ms,
            busy_sessions: count(&busy.sessions),
            busy_jobs: count(&busy.jobs),
            client_id: peer.map(|peer| peer.client_id().as_str().to_owned()).unwrap_or_default(),
            pid: std::process::id(),
            socket: self.facts.socket.display().to_string(),
        }))
    }

    async fn stop(&self, request: Request<v1::StopRequest>) -> Result<Response<v1::StopResponse>, Status> {
        let pid = require_any_version(&request)?.pid();
        let said = request.into_inner();
        let mode = match said.mode() {
            v1::StopMode::Unspecified => {
                return Err(field("mode", "say when to stop: WHEN_IDLE, DRAIN or NOW").status());
            }
            v1::StopMode::WhenIdle => StopWhen::Idle,
            v1::StopMode::Drain => StopWhen::Drained,
            v1::StopMode::Now => StopWhen::Now,
        };
        let run_id = self.facts.run_id.as_str();
        if !said.expected_run_id.is_empty() && said.expected_run_id != run_id {
            return Err(refuse(
                Reason::RunIdMismatch,
                "another run of the daemon answers than the one that was meant",
            )
            .with("run_id", run_id)
            .status());
        }
        let busy = self.workload.busy().await;
        let names: Vec<String> = busy.sessions.iter().chain(&busy.jobs).cloned().collect();
        if mode == StopWhen::Idle && !busy.is_idle() {
            let message = format!("the daemon is at work: {}", names.join(", "));
            return Err(refuse(Reason::DaemonBusy, message)
                .with("busy", names.join(" "))
                .remedy("wait for it with --drain, or stop with --now; running commands go on either way")
                .status());
        }
        tracing::info!(?mode, pid, "asked to stop");
        self.stopping.ask(mode);
        Ok(Response::new(v1::StopResponse { accepted: true, busy: names }))
    }

    type DiagnoseStream = Empty<Result<v1::DiagnoseResponse, Status>>;

    async fn diagnose(
        &self,
        request: Request<v1::DiagnoseRequest>,
    ) -> Result<Response<Self::DiagnoseStream>, Status> {
        reader(&request)?;
        Err(super::status::not_built("Daemon.Diagnose"))
    }
}

/// What tells builds of one version apart.
fn build() -> String {
    let kind = if cfg!(debug_assertions) { "debug" } else { "release" };
    format!("{}-{} {kind}", std::env::consts::ARCH, std::env::consts::OS)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::peer::PeerKind;
    use agentd_core::ids::ClientId;
    use tonic_types::StatusExt;

    struct At(Busy);
    impl Workload for At {
        fn busy(&self) -> BoxFuture<'_, Busy> {
            Box::pin(async { self.0.clone() })
        }
        fn drained(&self) -> BoxFuture<'_, ()> {
            Box::pin(async {})
        }
    }

    fn service(busy: Busy) -> (DaemonService, Stopping) {
        let stopping = Stopping::default();
        let facts = DaemonFacts {
            daemon_id: "h_1".to_owned(),
            run_id: RunId::new("d_1"),
            started_at_ms: 1,
            home: "/h".into(),
            socket: "/h/s".into(),
        };
        (DaemonService::new(Arc::new(facts), Arc::new(At(busy)), stopping.clone()), stopping)
    }

    fn from<T>(kind: PeerKind, message: T) -> Request<T> {
        let mut request = Request::new(message);
        let peer =
            Peer::new(Some(crate::paths::our_uid()), 7, ClientId::new("k_1"), Arc::new(move |_| kind), None);
        request.extensions_mut().insert(peer);
        request
    }

    fn stop(mode: v1::StopMode, run: &str) -> v1::StopRequest {
        v1::StopRequest { request_id: "q_1".into(), mode: mode.into(), expected_run_id: run.into() }
    }

    fn reason(status: &Status) -> String {
        status.get_error_details().error_info().unwrap().reason.clone()
    }

    #[tokio::test]
    async fn hello_answers_clients_of_any_protocol_and_counts_work() {
        let (service, _) = service(Busy { sessions: vec!["s_1".into()], jobs: vec![] });
        let old = v1::HelloRequest { protocol_min: 90, protocol_max: 99, ..Default::default() };
        let reply = service.hello(from(PeerKind::Tool, old)).await.unwrap().into_inner();
        assert_eq!((reply.busy_sessions, reply.busy_jobs, reply.client_id.as_str()), (1, 0, "k_1"));
    }

    #[tokio::test]
    async fn stopping_needs_the_right_run_a_person_and_idleness_or_consent() {
        let (service, stopping) = service(Busy { sessions: vec![], jobs: vec!["c_9".into()] });
        let asked = service.stop(from(PeerKind::Program, stop(v1::StopMode::Now, "d_other"))).await;
        assert_eq!(reason(&asked.unwrap_err()), "RUN_ID_MISMATCH");
        let asked = service.stop(from(PeerKind::Tool, stop(v1::StopMode::Now, ""))).await;
        assert_eq!(reason(&asked.unwrap_err()), "PEER_IS_A_TOOL");
        let asked = service.stop(from(PeerKind::Program, stop(v1::StopMode::WhenIdle, ""))).await;
        assert_eq!(reason(&asked.unwrap_err()), "DAEMON_BUSY");
        let asked = service.stop(from(PeerKind::Program, stop(v1::StopMode::Unspecified, ""))).await;
        assert_eq!(reason(&asked.unwrap_err()), "FIELD_INVALID");
        assert_eq!(stopping.mode(), None);
        let asked = service.stop(from(PeerKind::Program, stop(v1::StopMode::Drain, "d_1"))).await.unwrap();
        assert_eq!(asked.into_inner().busy, ["c_9"]);
        assert_eq!(stopping.mode(), Some(StopWhen::Drained));
        stopping.ask(StopWhen::Now);
        stopping.ask(StopWhen::Idle);
        assert_eq!(stopping.mode(), Some(StopWhen::Now));
        assert_eq!(reason(&stopping.refuse_new_work().unwrap_err()), "DRAINING");
    }
}
