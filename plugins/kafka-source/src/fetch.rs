//! Fetching: what the leaders have of our partitions, without what transactions took back.

use std::collections::{BTreeMap, HashSet};

use bytes::Bytes;
use waybill_kafka_wire::messages::fetch_request::{FetchPartition, FetchTopic};
use waybill_kafka_wire::messages::fetch_response::{FetchResponse, PartitionData};
use waybill_kafka_wire::messages::{FetchRequest, TopicName};
use waybill_kafka_wire::records::next_batch;
use waybill_kafka_wire::refusal::{NONE, Refusal};
use waybill_kafka_wire::{Uuid, text};

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

/// Takes an answer, share by share.
pub(crate) fn take(
    answer: &mut FetchResponse,
    shares: &mut BTreeMap<Place, Share>,
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
            let fetched = of_partition(share, data, mapping);
            all.push((share.place.clone(), fetched));
        }
    }
    all
}

fn of_partition(share: &mut Share, data: &mut PartitionData, mapping: Mapping<'_>) -> Fetched {
    match data.error_code {
        NONE => {}
        1 => return Fetched::OutOfRange,
        3 | 5 | 6 | 9 | 56 | 74 | 75 | 78 | 100 | 103 => return Fetched::Elsewhere,
        number => {
            let of = format!("a fetch from topic `{}`", share.place.0);
            return Fetched::Refused(Refusal::of(number, &of, None));
        }
    }
    share.end = data.last_stable_offset.max(share.position);
    let gone = data.aborted_transactions.iter().flatten();
    let mut aborted: Vec<(i64, i64)> = gone.map(|gone| (gone.first_offset, gone.producer_id.0)).collect();
    // The earliest is last, to be taken off.
    aborted.sort_unstable_by(|one, other| other.cmp(one));
    hold(share, data.records.take().unwrap_or_default(), aborted, mapping);
    Fetched::Well
}

fn hold(share: &mut Share, mut bytes: Bytes, mut aborted: Vec<(i64, i64)>, mapping: Mapping<'_>) {
    let mut given_up: HashSet<i64> = HashSet::new();
    loop {
        let batch = match next_batch(&mut bytes) {
            Ok(Some(batch)) => batch,
            Ok(None) => return,
            Err(broken) => {
                let offset = share.position;
                let delivery = unreadable(share, offset, &broken.why);
                share.hold(offset, delivery);
                share.position = broken.last_offset.max(offset).saturating_add(1);
                return;
            }
        };
        while let Some((_, producer)) = aborted.pop_if(|(first, _)| *first <= batch.last_offset) {
            given_up.insert(producer);
        }
        if batch.is_control {
            if batch.is_abort() == Some(true) {
                given_up.remove(&batch.producer_id);
            }
        } else if !(batch.is_transactional && given_up.contains(&batch.producer_id)) {
            let read = batch.whole().and_then(|whole| {
                let records = batch.records(&whole)?;
                let new = records.iter().filter(|record| share.is_new(record.offset));
                Ok(new.map(|record| (record.offset, delivery(share, record, mapping))).collect::<Vec<_>>())
            });
            match read {
                Ok(new) => new.into_iter().for_each(|(offset, delivery)| share.hold(offset, delivery)),
                Err(broken) => {
                    let offset = share.position.max(batch.base_offset);
                    let delivery = unreadable(share, offset, &broken.why);
                    share.hold(offset, delivery);
                }
            }
        }
        share.position = share.position.max(batch.last_offset.saturating_add(1));
    }
}

#[cfg(test)]
#[path = "fetch_tests.rs"]
mod tests;
