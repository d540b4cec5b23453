//! The bundled NATS source: pulls from a JetStream consumer, durable or of its own, and acknowledges each message explicitly.
//!
//! Nothing is fetched ahead: each pull asks for what there is room for and ends when the server says that this was all.
//! Settlements go over another connection meanwhile, for an acknowledgement holds on any. What this doesn't do: push consumers,
//! core NATS without a stream, retries (the host counts and waits).
//!
//! - `config`: what an operator may set; `provision`: stream and consumer, created or changed when the operator asks for it
//! - `consumer`: the consumer as JetStream tells of it; `state`: what is known between calls
//! - `fetch`: one pull; `ack`, `delivery`: a message that came; `settle`: settlements

mod ack;
mod config;
mod consumer;
mod delivery;
mod fetch;
mod provision;
mod settle;
mod state;

use waybill_plugin::broker::Pool;
use waybill_plugin::deadline::Deadline;
use waybill_plugin::exchange::Bounds;
use waybill_plugin::source::{Notices, Pulled, Settled, Settlement, Source, SourceArgs};
use waybill_plugin::transport::{CallInfo, HealthReport, OpenArgs, OpenPurpose, Opened, PluginError};

use crate::config::{Config, Keys};
use crate::consumer::Consumer;
use crate::fetch::{End, fetch};
use crate::state::State;

type Connection = waybill_nats_wire::Connection<Keys>;

waybill_plugin::manifest!();
waybill_plugin::export_source!(NatsSource);
waybill_plugin::export_provision!(NatsSource);

/// Abilities of this source.
const FEATURES: [&str; 5] = ["nack", "nack-delay", "extend", "reject", "delivery-count"];
/// The same of one with a consumer of its own.
const RESUMES: &str = "resumes";
/// Codes of what goes wrong while the connection is well: the consumer, its stream, our rights.
const OF_THE_CONSUMER: [&str; 7] = [
    "NATS.CONSUMER",
    "NATS.JETSTREAM_OFF",
    "NATS.NO_CONSUMER",
    "NATS.NO_STREAM",
    "NATS.PERMISSIONS",
    "NATS.PROVISION",
    "SOURCE.OVERTAKEN",
];
/// Those that say that the consumer isn't there.
const MISSING: [&str; 2] = ["NATS.NO_CONSUMER", "NATS.NO_STREAM"];
/// Longest goodbye to a consumer of our own, in milliseconds.
const GOODBYE_MS_MAX: u32 = 1_000;

struct NatsSource {
    pool: Pool<Connection>,
    state: State,
}

impl Source for NatsSource {
    type Config = Config;

    async fn open(
        call: &CallInfo,
        args: &OpenArgs,
        wants: &SourceArgs,
        config: Config,
    ) -> Result<(Self, Opened), PluginError> {
        let deadline = Deadline::of_call(call.timeout);
        let pool = Pool::<Connection>::new(args, config)?;
        let mut connection = pool.connect(deadline).await?;
        let source = Self { state: State::new(wants, args.instances), pool };
        let common = &source.pool.config().common;
        let mut opened = Opened {
            peer: Some(format!("nats-server {}", connection.info().version)),
            max_concurrent_calls: common.connections,
            tick_every: Some(source.keys().ping_every),
            features: FEATURES.map(str::to_owned).into(),
            ..Opened::new()
        };
        source.ready(&mut connection, args.purpose == OpenPurpose::Probe, deadline).await?;
        source.pool.put(connection, deadline).await;
        if source.keys().consumer.is_none() {
            // It ends with this instance, and the next one begins behind the place that the host keeps.
            opened.features.push(RESUMES.to_owned());
        }
        if let Some(ms) = source.state.longest_wait() {
            opened = opened.settling_within(ms);
        }
        Ok((source, opened))
    }

    async fn pull(&self, call: &CallInfo, max: u32, max_bytes: u32, wait: u32) -> Result<Pulled, PluginError> {
        if self.state.is_quiet() {
            return Ok(Pulled { caught_up: false, ..Pulled::new(Vec::new()) });
        }
        let deadline = Deadline::of_call(call.timeout);
        let mut connection = self.pool.take(call, deadline).await?;
        let wait = wait.min(deadline.left().unwrap_or_default() / 2);
        let (pulled, lost) = self.pull_over(&mut connection, max, max_bytes, wait, deadline).await;
        self.pool.give_back(connection, lost.as_ref(), deadline).await;
        pulled
    }

    async fn settle(&self, call: &CallInfo, items: Vec<Settlement>) -> Result<Vec<Settled>, PluginError> {
        let deadline = Deadline::of_call(call.timeout);
        let mut connection = self.pool.take(call, deadline).await?;
        let bounds = Bounds { silence: self.keys().ack_timeout, deadline };
        let window = self.pool.config().common.window as usize;
        let done = settle::settle(&mut connection, &items, |token| self.state.knows(token), window, bounds).await;
        self.state.settled(&items, &done.settled);
        self.pool.give_back(connection, done.lost.as_ref(), deadline).await;
        Ok(done.settled)
    }

    async fn health(&self, call: &CallInfo) -> HealthReport {
        self.pool.health(call).await
    }

