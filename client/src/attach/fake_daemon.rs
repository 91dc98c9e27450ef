//! A daemon for tests: it answers over real gRPC what a script says, and keeps what it was asked.

use super::follow::FollowOptions;
use crate::connect::link::{Dial, Dialled, Link, Looked, Opened};
use crate::error::ClientError;
use agentd_proto::server::requests_server::{Requests, RequestsServer};
use agentd_proto::server::turns_server::{Turns, TurnsServer};
use agentd_proto::shared::AttachFrame;
use agentd_proto::v1;
use agentd_proto::v1::attach_response::Frame;
use prost::Message;
use std::collections::VecDeque;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio_stream::wrappers::{ReceiverStream, TcpListenerStream};
use tonic::transport::{Endpoint, Server};
use tonic::{Request, Response, Status};

/// What one attach is answered: frames, then an end; or frames, and then nothing more.
pub(crate) type Script = Vec<Result<Frame, Status>>;

#[derive(Default)]
struct Kept {
    scripts: VecDeque<Script>,
    attaches: Vec<v1::AttachRequest>,
    inputs: Vec<v1::SendInputRequest>,
    answers: Vec<v1::AnswerRequestRequest>,
    /// So many inputs are accepted and then the connection breaks before the answer.
    lost_answers: u32,
    live: Option<mpsc::Sender<Result<AttachFrame, Status>>>,
}

/// The scripted daemon; clones are the same one.
#[derive(Clone, Default)]
pub(crate) struct FakeDaemon(Arc<Mutex<Kept>>);

impl FakeDaemon {
    /// Answers each attach with the next of these.
    pub(crate) fn scripted(scripts: impl IntoIterator<Item = Script>) -> Self {
        let fake = Self::default();
        fake.kept().scripts.extend(scripts);
        fake
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Breaks so many connections right after an input was accepted.
    pub(crate) fn lose_answers(&self, count: u32) {
        self.kept().lost_answers = count;
    }

    /// What the attaches asked for.
    pub(crate) fn attaches(&self) -> Vec<v1::AttachRequest> {
        self.kept().attaches.clone()
    }

    /// The inputs that came.
    pub(crate) fn inputs(&self) -> Vec<v1::SendInputRequest> {
        self.kept().inputs.clone()
    }

    /// The answers that came.
    pub(crate) fn answers(&self) -> Vec<v1::AnswerRequestRequest> {
        self.kept().answers.clone()
    }

    /// Sends a frame on the last attach.
    pub(crate) async fn push(&self, frame: Frame) {
        let live = self.kept().live.clone().unwrap();
        live.send(Ok(on_the_wire(frame))).await.unwrap();
    }

    /// Listens on this runtime.
    pub(crate) async fn serve(&self) -> (SocketAddr, JoinHandle<()>) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let service = Server::builder()
            .add_service(TurnsServer::new(self.clone()))
            .add_service(RequestsServer::new(self.clone()))
            .serve_with_incoming(TcpListenerStream::new(listener));
        (address, tokio::spawn(async move { service.await.unwrap() }))
    }

    /// The way to what listens there.
    pub(crate) fn opened(address: SocketAddr, run_id: &str) -> Opened {
        let channel = Endpoint::from_shared(format!("http://{address}")).unwrap().connect_lazy();
        Opened { channel, hello: v1::HelloResponse { run_id: run_id.to_owned(), ..Default::default() } }
    }

    /// Listens, and how to get there.
    pub(crate) async fn listen(&self, run_id: &str) -> Opened {
        Self::opened(self.serve().await.0, run_id)
    }

    /// A link to it; each new dial finds it as another run.
    pub(crate) async fn link(&self) -> Link {
        let opened = self.listen("d_1").await;
        Link::new(opened, Box::new(Again { fake: self.clone(), dials: 1 }))
    }
}

struct Again {
    fake: FakeDaemon,
    dials: u32,
}

