//! How many messages an owner passes in a second on one core, with the in-memory store: enqueued in requests of 100,
//! claimed, sent nowhere, settled. Measures the state machine alone.
//!
//! `cargo run --release -p waybill-testkit --example owner_speed`

#![allow(clippy::print_stdout)]

use std::collections::BTreeMap;
use std::error::Error;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures::FutureExt;
use waybill_core::ids::ShardId;
use waybill_core::limits::SchedulerLimits;
use waybill_core::new_message::{Draft, NewMessage};
use waybill_core::outbox::owner::{
    Adopted, DirectRequest, LoadRequest, Owner, OwnerConfig, Routing, Rules, Settlement, TakeoverInput, Ticket,
    TransportId, Verdict, takeover,
};
use waybill_core::outbox::records::{AttemptOutcome, AttemptRecord};
use waybill_core::outbox::suspicion::Caution;
use waybill_core::port::store::OwnerStore;
use waybill_core::port::transport::Receipt;
use waybill_core::route::{Pattern, Route, Routes};
use waybill_core::time::{Monotonic, Now, UnixMillis};
use waybill_testkit::memory_store::MemoryStore;

const SHARD: ShardId = ShardId(0);
const BATCH: usize = 100;

struct Load {
    name: &'static str,
    messages: usize,
    keys: usize,
    tenants: usize,
    /// Messages are all enqueued before the first is sent.
    backlog: bool,
}

struct Bench {
    store: MemoryStore,
    owner: Owner,
    started: Instant,
    ticket: u64,
}

impl Bench {
    fn new() -> Result<Self, Box<dyn Error>> {
        let store = MemoryStore::new();
        let routes = Routes(vec![Route::new(Pattern::parse("bus:**")?, "t")]);
        let config = OwnerConfig {
            shard: SHARD,
            host: "speed".to_owned(),
            shards: 1,
            limits: SchedulerLimits::default(),
            owner_ttl: Duration::from_secs(3600),
            parked_per_tenant: 10_000,
            dead_holds_key: false,
            tx_events: true,
            weights: BTreeMap::new(),
            routing: Arc::new(Routing { routes, transports: vec!["t".to_owned()], lanes: vec![1], external: None }),
            rates: Arc::default(),
            caution: Caution::default(),
            rules: Rules::default(),
        };
        let input = TakeoverInput {
            shard: SHARD,
            host: "speed".to_owned(),
            record: store.read(|tables| tables.shard(SHARD)),
            open: Vec::new(),
            claimed: Vec::new(),
            commit_bytes: SchedulerLimits::default().commit_bytes,
            dead_holds_key: false,
            tx_events: true,
            lived: false,
            rules: Rules::default(),
        };
        let commit = takeover(input, UnixMillis(1_700_000_000_000), 1);
        store.apply(&commit)?;
        let adopted = Adopted { record: commit.record, parked: Vec::new(), held: Vec::new() };
        let started = Instant::now();
        let now = Now { wall: UnixMillis(1_700_000_000_000), mono: Monotonic(Duration::ZERO) };
        Ok(Self { store, owner: Owner::new(config, adopted, now.mono, now), started, ticket: 0 })
    }

    fn now(&self) -> Now {
        let since = self.started.elapsed();
        Now { wall: UnixMillis(1_700_000_000_000).plus(since), mono: Monotonic(since) }
    }

    fn enqueue(&mut self, drafts: Vec<Draft>) {
        self.ticket += 1;
        let arrived = self.now().mono;
        self.owner.enqueue(DirectRequest { ticket: Ticket(self.ticket), messages: drafts, arrived });
    }

    fn commit(&mut self) -> Result<(), Box<dyn Error>> {
        let now = self.now();
        self.owner.door_is_empty(now);
        if let Some(commit) = self.owner.build(now, self.ticket << 8 | 1).commit {
            self.store.apply(&commit)?;
            self.owner.committed(now);
        }
        Ok(())
    }

