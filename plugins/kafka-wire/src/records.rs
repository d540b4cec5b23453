//! Records as a consumer reads them: batches (magic 2) of a fetch, whole ones first, perhaps a piece of another one behind.

use bytes::Bytes;

use crate::batch::HEAD_BYTES;
use crate::compression::Compression;
use crate::varint;

/// A batch that can't be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unreadable {
    /// Why.
    pub why: String,
    /// Offset of its first record, as far as its head can be believed.
    pub base_offset: i64,
    /// Bytes up to the batch behind it, by the same head; 0 where it doesn't say.
    pub bytes: usize,
}

/// The head of a batch, and its records as they came.
#[derive(Clone, Debug)]
pub struct Batch {
    /// Offset of its first record, whether that is still there or not.
    pub base_offset: i64,
    /// Offset of its last one.
    pub last_offset: i64,
    /// Who wrote it; -1 without idempotence.
    pub producer_id: i64,
    /// Part of a transaction.
    pub is_transactional: bool,
    /// Says how a transaction ended, and holds no messages.
    pub is_control: bool,
    compression: Option<Compression>,
    /// The server's clock counts, not the producer's.
    appended_at: Option<i64>,
    base_timestamp: i64,
    count: i32,
    records: Bytes,
}

/// One record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record<'a> {
    /// Its place in the partition.
    pub offset: i64,
    /// Milliseconds since 1970.
    pub timestamp: i64,
    /// What its partition was chosen by.
    pub key: Option<&'a [u8]>,
    /// The payload; none = a deletion, where topics are compacted.
    pub value: Option<&'a [u8]>,
    /// In their order, names may come twice.
    pub headers: Vec<(&'a [u8], Option<&'a [u8]>)>,
}

/// Takes the next whole batch off the front; none where none is whole.
///
/// # Errors
/// It is of the formats before Kafka 0.11, or its checksum is wrong.
pub fn next_batch(bytes: &mut Bytes) -> Result<Option<Batch>, Unreadable> {
    let Some(head) = bytes.get(..HEAD_BYTES) else { return Ok(None) };
    let field = |from: usize| head.get(from..).unwrap_or_default();
    let base_offset = long(field(0));
    let last_offset = base_offset.saturating_add(i64::from(int(field(23))));
    let length = usize::try_from(int(field(8)));
    let size = length.map_or(0, |length| length.saturating_add(12));
    let unreadable = |why: &str| Unreadable { why: why.to_owned(), base_offset, bytes: size };
    let length = length.map_err(|_| unreadable("its length is negative"))?;
    let Some(rest) = bytes.get(12..12_usize.saturating_add(length)) else { return Ok(None) };
    let (magic, attributes) = (field(16).first().copied().unwrap_or_default(), short(field(21)));
    if magic != 2 {
        return Err(unreadable(&format!("it has format {magic}, of Kafka before 0.11")));
    }
    let checked = rest.get(9..).unwrap_or_default();
    if crc32c::crc32c(checked) != int(field(17)).cast_unsigned() {
        return Err(unreadable("its checksum is wrong"));
    }
    if length < HEAD_BYTES - 12 {
        return Err(unreadable("it is shorter than its head"));
    }
    let batch = Batch {
        base_offset,
        last_offset,
        producer_id: long(field(43)),
        is_transactional: attributes & 0x10 != 0,
        is_control: attributes & 0x20 != 0,
        compression: Compression::of_attributes(attributes),
        appended_at: (attributes & 8 != 0).then(|| long(field(35))),
        base_timestamp: long(field(27)),
        count: int(field(57)),
        records: bytes.slice(HEAD_BYTES..12 + length),
    };
    let _ = bytes.split_to(12 + length);
    Ok(Some(batch))
}

impl Batch {
    /// Its records without compression, for [`Self::records`].
    ///
    /// # Errors
    /// They can't be made whole again.
    pub fn whole(&self) -> Result<Bytes, Unreadable> {
        match self.compression {
            Some(Compression::None) => Ok(self.records.clone()),
            Some(compression) => compression
                .decompress(&self.records)
                .map(Bytes::from)
                .map_err(|error| self.unreadable(&error.to_string())),
            None => Err(self.unreadable("its compression isn't known")),
        }
    }

    /// Each record of what [`Self::whole`] answered; an error where one isn't as the format says.
    pub fn records<'a>(&self, mut whole: &'a [u8]) -> impl Iterator<Item = Result<Record<'a>, Unreadable>> {
        (0..self.count).map(move |_| self.record(&mut whole).ok_or_else(|| self.unreadable("a record is cut short")))
    }

    /// Whether a control batch says that its transaction was given up; none where it says neither.
    pub fn is_abort(&self) -> Option<bool> {
        let whole = self.whole().ok()?;
        let first = self.records(&whole).next()?.ok()?;
        let kind = first.key?.get(2..4)?;
        match short(kind) {
            0 => Some(true),
            1 => Some(false),
            _ => None,
        }
    }

    fn unreadable(&self, why: &str) -> Unreadable {
        Unreadable { why: why.to_owned(), base_offset: self.base_offset, bytes: 0 }
    }

    fn record<'a>(&self, bytes: &mut &'a [u8]) -> Option<Record<'a>> {
        let mut body = varint::take_bytes(bytes)??.get(1..)?;
        let timestamp = self.base_timestamp.saturating_add(varint::take(&mut body)?);
        let offset = self.base_offset.saturating_add(varint::take(&mut body)?);
        let key = varint::take_bytes(&mut body)?;
        let value = varint::take_bytes(&mut body)?;
        let mut headers = Vec::new();
        for _ in 0..varint::take(&mut body)? {
            headers.push((varint::take_bytes(&mut body)??, varint::take_bytes(&mut body)?));
        }
        Some(Record { offset, timestamp: self.appended_at.unwrap_or(timestamp), key, value, headers })
    }
}

fn first<const N: usize>(bytes: &[u8]) -> [u8; N] {
    bytes.first_chunk().copied().unwrap_or([0; N])
}

fn short(bytes: &[u8]) -> i16 {
    i16::from_be_bytes(first(bytes))
}

fn int(bytes: &[u8]) -> i32 {
    i32::from_be_bytes(first(bytes))
}

fn long(bytes: &[u8]) -> i64 {
    i64::from_be_bytes(first(bytes))
}

#[cfg(test)]
#[path = "records_tests.rs"]
mod tests;
