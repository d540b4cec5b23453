//! Quarantine. Segments and sagas get there: nothing else of this store can be unreadable.

use std::sync::Arc;

use async_trait::async_trait;
use serde_json::json;
use waybill_core::ids::{Seq, ShardId};
use waybill_core::outbox::records::DoorKey;
use waybill_core::port::quarantine::{
    QuarantineStore, QuarantinedContent, QuarantinedCounts, QuarantinedRow, Restored,
};
use waybill_core::port::query::Page;
use waybill_core::port::store::StoreError;
use waybill_core::saga::records::BrokenSaga;

use super::MemoryStore;
use super::tables::{SegmentContent, Tables, id_key};

const SEGMENTS: &str = "outbox";
const SAGAS: &str = "saga";

#[derive(Clone, Copy)]
enum Place {
    Segment(ShardId, Seq),
    Saga(u64),
}

impl Place {
    fn parse(id: &str) -> Option<Self> {
        let (table, number) = id.split_once('-')?;
        if table == SAGAS {
            return Some(Self::Saga(number.parse().ok()?));
        }
        Some(Self::Segment(ShardId(table.parse().ok()?), Seq(number.parse().ok()?)))
    }

    /// Names it. Segments come first.
    fn id(self) -> String {
        match self {
            Self::Segment(shard, first) => format!("{:05}-{:020}", shard.0, first.0),
            Self::Saga(number) => format!("{SAGAS}-{number:020}"),
        }
    }
}

#[derive(Clone)]
enum Lying {
    Segment(Option<SegmentContent>),
    Saga(ShardId, Arc<BrokenSaga>),
}

fn found(tables: &Tables, id: &str) -> Option<(Place, QuarantinedRow, Lying)> {
    let place = Place::parse(id)?;
    let (row, lying) = match place {
        Place::Segment(shard, first) => {
            let (reason, content) = tables.quarantine.get(&(shard, first))?;
            (segment(shard, first, reason, content.as_ref()), Lying::Segment(content.clone()))
        }
        Place::Saga(number) => {
            let (shard, broken) = tables.sagas.aside.get(&number)?;
            (saga(number, *shard, broken), Lying::Saga(*shard, Arc::clone(broken)))
        }
    };
    Some((place, row, lying))
}

fn segment(shard: ShardId, first: Seq, reason: &str, content: Option<&SegmentContent>) -> QuarantinedRow {
    let tenant = match content {
        Some(SegmentContent::Segment(segment)) => Some(segment.tenant.to_string()),
        _ => None,
    };
    let (table, key) = (SEGMENTS.to_owned(), json!([shard.0, first.0]));
    QuarantinedRow { id: Place::Segment(shard, first).id(), table, key, tenant, reason: reason.to_owned(), at: None }
}

fn saga(number: u64, shard: ShardId, broken: &BrokenSaga) -> QuarantinedRow {
    let started = broken.started_at().map_or(0, |at| at.0);
    QuarantinedRow {
        id: Place::Saga(number).id(),
        table: SAGAS.to_owned(),
        key: json!([shard.0, started, broken.key.tenant.as_str(), broken.key.id.as_str()]),
        tenant: Some(broken.key.tenant.to_string()),
        reason: broken.reason.clone(),
        at: None,
    }
}

fn all(tables: &Tables) -> Vec<QuarantinedRow> {
    let segments = tables.quarantine.iter();
    let segments =
        segments.map(|((shard, first), (reason, content))| segment(*shard, *first, reason, content.as_ref()));
    let sagas = tables.sagas.aside.iter().map(|(number, (shard, broken))| saga(*number, *shard, broken));
    segments.chain(sagas).collect()
}

/// Puts a saga back: its row is made of all that was set aside of it.
fn restore_saga(tables: &mut Tables, shard: ShardId, broken: &BrokenSaga) -> Result<Restored, StoreError> {
    let row = tables.sagas.rebuilt(shard, &broken.key)?;
    let at = (shard, broken.key.clone());
    if tables.sagas.open.contains_key(&at) || tables.sagas.done.contains_key(&at) {
        return Err(StoreError::Exists(format!("saga {} was written again meanwhile", broken.key)));
    }
    for (number, _) in tables.sagas.aside_of(shard, &broken.key) {
        tables.sagas.aside.remove(&number);
    }
    tables.sagas.open.insert(at, Arc::new(row));
    Ok(Restored::AtTakeover)
}

