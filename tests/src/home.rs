//! A home of its own for each test: folders, environment, daemon.
//!
//! Invariants: no variable of the outside reaches a command but a fixed `PATH`. Nothing is left running when a
//! home is dropped; what is found then fails the test and is ended by its own process id.

use crate::cli::{Cli, Finished};
use crate::deadline::{Deadline, poll, try_poll};
use crate::events::{Event, Follower, parse_lines};
use crate::process;
use crate::scripted::{API_KEY, Dialect, ScriptedModel};
use rustix::process::Signal;
use serde_json::Value;
use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::Command;
use tempfile::TempDir;

/// The model that tests speak to.
pub const MODEL: &str = "anthropic/claude-sonnet-5-5";
/// The model that tests speak to in Chat Completions.
pub const CHAT_MODEL: &str = "openai/gpt-scripted";
/// How long a stopped daemon and its children have to be gone.
const GONE_SECS: u64 = 10;

/// The model that tests speak to in a dialect.
pub const fn model_name(dialect: Dialect) -> &'static str {
    match dialect {
        Dialect::Anthropic => MODEL,
        Dialect::OpenAi => CHAT_MODEL,
    }
}

/// A private home with a workspace. Dropping it stops its daemon and checks that nothing is left.
#[derive(Debug)]
pub struct TestHome {
    binary: PathBuf,
    // Dropped last: the folder must outlive what runs in it.
    root: PathBuf,
    env: BTreeMap<String, OsString>,
    folder: Option<TempDir>,
}

impl TestHome {
    /// A fresh home for the binary under test (see [`crate::binary`]).
    pub fn new(binary: PathBuf) -> Self {
        // Short, because a socket path has at most 107 bytes.
        let folder = tempfile::Builder::new().prefix("at-").tempdir_in("/tmp").expect("a folder in /tmp");
        let root = folder.path().canonicalize().expect("a fresh folder has a path");
        for name in ["agentd/config", "user", "tmp", "workspace"] {
            std::fs::create_dir_all(root.join(name)).expect("a folder in a fresh folder");
        }
        let mut home = Self { binary, root, env: BTreeMap::new(), folder: Some(folder) };
        let user = home.root.join("user");
        home.env("HOME", &user);
        for (name, inside) in [
            ("XDG_CONFIG_HOME", ".config"),
            ("XDG_DATA_HOME", ".local/share"),
            ("XDG_STATE_HOME", ".local/state"),
            ("XDG_CACHE_HOME", ".cache"),
            ("XDG_RUNTIME_DIR", ".run"),
        ] {
            home.env(name, user.join(inside));
        }
        home.env("TMPDIR", home.root.join("tmp"));
        home.env("AGENTD_HOME", home.agentd());
        home.env("PATH", "/usr/local/bin:/usr/bin:/bin");
        home.env("LANG", "C.UTF-8");
        home.env("TERM", "dumb");
        home
    }

    /// A home whose sessions speak to `model`.
    pub fn with_model(binary: PathBuf, model: &ScriptedModel) -> Self {
        let mut home = Self::new(binary);
        home.use_model(model);
        home
    }

    /// Points every later client at `model`, with quick retries.
    pub fn use_model(&mut self, model: &ScriptedModel) {
        self.env("ANTHROPIC_BASE_URL", model.base_url());
        self.env("ANTHROPIC_API_KEY", API_KEY);
        self.write_config(&format!("model = \"{MODEL}\"\n\n[retry]\nbase_ms = 20\nmax_ms = 100\n"));
    }

    /// A home whose sessions speak to `model` in this dialect; the other is set up as well.
    pub fn with_model_in(binary: PathBuf, dialect: Dialect, model: &ScriptedModel) -> Self {
        let mut home = Self::new(binary);
        home.use_model(model);
        home.env("OPENAI_BASE_URL", model.base_url_for(Dialect::OpenAi));
        home.env("OPENAI_API_KEY", API_KEY);
        home.configure(dialect, "");
        home
    }

    /// Writes a `config.toml` for sessions in this dialect with quick retries, and with what else is given.
    pub fn configure(&self, dialect: Dialect, more: &str) {
        let name = model_name(dialect);
        self.write_config(&format!(
            "model = \"{name}\"\n\n[retry]\nbase_ms = 20\nmax_ms = 100\n\n[models.\"{CHAT_MODEL}\"]\n\
             context_window = 200000\nmax_output_tokens = 32000\n{more}"
        ));
    }

