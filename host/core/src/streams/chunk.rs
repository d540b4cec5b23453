//! A chunk: some consecutive events of a stream in one record, and how it is packed.
//!
//! ```text
//! 'W' 'B' | 'E' | version | crc32 of kind, version and body, little-endian |
//! body: from, last, total, at, count, then for each event: seq and pos, each minus that of the one before, length, envelope
//! ```
//!
//! Version 2 has the bytes of the payload that lies apart (`super::blob`; 0 = none does) before each envelope; it is written where one does.
//! Numbers are varints. It lies under its last seq and says from where it covers: from any position a reader goes forward, whatever
//! was merged meanwhile. A number that it covers and doesn't hold was replaced by compaction.

use std::sync::Arc;

use bytes::Bytes;

use super::proto::{ProtoError, put_varint, take_bytes, take_varint};
use crate::time::UnixMillis;

const KIND: u8 = b'E';
/// With every payload in its envelope.
const WHOLE: u8 = 1;
/// With payloads that lie apart.
const APART: u8 = 2;
const HEADER: usize = 8;

/// One event as it lies in a chunk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredEvent {
    pub seq: u64,
    /// Number of the feed record that named it; 0 = none has yet.
    pub pos: u64,
    /// Its envelope without tenant, stream and seq ([`super::envelope`]).
    pub packed: Bytes,
    /// Bytes of its payload where that lies apart ([`super::blob`]); 0 = it is in the envelope.
    pub apart: u32,
}

impl StoredEvent {
    /// Bytes of it, wherever they lie.
    pub fn bytes(&self) -> usize {
        self.packed.len() + self.apart as usize
    }
}

/// Consecutive events of a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chunk {
    /// It covers what comes after this number.
    pub from: u64,
    /// It covers up to this number.
    pub last: u64,
    /// Bytes of all events that the stream ever had, up to its last.
    pub total: u64,
    /// When its latest event was committed, by the steady clock of who numbered it.
    pub at: UnixMillis,
    pub events: Vec<StoredEvent>,
}

/// A chunk as it was read: under its key, and whatever lies there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredChunk {
    pub last: u64,
    /// The chunk, or why it can't be decoded.
    pub chunk: Result<Arc<Chunk>, String>,
}

impl StoredChunk {
    /// The same, covering all behind `from`, for a reader that wants nothing in front of `met`. One that doesn't cover `met` isn't what was
    /// looked for: it stays as it is, and its reader finds the gap.
    #[must_use]
    pub fn reaching_back(self, from: u64, met: u64) -> Self {
        let Ok(chunk) = &self.chunk else { return self };
        if chunk.from <= from || chunk.from >= met {
            return self;
        }
        let chunk = Arc::new(Chunk { from, ..chunk.as_ref().clone() });
        Self { last: self.last, chunk: Ok(chunk) }
    }

    /// One that covers a range of which its reader wants nothing.
    pub fn hollow(from: u64, last: u64) -> Self {
        let chunk = Chunk { from, last, total: 0, at: UnixMillis(0), events: Vec::new() };
        Self { last, chunk: Ok(Arc::new(chunk)) }
    }
}

/// Why a chunk can't be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ChunkError {
    #[error("it doesn't begin as a packed chunk")]
    Kind,
    #[error("it has version {0}, which this Waybill doesn't know")]
    Newer(u8),
    #[error("its checksum is wrong")]
    Checksum,
    #[error("the checksum holds, but {0}")]
    Body(#[from] ProtoError),
    #[error("the checksum holds, but its numbers aren't in order")]
    Order,
}

impl Chunk {
    /// Bytes of its events, wherever they lie.
    pub fn bytes(&self) -> usize {
        self.events.iter().map(StoredEvent::bytes).sum()
    }

    /// Bytes of what lies in the chunk itself: that is what writing it again costs.
    pub fn packed_bytes(&self) -> usize {
        self.events.iter().map(|event| event.packed.len()).sum()
    }

    /// Whether the feed has named all of it. All of a chunk is named at once, or nothing is.
    pub fn is_named(&self) -> bool {
        self.events.iter().all(|event| event.pos > 0)
    }

    /// The same, named by a feed record.
    pub fn adopted(&self, pos: u64, at: UnixMillis) -> Self {
        let events = self.events.iter().map(|event| StoredEvent { pos, ..event.clone() });
        Self { events: events.collect(), at, ..self.clone() }
    }

    pub fn pack(&self) -> Bytes {
        let version = if self.events.iter().any(|event| event.apart > 0) { APART } else { WHOLE };
        let mut out = Vec::with_capacity(HEADER + 64 + self.packed_bytes() + 8 * self.events.len());
        out.extend_from_slice(&[b'W', b'B', KIND, version, 0, 0, 0, 0]);
        for number in [self.from, self.last, self.total, self.at.0, self.events.len() as u64] {
            put_varint(&mut out, number);
        }
        let (mut seq, mut pos) = (self.from, 0);
        for event in &self.events {
            put_varint(&mut out, event.seq.wrapping_sub(seq));
            put_varint(&mut out, event.pos.wrapping_sub(pos));
            put_varint(&mut out, event.packed.len() as u64);
            if version == APART {
                put_varint(&mut out, u64::from(event.apart));
            }
            out.extend_from_slice(&event.packed);
            (seq, pos) = (event.seq, event.pos);
        }
        let crc = checksum(KIND, version, out.get(HEADER..).unwrap_or_default()).to_le_bytes();
        if let Some(slot) = out.get_mut(4..HEADER) {
            slot.copy_from_slice(&crc);
        }
        Bytes::from(out)
    }

