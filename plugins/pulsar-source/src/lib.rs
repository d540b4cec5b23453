//! The bundled Pulsar source: reads a topic, with or without partitions, through a subscription, and acknowledges an entry when all its
//! messages are settled.
//!
//! Brokers send ahead up to the host's window, which the partitions share. What was handed over is settled by the session that brought
//! it: it is lost with it, told to the host, and comes again. Calls run one after the other.
//! What this doesn't do: several topics in one source, patterns, encrypted messages, messages in chunks, retries (the host counts and waits).
//!
//! - `config`: what an operator may set; `provision`: topic and subscription, created when the operator asks for them
//! - `client`: a session with a cluster and its consumers, with `dial`; `backlog`: how much waits
//! - `entries`: what was delivered, and how it is settled; `permits`: what may still be sent
//! - `delivery`: a message as it is handed over

mod backlog;
mod client;
mod config;
mod delivery;
mod dial;
mod entries;
mod permits;
mod provision;

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::time::Instant;

use waybill_plugin::broker::{Pool, Session as _};
use waybill_plugin::deadline::Deadline;
use waybill_plugin::source::{Delivery, Disposition, Notices, Pulled, Settled, Settlement, Source, SourceArgs};
use waybill_plugin::transport::{CallInfo, Health, HealthReport, OpenArgs, Opened, PluginError};
use waybill_pulsar_wire::proto::{Command, MessageIdData};

use crate::client::Client;
use crate::config::{Config, Keys};
use crate::delivery::{Origin, delivery};
use crate::entries::Entries;
use crate::permits::Window;

waybill_plugin::manifest!();
waybill_plugin::export_source!(PulsarSource);
waybill_plugin::export_provision!(PulsarSource);

/// Between two signs of life, in milliseconds. A broker asks for one every 30 s and hangs up at the second one that it misses.
const TICK_MS: u32 = 10_000;
/// Longest goodbye, in milliseconds.
const GOODBYE_MS_MAX: u32 = 1_000;

struct PulsarSource {
    pool: Pool<Client>,
    /// The topic's own name, for deliveries.
    topic: String,
    /// What may be unsettled.
    window: Window,
    session: RefCell<Option<Reading>>,
    /// How many sessions there were.
    sessions: Cell<u64>,
    /// Not told yet.
    notices: RefCell<Notices>,
    lag: Cell<Option<u64>>,
    quiet: Cell<bool>,
}

/// A session that consumes.
struct Reading {
    client: Client,
    entries: Entries,
    /// Entries that the broker hasn't acknowledged the acknowledgement of, by consumer.
    due: HashMap<u64, Vec<MessageIdData>>,
}

impl Source for PulsarSource {
    type Config = Config;

    async fn open(
        call: &CallInfo,
        args: &OpenArgs,
        wants: &SourceArgs,
        config: Config,
    ) -> Result<(Self, Opened), PluginError> {
        let deadline = Deadline::of_call(call.timeout);
        let pool = Pool::<Client>::new(args, config)?;
        let mut client = pool.connect(deadline).await?;
        // Whether we may read it shows only when it is subscribed to, which creates the subscription.
        client.partitions(pool.endpoint(), deadline).await?;
        let own = &pool.config().own;
        let features: &[&str] = if own.kind.is_shared() { &["delivery-count"] } else { &[] };
        let opened = Opened {
            peer: Some(client.peer()),
            tick_every: Some(TICK_MS),
            features: features.iter().map(|name| (*name).to_owned()).collect(),
            ..Opened::new()
        };
        let topic = own.topic()?;
        pool.put(client, deadline).await;
        let source = Self {
            topic: topic.rsplit_once('/').map_or(topic.as_str(), |(_, name)| name).to_owned(),
            pool,
            window: Window { messages: wants.window.max(1), bytes: wants.window_bytes as usize },
            session: RefCell::default(),
            sessions: Cell::new(0),
            notices: RefCell::new(Notices::new()),
            lag: Cell::new(None),
            quiet: Cell::new(false),
        };
        Ok((source, opened))
    }

    async fn pull(&self, call: &CallInfo, max: u32, max_bytes: u32, wait: u32) -> Result<Pulled, PluginError> {
        if self.quiet.get() {
            return Ok(Pulled { caught_up: false, ..Pulled::new(Vec::new()).with_notices(self.notices()) });
        }
        let deadline = Deadline::of_call(call.timeout);
        let mut reading = self.take_session(call, deadline).await?;
        let wait = wait.min(deadline.left().unwrap_or_default() / 2);
        match self.fill(&mut reading, max, max_bytes, wait, deadline).await {
            Ok(None) => {}
            // The connection is as good as any other.
            Ok(Some(error)) => {
                self.session.replace(Some(reading));
                return self.failed(error);
            }
            Err(error) => {
                self.end(reading, &error, deadline).await;
                return self.failed(error);
            }
        }
        let has_room = reading.entries.handed() < self.window.messages as usize;
        let was_empty = reading.entries.held() == 0;
        let deliveries = self.hand_over(&mut reading, max, max_bytes);
        let caught_up = was_empty && has_room && wait > 0;
        self.session.replace(Some(reading));
        Ok(Pulled { deliveries, caught_up, notices: self.notices() })
    }

