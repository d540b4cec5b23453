//! The seen set: what a commit adds to a bucket, the blocks that an idle bucket is packed into, and a bucket's head.
//!
//! A fingerprint takes 10 bytes and the check of a content 2. Counters are a bitmap with the checks of those that are set.

use minicbor::{Decode, Decoder, Encode, Encoder};
use waybill_core::inbox::fingerprint::ContentCheck;
use waybill_core::inbox::seen::{Member, OwnedAge};

use super::{FINGERPRINT_BYTES, Infallible, fingerprint};
use crate::codec::CodecError;
use crate::codec::envelope::{self, Kind};

/// Counters that one block holds: a bitmap of 512 bytes and checks of 8 KiB when all were seen.
pub const BLOCK_NUMBERS: u16 = 4_096;
/// Bytes of a fingerprint with its check.
pub const HASH_BYTES: usize = FINGERPRINT_BYTES + CHECK_BYTES;
/// Bytes of a counter with its check, in what a commit adds.
const NUMBER_BYTES: usize = 2 + CHECK_BYTES;
const CHECK_BYTES: usize = 2;
/// Bytes of a record besides its ids.
const FIXED_BYTES: usize = 24;

/// Ids of one bucket, with the latest age at which one of them was finished: a later look-up may take them for younger than they are,
/// never for older.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SeenIds {
    pub age: OwnedAge,
    pub ids: Vec<(Member, ContentCheck)>,
}

impl SeenIds {
    /// The check of an id; `ids` are in order, as those of a block are.
    pub fn find(&self, member: Member) -> Option<ContentCheck> {
        let at = self.ids.binary_search_by_key(&member, |(member, _)| *member).ok()?;
        self.ids.get(at).map(|(_, check)| *check)
    }
}

fn check(bytes: &[u8]) -> Result<ContentCheck, CodecError> {
    <[u8; CHECK_BYTES]>::try_from(bytes)
        .map(|bytes| ContentCheck(u16::from_be_bytes(bytes)))
        .map_err(|_| CodecError::Damaged("the check of a content is cut off".into()))
}

/// Fingerprints with their checks, side by side.
fn hashes(ids: &[(Member, ContentCheck)]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(ids.len() * HASH_BYTES);
    for (member, check) in ids {
        if let Member::Hash(fingerprint) = member {
            bytes.extend_from_slice(&fingerprint.0);
            bytes.extend_from_slice(&check.0.to_be_bytes());
        }
    }
    bytes
}

fn read_hashes(bytes: &[u8], ids: &mut Vec<(Member, ContentCheck)>) -> Result<(), CodecError> {
    for one in bytes.chunks(HASH_BYTES) {
        let (hash, rest) = one.split_at_checked(FINGERPRINT_BYTES).unwrap_or((one, &[]));
        ids.push((Member::Hash(fingerprint(hash)?), check(rest)?));
    }
    Ok(())
}

/// What one commit adds: `[age, hashes, numbers]`.
pub fn encode_addition(added: &SeenIds) -> Result<Vec<u8>, Infallible> {
    let mut numbers = Vec::new();
    for (member, check) in &added.ids {
        if let Member::Number(number) = member {
            numbers.extend_from_slice(&number.to_be_bytes());
            numbers.extend_from_slice(&check.0.to_be_bytes());
        }
    }
    let mut encoder = Encoder::new(envelope::begin(FIXED_BYTES + added.ids.len() * HASH_BYTES));
    encoder.array(3)?.u64(added.age.0)?.bytes(&hashes(&added.ids))?.bytes(&numbers)?;
    Ok(envelope::seal(Kind::SeenAppend, encoder.into_writer()))
}

pub fn decode_addition(bytes: &[u8]) -> Result<SeenIds, CodecError> {
    let mut decoder = Decoder::new(envelope::open(Kind::SeenAppend, bytes)?);
    decoder.array()?;
    let age = OwnedAge(decoder.u64()?);
    let mut ids = Vec::new();
    read_hashes(decoder.bytes()?, &mut ids)?;
    for one in decoder.bytes()?.chunks(NUMBER_BYTES) {
        let [high, low, rest @ ..] = one else {
            return Err(CodecError::Damaged("a counter is cut off".into()));
        };
        ids.push((Member::Number(u16::from_be_bytes([*high, *low])), check(rest)?));
    }
    Ok(SeenIds { age, ids })
}

/// Number of the block that a counter lies in.
pub fn number_block(number: u16) -> u16 {
    number / BLOCK_NUMBERS
}

