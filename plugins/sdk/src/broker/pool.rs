//! The sessions of an instance: a call has one to itself for its time.

use std::cell::{Cell, RefCell};
use std::hash::{BuildHasher as _, RandomState};
use std::thread;
use std::time::Duration;

use super::{Address, Config, Endpoint, Keys as _, Order, Servers, Session};
use crate::deadline::Deadline;
use crate::transport::{CallInfo, ErrorKind, Health, HealthReport, OpenArgs, PluginError};

/// First pause between two rounds over all servers; doubles.
const PAUSE_MIN: Duration = Duration::from_millis(25);
/// Longest pause: while it lasts nothing else runs in this instance.
const PAUSE_MAX: Duration = Duration::from_millis(200);
/// Longest time that a call spends on connecting again, in milliseconds, where one connection may not take longer by itself.
const RECONNECT_MS_MAX: u32 = 5_000;
/// Longest goodbye, in milliseconds.
const GOODBYE_MS_MAX: u32 = 1_000;

/// Idle sessions, and how to make more.
pub struct Pool<S: Session> {
    endpoint: Endpoint<S>,
    servers: RefCell<Servers>,
    idle: RefCell<Vec<S>>,
    busy: Cell<usize>,
}

impl<S: Session> Pool<S> {
    /// Without sessions yet.
    ///
    /// # Errors
    /// The configuration can't work, or a granted secret can't be used.
    pub fn new(args: &OpenArgs, config: Config<S::Keys>) -> Result<Self, PluginError> {
        config.check()?;
        let mut servers = Servers::new(&S::Keys::SCHEME, config.addresses()?);
        if config.own.order() == Order::Random {
            servers = servers.shuffled(|| RandomState::new().hash_one(()));
        }
        Ok(Self::of(Endpoint::new(args, config)?, servers))
    }

    pub(super) fn of(endpoint: Endpoint<S>, servers: Servers) -> Self {
        Self { endpoint, servers: RefCell::new(servers), idle: RefCell::default(), busy: Cell::new(0) }
    }

    /// What its sessions share.
    pub fn endpoint(&self) -> &Endpoint<S> {
        &self.endpoint
    }

    /// What the operator set.
    pub fn config(&self) -> &Config<S::Keys> {
        self.endpoint.config()
    }

    /// A session that was alive a moment ago: an idle one, else a new one, tried again and again for a part of the call's time.
    ///
    /// # Errors
    /// No server takes us, or the broker asks to wait.
    pub async fn take(&self, call: &CallInfo, deadline: Deadline) -> Result<S, PluginError> {
        let time = deadline.at_most(reconnect_time(self.config().common.connect_timeout, call.timeout));
        let (mut left, mut moved) = (self.idle.borrow().len(), None);
        let mut next = || {
            left = left.checked_sub(1)?;
            self.pop()
        };
        while let Some(mut session) = moved.take().or_else(&mut next) {
            if let Err(error) = session.catch_up(deadline).await {
                self.drop_idle(&session, &error);
                continue;
            }
            self.learn(&mut session);
            if session.is_leaving() && !session.stays() {
                // Looked at once more: time has gone by.
                moved = Some(self.elsewhere(session, time).await);
            } else if self.asked_to_wait().is_some() {
                // All of them are listened to: one of them learns when it may go on.
                self.idle.borrow_mut().push(session);
            } else {
                return Ok(self.lend(session));
            }
        }
        match self.asked_to_wait() {
            Some(error) => Err(error),
            None => self.reconnect(call, time).await.map(|session| self.lend(session)),
        }
    }

    fn lend(&self, session: S) -> S {
        self.busy.set(self.busy.get() + 1);
        session
    }

    /// Gives back what [`Pool::take`] gave, with the reason if it is of no more use.
    pub async fn give_back(&self, session: S, lost: Option<&PluginError>, deadline: Deadline) {
        self.busy.set(self.busy.get().saturating_sub(1));
        let Some(error) = lost else { return self.put(session, deadline).await };
        crate::warn!(
            [("server", session.address()), ("code", error.fault.code)],
            "connection given up: {}",
            error.fault.reason
        );
        if session.is_server_well() {
            session.close(deadline.at_most(GOODBYE_MS_MAX)).await;
        } else {
            self.servers.borrow_mut().shun(session.address());
        }
    }

    /// The health of a plugin whose work goes over these sessions, by asking the servers.
    pub async fn health(&self, call: &CallInfo) -> HealthReport {
        match self.refresh(Deadline::of_call(call.timeout)).await {
            Ok(report) => report,
            Err(error) => HealthReport::new(Health::Down, error.fault.reason),
        }
    }

    /// Keeps the idle sessions alive.
    ///
    /// # Errors
    /// No server takes us.
    pub async fn tick(&self, call: &CallInfo) -> Result<(), PluginError> {
        self.refresh(Deadline::of_call(call.timeout)).await.map(|_| ())
    }

