//! Who is at the other end of a connection.
//!
//! Identity is the connection: user and process id come from the socket, the client's id is given when it is
//! accepted, and nothing a request says changes them. A process below one of our supervisors is a tool: it may
//! read, and nothing else, so that a command can neither approve itself nor start a freer agent. What a process
//! is, is asked once, when its connection is accepted and it still waits for us.

use super::status::refuse;
use agentd_core::event::Origin;
use agentd_core::ids::ClientId;
use agentd_proto::reason::Reason;
use std::fmt;
use std::pin::Pin;
use std::sync::{Arc, OnceLock, PoisonError, RwLock};
use std::task::{Context, Poll};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::UnixStream;
use tonic::transport::server::Connected;
use tonic::{Request, Status};

/// What a process is to us.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PeerKind {
    /// A program of the user.
    Program,
    /// Something that a tool call started, at any depth.
    Tool,
    /// It cannot be told: it is gone, or in another world of process ids.
    Unknown,
}

/// Tells what the process of a new connection is.
pub type Classify = Arc<dyn Fn(u32) -> PeerKind + Send + Sync>;

/// The other end of a connection.
#[derive(Clone)]
pub struct Peer {
    inner: Arc<Inner>,
}

struct Inner {
    uid: Option<u32>,
    pid: u32,
    client_id: ClientId,
    kind: OnceLock<PeerKind>,
    classify: Classify,
    hello: RwLock<Option<Greeting>>,
    _open: Option<OpenConnection>,
}

/// What Hello said.
#[derive(Clone, Debug)]
struct Greeting {
    label: String,
    speaks_ours: bool,
}

/// Counts a connection for as long as it lives.
pub struct OpenConnection(Arc<std::sync::atomic::AtomicUsize>);

impl OpenConnection {
    /// One more.
    pub fn count(counter: &Arc<std::sync::atomic::AtomicUsize>) -> Self {
        counter.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
        Self(counter.clone())
    }
}

impl Drop for OpenConnection {
    fn drop(&mut self) {
        self.0.fetch_sub(1, std::sync::atomic::Ordering::SeqCst);
    }
}

impl fmt::Debug for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (pid {}, uid {:?})", self.inner.client_id, self.inner.pid, self.inner.uid)
    }
}

/// A client that may change things.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Actor {
    /// The id of the connection.
    pub client_id: ClientId,
    /// What it calls itself.
    pub label: String,
    /// Its user.
    pub uid: u32,
    /// Its process.
    pub pid: u32,
}

impl Actor {
    /// With the label of one request, when it has one: a front end with several faces names the one it shows.
    #[must_use]
    pub fn labelled(mut self, label: &str) -> Self {
        let label = clean_label(label);
        if !label.is_empty() {
            self.label = label;
        }
        self
    }
    /// As the cause of events.
    pub fn origin(&self) -> Origin {
        Origin::Client {
            client_id: self.client_id.clone(),
            label: self.label.clone(),
            uid: self.uid,
            pid: self.pid,
        }
    }
}

/// Characters of a label; it is for people.
const LABEL_MAX_CHARS: usize = 64;

fn clean_label(text: &str) -> String {
    text.chars().filter(|c| !c.is_control()).take(LABEL_MAX_CHARS).collect::<String>().trim().to_owned()
}

impl Peer {
    /// The peer of an accepted connection.
    pub fn new(
        uid: Option<u32>,
        pid: u32,
        client_id: ClientId,
        classify: Classify,
        open: Option<OpenConnection>,
    ) -> Self {
        let inner = Inner {
            uid,
            pid,
            client_id,
            kind: OnceLock::new(),
            classify,
            hello: RwLock::new(None),
            _open: open,
        };
        Self { inner: Arc::new(inner) }
    }

    /// Its process id; 0 where the system does not tell.
    pub fn pid(&self) -> u32 {
        self.inner.pid
    }

    /// The id of the connection.
    pub fn client_id(&self) -> &ClientId {
        &self.inner.client_id
    }

    /// What it is. Asked at the first call, while the caller waits.
    pub fn kind(&self) -> PeerKind {
        *self.inner.kind.get_or_init(|| match self.inner.pid {
            0 => PeerKind::Unknown,
            pid => (self.inner.classify)(pid),
        })
    }

    /// Remembers what Hello said.
    pub(super) fn greet(&self, label: &str, speaks_ours: bool) {
        let greeting = Greeting { label: clean_label(label), speaks_ours };
        *self.inner.hello.write().unwrap_or_else(PoisonError::into_inner) = Some(greeting);
    }

