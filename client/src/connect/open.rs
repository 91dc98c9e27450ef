//! One try at a socket: connect, check whose it is, say Hello.

use super::{Connection, HELLO_DEADLINE, stub};
use crate::error::ClientError;
use agentd_proto::place::{Place, our_uid};
use agentd_proto::v1::HelloRequest;
use agentd_proto::{PROTOCOL_MIN, PROTOCOL_VERSION};
use hyper_util::rt::TokioIo;
use std::io::{self, ErrorKind};
use std::sync::{Arc, Mutex, PoisonError};
use tokio::net::UnixStream;
use tokio::time::{Instant, timeout_at};
use tonic::Code;
use tonic::transport::{Channel, Endpoint};

/// What came of a try.
pub(super) enum Opened {
    /// A daemon said Hello.
    Connected(Box<Connection>),
    /// Nothing listens there.
    Nobody,
    /// Something listened and ended before it answered, or cannot take us this moment.
    WentAway,
}

/// Tries once. A daemon that takes the connection and then stays silent is an error, not a reason to start
/// another: it holds the lock.
pub(super) async fn open(place: &Place, deadline: Instant) -> Result<Opened, ClientError> {
    let stream = match UnixStream::connect(&place.socket).await {
        Ok(stream) => stream,
        Err(error) => match error.kind() {
            // The second is also what a plain file at the path gives; the daemon says so when it starts.
            ErrorKind::NotFound | ErrorKind::ConnectionRefused => return Ok(Opened::Nobody),
            ErrorKind::WouldBlock | ErrorKind::ConnectionReset => return Ok(Opened::WentAway),
            _ => {
                return Err(ClientError::unreachable(format!(
                    "cannot connect to the daemon's socket {}",
                    place.socket.display()
                ))
                .because(error));
            }
        },
    };
    let server_pid = check_owner(&stream, place)?;
    let limit = deadline.min(Instant::now() + HELLO_DEADLINE);
    let silent = || {
        let who = server_pid.map_or_else(String::new, |pid| format!(" (pid {pid})"));
        let error = ClientError::unreachable(format!(
            "the daemon{who} took the connection on {} but does not answer",
            place.socket.display()
        ));
        match server_pid {
            Some(pid) => error
                .hint(format!("if it was stopped, let it go on: kill -CONT {pid}"))
                .hint(format!("if it hangs, end it; running commands survive: kill -9 {pid}")),
            None => error,
        }
    };
    let Ok(channel) = timeout_at(limit, channel_over(stream)).await else { return Err(silent()) };
    let Ok(channel) = channel else { return Ok(Opened::WentAway) };
    let mut client = stub::daemon(channel.clone());
    match timeout_at(limit, client.hello(hello_request())).await {
        Err(_) => Err(silent()),
        Ok(Ok(reply)) => Ok(Opened::Connected(Box::new(Connection {
            channel,
            hello: reply.into_inner(),
            place: place.clone(),
        }))),
        Ok(Err(status)) if status.code() == Code::PermissionDenied => Err(status.into()),
        Ok(Err(status)) => {
            let error = ClientError::from(status);
            if error.is_lost_connection() { Ok(Opened::WentAway) } else { Err(error) }
        }
    }
}

/// The error at the end of all tries.
pub(super) fn gave_up(place: &Place) -> ClientError {
    ClientError::unreachable(format!("no daemon of {} became ready in time", place.home_display().display()))
        .hint(format!("its log: {}", place.logs_dir().display()))
        .hint("to see it start: agentctl daemon run")
}

/// The server must be ours before it learns anything. Its process id, where the system tells it.
fn check_owner(stream: &UnixStream, place: &Place) -> Result<Option<u32>, ClientError> {
    let peer = stream
        .peer_cred()
        .map_err(|source| ClientError::unreachable("cannot learn whose socket this is").because(source))?;
    if peer.uid() == our_uid() {
        return Ok(peer.pid().and_then(|pid| u32::try_from(pid).ok()).filter(|pid| *pid != 0));
    }
    Err(ClientError::unreachable(format!(
        "what listens on {} belongs to user {}, not to user {}; nothing was sent to it",
        place.socket.display(),
        peer.uid(),
        our_uid()
    ))
    .hint("set AGENTD_HOME or AGENTD_SOCKET to a place of your own"))
}

/// A channel over exactly this stream. When it breaks the channel stays broken.
async fn channel_over(stream: UnixStream) -> Result<Channel, tonic::transport::Error> {
    let once = Arc::new(Mutex::new(Some(stream)));
    // Servers of other makes want an authority they can read; over a socket it means nothing.
    Endpoint::from_static("http://localhost")
        .connect_with_connector(tower::service_fn(move |_| {
            let taken = once.lock().unwrap_or_else(PoisonError::into_inner).take();
            async move { taken.map(TokioIo::new).ok_or_else(|| io::Error::from(ErrorKind::NotConnected)) }
        }))
        .await
}

fn hello_request() -> HelloRequest {
    HelloRequest {
        client_name: "agentctl".to_owned(),
        client_version: env!("CARGO_PKG_VERSION").to_owned(),
        pid: std::process::id(),
        protocol_min: PROTOCOL_MIN,
        protocol_max: PROTOCOL_VERSION,
    }
}
