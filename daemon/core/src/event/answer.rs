//! Facts about requests to people.

use super::{GrantScope, RequestClose, RequestKind, Verdict};
use crate::ids::{CallId, RequestId};
use serde::{Deserialize, Serialize};

/// A person is asked.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct RequestOpened {
    /// Its id.
    pub request_id: RequestId,
    /// What is asked for.
    pub kind: RequestKind,
    /// The call it is about.
    pub call_id: CallId,
    /// The tool of the call.
    pub tool: String,
    /// The whole of what the person decides on: the command with its folder, or the diff.
    pub shown: String,
    /// SHA-256 of `shown` and what the call holds on to; the answer names it.
    pub shown_hash: String,
    /// Why it asks.
    pub reason: String,
    /// How far an answer may reach.
    pub scopes: Vec<GrantScope>,
    /// When it counts as denied, in Unix milliseconds.
    pub expires_at_ms: i64,
}

/// A request closed. The first answer wins.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct RequestClosed {
    /// Which.
    pub request_id: RequestId,
    /// How.
    pub close: RequestClose,
    /// The answer; absent unless answered.
    pub decision: Option<Verdict>,
    /// How far it reaches.
    pub scope: GrantScope,
    /// What the person said.
    pub reason: Option<String>,
}
