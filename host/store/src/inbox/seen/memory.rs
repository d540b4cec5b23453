//! What this process remembers of the seen sets of the shards that it writes: the ids that were added to a bucket and aren't packed yet,
//! so that a look-up among what flows reads nothing.
//!
//! A shard's memory is a chain of commits, each built on the one before. As long as all of them are known to be in, what is remembered of
//! a bucket is all that was added to it. Whatever breaks the chain (another writer, a commit without an answer, one whose caller went
//! away) forgets the shard; the next commit begins it anew. So nothing is answered that a commit which its writer knows of isn't in.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use waybill_core::ids::{ConsumerName, ShardId};
use waybill_core::inbox::seen::{Member, OwnedAge};
use waybill_core::port::inbox_store::SeenHit;

use super::added::Added;
use super::bucket::{BucketKey, Form, slot};
use crate::codec::inbox::seen::{BucketHead, SeenIds};

/// Bytes of the ids that are remembered, of all shards. A minute of 10,000 a second takes 20 MB.
const MEMORY_BYTES_MAX: usize = 64 * 1024 * 1024;
/// What is left of them when some are forgotten, in eighths.
const KEPT_EIGHTHS: usize = 7;
/// Buckets of one slot of which it is remembered that they are noted; past it they are noted again.
const NOTED_MAX: usize = 100_000;

/// A bucket in memory.
#[derive(Debug)]
struct HotBucket {
    added: Arc<Added>,
    head: Arc<BucketHead>,
    /// When it was asked for last, in asks.
    used: u64,
}

/// Reads of a bucket that are under way.
#[derive(Debug, Default)]
struct Load {
    readers: usize,
    /// What was added since they began.
    late: Vec<SeenIds>,
}

#[derive(Debug, Default)]
struct ShardMemory {
    /// Beat of the last commit of the chain; none = there is no chain.
    beat: Option<u64>,
    /// Grows when the shard is forgotten.
    generation: u64,
    buckets: HashMap<BucketKey, HotBucket>,
    loads: HashMap<BucketKey, Load>,
    /// Runs of consumers, as they were read.
    runs: HashMap<ConsumerName, BTreeSet<u64>>,
    /// Runs that the chain has written.
    written_runs: HashMap<ConsumerName, BTreeSet<u64>>,
    /// Buckets that are noted as touched, in one slot.
    noted: (u64, HashSet<BucketKey>),
}

impl ShardMemory {
    fn forget(&mut self) {
        let generation = self.generation + 1;
        *self = Self { generation, ..Self::default() };
    }
}

#[derive(Debug, Default)]
struct Memory {
    shards: HashMap<ShardId, ShardMemory>,
    bytes: usize,
    asks: u64,
}

impl Memory {
    fn forget(&mut self, shard: ShardId) {
        let Some(memory) = self.shards.get_mut(&shard) else { return };
        let bytes: usize = memory.buckets.values().map(|bucket| bucket.added.bytes()).sum();
        self.bytes = self.bytes.saturating_sub(bytes);
        memory.forget();
    }

    fn drop_bucket(&mut self, shard: ShardId, bucket: &BucketKey) {
        let gone = self.shards.get_mut(&shard).and_then(|memory| memory.buckets.remove(bucket));
        self.bytes = self.bytes.saturating_sub(gone.map_or(0, |gone| gone.added.bytes()));
    }

    /// Forgets the buckets that weren't asked for the longest when they take too much.
    fn shrink(&mut self) {
        if self.bytes <= MEMORY_BYTES_MAX {
            return;
        }
        let mut oldest: Vec<(u64, ShardId, BucketKey)> = Vec::new();
        for (shard, memory) in &self.shards {
            oldest.extend(memory.buckets.iter().map(|(key, bucket)| (bucket.used, *shard, key.clone())));
        }
        oldest.sort();
        for (_, shard, bucket) in oldest {
            if self.bytes <= MEMORY_BYTES_MAX / 8 * KEPT_EIGHTHS {
                break;
            }
            self.drop_bucket(shard, &bucket);
        }
    }
}

/// Memory of the seen sets of all shards.
#[derive(Debug, Default)]
pub struct SeenMemory(Mutex<Memory>);

