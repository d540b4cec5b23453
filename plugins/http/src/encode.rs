//! Text forms: header values, path segments, instants.

use std::borrow::Cow;
use std::fmt::Write as _;

/// A header value by the CloudEvents HTTP binding (§3.1.3.2): space, `"`, `%` and everything outside printable ASCII is
/// percent-encoded as UTF-8.
pub(crate) fn attribute(text: &str) -> Cow<'_, str> {
    percent(text, |byte| matches!(byte, b'!' | b'#' | b'$' | b'&'..=b'~'))
}

/// The caller's own header value: passed on as it is, but for what a header can't hold.
pub(crate) fn passed_on(text: &str) -> Cow<'_, str> {
    percent(text, |byte| byte == b'\t' || (b' '..=b'~').contains(&byte))
}

/// One segment of a URI's path (RFC 3986 `segment`).
pub(crate) fn path_segment(text: &str) -> Cow<'_, str> {
    percent(text, |byte| byte.is_ascii_alphanumeric() || b"-._~!$&'()*+,;=:@".contains(&byte))
}

/// A `webhook-id`: as an attribute, and without the `.` that separates it from the timestamp in what is signed.
pub(crate) fn webhook_id(text: &str) -> Cow<'_, str> {
    percent(text, |byte| matches!(byte, b'!' | b'#' | b'$' | b'&'..=b'-' | b'/'..=b'~'))
}

fn percent(text: &str, kept: impl Fn(u8) -> bool) -> Cow<'_, str> {
    if text.bytes().all(&kept) {
        return Cow::Borrowed(text);
    }
    let mut encoded = String::with_capacity(text.len().saturating_mul(2));
    for byte in text.bytes() {
        if kept(byte) {
            encoded.push(char::from(byte));
        } else {
            // Writing to a String can't fail.
            let _ = write!(encoded, "%{byte:02X}");
        }
    }
    Cow::Owned(encoded)
}

/// An instant (milliseconds since 1970) as RFC 3339 in UTC with milliseconds.
pub(crate) fn rfc3339(millis: u64) -> String {
    let (seconds, fraction) = (millis / 1_000, millis % 1_000);
    let (days, second) = (seconds / 86_400, seconds % 86_400);
    let (year, month, day) = civil(days);
    let (hour, minute, second) = (second / 3_600, second / 60 % 60, second % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{fraction:03}Z")
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
    use super::*;

    #[test]
    fn attributes_are_encoded_as_the_binding_says() {
        // The binding's own example, and its four kinds of characters.
        assert_eq!(attribute("Euro € 😀"), "Euro%20%E2%82%AC%20%F0%9F%98%80");
        assert_eq!(attribute("a\"b%c\u{7f}\n"), "a%22b%25c%7F%0A");
        assert_eq!(attribute("!#$&'()*+,-./09:;<=>?@AZ[\\]^_`az{|}~"), "!#$&'()*+,-./09:;<=>?@AZ[\\]^_`az{|}~");
    }

    #[test]
    fn a_callers_value_changes_only_where_a_header_could_not_hold_it() {
        assert_eq!(passed_on("text/html; q=\"0.5\" 100%"), "text/html; q=\"0.5\" 100%");
        assert_eq!(passed_on("née\r\nx: y"), "n%C3%A9e%0D%0Ax: y");
    }

    #[test]
    fn a_segment_holds_no_slash_and_a_webhook_id_no_dot() {
        assert_eq!(path_segment("a/b c?d"), "a%2Fb%20c%3Fd");
        assert_eq!(webhook_id("order.7-a/b"), "order%2E7-a/b");
    }

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
        ] {
            assert_eq!(rfc3339(millis), expected);
        }
    }
}
