//! Lines typed by a person, read beside everything else.
//!
//! A thread of its own reads stdin, so that a reader that waits for a key never holds up the stream, and an
//! ending program never waits for it. Pasted text arrives as many lines at once and is one input.

use std::io::BufRead;
use std::time::Duration;
use tokio::sync::mpsc;

/// Lines that wait to be handled; a reader that is faster waits.
const WAITING_LINES_MAX: usize = 64;
/// The longest line that is taken.
const LINE_MAX_BYTES: u64 = 1 << 20;
/// Lines of a paste follow each other faster than this.
const PASTE_GAP: Duration = Duration::from_millis(25);

/// Lines as they are typed.
pub(crate) struct Typed {
    lines: mpsc::Receiver<String>,
    over: bool,
    /// A person types: only then many lines at once are a paste.
    terminal: bool,
    /// A line that was read with a paste but does not belong to it.
    kept: Option<String>,
}

impl Typed {
    /// Reads this process's stdin.
    pub(crate) fn stdin() -> Self {
        let terminal = rustix::termios::isatty(std::io::stdin());
        let (send, lines) = mpsc::channel(WAITING_LINES_MAX);
        // Nothing is lost when no thread can be had: there is just nothing typed.
        let started = std::thread::Builder::new().name("stdin".to_owned()).spawn(move || {
            read_lines(&mut std::io::stdin().lock(), &send);
        });
        Self { lines, over: started.is_err(), terminal, kept: None }
    }

    /// Nothing is ever typed.
    pub(crate) fn nothing() -> Self {
        let (_, lines) = mpsc::channel(1);
        Self { lines, over: true, terminal: false, kept: None }
    }

    /// Lines from elsewhere.
    #[cfg(test)]
    pub(crate) fn from_channel(lines: mpsc::Receiver<String>, terminal: bool) -> Self {
        Self { lines, over: false, terminal, kept: None }
    }

    /// A person types.
    pub(crate) const fn is_terminal(&self) -> bool {
        self.terminal
    }

    /// The next line; None once at the end. Never answers after that, so it can stay in a `select!`.
    pub(crate) async fn next(&mut self) -> Option<String> {
        if let Some(line) = self.kept.take() {
            return Some(line);
        }
        if self.over {
            std::future::pending::<()>().await;
        }
        let line = self.lines.recv().await;
        self.over = line.is_none();
        line
    }

    /// What follows `first` so fast that it was pasted with it: one text. `belongs` says what can be part of it.
    pub(crate) async fn with_paste(&mut self, first: String, belongs: impl Fn(&str) -> bool) -> String {
        let mut text = first;
        while self.terminal && !self.over {
            match tokio::time::timeout(PASTE_GAP, self.lines.recv()).await {
                Ok(Some(line)) if belongs(&line) => {
                    text.push('\n');
                    text.push_str(&line);
                }
                Ok(Some(line)) => {
                    self.kept = Some(line);
                    break;
                }
                // The end is said by the next `next`.
                Ok(None) | Err(_) => break,
            }
        }
        text
    }
}

fn read_lines(from: &mut impl BufRead, to: &mpsc::Sender<String>) {
    loop {
        let mut bytes = Vec::new();
        match std::io::Read::take(&mut *from, LINE_MAX_BYTES).read_until(b'\n', &mut bytes) {
            Ok(0) => return,
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(_) => return,
            Ok(_) => {
                let line = String::from_utf8_lossy(&bytes).trim_end_matches(['\n', '\r']).to_owned();
                if to.blocking_send(line).is_err() {
                    return;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_paste_is_one_text_and_a_command_ends_it() {
        let (send, lines) = mpsc::channel(8);
        for line in ["one", "two", "/quit"] {
            send.send(line.to_owned()).await.unwrap();
        }
        let mut typed = Typed::from_channel(lines, true);
        let first = typed.next().await.unwrap();
        assert_eq!(typed.with_paste(first, |line| !line.starts_with('/')).await, "one\ntwo");
        assert_eq!(typed.next().await.as_deref(), Some("/quit"));
        drop(send);
        assert_eq!(typed.next().await, None);
    }

    #[tokio::test]
    async fn a_pipe_gives_single_lines() {
        let (send, lines) = mpsc::channel(8);
        send.send("one".to_owned()).await.unwrap();
        send.send("two".to_owned()).await.unwrap();
        let mut typed = Typed::from_channel(lines, false);
        let first = typed.next().await.unwrap();
        assert_eq!(typed.with_paste(first, |_| true).await, "one");
        assert_eq!(typed.next().await.as_deref(), Some("two"));
    }

    #[test]
    fn bytes_that_are_not_text_do_not_end_the_reading() {
        let (send, mut lines) = mpsc::channel(8);
        read_lines(&mut std::io::Cursor::new(b"a\xff\r\nb".to_vec()), &send);
        assert_eq!(lines.blocking_recv().as_deref(), Some("a\u{fffd}"));
        assert_eq!(lines.blocking_recv().as_deref(), Some("b"));
    }
}
