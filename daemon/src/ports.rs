//! The seams between the wings of the daemon, and towards simulation: clock, entropy, store, effects.
//!
//! The session wing (`api` -> `session` -> `store`) and the effects wing (`effects` -> `tools`, `model` ->
//! `inspect`, `process`, `redact`) meet only here. `lifecycle` wires them.
//!
//! Invariants: a port speaks core types; no port knows protobuf or SQL. Every call that waits returns a future
//! that can be dropped.

use agentd_core::command::{CheckedCall, Report};
use agentd_core::event::{ArtifactStored, BlockCall, Event, ModelProfile, Settings};
use agentd_core::ids::{ArtifactId, CallId, ModelCallId, Seq, SessionId};
use agentd_core::model::listing::Described;
use agentd_core::path_bytes::PathBytes;
use agentd_core::projection::{AuditEntry, OpenWork, SessionState, Summary};
use bytes::Bytes;
use serde_json::value::RawValue;
use std::future::Future;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;
use tokio::sync::mpsc;

/// A boxed future, so that ports can be trait objects.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Wall time. The only place the session wing learns it from.
pub trait Clock: Send + Sync {
    /// Unix milliseconds now.
    fn now_ms(&self) -> i64;
}

/// Fresh randomness for ids and jitter.
pub trait Entropy: Send + Sync {
    /// Sixteen bytes never drawn before.
    fn draw(&self) -> [u8; 16];
}

// ---- store ---------------------------------------------------------------------------------------------

/// A mutation as its client named it, for answering a repetition with the first answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestClaim {
    /// The client's id of the request.
    pub request_id: String,
    /// The RPC.
    pub method: String,
    /// SHA-256 of what was asked; the same id with another content is refused.
    pub content_hash: [u8; 32],
    /// The answer, as bytes of the caller's own encoding.
    pub answer: Vec<u8>,
}

/// Events and all that is written with them in one transaction.
#[derive(Clone, Debug)]
pub struct Append {
    /// The session.
    pub session_id: SessionId,
    /// The last event the caller has folded; 0 for a new session.
    pub expected_seq: Seq,
    /// The events, numbered from `expected_seq + 1` without holes.
    pub events: Vec<Event>,
    /// The request that caused them, if a client did.
    pub claim: Option<RequestClaim>,
    /// Audit rows about them.
    pub audit: Vec<AuditEntry>,
    /// The new list row.
    pub summary: Summary,
    /// The new open work of the session; absent when unchanged.
    pub open_work: Option<Vec<OpenWork>>,
}

/// Why the store did not do it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StoreError {
    /// Somebody else appended first.
    #[error("session {session_id} is at event {current}, not at {expected}")]
    SeqConflict {
        /// The session.
        session_id: SessionId,
        /// What the caller said.
        expected: Seq,
        /// What is so.
        current: Seq,
    },
    /// The request id was used for something else.
    #[error("request id {0} was used before with another content")]
    RequestIdReused(String),
    /// The request id was used before for the same: nothing was written, and the first answer is the answer.
    #[error("request id {0} was answered before; its first answer holds")]
    RequestRepeated(String),
    /// No space.
    #[error("the disk that holds {path} is full; free space and resume the session")]
    Full {
        /// The database.
        path: String,
    },
    /// The writer stopped for good after an I/O error; reads go on.
    #[error("the store stopped writing after an I/O error: {0}; restart the daemon once the disk is mended")]
    Stopped(String),
    /// A row cannot be read.
    #[error("the store is damaged: {0}")]
    Corrupt(String),
    /// Anything else of SQLite.
    #[error("the store failed: {0}")]
    Failed(String),
}

/// A request id's first use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FirstAnswer {
    /// The RPC.
    pub method: String,
    /// SHA-256 of what was asked.
    pub content_hash: [u8; 32],
    /// The first answer.
    pub answer: Vec<u8>,
}

/// Which sessions a list wants.
#[derive(Clone, Debug, Default)]
pub struct SummaryFilter {
    /// Only of this folder.
    pub cwd: Option<PathBytes>,
    /// Only in this state.
    pub state: Option<SessionState>,
    /// Only changed after this revision.
    pub after_revision: Option<u64>,
    /// At most so many, the newest first.
    pub limit: usize,
}

