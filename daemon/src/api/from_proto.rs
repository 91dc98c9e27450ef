//! The contract's words as domain words. What is not understood is refused, never guessed.

use super::status;
use agentd_core::command::{ChangeSession, ResolveCall};
use agentd_core::event::{
    CallResolution, Delivery, GrantScope, InputPart, OnRestart, PermissionMode, TurnLimits,
    UnattendedApprovals, Verdict,
};
use agentd_core::ids::{ArtifactId, CallId};
use agentd_core::path_bytes::PathBytes;
use agentd_core::projection::SessionState;
use agentd_proto::v1;
use sha2::{Digest, Sha256};
use tonic::Status;

/// An enum field by its known values; the zero value gives `default`, an unknown one is refused.
macro_rules! word {
    ($name:ident: $wire:ty => $domain:ty { $($from:ident => $to:expr,)* }) => {
        pub(super) fn $name(value: i32, field: &str) -> Result<Option<$domain>, Status> {
            let known = <$wire>::try_from(value).map_err(|_| status::field(field, format!("{value} is not known here")).status())?;
            Ok(match known {
                <$wire>::Unspecified => None,
                $(<$wire>::$from => Some($to),)*
            })
        }
    };
}

word!(mode: v1::PermissionMode => PermissionMode {
    ReadOnly => PermissionMode::ReadOnly, Ask => PermissionMode::Ask,
    Workspace => PermissionMode::Workspace, Full => PermissionMode::Full,
});
word!(on_restart: v1::OnRestart => OnRestart { Wait => OnRestart::Wait, Continue => OnRestart::Continue, });
word!(unattended: v1::UnattendedApprovals => UnattendedApprovals {
    Deny => UnattendedApprovals::Deny, Wait => UnattendedApprovals::Wait,
});
word!(verdict: v1::Verdict => Verdict { Allow => Verdict::Allow, Ask => Verdict::Ask, Deny => Verdict::Deny, });
word!(scope: v1::GrantScope => GrantScope {
    Once => GrantScope::Once, Session => GrantScope::Session, Project => GrantScope::Project, User => GrantScope::User,
});
word!(delivery: v1::Delivery => Delivery { Steer => Delivery::Steer, Queue => Delivery::Queue, });
word!(resolution: v1::CallResolution => CallResolution {
    Done => CallResolution::Done, Retry => CallResolution::Retry, Failed => CallResolution::Failed,
});
word!(state: v1::SessionState => SessionState {
    Idle => SessionState::Idle, Running => SessionState::Running, Waiting => SessionState::Waiting,
    Paused => SessionState::Paused, Interrupted => SessionState::Interrupted, Failed => SessionState::Failed,
    Closed => SessionState::Closed,
});

/// Limits with the given ones replaced.
pub(super) fn limits(given: Option<&v1::TurnLimits>, mut limits: TurnLimits) -> Result<TurnLimits, Status> {
    let Some(given) = given else { return Ok(limits) };
    let positive = |value: u32, field: &str| {
        if value == 0 { Err(status::field(field, "must be at least 1").status()) } else { Ok(value) }
    };
    if let Some(value) = given.max_steps {
        limits.max_steps = positive(value, "limits.max_steps")?;
    }
    if let Some(value) = given.max_calls_per_message {
        limits.max_calls_per_message = positive(value, "limits.max_calls_per_message")?;
    }
    if let Some(value) = given.max_cost_micro_usd {
        if value < 0 {
            return Err(
                status::field("limits.max_cost_micro_usd", "must not be negative; 0 means no limit").status()
            );
        }
        limits.max_cost_micro_usd = value;
    }
    if let Some(value) = given.max_minutes {
        limits.max_minutes = positive(value, "limits.max_minutes")?;
    }
    if let Some(value) = given.command_timeout_s {
        limits.command_timeout_s = positive(value, "limits.command_timeout_s")?;
    }
    Ok(limits)
}

/// The parts of an input.
pub(super) fn parts(parts: Vec<v1::InputPart>) -> Result<Vec<InputPart>, Status> {
    use v1::input_part::Part;
    parts
        .into_iter()
        .map(|part| match part.part {
            Some(Part::Text(text)) => Ok(InputPart::Text(text)),
            Some(Part::ArtifactId(id)) => Ok(InputPart::Artifact(ArtifactId::new(id))),
            Some(Part::FileRef(path)) => Ok(InputPart::FileRef(PathBytes::new(path))),
            None => {
                Err(status::field("parts", "a part is empty or of a kind that is not known here").status())
            }
        })
        .collect()
}

/// What is said about unknown calls.
pub(super) fn resolutions(given: Vec<v1::ResolvedCall>) -> Result<Vec<ResolveCall>, Status> {
    given
        .into_iter()
        .map(|said| {
            let word = resolution(said.resolution, "resolutions.resolution")?.ok_or_else(|| {
                status::field("resolutions.resolution", "must be done, retry or failed").status()
            })?;
            Ok(ResolveCall {
                call_id: CallId::new(said.call_id),
                resolution: word,
                text: (!said.text.is_empty()).then_some(said.text),
            })
        })
        .collect()
}

/// Changed settings, without the model, which needs the configuration.
pub(super) fn change(
    given: &v1::UpdateSessionRequest,
    current: &TurnLimits,
) -> Result<ChangeSession, Status> {
    Ok(ChangeSession {
        expected_seq: given.expected_seq,
        name: given.name.clone(),
        mode: given.mode.map(|value| mode(value, "mode")).transpose()?.flatten(),
        on_restart: given.on_restart.map(|value| on_restart(value, "on_restart")).transpose()?.flatten(),
        limits: given.limits.as_ref().map(|given| limits(Some(given), current.clone())).transpose()?,
        model: None,
        archived: given.archived,
        record: given.record,
    })
}

/// The content of a request, without its id and its environment: what a repetition must have the same.
pub(super) fn content_hash(request: &impl prost::Message) -> [u8; 32] {
    Sha256::digest(request.encode_to_vec()).into()
}
