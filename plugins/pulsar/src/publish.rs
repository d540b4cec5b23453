//! One batch over one session: each message finds its topic, its partition and a producer there, and goes out in entries.
//!
//! Brokers are spoken to one after the other, each with all that goes there. When a connection ends, what was written and has no receipt
//! may be there all the same and says so; what wasn't written is given back untried.
//! What this doesn't do: send anything twice. That is the host's part, with the next attempt's number.

use std::collections::{HashMap, VecDeque};

use waybill_plugin::broker::{Endpoint, Outcomes, Session as _};
use waybill_plugin::deadline::Deadline;
use waybill_plugin::exchange::{Bounds, exchange};
use waybill_plugin::transport::{CallInfo, Fault, Message, Outcome, PluginError};
use waybill_pulsar_wire::Time;
use waybill_pulsar_wire::topic::partition_name;

use crate::client::{Client, PAUSES};
use crate::config::{Batching, Keys};
use crate::flight::{Flight, Lane, Limits, moved};
use crate::runs::Runs;

/// What became of the batch, and why the session is of no more use if it isn't.
pub(crate) struct Sent {
    pub(crate) outcomes: Vec<Outcome>,
    pub(crate) lost: Option<PluginError>,
}

/// Where each message of a batch is.
pub(crate) struct State<'a> {
    pub(crate) call: &'a CallInfo,
    pub(crate) batch: &'a [Message],
    pub(crate) runs: Runs,
    pub(crate) outcomes: Outcomes<'a>,
    pub(crate) written: Vec<bool>,
}

impl<'a> State<'a> {
    pub(crate) fn new(call: &'a CallInfo, batch: &'a [Message]) -> Self {
        let outcomes = Outcomes::new(call, batch.len());
        Self { call, batch, runs: Runs::of(batch), outcomes, written: vec![false; batch.len()] }
    }

    /// Settles one, and what is behind it: that may go now, or isn't sent.
    pub(crate) fn settle(&mut self, place: usize, outcome: Outcome) {
        if !self.outcomes.is_open(place) {
            return;
        }
        let is_acknowledged = matches!(outcome, Outcome::Ack(_));
        self.outcomes.settle(place, outcome);
        let mut behind = self.runs.behind(place);
        if is_acknowledged {
            if let Some(next) = behind {
                self.runs.set_free(next);
            }
            return;
        }
        while let Some(next) = behind {
            if self.outcomes.is_open(next) {
                let fault = Fault::new("PULSAR.BEHIND", "a message of its key before it wasn't acknowledged");
                self.outcomes.settle(next, Outcome::Release(fault));
            }
            behind = self.runs.behind(next);
        }
    }
}

/// Sends a batch and waits for the last receipt of it.
pub(crate) async fn publish(
    client: &mut Client,
    endpoint: &Endpoint<Client>,
    call: &CallInfo,
    batch: &[Message],
    deadline: Deadline,
) -> Sent {
    let mut state = State::new(call, batch);
    let lost = match lanes(client, endpoint, &mut state, deadline).await {
        Ok(lanes) => fly(client, endpoint, &mut state, lanes, deadline).await,
        Err(error) => Some(error),
    };
    let fault = match &lost {
        Some(error) => Fault::new(error.fault.code.as_str(), error.fault.reason.as_str()),
        None => Fault::new("PULSAR.CANCELLED", "the host ended the call"),
    };
    let State { outcomes, written, .. } = state;
    let outcomes = outcomes.end(&fault, |place| written.get(place).copied().unwrap_or_default());
    Sent { outcomes, lost }
}

