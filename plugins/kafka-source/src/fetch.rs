//! Fetching: what the leaders have of our partitions, without what transactions took back.

use std::collections::{BTreeMap, HashSet};

use bytes::Bytes;
use waybill_kafka_wire::messages::fetch_request::{FetchPartition, FetchTopic};
use waybill_kafka_wire::messages::fetch_response::{FetchResponse, PartitionData};
use waybill_kafka_wire::messages::{FetchRequest, TopicName};
use waybill_kafka_wire::records::{Batch, Unreadable, next_batch};
use waybill_kafka_wire::refusal::{NONE, Refusal};
use waybill_kafka_wire::{Uuid, text};
use waybill_plugin::source::Delivery;

use crate::delivery::{Mapping, delivery, unreadable};
use crate::offsets::Place;
use crate::share::Share;

/// What other transactions haven't ended isn't handed over.
const READ_COMMITTED: i8 = 1;

/// What one partition's answer came to.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Fetched {
    /// Whatever was new is held.
    Well,
    /// The offset isn't there: too old, or of a topic that was made anew.
    OutOfRange,
    /// The partition isn't led there any more, or the topic isn't the one that it was.
    Elsewhere,
    /// Another refusal.
    Refused(Refusal),
}

/// Asks for what is new in these shares, which one server leads.
pub(crate) fn request(shares: &[&Share], wait: u32, bytes: u32) -> FetchRequest {
    let mut topics: BTreeMap<(&str, Uuid), Vec<FetchPartition>> = BTreeMap::new();
    let bytes = i32::try_from(bytes).unwrap_or(i32::MAX);
    for share in shares {
        let partition = FetchPartition::default()
            .with_partition(share.place.1)
            .with_fetch_offset(share.position)
            .with_partition_max_bytes(bytes);
        topics.entry((&share.place.0, share.topic)).or_default().push(partition);
    }
    let topics = topics.into_iter().map(|((name, id), partitions)| {
        FetchTopic::default().with_topic(TopicName(text(name))).with_topic_id(id).with_partitions(partitions)
    });
    FetchRequest::default()
        .with_max_wait_ms(i32::try_from(wait).unwrap_or(i32::MAX))
        .with_min_bytes(1)
        .with_max_bytes(bytes)
        .with_isolation_level(READ_COMMITTED)
        .with_topics(topics.collect())
}

/// What may still be held, over all partitions of a fetch.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Room {
    pub(crate) count: usize,
    /// Bytes of their payloads. The last one may go beyond.
    pub(crate) bytes: usize,
}

impl Room {
    fn is_used_up(self) -> bool {
        self.count == 0 || self.bytes == 0
    }

    fn take(&mut self, delivery: &Delivery) {
        self.count = self.count.saturating_sub(1);
        self.bytes = self.bytes.saturating_sub(delivery.payload.len());
    }
}

/// Takes an answer, share by share, as far as there is room: the rest is fetched again.
pub(crate) fn take(
    answer: &mut FetchResponse,
    shares: &mut BTreeMap<Place, Share>,
    room: &mut Room,
    mapping: Mapping<'_>,
) -> Vec<(Place, Fetched)> {
    let mut all = Vec::new();
    for topic in &mut answer.responses {
        for data in &mut topic.partitions {
            // Newer servers name the topic by its id alone.
            let is_of = |share: &&mut Share| {
                let is_topic = match topic.topic_id.is_nil() {
                    true => share.place.0 == topic.topic.0.as_str(),
                    false => share.topic == topic.topic_id,
                };
                is_topic && share.place.1 == data.partition_index
            };
            let Some(share) = shares.values_mut().find(is_of) else { continue };
            let fetched = of_partition(share, data, room, mapping);
            all.push((share.place.clone(), fetched));
        }
    }
    all
}

