//! How long a provider asks us to wait, in all the forms in which it is said.
//!
//! Invariants: pure; a date is compared with a time that the caller brings. Only for answers that are errors:
//! some providers send `retry-after` with good answers too.

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
mod tests {
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
}