fn restore_segment(
    tables: &mut Tables,
    (id, nanos): (&str, u64),
    shard: ShardId,
    content: Option<SegmentContent>,
) -> Result<Restored, StoreError> {
    let segment = match content {
        Some(SegmentContent::Segment(segment)) => segment,
        Some(SegmentContent::Malformed(malformed)) => return Err(StoreError::Corrupt(malformed.reason)),
        None => return Err(StoreError::Corrupt("nothing of it is left".to_owned())),
    };
    let messages: Vec<_> = segment.entries.iter().map(|entry| Arc::clone(&entry.message)).collect();
    for message in &messages {
        tables.ids.remove(&id_key(&message.tenant, &message.id));
    }
    let restored = Restored::Queued { messages: messages.len() };
    tables.door.insert((shard, DoorKey { nanos, ordinal: 0, ulid: id.to_owned() }), Ok(messages));
    tables.quarantine.remove(&(shard, segment.first));
    Ok(restored)
}

#[async_trait]
impl QuarantineStore for MemoryStore {
    async fn quarantined(
        &self,
        table: Option<&str>,
        cursor: Option<&str>,
        limit: usize,
    ) -> Result<Page<QuarantinedRow>, StoreError> {
        self.check()?;
        let mut items = self.read(all);
        items.retain(|row| table.is_none_or(|table| row.table == table));
        items.retain(|row| cursor.is_none_or(|cursor| row.id.as_str() > cursor));
        let more = items.len() > limit;
        items.truncate(limit);
        let next_cursor = items.last().filter(|_| more).map(|row| row.id.clone());
        Ok(Page { items, next_cursor })
    }

    async fn quarantined_counts(&self) -> Result<QuarantinedCounts, StoreError> {
        self.check()?;
        let counts =
            self.read(|tables| [(SEGMENTS, tables.quarantine.len() as u64), (SAGAS, tables.sagas.aside.len() as u64)]);
        let counts = counts.into_iter().filter(|(_, count)| *count > 0);
        let tables = counts.map(|(table, count)| (table.to_owned(), count)).collect();
        Ok(QuarantinedCounts { tables, at_least: false })
    }

    async fn quarantined_row(&self, id: &str) -> Result<Option<QuarantinedContent>, StoreError> {
        self.check()?;
        Ok(self.read(|tables| {
            let (_, row, lying) = found(tables, id)?;
            let (columns, unreadable) = match lying {
                Lying::Segment(Some(SegmentContent::Segment(segment))) => {
                    (json!({ "messages": segment.entries.len() }), None)
                }
                Lying::Segment(Some(SegmentContent::Malformed(malformed))) => {
                    (json!({ "data": malformed.raw }), Some(malformed.reason))
                }
                Lying::Segment(None) => (json!({}), Some("nothing of it is left".to_owned())),
                Lying::Saga(shard, broken) => {
                    let columns = json!({
                        "data": broken.row.as_ref().map(|row| format!("{:?}", row.tree)),
                        "journal": broken.entries,
                    });
                    (columns, tables.sagas.rebuilt(shard, &broken.key).err().map(|error| error.to_string()))
                }
            };
            Some(QuarantinedContent { row, columns, unreadable })
        }))
    }

    async fn restore_row(&self, id: &str) -> Result<Option<(QuarantinedRow, Restored)>, StoreError> {
        self.check()?;
        let nanos = self.clock();
        let mut tables = self.tables.lock();
        let Some((place, row, lying)) = found(&tables, id) else { return Ok(None) };
        let restored = match (place, lying) {
            (_, Lying::Saga(shard, broken)) => restore_saga(&mut tables, shard, &broken)?,
            (Place::Segment(shard, _), Lying::Segment(content)) => {
                restore_segment(&mut tables, (id, nanos), shard, content)?
            }
            (Place::Saga(_), Lying::Segment(_)) => return Ok(None),
        };
        Ok(Some((row, restored)))
    }

    async fn drop_row(&self, id: &str) -> Result<Option<QuarantinedRow>, StoreError> {
        self.check()?;
        let mut tables = self.tables.lock();
        let Some((place, row, lying)) = found(&tables, id) else { return Ok(None) };
        match place {
            Place::Segment(shard, first) => drop(tables.quarantine.remove(&(shard, first))),
            Place::Saga(number) => drop(tables.sagas.aside.remove(&number)),
        }
        if let Lying::Saga(shard, broken) = lying
            && tables.sagas.aside_of(shard, &broken.key).is_empty()
        {
            // Nothing is left that could be stuck.
            tables.sagas.dead.remove(&(shard, broken.key.clone()));
        }
        Ok(Some(row))
    }
}
