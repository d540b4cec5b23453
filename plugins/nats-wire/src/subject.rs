//! Subjects that a message may be published to.

/// Longest subject: the server refuses a line over 4 KiB, and the reply subject and lengths are in it as well.
const SUBJECT_BYTES_MAX: usize = 3 * 1024;

/// First tokens that aren't for messages: a publish there is a command to the server, or an answer to somebody's request.
const RESERVED: &[&str] = &["$JS", "$SYS", "$SRV", "$NRG", "$G", "_INBOX", "_R_", "_GR_"];

/// Checks a subject to publish to.
///
/// # Errors
/// What is wrong with it.
pub fn check(subject: &str) -> Result<(), &'static str> {
    if subject.is_empty() {
        return Err("is empty");
    }
    if subject.len() > SUBJECT_BYTES_MAX {
        return Err("is longer than 3 KiB");
    }
    if subject.bytes().any(|byte| byte <= b' ' || byte == 0x7f) || subject.contains(char::is_whitespace) {
        return Err("holds a space or a control character");
    }
    // A server quotes the subject that it refuses: with these in it, it would come back as another one.
    if subject.contains(['"', '\\']) {
        return Err("holds a quote or a backslash");
    }
    for token in subject.split('.') {
        match token {
            "" => return Err("has an empty token (a dot too many)"),
            "*" | ">" => return Err("is a pattern: a message goes to one subject"),
            _ => {}
        }
    }
    if subject.split('.').next().is_some_and(|first| RESERVED.contains(&first)) {
        return Err("is reserved for the server");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn subjects_for_messages_are_let_through() {
        for subject in ["orders", "orders.created", "a.b-c_d.E.7", "größe.ö", "$KV.bucket.key", "a*b.c>d"] {
            assert_eq!(check(subject), Ok(()), "{subject}");
        }
    }

    #[test]
    fn everything_else_is_refused() {
        for subject in [
            "",
            ".",
            "a.",
            ".a",
            "a..b",
            "a b",
            "a\tb",
            "a\r\nPUB x 0",
            "a\u{a0}b",
            "*",
            "a.*",
            "a.>",
            ">",
            "$JS.API.STREAM.DELETE.X",
            "$SYS.REQ",
            "_INBOX.a.1",
            "a\u{0}",
            "a\u{7f}",
            "a\"b",
            "a\\b",
        ] {
            assert!(check(subject).is_err(), "{subject:?}");
        }
        assert!(check(&"a".repeat(SUBJECT_BYTES_MAX + 1)).is_err());
    }
}
