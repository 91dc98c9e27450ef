//! How much of one tool result the model is shown: one place for every tool.
//!
//! Three bounds, the smallest counts: what is configured, a share of the window for one result, and what the results
//! of one message may take together, divided by the calls of the message. A result is cut once, when it is made, so
//! the same call in a later, larger window is not cut again.

use crate::event::ResultLimits;
use crate::limits;
use crate::session::Session;

/// Bounds of one result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ResultBounds {
    /// Bytes in all.
    pub max_bytes: usize,
    /// Lines kept of the start, where the middle is cut out.
    pub head_lines: usize,
    /// Lines kept of the end.
    pub tail_lines: usize,
}

impl Default for ResultBounds {
    fn default() -> Self {
        Self {
            max_bytes: limits::RESULT_MAX_BYTES,
            head_lines: limits::RESULT_HEAD_LINES,
            tail_lines: limits::RESULT_TAIL_LINES,
        }
    }
}

impl ResultBounds {
    /// The bounds of a result in a session as it is now.
    pub fn of(session: &Session) -> Self {
        let wanted = session.settings.as_deref().map(|settings| settings.results).unwrap_or_default();
        let calls = session.turn.as_ref().map_or(1, |turn| turn.calls.len().max(1));
        let usable = session.profile_in_use().map_or(u64::MAX, |profile| {
            profile.context_window.saturating_sub(u64::from(profile.max_output_tokens))
        });
        Self::fitting(wanted, usable, calls)
    }

    /// Whether so much is more than what may be shown, so that the whole belongs into an artifact.
    pub fn exceeded_by(&self, total_bytes: u64, total_lines: u64) -> bool {
        let (lines, bytes) = (self.head_lines + self.tail_lines, self.max_bytes);
        total_bytes > u64::try_from(bytes).unwrap_or(u64::MAX)
            || total_lines > u64::try_from(lines).unwrap_or(u64::MAX)
    }

    /// What fits a window of `usable` tokens beside `calls` calls in all.
    pub fn fitting(wanted: ResultLimits, usable: u64, calls: usize) -> Self {
        let bytes = |milli: u64| super::bytes_of(usable.saturating_mul(milli) / 1_000);
        let together = bytes(u64::from(wanted.share_milli)) / u64::try_from(calls.max(1)).unwrap_or(u64::MAX);
        let fits = usize::try_from(bytes(limits::RESULT_SHARE_MILLI).min(together)).unwrap_or(usize::MAX);
        // A configured bound below the least is what somebody wants.
        let least = limits::RESULT_MIN_BYTES.min(wanted.max_bytes);
        let max_bytes = fits.clamp(least, wanted.max_bytes.max(least));
        // Lines shrink with the bytes, so that both ends of a cut result keep their share.
        let scaled = |lines: usize| {
            let part = lines.saturating_mul(max_bytes) / wanted.max_bytes.max(1);
            part.max(limits::RESULT_MIN_LINES.min(lines))
        };
        Self { max_bytes, head_lines: scaled(wanted.head_lines), tail_lines: scaled(wanted.tail_lines) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_large_window_leaves_what_is_configured() {
        let wanted = ResultLimits::default();
        assert_eq!(ResultBounds::fitting(wanted, 180_000, 1), ResultBounds::default());
        assert_eq!(ResultBounds::fitting(wanted, 1_000_000, 32), ResultBounds::default());
    }

    #[test]
    fn a_small_window_and_many_calls_leave_less() {
        let wanted = ResultLimits::default();
        let one = ResultBounds::fitting(wanted, 7_168, 1);
        assert!(one.max_bytes < 3_000 && one.max_bytes >= 2_000, "{one:?}");
        assert!(one.head_lines < 20 && one.tail_lines >= limits::RESULT_MIN_LINES);
        assert_eq!(ResultBounds::fitting(wanted, 7_168, 64).max_bytes, limits::RESULT_MIN_BYTES);
        assert!(ResultBounds::fitting(wanted, 100_000, 16).max_bytes < limits::RESULT_MAX_BYTES);
    }

    proptest! {
        #[test]
        fn never_above_what_is_configured_and_never_nothing(
            head in 0_usize..5_000, tail in 0_usize..5_000, max in 1_usize..=limits::RESULT_MAX_BYTES,
            share in 0_u32..=1_000, usable in any::<u64>(), calls in 0_usize..2_000,
        ) {
            let wanted = ResultLimits { head_lines: head, tail_lines: tail, max_bytes: max, share_milli: share };
            let bounds = ResultBounds::fitting(wanted, usable, calls);
            prop_assert!(bounds.max_bytes <= max && bounds.max_bytes >= max.min(limits::RESULT_MIN_BYTES));
            prop_assert!(bounds.head_lines <= head && bounds.tail_lines <= tail);
            let fewer = ResultBounds::fitting(wanted, usable, calls + 1);
            prop_assert!(fewer.max_bytes <= bounds.max_bytes);
        }
    }
}
