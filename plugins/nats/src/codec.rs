//! What a server says, taken out of the bytes received. Pure; never panics on garbage, never waits for more than its bounds.

/// Longest line but INFO. The server's own bound for a client's line is 4 KiB by default.
const LINE_BYTES_MAX: usize = 8 * 1024;
/// Longest INFO: a large cluster tells all its addresses there.
const INFO_BYTES_MAX: usize = 256 * 1024;
/// Largest message taken: answers of JetStream's API are far smaller.
const MESSAGE_BYTES_MAX: usize = 8 * 1024 * 1024;

/// One operation of the server.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Operation<'a> {
    /// `INFO`, with its JSON unread.
    Info(&'a [u8]),
    /// `MSG` or `HMSG`.
    Message(Message<'a>),
    Ping,
    Pong,
    /// `+OK`.
    Fine,
    /// `-ERR`: the text without its quotes.
    Error(&'a str),
}

/// A message for one of our subscriptions.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Message<'a> {
    /// Subject it was sent to.
    pub(crate) subject: &'a [u8],
    /// The header block with its version line; empty for `MSG`.
    pub(crate) headers: &'a [u8],
    pub(crate) payload: &'a [u8],
}

impl Message<'_> {
    /// Status in the version line, e.g. 503: no responders.
    pub(crate) fn status(&self) -> Option<u16> {
        let rest = self.headers.strip_prefix(b"NATS/1.0")?;
        let line = rest.split(|byte| *byte == b'\r').next()?;
        number(line.trim_ascii().get(..3)?).and_then(|status| u16::try_from(status).ok())
    }
}

/// Bytes that aren't NATS, and why; the connection is of no more use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Garbage(pub(crate) &'static str);

/// Takes the first operation: it and its length. None: more bytes are needed.
///
/// # Errors
/// The bytes are no NATS, or larger than what is taken.
pub(crate) fn next(input: &[u8]) -> Result<Option<(Operation<'_>, usize)>, Garbage> {
    let Some(end) = line_end(input)? else { return Ok(None) };
    let line = input.get(..end).unwrap_or_default();
    let after = end + 2;
    let (verb, rest) = split(line);
    let operation = match verb {
        b"MSG" | b"HMSG" => return message(input, after, rest, verb == b"HMSG"),
        b"PING" => Operation::Ping,
        b"PONG" => Operation::Pong,
        b"+OK" => Operation::Fine,
        b"INFO" => Operation::Info(rest),
        b"-ERR" => Operation::Error(text(rest)?),
        _ => return Err(Garbage("an unknown operation")),
    };
    Ok(Some((operation, after)))
}

/// Place of the line's end (CR LF).
fn line_end(input: &[u8]) -> Result<Option<usize>, Garbage> {
    let most = if input.starts_with(b"INFO") { INFO_BYTES_MAX } else { LINE_BYTES_MAX };
    let seen = input.get(..most).unwrap_or(input);
    match seen.iter().position(|byte| *byte == b'\n') {
        Some(0) => Err(Garbage("an empty line")),
        Some(end) if seen.get(end - 1) == Some(&b'\r') => Ok(Some(end - 1)),
        Some(_) => Err(Garbage("a line without CR")),
        None if input.len() >= most => Err(Garbage("a line that is too long")),
        None => Ok(None),
    }
}

/// `subject sid [reply] [header-bytes] total-bytes`, then the bytes and CR LF.
fn message<'a>(
    input: &'a [u8],
    start: usize,
    line: &'a [u8],
    with_headers: bool,
) -> Result<Option<(Operation<'a>, usize)>, Garbage> {
    const BAD: Garbage = Garbage("a message with a wrong first line");
    let mut words = line.split(|byte| *byte == b' ' || *byte == b'\t').filter(|word| !word.is_empty());
    let subject = words.next().ok_or(BAD)?;
    let _subscription = words.next().ok_or(BAD)?;
    let total = words.next_back().and_then(length).ok_or(BAD)?;
    let headers = if with_headers { words.next_back().and_then(length).ok_or(BAD)? } else { 0 };
    let _reply = words.next();
    if words.next().is_some() || headers > total {
        return Err(BAD);
    }
    if total > MESSAGE_BYTES_MAX {
        return Err(Garbage("a message that is too large"));
    }
    let Some(body) = input.get(start..start + total + 2) else { return Ok(None) };
    if !body.ends_with(b"\r\n") {
        return Err(Garbage("a message without an end"));
    }
    let (headers, rest) = body.split_at_checked(headers).ok_or(BAD)?;
    let payload = rest.strip_suffix(b"\r\n").ok_or(BAD)?;
    Ok(Some((Operation::Message(Message { subject, headers, payload }), start + total + 2)))
}

/// The first word and what follows it.
fn split(line: &[u8]) -> (&[u8], &[u8]) {
    match line.iter().position(|byte| *byte == b' ' || *byte == b'\t') {
        Some(at) => (line.get(..at).unwrap_or_default(), line.get(at..).unwrap_or_default().trim_ascii()),
        None => (line, b""),
    }
}

fn text(bytes: &[u8]) -> Result<&str, Garbage> {
    let text = std::str::from_utf8(bytes).map_err(|_| Garbage("an error that is no text"))?;
    Ok(text.trim().trim_matches('\''))
}

/// Only digits count: no sign, no space, nothing above `u64`.
pub(crate) fn number(digits: &[u8]) -> Option<u64> {
    if digits.is_empty() {
        return None;
    }
    digits.iter().try_fold(0_u64, |value, digit| {
        let digit = digit.is_ascii_digit().then(|| u64::from(digit - b'0'))?;
        value.checked_mul(10)?.checked_add(digit)
    })
}

/// A number of bytes; what is larger than any is the largest.
fn length(digits: &[u8]) -> Option<usize> {
    number(digits).map(|length| usize::try_from(length).unwrap_or(usize::MAX))
}

#[cfg(test)]
#[path = "codec_tests.rs"]
mod tests;
