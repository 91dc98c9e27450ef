//! Why a call was refused: the stable words of `google.rpc.ErrorInfo.reason` in the domain `agentd`.
//!
//! Scripts branch on these and on nothing else of an error. `proto/README.md` lists them; a test holds the
//! list against this one.

/// The domain of every reason.
pub const DOMAIN: &str = "agentd";

macro_rules! reasons {
    ($($(#[$doc:meta])* $name:ident = $text:literal,)*) => {
        /// Why a call was refused.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Reason { $($(#[$doc])* $name,)* }
        impl Reason {
            /// Every reason.
            pub const ALL: &'static [Self] = &[$(Self::$name,)*];
            /// The word on the wire.
            pub const fn as_str(self) -> &'static str { match self { $(Self::$name => $text,)* } }
            /// The reason of a word.
            pub fn from_word(text: &str) -> Option<Self> { match text { $($text => Some(Self::$name),)* _ => None } }
        }
    };
}

reasons! {
    /// A field is missing or wrong.
    FieldInvalid = "FIELD_INVALID",
    /// The same request id came with another content.
    RequestIdReused = "REQUEST_ID_REUSED",
    /// The daemon has work and was to stop only when idle.
    DaemonBusy = "DAEMON_BUSY",
    /// Another run of the daemon answers.
    RunIdMismatch = "RUN_ID_MISMATCH",
    /// The configuration cannot be used.
    ConfigInvalid = "CONFIG_INVALID",
    /// No model is configured or named.
    NoModel = "NO_MODEL",
    /// The named model is not known.
    ModelUnknown = "MODEL_UNKNOWN",
    /// The provider's key is missing.
    CredentialsMissing = "CREDENTIALS_MISSING",
    /// The folder does not exist or is not one.
    WorkspaceNotFound = "WORKSPACE_NOT_FOUND",
    /// The folder is too broad to be meant.
    WorkspaceTooBroad = "WORKSPACE_TOO_BROAD",
    /// The place is beyond the log.
    SeqOutOfRange = "SEQ_OUT_OF_RANGE",
    /// There is no such session.
    SessionNotFound = "SESSION_NOT_FOUND",
    /// Several sessions fit.
    SessionAmbiguous = "SESSION_AMBIGUOUS",
    /// The session cannot be folded.
    SessionFailed = "SESSION_FAILED",
    /// The session has moved on.
    SeqConflict = "SEQ_CONFLICT",
    /// The session is at work.
    SessionBusy = "SESSION_BUSY",
    /// Other sessions came from this one.
    HasForks = "HAS_FORKS",
    /// Too many inputs wait.
    QueueFull = "QUEUE_FULL",
    /// The input is too large.
    InputTooLarge = "INPUT_TOO_LARGE",
    /// The input does not wait any more.
    InputNotWaiting = "INPUT_NOT_WAITING",
    /// The session waits for the store.
    SessionPaused = "SESSION_PAUSED",
    /// That turn is over.
    TurnMismatch = "TURN_MISMATCH",
    /// That call is not open.
    CallNotOpen = "CALL_NOT_OPEN",
    /// Nothing waits for a resume.
    NotPaused = "NOT_PAUSED",
    /// The outcome of the call is known.
    CallNotUnknown = "CALL_NOT_UNKNOWN",
    /// A call with unknown outcome needs a word.
    CallStillUnknown = "CALL_STILL_UNKNOWN",
    /// A turn is open.
    TurnRunning = "TURN_RUNNING",
    /// There is no such request.
    RequestNotFound = "REQUEST_NOT_FOUND",
    /// Several requests fit.
    RequestAmbiguous = "REQUEST_AMBIGUOUS",
    /// Somebody was faster.
    RequestAlreadyAnswered = "REQUEST_ALREADY_ANSWERED",
    /// It expired.
    RequestExpired = "REQUEST_EXPIRED",
    /// What was shown is not what is asked.
    ShownHashMismatch = "SHOWN_HASH_MISMATCH",
    /// The scope was not offered.
    ScopeNotOffered = "SCOPE_NOT_OFFERED",
    /// The artifact is gone or never was.
    ArtifactExpired = "ARTIFACT_EXPIRED",
    /// The pattern is not a regular expression.
    PatternInvalid = "PATTERN_INVALID",
    /// Too many calls or streams on one connection.
    TooManyStreams = "TOO_MANY_STREAMS",
    /// The daemon is stopping.
    Draining = "DRAINING",
    /// The store cannot be written.
    StoragePaused = "STORAGE_PAUSED",
    /// The peer belongs to another user.
    PeerForeignUid = "PEER_FOREIGN_UID",
    /// The peer was started by a tool call of ours and may only read.
    PeerIsATool = "PEER_IS_A_TOOL",
    /// The store is damaged.
    StoreCorrupt = "STORE_CORRUPT",
    /// This build does not have it yet.
    NotBuilt = "NOT_BUILT",
    /// Client and daemon share no protocol.
    ProtocolTooOld = "PROTOCOL_TOO_OLD",
    /// Something failed inside; the log has it.
    Internal = "INTERNAL",
}
