//! What a command came to when it did not work: a kind, a sentence, hints, and the exit code of the kind.
//!
//! Every refusal of the daemon becomes one of these in one place, by the stable reason it carries. The exit
//! codes are those of the contract; scripts branch on them.

use agentd_proto::reason::{DOMAIN, Reason};
use std::io::Write;
use std::process::ExitCode;
use tonic::{Code, Status};
use tonic_types::StatusExt;

/// What went wrong, as scripts see it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorKind {
    /// Anything else: the turn or the request failed.
    Failed,
    /// The command line cannot be understood.
    Usage,
    /// No model, bad key, bad configuration, unknown session, ambiguous name.
    Config,
    /// The daemon cannot be reached, or speaks another protocol.
    Unreachable,
    /// Done, but a call was denied because nobody could approve it.
    Denied,
    /// The provider failed after retries.
    ProviderFailed,
    /// A person stopped it.
    Interrupted,
    /// Whoever read our output is gone. Not an error to speak of.
    BrokenPipe,
}

impl ErrorKind {
    /// The exit code of the contract.
    pub const fn exit_code(self) -> u8 {
        match self {
            Self::Failed => 1,
            Self::Usage => 2,
            Self::Config => 3,
            Self::Unreachable => 4,
            Self::Denied => 5,
            Self::ProviderFailed => 6,
            Self::Interrupted => 130,
            Self::BrokenPipe => 0,
        }
    }
}

/// A command that did not work.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub struct ClientError {
    /// As scripts see it.
    pub kind: ErrorKind,
    /// What failed and why, in one sentence without a capital and a full stop.
    pub message: String,
    /// What to do, each a sentence or a command.
    pub hints: Vec<String>,
    /// The daemon's own reason, if it was the daemon that refused.
    pub reason: Option<Reason>,
    /// What lies beneath.
    #[source]
    pub source: Option<Box<dyn std::error::Error + Send + Sync>>,
    lost: bool,
}

impl ClientError {
    /// An error of this kind.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), hints: Vec::new(), reason: None, source: None, lost: false }
    }
    /// [`ErrorKind::Failed`].
    pub fn failed(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Failed, message)
    }
    /// [`ErrorKind::Usage`].
    pub fn usage(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Usage, message)
    }
    /// [`ErrorKind::Config`].
    pub fn config(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Config, message)
    }
    /// [`ErrorKind::Unreachable`].
    pub fn unreachable(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Unreachable, message)
    }
    /// With one more thing to do.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hints.push(hint.into());
        self
    }
    /// With what lies beneath.
    #[must_use]
    pub fn because(mut self, source: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        self.source = Some(source.into());
        self
    }
    /// Whether the connection is gone, so that [`crate::connect::Connection::reconnect`] can help. A refusal
    /// that the daemon itself sent is never this.
    pub fn is_lost_connection(&self) -> bool {
        self.lost
    }

    /// Says on stderr what went wrong; the exit code of its kind.
    pub fn report(&self) -> ExitCode {
        if self.kind != ErrorKind::BrokenPipe {
            // Nobody is left to tell when stderr is closed too.
            let _ = self.write(&mut std::io::stderr().lock());
        }
        ExitCode::from(self.kind.exit_code())
    }

    fn write(&self, to: &mut impl Write) -> std::io::Result<()> {
        writeln!(to, "error: {}", printable(&self.message))?;
        let mut below = std::error::Error::source(self);
        while let Some(cause) = below {
            let text = cause.to_string();
            if !self.message.contains(&text) {
                writeln!(to, "  because: {}", printable(&text))?;
            }
            below = cause.source();
        }
        self.hints.iter().try_for_each(|hint| writeln!(to, "  hint: {}", printable(hint)))
    }
}

/// Text for a terminal: control and direction characters that came from elsewhere are shown, not obeyed.
fn printable(text: &str) -> String {
    text.chars()
        .map(|c| match c {
            '\n' | '\t' => c,
            '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => '\u{fffd}',
            c if c.is_control() => '\u{fffd}',
            c => c,
        })
        .collect()
}

