//! The place of the sandbox: what is asked for, and the one function that makes it hold.
//!
//! Invariant: what is reported is what was applied. Today there is only [`SandboxSpec::None`], so no layer is
//! ever reported; callers must say that a command runs with the full rights of the user.

use serde::{Deserialize, Serialize};

/// What shall hold around a command.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "mode")]
#[non_exhaustive]
pub enum SandboxSpec {
    /// Nothing: the command has all the rights of the user.
    #[default]
    None,
}

impl SandboxSpec {
    /// The word for it in events and approvals.
    pub fn name(&self) -> &'static str {
        match self {
            Self::None => "none",
        }
    }

    /// The layers that hold once `apply_sandbox` succeeded. Empty means that no sandbox holds.
    pub fn layers(&self) -> Vec<String> {
        match self {
            Self::None => Vec::new(),
        }
    }
}

/// Called in the child between fork and exec, last before it. It must not allocate, lock or panic. An error
/// (an errno) keeps the command from being started.
pub(super) fn apply_sandbox(spec: &SandboxSpec) -> Result<(), i32> {
    match spec {
        SandboxSpec::None => Ok(()),
    }
}
