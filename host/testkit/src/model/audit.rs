//! The end of a run: everything has come to its end, and the store holds what the ledger says.

use std::collections::BTreeMap;

use waybill_core::ids::{Place, Seq, ShardId, place_of};
use waybill_core::outbox::owner::DoorPassRequest;
use waybill_core::outbox::records::IdState;

use super::known::{End, Spot};
use super::ledger::{At, at, number_of};
use super::store::ModelStore;
use super::world::World;

impl<S: ModelStore> World<S> {
    pub(super) fn audit(&mut self) {
        self.audit_ends();
        for shard in self.setup.each_shard() {
            self.audit_store(shard);
        }
        self.audit_dead();
        self.audit_ids();
        self.audit_history();
        self.audit_quarantine();
    }

    fn audit_ends(&mut self) {
        let stuck: Vec<String> = self
            .ledger
            .known
            .iter()
            .enumerate()
            .filter(|(_, known)| known.is_live())
            .map(|(number, known)| {
                format!(
                    "LOST or stuck: msg {number} tenant {} key {:?} poison {} at {:?}, {} attempts",
                    known.tenant,
                    known.key,
                    known.poison,
                    known.spot,
                    known.attempts.len()
                )
            })
            .collect();
        for text in stuck {
            self.violation(text);
        }
    }

    fn audit_store(&mut self, shard: ShardId) {
        let segments = self.store.directory(shard, Seq(0), usize::MAX);
        if !segments.is_empty() || self.ledger.segments.keys().any(|(of, _)| *of == shard) {
            self.violation(format!("finished segments of shard {shard} were left behind: {segments:?}"));
        }
        let parked: BTreeMap<At, usize> =
            self.store.parked(shard).iter().map(|parked| (at(parked.place), number_of(&parked.message))).collect();
        let booked = self.ledger.parked.iter().filter(|((of, _), _)| *of == shard);
        if parked != booked.map(|(at, (number, _))| (*at, *number)).collect() {
            self.violation(format!("parked rows {parked:?} differ from the ledger's"));
        }
        let all = DoorPassRequest { from_nanos: 0, until_nanos: u64::MAX, after: None, limit: usize::MAX };
        let door = self.store.door(shard, all).len();
        let booked = self.ledger.door.keys().filter(|(of, _)| *of == shard).count();
        if door != booked {
            self.violation(format!("{door} doorstep rows of shard {shard}, the ledger has {booked}"));
        }
        let record = self.store.shard(shard);
        if record != *self.ledger.record(shard) {
            self.violation(format!("the record of shard {shard} isn't the one that was committed last"));
        }
    }

    fn audit_dead(&mut self) {
        let dead: Vec<(At, usize)> = self.ledger.dead.iter().map(|(at, number)| (*at, *number)).collect();
        for (at, number) in dead {
            let stored = self.store.dead_letter(at).map(|dead| number_of(&dead.message));
            if stored != Some(number) {
                self.violation(format!("dead letter {at:?} holds {stored:?}, not msg {number}"));
            }
        }
    }

    /// Every id of a committed message leads to its place.
    fn audit_ids(&mut self) {
        let all: Vec<_> = self
            .ledger
            .known
            .iter()
            .enumerate()
            .filter(|(_, known)| known.commit.is_some() && known.end != Some(End::Repeat))
            .filter_map(|(number, known)| {
                Some((number, known.tenant.clone(), known.id.clone()?, known.spot.clone(), known.place))
            })
            .collect();
        for (number, tenant, id, spot, place) in all {
            if self.ledger.holder(&tenant, &id) != Some(number) {
                continue;
            }
            let row = self.store.ids(&[(tenant, id.clone())]).into_iter().next().flatten();
            let found: Option<Place> = match &row {
                Some(row) => match row.state {
                    IdState::At(place) => Some(place),
                    IdState::Scheduled { .. } => None,
                },
                None => place_of(id.as_str()).filter(|place| place.shard.0 < self.setup.shards()),
            };
            let is_right = match (&spot, &row) {
                (Spot::Scheduled(shard, due), Some(row)) => {
                    row.state == IdState::Scheduled { shard: *shard, due: *due }
                }
                (Spot::Door(..), _) => true,
                _ => found.is_some() && found == place,
            };
            if !is_right {
                self.violation(format!("id {id} of msg {number} at {spot:?} leads to {row:?} {found:?}"));
            }
        }
    }

    /// What was delivered is in the history exactly once, nothing else is.
    fn audit_history(&mut self) {
        let mut seen: BTreeMap<usize, u32> = BTreeMap::new();
        for chunk in self.setup.each_shard().flat_map(|shard| self.store.history(shard)) {
            for done in &chunk.entries {
                *seen.entry(number_of(&done.message)).or_default() += 1;
            }
        }
        let wrong: Vec<String> = self
            .ledger
            .known
            .iter()
            .enumerate()
            .filter_map(|(number, known)| {
                // The history of what was delivered is written with its segment.
                let is_aside = known.spot == Spot::Quarantined;
                let expected = u32::from(matches!(known.end, Some(End::Finished(_))) && !is_aside);
                let stored = if known.purged { 0 } else { expected };
                let found = seen.get(&number).copied().unwrap_or(0);
                (found != stored || known.in_history != expected)
                    .then(|| format!("msg {number} ended as {:?} and is in the history {found} times", known.end))
            })
            .collect();
        for text in wrong {
            self.violation(text);
        }
    }
}