    fn load(&mut self) -> Result<(), Box<dyn Error>> {
        while let Some(request) = self.owner.next_load() {
            let now = self.now();
            match &request {
                LoadRequest::Directory { from, limit } => {
                    let page = self.store.directory(SHARD, *from, *limit).now_or_never().ok_or("waited")??;
                    self.owner.directory_page(page, *from, *limit);
                }
                LoadRequest::Segments { firsts, .. } => {
                    let page = self.store.segments(SHARD, firsts).now_or_never().ok_or("waited")??;
                    self.owner.segments_page(&request, page, now);
                }
            }
        }
        Ok(())
    }

    fn send(&mut self) -> usize {
        let now = self.now();
        let mut sent = 0;
        loop {
            let batch = self.owner.take(TransportId(0), 0, BATCH, 1 << 20, now);
            if batch.is_empty() {
                return sent;
            }
            sent += batch.len();
            for sending in batch {
                let attempt = AttemptRecord {
                    at: now.wall,
                    took_ms: 1,
                    outcome: AttemptOutcome::Delivered,
                    worker: "speed".into(),
                    transport: "t".into(),
                    plugin: None,
                    code: None,
                    reason: None,
                    maybe_delivered: false,
                };
                let settlement = Settlement { verdict: Verdict::Ack(Receipt::default()), attempt };
                self.owner.settle(sending.seq, sending.epoch, settlement, now);
            }
        }
    }
}

fn draft(number: usize, load: &Load) -> Result<Draft, Box<dyn Error>> {
    let new = NewMessage {
        topic: "bus:orders".to_owned(),
        payload: Bytes::from(vec![b'x'; 300]),
        tenant: Some(format!("tenant-{}", number % load.tenants)),
        key: (load.keys > 0).then(|| format!("key-{}", number % load.keys)),
        ..NewMessage::default()
    };
    Ok(new.check(UnixMillis(1_700_000_000_000), 1 << 20)?)
}

fn run(load: &Load) -> Result<(), Box<dyn Error>> {
    let mut bench = Bench::new()?;
    bench.load()?;
    let drafts: Result<Vec<Draft>, _> = (0..load.messages).map(|number| draft(number, load)).collect();
    let mut requests: Vec<Vec<Draft>> = drafts?.chunks(BATCH).map(<[Draft]>::to_vec).collect();
    requests.reverse();
    let (mut sent, began) = (0, Instant::now());
    let mut claim = Duration::ZERO;
    let mut commits = 0_u32;
    while sent < load.messages {
        for _ in 0..if load.backlog { requests.len() } else { 10 } {
            if let Some(request) = requests.pop() {
                bench.enqueue(request);
            }
        }
        while load.backlog && bench.owner.has_waiting_directs() {
            bench.commit()?;
        }
        bench.commit()?;
        bench.load()?;
        let from = Instant::now();
        sent += bench.send();
        claim += from.elapsed();
        commits += 1;
    }
    let took = began.elapsed();
    #[expect(clippy::cast_precision_loss, reason = "a rate to look at")]
    let rate = load.messages as f64 / took.as_secs_f64();
    println!(
        "{:<44} {rate:>10.0} msg/s, {commits} rounds, take and settle {:.0} %",
        load.name,
        100.0 * claim.as_secs_f64() / took.as_secs_f64()
    );
    Ok(())
}

fn main() -> Result<(), Box<dyn Error>> {
    for load in [
        Load { name: "no keys", messages: 500_000, keys: 0, tenants: 1, backlog: false },
        Load { name: "1,000 keys", messages: 500_000, keys: 1_000, tenants: 1, backlog: false },
        Load { name: "10 keys", messages: 100_000, keys: 10, tenants: 1, backlog: false },
        Load { name: "1,000 keys, 10 tenants", messages: 500_000, keys: 1_000, tenants: 10, backlog: false },
        Load { name: "1,000 tenants", messages: 300_000, keys: 0, tenants: 1_000, backlog: false },
        Load { name: "backlog of 10,000, 1,000 keys", messages: 10_000, keys: 1_000, tenants: 10, backlog: true },
        Load {
            name: "backlog of 500,000, 1,000 keys, 10 tenants",
            messages: 500_000,
            keys: 1_000,
            tenants: 10,
            backlog: true,
        },
    ] {
        run(&load)?;
    }
    Ok(())
}
