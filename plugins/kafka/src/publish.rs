//! One batch of messages: rounds over its partitions, until each message has its fate.
//!
//! In a round each partition's batch goes to its leader, to all leaders at once. What a partition can't take now comes again
//! in a later round, as the same batch: a partition that has it already says so. When time is up, what was written and has no
//! answer may be there all the same and says so; what wasn't written is given back untried.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::thread;
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use waybill_kafka_wire::batch::Producer;
use waybill_kafka_wire::messages::produce_request::{PartitionProduceData, TopicProduceData};
use waybill_kafka_wire::messages::{ProduceRequest, ProduceResponse, TopicName};
use waybill_kafka_wire::refusal::{Class, Refusal};
use waybill_kafka_wire::{Connection, text};
use waybill_plugin::broker::{Endpoint, Outcomes};
use waybill_plugin::deadline::Deadline;
use waybill_plugin::transport::{CallInfo, ErrorKind, Fault, Message, Outcome, PluginError};

use crate::answer::{self, Answer};
use crate::client::Client;
use crate::next::{self, Next};
use crate::places::{Assigned, assign, routes};
use crate::queue::{Flight, Queue, Trouble};
use crate::runs::Runs;

/// Longest time that a call waits for partitions that can't be written now, in milliseconds: a cluster takes about ten seconds
/// to find another leader.
const PATIENCE_MS: u32 = 15_000;
/// First pause between two rounds when a partition is in trouble; doubles.
const PAUSE_MIN: Duration = Duration::from_millis(25);
/// Longest one: while it lasts nothing else runs in this instance.
const PAUSE_MAX: Duration = Duration::from_millis(200);
/// How often a call asks for another producer's number.
const PRODUCERS_MAX: u32 = 3;
/// Time for which a server that couldn't be reached isn't dialled again: half of what a cluster takes to find another leader.
const DIAL_PAUSE: Duration = Duration::from_secs(5);
/// All replicas in sync have to have it.
const ALL: i16 = -1;

/// What came of a batch.
pub(crate) struct Sent {
    /// One outcome a message; or nothing can be sent now, and what wasn't told waits.
    pub(crate) outcomes: Result<Vec<Outcome>, PluginError>,
    /// Why the client is of no more use.
    pub(crate) lost: Option<PluginError>,
}

pub(crate) async fn publish(
    client: &mut Client,
    endpoint: &Endpoint<Client>,
    call: &CallInfo,
    batch: &[Message],
    deadline: Deadline,
) -> Sent {
    let outcomes = Outcomes::new(call, batch.len());
    let Assigned { queues, fated } = match assign(client, endpoint, batch, deadline).await {
        Ok(assigned) => assigned,
        Err(error) => {
            return Sent { outcomes: Err(error.clone()), lost: Some(error) };
        }
    };
    let runs = Runs::of(batch, &routes(batch.len(), &queues));
    let mut sending = Sending {
        client,
        endpoint,
        call,
        batch,
        outcomes,
        queues,
        fated,
        runs,
        stopped: HashSet::new(),
        producers: 0,
        unreachable: HashMap::new(),
    };
    let lost = sending.run(deadline).await.err();
    sending.end(lost)
}

pub(crate) struct Sending<'a> {
    pub(crate) client: &'a mut Client,
    pub(crate) endpoint: &'a Endpoint<Client>,
    call: &'a CallInfo,
    pub(crate) batch: &'a [Message],
    pub(crate) outcomes: Outcomes<'a>,
    pub(crate) queues: Vec<Queue>,
    /// What goes nowhere, and its fate when its turn comes.
    pub(crate) fated: Vec<(usize, Outcome)>,
    pub(crate) runs: Runs,
    /// Keys of which a message wasn't acknowledged: nothing behind it goes.
    pub(crate) stopped: HashSet<(&'a str, &'a str)>,
    /// How many numbers partitions didn't take any more.
    producers: u32,
    /// Servers that couldn't be reached in this call, why, and until when they are left alone.
    unreachable: HashMap<i32, (Instant, PluginError)>,
}

