//! Where a group stands in its partitions, and where these begin and end.

use std::collections::BTreeMap;

use waybill_kafka_wire::messages::list_offsets_request::{ListOffsetsPartition, ListOffsetsTopic};
use waybill_kafka_wire::messages::offset_commit_request::{OffsetCommitRequestPartition, OffsetCommitRequestTopic};
use waybill_kafka_wire::messages::offset_fetch_request::OffsetFetchRequestTopic;
use waybill_kafka_wire::messages::{
    BrokerId, ListOffsetsRequest, ListOffsetsResponse, OffsetCommitRequest, OffsetFetchRequest, TopicName,
};
use waybill_kafka_wire::refusal::{self, Class, NONE, Refusal};
use waybill_kafka_wire::{Uuid, text};
use waybill_plugin::broker::Endpoint;
use waybill_plugin::deadline::Deadline;
use waybill_plugin::transport::{ErrorKind, PluginError};

use crate::client::Client;
use crate::member::Member;

/// A topic and the number of a partition.
pub(crate) type Place = (String, i32);

/// Asks for the first offset that is kept.
pub(crate) const EARLIEST: i64 = -2;
/// Asks for the one that is given next.
pub(crate) const LATEST: i64 = -1;

/// What a group committed of a partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Committed {
    pub(crate) offset: i64,
    /// The topic's id as it was then, if we wrote it.
    pub(crate) topic: Option<Uuid>,
}

/// Where the group stands; what it never committed isn't among them.
///
/// # Errors
/// The group can't be asked, or refuses us.
pub(crate) async fn committed(
    member: &mut Member,
    client: &mut Client,
    endpoint: &Endpoint<Client>,
    places: &[Place],
    deadline: Deadline,
) -> Result<BTreeMap<Place, Committed>, PluginError> {
    let topics = by_topic(places).into_iter().map(|(name, numbers)| {
        OffsetFetchRequestTopic::default().with_name(TopicName(text(name))).with_partition_indexes(numbers)
    });
    let request = OffsetFetchRequest::default().with_group_id(member.group()).with_topics(Some(topics.collect()));
    let answer = member.ask(client, endpoint, &request, deadline).await?;
    member.heard(answer.error_code)?;
    let mut found = BTreeMap::new();
    for topic in &answer.topics {
        let name = topic.name.0.as_str();
        for partition in &topic.partitions {
            refusal::check(partition.error_code, &format!("offsets of `{name}`"), None)?;
            if partition.committed_offset >= 0 {
                let topic = partition.metadata.as_ref().and_then(|text| Uuid::try_parse(text.as_str()).ok());
                let committed = Committed { offset: partition.committed_offset, topic };
                found.insert((name.to_owned(), partition.partition_index), committed);
            }
        }
    }
    Ok(found)
}

/// Where partitions begin, or end.
#[derive(Debug, Default)]
pub(crate) struct Bounds {
    /// What has no leader now, or whose leader can't be asked, isn't among them.
    pub(crate) found: BTreeMap<Place, i64>,
    /// Why a leader couldn't be asked.
    pub(crate) failed: Option<PluginError>,
}

/// Asks all leaders where partitions begin, or end. One that can't be asked keeps no other from its answer.
///
/// # Errors
/// A leader refuses for good.
pub(crate) async fn bounds(
    client: &mut Client,
    endpoint: &Endpoint<Client>,
    places: &[Place],
    which: i64,
    deadline: Deadline,
) -> Result<Bounds, PluginError> {
    let mut bounds = Bounds::default();
    let nodes = by_leader(client, places);
    let mut behind = u32::try_from(nodes.len()).unwrap_or(u32::MAX);
    for (node, places) in nodes {
        // A silent server leaves time for those behind it.
        let time = deadline.at_most(deadline.left().unwrap_or(0) / behind.max(1));
        behind = behind.saturating_sub(1);
        let topics = by_topic(&places).into_iter().map(|(name, numbers)| {
            let partition =
                |number: &i32| ListOffsetsPartition::default().with_partition_index(*number).with_timestamp(which);
            ListOffsetsTopic::default()
                .with_name(TopicName(text(name)))
                .with_partitions(numbers.iter().map(partition).collect())
        });
        let request = ListOffsetsRequest::default().with_replica_id(BrokerId(-1)).with_topics(topics.collect());
        match ask_node(client, endpoint, node, &request, time).await {
            Ok(answer) => bounds.take(&answer)?,
            Err(error) if error.kind == ErrorKind::Unavailable => {
                bounds.failed.get_or_insert(error);
            }
            Err(error) => return Err(error),
        }
    }
    Ok(bounds)
}