    async fn settle(&self, call: &CallInfo, items: Vec<Settlement>) -> Result<Vec<Settled>, PluginError> {
        let deadline = Deadline::of_call(call.timeout);
        let Some(mut reading) = self.session.take() else { return Ok(vec![Settled::Lost; items.len()]) };
        // What a broker said meanwhile of partitions that it took away counts first.
        if let Err(error) = self.listen(&mut reading, 0, deadline).await {
            self.end(reading, &error, deadline).await;
            return Err(error);
        }
        let entries = &mut reading.entries;
        let settled = |known: bool| if known { Settled::Done } else { Settled::Lost };
        let results = items.iter().map(|item| match item.disposition {
            Disposition::Ack => settled(entries.settle(&item.token)),
            Disposition::Release => settled(entries.release(&item.token)),
            Disposition::Nack(_) | Disposition::Reject(_) | Disposition::Extend => Settled::unsupported(),
        });
        let results = results.collect();
        if let Err(error) = self.pass_on(&mut reading, deadline).await {
            self.end(reading, &error, deadline).await;
            return Err(error);
        }
        self.session.replace(Some(reading));
        Ok(results)
    }

    async fn health(&self, call: &CallInfo) -> HealthReport {
        // The session that reads isn't in the pool.
        let trouble = self.session.borrow().as_ref().and_then(|reading| reading.client.trouble().map(str::to_owned));
        match trouble {
            Some(trouble) => HealthReport::new(Health::Degraded, trouble),
            None => self.pool.health(call).await,
        }
    }

    async fn tick(&self, call: &CallInfo) -> Result<Notices, PluginError> {
        let Some(mut reading) = self.session.take() else {
            self.pool.tick(call).await?;
            return Ok(self.notices());
        };
        let deadline = Deadline::of_call(call.timeout);
        match self.look_after(&mut reading, deadline.at_most(self.keys().ack_timeout)).await {
            Ok(()) => {
                self.session.replace(Some(reading));
            }
            Err(error) => self.end(reading, &error, deadline).await,
        }
        Ok(self.notices())
    }

    async fn quiesce(&self, call: &CallInfo) -> Result<(), PluginError> {
        self.quiet.set(true);
        let deadline = Deadline::of_call(call.timeout);
        let Some(mut reading) = self.session.take() else { return Ok(()) };
        if let Err(error) = self.pass_on(&mut reading, deadline).await {
            // What it held goes back by itself.
            self.end(reading, &error, deadline).await;
            return Err(error);
        }
        self.session.replace(Some(reading));
        Ok(())
    }

    async fn close(&self, call: &CallInfo) {
        if let Some(reading) = self.session.take() {
            reading.client.close(Deadline::of_call(call.timeout).at_most(GOODBYE_MS_MAX)).await;
        }
        self.pool.close(call).await;
    }
}

impl PulsarSource {
    fn keys(&self) -> &Keys {
        &self.pool.config().own
    }

    /// The session, or a new one that has no consumers yet.
    async fn take_session(&self, call: &CallInfo, deadline: Deadline) -> Result<Reading, PluginError> {
        if let Some(reading) = self.session.take() {
            return Ok(reading);
        }
        let client = self.pool.take(call, deadline).await?;
        self.sessions.set(self.sessions.get() + 1);
        Ok(Reading { client, entries: Entries::new(self.sessions.get(), self.window), due: HashMap::new() })
    }

    /// Ends a session that is of no more use. What it delivered comes again, in another one.
    async fn end(&self, reading: Reading, error: &PluginError, deadline: Deadline) {
        self.notices.borrow_mut().lost.extend(reading.entries.lost());
        self.pool.give_back(reading.client, Some(error), deadline).await;
    }

    /// What a pull that failed answers.
    fn failed(&self, error: PluginError) -> Result<Pulled, PluginError> {
        let notices = self.notices();
        // The host has to know what is lost, whatever it is told of the connection.
        let is_told = !notices.lost.is_empty() || !notices.revoked.is_empty();
        let told = Pulled { caught_up: false, ..Pulled::new(Vec::new()).with_notices(notices) };
        if is_told { Ok(told) } else { Err(error) }
    }

