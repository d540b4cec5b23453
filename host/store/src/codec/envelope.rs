//! The header of everything encoded.

use super::CodecError;

const MAGIC: [u8; 2] = *b"WB";
/// Version this host writes, and the newest it reads.
pub const VERSION: u8 = 1;
/// Length of the header, in bytes.
const HEADER_BYTES: usize = 8;

/// What a record holds. One letter each, so that a hex dump tells it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A segment of the outbox.
    Segment = b'S' as isize,
    History = b'H' as isize,
    Parked = b'P' as isize,
    Scheduled = b'T' as isize,
    Dead = b'X' as isize,
    /// A group of messages on a doorstep.
    Door = b'G' as isize,
    /// The claimed segments of a shard record.
    Open = b'O' as isize,
    /// What a shard record says of crashes.
    Suspicion = b'C' as isize,
    /// What one commit holds of many sagas.
    Journal = b'J' as isize,
    /// A tree of sagas.
    Tree = b'A' as isize,
    /// Sagas that one commit ended.
    Ended = b'E' as isize,
    /// What is known of a stopped message of the inbox besides the message.
    InboxHead = b'I' as isize,
    /// A message that a source brought.
    Inbound = b'M' as isize,
    /// A dead letter of the inbox.
    InboxDead = b'D' as isize,
    /// The takes of one commit.
    Takes = b'K' as isize,
    /// Open takes, suspicion and counts of an inbox's shard record.
    InboxState = b'U' as isize,
    /// What one commit finished in the inbox.
    InboxDone = b'N' as isize,
    /// What the inbox left for a saga.
    SagaDoor = b'R' as isize,
    /// What one commit adds to a bucket of the seen set.
    SeenAppend = b'Q' as isize,
    /// A packed part of a bucket of the seen set.
    SeenBlock = b'B' as isize,
    /// What a bucket of the seen set consists of.
    SeenHead = b'Z' as isize,
    /// Events of an append on a doorstep of streams.
    StreamDoor = b'd' as isize,
    /// What one commit added to the streams of a shard.
    StreamFeed = b'f' as isize,
    /// How far relays are, in a shard record of streams.
    StreamMarks = b'm' as isize,
    /// What a relay has settled beyond its checkpoint.
    StreamSettled = b'c' as isize,
    /// A dead letter of streams.
    StreamDead = b'x' as isize,
    /// Audit events of one commit.
    TxEvents = b'L' as isize,
}

fn checksum(kind: u8, version: u8, body: &[u8]) -> u32 {
    let mut hash = crc32fast::Hasher::new();
    hash.update(&[kind, version]);
    hash.update(body);
    hash.finalize()
}

/// Starts an encoding: the caller appends the body and calls [`seal`].
pub fn begin(capacity: usize) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(HEADER_BYTES + capacity);
    bytes.resize(HEADER_BYTES, 0);
    bytes
}

/// Fills the header in.
pub fn seal(kind: Kind, mut bytes: Vec<u8>) -> Vec<u8> {
    let kind = kind as u8;
    if let Some((header, body)) = bytes.split_first_chunk_mut::<HEADER_BYTES>() {
        let [c0, c1, c2, c3] = checksum(kind, VERSION, body).to_le_bytes();
        let [m0, m1] = MAGIC;
        *header = [m0, m1, kind, VERSION, c0, c1, c2, c3];
    }
    bytes
}

/// The body, if the header is right.
pub fn open(kind: Kind, bytes: &[u8]) -> Result<&[u8], CodecError> {
    let damaged = |cause: &str| Err(CodecError::Damaged(cause.to_owned()));
    let Some((&[m0, m1, found, version, c0, c1, c2, c3], body)) = bytes.split_first_chunk::<HEADER_BYTES>() else {
        return damaged("it is shorter than its header");
    };
    if [m0, m1] != MAGIC {
        return damaged("it doesn't begin with WB");
    }
    if checksum(found, version, body) != u32::from_le_bytes([c0, c1, c2, c3]) {
        return damaged("its checksum is wrong");
    }
    if version > VERSION {
        return Err(CodecError::Newer(version));
    }
    if found != kind as u8 {
        return damaged("it is a record of another kind");
    }
    Ok(body)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::indexing_slicing)]
    use super::*;

    #[test]
    fn newer_data_is_told_from_damaged_data() {
        let mut bytes = begin(4);
        bytes.extend_from_slice(b"body");
        let mut bytes = seal(Kind::Segment, bytes);
        assert_eq!(open(Kind::Segment, &bytes).unwrap(), b"body");
        bytes[3] = VERSION + 1;
        assert!(matches!(open(Kind::Segment, &bytes), Err(CodecError::Damaged(_))), "a flipped version byte is damage");
        let crc = checksum(b'S', VERSION + 1, b"body").to_le_bytes();
        bytes[4..8].copy_from_slice(&crc);
        assert_eq!(open(Kind::Segment, &bytes), Err(CodecError::Newer(VERSION + 1)));
    }

    #[test]
    fn a_record_of_another_kind_is_refused() {
        let bytes = seal(Kind::Door, begin(0));
        assert!(
            matches!(open(Kind::Segment, &bytes), Err(CodecError::Damaged(cause)) if cause.contains("another kind"))
        );
    }
}
