//! The socket of the daemon, and the connections that come in on it.

use super::LifecycleError;
use crate::api::peer::{Classify, OpenConnection, Peer, PeerStream};
use crate::paths::{Place, our_uid};
use crate::ports::{Clock, Entropy};
use agentd_core::ids::ClientId;
use agentd_core::limits::ACCEPT_REST_MS;
use std::fs::Permissions;
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::time::Duration;
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::mpsc;

/// Accepted connections that wait for the server.
const ACCEPTED_LEN: usize = 16;

/// A bound socket and the file it is.
pub(super) struct Bound {
    listener: UnixListener,
    file: SocketFile,
}

/// The file of a socket, told from others that may come to stand at its path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct SocketFile {
    path: PathBuf,
    inode: (u64, u64),
}

impl SocketFile {
    /// Whether clients that come by the path come to us.
    pub(super) fn is_still_there(&self) -> bool {
        std::fs::symlink_metadata(&self.path).is_ok_and(|meta| (meta.dev(), meta.ino()) == self.inode)
    }

    /// Removes it, if it is still ours. Called with the lock held.
    pub(super) fn remove(&self) {
        if self.is_still_there()
            && let Err(error) = std::fs::remove_file(&self.path)
        {
            tracing::warn!(%error, path = %self.path.display(), "the socket is left behind");
        }
    }
}

/// Binds the socket. Called with the lock held: then a socket of ours at the path is a left-over. Anything else
/// there is not ours to remove.
pub(super) fn bind(place: &Place) -> Result<Bound, LifecycleError> {
    let path = &place.socket;
    clear(path)?;
    // The folder lets nobody else in, so the moment between these two is of no use to anybody.
    let listener = UnixListener::bind(path).map_err(LifecycleError::file("bind the socket", path))?;
    std::fs::set_permissions(path, Permissions::from_mode(0o600))
        .map_err(LifecycleError::file("close the socket to others", path))?;
    let meta = std::fs::symlink_metadata(path).map_err(LifecycleError::file("look at the socket", path))?;
    let file = SocketFile { path: path.clone(), inode: (meta.dev(), meta.ino()) };
    Ok(Bound { listener, file })
}

fn clear(path: &Path) -> Result<(), LifecycleError> {
    let meta = match std::fs::symlink_metadata(path) {
        Ok(meta) => meta,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(LifecycleError::file("look at", path)(error)),
    };
    let kind = meta.file_type();
    let what = match () {
        () if kind.is_socket() && meta.uid() == our_uid() => {
            return std::fs::remove_file(path).map_err(LifecycleError::file("remove the stale socket", path));
        }
        () if kind.is_socket() => "another user's socket",
        () if kind.is_dir() => "a folder",
        () if kind.is_symlink() => "a symbolic link",
        () if kind.is_file() => "a file",
        () => "not a socket",
    };
    Err(LifecycleError::InTheWay { path: path.to_path_buf(), what })
}

/// What every new connection needs.
#[derive(Clone)]
pub(super) struct Reception {
    pub(super) clock: Arc<dyn Clock>,
    pub(super) entropy: Arc<dyn Entropy>,
    pub(super) classify: Classify,
    pub(super) open: Arc<AtomicUsize>,
    sender: mpsc::Sender<io::Result<PeerStream>>,
}

impl Reception {
    /// A reception, and the connections it takes in.
    pub(super) fn new(
        clock: Arc<dyn Clock>,
        entropy: Arc<dyn Entropy>,
        classify: Classify,
    ) -> (Self, mpsc::Receiver<io::Result<PeerStream>>) {
        let (sender, receiver) = mpsc::channel(ACCEPTED_LEN);
        (Self { clock, entropy, classify, open: Arc::default(), sender }, receiver)
    }

    /// Connections that are open.
    pub(super) fn open(&self) -> usize {
        self.open.load(std::sync::atomic::Ordering::SeqCst)
    }

    fn welcome(&self, stream: UnixStream) -> PeerStream {
        let cred = stream.peer_cred().ok();
        let pid = cred.and_then(|cred| cred.pid()).and_then(|pid| u32::try_from(pid).ok()).unwrap_or(0);
        let client_id =
            format!("{}{}", ClientId::PREFIX, super::system::fresh_id(&*self.clock, &*self.entropy));
        let peer = Peer::new(
            cred.map(|cred| cred.uid()),
            pid,
            ClientId::new(client_id),
            self.classify.clone(),
            Some(OpenConnection::count(&self.open)),
        );
        // Asked now, while the process still waits for us and its number is surely its own.
        peer.kind();
        PeerStream::new(stream, peer)
    }
}

/// A socket at which connections are taken in, until it is dropped.
pub(super) struct Acceptor {
    file: SocketFile,
    task: tokio::task::JoinHandle<()>,
}

impl Acceptor {
    /// Begins to take connections in.
    pub(super) fn start(bound: Bound, reception: Reception) -> Self {
        let Bound { listener, file } = bound;
        Self { file, task: tokio::spawn(accept(listener, reception)) }
    }

    /// The file of its socket.
    pub(super) fn file(&self) -> &SocketFile {
        &self.file
    }
}

impl Drop for Acceptor {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn accept(listener: UnixListener, reception: Reception) {
    let mut troubled = false;
    loop {
        match listener.accept().await {
            Ok((stream, _)) => {
                troubled = false;
                if reception.sender.send(Ok(reception.welcome(stream))).await.is_err() {
                    return;
                }
            }
            Err(error) => {
                // Mostly no descriptors are left. The connection stays in the queue; asking again at once spins.
                if !troubled {
                    tracing::warn!(%error, "cannot take a connection in (ulimit -n?); clients wait");
                }
                troubled = true;
                tokio::time::sleep(Duration::from_millis(ACCEPT_REST_MS)).await;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn home() -> (tempfile::TempDir, Place) {
        let temp = tempfile::tempdir().unwrap();
        let place = Place::of_daemon(Some(temp.path())).unwrap();
        place.prepare().unwrap();
        (temp, place)
    }

    #[tokio::test]
    async fn a_left_over_socket_is_replaced_and_closed_to_others() {
        let (_temp, place) = home();
        drop(std::os::unix::net::UnixListener::bind(&place.socket).unwrap());
        let bound = bind(&place).unwrap();
        assert_eq!(std::fs::metadata(&place.socket).unwrap().mode() & 0o777, 0o600);
        assert!(bound.file.is_still_there());
        let again = bind(&place).unwrap();
        assert!(!bound.file.is_still_there());
        bound.file.remove();
        assert!(again.file.is_still_there());
        again.file.remove();
        assert!(!place.socket.exists());
    }

    #[tokio::test]
    async fn what_is_not_our_socket_is_left_alone() {
        let (_temp, place) = home();
        std::fs::write(&place.socket, "precious").unwrap();
        assert!(matches!(bind(&place), Err(LifecycleError::InTheWay { what: "a file", .. })));
        assert_eq!(std::fs::read_to_string(&place.socket).unwrap(), "precious");
        std::fs::remove_file(&place.socket).unwrap();
        std::fs::create_dir(&place.socket).unwrap();
        assert!(matches!(bind(&place), Err(LifecycleError::InTheWay { what: "a folder", .. })));
        std::fs::remove_dir(&place.socket).unwrap();
        std::os::unix::fs::symlink("/dev/null", &place.socket).unwrap();
        assert!(matches!(bind(&place), Err(LifecycleError::InTheWay { what: "a symbolic link", .. })));
    }
}
