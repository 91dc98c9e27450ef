//! When a failed model call is tried again, and what an answer costs.

use crate::event::{FailureClass, Price, TurnLimits, Usage};
use crate::limits;

/// How long to wait before the next attempt, in milliseconds; none when there is none.
///
/// The wait doubles from `retry_base_ms` to `retry_max_ms`, spread over its upper half by `jitter`; what the provider
/// asks for is the least. A provider that asks for more than [`limits::RETRY_AFTER_MAX_MS`] is not waited for.
pub fn wait_ms(
    turn_limits: &TurnLimits,
    class: FailureClass,
    attempt: u32,
    retry_after_ms: Option<u64>,
    jitter: u64,
) -> Option<i64> {
    if !class.is_retryable() || attempt >= turn_limits.retry_max_attempts {
        return None;
    }
    let asked = retry_after_ms.unwrap_or(0);
    if asked > limits::RETRY_AFTER_MAX_MS {
        return None;
    }
    let doubled = turn_limits.retry_base_ms.saturating_mul(2_u64.saturating_pow(attempt.saturating_sub(1)));
    let ceiling = doubled.min(turn_limits.retry_max_ms);
    let spread = ceiling / 2;
    let own = ceiling - spread + if spread == 0 { 0 } else { jitter % (spread + 1) };
    i64::try_from(own.max(asked)).ok()
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

    #[test]
    fn waits_double_and_honour_the_provider() {
        let turn_limits = TurnLimits::default();
        let wait = |attempt, asked| wait_ms(&turn_limits, FailureClass::Overloaded, attempt, asked, 0);
        assert_eq!(wait(1, None), Some(250));
        assert_eq!(wait(2, None), Some(500));
        assert_eq!(wait(7, None), Some(15_000));
        assert_eq!(wait(1, Some(2_000)), Some(2_000));
        assert_eq!(wait(1, Some(3_600_000)), None);
        assert_eq!(wait(8, None), None);
        assert_eq!(wait_ms(&turn_limits, FailureClass::Quota, 1, None, 0), None);
    }

    #[test]
    fn a_price_is_per_million_tokens() {
        let usage = Usage { input_tokens: 1_000, output_tokens: 10, ..Usage::default() };
        let price = Price { input: 3_000_000, output: 15_000_000, ..Price::default() };
        assert_eq!(cost_micro_usd(&usage, &price), 3_150);
    }
}
