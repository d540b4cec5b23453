//! What a server says, taken out of the bytes received: RESP 2 and 3. Pure; never panics on garbage, never waits for more
//! than its bounds. Our own, because replies are small, borrowed and bounded in depth here; a test holds it against
//! `redis-protocol`.

/// Longest line: errors quote what they complain about.
const LINE_BYTES_MAX: usize = 64 * 1024;
/// Longest text: a payload. Redis itself takes 512 MB, for which an instance has no memory.
const BULK_BYTES_MAX: usize = 64 * 1024 * 1024;
/// Most elements of one list.
const ELEMENTS_MAX: usize = 64 * 1024;
/// Most levels of lists in lists.
const DEPTH_MAX: u32 = 8;

/// One reply of the server.
#[derive(Debug, PartialEq)]
pub enum Reply<'a> {
    /// A status, a text, a verbatim text, a large number or a fraction: its bytes.
    Text(&'a [u8]),
    /// A refusal, its code first.
    Error(&'a [u8]),
    /// A number; a truth value is 0 or 1.
    Number(i64),
    /// Nothing: no such thing, or none in time.
    Null,
    /// A list, a set, or a map as keys and values in turn.
    List(Vec<Reply<'a>>),
    /// What nobody asked for.
    Push,
}

impl<'a> Reply<'a> {
    /// As text, if it is one.
    pub fn text(&self) -> Option<&'a str> {
        match self {
            Self::Text(bytes) => std::str::from_utf8(bytes).ok(),
            _ => None,
        }
    }

    /// As bytes, if it is text.
    pub fn bytes(&self) -> Option<&'a [u8]> {
        match self {
            Self::Text(bytes) => Some(bytes),
            _ => None,
        }
    }

    /// As a number, if it is one.
    pub fn number(&self) -> Option<i64> {
        match self {
            Self::Number(number) => Some(*number),
            _ => None,
        }
    }

    /// What is in a list; empty if it is none.
    pub fn list(&self) -> &[Self] {
        match self {
            Self::List(list) => list,
            _ => &[],
        }
    }

    /// What belongs to a key of a map.
    pub fn get(&self, key: &str) -> Option<&Self> {
        let Self::List(list) = self else { return None };
        list.chunks_exact(2).find_map(|pair| match pair {
            [name, value] if name.text() == Some(key) => Some(value),
            _ => None,
        })
    }
}

/// Bytes that aren't RESP, and why; the connection is of no more use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Garbage(
    /// What is wrong, for the operator.
    pub &'static str,
);

/// Takes the first reply: it and its length. None: more bytes are needed.
///
/// # Errors
/// The bytes are no RESP, or larger than what is taken.
pub fn next(input: &[u8]) -> Result<Option<(Reply<'_>, usize)>, Garbage> {
    let mut reader = Reader { input, at: 0 };
    match reader.reply(DEPTH_MAX) {
        Ok(reply) => Ok(Some((reply, reader.at))),
        Err(Stop::More) => Ok(None),
        Err(Stop::Garbage(what)) => Err(Garbage(what)),
    }
}

enum Stop {
    More,
    Garbage(&'static str),
}

struct Reader<'a> {
    input: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    fn reply(&mut self, depth: u32) -> Result<Reply<'a>, Stop> {
        let kind = *self.input.get(self.at).ok_or(Stop::More)?;
        if !b"+-:$*_,#!(=%~>|".contains(&kind) {
            return Err(Stop::Garbage("an unknown kind of reply"));
        }
        self.at += 1;
        let line = self.line()?;
        match kind {
            b'+' | b',' | b'(' => Ok(Reply::Text(line)),
            b'-' => Ok(Reply::Error(line)),
            b':' => number(line).map(Reply::Number),
            b'#' => match line {
                b"t" => Ok(Reply::Number(1)),
                b"f" => Ok(Reply::Number(0)),
                _ => Err(Stop::Garbage("a truth value that is none")),
            },
            b'_' if line.is_empty() => Ok(Reply::Null),
            b'$' | b'!' | b'=' => self.bulk(kind, line),
            b'*' | b'~' | b'%' | b'>' | b'|' => self.list(kind, line, depth),
            _ => Err(Stop::Garbage("a null with a value")),
        }
    }

    fn bulk(&mut self, kind: u8, line: &[u8]) -> Result<Reply<'a>, Stop> {
        let Some(length) = length(line, BULK_BYTES_MAX)? else { return Ok(Reply::Null) };
        let body = self.input.get(self.at..).unwrap_or_default();
        let whole = body.get(..length + 2).ok_or(Stop::More)?;
        let text = whole.strip_suffix(b"\r\n").ok_or(Stop::Garbage("a text without an end"))?;
        self.at += length + 2;
        Ok(match kind {
            b'!' => Reply::Error(text),
            // `txt:` or `mkd:` goes before it.
            b'=' => Reply::Text(text.get(4..).ok_or(Stop::Garbage("a verbatim text without its kind"))?),
            _ => Reply::Text(text),
        })
    }

    fn list(&mut self, kind: u8, line: &[u8], depth: u32) -> Result<Reply<'a>, Stop> {
        let Some(count) = length(line, ELEMENTS_MAX)? else { return Ok(Reply::Null) };
        let depth = depth.checked_sub(1).ok_or(Stop::Garbage("lists in too many lists"))?;
        let count = if matches!(kind, b'%' | b'|') { count * 2 } else { count };
        // What isn't there yet reserves no memory.
        let mut list = Vec::with_capacity(count.min(self.input.len() - self.at));
        for _ in 0..count {
            list.push(self.reply(depth)?);
        }
        match kind {
            b'>' => Ok(Reply::Push),
            // Remarks about the reply that follows.
            b'|' => self.reply(depth),
            _ => Ok(Reply::List(list)),
        }
    }

    /// Up to the line's end (CR LF).
    fn line(&mut self) -> Result<&'a [u8], Stop> {
        let rest = self.input.get(self.at..).unwrap_or_default();
        let seen = rest.get(..LINE_BYTES_MAX).unwrap_or(rest);
        match seen.iter().position(|byte| *byte == b'\r') {
            Some(end) => match rest.get(end + 1) {
                Some(b'\n') => {
                    self.at += end + 2;
                    Ok(rest.get(..end).unwrap_or_default())
                }
                Some(_) => Err(Stop::Garbage("a line without LF")),
                None => Err(Stop::More),
            },
            None if rest.len() >= LINE_BYTES_MAX => Err(Stop::Garbage("a line that is too long")),
            None => Err(Stop::More),
        }
    }
}

fn number(digits: &[u8]) -> Result<i64, Stop> {
    let text = std::str::from_utf8(digits).ok();
    text.and_then(|text| text.parse().ok()).ok_or(Stop::Garbage("a number that is none"))
}

/// A length; none for -1, which is null in RESP 2.
fn length(line: &[u8], most: usize) -> Result<Option<usize>, Stop> {
    match number(line)? {
        -1 => Ok(None),
        length => match usize::try_from(length) {
            Ok(length) if length <= most => Ok(Some(length)),
            _ => Err(Stop::Garbage("a reply that is too large")),
        },
    }
}

#[cfg(test)]
#[path = "resp_tests.rs"]
mod tests;
