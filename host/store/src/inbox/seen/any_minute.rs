//! Asking the seen set for an id that may lie in any minute, because its sender's stamp isn't known.

use std::sync::Arc;

use waybill_core::ids::{ConsumerName, ShardId};
use waybill_core::inbox::fingerprint::Fingerprint;
use waybill_core::inbox::seen::{Member, OwnedAge};
use waybill_core::port::inbox_store::SeenHit;
use waybill_core::port::store::StoreError;
use waybill_surreal::{Bound, Row};

use super::bucket::{BucketKey, Form, Part, form_end};
use super::find::{Reader, Snapshot, Tries};
use super::reads::Asker;
use super::records;
use crate::codec::inbox::seen::BucketHead;
use crate::fault::store_error;
use crate::quarantine::Spoilt;
use crate::store::SurrealStore;
use crate::tables::INBOX_SEEN;

/// Records of a bucket that tell whether it is packed: its head, and what follows that.
const FIRST_RECORDS: usize = 2;

/// What the seen set has of an id in any minute: of several the one that was finished last. A packed minute costs two reads, or one
/// where nothing in it can be later than what was found.
pub async fn find(
    store: &SurrealStore,
    shard: ShardId,
    consumer: &ConsumerName,
    id: Fingerprint,
) -> Result<Option<SeenHit>, StoreError> {
    let mut tries = Tries::default();
    loop {
        let mut spoilt = Spoilt::default();
        let found = try_find(store, shard, (consumer, id), &mut spoilt).await;
        if let Some(found) = tries.end(store, spoilt, found).await {
            return found;
        }
    }
}

async fn try_find(
    store: &SurrealStore,
    shard: ShardId,
    (consumer, id): (&ConsumerName, Fingerprint),
    spoilt: &mut Spoilt,
) -> Result<Option<SeenHit>, StoreError> {
    let mut reader = Reader::of(store, shard, Asker::People, spoilt);
    // One state of the store for all of it, so that no block is missed that is packed or merged meanwhile.
    let mut snapshot = Snapshot::of(store);
    let mut latest: Option<SeenHit> = None;
    let mut from = Bound::Included(BucketKey::numbered(consumer, Form::Minute, 0).start(shard));
    let until = Bound::Excluded(form_end(shard, consumer, Form::Minute));
    loop {
        reader.count(consumer);
        let rows = snapshot.get().await?.scan(INBOX_SEEN, from, until.clone(), FIRST_RECORDS).await;
        let rows = rows.map_err(store_error)?;
        let Some(first) = rows.first() else { return Ok(latest) };
        let Some((bucket, _)) = BucketKey::of_record(&first.key) else {
            reader.spoilt.note(INBOX_SEEN, &first.key);
            from = Bound::Excluded(first.key.clone());
            continue;
        };
        let hit = reader.in_minute(&mut snapshot, &bucket, &rows, id, latest).await?;
        // A stamp says nothing of when the message was finished. As exactly as blocks tell: a packed id has the age of its block.
        latest = latest.into_iter().chain(hit).max_by_key(|hit| hit.age);
        let next = bucket.number().saturating_add(1);
        from = Bound::Included(BucketKey::numbered(consumer, Form::Minute, next).start(shard));
    }
}

impl Reader<'_> {
    /// What a minute has of an id, as far as that is later than what is known. None of it is remembered: so many buckets would push out
    /// those of what flows. `first`: its first records, and maybe one of the next minute's.
    async fn in_minute(
        &mut self,
        snapshot: &mut Snapshot<'_>,
        bucket: &BucketKey,
        first: &[Row],
        id: Fingerprint,
        known: Option<SeenHit>,
    ) -> Result<Option<SeenHit>, StoreError> {
        let (mut head, mut has_added) = (Arc::new(BucketHead::default()), false);
        for row in first {
            let Some((_, part)) = BucketKey::of_record(&row.key).filter(|(of, _)| of == bucket) else { continue };
            match part {
                Part::Head => {
                    if let Some(records::Content::Head(found)) =
                        self.spoilt.sift(INBOX_SEEN, &row.key, records::read(row))?
                    {
                        head = Arc::new(found);
                    }
                }
                Part::Added(_) => has_added = true,
                Part::Block { .. } => {}
            }
        }
        if has_added {
            let read = self.load(snapshot, bucket).await?;
            if let Some(hit) = read.added.find(Member::Hash(id)) {
                return Ok(Some(hit));
            }
            head = read.head;
        }
        if known.is_some_and(|known| known.age >= OwnedAge(head.age)) {
            return Ok(None);
        }
        self.in_tables(snapshot, bucket, &head, id).await
    }
}
