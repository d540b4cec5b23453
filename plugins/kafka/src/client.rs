//! A client: the cluster as one call at a time has it, and the producer's number.

use std::cell::Cell;
use std::collections::HashMap;
use std::time::{Duration, Instant};

use waybill_kafka_wire::batch::{Producer, after};
use waybill_kafka_wire::messages::{InitProducerIdRequest, ProducerId};
use waybill_kafka_wire::refusal::{NONE, Refusal};
use waybill_kafka_wire::{self as wire, Cluster, Identity};
use waybill_plugin::broker::{Address, Codes, Endpoint, Session};
use waybill_plugin::deadline::Deadline;
use waybill_plugin::host::net_types::TlsOptions;
use waybill_plugin::transport::{ErrorKind, Fault, OpenArgs, PluginError};

use crate::config::{Config, Keys};
use crate::counts::Counts;
use crate::encode::Encoder;
use crate::topic::Template;

/// Longest pause that is kept because a server asked for it: a wrong number must not stop an endpoint for ever.
const THROTTLE_MS_MAX: u32 = 60_000;

/// What every client of an instance has in common.
pub(crate) struct Shared {
    pub(crate) template: Template,
    /// Partitions of topics: all clients put a key in the same one.
    pub(crate) counts: Counts,
    identity: Identity,
    /// Until when servers asked to wait.
    throttled: Cell<Option<Instant>>,
}

impl AsRef<Identity> for Shared {
    fn as_ref(&self) -> &Identity {
        &self.identity
    }
}

impl Shared {
    /// Notes that a server asked to wait for so many milliseconds.
    pub(crate) fn throttled(&self, millis: u32) {
        if millis > 0 {
            let millis = u64::from(millis.min(THROTTLE_MS_MAX));
            let until = Instant::now() + Duration::from_millis(millis);
            // Servers ask for themselves: the longest wait counts.
            self.throttled.set(self.throttled.get().max(Some(until)));
        }
    }
}

/// Connections to the servers of a cluster, and a number by which partitions know what they have already.
pub(crate) struct Client {
    pub(crate) cluster: Cluster,
    pub(crate) encoder: Encoder,
    producer: Option<Producer>,
    /// The sequence number that a partition's next batch has; 0 where there is none.
    sequences: HashMap<(String, i32), i32>,
}

impl Session for Client {
    type Keys = Keys;
    type Shared = Shared;
    const CODES: &'static Codes = wire::CODES;

    fn share(args: &OpenArgs, config: &Config, _: &TlsOptions) -> Result<Shared, PluginError> {
        Ok(Shared {
            template: config.own.template()?,
            counts: Counts::default(),
            identity: Identity::read(&args.name, config.own.sasl)?,
            throttled: Cell::new(None),
        })
    }

    async fn open(endpoint: &Endpoint<Self>, address: &Address, deadline: Deadline) -> Result<Self, PluginError> {
        let cluster = Cluster::enter(endpoint, address, deadline).await?;
        Ok(Self { cluster, encoder: Encoder::default(), producer: None, sequences: HashMap::new() })
    }

    fn address(&self) -> &Address {
        self.cluster.address()
    }

    async fn catch_up(&mut self, _: Deadline) -> Result<(), PluginError> {
        // A connection that ended is made anew when it is needed: the client, and its producer's number, go on.
        self.cluster.catch_up().await;
        Ok(())
    }

    async fn ping(&mut self, endpoint: &Endpoint<Self>, deadline: Deadline) -> Result<Option<String>, PluginError> {
        self.cluster.catch_up().await;
        self.cluster.refresh(endpoint, &[], false, deadline).await.map(|()| None)
    }

    fn ping_timeout(config: &Config) -> u32 {
        config.own.ack_timeout
    }

    async fn close(self, _: Deadline) {
        self.cluster.close().await;
    }

    fn take_discovered(&mut self, _: &Endpoint<Self>) -> Option<Vec<String>> {
        self.cluster.take_discovered()
    }

    fn asked_to_wait(shared: &Shared, _: &[Self]) -> Option<PluginError> {
        let left = shared.throttled.get()?.saturating_duration_since(Instant::now()).as_millis();
        let left = u32::try_from(left).ok().filter(|left| *left > 0)?;
        let fault = Fault::new("KAFKA.THROTTLED", "a quota of the cluster is used up: the server asked to wait");
        Some(PluginError::new(ErrorKind::Throttled, fault.with_after(Some(left))))
    }
}

impl Client {
    /// The producer's number; asked for if there is none.
    ///
    /// # Errors
    /// The cluster gives none now, or not to us.
    pub(crate) async fn producer(
        &mut self,
        endpoint: &Endpoint<Self>,
        deadline: Deadline,
    ) -> Result<Result<Producer, Refusal>, PluginError> {
        if let Some(producer) = self.producer {
            return Ok(Ok(producer));
        }
        // A transaction's name that is empty would be one.
        let request = InitProducerIdRequest::default()
            .with_transactional_id(None)
            .with_transaction_timeout_ms(60_000)
            .with_producer_id(ProducerId(-1))
            .with_producer_epoch(-1);
        let answer = self.cluster.ask_any(endpoint, &request, deadline).await?;
        if answer.error_code != NONE {
            return Ok(Err(Refusal::of(answer.error_code, "a producer's number", None)));
        }
        let producer = Producer { id: answer.producer_id.0, epoch: answer.producer_epoch };
        self.producer = Some(producer);
        self.sequences.clear();
        Ok(Ok(producer))
    }

    /// Takes no such number any more: what a partition has of it isn't known. False if it was forgotten before.
    pub(crate) fn forget_producer(&mut self, producer: Option<Producer>) -> bool {
        let forgets = self.producer.is_some() && (producer.is_none() || producer == self.producer);
        if forgets {
            self.producer = None;
        }
        forgets
    }

    /// Sequence number of a partition's next batch.
    pub(crate) fn sequence(&self, topic: &str, partition: i32) -> i32 {
        self.sequences.get(&(topic.to_owned(), partition)).copied().unwrap_or(0)
    }

    /// A partition has a batch of so many records from this number on.
    pub(crate) fn taken(&mut self, topic: &str, partition: i32, sequence: i32, count: usize) {
        self.sequences.insert((topic.to_owned(), partition), after(sequence, count));
    }
}
