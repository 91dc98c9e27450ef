//! The tools on real files: a workspace in a temporary folder, and a store in memory.

mod artifact_tests;
mod change_tests;
mod command_tests;
mod encoding_tests;
mod find_tests;
mod path_tests;
mod read_tests;
mod registry_tests;
mod search_oracle_tests;
mod search_tests;

use super::*;
use crate::ports::{
    Append, ArtifactRow, AuditRow, AuditVerdict, BlobSource, BlobStored, BoxFuture, FirstAnswer,
    ListedSession, SessionContext, StoreError, SummaryFilter,
};
use agentd_core::command::CallEnd;
use agentd_core::event::{
    Dialect, Event, ModelProfile, OnRestart, PermissionMode, Price, SandboxMode, Settings, ThinkingForm,
    TurnLimits, UnattendedApprovals,
};
use agentd_core::ids::{CallId, Seq, SessionId};
use agentd_core::projection::Summary;
use bytes::Bytes;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Blobs and artifacts in memory; a tool has no business with the rest.
#[derive(Default)]
pub(super) struct MemoryStore {
    blobs: Mutex<BTreeMap<String, Vec<u8>>>,
    artifacts: Mutex<BTreeMap<ArtifactId, ArtifactRow>>,
    fail_blobs: AtomicBool,
}

fn refused<T: Send + 'static>() -> BoxFuture<'static, Result<T, StoreError>> {
    Box::pin(async { Err(StoreError::Failed("tools do not do this".to_owned())) })
}

impl Store for MemoryStore {
    fn append(&self, _: Append) -> BoxFuture<'_, Result<(), StoreError>> {
        refused()
    }
    fn first_answer(&self, _: &str) -> BoxFuture<'_, Result<Option<FirstAnswer>, StoreError>> {
        refused()
    }
    fn events_after(&self, _: &SessionId, _: Seq, _: usize) -> BoxFuture<'_, Result<Vec<Event>, StoreError>> {
        refused()
    }
    fn events_before(
        &self,
        _: &SessionId,
        _: Seq,
        _: usize,
    ) -> BoxFuture<'_, Result<Vec<Event>, StoreError>> {
        refused()
    }
    fn last_seq(&self, _: &SessionId) -> BoxFuture<'_, Result<Option<Seq>, StoreError>> {
        refused()
    }
    fn find_sessions(&self, _: &str) -> BoxFuture<'_, Result<Vec<Summary>, StoreError>> {
        refused()
    }
    fn list(&self, _: SummaryFilter) -> BoxFuture<'_, Result<Vec<ListedSession>, StoreError>> {
        refused()
    }
    fn sessions_with_open_work(&self) -> BoxFuture<'_, Result<Vec<SessionId>, StoreError>> {
        refused()
    }
    fn session_of_request(&self, _: &str) -> BoxFuture<'_, Result<Option<SessionId>, StoreError>> {
        refused()
    }
    fn put_blob(&self, source: BlobSource) -> BoxFuture<'_, Result<BlobStored, StoreError>> {
        Box::pin(async move {
            if self.fail_blobs.load(Ordering::Relaxed) {
                return Err(StoreError::Full { path: "blobs.db".to_owned() });
            }
            let bytes = match source {
                BlobSource::Bytes(bytes) => bytes.to_vec(),
                BlobSource::File(path) => {
                    std::fs::read(path).map_err(|e| StoreError::Failed(e.to_string()))?
                }
            };
            let hash = text::hash(&bytes);
            let newlines = bytes.iter().filter(|byte| **byte == b'\n').count() as u64;
            let stored =
                BlobStored { hash: hash.clone(), size_bytes: bytes.len() as u64, line_count: newlines };
            self.blobs.lock().unwrap().insert(hash, bytes);
            Ok(stored)
        })
    }
    fn read_blob(
        &self,
        hash: &str,
        offset: u64,
        len: usize,
    ) -> BoxFuture<'_, Result<Option<Bytes>, StoreError>> {
        let blobs = self.blobs.lock().unwrap();
        let found = blobs.get(hash).map(|bytes| {
            let from = (offset as usize).min(bytes.len());
            Bytes::copy_from_slice(&bytes[from..(from + len).min(bytes.len())])
        });
        Box::pin(async move { Ok(found) })
    }
    fn artifact(&self, id: &ArtifactId) -> BoxFuture<'_, Result<Option<ArtifactRow>, StoreError>> {
        let found = self.artifacts.lock().unwrap().get(id).cloned();
        Box::pin(async move { Ok(found) })
    }
    fn artifacts(&self, _: &SessionId) -> BoxFuture<'_, Result<Vec<ArtifactRow>, StoreError>> {
        refused()
    }
    fn audit_after(
        &self,
        _: Option<&SessionId>,
        _: u64,
        _: usize,
    ) -> BoxFuture<'_, Result<Vec<AuditRow>, StoreError>> {
        refused()
    }
    fn verify_audit(&self) -> BoxFuture<'_, Result<AuditVerdict, StoreError>> {
        refused()
    }
}

struct Fixed(AtomicU64);

impl Clock for Fixed {
    fn now_ms(&self) -> i64 {
        1_700_000_000_000
    }
}

impl Entropy for Fixed {
    fn draw(&self) -> [u8; 16] {
        u128::from(self.0.fetch_add(1, Ordering::Relaxed)).to_be_bytes()
    }
}

/// A workspace with tools, and what its model has seen.
pub(super) struct Bench {
    pub(super) dir: tempfile::TempDir,
    pub(super) tools: Tools,
    pub(super) store: Arc<MemoryStore>,
    pub(super) mode: PermissionMode,
    pub(super) root: PathBytes,
    pub(super) cwd: PathBytes,
    pub(super) redactor: Arc<Redactor>,
    pub(super) seen: BTreeMap<PathBytes, String>,
    calls: AtomicU64,
}