    /// Pings every idle session, one after the other; what doesn't answer is dropped. One is made if there is none.
    async fn refresh(&self, deadline: Deadline) -> Result<HealthReport, PluginError> {
        let count = self.idle.borrow().len();
        let mut trouble = None;
        for pinged in 0..count {
            let Some(mut session) = self.pop() else { break };
            // A silent one leaves time for those behind it.
            let time = deadline.at_most(S::ping_timeout(self.config()).min(share(deadline, count - pinged)));
            match session.ping(&self.endpoint, time).await {
                Ok(complaint) => trouble = complaint.or(trouble),
                Err(error) => {
                    self.drop_idle(&session, &error);
                    continue;
                }
            }
            self.learn(&mut session);
            if session.is_leaving() {
                session = self.elsewhere(session, time).await;
            }
            self.put(session, deadline).await;
        }
        if self.idle.borrow().is_empty() && self.busy.get() == 0 {
            let session = self.connect(deadline).await?;
            self.put(session, deadline).await;
        }
        if let Some(error) = self.asked_to_wait() {
            return Ok(HealthReport::new(Health::Blocked, error.fault.reason));
        }
        let peer = |session: &S| format!("connected to {}", session.address());
        let peer = self.idle.borrow().first().map_or_else(|| "busy".to_owned(), peer);
        Ok(match trouble {
            Some(trouble) => HealthReport::new(Health::Degraded, format!("{peer}; {trouble}")),
            None => HealthReport::new(Health::Ready, peer),
        })
    }

    /// A session with the first server that takes us, the one that was lost last after all others. It isn't the pool's until it
    /// is [`Pool::put`] there.
    ///
    /// # Errors
    /// None does. `denied` only if each of the configured ones says so.
    pub async fn connect(&self, deadline: Deadline) -> Result<S, PluginError> {
        let round = self.servers.borrow().round();
        self.connect_to(&round, deadline).await
    }

    /// Connects to the first of these.
    async fn connect_to(&self, round: &[Address], deadline: Deadline) -> Result<S, PluginError> {
        let mut failed: Option<PluginError> = None;
        for (tried, address) in round.iter().enumerate() {
            // A silent server leaves time for those behind it.
            let share = share(deadline, round.len() - tried);
            let time = deadline.at_most(self.config().common.connect_timeout.min(share));
            let mut error = match S::open(&self.endpoint, address, time).await {
                Ok(mut session) => {
                    self.learn(&mut session);
                    return Ok(session);
                }
                Err(error) => error,
            };
            error.fault.reason = format!("{address}: {}", error.fault.reason);
            if self.servers.borrow().is_configured(address) {
                failed = Some(worse(failed, error));
                continue;
            }
            let why = &error.fault.reason;
            if error.fault.code == S::CODES.tls {
                crate::warn!([("server", address)], "another server told about it; not used: {why}");
            } else {
                crate::debug!([("server", address)], "not used: {why}");
            }
            if error.kind == ErrorKind::Denied {
                self.servers.borrow_mut().forget(address);
            }
        }
        Err(failed.unwrap_or_else(|| PluginError::unavailable(S::CODES.refused, "no other server takes us")))
    }

    /// Says goodbye on every idle session.
    pub async fn close(&self, call: &CallInfo) {
        let deadline = Deadline::of_call(call.timeout);
        while let Some(session) = self.pop() {
            session.close(deadline.at_most(GOODBYE_MS_MAX)).await;
        }
    }

    /// Keeps a session that nobody has; what there are too many of is closed.
    pub async fn put(&self, session: S, deadline: Deadline) {
        let full = self.idle.borrow().len() + self.busy.get() >= self.config().common.connections as usize;
        if full {
            session.close(deadline.at_most(GOODBYE_MS_MAX)).await;
        } else {
            self.idle.borrow_mut().push(session);
        }
    }

    async fn reconnect(&self, call: &CallInfo, deadline: Deadline) -> Result<S, PluginError> {
        let mut pause = PAUSE_MIN;
        loop {
            let error = match self.connect(deadline).await {
                Ok(session) => return Ok(session),
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

    /// A session with another server for one whose server is about to shut down; the same one while no other takes us.
    async fn elsewhere(&self, mut leaving: S, deadline: Deadline) -> S {
        let address = leaving.address().clone();
        self.servers.borrow_mut().shun(&address);
        let others = self.servers.borrow().others(&address);
        match self.connect_to(&others, deadline).await {
            Ok(mut session) => {
                crate::info!([("server", address)], "the server is about to shut down: gone elsewhere");
                session.set_stays(session.is_leaving());
                session
            }
            Err(error) => {
                let why = &error.fault.reason;
                crate::warn!([("server", address)], "the server is about to shut down: used until then, {why}");
                leaving.set_stays(true);
                leaving
            }
        }
    }

    fn drop_idle(&self, session: &S, error: &PluginError) {
        crate::info!([("server", session.address())], "idle connection ended: {}", error.fault.reason);
        self.servers.borrow_mut().shun(session.address());
    }

    fn learn(&self, session: &mut S) {
        if let Some(told) = session.take_discovered(&self.endpoint) {
            self.servers.borrow_mut().learn(&told, session.address());
        }
    }

    fn asked_to_wait(&self) -> Option<PluginError> {
        S::asked_to_wait(self.endpoint.shared(), &self.idle.borrow())
    }

    /// The one that was put back the longest time ago: all of them stay in use, so none misses its heartbeats.
    fn pop(&self) -> Option<S> {
        let mut idle = self.idle.borrow_mut();
        (!idle.is_empty()).then(|| idle.remove(0))
    }
}

/// Longest time that a call spends on connecting again, in milliseconds: a server that is given longer for one connection gets it,
/// and half of the call is left for the messages.
fn reconnect_time(connect_timeout: u32, call_timeout: u32) -> u32 {
    RECONNECT_MS_MAX.max(connect_timeout).min(call_timeout / 2)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slow_server_gets_the_time_that_the_operator_gives_it() {
        assert_eq!(reconnect_time(5_000, 30_000), 5_000);
        assert_eq!(reconnect_time(12_000, 30_000), 12_000);
        assert_eq!(reconnect_time(60_000, 30_000), 15_000);
        assert_eq!(reconnect_time(1_000, 4_000), 2_000);
    }
}
