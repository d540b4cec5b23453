//! Time, commits, deaths and operators.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use waybill_core::commit::{self, Step, StoreAnswer};
use waybill_core::ids::{ShardId, Tenant};
use waybill_core::port::saga::{ActedBy, RetryMode, SagaAct};
use waybill_core::port::saga_store::Acquired;
use waybill_core::port::store::StoreError;
use waybill_core::saga::definition::{DefinitionSet, default_retry};
use waybill_core::saga::id::{SagaId, SagaKey};
use waybill_core::saga::json::Json;
use waybill_core::saga::limits::SagaLimits;
use waybill_core::saga::machine::Rules;
use waybill_core::saga::records::{SagaCommit, SagaShardRecord};
use waybill_core::saga::shard::{
    NewSaga, SagaCommand, SagaEffect, SagaReply, SagaShard, SagaShardConfig, Ticket, is_same_start,
};
use waybill_core::saga::state::StepWait;
use waybill_core::time::{Now, UnixMillis};

use super::Outcome;
use super::calls::Underway;
use super::ledger::{Definitions, Ledger};
use crate::memory_store::MemoryStore;
use crate::model::rng::Rng;

const SHARD: ShardId = ShardId(0);
/// Turns of the calm phase after which a saga counts as stuck for ever.
const CALM_TURNS_MAX: u64 = 40_000;

/// A saga that a client wants.
#[derive(Debug)]
pub(super) struct Wanted {
    pub key: SagaKey,
    pub definitions: Arc<DefinitionSet>,
    input: Json,
    /// A client was told that it runs.
    known: bool,
}

pub(super) struct World {
    pub rng: Rng,
    rules: Rules,
    pub store: MemoryStore,
    pub shard: Option<SagaShard>,
    pub now: UnixMillis,
    /// Lives of the host so far.
    pub life: u64,
    pub calm: bool,
    definitions: Vec<Arc<DefinitionSet>>,
    pub by_hash: Definitions,
    pub ledger: Ledger,
    pub underway: Vec<Underway>,
    pub wanted: Vec<Wanted>,
    target: u64,
    /// What operators did: key and name of the act.
    pub acts: BTreeSet<(SagaKey, &'static str)>,
    tickets: HashMap<Ticket, usize>,
    nonce: u64,
    /// A commit that may still arrive.
    held: Option<SagaCommit>,
    unknown: u64,
    /// Commits whose events were refused.
    refused: u64,
}

impl World {
    pub fn new(seed: u64, target: u64, rules: Rules) -> Self {
        let mut rng = Rng::new(seed);
        let definitions = super::definitions::make(&mut rng);
        let all = definitions.iter().map(|set| (set.root().hash.clone(), Arc::clone(set.root())));
        Self {
            by_hash: all.collect(),
            rng,
            rules,
            store: MemoryStore::new(),
            shard: None,
            now: UnixMillis(1_800_000_000_000),
            life: 0,
            calm: false,
            definitions,
            ledger: Ledger::default(),
            underway: Vec::new(),
            wanted: Vec::new(),
            target,
            acts: BTreeSet::new(),
            tickets: HashMap::new(),
            nonce: 1,
            held: None,
            unknown: 0,
            refused: 0,
        }
    }

    pub fn run(mut self) -> Outcome {
        self.take_over();
        let turns = self.target * 40;
        for _ in 0..turns {
            self.turn();
        }
        self.calm = true;
        let mut left = CALM_TURNS_MAX;
        while left > 0 && !self.is_over() {
            left -= 1;
            self.calm_turn();
        }
        let ends = self.audit();
        Outcome {
            violations: self.ledger.violations,
            sagas: self.wanted.len() as u64,
            calls: self.ledger.calls,
            deaths: self.life - 1,
            unknown: self.unknown,
            refused: self.refused,
            ends,
        }
    }

