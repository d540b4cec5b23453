//! The connections of an instance: a call has one to itself for its time.

use std::cell::{Cell, RefCell};
use std::thread;
use std::time::Duration;

use waybill_plugin::transport::{CallInfo, ErrorKind, PluginError};

use crate::connection::{Connection, Settings};
use crate::deadline::Deadline;
use crate::servers::Servers;

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
            if self.is_good(&mut connection, deadline).await {
                self.busy.set(self.busy.get() + 1);
                return Ok(connection);
            }
        }
        let connection = self.reconnect(call, deadline.at_most(RECONNECT_MS_MAX.min(call.timeout / 2))).await?;
        self.busy.set(self.busy.get() + 1);
        Ok(connection)
    }

    /// Gives back what [`Pool::take`] gave, with the reason if it is of no more use.
    pub(crate) fn give_back(&self, connection: Connection, lost: Option<&PluginError>) {
        self.busy.set(self.busy.get().saturating_sub(1));
        match lost {
            None => self.idle.borrow_mut().push(connection),
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

    /// Pings every idle connection; what doesn't answer is dropped. One is made if there is none.
    ///
    /// # Errors
    /// No server takes us.
    pub(crate) async fn refresh(&self, deadline: Deadline) -> Result<String, PluginError> {
        let mut kept = Vec::new();
        while let Some(mut connection) = self.pop() {
            if !self.is_good(&mut connection, deadline).await {
                continue;
            }
            match connection.ping(deadline).await {
                Ok(()) => kept.push(connection),
                Err(error) => self.drop_idle(&connection, &error),
            }
        }
        if kept.is_empty() && self.busy.get() == 0 {
            kept.push(self.round(deadline).await?);
        }
        let peer = kept
            .first()
            .map_or_else(|| "busy".to_owned(), |connection| format!("connected to {}", connection.address()));
        self.idle.borrow_mut().extend(kept);
        Ok(peer)
    }

    /// Connects to the first server that takes us.
    ///
    /// # Errors
    /// None does. `denied` only if each of the configured ones says so.
    pub(crate) async fn round(&self, deadline: Deadline) -> Result<Connection, PluginError> {
        let mut failed: Option<PluginError> = None;
        let round = self.servers.borrow().round();
        for (tried, address) in round.iter().enumerate() {
            // A silent server leaves time for those behind it.
            let share = deadline.left().unwrap_or(0) / u32::try_from(round.len() - tried).unwrap_or(u32::MAX);
            let time = deadline.at_most(self.settings.config.connect_timeout.min(share));
            match Connection::open(address, &self.settings, time).await {
                Ok(mut connection) => {
                    self.learn(&mut connection);
                    return Ok(connection);
                }
                Err(error) if self.servers.borrow().is_configured(address) => failed = Some(worse(failed, error)),
                Err(error) => {
                    waybill_plugin::debug!([("server", address)], "not used: {}", error.fault.reason);
                    if error.kind == ErrorKind::Denied {
                        self.servers.borrow_mut().forget(address);
                    }
                }
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

    /// Keeps a connection that nobody has.
    pub(crate) fn put(&self, connection: Connection) {
        self.idle.borrow_mut().push(connection);
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

    /// Whether an idle connection can be used: it is alive, and its server isn't about to go.
    async fn is_good(&self, connection: &mut Connection, deadline: Deadline) -> bool {
        if let Err(error) = connection.catch_up(deadline).await {
            self.drop_idle(connection, &error);
            return false;
        }
        self.learn(connection);
        if connection.info().ldm {
            waybill_plugin::info!(
                [("server", connection.address())],
                "the server is about to shut down: going elsewhere"
            );
            self.servers.borrow_mut().shun(connection.address());
            return false;
        }
        true
    }

    fn drop_idle(&self, connection: &Connection, error: &PluginError) {
        waybill_plugin::info!([("server", connection.address())], "idle connection ended: {}", error.fault.reason);
        self.servers.borrow_mut().shun(connection.address());
    }

    fn learn(&self, connection: &mut Connection) {
        if connection.take_news() && self.settings.config.discover {
            let tls = connection.address().tls;
            self.servers.borrow_mut().learn(&connection.info().connect_urls, tls);
        }
    }

    fn pop(&self) -> Option<Connection> {
        self.idle.borrow_mut().pop()
    }
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
