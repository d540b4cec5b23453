//! The server's reply to one message.

use waybill_plugin::transport::{Fault, Outcome, Receipt};
use waybill_redis_wire::refusal::{self, Refusal, shown};
use waybill_redis_wire::resp::Reply;

/// What a reply means for its message.
#[derive(Debug)]
pub(crate) enum Answer {
    /// It is in the stream, or was before.
    Added(Receipt),
    /// It is in the stream, and its id couldn't be remembered: why.
    Forgotten(Receipt, String),
    /// Its fate, not in the stream.
    Fate(Outcome),
    /// Nothing can be sent now.
    Held(Refusal),
    /// The server doesn't know the script: send it whole.
    NoScript,
    /// The server reads no further than this message.
    Ends(Outcome),
}

/// Reads a reply. `creates_streams`: then none is ever missing.
pub(crate) fn read(reply: &Reply<'_>, creates_streams: bool) -> Answer {
    match reply {
        Reply::Error(text) if text.starts_with(b"NOSCRIPT") => Answer::NoScript,
        Reply::Error(text) => refused(text),
        Reply::Null if !creates_streams => {
            let reason = "the stream isn't there and `create_streams` is off: create it, e.g. by `provision`";
            Answer::Fate(Fault::new("REDIS.NO_STREAM", reason).blocking(""))
        }
        reply => match (reply.text().filter(|entry| is_entry(entry)), reply) {
            (Some(entry), _) => Answer::Added(receipt(entry, false)),
            (None, Reply::List(list)) => match list.as_slice() {
                [entry] => entry.text().map_or_else(strange, |entry| Answer::Added(receipt(entry, true))),
                [entry, Reply::Text(why)] => entry.text().map_or_else(strange, |entry| {
                    Answer::Forgotten(receipt(entry, false), shown(&String::from_utf8_lossy(why)))
                }),
                _ => strange(),
            },
            (None, _) => strange(),
        },
    }
}

fn refused(text: &[u8]) -> Answer {
    let refusal = refusal::sort(text);
    match refusal.outcome() {
        None => Answer::Held(refusal),
        Some(outcome) if text.starts_with(b"ERR Protocol error") => Answer::Ends(outcome),
        Some(outcome) => Answer::Fate(outcome),
    }
}

fn receipt(entry: &str, duplicate: bool) -> Receipt {
    Receipt { broker_ref: Some(entry.to_owned()), duplicate, attributes: Vec::new() }
}

/// Whether a text is the id of an entry, such as `1700000000000-0`.
fn is_entry(text: &str) -> bool {
    let digits = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    text.split_once('-').is_some_and(|(millis, number)| digits(millis) && digits(number))
}

fn strange() -> Answer {
    let fault = Fault::new("REDIS.ANSWER", "the answer isn't what Redis says when it has added an entry");
    Answer::Fate(Outcome::Retryable(fault.with_maybe_delivered(true)))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::panic)]
    use super::*;

    #[test]
    fn an_entry_is_a_receipt_and_one_that_was_there_is_a_duplicate() {
        let entry = || Reply::Text(b"1700000000000-3");
        let Answer::Added(receipt) = read(&entry(), true) else { panic!() };
        assert_eq!((receipt.broker_ref.as_deref(), receipt.duplicate), (Some("1700000000000-3"), false));
        let Answer::Added(receipt) = read(&Reply::List(vec![entry()]), true) else { panic!() };
        assert!(receipt.duplicate);
        let forgotten = Reply::List(vec![entry(), Reply::Text(b"NOPERM no")]);
        let Answer::Forgotten(receipt, why) = read(&forgotten, true) else { panic!() };
        assert_eq!((receipt.duplicate, why.as_str()), (false, "NOPERM no"));
    }

    #[test]
    fn a_refusal_is_a_fate_or_holds_everything() {
        assert!(matches!(read(&Reply::Error(b"WRONGTYPE x"), true), Answer::Fate(Outcome::Blocked(_))));
        assert!(matches!(read(&Reply::Error(b"OOM x"), true), Answer::Held(_)));
        assert!(matches!(read(&Reply::Error(b"NOSCRIPT No matching script."), true), Answer::NoScript));
        let ends = read(&Reply::Error(b"ERR Protocol error: invalid bulk length"), true);
        assert!(matches!(ends, Answer::Ends(Outcome::Permanent(_))));
        let Answer::Fate(Outcome::Blocked(block)) = read(&Reply::Null, false) else { panic!() };
        assert_eq!(block.fault.code, "REDIS.NO_STREAM");
    }

    #[test]
    fn what_is_no_entry_is_no_acknowledgement() {
        for reply in [
            Reply::Null,
            Reply::Text(b"OK"),
            Reply::Text(b"1-"),
            Reply::Text(b"-1"),
            Reply::Number(1),
            Reply::List(vec![]),
            Reply::List(vec![Reply::Null]),
        ] {
            let Answer::Fate(Outcome::Retryable(fault)) = read(&reply, true) else { panic!("{reply:?}") };
            assert_eq!((fault.code.as_str(), fault.maybe_delivered), ("REDIS.ANSWER", true));
        }
    }
}
