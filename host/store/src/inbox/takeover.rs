//! What a new writer of a shard's inbox finds besides the record: the heads of all rows, and all takes. The seen set isn't read, however
//! large it is. Pages are transactions of their own, because a database that is opened again makes those give way that have been open
//! for long; behind the takeover's commit nobody else writes rows or takes.

use waybill_core::ids::ShardId;
use waybill_core::inbox::records::InboxTakeover;
use waybill_core::port::store::StoreError;
use waybill_surreal::{Bound, RecordIdKey, Row};

use crate::fault::store_error;
use crate::quarantine::Spoilt;
use crate::rows::inbox as rows;
use crate::store::SurrealStore;
use crate::tables::{INBOX, INBOX_TAKEN, shard_end, shard_start};

/// Rows of one page, in this process: each has its message inside if that is small.
const PAGE: usize = 500;
/// Against a server pages are so many times as long: it reads all that is left of a range for each of them.
const REMOTE_TIMES: usize = 16;
/// Tries of a page that has to give way.
const TRIES_MAX: u32 = 5;

pub async fn read(store: &SurrealStore, shard: ShardId) -> Result<InboxTakeover, StoreError> {
    let mut spoilt = Spoilt::default();
    let found = read_all(store, shard, &mut spoilt).await;
    store.set_aside(spoilt).await;
    found
}

async fn read_all(store: &SurrealStore, shard: ShardId, spoilt: &mut Spoilt) -> Result<InboxTakeover, StoreError> {
    let mut found = InboxTakeover::default();
    let mut after = None;
    while let Some(page) = page(store, INBOX, shard, after.as_ref()).await? {
        after = page.last().map(|row| row.key.clone());
        for row in &page {
            found.rows.extend(spoilt.sift(INBOX, &row.key, rows::head(row))?.map(|head| head.head));
        }
    }
    let mut after = None;
    while let Some(page) = page(store, INBOX_TAKEN, shard, after.as_ref()).await? {
        after = page.last().map(|row| row.key.clone());
        for row in &page {
            found.takes.extend(spoilt.sift(INBOX_TAKEN, &row.key, rows::takes(row))?);
        }
    }
    Ok(found)
}

/// The next rows of a table; none when there are no more.
async fn page(
    store: &SurrealStore,
    table: &'static str,
    shard: ShardId,
    after: Option<&RecordIdKey>,
) -> Result<Option<Vec<Row>>, StoreError> {
    let limit = if store.is_embedded() { PAGE } else { PAGE * REMOTE_TIMES };
    let mut tries = 1;
    loop {
        let from = match after {
            Some(after) => Bound::Excluded(after.clone()),
            None => Bound::Included(shard_start(shard)),
        };
        let read = async {
            let transaction = store.begin(false).await?;
            transaction.scan(table, from, Bound::Excluded(shard_end(shard)), limit).await.map_err(store_error)
        };
        match read.await {
            Err(StoreError::Conflict(_)) if tries < TRIES_MAX => tries += 1,
            Err(error) => return Err(error),
            Ok(rows) => return Ok(Some(rows).filter(|rows| !rows.is_empty())),
        }
    }
}