/// A server's word on what it got, by the queues that went there.
type Answered = (i32, Connection, Vec<usize>, Result<ProduceResponse, PluginError>);

impl<'a> Sending<'a> {
    /// Rounds until nothing is left, or time is up.
    async fn run(&mut self, deadline: Deadline) -> Result<(), PluginError> {
        let patience = deadline.at_most(PATIENCE_MS);
        let mut pause = PAUSE_MIN;
        while self.fill()? {
            if self.call.cancelled() || deadline.left().is_none() {
                return Ok(());
            }
            let is_reached = match self.round(deadline).await {
                Err(error) if error.kind == ErrorKind::Unavailable && patience.left().is_some() => false,
                Err(error) => return Err(error),
                Ok(()) => true,
            };
            self.outcomes.tell_early();
            let troubled: HashSet<String> =
                self.queues.iter().filter(|queue| queue.trouble.is_some()).map(|queue| queue.topic.clone()).collect();
            if is_reached && troubled.is_empty() {
                pause = PAUSE_MIN;
                continue;
            }
            if !troubled.is_empty() && patience.left().is_none() {
                self.give_up(|queue| queue.trouble.is_some());
                continue;
            }
            thread::sleep(pause);
            pause = (pause * 2).min(PAUSE_MAX);
            let topics: Vec<&str> = troubled.iter().map(String::as_str).collect();
            match self.client.cluster.refresh(self.endpoint, &topics, false, deadline.at_most(self.ack_timeout())).await
            {
                Err(error) if error.kind == ErrorKind::Unavailable && patience.left().is_some() => {}
                refreshed => refreshed?,
            }
        }
        Ok(())
    }

    fn ack_timeout(&self) -> u32 {
        self.endpoint.config().own.ack_timeout
    }

    /// Sends what is under way to the leaders, and takes their words.
    async fn round(&mut self, deadline: Deadline) -> Result<(), PluginError> {
        let time = deadline.at_most(self.ack_timeout());
        let producer = match self.client.producer(self.endpoint, time).await? {
            Ok(producer) => producer,
            Err(refusal) if refusal.class == Class::Elsewhere => {
                for queue in &mut self.queues {
                    queue.trouble = Some(Trouble { fault: refusal.fault(), blocks: false });
                }
                return Ok(());
            }
            Err(refusal) => return Err(refusal.error()),
        };
        let mut reached = Vec::new();
        for (node, lanes) in self.by_leader() {
            match self.reach(node, deadline).await {
                Ok(connection) => reached.push((node, connection, lanes)),
                Err(error) => self.trouble(&lanes, &error),
            }
        }
        // The time for answers begins behind the last connection: a server that is down takes none of the others' time.
        let time = deadline.at_most(self.ack_timeout());
        let mut asks = Vec::new();
        for (node, mut connection, lanes) in reached {
            let request = self.request(&lanes, producer, time);
            asks.push(async move {
                let answer = connection.ask(&request, time).await;
                (node, connection, lanes, answer)
            });
        }
        // What one server refuses undoes no other's acknowledgement: all are taken, and the first error is told then.
        let mut taken = Ok(());
        for answered in join_all(asks).await {
            taken = taken.and(self.take(answered));
        }
        let throttle = self.client.cluster.take_throttle();
        self.endpoint.shared().throttled(throttle);
        taken
    }

    /// A connection to a leader. One that couldn't be reached isn't dialled again for a while: the others would wait for it.
    async fn reach(&mut self, node: i32, deadline: Deadline) -> Result<Connection, PluginError> {
        if let Some((until, error)) = self.unreachable.get(&node)
            && Instant::now() < *until
        {
            return Err(error.clone());
        }
        let connect = deadline.at_most(self.endpoint.config().common.connect_timeout);
        let connection = self.client.cluster.take(self.endpoint, node, connect).await;
        if let Err(error) = &connection {
            self.unreachable.insert(node, (Instant::now() + DIAL_PAUSE, error.clone()));
        }
        connection
    }

