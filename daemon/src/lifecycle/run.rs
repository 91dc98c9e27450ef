//! From the lock to the end: the running daemon.

use super::LifecycleError;
use super::accept::{Acceptor, Reception, bind};
use super::detach::Announcer;
use super::identity::daemon_id;
use super::lock::HomeLock;
use super::system::{SystemClock, SystemEntropy, fresh_id};
use super::wiring::{Parts, Wired, wire};
use crate::api::server::{ServerError, serve};
use crate::api::{DaemonFacts, StopWhen, Stopping, Workload};
use crate::config::LiveConfig;
use crate::paths::{Place, private_folder};
use crate::ports::{Clock, Entropy};
use crate::telemetry::{self, LogControl};
use agentd_core::ids::RunId;
use agentd_core::limits;
use std::sync::Arc;
use std::time::Duration;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::oneshot;
use tokio::time::{Instant, sleep, timeout};
use tokio_stream::wrappers::ReceiverStream;

/// Runs the daemon of a home whose lock we hold, until it is asked to end.
pub(super) fn run(place: Place, lock: HomeLock, announcer: &mut Announcer) -> Result<(), LifecycleError> {
    let config = LiveConfig::read(place.config_file())?;
    private_folder(&place.logs_dir())?;
    let log = telemetry::start(&place.logs_dir(), config.current().daemon.log_level.filter())?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(limits::WORKER_THREADS)
        .max_blocking_threads(limits::BLOCKING_THREADS_MAX)
        .thread_stack_size(limits::THREAD_STACK_BYTES)
        .thread_name("agentd")
        .enable_all()
        .build()
        .map_err(|error| LifecycleError::System { what: "start the event loop", why: error.to_string() })?;
    let ended = runtime.block_on(live(place, lock, config, log, announcer));
    // What still blocks a thread is not waited for: the same as a crash, which must be harmless anyway.
    runtime.shutdown_background();
    ended
}

async fn live(
    place: Place,
    mut lock: HomeLock,
    config: Arc<LiveConfig>,
    log: LogControl,
    announcer: &mut Announcer,
) -> Result<(), LifecycleError> {
    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
    let entropy: Arc<dyn Entropy> = Arc::new(SystemEntropy);
    let run_id = RunId::new(format!("{}{}", RunId::PREFIX, fresh_id(&*clock, &*entropy)));
    lock.sign(run_id.as_str())?;
    let facts = Arc::new(DaemonFacts {
        daemon_id: daemon_id(&place, &fresh_id(&*clock, &*entropy))?,
        run_id: run_id.clone(),
        started_at_ms: clock.now_ms(),
        home: place.home_display().to_path_buf(),
        socket: place.socket.clone(),
    });
    let stopping = Stopping::default();
    let parts = Parts {
        place: place.clone(),
        config: config.clone(),
        facts,
        stopping: stopping.clone(),
        clock: clock.clone(),
        entropy: entropy.clone(),
    };
    let Wired { routes, workload, classify, registry, store } = wire(&parts).await?;

    // Before we are ready, so that a signal right after it finds us prepared.
    let signals = Signals::listen()?;
    let (reception, accepted) = Reception::new(clock, entropy, classify);
    let acceptor = Acceptor::start(bind(&place)?, reception.clone());
    let (end, ended) = oneshot::channel::<()>();
    let mut server = tokio::spawn(serve(routes, ReceiverStream::new(accepted), async move {
        // A sender that is gone means the end as well.
        let _ = ended.await;
    }));
    tracing::info!(%run_id, socket = %place.socket.display(), version = env!("CARGO_PKG_VERSION"), "ready");
    announcer.ready(run_id.as_str(), &place.logs_dir());
    announcer.greet(&place.socket);

    let _watching = config.watch();
    let life = Life { place, lock, config, log, stopping, workload, reception };
    let acceptor = tokio::select! {
        acceptor = life.until_the_end(acceptor, signals) => acceptor,
        over = &mut server => return server_ended(over),
    };

    // Open streams are told, and nothing new begins.
    registry.drain();
    acceptor.file().remove();
    drop(acceptor);
    // The answer to whoever asked for the end, and the farewell of open streams.
    let _ = end.send(());
    if timeout(Duration::from_millis(limits::FAREWELL_MS), &mut server).await.is_err() {
        server.abort();
    }
    store.close().await;
    tracing::info!(%run_id, "ended");
    drop(life);
    Ok(())
}