    fn turn(&mut self) {
        match self.rng.below(100) {
            0..12 => self.want(),
            12..40 => self.come_back(),
            40..60 => self.pass_time(),
            60..90 => self.commit(),
            90..93 => self.operate(),
            93..95 => self.want_again(),
            95..96 => self.die(),
            _ => {
                // The clock of a host may be set back.
                let back = self.rng.below(3_000);
                let past = UnixMillis(self.now.0 - back);
                let random = self.random();
                if let Some(shard) = &mut self.shard {
                    shard.tick(past, random);
                }
            }
        }
        self.effects();
    }

    fn calm_turn(&mut self) {
        self.want_missing();
        self.come_back();
        self.commit();
        self.effects();
        self.help();
        self.commit();
        self.effects();
        self.pass_time();
    }

    fn is_over(&self) -> bool {
        let idle = self.shard.as_ref().is_some_and(|shard| shard.stats().running == 0 && !shard.has_work());
        idle && self.held.is_none()
            && self.wanted.len() as u64 >= self.target
            && self.wanted.iter().all(|wanted| wanted.known)
    }

    pub(super) fn random(&mut self) -> f64 {
        f64::from(u32::try_from(self.rng.below(1 << 20)).unwrap_or(0)) / f64::from(1 << 20)
    }

    fn pass_time(&mut self) {
        let next = self.shard.as_ref().and_then(SagaShard::next_due);
        let next = self.underway.iter().map(|back| back.at).chain(next).min();
        let step = Duration::from_millis(1 + self.rng.below(200));
        self.now = match next {
            Some(next) if self.rng.percent(60) || self.calm => next.max(self.now.plus(Duration::from_millis(1))),
            _ => self.now.plus(step),
        };
        let random = self.random();
        if let Some(shard) = &mut self.shard {
            shard.tick(self.now, random);
        }
    }

    // Clients.

    fn want(&mut self) {
        if self.wanted.len() as u64 >= self.target {
            return;
        }
        let number = self.wanted.len();
        let definitions = Arc::clone(self.rng.pick(&self.definitions).unwrap());
        let key = SagaKey { tenant: Tenant::unnamed(), id: SagaId::root(&format!("saga-{number}")).unwrap() };
        let input = Json::parse(&format!("{{\"n\":{number}}}")).unwrap();
        self.wanted.push(Wanted { key, definitions, input, known: false });
        self.start(number);
    }

    /// Sends a start again, that of a saga that is known to run included.
    fn want_again(&mut self) {
        let number = usize::try_from(self.rng.below(self.wanted.len() as u64)).unwrap_or(0);
        if number < self.wanted.len() {
            self.start(number);
        }
    }

    fn want_missing(&mut self) {
        self.want();
        let missing: Vec<usize> = (0..self.wanted.len()).filter(|number| !self.wanted[*number].known).collect();
        missing.into_iter().for_each(|number| self.start(number));
    }

    fn start(&mut self, number: usize) {
        let Some(beat) = self.shard.as_ref().map(|shard| shard.record().beat) else { return };
        let wanted = &mut self.wanted[number];
        let key = (SHARD, wanted.key.clone());
        if let Some(row) = self.store.read(|tables| tables.sagas.done.get(&key).cloned()) {
            let root = wanted.definitions.root();
            if !is_same_start(&row.tree, &root.name, None, &wanted.input) {
                self.ledger.violation(format!("{}: its start isn't known as the same", wanted.key.id));
            }
            wanted.known = true;
            return;
        }
        let (key, definitions) = (wanted.key.clone(), Arc::clone(&wanted.definitions));
        let new = NewSaga::new(key, definitions, wanted.input.clone(), default_retry());
        let new = NewSaga { caller_id: true, looked_up: Some(beat), ..new };
        let ticket = Ticket(self.nonce());
        self.tickets.insert(ticket, number);
        let (now, random) = (self.now, self.random());
        if let Some(shard) = &mut self.shard {
            shard.submit(Some(ticket), SagaCommand::Start(Box::new(new)), now, random);
        }
    }

    pub(super) fn submit(&mut self, command: SagaCommand) {
        let (now, random) = (self.now, self.random());
        if let Some(shard) = &mut self.shard {
            shard.submit(None, command, now, random);
        }
        self.effects();
    }

    // The host.

