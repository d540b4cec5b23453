//! The ledger's language. Pure, so that `cargo test` runs it natively.
//!
//! ```text
//! S: LEDGER 1
//! C: HELLO <token>                      S: WELCOME | DENIED <why>
//! C: PUT <id> <book> <bytes>            S: OK <number> | KNOWN <number> | BUSY <ms> <why> | NO <why> | CLOSED <why>
//!    <payload, and a line break>
//! C: PING                               S: PONG
//! C: BYE
//! ```
//! Answers come in the order of the requests. An id that is in the book already is `KNOWN`: so a message that comes again is no
//! second entry.

use waybill_plugin::transport::{Fault, Outcome, PluginError, Receipt};

/// Longest line of the ledger, in bytes.
pub const LINE_BYTES_MAX: usize = 1_024;

/// One entry for a book. The line break after the payload is for people who listen in.
pub fn put(id: &str, book: &str, payload: &[u8]) -> Vec<u8> {
    let mut request = format!("PUT {} {} {}\n", word(id), word(book), payload.len()).into_bytes();
    request.extend_from_slice(payload);
    request.push(b'\n');
    request
}

/// A text as one word: what would end it is written as `%XX`.
pub fn word(text: &str) -> String {
    let mut word = String::with_capacity(text.len());
    for letter in text.chars() {
        if letter.is_control() || letter == ' ' || letter == '%' {
            let mut bytes = [0; 4];
            for byte in letter.encode_utf8(&mut bytes).bytes() {
                word.push_str(&format!("%{byte:02X}"));
            }
        } else {
            word.push(letter);
        }
    }
    word
}

/// What became of an entry.
#[derive(Debug, PartialEq, Eq)]
pub enum Reply {
    /// It has this number; `known`: it had it before.
    Entered { number: u64, known: bool },
    /// Come back after so many milliseconds.
    Busy { after: u32, why: String },
    /// The book refuses this entry for good, and says why.
    No(String),
    /// The book takes nothing at all.
    Closed(String),
}

/// The first answer in what has come: its length and what it says; none while it isn't whole.
pub fn reply(bytes: &[u8]) -> Result<Option<(usize, Reply)>, PluginError> {
    let Some(end) = bytes.iter().position(|byte| *byte == b'\n') else { return Ok(None) };
    let line = String::from_utf8_lossy(bytes.get(..end).unwrap_or_default());
    let (verb, rest) = line.trim_end().split_once(' ').unwrap_or((line.trim_end(), ""));
    let reply = match verb {
        "OK" | "KNOWN" => rest.parse().ok().map(|number| Reply::Entered { number, known: verb == "KNOWN" }),
        "BUSY" => {
            let (after, why) = rest.split_once(' ').unwrap_or((rest, ""));
            after.parse().ok().map(|after| Reply::Busy { after, why: why.to_owned() })
        }
        "NO" => Some(Reply::No(rest.to_owned())),
        "CLOSED" => Some(Reply::Closed(rest.to_owned())),
        _ => None,
    };
    // Whatever follows can't be told apart: the connection is of no more use.
    let reply =
        reply.ok_or_else(|| PluginError::unavailable("LEDGER.PROTOCOL", format!("the ledger answers {line:?}")))?;
    Ok(Some((end + 1, reply)))
}

/// What an answer means for the message.
pub fn outcome(reply: Reply) -> Outcome {
    match reply {
        Reply::Entered { number, known } => {
            Outcome::Ack(Receipt { duplicate: known, ..Receipt::with_reference(number.to_string()) })
        }
        Reply::Busy { after, why } => Outcome::Retryable(Fault::new("LEDGER.BUSY", why).with_after(Some(after))),
        Reply::No(why) => Outcome::Permanent(Fault::new("LEDGER.NO", why)),
        // An empty scope is the message's destination: only this book is held, and no attempt counts.
        Reply::Closed(why) => Fault::new("LEDGER.CLOSED", why).blocking(""),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_is_a_line_and_its_bytes() {
        assert_eq!(put("m-1", "orders", b"{}"), b"PUT m-1 orders 2\n{}\n");
        assert_eq!(put("a b%\n", "x", b""), b"PUT a%20b%25%0A x 0\n\n");
    }

    #[test]
    fn an_answer_is_read_when_it_is_whole() {
        assert!(matches!(reply(b"OK 1"), Ok(None)));
        let entered = |number, known| Reply::Entered { number, known };
        assert_eq!(reply(b"OK 12\nKNOWN 3\n").expect("an answer"), Some((6, entered(12, false))));
        assert_eq!(reply(b"KNOWN 3\n").expect("an answer"), Some((8, entered(3, true))));
        let busy = Reply::Busy { after: 500, why: "closing time".to_owned() };
        assert_eq!(reply(b"BUSY 500 closing time\r\n").expect("an answer"), Some((23, busy)));
        for garbage in [&b"HTTP/1.1 400 Bad Request\n"[..], b"OK\n", b"BUSY soon\n", b"\n"] {
            assert!(reply(garbage).is_err(), "{garbage:?}");
        }
    }

    #[test]
    fn each_answer_has_its_outcome() {
        let Outcome::Ack(receipt) = outcome(Reply::Entered { number: 7, known: true }) else { panic!("delivered") };
        assert_eq!((receipt.broker_ref.as_deref(), receipt.duplicate), (Some("7"), true));
        let busy = Reply::Busy { after: 500, why: String::new() };
        assert!(matches!(outcome(busy), Outcome::Retryable(fault) if fault.after == Some(500)));
        assert!(
            matches!(outcome(Reply::No("too long".to_owned())), Outcome::Permanent(fault) if fault.reason == "too long")
        );
        assert!(matches!(outcome(Reply::Closed(String::new())), Outcome::Blocked(block) if block.scope.is_empty()));
    }
}
