//! The seen set: which ids of which consumers were finished within the window.
//!
//! | file | holds |
//! |---|---|
//! | `bucket` | where the records of a bucket lie |
//! | `records` | reading and writing them |
//! | `find` | asking for ids |
//! | `any_minute` | asking for one whose stamp isn't known |
//! | `memory`, `added` | what isn't packed, in memory |
//! | `table` | fingerprints cut into blocks |
//! | `filter` | filters over packed runs |
//! | `reads` | how often the store was read for look-ups |
//! | `pack`, `merge` | packing what was added; one table of several |
//! | `tidy` | which buckets are idle, and which are out of the window |
//!
//! A commit appends one small record to each bucket that it touches. A bucket that lies idle is packed: a look-up among packed ids reads
//! one block, whose place is calculated. What it doesn't do: decide what a hit means, or how long the window is.

pub mod added;
pub mod any_minute;
pub mod bucket;
mod filter;
pub mod find;
pub mod memory;
mod merge;
mod pack;
mod reads;
pub mod records;
mod table;
pub mod tidy;

use std::collections::HashMap;

use waybill_core::inbox::seen::{OwnedAge, SeenMark};

pub use filter::Filters;
pub use memory::SeenMemory;
pub use reads::{Asker, SeenReads};

use crate::codec::inbox::seen::SeenIds;
use bucket::BucketKey;

/// Tries of a transaction when another one came first.
const TRIES_MAX: u32 = 8;

/// What a commit adds to each bucket, in the order in which it names them.
pub fn by_bucket(marks: &[SeenMark], age: OwnedAge) -> Vec<(BucketKey, SeenIds)> {
    let mut places: HashMap<BucketKey, usize> = HashMap::new();
    let mut buckets: Vec<(BucketKey, SeenIds)> = Vec::new();
    for mark in marks {
        let key = BucketKey::of(&mark.consumer, &mark.place.bucket, age);
        let at = *places.entry(key.clone()).or_insert(buckets.len());
        if at == buckets.len() {
            buckets.push((key, SeenIds { age, ids: Vec::new() }));
        }
        if let Some((_, ids)) = buckets.get_mut(at) {
            ids.ids.push((mark.place.member, mark.check));
        }
    }
    buckets
}
