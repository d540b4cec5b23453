//! Signs of life, and a connection that listens where somebody notifies. Without it the host looks by the clock.

use std::cell::{Cell, RefCell};
use std::time::{Duration, Instant};

use waybill_plugin::broker::Session as _;
use waybill_plugin::deadline::Deadline;
use waybill_plugin::transport::{CallInfo, PluginError};

use crate::config::Keys;
use crate::database::Database;
use crate::table::names::quoted;
use crate::wire::{Connection, Failed, Pipeline, Statement};

/// Listens, if a channel is configured, and says when it is time for signs of life.
pub(crate) struct Listener {
    /// What is asked to listen; none = nobody notifies.
    listen: Option<Statement>,
    connection: RefCell<Option<Connection>>,
    /// A call has it.
    is_lent: Cell<bool>,
    ping_every: Duration,
    pinged: Cell<Instant>,
}

impl Listener {
    /// `listens`: not while another generation serves.
    pub(crate) fn new(keys: &Keys, listens: bool) -> Self {
        let channel = keys.listen.as_ref().filter(|_| listens);
        Self {
            listen: channel.map(|channel| Statement::new(format!("LISTEN {}", quoted(channel)))),
            connection: RefCell::default(),
            is_lent: Cell::new(false),
            ping_every: Duration::from_millis(u64::from(keys.ping_every)),
            pinged: Cell::new(Instant::now()),
        }
    }

    /// Milliseconds between two ticks: where somebody notifies, it is heard soon.
    pub(crate) fn tick_every(&self, keys: &Keys) -> u32 {
        match self.listen {
            Some(_) => keys.poll_every.min(keys.ping_every),
            None => keys.ping_every,
        }
    }

    /// Whether there is a channel.
    pub(crate) fn listens(&self) -> bool {
        self.listen.is_some()
    }

    /// Keeps connections alive and the table's description true; whether somebody notified.
    ///
    /// # Errors
    /// No server takes us.
    pub(crate) async fn tick(&self, call: &CallInfo, database: &Database) -> Result<bool, PluginError> {
        if self.pinged.get().elapsed() >= self.ping_every {
            self.pinged.set(Instant::now());
            database.pool.tick(call).await?;
            database.refresh(call).await?;
        }
        self.wait(call, database, 0).await
    }

    /// Waits for a notification, at most so many milliseconds; whether one came. Without a channel it answers at once.
    ///
    /// # Errors
    /// No server takes us.
    pub(crate) async fn wait(&self, call: &CallInfo, database: &Database, millis: u32) -> Result<bool, PluginError> {
        let Some(listen) = &self.listen else { return Ok(false) };
        if self.is_lent.replace(true) {
            return Ok(false);
        }
        let notified = self.hear(call, database, listen, millis).await;
        self.is_lent.set(false);
        notified
    }

    async fn hear(
        &self,
        call: &CallInfo,
        database: &Database,
        listen: &Statement,
        millis: u32,
    ) -> Result<bool, PluginError> {
        let deadline = Deadline::of_call(call.timeout);
        let kept = self.connection.borrow_mut().take();
        let (mut connection, is_new) = match kept {
            Some(connection) => (connection, false),
            None => (self.connect(database, listen, deadline).await?, true),
        };
        let notified = match millis {
            0 => connection.catch_up(deadline).await.map(|()| connection.take_notified()),
            millis => connection.wait(millis).await,
        };
        match notified {
            Ok(notified) => {
                self.connection.replace(Some(connection));
                // Before it listened somebody may have notified.
                Ok(notified || is_new)
            }
            Err(error) => {
                waybill_plugin::info!([("code", error.fault.code)], "listening ended: {}", error.fault.reason);
                Ok(true)
            }
        }
    }

    async fn connect(
        &self,
        database: &Database,
        listen: &Statement,
        deadline: Deadline,
    ) -> Result<Connection, PluginError> {
        let mut connection = database.pool.connect(deadline).await?;
        match connection.run(&Pipeline::new().ask(listen, Vec::new()), deadline).await {
            Ok(_) => Ok(connection),
            Err(Failed::Refused(refusal)) => Err(refusal.error()),
            Err(Failed::Lost(error)) => Err(error),
        }
    }

    /// Ends the connection that listens, if there is one.
    pub(crate) async fn close(&self, deadline: Deadline) {
        let kept = self.connection.borrow_mut().take();
        if let Some(connection) = kept {
            connection.close(deadline).await;
        }
    }
}
