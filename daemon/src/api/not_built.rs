//! Services that this build does not have yet: every RPC answers UNIMPLEMENTED with the reason NOT_BUILT.
//!
//! One by one they are replaced by real services in `lifecycle::wiring`; what is left here is the truth about
//! what is missing.

use super::status::not_built;
use agentd_proto::server;
use agentd_proto::v1;
use futures_util::stream::Empty;
use tonic::{Request, Response, Status, async_trait};

/// Stands for a service.
#[derive(Clone, Copy, Debug, Default)]
pub struct NotBuilt;

#[async_trait]
impl server::catalog_server::Catalog for NotBuilt {
    async fn get_catalog(
        &self,
        _: Request<v1::GetCatalogRequest>,
    ) -> Result<Response<v1::GetCatalogResponse>, Status> {
        Err(not_built("Catalog.GetCatalog"))
    }
}

#[async_trait]
impl server::sessions_server::Sessions for NotBuilt {
    type WatchSessionsStream = Empty<Result<v1::WatchSessionsResponse, Status>>;
    async fn create_session(
        &self,
        _: Request<v1::CreateSessionRequest>,
    ) -> Result<Response<v1::CreateSessionResponse>, Status> {
        Err(not_built("Sessions.CreateSession"))
    }
    async fn get_session(
        &self,
        _: Request<v1::GetSessionRequest>,
    ) -> Result<Response<v1::GetSessionResponse>, Status> {
        Err(not_built("Sessions.GetSession"))
    }
    async fn watch_sessions(
        &self,
        _: Request<v1::WatchSessionsRequest>,
    ) -> Result<Response<Self::WatchSessionsStream>, Status> {
        Err(not_built("Sessions.WatchSessions"))
    }
    async fn update_session(
        &self,
        _: Request<v1::UpdateSessionRequest>,
    ) -> Result<Response<v1::UpdateSessionResponse>, Status> {
        Err(not_built("Sessions.UpdateSession"))
    }
    async fn delete_sessions(
        &self,
        _: Request<v1::DeleteSessionsRequest>,
    ) -> Result<Response<v1::DeleteSessionsResponse>, Status> {
        Err(not_built("Sessions.DeleteSessions"))
    }
}

#[async_trait]
impl server::turns_server::Turns for NotBuilt {
    type AttachStream = Empty<Result<agentd_proto::shared::AttachFrame, Status>>;
    async fn send_input(
        &self,
        _: Request<v1::SendInputRequest>,
    ) -> Result<Response<v1::SendInputResponse>, Status> {
        Err(not_built("Turns.SendInput"))
    }
    async fn interrupt(
        &self,
        _: Request<v1::InterruptRequest>,
    ) -> Result<Response<v1::InterruptResponse>, Status> {
        Err(not_built("Turns.Interrupt"))
    }
    async fn resume_turn(
        &self,
        _: Request<v1::ResumeTurnRequest>,
    ) -> Result<Response<v1::ResumeTurnResponse>, Status> {
        Err(not_built("Turns.ResumeTurn"))
    }
    async fn revert_turns(
        &self,
        _: Request<v1::RevertTurnsRequest>,
    ) -> Result<Response<v1::RevertTurnsResponse>, Status> {
        Err(not_built("Turns.RevertTurns"))
    }
    async fn attach(&self, _: Request<v1::AttachRequest>) -> Result<Response<Self::AttachStream>, Status> {
        Err(not_built("Turns.Attach"))
    }
    async fn read_events(
        &self,
        _: Request<v1::ReadEventsRequest>,
    ) -> Result<Response<v1::ReadEventsResponse>, Status> {
        Err(not_built("Turns.ReadEvents"))
    }
}

#[async_trait]
impl server::requests_server::Requests for NotBuilt {
    async fn answer_request(
        &self,
        _: Request<v1::AnswerRequestRequest>,
    ) -> Result<Response<v1::AnswerRequestResponse>, Status> {
        Err(not_built("Requests.AnswerRequest"))
    }
}

#[async_trait]
impl server::context_server::Context for NotBuilt {
    async fn get_context(
        &self,
        _: Request<v1::GetContextRequest>,
    ) -> Result<Response<v1::GetContextResponse>, Status> {
        Err(not_built("Context.GetContext"))
    }
    async fn compact(&self, _: Request<v1::CompactRequest>) -> Result<Response<v1::CompactResponse>, Status> {
        Err(not_built("Context.Compact"))
    }
}

#[async_trait]
impl server::artifacts_server::Artifacts for NotBuilt {
    type ReadArtifactStream = Empty<Result<v1::ReadArtifactResponse, Status>>;
    async fn list_artifacts(
        &self,
        _: Request<v1::ListArtifactsRequest>,
    ) -> Result<Response<v1::ListArtifactsResponse>, Status> {
        Err(not_built("Artifacts.ListArtifacts"))
    }
    async fn read_artifact(
        &self,
        _: Request<v1::ReadArtifactRequest>,
    ) -> Result<Response<Self::ReadArtifactStream>, Status> {
        Err(not_built("Artifacts.ReadArtifact"))
    }
    async fn put_artifact(
        &self,
        _: Request<tonic::Streaming<v1::PutArtifactRequest>>,
    ) -> Result<Response<v1::PutArtifactResponse>, Status> {
        Err(not_built("Artifacts.PutArtifact"))
    }
}

#[async_trait]
impl server::policy_server::Policy for NotBuilt {
    async fn check_policy(
        &self,
        _: Request<v1::CheckPolicyRequest>,
    ) -> Result<Response<v1::CheckPolicyResponse>, Status> {
        Err(not_built("Policy.CheckPolicy"))
    }
    async fn edit_grants(
        &self,
        _: Request<v1::EditGrantsRequest>,
    ) -> Result<Response<v1::EditGrantsResponse>, Status> {
        Err(not_built("Policy.EditGrants"))
    }
}

#[async_trait]
impl server::audit_server::Audit for NotBuilt {
    type ReadAuditStream = Empty<Result<v1::ReadAuditResponse, Status>>;
    async fn read_audit(
        &self,
        _: Request<v1::ReadAuditRequest>,
    ) -> Result<Response<Self::ReadAuditStream>, Status> {
        Err(not_built("Audit.ReadAudit"))
    }
}
