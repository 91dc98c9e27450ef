//! The server's own loop: accept, read, check, ask the script, send.

use super::answer::{Answer, Asked, Rendered};
use super::delivery::{Cut, Step};
use super::http::{RawRequest, head, read_request};
use super::refusal::Shape;
use super::{Dialect, Ledger, Received, Refusal, Rules, Shared, anthropic, models, openai};
use std::io;
use std::sync::{Arc, PoisonError};
use std::time::Instant;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::watch;

/// Runs until told to stop. Connections still open then are closed.
pub(super) fn run(listener: std::net::TcpListener, shared: Arc<Shared>, mut stopped: watch::Receiver<bool>) {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime for one thread");
    runtime.block_on(async move {
        let listener = tokio::net::TcpListener::from_std(listener).expect("a non-blocking listener");
        loop {
            tokio::select! {
                _ = stopped.wait_for(|stop| *stop) => return,
                accepted = listener.accept() => {
                    let Ok((stream, _)) = accepted else { return };
                    let shared = Arc::clone(&shared);
                    tokio::spawn(async move {
                        // A client may go at any time; what it missed is its own affair.
                        let _ = connection(stream, &shared).await;
                    });
                }
            }
        }
    });
    // Dropping the runtime drops every connection task with its socket.
}

/// What is left of a connection after an answer, and when the answer's last bytes went out if it came to its end.
enum After {
    KeepAlive(Instant),
    Closed(Option<Instant>),
}

async fn connection(stream: TcpStream, shared: &Shared) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let (read, mut write) = stream.into_split();
    let mut reader = BufReader::new(read);
    loop {
        reader.fill_buf().await?;
        let first_byte = Instant::now();
        let Some(raw) = read_request(&mut reader).await? else { return Ok(()) };
        if raw.method == "GET" && Dialect::of_path(raw.path()).is_none() {
            look_up(shared, Received::new(raw, first_byte), &mut write).await?;
            continue;
        }
        let (index, answer) = take(shared, Received::new(raw, first_byte));
        let after = tokio::select! {
            // In this order: a client that has the whole answer may send its next request before we are polled again.
            biased;
            after = send(&mut write, &answer) => after,
            () = hang_up(&mut reader) => {
                shared.seen.update(|seen| seen.requests[index].hung_up = true);
                return Ok(());
            }
        };
        shared.seen.update(|seen| match after {
            Ok(After::KeepAlive(at)) => seen.requests[index].sent_to_its_end(Some(at)),
            Ok(After::Closed(at)) => seen.requests[index].sent_to_its_end(at),
            Err(_) => seen.requests[index].hung_up = true,
        });
        match after? {
            After::KeepAlive(_) => {}
            After::Closed(_) => return Ok(()),
        }
    }
}

/// Answers what is not for the script.
async fn look_up(shared: &Shared, received: Received, write: &mut OwnedWriteHalf) -> io::Result<()> {
    let answer = {
        let script = shared.script.lock().unwrap_or_else(PoisonError::into_inner);
        models::look_up(&received.raw, script.models.as_ref(), &script.rules)
    };
    shared.seen.update(|seen| seen.lookups.push(received));
    send(write, &answer).await.map(|_| ())
}

/// Checks a request and decides about its answer. A refused request never reaches the script.
///
/// What is about to be sent goes into the ledger at once: a signature is valid from the moment it exists, even
/// if the stream that carries it is cut.
fn take(shared: &Shared, mut received: Received) -> (usize, Rendered) {
    let rules = shared.script.lock().unwrap_or_else(PoisonError::into_inner).rules.clone();
    let checked = shared.seen.read(|seen| check(&received.raw, &rules, &seen.ledger));
    let answer = checked.and_then(|dialect| {
        let answer = next_answer(shared, &received)?;
        let asked = Asked { dialect, request: &received.json, rules: &rules };
        answer.render(&asked).map_err(|wrong| broken_script(dialect, wrong))
    });
    shared.seen.update(|seen| {
        let answer = match answer {
            Ok(answer) => {
                if answer.status == 200 {
                    seen.ledger.record(received.dialect, &received.json, &answer.body);
                }
                answer
            }
            Err(refusal) => {
                seen.ledger.record_refusal(&refusal);
                let answer = Rendered::refusal(&refusal);
                received.refused = Some(refusal);
                answer
            }
        };
        seen.requests.push(received);
        (seen.requests.len() - 1, answer)
    })
}