/// A list row with its place in the order of all changes.
#[derive(Clone, Debug)]
pub struct ListedSession {
    /// The row.
    pub summary: Summary,
    /// The global number of its last change.
    pub revision: u64,
    /// Its open requests.
    pub requests: Vec<OpenWork>,
}

/// A stored artifact.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ArtifactRow {
    /// The session.
    pub session_id: SessionId,
    /// What the event said.
    pub stored: ArtifactStored,
    /// When, in Unix milliseconds.
    pub created_at_ms: i64,
}

/// An audit row as stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuditRow {
    /// Its number, from 1 without holes.
    pub audit_no: u64,
    /// What it says.
    pub entry: AuditEntry,
    /// SHA-256 over the row and the hash before it, in hex.
    pub hash: String,
}

/// What verifying the audit chain found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuditVerdict {
    /// Rows read.
    pub rows: u64,
    /// The first row whose hash does not follow from the one before.
    pub first_bad: Option<u64>,
}

/// What goes into the blob store.
#[derive(Clone, Debug)]
pub enum BlobSource {
    /// Bytes in memory.
    Bytes(Bytes),
    /// A file, read in chunks so that its size costs no memory.
    File(PathBuf),
}

/// A blob as stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BlobStored {
    /// SHA-256, in hex: its key.
    pub hash: String,
    /// Bytes.
    pub size_bytes: u64,
    /// Newlines, and one more if the end is not one.
    pub line_count: u64,
}

/// The log, its projections, and the content beside it.
pub trait Store: Send + Sync {
    /// Appends in one transaction and answers after its commit; on disk first when an event is a barrier.
    fn append(&self, append: Append) -> BoxFuture<'_, Result<(), StoreError>>;
    /// The first use of a request id.
    fn first_answer(&self, request_id: &str) -> BoxFuture<'_, Result<Option<FirstAnswer>, StoreError>>;
    /// Up to `limit` events after `after_seq`, in order. Large ones make a page shorter, never empty: only an empty
    /// page is the end.
    fn events_after(
        &self,
        id: &SessionId,
        after_seq: Seq,
        limit: usize,
    ) -> BoxFuture<'_, Result<Vec<Event>, StoreError>>;
    /// Up to `limit` events before `before_seq`, in order: the page that ends there; shorter as above.
    fn events_before(
        &self,
        id: &SessionId,
        before_seq: Seq,
        limit: usize,
    ) -> BoxFuture<'_, Result<Vec<Event>, StoreError>>;
    /// The last event's number; none when there is no such session.
    fn last_seq(&self, id: &SessionId) -> BoxFuture<'_, Result<Option<Seq>, StoreError>>;
    /// Sessions whose id is, or begins with, `text`, or whose name is `text`.
    fn find_sessions(&self, text: &str) -> BoxFuture<'_, Result<Vec<Summary>, StoreError>>;
    /// The list, newest change first.
    fn list(&self, filter: SummaryFilter) -> BoxFuture<'_, Result<Vec<ListedSession>, StoreError>>;
    /// Sessions with open work, for recovery.
    fn sessions_with_open_work(&self) -> BoxFuture<'_, Result<Vec<SessionId>, StoreError>>;
    /// The session in which a request (approval) is open or was, by its id or a unique beginning.
    fn session_of_request(&self, request_id: &str) -> BoxFuture<'_, Result<Option<SessionId>, StoreError>>;
    /// Stores content on disk; the same content is stored once.
    fn put_blob(&self, source: BlobSource) -> BoxFuture<'_, Result<BlobStored, StoreError>>;
    /// Bytes of a blob from `offset`, at most `len`; none when it is gone.
    fn read_blob(
        &self,
        hash: &str,
        offset: u64,
        len: usize,
    ) -> BoxFuture<'_, Result<Option<Bytes>, StoreError>>;
    /// One artifact.
    fn artifact(&self, id: &ArtifactId) -> BoxFuture<'_, Result<Option<ArtifactRow>, StoreError>>;
    /// The artifacts of a session.
    fn artifacts(&self, id: &SessionId) -> BoxFuture<'_, Result<Vec<ArtifactRow>, StoreError>>;
    /// Audit rows after `after_no`, of one session or of all.
    fn audit_after(
        &self,
        id: Option<&SessionId>,
        after_no: u64,
        limit: usize,
    ) -> BoxFuture<'_, Result<Vec<AuditRow>, StoreError>>;
    /// Walks the whole chain.
    fn verify_audit(&self) -> BoxFuture<'_, Result<AuditVerdict, StoreError>>;
}

