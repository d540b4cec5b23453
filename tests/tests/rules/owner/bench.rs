//! An owner on the in-memory store, driven by hand: time, commits and sends happen when a test says so.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::FutureExt;
use waybill_core::annotation::Annotation;
use waybill_core::ids::{MessageId, Place, ShardId};
use waybill_core::limits::SchedulerLimits;
use waybill_core::new_message::{Draft, NewMessage};
use waybill_core::outbox::owner::{
    Adopted, Applied, Built, Command, CommandError, DirectRequest, DoorPage, ExistingId, LoadRequest, Owner,
    OwnerConfig, Resolution, Routing, Rules, Sending, Settlement, TakeoverInput, Ticket, TransportId, Verdict,
    takeover, takeover_reads,
};
use waybill_core::outbox::records::{AttemptOutcome, AttemptRecord, DeadLetter, Done, DoorKey, Parked, content_digest};
use waybill_core::outbox::suspicion::Caution;
use waybill_core::port::store::{OwnerCommit, OwnerStore, StoreError};
use waybill_core::port::transport::{Fault, Receipt};
use waybill_core::route::{Pattern, Route, Routes};
use waybill_core::time::{Monotonic, Now, UnixMillis};
use waybill_testkit::memory_store::{MemoryStore, Tables};

pub const SHARD: ShardId = ShardId(0);
pub const WALL: u64 = 1_700_000_000_000;

pub fn now_or<T>(call: impl Future<Output = Result<T, StoreError>>) -> T {
    call.now_or_never().unwrap().unwrap()
}

/// A message to `bus:<name>`; its name is its `correlation_id`.
pub fn message(name: &str) -> NewMessage {
    NewMessage {
        topic: format!("bus:{name}"),
        payload: Bytes::from(name.to_owned()),
        annotations: [(Annotation::CorrelationId, name)].into(),
        ..NewMessage::default()
    }
}

pub fn keyed(name: &str, key: &str) -> NewMessage {
    NewMessage { key: Some(key.to_owned()), ..message(name) }
}

pub fn of_tenant(name: &str, tenant: &str) -> NewMessage {
    NewMessage { tenant: Some(tenant.to_owned()), ..message(name) }
}

pub struct Bench {
    pub store: MemoryStore,
    pub owner: Owner,
    pub config: OwnerConfig,
    /// Milliseconds since the start.
    pub at: u64,
    nonce: u64,
}

pub fn config() -> OwnerConfig {
    let routes = Routes(vec![Route::new(Pattern::parse("bus:**").unwrap(), "t")]);
    OwnerConfig {
        shard: SHARD,
        host: "host".to_owned(),
        shards: 1,
        limits: SchedulerLimits::default(),
        owner_ttl: Duration::from_secs(15),
        parked_per_tenant: 100,
        dead_holds_key: false,
        tx_events: false,
        weights: BTreeMap::new(),
        routing: Arc::new(Routing { routes, transports: vec!["t".to_owned()], lanes: vec![1], external: None }),
        rates: Arc::default(),
        caution: Caution::default(),
        rules: Rules::default(),
    }
}

fn take_over(store: &MemoryStore, config: &OwnerConfig, now: Now, nonce: u64, lived: bool) -> Owner {
    let record = now_or(store.shard(SHARD));
    let open = now_or(store.segments(SHARD, &takeover_reads(&record)));
    let claimed = now_or(store.parked(SHARD, None, 1_000)).into_iter().filter(|parked| parked.claimed).collect();
    let input = TakeoverInput {
        shard: SHARD,
        host: "host".to_owned(),
        record,
        open,
        claimed,
        commit_bytes: config.limits.commit_bytes,
        dead_holds_key: config.dead_holds_key,
        tx_events: config.tx_events,
        lived,
        rules: Rules::default(),
    };
    let commit = takeover(input, now.wall, nonce);
    store.apply(&commit).unwrap();
    assert!(commit.record.open.is_empty(), "no test here needs several commits");
    let adopted = Adopted {
        record: commit.record,
        parked: now_or(store.parked(SHARD, None, 1_000)),
        held: now_or(store.held_keys(SHARD)),
    };
    Owner::new(config.clone(), adopted, now.mono, now)
}

impl Bench {
    pub fn new() -> Self {
        Self::with(config())
    }

    pub fn with(config: OwnerConfig) -> Self {
        let store = MemoryStore::new();
        let now = Now { wall: UnixMillis(WALL), mono: Monotonic(Duration::ZERO) };
        let owner = take_over(&store, &config, now, 1, false);
        let mut bench = Self { store, owner, config, at: 0, nonce: 1 };
        bench.load();
        bench
    }

