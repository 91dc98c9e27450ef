//! The work of a session: inputs, interrupts, resumes, its log.

use super::{Api, attach, from_proto, peer, sessions, status, to_proto};
use agentd_core::command::Command;
use agentd_core::event::{Delivery, Event, EventBody};
use agentd_core::ids::{CallId, InputId, Seq, TurnId};
use agentd_core::limits;
use agentd_proto::reason::Reason;
use agentd_proto::v1;
use prost::Message as _;
use std::collections::BTreeMap;
use std::sync::Arc;
use tonic::{Request, Response, Status};

pub(super) struct Service(pub(super) Arc<Api>);

#[tonic::async_trait]
impl agentd_proto::server::turns_server::Turns for Service {
    async fn send_input(
        &self,
        request: Request<v1::SendInputRequest>,
    ) -> Result<Response<v1::SendInputResponse>, Status> {
        let origin = peer::require_actor(&request)?.labelled(&request.get_ref().client_label).origin();
        let mut given = request.into_inner();
        let env: BTreeMap<String, String> = std::mem::take(&mut given.env).into_iter().collect();
        let session_id = sessions::resolve(&self.0, &given.session_id).await?;
        let command = match &given.withdraw_input_id {
            Some(input_id) => Command::WithdrawInput { input_id: InputId::new(input_id) },
            None => Command::SendInput {
                parts: from_proto::parts(given.parts.clone())?,
                delivery: from_proto::delivery(given.delivery, "delivery")?.unwrap_or(Delivery::Queue),
            },
        };
        self.0.effects.keep_env(&session_id, env);
        let call = sessions::Call {
            method: "Turns.SendInput",
            request_id: given.request_id.clone(),
            content: &given,
        };
        let of_session = session_id.clone();
        let answer = sessions::ask(&self.0, &session_id, command, origin, &call, move |committed| {
            let mut answer = v1::SendInputResponse { seq: committed.session.last_seq, ..Default::default() };
            for event in committed.events {
                match &event.body {
                    EventBody::InputAccepted(body) => answer.input_id = body.input_id.to_string(),
                    EventBody::TurnStarted(body) => {
                        answer.turn_id = Some(TurnId::of(&of_session, body.turn).to_string());
                    }
                    _ => {}
                }
            }
            answer
        });
        Ok(Response::new(answer.await?))
    }

    async fn interrupt(
        &self,
        request: Request<v1::InterruptRequest>,
    ) -> Result<Response<v1::InterruptResponse>, Status> {
        use v1::interrupt_request::Target;
        let origin = peer::require_actor(&request)?.labelled(&request.get_ref().client_label).origin();
        let given = request.into_inner();
        if given.hard {
            return Err(status::not_built("stopping without grace"));
        }
        let session_id = sessions::resolve(&self.0, &given.session_id).await?;
        let (turn, call_id) =
            match &given.target {
                Some(Target::TurnId(id)) => {
                    let turn = TurnId::new(id).number_in(&session_id);
                    (
                        Some(turn.ok_or_else(|| {
                            status::field("turn_id", "is not a turn of this session").status()
                        })?),
                        None,
                    )
                }
                Some(Target::CallId(id)) => (None, Some(CallId::new(id))),
                Some(Target::JobId(_)) => return Err(status::not_built("stopping a background job")),
                None => (None, None),
            };
        let feed = self.0.registry.feed(&session_id).await.map_err(|error| status::session(&error))?;
        let command = Command::Interrupt { turn, call_id, partial_text: feed.partial_text() };
        let call = sessions::Call {
            method: "Turns.Interrupt",
            request_id: given.request_id.clone(),
            content: &given,
        };
        let answer =
            sessions::ask(&self.0, &session_id, command, origin, &call, |committed| v1::InterruptResponse {
                seq: committed.session.last_seq,
                already_over: committed.events.is_empty(),
            });
        Ok(Response::new(answer.await?))
    }

    async fn resume_turn(
        &self,
        request: Request<v1::ResumeTurnRequest>,
    ) -> Result<Response<v1::ResumeTurnResponse>, Status> {
        let origin = peer::require_actor(&request)?.labelled(&request.get_ref().client_label).origin();
        let mut given = request.into_inner();
        let env: BTreeMap<String, String> = std::mem::take(&mut given.env).into_iter().collect();
        let session_id = sessions::resolve(&self.0, &given.session_id).await?;
        let command = Command::Resume {
            resolutions: from_proto::resolutions(given.resolutions.clone())?,
            extend_limits: given.extend_limits,
        };
        self.0.effects.keep_env(&session_id, env);
        let call = sessions::Call {
            method: "Turns.ResumeTurn",
            request_id: given.request_id.clone(),
            content: &given,
        };
        let answer = sessions::ask(&self.0, &session_id, command, origin, &call, |committed| {
            v1::ResumeTurnResponse { seq: committed.session.last_seq }
        });
        Ok(Response::new(answer.await?))
    }

