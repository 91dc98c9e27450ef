//! Where the demo plays: a home and a scratch workspace beside it, and the one process that may be killed.

use super::DemoFile;
use crate::error::ClientError;
use agentd_proto::v1::HelloResponse;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use std::fs::{self, DirBuilder, OpenOptions};
use std::io::Write;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// The demo's daemon ends by itself when nobody has used it for so long.
const IDLE_EXIT_S: u32 = 1_800;
/// How long a killed process may take to be gone.
const KILL_WAIT_S: i64 = 5;

/// Where the demo plays.
pub(super) struct Stage {
    /// The daemon's home.
    pub(super) home: PathBuf,
    /// The session's folder.
    pub(super) workspace: PathBuf,
}

impl Stage {
    /// Makes the folders and the files.
    pub(super) fn build(home: Option<PathBuf>, files: &[DemoFile]) -> Result<Self, ClientError> {
        let base = fresh_folder(&std::env::temp_dir())?;
        let home = match home {
            Some(home) => std::path::absolute(home)?,
            None => base.join("home"),
        };
        let workspace = base.join("workspace");
        make_folder(&workspace)?;
        for (path, content, mode) in files {
            write_file(&workspace.join(path), content, *mode)?;
        }
        let config = home.join("config");
        make_folder(&config)?;
        let config_file = config.join("config.toml");
        if !config_file.exists() {
            let text = format!("# Written by `agentctl demo`.\n[daemon]\nidle_exit_s = {IDLE_EXIT_S}\n");
            write_file(&config_file, &text, 0o600)?;
        }
        Ok(Self { home, workspace })
    }

    /// The commands to look around with.
    pub(super) fn commands(&self, session_id: &str) -> Vec<String> {
        let program = program();
        let home = quoted(&self.home.display().to_string());
        [
            (format!("attach {session_id}"), "the session, in this terminal"),
            (format!("events {session_id}"), "its log, as NDJSON"),
            (format!("context {session_id}"), "what fills its context, item by item"),
            (format!("audit ls {session_id}"), "what was asked, decided, run"),
            ("audit verify".to_owned(), "whether that trail is whole"),
            ("daemon stop".to_owned(), "end the demo's daemon"),
        ]
        .into_iter()
        .map(|(command, what)| format!("{program} --home {home} {command}   # {what}"))
        .chain([format!("cat {}", quoted(&self.workspace.join("greet.sh").display().to_string()))])
        .collect()
    }
}

/// Kills this daemon as kill -9 does, after making sure that it is ours and the one of this home.
pub(super) fn kill_daemon(hello: &HelloResponse) -> Result<(), ClientError> {
    let refuse =
        |why: &str| ClientError::failed(format!("the demo does not kill process {}: {why}", hello.pid));
    let pid = i32::try_from(hello.pid)
        .ok()
        .and_then(Pid::from_raw)
        .ok_or_else(|| refuse("that is no process id"))?;
    // The handle is taken first: what is checked then is what is killed.
    let process = pidfd_open(pid, PidfdFlags::empty()).map_err(std::io::Error::from)?;
    let folder = PathBuf::from(format!("/proc/{}", hello.pid));
    let owner = fs::metadata(&folder)?.uid();
    if owner != rustix::process::geteuid().as_raw() {
        return Err(refuse("it belongs to another user"));
    }
    let words = fs::read(folder.join("cmdline"))?;
    if !words.split(|byte| *byte == 0).any(|word| word == b"daemon") {
        return Err(refuse("its command line is not that of a daemon"));
    }
    pidfd_send_signal(&process, Signal::KILL).map_err(std::io::Error::from)?;
    let limit = Timespec { tv_sec: KILL_WAIT_S, tv_nsec: 0 };
    let mut waiting = [PollFd::new(&process, PollFlags::IN)];
    if poll(&mut waiting, Some(&limit)).map_err(std::io::Error::from)? == 0 {
        return Err(ClientError::failed(format!("process {} was killed but is not gone", hello.pid)));
    }
    Ok(())
}

fn fresh_folder(parent: &Path) -> Result<PathBuf, ClientError> {
    let mut bytes = [0_u8; 4];
    getrandom::fill(&mut bytes)
        .map_err(|source| ClientError::failed(format!("the system gives no random bytes: {source}")))?;
    let name = bytes.iter().fold("agentd-demo-".to_owned(), |name, byte| format!("{name}{byte:02x}"));
    let path = std::path::absolute(parent.join(name))?;
    // Not recursive: a folder that is there already is not ours.
    DirBuilder::new().mode(0o700).create(&path).map_err(|source| cannot_make(&path, source))?;
    Ok(path)
}

fn make_folder(path: &Path) -> Result<(), ClientError> {
    DirBuilder::new().recursive(true).mode(0o700).create(path).map_err(|source| cannot_make(path, source))
}

fn write_file(path: &Path, content: &str, mode: u32) -> Result<(), ClientError> {
    if let Some(folder) = path.parent() {
        make_folder(folder)?;
    }
    let mut options = OpenOptions::new();
    let mut file = options
        .write(true)
        .create_new(true)
        .mode(mode)
        .open(path)
        .map_err(|source| cannot_make(path, source))?;
    file.write_all(content.as_bytes()).map_err(|source| cannot_make(path, source))
}

fn cannot_make(path: &Path, source: std::io::Error) -> ClientError {
    ClientError::failed(format!("cannot make {} for the demo", path.display())).because(source)
}

/// How the person called us, if that is more than a name.
fn program() -> String {
    let called = std::env::args_os().next().unwrap_or_default();
    let path = Path::new(&called);
    let by_path = path.components().count() > 1;
    if by_path { quoted(&path.display().to_string()) } else { "agentctl".to_owned() }
}

/// A word for a shell.
fn quoted(word: &str) -> String {
    let plain = !word.is_empty()
        && word.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"/._-+@%:,=".contains(&byte));
    if plain { word.to_owned() } else { format!("'{}'", word.replace('\'', r"'\''")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_stage_has_the_files_and_a_private_home() {
        let stage = Stage::build(None, &[("a/b.sh", "exit 0\n", 0o755)]).unwrap();
        let file = stage.workspace.join("a/b.sh");
        assert_eq!(fs::read_to_string(&file).unwrap(), "exit 0\n");
        assert_eq!(fs::metadata(&file).unwrap().mode() & 0o100, 0o100);
        assert_eq!(fs::metadata(&stage.workspace).unwrap().mode() & 0o077, 0);
        assert!(!stage.home.starts_with(&stage.workspace) && !stage.workspace.starts_with(&stage.home));
        assert!(stage.commands("s_1").iter().any(|line| line.contains("attach s_1")));
        fs::remove_dir_all(stage.home.parent().unwrap()).unwrap();
    }

    #[test]
    fn words_for_a_shell_are_quoted() {
        assert_eq!(quoted("/tmp/a-b.c"), "/tmp/a-b.c");
        assert_eq!(quoted("/tmp/it's mine"), r"'/tmp/it'\''s mine'");
    }

    #[test]
    fn only_a_daemon_is_killed() {
        let mut child = std::process::Command::new("sleep").arg("30").spawn().unwrap();
        let hello = HelloResponse { pid: child.id(), ..Default::default() };
        let error = kill_daemon(&hello).unwrap_err();
        assert!(error.message.contains("not that of a daemon"), "{}", error.message);
        assert!(child.try_wait().unwrap().is_none());
        child.kill().unwrap();
        child.wait().unwrap();
    }
}
