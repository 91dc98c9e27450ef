//! The one table from what went wrong to `tonic::Status`.
//!
//! Every refusal carries `google.rpc.ErrorInfo` with the domain `agentd` and a stable reason; where there is a
//! remedy it is a `LocalizedMessage`. Nothing internal is told: [`internal`] logs what happened under an id and
//! sends the id only.

use crate::config::{CatalogError, ConfigError, KeyError};
use crate::ports::StoreError;
use crate::session::SessionError;
use agentd_core::command::Reject;
use agentd_proto::reason::{DOMAIN, Reason};
use std::collections::HashMap;
use std::fmt::Display;
use std::time::Duration;
use tonic::{Code, Status};
use tonic_types::{ErrorDetails, StatusExt};

/// The status code of a reason.
pub const fn code_of(reason: Reason) -> Code {
    match reason {
        Reason::FieldInvalid
        | Reason::PatternInvalid
        | Reason::RequestIdReused
        | Reason::SessionAmbiguous
        | Reason::RequestAmbiguous
        | Reason::ModelUnknown
        | Reason::WorkspaceTooBroad => Code::InvalidArgument,
        Reason::WorkspaceNotFound
        | Reason::SessionNotFound
        | Reason::RequestNotFound
        | Reason::ArtifactExpired
        | Reason::CallNotOpen
        | Reason::InputNotWaiting => Code::NotFound,
        Reason::SeqConflict | Reason::TurnMismatch | Reason::RunIdMismatch => Code::Aborted,
        Reason::SeqOutOfRange => Code::OutOfRange,
        Reason::QueueFull | Reason::InputTooLarge | Reason::TooManyStreams => Code::ResourceExhausted,
        Reason::Draining | Reason::StoragePaused => Code::Unavailable,
        Reason::PeerForeignUid | Reason::PeerIsATool => Code::PermissionDenied,
        Reason::StoreCorrupt => Code::DataLoss,
        Reason::NotBuilt | Reason::ProtocolTooOld => Code::Unimplemented,
        Reason::Internal => Code::Internal,
        Reason::DaemonBusy
        | Reason::ConfigInvalid
        | Reason::NoModel
        | Reason::CredentialsMissing
        | Reason::SessionFailed
        | Reason::SessionBusy
        | Reason::HasForks
        | Reason::SessionPaused
        | Reason::NotPaused
        | Reason::CallNotUnknown
        | Reason::CallStillUnknown
        | Reason::TurnRunning
        | Reason::RequestAlreadyAnswered
        | Reason::RequestExpired
        | Reason::ShownHashMismatch
        | Reason::ScopeNotOffered => Code::FailedPrecondition,
    }
}

/// A refusal in the making.
#[must_use]
pub struct Refusal {
    reason: Reason,
    message: String,
    metadata: HashMap<String, String>,
    remedy: Option<String>,
    field: Option<String>,
    retry_after: Option<Duration>,
}

/// Refuses for a reason; the message says what, where and why, for people.
pub fn refuse(reason: Reason, message: impl Into<String>) -> Refusal {
    Refusal {
        reason,
        message: message.into(),
        metadata: HashMap::new(),
        remedy: None,
        field: None,
        retry_after: None,
    }
}

/// Refuses a field of the request.
pub fn field(name: &str, message: impl Into<String>) -> Refusal {
    let mut refusal = refuse(Reason::FieldInvalid, message).with("field", name);
    refusal.field = Some(name.to_owned());
    refusal
}

impl Refusal {
    /// With a fact for programs.
    pub fn with(mut self, key: &str, value: impl Display) -> Self {
        self.metadata.insert(key.to_owned(), value.to_string());
        self
    }
    /// With what a person can do.
    pub fn remedy(mut self, text: impl Into<String>) -> Self {
        self.remedy = Some(text.into());
        self
    }
    /// With when to try again.
    pub fn retry_after_ms(mut self, ms: u64) -> Self {
        self.retry_after = Some(Duration::from_millis(ms));
        self.with("retry_after_ms", ms)
    }
    /// The status.
    pub fn status(self) -> Status {
        let mut details = ErrorDetails::new();
        details.set_error_info(self.reason.as_str(), DOMAIN, self.metadata);
        if let Some(field) = self.field {
            details.add_bad_request_violation(field, self.message.clone());
        }
        if let Some(remedy) = self.remedy {
            details.set_localized_message("en", remedy);
        }
        if self.retry_after.is_some() {
            details.set_retry_info(self.retry_after);
        }
        Status::with_error_details(code_of(self.reason), self.message, details)
    }
}