fn of_partition(share: &mut Share, data: &mut PartitionData, room: &mut Room, mapping: Mapping<'_>) -> Fetched {
    match data.error_code {
        NONE => {}
        1 => return Fetched::OutOfRange,
        3 | 5 | 6 | 9 | 56 | 74 | 75 | 78 | 100 | 103 => return Fetched::Elsewhere,
        number => {
            let of = format!("a fetch from topic `{}`", share.place.0);
            return Fetched::Refused(Refusal::of(number, &of, None));
        }
    }
    share.end = Some(data.last_stable_offset.max(share.position));
    let gone = data.aborted_transactions.iter().flatten();
    let mut aborted: Vec<(i64, i64)> = gone.map(|gone| (gone.first_offset, gone.producer_id.0)).collect();
    // The earliest is last, to be taken off.
    aborted.sort_unstable_by(|one, other| other.cmp(one));
    hold(share, data.records.take().unwrap_or_default(), aborted, room, mapping);
    Fetched::Well
}

fn hold(share: &mut Share, mut bytes: Bytes, mut aborted: Vec<(i64, i64)>, room: &mut Room, mapping: Mapping<'_>) {
    let mut given_up: HashSet<i64> = HashSet::new();
    // Nothing is made whole that there is no room for.
    while !room.is_used_up() {
        let batch = match next_batch(&mut bytes) {
            Ok(Some(batch)) => batch,
            Ok(None) => return,
            Err(broken) => match pass_broken(share, &mut bytes, &broken, room) {
                true => continue,
                false => return,
            },
        };
        while let Some((_, producer)) = aborted.pop_if(|(first, _)| *first <= batch.last_offset) {
            given_up.insert(producer);
        }
        if batch.is_control {
            if batch.is_abort() == Some(true) {
                given_up.remove(&batch.producer_id);
            }
        } else if !(batch.is_transactional && given_up.contains(&batch.producer_id)) {
            match hold_batch(share, &batch, room, mapping) {
                Ok(true) => {}
                Ok(false) => return,
                Err(broken) => hold_unreadable(share, share.position.max(batch.base_offset), &broken, room),
            }
        }
        share.position = share.position.max(batch.last_offset.saturating_add(1));
    }
}

/// Holds a batch's records; false if there was no room for all of them.
fn hold_batch(share: &mut Share, batch: &Batch, room: &mut Room, mapping: Mapping<'_>) -> Result<bool, Unreadable> {
    let whole = batch.whole()?;
    for record in batch.records(&whole) {
        let record = record?;
        if !share.is_new(record.offset) {
            continue;
        }
        if room.is_used_up() {
            return Ok(false);
        }
        let delivery = delivery(share, &record, mapping);
        room.take(&delivery);
        share.hold(record.offset, delivery);
        share.position = record.offset.saturating_add(1);
    }
    Ok(true)
}

/// Passes over a batch whose head can't be believed: it may have been changed on its way, so it is fetched once more before it is
/// given up. True if one can be read behind it.
fn pass_broken(share: &mut Share, bytes: &mut Bytes, broken: &Unreadable, room: &mut Room) -> bool {
    let offset = share.position;
    if share.broken_at.replace(offset) != Some(offset) {
        return false;
    }
    hold_unreadable(share, offset, broken, room);
    // Only the batch behind it can say where it ends: by its own head messages might be passed over.
    let _ = bytes.split_to(broken.bytes.min(bytes.len()));
    let is_there = |place: &i64| *place > offset && share.end.is_none_or(|end| *place < end);
    let behind = next_batch(&mut bytes.clone()).ok().flatten().map(|batch| batch.base_offset);
    let behind = behind.filter(|behind| broken.bytes > 0 && is_there(behind));
    let base = Some(broken.base_offset).filter(is_there).unwrap_or(offset);
    share.position = behind.unwrap_or_else(|| base.saturating_add(1));
    behind.is_some()
}

fn hold_unreadable(share: &mut Share, offset: i64, broken: &Unreadable, room: &mut Room) {
    if share.is_new(offset) {
        let delivery = unreadable(share, offset, &broken.why);
        room.take(&delivery);
        share.hold(offset, delivery);
    }
}

#[cfg(test)]
#[path = "fetch_tests.rs"]
mod tests;
