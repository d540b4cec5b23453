//! The bundled RabbitMQ source: consumes a queue, classic or quorum, with manual acknowledgements.
//!
//! The server sends ahead up to the host's window (prefetch). One connection consumes, and its deliveries are settled on it: what
//! was handed over is lost with it, told to the host, and comes again. Calls run one after the other. What this doesn't do: streams
//! (RabbitMQ's third kind of queue), more time for a delivery (AMQP has no word for it), retries (the host counts and waits).
//!
//! - `config`: what an operator may set; `provision`: queue and bindings, created when the operator asks for it
//! - `connection`: a connection as the pool keeps it; `channel`: what one session has delivered, and how it is settled
//! - `delivery`: a message as it is handed over

mod channel;
mod config;
mod connection;
mod delivery;
mod provision;

use std::cell::{Cell, RefCell};
use std::time::{Duration, Instant};

use waybill_plugin::broker::{Pool, Session as _};
use waybill_plugin::deadline::Deadline;
use waybill_plugin::source::{Notices, Pulled, Settled, Settlement, Source, SourceArgs};
use waybill_plugin::transport::{CallInfo, HealthReport, OpenArgs, OpenPurpose, Opened, PluginError};

use crate::channel::Channel;
use crate::config::{Config, Keys};
use crate::connection::{Connection, Consumer};
use crate::delivery::{Queue, delivery};

waybill_plugin::manifest!();
waybill_plugin::export_source!(RabbitmqSource);
waybill_plugin::export_provision!(RabbitmqSource);

/// Abilities of this source.
const FEATURES: [&str; 3] = ["nack", "reject", "delivery-count"];
/// Between two looks at a connection that has no heartbeats, in milliseconds.
const TICK_MS_WITHOUT_HEARTBEATS: u32 = 30_000;
/// Longest goodbye, in milliseconds.
const GOODBYE_MS_MAX: u32 = 1_000;

struct RabbitmqSource {
    pool: Pool<Connection>,
    /// Name of our consumer on its channel.
    tag: String,
    /// Deliveries of a session that may be unsettled.
    prefetch: u16,
    /// Bytes that are held before no more are read.
    window_bytes: usize,
    /// The connection that consumes, and what it delivered.
    session: RefCell<Option<(Connection, Channel)>>,
    /// How many sessions there were.
    sessions: Cell<u64>,
    /// Tokens that can't be settled any more, not told yet.
    lost: RefCell<Vec<Vec<u8>>>,
    lag: Cell<Option<u32>>,
    quiet: Cell<bool>,
}

impl Source for RabbitmqSource {
    type Config = Config;

    async fn open(
        call: &CallInfo,
        args: &OpenArgs,
        wants: &SourceArgs,
        config: Config,
    ) -> Result<(Self, Opened), PluginError> {
        let deadline = Deadline::of_call(call.timeout);
        let tag = config.own.tag(&args.name, args.instance);
        let pool = Pool::<Connection>::new(args, config)?;
        let mut connection = pool.connect(deadline).await?;
        let depth = connection.depth(&pool.config().own.queue, deadline).await?;
        let half = connection.wire().beat_every().and_then(|every| u32::try_from(every.as_millis() / 2).ok());
        let opened = Opened {
            peer: Some(connection.wire().peer().to_owned()),
            tick_every: Some(half.unwrap_or(TICK_MS_WITHOUT_HEARTBEATS)),
            features: FEATURES.map(str::to_owned).into(),
            // A host that is cut off from its store, and not from the server, has its deliveries for as long.
            ..Opened::new().settling_within(pool.config().own.consumer_timeout)
        };
        pool.put(connection, deadline).await;
        let serves = args.purpose == OpenPurpose::Serve;
        let source = Self {
            pool,
            tag,
            prefetch: u16::try_from(wants.window).unwrap_or(u16::MAX).max(1),
            window_bytes: wants.window_bytes as usize,
            session: RefCell::default(),
            sessions: Cell::new(0),
            lost: RefCell::default(),
            lag: Cell::new(serves.then_some(depth)),
            quiet: Cell::new(false),
        };
        Ok((source, opened))
    }

