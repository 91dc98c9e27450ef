//! The context of a session as a budget: what is in it, how large it is, and why.
//!
//! Provider usage is the truth for tokens; an estimate calibrated by it fills the gaps. Nothing here changes
//! what is sent.
//!
//! Deliberately absent for now: plans that free a region. Caps are published, not enforced.

mod bounds;
mod ledger;

pub use bounds::ResultBounds;
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

/// Bytes of text in so many tokens, by the same rule.
const fn bytes_of(tokens: u64) -> u64 {
    tokens.saturating_mul(BYTES_PER_TOKEN_TENTHS) / 10
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

/// Estimated prompt tokens of a request up to `included_seq`: what the provider last counted, and for what came since the
/// rule of thumb, scaled by how far it was off.
pub fn estimate_prompt(session: &Session, included_seq: Seq) -> u64 {
    let calibration = Calibration::of(session);
    let counted = uncalibrated_prompt(session, included_seq.min(calibration.counted_seq));
    let all = uncalibrated_prompt(session, included_seq);
    calibration.counted.apply(counted).saturating_add(calibration.later.apply(all.saturating_sub(counted)))
}

/// How far the rule of thumb was off.
#[derive(Clone, Copy, Debug)]
struct Scale {
    measured: u64,
    estimated: u64,
}

impl Scale {
    /// Scales tokens by rule of thumb.
    fn apply(self, tokens: u64) -> u64 {
        let scaled = u128::from(tokens) * u128::from(self.measured) / u128::from(self.estimated);
        u64::try_from(scaled).unwrap_or(u64::MAX)
    }
}

/// What the last count of the provider says about items that were in it and about those that came since.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Calibration {
    counted: Scale,
    later: Scale,
    counted_seq: Seq,
}

/// A count that is so much smaller than the rule of thumb is not believed: some servers count only what their cache
/// missed. One that is larger is the truth about its prompt, but says no more than this about the next text.
const SCALE_MAX: u64 = 4;

impl Calibration {
    /// By the last count in a session.
    pub(crate) fn of(session: &Session) -> Self {
        let truth = session.token_truth;
        let rule = Scale { measured: 1, estimated: 1 };
        if truth.measured == 0 {
            return Self { counted: rule, later: rule, counted_seq: truth.included_seq };
        }
        let estimated = uncalibrated_prompt(session, truth.included_seq).max(1);
        let measured = truth.measured.max(estimated.div_ceil(SCALE_MAX));
        let later = measured.min(estimated.saturating_mul(SCALE_MAX));
        Self {
            counted: Scale { measured, estimated },
            later: Scale { measured: later, estimated },
            counted_seq: truth.included_seq,
        }
    }

    /// Tokens of so many bytes of an item with this sequence number.
    pub(crate) fn tokens(self, seq: Seq, bytes: usize) -> u64 {
        let scale = if seq <= self.counted_seq { self.counted } else { self.later };
        scale.apply(rule_of_thumb(bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn estimates_follow_the_provider_within_reason() {
        let scale = |measured, estimated| Scale { measured, estimated }.apply(1_000);
        assert_eq!((scale(1, 1), scale(3, 2)), (1_000, 1_500));
        let mut session = Session::empty();
        assert_eq!(Calibration::of(&session).tokens(0, 33), 10);
        // A count is the truth about its own prompt, however far off the rule of thumb was.
        session.token_truth.measured = 60_000;
        session.token_truth.included_seq = 5;
        assert_eq!(Calibration::of(&session).counted.apply(1), 60_000);
        assert_eq!(Calibration::of(&session).tokens(6, 33), 40);
    }
}
