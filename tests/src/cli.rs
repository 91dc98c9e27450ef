//! Running `agentctl` as a script or a person does, with a deadline.

use crate::deadline::Deadline;
use crate::process;
use crate::watched::Watched;
use rustix::process::Signal;
use serde_json::Value;
use std::ffi::{OsStr, OsString};
use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::Arc;
use std::thread::JoinHandle;

/// How long a command has, unless a test says otherwise.
const DEFAULT_SECS: u64 = 30;
/// How long the pipes of a command may stay open after its exit.
const PIPES_CLOSE_SECS: u64 = 5;

/// One command to run. Made by [`crate::home::TestHome::cli`].
#[derive(Debug)]
pub struct Cli {
    command: Command,
    shown: String,
    stdin: Vec<u8>,
    deadline: Deadline,
}

impl Cli {
    pub(crate) fn new(mut command: Command, args: &[OsString]) -> Self {
        let words: Vec<String> = args.iter().map(|arg| arg.to_string_lossy().into_owned()).collect();
        command.args(args);
        Self {
            command,
            shown: format!("agentctl {}", words.join(" ")),
            stdin: Vec::new(),
            deadline: Deadline::secs(DEFAULT_SECS),
        }
    }

    /// What it reads from stdin; nothing without this.
    #[must_use]
    pub fn stdin(mut self, bytes: impl Into<Vec<u8>>) -> Self {
        self.stdin = bytes.into();
        self
    }

    /// Sets a variable of its environment.
    #[must_use]
    pub fn env(mut self, name: &str, value: impl AsRef<OsStr>) -> Self {
        self.command.env(name, value);
        self
    }

    /// Runs it in this folder.
    #[must_use]
    pub fn in_folder(mut self, folder: &std::path::Path) -> Self {
        self.command.current_dir(folder);
        self
    }

    /// How long it may take.
    #[must_use]
    pub fn within_secs(mut self, seconds: u64) -> Self {
        self.deadline = Deadline::secs(seconds);
        self
    }

    /// Runs it to its end. Fails when it does not end in time, or when something keeps its pipes open after it:
    /// a daemon that a client spawns must not hold the client's stdout.
    pub fn run(mut self) -> Finished {
        let mut child = self
            .command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap_or_else(|error| panic!("{}: {error}", self.shown));
        let stdout = read_all(child.stdout.take().expect("stdout is piped"));
        let stderr = read_all(child.stderr.take().expect("stderr is piped"));
        let mut stdin = child.stdin.take().expect("stdin is piped");
        let input = std::mem::take(&mut self.stdin);
        // On a thread: a child that does not read must not block the deadline. It may also end without reading.
        std::thread::spawn(move || stdin.write_all(&input).is_ok());
        let Some(status) = process::wait_child(&mut child, self.deadline) else {
            let _ = child.kill();
            let _ = child.wait();
            panic!(
                "{} did not end within {:?}\n--- stdout\n{}\n--- stderr\n{}",
                self.shown,
                self.deadline.allowed(),
                stdout.so_far(),
                stderr.so_far()
            );
        };
        let closed = Deadline::secs(PIPES_CLOSE_SECS);
        Finished {
            stdout: stdout.rest(closed, &self.shown),
            stderr: stderr.rest(closed, &self.shown),
            code: status.code(),
            signal: std::os::unix::process::ExitStatusExt::signal(&status),
            shown: self.shown,
        }
    }

    /// Starts it and leaves it running; its lines are collected.
    pub fn spawn(mut self) -> Running {
        let mut child = self
            .command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap_or_else(|error| panic!("{}: {error}", self.shown));
        let stdout = Lines::of(child.stdout.take().expect("stdout is piped"));
        let stderr = Lines::of(child.stderr.take().expect("stderr is piped"));
        let stdin = child.stdin.take();
        Running { child, stdin, stdout, stderr, shown: self.shown }
    }
}

struct Pipe {
    bytes: Arc<Watched<(Vec<u8>, bool)>>,
}

fn read_all(mut pipe: impl Read + Send + 'static) -> Pipe {
    let bytes = Arc::new(Watched::new((Vec::new(), false)));
    let filled = Arc::clone(&bytes);
    std::thread::spawn(move || {
        let mut buffer = [0_u8; 8192];
        while let Ok(read @ 1..) = pipe.read(&mut buffer) {
            filled.update(|(bytes, _)| bytes.extend_from_slice(&buffer[..read]));
        }
        filled.update(|(_, closed)| *closed = true);
    });
    Pipe { bytes }
}

impl Pipe {
    fn so_far(&self) -> String {
        self.bytes.read(|(bytes, _)| String::from_utf8_lossy(bytes).into_owned())
    }

    fn rest(&self, deadline: Deadline, shown: &str) -> String {
        let closed = self.bytes.wait(deadline, |(_, closed)| closed.then_some(()));
        assert!(
            closed.is_some(),
            "{shown} has ended, but something still holds its output open; so far:\n{}",
            self.so_far()
        );
        self.so_far()
    }
}

