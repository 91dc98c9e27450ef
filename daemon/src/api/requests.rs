//! Answers to what people are asked.

use super::{Api, from_proto, peer, sessions, status};
use agentd_core::command::Command;
use agentd_core::event::{GrantScope, Verdict};
use agentd_core::ids::RequestId;
use agentd_proto::reason::Reason;
use agentd_proto::v1;
use std::sync::Arc;
use tonic::{Request, Response, Status};

pub(super) struct Service(pub(super) Arc<Api>);

#[tonic::async_trait]
impl agentd_proto::server::requests_server::Requests for Service {
    async fn answer_request(
        &self,
        request: Request<v1::AnswerRequestRequest>,
    ) -> Result<Response<v1::AnswerRequestResponse>, Status> {
        let origin = peer::require_actor(&request)?.labelled(&request.get_ref().client_label).origin();
        let given = request.into_inner();
        let wanted = given.answered_request_id.clone();
        let found = self.0.store.session_of_request(&wanted).await.map_err(|error| status::store(&error))?;
        let Some(session_id) = found else {
            let text = format!("there is no request {wanted}; see: agentctl approvals");
            return Err(status::refuse(Reason::RequestNotFound, text).status());
        };
        let decision = match from_proto::verdict(given.decision, "decision")? {
            Some(Verdict::Allow) => Verdict::Allow,
            Some(Verdict::Deny) => Verdict::Deny,
            Some(Verdict::Ask) | None => {
                return Err(status::field("decision", "must be allow or deny").status());
            }
        };
        let scope = from_proto::scope(given.scope, "scope")?.unwrap_or(GrantScope::Once);
        let request_id = self.whole_id(&session_id, &wanted).await?;
        let command = Command::Answer {
            request_id,
            shown_hash: given.shown_hash.clone(),
            decision,
            scope,
            reason: given.reason.clone().filter(|reason| !reason.is_empty()),
        };
        let call = sessions::Call {
            method: "Requests.AnswerRequest",
            request_id: given.request_id.clone(),
            content: &given,
        };
        let answer = sessions::ask(&self.0, &session_id, command, origin, &call, |committed| {
            v1::AnswerRequestResponse {
                won: true,
                answered_by: committed
                    .events
                    .first()
                    .map(|event| sessions::who(&event.origin))
                    .unwrap_or_default(),
                seq: committed.session.last_seq,
            }
        });
        Ok(Response::new(answer.await?))
    }
}

impl Service {
    /// The id that begins so among the open requests of its session; as given when none does, so that the refusal
    /// can say what became of it.
    async fn whole_id(
        &self,
        session_id: &agentd_core::ids::SessionId,
        wanted: &str,
    ) -> Result<RequestId, Status> {
        let state = self.0.registry.state(session_id).await.map_err(|error| status::session(&error))?;
        let calls = state.turn.iter().flat_map(|turn| &turn.calls);
        let mut open = calls
            .filter_map(|call| call.request.as_ref())
            .filter(|open| open.request_id.as_str().starts_with(wanted));
        match (open.next(), open.next()) {
            (Some(only), None) => Ok(only.request_id.clone()),
            (Some(_), Some(_)) => {
                let text = format!("several requests begin with {wanted}; give more of the id");
                Err(status::refuse(Reason::RequestAmbiguous, text).status())
            }
            (None, _) => Ok(RequestId::new(wanted)),
        }
    }
}