    /// Sets a variable for every later command, and so for a daemon that one of them starts.
    pub fn env(&mut self, name: &str, value: impl AsRef<OsStr>) {
        self.env.insert(name.to_owned(), value.as_ref().to_owned());
    }

    /// Removes a variable from every later command.
    pub fn remove_env(&mut self, name: &str) {
        self.env.remove(name);
    }

    /// The folder that holds everything of this home.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// The home of agentd (`AGENTD_HOME`).
    pub fn agentd(&self) -> PathBuf {
        self.root.join("agentd")
    }

    /// The folder that sessions work in.
    pub fn workspace(&self) -> PathBuf {
        self.root.join("workspace")
    }

    /// The folder of running and unrecorded commands.
    pub fn jobs(&self) -> PathBuf {
        self.agentd().join("data/jobs")
    }

    /// Writes `config.toml`.
    pub fn write_config(&self, text: &str) {
        std::fs::write(self.agentd().join("config/config.toml"), text).expect("config.toml can be written");
    }

    /// Writes a file of the workspace, with its folders.
    pub fn write(&self, path: &str, content: impl AsRef<[u8]>) {
        let path = self.workspace().join(path);
        std::fs::create_dir_all(path.parent().expect("a file has a folder")).expect("folders can be made");
        std::fs::write(path, content).expect("a file of the workspace can be written");
    }

    /// Reads a file of the workspace; none when it is not there.
    pub fn read(&self, path: &str) -> Option<String> {
        std::fs::read(self.workspace().join(path))
            .ok()
            .map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
    }

    /// A command with this home's environment, in its workspace.
    pub fn command(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new(program);
        command.env_clear().envs(&self.env).current_dir(self.workspace());
        command
    }

