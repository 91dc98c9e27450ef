//! The gRPC server: the services of the contract, health and reflection, over connections that were accepted
//! elsewhere.
//!
//! HTTP/2 keepalive is off: a Unix socket tells at once when its other end is gone. Limits of messages and
//! streams come from `limits`.

use super::peer::{Peer, PeerStream};
use agentd_core::limits::{GRPC_DECODE_MAX_BYTES, STREAMS_PER_CONNECTION, UNARY_PER_CONNECTION};
use agentd_proto::DESCRIPTOR_SET;
use agentd_proto::server::artifacts_server::{Artifacts, ArtifactsServer};
use agentd_proto::server::audit_server::{Audit, AuditServer};
use agentd_proto::server::catalog_server::{Catalog, CatalogServer};
use agentd_proto::server::context_server::{Context, ContextServer};
use agentd_proto::server::daemon_server::{Daemon, DaemonServer};
use agentd_proto::server::policy_server::{Policy, PolicyServer};
use agentd_proto::server::requests_server::{Requests, RequestsServer};
use agentd_proto::server::sessions_server::{Sessions, SessionsServer};
use agentd_proto::server::turns_server::{Turns, TurnsServer};
use futures_util::Stream;
use std::future::Future;
use std::io;
use tonic::service::{InterceptorLayer, Routes};
use tonic::transport::Server;
use tonic::{Request, Status};

/// The services of the contract.
pub struct Services<D, C, S, T, R, X, A, P, U> {
    /// `Daemon`.
    pub daemon: D,
    /// `Catalog`.
    pub catalog: C,
    /// `Sessions`.
    pub sessions: S,
    /// `Turns`.
    pub turns: T,
    /// `Requests`.
    pub requests: R,
    /// `Context`.
    pub context: X,
    /// `Artifacts`.
    pub artifacts: A,
    /// `Policy`.
    pub policy: P,
    /// `Audit`.
    pub audit: U,
}

/// Why there is no server.
#[derive(Debug, thiserror::Error)]
pub enum ServerError {
    /// The descriptors in this build are damaged.
    #[error("the descriptors of the contract cannot be read: {0}")]
    Descriptors(String),
    /// It failed while it served.
    #[error("serving failed: {0}")]
    Serve(#[from] tonic::transport::Error),
}

impl<D, C, S, T, R, X, A, P, U> Services<D, C, S, T, R, X, A, P, U>
where
    D: Daemon,
    C: Catalog,
    S: Sessions,
    T: Turns,
    R: Requests,
    X: Context,
    A: Artifacts,
    P: Policy,
    U: Audit,
{
    /// All of them with their limits, and health and reflection (old and new: `grpcurl` of distributions is old).
    pub async fn into_routes(self) -> Result<Routes, ServerError> {
        const MAX: usize = GRPC_DECODE_MAX_BYTES;
        let (health, health_service) = tonic_health::server::health_reporter();
        health.set_serving::<DaemonServer<D>>().await;
        let damaged = |error: tonic_reflection::server::Error| ServerError::Descriptors(error.to_string());
        let v1 = reflection().build_v1().map_err(damaged)?;
        let v1alpha = reflection().build_v1alpha().map_err(damaged)?;
        Ok(Routes::new(DaemonServer::new(self.daemon).max_decoding_message_size(MAX))
            .add_service(CatalogServer::new(self.catalog).max_decoding_message_size(MAX))
            .add_service(SessionsServer::new(self.sessions).max_decoding_message_size(MAX))
            .add_service(TurnsServer::new(self.turns).max_decoding_message_size(MAX))
            .add_service(RequestsServer::new(self.requests).max_decoding_message_size(MAX))
            .add_service(ContextServer::new(self.context).max_decoding_message_size(MAX))
            .add_service(ArtifactsServer::new(self.artifacts).max_decoding_message_size(MAX))
            .add_service(PolicyServer::new(self.policy).max_decoding_message_size(MAX))
            .add_service(AuditServer::new(self.audit).max_decoding_message_size(MAX))
            .add_service(health_service)
            .add_service(v1)
            .add_service(v1alpha))
    }
}

fn reflection() -> tonic_reflection::server::Builder<'static> {
    tonic_reflection::server::Builder::configure()
        .register_encoded_file_descriptor_set(DESCRIPTOR_SET)
        .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET)
}

/// Serves until `end` resolves and the open calls have ended.
pub async fn serve(
    routes: Routes,
    incoming: impl Stream<Item = io::Result<PeerStream>>,
    end: impl Future<Output = ()>,
) -> Result<(), ServerError> {
    let streams = STREAMS_PER_CONNECTION.saturating_add(u32::try_from(UNARY_PER_CONNECTION).unwrap_or(0));
    Server::builder()
        .max_concurrent_streams(streams)
        .http2_keepalive_interval(None)
        .layer(InterceptorLayer::new(admit))
        .add_routes(routes)
        .serve_with_incoming_shutdown(incoming, end)
        .await?;
    Ok(())
}

/// Before any service, health and reflection included: only the user whose daemon this is.
#[allow(clippy::result_large_err)]
fn admit(request: Request<()>) -> Result<Request<()>, Status> {
    match request.extensions().get::<Peer>() {
        Some(peer) => peer.admit()?,
        None => {
            return Err(super::status::refuse(
                agentd_proto::reason::Reason::PeerForeignUid,
                "the connection has no owner that could be checked",
            )
            .status());
        }
    }
    Ok(request)
}
