//! A session as the pool keeps it: connections to brokers, and one consumer on each partition.

use std::time::{Duration, Instant};

use waybill_plugin::broker::{Address, Codes, Endpoint, Session};
use waybill_plugin::deadline::Deadline;
use waybill_plugin::host::net_types::TlsOptions;
use waybill_plugin::transport::{OpenArgs, PluginError};
use waybill_pulsar_wire::proto::{self, Command, KeySharedMeta, MessageIdData, Subscribe};
use waybill_pulsar_wire::topic::partition_name;
use waybill_pulsar_wire::{Brokers, Connection, Credentials, Dial, Place, Refusal, Time, frame};

use crate::backlog::Backlog;
use crate::config::{Config, Keys, Kind};
use crate::dial::Dialer;

/// After so long the number of partitions is asked for again.
const PARTITIONS_AGE: Duration = Duration::from_secs(60);
/// Where a new subscription begins: at the earliest message that is kept.
const EARLIEST: i32 = 1;
/// Longest wait on one connection while there are others, in milliseconds.
const SLICE_MS: u32 = 10;

/// Pauses before partitions that couldn't have a consumer are tried again while others are read: the first one, and the longest.
const RETRY_FIRST: Duration = Duration::from_millis(250);
const RETRY_MAX: Duration = Duration::from_secs(5);

/// What every session of an instance has in common.
pub(crate) struct Shared {
    pub(crate) credentials: Credentials,
    topic: String,
    /// Name of our consumers.
    consumer: String,
}

pub(crate) struct Client {
    brokers: Brokers,
    address: Address,
    consumers: Vec<Consumer>,
    next_consumer: u64,
    partitions: Option<(u32, Instant)>,
    /// The last try to reach every partition failed for one of them.
    trouble: Option<String>,
    /// When the partitions that have no consumer are tried again, and the pause before that; none: at once.
    retry: Option<(Instant, Duration)>,
    backlog: Backlog,
}

/// Why no partition has a consumer.
pub(crate) struct Unread {
    pub(crate) error: PluginError,
    /// A broker that was found refuses the subscription, or the topic is on its way: another server would say the same.
    pub(crate) is_refused: bool,
}

/// A consumer on one partition.
#[derive(Clone, Debug)]
pub(crate) struct Consumer {
    pub(crate) id: u64,
    broker: usize,
    /// Name of the partition, or of the topic.
    pub(crate) partition: String,
}

impl Session for Client {
    type Keys = Keys;
    type Shared = Shared;
    const CODES: &'static Codes = Connection::CODES;

    fn share(args: &OpenArgs, config: &Config, tls: &TlsOptions) -> Result<Shared, PluginError> {
        Ok(Shared {
            credentials: Credentials::read(config.own.auth, tls.client_cert_secret.is_some())?,
            topic: config.own.topic()?,
            consumer: config.own.consumer(&args.name, args.instance),
        })
    }

    async fn open(endpoint: &Endpoint<Self>, address: &Address, deadline: Deadline) -> Result<Self, PluginError> {
        let dialer = Dialer { endpoint, is_secure: endpoint.wants_tls(address) };
        let place = Place { address: address.clone(), behind_proxy: None };
        let first = dialer.dial(&place, deadline).await?;
        Ok(Self {
            brokers: Brokers::new(first),
            address: address.clone(),
            consumers: Vec::new(),
            next_consumer: 1,
            partitions: None,
            trouble: None,
            retry: None,
            backlog: Backlog::default(),
        })
    }

    fn address(&self) -> &Address {
        &self.address
    }

    async fn catch_up(&mut self, deadline: Deadline) -> Result<(), PluginError> {
        for (_, connection) in self.brokers.each() {
            connection.catch_up(deadline).await?;
        }
        Ok(())
    }

    async fn ping(&mut self, _: &Endpoint<Self>, deadline: Deadline) -> Result<Option<String>, PluginError> {
        for (_, connection) in self.brokers.each() {
            connection.ping(deadline).await?;
        }
        Ok(self.trouble.clone())
    }

    fn ping_timeout(config: &Config) -> u32 {
        config.own.ack_timeout
    }

    async fn close(mut self, deadline: Deadline) {
        for consumer in std::mem::take(&mut self.consumers) {
            let Some(connection) = self.brokers.get(consumer.broker) else { continue };
            let close =
                |request_id| Command::CloseConsumer(proto::CloseConsumer { consumer_id: consumer.id, request_id });
            // The broker gives to others what we have, and does so too when the connection ends.
            if connection.ask(close, deadline).await.is_err() {
                break;
            }
        }
        for connection in self.brokers.into_connections() {
            connection.close().await;
        }
    }
}

impl Client {
    /// The name and version of the broker.
    pub(crate) fn peer(&mut self) -> String {
        self.brokers.first().map(|first| first.peer().to_owned()).unwrap_or_default()
    }

