//! Where the records of a bucket lie: `inbox_seen:[shard, consumer, form, text, number, part, ...]`.
//!
//! | part | then | holds |
//! |---|---|---|
//! | 0 | | the head: which tables there are |
//! | 1 | beat | what one commit added |
//! | 2 | table, block | packed ids |
//!
//! Of ids with a time the number is their minute, of counters their block behind the text, of the others the day of the shard's age at
//! which they were finished.

use std::sync::Arc;

use waybill_core::ids::{ConsumerName, ShardId};
use waybill_core::inbox::seen::{Bucket, OwnedAge};
use waybill_surreal::{RecordIdKey, Value, int, key, text};

use crate::tables::{number, part, part_text, shard_value};

/// Milliseconds of a run's ages.
const RUN_MS: u64 = 24 * 3_600_000;
/// Milliseconds of ages whose touched buckets are noted together.
pub const SLOT_MS: u64 = 60_000;

/// The form of the ids in a bucket. Its number stands in keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Form {
    Minute = 0,
    Counter = 1,
    Run = 2,
}

impl Form {
    const ALL: [Self; 3] = [Self::Minute, Self::Counter, Self::Run];

    fn number(self) -> i64 {
        self as i64
    }
}

/// A bucket of a shard's seen set.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BucketKey {
    pub consumer: ConsumerName,
    pub form: Form,
    /// What stands before a counter; else nothing.
    text: Arc<str>,
    number: u64,
}

/// Records of a bucket, by the part of the key that follows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    Head,
    Added(u64),
    Block { table: u32, block: u32 },
}

impl Part {
    /// The block of counters with this number: a table of its own.
    pub fn of_numbers(block: u16) -> Self {
        Self::Block { table: u32::from(block), block: 0 }
    }
}

impl BucketKey {
    /// Where an id is written, or looked for, at an age.
    pub fn of(consumer: &ConsumerName, bucket: &Bucket, age: OwnedAge) -> Self {
        let (form, text, number) = match bucket {
            Bucket::Minute(minute) => (Form::Minute, Arc::from(""), *minute),
            Bucket::Counter { text, block } => (Form::Counter, Arc::clone(text), *block),
            Bucket::Runs => (Form::Run, Arc::from(""), age.0 / RUN_MS),
        };
        Self { consumer: consumer.clone(), form, text, number }
    }

    /// A bucket of a form whose buckets have nothing but a number: a minute or a run.
    pub fn numbered(consumer: &ConsumerName, form: Form, number: u64) -> Self {
        Self { consumer: consumer.clone(), form, text: Arc::from(""), number }
    }

    /// A run of a consumer.
    pub fn run(consumer: &ConsumerName, number: u64) -> Self {
        Self::numbered(consumer, Form::Run, number)
    }

    pub fn number(&self) -> u64 {
        self.number
    }

    /// Of a run, the first age that isn't its own any more.
    pub fn run_end(&self) -> OwnedAge {
        OwnedAge(self.number.saturating_add(1).saturating_mul(RUN_MS))
    }

    /// The parts that name the bucket in keys.
    fn parts(&self) -> [Value; 4] {
        [text(self.consumer.as_str()), int(self.form.number()), text(&*self.text), number(self.number)]
    }

    fn with(&self, shard: ShardId, rest: impl IntoIterator<Item = Value>) -> RecordIdKey {
        key(std::iter::once(shard_value(shard)).chain(self.parts()).chain(rest))
    }

    pub fn record(&self, shard: ShardId, part: Part) -> RecordIdKey {
        match part {
            Part::Head => self.with(shard, [int(0)]),
            Part::Added(beat) => self.with(shard, [int(1), number(beat)]),
            Part::Block { table, block } => self.with(shard, [int(2), int(i64::from(table)), int(i64::from(block))]),
        }
    }

    /// Before all records of the bucket.
    pub fn start(&self, shard: ShardId) -> RecordIdKey {
        self.with(shard, [])
    }

    /// Before all that was added since it was packed.
    pub fn added_start(&self, shard: ShardId) -> RecordIdKey {
        self.with(shard, [int(1)])
    }

