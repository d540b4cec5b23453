//! The connections of an instance: a call has one to itself for its time.

use std::cell::{Cell, RefCell};
use std::thread;
use std::time::Duration;

use waybill_plugin::deadline::Deadline;
use waybill_plugin::servers::Servers;
use waybill_plugin::transport::{CallInfo, ErrorKind, Fault, Health, HealthReport, PluginError};

use crate::connection::{Answer, Connection, Settings};
use crate::incoming::Alarms;
use crate::suspects::Suspects;

/// First pause between two rounds over all servers; doubles.
const PAUSE_MIN: Duration = Duration::from_millis(25);
/// Longest pause: while it lasts nothing else runs in this instance.
const PAUSE_MAX: Duration = Duration::from_millis(200);
/// Longest time that a call spends on connecting again, in milliseconds; at most half of what it has.
const RECONNECT_MS_MAX: u32 = 5_000;
/// When a server that has asked to wait is looked at again, in milliseconds.
const BLOCKED_AFTER_MS: u32 = 2_000;
/// Longest goodbye, in milliseconds.
const GOODBYE_MS_MAX: u32 = 1_000;

/// Idle connections, and how to make more.
pub(crate) struct Pool {
    settings: Settings,
    servers: RefCell<Servers>,
    idle: RefCell<Vec<Connection>>,
    busy: Cell<usize>,
    pub(crate) alarms: Alarms,
    pub(crate) suspects: Suspects,
}

impl Pool {
    pub(crate) fn new(settings: Settings, servers: Servers) -> Self {
        Self {
            settings,
            servers: RefCell::new(servers),
            idle: RefCell::default(),
            busy: Cell::new(0),
            alarms: Alarms::default(),
            suspects: Suspects::default(),
        }
    }

    pub(crate) fn settings(&self) -> &Settings {
        &self.settings
    }

    /// A connection that was alive a moment ago: the one that was idle longest, else a new one, tried again and again for a
    /// part of the call's time.
    ///
    /// # Errors
    /// No server takes us, or it has asked to wait.
    pub(crate) async fn take(&self, call: &CallInfo, deadline: Deadline) -> Result<Connection, PluginError> {
        // Under an alarm all of them are listened to: one of them learns when it ends.
        let count = self.idle.borrow().len();
        for _ in 0..count {
            let Some(mut connection) = self.pop_first() else { break };
            match connection.catch_up(deadline).await {
                Ok(()) if self.alarms.any() => self.idle.borrow_mut().push(connection),
                Ok(()) => return Ok(self.lend(connection)),
                Err(error) => self.drop_idle(&connection, &error),
            }
        }
        if self.alarms.any() {
            return Err(asked_to_wait(&self.why_blocked()));
        }
        let time = deadline.at_most(RECONNECT_MS_MAX.min(call.timeout / 2));
        self.reconnect(call, time).await.map(|connection| self.lend(connection))
    }

    fn lend(&self, connection: Connection) -> Connection {
        self.busy.set(self.busy.get() + 1);
        connection
    }

    /// Gives back what [`Pool::take`] gave, with the reason if it is of no more use.
    pub(crate) async fn give_back(&self, connection: Connection, lost: Option<&PluginError>, deadline: Deadline) {
        self.busy.set(self.busy.get().saturating_sub(1));
        let Some(error) = lost else { return self.put(connection, deadline).await };
        waybill_plugin::warn!(
            [("server", connection.address()), ("code", error.fault.code)],
            "connection given up: {}",
            error.fault.reason
        );
        if connection.channel_closed {
            // The server is well, one message wasn't.
            connection.close(deadline.at_most(GOODBYE_MS_MAX)).await;
        } else {
            self.servers.borrow_mut().shun(connection.address());
        }
    }

    /// Asks the server on every idle connection, one after the other; what doesn't answer is dropped. One is made if there is
    /// none.
    ///
    /// # Errors
    /// No server takes us.
    pub(crate) async fn refresh(&self, deadline: Deadline) -> Result<HealthReport, PluginError> {
        let count = self.idle.borrow().len();
        let mut trouble = None;
        for asked in 0..count {
            let Some(mut connection) = self.pop_first() else { break };
            // A silent one leaves time for those behind it.
            let time = deadline.at_most(self.settings.config.connect_timeout.min(share(deadline, count - asked)));
            match self.look_after(&mut connection, time).await {
                Ok(Ok(())) => self.put(connection, deadline).await,
                Ok(Err(refusal)) => {
                    trouble = Some(refusal.error().fault.reason);
                    self.put(connection, deadline).await;
                }
                Err(error) => self.drop_idle(&connection, &error),
            }
        }
        if self.idle.borrow().is_empty() && self.busy.get() == 0 {
            let connection = self.round(deadline).await?;
            self.put(connection, deadline).await;
        }
        if self.alarms.any() {
            return Ok(HealthReport::new(Health::Blocked, asked_to_wait(&self.why_blocked()).fault.reason));
        }
        let peer = |connection: &Connection| format!("connected to {}", connection.address());
        let peer = self.idle.borrow().first().map_or_else(|| "busy".to_owned(), peer);
        Ok(match trouble {
            Some(trouble) => HealthReport::new(Health::Degraded, format!("{peer}; {trouble}")),
            None => HealthReport::new(Health::Ready, peer),
        })
    }