    /// From bytes. The events' envelopes aren't looked at.
    pub fn unpack(bytes: &Bytes) -> Result<Self, ChunkError> {
        let Some((&[w, b, kind, version, c0, c1, c2, c3], mut body)) = bytes.split_first_chunk::<HEADER>() else {
            return Err(ChunkError::Kind);
        };
        if [w, b, kind] != [b'W', b'B', KIND] {
            return Err(ChunkError::Kind);
        }
        if checksum(kind, version, body) != u32::from_le_bytes([c0, c1, c2, c3]) {
            return Err(ChunkError::Checksum);
        }
        if version > APART {
            return Err(ChunkError::Newer(version));
        }
        let mut number = || take_varint(&mut body);
        let (from, last, total, at, count) = (number()?, number()?, number()?, UnixMillis(number()?), number()?);
        let mut chunk = Self { from, last, total, at, events: Vec::new() };
        // The count isn't trusted with memory: each event takes three bytes at least.
        chunk.events.reserve(usize::try_from(count).unwrap_or(usize::MAX).min(body.len() / 3));
        let (mut seq, mut pos) = (from, 0_u64);
        for _ in 0..count {
            let next = seq.wrapping_add(take_varint(&mut body)?);
            pos = pos.wrapping_add(take_varint(&mut body)?);
            if next <= seq || next > last {
                return Err(ChunkError::Order);
            }
            seq = next;
            let length = take_varint(&mut body)?;
            let apart = if version == APART { take_varint(&mut body)? } else { 0 };
            let apart = u32::try_from(apart).map_err(|_| ProtoError::Varint)?;
            let packed = bytes.slice_ref(take_bytes(&mut body, length)?);
            chunk.events.push(StoredEvent { seq, pos, packed, apart });
        }
        if !body.is_empty() || from > last {
            return Err(ChunkError::Order);
        }
        Ok(chunk)
    }
}

fn checksum(kind: u8, version: u8, body: &[u8]) -> u32 {
    let mut hash = crc32fast::Hasher::new();
    hash.update(&[kind, version]);
    hash.update(body);
    hash.finalize()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chunk() -> Chunk {
        let event = |seq, pos, text: &'static str| StoredEvent {
            seq,
            pos,
            packed: Bytes::from_static(text.as_bytes()),
            apart: 0,
        };
        Chunk {
            from: 7,
            last: 12,
            total: 4_000,
            at: UnixMillis(1_700_000_000_000),
            events: vec![event(8, 3, "one"), event(9, 3, ""), event(12, 900, "three")],
        }
    }

    #[test]
    fn a_chunk_comes_back_with_its_holes() {
        let empty = Chunk { events: Vec::new(), ..chunk() };
        for chunk in [chunk(), empty, chunk().adopted(5, UnixMillis(1))] {
            assert_eq!(Chunk::unpack(&chunk.pack()), Ok(chunk));
        }
        assert_eq!(chunk().bytes(), 8);
    }

    #[test]
    fn payloads_that_lie_apart_count_and_make_another_version() {
        let whole = chunk();
        let mut apart = whole.clone();
        apart.events[1].apart = 70_000;
        assert_eq!(Chunk::unpack(&apart.pack()), Ok(apart.clone()));
        assert_eq!((apart.bytes(), apart.packed_bytes()), (70_008, 8));
        assert_eq!((whole.pack()[3], apart.pack()[3]), (1, 2), "what earlier hosts wrote is written as before");
    }

    #[test]
    fn any_flipped_bit_and_any_cut_is_found() {
        let bytes = chunk().pack();
        for at in 0..bytes.len() * 8 {
            let mut flipped = bytes.to_vec();
            flipped[at / 8] ^= 1 << (at % 8);
            assert!(Chunk::unpack(&Bytes::from(flipped)).is_err(), "bit {at}");
        }
        for cut in 0..bytes.len() {
            assert!(Chunk::unpack(&bytes.slice(..cut)).is_err(), "cut at {cut}");
        }
    }

    #[test]
    fn a_checksum_that_holds_over_nonsense_is_an_error_too() {
        let with = |body: &[u8], version: u8| {
            let mut bytes = vec![b'W', b'B', KIND, version];
            bytes.extend(checksum(KIND, version, body).to_le_bytes());
            bytes.extend(body);
            Chunk::unpack(&Bytes::from(bytes))
        };
        assert_eq!(with(&[0, 1, 0, 0, 1, 1, 0, 0], 1).map(|chunk| chunk.events.len()), Ok(1));
        assert_eq!(with(&[0, 1, 0, 0, 1, 1, 0, 0], 3), Err(ChunkError::Newer(3)));
        assert_eq!(with(&[0, 1, 0, 0, 1, 2, 0, 0], 1), Err(ChunkError::Order), "beyond its last");
        assert_eq!(with(&[0, 1, 0, 0, 1, 0, 0, 0], 1), Err(ChunkError::Order), "not after the one before");
        assert_eq!(with(&[2, 1, 0, 0, 0], 1), Err(ChunkError::Order), "it ends before it begins");
        assert_eq!(with(&[0, 1, 0, 0, 0, 9], 1), Err(ChunkError::Order), "something is behind it");
        assert!(with(&[0, 1, 0, 0, 0xFF, 0xFF, 0xFF, 0xFF, 0x0F], 1).is_err(), "a count beyond the bytes");
    }
}
