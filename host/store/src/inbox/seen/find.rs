//! Asking the seen set. What flows is found in memory; what is older costs a read or two, and an id without a time one for each packed
//! run that has no filter.

use std::collections::HashMap;
use std::sync::Arc;

use waybill_core::ids::{ConsumerName, ShardId};
use waybill_core::inbox::fingerprint::Fingerprint;
use waybill_core::inbox::seen::{Bucket, Member, OwnedAge, SeenPlace, SeenQuery};
use waybill_core::port::inbox_store::SeenHit;
use waybill_core::port::store::StoreError;
use waybill_surreal::{Bound, Row, Transaction};

use super::added::Added;
use super::bucket::{BucketKey, Form, Part, form_end};
use super::filter::{FILTER_BLOCKS, Filter};
use super::memory::Remembered;
use super::reads::Asker;
use super::records;
use super::table::block_of;
use crate::codec::inbox::seen::{BucketHead, SeenIds, Table, number_block};
use crate::fault::store_error;
use crate::inbox::shard::beat;
use crate::quarantine::Spoilt;
use crate::store::SurrealStore;
use crate::tables::INBOX_SEEN;

/// Tries of a read that has to give way.
const TRIES_MAX: u32 = 5;
/// Records of one page of what was added to a bucket: each may hold a whole commit.
const ADDED_PAGE: usize = 256;

/// A bucket that was read.
#[derive(Clone)]
pub(super) struct ReadBucket {
    pub added: Arc<Added>,
    pub head: Arc<BucketHead>,
}

/// A state of the store at which blocks are read: never an older one than that of the bucket whose they are. What is packed meanwhile is
/// then in both.
pub(super) struct Snapshot<'s> {
    store: &'s SurrealStore,
    /// None = none was needed yet.
    transaction: Option<Box<dyn Transaction>>,
}

impl<'s> Snapshot<'s> {
    pub fn of(store: &'s SurrealStore) -> Self {
        Self { store, transaction: None }
    }

    pub async fn get(&mut self) -> Result<&dyn Transaction, StoreError> {
        let transaction = match self.transaction.take() {
            Some(transaction) => transaction,
            None => self.store.begin(false).await?,
        };
        Ok(&**self.transaction.insert(transaction))
    }
}

/// A look at the seen set, again where it has to give way.
#[derive(Default)]
pub(super) struct Tries {
    ended: u32,
}

impl Tries {
    /// Sets aside what a try couldn't read. None: it has to give way, and there is another one.
    pub async fn end<T>(
        &mut self,
        store: &SurrealStore,
        spoilt: Spoilt,
        found: Result<T, StoreError>,
    ) -> Option<Result<T, StoreError>> {
        store.set_aside(spoilt).await;
        self.ended += 1;
        match found {
            Err(StoreError::Conflict(_)) if self.ended < TRIES_MAX => None,
            found => Some(found),
        }
    }
}

/// What the seen set has of each id, in the order asked.
pub async fn find(
    store: &SurrealStore,
    shard: ShardId,
    queries: &[SeenQuery],
    asker: Asker,
) -> Result<Vec<Option<SeenHit>>, StoreError> {
    let mut tries = Tries::default();
    loop {
        let mut spoilt = Spoilt::default();
        let found = try_find(store, shard, queries, (asker, &mut spoilt)).await;
        if let Some(found) = tries.end(store, spoilt, found).await {
            return found;
        }
    }
}

async fn try_find(
    store: &SurrealStore,
    shard: ShardId,
    queries: &[SeenQuery],
    (asker, spoilt): (Asker, &mut Spoilt),
) -> Result<Vec<Option<SeenHit>>, StoreError> {
    if !store.is_embedded() {
        // Another host may write the shard by now.
        let beat = beat(store.begin(false).await?.as_ref(), shard).await?;
        store.seen_memory().record_has(shard, beat);
    }
    let mut reader = Reader::of(store, shard, asker, spoilt);
    let mut found = Vec::with_capacity(queries.len());
    for query in queries {
        let mut hit = None;
        for place in &query.places {
            hit = reader.at(&query.consumer, place).await?;
            if hit.is_some() {
                break;
            }
        }
        found.push(hit);
    }
    Ok(found)
}

pub(super) struct Reader<'r> {
    store: &'r SurrealStore,
    shard: ShardId,
    asker: Asker,
    /// What this call read and nobody remembers.
    read: HashMap<BucketKey, ReadBucket>,
    /// The same of runs.
    runs: HashMap<ConsumerName, Vec<u64>>,
    pub spoilt: &'r mut Spoilt,
}