    fn nonce(&mut self) -> u64 {
        self.nonce += 1;
        self.nonce
    }

    fn effects(&mut self) {
        let effects = self.shard.as_mut().map(SagaShard::take_effects).unwrap_or_default();
        for effect in effects {
            match effect {
                SagaEffect::Call(call) => self.called(*call),
                SagaEffect::Reply { ticket, result } => {
                    let Some(number) = self.tickets.remove(&ticket) else {
                        self.ledger.violation("a caller was answered twice".to_owned());
                        continue;
                    };
                    if let Ok(SagaReply::Started { .. }) = result {
                        self.wanted[number].known = true;
                    }
                }
                SagaEffect::Began { .. } | SagaEffect::Moved { .. } => {}
            }
        }
    }

    /// What the store says of a commit.
    fn apply(&mut self, commit: &SagaCommit) -> Result<(), StoreError> {
        self.store.apply_sagas(commit)?;
        self.ledger.committed(commit);
        for message in commit.messages.iter().flat_map(|group| &group.messages) {
            self.enqueued(message);
        }
        Ok(())
    }

    fn commit(&mut self) {
        let nonce = self.nonce();
        let Some(shard) = &mut self.shard else { return self.take_over() };
        let Some(commit) = shard.build(nonce) else { return };
        match if self.calm { 0 } else { self.rng.below(100) } {
            0..76 => {
                match self.apply(&commit) {
                    Ok(()) => {}
                    Err(error @ StoreError::Appends(_)) => {
                        self.refused += 1;
                        return self.take_answer(StoreAnswer::Committed(Err(error)));
                    }
                    Err(error) => {
                        self.ledger.violation(format!("a commit was refused though nobody else writes: {error}"));
                    }
                }
                // It may die before it hears of it.
                if !self.calm && self.rng.one_in(40) {
                    return self.die();
                }
                return self.take_answer(StoreAnswer::Committed(Ok(())));
            }
            76..84 => {
                let _unheard = self.apply(&commit);
            }
            84..87 if commit.events.has_exact() => {
                let error = StoreError::Conflict("the head of a stream".to_owned());
                return self.take_answer(StoreAnswer::Committed(Err(error)));
            }
            // A store that takes less than was asked of it: what was together goes one by one.
            90..92
                if commit.journal.first().map(|entry| &entry.key) != commit.journal.last().map(|entry| &entry.key) =>
            {
                return self.take_answer(StoreAnswer::Committed(Err(StoreError::TooLarge)));
            }
            84..92 => {}
            _ => self.held = Some(commit),
        }
        self.unknown += 1;
        if self.rng.one_in(8) {
            return self.die();
        }
        self.take_answer(StoreAnswer::Committed(Err(StoreError::Unavailable("the model doesn't say".to_owned()))));
    }

    /// Does what follows an answer, until it is known what became of the commit.
    fn take_answer(&mut self, mut answer: StoreAnswer<SagaShardRecord>) {
        loop {
            let (now, nonce) = (Now { wall: self.now, ..Now::default() }, self.nonce());
            let Some(shard) = &mut self.shard else { return };
            answer = match commit::take_answer(shard, answer, now, || nonce) {
                Step::Applied(()) | Step::NotApplied(()) | Step::TooLarge(None) => break,
                Step::TooLarge(Some(key)) => {
                    self.ledger.violation(format!("saga {key} stands still though it wasn't alone"));
                    break;
                }
                Step::Read(_) => {
                    if self.rng.percent(30) {
                        self.arrive();
                    }
                    let stored = self.store.read(|tables| tables.sagas.shards.get(&SHARD).copied());
                    StoreAnswer::Record(Ok(stored.unwrap_or_default()))
                }
                Step::Barrier(barrier) => {
                    if self.rng.percent(30) {
                        self.arrive();
                    }
                    if self.rng.percent(80) {
                        let _read_next = self.apply(&barrier);
                    }
                    StoreAnswer::Barrier(Ok(()))
                }
                Step::Lost => {
                    self.ledger.violation("the shard was lost though nobody else writes".to_owned());
                    return self.die();
                }
                Step::WentBack(error) => {
                    self.ledger.violation(error.to_string());
                    return self.die();
                }
            };
        }
        self.arrive();
    }

