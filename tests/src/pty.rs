//! A terminal for programs that want one: what a person sees and types.
//!
//! The text kept here is the raw stream, control sequences included; [`Terminal::text`] strips them. There is no
//! screen model: the line mode of `attach` needs none, and a test of a full screen should bring its own.

use crate::deadline::Deadline;
use crate::process;
use crate::watched::Watched;
use rustix::process::Signal;
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};
use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

/// A program on its own terminal. Killed when dropped.
#[derive(Debug)]
pub struct Terminal {
    child: Child,
    master: File,
    output: Arc<Watched<(Vec<u8>, bool)>>,
    shown: String,
}

impl Terminal {
    /// Runs `command` (its program, arguments, environment and folder) on a new terminal of this size.
    ///
    /// The program is started through `setsid --ctty`, which makes the terminal its controlling one and then
    /// becomes the program: the process id stays.
    pub fn spawn(command: &Command, columns: u16, rows: u16) -> Self {
        let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC)
            .expect("a pseudo terminal");
        grantpt(&master).expect("the terminal can be granted");
        unlockpt(&master).expect("the terminal can be unlocked");
        let name = ptsname(&master, Vec::new()).expect("the terminal has a name");
        resize_fd(&master, columns, rows);
        let path = std::path::Path::new(std::ffi::OsStr::from_bytes(name.as_bytes()));
        let slave = File::options().read(true).write(true).open(path).expect("the terminal can be opened");
        let mut started = Command::new("setsid");
        started.arg("--ctty").arg(command.get_program()).args(command.get_args());
        started.env_clear();
        started.envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
        if let Some(folder) = command.get_current_dir() {
            started.current_dir(folder);
        }
        let again = |file: &File| Stdio::from(file.try_clone().expect("a descriptor can be cloned"));
        let child = started
            .stdin(again(&slave))
            .stdout(again(&slave))
            .stderr(Stdio::from(slave))
            .spawn()
            .expect("setsid (util-linux) starts");
        let output = Arc::new(Watched::new((Vec::new(), false)));
        let master = File::from(master);
        let reading = master.try_clone().expect("a descriptor can be cloned");
        let filled = Arc::clone(&output);
        std::thread::spawn(move || read_on(reading, &filled));
        let shown = format!("{command:?}");
        Self { child, master, output, shown }
    }

    /// Types `keys`, control characters as they are (`\r` is Enter, `\x03` is Ctrl-C).
    pub fn send(&mut self, keys: &str) {
        self.master.write_all(keys.as_bytes()).unwrap_or_else(|error| panic!("{}: {error}", self.shown));
    }

    /// Changes the size; the program gets SIGWINCH.
    pub fn resize(&self, columns: u16, rows: u16) {
        resize_fd(&self.master, columns, rows);
    }

    /// The raw bytes so far.
    pub fn raw(&self) -> Vec<u8> {
        self.output.read(|(bytes, _)| bytes.clone())
    }

    /// The text so far, without control sequences.
    pub fn text(&self) -> String {
        plain(&self.raw())
    }

    /// Waits until the text contains `wanted`, and returns all of it.
    #[track_caller]
    pub fn wait_for_text(&self, wanted: &str, deadline: Deadline) -> String {
        let found = self.output.wait(deadline, |(bytes, _)| {
            let text = plain(bytes);
            text.contains(wanted).then_some(text)
        });
        found.unwrap_or_else(|| {
            panic!(
                "{wanted:?} did not appear within {:?} on\n{}\n---\n{}",
                deadline.allowed(),
                self.shown,
                self.text()
            )
        })
    }

    /// Its process id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Sends it a signal.
    pub fn signal(&self, signal: Signal) {
        process::signal(self.child.id(), signal);
    }

    /// Kills it, as `kill -9` does.
    pub fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// Waits for its end and returns its exit code.
    #[track_caller]
    pub fn wait(&mut self, deadline: Deadline) -> Option<i32> {
        match process::wait_child(&mut self.child, deadline) {
            Some(status) => status.code(),
            None => panic!("did not end within {:?}: {}\n{}", deadline.allowed(), self.shown, self.text()),
        }
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        self.kill();
    }
}

fn read_on(mut master: File, filled: &Watched<(Vec<u8>, bool)>) {
    let mut buffer = [0_u8; 8192];
    // EIO says that the last holder of the terminal is gone.
    while let Ok(read @ 1..) = master.read(&mut buffer) {
        filled.update(|(bytes, _)| bytes.extend_from_slice(&buffer[..read]));
    }
    filled.update(|(_, closed)| *closed = true);
}

fn resize_fd(terminal: impl AsFd, columns: u16, rows: u16) {
    let size = Winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
    tcsetwinsize(terminal, size).expect("a terminal has a size");
}

/// Text without escape sequences and carriage returns.
fn plain(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    let mut out = String::new();
    let mut chars = text.chars().peekable();
    while let Some(char) = chars.next() {
        match char {
            '\u{1b}' => match chars.next() {
                // CSI: up to its final byte. OSC: up to BEL or ST.
                Some('[') => while chars.next().is_some_and(|next| !('\u{40}'..='\u{7e}').contains(&next)) {},
                Some(']') => {
                    while let Some(next) = chars.next() {
                        if next == '\u{7}' || (next == '\u{1b}' && chars.next_if_eq(&'\\').is_some()) {
                            break;
                        }
                    }
                }
                _ => {}
            },
            '\r' => {}
            other => out.push(other),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Terminal {
        let mut command = Command::new("/bin/sh");
        command.args(["-c", script]).env("PATH", "/usr/bin:/bin");
        Terminal::spawn(&command, 100, 30)
    }

    #[test]
    fn a_program_has_a_terminal_of_its_own_and_is_answered() {
        let mut terminal =
            shell("tty; stty size; printf 'name? '; read name </dev/tty; echo \"hello $name\"; exit 3");
        terminal.wait_for_text("30 100", Deadline::secs(10));
        terminal.wait_for_text("name? ", Deadline::secs(10));
        terminal.send("you\r");
        let text = terminal.wait_for_text("hello you", Deadline::secs(10));
        assert!(text.contains("/dev/pts/"), "{text}");
        assert_eq!(terminal.wait(Deadline::secs(10)), Some(3));
    }

    #[test]
    fn a_resize_and_a_key_reach_it_as_signals() {
        let mut terminal = shell(
            "trap 'stty size' WINCH; trap 'echo stopped; exit 0' INT; echo ready; while :; do sleep 0.05; done",
        );
        terminal.wait_for_text("ready", Deadline::secs(10));
        terminal.resize(80, 24);
        terminal.wait_for_text("24 80", Deadline::secs(10));
        terminal.send("\u{3}");
        terminal.wait_for_text("stopped", Deadline::secs(10));
        assert_eq!(terminal.wait(Deadline::secs(10)), Some(0));
    }

    #[test]
    fn control_sequences_are_not_text() {
        assert_eq!(plain(b"\x1b[1;31mred\x1b[0m\r\n\x1b]0;title\x07x\x1b]8;;u\x1b\\y"), "red\nxy");
    }
}
