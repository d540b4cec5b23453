//! The shard record of an inbox. One that can't be read is moved to quarantine, and another one takes its place, made of what is readable in
//! it and of what lies in the shard. Whoever wrote the inbox is fenced off. What was called is lost with it, so nobody is suspect any more;
//! of takes nobody knows which were finished, so all of them wait for their messages again.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{SystemTime, UNIX_EPOCH};

use waybill_core::ids::{Seq, ShardId};
use waybill_core::inbox::fingerprint::HashSecret;
use waybill_core::inbox::records::InboxShardRecord;
use waybill_core::inbox::seen::OwnedAge;
use waybill_core::port::store::StoreError;
use waybill_surreal::{Bound, Object, RecordIdKey, Transaction};

use super::done::age_in;
use crate::fault::store_error;
use crate::quarantine::put;
use crate::rows::inbox as rows;
use crate::store::{SurrealStore, finish};
use crate::tables::{
    INBOX, INBOX_DEAD, INBOX_DONE, INBOX_SHARD, INBOX_TAKEN, META, inbox_secret_key, part, seq_key, shard_end,
    shard_key, shard_start, unsigned,
};

/// Records of takes read at once.
const TAKES_PAGE: usize = 500;

/// The shard record; the default when there is none.
pub async fn read(transaction: &dyn Transaction, shard: ShardId) -> Result<InboxShardRecord, StoreError> {
    let key = shard_key(shard);
    match transaction.get(INBOX_SHARD, key.clone()).await.map_err(store_error)? {
        Some(fields) => rows::shard(&key, &fields),
        None => Ok(InboxShardRecord::default()),
    }
}

/// The beat that a shard stands at; zero when it has no record.
pub async fn beat(transaction: &dyn Transaction, shard: ShardId) -> Result<u64, StoreError> {
    let fields = transaction.get(INBOX_SHARD, shard_key(shard)).await.map_err(store_error)?;
    Ok(fields.and_then(|fields| unsigned(fields.get("beat"))).unwrap_or(0))
}

/// The age of a shard as of its last commit; none when there was none yet.
pub async fn age(transaction: &dyn Transaction, shard: ShardId) -> Result<Option<OwnedAge>, StoreError> {
    let fields = transaction.get(INBOX_SHARD, shard_key(shard)).await.map_err(store_error)?;
    Ok(fields.and_then(|fields| unsigned(fields.get("age"))).map(OwnedAge))
}

/// Reads a shard record, and makes another one if it can't be read.
pub async fn read_or_rebuild(store: &SurrealStore, shard: ShardId) -> Result<InboxShardRecord, StoreError> {
    match read(store.begin(false).await?.as_ref(), shard).await {
        Err(StoreError::Corrupt(_)) => {}
        read => return read,
    }
    store.seen_memory().forget(shard);
    let transaction = store.begin(true).await?;
    let worked = rebuild(transaction.as_ref(), shard).await;
    finish(transaction, worked).await
}

async fn rebuild(transaction: &dyn Transaction, shard: ShardId) -> Result<InboxShardRecord, StoreError> {
    // Its owner may have written it again meanwhile.
    let reason = match read(transaction, shard).await {
        Err(StoreError::Corrupt(reason)) => reason,
        read => return read,
    };
    let key = shard_key(shard);
    let fields = transaction.get(INBOX_SHARD, key.clone()).await.map_err(store_error)?.unwrap_or_default();
    let secret = match rows::secret(&fields) {
        Some(secret) => Some(secret),
        None => kept_secret(transaction, shard).await?,
    };
    let number = |name: &str| unsigned(fields.get(name));
    let Takes { open, over } = open_takes(transaction, shard).await?;
    let taken = open.values().flatten().max().copied().unwrap_or_default();
    let last = Seq(number("last").unwrap_or(0)).max(last_seq(transaction, shard).await?).max(taken);
    let age = OwnedAge(number("age").unwrap_or(0)).max(last_age(transaction, shard).await?);
    let record = InboxShardRecord {
        // The owner of the outbox shard has a token, and takes over with that; without a secret it chooses one as the first owner does.
        token: if secret.is_some() { number("token").unwrap_or(1).max(1) } else { 0 },
        // No commit that is under way expects it.
        beat: number("beat").unwrap_or_else(now_millis).saturating_add(1),
        last,
        age,
        secret: secret.unwrap_or_default(),
        open,
        ..InboxShardRecord::default()
    };
    let written = rows::of_shard(&record)?;
    put(transaction, INBOX_SHARD, &key, fields, None, &reason).await?;
    transaction.put(INBOX_SHARD, key, written).await.map_err(store_error)?;
    for key in over {
        transaction.delete(INBOX_TAKEN, key).await.map_err(store_error)?;
    }
    Ok(record)
}

