//! Text forms: header values, path segments.

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
}
