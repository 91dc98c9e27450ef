//! The generated clients, each made in this one place.
//!
//! Invariant: every one of them reads answers up to [`DECODE_MAX_BYTES`]. The default of the library is smaller
//! than what a session may hold, and a client with it could never read such a session again; `.clippy.toml`
//! therefore refuses the constructors of the generated clients everywhere else.

#![allow(clippy::disallowed_methods)]

use agentd_proto::v1::artifacts_client::ArtifactsClient;
use agentd_proto::v1::audit_client::AuditClient;
use agentd_proto::v1::catalog_client::CatalogClient;
use agentd_proto::v1::context_client::ContextClient;
use agentd_proto::v1::daemon_client::DaemonClient;
use agentd_proto::v1::policy_client::PolicyClient;
use agentd_proto::v1::requests_client::RequestsClient;
use agentd_proto::v1::sessions_client::SessionsClient;
use agentd_proto::v1::turns_client::TurnsClient;
use tonic::transport::Channel;

/// The largest message that is read: an event of the largest answer with its stored body beside it, and room.
pub(crate) const DECODE_MAX_BYTES: usize = 32 << 20;

macro_rules! stubs {
    ($($(#[$doc:meta])* $name:ident: $client:ident;)*) => {$(
        $(#[$doc])*
        pub(crate) fn $name(channel: Channel) -> $client<Channel> {
            $client::new(channel).max_decoding_message_size(DECODE_MAX_BYTES)
        }
    )*};
}

stubs! {
    /// Large outputs.
    artifacts: ArtifactsClient;
    /// The trail.
    audit: AuditClient;
    /// What there is.
    catalog: CatalogClient;
    /// The context ledger.
    context: ContextClient;
    /// The daemon itself.
    daemon: DaemonClient;
    /// What may be done.
    policy: PolicyClient;
    /// What waits for an answer.
    requests: RequestsClient;
    /// Sessions as things.
    sessions: SessionsClient;
    /// The work of a session.
    turns: TurnsClient;
}