    async fn pull(&self, call: &CallInfo, max: u32, max_bytes: u32, wait: u32) -> Result<Pulled, PluginError> {
        if self.quiet.get() {
            return Ok(Pulled { caught_up: false, ..Pulled::new(Vec::new()).with_notices(self.notices()) });
        }
        let deadline = Deadline::of_call(call.timeout);
        let mut session = self.take_session(call, deadline).await?;
        let wait = wait.min(deadline.left().unwrap_or_default() / 2);
        if let Err(error) = self.fill(&mut session, max, max_bytes, wait, deadline).await {
            self.end(session, &error, deadline).await;
            let notices = self.notices();
            // The host has to know what is lost, whatever it is told of the connection.
            return if notices.lost.is_empty() {
                Err(error)
            } else {
                Ok(Pulled { caught_up: false, ..Pulled::new(Vec::new()).with_notices(notices) })
            };
        }
        let (connection, channel) = &mut session;
        self.note_depth(connection);
        let has_room = !channel.is_full();
        let deliveries = self.hand_over(connection.wire().peer(), channel, max, max_bytes);
        let caught_up = deliveries.is_empty() && has_room && wait > 0;
        self.session.replace(Some(session));
        Ok(Pulled { deliveries, caught_up, notices: self.notices() })
    }

    async fn settle(&self, call: &CallInfo, items: Vec<Settlement>) -> Result<Vec<Settled>, PluginError> {
        let deadline = Deadline::of_call(call.timeout);
        let Some(mut session) = self.session.take() else { return Ok(vec![Settled::Lost; items.len()]) };
        let (connection, channel) = &mut session;
        let mut out = Vec::new();
        let settled = channel.settle(&items, &mut out);
        if let Err(error) = write(connection, out, deadline).await {
            self.end(session, &error, deadline).await;
            return Err(error);
        }
        self.session.replace(Some(session));
        Ok(settled)
    }

    async fn health(&self, call: &CallInfo) -> HealthReport {
        self.pool.health(call).await
    }

    async fn tick(&self, call: &CallInfo) -> Result<Notices, PluginError> {
        let Some(mut session) = self.session.take() else {
            self.pool.tick(call).await?;
            return Ok(self.notices());
        };
        let deadline = Deadline::of_call(call.timeout);
        let time = deadline.at_most(self.keys().ack_timeout);
        match self.look_after(&mut session, time).await {
            Ok(()) => drop(self.session.replace(Some(session))),
            Err(error) => self.end(session, &error, deadline).await,
        }
        Ok(self.notices())
    }

    async fn quiesce(&self, call: &CallInfo) -> Result<(), PluginError> {
        self.quiet.set(true);
        let deadline = Deadline::of_call(call.timeout);
        let Some(mut session) = self.session.take() else { return Ok(()) };
        if let Err(error) = self.pause(&mut session, deadline).await {
            // What it held goes back by itself.
            self.end(session, &error, deadline).await;
            return Err(error);
        }
        self.session.replace(Some(session));
        Ok(())
    }

    async fn close(&self, call: &CallInfo) {
        if let Some((connection, _)) = self.session.take() {
            connection.close(Deadline::of_call(call.timeout).at_most(GOODBYE_MS_MAX)).await;
        }
        self.pool.close(call).await;
    }
}

impl RabbitmqSource {
    fn keys(&self) -> &Keys {
        &self.pool.config().own
    }

    /// The session, or a new one: a connection that doesn't consume yet.
    async fn take_session(&self, call: &CallInfo, deadline: Deadline) -> Result<(Connection, Channel), PluginError> {
        if let Some(session) = self.session.take() {
            return Ok(session);
        }
        let connection = self.pool.take(call, deadline).await?;
        self.sessions.set(self.sessions.get() + 1);
        Ok((connection, Channel::new(self.sessions.get(), self.prefetch)))
    }

    /// Ends a session that is of no more use. What it delivered comes again, in another one.
    async fn end(&self, session: (Connection, Channel), error: &PluginError, deadline: Deadline) {
        let (connection, channel) = session;
        self.lost.borrow_mut().extend(channel.lost());
        self.pool.give_back(connection, Some(error), deadline).await;
    }

