//! The one place where a model request is built.
//!
//! [`build`] is a pure function of the state: epoch bytes, conversation, limits. Every path goes through it: the
//! first attempt, a retry, a resume after a restart. It looks at no configuration, clock or disk, so within an
//! epoch the sent prefix is the same bytes for ever.
//!
//! Invariants: every call of a sent answer has exactly one result, directly after it, in call order; what the
//! validator would refuse is never sent.

mod assemble;
pub mod system;

use crate::event::{Block, Dialect};
use crate::ids::Seq;
use crate::model::{anthropic, validate};
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
    /// The dialect is not spoken yet.
    #[error(
        "provider {provider} speaks {dialect}, which this build does not; use a provider with protocol = \"anthropic\""
    )]
    Dialect {
        /// The provider.
        provider: String,
        /// Its dialect.
        dialect: String,
    },
    /// The validator refused it.
    #[error("the request was not sent, because the provider would refuse it: {0}")]
    Refused(String),
}

/// Builds the request that includes the content of all events up to `included_seq`.
pub fn build(session: &Session, included_seq: Seq, max_output_tokens: u32) -> Result<Built, BuildError> {
    let epoch = session.epoch.as_deref().ok_or(BuildError::NoEpoch)?;
    let request = assemble::assemble(session, epoch, included_seq, max_output_tokens);
    validate::validate(&request).map_err(|faults| {
        let words: Vec<String> = faults.iter().take(SHOWN_FAULTS).map(ToString::to_string).collect();
        BuildError::Refused(words.join("; "))
    })?;
    match epoch.profile.dialect {
        Dialect::Anthropic => {
            let body = anthropic::encode(&request, anthropic::Markers::Sent);
            let hash = anthropic::request_hash(&request);
            let est_tokens = crate::context::estimate_prompt(session, included_seq);
            Ok(Built { body, hash, est_tokens })
        }
        Dialect::OpenAiChat | Dialect::OpenAiResponses => Err(BuildError::Dialect {
            provider: epoch.profile.provider.clone(),
            dialect: if epoch.profile.dialect == Dialect::OpenAiChat {
                "openai-chat"
            } else {
                "openai-responses"
            }
            .to_owned(),
        }),
    }
}

/// Why an answer could not be sent back in the next request, if so.
pub(crate) fn answer_fault(session: &Session, blocks: &[Block]) -> Option<String> {
    let epoch = session.epoch.as_deref()?;
    if let Some(id) = assemble::used_id(session, blocks) {
        return Some(format!("id_repeated: {id}"));
    }
    let faults = validate::validate(&assemble::with_answer(epoch, blocks)).err()?;
    Some(faults.iter().take(SHOWN_FAULTS).map(ToString::to_string).collect::<Vec<_>>().join("; "))
}

/// The body without cache markers and whatever its faults, for comparing what is sent.
#[cfg(test)]
pub(crate) fn unmarked_body(session: &Session, included_seq: Seq, max_output_tokens: u32) -> Option<Vec<u8>> {
    let epoch = session.epoch.as_deref()?;
    let request = assemble::assemble(session, epoch, included_seq, max_output_tokens);
    Some(anthropic::encode(&request, anthropic::Markers::Left))
}

/// Faults named in one message; the first ones say what is wrong.
const SHOWN_FAULTS: usize = 3;

/// SHA-256 in lower-case hex.
pub fn sha256_hex(bytes: &[u8]) -> String {
    crate::session::hex(&Sha256::digest(bytes))
}
