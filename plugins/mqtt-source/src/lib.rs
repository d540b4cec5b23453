//! The bundled MQTT source: subscribes with a session that the server keeps, and acknowledges in the order of arrival.
//!
//! One connection has the session, and its messages are settled on it: what was in hand is lost with it, told to the host, and comes
//! again. Calls run one after the other. What this doesn't do: quality of service 2, giving back (MQTT has no word for it, so
//! what is given back is kept here), a place for dead letters at the server, telling how many messages wait there.
//!
//! - `config`: what an operator may set; `connection`: a connection as the pool keeps it
//! - `arrivals`: what one connection has brought, and how it is settled; `delivery`: a message as it is handed over
//! - `history`: whether the server had a session of ours before this instance; `rivals`: whether another client goes by our name
//!
//! The protocol and logging in are in `waybill-mqtt-wire`, which the transport shares.

mod arrivals;
mod config;
mod connection;
mod delivery;
mod history;
mod rivals;

use std::cell::{Cell, RefCell};
use std::thread;
use std::time::{Duration, Instant};

use waybill_plugin::broker::{Address, Pool, Session as _};
use waybill_plugin::deadline::Deadline;
use waybill_plugin::source::{Delivery, Notices, Pulled, Settled, Settlement, Source, SourceArgs};
use waybill_plugin::transport::{CallInfo, ErrorKind, HealthReport, OpenArgs, OpenPurpose, Opened, PluginError};

use crate::arrivals::{Arrivals, weight};
use crate::config::{Config, Keys};
use crate::connection::Connection;
use crate::history::Earlier;
use crate::rivals::Rivals;

waybill_plugin::manifest!();
waybill_plugin::export_source!(MqttSource);

/// Abilities of a source that has the messages to itself: acknowledgements go in order, and what wasn't acknowledged comes again
/// so.
const ALONE: [&str; 3] = ["replays-in-order", "ordered-groups", "ordered-acks"];
/// Those of one that shares them: the server may give to others what it had in hand. Acknowledgements go in order here too.
const SHARING: [&str; 2] = ["extend", "ordered-acks"];
/// Milliseconds for which a pull that mayn't wait goes on reading what comes.
const READ_MS_MAX: u32 = 50;
/// Longest goodbye, in milliseconds.
const GOODBYE_MS_MAX: u32 = 1_000;
/// Milliseconds before it is told that another client has our name. The host opens another instance at once, which takes the session
/// again: without a pause both would do nothing else.
const TAKEN_OVER_MS: u32 = 1_000;

struct MqttSource {
    pool: Pool<Connection>,
    /// What is ordered together: all of a client's; none if others share it.
    group: Option<String>,
    window: u32,
    window_bytes: u32,
    /// The connection that has the server's session, and what it brought.
    session: RefCell<Option<(Connection, Arrivals)>>,
    /// How many connections had it.
    sessions: Cell<u64>,
    /// The server that has answered to the subscriptions last.
    answered: RefCell<Option<Address>>,
    /// What is known of a session before this instance, or before the latest connection.
    earlier: Cell<Earlier>,
    /// The session is noted for the instances that follow, or can't be.
    is_noted: Cell<bool>,
    /// How often the server had forgotten the session, not told yet.
    forgotten: Cell<u64>,
    rivals: Rivals,
    /// Tokens that can't be settled any more, not told yet. Of a source that has the messages to itself the whole group is told
    /// instead: it comes again in its order.
    lost: RefCell<Vec<Vec<u8>>>,
    quiet: Cell<bool>,
}

impl Source for MqttSource {
    type Config = Config;