    /// How many partitions the topic has; 0: none.
    ///
    /// # Errors
    /// The broker refuses, or the connection is gone.
    pub(crate) async fn partitions(
        &mut self,
        endpoint: &Endpoint<Self>,
        deadline: Deadline,
    ) -> Result<u32, PluginError> {
        if let Some((count, _)) = self.partitions.filter(|(_, asked)| asked.elapsed() < PARTITIONS_AGE) {
            return Ok(count);
        }
        let first = self.brokers.first().ok_or_else(|| PluginError::internal("a session without a connection"))?;
        let count =
            first.partitions(&endpoint.shared().topic, false, deadline).await?.map_err(|refusal| refusal.error())?;
        self.partitions = Some((count, Instant::now()));
        Ok(count)
    }

    /// Sees to it that every partition has a consumer, and answers how many there are. It takes half of what the call has; what it doesn't come
    /// to is for the next one. Where a partition can't have a consumer for now, the others go on.
    ///
    /// # Errors
    /// A connection is gone. Within: no partition can have a consumer.
    pub(crate) async fn subscribe(
        &mut self,
        endpoint: &Endpoint<Self>,
        made: &mut Vec<u64>,
        call: Deadline,
    ) -> Result<Result<u32, Unread>, PluginError> {
        let time = Time::of(call, endpoint.config().own.ack_timeout);
        let count = self.partitions(endpoint, time.answer()).await?;
        let mut failed = None;
        for partition in 0..count.max(1) {
            let name = partition_name(&endpoint.shared().topic, count, partition);
            if self.consumers.iter().any(|known| known.partition == name) {
                continue;
            }
            if time.is_over() {
                break;
            }
            match self.consume(endpoint, &name, &time).await? {
                Ok(consumer) => made.push(consumer),
                Err(unread) => failed = Some(unread),
            }
        }
        self.trouble = failed.as_ref().map(|unread| unread.error.fault.reason.clone());
        self.retry = failed.as_ref().map(|_| {
            let pause = self.retry.map_or(RETRY_FIRST, |(_, pause)| (pause * 2).min(RETRY_MAX));
            (Instant::now() + pause, pause)
        });
        match failed {
            Some(unread) if self.consumers.is_empty() => return Ok(Err(unread)),
            Some(Unread { error, .. }) => {
                let reason = error.fault.reason;
                waybill_plugin::warn!([("code", error.fault.code)], "not every partition is read: {reason}");
            }
            None => {}
        }
        Ok(Ok(count.max(1)))
    }

    /// Whether partitions that have no consumer are to be tried now. Where none has one, there is nothing else to do.
    pub(crate) fn wants_consumers(&self) -> bool {
        let is_due = self.consumers.is_empty() || self.retry.is_none_or(|(at, _)| at <= Instant::now());
        is_due && !self.is_subscribed()
    }

    /// Why not every partition is read, if so.
    pub(crate) fn trouble(&self) -> Option<&str> {
        self.trouble.as_deref()
    }

    /// Whether every partition has its consumer, as far as known.
    fn is_subscribed(&self) -> bool {
        let known = self.partitions.filter(|(_, asked)| asked.elapsed() < PARTITIONS_AGE);
        known.is_some_and(|(count, _)| self.consumers.len() >= count.max(1) as usize)
    }

    async fn consume(
        &mut self,
        endpoint: &Endpoint<Self>,
        partition: &str,
        time: &Time,
    ) -> Result<Result<u64, Unread>, PluginError> {
        let (own, shared) = (&endpoint.config().own, endpoint.shared());
        let dialer = Dialer { endpoint, is_secure: endpoint.wants_tls(&self.address) };
        let broker = match self.brokers.find(partition, &dialer, time).await? {
            Ok(broker) => broker,
            Err(unfound) => {
                let is_refused = unfound.is_passing();
                return Ok(Err(Unread { error: unfound.error(), is_refused }));
            }
        };
        let Some(connection) = self.brokers.get(broker) else {
            return Err(PluginError::internal("a broker that isn't connected"));
        };
        let id = self.next_consumer;
        self.next_consumer += 1;
        let subscribe = |request_id| {
            Command::Subscribe(Subscribe {
                topic: partition.to_owned(),
                subscription: own.subscription.clone(),
                sub_type: own.kind.number(),
                consumer_id: id,
                request_id,
                consumer_name: Some(shared.consumer.clone()),
                durable: Some(true),
                initial_position: Some(EARLIEST),
                force_topic_creation: Some(false),
                key_shared_meta: (own.kind == Kind::KeyShared).then_some(KeySharedMeta { mode: 0 }),
            })
        };
        if let Err(refusal) = connection.ask(subscribe, time.answer()).await? {
            return Ok(Err(Unread { error: refusal.about(partition).error(), is_refused: true }));
        }
        self.consumers.push(Consumer { id, broker, partition: partition.to_owned() });
        Ok(Ok(id))
    }

