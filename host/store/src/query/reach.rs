//! Where what a filter takes can lie: everywhere, or where an index says.
//!
//! An index knows of each message behind the seq at which it began in the shard. So a walk goes over what lies before, as without an index,
//! and of what lies behind only to the places that the index has. A value that more messages have than a walk would look at is looked for.

use std::collections::BTreeMap;

use waybill_core::ids::{Place, Seq, ShardId};
use waybill_core::outbox::filter::{ContentField, Filter};
use waybill_core::port::store::StoreError;
use waybill_surreal::{RecordIdKey, Transaction, int, key};

use crate::fault::store_error;
use crate::index::{self, Kept};
use crate::quarantine::Spoilt;
use crate::rows::shard as shard_rows;
use crate::store::SurrealStore;
use crate::tables::{INDEX, INDEX_SHARD, SHARD, number, shard_key};

/// Most places that one look-up goes to.
const PLACES_MAX: usize = 1_000;
/// The number behind those of all shards.
const SHARDS_END: u32 = u16::MAX as u32 + 1;

pub struct Reach(Option<Found>);

struct Found {
    /// The shards that have the index, each with the seq behind which it knows of everything.
    since: BTreeMap<ShardId, Seq>,
    /// The places behind those, in order.
    places: Vec<Place>,
}

/// A range of keys that begin with a shard and a seq, by these two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    from: (u32, u64),
    until: (u32, u64),
}

fn start_of((shard, seq): (u32, u64)) -> RecordIdKey {
    match seq {
        0 => key([int(i64::from(shard))]),
        seq => key([int(i64::from(shard)), number(seq)]),
    }
}

impl Span {
    const ALL: Self = Self { from: (0, 0), until: (SHARDS_END, 0) };

    pub fn begin(&self) -> RecordIdKey {
        start_of(self.from)
    }

    pub fn end(&self) -> RecordIdKey {
        start_of(self.until)
    }

    /// Whether all of it lies under one seq.
    pub fn is_narrow(&self) -> bool {
        self.from.0 == self.until.0 && self.until.1.saturating_sub(self.from.1) <= 1
    }

    pub fn is_before(&self, shard: ShardId, seq: Seq) -> bool {
        self.until <= (u32::from(shard.0), seq.0)
    }

    pub fn holds(&self, shard: ShardId, seq: Seq) -> bool {
        let at = (u32::from(shard.0), seq.0);
        self.from <= at && at < self.until
    }

    /// What of it lies in a shard before a seq.
    pub fn within(&self, shard: ShardId, end: Seq) -> Option<Self> {
        let shard = u32::from(shard.0);
        let within = Self { from: self.from.max((shard, 0)), until: self.until.min((shard, end.0)) };
        (within.from < within.until).then_some(within)
    }
}

impl Reach {
    /// Everything: of a walk that no index is of use to.
    pub const fn everything() -> Self {
        Self(None)
    }

    /// What a filter asks for, by the first of its conditions that an index is of use to.
    pub async fn of(
        store: &SurrealStore,
        transaction: &dyn Transaction,
        filter: &Filter,
        spoilt: &mut Spoilt,
    ) -> Result<Self, StoreError> {
        if filter.contents.exact().next().is_none() || store.indexes().is_idle() {
            return Ok(Self(None));
        }
        let kept = kept(store, transaction, spoilt).await?;
        for (field, value) in filter.contents.exact() {
            let since = since(&kept, filter, field);
            if !since.is_empty()
                && let Some(places) = places(transaction, filter, (field, value), &since, spoilt).await?
            {
                return Ok(Self(Some(Found { since, places })));
            }
        }
        Ok(Self(None))
    }

    /// The ranges to walk over, in key order; `of` says under which seq a place lies in the table.
    pub fn spans(&self, of: impl Fn(Place) -> Seq) -> Vec<Span> {
        let Some(found) = &self.0 else { return vec![Span::ALL] };
        let (mut spans, mut from) = (Vec::new(), (0, 0));
        for (shard, since) in &found.since {
            let number = u32::from(shard.0);
            if since.0 > 0 || from < (number, 0) {
                spans.push(Span { from, until: (number, since.0.saturating_add(1)) });
            }
            for place in found.places.iter().filter(|place| place.shard == *shard) {
                let seq = of(*place).0;
                let span = Span { from: (number, seq), until: (number, seq.saturating_add(1)) };
                if spans.last() != Some(&span) {
                    spans.push(span);
                }
            }
            from = (number + 1, 0);
        }
        spans.push(Span { from, until: (SHARDS_END, 0) });
        spans
    }

    /// Whether what lies at a place has to be looked at.
    pub fn holds(&self, place: Place) -> bool {
        let Some(found) = &self.0 else { return true };
        found.since.get(&place.shard).is_none_or(|since| place.segment <= *since)
            || found.places.binary_search(&place).is_ok()
    }
}

/// What each shard's indexes hold, of those whose owner is the one who wrote it.
async fn kept(
    store: &SurrealStore,
    transaction: &dyn Transaction,
    spoilt: &mut Spoilt,
) -> Result<Vec<(ShardId, Vec<Kept>)>, StoreError> {
    let mut kept = Vec::new();
    for shard in (0..store.shards()).map(ShardId) {
        let key = shard_key(shard);
        let row = transaction.get(INDEX_SHARD, key.clone()).await.map_err(store_error)?;
        let Some(row) = row else { continue };
        let Some(indexes) = spoilt.sift(INDEX_SHARD, &key, index::shard(&key, &row))? else { continue };
        let owner = transaction.get(SHARD, key).await.map_err(store_error)?;
        let token = owner.as_ref().and_then(shard_rows::token_and_beat).map(|(token, _)| token);
        if token == Some(indexes.token) {
            kept.push((shard, indexes.kept));
        }
    }
    Ok(kept)
}

/// The shards in which a condition on a field can be looked up, and behind which seq.
fn since(kept: &[(ShardId, Vec<Kept>)], filter: &Filter, field: &ContentField) -> BTreeMap<ShardId, Seq> {
    let of_shard = |kept: &Vec<Kept>| {
        let usable = |kept: &&Kept| kept.index.field == *field && kept.index.covers(filter.tenant.as_ref());
        kept.iter().filter(usable).map(|kept| kept.since).min()
    };
    kept.iter().filter_map(|(shard, kept)| Some((*shard, of_shard(kept)?))).collect()
}

/// Where messages with a value lie, as far as the index knows of all; none when there are too many.
async fn places(
    transaction: &dyn Transaction,
    filter: &Filter,
    (field, value): (&ContentField, &str),
    since: &BTreeMap<ShardId, Seq>,
    spoilt: &mut Spoilt,
) -> Result<Option<Vec<Place>>, StoreError> {
    let tenant = filter.tenant.as_ref().and_then(|tenant| tenant.exact());
    let (from, until) = index::range(field, value, tenant);
    let rows = transaction.scan(INDEX, from, until, PLACES_MAX + 1).await.map_err(store_error)?;
    if rows.len() > PLACES_MAX {
        return Ok(None);
    }
    let mut places = Vec::with_capacity(rows.len());
    for row in &rows {
        match index::place_in(&row.key) {
            Some(place) => places.push(place),
            None => spoilt.note(INDEX, &row.key),
        }
    }
    places.retain(|place| since.get(&place.shard).is_some_and(|since| place.segment > *since));
    places.sort_unstable();
    Ok(Some(places))
}
