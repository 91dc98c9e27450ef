//! How long a provider asks us to wait, in all the forms in which it is said.
//!
//! Invariants: pure; a date is compared with a time that the caller brings. Only for answers that are errors:
//! some providers send `retry-after` with good answers too, and all of them send what is left of a rate.

use crate::limits::{RATE_RESET_SOON_MS, RETRY_AFTER_MAX_MS};

/// The wait in milliseconds: `retry-after-ms` if it can be read, else `retry-after` as seconds (fractions
/// allowed) or as an HTTP date, compared with `now_ms`. A time that has passed is no wait at all, which is 0.
pub fn wait_ms(retry_after_ms: Option<&str>, retry_after: Option<&str>, now_ms: i64) -> Option<u64> {
    retry_after_ms.and_then(|text| decimal(text, 1.0)).or_else(|| {
        let text = retry_after?;
        decimal(text, 1_000.0).or_else(|| {
            let at_ms = http_date_s(text)?.checked_mul(1_000)?;
            Some(u64::try_from(at_ms.saturating_sub(now_ms)).unwrap_or(0))
        })
    })
}

/// The wait until a rate that is used up is there again, in milliseconds, from the headers of a 429 that names no
/// wait: the longest of those whose `remaining` is 0. Names are compared without regard to case.
///
/// A reset is when all of the rate is there again; a part of it is there earlier. So the wait is as long as a turn waits,
/// at most, unless the reset is hours away.
///
/// Anthropic resets at a time (`anthropic-ratelimit-tokens-reset`, RFC 3339), OpenAI and its kin after a duration
/// (`x-ratelimit-reset-tokens: 6m0s`).
pub fn reset_wait_ms(headers: &[(&str, &str)], now_ms: i64) -> Option<u64> {
    let used_up = |name: &str| {
        let same = headers.iter().find(|(other, _)| other.eq_ignore_ascii_case(name));
        same.and_then(|(_, value)| decimal(value, 1.0)) == Some(0)
    };
    headers
        .iter()
        .filter_map(|(name, value)| {
            let name = name.to_ascii_lowercase();
            if let Some(of) = name.strip_prefix("anthropic-").and_then(|rest| rest.strip_suffix("-reset")) {
                let at_ms = rfc3339_ms(value)?;
                let wait = u64::try_from(at_ms.saturating_sub(now_ms)).unwrap_or(0);
                return used_up(&format!("anthropic-{of}-remaining")).then_some(wait);
            }
            let of = name.strip_prefix("x-ratelimit-reset-")?;
            let wait = duration_ms(value).or_else(|| seconds_or_time_ms(value, now_ms))?;
            used_up(&format!("x-ratelimit-remaining-{of}")).then_some(wait)
        })
        .max()
        .map(|wait| if wait <= RATE_RESET_SOON_MS { wait.min(RETRY_AFTER_MAX_MS) } else { wait })
}

/// A number of seconds, or a time as seconds or milliseconds since 1970, which no duration is as large as.
fn seconds_or_time_ms(text: &str, now_ms: i64) -> Option<u64> {
    const SECONDS_SINCE_1970: u64 = 1_000_000_000;
    let seconds = decimal(text, 1.0)?;
    let at_ms = match seconds {
        0..SECONDS_SINCE_1970 => return decimal(text, 1_000.0),
        SECONDS_SINCE_1970..1_000_000_000_000 => seconds.checked_mul(1_000)?,
        milliseconds => milliseconds,
    };
    Some(at_ms.saturating_sub(u64::try_from(now_ms).unwrap_or(0)))
}

/// A duration as `1s`, `6m0s`, `120ms`, `1h2m3.5s`, in milliseconds, rounded up.
pub fn duration_ms(text: &str) -> Option<u64> {
    const UNITS: [(&str, f64); 8] = [
        ("ms", 1.0),
        ("us", 0.001),
        ("µs", 0.001),
        ("ns", 0.000_001),
        ("s", 1_000.0),
        ("m", 60_000.0),
        ("h", 3_600_000.0),
        ("d", 86_400_000.0),
    ];
    let mut rest = text.trim();
    let mut sum = 0.0;
    if rest.is_empty() {
        return None;
    }
    while !rest.is_empty() {
        let end = rest.find(|c: char| !(c.is_ascii_digit() || c == '.'))?;
        let amount: f64 = rest[..end].parse().ok()?;
        let (unit, size) = UNITS.iter().find(|(unit, _)| rest[end..].starts_with(unit))?;
        sum += amount * size;
        rest = &rest[end + unit.len()..];
    }
    // A float beyond the range becomes the largest value, as below.
    sum.is_finite().then_some(sum.ceil() as u64)
}