fn check(raw: &RawRequest, rules: &Rules, ledger: &Ledger) -> Result<Dialect, Refusal> {
    let dialect = Dialect::of_path(raw.path()).ok_or_else(|| match models::dialect(raw) {
        Dialect::Anthropic => anthropic::not_found(),
        Dialect::OpenAi => openai::not_found(&raw.line()),
    })?;
    match dialect {
        Dialect::Anthropic => anthropic::check(raw, rules, ledger)?,
        Dialect::OpenAi => openai::check(raw, rules, ledger)?,
    }
    Ok(dialect)
}

fn next_answer(shared: &Shared, received: &Received) -> Result<Answer, Refusal> {
    let mut script = shared.script.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(answer) = script.queue.pop_front() {
        return Ok(answer);
    }
    match &mut script.responder {
        Some(responder) => Ok(responder(received)),
        None => Err(broken_script(
            received.dialect,
            format!("the script has no answer for {}", received.summary()),
        )),
    }
}

/// A mistake of the test, told to the client as an error of the server.
fn broken_script(dialect: Dialect, message: String) -> Refusal {
    match dialect {
        Dialect::Anthropic => Refusal::new(Shape::Anthropic, 500, "api_error", message),
        Dialect::OpenAi => Refusal::new(Shape::OpenAi, 500, "server_error", message),
    }
}

/// Returns when the client has closed its side. Bytes are the next request, which waits its turn.
async fn hang_up(reader: &mut BufReader<OwnedReadHalf>) {
    if let Ok([_, ..]) = reader.fill_buf().await {
        std::future::pending::<()>().await;
    }
}

async fn send(write: &mut OwnedWriteHalf, answer: &Rendered) -> io::Result<After> {
    if let Some(gate) = &answer.hold {
        gate.pass().await;
    }
    if answer.dropped {
        write.as_ref().set_zero_linger()?;
        return Ok(After::Closed(None));
    }
    let delivery = &answer.delivery;
    let framing = if delivery.until_close { "connection: close" } else { "transfer-encoding: chunked" };
    let mut written = Writer { write, size: delivery.write_size };
    written.put(&head(answer.status, &answer.headers, framing)).await?;
    for step in delivery.steps(&answer.body) {
        match step {
            Step::Send(piece) => written.piece(piece, delivery.until_close).await?,
            Step::Do(Cut::Close) => {
                written.write.shutdown().await?;
                return Ok(After::Closed(None));
            }
            Step::Do(Cut::Reset) => {
                written.write.as_ref().set_zero_linger()?;
                return Ok(After::Closed(None));
            }
            Step::Do(Cut::Stall(gate)) => gate.pass().await,
            Step::Do(Cut::Babble { text, every, gate }) => {
                let mut beat = tokio::time::interval(*every);
                loop {
                    tokio::select! {
                        () = gate.pass() => break,
                        _ = beat.tick() => written.piece(text.as_bytes(), delivery.until_close).await?,
                    }
                }
            }
        }
    }
    // Before the write: a client on another processor may act on the bytes before the write returns.
    let ending = Instant::now();
    if delivery.until_close {
        written.write.shutdown().await?;
        return Ok(After::Closed(Some(ending)));
    }
    written.put(b"0\r\n\r\n").await?;
    Ok(After::KeepAlive(ending))
}

/// Writes pieces in writes of a bounded size, each flushed on its own.
struct Writer<'a> {
    write: &'a mut OwnedWriteHalf,
    size: Option<usize>,
}

impl Writer<'_> {
    async fn piece(&mut self, piece: &[u8], until_close: bool) -> io::Result<()> {
        if until_close {
            return self.put(piece).await;
        }
        let mut chunk = format!("{:x}\r\n", piece.len()).into_bytes();
        chunk.extend_from_slice(piece);
        chunk.extend_from_slice(b"\r\n");
        self.put(&chunk).await
    }

    async fn put(&mut self, bytes: &[u8]) -> io::Result<()> {
        for part in bytes.chunks(self.size.unwrap_or(usize::MAX)) {
            self.write.write_all(part).await?;
            self.write.flush().await?;
        }
        Ok(())
    }
}