/// The kind of a refusal, by its reason.
const fn kind_of(reason: Reason) -> ErrorKind {
    match reason {
        Reason::FieldInvalid | Reason::PatternInvalid | Reason::InputTooLarge => ErrorKind::Usage,
        Reason::ConfigInvalid
        | Reason::NoModel
        | Reason::ModelUnknown
        | Reason::CredentialsMissing
        | Reason::WorkspaceNotFound
        | Reason::WorkspaceTooBroad
        | Reason::SessionNotFound
        | Reason::SessionAmbiguous
        | Reason::RequestNotFound
        | Reason::RequestAmbiguous => ErrorKind::Config,
        Reason::ProtocolTooOld => ErrorKind::Unreachable,
        _ => ErrorKind::Failed,
    }
}

impl From<Status> for ClientError {
    fn from(status: Status) -> Self {
        let details = status.get_error_details();
        let reason = details
            .error_info()
            .filter(|info| info.domain == DOMAIN)
            .and_then(|info| Reason::from_word(&info.reason));
        let kind = match (reason, status.code()) {
            (Some(reason), _) => kind_of(reason),
            // Without a reason of ours it was not the daemon that spoke.
            (None, Code::Unavailable | Code::DeadlineExceeded) => ErrorKind::Unreachable,
            (None, _) => ErrorKind::Failed,
        };
        let lost = reason.is_none()
            && matches!(status.code(), Code::Unavailable | Code::Cancelled | Code::Unknown | Code::Internal)
            && is_transport(&status);
        let mut error = Self::new(if lost { ErrorKind::Unreachable } else { kind }, status.message());
        if lost {
            error.message = format!("the connection to the daemon was lost ({})", status.message());
        }
        if let Some(remedy) = details.localized_message() {
            error.hints.push(remedy.message.clone());
        }
        if let Some(help) = details.help() {
            error.hints.extend(help.links.iter().map(|link| link.description.clone()));
        }
        error.reason = reason;
        error.lost = lost;
        error
    }
}

/// Whether a status was made on this side because the connection broke.
fn is_transport(status: &Status) -> bool {
    status.code() == Code::Unavailable
        || std::error::Error::source(status).is_some()
        || status.message().contains("h2 protocol error")
        || status.message().contains("transport error")
}

impl From<std::io::Error> for ClientError {
    fn from(source: std::io::Error) -> Self {
        if source.kind() == std::io::ErrorKind::BrokenPipe {
            return Self::new(ErrorKind::BrokenPipe, "nobody reads the output any more");
        }
        Self::failed("input or output failed").because(source)
    }
}

impl From<agentd_proto::place::PlaceError> for ClientError {
    fn from(source: agentd_proto::place::PlaceError) -> Self {
        Self::config(source.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashMap;
    use tonic_types::ErrorDetails;

    fn refused(reason: &str, domain: &str) -> ClientError {
        let mut details = ErrorDetails::with_error_info(reason, domain, HashMap::new());
        details.set_localized_message("en", "name a model");
        Status::with_error_details(Code::Unavailable, "no", details).into()
    }

    #[test]
    fn the_reason_decides_the_exit_code_and_remedies_become_hints() {
        let error = refused("NO_MODEL", "agentd");
        assert_eq!((error.kind.exit_code(), error.reason), (3, Some(Reason::NoModel)));
        assert_eq!(error.hints, ["name a model"]);
        assert!(!error.is_lost_connection());
        assert_eq!(refused("PROTOCOL_TOO_OLD", "agentd").kind.exit_code(), 4);
        assert_eq!(refused("SESSION_BUSY", "agentd").kind.exit_code(), 1);
        assert_eq!(refused("DRAINING", "agentd").kind, ErrorKind::Failed);
    }

    #[test]
    fn without_a_reason_of_ours_the_connection_is_lost() {
        assert!(ClientError::from(Status::unavailable("broken")).is_lost_connection());
        assert_eq!(refused("NO_MODEL", "elsewhere").reason, None);
        assert!(!ClientError::from(Status::invalid_argument("x")).is_lost_connection());
    }

    #[test]
    fn what_is_said_is_safe_for_a_terminal_and_names_the_cause_once() {
        let cause = std::io::Error::other("disk \u{1b}[31mred");
        let error = ClientError::failed("it failed").because(cause).hint("mend it");
        let mut text = Vec::new();
        error.write(&mut text).unwrap();
        let text = String::from_utf8(text).unwrap();
        assert_eq!(text, "error: it failed\n  because: disk \u{fffd}[31mred\n  hint: mend it\n");
    }

    #[test]
    fn a_closed_pipe_is_not_a_failure() {
        let error = ClientError::from(std::io::Error::from(std::io::ErrorKind::BrokenPipe));
        assert_eq!(error.kind.exit_code(), 0);
    }
}
