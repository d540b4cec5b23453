//! The connections of an instance: a call has one to itself for its time.

use std::cell::{Cell, RefCell};
use std::thread;
use std::time::Duration;

use waybill_plugin::deadline::Deadline;
use waybill_plugin::servers::Servers;
use waybill_plugin::transport::{CallInfo, ErrorKind, PluginError};

use crate::connection::{Connection, Settings};

/// First pause between two rounds over all servers; doubles.
const PAUSE_MIN: Duration = Duration::from_millis(25);
/// Longest pause: while it lasts nothing else runs in this instance.
const PAUSE_MAX: Duration = Duration::from_millis(200);
/// Longest time that a call spends on connecting again, in milliseconds; at most half of what it has.
const RECONNECT_MS_MAX: u32 = 5_000;

/// Idle connections, and how to make more.
pub(crate) struct Pool {
    settings: Settings,
    servers: RefCell<Servers>,
    idle: RefCell<Vec<Connection>>,
    busy: Cell<usize>,
}

impl Pool {
    pub(crate) fn new(settings: Settings, servers: Servers) -> Self {
        Self { settings, servers: RefCell::new(servers), idle: RefCell::default(), busy: Cell::new(0) }
    }

    pub(crate) fn settings(&self) -> &Settings {
        &self.settings
    }

    /// A connection that was alive a moment ago: an idle one, else a new one, tried again and again for a part of the
    /// call's time.
    ///
    /// # Errors
    /// No server takes us.
    pub(crate) async fn take(&self, call: &CallInfo, deadline: Deadline) -> Result<Connection, PluginError> {
        while let Some(mut connection) = self.pop() {
            match connection.catch_up().await {
                Ok(()) => return Ok(self.lend(connection)),
                Err(error) => self.drop_idle(&connection, &error),
            }
        }
        let time = deadline.at_most(RECONNECT_MS_MAX.min(call.timeout / 2));
        self.reconnect(call, time).await.map(|connection| self.lend(connection))
    }

    fn lend(&self, connection: Connection) -> Connection {
        self.busy.set(self.busy.get() + 1);
        connection
    }

    /// Gives back what [`Pool::take`] gave, with the reason if it is of no more use.
    pub(crate) fn give_back(&self, connection: Connection, lost: Option<&PluginError>) {
        self.busy.set(self.busy.get().saturating_sub(1));
        match lost {
            None => self.put(connection),
            Some(error) => {
                waybill_plugin::warn!(
                    [("server", connection.address()), ("code", error.fault.code)],
                    "connection given up: {}",
                    error.fault.reason
                );
                self.servers.borrow_mut().shun(connection.address());
            }
        }
    }

    /// Pings every idle connection, one after the other; what doesn't answer is dropped. One is made if there is none.
    ///
    /// # Errors
    /// No server takes us.
    pub(crate) async fn refresh(&self, deadline: Deadline) -> Result<String, PluginError> {
        let count = self.idle.borrow().len();
        for pinged in 0..count {
            let Some(mut connection) = self.pop_first() else { break };
            // A silent one leaves time for those behind it.
            let time = deadline.at_most(self.settings.config.ack_timeout.min(share(deadline, count - pinged)));
            match connection.ping(time).await {
                Ok(()) => self.put(connection),
                Err(error) => self.drop_idle(&connection, &error),
            }
        }
        if self.idle.borrow().is_empty() && self.busy.get() == 0 {
            let connection = self.round(deadline).await?;
            self.put(connection);
        }
        let peer = |connection: &Connection| format!("connected to {}", connection.address());
        Ok(self.idle.borrow().first().map_or_else(|| "busy".to_owned(), peer))
    }

    /// Connects to the first server that takes us, the one that was lost last after all others.
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
            match Connection::open(address, &self.settings, time).await {
                Ok(connection) => return Ok(connection),
                Err(error) => failed = Some(worse(failed, error)),
            }
        }
        Err(failed.unwrap_or_else(|| PluginError::internal("no server is configured")))
    }

    /// Says goodbye on every idle connection.
    pub(crate) async fn close(&self) {
        while let Some(connection) = self.pop() {
            connection.close().await;
        }
    }

    /// Keeps a connection that nobody has; what there are too many of is closed.
    pub(crate) fn put(&self, connection: Connection) {
        let mut idle = self.idle.borrow_mut();
        if idle.len() + self.busy.get() < self.settings.config.connections as usize {
            idle.push(connection);
        }
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

    fn pop(&self) -> Option<Connection> {
        self.idle.borrow_mut().pop()
    }

    /// The one that was put back the longest time ago.
    fn pop_first(&self) -> Option<Connection> {
        let mut idle = self.idle.borrow_mut();
        (!idle.is_empty()).then(|| idle.remove(0))
    }
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