    fn greeting(&self) -> Option<Greeting> {
        self.inner.hello.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Refuses peers of other users, before any service sees them.
    pub(super) fn admit(&self) -> Result<(), Status> {
        let us = crate::paths::our_uid();
        if self.inner.uid == Some(us) {
            return Ok(());
        }
        let who = self.inner.uid.map_or_else(|| "an unknown user".to_owned(), |uid| format!("user {uid}"));
        Err(refuse(Reason::PeerForeignUid, format!("this daemon serves user {us} only; you are {who}"))
            .status())
    }
}

fn peer_of<T>(request: &Request<T>) -> Result<&Peer, Status> {
    request.extensions().get::<Peer>().ok_or_else(|| {
        refuse(Reason::PeerForeignUid, "the connection has no owner that could be checked").status()
    })
}

/// The peer of a request that only reads.
pub fn reader<T>(request: &Request<T>) -> Result<&Peer, Status> {
    let peer = peer_of(request)?;
    speaks_ours(peer)?;
    Ok(peer)
}

/// The client behind a request that changes something. Tools are refused, and so is a process of which it
/// cannot be told that it is none.
pub fn require_actor<T>(request: &Request<T>) -> Result<Actor, Status> {
    let peer = peer_of(request)?;
    speaks_ours(peer)?;
    require_no_tool(peer)?;
    let label = peer.greeting().map(|greeting| greeting.label).filter(|label| !label.is_empty());
    Ok(Actor {
        client_id: peer.inner.client_id.clone(),
        label: label.unwrap_or_else(|| "unnamed client".to_owned()),
        uid: peer.inner.uid.unwrap_or_default(),
        pid: peer.inner.pid,
    })
}

/// As [`require_actor`], for the calls that clients of every protocol may make.
pub(super) fn require_any_version<T>(request: &Request<T>) -> Result<&Peer, Status> {
    let peer = peer_of(request)?;
    require_no_tool(peer)?;
    Ok(peer)
}

fn require_no_tool(peer: &Peer) -> Result<(), Status> {
    let message = match peer.kind() {
        PeerKind::Program => return Ok(()),
        PeerKind::Tool => {
            "a command that the agent runs may only read; it cannot approve, change or start anything"
        }
        PeerKind::Unknown => {
            "it cannot be told whether the calling process is a tool of the agent, so it may only read"
        }
    };
    tracing::warn!(pid = peer.inner.pid, kind = ?peer.kind(), "refused a change");
    Err(refuse(Reason::PeerIsATool, message).with("pid", peer.inner.pid).status())
}

/// A client that said Hello with a protocol we do not speak would act on fields it misunderstands.
fn speaks_ours(peer: &Peer) -> Result<(), Status> {
    match peer.greeting() {
        Some(greeting) if !greeting.speaks_ours => {
            let (min, max) = (agentd_proto::PROTOCOL_MIN, agentd_proto::PROTOCOL_VERSION);
            let message = format!(
                "this daemon is version {} and speaks protocol {min} to {max}, which this client does not",
                env!("CARGO_PKG_VERSION")
            );
            Err(refuse(Reason::ProtocolTooOld, message)
                .with("protocol_min", min)
                .with("protocol_max", max)
                .remedy("use client and daemon of one version: agentctl daemon restart")
                .status())
        }
        _ => Ok(()),
    }
}

/// A connection with its peer.
pub struct PeerStream {
    stream: UnixStream,
    peer: Peer,
}

impl PeerStream {
    /// Joins them.
    pub fn new(stream: UnixStream, peer: Peer) -> Self {
        Self { stream, peer }
    }
}

impl Connected for PeerStream {
    type ConnectInfo = Peer;
    fn connect_info(&self) -> Peer {
        self.peer.clone()
    }
}

impl AsyncRead for PeerStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buf)
    }
}

impl AsyncWrite for PeerStream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<std::io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, buf)
    }
    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }
    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[std::io::IoSlice<'_>],
    ) -> Poll<std::io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(cx, bufs)
    }
    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tonic_types::StatusExt;

    fn request(uid: Option<u32>, kind: PeerKind) -> Request<()> {
        let mut request = Request::new(());
        let peer = Peer::new(uid, 7, ClientId::new("k_1"), Arc::new(move |_| kind), None);
        request.extensions_mut().insert(peer);
        request
    }

    fn reason(status: &Status) -> String {
        status.get_error_details().error_info().unwrap().reason.clone()
    }

    #[test]
    fn tools_and_unknown_processes_read_and_do_not_change() {
        let us = Some(crate::paths::our_uid());
        for kind in [PeerKind::Tool, PeerKind::Unknown] {
            let request = request(us, kind);
            assert!(reader(&request).is_ok());
            assert_eq!(reason(&require_actor(&request).unwrap_err()), "PEER_IS_A_TOOL");
            assert!(require_any_version(&request).is_err());
        }
        let actor = require_actor(&request(us, PeerKind::Program)).unwrap();
        assert_eq!((actor.client_id.as_str(), actor.pid), ("k_1", 7));
    }

    #[test]
    fn other_users_and_unowned_connections_are_refused() {
        let foreign = request(Some(crate::paths::our_uid() + 1), PeerKind::Program);
        assert_eq!(reason(&peer_of(&foreign).unwrap().admit().unwrap_err()), "PEER_FOREIGN_UID");
        assert!(peer_of(&request(None, PeerKind::Program)).unwrap().admit().is_err());
        assert_eq!(reason(&require_actor(&Request::new(())).unwrap_err()), "PEER_FOREIGN_UID");
    }

    #[test]
    fn a_client_of_another_protocol_is_refused_everything_but_hello_and_stop() {
        let request = request(Some(crate::paths::our_uid()), PeerKind::Program);
        peer_of(&request).unwrap().greet("old\u{1b}[2J", false);
        assert_eq!(reason(&require_actor(&request).unwrap_err()), "PROTOCOL_TOO_OLD");
        assert!(reader(&request).is_err() && require_any_version(&request).is_ok());
        peer_of(&request).unwrap().greet("agentctl\u{1b}[2J", true);
        let actor = require_actor(&request).unwrap();
        assert_eq!(actor.label, "agentctl[2J");
        assert_eq!(actor.labelled("vscode").label, "vscode");
    }
}