    /// Which queues go to which server. A partition that nobody leads is in trouble.
    fn by_leader(&mut self) -> BTreeMap<i32, Vec<usize>> {
        let mut nodes: BTreeMap<i32, Vec<usize>> = BTreeMap::new();
        for (lane, queue) in self.queues.iter_mut().enumerate().filter(|(_, queue)| queue.flight.is_some()) {
            let topic = self.client.cluster.topic(&queue.topic);
            let leader = match topic {
                Some(Ok(topic)) => {
                    let place = usize::try_from(queue.partition).unwrap_or(usize::MAX);
                    topic.leaders.get(place).copied().flatten()
                }
                _ => None,
            };
            if let Some(node) = leader {
                nodes.entry(node).or_default().push(lane);
                continue;
            }
            let fault = match topic {
                Some(Err(refusal)) => refusal.fault(),
                _ => Fault::new("KAFKA.NO_LEADER", "no server leads the partition now"),
            };
            queue.trouble = Some(Trouble { fault, blocks: true });
        }
        nodes
    }

    fn trouble(&mut self, lanes: &[usize], error: &PluginError) {
        for lane in lanes {
            if let Some(queue) = self.queues.get_mut(*lane) {
                let blocks = error.kind != ErrorKind::Unavailable;
                queue.trouble = Some(Trouble { fault: error.fault.clone(), blocks });
            }
        }
    }

    /// The batches of these queues as one request. A batch that goes again keeps its numbers.
    fn request(&mut self, lanes: &[usize], producer: Producer, time: Deadline) -> ProduceRequest {
        let mut topics: BTreeMap<&str, Vec<PartitionProduceData>> = BTreeMap::new();
        let mut lanes = lanes.to_vec();
        lanes.sort_unstable();
        for (lane, queue) in self.queues.iter_mut().enumerate() {
            if lanes.binary_search(&lane).is_err() {
                continue;
            }
            let Some(flight) = &mut queue.flight else { continue };
            let before = flight.stamp.filter(|(by, _)| *by == producer).map(|(_, sequence)| sequence);
            let sequence = before.unwrap_or_else(|| self.client.sequence(&queue.topic, queue.partition));
            flight.stamp = Some((producer, sequence));
            let records = flight.batch.stamped(producer, sequence);
            let data = PartitionProduceData::default().with_index(queue.partition).with_records(Some(records));
            topics.entry(&queue.topic).or_default().push(data);
        }
        let topics = topics.into_iter().map(|(name, partitions)| {
            TopicProduceData::default().with_name(TopicName(text(name))).with_partition_data(partitions)
        });
        ProduceRequest::default()
            .with_transactional_id(None)
            .with_acks(ALL)
            // The server's word that its replicas are too slow comes before our patience with it ends.
            .with_timeout_ms(i32::try_from(time.left().unwrap_or(0) / 5 * 4).unwrap_or(i32::MAX).max(1))
            .with_topic_data(topics.collect())
    }

    /// Takes a server's word.
    fn take(&mut self, (node, mut connection, lanes, answer): Answered) -> Result<(), PluginError> {
        let response = match answer {
            Ok(response) => response,
            Err(error) if error.kind == ErrorKind::Unsupported => return Err(error),
            Err(error) => {
                // The connection isn't put back. What was written on it may be there.
                for lane in &lanes {
                    if let Some(flight) = self.queues.get_mut(*lane).and_then(|queue| queue.flight.as_mut()) {
                        flight.maybe_there = true;
                    }
                }
                self.trouble(&lanes, &error);
                return Ok(());
            }
        };
        connection.throttled(response.throttle_time_ms);
        self.client.cluster.put(node, connection);
        let mut taken = Ok(());
        for lane in lanes {
            let Some(queue) = self.queues.get_mut(lane) else { continue };
            let Some(flight) = queue.flight.take() else { continue };
            queue.trouble = None;
            match answer::read(&response, &queue.topic, queue.partition) {
                Answer::Taken(offset) => {
                    if let Some((_, sequence)) = flight.stamp {
                        self.client.taken(&queue.topic, queue.partition, sequence, flight.batch.count());
                    }
                    for (number, place) in flight.places.iter().enumerate() {
                        let receipt = answer::receipt(&queue.topic, queue.partition, offset, number);
                        self.outcomes.settle(*place, Outcome::Ack(receipt));
                        self.runs.acknowledge(*place);
                    }
                }
                Answer::Refused(refusal) => taken = taken.and(self.refused(lane, flight, &refusal)),
                Answer::Missing => {
                    let fault = Fault::new("KAFKA.PROTOCOL", "the server says nothing of a partition");
                    queue.flight = Some(Flight { maybe_there: true, ..flight });
                    queue.trouble = Some(Trouble { fault, blocks: false });
                }
            }
        }
        taken
    }

