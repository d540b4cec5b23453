//! The way of an owner's commit: it goes in, goes in late, never, or nobody hears of it.

use waybill_core::commit::{Step, StoreAnswer};
use waybill_core::ids::ShardId;
use waybill_core::port::store::StoreError;
use waybill_core::streams::owner::{Applied, DirectAnswer, Extras, Ticket, take_answer};
use waybill_core::streams::records::{StreamCommit, StreamCommitted, StreamShardRecord};
use waybill_core::streams::rules::Rule;

use super::events::Id;
use super::host::{Life, Phase};
use super::options::Mutation;
use super::setup::FEED_KEEP;
use super::world::World;

/// A commit that goes in later.
#[derive(Debug)]
pub(super) struct Late {
    at: u64,
    commit: StreamCommit,
}

impl World {
    pub(super) fn record(&self, shard: usize) -> StreamShardRecord {
        self.store.read(|tables| tables.streams.shard(ShardId(u16::try_from(shard).unwrap())))
    }

    /// Tries a commit now.
    pub(super) fn apply(&mut self, commit: &StreamCommit) -> Result<StreamCommitted, StoreError> {
        let stored = self.record(usize::from(commit.shard.0));
        let mut commit = commit.clone();
        if self.mutation == Some(Mutation::Unguarded) {
            (commit.expect_token, commit.expect_beat) = (stored.token, stored.beat);
            commit.record.beat = stored.beat + 1;
        }
        let before = self.books_before(&commit.writes);
        let (nanos, leaves_shard) = (self.nanos(), commit.record.beat == commit.expect_beat);
        let committed = self.store.write(|tables| {
            if leaves_shard {
                // A mutation: checkpoints alone, beside the shard's record. Under snapshot isolation nothing guards what only reads it.
                commit.writes.iter().for_each(|write| tables.streams.write(commit.shard, write, nanos));
                return Ok(StreamCommitted::Applied);
            }
            tables.apply_streams(&commit, nanos)
        });
        match &committed {
            Ok(StreamCommitted::Applied) => {
                self.ledger.stats.commits += 1;
                if commit.record.token < stored.token {
                    let (old, new) = (commit.record.token, stored.token);
                    self.ledger.violation(format!("FENCED an owner of token {old} wrote, {new} stands"));
                }
                self.note_started(&commit);
                self.books_after(&commit.writes, before);
            }
            Ok(StreamCommitted::Moved(_)) => {}
            Err(_) => self.ledger.stats.conflicts += 1,
        }
        committed
    }

    pub(super) fn delay(&mut self, commit: StreamCommit, at: u64) {
        self.late.push(Late { at, commit });
    }

    /// Nobody hears of it any more.
    pub(super) fn decide_fate(&mut self, commit: StreamCommit, within: u64) {
        match self.rng.below(3) {
            0 => {
                let _unheard = self.apply(&commit);
            }
            1 => {
                let at = self.now + self.rng.below(within);
                self.delay(commit, at);
            }
            _ => {}
        }
    }