// ---- effects -------------------------------------------------------------------------------------------

/// What the effects wing has to know of a session to act for it.
#[derive(Clone, Debug)]
pub struct SessionContext {
    /// The session.
    pub session_id: SessionId,
    /// The folder relative paths start from.
    pub cwd: PathBytes,
    /// The canonical root of the workspace.
    pub root: PathBytes,
    /// Its settings.
    pub settings: Settings,
    /// The model as it is spoken to.
    pub profile: Arc<ModelProfile>,
}

/// One tool call as the effects wing sees it.
#[derive(Clone, Debug)]
pub struct CallContext {
    /// Whose.
    pub session: Arc<SessionContext>,
    /// Which.
    pub call_id: CallId,
    /// The tool.
    pub tool: String,
    /// The arguments, valid by its schema.
    pub args: Arc<RawValue>,
    /// What it may do to the world.
    pub effect: agentd_core::event::EffectClass,
    /// What the call holds on to, once it was inspected.
    pub binding: Option<agentd_core::event::Binding>,
    /// The name of its job folder, once it was started.
    pub job: Option<String>,
    /// Which try this is, from 1; 0 before the first.
    pub attempt: u32,
    /// How much of its result may be shown.
    pub bounds: agentd_core::context::ResultBounds,
    /// Content hashes of the files that the model has seen, by resolved path.
    pub seen_files: Arc<std::collections::BTreeMap<PathBytes, String>>,
}

/// One thing to do, with all that is needed to do it.
#[derive(Clone, Debug)]
pub enum Launch {
    /// Send a request and decode the answer.
    CallModel {
        /// Whose.
        session: Arc<SessionContext>,
        /// The recorded call.
        model_call_id: ModelCallId,
        /// The body, built and validated by core.
        body: Bytes,
    },
    /// Gather facts.
    Inspect(CallContext),
    /// Run.
    Run(CallContext),
    /// Follow what runs already.
    Follow(CallContext),
    /// Stop what runs for the call; its run reports what there was.
    Stop(CallContext),
}

/// What an effect says while it runs.
#[derive(Clone, Debug)]
pub enum EffectMessage {
    /// A piece of the answer, for people who watch. Lossy.
    Delta(Delta),
    /// It is over.
    Report(Report),
}

/// A piece of something that is still being made. Not stored; the event that follows holds the whole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delta {
    /// What it belongs to.
    pub source: DeltaSource,
    /// Which block of the answer.
    pub block: u32,
    /// Where in the block its bytes begin.
    pub offset: u64,
    /// The text.
    pub text: String,
}

/// What a delta belongs to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DeltaSource {
    /// Text of a model's answer.
    Text(ModelCallId),
    /// Its thinking.
    Thinking(ModelCallId),
    /// Output of a running command.
    Output(CallId),
    /// A started call that waits for its workspace, and for whom.
    Waiting(CallId),
}

/// A running effect. Dropping it cancels what can be cancelled; a detached command goes on.
pub struct EffectHandle(Option<tokio::task::AbortHandle>);

impl EffectHandle {
    /// A handle that cancels a task when it is dropped.
    pub fn task(handle: tokio::task::AbortHandle) -> Self {
        Self(Some(handle))
    }
    /// A handle for something that needs no cancelling.
    pub fn none() -> Self {
        Self(None)
    }
}

impl Drop for EffectHandle {
    fn drop(&mut self) {
        if let Some(handle) = self.0.take() {
            handle.abort();
        }
    }
}

/// What there is to say about a call that was started by a run of the daemon that is gone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Evidence {
    /// It never began, and cannot begin any more by the old start.
    NotStarted {
        /// What shows it.
        why: String,
    },
    /// It runs.
    Running {
        /// Process id of its supervisor.
        pid: u32,
        /// Start time of that process in clock ticks since boot.
        start_ticks: u64,
        /// The boot it lives in.
        boot_id: String,
        /// Output bytes so far.
        bytes_seen: u64,
    },
    /// It ended; following it reports the result at once.
    Finished {
        /// What shows it.
        why: String,
    },
    /// It may or may not have happened.
    Unknown {
        /// What is known.
        why: String,
        /// What it had printed.
        output: Option<String>,
    },
}