    /// Does what follows from a partition's refusal.
    fn refused(&mut self, lane: usize, mut flight: Flight, refusal: &Refusal) -> Result<(), PluginError> {
        let next = next::after(refusal, &mut flight, self.producers < PRODUCERS_MAX);
        let Some(queue) = self.queues.get_mut(lane) else { return Ok(()) };
        if flight.maybe_there && matches!(next, Next::Apart | Next::Settle(_) | Next::Block { .. }) {
            // Under its sequence number another batch would be taken for this one.
            self.client.forget_producer(None);
        }
        match next {
            Next::Fail(error) => {
                queue.flight = Some(flight);
                return Err(error);
            }
            Next::Later(trouble) => {
                queue.trouble = Some(trouble);
                queue.flight = Some(flight);
            }
            Next::Again => queue.flight = Some(flight),
            Next::Renumber => {
                // Several partitions of one round may refuse one number: it is lost once.
                let number = flight.stamp.map(|(producer, _)| producer);
                self.producers += u32::from(self.client.forget_producer(number));
                queue.flight = Some(flight);
            }
            Next::Apart => queue.split(flight),
            Next::Settle(outcome) => self.settle(&flight.places, &outcome),
            Next::Block { own, waiting } => {
                let behind: Vec<usize> = queue.waiting.drain(..).collect();
                self.settle(&flight.places, &own);
                self.settle(&behind, &waiting);
            }
        }
        Ok(())
    }

    /// Gives up some partitions for this time: what may be there says so, the rest is given back.
    fn give_up(&mut self, which: impl Fn(&Queue) -> bool) {
        for lane in 0..self.queues.len() {
            let Some(queue) = self.queues.get_mut(lane).filter(|queue| which(queue)) else { continue };
            let Some(Trouble { fault, blocks }) = queue.trouble.take() else { continue };
            let (mut unknown, mut untried) = (Vec::new(), Vec::new());
            if let Some(flight) = queue.flight.take() {
                let list = if flight.maybe_there { &mut unknown } else { &mut untried };
                list.extend(flight.places);
            }
            untried.extend(queue.waiting.drain(..));
            if !unknown.is_empty() {
                self.client.forget_producer(None);
                self.settle(&unknown, &Outcome::Retryable(fault.clone().with_maybe_delivered(true)));
            }
            let given_back = if blocks { fault.blocking("") } else { Outcome::Release(fault) };
            self.settle(&untried, &given_back);
        }
    }

    /// One outcome a message, or the word that nothing can be sent.
    fn end(self, lost: Option<PluginError>) -> Sent {
        let Self { client, mut outcomes, queues, .. } = self;
        let flights = queues.iter().filter_map(|queue| queue.flight.as_ref()).filter(|flight| flight.maybe_there);
        let unknown: HashSet<usize> = flights.flat_map(|flight| flight.places.iter().copied()).collect();
        if !unknown.is_empty() {
            client.forget_producer(None);
        }
        if let (Some(error), true) = (&lost, unknown.is_empty()) {
            outcomes.tell();
            return Sent { outcomes: Err(error.clone()), lost };
        }
        let late = || Fault::new("KAFKA.CANCELLED", "the call ended before the partition could be written");
        let fault = lost.as_ref().map_or_else(late, |error| error.fault.clone());
        Sent { outcomes: Ok(outcomes.end(&fault, |place| unknown.contains(&place))), lost }
    }
}
