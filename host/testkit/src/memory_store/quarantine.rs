//! Quarantine. Only segments get there: nothing else of this store can be unreadable.

use std::collections::BTreeMap;
use std::sync::Arc;

use async_trait::async_trait;
use serde_json::json;
use waybill_core::ids::{Seq, ShardId};
use waybill_core::outbox::records::DoorKey;
use waybill_core::port::quarantine::{QuarantineStore, QuarantinedContent, QuarantinedRow, Restored};
use waybill_core::port::query::Page;
use waybill_core::port::store::StoreError;

use super::MemoryStore;
use super::tables::{SegmentContent, id_key};

const TABLE: &str = "outbox";

type Lying = (String, Option<SegmentContent>);

fn id_of(shard: ShardId, first: Seq) -> String {
    format!("{:05}-{:020}", shard.0, first.0)
}

fn place_of(id: &str) -> Option<(ShardId, Seq)> {
    let (shard, first) = id.split_once('-')?;
    Some((ShardId(shard.parse().ok()?), Seq(first.parse().ok()?)))
}

fn row(shard: ShardId, first: Seq, (reason, content): &Lying) -> QuarantinedRow {
    let tenant = match content {
        Some(SegmentContent::Segment(segment)) => Some(segment.tenant.to_string()),
        _ => None,
    };
    QuarantinedRow {
        id: id_of(shard, first),
        table: TABLE.to_owned(),
        key: json!([shard.0, first.0]),
        tenant,
        reason: reason.clone(),
        at: None,
    }
}

fn found(tables: &BTreeMap<(ShardId, Seq), Lying>, id: &str) -> Option<(QuarantinedRow, Option<SegmentContent>)> {
    let (shard, first) = place_of(id)?;
    let lying = tables.get(&(shard, first))?;
    Some((row(shard, first, lying), lying.1.clone()))
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
        if table.is_some_and(|table| table != TABLE) {
            return Ok(Page { items: Vec::new(), next_cursor: None });
        }
        let mut items = self.read(|tables| {
            let all = tables.quarantine.iter().map(|((shard, first), lying)| row(*shard, *first, lying));
            all.filter(|row| cursor.is_none_or(|cursor| row.id.as_str() > cursor)).collect::<Vec<_>>()
        });
        let more = items.len() > limit;
        items.truncate(limit);
        let next_cursor = items.last().filter(|_| more).map(|row| row.id.clone());
        Ok(Page { items, next_cursor })
    }

    async fn quarantined_counts(&self) -> Result<Vec<(String, u64)>, StoreError> {
        self.check()?;
        let count = self.read(|tables| tables.quarantine.len() as u64);
        Ok(if count == 0 { Vec::new() } else { vec![(TABLE.to_owned(), count)] })
    }

    async fn quarantined_row(&self, id: &str) -> Result<Option<QuarantinedContent>, StoreError> {
        self.check()?;
        Ok(self.read(|tables| found(&tables.quarantine, id)).map(|(row, content)| {
            let (columns, unreadable) = match content {
                Some(SegmentContent::Segment(segment)) => (json!({ "messages": segment.entries.len() }), None),
                Some(SegmentContent::Malformed(malformed)) => {
                    (json!({ "data": malformed.raw }), Some(malformed.reason))
                }
                None => (json!({}), Some("nothing of it is left".to_owned())),
            };
            QuarantinedContent { row, columns, unreadable }
        }))
    }

    async fn restore_row(&self, id: &str) -> Result<Option<(QuarantinedRow, Restored)>, StoreError> {
        self.check()?;
        let nanos = self.clock();
        let mut tables = self.tables.lock();
        let Some((row, content)) = found(&tables.quarantine, id) else { return Ok(None) };
        let Some((shard, first)) = place_of(id) else { return Ok(None) };
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
        tables.quarantine.remove(&(shard, first));
        Ok(Some((row, restored)))
    }

    async fn drop_row(&self, id: &str) -> Result<Option<QuarantinedRow>, StoreError> {
        self.check()?;
        let mut tables = self.tables.lock();
        let Some((row, _)) = found(&tables.quarantine, id) else { return Ok(None) };
        if let Some(place) = place_of(id) {
            tables.quarantine.remove(&place);
        }
        Ok(Some(row))
    }
}
