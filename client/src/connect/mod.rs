//! Reaching the daemon of a home: connect to the one that answers, or start one.
//!
//! Invariants: a client never removes a socket or a lock, whatever state it finds them in; every wait has a
//! deadline; the server's user id is checked before anything is sent.

mod env;
pub(crate) mod link;
mod open;
mod spawn;
pub(crate) mod stub;

pub use env::session_env;

use crate::cli::GlobalArgs;
use crate::error::ClientError;
use agentd_proto::place::Place;
use agentd_proto::v1::HelloResponse;
use agentd_proto::{PROTOCOL_MIN, PROTOCOL_VERSION};
use std::time::Duration;
use tokio::time::Instant;
use tonic::transport::Channel;

/// How long a client tries to find or start a daemon before it gives up. The daemon's own bound on becoming
/// ready is the same.
const CONNECT_DEADLINE: Duration = Duration::from_millis(10_000);
/// How long a daemon that accepted a connection may take to say Hello.
const HELLO_DEADLINE: Duration = Duration::from_millis(5_000);
/// How long to wait before a new try after a daemon went away under our hands.
const RETRY_PAUSE: Duration = Duration::from_millis(15);

/// A connection to a daemon that said Hello.
#[derive(Clone, Debug)]
pub struct Connection {
    /// For the clients that `stub` makes. It is bound to this one
    /// daemon and never reconnects by itself, because another run would not know this client.
    pub channel: Channel,
    /// Who answered.
    pub hello: HelloResponse,
    /// Where things are.
    pub place: Place,
}

impl Connection {
    /// Finds or starts a daemon again after this connection was lost. Everything but the place is new.
    pub async fn reconnect(&mut self) -> Result<(), ClientError> {
        *self = connect_at(self.place.clone()).await?;
        Ok(())
    }

    /// The daemon that answers now, if one does. None is started.
    pub(crate) async fn find_running(&self) -> Result<Option<Self>, ClientError> {
        match open::open(&self.place, Instant::now() + CONNECT_DEADLINE).await? {
            open::Opened::Nobody | open::Opened::WentAway => Ok(None),
            open::Opened::Connected(connection) => {
                check_protocol(&connection.hello)?;
                Ok(Some(*connection))
            }
        }
    }
}

/// Connects to the daemon of the home, starting one when none answers.
pub async fn connect(global: &GlobalArgs) -> Result<Connection, ClientError> {
    connect_at(Place::of_client(global.home.as_deref())?).await
}

/// Connects to the daemon of the home only if one runs, whatever protocol it speaks: for `status` and `stop`.
/// None when no daemon listens.
pub async fn connect_if_running(global: &GlobalArgs) -> Result<Option<Connection>, ClientError> {
    let place = Place::of_client(global.home.as_deref())?;
    place.check_socket_folder()?;
    let deadline = Instant::now() + CONNECT_DEADLINE;
    loop {
        match open::open(&place, deadline).await? {
            open::Opened::Nobody => return Ok(None),
            open::Opened::WentAway if Instant::now() < deadline => tokio::time::sleep(RETRY_PAUSE).await,
            open::Opened::WentAway => return Err(open::gave_up(&place)),
            open::Opened::Connected(connection) => return Ok(Some(*connection)),
        }
    }
}

async fn connect_at(place: Place) -> Result<Connection, ClientError> {
    place.check_socket_folder()?;
    let deadline = Instant::now() + CONNECT_DEADLINE;
    loop {
        match open::open(&place, deadline).await? {
            open::Opened::Connected(connection) => {
                check_protocol(&connection.hello)?;
                return Ok(*connection);
            }
            // A daemon that was ending when we came. The next try finds none, or its successor.
            open::Opened::WentAway if Instant::now() < deadline => tokio::time::sleep(RETRY_PAUSE).await,
            open::Opened::WentAway => return Err(open::gave_up(&place)),
            open::Opened::Nobody if place.socket_given => {
                return Err(ClientError::unreachable(format!(
                    "no daemon listens on {}, which AGENTD_SOCKET names",
                    place.socket.display()
                ))
                .hint("unset AGENTD_SOCKET to let agentctl start one"));
            }
            open::Opened::Nobody if Instant::now() < deadline => spawn::spawn(&place, deadline).await?,
            open::Opened::Nobody => return Err(open::gave_up(&place)),
        }
    }
}

/// A fresh id for a request that changes something; the same id sent again is answered with the first answer.
pub fn fresh_request_id() -> Result<String, ClientError> {
    let mut bytes = [0_u8; 16];
    getrandom::fill(&mut bytes)
        .map_err(|source| ClientError::failed("the system has no randomness").because(source.to_string()))?;
    Ok(bytes.iter().fold("q_".to_owned(), |mut text, byte| {
        text.push_str(&format!("{byte:02x}"));
        text
    }))
}

/// Refuses to go on with a daemon that could misunderstand us, and says both versions and the way out.
fn check_protocol(hello: &HelloResponse) -> Result<(), ClientError> {
    if hello.protocol_min <= PROTOCOL_VERSION && PROTOCOL_MIN <= hello.protocol_max {
        return Ok(());
    }
    let newer = if hello.protocol_min > PROTOCOL_VERSION { "newer" } else { "older" };
    let busy = hello.busy_sessions + hello.busy_jobs;
    let error = ClientError::unreachable(format!(
        "the running daemon is {newer} than this agentctl: daemon {} (pid {}) speaks protocol {} to {}, agentctl {} speaks {} to {}",
        hello.version,
        hello.pid,
        hello.protocol_min,
        hello.protocol_max,
        env!("CARGO_PKG_VERSION"),
        PROTOCOL_MIN,
        PROTOCOL_VERSION,
    ));
    let work = if busy == 0 {
        "it is idle".to_owned()
    } else {
        format!("it is at work on {busy} things, which go on after the restart")
    };
    Err(match newer {
        "older" => error.hint(format!("agentctl daemon restart   ({work})")),
        _ => error
            .hint("use the agentctl that the daemon came with, or install its version".to_owned())
            .hint(format!("agentctl daemon restart   replaces it by this older one ({work})")),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn speaks(min: u32, max: u32) -> Result<(), ClientError> {
        check_protocol(&HelloResponse {
            protocol_min: min,
            protocol_max: max,
            version: "9.9.9".to_owned(),
            ..HelloResponse::default()
        })
    }

    #[test]
    fn another_protocol_is_refused_with_both_versions_and_the_fix() {
        assert!(speaks(PROTOCOL_MIN, PROTOCOL_VERSION + 5).is_ok());
        for error in [speaks(PROTOCOL_VERSION + 1, PROTOCOL_VERSION + 2), speaks(0, 0)] {
            let error = error.unwrap_err();
            assert_eq!(error.kind.exit_code(), 4);
            assert!(error.message.contains("9.9.9") && error.message.contains(env!("CARGO_PKG_VERSION")));
            assert!(error.hints.iter().any(|hint| hint.contains("daemon restart")));
        }
    }
}