    async fn open(
        call: &CallInfo,
        args: &OpenArgs,
        wants: &SourceArgs,
        mut config: Config,
    ) -> Result<(Self, Opened), PluginError> {
        let deadline = Deadline::of_call(call.timeout);
        config.own.check_instances(args.instances)?;
        // The server lets one client of a name in, with as many messages as the host wants.
        config.common.connections = 1;
        config.common.window = wants.window.clamp(1, u32::from(u16::MAX));
        let group = config.own.share.is_none().then(|| config.own.client(args));
        let features: &[&str] = if group.is_some() { &ALONE } else { &SHARING };
        let pool = Pool::<Connection>::new(args, config)?;
        let connection = pool.connect(deadline).await?;
        let opened = Opened {
            peer: Some(connection.wire().version().name().to_owned()),
            tick_every: Some(connection.wire().beat.every().unwrap_or(pool.config().own.keep_alive)),
            features: features.iter().map(|feature| (*feature).to_owned()).collect(),
            ..Opened::new()
        };
        pool.put(connection, deadline).await;
        let serves = args.purpose == OpenPurpose::Serve;
        let earlier = if serves { Earlier::read(pool.endpoint().shared().client()) } else { Earlier::Unknown };
        let source = Self {
            window: pool.config().common.window,
            window_bytes: wants.window_bytes,
            pool,
            group,
            session: RefCell::default(),
            sessions: Cell::new(0),
            answered: RefCell::default(),
            earlier: Cell::new(earlier),
            is_noted: Cell::new(earlier != Earlier::Nothing),
            forgotten: Cell::new(0),
            rivals: Rivals::default(),
            lost: RefCell::default(),
            quiet: Cell::new(false),
        };
        if serves {
            source.begin(call, deadline).await?;
        }
        Ok((source, opened))
    }

    async fn pull(&self, call: &CallInfo, max: u32, max_bytes: u32, wait: u32) -> Result<Pulled, PluginError> {
        if self.quiet.get() {
            return Ok(Pulled { caught_up: false, ..Pulled::new(Vec::new()).with_notices(self.notices()) });
        }
        if !self.lost.borrow().is_empty() {
            // Before anything comes again.
            return Ok(Pulled { caught_up: false, ..Pulled::new(Vec::new()).with_notices(self.notices()) });
        }
        let deadline = Deadline::of_call(call.timeout);
        let mut session = self.take_session(call, deadline).await?;
        let wait = wait.min(deadline.left().unwrap_or_default() / 2);
        let is_all = match self.fill(&mut session, max, wait, deadline).await {
            Ok(is_all) => is_all,
            Err(error) => {
                let error = self.end(session, error, deadline).await;
                // The host has to know what is lost of a connection that is made anew by itself. Of another failure it makes an end
                // of this instance, or somebody has to act: it mustn't be passed over because something was in hand.
                return if self.lost.borrow().is_empty() || !passes_by_itself(&error) {
                    Err(error)
                } else {
                    Ok(Pulled { caught_up: false, ..Pulled::new(Vec::new()).with_notices(self.notices()) })
                };
            }
        };
        let deliveries = hand_over(&mut session.1, max, max_bytes);
        let caught_up = deliveries.is_empty() && is_all && wait > 0;
        self.session.replace(Some(session));
        Ok(Pulled { deliveries, caught_up, notices: self.notices() })
    }

    async fn settle(&self, call: &CallInfo, items: Vec<Settlement>) -> Result<Vec<Settled>, PluginError> {
        let deadline = Deadline::of_call(call.timeout);
        let Some((mut connection, mut arrivals)) = self.session.take() else {
            return Ok(vec![Settled::Lost; items.len()]);
        };
        let settled = arrivals.settle(&items);
        if let Err(error) = connection.acknowledge(&mut arrivals, deadline).await {
            return Err(self.end((connection, arrivals), error, deadline).await);
        }
        self.session.replace(Some((connection, arrivals)));
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
        match self.look_after(&mut session, deadline).await {
            Ok(()) => drop(self.session.replace(Some(session))),
            Err(error) => {
                let error = self.end(session, error, deadline).await;
                if !passes_by_itself(&error) {
                    return Err(error);
                }
            }
        }
        Ok(self.notices())
    }

    async fn quiesce(&self, _: &CallInfo) -> Result<(), PluginError> {
        // What wasn't handed over isn't acknowledged, so it stays in the server's session.
        self.quiet.set(true);
        Ok(())
    }