/// The effects wing, as the session wing sees it.
pub trait Effects: Send + Sync {
    /// The schema check of calls: pure but for the compiled schemas, and quick.
    fn check(&self, calls: &[&BlockCall]) -> Vec<CheckedCall>;
    /// Begins one effect. It sends messages until its one report, or until the handle is dropped.
    fn launch(&self, launch: Launch, messages: mpsc::Sender<EffectMessage>) -> EffectHandle;
    /// Looks at the evidence of a started call. Wins the tombstone when there is no supervisor yet.
    fn evidence(&self, call: CallContext) -> BoxFuture<'_, Evidence>;
    /// The result of a started call is durable: its job folder may go.
    fn forget(&self, job: &str);
    /// The job folders that there are.
    fn jobs(&self) -> BoxFuture<'_, std::collections::BTreeSet<String>>;
    /// Deletes job folders that a former run had no time to delete.
    fn sweep(&self, jobs: std::collections::BTreeSet<String>);
    /// The tools as they are offered, without the disabled ones: an array of name, description and input schema, in a
    /// fixed order.
    fn tools(&self, disabled: &[String]) -> Result<Arc<RawValue>, serde_json::Error>;
    /// For whom a started call waits, in words, if it does.
    fn waits_for(&self, call: &CallId) -> Option<String>;
    /// Keeps the environment of a session's client, in memory only: keys and settings of its commands.
    fn keep_env(&self, session: &SessionId, env: std::collections::BTreeMap<String, String>);
}

// ---- judgement -----------------------------------------------------------------------------------------

/// What is to be judged as if a call of a session wanted it; nothing is done.
#[derive(Clone, Debug)]
pub struct Hypothetical {
    /// What it is about.
    pub subject: Subject,
    /// The canonical folder that is the workspace and the folder relative paths start from.
    pub folder: PathBytes,
    /// What may be done without asking.
    pub mode: agentd_core::event::PermissionMode,
    /// Judge commands as if the sandbox held on this machine.
    pub assume_sandbox: bool,
}

/// What a judgement is about.
#[derive(Clone, Debug)]
pub enum Subject {
    /// A path and what it would be used for.
    Path {
        /// By its bytes.
        path: PathBytes,
        /// Used for.
        op: agentd_core::event::PathOp,
    },
    /// A command line.
    Command(String),
    /// A call of a built-in tool, its arguments as JSON.
    Call {
        /// The tool.
        tool: String,
        /// Its arguments.
        args: Arc<RawValue>,
    },
}

/// What the judgement is.
#[derive(Clone, Debug)]
pub struct Judged {
    /// The decision, or in words why there is nothing to decide: no such thing, not a file, a loop of links.
    pub decision: Result<agentd_core::policy::Decision, String>,
    /// What it would do to the world.
    pub effect: agentd_core::event::EffectClass,
    /// The parts of a command, as far as they were understood.
    pub parts: Vec<agentd_core::event::CommandPart>,
}

/// Judges by the very code that calls are judged by.
pub trait Judge: Send + Sync {
    /// One judgement.
    fn judge(&self, what: Hypothetical) -> BoxFuture<'_, Judged>;
}

// ---- models --------------------------------------------------------------------------------------------

/// Limits that a server named when it refused a request for being beyond them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LearnedLimits {
    /// Tokens of prompt and answer together.
    pub window: Option<u64>,
    /// Tokens of one answer.
    pub output: Option<u32>,
}

/// What is heard of models while the daemon runs: from the lists of their servers, and from refusals.
pub trait ModelLists: Send + Sync {
    /// What the server that a client with this environment reaches named when it refused a request. Asks nobody.
    fn learned(
        &self,
        provider: &str,
        model: &str,
        env: &std::collections::BTreeMap<String, String>,
    ) -> LearnedLimits;
    /// What the model's server says of it, asked with the key of a client with this environment. None when it
    /// cannot be asked or says nothing; never waits longer than
    /// [`LISTING_TIMEOUT_MS`](agentd_core::limits::LISTING_TIMEOUT_MS).
    fn described<'a>(
        &'a self,
        provider: &'a str,
        model: &'a str,
        env: &'a std::collections::BTreeMap<String, String>,
    ) -> BoxFuture<'a, Option<Described>>;
    /// All models that a provider's server names, or in words why it could not be asked.
    fn listed<'a>(
        &'a self,
        provider: &'a str,
        env: &'a std::collections::BTreeMap<String, String>,
    ) -> BoxFuture<'a, Result<Vec<(String, Described)>, String>>;
}
