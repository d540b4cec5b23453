//! Indexes over what messages hold: a look-up finds what a scan finds, whatever becomes of messages, indexes and owners, and reads little.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use waybill_core::ids::{Place, Seq};
use waybill_core::message::{Message, Payload};
use waybill_core::outbox::filter::{Contents, Filter};
use waybill_core::outbox::index::Index;
use waybill_core::outbox::records::{DeadLetter, DoneEnd, Entry, Parked, Segment};
use waybill_core::port::query::{Found, ListKind, QueryStore};
use waybill_core::port::store::{OwnerStore, Write};
use waybill_core::time::UnixMillis;
use waybill_surreal::{Bound, RecordIdKey, array, int, key};
use waybill_testkit::conformance::samples::{
    Owner, SHARD, T0, chunk, dead, done, message, parked, place, scheduled, seq, tenant,
};

use super::watched::watch;
use super::{memory, patient};
use crate::SurrealStore;
use crate::tables::{DEAD, DONE, INDEX, INDEX_SHARD, OUTBOX, PARKED};

const KINDS: [ListKind; 4] = [ListKind::Parked, ListKind::Flowing, ListKind::Scheduled, ListKind::Done];
const FAR: UnixMillis = UnixMillis(4_000_000_000_000);

fn index(tenant: &str, path: &str) -> Index {
    Index { tenant: Index::tenants(tenant).unwrap(), field: Index::field(path).unwrap() }
}

fn filter(text: &str) -> Filter {
    Filter::parse(text, T0).unwrap()
}

/// A message of a shop about an order.
fn order(name: &str, of: &str, shop: &str, number: u64) -> Message {
    Message {
        tenant: tenant(of),
        headers: vec![("X-Shop".into(), shop.to_owned()), ("x-shop".into(), "any".into())],
        payload: Payload::Inline(Bytes::from(format!("{{\"order\":{{\"id\":{number}}}}}"))),
        ..message(name)
    }
}

/// Keys of all rows of indexes.
async fn rows(store: &SurrealStore) -> Vec<RecordIdKey> {
    let (from, until) = (Bound::Included(key([int(0)])), Bound::Excluded(key([array([])])));
    let rows = store.begin(false).await.unwrap().scan(INDEX, from, until, 100_000).await.unwrap();
    rows.into_iter().map(|row| row.key).collect()
}

/// Where messages are that match, by lists that look up what they can; in pages of three.
async fn looked_up(store: &SurrealStore, kind: ListKind, filter: &Filter) -> Vec<Found> {
    let (mut found, mut cursor) = (Vec::new(), None);
    loop {
        let page = store.list(kind, filter, cursor.as_deref(), 3).await.unwrap();
        found.extend(page.items);
        cursor = page.next_cursor;
        if cursor.is_none() {
            return found;
        }
    }
}

async fn looked_up_dead(store: &SurrealStore, filter: &Filter, latest: bool) -> Vec<Arc<DeadLetter>> {
    let (mut found, mut cursor): (Vec<Arc<DeadLetter>>, Option<String>) = (Vec::new(), None);
    loop {
        let page = match latest {
            true => store.latest_dead(filter, cursor.as_deref(), 3).await.unwrap(),
            false => store.dead_letters(filter, cursor.as_deref(), 3).await.unwrap(),
        };
        found.extend(page.items);
        cursor = page.next_cursor;
        if cursor.is_none() {
            return found;
        }
    }
}

async fn looked_up_newest(store: &SurrealStore, filter: &Filter) -> Vec<Found> {
    let (mut all, mut cursor) = (Vec::new(), None);
    loop {
        let page = store.newest(&KINDS, filter, cursor.as_deref(), 3).await.unwrap();
        all.extend(page.items);
        cursor = page.next_cursor;
        if cursor.is_none() {
            return all;
        }
    }
}

/// A look-up answers what looking at everything does, in the same order.
async fn is_as_a_scan(store: &SurrealStore, text: &str, when: &str) {
    let filter = filter(text);
    let all = Filter { contents: Contents::default(), ..filter.clone() };
    for kind in KINDS {
        let mut scanned = store.list(kind, &all, None, 1_500).await.unwrap().items;
        scanned.retain(|found| filter.takes_found(found));
        assert_eq!(looked_up(store, kind, &filter).await, scanned, "{when}: {text} of {kind:?}");
    }
    let mut newest = store.newest(&KINDS, &all, None, 1_500).await.unwrap().items;
    newest.retain(|found| filter.takes_found(found));
    assert_eq!(looked_up_newest(store, &filter).await, newest, "{when}: {text} newest first");
    for latest in [true, false] {
        let page = match latest {
            true => store.latest_dead(&all, None, 1_500).await.unwrap(),
            false => store.dead_letters(&all, None, 1_500).await.unwrap(),
        };
        let scanned: Vec<_> = page.items.into_iter().filter(|dead| filter.takes_dead(dead)).collect();
        assert_eq!(looked_up_dead(store, &filter, latest).await, scanned, "{when}: {text} of dead letters");
        let counted = store.count_dead(&filter, 1_500).await.unwrap();
        assert_eq!((counted.value, counted.since), (scanned.len() as u64, None), "{when}: {text}");
    }
}

