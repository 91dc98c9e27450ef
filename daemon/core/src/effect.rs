//! What the world is owed: effects as data, computed from the state and never stored.

use crate::command::Timer;
use crate::ids::{CallId, ModelCallId};

/// One thing the shell owes the world now. Two equal effects are one effect: the value is its own key, so the
/// shell starts what is missing and cancels what is no longer owed.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Effect {
    /// Send the recorded request and decode the answer.
    CallModel {
        /// Which recorded request.
        model_call_id: ModelCallId,
    },
    /// Gather the facts about a call.
    Inspect {
        /// Which.
        call_id: CallId,
    },
    /// Run a started call.
    Run {
        /// Which.
        call_id: CallId,
        /// Which try.
        attempt: u32,
    },
    /// Follow a call that a former run of the daemon started and that still runs.
    Follow {
        /// Which.
        call_id: CallId,
    },
    /// Stop a running call. Its run, owed beside this, reports what it had printed.
    Stop {
        /// Which.
        call_id: CallId,
    },
    /// Report when a time has come.
    Wake {
        /// What for.
        timer: Timer,
        /// When, in Unix milliseconds.
        at_ms: i64,
    },
}