/// What is remembered of an id's bucket.
pub enum Remembered<'m> {
    /// All that was added to it, and its head: what isn't found here lies in its tables, if anywhere.
    Bucket(Option<SeenHit>, Arc<BucketHead>),
    /// Nothing: what is read now may be handed in.
    Nothing(Ticket<'m>),
}

/// A read of a bucket that is under way.
pub struct Ticket<'m> {
    memory: &'m SeenMemory,
    shard: ShardId,
    bucket: BucketKey,
    /// None = there is no chain, so nothing is remembered.
    generation: Option<u64>,
}

/// A commit that is under way. Dropped without an end, it may be in or not.
pub struct Pending<'m> {
    memory: &'m SeenMemory,
    shard: ShardId,
    ended: bool,
}

impl SeenMemory {
    fn lock(&self) -> MutexGuard<'_, Memory> {
        // A panic leaves it as good as it was, or forgotten.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Says that a commit is about to be made.
    pub fn begin(&self, shard: ShardId) -> Pending<'_> {
        Pending { memory: self, shard, ended: false }
    }

    /// Says which beat the stored record of a shard has: with another one than the chain's it is broken.
    pub fn record_has(&self, shard: ShardId, beat: u64) {
        let mut memory = self.lock();
        if memory.shards.get(&shard).is_some_and(|of| of.beat != Some(beat)) {
            memory.forget(shard);
        }
    }

    pub fn forget(&self, shard: ShardId) {
        self.lock().forget(shard);
    }

    /// Forgets all shards: something was put back that no commit knows of.
    pub fn forget_all(&self) {
        let mut memory = self.lock();
        let shards: Vec<ShardId> = memory.shards.keys().copied().collect();
        shards.into_iter().for_each(|shard| memory.forget(shard));
    }

    /// Which of these buckets aren't noted as touched in the slot of an age.
    pub fn not_noted<'b>(
        &self,
        shard: ShardId,
        age: OwnedAge,
        buckets: impl Iterator<Item = &'b BucketKey>,
    ) -> Vec<&'b BucketKey> {
        let memory = self.lock();
        let noted = memory.shards.get(&shard).map(|of| &of.noted).filter(|noted| noted.0 == slot(age));
        buckets.filter(|bucket| noted.is_none_or(|(_, noted)| !noted.contains(*bucket))).collect()
    }

    /// Looks for an id.
    pub fn find(&self, shard: ShardId, bucket: &BucketKey, member: Member) -> Remembered<'_> {
        let mut memory = self.lock();
        memory.asks += 1;
        let asks = memory.asks;
        let mut generation = None;
        if let Some(of) = memory.shards.get_mut(&shard) {
            if let Some(hot) = of.buckets.get_mut(bucket) {
                hot.used = asks;
                return Remembered::Bucket(hot.added.find(member), Arc::clone(&hot.head));
            }
            if of.beat.is_some() {
                generation = Some(of.generation);
                of.loads.entry(bucket.clone()).or_default().readers += 1;
            }
        }
        Remembered::Nothing(Ticket { memory: self, shard, bucket: bucket.clone(), generation })
    }

    /// Runs of a consumer, if they were read before.
    pub fn runs(&self, shard: ShardId, consumer: &ConsumerName) -> Option<Vec<u64>> {
        let memory = self.lock();
        let of = memory.shards.get(&shard)?;
        let read = of.runs.get(consumer)?;
        let written = of.written_runs.get(consumer).into_iter().flatten();
        let all: BTreeSet<u64> = read.iter().chain(written).copied().collect();
        Some(all.into_iter().collect())
    }

    /// Generation of a shard's chain, if there is one: for [`Self::runs_read`].
    pub fn generation(&self, shard: ShardId) -> Option<u64> {
        let memory = self.lock();
        memory.shards.get(&shard).filter(|of| of.beat.is_some()).map(|of| of.generation)
    }

    /// Remembers the runs of a consumer, read since the chain had this generation.
    pub fn runs_read(&self, shard: ShardId, consumer: &ConsumerName, generation: u64, runs: &[u64]) {
        let mut memory = self.lock();
        if let Some(of) = memory.shards.get_mut(&shard).filter(|of| of.generation == generation) {
            of.runs.insert(consumer.clone(), runs.iter().copied().collect());
        }
    }

    /// Forgets a bucket whose records were packed or removed.
    pub fn changed(&self, shard: ShardId, bucket: &BucketKey) {
        let mut memory = self.lock();
        memory.drop_bucket(shard, bucket);
    }

    /// The same of one of which nothing is left.
    pub fn removed(&self, shard: ShardId, bucket: &BucketKey) {
        self.changed(shard, bucket);
        if bucket.form != Form::Run {
            return;
        }
        if let Some(of) = self.lock().shards.get_mut(&shard) {
            let (number, consumer) = (bucket.number(), &bucket.consumer);
            if let Some(runs) = of.runs.get_mut(consumer) {
                runs.remove(&number);
            }
            // The last one may have been written again since it was found to be over: an empty one costs less than one that is missed.
            if let Some(runs) = of.written_runs.get_mut(consumer).filter(|runs| runs.last() != Some(&number)) {
                runs.remove(&number);
            }
        }
    }
}