/// Where a message of the random world is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Stand {
    Flowing,
    Parked,
    Dead,
}

/// A shard whose messages go their ways at random.
struct World {
    store: SurrealStore,
    /// The same store as a process has it that knows no indexes.
    other: SurrealStore,
    owner: Owner,
    random: u64,
    open: Vec<(Place, Arc<Message>, Stand)>,
    segments: Vec<Segment>,
    now: u64,
}

impl World {
    fn new(store: SurrealStore, seed: u64) -> Self {
        let other =
            SurrealStore::over(Arc::clone(&store.engine), true, store.durability().clone(), store.shards(), None, 0);
        let random = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
        Self { store, other, owner: Owner::new(), random, open: Vec::new(), segments: Vec::new(), now: 0 }
    }

    fn any(&mut self, below: u64) -> u64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        (self.random >> 11) % below
    }

    async fn enqueue(&mut self, store: &SurrealStore) {
        self.now += 1;
        let (first, of) = (seq(self.now, 0), ["acme", "zeta"][self.any(2) as usize]);
        let mut entries = Vec::new();
        for number in 0..=self.any(4) as u16 {
            let shop = [String::from("berlin"), "rome".into(), "x".repeat(300)][self.any(3) as usize].clone();
            let message = Arc::new(order(&format!("m-{}-{number}", self.now), of, &shop, self.any(4)));
            self.open.push((place(first, number), Arc::clone(&message), Stand::Flowing));
            entries.push(Entry { index: number, message });
        }
        let segment = Segment { first, tenant: tenant(of), entries };
        self.owner.record.last = Seq(first.0 + segment.entries.len() as u64 - 1);
        self.segments.push(segment.clone());
        self.owner.commit(store, vec![Write::PutSegment(Arc::new(segment))]).await;
    }

    /// Takes a message out of its segment.
    fn leave(&mut self, at: Place) -> Write {
        let segment = self.segments.iter_mut().find(|segment| segment.first == at.segment).unwrap();
        segment.entries.retain(|entry| entry.index != at.index);
        match segment.entries.is_empty() {
            true => Write::DeleteSegment(at.segment),
            false => Write::PutSegment(Arc::new(segment.clone())),
        }
    }

    async fn settle(&mut self, store: &SurrealStore) {
        if self.open.is_empty() {
            return;
        }
        let chosen = self.any(self.open.len() as u64) as usize;
        let (at, message, stand) = self.open[chosen].clone();
        let beat = self.owner.record.beat + 1;
        let over = |end, message: Arc<Message>| {
            let done = done(at.index, message.as_ref().clone(), end);
            Write::PutHistory(Arc::new(chunk(at.segment, beat, T0, vec![done])))
        };
        let next = self.any(3);
        // A process that knows no indexes leaves rows of what it purges.
        let may_purge = !store.indexes().is_idle();
        let mut writes = vec![match stand {
            Stand::Flowing => self.leave(at),
            Stand::Parked => Write::DeleteParked(at.seq()),
            Stand::Dead => Write::DeleteDead(at.seq()),
        }];
        match (stand, next) {
            (Stand::Dead, 0) if may_purge => {
                let nothing = Payload::Inline(Bytes::new());
                let purged = Message { payload: nothing, headers: Vec::new(), ..message.as_ref().clone() };
                writes.push(over(DoneEnd::Purged, Arc::new(purged)));
                self.open.remove(chosen);
            }
            (Stand::Flowing | Stand::Parked, 0) => {
                writes.push(over(DoneEnd::Delivered, message));
                self.open.remove(chosen);
            }
            (Stand::Flowing | Stand::Parked, 1) => {
                let letter = DeadLetter { message, ..dead(at.segment, at.index, "acme", "HTTP.400") };
                writes.push(Write::PutDead(Arc::new(letter)));
                self.open[chosen].2 = Stand::Dead;
            }
            _ => {
                let row = Parked { message, ..parked(at.segment, at.index) };
                writes.push(Write::PutParked(Arc::new(row)));
                self.open[chosen].2 = Stand::Parked;
            }
        }
        self.owner.commit(store, writes).await;
    }

    /// The owner goes on with the next token, as after a restart.
    async fn take_over(&mut self, store: &SurrealStore) {
        let mut commit = self.owner.next(Vec::new());
        commit.record.token += 1;
        let record = commit.record.clone();
        store.commit(commit).await.unwrap();
        self.owner.record = record;
    }

    async fn purge(&self, store: &SurrealStore) {
        let old = store.history_before(SHARD, None, FAR, 1_000).await.unwrap();
        store.purge_history(&old, Duration::ZERO, FAR).await.unwrap();
    }

    fn choose_indexes(&mut self) {
        let all = [
            index("acme", "payload.order.id"),
            index("*", "payload.order.id"),
            index("z*", "header.x-shop"),
            index("acme", "header.x-shop"),
        ];
        let chosen = all.into_iter().filter(|_| self.any(2) == 0).collect();
        self.store.set_indexes(chosen);
    }

    /// Whoever writes next has taken the shard over, if it is another than before.
    async fn run(&mut self, steps: u64) {
        let mut by_other = false;
        for _ in 0..steps {
            let other = self.any(10) == 0;
            let store = if other { self.other.clone() } else { self.store.clone() };
            if other != by_other || self.any(20) == 0 {
                self.take_over(&store).await;
                by_other = other;
            }
            match self.any(12) {
                0..=4 => self.enqueue(&store).await,
                5..=8 => self.settle(&store).await,
                9 => self.choose_indexes(),
                10 => self.purge(&self.store).await,
                _ => {}
            }
        }
    }

    async fn check(&self, when: &str) {
        for text in [
            "tenant=acme payload.order.id=1",
            "tenant=zeta payload.order.id=2",
            "payload.order.id=3",
            "tenant=acme header.X-SHOP=berlin",
            "tenant=zeta header.x-shop=rome payload.order.id=0",
            "tenant=z* header.x-shop=any",
            "tenant=acme header.x-shop=nowhere",
            "tenant=acme payload.order.id=1*",
            &format!("tenant=acme header.x-shop={}", "x".repeat(300)),
        ] {
            is_as_a_scan(&self.store, text, when).await;
        }
    }
}

