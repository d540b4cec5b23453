//! A session with a cluster: connections to its brokers, what is known of topics, and producers on the brokers that have them.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use waybill_plugin::broker::{Address, Codes, Endpoint, Session};
use waybill_plugin::deadline::Deadline;
use waybill_plugin::host::net_types::TlsOptions;
use waybill_plugin::transport::{Fault, OpenArgs, Outcome, PluginError};
use waybill_pulsar_wire::proto::{self, Command};
use waybill_pulsar_wire::topic::topic_of;
use waybill_pulsar_wire::{Brokers, Connection, Credentials, Dial, Login, Place, Refusal, Time, Unfound};

use crate::config::{Config, Keys};
use crate::template::Template;

/// After so long the number of a topic's partitions is asked for again, as the Java client does.
const PARTITIONS_AGE: Duration = Duration::from_secs(60);
/// Topics that are known, and producers that are open, at most: of more, the one that was used the longest time ago goes.
const TOPICS_MAX: usize = 4_096;
const PRODUCERS_MAX: usize = 1_024;
/// Pauses of a call before a topic on its way between brokers is looked for again. They are those of all its topics together, so that
/// many on their way don't take its time from the others.
pub(crate) const PAUSES: [Duration; 4] =
    [Duration::from_millis(50), Duration::from_millis(100), Duration::from_millis(200), Duration::from_millis(400)];

/// What every session of an instance has in common.
pub(crate) struct Shared {
    pub(crate) template: Template,
    credentials: Credentials,
}

pub(crate) struct Client {
    pub(crate) brokers: Brokers,
    address: Address,
    topics: HashMap<String, Topic>,
    /// By the name of their partition, or of their topic where it has none.
    pub(crate) producers: HashMap<String, Producer>,
    next_producer: u64,
    /// Goes up with each call: what has no key goes to another partition.
    pub(crate) turn: u32,
    clock: u64,
}

struct Topic {
    partitions: u32,
    asked: Instant,
}

/// A producer on one partition.
#[derive(Clone, Debug)]
pub(crate) struct Producer {
    /// Which of the connections it is on.
    pub(crate) broker: usize,
    pub(crate) id: u64,
    /// Name that the broker gave it.
    pub(crate) name: String,
    /// Number of its next message.
    pub(crate) sequence: u64,
    used: u64,
}

impl Producer {
    pub(crate) fn new(broker: usize, id: u64, name: String) -> Self {
        Self { broker, id, name, sequence: 0, used: 0 }
    }
}

struct Dialer<'a> {
    endpoint: &'a Endpoint<Client>,
    is_secure: bool,
}

impl Dial for Dialer<'_> {
    async fn dial(&self, place: &Place, deadline: Deadline) -> Result<Connection, PluginError> {
        let deadline = deadline.at_most(self.endpoint.config().common.connect_timeout);
        let link = self.endpoint.connect(&place.address, self.is_secure, deadline).await?;
        let login =
            Login { credentials: self.endpoint.shared().credentials, behind_proxy: place.behind_proxy.as_deref() };
        Connection::open(link, login, deadline).await
    }

    fn listener(&self) -> Option<&str> {
        self.endpoint.config().own.listener.as_deref()
    }

    fn is_secure(&self) -> bool {
        self.is_secure
    }

    fn is_single(&self) -> bool {
        self.endpoint.config().own.single_broker
    }
}

impl Session for Client {
    type Keys = Keys;
    type Shared = Shared;
    const CODES: &'static Codes = Connection::CODES;

    fn share(_: &OpenArgs, config: &Config, tls: &TlsOptions) -> Result<Shared, PluginError> {
        Ok(Shared {
            template: config.own.template()?,
            credentials: Credentials::read(config.own.auth, tls.client_cert_secret.is_some())?,
        })
    }

    async fn open(endpoint: &Endpoint<Self>, address: &Address, deadline: Deadline) -> Result<Self, PluginError> {
        let dialer = Dialer { endpoint, is_secure: endpoint.wants_tls(address) };
        let place = Place { address: address.clone(), behind_proxy: None };
        let first = dialer.dial(&place, deadline).await?;
        Ok(Self {
            brokers: Brokers::new(first),
            address: address.clone(),
            topics: HashMap::new(),
            producers: HashMap::new(),
            next_producer: 1,
            turn: 0,
            clock: 0,
        })
    }

    fn address(&self) -> &Address {
        &self.address
    }

    async fn catch_up(&mut self, deadline: Deadline) -> Result<(), PluginError> {
        for (_, connection) in self.brokers.each() {
            connection.catch_up(deadline).await?;
        }
        self.drain();
        Ok(())
    }

    async fn ping(&mut self, _: &Endpoint<Self>, deadline: Deadline) -> Result<Option<String>, PluginError> {
        self.catch_up(deadline).await?;
        for (_, connection) in self.brokers.each() {
            connection.ping(deadline).await?;
        }
        Ok(None)
    }

    async fn close(self, _: Deadline) {
        for connection in self.brokers.into_connections() {
            connection.close().await;
        }
    }
}

impl Client {
    /// The name and version of the broker, and most bytes of an entry that it takes.
    pub(crate) fn peer(&mut self) -> (String, usize) {
        let first = self.brokers.first();
        first.map(|first| (first.peer().to_owned(), first.message_max())).unwrap_or_default()
    }

