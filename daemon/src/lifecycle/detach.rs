//! Leaving the terminal, and telling whoever started us how that went.
//!
//! The channel to the client is our stdout, a pipe that it made before it started us. It is put aside first, so
//! that nothing else can write into it; stderr stays on it until we are ready, so that a panic is heard.

use super::LifecycleError;
use crate::paths::Ready;
use rustix::process::DumpableBehavior;
use std::fs::{File, OpenOptions};
use std::io::{IsTerminal, Write};
use std::path::Path;

/// Tells how the start went, once.
pub(super) struct Announcer {
    channel: Option<File>,
    detached: bool,
}

fn system(what: &'static str) -> impl FnOnce(rustix::io::Errno) -> LifecycleError {
    move |errno| LifecycleError::System { what, why: std::io::Error::from(errno).to_string() }
}

/// Leaves the terminal when asked to, and closes the door to debuggers: keys will be in our memory.
pub(super) fn begin(detached: bool) -> Result<Announcer, LifecycleError> {
    // Where the system does not have it there is nothing to close.
    let _ = rustix::process::set_dumpable_behavior(DumpableBehavior::NotDumpable);
    if !detached {
        return Ok(Announcer::foreground());
    }
    // A client may itself have been started with descriptors that somebody waits on; we would hold them for days.
    crate::process::close_inherited();
    let channel = rustix::io::fcntl_dupfd_cloexec(rustix::stdio::stdout(), 3)
        .map_err(system("keep the channel to the client"))?;
    let null = null()?;
    rustix::stdio::dup2_stdin(&null).map_err(system("let go of stdin"))?;
    rustix::stdio::dup2_stdout(&null).map_err(system("let go of stdout"))?;
    // Fails only for a leader of a group, which has no terminal to lose to us.
    let _ = rustix::process::setsid();
    rustix::process::chdir("/").map_err(system("change to /"))?;
    Ok(Announcer { channel: Some(File::from(channel)), detached: true })
}

fn null() -> Result<File, LifecycleError> {
    let path = Path::new("/dev/null");
    OpenOptions::new().read(true).write(true).open(path).map_err(LifecycleError::file("open", path))
}

impl Announcer {
    /// Of a daemon in the foreground: people read what it says.
    pub(super) const fn foreground() -> Self {
        Self { channel: None, detached: false }
    }

    /// Says it to the client that waits, if one does. After that the channel is closed.
    pub(super) fn say(&mut self, ready: &Ready) {
        if let Some(mut channel) = self.channel.take() {
            // A client that went away does not want to know.
            let _ = writeln!(channel, "{}", ready.to_line());
        }
    }

    /// We answer: stderr goes to a file from now on.
    pub(super) fn ready(&mut self, run_id: &str, logs: &Path) {
        if self.detached
            && let Err(error) = stderr_to(logs)
        {
            tracing::warn!(%error, "what is printed on stderr is lost");
        }
        self.say(&Ready::Ready { pid: std::process::id(), run_id: run_id.to_owned() });
    }

    /// We cannot run.
    pub(super) fn failed(&mut self, error: &LifecycleError) {
        let reason = error.to_string();
        if self.detached {
            self.say(&Ready::Failed { config: error.is_config(), reason });
        } else {
            self.complain(&reason);
        }
    }

    /// Says something to a person.
    pub(super) fn complain(&self, text: &str) {
        // Nobody is left to tell when stderr is closed.
        let _ = writeln!(std::io::stderr().lock(), "error: {text}");
    }

    /// Says on a terminal that we run, and how to end that.
    pub(super) fn greet(&self, socket: &Path) {
        if !self.detached && std::io::stderr().is_terminal() {
            let _ = writeln!(
                std::io::stderr().lock(),
                "agentd {} listens on {} (Ctrl-C ends it)",
                env!("CARGO_PKG_VERSION"),
                socket.display()
            );
        }
    }
}

/// Bytes of the file of stray words before it is begun anew.
const STRAY_MAX_BYTES: u64 = 1024 * 1024;

/// Whatever a library or a panic prints goes into a file that is begun anew when it has grown.
fn stderr_to(logs: &Path) -> Result<(), LifecycleError> {
    let path = logs.join("stderr.txt");
    let full = std::fs::metadata(&path).is_ok_and(|meta| meta.len() > STRAY_MAX_BYTES);
    let file = OpenOptions::new()
        .create(true)
        .append(!full)
        .write(true)
        .truncate(full)
        .open(&path)
        .map_err(LifecycleError::file("open", &path))?;
    rustix::stdio::dup2_stderr(&file).map_err(system("redirect stderr"))
}
