//! Chunks of a stream, read forward from any position: each says from where it covers.

use waybill_core::port::store::StoreError;
use waybill_core::streams::chunk::StoredChunk;
use waybill_core::streams::name::StreamKey;
use waybill_surreal::{Bound, Row, Transaction};

use super::keys::chunks_after;
use crate::fault::store_error;
use crate::quarantine::Spoilt;
use crate::rows::streams as rows;
use crate::tables::EVENT;

/// Chunks read at once as long as nothing is known of their size.
const FIRST_PAGE: usize = 4;
/// Most chunks read at once.
const PAGE_MAX: usize = 256;

/// A walk over the chunks of a stream.
struct Chunks<'t> {
    transaction: &'t dyn Transaction,
    /// None behind the last one.
    range: Option<(Bound, Bound)>,
}

impl<'t> Chunks<'t> {
    /// Under keys beyond a number.
    fn after(transaction: &'t dyn Transaction, stream: &StreamKey, after: u64) -> Self {
        Self { transaction, range: Some(chunks_after(stream, after)) }
    }

    /// The next ones; none when there are no others.
    async fn next(&mut self, count: usize, spoilt: &mut Spoilt) -> Result<Vec<StoredChunk>, StoreError> {
        let mut found = Vec::new();
        while found.is_empty() {
            let Some((from, until)) = self.range.take() else { break };
            let rows = self.transaction.scan(EVENT, from, until.clone(), count).await.map_err(store_error)?;
            self.range = rows.last().filter(|_| rows.len() == count).map(|last| (behind(last), until));
            for row in &rows {
                found.extend(spoilt.sift(EVENT, &row.key, rows::chunk(row))?);
            }
        }
        Ok(found)
    }
}

fn behind(row: &Row) -> Bound {
    Bound::Excluded(row.key.clone())
}

/// Bytes of its events; one that can't be read counts as none.
pub fn bytes_of(chunk: &StoredChunk) -> usize {
    chunk.chunk.as_ref().map_or(0, |chunk| chunk.bytes())
}

/// The first chunks under keys beyond a number, up to so many bytes, one at least; and whether these are all.
pub async fn within(
    transaction: &dyn Transaction,
    stream: &StreamKey,
    after: u64,
    bytes_max: usize,
    spoilt: &mut Spoilt,
) -> Result<(Vec<StoredChunk>, bool), StoreError> {
    let mut chunks = Chunks::after(transaction, stream, after);
    let (mut taken, mut bytes, mut count) = (Vec::new(), 0_usize, FIRST_PAGE);
    loop {
        let page = chunks.next(count, spoilt).await?;
        if page.is_empty() {
            return Ok((taken, true));
        }
        for chunk in page {
            bytes += bytes_of(&chunk);
            if bytes > bytes_max && !taken.is_empty() {
                return Ok((taken, false));
            }
            taken.push(chunk);
        }
        // As many more as fit, if they are like those so far: larger ones may lie behind small ones.
        let usual = (bytes / taken.len().max(1)).max(1);
        count = (bytes_max.saturating_sub(bytes) / usual + 1).min(count * 4).min(PAGE_MAX);
    }
}

/// The chunks that hold the numbers from one to another.
pub async fn covering(
    transaction: &dyn Transaction,
    stream: &StreamKey,
    (from, to): (u64, u64),
    spoilt: &mut Spoilt,
) -> Result<Vec<StoredChunk>, StoreError> {
    let mut chunks = Chunks::after(transaction, stream, from.saturating_sub(1));
    let (mut taken, mut count) = (Vec::new(), 1);
    loop {
        let page = chunks.next(count, spoilt).await?;
        if page.is_empty() {
            return Ok(taken);
        }
        for chunk in page {
            let is_last = chunk.last >= to;
            taken.push(chunk);
            if is_last {
                return Ok(taken);
            }
        }
        count = (count * 2).min(FIRST_PAGE * FIRST_PAGE);
    }
}

/// A walk from the end of a stream back to its front.
pub struct Back<'t> {
    transaction: &'t dyn Transaction,
    range: Option<(Bound, Bound)>,
    page: std::vec::IntoIter<StoredChunk>,
}

impl<'t> Back<'t> {
    pub fn of(transaction: &'t dyn Transaction, stream: &StreamKey) -> Self {
        Self { transaction, range: Some(chunks_after(stream, 0)), page: Vec::new().into_iter() }
    }

    /// The chunk before; none before the first one.
    pub async fn next(&mut self, spoilt: &mut Spoilt) -> Result<Option<StoredChunk>, StoreError> {
        loop {
            if let Some(chunk) = self.page.next() {
                return Ok(Some(chunk));
            }
            let Some((from, until)) = self.range.take() else { return Ok(None) };
            let rows = self.transaction.scan_back(EVENT, from.clone(), until, FIRST_PAGE).await.map_err(store_error)?;
            self.range = rows.last().filter(|_| rows.len() == FIRST_PAGE).map(|last| (from, behind(last)));
            let mut page = Vec::with_capacity(rows.len());
            for row in &rows {
                page.extend(spoilt.sift(EVENT, &row.key, rows::chunk(row))?);
            }
            self.page = page.into_iter();
        }
    }
}