    /// Waits until something is there to be handed over, and takes what else has come.
    async fn fill(
        &self,
        (connection, channel): &mut (Connection, Channel),
        max: u32,
        max_bytes: u32,
        wait: u32,
        deadline: Deadline,
    ) -> Result<(), PluginError> {
        if !connection.consumes() {
            let keys = self.keys();
            let prefetch = channel.prefetch();
            let consumer = Consumer { queue: &keys.queue, tag: &self.tag, exclusive: keys.exclusive, prefetch };
            connection.consume(consumer, deadline.at_most(keys.ack_timeout)).await?;
        }
        let began = Instant::now();
        channel.hold(connection.delivered());
        loop {
            let is_enough = channel.held() >= max as usize || channel.held_bytes() >= max_bytes as usize;
            let gone = u32::try_from(began.elapsed().as_millis()).unwrap_or(u32::MAX);
            let left = if channel.held() > 0 { 0 } else { wait.saturating_sub(gone) };
            if is_enough || !connection.listen(left, deadline).await? {
                return Ok(());
            }
            channel.hold(connection.delivered());
        }
    }

    fn hand_over(
        &self,
        peer: &str,
        channel: &mut Channel,
        max: u32,
        max_bytes: u32,
    ) -> Vec<waybill_plugin::source::Delivery> {
        let keys = self.keys();
        let queue =
            Queue { name: &keys.queue, limit: keys.delivery_limit(peer), is_quorum: keys.delivery_limit.is_some() };
        let (mut deliveries, mut bytes) = (Vec::new(), 0_usize);
        while deliveries.len() < max as usize {
            let room = (!deliveries.is_empty()).then(|| (max_bytes as usize).saturating_sub(bytes));
            let Some((since, message, token)) = channel.next(room) else { break };
            bytes += message.body.len();
            let age = u32::try_from(since.elapsed().as_millis()).unwrap_or(u32::MAX);
            let left = keys.consumer_timeout.saturating_sub(age);
            deliveries.push(delivery(token, message, queue, left, max_bytes));
        }
        deliveries
    }

    /// Keeps the connection alive while nobody pulls. What has waited for a third of its time goes back: the server would close
    /// the channel for it, and with that what is in hand would be lost. So does what there is no memory for.
    async fn look_after(&self, session: &mut (Connection, Channel), deadline: Deadline) -> Result<(), PluginError> {
        let (connection, channel) = &mut *session;
        // What comes while nothing more can be delivered is small.
        while (channel.held_bytes() < self.window_bytes || channel.is_full()) && connection.listen(0, deadline).await? {
            channel.hold(connection.delivered());
        }
        self.note_depth(connection);
        connection.check_alive(self.keys().ack_timeout)?;
        let third = Duration::from_millis(u64::from(self.keys().consumer_timeout / 3));
        let is_too_much = channel.shrink(self.window_bytes);
        if is_too_much || channel.is_held_since(third) {
            self.pause(session, deadline).await?;
        }
        session.0.ask_depth(&self.keys().queue, deadline).await
    }

    fn note_depth(&self, connection: &mut Connection) {
        if let Some(depth) = connection.take_depth() {
            self.lag.set(Some(depth));
        }
    }

    /// Stops consuming and gives back what wasn't handed over.
    async fn pause(
        &self,
        (connection, channel): &mut (Connection, Channel),
        deadline: Deadline,
    ) -> Result<(), PluginError> {
        connection.cancel(&self.tag, deadline).await?;
        channel.hold(connection.delivered());
        let mut out = Vec::new();
        channel.give_back(&mut out);
        write(connection, out, deadline).await
    }

    /// What the host wasn't told yet.
    fn notices(&self) -> Notices {
        let notices = Notices { lost: self.lost.take(), ..Notices::new() };
        match self.lag.get() {
            Some(lag) => notices.with_attribute("lag", lag.to_string()),
            None => notices,
        }
    }
}

/// Writes frames, and what is due beside them.
async fn write(connection: &mut Connection, frames: Vec<u8>, deadline: Deadline) -> Result<(), PluginError> {
    let mut out = connection.wire().incoming.due();
    out.extend(frames);
    if out.is_empty() {
        return Ok(());
    }
    connection.wire().incoming.beat.spoke();
    connection.wire().link().write(out, deadline).await
}