async fn goes_its_ways(store: SurrealStore, seed: u64) {
    let mut world = World::new(store, seed);
    for part in 0..6 {
        world.run(25).await;
        world.check(&format!("seed {seed}, part {part}")).await;
    }
    // All of it ends, and nothing is left of any index, whichever was asked for meanwhile.
    let store = world.store.clone();
    while !world.open.is_empty() {
        world.settle(&store).await;
    }
    store.set_indexes(Vec::new());
    world.purge(&store).await;
    assert_eq!(rows(&store).await, Vec::<RecordIdKey>::new(), "seed {seed}");
}

#[tokio::test]
async fn a_look_up_finds_what_a_scan_finds_whatever_becomes_of_messages_indexes_and_owners() {
    for seed in 1..=8 {
        goes_its_ways(memory().await, seed).await;
    }
}

#[tokio::test]
async fn on_disk_a_look_up_finds_what_a_scan_finds_too() {
    let dir = tempfile::tempdir().unwrap();
    let url = format!("surrealkv://{}", dir.path().display());
    goes_its_ways(SurrealStore::open(patient(url)).await.unwrap(), 77).await;
}

/// `count` messages with orders of their own, each in a segment of its own.
async fn orders(store: &SurrealStore, owner: &mut Owner, from: u64, count: u64) {
    for number in from..from + count {
        let message = Arc::new(order(&format!("m-{number}"), "acme", "berlin", number));
        let segment =
            Segment { first: seq(number, 0), tenant: tenant("acme"), entries: vec![Entry { index: 0, message }] };
        owner.record.last = segment.first;
        owner.commit(store, vec![Write::PutSegment(Arc::new(segment))]).await;
    }
}

#[tokio::test]
async fn a_look_up_reads_no_more_than_it_answers() {
    let (store, reads) = watch(memory().await);
    store.set_indexes(vec![index("acme", "payload.order.id")]);
    let mut owner = Owner::new();
    orders(&store, &mut owner, 0, 400).await;
    let wanted = filter("tenant=acme payload.order.id=350");
    reads.clear();
    let mut found = Vec::new();
    for kind in [ListKind::Parked, ListKind::Flowing, ListKind::Done] {
        found.extend(store.list(kind, &wanted, None, 50).await.unwrap().items);
    }
    assert!(matches!(&found[..], [Found::Flowing { place: at, .. }] if *at == place(seq(350, 0), 0)), "{found:?}");
    let read: Vec<usize> = [INDEX, OUTBOX, PARKED, DONE].iter().map(|table| reads.rows(table)).collect();
    // One row of the index for each of the three lists; the directory's row of the segment, and the segment.
    assert_eq!(read, [3, 2, 0, 0]);
    let none = store.latest_dead(&wanted, None, 50).await.unwrap();
    assert_eq!((none.items.len(), none.next_cursor, reads.rows(DEAD)), (0, None, 0));
    // Without the index it looks at all of them.
    reads.clear();
    store.list(ListKind::Flowing, &filter("tenant=acme header.x-shop=rome"), None, 50).await.unwrap();
    assert!(reads.rows(OUTBOX) >= 400, "{}", reads.rows(OUTBOX));
}