/// Messages in the order in which they go, by producer and by what shares an entry.
///
/// # Errors
/// A connection is gone: nothing was sent.
async fn lanes(
    client: &mut Client,
    endpoint: &Endpoint<Client>,
    state: &mut State<'_>,
    deadline: Deadline,
) -> Result<Vec<Lane>, PluginError> {
    let own = &endpoint.config().own;
    let batch = state.batch;
    client.turn = client.turn.wrapping_add(1);
    let mut lanes: Vec<Lane> = Vec::new();
    let mut known: HashMap<(String, Option<&str>), usize> = HashMap::new();
    // What becomes of messages for a topic, or a partition, that nothing can be sent to.
    let mut refused: HashMap<String, Outcome> = HashMap::new();
    let mut pauses = PAUSES.into_iter();
    let time = Time::of(deadline, own.ack_timeout);
    for (place, message) in batch.iter().enumerate() {
        let topic = match endpoint.shared().template.name(message, &own.namespace) {
            Ok(topic) => topic,
            Err(why) => {
                state.settle(place, Outcome::Permanent(Fault::new("PULSAR.TOPIC", why)));
                continue;
            }
        };
        if let Some(outcome) = refused.get(&topic) {
            state.settle(place, outcome.clone());
            continue;
        }
        let partitions = match client.partitions(&topic, &time).await? {
            Ok(partitions) => partitions,
            Err(outcome) => {
                state.settle(place, outcome.clone());
                refused.insert(topic, outcome);
                continue;
            }
        };
        let partition = choose(own, message, partitions, client.turn);
        let name = partition_name(&topic, partitions, partition);
        if let Some(outcome) = refused.get(&name) {
            state.settle(place, outcome.clone());
            continue;
        }
        let class = match own.batching {
            Batching::Key => message.key.as_deref(),
            Batching::Partition | Batching::Off => None,
        };
        let lane = match known.get(&(name.clone(), class)) {
            Some(lane) => *lane,
            None => {
                if let Err(outcome) = client.open_producer(endpoint, &name, &mut pauses, &time).await? {
                    state.settle(place, outcome.clone());
                    refused.insert(name, outcome);
                    continue;
                }
                known.insert((name.clone(), class), lanes.len());
                lanes.push(Lane {
                    topic: topic.clone(),
                    partition: (partitions > 0).then_some(partition),
                    name,
                    queue: VecDeque::new(),
                    alone: false,
                });
                lanes.len() - 1
            }
        };
        if let Some(lane) = lanes.get_mut(lane) {
            lane.queue.push_back(place);
        }
    }
    // What a broker said meanwhile of producers that were open already.
    client.drain();
    Ok(lanes)
}

/// The partition of a message. What has no key goes to one partition a call, which makes its entries large, and to another with the next.
fn choose(own: &Keys, message: &Message, partitions: u32, turn: u32) -> u32 {
    match message.key.as_deref() {
        Some(key) => own.hashing.partition(key, partitions),
        None => turn.checked_rem(partitions).unwrap_or_default(),
    }
}

/// Sends what is in the lanes, and answers why the session is of no more use if it isn't.
async fn fly(
    client: &mut Client,
    endpoint: &Endpoint<Client>,
    state: &mut State<'_>,
    lanes: Vec<Lane>,
    deadline: Deadline,
) -> Option<PluginError> {
    let config = endpoint.config();
    let mut by_broker: HashMap<usize, Vec<Lane>> = HashMap::new();
    for lane in lanes {
        let Some(producer) = client.producers.get(&lane.name) else {
            // Its broker closed it while others were opened.
            for place in lane.queue {
                state.settle(place, Outcome::Release(moved()));
            }
            continue;
        };
        by_broker.entry(producer.broker).or_default().push(lane);
    }
    let waiting =
        |lanes: &HashMap<usize, Vec<Lane>>| -> usize { lanes.values().flatten().map(|lane| lane.queue.len()).sum() };
    // A message may wait for one of its key that goes to another broker: then that broker's turn comes again.
    let mut before = usize::MAX;
    while waiting(&by_broker) > 0 && waiting(&by_broker) < before && !state.call.cancelled() {
        before = waiting(&by_broker);
        for (broker, lanes) in &mut by_broker {
            let Some(connection) = client.brokers.get(*broker) else { continue };
            let limits = Limits {
                window: config.common.window as usize,
                messages: if config.own.batching == Batching::Off { 1 } else { config.own.batch_messages as usize },
                bytes: config.own.batch_bytes as usize,
                message_max: connection.message_max(),
                patience: config.own.ack_timeout,
            };
            let (stream, incoming) = connection.split();
            let mut flight = Flight::new(incoming, state, lanes, &mut client.producers, limits);
            let bounds = Bounds { silence: config.own.ack_timeout, deadline };
            let ended = exchange(stream, &mut flight, bounds).await.err();
            let closed = flight.end();
            client.forget(*broker, &closed);
            if let Some(broken) = ended {
                return Some(Client::CODES.broken(broken, silent));
            }
        }
    }
    None
}

fn silent() -> PluginError {
    PluginError::unavailable("PULSAR.ACK_TIMEOUT", "the broker didn't answer for a message in time")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::encode::tests::message;

    #[test]
    fn a_key_has_its_partition_and_what_has_none_takes_turns() {
        let own = Keys::default();
        let keyless = Message { key: None, ..message() };
        let chosen: Vec<u32> = (0..4).map(|turn| choose(&own, &keyless, 3, turn)).collect();
        assert_eq!(chosen, [0, 1, 2, 0]);
        assert!((0..4).all(|turn| choose(&own, &message(), 3, turn) == own.hashing.partition("order-1", 3)));
        assert_eq!((choose(&own, &keyless, 0, 5), choose(&own, &message(), 0, 5)), (0, 0));
    }
}