    /// `agentctl` with these arguments, in the workspace.
    pub fn cli<S: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = S>) -> Cli {
        let args: Vec<OsString> = args.into_iter().map(|arg| arg.as_ref().to_owned()).collect();
        Cli::new(self.command(&self.binary), &args)
    }

    /// The binary under test.
    pub fn binary(&self) -> &Path {
        &self.binary
    }

    // ---- daemon ----------------------------------------------------------------------------------------

    /// Starts the daemon, or finds it running.
    pub fn start_daemon(&self) {
        self.cli(["daemon", "start"]).run().ok();
    }

    /// What `daemon status --json` says; none when no daemon answers.
    pub fn daemon_status(&self) -> Option<Value> {
        let status = self.cli(["daemon", "status", "--json"]).run();
        (status.code == Some(0)).then(|| status.json())
    }

    /// The process id of the daemon. Fails when none answers.
    #[track_caller]
    pub fn daemon_pid(&self) -> u32 {
        let status = self.daemon_status().expect("a daemon answers");
        status["pid"]
            .as_u64()
            .and_then(|pid| pid.try_into().ok())
            .unwrap_or_else(|| panic!("no pid in {status}"))
    }

    /// Kills the daemon as `kill -9` does and waits until it is gone. Returns its process id.
    #[track_caller]
    pub fn kill_daemon(&self) -> u32 {
        let pid = self.daemon_pid();
        self.kill(pid);
        pid
    }

    /// Kills one process of this home and waits until it is gone.
    #[track_caller]
    pub fn kill(&self, pid: u32) {
        assert!(self.processes().iter().any(|found| found.pid == pid), "{pid} is not a process of this home");
        process::signal(pid, Signal::KILL);
        assert!(process::wait_exit(pid, Deadline::secs(GONE_SECS)), "{pid} survived SIGKILL");
    }

    /// Every process that belongs to this home.
    pub fn processes(&self) -> Vec<process::Found> {
        process::belonging_to(&self.root)
    }

    /// Processes of this home whose command line contains `text`.
    pub fn processes_with(&self, text: &str) -> Vec<process::Found> {
        self.processes().into_iter().filter(|found| found.command.contains(text)).collect()
    }

    /// Waits until no process of this home has `text` in its command line.
    #[track_caller]
    pub fn wait_gone(&self, text: &str, deadline: Deadline) {
        let mut last = Vec::new();
        let gone = try_poll(deadline, || {
            last = self.processes_with(text);
            last.is_empty().then_some(())
        });
        assert!(gone.is_some(), "still running after {:?}: {last:#?}", deadline.allowed());
    }

    // ---- sessions --------------------------------------------------------------------------------------

    /// Makes a session (`new --json` and these arguments) and returns its id.
    #[track_caller]
    pub fn new_session<S: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = S>) -> String {
        let mut all: Vec<OsString> = vec!["new".into(), "--json".into()];
        all.extend(args.into_iter().map(|arg| arg.as_ref().to_owned()));
        let made = self.cli(all).run().ok().json();
        let id = made["id"].as_str().or(made["session"].as_str());
        id.unwrap_or_else(|| panic!("no id in {made}")).to_owned()
    }

    /// Sends an input (and returns once it is durable).
    #[track_caller]
    pub fn send(&self, session: &str, prompt: &str) -> Finished {
        self.cli(["send", session, prompt]).run().ok()
    }

    /// Sends an input and waits for the end of its turn.
    #[track_caller]
    pub fn send_and_wait(&self, session: &str, prompt: &str) -> Finished {
        self.cli(["send", session, prompt, "--wait"]).run()
    }

    /// The log of a session.
    #[track_caller]
    pub fn events(&self, session: &str) -> Vec<Event> {
        let read = self.cli(["events", session, "--json"]).run().ok();
        parse_lines(&read.stdout.lines().map(str::to_owned).collect::<Vec<_>>())
    }

    /// Follows the log of a session from after `after`.
    pub fn follow(&self, session: &str, after: u64) -> Follower {
        let after = after.to_string();
        Follower::new(self.cli(["events", session, "--after", &after, "--follow", "--json"]).spawn())
    }

    /// Waits for the first event of a session that `wanted` takes.
    #[track_caller]
    pub fn wait_for_event(
        &self,
        session: &str,
        what: &str,
        deadline: Deadline,
        wanted: impl Fn(&Event) -> bool,
    ) -> Event {
        self.follow(session, 0).wait_for(what, deadline, wanted)
    }

    /// Waits for the end of the `nth` turn of a session (from 1), and returns its status.
    #[track_caller]
    pub fn wait_for_turn_end(&self, session: &str, nth: usize, deadline: Deadline) -> String {
        let follower = self.follow(session, 0);
        let finished =
            follower.wait_for_nth("the end of the turn", nth, deadline, |event| event.is("turn_finished"));
        finished.text("status").to_owned()
    }

    /// One session as `show --json` gives it.
    #[track_caller]
    pub fn show(&self, session: &str) -> Value {
        self.cli(["show", session, "--json"]).run().ok().json()
    }

    /// Waits until `show --json` says this state.
    #[track_caller]
    pub fn wait_for_state(&self, session: &str, state: &str, deadline: Deadline) -> Value {
        poll(&format!("state {state} of {session}"), deadline, || {
            let shown = self.show(session);
            (shown["state"] == state).then_some(shown)
        })
    }

    // ---- end -------------------------------------------------------------------------------------------

    /// Ends the daemon and everything else of this home. Returns what had to be killed after the daemon had
    /// stopped.
    fn clear(&self) -> Vec<process::Found> {
        let processes = self.processes();
        if !processes.is_empty() {
            // Not `Cli::run`: this must not panic while a test that failed unwinds.
            let stop = self
                .command(&self.binary)
                .args(["daemon", "stop"])
                .stdin(std::process::Stdio::null())
                .output();
            drop(stop);
        }
        let quiet = try_poll(Deadline::secs(GONE_SECS), || self.processes().is_empty().then_some(()));
        if quiet.is_some() {
            return Vec::new();
        }
        let left = self.processes();
        for found in left.iter().filter(|found| found.state != 'Z') {
            process::signal(found.pid, Signal::KILL);
        }
        let _ = try_poll(Deadline::secs(GONE_SECS), || self.processes().is_empty().then_some(()));
        left
    }
}

impl Drop for TestHome {
    fn drop(&mut self) {
        let left = self.clear();
        if std::thread::panicking() {
            // The folder of a failed test is worth a look when somebody wants one.
            if std::env::var_os("AGENT_TESTS_KEEP").is_some()
                && let Some(folder) = self.folder.take()
            {
                eprintln!("kept: {}", folder.keep().display());
            }
            return;
        }
        assert!(left.is_empty(), "left running after the daemon had stopped:\n{left:#?}");
    }
}