impl Ticket<'_> {
    /// Remembers what was read: all that was added to the bucket, in the order of the commits, and its head.
    pub fn loaded(self, mut added: Arc<Added>, head: Arc<BucketHead>) {
        let Some(generation) = self.generation else { return };
        let mut memory = self.memory.lock();
        let used = memory.asks;
        let Some(of) = memory.shards.get_mut(&self.shard).filter(|of| of.generation == generation) else { return };
        if of.buckets.contains_key(&self.bucket) {
            return;
        }
        for late in of.loads.get(&self.bucket).into_iter().flat_map(|load| &load.late) {
            Arc::make_mut(&mut added).add(late);
        }
        let bytes = added.bytes();
        of.buckets.insert(self.bucket.clone(), HotBucket { added, head, used });
        memory.bytes += bytes;
        memory.shrink();
    }
}

impl Drop for Ticket<'_> {
    fn drop(&mut self) {
        let Some(generation) = self.generation else { return };
        let mut memory = self.memory.lock();
        let Some(of) = memory.shards.get_mut(&self.shard).filter(|of| of.generation == generation) else { return };
        if let Some(load) = of.loads.get_mut(&self.bucket) {
            load.readers -= 1;
            if load.readers == 0 {
                of.loads.remove(&self.bucket);
            }
        }
    }
}

impl Pending<'_> {
    /// The commit is in: it was built on the beat `expected`, has this beat and age, and added these ids.
    pub fn committed(mut self, expected: u64, beat: u64, age: OwnedAge, ids: &[(BucketKey, SeenIds)]) {
        self.ended = true;
        let mut memory = self.memory.lock();
        memory.shards.entry(self.shard).or_default();
        if memory.shards.get(&self.shard).is_some_and(|of| of.beat != Some(expected)) {
            memory.forget(self.shard);
        }
        let mut bytes = 0;
        let Some(of) = memory.shards.get_mut(&self.shard) else { return };
        of.beat = Some(beat);
        if of.noted.0 != slot(age) || of.noted.1.len() > NOTED_MAX {
            of.noted = (slot(age), HashSet::new());
        }
        for (key, ids) in ids {
            if !of.noted.1.contains(key) {
                of.noted.1.insert(key.clone());
            }
            if key.form == Form::Run {
                of.written_runs.entry(key.consumer.clone()).or_default().insert(key.number());
            }
            if let Some(load) = of.loads.get_mut(key) {
                load.late.push(ids.clone());
            }
            if let Some(hot) = of.buckets.get_mut(key) {
                let before = hot.added.bytes();
                Arc::make_mut(&mut hot.added).add(ids);
                bytes += hot.added.bytes().saturating_sub(before);
            }
        }
        memory.bytes += bytes;
        memory.shrink();
    }

    /// The commit is proved not to be in.
    pub fn refused(mut self) {
        self.ended = true;
    }
}

impl Drop for Pending<'_> {
    fn drop(&mut self) {
        if !self.ended {
            self.memory.forget(self.shard);
        }
    }
}
