//! Records as a producer writes them: a batch (magic 2), all of which a partition takes or refuses.

use std::io;

use bytes::Bytes;

use crate::compression::Compression;
use crate::varint;

/// Bytes before the records.
pub const HEAD_BYTES: usize = 61;
/// Where a batch's parts lie that are written last.
const CRC_AT: usize = 17;
const CHECKED_FROM: usize = 21;
const PRODUCER_AT: usize = 43;

/// Who produces, so that a partition knows what it has already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Producer {
    /// Given by the cluster.
    pub id: i64,
    /// Grows with what fences an older one.
    pub epoch: i16,
}

/// One record to be added.
#[derive(Clone, Copy, Debug)]
pub struct Record<'a> {
    /// Milliseconds since 1970.
    pub timestamp: i64,
    /// What its partition was chosen by.
    pub key: Option<&'a [u8]>,
    /// Its headers as [`push_header`] made them, and how many.
    pub headers: (&'a [u8], usize),
    /// The payload.
    pub value: &'a [u8],
}

/// Appends a header in a record's form.
pub fn push_header(out: &mut Vec<u8>, name: &[u8], value: &[u8]) {
    varint::push_length(out, Some(name.len()));
    out.extend_from_slice(name);
    varint::push_length(out, Some(value.len()));
    out.extend_from_slice(value);
}

/// A batch that is being filled.
#[derive(Debug, Default)]
pub struct Filling {
    records: Vec<u8>,
    count: usize,
    first: i64,
    newest: i64,
    scratch: Vec<u8>,
}

impl Filling {
    /// Bytes of the batch without compression.
    pub fn len(&self) -> usize {
        HEAD_BYTES + self.records.len()
    }

    /// Whether nothing was added.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Adds a record.
    pub fn push(&mut self, record: Record<'_>) {
        if self.count == 0 {
            (self.first, self.newest) = (record.timestamp, record.timestamp);
        }
        self.newest = self.newest.max(record.timestamp);
        let (headers, header_count) = record.headers;
        let body = &mut self.scratch;
        body.clear();
        // Attributes: none are defined.
        body.push(0);
        varint::push(body, record.timestamp.saturating_sub(self.first));
        varint::push_length(body, Some(self.count));
        varint::push_length(body, record.key.map(<[u8]>::len));
        body.extend_from_slice(record.key.unwrap_or_default());
        varint::push_length(body, Some(record.value.len()));
        let mut counted = Vec::with_capacity(5);
        varint::push_length(&mut counted, Some(header_count));
        let length = body.len() + record.value.len() + counted.len() + headers.len();
        self.records.reserve(length + 5);
        varint::push_length(&mut self.records, Some(length));
        for part in [body.as_slice(), record.value, &counted, headers] {
            self.records.extend_from_slice(part);
        }
        self.count += 1;
    }

    /// The batch, without its producer.
    ///
    /// # Errors
    /// Compression failed.
    pub fn end(self, compression: Compression) -> io::Result<Batch> {
        let records = compression.compress(self.records)?;
        let last = i32::try_from(self.count).unwrap_or(i32::MAX) - 1;
        let mut bytes = Vec::with_capacity(HEAD_BYTES + records.len());
        // The offset is the partition's to give; the length counts what follows it.
        bytes.extend_from_slice(&0_i64.to_be_bytes());
        let length = HEAD_BYTES - 12 + records.len();
        bytes.extend_from_slice(&i32::try_from(length).unwrap_or(i32::MAX).to_be_bytes());
        bytes.extend_from_slice(&(-1_i32).to_be_bytes());
        bytes.push(2);
        bytes.extend_from_slice(&[0; 4]);
        bytes.extend_from_slice(&(compression as i16).to_be_bytes());
        bytes.extend_from_slice(&last.to_be_bytes());
        bytes.extend_from_slice(&self.first.to_be_bytes());
        bytes.extend_from_slice(&self.newest.to_be_bytes());
        bytes.extend_from_slice(&[0xff; 14]);
        bytes.extend_from_slice(&(last + 1).to_be_bytes());
        bytes.extend_from_slice(&records);
        Ok(Batch { bytes, count: self.count })
    }
}

/// A batch that is whole but for its producer.
#[derive(Clone, Debug)]
pub struct Batch {
    bytes: Vec<u8>,
    count: usize,
}

impl Batch {
    /// How many records it has.
    pub fn count(&self) -> usize {
        self.count
    }

    /// The batch as it is sent. The same producer and sequence number say that it is the same batch, however often it is sent.
    pub fn stamped(&mut self, producer: Producer, sequence: i32) -> Bytes {
        let stamp =
            producer.id.to_be_bytes().into_iter().chain(producer.epoch.to_be_bytes()).chain(sequence.to_be_bytes());
        for (place, byte) in self.bytes.iter_mut().skip(PRODUCER_AT).zip(stamp) {
            *place = byte;
        }
        let checksum = crc32c::crc32c(self.bytes.get(CHECKED_FROM..).unwrap_or_default()).to_be_bytes();
        for (place, byte) in self.bytes.iter_mut().skip(CRC_AT).zip(checksum) {
            *place = byte;
        }
        Bytes::copy_from_slice(&self.bytes)
    }
}

/// The sequence number that follows a batch of so many: behind the largest comes 0.
pub fn after(sequence: i32, count: usize) -> i32 {
    let next = i64::from(sequence) + i64::try_from(count).unwrap_or(0);
    i32::try_from(next % (i64::from(i32::MAX) + 1)).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sequence_numbers_begin_again_at_zero() {
        assert_eq!(after(0, 3), 3);
        assert_eq!(after(i32::MAX - 1, 1), i32::MAX);
        assert_eq!(after(i32::MAX, 1), 0);
        assert_eq!(after(i32::MAX - 1, 5), 3);
    }
}
