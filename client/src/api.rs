//! The calls that commands make, each safe to repeat over a lost daemon.
//!
//! Invariant: a mutation gets its request id once, before the first try; every further try sends the same
//! message, so that the daemon answers with the first outcome and nothing happens twice.

use crate::connect::link::Link;
use crate::connect::stub;
use crate::error::ClientError;
use agentd_proto::reason::Reason;
use agentd_proto::v1;
use std::future::Future;
use std::time::Duration;
use tonic::transport::Channel;
use tonic::{Response, Status};

/// Tries of one call over lost daemons.
const CALL_TRIES_MAX: u32 = 6;
/// Wait before a call is tried again while a daemon is stopping.
const DRAINING_WAIT: Duration = Duration::from_millis(150);

/// A new id for a request: 128 random bits, in hex.
pub(crate) fn fresh_request_id() -> Result<String, ClientError> {
    let mut bytes = [0_u8; 16];
    getrandom::fill(&mut bytes)
        .map_err(|source| ClientError::failed(format!("the system gives no random bytes: {source}")))?;
    Ok(bytes.iter().fold("q_".to_owned(), |id, byte| format!("{id}{byte:02x}")))
}

/// Makes one call; tries again with the same message when the daemon was lost.
pub(crate) async fn call<Q, A, F, Fut>(link: &Link, request: Q, make: F) -> Result<A, ClientError>
where
    Q: Clone,
    F: Fn(Channel, Q) -> Fut,
    Fut: Future<Output = Result<Response<A>, Status>>,
{
    let mut tries = 1;
    loop {
        let (channel, generation) = link.channel();
        let error = match make(channel, request.clone()).await {
            Ok(response) => return Ok(response.into_inner()),
            Err(status) => ClientError::from(status),
        };
        let draining = error.reason == Some(Reason::Draining);
        if tries >= CALL_TRIES_MAX || !(draining || error.is_lost_connection()) {
            return Err(error);
        }
        tries += 1;
        if draining {
            tokio::time::sleep(DRAINING_WAIT).await;
        }
        link.renew(generation).await?;
    }
}

macro_rules! calls {
    ($($(#[$doc:meta])* $name:ident = $stub:ident.$method:ident: $request:ident -> $answer:ident;)*) => {$(
        $(#[$doc])*
        pub(crate) async fn $name(link: &Link, request: v1::$request) -> Result<v1::$answer, ClientError> {
            call(link, request, |channel, request| async move {
                stub::$stub(channel).$method(request).await
            })
            .await
        }
    )*};
}

calls! {
    /// One session, by id, unique beginning of one, or unique name.
    get_session = sessions.get_session: GetSessionRequest -> GetSessionResponse;
    /// A new session.
    create_session = sessions.create_session: CreateSessionRequest -> CreateSessionResponse;
    /// Changed settings.
    update_session = sessions.update_session: UpdateSessionRequest -> UpdateSessionResponse;
    /// An input, durable once answered.
    send_input = turns.send_input: SendInputRequest -> SendInputResponse;
    /// A wish to stop.
    interrupt = turns.interrupt: InterruptRequest -> InterruptResponse;
    /// A waiting turn goes on.
    resume_turn = turns.resume_turn: ResumeTurnRequest -> ResumeTurnResponse;
    /// A page of the log.
    read_events = turns.read_events: ReadEventsRequest -> ReadEventsResponse;
    /// An answer to a request.
    answer_request = requests.answer_request: AnswerRequestRequest -> AnswerRequestResponse;
    /// The ledger.
    get_context = context.get_context: GetContextRequest -> GetContextResponse;
    /// What there is.
    get_catalog = catalog.get_catalog: GetCatalogRequest -> GetCatalogResponse;
    /// The artifacts of a session.
    list_artifacts = artifacts.list_artifacts: ListArtifactsRequest -> ListArtifactsResponse;
    /// What would be decided.
    check_policy = policy.check_policy: CheckPolicyRequest -> CheckPolicyResponse;
}

/// Finds a session by what a person wrote: an id, a unique beginning of one, or a unique name.
pub(crate) async fn find_session(link: &Link, session: &str) -> Result<v1::Session, ClientError> {
    let request = v1::GetSessionRequest { session: session.to_owned(), ..Default::default() };
    let answer = get_session(link, request).await?;
    answer.session.ok_or_else(|| ClientError::failed("the daemon answered without the session"))
}

/// The list of sessions, the last changed first. Read again from its beginning when the daemon is lost.
pub(crate) async fn list_sessions(
    link: &Link,
    cwd: Option<Vec<u8>>,
    include_requests: bool,
) -> Result<Vec<v1::SessionSummary>, ClientError> {
    let request = v1::WatchSessionsRequest { cwd, include_requests, ..Default::default() };
    let mut list = call(link, request, |channel, request| async move {
        let mut stream = stub::sessions(channel).watch_sessions(request).await?.into_inner();
        let mut list = Vec::new();
        while let Some(message) = stream.message().await? {
            match message.frame {
                Some(v1::watch_sessions_response::Frame::Session(summary)) => list.push(summary),
                Some(v1::watch_sessions_response::Frame::CaughtUp(_)) => return Ok(Response::new(list)),
                Some(v1::watch_sessions_response::Frame::GoingAway(away)) => {
                    return Err(Status::unavailable(format!("the daemon ended the list: {}", away.reason)));
                }
                None => {}
            }
        }
        // A stream that ends without the word "complete" may have been cut.
        Err(Status::unavailable("the list ended before it was complete"))
    })
    .await?;
    list.sort_by_key(|summary| std::cmp::Reverse((summary.updated_at_ms, summary.revision)));
    Ok(list)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn request_ids_are_unlike_each_other() {
        let (a, b) = (fresh_request_id().unwrap(), fresh_request_id().unwrap());
        assert_ne!(a, b);
        assert_eq!(a.len(), 34);
    }
}