/// The server does not end of itself unless something is wrong.
fn server_ended(over: Result<Result<(), ServerError>, tokio::task::JoinError>) -> Result<(), LifecycleError> {
    match over {
        Ok(Ok(())) => Ok(()),
        Ok(Err(error)) => Err(error.into()),
        Err(error) => Err(LifecycleError::System { what: "serve", why: error.to_string() }),
    }
}

struct Life {
    place: Place,
    lock: HomeLock,
    config: Arc<LiveConfig>,
    log: LogControl,
    stopping: Stopping,
    workload: Arc<dyn Workload>,
    reception: Reception,
}

impl Life {
    /// Everything that can end the daemon. The socket may be another one at the end.
    async fn until_the_end(&self, mut acceptor: Acceptor, mut signals: Signals) -> Acceptor {
        let mut stop = self.stopping.watch();
        let mut changes = self.config.changes();
        let mut check = tokio::time::interval(Duration::from_millis(limits::HOME_CHECK_MS));
        check.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let mut idle_since: Option<Instant> = None;
        let mut complained = false;
        loop {
            let mode = *stop.borrow_and_update();
            tokio::select! {
                () = self.end(mode), if mode.is_some() => return acceptor,
                _ = stop.changed() => {}
                word = signals.next() => self.heed(word),
                _ = changes.changed() => self.log.set_level(changes.borrow_and_update().daemon.log_level.filter()),
                _ = check.tick() => {
                    if !self.lock.is_still_there() {
                        tracing::error!("the home is gone; the daemon ends");
                        return acceptor;
                    }
                    if !acceptor.file().is_still_there() {
                        acceptor = self.bind_again(acceptor, &mut complained);
                    }
                    self.end_when_idle(&mut idle_since).await;
                }
            }
        }
    }

    /// Resolves when an end that was asked for may come.
    async fn end(&self, mode: Option<StopWhen>) {
        if mode != Some(StopWhen::Now) {
            self.workload.drained().await;
        }
    }

    fn heed(&self, word: Word) {
        match word {
            Word::End if self.stopping.mode().is_none() => {
                tracing::info!("told to end by a signal");
                self.stopping.ask(StopWhen::Drained);
                let stopping = self.stopping.clone();
                tokio::spawn(async move {
                    sleep(Duration::from_millis(limits::SIGNAL_DRAIN_MS)).await;
                    stopping.ask(StopWhen::Now);
                });
            }
            // Who asks twice does not want to wait.
            Word::End => self.stopping.ask(StopWhen::Now),
            Word::Reload => {
                self.config.reload();
            }
        }
    }

    /// The runtime folder is emptied when its user logs out; work goes on, and the next login finds us again.
    fn bind_again(&self, old: Acceptor, complained: &mut bool) -> Acceptor {
        let bound = self.place.prepare().map_err(LifecycleError::from).and_then(|()| bind(&self.place));
        match bound {
            Ok(bound) => {
                tracing::warn!(socket = %self.place.socket.display(), "the socket was gone and is there again");
                *complained = false;
                Acceptor::start(bound, self.reception.clone())
            }
            Err(error) => {
                if !*complained {
                    tracing::warn!(%error, "the socket is gone and cannot be made again yet");
                }
                *complained = true;
                old
            }
        }
    }

    async fn end_when_idle(&self, idle_since: &mut Option<Instant>) {
        let limit_s = self.config.current().daemon.idle_exit_s;
        let idle = limit_s > 0 && self.reception.open() == 0 && self.workload.busy().await.is_idle();
        if !idle {
            *idle_since = None;
            return;
        }
        let since = *idle_since.get_or_insert_with(Instant::now);
        if since.elapsed() >= Duration::from_secs(limit_s) {
            tracing::info!(limit_s, "idle for long enough");
            self.stopping.ask(StopWhen::Idle);
        }
    }
}

/// What a signal means.
#[derive(Clone, Copy)]
enum Word {
    End,
    Reload,
}

struct Signals {
    terminate: Signal,
    interrupt: Signal,
    hangup: Signal,
}

impl Signals {
    fn listen() -> Result<Self, LifecycleError> {
        let on = |kind| {
            signal(kind).map_err(|error| LifecycleError::System {
                what: "listen for signals",
                why: error.to_string(),
            })
        };
        Ok(Self {
            terminate: on(SignalKind::terminate())?,
            interrupt: on(SignalKind::interrupt())?,
            hangup: on(SignalKind::hangup())?,
        })
    }

    async fn next(&mut self) -> Word {
        tokio::select! {
            _ = self.terminate.recv() => Word::End,
            _ = self.interrupt.recv() => Word::End,
            _ = self.hangup.recv() => Word::Reload,
        }
    }
}