pub(super) fn path_bytes(path: &Path) -> PathBytes {
    use std::os::unix::ffi::OsStrExt as _;
    PathBytes::new(path.as_os_str().as_bytes())
}

impl Bench {
    pub(super) fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        for folder in ["ws", "out", "scratch", "conf", "state", "run", "home"] {
            std::fs::create_dir(dir.path().join(folder)).unwrap();
        }
        let real = std::fs::canonicalize(dir.path()).unwrap();
        let store = Arc::new(MemoryStore::default());
        let fixed = Arc::new(Fixed(AtomicU64::new(1)));
        let tools = Tools {
            store: store.clone(),
            clock: fixed.clone(),
            entropy: fixed,
            run_id: RunId::new("d_test"),
            own: Arc::new(OwnFolders::new(["conf", "state", "run"].map(|folder| real.join(folder)))),
            scratch: real.join("scratch"),
            command_sandbox: NO_SANDBOX.to_owned(),
            places: Arc::default(),
        };
        let root = path_bytes(&real.join("ws"));
        Self {
            dir,
            tools,
            store,
            mode: PermissionMode::Workspace,
            cwd: root.clone(),
            root,
            redactor: Arc::new(Redactor::default()),
            seen: BTreeMap::new(),
            calls: AtomicU64::new(1),
        }
    }

    pub(super) fn at(&self, name: &str) -> PathBuf {
        std::fs::canonicalize(self.dir.path()).unwrap().join("ws").join(name)
    }

    pub(super) fn put(&self, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.at(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, content).unwrap();
        path
    }

    pub(super) fn get(&self, name: &str) -> Vec<u8> {
        std::fs::read(self.at(name)).unwrap()
    }

    pub(super) fn mode_of(&self, name: &str) -> u32 {
        std::fs::metadata(self.at(name)).unwrap().permissions().mode() & 0o7777
    }

    /// Names in the workspace folder, temp files too.
    pub(super) fn names(&self) -> Vec<String> {
        let mut names: Vec<String> = std::fs::read_dir(self.at("."))
            .unwrap()
            .map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned())
            .collect();
        names.sort();
        names
    }

    pub(super) fn call(&self, tool: &str, args: &Value) -> CallContext {
        let number = self.calls.fetch_add(1, Ordering::Relaxed);
        let settings = Settings {
            name: None,
            model: "demo/tour".to_owned(),
            mode: self.mode,
            sandbox: SandboxMode::WorkspaceWrite,
            attended: true,
            unattended_approvals: UnattendedApprovals::Deny,
            approvals_expire_ms: 0,
            on_restart: OnRestart::Wait,
            limits: TurnLimits::default(),
            record: false,
            results: agentd_core::event::ResultLimits::default(),
        };
        let profile = ModelProfile {
            provider: "demo".to_owned(),
            model: "tour".to_owned(),
            dialect: Dialect::Anthropic,
            context_window: 200_000,
            max_output_tokens: 8_000,
            thinking: ThinkingForm::Omit,
            parallel_tool_calls: true,
            cache_markers: true,
            price: Price::default(),
            price_unknown: false,
            chat: agentd_core::event::ChatForm::default(),
            window_is_guess: false,
        };
        CallContext {
            session: Arc::new(SessionContext {
                session_id: SessionId::new("s_test"),
                cwd: self.cwd.clone(),
                root: self.root.clone(),
                settings,
                profile: Arc::new(profile),
            }),
            call_id: CallId::new(format!("c_{number}")),
            tool: tool.to_owned(),
            args: Arc::from(serde_json::value::to_raw_value(args).unwrap()),
            effect: agentd_core::event::EffectClass::Unsafe,
            binding: None,
            job: None,
            attempt: 1,
            bounds: agentd_core::context::ResultBounds::default(),
            seen_files: Arc::new(self.seen.clone()),
        }
    }

    /// Inspects and runs, as if the decision were allow, and remembers what was seen.
    pub(super) async fn run(&mut self, tool: &str, args: Value) -> CallEnd {
        let mut ctx = self.call(tool, &args);
        match self.tools.inspect(&ctx, &self.redactor).await {
            Ok(found) => ctx.binding = found.binding,
            Err(fault) => return answer::from_fault(&ctx, fault),
        }
        let end = self.tools.run(&ctx, &self.redactor).await;
        self.remember(&end);
        end
    }

    pub(super) fn remember(&mut self, end: &CallEnd) {
        for seen in &end.seen {
            self.seen.insert(seen.path.clone(), seen.hash.clone());
        }
        for stored in &end.artifacts {
            let row = ArtifactRow {
                session_id: SessionId::new("s_test"),
                stored: stored.clone(),
                created_at_ms: 0,
            };
            self.store.artifacts.lock().unwrap().insert(stored.artifact_id.clone(), row);
        }
    }

    pub(super) async fn read(&mut self, path: &str) -> CallEnd {
        self.run("read_file", json!({ "path": path })).await
    }

    pub(super) async fn edit(&mut self, path: &str, old: &str, new: &str) -> CallEnd {
        self.run("edit_file", json!({ "path": path, "old": old, "new": new })).await
    }

    pub(super) async fn write(&mut self, path: &str, content: &str) -> CallEnd {
        self.run("write_file", json!({ "path": path, "content": content })).await
    }
}

pub(super) fn make_fifo(path: &Path) {
    rustix::fs::mkfifoat(rustix::fs::CWD, path, rustix::fs::Mode::RWXU).unwrap();
}
