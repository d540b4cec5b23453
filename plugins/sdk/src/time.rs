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
    use super::rfc3339;

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
}
