//! Data on stdout. A closed pipe becomes an error that says nothing and ends the command.

use crate::error::ClientError;
use crate::render::json;
use serde::Serialize;
use std::io::Write;

/// Prints one line and flushes it, so that a reader of a stream sees it now.
pub fn print_line(text: &str) -> Result<(), ClientError> {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{text}")?;
    out.flush()?;
    Ok(())
}

/// Prints one JSON document on one line.
pub fn print_json(value: &impl Serialize) -> Result<(), ClientError> {
    let text = json::line(value)
        .map_err(|source| ClientError::failed("the answer cannot be written as JSON").because(source))?;
    print_line(&text)
}

/// Returns when nobody reads stdout any more, also when nothing is printed. Never for a file.
pub(crate) async fn stdout_closed() {
    use rustix::event::{PollFd, PollFlags, poll};
    let (closed, told) = tokio::sync::oneshot::channel();
    // A thread of its own that nobody waits for: it ends with the process.
    let watch = move || loop {
        // An error and the end of the other side are reported without being asked for.
        match poll(&mut [PollFd::new(&std::io::stdout(), PollFlags::empty())], None) {
            Err(rustix::io::Errno::INTR) => {}
            Ok(ready) if ready > 0 => {
                let _ = closed.send(());
                return;
            }
            _ => return,
        }
    };
    let watching = std::thread::Builder::new().name("stdout".to_owned()).spawn(watch);
    if watching.is_err() || told.await.is_err() {
        std::future::pending::<()>().await;
    }
}

/// What a command comes to that is done, or whose reader is gone.
pub(crate) async fn while_read<T>(
    work: impl Future<Output = Result<T, ClientError>>,
) -> Result<T, ClientError> {
    tokio::select! {
        biased;
        done = work => done,
        () = stdout_closed() => Err(std::io::Error::from(std::io::ErrorKind::BrokenPipe).into()),
    }
}

/// Says something to the person, on stderr. Nobody may be left to read it; then nobody is told.
pub(crate) fn note(line: &str) {
    let _ = writeln!(std::io::stderr().lock(), "{line}");
}
