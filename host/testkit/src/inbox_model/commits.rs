//! The way of a commit: it goes in, goes in late, never, or nobody hears of it.

use waybill_core::commit::{self, Step, StoreAnswer};
use waybill_core::inbox::dlq;
use waybill_core::inbox::owner::InboxOwner;
use waybill_core::inbox::records::{InboxCommit, InboxShardRecord, SagaDoorGroup};
use waybill_core::port::store::StoreError;
use waybill_core::port::transact::DoorGroup;
use waybill_core::streams::joint::JointAppends;

use super::handlers::item_of;
use super::host::{Pending, Phase};
use super::ledger::{Booking, consumer_number};
use super::messages::number_of;
use super::options::Mutation;
use super::setup::SHARD;
use super::world::World;

/// Something that goes in later.
#[derive(Debug)]
pub(super) enum Late {
    Commit(Box<Pending>),
    /// What a mutation keeps out of its commit.
    Doors(Vec<DoorGroup>, Vec<SagaDoorGroup>),
}

impl World {
    pub(super) fn record(&self) -> InboxShardRecord {
        self.store.read(|tables| tables.inbox.shards.get(&SHARD).cloned().unwrap_or_default())
    }

    /// Tries a commit now.
    pub(super) fn apply(&mut self, pending: &Pending) -> Result<(), StoreError> {
        let stored = self.record();
        let mut commit = pending.commit.clone();
        if self.mutation == Some(Mutation::Unguarded) {
            (commit.expect_token, commit.expect_beat) = (stored.token, stored.beat);
            commit.record.beat = stored.beat + 1;
            commit.record.age = commit.record.age.max(stored.age);
        }
        let doors = self.keep_apart(&mut commit);
        self.store.apply_inbox(&commit)?;
        if commit.record.token < stored.token {
            let (old, new) = (commit.record.token, stored.token);
            self.ledger.violation(format!("STALE OWNER committed, token {old} where {new} stands"));
        }
        self.ledger.book(&pending.booking);
        if let Some(doors) = doors {
            let at = self.now + self.rng.below(30);
            self.late.push((at, doors));
        }
        Ok(())
    }

    /// Mutations: what leaves goes by itself.
    fn keep_apart(&self, commit: &mut InboxCommit) -> Option<Late> {
        let is_dlq = |message: &std::sync::Arc<waybill_core::message::Message>| message.event_type == dlq::EVENT_TYPE;
        let takes_dlq = match self.mutation? {
            Mutation::LeavingsApart => false,
            Mutation::DlqApart => true,
            _ => return None,
        };
        let mut apart = Vec::new();
        for group in &mut commit.messages {
            let (out, stay) =
                std::mem::take(&mut group.messages).into_iter().partition(|message| is_dlq(message) == takes_dlq);
            group.messages = stay;
            apart.push(DoorGroup { shard: group.shard, messages: out });
        }
        let sagas = if takes_dlq { Vec::new() } else { std::mem::take(&mut commit.sagas) };
        Some(Late::Doors(apart, sagas))
    }

    pub(super) fn delay(&mut self, pending: Pending, at: u64) {
        self.late.push((at, Late::Commit(Box::new(pending))));
    }

    /// Nobody hears of it any more.
    pub(super) fn decide_fate(&mut self, pending: Pending, within: u64) {
        match self.rng.below(3) {
            0 => {
                let _unheard = self.apply(&pending);
            }
            1 => {
                let at = self.now + self.rng.below(within);
                self.delay(pending, at);
            }
            _ => {}
        }
    }

    /// What is late arrives, or is lost after all.
    pub(super) fn arrive_late(&mut self) {
        let now = self.now;
        let (due, later): (Vec<_>, Vec<_>) = std::mem::take(&mut self.late).into_iter().partition(|(at, _)| *at <= now);
        self.late = later;
        for (_, late) in due {
            if !self.rng.percent(70) {
                continue;
            }
            match late {
                Late::Commit(pending) => {
                    let _unheard = self.apply(&pending);
                }
                Late::Doors(messages, sagas) => {
                    let mut commit = Self::barrier_of(&self.record());
                    (commit.messages, commit.sagas) = (messages, sagas);
                    // By itself: whatever the shard record says.
                    self.store.write(|tables| {
                        let record = tables.inbox.shards.get(&SHARD).cloned();
                        let _unheard = tables.apply_inbox(&commit, now);
                        tables.inbox.shards.extend(record.map(|record| (SHARD, record)));
                    });
                }
            }
        }
    }