    async fn revert_turns(
        &self,
        _: Request<v1::RevertTurnsRequest>,
    ) -> Result<Response<v1::RevertTurnsResponse>, Status> {
        Err(status::not_built("Turns.RevertTurns (undo, redo)"))
    }

    type AttachStream = attach::Stream;

    async fn attach(
        &self,
        request: Request<v1::AttachRequest>,
    ) -> Result<Response<Self::AttachStream>, Status> {
        peer::reader(&request)?;
        attach::start(self.0.clone(), request.into_inner()).await.map(Response::new)
    }

    async fn read_events(
        &self,
        request: Request<v1::ReadEventsRequest>,
    ) -> Result<Response<v1::ReadEventsResponse>, Status> {
        peer::reader(&request)?;
        let given = request.into_inner();
        let session_id = sessions::resolve(&self.0, &given.session_id).await?;
        let store = &self.0.store;
        let last_seq = store.last_seq(&session_id).await.map_err(|error| status::store(&error))?.unwrap_or(0);
        let limit = match usize::try_from(given.limit) {
            Ok(0) | Err(_) => limits::EVENTS_PAGE_MAX,
            Ok(limit) => limit.min(limits::EVENTS_PAGE_MAX),
        };
        let wanted = |kind: &str| given.kinds.is_empty() || given.kinds.iter().any(|wanted| wanted == kind);
        let encode = |event: &Event| {
            wanted(event.body.kind().as_str()).then(|| to_proto::event(&session_id, event, given.include_raw))
        };
        let (events, next_seq) = match (given.after_seq, given.before_seq) {
            (Some(_), Some(_)) => {
                return Err(status::field("before_seq", "cannot stand beside after_seq").status());
            }
            (after, None) => {
                let after = after.unwrap_or(0);
                if after > last_seq {
                    let text = format!("event {after} is beyond the log, which ends at {last_seq}");
                    return Err(status::refuse(Reason::SeqOutOfRange, text).status());
                }
                let page = store.events_after(&session_id, after, limit).await;
                let page = page.map_err(|error| status::store(&error))?;
                let (events, last) = fitting(page.iter(), limits::EVENTS_PAGE_MAX_BYTES, encode);
                (events, last.filter(|seq| *seq < last_seq))
            }
            (None, Some(before)) => {
                let page = store.events_before(&session_id, before, limit).await;
                let page = page.map_err(|error| status::store(&error))?;
                let (mut events, first) = fitting(page.iter().rev(), limits::EVENTS_PAGE_MAX_BYTES, encode);
                events.reverse();
                (events, first.filter(|seq| *seq > 1))
            }
        };
        Ok(Response::new(v1::ReadEventsResponse { events, next_seq, last_seq }))
    }
}

/// The events, in the order given, that fit a page of `max_bytes` in their encoded form, and the number of the last
/// event that was dealt with. The first one fits whatever its size; an event that is not wanted takes no room.
fn fitting<'a>(
    events: impl Iterator<Item = &'a Event>,
    max_bytes: usize,
    encode: impl Fn(&Event) -> Option<v1::Event>,
) -> (Vec<v1::Event>, Option<Seq>) {
    let (mut fit, mut last, mut bytes) = (Vec::new(), None, 0);
    for event in events {
        if let Some(encoded) = encode(event) {
            bytes += encoded.encoded_len();
            if bytes > max_bytes && !fit.is_empty() {
                break;
            }
            fit.push(encoded);
        }
        last = Some(event.seq);
    }
    (fit, last)
}

#[cfg(test)]
mod tests {
    use super::*;
    use agentd_core::event::{NoticeAdded, NoticeKind, Origin};
    use agentd_core::ids::SessionId;

    fn event(seq: Seq, bytes: usize) -> Event {
        let body = NoticeAdded { kind: NoticeKind::Budget, text: "x".repeat(bytes) };
        Event { seq, at_ms: 0, turn: None, origin: Origin::Daemon, body: body.into() }
    }

    #[test]
    fn a_page_is_bounded_by_bytes_and_goes_on_after_its_last_event() {
        let session_id = SessionId::new("s_1");
        let all = [event(1, 10), event(2, 900), event(3, 900), event(4, 9_000), event(5, 10)];
        let page = |from: usize, without: Seq| {
            let encode =
                |event: &Event| (event.seq != without).then(|| to_proto::event(&session_id, event, true));
            let (events, last) = fitting(all[from..].iter(), 4_500, encode);
            (events.iter().map(|event| event.seq).collect::<Vec<_>>(), last)
        };
        assert_eq!(page(0, 0), (vec![1, 2, 3], Some(3)));
        assert_eq!(page(3, 0), (vec![4], Some(4)), "one that is larger than a page comes alone");
        assert_eq!(page(4, 0), (vec![5], Some(5)));
        assert_eq!(page(2, 4), (vec![3, 5], Some(5)), "what is not wanted takes no room");
        assert_eq!(page(5, 0), (vec![], None));
    }
}
