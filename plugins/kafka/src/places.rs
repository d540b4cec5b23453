//! Which topic and which partition each message of a batch has.

use std::collections::HashMap;
use std::hash::{BuildHasher as _, RandomState};
use std::thread;
use std::time::Duration;

use waybill_kafka_wire::partition;
use waybill_kafka_wire::refusal::{Class, Refusal};
use waybill_plugin::broker::Endpoint;
use waybill_plugin::deadline::Deadline;
use waybill_plugin::transport::{ErrorKind, Fault, Message, Outcome, PluginError};

use crate::client::Client;
use crate::config::Create;
use crate::queue::Queue;

/// Longest wait for topics that the cluster makes, in milliseconds.
const MAKING_MS_MAX: u32 = 5_000;
/// Pause between two looks for them.
const PAUSE: Duration = Duration::from_millis(50);

pub(crate) struct Assigned {
    pub(crate) queues: Vec<Queue>,
    /// What has no topic, and its fate.
    pub(crate) fated: Vec<(usize, Outcome)>,
}

/// Sorts a batch by partitions.
///
/// # Errors
/// No server of the cluster answers, or none may be asked.
pub(crate) async fn assign(
    client: &mut Client,
    endpoint: &Endpoint<Client>,
    batch: &[Message],
    deadline: Deadline,
) -> Result<Assigned, PluginError> {
    let mut fated = Vec::new();
    let mut topics: HashMap<String, Vec<usize>> = HashMap::new();
    for (place, message) in batch.iter().enumerate() {
        match endpoint.shared().template.name(message) {
            Ok(name) => topics.entry(name).or_default().push(place),
            Err(why) => fated.push((place, Outcome::Permanent(Fault::new("KAFKA.TOPIC", why)))),
        }
    }
    find(client, endpoint, topics.keys().map(String::as_str), deadline).await?;
    agree(client, endpoint, topics.keys().map(String::as_str), deadline).await?;
    let mut queues = Vec::new();
    for (name, places) in topics {
        match client.cluster.topic(&name) {
            Some(Ok(topic)) if !topic.leaders.is_empty() => spread(&name, &topic.leaders, &places, batch, &mut queues),
            Some(Err(refusal)) if refusal.class == Class::Denied => return Err(refusal.error()),
            known => {
                let fault = match known {
                    Some(Err(refusal)) => refusal.fault(),
                    _ => Fault::new("KAFKA.NO_LEADER", "the topic has no partitions now"),
                };
                fated.extend(places.into_iter().map(|place| (place, fault.clone().blocking(""))));
            }
        }
    }
    fated.sort_by_key(|(place, _)| *place);
    Ok(Assigned { queues, fated })
}

/// The queue of each of so many messages.
pub(crate) fn routes(count: usize, queues: &[Queue]) -> Vec<Option<usize>> {
    let mut routes = vec![None; count];
    for (number, queue) in queues.iter().enumerate() {
        for place in &queue.waiting {
            if let Some(route) = routes.get_mut(*place) {
                *route = Some(number);
            }
        }
    }
    routes
}

/// Asks for topics until they are known, or known not to be there.
async fn find(
    client: &mut Client,
    endpoint: &Endpoint<Client>,
    names: impl Iterator<Item = &str>,
    deadline: Deadline,
) -> Result<(), PluginError> {
    let creates = endpoint.config().own.create_topics == Create::Broker;
    let patience = deadline.at_most(MAKING_MS_MAX);
    // What was missing when it was asked for last may be there by now.
    let mut missing: Vec<&str> = names.filter(|name| !matches!(client.cluster.topic(name), Some(Ok(_)))).collect();
    let mut asked = false;
    while !missing.is_empty() {
        if asked {
            thread::sleep(PAUSE);
        }
        asked = true;
        let answered = client.cluster.refresh(endpoint, &missing, creates, deadline).await;
        match answered {
            Err(error) if error.kind == ErrorKind::Unavailable && patience.left().is_some() => continue,
            answered => answered?,
        }
        if patience.left().is_none() {
            break;
        }
        missing.retain(|name| match client.cluster.topic(name) {
            Some(Ok(_)) => false,
            Some(Err(refusal)) => comes(refusal, creates),
            None => true,
        });
    }
    Ok(())
}