impl<'r> Reader<'r> {
    pub fn of(store: &'r SurrealStore, shard: ShardId, asker: Asker, spoilt: &'r mut Spoilt) -> Self {
        Self { store, shard, asker, read: HashMap::new(), runs: HashMap::new(), spoilt }
    }
}

impl Reader<'_> {
    /// A read of the store begins.
    pub fn count(&self, consumer: &ConsumerName) {
        self.store.seen_reads().count(consumer, self.asker);
    }

    async fn at(&mut self, consumer: &ConsumerName, place: &SeenPlace) -> Result<Option<SeenHit>, StoreError> {
        if place.bucket != Bucket::Runs {
            let bucket = BucketKey::of(consumer, &place.bucket, OwnedAge(0));
            return self.in_bucket(&bucket, place.member).await;
        }
        for run in self.runs(consumer).await?.into_iter().rev() {
            let hit = self.in_bucket(&BucketKey::run(consumer, run), place.member).await?;
            if hit.is_some() {
                return Ok(hit);
            }
        }
        Ok(None)
    }

    /// The runs of a consumer, in order.
    async fn runs(&mut self, consumer: &ConsumerName) -> Result<Vec<u64>, StoreError> {
        let store = self.store;
        let memory = store.seen_memory();
        if let Some(runs) = memory.runs(self.shard, consumer).or_else(|| self.runs.get(consumer).cloned()) {
            return Ok(runs);
        }
        // This read may be older than the chain: what was written since its beginning is remembered besides.
        let generation = memory.generation(self.shard);
        let runs = self.numbers(consumer, Form::Run).await?;
        if let Some(generation) = generation {
            memory.runs_read(self.shard, consumer, generation, &runs);
        }
        self.runs.insert(consumer.clone(), runs.clone());
        Ok(runs)
    }

    /// The numbers of a consumer's buckets of a form that has nothing else in their names, in order.
    async fn numbers(&mut self, consumer: &ConsumerName, form: Form) -> Result<Vec<u64>, StoreError> {
        let transaction = self.store.begin(false).await?;
        let mut numbers = Vec::new();
        let mut from = Bound::Included(BucketKey::numbered(consumer, form, 0).start(self.shard));
        let until = Bound::Excluded(form_end(self.shard, consumer, form));
        loop {
            self.count(consumer);
            let rows = transaction.scan(INBOX_SEEN, from, until.clone(), 1).await.map_err(store_error)?;
            let Some(row) = rows.into_iter().next() else { return Ok(numbers) };
            from = match BucketKey::of_record(&row.key) {
                Some((bucket, _)) => {
                    numbers.push(bucket.number());
                    let next = bucket.number().saturating_add(1);
                    Bound::Included(BucketKey::numbered(consumer, form, next).start(self.shard))
                }
                None => {
                    self.spoilt.note(INBOX_SEEN, &row.key);
                    Bound::Excluded(row.key)
                }
            };
        }
    }

    async fn in_bucket(&mut self, bucket: &BucketKey, member: Member) -> Result<Option<SeenHit>, StoreError> {
        let mut snapshot = Snapshot::of(self.store);
        let (hit, head) = match self.store.seen_memory().find(self.shard, bucket, member) {
            Remembered::Bucket(hit, head) => (hit, head),
            Remembered::Nothing(ticket) => {
                let read = match self.read.get(bucket) {
                    Some(read) => read.clone(),
                    None => {
                        // Begun behind the ticket: what was committed before it is in, the rest is told to the ticket.
                        let read = self.load(&mut snapshot, bucket).await?;
                        ticket.loaded(Arc::clone(&read.added), Arc::clone(&read.head));
                        self.read.insert(bucket.clone(), read.clone());
                        read
                    }
                };
                (read.added.find(member), read.head)
            }
        };
        match (hit, member) {
            (Some(hit), _) => Ok(Some(hit)),
            (None, Member::Number(number)) => {
                let at = number_block(number);
                if !head.tables.iter().any(|table| table.number == u32::from(at)) {
                    return Ok(None);
                }
                let part = Part::of_numbers(at);
                self.count(&bucket.consumer);
                let block = records::block(snapshot.get().await?, self.shard, bucket, part, self.spoilt).await?;
                Ok(block.and_then(|block| hit_in(&block, member)))
            }
            (None, Member::Hash(fingerprint)) => self.in_tables(&mut snapshot, bucket, &head, fingerprint).await,
        }
    }

    pub async fn load(&mut self, snapshot: &mut Snapshot<'_>, bucket: &BucketKey) -> Result<ReadBucket, StoreError> {
        self.count(&bucket.consumer);
        let (added, head) = load(snapshot.get().await?, self.shard, bucket, self.spoilt).await?;
        Ok(ReadBucket { added: Arc::new(added), head: Arc::new(head) })
    }

    pub async fn in_tables(
        &mut self,
        snapshot: &mut Snapshot<'_>,
        bucket: &BucketKey,
        head: &BucketHead,
        fingerprint: Fingerprint,
    ) -> Result<Option<SeenHit>, StoreError> {
        let (hit, gaps) = self.in_all(snapshot, bucket, &head.tables, fingerprint).await?;
        if hit.is_some() || gaps == 0 {
            return Ok(hit);
        }
        // The tables were merged since the head was read. Blocks that are missing still lie in quarantine, and their ids are unknown.
        self.store.seen_memory().changed(self.shard, bucket);
        let mut snapshot = Snapshot::of(self.store);
        let read = self.load(&mut snapshot, bucket).await?;
        if let Some(hit) = read.added.find(Member::Hash(fingerprint)) {
            return Ok(Some(hit));
        }
        Ok(self.in_all(&mut snapshot, bucket, &read.head.tables, fingerprint).await?.0)
    }

    /// Looks into tables, the youngest first; and how many of their blocks aren't there.
    async fn in_all(
        &mut self,
        snapshot: &mut Snapshot<'_>,
        bucket: &BucketKey,
        tables: &[Table],
        fingerprint: Fingerprint,
    ) -> Result<(Option<SeenHit>, usize), StoreError> {
        let mut gaps = 0;
        for table in tables.iter().rev() {
            let at = block_of(&fingerprint, table.blocks);
            if bucket.form == Form::Run && !self.may_have(snapshot, bucket, table, at, &fingerprint).await? {
                continue;
            }
            let part = Part::Block { table: table.number, block: at };
            self.count(&bucket.consumer);
            let block = records::block(snapshot.get().await?, self.shard, bucket, part, self.spoilt).await?;
            match block.as_ref().map(|block| hit_in(block, Member::Hash(fingerprint))) {
                Some(Some(hit)) => return Ok((Some(hit), gaps)),
                Some(None) => {}
                None => gaps += 1,
            }
        }
        Ok((None, gaps))
    }

    /// What a filter says; without one, and without room for one, that it may.
    async fn may_have(
        &mut self,
        snapshot: &mut Snapshot<'_>,
        bucket: &BucketKey,
        table: &Table,
        block: u32,
        fingerprint: &Fingerprint,
    ) -> Result<bool, StoreError> {
        let filters = self.store.seen_filters();
        if let Some(filter) = filters.get(self.shard, bucket, table.number, block) {
            return Ok(filter.may_have(fingerprint));
        }
        if !filters.has_room() {
            return Ok(true);
        }
        let first = block / FILTER_BLOCKS * FILTER_BLOCKS;
        let behind = first.saturating_add(FILTER_BLOCKS).min(table.blocks);
        let range = (table.number, first, behind);
        self.count(&bucket.consumer);
        let blocks = records::blocks(snapshot.get().await?, self.shard, bucket, range, self.spoilt).await?;
        if blocks.len() < behind.saturating_sub(first) as usize {
            // They are being removed, or one lies in quarantine.
            return Ok(true);
        }
        let filter = Filter::over(&blocks);
        let may = filter.may_have(fingerprint);
        filters.keep(self.shard, bucket, table.number, block, filter);
        Ok(may)
    }
}