    /// The commit that was held back arrives, if its guard still holds.
    fn arrive(&mut self) {
        if let Some(held) = self.held.take() {
            let _late = self.apply(&held);
        }
    }

    /// The host dies, and another takes over.
    fn die(&mut self) {
        self.shard = None;
        self.tickets.clear();
        self.ledger.open.clear();
        if self.rng.percent(50) {
            self.arrive();
        }
        self.take_over();
        self.arrive();
    }

    fn take_over(&mut self) {
        self.life += 1;
        let nonce = self.nonce();
        let Acquired::Taken(takeover) = self.store.acquire_sagas(SHARD, self.life, nonce) else {
            return self.ledger.violation("a higher token lost".to_owned());
        };
        let limits = SagaLimits {
            rest_after: Duration::from_millis(300),
            journal_records_max: 30,
            checkpoints_max: 3,
            ..SagaLimits::default()
        };
        let config =
            SagaShardConfig { shard: SHARD, tx_events: Some("model".into()), limits, rules: self.rules, died: true };
        let random = self.random();
        let lookup = |hash: &_| self.by_hash.get(hash).cloned();
        let restored = SagaShard::restore(config, *takeover, lookup, self.now, random);
        for broken in restored.broken {
            self.ledger.violation(format!("{} can't be restored: {}", broken.key, broken.reason));
        }
        self.shard = Some(restored.shard);
    }

    // Operators.

    fn act(&mut self, key: &SagaKey, act: SagaAct) {
        self.acts.insert((key.clone(), act.name()));
        let by = ActedBy { actor: "test".to_owned(), note: None };
        self.submit(SagaCommand::Act { key: key.clone(), act, by });
    }

    fn operate(&mut self) {
        let Some(key) = self.rng.pick(&self.wanted).map(|wanted| wanted.key.clone()) else { return };
        match self.rng.below(20) {
            0..3 => self.act(&key, SagaAct::Pause),
            3..6 => self.act(&key, SagaAct::Resume),
            6..8 => self.act(&key, SagaAct::Cancel),
            8 => self.act(&key, SagaAct::Kill),
            9 => {
                let step = format!("s{}", self.rng.below(6));
                self.act(&key, SagaAct::Skip { step });
            }
            10 => {
                let step = Some(format!("s{}", self.rng.below(6)));
                self.act(&key, SagaAct::Retry { step, mode: RetryMode::Compensate });
            }
            _ => self.help(),
        }
    }

    /// Decides what waits for a person.
    fn help(&mut self) {
        for number in 0..self.wanted.len() {
            let key = self.wanted[number].key.clone();
            let Some((tree, _)) = self.shard.as_ref().and_then(|shard| shard.tree(&key)) else { continue };
            let approvals: Vec<SagaKey> = tree
                .sagas
                .iter()
                .filter(|saga| {
                    saga.steps
                        .iter()
                        .any(|step| matches!(step.wait, Some(StepWait::For(waybill_core::saga::event::Wait::Approval))))
                })
                .map(|saga| SagaKey { id: saga.id.clone(), ..key.clone() })
                .collect();
            for id in approvals {
                let (step, since) = (None, None);
                let approved = self.rng.percent(80);
                let act = if approved { SagaAct::Approve { step, since } } else { SagaAct::Reject { step, since } };
                self.act(&id, act);
            }
            if tree.stuck().is_some() {
                let mode = if self.rng.percent(20) { RetryMode::Retry } else { RetryMode::Compensate };
                let act = if self.rng.percent(25) { SagaAct::Accept } else { SagaAct::Retry { step: None, mode } };
                self.act(&key, act);
            } else if tree.paused.is_some() {
                let mode = RetryMode::Compensate;
                let act = match self.rng.below(10) {
                    0..6 => SagaAct::Retry { step: None, mode },
                    6..8 => SagaAct::Resume,
                    _ => SagaAct::Cancel,
                };
                self.act(&key, act);
            }
        }
    }
}