    fn barrier_of(record: &InboxShardRecord) -> InboxCommit {
        InboxCommit {
            shard: SHARD,
            expect_token: record.token,
            expect_beat: record.beat,
            record: InboxShardRecord { beat: record.beat + 1, ..record.clone() },
            writes: Vec::new(),
            seen: Vec::new(),
            done: Vec::new(),
            messages: Vec::new(),
            sagas: Vec::new(),
            events: JointAppends::default(),
        }
    }

    pub(super) fn build(&mut self, host: usize) {
        let (clock, nonce) = (self.clock(), self.nonce());
        let late = self.now + 1 + if self.rng.one_in(9) { self.rng.below(40) } else { self.rng.below(4) };
        let Some(life) = self.hosts[host].life.as_mut().filter(|life| matches!(life.phase, Phase::Idle)) else {
            return;
        };
        let open = Self::open_takes(&life.owner);
        let expired = life.owner.counts().orphans_expired;
        let made = life.owner.build(clock, nonce);
        if life.owner.counts().orphans_expired > expired {
            self.judge_expired(host);
        }
        let Some(commit) = made else { return };
        let Some(life) = self.hosts[host].life.as_mut() else { return };
        let store = &self.store;
        let dead = |seq| {
            let dead = store.read(|tables| tables.inbox.dead.get(&(SHARD, seq)).cloned())?;
            Some((consumer_number(dead.consumer.as_str()), number_of(&dead.message)))
        };
        let booking = self.ledger.read(&commit, &open, &life.answers, dead);
        life.phase = Phase::Flying { pending: Box::new(Pending { commit, booking }), at: late };
    }

    /// What is under way goes on.
    pub(super) fn go_on(&mut self, host: usize) {
        let Some(life) = self.hosts[host].life.as_mut() else { return };
        match std::mem::replace(&mut life.phase, Phase::Idle) {
            Phase::Idle => {}
            Phase::Flying { pending, at } if at > self.now => life.phase = Phase::Flying { pending, at },
            Phase::Flying { pending, .. } => {
                let answer = self.try_commit(*pending);
                self.answer(host, answer);
            }
            Phase::Reading => {
                let record = self.record();
                self.answer(host, StoreAnswer::Record(Ok(record)));
            }
        }
    }

    fn try_commit(&mut self, pending: Pending) -> StoreAnswer<InboxShardRecord> {
        if !self.calm && self.rng.one_in(150) {
            self.ledger.stats.too_large += 1;
            self.ledger.left_too_much(&pending.booking);
            return StoreAnswer::Committed(Err(StoreError::TooLarge));
        }
        if !self.calm && self.rng.percent(6) {
            self.ledger.stats.unknown += 1;
            self.decide_fate(pending, 60);
            return StoreAnswer::Committed(Err(StoreError::Unavailable("no answer came".into())));
        }
        if !self.calm && pending.commit.events.has_exact() && self.rng.one_in(12) {
            self.ledger.stats.conflicts += 1;
            return StoreAnswer::Committed(Err(StoreError::Conflict("the head of a stream".into())));
        }
        let applied = self.apply(&pending);
        if let Err(StoreError::Appends(refused)) = &applied {
            self.ledger.stats.refused += refused.len() as u64;
            let of = |place: &usize| pending.commit.events.list.get(*place).and_then(|joint| item_of(joint.append()));
            refused.iter().filter_map(|(place, _)| of(place)).for_each(|item| self.ledger.fails(item));
        }
        StoreAnswer::Committed(applied)
    }

    fn answer(&mut self, host: usize, answer: StoreAnswer<InboxShardRecord>) {
        let (clock, nonce) = (self.clock(), self.nonce());
        let Some(life) = self.hosts[host].life.as_mut() else { return };
        match commit::take_answer::<InboxOwner>(&mut life.owner, answer, clock, || nonce) {
            Step::Applied(_) | Step::NotApplied(()) | Step::TooLarge(()) => life.phase = Phase::Idle,
            Step::Read(_) => life.phase = Phase::Reading,
            Step::Barrier(barrier) => {
                life.phase = Phase::Reading;
                let pending = Pending { commit: *barrier, booking: Booking::default() };
                if !self.calm && self.rng.percent(20) {
                    let at = self.now + self.rng.below(30);
                    self.delay(pending, at);
                } else {
                    let _read_next = self.apply(&pending);
                }
                self.answer(host, StoreAnswer::Barrier(Ok(())));
            }
            Step::Lost => self.drop_life(host),
            Step::WentBack(error) => {
                if self.mutation != Some(Mutation::Unguarded) {
                    self.ledger.violation(error.to_string());
                }
                self.drop_life(host);
            }
        }
    }
}
