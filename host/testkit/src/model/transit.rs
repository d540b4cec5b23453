//! Commits on their way: applied and booked, given up by their sender, late; and those of clients.

use std::collections::BTreeSet;

use waybill_core::ids::ShardId;
use waybill_core::port::store::{OwnerCommit, StoreError, Write};

use super::ledger::number_of;
use super::setup::WALL_START;
use super::store::{ModelStore, Row};
use super::world::World;

/// A client's transaction with doorstep rows, not committed yet.
pub(super) struct ClientTransaction {
    pub rows: Vec<Row>,
    pub commit_at: u64,
}

impl<S: ModelStore> World<S> {
    /// Applies an owner's or a rival's commit to the store, and books it.
    pub fn apply(&mut self, commit: &OwnerCommit) -> Result<(), StoreError> {
        let (shard, current) = (commit.shard, self.ledger.record(commit.shard).token);
        let result = self.store.commit(commit);
        let now = self.now;
        self.note(|_| {
            let what: Vec<String> = commit.writes.iter().map(brief).collect();
            format!(
                "commit shard {shard} token {} beat {}->{} open {:?} {:?}: {} -> {result:?}",
                commit.record.token,
                commit.expect_beat,
                commit.record.beat,
                commit.record.open,
                commit.record.suspicion,
                what.join(" ")
            )
        });
        match &result {
            Ok(()) => {
                let next = commit.record.token;
                if next != current && (next != current + 1 || commit.expect_token != current) {
                    self.violation(format!(
                        "a stale owner of shard {shard} committed with token {next}, {current} is current"
                    ));
                }
                self.stats.commits += 1;
                self.judge_suspicion(commit);
                self.ledger.book(commit, now, &mut self.stats);
                self.judge_suspects(shard);
            }
            Err(StoreError::Conflict(_)) => self.stats.conflicts += 1,
            Err(StoreError::Exists(_)) => self.stats.id_races += 1,
            Err(StoreError::TooLarge) => self.stats.too_large += 1,
            Err(_) => {}
        }
        result
    }

    /// A commit whose sender doesn't hear of it any more.
    pub fn give_up(&mut self, commit: OwnerCommit) {
        match self.rng.below(3) {
            0 => drop(self.apply(&commit)),
            1 if !self.setup.exclusive => {
                let at = self.now + self.rng.below(150);
                self.limbo.push((at, commit));
            }
            _ => {}
        }
    }

    pub(super) fn commit_clients(&mut self) {
        let up = self.hosts.iter().any(|host| host.up);
        if self.setup.exclusive && !up {
            self.clients.clear();
        }
        let now = self.now;
        let (due, later) = std::mem::take(&mut self.clients).into_iter().partition(|client| client.commit_at <= now);
        self.clients = later;
        for client in due {
            if !self.rng.percent(95) {
                continue;
            }
            let doorsteps: BTreeSet<ShardId> = client.rows.iter().map(|row| row.shard).collect();
            self.stats.spanning += u64::from(doorsteps.len() > 1);
            for Row { shard, key, messages } in &client.rows {
                let numbers = messages.iter().map(|message| number_of(message)).collect();
                self.note(|_| format!("door of shard {shard} {key:?} {numbers:?}"));
                self.ledger.put_door(*shard, key.clone(), numbers, now, &mut self.stats);
            }
            self.store.put_door(client.rows);
            self.bell += 1;
        }
    }

    pub(super) fn commit_late(&mut self) {
        let now = self.now;
        let (due, later) = std::mem::take(&mut self.limbo).into_iter().partition::<Vec<_>, _>(|(at, _)| *at <= now);
        self.limbo = later;
        for (_, commit) in due {
            if self.rng.percent(70) && self.apply(&commit).is_ok() {
                self.stats.late += 1;
            }
        }
    }
}

/// A write in a few characters, for the trace.
fn brief(write: &Write) -> String {
    match write {
        Write::PutSegment(segment) => {
            let numbers: Vec<usize> = segment.entries.iter().map(|entry| number_of(&entry.message)).collect();
            format!("segment {}={numbers:?}", segment.first)
        }
        Write::DeleteSegment(first) => format!("-segment {first}"),
        Write::PutParked(parked) => {
            format!(
                "park {}={} due {} claimed {}",
                parked.place.seq(),
                number_of(&parked.message),
                parked.due.0.cast_signed() - WALL_START.cast_signed(),
                parked.claimed
            )
        }
        Write::DeleteParked(seq) => format!("-park {seq}"),
        Write::PutDead(dead) => format!("dead {}", number_of(&dead.message)),
        Write::PutHistory(chunk) => {
            let numbers: Vec<usize> = chunk.entries.iter().map(|done| number_of(&done.message)).collect();
            format!("history {}={numbers:?}", chunk.segment)
        }
        Write::PutScheduled(scheduled) => format!("schedule {}", number_of(&scheduled.message)),
        Write::DeleteDoor(key) => format!("-door {}", (key.nanos / 1_000_000).cast_signed() - WALL_START.cast_signed()),
        Write::ForwardDoor { shard, messages, .. } => {
            let numbers: Vec<usize> = messages.iter().map(|message| number_of(message)).collect();
            format!("carry {numbers:?} to shard {shard}")
        }
        Write::PutId { .. } => "id".to_owned(),
        other => format!("{other:?}"),
    }
}
