//! Where a stream stands: its head, and what is kept of it.
//!
//! One of the two that can't be read is moved to quarantine, and what it said is found out anew, of the same snapshot, until it is written
//! again. No number is given twice: the last chunk lies under the last number, and where all were trimmed, what is kept begins behind it.
//! What was dropped and trimmed isn't known then, so readers that had been away begin anew.

use waybill_core::port::store::StoreError;
use waybill_core::port::stream_store::StreamSlice;
use waybill_core::streams::name::StreamKey;
use waybill_core::streams::records::{StreamHead, StreamRest, StreamView};
use waybill_surreal::{Bound, Object, RecordIdKey, Transaction};

use super::blobs;
use super::chunks::{Back, within};
use super::keys::{chunks_after, stream_in, stream_key};
use crate::fault::store_error;
use crate::quarantine::{Spoilt, is_held};
use crate::rows::streams as rows;
use crate::store::SurrealStore;
use crate::tables::{EVENT, STREAM, STREAM_REST, STREAM_SHARD, shard_key, unsigned};

/// One snapshot of the store, and what couldn't be read in it.
pub struct Snapshot<'t> {
    pub transaction: &'t dyn Transaction,
    pub spoilt: Spoilt,
    /// How many shards streams are spread over.
    pub shards: u16,
}

/// A record that is read by its key.
enum Read<T> {
    Missing,
    Unreadable,
    There(T),
}

impl<'t> Snapshot<'t> {
    pub fn of(store: &SurrealStore, transaction: &'t dyn Transaction) -> Self {
        Self { transaction, spoilt: Spoilt::default(), shards: store.shards() }
    }

    async fn read<T>(
        &mut self,
        table: &'static str,
        key: RecordIdKey,
        decode: impl Fn(&RecordIdKey, &Object) -> Result<T, StoreError> + Send,
    ) -> Result<Read<T>, StoreError> {
        match self.transaction.get(table, key.clone()).await.map_err(store_error)? {
            None => Ok(Read::Missing),
            // It was moved before.
            Some(fields) if is_held(&fields) => Ok(Read::Unreadable),
            Some(fields) => {
                Ok(self.spoilt.sift(table, &key, decode(&key, &fields))?.map_or(Read::Unreadable, Read::There))
            }
        }
    }

    /// The head of a stream, and what is kept of it.
    pub async fn stands(&mut self, stream: &StreamKey) -> Result<(StreamHead, StreamRest), StoreError> {
        let key = stream_key(stream);
        let head = self.read(STREAM, key.clone(), rows::head).await?;
        let rest = self.read(STREAM_REST, key, rows::rest).await?;
        let (head, rest) = match (head, rest) {
            (Read::There(head), Read::There(rest)) => return Ok((head, rest)),
            (Read::There(head), Read::Missing) => return Ok((head, StreamRest::default())),
            (head, rest) => (head, rest),
        };
        let found = self.found(stream).await?;
        let rest = match rest {
            Read::There(rest) => rest,
            Read::Missing => StreamRest::default(),
            Read::Unreadable => {
                let last = if let Read::There(head) = &head { head.last } else { found.last };
                let first = found.from.unwrap_or(last).saturating_add(1);
                let gone = self.feed_end(stream).await?;
                // Its row, if it has one, is found and taken away when its time comes.
                StreamRest { first, fed: found.fed, purged: last, gone, due: None, indexed: 0 }
            }
        };
        let head = match head {
            Read::There(head) => head,
            Read::Missing | Read::Unreadable => {
                let gone = rest.first.saturating_sub(1);
                // Only what the feed had named was trimmed: without that a stream of which nothing is left would wait for its names for ever.
                StreamHead { last: found.last.max(gone), fed: found.fed.max(gone), bytes: found.bytes }
            }
        };
        Ok((head, rest))
    }

    /// The last number of a stream that is expected to end at one. A new stream has nothing that could tell of it.
    pub async fn last(&mut self, stream: &StreamKey, expected: u64) -> Result<u64, StoreError> {
        match self.read(STREAM, stream_key(stream), rows::head).await? {
            Read::There(head) => Ok(head.last),
            Read::Missing if expected == 0 => Ok(0),
            Read::Missing | Read::Unreadable => Ok(self.stands(stream).await?.0.last),
        }
    }

