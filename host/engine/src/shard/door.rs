//! The doorstep, where transactions and other hosts leave messages: when to look, and what a look reads.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::Instant;
use waybill_core::ids::{MessageId, Tenant};
use waybill_core::outbox::owner::{DoorPage, ExistingId};
use waybill_core::outbox::records::content_digest;
use waybill_core::port::store::StoreError;

use super::Context;
use super::actor::Actor;

/// A pass at a wake-up begins this far before now: a transaction open for longer loses order, never delivery.
const LATE_WINDOW: Duration = Duration::from_secs(2);
/// A full pass follows this often.
const FULL_PASS_EVERY: Duration = Duration::from_secs(1);
/// And this often while this process knows of nothing that lies there: a client of the same database may know more.
const QUIET_PASS_EVERY: Duration = Duration::from_secs(30);

/// When the doorstep is to be looked at.
#[derive(Debug, Default)]
pub(super) struct DoorWatch {
    /// Something may lie on it.
    knocked: bool,
    /// Doorstep commits of this process that the last pass covered; none = no pass yet.
    covered: Option<u64>,
    /// Those that the pass under way covers.
    covering: u64,
    full_at: Option<Instant>,
    /// Doorstep commits known at the last full pass.
    full_covered: Option<u64>,
    polled_at: Option<Instant>,
    /// Who waits for a pass that hasn't begun.
    waiting: Vec<oneshot::Sender<()>>,
    /// Who waits for the end of the pass under way.
    in_pass: Vec<oneshot::Sender<()>>,
}

impl DoorWatch {
    pub fn knock(&mut self) {
        self.knocked = true;
    }

    /// Answers when everything that lies there now has been taken in.
    pub fn wait(&mut self, reply: oneshot::Sender<()>) {
        self.knock();
        self.waiting.push(reply);
    }

    /// What a pass had taken was given up with its commit: everything is to be looked at again.
    pub fn look_again(&mut self) {
        self.knocked = true;
        self.covered = None;
        self.full_at = None;
        self.full_covered = None;
        self.waiting.append(&mut self.in_pass);
    }

    /// How long until the doorstep should be looked at by itself.
    pub fn next_look(&self, context: &Context) -> Duration {
        let until = |at: Option<Instant>, every: Duration| {
            at.map_or(Duration::ZERO, |at| (at + every).saturating_duration_since(Instant::now()))
        };
        if context.config.exclusive {
            let is_quiet = self.full_covered == Some(context.door.count());
            until(self.full_at, if is_quiet { QUIET_PASS_EVERY } else { FULL_PASS_EVERY })
        } else {
            until(self.polled_at, context.config.poll_interval)
        }
    }
}

impl Actor {
    pub(super) fn wants_door_pass(&self) -> bool {
        let due = || self.door.next_look(&self.context).is_zero();
        let rung = || self.context.config.exclusive && self.door.covered != Some(self.context.door.count());
        self.owner.in_door_pass() || self.door.knocked || self.door.covered.is_none() || rung() || due()
    }

    pub(super) async fn look_at_door(&mut self) -> Result<(), StoreError> {
        if !self.wants_door_pass() {
            if !self.owner.has_waiting_directs() {
                return Ok(());
            }
            if self.context.config.exclusive {
                self.owner.door_is_empty(self.now());
                return Ok(());
            }
        }
        // Before the clock is read: what is on the doorstep by now is covered.
        let (bell, now) = (self.context.door.count(), self.now());
        let store = Arc::clone(&self.context.stores.owner);
        let clock = store.door_clock().await?;
        let full = self.door.full_at.is_none_or(|at| at.elapsed() >= FULL_PASS_EVERY);
        if !self.owner.in_door_pass() {
            self.door.covering = bell;
            self.door.knocked = false;
            let waiting = std::mem::take(&mut self.door.waiting);
            self.door.in_pass.extend(waiting);
            if full {
                self.door.full_at = Some(Instant::now());
                self.door.full_covered = Some(bell);
            }
        }
        self.door.polled_at = Some(Instant::now());
        let from = if full { 0 } else { clock.saturating_sub(u64::try_from(LATE_WINDOW.as_nanos()).unwrap_or(0)) };
        let request = self.owner.door_pass(from, clock, now);
        let rows = store
            .door(self.owner.shard(), request.from_nanos, request.until_nanos, request.after, request.limit)
            .await?;
        let complete = rows.len() < request.limit;
        let messages: Vec<_> = rows.iter().filter_map(|row| row.content.as_ref().ok()).flatten().cloned().collect();
        let named: Vec<(Tenant, MessageId)> =
            messages.iter().map(|message| (message.tenant.clone(), message.id.clone())).collect();
        let found = if named.is_empty() { Vec::new() } else { store.ids(&named).await? };
        let existing = messages.iter().zip(found).map(|(message, record)| {
            record.map(|record| ExistingId { same: record.content == Some(content_digest(message)), record })
        });
        let existing = existing.collect();
        self.owner.door_page(DoorPage { rows, complete, existing });
        if complete {
            self.door.covered = Some(self.door.covering);
        }
        Ok(())
    }

    /// Answers those who wait for a pass, when there is none and no commit that takes in what it read.
    pub(super) fn answer_door(&mut self) {
        if self.owner.in_flight() || self.owner.in_door_pass() {
            return;
        }
        for reply in self.door.in_pass.drain(..) {
            let _gone = reply.send(());
        }
    }
}