    /// What is late arrives, or is lost after all.
    pub(super) fn arrive_late(&mut self) {
        let now = self.now;
        let (due, later): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.late).into_iter().partition(|late| late.at <= now);
        self.late.extend(later);
        for late in due {
            if self.rng.percent(70) {
                let _unheard = self.apply(&late.commit);
            }
        }
    }

    /// What is under way goes on, or the next commit is made.
    pub(super) fn go_on(&mut self, host: usize, shard: usize) {
        let Some(life) = self.hosts[host].lives[shard].as_mut() else { return };
        match std::mem::replace(&mut life.phase, Phase::Idle) {
            Phase::Idle => self.build(host, shard),
            Phase::Flying { commit, at } if at > self.now => life.phase = Phase::Flying { commit, at },
            Phase::Flying { commit, .. } => {
                let committed = self.try_commit(*commit);
                let Some(life) = self.hosts[host].lives[shard].as_mut() else { return };
                if let Some(answer) = life.owner.take_committed(committed) {
                    self.answer(host, shard, answer);
                }
            }
            Phase::Reading => {
                let record = self.record(shard);
                self.answer(host, shard, StoreAnswer::Record(Ok(record)));
            }
        }
    }

    fn build(&mut self, host: usize, shard: usize) {
        let (clock, nonce, nanos) = (self.clock(), self.nonce(), self.nanos());
        let stored = self.record(shard);
        let id = ShardId(u16::try_from(shard).unwrap());
        let clean =
            self.rng.percent(10) && self.store.read(|tables| !tables.streams.door.keys().any(|key| key.0 == id));
        let act = if self.rng.percent(40) { self.draw_act(host, shard) } else { None };
        let trims = self.rng.percent(10) && stored.pos > FEED_KEEP;
        let Some(life) = self.hosts[host].lives[shard].as_mut() else { return };
        look_at_seeks(life, &self.store);
        let Some(query) = life.owner.plan(clean) else { return };
        let found = self.store.read(|tables| tables.streams.pass(id, &query, nanos));
        let kind = act.as_ref().map(|(kind, _)| *kind);
        let extras = Extras { act: act.map(|(_, act)| act), trim_feed: trims.then(|| stored.pos - FEED_KEEP) };
        let built = life.owner.build(found, extras, clock, nonce);
        let early = life.owner.unpublished().cloned();
        let late = 1 + if self.rng.one_in(9) { self.rng.below(40) } else { self.rng.below(4) };
        if let Some(commit) = built.commit {
            life.phase = Phase::Flying { commit: Box::new(commit), at: self.now + late };
        }
        if built.has_act
            && let Some(kind) = kind
        {
            kind.count(&mut self.ledger.stats);
        }
        self.take_answers(host, shard, built.answers);
        if !self.setup.rules.kept(Rule::PublishAfterCommit)
            && let Some(published) = early
        {
            self.publish(host, &published);
        }
    }

    fn try_commit(&mut self, commit: StreamCommit) -> Result<StreamCommitted, StoreError> {
        if !self.calm && self.rng.one_in(150) {
            self.ledger.stats.too_large += 1;
            return Err(StoreError::TooLarge);
        }
        if !self.calm && self.rng.percent(6) {
            self.ledger.stats.unknown += 1;
            self.decide_fate(commit, 150);
            return Err(StoreError::Unavailable("no answer came".into()));
        }
        self.apply(&commit)
    }

    fn answer(&mut self, host: usize, shard: usize, answer: StoreAnswer<StreamShardRecord>) {
        let (clock, nonce) = (self.clock(), self.nonce());
        let Some(life) = self.hosts[host].lives[shard].as_mut() else { return };
        match take_answer(&mut life.owner, answer, clock, || nonce) {
            Step::Applied(applied) => self.applied(host, shard, applied),
            Step::NotApplied(()) | Step::TooLarge(()) => {}
            Step::Read(_) => life.phase = Phase::Reading,
            Step::Barrier(barrier) => {
                life.phase = Phase::Reading;
                if !self.calm && self.rng.percent(20) {
                    let at = self.now + self.rng.below(30);
                    self.delay(*barrier, at);
                } else {
                    let _read_next = self.apply(&barrier);
                }
                self.answer(host, shard, StoreAnswer::Barrier(Ok(())));
            }
            Step::Lost => self.drop_life(host, shard),
            Step::WentBack(error) => {
                if self.mutation.is_none() {
                    self.ledger.violation(error.to_string());
                }
                self.drop_life(host, shard);
            }
        }
    }

    fn applied(&mut self, host: usize, shard: usize, applied: Applied) {
        self.take_answers(host, shard, applied.answers);
        if let Some(published) = applied.published
            && self.setup.rules.kept(Rule::PublishAfterCommit)
        {
            self.publish(host, &published);
        }
    }

    /// Callers of direct appends hear of them.
    fn take_answers(&mut self, host: usize, shard: usize, answers: Vec<(Ticket, DirectAnswer)>) {
        for (ticket, answer) in answers {
            let Some(life) = self.hosts[host].lives[shard].as_mut() else { return };
            let ids = life.tickets.remove(&ticket).unwrap();
            match answer {
                DirectAnswer::Numbered { seqs, .. } => self.check_told(&ids, &seqs),
                DirectAnswer::IdTaken(place) => {
                    self.ledger.violation(format!("ANSWER event {} is told to be another one's", ids[place]));
                }
            }
        }
    }

    fn check_told(&mut self, ids: &[Id], seqs: &[u64]) {
        if ids.len() != seqs.len() {
            self.ledger.violation(format!("ANSWER {} numbers for {} events", seqs.len(), ids.len()));
        }
        for (id, seq) in ids.iter().zip(seqs) {
            let stream = self.ledger.events[*id].stream;
            if self.ledger.by_seq[stream].get(seq) != Some(id) {
                self.ledger.violation(format!("ANSWER a caller was told number {seq} of stream {stream}"));
            }
            self.ledger.acknowledge(*id);
        }
    }
}

/// Before the next commit: what is kept of streams in which a seek waits.
fn look_at_seeks(life: &mut Life, store: &crate::memory_store::MemoryStore) {
    let beat = life.owner.record().beat;
    let names: Vec<_> = life.owner.relays().iter().map(|relay| relay.name().clone()).collect();
    for name in names {
        let Some(relay) = life.owner.relays_mut().get_mut(&name) else { continue };
        for stream in relay.seeks_wanted() {
            let slice = store.read(|tables| tables.streams.slice(&stream, 0, 0));
            relay.seek_look(&stream, &slice, beat);
        }
    }
}
