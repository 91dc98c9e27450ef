//! What the tables beside the log take from one event: a pure function, used when an event is appended and
//! when the projections are rebuilt.

use super::hex;
use agentd_core::event::{
    ArtifactStored, Binding, Coverage, Event, EventBody, FileChange, TurnFinished, Usage,
};
use agentd_core::ids::{Seq, SessionId, TurnNo};
use agentd_core::path_bytes::PathBytes;
use sha2::{Digest, Sha256};

/// One change to a projection.
#[derive(Clone, Debug)]
pub(super) enum Derived {
    TurnStarted(TurnNo),
    TurnFinished(TurnNo, TurnEnd),
    EpochStarted(Box<EpochRow>),
    EpochReverted(u32),
    Artifact(Box<ArtifactStored>),
    FilesChanged {
        call_id: String,
        changes: Vec<FileChange>,
        coverage: &'static str,
    },
    ModelCallStarted {
        id: String,
        model: String,
        purpose: String,
    },
    ModelCallFinished {
        id: String,
        usage: Usage,
        cost_micro_usd: i64,
    },
    ModelCallFailed {
        id: String,
        /// What an answer that was not kept has used, and its price.
        spent: Option<(Usage, i64)>,
    },
    RequestOpened(String),
    /// The session needs this blob.
    BlobHeld(String),
}

/// How a turn ended.
#[derive(Clone, Debug)]
pub(super) struct TurnEnd {
    pub(super) status: &'static str,
    pub(super) steps: u32,
    pub(super) usage: Usage,
    pub(super) cost_micro_usd: i64,
}

/// A row of `epochs`.
#[derive(Clone, Debug)]
pub(super) struct EpochRow {
    pub(super) epoch: u32,
    pub(super) reason: String,
    pub(super) model: String,
    pub(super) system_hash: String,
    pub(super) tools_hash: String,
    pub(super) thinking: &'static str,
    pub(super) tokens_before: u64,
    pub(super) tokens_after: u64,
}

/// What never changes about a session, from its first event.
#[derive(Clone, Debug)]
pub(super) struct Identity {
    pub(super) root: PathBytes,
    pub(super) parent: Option<(SessionId, Seq)>,
}

/// Who a session is, when this is the event that says so.
pub(super) fn identity(event: &Event) -> Option<Identity> {
    let EventBody::SessionCreated(created) = &event.body else { return None };
    let parent = created.parent.as_ref().map(|parent| (parent.session_id.clone(), parent.seq));
    Some(Identity { root: created.root.clone(), parent })
}

/// What the tables take from an event. Kinds that are not named here are read from the log alone.
pub(super) fn derive(event: &Event) -> Vec<Derived> {
    match &event.body {
        EventBody::TurnStarted(body) => vec![Derived::TurnStarted(body.turn)],
        EventBody::TurnFinished(body) => turn_finished(event.turn, body),
        EventBody::EpochStarted(body) => vec![Derived::EpochStarted(Box::new(EpochRow {
            epoch: body.epoch,
            reason: body.reason.clone(),
            model: format!("{}/{}", body.profile.provider, body.profile.model),
            system_hash: hex(&Sha256::digest(body.system.as_bytes())),
            tools_hash: hex(&Sha256::digest(body.tools.get().as_bytes())),
            thinking: if body.strip_thinking { "strip_all" } else { "keep" },
            tokens_before: body.tokens_before,
            tokens_after: body.tokens_after,
        }))],
        EventBody::EpochReverted(body) => vec![Derived::EpochReverted(body.epoch)],
        EventBody::ArtifactStored(body) => {
            vec![Derived::Artifact(Box::new(body.clone())), Derived::BlobHeld(body.hash.clone())]
        }
        EventBody::FilesChanged(body) => {
            let coverage = match body.coverage {
                Coverage::Full => "full",
                Coverage::Partial => "partial",
            };
            let call_id = body.call_id.to_string();
            let mut derived =
                vec![Derived::FilesChanged { call_id, changes: body.changes.clone(), coverage }];
            derived.extend(body.changes.iter().flat_map(|change| held(&change.before, &change.after)));
            derived
        }
        EventBody::HistoryMoved(body) => {
            body.files.iter().flat_map(|file| held(&file.from, &file.to)).collect()
        }
        EventBody::CallStarted(body) => match &body.binding {
            // The old content is what an undo puts back, also when only recovery learns that it changed.
            Some(Binding::File { before, .. }) => held(before, &None).collect(),
            Some(Binding::Files(files)) => files.iter().flat_map(|file| held(&file.before, &None)).collect(),
            _ => Vec::new(),
        },
        EventBody::ModelCallStarted(body) => vec![Derived::ModelCallStarted {
            id: body.model_call_id.to_string(),
            model: format!("{}/{}", body.provider, body.model),
            purpose: body.purpose.clone(),
        }],
        EventBody::ModelCallFinished(body) => vec![Derived::ModelCallFinished {
            id: body.model_call_id.to_string(),
            usage: body.usage,
            cost_micro_usd: body.cost_micro_usd,
        }],
        EventBody::ModelCallFailed(body) => {
            let spent = body.usage.map(|usage| (usage, body.cost_micro_usd));
            vec![Derived::ModelCallFailed { id: body.model_call_id.to_string(), spent }]
        }
        EventBody::RequestOpened(body) => vec![Derived::RequestOpened(body.request_id.to_string())],
        _ => Vec::new(),
    }
}

fn turn_finished(turn: Option<TurnNo>, body: &TurnFinished) -> Vec<Derived> {
    let end = TurnEnd {
        status: body.status.as_str(),
        steps: body.steps,
        usage: body.usage,
        cost_micro_usd: body.cost_micro_usd,
    };
    turn.map(|turn| Derived::TurnFinished(turn, end)).into_iter().collect()
}

fn held(before: &Option<String>, after: &Option<String>) -> impl Iterator<Item = Derived> {
    before.clone().into_iter().chain(after.clone()).map(Derived::BlobHeld)
}
