//! Schedules: `waybill_schedule:[tenant, name]`. A row is the whole record; a write is guarded by its revision.

use async_trait::async_trait;
use waybill_core::port::schedules::ScheduleStore;
use waybill_core::port::store::StoreError;
use waybill_core::port::transact::DoorGroup;
use waybill_core::schedule::{Schedule, ScheduleKey};
use waybill_surreal::{Bound, Object, RecordIdKey, Row, Transaction, array, key, text};

use crate::fault::store_error;
use crate::quarantine::Spoilt;
use crate::rows::{lacks, small};
use crate::store::{SurrealStore, finish};
use crate::tables::{ID, SCHEDULE, id_key};
use crate::transact::{door_rows, put_door_rows};

/// Rows read in one page: each may hold a payload of 64 KiB.
const PAGE: usize = 100;
/// Tries against whoever writes the same row.
const TRIES_MAX: u32 = 5;

fn schedule_key(of: &ScheduleKey) -> RecordIdKey {
    key([text(of.tenant.as_str()), text(of.name.as_str())])
}

/// The schedule in a row, which lies under its tenant and name.
pub(crate) fn schedule_in(row: &Row) -> Result<Schedule, StoreError> {
    let schedule: Schedule = small::json(SCHEDULE, row.fields.clone())?;
    if row.key == schedule_key(&schedule.key) { Ok(schedule) } else { Err(lacks(SCHEDULE, &row.key, "key")) }
}

async fn read(
    transaction: &dyn Transaction,
    of: &ScheduleKey,
    spoilt: &mut Spoilt,
) -> Result<Option<Schedule>, StoreError> {
    let key = schedule_key(of);
    let Some(fields) = transaction.get(SCHEDULE, key.clone()).await.map_err(store_error)? else { return Ok(None) };
    let row = Row { key, fields };
    spoilt.sift(SCHEDULE, &row.key, schedule_in(&row))
}

async fn try_add(transaction: &dyn Transaction, of: &ScheduleKey, fields: Object) -> Result<(), StoreError> {
    if transaction.get(SCHEDULE, schedule_key(of)).await.map_err(store_error)?.is_some() {
        return Err(StoreError::Exists(format!("schedule {:?} of tenant {:?}", of.name.as_str(), of.tenant.as_str())));
    }
    transaction.put(SCHEDULE, schedule_key(of), fields).await.map_err(store_error)
}

async fn try_change(
    store: &SurrealStore,
    transaction: &dyn Transaction,
    next: &Schedule,
    (fields, messages): (Object, Vec<DoorGroup>),
    spoilt: &mut Spoilt,
) -> Result<(), StoreError> {
    let found = read(transaction, &next.key, spoilt).await?.map(|found| found.revision);
    if found != next.revision.checked_sub(1) {
        return Err(StoreError::Conflict(format!(
            "schedule {:?} of tenant {:?} has revision {found:?}, not the one before {}",
            next.key.name.as_str(),
            next.key.tenant.as_str(),
            next.revision
        )));
    }
    let mut new = Vec::with_capacity(messages.len());
    for DoorGroup { shard, messages } in messages {
        let mut kept = Vec::with_capacity(messages.len());
        for message in messages {
            let is_taken = message.caller_id
                && transaction.get(ID, id_key(&message.tenant, &message.id)).await.map_err(store_error)?.is_some();
            if !is_taken {
                kept.push(message);
            }
        }
        if !kept.is_empty() {
            new.push(DoorGroup { shard, messages: kept });
        }
    }
    transaction.put(SCHEDULE, schedule_key(&next.key), fields).await.map_err(store_error)?;
    put_door_rows(store, transaction, door_rows(&new)?).await
}

async fn try_remove(transaction: &dyn Transaction, of: &ScheduleKey) -> Result<bool, StoreError> {
    if transaction.get(SCHEDULE, schedule_key(of)).await.map_err(store_error)?.is_none() {
        return Ok(false);
    }
    transaction.delete(SCHEDULE, schedule_key(of)).await.map_err(store_error)?;
    Ok(true)
}

#[async_trait]
impl ScheduleStore for SurrealStore {
    async fn add_schedule(&self, schedule: &Schedule) -> Result<(), StoreError> {
        let fields = small::of_json(schedule)?;
        let mut tries = 1;
        loop {
            let transaction = self.begin(true).await?;
            let worked = try_add(transaction.as_ref(), &schedule.key, fields.clone()).await;
            match finish(transaction, worked).await {
                Err(StoreError::Conflict(_)) if tries < TRIES_MAX => tries += 1,
                done => return done,
            }
        }
    }

    async fn change_schedule(&self, next: &Schedule, messages: Vec<DoorGroup>) -> Result<(), StoreError> {
        let fields = small::of_json(next)?;
        let transaction = self.begin(true).await?;
        let mut spoilt = Spoilt::default();
        let worked = try_change(self, transaction.as_ref(), next, (fields, messages), &mut spoilt).await;
        let done = finish(transaction, worked).await;
        self.set_aside(spoilt).await;
        done
    }

    async fn remove_schedule(&self, of: &ScheduleKey) -> Result<bool, StoreError> {
        let mut tries = 1;
        loop {
            let transaction = self.begin(true).await?;
            let worked = try_remove(transaction.as_ref(), of).await;
            match finish(transaction, worked).await {
                Err(StoreError::Conflict(_)) if tries < TRIES_MAX => tries += 1,
                done => return done,
            }
        }
    }

    async fn schedule(&self, of: &ScheduleKey) -> Result<Option<Schedule>, StoreError> {
        let transaction = self.begin(false).await?;
        let mut spoilt = Spoilt::default();
        let found = read(transaction.as_ref(), of, &mut spoilt).await?;
        self.set_aside(spoilt).await;
        Ok(found)
    }

    async fn schedules(&self) -> Result<Vec<Schedule>, StoreError> {
        let transaction = self.begin(false).await?;
        let (mut schedules, mut spoilt) = (Vec::new(), Spoilt::default());
        let mut from = Bound::Included(key([text("")]));
        // Behind all texts.
        let until = Bound::Excluded(key([array([])]));
        loop {
            let rows = transaction.scan(SCHEDULE, from, until.clone(), PAGE).await.map_err(store_error)?;
            let Some(last) = rows.last() else { break };
            from = Bound::Excluded(last.key.clone());
            for row in &rows {
                schedules.extend(spoilt.sift(SCHEDULE, &row.key, schedule_in(row))?);
            }
        }
        self.set_aside(spoilt).await;
        Ok(schedules)
    }
}
