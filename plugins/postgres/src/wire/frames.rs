//! Messages of the server in the bytes that have come.

use bytes::BytesMut;
use postgres_protocol::message::backend::{Header, Message};

/// Largest message: a row's payload and its columns. Also what keeps a stranger's length from taking all memory.
const FRAME_BYTES_MAX: i32 = 48 * 1024 * 1024;

/// What has come isn't the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Garbage(pub(crate) &'static str);

/// Bytes that have come and aren't understood yet.
#[derive(Debug, Default)]
pub(crate) struct Frames(BytesMut);

impl Frames {
    /// Adds what was received.
    pub(crate) fn push(&mut self, bytes: &[u8]) {
        self.0.extend_from_slice(bytes);
    }

    /// The next message that is there whole.
    ///
    /// # Errors
    /// Who answers there isn't a PostgreSQL server.
    pub(crate) fn next(&mut self) -> Result<Option<Message>, Garbage> {
        let garbage = |_| Garbage("a message that can't be read");
        match Header::parse(&self.0).map_err(garbage)? {
            Some(header) if header.len() > FRAME_BYTES_MAX => Err(Garbage("a message that is too large")),
            Some(header) if self.0.len() <= usize::try_from(header.len()).unwrap_or(usize::MAX) => Ok(None),
            Some(_) => Message::parse(&mut self.0).map_err(garbage),
            None => Ok(None),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_message_comes_out_when_it_is_whole() {
        let ready = b"Z\0\0\0\x05I";
        let mut frames = Frames::default();
        for byte in &ready[..5] {
            frames.push(&[*byte]);
            assert!(frames.next().unwrap().is_none());
        }
        frames.push(&ready[5..]);
        assert!(matches!(frames.next().unwrap(), Some(Message::ReadyForQuery(body)) if body.status() == b'I'));
        assert!(frames.next().unwrap().is_none());
    }

    #[test]
    fn a_length_that_is_no_message_ends_it() {
        for bytes in [b"D\x7f\xff\xff\xff", b"Z\0\0\0\x03", b"D\xff\xff\xff\xff"] {
            let mut frames = Frames::default();
            frames.push(bytes);
            assert!(frames.next().is_err(), "{bytes:?}");
        }
    }

    proptest! {
        #[test]
        fn whatever_comes_harms_nobody(pieces in proptest::collection::vec(any::<Vec<u8>>(), 0..8)) {
            let mut frames = Frames::default();
            for piece in pieces {
                frames.push(&piece);
                while let Ok(Some(_)) = frames.next() {}
            }
        }
    }
}