/// Asks again for topics of which another client of this instance was told another number of partitions.
async fn agree(
    client: &mut Client,
    endpoint: &Endpoint<Client>,
    names: impl Iterator<Item = &str>,
    deadline: Deadline,
) -> Result<(), PluginError> {
    let counts = &endpoint.shared().counts;
    let names: Vec<&str> = names.collect();
    let differs = |name: &&str| client.cluster.partitions(name).is_some_and(|count| counts.differ(name, count));
    let stale: Vec<&str> = names.iter().copied().filter(differs).collect();
    if !stale.is_empty() {
        client.cluster.refresh(endpoint, &stale, false, deadline).await?;
    }
    for name in names {
        if let Some(count) = client.cluster.partitions(name) {
            counts.note(name, count);
        }
    }
    Ok(())
}

/// Whether a topic that isn't there may be so in a moment.
fn comes(refusal: &Refusal, creates: bool) -> bool {
    refusal.class == Class::Elsewhere && (creates || refusal.code != "KAFKA.NO_TOPIC")
}

/// Gives each message of a topic its partition: by its key, or one for all without a key in this batch.
fn spread(name: &str, leaders: &[Option<i32>], places: &[usize], batch: &[Message], queues: &mut Vec<Queue>) {
    let count = u32::try_from(leaders.len()).unwrap_or(u32::MAX);
    let keyless = anywhere(leaders, RandomState::new().hash_one(()));
    let mut by_partition: HashMap<u32, Queue> = HashMap::new();
    for place in places {
        let key = batch.get(*place).and_then(|message| message.key.as_deref());
        let partition = key.map_or(keyless, |key| partition::of_key(key.as_bytes(), count));
        let number = i32::try_from(partition).unwrap_or(i32::MAX);
        by_partition.entry(partition).or_insert_with(|| Queue::new(name, number)).waiting.push_back(*place);
    }
    queues.extend(by_partition.into_values());
}

/// A partition that somebody leads, by chance.
fn anywhere(leaders: &[Option<i32>], random: u64) -> u32 {
    let led: Vec<usize> = (0..leaders.len()).filter(|place| leaders.get(*place).is_some_and(Option::is_some)).collect();
    let among = u64::try_from(led.len().max(1)).unwrap_or(1);
    let chosen = usize::try_from(random % among).unwrap_or(0);
    led.get(chosen).and_then(|place| u32::try_from(*place).ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::encode::tests::message;

    #[test]
    fn messages_of_one_key_are_in_one_partition_and_those_without_go_together() {
        let of = |key: Option<&str>| Message { key: key.map(str::to_owned), ..message() };
        let batch = [of(Some("a")), of(None), of(Some("b")), of(Some("a")), of(None)];
        let mut queues = Vec::new();
        spread("t", &[Some(1), None, Some(1), Some(2)], &[0, 1, 2, 3, 4], &batch, &mut queues);
        let queue_of = |place: usize| queues.iter().position(|queue| queue.waiting.contains(&place));
        assert_eq!((queue_of(0), queue_of(1)), (queue_of(3), queue_of(4)));
        assert_eq!(queues.iter().map(|queue| queue.waiting.len()).sum::<usize>(), 5);
        assert!(queues.iter().all(|queue| queue.waiting.iter().is_sorted()));
    }

    #[test]
    fn a_partition_without_a_leader_is_not_chosen() {
        for random in 0..10 {
            assert_eq!(anywhere(&[None, Some(4), None], random), 1);
        }
        assert_eq!(anywhere(&[None, None], 7), 0);
    }
}
