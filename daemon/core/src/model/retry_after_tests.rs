//! Waits in every form.

use super::*;

#[test]
fn every_form_is_read() {
    assert_eq!(wait_ms(None, Some("2"), 0), Some(2_000));
    assert_eq!(wait_ms(None, Some(" 1.5 "), 0), Some(1_500));
    assert_eq!(wait_ms(Some("250"), Some("9"), 0), Some(250));
    assert_eq!(wait_ms(Some("soon"), Some("9"), 0), Some(9_000));
    assert_eq!(wait_ms(None, Some("0"), 0), Some(0));
    let now = 784_111_770_000;
    for form in
        ["Sun, 06 Nov 1994 08:49:37 GMT", "Sunday, 06-Nov-94 08:49:37 GMT", "Sun Nov  6 08:49:37 1994"]
    {
        assert_eq!(http_date_s(form), Some(784_111_777), "{form}");
        assert_eq!(wait_ms(None, Some(form), now), Some(7_000), "{form}");
    }
    assert_eq!(wait_ms(None, Some("Sun, 06 Nov 1994 08:49:37 GMT"), now + 60_000), Some(0));
}

#[test]
fn nonsense_is_no_wait() {
    for text in
        ["", "-1", "nan", "inf", "tomorrow", "Sun, 06 Foo 1994 08:49:37 GMT", "6 Nov 1994", "1 2 3 4 5"]
    {
        assert_eq!(wait_ms(None, Some(text), 0), None, "{text}");
    }
    assert_eq!(wait_ms(None, None, 0), None);
    assert_eq!(wait_ms(None, Some("1e300"), 0), Some(u64::MAX));
}

#[test]
fn leap_days_count() {
    assert_eq!(http_date_s("Thu, 29 Feb 2024 00:00:00 GMT"), Some(1_709_164_800));
    assert_eq!(http_date_s("Tue, 01 Mar 2100 00:00:00 GMT"), Some(4_107_542_400));
}

#[test]
fn durations_are_read() {
    for (text, ms) in [
        ("1s", 1_000),
        ("6m0s", 360_000),
        ("120ms", 120),
        ("1h2m3.5s", 3_723_500),
        ("7.66s", 7_660),
        ("34.4s", 34_400),
        ("0s", 0),
        ("1d", 86_400_000),
        ("900us", 1),
    ] {
        assert_eq!(duration_ms(text), Some(ms), "{text}");
    }
    for text in ["", "s", "5", "5x", "-1s", "1s2", "1..2s", "soon"] {
        assert_eq!(duration_ms(text), None, "{text}");
    }
}

#[test]
fn times_are_read() {
    for (text, ms) in [
        ("1970-01-01T00:00:01Z", 1_000),
        ("2024-02-29T00:00:00Z", 1_709_164_800_000),
        ("2024-02-29T01:00:00.25+01:00", 1_709_164_800_250),
        ("2024-02-28T23:30:00-00:30", 1_709_164_800_000),
    ] {
        assert_eq!(rfc3339_ms(text), Some(ms), "{text}");
    }
    for text in
        ["", "2024-02-29", "2024-02-29T00:00:00", "2024-13-01T00:00:00Z", "2024-02-29T25:00:00Z", "now"]
    {
        assert_eq!(rfc3339_ms(text), None, "{text}");
    }
}

/// Headers of an answer, the time at which it came, and the wait that follows.
type Row = (&'static str, &'static [(&'static str, &'static str)], Option<u64>);

const RATES: [Row; 12] = [
    ("nothing is said", &[], None),
    (
        "the one that is used up counts",
        &[
            ("anthropic-ratelimit-requests-remaining", "12"),
            ("anthropic-ratelimit-requests-reset", "2026-11-30T12:10:00Z"),
            ("anthropic-ratelimit-input-tokens-remaining", "0"),
            ("anthropic-ratelimit-input-tokens-reset", "2026-11-30T12:00:20Z"),
        ],
        Some(20_000),
    ),
    (
        "the longest of several",
        &[
            ("Anthropic-RateLimit-Tokens-Remaining", "0"),
            ("anthropic-ratelimit-tokens-reset", "2026-11-30T12:00:20Z"),
            ("anthropic-ratelimit-output-tokens-remaining", "0"),
            ("anthropic-ratelimit-output-tokens-reset", "2026-11-30T12:00:40Z"),
        ],
        Some(40_000),
    ),
    (
        "nothing is used up",
        &[
            ("anthropic-ratelimit-tokens-remaining", "1000"),
            ("anthropic-ratelimit-tokens-reset", "2026-11-30T12:00:20Z"),
        ],
        None,
    ),
    (
        "a time that has passed is no wait",
        &[
            ("anthropic-ratelimit-tokens-remaining", "0"),
            ("anthropic-ratelimit-tokens-reset", "2026-11-30T11:59:00Z"),
        ],
        Some(0),
    ),
    (
        "a duration",
        &[
            ("x-ratelimit-remaining-requests", "0"),
            ("x-ratelimit-reset-requests", "6m0s"),
            ("x-ratelimit-remaining-tokens", "149984"),
            ("x-ratelimit-reset-tokens", "6ms"),
        ],
        Some(RETRY_AFTER_MAX_MS),
    ),
    (
        "the budget of a day is said as it is",
        &[("x-ratelimit-remaining-requests", "0"), ("x-ratelimit-reset-requests", "6h0m0s")],
        Some(21_600_000),
    ),
    (
        "a time in seconds",
        &[("x-ratelimit-remaining-tokens", "0"), ("x-ratelimit-reset-tokens", "1796040030")],
        Some(30_000),
    ),
    (
        "a time in milliseconds",
        &[("x-ratelimit-remaining-tokens", "0"), ("x-ratelimit-reset-tokens", "1796040030000")],
        Some(30_000),
    ),
    (
        "seconds without a unit",
        &[("x-ratelimit-remaining-tokens", "0"), ("x-ratelimit-reset-tokens", "1.5")],
        Some(1_500),
    ),
    ("a reset without its remaining", &[("x-ratelimit-reset-tokens", "6s")], None),
    (
        "what cannot be read",
        &[("x-ratelimit-remaining-tokens", "0"), ("x-ratelimit-reset-tokens", "soon")],
        None,
    ),
];

#[test]
fn a_rate_that_is_used_up_says_when_it_is_there_again() {
    let now = rfc3339_ms("2026-11-30T12:00:00Z").unwrap();
    for (name, headers, expected) in RATES {
        assert_eq!(reset_wait_ms(headers, now), expected, "{name}");
    }
}
