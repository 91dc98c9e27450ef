//! The word of a supervisor to the daemon that started it: the result, before it is on disk.
//!
//! A result is certain when the tree has ended; making it durable and leaving takes the supervisor longer than
//! many commands run. The daemon that hears the result makes it durable in its own log, so it need not wait for
//! that. One line on the supervisor's stdout, the record that goes into `result`, sent once.
//!
//! Invariant: the word is never the only evidence. It is sent whether or not somebody listens, the file is written
//! whether or not it was heard, and what was not heard whole is as if it had not been said: then the folder tells.

use super::job::{JobResult, record_line, result_of_line};
use std::process::ChildStdout;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, BufReader};
use tokio::net::unix::pipe::Receiver;

/// Longer than any result: its texts are a reason, an error and the end of stderr, escaped.
const LINE_MAX_BYTES: u64 = 32 * 1024;

/// Says a result. Best effort, and it never blocks: a stopped daemon must not hold its supervisors.
pub(super) fn say(result: &JobResult) {
    let Some(line) = record_line(result) else { return };
    let stdout = std::io::stdout();
    if rustix::io::ioctl_fionbio(&stdout, true).is_ok() {
        // Not through the buffer of `Stdout`: one write, whole or not at all for a reader.
        let _ = rustix::io::write(&stdout, &line);
    }
}

/// Hears the result; none when the supervisor ended without a word, or with one that is none.
pub(super) async fn hear(stdout: ChildStdout) -> Option<JobResult> {
    let pipe = Receiver::from_owned_fd(stdout.into()).ok()?;
    let mut line = Vec::new();
    BufReader::new(pipe.take(LINE_MAX_BYTES)).read_until(b'\n', &mut line).await.ok()?;
    result_of_line(line.strip_suffix(b"\n")?)
}