/// Far above any number of commits.
fn now_millis() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(now.as_millis()).unwrap_or(u64::MAX / 2)
}

/// The secret of a shard's hashes as its first commit kept it.
async fn kept_secret(transaction: &dyn Transaction, shard: ShardId) -> Result<Option<HashSecret>, StoreError> {
    let kept: Option<Object> = transaction.get(META, inbox_secret_key(shard)).await.map_err(store_error)?;
    Ok(kept.as_ref().and_then(rows::secret))
}

/// No seq above this was given out, as far as what lies in the shard tells.
async fn last_seq(transaction: &dyn Transaction, shard: ShardId) -> Result<Seq, StoreError> {
    let mut last = Seq(0);
    for table in [INBOX, INBOX_DEAD] {
        let (from, until) = (Bound::Included(shard_start(shard)), Bound::Excluded(shard_end(shard)));
        let rows = transaction.scan_back(table, from, until, 1).await.map_err(store_error)?;
        last = last.max(Seq(rows.first().and_then(|row| part(&row.key, 1)).unwrap_or(0)));
    }
    Ok(last)
}

/// The age of the last commit that finished something.
async fn last_age(transaction: &dyn Transaction, shard: ShardId) -> Result<OwnedAge, StoreError> {
    let (from, until) = (Bound::Included(shard_start(shard)), Bound::Excluded(shard_end(shard)));
    let rows = transaction.scan_back(INBOX_DONE, from, until, 1).await.map_err(store_error)?;
    Ok(rows.first().and_then(age_in).unwrap_or_default())
}

/// What takes say without the record.
struct Takes {
    open: BTreeMap<u64, BTreeSet<Seq>>,
    /// Records of takes that wait for nothing.
    over: Vec<RecordIdKey>,
}

/// All takes: of which their messages were finished nobody knows. Those that became rows or dead letters are known: a row whose take waited
/// for its message would be left alone until the next owner comes.
async fn open_takes(transaction: &dyn Transaction, shard: ShardId) -> Result<Takes, StoreError> {
    let (mut open, mut over) = (BTreeMap::new(), Vec::new());
    let (mut from, until) = (Bound::Included(shard_start(shard)), Bound::Excluded(shard_end(shard)));
    loop {
        let rows = transaction.scan(INBOX_TAKEN, from, until.clone(), TAKES_PAGE).await.map_err(store_error)?;
        let Some(last) = rows.last() else { return Ok(Takes { open, over }) };
        from = Bound::Excluded(last.key.clone());
        for row in &rows {
            // The takeover moves what can't be read.
            let Ok(record) = rows::takes(row) else { continue };
            let mut waiting = BTreeSet::new();
            for take in record.takes {
                if !is_stored(transaction, shard, take.seq).await? {
                    waiting.insert(take.seq);
                }
            }
            if waiting.is_empty() {
                over.push(row.key.clone());
            } else {
                open.insert(record.beat, waiting);
            }
        }
    }
}

/// Whether a row or a dead letter lies at a place.
async fn is_stored(transaction: &dyn Transaction, shard: ShardId, seq: Seq) -> Result<bool, StoreError> {
    for table in [INBOX, INBOX_DEAD] {
        if transaction.get(table, seq_key(shard, seq)).await.map_err(store_error)?.is_some() {
            return Ok(true);
        }
    }
    Ok(false)
}