fn hit_in(block: &SeenIds, member: Member) -> Option<SeenHit> {
    block.find(member).map(|check| SeenHit { check, age: block.age })
}

/// Reads what was added to a bucket, and its head.
async fn load(
    transaction: &dyn Transaction,
    shard: ShardId,
    bucket: &BucketKey,
    spoilt: &mut Spoilt,
) -> Result<(Added, BucketHead), StoreError> {
    let mut added = Added::default();
    let mut head = BucketHead::default();
    let mut from = Bound::Included(bucket.start(shard));
    let until = Bound::Excluded(bucket.blocks_start(shard));
    loop {
        let rows = transaction.scan(INBOX_SEEN, from, until.clone(), ADDED_PAGE).await.map_err(store_error)?;
        let is_last = rows.len() < ADDED_PAGE;
        let Some(Row { key: last, .. }) = rows.last() else { return Ok((added, head)) };
        from = Bound::Excluded(last.clone());
        for row in &rows {
            match spoilt.sift(INBOX_SEEN, &row.key, records::read(row))? {
                Some(records::Content::Head(found)) => head = found,
                Some(records::Content::Added(ids)) => added.add(&ids),
                Some(records::Content::Block(_)) | None => {}
            }
        }
        if is_last {
            return Ok((added, head));
        }
    }
}
