//! Rows in quarantine, as a damaged disk or another version leaves them.

use std::sync::Arc;

use waybill_core::ids::{Seq, ShardId};
use waybill_core::new_message::NewMessage;
use waybill_core::outbox::records::{Entry, Malformed, Segment};
use waybill_core::saga::id::{SagaId, SagaKey};
use waybill_core::saga::records::BrokenSaga;

use super::{InMemoryHost, tenant};
use crate::memory_store::{SegmentContent, Tables};

/// Where no owner has put a segment.
const SHARD: ShardId = ShardId(0);
/// Why the rows were set aside.
const REASON: &str = "the checksum of its data is wrong";
/// Largest payload of a message that is put aside, in bytes.
const PAYLOAD_BYTES_MAX: usize = 1024 * 1024;

impl InMemoryHost {
    /// Sets aside a segment that can't be read; the row's name.
    pub async fn unreadable_row(&self) -> String {
        let malformed = Malformed { reason: "the checksum is wrong".to_owned(), raw: "V0JQc3BvaWx0".to_owned() };
        self.set_aside(SegmentContent::Malformed(malformed)).await
    }

    /// Sets aside a segment of one tenant's messages that can be read by now; the row's name.
    pub async fn readable_row(&self, messages: impl IntoIterator<Item = NewMessage>) -> String {
        let checked = messages.into_iter().map(|message| message.check(self.now(), PAYLOAD_BYTES_MAX).unwrap());
        let made = || panic!("a message that is set aside needs an id of the test's own");
        let messages: Vec<_> = checked.map(|draft| draft.finish(made)).collect();
        let of = messages.first().unwrap().tenant.clone();
        let entries = (0..).zip(messages).map(|(index, message)| Entry { index, message }).collect();
        let first = self.store.read(free_place);
        self.set_aside(SegmentContent::Segment(Arc::new(Segment { first, tenant: of, entries }))).await
    }

    async fn set_aside(&self, content: SegmentContent) -> String {
        let first = self.store.write(|tables| {
            let first = free_place(tables);
            tables.quarantine.insert((SHARD, first), (REASON.to_owned(), Some(content)));
            first
        });
        self.row_of("outbox", |key| key.get(1).and_then(serde_json::Value::as_u64) == Some(first.0)).await
    }

    /// Sets aside a saga that the host runs; the row's name. What its owner has in memory stays as it is.
    pub async fn set_aside_saga(&self, of: &str, id: &str) -> String {
        let key = SagaKey { tenant: tenant(of), id: SagaId::root(id).unwrap() };
        self.store.write(|tables| {
            let row = tables.sagas.open.remove(&(SHARD, key.clone()));
            let entries = tables.sagas.journal.values().flatten().filter(|entry| entry.key == key).cloned().collect();
            let broken = BrokenSaga { key: key.clone(), reason: REASON.to_owned(), row, entries };
            tables.sagas.aside_last += 1;
            tables.sagas.aside.insert(tables.sagas.aside_last, (SHARD, Arc::new(broken)));
        });
        self.row_of("saga", |key| key.get(3).and_then(serde_json::Value::as_str) == Some(id)).await
    }

    async fn row_of(&self, table: &str, is_it: impl Fn(&serde_json::Value) -> bool) -> String {
        let rows = self.outbox.quarantined(Some(table), None, 1_000).await.unwrap().items;
        rows.into_iter().find(|row| is_it(&row.key)).unwrap().id
    }
}

/// A place that no segment in quarantine has.
fn free_place(tables: &Tables) -> Seq {
    tables.quarantine.last_key_value().map_or(Seq(1), |((_, first), _)| Seq(first.0 + 1))
}