async fn ask_node(
    client: &mut Client,
    endpoint: &Endpoint<Client>,
    node: i32,
    request: &ListOffsetsRequest,
    deadline: Deadline,
) -> Result<ListOffsetsResponse, PluginError> {
    let connect = deadline.at_most(endpoint.config().common.connect_timeout);
    let mut connection = client.cluster.take(endpoint, node, connect).await?;
    let answer = connection.ask(request, deadline.at_most(endpoint.config().own.ack_timeout)).await?;
    client.cluster.put(node, connection);
    Ok(answer)
}

impl Bounds {
    /// Takes a leader's answer. A partition that is elsewhere by now is left out.
    fn take(&mut self, answer: &ListOffsetsResponse) -> Result<(), PluginError> {
        for topic in &answer.topics {
            let name = topic.name.0.as_str();
            for partition in &topic.partitions {
                if partition.error_code == NONE {
                    self.found.insert((name.to_owned(), partition.partition_index), partition.offset);
                    continue;
                }
                let refusal = Refusal::of(partition.error_code, &format!("the bounds of `{name}`"), None);
                if !matches!(refusal.class, Class::Elsewhere | Class::Unknown) {
                    return Err(refusal.error());
                }
            }
        }
        Ok(())
    }
}

/// Commits. False if the group is shared out anew, or a partition can't be committed now.
///
/// # Errors
/// The group can't be asked, or refuses us.
pub(crate) async fn commit(
    member: &mut Member,
    client: &mut Client,
    endpoint: &Endpoint<Client>,
    offsets: &BTreeMap<Place, (i64, Uuid)>,
    deadline: Deadline,
) -> Result<bool, PluginError> {
    let mut topics: BTreeMap<&str, Vec<OffsetCommitRequestPartition>> = BTreeMap::new();
    for ((name, number), (offset, id)) in offsets {
        let partition = OffsetCommitRequestPartition::default()
            .with_partition_index(*number)
            .with_committed_offset(*offset)
            .with_committed_metadata(Some(text(&id.to_string())));
        topics.entry(name).or_default().push(partition);
    }
    let topics = topics.into_iter().map(|(name, partitions)| {
        OffsetCommitRequestTopic::default().with_name(TopicName(text(name))).with_partitions(partitions)
    });
    let request = OffsetCommitRequest::default()
        .with_group_id(member.group())
        .with_generation_id_or_member_epoch(member.generation())
        .with_member_id(member.id())
        .with_group_instance_id(member.instance())
        .with_topics(topics.collect());
    let answer = member.ask(client, endpoint, &request, deadline).await?;
    let mut all = true;
    for partition in answer.topics.iter().flat_map(|topic| &topic.partitions) {
        // A topic that was deleted meanwhile has no offsets: the others' stand.
        all &= match partition.error_code {
            3 | 100 => false,
            number => member.heard(number)?,
        };
    }
    Ok(all)
}

/// Places by the servers that lead them.
pub(crate) fn by_leader(client: &Client, places: &[Place]) -> BTreeMap<i32, Vec<Place>> {
    let mut nodes: BTreeMap<i32, Vec<Place>> = BTreeMap::new();
    for place in places {
        let Some(Ok(topic)) = client.cluster.topic(&place.0) else { continue };
        let number = usize::try_from(place.1).unwrap_or(usize::MAX);
        if let Some(node) = topic.leaders.get(number).copied().flatten() {
            nodes.entry(node).or_default().push(place.clone());
        }
    }
    nodes
}

fn by_topic(places: &[Place]) -> BTreeMap<&str, Vec<i32>> {
    let mut topics: BTreeMap<&str, Vec<i32>> = BTreeMap::new();
    for (name, number) in places {
        topics.entry(name).or_default().push(*number);
    }
    topics
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use waybill_kafka_wire::messages::list_offsets_response::{ListOffsetsPartitionResponse, ListOffsetsTopicResponse};

    use super::*;

    fn answer(codes: &[i16]) -> ListOffsetsResponse {
        let partition = |(number, code): (usize, &i16)| {
            ListOffsetsPartitionResponse::default()
                .with_partition_index(i32::try_from(number).unwrap())
                .with_error_code(*code)
                .with_offset(7)
        };
        let partitions = codes.iter().enumerate().map(partition).collect();
        let topic =
            ListOffsetsTopicResponse::default().with_name(TopicName(text("orders"))).with_partitions(partitions);
        ListOffsetsResponse::default().with_topics(vec![topic])
    }

    #[test]
    fn a_partition_that_is_elsewhere_is_left_out_and_a_refusal_goes_out_by_its_own_code() {
        let mut bounds = Bounds::default();
        bounds.take(&answer(&[0, 6, 0])).unwrap();
        let found: Vec<i32> = bounds.found.keys().map(|(_, number)| *number).collect();
        assert_eq!(found, [0, 2]);
        let error = bounds.take(&answer(&[0, 29])).unwrap_err();
        assert_eq!((error.kind, error.fault.code.as_str()), (ErrorKind::Denied, "KAFKA.PERMISSIONS"));
    }
}