    /// A stream as who numbers or adopts in it sees it.
    pub async fn view(&mut self, stream: &StreamKey, bytes_max: usize) -> Result<StreamView, StoreError> {
        let (head, rest) = self.stands(stream).await?;
        let named_to = rest.named_to(&head);
        let unnamed = match named_to < head.last {
            true => within(self.transaction, stream, named_to, bytes_max, &mut self.spoilt).await?.0,
            false => Vec::new(),
        };
        Ok(StreamView { head, rest, unnamed })
    }

    /// A stream behind a position, with as many payloads as go into so many bytes of events.
    pub async fn slice(&mut self, stream: &StreamKey, after: u64, bytes_max: usize) -> Result<StreamSlice, StoreError> {
        let slice = self.bare_slice(stream, after, bytes_max).await?;
        self.with_payloads(stream, after, bytes_max, slice).await
    }

    /// The same of what was read of it.
    pub async fn with_payloads(
        &self,
        stream: &StreamKey,
        after: u64,
        bytes_max: usize,
        mut slice: StreamSlice,
    ) -> Result<StreamSlice, StoreError> {
        let range = (after.saturating_add(1), u64::MAX);
        blobs::put_back(self.transaction, stream, &mut slice.chunks, range, bytes_max).await?;
        Ok(slice)
    }

    /// A stream behind a position, for who needs no payload.
    pub async fn bare_slice(
        &mut self,
        stream: &StreamKey,
        after: u64,
        bytes_max: usize,
    ) -> Result<StreamSlice, StoreError> {
        let (head, rest) = self.stands(stream).await?;
        let (chunks, is_all) = within(self.transaction, stream, after, bytes_max, &mut self.spoilt).await?;
        Ok(StreamSlice { head, rest, chunks, is_all })
    }

    /// What the chunks of a stream say of it.
    async fn found(&mut self, stream: &StreamKey) -> Result<Found, StoreError> {
        // Asked first, since most have none: they are new. To go backwards costs SurrealKV a walk from the end of all that it holds in
        // memory.
        let (from, until) = chunks_after(stream, 0);
        let first = self.transaction.scan(EVENT, from, until, 1).await.map_err(store_error)?;
        let Some(first) = first.first() else { return Ok(Found::default()) };
        let mut found = Found::default();
        let mut back = Back::of(self.transaction, stream);
        while let Some(stored) = back.next(&mut self.spoilt).await? {
            let chunk = stored.chunk.as_ref().ok();
            if found.last == 0 {
                (found.last, found.bytes) = (stored.last, chunk.map_or(0, |chunk| chunk.total));
            }
            if chunk.is_some_and(|chunk| chunk.is_named() && !chunk.events.is_empty()) {
                found.fed = stored.last;
                break;
            }
        }
        if found.last == 0 {
            return Ok(found);
        }
        // Of one that can't be read nobody knows from where it covers.
        found.from = rows::chunk(first).ok().map(|stored| stored.chunk.map_or(0, |chunk| chunk.from));
        Ok(found)
    }

    /// The number of the last feed record of a stream's shard.
    async fn feed_end(&self, stream: &StreamKey) -> Result<u64, StoreError> {
        let key = shard_key(stream.shard(self.shards));
        let fields = self.transaction.get(STREAM_SHARD, key).await.map_err(store_error)?;
        Ok(fields.and_then(|fields| unsigned(fields.get("pos"))).unwrap_or(0))
    }
}

/// The streams that the heads in a range are of, in order, the first `limit`. What names none goes to quarantine and doesn't count.
pub async fn placed(
    snapshot: &mut Snapshot<'_>,
    (mut from, until): (Bound, Bound),
    limit: usize,
) -> Result<Vec<StreamKey>, StoreError> {
    let mut streams = Vec::new();
    loop {
        let wanted = limit.saturating_sub(streams.len());
        let rows = snapshot.transaction.scan(STREAM, from, until.clone(), wanted).await.map_err(store_error)?;
        for row in &rows {
            match stream_in(&row.key) {
                Some(stream) => streams.push(stream),
                None => snapshot.spoilt.note_misplaced(STREAM, row),
            }
        }
        match rows.last() {
            Some(last) if rows.len() == wanted && streams.len() < limit => from = Bound::Excluded(last.key.clone()),
            _ => return Ok(streams),
        }
    }
}

/// What chunks say of their stream.
#[derive(Default)]
struct Found {
    /// From where the first one covers; none = there is none.
    from: Option<u64>,
    last: u64,
    fed: u64,
    bytes: u64,
}
