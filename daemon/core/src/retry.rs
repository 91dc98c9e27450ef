//! When a failed model call is tried again, and what an answer costs.

use crate::event::{FailureClass, Price, TurnLimits, Usage};
use crate::limits;

/// A failed attempt, as far as the next one depends on it.
#[derive(Clone, Copy, Debug)]
pub struct Failed {
    /// What failed.
    pub class: FailureClass,
    /// The server's own word on whether to try again.
    pub should_retry: Option<bool>,
    /// Which attempt it was, from 1.
    pub attempt: u32,
    /// The wait that the provider asked for.
    pub retry_after_ms: Option<u64>,
    /// A random number that spreads the attempts of many sessions.
    pub jitter: u64,
}

/// Why there is no other attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GivenUp {
    /// It would come to the same, or the server says so.
    Never,
    /// All attempts were made.
    Attempts,
    /// The provider asks for a longer wait than a turn makes.
    AskedTooLong {
        /// How long, in milliseconds.
        asked_ms: u64,
    },
}

/// How much longer than `retry.base_ms` the first wait is, by class. A cut stream is a matter of the moment; a server
/// that is full, or counts, needs the time.
const SCALES: [(FailureClass, u64); 3] =
    [(FailureClass::Overloaded, 4), (FailureClass::RateLimited, 4), (FailureClass::Server, 2)];

fn scale(class: FailureClass) -> u64 {
    SCALES.iter().find(|(of, _)| *of == class).map_or(1, |(_, scale)| *scale)
}

/// Whether another attempt can help. The server's word wins, except where an attempt costs money, repeats a wrong key,
/// or sends what we know to be too long or wrong.
const fn is_retryable(failed: &Failed) -> bool {
    match (failed.class, failed.should_retry) {
        (
            FailureClass::Quota
            | FailureClass::Credentials
            | FailureClass::ContextExceeded
            | FailureClass::Unsendable
            | FailureClass::Cancelled,
            _,
        ) => false,
        (_, Some(word)) => word,
        (class, None) => class.is_retryable(),
    }
}

/// How long to wait before the next attempt, in milliseconds, or why there is none.
///
/// The wait doubles from `retry_base_ms`, times the scale of the class, to `retry_max_ms`, spread over its upper half by
/// `jitter`; what the provider asks for is the least, with up to a tenth more. A provider that asks for more than
/// [`limits::RETRY_AFTER_MAX_MS`] is not waited for.
pub fn wait_ms(turn_limits: &TurnLimits, failed: &Failed) -> Result<i64, GivenUp> {
    if !is_retryable(failed) {
        return Err(GivenUp::Never);
    }
    let asked = failed.retry_after_ms.unwrap_or(0);
    if asked > limits::RETRY_AFTER_MAX_MS {
        return Err(GivenUp::AskedTooLong { asked_ms: asked });
    }
    if failed.attempt >= turn_limits.retry_max_attempts {
        return Err(GivenUp::Attempts);
    }
    let base = turn_limits.retry_base_ms.saturating_mul(scale(failed.class));
    let doubled = base.saturating_mul(2_u64.saturating_pow(failed.attempt.saturating_sub(1)));
    let ceiling = doubled.min(turn_limits.retry_max_ms);
    let own = ceiling - ceiling / 2 + failed.jitter % (ceiling / 2 + 1);
    // All sessions of an account are told the same time.
    let asked = asked + failed.jitter % (asked / 10 + 1);
    Ok(i64::try_from(own.max(asked)).unwrap_or(i64::MAX))
}

/// A time for people, rounded up: `45 s`, `12 min`, `3 h`.
pub fn span(ms: u64) -> String {
    match ms.div_ceil(1_000) {
        seconds @ 0..120 => format!("{seconds} s"),
        seconds @ 120..7_200 => format!("{} min", seconds.div_ceil(60)),
        seconds @ 7_200..172_800 => format!("{} h", seconds.div_ceil(3_600)),
        seconds => format!("{} days", seconds.div_ceil(86_400)),
    }
}

