//! Clients: foreign transactions that stamp early and commit late, and requests straight to a host.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use waybill_core::annotation::Annotation;
use waybill_core::ids::{MessageId, ShardId, Tenant};
use waybill_core::message::Message;
use waybill_core::new_message::{Draft, NewMessage};
use waybill_core::outbox::records::DoorKey;
use waybill_core::time::UnixMillis;

use super::host::DirectAsk;
use super::known::{Known, Spot};
use super::ledger::number_of;
use super::setup::{TOPICS, WALL_START};
use super::store::{ModelStore, Row};
use super::transit::ClientTransaction;
use super::world::World;

/// Messages of one run.
const MESSAGES_MAX: usize = 100;
/// Largest payload of the model.
const PAYLOAD_BYTES_MAX: usize = 1 << 20;

impl<S: ModelStore> World<S> {
    /// A new message of a transaction whose statement for it runs at `begin`.
    fn new_draft(&mut self, transaction: u64, index: u64, begin: u64) -> Option<Draft> {
        let number = self.ledger.known.len();
        let wall = WALL_START + begin;
        let mut tenant = ["big", "mid", "small"]
            .get([0, 0, 0, 1, 1, 2].get(usize::try_from(self.rng.below(6)).ok()?).copied()?)?
            .to_string();
        let mut key = self.rng.percent(85).then(|| if self.rng.percent(50) { 0 } else { self.rng.below(5) });
        let mut topic = TOPICS.get(usize::try_from(self.rng.below(3)).ok()?)?.to_string();
        let mut content = number as u64;
        let mut id = None;
        if self.rng.percent(12) {
            id = Some(format!("caller-{number}"));
            // Now and then somebody repeats an id, with the same message or with another.
            let earlier: Vec<usize> = (0..number).filter(|n| self.callers_id(*n).is_some()).collect();
            if self.rng.percent(40)
                && let Some(other) = self.rng.pick(&earlier).copied()
            {
                id = self.callers_id(other).map(|id| id.as_str().to_owned());
                let known = self.ledger.get(other)?;
                tenant = known.tenant.as_str().to_owned();
                key = known.key;
                let same = known.content;
                if self.setup.shards() > 1 && self.rng.percent(30) {
                    // Another key makes it another message, which may well be of another shard.
                    key = Some(self.rng.below(5));
                } else if self.rng.percent(70) {
                    content = same;
                }
            }
        }
        if id.is_some() {
            topic = TOPICS.first()?.to_string();
        }
        let scheduled = self.rng.percent(8).then(|| self.rng.below(200));
        let expires = self.rng.percent(4).then(|| scheduled.unwrap_or(0) + 20 + self.rng.below(150));
        let draft = NewMessage {
            topic,
            payload: Bytes::from(format!("content {content}")),
            id: id.clone(),
            tenant: Some(tenant),
            key: key.map(|key| format!("key-{key}")),
            not_before: scheduled.map(|after| UnixMillis(wall + after)),
            expires_at: expires.map(|after| UnixMillis(wall + after)),
            annotations: [(Annotation::CorrelationId, number.to_string())].into(),
            ..NewMessage::default()
        }
        .check(UnixMillis(wall), PAYLOAD_BYTES_MAX)
        .ok()?;
        self.ledger.known.push(Known {
            tenant: Tenant::new(draft.message.tenant.as_str()).ok()?,
            id: id.and_then(|id| MessageId::new(id).ok()),
            key,
            begin,
            commit: None,
            transaction,
            index,
            joins_late: draft.message.not_before.is_some(),
            poison: self.rng.one_in(40),
            trial_kills: 0,
            content,
            spot: Spot::Nowhere,
            place: None,
            end: None,
            attempts: Vec::new(),
            replays: 0,
            in_history: 0,
            purged: false,
            via_door: false,
            unreadable: false,
        });
        self.stats.messages += 1;
        Some(draft)
    }

    /// The id that a client chose for a message.
    fn callers_id(&self, number: usize) -> Option<MessageId> {
        self.ledger.get(number).and_then(|known| known.id.clone()).filter(|id| id.as_str().starts_with("caller-"))
    }

    pub(super) fn clients_act(&mut self) {
        if self.ledger.known.len() >= MESSAGES_MAX {
            return;
        }
        if self.rng.one_in(12) {
            self.foreign_transaction();
        }
        if self.rng.one_in(15) {
            let transaction = self.fresh();
            let count = 1 + self.rng.below(2);
            let drafts = (0..count).filter_map(|index| self.new_draft(transaction, index, self.now)).collect();
            self.ask(drafts, transaction);
        }
    }