    /// Before all its blocks.
    pub fn blocks_start(&self, shard: ShardId) -> RecordIdKey {
        self.with(shard, [int(2)])
    }

    /// Behind all its records.
    pub fn end(&self, shard: ShardId) -> RecordIdKey {
        self.with(shard, [int(3)])
    }

    /// Where it is noted that the bucket has to be looked at: when it is idle, or `over`.
    pub fn due(&self, shard: ShardId, over: bool, slot: u64) -> RecordIdKey {
        let front = [shard_value(shard), int(i64::from(over)), number(slot)];
        key(front.into_iter().chain(self.parts()))
    }

    /// From the parts of a key that begin at `at`.
    fn in_key(of: &RecordIdKey, at: usize) -> Option<Self> {
        let form = part(of, at + 1)?;
        Some(Self {
            consumer: ConsumerName::new(part_text(of, at)?).ok()?,
            form: Form::ALL.into_iter().find(|one| u64::try_from(one.number()) == Ok(form))?,
            text: Arc::from(part_text(of, at + 2)?),
            number: part(of, at + 3)?,
        })
    }

    /// The bucket and the part that the key of a record says.
    pub fn of_record(of: &RecordIdKey) -> Option<(Self, Part)> {
        let bucket = Self::in_key(of, 1)?;
        let small = |at: usize| part(of, at).and_then(|number| u32::try_from(number).ok());
        let part = match (part(of, 5)?, crate::tables::parts(of).len()) {
            (0, 6) => Part::Head,
            (1, 7) => Part::Added(part(of, 6)?),
            (2, 8) => Part::Block { table: small(6)?, block: small(7)? },
            _ => return None,
        };
        Some((bucket, part))
    }

    /// The bucket and the slot that a note says.
    pub fn of_due(of: &RecordIdKey) -> Option<(Self, u64)> {
        let is_whole = crate::tables::parts(of).len() == 7;
        let slot = part(of, 2).filter(|_| is_whole)?;
        Some((Self::in_key(of, 3)?, slot))
    }
}

/// `[shard, over, slot]`: before all notes of that slot and the later ones.
pub fn due_start(shard: ShardId, over: bool, slot: u64) -> RecordIdKey {
    key([shard_value(shard), int(i64::from(over)), number(slot)])
}

/// The slot of an age.
pub fn slot(age: OwnedAge) -> u64 {
    age.0 / SLOT_MS
}

/// Behind all buckets of a form of a consumer.
pub fn form_end(shard: ShardId, consumer: &ConsumerName, form: Form) -> RecordIdKey {
    key([shard_value(shard), text(consumer.as_str()), int(form.number() + 1)])
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    const SHARD: ShardId = ShardId(3);

    fn buckets() -> Vec<BucketKey> {
        let consumer = ConsumerName::new("ship").unwrap();
        let counter = Bucket::Counter { text: Arc::from("outbox-"), block: 7 };
        [Bucket::Minute(28_333_333), counter, Bucket::Runs]
            .map(|bucket| BucketKey::of(&consumer, &bucket, OwnedAge(3 * RUN_MS + 5)))
            .into()
    }

    #[test]
    fn a_key_says_which_record_it_is_of() {
        for bucket in buckets() {
            for part in [Part::Head, Part::Added(900), Part::Block { table: 4, block: 17 }] {
                assert_eq!(BucketKey::of_record(&bucket.record(SHARD, part)), Some((bucket.clone(), part)));
            }
            assert_eq!(BucketKey::of_due(&bucket.due(SHARD, true, 90)), Some((bucket.clone(), 90)));
            assert_eq!(BucketKey::of_record(&bucket.start(SHARD)), None);
            assert_eq!(BucketKey::of_due(&due_start(SHARD, false, 3)), None);
        }
    }

    #[test]
    fn the_number_of_a_run_is_the_day_of_the_age() {
        let run = buckets().remove(2);
        assert_eq!((run.number(), run.run_end()), (3, OwnedAge(4 * RUN_MS)));
    }

    #[test]
    fn a_run_is_whole_in_slots() {
        assert_eq!(RUN_MS % SLOT_MS, 0);
    }
}