impl Dial for Again {
    fn redial(&mut self) -> Dialled<'_> {
        Box::pin(async move {
            self.dials += 1;
            Ok::<_, ClientError>(self.fake.listen(&format!("d_{}", self.dials)).await)
        })
    }

    fn look(&mut self) -> Looked<'_> {
        Box::pin(async move { self.redial().await.map(Some) })
    }
}

/// The frame as a server sends it: the wire form is the same.
fn on_the_wire(frame: Frame) -> AttachFrame {
    let bytes = v1::AttachResponse { frame: Some(frame) }.encode_to_vec();
    AttachFrame::decode(bytes.as_slice()).unwrap()
}

/// Follow everything of `s_1`.
pub(crate) fn everything() -> FollowOptions {
    FollowOptions {
        session_id: "s_1".to_owned(),
        after_seq: None,
        history: v1::History::Full,
        role: v1::AttachRole::Interactive,
        deltas: true,
        include_raw: false,
    }
}

/// An event with this number.
pub(crate) fn numbered(seq: u64) -> Result<Frame, Status> {
    Ok(Frame::Event(v1::Event { seq, kind: "files_changed".into(), ..Default::default() }))
}

#[tonic::async_trait]
impl Turns for FakeDaemon {
    async fn send_input(
        &self,
        request: Request<v1::SendInputRequest>,
    ) -> Result<Response<v1::SendInputResponse>, Status> {
        let mut kept = self.kept();
        kept.inputs.push(request.into_inner());
        if kept.lost_answers > 0 {
            kept.lost_answers -= 1;
            return Err(Status::unavailable("transport error: the daemon died"));
        }
        Ok(Response::new(v1::SendInputResponse { input_id: "i_1".into(), turn_id: None, seq: 9 }))
    }

    async fn interrupt(
        &self,
        _: Request<v1::InterruptRequest>,
    ) -> Result<Response<v1::InterruptResponse>, Status> {
        Ok(Response::new(v1::InterruptResponse { seq: 1, already_over: true }))
    }

    async fn resume_turn(
        &self,
        _: Request<v1::ResumeTurnRequest>,
    ) -> Result<Response<v1::ResumeTurnResponse>, Status> {
        Err(Status::failed_precondition("nothing waits"))
    }

    async fn revert_turns(
        &self,
        _: Request<v1::RevertTurnsRequest>,
    ) -> Result<Response<v1::RevertTurnsResponse>, Status> {
        Err(Status::unimplemented("not here"))
    }

    type AttachStream = Pin<Box<dyn tokio_stream::Stream<Item = Result<AttachFrame, Status>> + Send>>;

    async fn attach(
        &self,
        request: Request<v1::AttachRequest>,
    ) -> Result<Response<Self::AttachStream>, Status> {
        let (send, receive) = mpsc::channel(256);
        let script = {
            let mut kept = self.kept();
            kept.attaches.push(request.into_inner());
            kept.live = Some(send.clone());
            kept.scripts.pop_front()
        };
        let Some(script) = script else { return Err(Status::not_found("no more attaches in the script")) };
        for frame in script {
            send.try_send(frame.map(on_the_wire)).map_err(|_| Status::internal("the script is too long"))?;
        }
        Ok(Response::new(Box::pin(ReceiverStream::new(receive))))
    }

    async fn read_events(
        &self,
        _: Request<v1::ReadEventsRequest>,
    ) -> Result<Response<v1::ReadEventsResponse>, Status> {
        Err(Status::unimplemented("not here"))
    }
}

#[tonic::async_trait]
impl Requests for FakeDaemon {
    async fn answer_request(
        &self,
        request: Request<v1::AnswerRequestRequest>,
    ) -> Result<Response<v1::AnswerRequestResponse>, Status> {
        self.kept().answers.push(request.into_inner());
        Ok(Response::new(v1::AnswerRequestResponse { won: true, answered_by: "us".into(), seq: 1 }))
    }
}