    pub fn now(&self) -> Now {
        Now { wall: UnixMillis(WALL + self.at), mono: Monotonic(Duration::from_millis(self.at)) }
    }

    pub fn pass_time(&mut self, millis: u64) {
        self.at += millis;
        self.owner.tick(self.now());
    }

    /// The owner's process dies and another takes over.
    pub fn crash(&mut self) {
        self.nonce += 1;
        self.owner = take_over(&self.store, &self.config, self.now(), self.nonce, false);
        self.load();
    }

    /// The owner's process takes the shard over from itself.
    pub fn lose(&mut self) {
        self.nonce += 1;
        self.owner = take_over(&self.store, &self.config, self.now(), self.nonce, true);
        self.load();
    }

    pub fn draft(&self, new: NewMessage) -> Draft {
        new.check(self.now().wall, 1 << 20).unwrap()
    }

    pub fn ask(&mut self, messages: Vec<NewMessage>) -> Ticket {
        self.nonce += 1;
        let ticket = Ticket(self.nonce);
        let messages = messages.into_iter().map(|new| self.draft(new)).collect();
        self.owner.enqueue(DirectRequest { ticket, messages, arrived: self.now().mono });
        ticket
    }

    /// Enqueues and commits; the ids.
    pub fn enqueue(&mut self, messages: Vec<NewMessage>) -> Vec<MessageId> {
        self.ask(messages);
        self.commit().enqueued.into_iter().flat_map(|(_, ids)| ids).collect()
    }

    /// Puts one client's rows on the doorstep, stamped now; ids that start with `door-` aren't callers'.
    pub fn door(&mut self, messages: Vec<NewMessage>) {
        for new in messages {
            self.nonce += 1;
            let draft = self.draft(new);
            let id = MessageId::new(format!("door-{}", self.nonce)).unwrap();
            let key = DoorKey { nanos: self.nanos(), ordinal: 0, ulid: format!("{:08}", self.nonce) };
            self.store.put_door(SHARD, key, Ok(vec![draft.finish(|| id)]));
        }
    }

    pub fn nanos(&self) -> u64 {
        (WALL + self.at) * 1_000_000
    }

    /// Reads what the next commit needs.
    pub fn prepare(&mut self) {
        let now = self.now();
        if self.owner.wants_scheduled(now) {
            let page = now_or(self.store.scheduled_due(SHARD, now.wall, 100));
            self.owner.scheduled_page(page);
        }
        let request = self.owner.door_pass(0, self.nanos(), now);
        let rows =
            now_or(self.store.door(SHARD, request.from_nanos, request.until_nanos, request.after, request.limit));
        let complete = rows.len() < request.limit;
        let messages: Vec<_> = rows.iter().filter_map(|row| row.content.as_ref().ok()).flatten().cloned().collect();
        let named: Vec<_> = messages.iter().map(|message| (message.tenant.clone(), message.id.clone())).collect();
        let found = now_or(self.store.ids(&named));
        let existing = messages
            .iter()
            .zip(found)
            .map(|(message, record)| {
                record.map(|record| ExistingId { same: record.content == Some(content_digest(message)), record })
            })
            .collect();
        self.owner.door_page(DoorPage { rows, complete, existing });
    }

    pub fn build(&mut self) -> Built {
        self.nonce += 1;
        self.owner.build(self.now(), self.nonce)
    }

    /// Builds one commit and applies it, if there is anything to commit.
    pub fn commit_one(&mut self) -> (Option<OwnerCommit>, Applied) {
        self.prepare();
        let built = self.build();
        assert!(built.refused.is_empty(), "{:?}", built.refused);
        let Some(commit) = built.commit else { return (None, Applied::default()) };
        self.store.apply(&commit).unwrap();
        let applied = self.owner.committed(self.now());
        self.owner.check_invariants().unwrap();
        (Some(commit), applied)
    }

    /// The commit that is out never goes in, and a barrier proves it.
    pub fn give_up(&mut self) {
        self.owner.commit_failed();
        self.prove_not_applied();
    }

    /// What follows a failed commit until it is known that it didn't go in.
    pub fn prove_not_applied(&mut self) {
        let record = now_or(self.store.shard(SHARD));
        let Resolution::Barrier(barrier) = self.owner.resolve(&record, self.now(), 7) else { panic!() };
        self.store.apply(&barrier).unwrap();
        let record = now_or(self.store.shard(SHARD));
        assert!(matches!(self.owner.resolve(&record, self.now(), 8), Resolution::NotApplied));
    }

