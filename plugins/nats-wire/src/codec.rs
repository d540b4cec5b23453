//! What a server says, taken out of the bytes received. Pure; never panics on garbage, never waits for more than its bounds.

use std::borrow::Cow;

/// Longest line but INFO. The server's own bound for a client's line is 4 KiB by default.
const LINE_BYTES_MAX: usize = 8 * 1024;
/// Longest INFO: a large cluster tells all its addresses there.
const INFO_BYTES_MAX: usize = 256 * 1024;
/// Largest message whose payload is taken: answers of JetStream's API are far smaller, and NATS advises against larger ones.
const MESSAGE_BYTES_MAX: usize = 8 * 1024 * 1024;
/// Largest message that a server can be set to let through.
const ANNOUNCED_BYTES_MAX: usize = 64 * 1024 * 1024;

/// One operation of the server.
#[derive(Debug, PartialEq, Eq)]
pub enum Operation<'a> {
    /// `INFO`, with its JSON unread.
    Info(&'a [u8]),
    /// `MSG` or `HMSG`.
    Message(Message<'a>),
    /// `PING`: it wants a `PONG`.
    Ping,
    /// `PONG`: the answer to our `PING`.
    Pong,
    /// `+OK`.
    Fine,
    /// `-ERR`: the text without its quotes.
    Error(&'a str),
}

/// A message for one of our subscriptions.
#[derive(Debug, PartialEq, Eq)]
pub struct Message<'a> {
    /// Subject it was sent to.
    pub subject: &'a [u8],
    /// Where an answer goes; empty if none is expected. For what a stream delivers, its acknowledgement.
    pub reply: &'a [u8],
    /// The header block with its version line; empty for `MSG`.
    pub headers: &'a [u8],
    /// What it holds; empty if it is too large to be taken.
    pub payload: &'a [u8],
    /// Bytes of a payload that is too large. With two more they follow what was taken, and the caller skips them.
    pub omitted: Option<usize>,
}

impl<'a> Message<'a> {
    /// Status in the version line, e.g. 503: no responders.
    pub fn status(&self) -> Option<u16> {
        let rest = self.headers.strip_prefix(b"NATS/1.0")?;
        let line = rest.split(|byte| *byte == b'\r').next()?;
        number(line.trim_ascii().get(..3)?).and_then(|status| u16::try_from(status).ok())
    }

    /// What the version line says after its status, e.g. `Consumer Deleted`.
    pub fn status_text(&self) -> Cow<'a, str> {
        let line = self.headers.split(|byte| *byte == b'\r').next().unwrap_or_default();
        let words = line.strip_prefix(b"NATS/1.0").unwrap_or_default().trim_ascii();
        String::from_utf8_lossy(words.get(3..).unwrap_or_default().trim_ascii())
    }

    /// Names and values of the headers, in their order. A line without a colon is none.
    pub fn header_lines(&self) -> impl Iterator<Item = (&'a [u8], &'a [u8])> + use<'a> {
        let mut rest = self.headers;
        // The version line.
        take_line(&mut rest);
        std::iter::from_fn(move || {
            loop {
                let line = take_line(&mut rest)?;
                if let Some(colon) = line.iter().position(|byte| *byte == b':') {
                    let (name, value) = line.split_at_checked(colon)?;
                    return Some((name, value.get(1..).unwrap_or_default().trim_ascii()));
                }
            }
        })
    }

    /// The first value of a header, by its exact name.
    pub fn header(&self, name: &str) -> Option<&'a [u8]> {
        self.header_lines().find(|(other, _)| *other == name.as_bytes()).map(|(_, value)| value)
    }
}

/// Takes bytes up to the next CR LF off the front; none when nothing is left.
fn take_line<'a>(rest: &mut &'a [u8]) -> Option<&'a [u8]> {
    if rest.is_empty() {
        return None;
    }
    let end = rest.windows(2).position(|pair| pair == b"\r\n");
    let line = rest.get(..end.unwrap_or(rest.len()))?;
    *rest = end.and_then(|end| rest.get(end + 2..)).unwrap_or_default();
    Some(line)
}

/// Bytes that aren't NATS, and why; the connection is of no more use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Garbage(
    /// What is wrong, for the operator.
    pub &'static str,
);

/// Takes the first operation: it and its length. None: more bytes are needed.
///
/// # Errors
/// The bytes are no NATS, or larger than what is taken.
pub fn next(input: &[u8]) -> Result<Option<(Operation<'_>, usize)>, Garbage> {
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
    let reply = words.next().unwrap_or_default();
    if words.next().is_some() || headers > total {
        return Err(BAD);
    }
    if total > ANNOUNCED_BYTES_MAX || headers > MESSAGE_BYTES_MAX {
        return Err(Garbage("a message that is too large"));
    }
    if total > MESSAGE_BYTES_MAX {
        let Some(block) = input.get(start..start + headers) else { return Ok(None) };
        let omitted = Some(total - headers);
        let message = Message { subject, reply, headers: block, payload: b"", omitted };
        return Ok(Some((Operation::Message(message), start + headers)));
    }
    let Some(body) = input.get(start..start + total + 2) else { return Ok(None) };
    if !body.ends_with(b"\r\n") {
        return Err(Garbage("a message without an end"));
    }
    let (headers, rest) = body.split_at_checked(headers).ok_or(BAD)?;
    let payload = rest.strip_suffix(b"\r\n").ok_or(BAD)?;
    Ok(Some((Operation::Message(Message { subject, reply, headers, payload, omitted: None }), start + total + 2)))
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
pub fn number(digits: &[u8]) -> Option<u64> {
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