/// A block: `[age, hashes, first number, bitmap, checks]`. Its ids are in order, and its counters all of one block.
pub fn encode_block(block: &SeenIds) -> Result<Vec<u8>, Infallible> {
    let numbers = || {
        block.ids.iter().filter_map(|(member, check)| match member {
            Member::Number(number) => Some((*number, *check)),
            Member::Hash(_) => None,
        })
    };
    let first = numbers().next().map_or(0, |(number, _)| number_block(number) * BLOCK_NUMBERS);
    let last = numbers().next_back().map_or(0, |(number, _)| number);
    let bytes_of_bitmap = if numbers().next().is_some() { usize::from(last.saturating_sub(first)) / 8 + 1 } else { 0 };
    let mut bitmap = vec![0_u8; bytes_of_bitmap];
    let mut checks = Vec::new();
    for (number, check) in numbers() {
        let at = number.saturating_sub(first);
        if let Some(byte) = bitmap.get_mut(usize::from(at) / 8) {
            *byte |= 1 << (at % 8);
            checks.extend_from_slice(&check.0.to_be_bytes());
        }
    }
    let hashes = hashes(&block.ids);
    let mut encoder = Encoder::new(envelope::begin(FIXED_BYTES + hashes.len() + bitmap.len() + checks.len()));
    encoder.array(5)?.u64(block.age.0)?.bytes(&hashes)?.u16(first)?.bytes(&bitmap)?.bytes(&checks)?;
    Ok(envelope::seal(Kind::SeenBlock, encoder.into_writer()))
}

pub fn decode_block(bytes: &[u8]) -> Result<SeenIds, CodecError> {
    let mut decoder = Decoder::new(envelope::open(Kind::SeenBlock, bytes)?);
    decoder.array()?;
    let age = OwnedAge(decoder.u64()?);
    let mut ids = Vec::new();
    read_hashes(decoder.bytes()?, &mut ids)?;
    let first = decoder.u16()?;
    let bitmap = decoder.bytes()?;
    if first % BLOCK_NUMBERS != 0 || bitmap.len() > usize::from(BLOCK_NUMBERS / 8) {
        return Err(CodecError::Damaged("a block holds counters of another one".into()));
    }
    let mut checks = decoder.bytes()?.chunks(CHECK_BYTES);
    for (byte, bits) in (0_u16..).zip(bitmap) {
        for bit in (0..8_u16).filter(|bit| bits >> bit & 1 == 1) {
            let number = first.checked_add(byte * 8 + bit);
            let number = number.ok_or_else(|| CodecError::Damaged("a counter is past the end of its bucket".into()))?;
            ids.push((Member::Number(number), check(checks.next().unwrap_or(&[]))?));
        }
    }
    Ok(SeenIds { age, ids })
}

/// Packed ids of a bucket: blocks of about 4 KiB, of which a fingerprint's is calculated; or one block of counters, whose number it has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
pub struct Table {
    #[n(0)]
    pub number: u32,
    #[n(1)]
    pub blocks: u32,
    #[n(2)]
    pub ids: u64,
}

/// Tables on their way to become one.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub struct Merge {
    #[n(0)]
    pub into: Table,
    /// Numbers of the tables that it is made of, the oldest first.
    #[n(1)]
    pub sources: Vec<u32>,
    /// Blocks of it that are written.
    #[n(2)]
    pub done: u32,
}

/// What a bucket consists of besides what was added since it was packed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct BucketHead {
    /// The latest age of what is packed.
    #[n(0)]
    pub age: u64,
    /// Number of the next table.
    #[n(1)]
    pub next: u32,
    /// The oldest first: of an id in several, the last one counts.
    #[n(2)]
    pub tables: Vec<Table>,
    #[n(3)]
    pub merge: Option<Merge>,
    /// Tables that became part of another, and whose blocks aren't all removed yet.
    #[n(4)]
    pub gone: Vec<Table>,
}

pub fn encode_bucket(head: &BucketHead) -> Result<Vec<u8>, Infallible> {
    let mut bytes = envelope::begin(FIXED_BYTES + (head.tables.len() + head.gone.len()) * FIXED_BYTES);
    minicbor::encode(head, &mut bytes)?;
    Ok(envelope::seal(Kind::SeenHead, bytes))
}

pub fn decode_bucket(bytes: &[u8]) -> Result<BucketHead, CodecError> {
    Ok(minicbor::decode(envelope::open(Kind::SeenHead, bytes)?)?)
}
