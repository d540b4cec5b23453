//! Dead letters by filter. The walk looks at the plain columns first and decodes only what may match.

use std::sync::Arc;

use waybill_core::glob::Glob;
use waybill_core::ids::Place;
use waybill_core::outbox::filter::Filter;
use waybill_core::outbox::records::DeadLetter;
use waybill_core::port::query::Page;
use waybill_core::port::store::StoreError;
use waybill_core::time::UnixMillis;
use waybill_surreal::{Bound, Row, Transaction, bytes_of, text_of};

use super::cursor::{At, Filling};
use super::latest::walk;
use super::reach::Reach;
use crate::fault::store_error;
use crate::quarantine::Spoilt;
use crate::rows::stopped;
use crate::store::SurrealStore;
use crate::tables::{DEAD, part, part_shard, seq_key};

/// Rows of one page of the walk.
const WALK_PAGE: usize = 500;

/// Whether the columns leave a match possible.
fn may_match(filter: &Filter, row: &Row) -> bool {
    let holds = |glob: &Option<Glob>, column: &str| {
        glob.as_ref().is_none_or(|glob| glob.matches(text_of(row.fields.get(column)).unwrap_or("")))
    };
    holds(&filter.tenant, "tenant") && holds(&filter.code, "error_code") && holds(&filter.id, "message_id")
}

/// The dead letter in a row, if it matches.
pub(super) fn matching(filter: &Filter, row: &Row, spoilt: &mut Spoilt) -> Result<Option<Arc<DeadLetter>>, StoreError> {
    if !may_match(filter, row) {
        return Ok(None);
    }
    let dead = spoilt.sift(DEAD, &row.key, stopped::dead(row))?;
    Ok(dead.filter(|dead| filter.takes_dead(dead)))
}

pub async fn dead_letters(
    store: &SurrealStore,
    transaction: &dyn Transaction,
    filter: &Filter,
    cursor: Option<&str>,
    limit: usize,
    spoilt: &mut Spoilt,
) -> Result<Page<Arc<DeadLetter>>, StoreError> {
    let after = cursor.map(|cursor| At::from_cursor(cursor, 2)).transpose()?;
    let place = after.as_ref().map(|at| (at.shard(), at.seq()));
    let mut page = Filling::new(after, limit);
    for span in Reach::of(store, transaction, filter, spoilt).await?.spans(Place::seq) {
        let mut from = match place {
            Some((shard, seq)) if span.is_before(shard, seq) => continue,
            Some((shard, seq)) if span.holds(shard, seq) => Bound::Excluded(seq_key(shard, seq)),
            _ => Bound::Included(span.begin()),
        };
        loop {
            let rows =
                transaction.scan(DEAD, from, Bound::Excluded(span.end()), WALK_PAGE).await.map_err(store_error)?;
            for row in &rows {
                if !page.has_room() {
                    return Ok(page.cut());
                }
                let (Some(shard), Some(seq)) = (part_shard(&row.key), part(&row.key, 1)) else {
                    spoilt.note(DEAD, &row.key);
                    continue;
                };
                page.weigh(bytes_of(row.fields.get("data")).map_or(0, |data| data.len()));
                page.visit(At::new(shard, &[seq], ""), matching(filter, row, spoilt)?);
            }
            match rows.into_iter().nth(WALK_PAGE - 1) {
                Some(last) => from = Bound::Excluded(last.key),
                None => break,
            }
        }
    }
    Ok(page.end())
}

/// Calls `each` with those of the latest `reads` dead letters that match. Answers how far it got, if there are more.
pub async fn each(
    store: &SurrealStore,
    transaction: &dyn Transaction,
    filter: &Filter,
    reads: usize,
    spoilt: &mut Spoilt,
    mut each: impl FnMut(&DeadLetter) + Send,
) -> Result<Option<UnixMillis>, StoreError> {
    let reach = Reach::of(store, transaction, filter, spoilt).await?;
    walk(transaction, &reach, filter.before, reads, spoilt, |row, _, spoilt| {
        if let Some(dead) = matching(filter, row, spoilt)? {
            each(&dead);
        }
        Ok(())
    })
    .await
}