    /// Waits until something is there to be handed over, and takes what else has come. Answers why nothing can come, if the session is good
    /// and its brokers refuse the subscription.
    async fn fill(
        &self,
        reading: &mut Reading,
        max: u32,
        max_bytes: u32,
        wait: u32,
        deadline: Deadline,
    ) -> Result<Option<PluginError>, PluginError> {
        let began = Instant::now();
        loop {
            if reading.client.wants_consumers() {
                let mut made = Vec::new();
                let subscribed = reading.client.subscribe(self.pool.endpoint(), &mut made, deadline).await?;
                for consumer in made {
                    reading.entries.permits().add(consumer);
                }
                match subscribed {
                    Ok(partitions) => reading.entries.permits().share_among(partitions),
                    Err(unread) if unread.is_refused => return Ok(Some(unread.error)),
                    Err(unread) => return Err(unread.error),
                }
            }
            // Nothing more is asked for while so much is here.
            if reading.entries.bytes() < self.window.bytes {
                let due = |consumer: u64| reading.due.get(&consumer).map_or(0, Vec::len);
                let grants = reading.entries.permits().grants(due);
                reading.client.grant(&grants, deadline).await?;
            }
            let entries = &reading.entries;
            let is_enough = entries.held() >= max as usize || entries.held_bytes() >= max_bytes as usize;
            let gone = u32::try_from(began.elapsed().as_millis()).unwrap_or(u32::MAX);
            let left = if entries.held() > 0 || is_enough { 0 } else { wait.saturating_sub(gone) };
            self.listen(reading, left, deadline).await?;
            if left == 0 || reading.entries.held() > 0 {
                return Ok(None);
            }
        }
    }

    /// Waits up to so many milliseconds and takes what has come.
    async fn listen(&self, reading: &mut Reading, wait: u32, deadline: Deadline) -> Result<(), PluginError> {
        reading.client.listen(wait, deadline).await?;
        while let Some(frame) = reading.client.take() {
            match frame.command {
                Command::Delivered(delivered) => reading.entries.take(delivered, frame.entry),
                Command::CloseConsumer(closed) => {
                    let lost = reading.entries.remove_consumer(closed.consumer_id);
                    self.notices.borrow_mut().lost.extend(lost);
                    reading.due.remove(&closed.consumer_id);
                    reading.client.forget(closed.consumer_id);
                }
                Command::ActiveConsumerChange(change) if change.is_active != Some(true) => {
                    let partition = reading.client.consumer(change.consumer_id).map(|known| known.partition.clone());
                    if reading.entries.revoke(change.consumer_id) {
                        self.notices.borrow_mut().revoked.extend(partition);
                    }
                }
                _ => {}
            }
        }
        self.lag.set(reading.client.backlog().or(self.lag.get()));
        Ok(())
    }

    fn hand_over(&self, reading: &mut Reading, max: u32, max_bytes: u32) -> Vec<Delivery> {
        let (mut deliveries, mut bytes) = (Vec::new(), 0_usize);
        let kind = self.keys().kind;
        while deliveries.len() < max as usize && reading.entries.handed() < self.window.messages as usize {
            let room = (!deliveries.is_empty()).then(|| (max_bytes as usize).saturating_sub(bytes));
            let Some((held, token)) = reading.entries.next(room) else { break };
            bytes += held.message.payload.len();
            let (consumer, ledger, entry) = held.key;
            let partition = reading.client.consumer(consumer).map(|known| known.partition.as_str());
            let origin = Origin {
                topic: &self.topic,
                group: partition.filter(|_| !kind.is_shared()),
                ledger,
                entry,
                before: kind.is_shared().then_some(held.before),
                is_again: held.is_again,
            };
            deliveries.push(delivery(token, held.message, held.invalid, &origin, max_bytes));
        }
        deliveries
    }

    /// Tells brokers what is settled, and gives back what isn't wanted when it ends. What a broker refuses to note is told it again later.
    async fn pass_on(&self, reading: &mut Reading, deadline: Deadline) -> Result<(), PluginError> {
        for (consumer, entries) in reading.entries.done() {
            reading.due.entry(consumer).or_default().extend(entries);
        }
        let time = deadline.at_most(self.keys().ack_timeout);
        for (consumer, entries) in std::mem::take(&mut reading.due) {
            if let Err(refusal) = reading.client.acknowledge(consumer, &entries, time).await? {
                let error = refusal.error();
                waybill_plugin::warn!([("code", error.fault.code)], "not acknowledged yet: {}", error.fault.reason);
                reading.due.insert(consumer, entries);
            }
        }
        if self.quiet.get() && self.keys().kind.is_shared() {
            for (consumer, entries) in reading.entries.give_back() {
                reading.client.redeliver(consumer, entries, time).await?;
            }
        }
        Ok(())
    }

    /// Keeps the connections alive while nobody pulls, and asks how much waits.
    async fn look_after(&self, reading: &mut Reading, deadline: Deadline) -> Result<(), PluginError> {
        self.listen(reading, 0, deadline).await?;
        self.pass_on(reading, deadline).await?;
        reading.client.ping(self.pool.endpoint(), deadline).await?;
        reading.client.ask_backlog(deadline).await?;
        // What is answered later is told later.
        self.listen(reading, 0, deadline).await
    }

    /// What the host wasn't told yet.
    fn notices(&self) -> Notices {
        let notices = self.notices.replace(Notices::new());
        match self.lag.get() {
            Some(lag) => notices.with_attribute("lag", lag.to_string()),
            None => notices,
        }
    }
}