    async fn close(&self, call: &CallInfo) {
        if let Some((connection, _)) = self.session.take() {
            connection.close(Deadline::of_call(call.timeout).at_most(GOODBYE_MS_MAX)).await;
        }
        self.pool.close(call).await;
    }
}

impl MqttSource {
    fn keys(&self) -> &Keys {
        &self.pool.config().own
    }

    /// Takes the session up for the first time, and waits until the server has answered to the subscriptions.
    async fn begin(&self, call: &CallInfo, deadline: Deadline) -> Result<(), PluginError> {
        let mut session = self.take_session(call, deadline).await?;
        let time = deadline.at_most(self.keys().ack_timeout);
        match self.subscribe(&mut session, time).await {
            Ok(()) => {
                self.session.replace(Some(session));
                Ok(())
            }
            Err(error) => Err(self.end(session, error, deadline).await),
        }
    }

    /// A full window holds the answer back: then it is taken later.
    async fn subscribe(
        &self,
        (connection, arrivals): &mut (Connection, Arrivals),
        deadline: Deadline,
    ) -> Result<(), PluginError> {
        let own = self.keys();
        connection.subscribe(own, self.has_answered(connection), deadline).await?;
        loop {
            connection.take(arrivals, own, self.group.as_deref(), deadline).await?;
            self.note_answer(connection);
            if connection.is_subscribed() || !arrivals.has_room() {
                return Ok(());
            }
            let silent =
                || PluginError::unavailable("MQTT.ACK_TIMEOUT", "the server didn't answer to the subscription in time");
            let left = deadline.left().ok_or_else(silent)?;
            connection.listen(left, own.ack_timeout, deadline).await?;
        }
    }

    /// Whether servers have forgotten our session since this was asked last, of connections too that were never used.
    fn look_for_session(&self, server: &Address) {
        let missing = self.pool.endpoint().shared().take_missing();
        // Whoever had none before has one now.
        let earlier = self.earlier.replace(Earlier::Session);
        let forgotten = earlier.forgotten(missing);
        self.forgotten.set(self.forgotten.get() + forgotten);
        if forgotten > 0 {
            waybill_plugin::warn!(
                [("server", server)],
                "the server had forgotten our session: what waited there is gone"
            );
        } else if missing > 0 && earlier == Earlier::Unknown {
            waybill_plugin::warn!(
                [("server", server)],
                "the server has no session of ours: it is new, or forgotten with what waited there; grant `kv` to be told which"
            );
        }
    }

    /// Whether the server of this connection was the last that answered to the subscriptions.
    fn has_answered(&self, connection: &Connection) -> bool {
        self.answered.borrow().as_ref() == Some(connection.address())
    }

    fn note_answer(&self, connection: &Connection) {
        if connection.is_subscribed() && !self.has_answered(connection) {
            self.answered.replace(Some(connection.address().clone()));
            if !self.is_noted.get() {
                self.is_noted.set(history::note(self.pool.endpoint().shared().client()));
            }
        }
    }

    /// The session, on a new connection if it has none.
    async fn take_session(&self, call: &CallInfo, deadline: Deadline) -> Result<(Connection, Arrivals), PluginError> {
        if let Some(session) = self.session.take() {
            return Ok(session);
        }
        let connection = self.pool.take(call, deadline).await?;
        let before = self.sessions.get();
        self.sessions.set(before + 1);
        self.look_for_session(connection.address());
        Ok((connection, Arrivals::new(before + 1, self.window, self.window_bytes)))
    }

    /// Ends a connection that is of no more use, and answers what to tell of it. What it brought and wasn't acknowledged comes again,
    /// on another one.
    async fn end(&self, session: (Connection, Arrivals), error: PluginError, deadline: Deadline) -> PluginError {
        let (connection, arrivals) = session;
        self.lost.borrow_mut().extend(arrivals.lost());
        let error = self.rivals.ended(error, connection.age(), Connection::CODES.lost);
        self.pool.give_back(connection, Some(&error), deadline).await;
        if error.kind == ErrorKind::Fenced {
            let pause = TAKEN_OVER_MS.min(deadline.left().unwrap_or_default() / 2);
            thread::sleep(Duration::from_millis(u64::from(pause)));
        }
        error
    }