    /// Commits until there is nothing more to commit; what callers are told.
    pub fn commit(&mut self) -> Applied {
        let mut all = Applied::default();
        loop {
            self.load();
            let (commit, applied) = self.commit_one();
            if commit.is_none() {
                return all;
            }
            all.enqueued.extend(applied.enqueued);
            all.commands.extend(applied.commands);
            all.settled.extend(applied.settled);
        }
    }

    pub fn load(&mut self) {
        while let Some(request) = self.owner.next_load() {
            let now = self.now();
            match &request {
                LoadRequest::Directory { from, limit } => {
                    let page = now_or(self.store.directory(SHARD, *from, *limit));
                    self.owner.directory_page(page, *from, *limit);
                }
                LoadRequest::Segments { firsts, .. } => {
                    let page = now_or(self.store.segments(SHARD, firsts));
                    self.owner.segments_page(&request, page, now);
                }
            }
        }
        self.owner.check_invariants().unwrap();
    }

    /// What can be sent now, at most `limit`.
    pub fn take(&mut self, limit: usize) -> Vec<Sending> {
        self.owner.take(TransportId(0), 0, limit, 1 << 20, self.now())
    }

    pub fn take_names(&mut self, limit: usize) -> Vec<String> {
        names(&self.take(limit))
    }

    pub fn settle(&mut self, sending: &Sending, verdict: Verdict) -> bool {
        let attempt = attempt(&verdict);
        self.owner.settle(sending.seq, sending.epoch, Settlement { verdict, attempt }, self.now())
    }

    /// Takes one message, which has to have this name, and settles it.
    pub fn send_one(&mut self, name: &str, verdict: Verdict) -> Sending {
        let sending = self.take(1);
        assert_eq!(names(&sending), [name]);
        assert!(self.settle(&sending[0], verdict));
        sending.into_iter().next().unwrap()
    }

    pub fn command(&mut self, command: Command) -> Result<(), CommandError> {
        self.nonce += 1;
        self.owner.command(Ticket(self.nonce), command)
    }

    pub fn retry_in(&self, millis: u64) -> Verdict {
        let delay = Duration::from_millis(millis);
        Verdict::Retry { due: self.now().wall.plus(delay), delay, fault: Fault::new("HTTP.503", "busy") }
    }

    pub fn read<T>(&self, look: impl FnOnce(&Tables) -> T) -> T {
        self.store.read(look)
    }

    pub fn parked(&self) -> Vec<Arc<Parked>> {
        now_or(self.store.parked(SHARD, None, 1_000))
    }

    pub fn dead(&self) -> Vec<Arc<DeadLetter>> {
        self.read(|tables| tables.dead.values().cloned().collect())
    }

    /// Everything in the history, in order of the segments.
    pub fn history(&self) -> Vec<Done> {
        self.read(|tables| tables.history.values().flat_map(|chunk| chunk.entries.clone()).collect())
    }

    pub fn place_of(&self, id: &MessageId) -> Place {
        waybill_core::ids::place_of(id.as_str()).unwrap()
    }
}

pub fn ack() -> Verdict {
    Verdict::Ack(Receipt::default())
}

pub fn dead() -> Verdict {
    Verdict::Dead(Fault::new("HTTP.400", "refused"))
}

pub fn blocked() -> Verdict {
    Verdict::Blocked { scope: String::new(), fault: Fault::new("HTTP.401", "refused") }
}

fn attempt(verdict: &Verdict) -> AttemptRecord {
    let outcome = match verdict {
        Verdict::Ack(_) => AttemptOutcome::Delivered,
        Verdict::Retry { .. } => AttemptOutcome::Retry,
        Verdict::Dead(_) => AttemptOutcome::Dead,
        Verdict::Blocked { .. } => AttemptOutcome::Blocked,
        _ => AttemptOutcome::Released,
    };
    AttemptRecord {
        at: UnixMillis(WALL),
        took_ms: 1,
        outcome,
        worker: "host".into(),
        transport: "t".into(),
        plugin: None,
        code: None,
        reason: None,
        maybe_delivered: false,
    }
}

pub fn names(sending: &[Sending]) -> Vec<String> {
    sending.iter().map(|sending| sending.message.annotation(Annotation::CorrelationId).unwrap().to_owned()).collect()
}
