//! The context of a session as a budget.

use super::{Api, peer, sessions, status, to_proto};
use agentd_proto::v1;
use std::sync::Arc;
use tonic::{Request, Response, Status};

pub(super) struct Service(pub(super) Arc<Api>);

#[tonic::async_trait]
impl agentd_proto::server::context_server::Context for Service {
    async fn get_context(
        &self,
        request: Request<v1::GetContextRequest>,
    ) -> Result<Response<v1::GetContextResponse>, Status> {
        peer::reader(&request)?;
        let given = request.into_inner();
        let session_id = sessions::resolve(&self.0, &given.session_id).await?;
        if given.at_seq.is_some() {
            return Err(status::not_built("Context.GetContext with at_seq"));
        }
        let state = self.0.registry.state(&session_id).await.map_err(|error| status::session(&error))?;
        let ledger = agentd_core::context::ledger(&state)
            .ok_or_else(|| status::internal("a request", &"a session without an epoch"))?;
        Ok(Response::new(to_proto::ledger(&ledger, given.items)))
    }

    async fn compact(&self, _: Request<v1::CompactRequest>) -> Result<Response<v1::CompactResponse>, Status> {
        Err(status::not_built("Context.Compact"))
    }
}