    /// Waits until something is there to be handed over, and takes what else has come. Answers whether that was all.
    async fn fill(
        &self,
        (connection, arrivals): &mut (Connection, Arrivals),
        max: u32,
        wait: u32,
        deadline: Deadline,
    ) -> Result<bool, PluginError> {
        let (own, began) = (self.keys(), Instant::now());
        connection.subscribe(own, self.has_answered(connection), deadline).await?;
        let mut has_come = false;
        loop {
            let before = arrivals.waiting();
            connection.take(arrivals, own, self.group.as_deref(), deadline).await?;
            self.note_answer(connection);
            if has_come && arrivals.waiting() == before + 1 && arrivals.has_room() {
                // More may be held back until the server knows that this one has come (Nagle's algorithm). Our system tells it some
                // 40 ms late, or at once beside something that we send.
                connection.ask(deadline).await?;
            }
            let gone = u32::try_from(began.elapsed().as_millis()).unwrap_or(u32::MAX);
            let left = if arrivals.waiting() > 0 { 0 } else { wait.saturating_sub(gone) };
            if arrivals.waiting() >= max as usize {
                return Ok(false);
            }
            if !arrivals.has_room() {
                // Full of what is in hand: settlements go first, but an end of the connection is to be seen.
                if connection.may_read_ahead() {
                    connection.listen(left.min(READ_MS_MAX), own.ack_timeout, deadline).await?;
                }
                return Ok(false);
            }
            // Bytes may come for ever, and nothing of them be kept.
            if has_come && gone >= wait.max(READ_MS_MAX) || deadline.left().is_none() {
                return Ok(false);
            }
            let pulse = connection.wire().beat.every().unwrap_or(u32::MAX);
            has_come = connection.listen(left.min(pulse), own.ack_timeout, deadline).await?;
            if !has_come && left <= pulse {
                return Ok(true);
            }
        }
    }

    /// Keeps the connection alive while nobody pulls.
    async fn look_after(
        &self,
        (connection, arrivals): &mut (Connection, Arrivals),
        deadline: Deadline,
    ) -> Result<(), PluginError> {
        let own = self.keys();
        let time = deadline.at_most(own.ack_timeout.min(deadline.left().unwrap_or_default() / 2));
        loop {
            connection.take(arrivals, own, self.group.as_deref(), deadline).await?;
            // Bytes may come for ever, and nothing of them be kept.
            let is_over = time.left().is_none() || !arrivals.has_room() && !connection.may_read_ahead();
            if is_over || !connection.listen(0, own.ack_timeout, deadline).await? {
                break;
            }
        }
        connection.ask(deadline).await
    }

    /// What the host wasn't told yet.
    fn notices(&self) -> Notices {
        let mut notices = Notices { lost: self.lost.take(), ..Notices::new() };
        if let (Some(group), false) = (&self.group, notices.lost.is_empty()) {
            notices.lost.clear();
            notices.revoked.push(group.clone());
        }
        match self.forgotten.take() {
            0 => notices,
            times => notices.with_attribute("made-anew", times.to_string()),
        }
    }
}

/// Whether another connection may do without anybody's act.
fn passes_by_itself(error: &PluginError) -> bool {
    error.kind == ErrorKind::Unavailable
}

fn hand_over(arrivals: &mut Arrivals, max: u32, max_bytes: u32) -> Vec<Delivery> {
    let (mut deliveries, mut bytes) = (Vec::new(), 0_usize);
    while deliveries.len() < max as usize {
        let room = (!deliveries.is_empty()).then(|| (max_bytes as usize).saturating_sub(bytes));
        let Some(delivery) = arrivals.next(room, max_bytes as usize) else { break };
        bytes += weight(&delivery);
        deliveries.push(delivery);
    }
    deliveries
}
