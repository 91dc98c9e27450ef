//! One way to the daemon that everything in a command shares, and that is found again when it is lost.
//!
//! Invariant: whoever notices a loss names the generation it used; only the first of them dials again.

use crate::connect::Connection;
use crate::error::ClientError;
use agentd_proto::v1::HelloResponse;
use std::cell::RefCell;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use tonic::transport::Channel;

/// A daemon that answered.
#[derive(Clone, Debug)]
pub(crate) struct Opened {
    /// The way to it.
    pub(crate) channel: Channel,
    /// Who it is.
    pub(crate) hello: HelloResponse,
}

/// A future of a dial.
pub(crate) type Dialled<'a> = Pin<Box<dyn Future<Output = Result<Opened, ClientError>> + 'a>>;

/// A future of a look; nothing when no daemon answers.
pub(crate) type Looked<'a> = Pin<Box<dyn Future<Output = Result<Option<Opened>, ClientError>> + 'a>>;

/// Ways to the daemon.
pub(crate) trait Dial {
    /// Finds the daemon again, starting one if none answers. Has its own deadline.
    fn redial(&mut self) -> Dialled<'_>;
    /// Looks once for a daemon and never starts one.
    fn look(&mut self) -> Looked<'_>;
}

/// What came of a look for the successor of a daemon that was told to stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Successor {
    /// It is there; the link leads to it.
    Found,
    /// The one that stops still answers: it ends what it is at.
    NotYet,
    /// Nobody answers.
    Nobody,
}

impl Dial for Connection {
    fn redial(&mut self) -> Dialled<'_> {
        Box::pin(async move {
            self.reconnect().await?;
            Ok(Opened { channel: self.channel.clone(), hello: self.hello.clone() })
        })
    }

    fn look(&mut self) -> Looked<'_> {
        Box::pin(async move {
            let Some(found) = self.find_running().await? else { return Ok(None) };
            let opened = Opened { channel: found.channel.clone(), hello: found.hello.clone() };
            *self = found;
            Ok(Some(opened))
        })
    }
}

struct Now {
    opened: Opened,
    generation: u64,
}

struct Shared {
    now: RefCell<Now>,
    dial: tokio::sync::Mutex<Box<dyn Dial>>,
}

impl Shared {
    fn open(&self, opened: Opened) {
        let mut now = self.now.borrow_mut();
        now.opened = opened;
        now.generation += 1;
    }
}

/// The shared way to the daemon.
#[derive(Clone)]
pub(crate) struct Link {
    shared: Rc<Shared>,
}

impl From<Connection> for Link {
    fn from(connection: Connection) -> Self {
        let opened = Opened { channel: connection.channel.clone(), hello: connection.hello.clone() };
        Self::new(opened, Box::new(connection))
    }
}

impl Link {
    /// A link that is open now, and how to find it again.
    pub(crate) fn new(opened: Opened, dial: Box<dyn Dial>) -> Self {
        let now = RefCell::new(Now { opened, generation: 1 });
        Self { shared: Rc::new(Shared { now, dial: tokio::sync::Mutex::new(dial) }) }
    }

    /// The daemon as it is known now, and the generation of this knowledge.
    pub(crate) fn now(&self) -> (Opened, u64) {
        let now = self.shared.now.borrow();
        (now.opened.clone(), now.generation)
    }

    /// The channel as it is now, and its generation.
    pub(crate) fn channel(&self) -> (Channel, u64) {
        let (opened, generation) = self.now();
        (opened.channel, generation)
    }

    /// Dials again, unless somebody did since `lost_generation`.
    pub(crate) async fn renew(&self, lost_generation: u64) -> Result<(), ClientError> {
        let mut dial = self.shared.dial.lock().await;
        if self.shared.now.borrow().generation > lost_generation {
            return Ok(());
        }
        let opened = dial.redial().await?;
        self.shared.open(opened);
        Ok(())
    }

    /// Looks once for the daemon after the run that was lost, and starts none.
    pub(crate) async fn look_for_successor(
        &self,
        lost_generation: u64,
        lost_run_id: &str,
    ) -> Result<Successor, ClientError> {
        let mut dial = self.shared.dial.lock().await;
        if self.shared.now.borrow().generation > lost_generation {
            return Ok(Successor::Found);
        }
        match dial.look().await? {
            None => Ok(Successor::Nobody),
            Some(opened) if opened.hello.run_id == lost_run_id => Ok(Successor::NotYet),
            Some(opened) => {
                self.shared.open(opened);
                Ok(Successor::Found)
            }
        }
    }
}
