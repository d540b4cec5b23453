//! Filters over the packed runs of ids that tell no time: 10 bits an id say of 99 of 100 strangers that a table doesn't have them,
//! without a read. There are as many as `dedup_memory` holds; a table beyond it costs one read a look-up.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use waybill_core::ids::ShardId;
use waybill_core::inbox::fingerprint::Fingerprint;
use waybill_core::inbox::seen::Member;

use super::bucket::BucketKey;
use crate::codec::inbox::seen::SeenIds;

/// Bits of a filter for each id.
const BITS_AN_ID: usize = 10;
/// Bits that an id sets: the best number for so many bits.
const HASHES: u64 = 7;
/// Blocks that share a filter: it is made when the first of them is asked for, of all of them.
pub const FILTER_BLOCKS: u32 = 64;
/// Bytes of a filter besides its bits.
const FILTER_BYTES: usize = 192;

/// Says of an id that it isn't there, or that it may be.
#[derive(Debug)]
pub struct Filter(Vec<u64>);

impl Filter {
    /// Over all ids of some blocks.
    pub fn over(blocks: &[SeenIds]) -> Self {
        let count: usize = blocks.iter().map(|block| block.ids.len()).sum();
        let mut words = vec![0_u64; (count * BITS_AN_ID).div_ceil(64).max(1)];
        let bits = words.len() as u64 * 64;
        for (member, _) in blocks.iter().flat_map(|block| &block.ids) {
            let Member::Hash(fingerprint) = member else { continue };
            for bit in places(fingerprint, bits) {
                if let Some(word) = words.get_mut((bit / 64) as usize) {
                    *word |= 1 << (bit % 64);
                }
            }
        }
        Self(words)
    }

    pub fn may_have(&self, fingerprint: &Fingerprint) -> bool {
        let bits = self.0.len() as u64 * 64;
        places(fingerprint, bits)
            .all(|bit| self.0.get((bit / 64) as usize).is_some_and(|word| word >> (bit % 64) & 1 == 1))
    }

    fn bytes(&self) -> usize {
        FILTER_BYTES + self.0.len() * 8
    }
}

/// The bits of an id. A fingerprint is a keyed hash, so two parts of it are as good as two hashes. Its first bytes choose the block: all
/// ids of a filter have nearly the same there, so the last eight count.
fn places(fingerprint: &Fingerprint, bits: u64) -> impl Iterator<Item = u64> {
    let [_, _, rest @ ..] = fingerprint.0;
    let hash = u64::from_be_bytes(rest);
    let (start, step) = (hash & 0xFFFF_FFFF, hash >> 32 | 1);
    (0..HASHES).map(move |at| start.wrapping_add(at.wrapping_mul(step)) % bits.max(1))
}

/// Which blocks of which table.
type Place = (u32, u32);

#[derive(Debug, Default)]
struct Held {
    of: HashMap<(ShardId, BucketKey), HashMap<Place, Arc<Filter>>>,
    bytes: usize,
    /// One was made for which there was no room: none is made until some are forgotten.
    full: bool,
}

#[derive(Debug)]
pub struct Filters {
    held: Mutex<Held>,
    bytes_max: usize,
}

impl Filters {
    /// At most so many bytes of them.
    pub fn new(bytes_max: usize) -> Self {
        Self { held: Mutex::default(), bytes_max }
    }

    fn lock(&self) -> MutexGuard<'_, Held> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The filter over the blocks around one, if there is one.
    pub fn get(&self, shard: ShardId, bucket: &BucketKey, table: u32, block: u32) -> Option<Arc<Filter>> {
        let held = self.lock();
        held.of.get(&(shard, bucket.clone()))?.get(&(table, block / FILTER_BLOCKS)).map(Arc::clone)
    }

    /// Whether another one may be made. What is left is hardly ever nothing, so the first that doesn't fit says that it is over: else each
    /// look-up would read all blocks of a filter that is dropped again.
    pub fn has_room(&self) -> bool {
        let held = self.lock();
        !held.full && held.bytes < self.bytes_max
    }

