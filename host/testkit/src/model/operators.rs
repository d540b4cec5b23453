//! Operators: commands now and then, and in the calm phase the way out of held keys.

use std::collections::BTreeMap;
use std::sync::Arc;

use waybill_core::ids::ShardId;
use waybill_core::outbox::owner::{Command, Routing};
use waybill_core::time::UnixMillis;

use super::driver::Driver;
use super::host::Host;
use super::known::Spot;
use super::ledger::{At, at};
use super::setup::{ROUTES, WALL_START, routing};
use super::store::ModelStore;
use super::world::World;

impl<S: ModelStore> World<S> {
    /// Reads up and queues commands while no commit is out, as the contract says.
    pub(super) fn operators_act(&mut self, host: &Host, driver: &mut Driver) {
        if self.calm {
            // Nothing else frees a key that a dead letter holds.
            if self.rng.one_in(20)
                && let Some(at) = self.ledger.held.values().map(|(at, ..)| *at).find(|at| at.0 == driver.owner.shard())
                && let Some(dead) = self.store.dead_letter(at)
            {
                self.command(driver, Command::Purge(dead));
            }
            return;
        }
        if !self.rng.one_in(25) {
            return;
        }
        for _ in 0..1 + self.rng.below(2) {
            let number = usize::try_from(self.rng.below(self.ledger.known.len() as u64)).unwrap_or(0);
            if let Some(command) = self.wish(host, driver.owner.shard(), number) {
                self.command(driver, command);
            }
        }
    }

    /// Puts other routes in force now and then, and those of the beginning in the calm phase.
    pub(super) fn operators_reroute(&mut self, host: &Host, driver: &mut Driver) {
        let number = match self.calm {
            true => 0,
            false if self.setup.reroutes && self.rng.one_in(150) => self.rng.below(ROUTES),
            false => return,
        };
        let external = self.setup.config.routing.external;
        let routing = Arc::new(Routing { external, ..routing(number) });
        if routing == driver.owner.config().routing {
            return;
        }
        self.note(|_| format!("routes {number}"));
        self.stats.reroutes += 1;
        self.setup.config.routing = Arc::clone(&routing);
        driver.owner.reroute(routing, BTreeMap::new(), self.now_at(host));
        let owner = &driver.owner;
        let is_ended = |at: &At, of: u64, nonce: u64| {
            (at.0, of) == (owner.shard(), owner.token()) && owner.leased(at.1, nonce).is_none()
        };
        self.leases.retain(|at, (of, nonce)| !is_ended(at, *of, *nonce));
    }

    fn command(&mut self, driver: &mut Driver, command: Command) {
        let ticket = driver.ticket();
        self.note(|_| format!("command {command:?}"));
        if driver.owner.command(ticket, command).is_err() {
            self.stats.refused += 1;
        }
    }

    /// What operators may want of a message, if it is one of this shard.
    fn wish(&mut self, host: &Host, shard: ShardId, number: usize) -> Option<Command> {
        let known = self.ledger.get(number)?.clone();
        if known.spot.shard().is_some_and(|of| of != shard) {
            return None;
        }
        // Operators go by the true time.
        let wall = if self.setup.clock_steps { UnixMillis(WALL_START + self.now) } else { self.now_at(host).wall };
        let later = wall.plus(Self::millis(self.rng.below(60)));
        match known.spot {
            Spot::Segment(place) => {
                let segment = self
                    .store
                    .segments(shard, &[place.segment])
                    .into_iter()
                    .next()
                    .and_then(|stored| stored.segment.ok());
                Some(Command::Cancel { place, segment })
            }
            Spot::Parked(place) if self.rng.percent(50) => Some(Command::Cancel { place, segment: None }),
            Spot::Parked(place) => Some(Command::RescheduleParked { place, due: later }),
            Spot::Scheduled(_, due) => {
                let id = known.id.as_ref()?.as_str();
                let rows = self.store.scheduled_due(shard, due, usize::MAX);
                let scheduled = rows.due.into_iter().find(|scheduled| scheduled.message.id.as_str() == id)?;
                Some(match self.rng.percent(50) {
                    true => Command::CancelScheduled(scheduled),
                    false => Command::Reschedule { scheduled, due: later },
                })
            }
            Spot::Dead(place) => {
                let dead = self.store.dead_letter(at(place))?;
                match self.rng.below(3) {
                    0 if known.replays < 2 => Some(Command::Replay { dead, by: Some("operation".into()) }),
                    1 => Some(Command::Quarantine { dead, note: "by hand".to_owned() }),
                    _ => Some(Command::Purge(dead)),
                }
            }
            _ => None,
        }
    }
}