    /// Connects to the first server that takes us.
    ///
    /// # Errors
    /// None does. `denied` only if each of them says so.
    pub(crate) async fn round(&self, deadline: Deadline) -> Result<Connection, PluginError> {
        let round = self.servers.borrow().round();
        let mut failed: Option<PluginError> = None;
        for (tried, address) in round.iter().enumerate() {
            // A silent server leaves time for those behind it.
            let share = share(deadline, round.len() - tried);
            let time = deadline.at_most(self.settings.config.connect_timeout.min(share));
            match Connection::open(address, &self.settings, &self.alarms, time).await {
                Ok(connection) => return Ok(connection),
                Err(error) => failed = Some(worse(failed, error)),
            }
        }
        Err(failed.unwrap_or_else(|| PluginError::unavailable("RABBITMQ.REFUSED", "there is no server to connect to")))
    }

    /// Says goodbye on every idle connection.
    pub(crate) async fn close(&self, deadline: Deadline) {
        while let Some(connection) = self.pop_first() {
            connection.close(deadline.at_most(GOODBYE_MS_MAX)).await;
        }
    }

    /// Keeps a connection that nobody has; what there are too many of is closed.
    pub(crate) async fn put(&self, connection: Connection, deadline: Deadline) {
        let full = self.idle.borrow().len() + self.busy.get() >= self.settings.config.connections as usize;
        if full {
            connection.close(deadline.at_most(GOODBYE_MS_MAX)).await;
        } else {
            self.idle.borrow_mut().push(connection);
        }
    }

    /// Hears what was said, and asks for the exchange. A server doesn't read what comes over a connection that it has asked to
    /// wait.
    async fn look_after(&self, connection: &mut Connection, time: Deadline) -> Result<Answer, PluginError> {
        connection.catch_up(time).await?;
        if connection.blocked().is_some() {
            return Ok(Ok(()));
        }
        connection.has_exchange(self.settings.routing.exchange(), time).await
    }

    async fn reconnect(&self, call: &CallInfo, deadline: Deadline) -> Result<Connection, PluginError> {
        let mut pause = PAUSE_MIN;
        loop {
            let error = match self.round(deadline).await {
                Ok(connection) => return Ok(connection),
                Err(error) => error,
            };
            if error.kind != ErrorKind::Unavailable || call.cancelled() {
                return Err(error);
            }
            match deadline.left() {
                Some(left) if Duration::from_millis(u64::from(left)) > pause => thread::sleep(pause),
                _ => return Err(error),
            }
            pause = (pause * 2).min(PAUSE_MAX);
        }
    }

    fn drop_idle(&self, connection: &Connection, error: &PluginError) {
        waybill_plugin::info!([("server", connection.address())], "idle connection ended: {}", error.fault.reason);
        self.servers.borrow_mut().shun(connection.address());
    }

    fn why_blocked(&self) -> String {
        let idle = self.idle.borrow();
        idle.iter().find_map(Connection::blocked).unwrap_or_default().to_owned()
    }

    /// The one that was put back the longest time ago: all of them stay in use, so none misses its heartbeats.
    fn pop_first(&self) -> Option<Connection> {
        let mut idle = self.idle.borrow_mut();
        (!idle.is_empty()).then(|| idle.remove(0))
    }
}

/// The server has asked to wait.
pub(crate) fn asked_to_wait(why: &str) -> PluginError {
    let why = if why.is_empty() { "a resource alarm" } else { why };
    let reason = format!("the server asks to wait: {why}");
    PluginError::new(ErrorKind::Throttled, Fault::new("RABBITMQ.BLOCKED", reason).with_after(Some(BLOCKED_AFTER_MS)))
}

/// Milliseconds for each of those that are left.
fn share(deadline: Deadline, left: usize) -> u32 {
    deadline.left().unwrap_or(0) / u32::try_from(left.max(1)).unwrap_or(u32::MAX)
}

/// Of two failures the one that says more: weather outweighs refusals, because then trying again makes sense.
fn worse(before: Option<PluginError>, now: PluginError) -> PluginError {
    match before {
        None => now,
        Some(before) if before.kind == ErrorKind::Unavailable || now.kind != ErrorKind::Unavailable => {
            join(before, &now)
        }
        Some(before) => join(now, &before),
    }
}

fn join(mut first: PluginError, second: &PluginError) -> PluginError {
    first.fault.reason = format!("{}; {}", first.fault.reason, second.fault.reason);
    first
}