/// The price of an answer in millionths of a US dollar, rounded up.
pub fn cost_micro_usd(usage: &Usage, price: &Price) -> i64 {
    let parts = [
        (usage.input_tokens, price.input),
        (usage.output_tokens, price.output),
        (usage.cache_read_tokens, price.cache_read),
        (usage.cache_write_tokens, price.cache_write),
    ];
    let sum: i128 = parts.iter().map(|(tokens, price)| i128::from(*tokens) * i128::from(*price)).sum();
    i64::try_from((sum + 999_999) / 1_000_000).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failed(class: FailureClass, attempt: u32) -> Failed {
        Failed { class, should_retry: None, attempt, retry_after_ms: None, jitter: 0 }
    }

    #[test]
    fn waits_double_within_their_bound() {
        let turn_limits = TurnLimits::default();
        let wait = |class, attempt| wait_ms(&turn_limits, &failed(class, attempt));
        assert_eq!(wait(FailureClass::Cut, 1), Ok(250));
        assert_eq!(wait(FailureClass::Cut, 2), Ok(500));
        assert_eq!(wait(FailureClass::Cut, 7), Ok(15_000));
        assert_eq!(wait(FailureClass::Cut, 8), Err(GivenUp::Attempts));
        assert_eq!(wait(FailureClass::Server, 1), Ok(500));
        assert_eq!(wait(FailureClass::Overloaded, 1), Ok(1_000));
        assert_eq!(wait(FailureClass::RateLimited, 2), Ok(2_000));
        assert_eq!(wait(FailureClass::Overloaded, 7), Ok(15_000), "never beyond retry.max_ms");
    }

    #[test]
    fn jitter_stays_within_the_upper_half() {
        let turn_limits = TurnLimits::default();
        for jitter in [0, 1, 7, 249, 250, 251, u64::MAX] {
            let wait = wait_ms(&turn_limits, &Failed { jitter, ..failed(FailureClass::Cut, 1) }).unwrap();
            assert!((250..=500).contains(&wait), "{jitter}: {wait}");
        }
    }

    #[test]
    fn what_the_provider_asks_for_is_the_least() {
        let turn_limits = TurnLimits::default();
        let wait = |asked, jitter| {
            let retry_after_ms = Some(asked);
            wait_ms(&turn_limits, &Failed { retry_after_ms, jitter, ..failed(FailureClass::RateLimited, 1) })
        };
        assert_eq!(wait(0, 0), Ok(1_000));
        assert_eq!(wait(2_000, 0), Ok(2_000));
        assert_eq!(wait(2_000, 150), Ok(2_150));
        assert_eq!(wait(300_000, 0), Ok(300_000));
        assert_eq!(wait(300_001, 0), Err(GivenUp::AskedTooLong { asked_ms: 300_001 }));
        assert_eq!(wait(u64::MAX, 0), Err(GivenUp::AskedTooLong { asked_ms: u64::MAX }));
    }

    #[test]
    fn the_servers_word_wins_except_over_money_keys_and_length() {
        let turn_limits = TurnLimits::default();
        for class in FailureClass::ALL.iter().copied() {
            let says =
                |should_retry| wait_ms(&turn_limits, &Failed { should_retry, ..failed(class, 1) }).is_ok();
            let never = matches!(
                class,
                FailureClass::Quota
                    | FailureClass::Credentials
                    | FailureClass::ContextExceeded
                    | FailureClass::Unsendable
                    | FailureClass::Cancelled
            );
            assert_eq!(says(Some(true)), !never, "{class:?}");
            assert!(!says(Some(false)), "{class:?}");
            assert_eq!(says(None), class.is_retryable(), "{class:?}");
        }
    }

    #[test]
    fn odd_limits_break_nothing() {
        let none = TurnLimits { retry_base_ms: 0, retry_max_ms: 0, ..TurnLimits::default() };
        assert_eq!(wait_ms(&none, &failed(FailureClass::Overloaded, 1)), Ok(0));
        let huge = TurnLimits {
            retry_base_ms: u64::MAX,
            retry_max_ms: u64::MAX,
            retry_max_attempts: u32::MAX,
            ..TurnLimits::default()
        };
        assert!(wait_ms(&huge, &Failed { jitter: u64::MAX, ..failed(FailureClass::Cut, 4_000_000) }).is_ok());
        let once = TurnLimits { retry_max_attempts: 1, ..TurnLimits::default() };
        assert_eq!(wait_ms(&once, &failed(FailureClass::Cut, 1)), Err(GivenUp::Attempts));
    }

    #[test]
    fn spans_are_for_people() {
        for (ms, words) in [
            (0, "0 s"),
            (1, "1 s"),
            (119_000, "119 s"),
            (300_000, "5 min"),
            (7_200_000, "2 h"),
            (u64::MAX / 2, "106751991168 days"),
        ] {
            assert_eq!(span(ms), words);
        }
    }

    #[test]
    fn a_price_is_per_million_tokens() {
        let usage = Usage { input_tokens: 1_000, output_tokens: 10, ..Usage::default() };
        let price = Price { input: 3_000_000, output: 15_000_000, ..Price::default() };
        assert_eq!(cost_micro_usd(&usage, &price), 3_150);
    }
}
