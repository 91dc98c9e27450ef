//! The service that this build does not have yet: every RPC answers UNIMPLEMENTED with the reason NOT_BUILT.

use super::status::not_built;
use agentd_proto::server;
use agentd_proto::v1;
use tonic::{Request, Response, Status, async_trait};

/// Stands for a service.
#[derive(Clone, Copy, Debug, Default)]
pub struct NotBuilt;

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
