//! The one place where a model request is built.
//!
//! [`build`] is a pure function of the state: epoch bytes, conversation, limits. Every path goes through it: the
//! first attempt, a retry, a resume after a restart. It looks at no configuration, clock or disk, so within an
//! epoch the sent prefix is the same bytes for ever.
//!
//! Invariants: every call of a sent answer has exactly one result, directly after it, in call order; what another
//! provider said is said again in the words of the one that is spoken to; what the validator would refuse is never
//! sent.

mod answer;
mod assemble;
mod call_ids;
pub mod system;

use crate::event::{Block, Dialect, EpochStarted};
use crate::ids::{ModelCallId, Seq};
use crate::model::request::Request;
use crate::model::{anthropic, openai_chat, validate};
use crate::session::Session;
use sha2::{Digest, Sha256};

/// A request, ready to be sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Built {
    /// The body.
    pub body: Vec<u8>,
    /// SHA-256 of the body without cache markers, in hex.
    pub hash: String,
    /// Estimated prompt tokens, calibrated by what the provider last counted.
    pub est_tokens: u64,
}

/// Why no request could be built. The session stays as it is.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BuildError {
    /// There is nothing to build from.
    #[error("the session has no epoch to build a request from")]
    NoEpoch,
    /// The dialect is not spoken.
    #[error(
        "provider {provider} speaks openai-responses, which this build does not; most such providers speak Chat \
         Completions as well: set its protocol = \"openai-chat\""
    )]
    Dialect {
        /// The provider.
        provider: String,
    },
    /// The validator refused it.
    #[error("the request was not sent, because the provider would refuse it: {0}")]
    Refused(String),
}

/// Builds the request that includes the content of all events up to `included_seq`.
pub fn build(session: &Session, included_seq: Seq, max_output_tokens: u32) -> Result<Built, BuildError> {
    let epoch = session.epoch.as_deref().ok_or(BuildError::NoEpoch)?;
    if epoch.profile.dialect == Dialect::OpenAiResponses {
        return Err(BuildError::Dialect { provider: epoch.profile.provider.clone() });
    }
    let request = assemble::assemble(session, epoch, included_seq, max_output_tokens);
    if let Some(words) = faults(&request) {
        return Err(BuildError::Refused(words));
    }
    let (body, hash) = written(epoch, &request);
    Ok(Built { body, hash, est_tokens: crate::context::estimate_prompt(session, included_seq) })
}

fn written(epoch: &EpochStarted, request: &Request<'_>) -> (Vec<u8>, String) {
    match epoch.profile.dialect {
        Dialect::Anthropic => {
            (anthropic::encode(request, anthropic::Markers::Sent), anthropic::request_hash(request))
        }
        Dialect::OpenAiChat | Dialect::OpenAiResponses => {
            (openai_chat::encode(request), openai_chat::request_hash(request))
        }
    }
}

fn faults(request: &Request<'_>) -> Option<String> {
    let faults = validate::validate(request).err()?;
    Some(faults.iter().take(SHOWN_FAULTS).map(ToString::to_string).collect::<Vec<_>>().join("; "))
}

/// Why an answer could not be sent back in the next request, if so. Its ids are no reason: one that is taken or
/// refused is sent as another.
pub(crate) fn answer_fault(
    session: &Session,
    model_call_id: &ModelCallId,
    blocks: &[Block],
) -> Option<String> {
    let (epoch, speaker) = (session.epoch.as_deref()?, session.speaker.as_deref()?);
    faults(&assemble::with_answer(epoch, speaker, model_call_id, blocks))
}

/// The body without cache markers and whatever its faults, for comparing what is sent.
#[cfg(test)]
pub(crate) fn unmarked_body(session: &Session, included_seq: Seq, max_output_tokens: u32) -> Option<Vec<u8>> {
    let epoch = session.epoch.as_deref()?;
    let request = assemble::assemble(session, epoch, included_seq, max_output_tokens);
    Some(match epoch.profile.dialect {
        Dialect::Anthropic => anthropic::encode(&request, anthropic::Markers::Left),
        Dialect::OpenAiChat | Dialect::OpenAiResponses => openai_chat::encode(&request),
    })
}

/// Faults named in one message; the first ones say what is wrong.
const SHOWN_FAULTS: usize = 3;

/// SHA-256 in lower-case hex.
pub fn sha256_hex(bytes: &[u8]) -> String {
    crate::session::hex(&Sha256::digest(bytes))
}