/// A command that ended.
#[derive(Clone, Debug)]
pub struct Finished {
    /// Its exit code; none when a signal ended it.
    pub code: Option<i32>,
    /// The signal that ended it.
    pub signal: Option<i32>,
    /// What it printed.
    pub stdout: String,
    /// What it said beside that.
    pub stderr: String,
    shown: String,
}

impl Finished {
    /// Fails unless the exit code is 0.
    #[track_caller]
    pub fn ok(self) -> Self {
        self.expect_code(0)
    }

    /// Fails unless the exit code is this.
    #[track_caller]
    pub fn expect_code(self, code: i32) -> Self {
        assert_eq!(self.code, Some(code), "exit code of {self}");
        self
    }

    /// Stdout as one JSON document.
    #[track_caller]
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.stdout)
            .unwrap_or_else(|error| panic!("not one JSON document ({error}): {self}"))
    }

    /// Stdout as one JSON document a line.
    #[track_caller]
    pub fn ndjson(&self) -> Vec<Value> {
        let parse =
            |line| serde_json::from_str(line).unwrap_or_else(|error| panic!("not NDJSON ({error}): {self}"));
        self.stdout.lines().map(parse).collect()
    }
}

impl std::fmt::Display for Finished {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { code, signal, stdout, stderr, shown } = self;
        write!(f, "{shown}\n--- code {code:?}, signal {signal:?}\n--- stdout\n{stdout}\n--- stderr\n{stderr}")
    }
}

/// The lines of a stream, as they come.
#[derive(Debug)]
pub struct Lines {
    read: Arc<Watched<(Vec<String>, bool)>>,
    _thread: JoinHandle<()>,
}

impl Lines {
    fn of(pipe: impl Read + Send + 'static) -> Self {
        let read = Arc::new(Watched::new((Vec::new(), false)));
        let filled = Arc::clone(&read);
        let thread = std::thread::spawn(move || {
            let mut pipe = BufReader::new(pipe);
            let mut line = Vec::new();
            while let Ok(1..) = pipe.read_until(b'\n', &mut line) {
                let text = String::from_utf8_lossy(&line).trim_end_matches(['\n', '\r']).to_owned();
                filled.update(|(lines, _)| lines.push(text));
                line.clear();
            }
            filled.update(|(_, closed)| *closed = true);
        });
        Self { read, _thread: thread }
    }

    /// All lines so far.
    pub fn all(&self) -> Vec<String> {
        self.read.read(|(lines, _)| lines.clone())
    }

    /// Waits until `look` finds something in the lines so far; `None` at the deadline.
    pub fn wait<R>(&self, deadline: Deadline, mut look: impl FnMut(&[String]) -> Option<R>) -> Option<R> {
        self.read.wait(deadline, |(lines, _)| look(lines))
    }

    /// Waits for the end of the stream.
    pub fn wait_closed(&self, deadline: Deadline) -> bool {
        self.read.wait(deadline, |(_, closed)| closed.then_some(())).is_some()
    }
}

/// A command that runs. Killed when dropped.
#[derive(Debug)]
pub struct Running {
    child: Child,
    stdin: Option<ChildStdin>,
    /// What it prints.
    pub stdout: Lines,
    /// What it says beside that.
    pub stderr: Lines,
    shown: String,
}

impl Running {
    /// Its process id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Writes to its stdin.
    pub fn write(&mut self, text: &str) {
        let stdin = self.stdin.as_mut().expect("stdin is open");
        stdin
            .write_all(text.as_bytes())
            .and_then(|()| stdin.flush())
            .unwrap_or_else(|error| panic!("{}: {error}", self.shown));
    }

    /// Closes its stdin.
    pub fn close_stdin(&mut self) {
        self.stdin = None;
    }

    /// Sends it a signal.
    pub fn signal(&self, signal: Signal) {
        process::signal(self.child.id(), signal);
    }

    /// Kills it, as `kill -9` does, and waits for its end.
    pub fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// Waits for its end and returns its exit code; none when a signal ended it.
    #[track_caller]
    pub fn wait(&mut self, deadline: Deadline) -> Option<i32> {
        match process::wait_child(&mut self.child, deadline) {
            Some(status) => {
                self.stdout.wait_closed(Deadline::secs(PIPES_CLOSE_SECS));
                status.code()
            }
            None => panic!("did not end within {:?}: {}", deadline.allowed(), self.so_far()),
        }
    }

    /// Waits for a line that contains `text` on stdout, and returns it.
    #[track_caller]
    pub fn wait_for_line(&self, text: &str, deadline: Deadline) -> String {
        self.stdout
            .wait(deadline, |lines| lines.iter().find(|line| line.contains(text)).cloned())
            .unwrap_or_else(|| {
                panic!("no line with {text:?} within {:?}: {}", deadline.allowed(), self.so_far())
            })
    }

    /// What there is of it, for failure messages.
    pub fn so_far(&self) -> String {
        let (out, err) = (self.stdout.all().join("\n"), self.stderr.all().join("\n"));
        format!("{}\n--- stdout\n{out}\n--- stderr\n{err}", self.shown)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.kill();
    }
}