    /// A consumer by its number.
    pub(crate) fn consumer(&self, id: u64) -> Option<&Consumer> {
        self.consumers.iter().find(|known| known.id == id)
    }

    /// Forgets a consumer that its broker has closed, and how many partitions there are: the topic may have been made anew.
    pub(crate) fn forget(&mut self, id: u64) {
        self.consumers.retain(|known| known.id != id);
        self.partitions = None;
    }

    /// The next frame that has come. What answers the question for the backlog is taken here.
    pub(crate) fn take(&mut self) -> Option<frame::Frame> {
        for (broker, connection) in self.brokers.each() {
            while let Some(frame) = connection.take() {
                if !self.backlog.take(broker, &frame.command) {
                    return Some(frame);
                }
            }
        }
        None
    }

    /// Waits up to so many milliseconds for something to come; 0: takes what is there.
    ///
    /// # Errors
    /// A connection is gone.
    pub(crate) async fn listen(&mut self, wait: u32, deadline: Deadline) -> Result<bool, PluginError> {
        let (mut heard, several) = (false, self.brokers.each().count() > 1);
        for (_, connection) in self.brokers.each() {
            if wait == 0 {
                connection.catch_up(deadline).await?;
            } else {
                let wait = if several { wait.min(SLICE_MS) } else { wait };
                heard |= connection.listen(wait, deadline).await?;
            }
        }
        Ok(heard)
    }

    /// Allows consumers to be sent so many messages more.
    ///
    /// # Errors
    /// A connection is gone.
    pub(crate) async fn grant(&mut self, grants: &[(u64, u32)], deadline: Deadline) -> Result<(), PluginError> {
        for (id, count) in grants {
            let flow = Command::Flow(proto::Flow { consumer_id: *id, message_permits: *count });
            self.tell(*id, flow, deadline).await?;
        }
        Ok(())
    }

    /// Gives entries back to the broker, for any consumer.
    ///
    /// # Errors
    /// A connection is gone.
    pub(crate) async fn redeliver(
        &mut self,
        id: u64,
        entries: Vec<MessageIdData>,
        deadline: Deadline,
    ) -> Result<(), PluginError> {
        self.tell(id, Command::Redeliver(proto::Redeliver { consumer_id: id, message_ids: entries }), deadline).await
    }

    /// Acknowledges entries, and waits for the broker's word.
    ///
    /// # Errors
    /// A connection is gone. A refusal is the broker's own. There is none of a consumer that was closed meanwhile: what it had comes again.
    pub(crate) async fn acknowledge(
        &mut self,
        id: u64,
        entries: &[MessageIdData],
        deadline: Deadline,
    ) -> Result<Result<(), Refusal>, PluginError> {
        let Some(connection) = self.connection_of(id) else { return Ok(Ok(())) };
        let ack = |request_id| {
            Command::Ack(proto::Ack {
                consumer_id: id,
                ack_type: 0,
                message_id: entries.to_vec(),
                request_id: Some(request_id),
            })
        };
        let is_void = |command: &Command| matches!(command, Command::CloseConsumer(closed) if closed.consumer_id == id);
        let answer = connection.ask_unless(ack, is_void, deadline).await?;
        Ok(answer.map_or(Ok(()), |answer| answer.map(|_| ())))
    }

    /// Asks how much waits in the subscription, of all consumers at once. Answers come as they come, see [`Self::backlog`].
    ///
    /// # Errors
    /// A connection is gone.
    pub(crate) async fn ask_backlog(&mut self, deadline: Deadline) -> Result<(), PluginError> {
        self.backlog.begin();
        for consumer in &self.consumers {
            let Some(connection) = self.brokers.get(consumer.broker) else { continue };
            let ask =
                |request_id| Command::ConsumerStats(proto::ConsumerStats { request_id, consumer_id: consumer.id });
            let request = connection.begin(ask, deadline).await?;
            self.backlog.ask(consumer.broker, request);
        }
        Ok(())
    }

    /// How many entries wait in the subscription, as brokers told last.
    pub(crate) fn backlog(&self) -> Option<u64> {
        self.backlog.known
    }

    fn connection_of(&mut self, consumer: u64) -> Option<&mut Connection> {
        let broker = self.consumer(consumer)?.broker;
        self.brokers.get(broker)
    }

    async fn tell(&mut self, consumer: u64, command: Command, deadline: Deadline) -> Result<(), PluginError> {
        let Some(connection) = self.connection_of(consumer) else { return Ok(()) };
        connection.write(deadline, |out| frame::command(out, command)).await
    }
}