    async fn tick(&self, call: &CallInfo) -> Result<Notices, PluginError> {
        self.pool.tick(call).await?;
        let deadline = Deadline::of_call(call.timeout);
        let mut connection = self.pool.take(call, deadline).await?;
        let looked = self.look_again(&mut connection, deadline).await;
        let lost = looked.as_ref().err().filter(|error| ends_connection(error));
        self.pool.give_back(connection, lost, deadline).await;
        looked?;
        Ok(self.state.notices())
    }

    async fn quiesce(&self, _: &CallInfo) -> Result<(), PluginError> {
        self.state.quiesce();
        Ok(())
    }

    async fn close(&self, call: &CallInfo) {
        if let Some(Consumer { is_ephemeral: true, stream, name, .. }) = self.state.consumer() {
            let deadline = Deadline::of_call(call.timeout).at_most(GOODBYE_MS_MAX);
            if let Ok(mut connection) = self.pool.take(call, deadline).await {
                // Without a word it ends by itself, a little later.
                let gone = connection.ask(&format!("CONSUMER.DELETE.{stream}.{name}"), "", deadline).await;
                self.pool.give_back(connection, gone.as_ref().err(), deadline).await;
            }
        }
        self.pool.close(call).await;
    }
}

impl NatsSource {
    fn keys(&self) -> &Keys {
        &self.pool.config().own
    }

    /// The consumer, looked for or made where it isn't known. A probe makes none.
    async fn ready(&self, connection: &mut Connection, probes: bool, deadline: Deadline) -> Result<(), PluginError> {
        if !self.state.is_unsure() {
            return Ok(());
        }
        if self.state.consumer().is_some() {
            self.look_again(connection, deadline).await?;
        }
        if self.state.consumer().is_some() {
            return Ok(());
        }
        let keys = self.keys();
        let consumer = match &keys.consumer {
            Some(name) => Consumer::find(connection, keys, name, deadline).await?,
            None if probes => {
                return waybill_nats_wire::stream::info(connection, &keys.stream, deadline).await.map(|_| ());
            }
            None => Consumer::make(connection, keys, &self.state.resume(), deadline).await?,
        };
        self.state.found(consumer)
    }

    /// What a pull brought, and why the connection is of no more use if it isn't.
    async fn pull_over(
        &self,
        connection: &mut Connection,
        max: u32,
        max_bytes: u32,
        wait: u32,
        deadline: Deadline,
    ) -> (Result<Pulled, PluginError>, Option<PluginError>) {
        if let Err(error) = self.ready(connection, false, deadline).await {
            return failed(error);
        }
        let Some(consumer) = self.state.consumer() else {
            return (Err(PluginError::internal("no consumer")), None);
        };
        let room = self.state.room().min(max);
        if room == 0 {
            return (Ok(self.state.pulled(Vec::new(), None)), None);
        }
        let wanted = consumer.request(room, max_bytes, wait);
        let bounds = Bounds { silence: wait.saturating_add(self.keys().ack_timeout), deadline };
        let mut fetched = fetch(connection, &consumer.next_subject(), wanted, bounds).await;
        if fetched.deliveries.iter().any(|(metadata, _)| consumer.is_made_anew(metadata)) {
            // They may come from another stream of the same name, in which no token of before means the same.
            self.state.recheck();
            if let Err(error) = self.ready(connection, false, deadline).await {
                return failed(error);
            }
        }
        if !fetched.deliveries.is_empty() && self.state.is_outdated(&consumer, &fetched.deliveries) {
            fetched.deliveries.clear();
            fetched.end = fetched.end.map(|_| End::Cut);
        }
        let lost = fetched.lost.take();
        if fetched.is_silent && fetched.deliveries.is_empty() {
            self.state.recheck();
        }
        let pulled = match (fetched.end, &lost) {
            (Some(End::Refused(error)), _) if fetched.deliveries.is_empty() => Err(error),
            (None, Some(error)) if fetched.deliveries.is_empty() => Err(error.clone()),
            (end, _) => Ok(self.state.pulled(fetched.deliveries, end)),
        };
        (pulled, lost)
    }

    /// How far the consumer is behind, and whether it is still there.
    async fn look_again(&self, connection: &mut Connection, deadline: Deadline) -> Result<(), PluginError> {
        let Some(before) = self.state.consumer() else { return Ok(()) };
        if before.is_ephemeral {
            let Some(info) = consumer::info(connection, &before.stream, &before.name, deadline).await? else {
                self.state.gone();
                return Ok(());
            };
            return self.state.found(before.updated(&info));
        }
        match Consumer::find(connection, self.keys(), &before.name, deadline).await {
            Err(error) if MISSING.contains(&error.fault.code.as_str()) => {
                self.state.gone();
                Ok(())
            }
            found => self.state.found(found?),
        }
    }
}

/// A pull that failed before it began.
fn failed(error: PluginError) -> (Result<Pulled, PluginError>, Option<PluginError>) {
    let lost = ends_connection(&error).then(|| error.clone());
    (Err(error), lost)
}

fn ends_connection(error: &PluginError) -> bool {
    !OF_THE_CONSUMER.contains(&error.fault.code.as_str())
}