#[tokio::test]
async fn what_was_there_before_an_index_is_looked_for_and_what_came_since_is_looked_up() {
    let (store, reads) = watch(memory().await);
    let mut owner = Owner::new();
    orders(&store, &mut owner, 0, 30).await;
    store.set_indexes(vec![index("acme", "payload.order.id")]);
    orders(&store, &mut owner, 30, 100).await;
    for (number, segments) in [(7, 30), (120, 31)] {
        reads.clear();
        let wanted = filter(&format!("tenant=acme payload.order.id={number}"));
        let page = store.list(ListKind::Flowing, &wanted, None, 50).await.unwrap();
        assert_eq!((page.items.len(), page.next_cursor), (1, None), "{number}");
        // Each segment is read twice: in the directory, and by itself.
        assert_eq!(reads.rows(OUTBOX), 2 * segments, "{number}");
    }
    // One that is asked for again begins again: meanwhile nothing was indexed.
    store.set_indexes(Vec::new());
    orders(&store, &mut owner, 130, 1).await;
    store.set_indexes(vec![index("acme", "payload.order.id")]);
    orders(&store, &mut owner, 131, 1).await;
    is_as_a_scan(&store, "tenant=acme payload.order.id=130", "between two indexes").await;
}

#[tokio::test]
async fn an_index_goes_on_over_a_restart_and_ends_with_an_owner_that_does_not_know_it() {
    let store = memory().await;
    let mut world = World::new(store.clone(), 1);
    store.set_indexes(vec![index("*", "payload.order.id")]);
    let since = || async {
        let row = store.begin(false).await.unwrap().get(INDEX_SHARD, crate::tables::shard_key(SHARD)).await.unwrap();
        crate::index::shard(&crate::tables::shard_key(SHARD), &row.unwrap()).unwrap().kept[0].since
    };
    world.enqueue(&store).await;
    let begun = since().await;
    assert_eq!(begun, Seq(0));
    world.take_over(&store).await;
    world.enqueue(&store).await;
    assert_eq!(since().await, begun);
    let other = world.other.clone();
    world.take_over(&other).await;
    world.enqueue(&other).await;
    let last = world.owner.record.last;
    is_as_a_scan(&store, "payload.order.id=1", "while another owns the shard").await;
    world.take_over(&store).await;
    world.enqueue(&store).await;
    assert_eq!(since().await, last);
    is_as_a_scan(&store, "payload.order.id=1", "afterwards").await;
}

#[tokio::test]
async fn who_asks_for_no_index_pays_for_none() {
    let (store, reads) = watch(memory().await);
    let mut owner = Owner::new();
    orders(&store, &mut owner, 0, 3).await;
    let letter = Write::PutDead(Arc::new(dead(seq(9, 0), 0, "acme", "HTTP.400")));
    owner.commit(&store, vec![letter, Write::PutScheduled(Arc::new(scheduled(FAR, "later")))]).await;
    for kind in KINDS {
        store.list(kind, &filter("tenant=acme payload.order.id=1"), None, 10).await.unwrap();
    }
    store.latest_dead(&filter("tenant=acme header.x-a=1"), None, 10).await.unwrap();
    assert_eq!((reads.rows(INDEX), reads.rows(INDEX_SHARD)), (0, 0));
    let asked = reads.begins(INDEX).len();
    assert_eq!((asked, rows(&store).await.len()), (0, 0));
}

#[tokio::test]
async fn a_value_that_many_messages_have_is_looked_for() {
    let (store, reads) = watch(memory().await);
    store.set_indexes(vec![index("acme", "header.x-shop")]);
    let mut owner = Owner::new();
    let message = |number: u16| Arc::new(order(&format!("m-{number}"), "acme", "berlin", 1));
    let entries = (0..1_001).map(|number| Entry { index: number, message: message(number) }).collect();
    owner.record.last = seq(1, 1_000);
    let segment = Segment { first: seq(1, 0), tenant: tenant("acme"), entries };
    owner.commit(&store, vec![Write::PutSegment(Arc::new(segment))]).await;
    reads.clear();
    let page = store.list(ListKind::Flowing, &filter("tenant=acme header.x-shop=berlin"), None, 5).await.unwrap();
    assert_eq!((page.items.len(), reads.rows(INDEX)), (5, 1_001));
    is_as_a_scan(&store, "tenant=acme header.x-shop=berlin id=m-77", "beyond the bound").await;
}