    /// How many partitions a topic has; 0: none. Otherwise what becomes of its messages.
    ///
    /// # Errors
    /// A connection is gone.
    pub(crate) async fn partitions(&mut self, topic: &str, time: &Time) -> Result<Result<u32, Outcome>, PluginError> {
        if let Some(known) = self.topics.get(topic).filter(|known| known.asked.elapsed() < PARTITIONS_AGE) {
            return Ok(Ok(known.partitions));
        }
        if time.is_over() {
            return Ok(Err(unreached()));
        }
        let Some(first) = self.brokers.first() else { return Err(gone()) };
        let partitions = match first.partitions(topic, true, time.answer()).await? {
            Ok(partitions) => partitions,
            Err(refusal) => return Ok(Err(refusal.fate_unsent())),
        };
        if self.topics.len() >= TOPICS_MAX {
            self.topics.clear();
        }
        self.topics.insert(topic.to_owned(), Topic { partitions, asked: Instant::now() });
        Ok(Ok(partitions))
    }

    /// Sees to it that a partition has a producer. Otherwise what becomes of its messages. `pauses` are those that are left to the call.
    ///
    /// # Errors
    /// A connection is gone.
    pub(crate) async fn open_producer(
        &mut self,
        endpoint: &Endpoint<Self>,
        partition: &str,
        pauses: &mut impl Iterator<Item = Duration>,
        time: &Time,
    ) -> Result<Result<(), Outcome>, PluginError> {
        self.clock += 1;
        if let Some(known) = self.producers.get_mut(partition) {
            known.used = self.clock;
            return Ok(Ok(()));
        }
        if time.is_over() {
            return Ok(Err(unreached()));
        }
        self.make_room(time.answer()).await?;
        let dialer = Dialer { endpoint, is_secure: endpoint.wants_tls(&self.address) };
        loop {
            let unfound = match self.brokers.find(partition, &dialer, time).await? {
                Ok(broker) => match self.create_producer(broker, partition, time.answer()).await? {
                    Ok(()) => return Ok(Ok(())),
                    Err(refusal) => Unfound::Refused(refusal),
                },
                Err(unfound) => unfound,
            };
            let pause = if unfound.is_passing() { pauses.next() } else { None };
            match pause.and_then(|pause| time.pause(pause)) {
                Some(pause) => std::thread::sleep(pause),
                None => {
                    forget_topic(&mut self.topics, partition);
                    return Ok(Err(unfound.fate()));
                }
            }
        }
    }

    async fn create_producer(
        &mut self,
        broker: usize,
        partition: &str,
        deadline: Deadline,
    ) -> Result<Result<(), Refusal>, PluginError> {
        let id = self.next_producer;
        self.next_producer += 1;
        let Some(connection) = self.brokers.get(broker) else { return Err(gone()) };
        let create = |request_id| {
            Command::Producer(proto::Producer {
                topic: partition.to_owned(),
                producer_id: id,
                request_id,
                user_provided_producer_name: Some(false),
            })
        };
        let name = match connection.ask(create, deadline).await? {
            Ok(Command::ProducerSuccess(success)) => success.producer_name,
            Ok(_) => {
                let why = "the broker answers a producer with something else";
                return Err(PluginError::unavailable("PULSAR.PROTOCOL", why));
            }
            Err(refusal) => return Ok(Err(refusal)),
        };
        let producer = Producer { used: self.clock, ..Producer::new(broker, id, name) };
        self.producers.insert(partition.to_owned(), producer);
        Ok(Ok(()))
    }

    /// Closes the producer that was used the longest time ago if there are too many.
    async fn make_room(&mut self, deadline: Deadline) -> Result<(), PluginError> {
        if self.producers.len() < PRODUCERS_MAX {
            return Ok(());
        }
        let oldest = self.producers.iter().min_by_key(|(_, producer)| producer.used).map(|(name, _)| name.clone());
        let Some(producer) = oldest.and_then(|name| self.producers.remove(&name)) else { return Ok(()) };
        let Some(connection) = self.brokers.get(producer.broker) else { return Err(gone()) };
        let close = |request_id| Command::CloseProducer(proto::CloseProducer { producer_id: producer.id, request_id });
        // Its answer is of no interest: nothing is under way on it.
        connection.begin(close, deadline).await.map(|_| ())
    }

    /// Takes what brokers said beside answers: of producers that they closed. What else was said is for calls that are over.
    pub(crate) fn drain(&mut self) {
        let mut closed = Vec::new();
        for (broker, connection) in self.brokers.each() {
            while let Some(frame) = connection.take() {
                if let Command::CloseProducer(told) = frame.command {
                    closed.push((broker, told.producer_id));
                }
            }
        }
        for (broker, producer) in closed {
            self.forget(broker, &[producer]);
        }
    }

    /// Forgets producers that their broker has closed, and how many partitions their topics have: they may be made anew.
    pub(crate) fn forget(&mut self, broker: usize, closed: &[u64]) {
        let is_closed = |known: &Producer| known.broker == broker && closed.contains(&known.id);
        for (name, _) in self.producers.extract_if(|_, known| is_closed(known)) {
            forget_topic(&mut self.topics, &name);
        }
    }
}

/// A topic, or a partition of one, may have been made anew with another number of partitions.
fn forget_topic(topics: &mut HashMap<String, Topic>, name: &str) {
    topics.remove(name);
    topics.remove(topic_of(name));
}

/// The fate of a message whose topic wasn't looked for: the time for that went to others.
fn unreached() -> Outcome {
    Outcome::Release(Fault::new(Connection::CODES.timeout, "no time was left to look for its topic"))
}

/// A session without its connections.
fn gone() -> PluginError {
    PluginError::internal("a broker that isn't connected")
}
