//! Instants of the contract as text.

/// An instant (milliseconds since 1970) as RFC 3339 in UTC with milliseconds.
pub fn rfc3339(millis: u64) -> String {
    let (seconds, fraction) = (millis / 1_000, millis % 1_000);
    let (days, second) = (seconds / 86_400, seconds % 86_400);
    let (year, month, day) = civil(days);
    let (hour, minute, second) = (second / 3_600, second / 60 % 60, second % 60);
    let mut text = String::with_capacity("0000-00-00T00:00:00.000Z".len());
    // By hand: it is in every delivery, and a format string costs ten times as much.
    for (number, digits, after) in [
        (year, 4, '-'),
        (month, 2, '-'),
        (day, 2, 'T'),
        (hour, 2, ':'),
        (minute, 2, ':'),
        (second, 2, '.'),
        (fraction, 3, 'Z'),
    ] {
        push_digits(&mut text, number, digits);
        text.push(after);
    }
    text
}

/// Reads an RFC 3339 instant, of any offset, as milliseconds since 1970; none if it isn't one, or before that.
///
/// ```
/// use waybill_plugin::time::parse_rfc3339;
/// assert_eq!(parse_rfc3339("1970-01-01T01:00:00.0015+01:00"), Some(1));
/// assert_eq!(parse_rfc3339("yesterday"), None);
/// ```
pub fn parse_rfc3339(text: &str) -> Option<u64> {
    let (date, rest) = text.split_once(['T', 't', ' '])?;
    let mut parts = date.splitn(3, '-');
    let (year, month, day) = (digits(parts.next()?, 4)?, digits(parts.next()?, 2)?, digits(parts.next()?, 2)?);
    let zone = rest.find(['Z', 'z', '+', '-'])?;
    let (clock, zone) = rest.split_at(zone);
    let (clock, fraction) = clock.split_once('.').unwrap_or((clock, "0"));
    let mut parts = clock.splitn(3, ':');
    let (hour, minute, second) = (digits(parts.next()?, 2)?, digits(parts.next()?, 2)?, digits(parts.next()?, 2)?);
    if !(1..=12).contains(&month) || !(1..=31).contains(&day) || hour > 23 || minute > 59 || second > 60 {
        return None;
    }
    if fraction.is_empty() || !fraction.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let millis = fraction.bytes().chain(*b"00").take(3).fold(0, |sum, digit| sum * 10 + i64::from(digit - b'0'));
    let seconds = ((days_from_civil(year, month, day) * 24 + hour) * 60 + minute) * 60 + second - offset_seconds(zone)?;
    u64::try_from(seconds * 1_000 + millis).ok()
}

/// Exactly so many digits.
fn digits(text: &str, count: usize) -> Option<i64> {
    let is_number = text.len() == count && text.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| text.parse().ok())?
}

/// Seconds that a zone is ahead of UTC: `Z`, `+01:00`, `-00:30`.
fn offset_seconds(zone: &str) -> Option<i64> {
    if zone.eq_ignore_ascii_case("z") {
        return Some(0);
    }
    let sign = if zone.starts_with('-') { -1 } else { 1 };
    let (hours, minutes) = zone.get(1..)?.split_once(':')?;
    let (hours, minutes) = (digits(hours, 2)?, digits(minutes, 2)?);
    (hours <= 23 && minutes <= 59).then_some(sign * (hours * 3_600 + minutes * 60))
}

/// Days since 1970-01-01 of a date in the proleptic Gregorian calendar: the reverse of [`civil`].
fn days_from_civil(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let (era, year_of_era) = (year.div_euclid(400), year.rem_euclid(400));
    let month_from_march = (month + 9) % 12;
    let day_of_year = (153 * month_from_march + 2) / 5 + day - 1;
    era * 146_097 + year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year - 719_468
}

/// Writes a number with leading zeros; one with more digits is written whole.
fn push_digits(text: &mut String, number: u64, digits: u32) {
    let mut left = digits.max(number.checked_ilog10().map_or(1, |log| log + 1));
    while left > 0 {
        left -= 1;
        let digit = number / 10_u64.pow(left) % 10;
        text.push(char::from(b'0' + u8::try_from(digit).unwrap_or(0)));
    }
}

/// Year, month and day of a day counted from 1970-01-01, in the proleptic Gregorian calendar: Howard Hinnant's
/// `civil_from_days`, whose years start in March so that the leap day comes last.
fn civil(days: u64) -> (u64, u64, u64) {
    let shifted = days + 719_468;
    let (era, day_of_era) = (shifted / 146_097, shifted % 146_097);
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    let year = year_of_era + era * 400 + u64::from(month <= 2);
    (year, month, day)
}

#[cfg(test)]
mod tests {
    use super::{parse_rfc3339, rfc3339};

    #[test]
    fn instants_are_rfc_3339() {
        for (millis, expected) in [
            (0, "1970-01-01T00:00:00.000Z"),
            (951_782_399_999, "2000-02-28T23:59:59.999Z"),
            (951_782_400_000, "2000-02-29T00:00:00.000Z"),
            (951_868_800_000, "2000-03-01T00:00:00.000Z"),
            (1_614_265_330_001, "2021-02-25T15:02:10.001Z"),
            (4_107_542_400_000, "2100-03-01T00:00:00.000Z"),
            (253_402_300_799_999, "9999-12-31T23:59:59.999Z"),
            (253_402_300_800_000, "10000-01-01T00:00:00.000Z"),
        ] {
            assert_eq!(rfc3339(millis), expected);
        }
    }

    #[test]
    fn what_was_written_is_read_back() {
        for millis in [0, 1, 951_782_399_999, 951_782_400_000, 951_868_800_000, 1_614_265_330_001, 253_402_300_799_999]
        {
            assert_eq!(parse_rfc3339(&rfc3339(millis)), Some(millis));
        }
        for (text, expected) in [
            ("1970-01-01T00:00:00Z", 0),
            ("1970-01-01t00:00:01.5z", 1_500),
            ("2026-11-26T12:44:10.119053665Z", 1_795_697_050_119),
            ("2026-11-26 13:44:10.119+01:00", 1_795_697_050_119),
            ("2026-11-26T10:14:10.119-02:30", 1_795_697_050_119),
        ] {
            assert_eq!(parse_rfc3339(text), Some(expected), "{text}");
        }
        for text in [
            "",
            "1970-01-01",
            "0001-01-01T00:00:00Z",
            "1970-13-01T00:00:00Z",
            "1970-01-01T00:00:00",
            "1970-01-01T00:00:00.Z",
        ] {
            assert_eq!(parse_rfc3339(text), None, "{text}");
        }
    }
}