    /// Stamps now and in a moment, commits later: in between others overtake it.
    fn foreign_transaction(&mut self) {
        let transaction = self.fresh();
        let mut at = self.now;
        let mut rows: Vec<Row> = Vec::new();
        let skew = self.rng.below(self.setup.skew_ms.max(1));
        let statements = 1 + self.rng.below(3);
        let mut index = 0;
        for _ in 0..statements {
            let group = if self.rng.percent(20) { 2 } else { 1 };
            let mut drafts = Vec::new();
            for _ in 0..group {
                let Some(draft) = self.new_draft(transaction, index, at) else { return };
                index += 1;
                drafts.push(draft);
            }
            // What no key orders may be stamped by the database itself, which knows of no other stamps.
            let is_ordered = drafts.iter().any(|draft| draft.message.key.is_some());
            let nanos = if is_ordered { self.stamp(at + skew) } else { self.clock_at(at + skew) };
            let ordinal = rows.iter().filter(|row| row.key.nanos == nanos).count();
            let drafts = self.doorsteps(drafts, transaction);
            rows.extend(self.rows(drafts, nanos, u32::try_from(ordinal).unwrap_or(0)));
            if self.rng.percent(30) {
                let later = self.rng.below(15);
                // A process that never stamps back can't be asked for stamps of later.
                at += if self.are_stamps_of_one_process() { 0 } else { later };
            }
        }
        let late = if self.rng.percent(30) { self.rng.below(250) } else { self.rng.below(6) };
        self.clients.push(ClientTransaction { rows, commit_at: at + late });
    }

    /// Each message with the shard on whose doorstep it is left. Now and then somebody leaves all of them on one, whose owner has
    /// to carry them to theirs; what comes later may be sequenced before them.
    fn doorsteps(&mut self, drafts: Vec<Draft>, spread: u64) -> Vec<(ShardId, Draft)> {
        let shards = self.setup.shards();
        let stray = shards > 1 && self.rng.percent(8);
        let stray = stray.then(|| ShardId(u16::try_from(self.rng.below(u64::from(shards))).unwrap_or(0)));
        let mut placed = Vec::new();
        for draft in drafts {
            let home = shard_of(&draft, spread, shards);
            let shard = stray.unwrap_or(home);
            if shard != home
                && let Some(known) = self.ledger.known.get_mut(number_of(&draft.message))
            {
                known.joins_late = true;
            }
            placed.push((shard, draft));
        }
        placed
    }

    /// The doorstep rows of messages: one a shard.
    fn rows(&mut self, placed: Vec<(ShardId, Draft)>, nanos: u64, ordinal: u32) -> Vec<Row> {
        let mut doorsteps: BTreeMap<ShardId, Vec<Arc<Message>>> = BTreeMap::new();
        for (shard, draft) in placed {
            let unique = self.fresh();
            doorsteps.entry(shard).or_default().push(draft.finish(|| door_id(unique)));
        }
        let mut rows = Vec::new();
        for (shard, messages) in doorsteps {
            let (random, unique) = (self.rng.next(), self.fresh());
            let key = DoorKey { nanos, ordinal, ulid: format!("{random:016x}{unique}") };
            rows.push(Row { shard, key, messages });
        }
        rows
    }

    /// A request to some host. The owner takes it into its next commit, if it is of one shard that this host owns; else one
    /// transaction puts it on the doorsteps.
    fn ask(&mut self, drafts: Vec<Draft>, spread: u64) {
        let index = usize::try_from(self.rng.below(self.hosts.len() as u64)).unwrap_or(0);
        let now = self.now;
        let Some(host) = self.hosts.get_mut(index).filter(|host| host.up && host.pause_until <= now) else { return };
        let shards = host.shards;
        let placed: Vec<(ShardId, Draft)> =
            drafts.into_iter().map(|draft| (shard_of(&draft, spread, shards), draft)).collect();
        let homes: BTreeSet<ShardId> = placed.iter().map(|(shard, _)| *shard).collect();
        let mut actors = host.actors.iter_mut();
        if let Some(actor) = actors.find(|actor| homes.iter().eq([&actor.shard]) && actor.driver().is_some()) {
            actor.mail.push(DirectAsk { drafts: placed.into_iter().map(|(_, draft)| draft).collect() });
            return;
        }
        let nanos = self.stamp(now);
        let rows = self.rows(placed, nanos, 0);
        let commit_at = now + self.rng.below(30);
        self.clients.push(ClientTransaction { rows, commit_at });
    }

    /// A pause of the model in the clocks' unit.
    pub(super) fn millis(steps: u64) -> Duration {
        Duration::from_millis(steps)
    }
}

/// The shard of a message as a client finds it that goes by so many shards.
fn shard_of(draft: &Draft, spread: u64, shards: u16) -> ShardId {
    let message = &draft.message;
    let caller_id = (!draft.needs_id).then_some(&message.id);
    ShardId::of(&message.tenant, message.key.as_ref(), caller_id, spread, shards)
}

/// What an enqueuer that isn't the owner calls a message.
fn door_id(unique: u64) -> MessageId {
    match MessageId::new(format!("door-{unique}")) {
        Ok(id) => id,
        Err(_) => waybill_core::ids::host_made_id(waybill_core::ids::Place {
            shard: ShardId::default(),
            segment: waybill_core::ids::Seq(unique),
            index: 0,
        }),
    }
}