impl From<Refusal> for Status {
    fn from(refusal: Refusal) -> Self {
        refusal.status()
    }
}

/// Something failed inside: the log has it, the client gets the place in the log.
pub fn internal(what: &str, error: &dyn Display) -> Status {
    let log_id = log_id();
    tracing::error!(log_id, what, %error, "a request failed");
    refuse(Reason::Internal, format!("{what} failed inside the daemon (log id {log_id})"))
        .with("log_id", &log_id)
        .remedy("agentctl daemon logs")
        .status()
}

fn log_id() -> String {
    let mut bytes = [0_u8; 6];
    // An id that repeats is better than none.
    let _ = getrandom::fill(&mut bytes);
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// What a session did not do.
pub fn session(error: &SessionError) -> Status {
    match error {
        SessionError::NotFound(id) => refuse(Reason::SessionNotFound, error.to_string())
            .with("session_id", id)
            .remedy("agentctl ls")
            .status(),
        SessionError::Rejected(error) => reject(error),
        SessionError::Store(error) => store(error),
        SessionError::Failed { session_id, .. } => {
            refuse(Reason::SessionFailed, error.to_string()).with("session_id", session_id).status()
        }
        SessionError::Draining => {
            refuse(Reason::Draining, error.to_string()).retry_after_ms(DRAIN_RETRY_MS).status()
        }
    }
}

/// A daemon that is stopping is replaced by the next client that asks; sooner than this it still holds its lock.
const DRAIN_RETRY_MS: u64 = 500;

/// What the store refused or could not do.
pub fn store(error: &StoreError) -> Status {
    let text = error.to_string();
    match error {
        StoreError::SeqConflict { session_id, expected, current } => refuse(Reason::SeqConflict, text)
            .with("session_id", session_id)
            .with("expected", expected)
            .with("current", current)
            .status(),
        StoreError::RequestRepeated(id) => refuse(Reason::SeqConflict, text).with("request_id", id).status(),
        StoreError::RequestIdReused(id) => {
            refuse(Reason::RequestIdReused, text).with("request_id", id).status()
        }
        StoreError::Full { path } => refuse(Reason::StoragePaused, text).with("path", path).status(),
        StoreError::Stopped(_) => refuse(Reason::StoragePaused, text)
            .remedy("look at the disk, then: agentctl daemon restart --now")
            .status(),
        StoreError::Corrupt(_) => refuse(Reason::StoreCorrupt, text).status(),
        StoreError::Failed(_) => internal("the store", error),
    }
}

/// What a session's state machine refused.
pub fn reject(error: &Reject) -> Status {
    let reason = match error {
        Reject::Existence(_) => Reason::SessionNotFound,
        Reject::QueueFull { .. } => Reason::QueueFull,
        Reject::InputEmpty => return field("parts", error.to_string()).status(),
        Reject::InputTooLarge { .. } => Reason::InputTooLarge,
        Reject::InputNotWaiting(_) => Reason::InputNotWaiting,
        Reject::TurnMismatch { .. } => Reason::TurnMismatch,
        Reject::CallNotOpen(_) => Reason::CallNotOpen,
        Reject::NotPaused => Reason::NotPaused,
        Reject::CallNotUnknown(_) => Reason::CallNotUnknown,
        Reject::CallStillUnknown(_) => Reason::CallStillUnknown,
        Reject::RequestNotFound(_) => Reason::RequestNotFound,
        Reject::RequestClosed { how, .. } => {
            let reason = if how.starts_with("expired") {
                Reason::RequestExpired
            } else {
                Reason::RequestAlreadyAnswered
            };
            return refuse(reason, error.to_string()).with("by", how).status();
        }
        Reject::ShownHashMismatch(_) => Reason::ShownHashMismatch,
        Reject::ScopeNotOffered(_) => Reason::ScopeNotOffered,
        Reject::SeqConflict { .. } => Reason::SeqConflict,
        Reject::TurnOpen => Reason::TurnRunning,
        Reject::Late(_) => return internal("a report", error),
    };
    let refusal = refuse(reason, error.to_string());
    match error {
        Reject::QueueFull { .. } => refusal.retry_after_ms(QUEUE_RETRY_MS).status(),
        Reject::SeqConflict { current, .. } => refusal.with("current", current).status(),
        Reject::TurnMismatch { running: Some(running), .. } => refusal.with("running", running).status(),
        Reject::CallStillUnknown(call) => refusal.with("call_id", call).status(),
        _ => refusal.status(),
    }
}

/// A queue empties as fast as turns end; asking sooner than this is of no use.
const QUEUE_RETRY_MS: u64 = 1_000;

/// What the configuration does not allow.
pub fn config(error: &ConfigError) -> Status {
    let refusal = refuse(Reason::ConfigInvalid, error.to_string());
    match error {
        ConfigError::Unreadable { file, .. } => refusal.with("file", file.display()).status(),
        ConfigError::Invalid { file, line, key, .. } => {
            refusal.with("file", file.display()).with("line", line).with("key", key).status()
        }
    }
}

/// A model that cannot be used.
pub fn catalog(error: &CatalogError) -> Status {
    let (reason, remedy) = match error {
        CatalogError::NoModel => (Reason::NoModel, "to try without a key: --model demo/tour"),
        CatalogError::Malformed(_) | CatalogError::UnknownProvider { .. } => {
            (Reason::ModelUnknown, "providers and models are described in config.toml")
        }
    };
    refuse(reason, error.to_string()).remedy(remedy).status()
}

/// A key that is not there.
pub fn key(error: &KeyError) -> Status {
    let KeyError::Missing { provider, remedy } = error;
    refuse(Reason::CredentialsMissing, error.to_string()).with("provider", provider).remedy(remedy).status()
}

/// The answer of an RPC that this build does not have.
pub fn not_built(rpc: &str) -> Status {
    refuse(Reason::NotBuilt, format!("{rpc} is not built in version {}", env!("CARGO_PKG_VERSION")))
        .with("rpc", rpc)
        .status()
}

#[cfg(test)]
mod tests {
    use super::*;
    use agentd_core::ids::{CallId, RequestId, SessionId};

    fn reason_of(status: &Status) -> (Code, String) {
        let details = status.get_error_details();
        let info = details.error_info().unwrap();
        assert_eq!(info.domain, DOMAIN);
        (status.code(), info.reason.clone())
    }

    #[test]
    fn every_status_carries_its_reason_and_what_programs_need() {
        let status =
            refuse(Reason::QueueFull, "full").with("waiting", 64).retry_after_ms(10).remedy("wait").status();
        let details = status.get_error_details();
        assert_eq!(reason_of(&status), (Code::ResourceExhausted, "QUEUE_FULL".to_owned()));
        assert_eq!(details.error_info().unwrap().metadata["waiting"], "64");
        assert_eq!(details.retry_info().unwrap().retry_delay, Some(Duration::from_millis(10)));
        assert_eq!(details.localized_message().unwrap().message, "wait");
        let status = field("cwd", "not absolute").status();
        assert_eq!(status.get_error_details().bad_request().unwrap().field_violations[0].field, "cwd");
    }

    #[test]
    fn conflicts_are_told_from_wrong_states() {
        let session_id = SessionId::new("s_1");
        let conflict = store(&StoreError::SeqConflict { session_id, expected: 1, current: 2 });
        assert_eq!(reason_of(&conflict), (Code::Aborted, "SEQ_CONFLICT".to_owned()));
        let answered =
            reject(&Reject::RequestClosed { request_id: RequestId::new("r_1"), how: "answered".into() });
        assert_eq!(reason_of(&answered), (Code::FailedPrecondition, "REQUEST_ALREADY_ANSWERED".to_owned()));
        let unknown = reject(&Reject::CallStillUnknown(CallId::new("c_1")));
        assert_eq!(unknown.get_error_details().error_info().unwrap().metadata["call_id"], "c_1");
        assert_eq!(reason_of(&catalog(&CatalogError::NoModel)).1, "NO_MODEL");
    }

    #[test]
    fn what_failed_inside_stays_inside() {
        let status = store(&StoreError::Failed("near \"SELEKT\": syntax error".to_owned()));
        assert_eq!(reason_of(&status), (Code::Internal, "INTERNAL".to_owned()));
        assert!(!status.message().contains("SELEKT"));
    }

    #[test]
    fn the_table_for_readers_is_the_table_in_use() {
        let readme = include_str!("../../../proto/README.md");
        let rows: Vec<&str> = readme.lines().filter(|line| line.starts_with("| `")).collect();
        assert_eq!(rows.len(), Reason::ALL.len());
        for (reason, row) in Reason::ALL.iter().zip(rows) {
            let code = code_of(*reason);
            assert!(!matches!(code, Code::Ok | Code::Unknown), "{reason:?}");
            let words = format!("{code:?}").char_indices().fold(String::new(), |mut words, (at, c)| {
                if at > 0 && c.is_uppercase() {
                    words.push('_');
                }
                words.push(c.to_ascii_uppercase());
                words
            });
            assert!(row.starts_with(&format!("| `{}` | `{words}` | ", reason.as_str())), "{row}: {words}");
        }
    }
}