/// Milliseconds since 1970 of a time as `2026-11-30T23:59:59.5Z` or with an offset.
pub fn rfc3339_ms(text: &str) -> Option<i64> {
    let text = text.trim();
    let (date, time) = text.split_once(['T', 't', ' '])?;
    let mut parts = date.split('-').map(|part| part.parse::<i64>().ok());
    let (year, month, day) = (parts.next()??, parts.next()??, parts.next()??);
    let sane = (1970..=9999).contains(&year) && (1..=12).contains(&month) && (1..=31).contains(&day);
    if !sane || parts.next().is_some() {
        return None;
    }
    let zone = time.find(['Z', 'z', '+', '-'])?;
    let (clock, zone) = (&time[..zone], &time[zone..]);
    let (clock, fraction) = clock.split_once('.').unwrap_or((clock, "0"));
    let offset_s = match zone.as_bytes().first()? {
        b'Z' | b'z' => (zone.len() == 1).then_some(0)?,
        sign => {
            let (hours, minutes) = zone[1..].split_once(':')?;
            let seconds = clock_s(&format!("{hours}:{minutes}:00"))?;
            if *sign == b'-' { -seconds } else { seconds }
        }
    };
    let digits = fraction.bytes().all(|byte| byte.is_ascii_digit()) && !fraction.is_empty();
    let fraction: f64 = format!("0.{fraction}").parse().ok().filter(|_| digits)?;
    let seconds = days_since_1970(year, month, day) * 86_400 + clock_s(clock)? - offset_s;
    Some(seconds * 1_000 + (fraction * 1_000.0).ceil() as i64)
}

fn decimal(text: &str, factor: f64) -> Option<u64> {
    let number: f64 = text.trim().parse().ok()?;
    // A float beyond the range becomes the largest value; no provider means it, and the caller has a bound.
    (number.is_finite() && number >= 0.0).then_some((number * factor).ceil() as u64)
}

/// Seconds since 1970 of an HTTP date in any of its three forms.
pub fn http_date_s(text: &str) -> Option<i64> {
    const MONTHS: [&str; 12] =
        ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];
    let lower = text.to_ascii_lowercase();
    let (mut month, mut day, mut year, mut time) = (None, None, None, None);
    for part in lower.split([' ', ',', '-']).filter(|part| !part.is_empty()) {
        if part.contains(':') {
            time = clock_s(part);
        } else if let Ok(number) = part.parse::<i64>() {
            match (day, year) {
                (None, _) => day = Some(number),
                (Some(_), None) => year = Some((number, part.len())),
                _ => return None,
            }
        } else if let Some(at) = MONTHS.iter().position(|name| *name == part) {
            month = i64::try_from(at + 1).ok();
        }
    }
    let year = match year? {
        (short, 2) if short < 70 => 2_000 + short,
        (short, 2) => 1_900 + short,
        (year, _) => year,
    };
    let (month, day) = (month?, day?);
    let sane = (1970..=9999).contains(&year) && (1..=31).contains(&day);
    sane.then(|| days_since_1970(year, month, day) * 86_400).and_then(|date| Some(date + time?))
}

fn clock_s(text: &str) -> Option<i64> {
    let mut parts = text.split(':').map(|part| part.parse::<i64>().ok());
    let (hour, minute, second) = (parts.next()??, parts.next()??, parts.next()??);
    let sane = (0..24).contains(&hour) && (0..60).contains(&minute) && (0..=60).contains(&second);
    (sane && parts.next().is_none()).then_some(hour * 3_600 + minute * 60 + second)
}

/// Days of the Gregorian calendar; the year begins in March so that the leap day is its last.
const fn days_since_1970(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let year_of_era = year.rem_euclid(400);
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    era * 146_097 + year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year - 719_468
}

#[cfg(test)]
#[path = "retry_after_tests.rs"]
mod tests;
