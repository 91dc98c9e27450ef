//! A model server that says what a script tells it to and takes nothing a real server would refuse.
//!
//! Invariants: every request is checked as the real API checks it *before* the script is asked, and a request
//! that breaks a rule gets the real 400 and is remembered; a test that does not expect that fails when the
//! server is dropped. Answers are bytes under the test's control: where they are cut, when they stall, how
//! they end.
//!
//! The server speaks every [`Dialect`], each with its rules in its own folder; the path tells which one is asked in,
//! and one script serves them all. The rules alone are [`refusal`]. Deliberately absent: TLS, HTTP/2, and any
//! cleverness about what a model would say.

mod answer;
pub mod anthropic;
pub mod delivery;
mod dialect;
mod http;
mod images;
mod ledger;
mod models;
pub mod openai;
mod refusal;
mod request;
#[cfg(test)]
mod scripted_tests;
mod serve;

pub use answer::Answer;
pub use delivery::{Cut, Gate};
pub use dialect::Dialect;
pub use ledger::Ledger;
pub use models::ListedModel;
pub use openai::Quirk;
pub use refusal::{Refusal, Rules, refusal};
pub use request::{Called, Received, Times, ToolResult};

use crate::deadline::Deadline;
use crate::watched::Watched;
use models::Models;
use std::collections::VecDeque;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use tokio::sync::watch;

/// The only key the server takes, in every dialect.
pub const API_KEY: &str = "sk-ant-scripted-0000";

/// What decides about the next answer when the queue is empty.
type Responder = Box<dyn FnMut(&Received) -> Answer + Send>;

#[derive(Default)]
struct Script {
    queue: VecDeque<Answer>,
    responder: Option<Responder>,
    rules: Rules,
    models: Option<Models>,
}

/// What the server has seen.
#[derive(Default)]
struct Seen {
    requests: Vec<Received>,
    lookups: Vec<Received>,
    ledger: Ledger,
    violations_expected: bool,
}

struct Shared {
    script: Mutex<Script>,
    seen: Watched<Seen>,
}

/// A running scripted server on a loopback port. Stops when dropped.
pub struct ScriptedModel {
    address: SocketAddr,
    shared: Arc<Shared>,
    stop: watch::Sender<bool>,
    thread: Option<JoinHandle<()>>,
}

impl ScriptedModel {
    /// Starts a server with an empty script.
    pub fn start() -> Self {
        let listener = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a loopback port");
        listener.set_nonblocking(true).expect("a listener can be non-blocking");
        let address = listener.local_addr().expect("a bound listener has an address");
        let shared = Arc::new(Shared { script: Mutex::default(), seen: Watched::default() });
        let (stop, stopped) = watch::channel(false);
        let served = Arc::clone(&shared);
        let thread = std::thread::Builder::new()
            .name("scripted-model".into())
            .spawn(move || serve::run(listener, served, stopped))
            .expect("a thread can start");
        Self { address, shared, stop, thread: Some(thread) }
    }

    /// A server that gives these answers in order.
    pub fn with(answers: impl IntoIterator<Item = Answer>) -> Self {
        let server = Self::start();
        for answer in answers {
            server.push(answer);
        }
        server
    }

    /// The base URL as clients of `dialect` take it.
    pub fn base_url_for(&self, dialect: Dialect) -> String {
        format!("{}{}", self.base_url(), dialect.base_path())
    }

    /// The base URL, without a path: what clients of Anthropic's dialect take.
    pub fn base_url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Its address.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Changes what the server takes, from the next request on.
    pub fn rules(&self, change: impl FnOnce(&mut Rules)) {
        change(&mut self.script().rules);
    }

    /// Lists these models from now on. Without a list, a client that asks for one gets a 404.
    pub fn list_models(&self, models: impl IntoIterator<Item = ListedModel>) {
        self.script().models = Some(Models::Listed(models.into_iter().collect()));
    }

    /// Answers every request for models with this.
    pub fn list_models_as(&self, status: u16, body: serde_json::Value) {
        self.script().models = Some(Models::Raw(status, body));
    }

    /// Adds an answer to the end of the queue.
    pub fn push(&self, answer: Answer) {
        self.script().queue.push_back(answer);
    }

    /// What answers when the queue is empty. Without it, such a request gets a 500 and is a violation.
    pub fn respond_with(&self, responder: impl FnMut(&Received) -> Answer + Send + 'static) {
        self.script().responder = Some(Box::new(responder));
    }

    /// Answers that the script still holds.
    pub fn unused_answers(&self) -> usize {
        self.script().queue.len()
    }

    fn script(&self) -> std::sync::MutexGuard<'_, Script> {
        self.shared.script.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Every request so far, in order of arrival, refused ones too.
    pub fn requests(&self) -> Vec<Received> {
        self.shared.seen.read(|seen| seen.requests.clone())
    }

    /// Every GET that was not for an answer, such as for the list of models. They are not among the requests, and
    /// never violations.
    pub fn lookups(&self) -> Vec<Received> {
        self.shared.seen.read(|seen| seen.lookups.clone())
    }

    /// The newest request.
    pub fn last_request(&self) -> Received {
        self.requests().pop().expect("the scripted model was never asked")
    }

    /// Waits until `count` requests have come, and returns all there are.
    pub fn wait_for_requests(&self, count: usize, deadline: Deadline) -> Vec<Received> {
        let enough = |seen: &Seen| (seen.requests.len() >= count).then(|| seen.requests.clone());
        self.shared.seen.wait(deadline, enough).unwrap_or_else(|| {
            let seen = self.requests();
            let lines: Vec<String> = seen.iter().map(Received::summary).collect();
            panic!(
                "{count} requests did not come within {:?}; there were {}:\n{}",
                deadline.allowed(),
                seen.len(),
                lines.join("\n")
            )
        })
    }

    /// Waits until the client has hung up on the request with this index.
    pub fn wait_for_hang_up(&self, index: usize, deadline: Deadline) {
        let gone = |seen: &Seen| seen.requests.get(index)?.hung_up.then_some(());
        self.shared.seen.wait(deadline, gone).unwrap_or_else(|| {
            panic!("the client did not hang up on request {index} within {:?}", deadline.allowed())
        });
    }

    /// What was refused, one line each; not what a switch of [`Rules`] refused, which the test asked for.
    pub fn violations(&self) -> Vec<String> {
        self.shared.seen.read(|seen| {
            let refused = seen.requests.iter().enumerate();
            refused
                .filter_map(|(n, request)| Some((n, request.refused.as_ref()?)))
                .filter(|(_, refusal)| !refusal.switched)
                .map(|(n, refusal)| format!("request {n}: {refusal}"))
                .collect()
        })
    }

    /// Fails when a request broke a rule of the API or came without an answer in the script.
    pub fn assert_no_violations(&self) {
        let violations = self.violations();
        assert!(violations.is_empty(), "the scripted model refused:\n{}", violations.join("\n"));
    }

    /// Lets this server be dropped although it refused requests.
    pub fn expect_violations(&self) {
        self.shared.seen.update(|seen| seen.violations_expected = true);
    }
}

impl Drop for ScriptedModel {
    fn drop(&mut self) {
        let _ = self.stop.send(true);
        if let Some(thread) = self.thread.take() {
            let ended = thread.join();
            assert!(ended.is_ok() || std::thread::panicking(), "the scripted model's thread panicked");
        }
        let expected = self.shared.seen.read(|seen| seen.violations_expected);
        if !expected && !std::thread::panicking() {
            self.assert_no_violations();
        }
    }
}
