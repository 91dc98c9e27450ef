//! The context of a session as a budget: what is in it, how large it is, and why.
//!
//! Provider usage is the truth for tokens; an estimate calibrated by it fills the gaps. Nothing here changes
//! what is sent.
//!
//! Deliberately absent for now: plans that free a region. Caps are published, not enforced.

mod ledger;

pub use ledger::{Ledger, LedgerEpoch, LedgerItem, LedgerRegion, Region, ledger};

use crate::ids::Seq;
use crate::session::Session;
use crate::transcript::{Content, Item};

/// Bytes of text for one token before anything was measured: low on purpose, so that an estimate errs towards
/// too many tokens (recent tokenizers make about 30 % more of the same text than older ones).
const BYTES_PER_TOKEN_TENTHS: u64 = 33;

/// Tokens of so many bytes, by rule of thumb.
pub(crate) const fn rule_of_thumb(bytes: usize) -> u64 {
    (bytes as u64 * 10).div_ceil(BYTES_PER_TOKEN_TENTHS)
}

/// Bytes that an item adds to a request.
pub(crate) fn item_bytes(item: &Item) -> usize {
    /// The frame around a piece of content: type, id, braces.
    const FRAME_BYTES: usize = 60;
    FRAME_BYTES
        + match &item.content {
            Content::Input { text, .. } | Content::Notice { text, .. } | Content::Result { text, .. } => {
                text.len()
            }
            Content::Assistant { blocks, .. } => blocks.iter().map(|block| block.raw.get().len()).sum(),
        }
}

/// The prompt by rule of thumb: everything that a request up to `included_seq` holds.
pub(crate) fn uncalibrated_prompt(session: &Session, included_seq: Seq) -> u64 {
    let fixed = session.epoch.as_ref().map_or(0, |epoch| epoch.system.len() + epoch.tools.get().len());
    let items = session.transcript.iter().take_while(|item| item.seq <= included_seq).map(item_bytes);
    rule_of_thumb(fixed + items.sum::<usize>())
}

/// Estimated prompt tokens of a request up to `included_seq`: the rule of thumb, scaled by how far it was off when the
/// provider last counted.
pub fn estimate_prompt(session: &Session, included_seq: Seq) -> u64 {
    Scale::of(session).apply(uncalibrated_prompt(session, included_seq))
}

/// How far the rule of thumb was off.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scale {
    measured: u64,
    estimated: u64,
}

/// A measurement that is further off than this is not believed: some servers count only what their cache missed.
const SCALE_MAX: u64 = 4;

impl Scale {
    /// By the last measurement of a session.
    pub(crate) fn of(session: &Session) -> Self {
        let truth = session.token_truth;
        if truth.measured == 0 {
            return Self { measured: 1, estimated: 1 };
        }
        let estimated = uncalibrated_prompt(session, truth.included_seq).max(1);
        let measured =
            truth.measured.clamp(estimated.div_ceil(SCALE_MAX), estimated.saturating_mul(SCALE_MAX));
        Self { measured, estimated }
    }

    /// Scales tokens by rule of thumb.
    pub(crate) fn apply(self, tokens: u64) -> u64 {
        let scaled = u128::from(tokens) * u128::from(self.measured) / u128::from(self.estimated);
        u64::try_from(scaled).unwrap_or(u64::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn estimates_follow_the_provider_within_reason() {
        let scale = |measured, estimated| Scale { measured, estimated }.apply(1_000);
        assert_eq!(scale(1, 1), 1_000);
        assert_eq!(scale(3, 2), 1_500);
        let nothing_measured = Scale::of(&Session::empty());
        assert_eq!(nothing_measured.apply(7), 7);
        let mut session = Session::empty();
        session.token_truth.measured = 1_000_000;
        assert_eq!(Scale::of(&session).apply(10), 40);
    }
}
