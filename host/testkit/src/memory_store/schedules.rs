//! Schedules.

use std::collections::btree_map::Entry;

use async_trait::async_trait;
use waybill_core::port::schedules::ScheduleStore;
use waybill_core::port::store::StoreError;
use waybill_core::port::transact::DoorGroup;
use waybill_core::schedule::{Schedule, ScheduleKey};

use super::MemoryStore;
use super::tables::id_key;
use super::transact::stamp;

#[async_trait]
impl ScheduleStore for MemoryStore {
    async fn add_schedule(&self, schedule: &Schedule) -> Result<(), StoreError> {
        self.check()?;
        self.write(|tables| match tables.schedules.entry(schedule.key.clone()) {
            Entry::Occupied(_) => Err(StoreError::Exists(format!("schedule {:?}", schedule.key.name.as_str()))),
            Entry::Vacant(free) => {
                free.insert(schedule.clone());
                Ok(())
            }
        })
    }

    async fn change_schedule(&self, next: &Schedule, messages: Vec<DoorGroup>) -> Result<(), StoreError> {
        self.check()?;
        let nanos = self.clock();
        self.write(|tables| {
            let found = tables.schedules.get(&next.key).map(|found| found.revision);
            if found != next.revision.checked_sub(1) {
                let name = next.key.name.as_str();
                return Err(StoreError::Conflict(format!("schedule {name:?} has revision {found:?}")));
            }
            tables.schedules.insert(next.key.clone(), next.clone());
            for DoorGroup { shard, mut messages } in messages {
                messages.retain(|message| {
                    !(message.caller_id && tables.ids.contains_key(&id_key(&message.tenant, &message.id)))
                });
                if !messages.is_empty() {
                    let rows = tables.door.range((shard, stamp(nanos, 0))..=(shard, stamp(nanos, u32::MAX)));
                    let ordinal = u32::try_from(rows.count()).unwrap_or(u32::MAX);
                    tables.door.insert((shard, stamp(nanos, ordinal)), Ok(messages));
                }
            }
            Ok(())
        })
    }

    async fn remove_schedule(&self, key: &ScheduleKey) -> Result<bool, StoreError> {
        self.check()?;
        Ok(self.write(|tables| tables.schedules.remove(key).is_some()))
    }

    async fn schedule(&self, key: &ScheduleKey) -> Result<Option<Schedule>, StoreError> {
        self.check()?;
        Ok(self.read(|tables| tables.schedules.get(key).cloned()))
    }

    async fn schedules(&self) -> Result<Vec<Schedule>, StoreError> {
        self.check()?;
        Ok(self.read(|tables| tables.schedules.values().cloned().collect()))
    }
}