    /// Keeps a filter, if there is room.
    pub fn keep(&self, shard: ShardId, bucket: &BucketKey, table: u32, block: u32, filter: Filter) {
        let mut held = self.lock();
        let bytes = filter.bytes();
        if held.bytes + bytes > self.bytes_max {
            held.full = true;
            return;
        }
        let place = (table, block / FILTER_BLOCKS);
        let of = held.of.entry((shard, bucket.clone())).or_default();
        if of.insert(place, Arc::new(filter)).is_none() {
            held.bytes += bytes;
        }
    }

    /// Forgets those of a bucket whose tables changed.
    pub fn forget(&self, shard: ShardId, bucket: &BucketKey) {
        let mut held = self.lock();
        let gone = held.of.remove(&(shard, bucket.clone())).unwrap_or_default();
        let bytes: usize = gone.values().map(|filter| filter.bytes()).sum();
        held.bytes = held.bytes.saturating_sub(bytes);
        held.full &= bytes == 0;
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use sha2::{Digest, Sha256};
    use waybill_core::ids::ConsumerName;
    use waybill_core::inbox::fingerprint::ContentCheck;

    use super::*;

    fn fingerprint(number: u32) -> Fingerprint {
        let hash: [u8; 32] = Sha256::digest(number.to_be_bytes()).into();
        // Nearly the same at its front, as in one block.
        let mut bytes: [u8; 10] = hash.first_chunk().copied().unwrap();
        bytes[0] = 7;
        Fingerprint(bytes)
    }

    #[test]
    fn a_filter_knows_its_own_and_hardly_a_stranger() {
        let ids = (0..20_000).map(|number| (Member::Hash(fingerprint(number)), ContentCheck(0)));
        let filter = Filter::over(&[SeenIds { ids: ids.collect(), ..SeenIds::default() }]);
        assert!((0..20_000).all(|number| filter.may_have(&fingerprint(number))));
        let strangers = (20_000..40_000).filter(|number| filter.may_have(&fingerprint(*number))).count();
        assert!(strangers < 400, "{strangers} of 20000");
        assert!(filter.bytes() < 20_000 * BITS_AN_ID / 8 + 1_000);
    }

    #[test]
    fn there_are_as_many_as_fit() {
        let bucket = BucketKey::run(&ConsumerName::new("ship").unwrap(), 3);
        let (shard, other) = (ShardId(0), BucketKey::run(&ConsumerName::new("ship").unwrap(), 4));
        let filters = Filters::new(2 * Filter::over(&[]).bytes());
        for table in 0..3 {
            filters.keep(shard, &bucket, table, FILTER_BLOCKS + 3, Filter::over(&[]));
        }
        assert!(filters.get(shard, &bucket, 1, FILTER_BLOCKS).is_some());
        assert!(filters.get(shard, &bucket, 2, FILTER_BLOCKS).is_none() && !filters.has_room());
        assert!(filters.get(shard, &bucket, 1, 0).is_none() && filters.get(shard, &other, 1, FILTER_BLOCKS).is_none());
        filters.forget(shard, &bucket);
        assert!(filters.get(shard, &bucket, 1, FILTER_BLOCKS).is_none() && filters.has_room());
    }

    /// Less than the next one takes is left, as it nearly always is.
    #[test]
    fn what_is_left_and_too_small_is_no_room() {
        let bucket = BucketKey::run(&ConsumerName::new("ship").unwrap(), 3);
        let (shard, other) = (ShardId(0), BucketKey::run(&ConsumerName::new("ship").unwrap(), 4));
        let filters = Filters::new(2 * Filter::over(&[]).bytes() + 1);
        for table in 0..2 {
            filters.keep(shard, &bucket, table, 0, Filter::over(&[]));
        }
        assert!(filters.has_room(), "nobody knows yet how large the next one is");
        filters.keep(shard, &bucket, 2, 0, Filter::over(&[]));
        assert!(!filters.has_room());
        filters.forget(shard, &other);
        assert!(!filters.has_room(), "that one had none");
        filters.forget(shard, &bucket);
        assert!(filters.has_room());
    }
}
