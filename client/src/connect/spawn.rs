//! Starting a daemon, and hearing from itself how that went.
//!
//! The channel is a pipe that exists before the child does; it is the child's stdout and stderr until it is
//! ready. So there is nothing to poll, and whatever a loader or a panic prints is part of the reason.

use super::open::gave_up;
use crate::error::ClientError;
use agentd_proto::place::Place;
use agentd_proto::ready::Ready;
use std::ffi::OsString;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, BufReader};
use tokio::net::unix::pipe;
use tokio::time::{Instant, timeout_at};

/// Bytes of a failed start's own words that are kept.
const WORDS_MAX_BYTES: u64 = 16 * 1024;
/// Lines of them that are shown.
const WORDS_SHOWN_LINES: usize = 12;
/// What the daemon takes over from the environment of the client that happens to start it. Keys are not among
/// it: they belong to sessions.
const ENV_NAMES: &[&str] = &[
    "PATH",
    "HOME",
    "USER",
    "LOGNAME",
    "SHELL",
    "LANG",
    "LANGUAGE",
    "TZ",
    "TMPDIR",
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "ALL_PROXY",
    "NO_PROXY",
    "http_proxy",
    "https_proxy",
    "all_proxy",
    "no_proxy",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "DBUS_SESSION_BUS_ADDRESS",
    "RUST_BACKTRACE",
];

/// Starts a daemon and waits until it, or a faster one, answers.
pub(super) async fn spawn(place: &Place, deadline: Instant) -> Result<(), ClientError> {
    let failed = |what: &str, source: std::io::Error| ClientError::unreachable(what).because(source);
    let (reader, writer) =
        std::io::pipe().map_err(|error| failed("cannot make a pipe for the daemon", error))?;
    let child = command(place)
        .and_then(|mut command| {
            command.stdin(Stdio::null()).stdout(writer.try_clone()?).stderr(writer);
            command.spawn()
        })
        .map_err(|error| failed("cannot start the daemon", error))?;
    reap(child);
    let pipe = pipe::Receiver::from_owned_fd(OwnedFd::from(reader))
        .map_err(|error| failed("cannot read from the daemon", error))?;
    match timeout_at(deadline, listen(pipe)).await {
        Err(_) => Err(gave_up(place)),
        Ok(Heard::Said(Ready::Ready { .. } | Ready::LostRace)) => Ok(()),
        Ok(Heard::Said(Ready::Failed { config: true, reason })) => Err(ClientError::config(reason)),
        Ok(Heard::Said(Ready::Failed { config: false, reason })) => {
            Err(ClientError::unreachable(format!("the daemon cannot start: {reason}"))
                .hint(format!("its log: {}", place.logs_dir().display())))
        }
        Ok(Heard::Ended(words)) => Err(ended(place, &words)),
    }
}

fn ended(place: &Place, words: &str) -> ClientError {
    let lines: Vec<&str> = words.lines().collect();
    let shown = lines[lines.len().saturating_sub(WORDS_SHOWN_LINES)..].join("\n  ");
    let message = if shown.is_empty() {
        "the daemon ended before it was ready and said nothing".to_owned()
    } else {
        format!("the daemon ended before it was ready:\n  {shown}")
    };
    ClientError::unreachable(message)
        .hint("to see it start: agentctl daemon run")
        .hint(format!("its log: {}", place.logs_dir().display()))
}

enum Heard {
    Said(Ready),
    Ended(String),
}

async fn listen(pipe: pipe::Receiver) -> Heard {
    let mut reader = BufReader::new(pipe.take(WORDS_MAX_BYTES));
    let mut words = String::new();
    let mut line = Vec::new();
    loop {
        line.clear();
        match reader.read_until(b'\n', &mut line).await {
            Ok(read) if read > 0 => {}
            _ => return Heard::Ended(words),
        }
        let text = String::from_utf8_lossy(&line);
        match Ready::from_line(&text) {
            Some(said) => return Heard::Said(said),
            None => words.push_str(&text),
        }
    }
}

fn command(place: &Place) -> std::io::Result<Command> {
    let mut command = Command::new(own_binary()?);
    command.arg("daemon").arg("run").arg("--detached");
    if let Some(home) = &place.home {
        command.arg("--home").arg(home);
    }
    command.current_dir("/").env_clear();
    for (name, value) in std::env::vars_os() {
        if is_for_daemon(&name) {
            command.env(name, value);
        }
    }
    Ok(command)
}

fn is_for_daemon(name: &OsString) -> bool {
    let Some(name) = name.to_str() else { return false };
    ENV_NAMES.contains(&name)
        || name.starts_with("LC_")
        || name.starts_with("XDG_")
        || (name.starts_with("AGENTD_") && name != "AGENTD_SOCKET")
}

/// This program, also after an upgrade has put another file in its place.
fn own_binary() -> std::io::Result<PathBuf> {
    let path = std::env::current_exe()?;
    match path.as_os_str().as_bytes().strip_suffix(b" (deleted)") {
        Some(plain) if !path.exists() => Ok(PathBuf::from(OsString::from_vec(plain.to_vec()))),
        _ => Ok(path),
    }
}

/// Nobody waits for the daemon but the system; without this a dead one would stay a zombie of a long-lived client.
fn reap(mut child: std::process::Child) {
    std::thread::spawn(move || {
        // There is nothing to do about a child that cannot be waited for.
        let _ = child.wait();
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    async fn heard(text: &str) -> Heard {
        let (reader, mut writer) = std::io::pipe().unwrap();
        writer.write_all(text.as_bytes()).unwrap();
        drop(writer);
        listen(pipe::Receiver::from_owned_fd(OwnedFd::from(reader)).unwrap()).await
    }

    #[tokio::test]
    async fn the_line_is_found_among_words_and_words_are_kept_when_it_never_comes() {
        let said = heard("warning: odd\nagentd-start lost_race\nmore").await;
        assert!(matches!(said, Heard::Said(Ready::LostRace)));
        match heard("thread panicked\nat x").await {
            Heard::Ended(words) => assert_eq!(words, "thread panicked\nat x"),
            Heard::Said(other) => panic!("{other:?}"),
        }
    }

    #[test]
    fn keys_do_not_reach_the_daemon_through_its_environment() {
        assert!(!is_for_daemon(&OsString::from("ANTHROPIC_API_KEY")));
        assert!(!is_for_daemon(&OsString::from("AGENTD_SOCKET")));
        assert!(is_for_daemon(&OsString::from("AGENTD_HOME")));
        assert!(is_for_daemon(&OsString::from("XDG_RUNTIME_DIR")));
    }
}
