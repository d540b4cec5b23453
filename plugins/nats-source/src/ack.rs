//! The subject by which a delivery is acknowledged: it tells where the message lies and how often it came.

/// First token of every such subject.
const PREFIX: &str = "$JS.ACK.";
/// Longest one that is written back.
const BYTES_MAX: usize = 1024;

/// What the subject tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Metadata {
    /// 1 at the first delivery.
    pub(crate) delivered: u32,
    /// Number of the message in its stream.
    pub(crate) sequence: u64,
    /// When the stream took it, in milliseconds since 1970.
    pub(crate) stored_at: u64,
    /// Messages that wait behind it.
    pub(crate) pending: u64,
}

impl Metadata {
    /// Reads `$JS.ACK.[domain.account.]stream.consumer.delivered.sequence.consumer-sequence.nanos.pending[.random]`; none if it
    /// is another subject.
    pub(crate) fn parse(subject: &str) -> Option<Self> {
        let tokens = subject.strip_prefix(PREFIX)?;
        // With a domain there are two more before, and maybe one more behind.
        let first = match tokens.bytes().filter(|byte| *byte == b'.').count() {
            6 => 2,
            8 | 9 => 4,
            _ => return None,
        };
        let mut tokens = tokens.split('.').skip(first);
        let number = |token: Option<&str>| token?.parse::<u64>().ok();
        let (delivered, sequence) = (number(tokens.next())?, number(tokens.next())?);
        let _of_the_consumer = tokens.next();
        let (stored_at, pending) = (number(tokens.next())? / 1_000_000, number(tokens.next())?);
        Some(Self { delivered: u32::try_from(delivered).ok()?, sequence, stored_at, pending })
    }
}

/// A token that the host handed back, if it is a subject by which something can be acknowledged.
pub(crate) fn subject(token: &[u8]) -> Option<&str> {
    read(token).map(|(subject, _)| subject)
}

/// The same with what it tells.
pub(crate) fn read(token: &[u8]) -> Option<(&str, Metadata)> {
    let subject = std::str::from_utf8(token).ok().filter(|subject| subject.len() <= BYTES_MAX)?;
    // Streams and consumers may be named in any script; a blank would end the subject on its line.
    let breaks = |letter: char| letter.is_whitespace() || letter.is_control();
    let is_broken = if token.is_ascii() {
        token.iter().any(|byte| *byte <= b' ' || *byte == 0x7f)
    } else {
        subject.contains(breaks)
    };
    if is_broken { None } else { Some((subject, Metadata::parse(subject)?)) }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn each_form_of_the_subject_is_read() {
        let expected = Metadata { delivered: 2, sequence: 17, stored_at: 1_795_697_050_623, pending: 4 };
        for text in [
            "$JS.ACK.ORDERS.ship.2.17.9.1795697050623582361.4",
            "$JS.ACK.hub.ACC.ORDERS.ship.2.17.9.1795697050623582361.4",
            "$JS.ACK._.ACC.ORDERS.ship.2.17.9.1795697050623582361.4.r4nd0m",
            "$JS.ACK.AUFTRÄGE.naël.2.17.9.1795697050623582361.4",
        ] {
            assert_eq!(Metadata::parse(text), Some(expected), "{text}");
            assert_eq!(subject(text.as_bytes()), Some(text));
        }
    }

    #[test]
    fn other_subjects_are_never_written_to() {
        for text in [
            &b""[..],
            b"orders.created",
            b"$JS.ACK.ORDERS.ship.2.17",
            b"$JS.ACK.ORDERS.ship.x.17.9.1.4",
            b"$JS.API.STREAM.DELETE.ORDERS",
            b"$JS.ACK.ORDERS.ship.2.17.9.1.4 0\r\n\r\nPUB x",
            b"$JS.ACK.ORDERS.sh ip.2.17.9.1.4",
            b"$JS.ACK.ORDERS.sh\xc2\xa0ip.2.17.9.1.4",
            b"$JS.ACK.ORDERS.sh\x7fip.2.17.9.1.4",
            b"\xff",
        ] {
            assert_eq!(subject(text), None);
        }
    }
}
