//! Writes of callers and operators.

mod audit;
mod operations;
mod repeats;
mod run;
mod session;
mod stamps;

pub use repeats::Repeats;
pub(crate) use run::{DoorGroupAt, door_rows, door_stamp, put_door_rows};
pub use session::{AppendedInTx, BusinessError, BusinessTransaction, append_in_tx, enqueue_in_tx};
pub use stamps::Stamps;

use async_trait::async_trait;
use waybill_core::audit::AuditQuery;
use waybill_core::fates::Fates;
use waybill_core::ids::Tenant;
use waybill_core::port::query::Page;
use waybill_core::port::store::StoreError;
use waybill_core::port::transact::{
    AuditEvent, Conclusion, DoorGroup, Operation, OperationState, Statement, TransactStore, Transacted,
};
use waybill_core::streams::joint::JointAppends;
use waybill_core::time::UnixMillis;
use waybill_surreal::{Bound, RecordIdKey, Row, object, text, text_of};

use crate::fault::store_error;
use crate::quarantine::Spoilt;
use crate::rows::{fates, lacks, small};
use crate::store::{SurrealStore, finish};
use crate::tables::{META, OPERATIONS};

/// Paused transports are noted under this and their name.
const PAUSED: &str = "paused/";
/// Behind all of them.
const PAUSED_END: &str = "paused0";
/// Records of open incidents lie under this and the name of their host.
const INCIDENTS: &str = "incidents/";
/// Far more transports than a host has.
const PAUSED_MAX: usize = 10_000;
/// Operations read in one page.
const OPERATIONS_PAGE: usize = 200;
/// Operations looked at for one list: those of a quiet tenant may lie deep.
const OPERATIONS_READS_MAX: usize = 20_000;

#[async_trait]
impl TransactStore for SurrealStore {
    async fn transact(
        &self,
        statements: Vec<Statement>,
        messages: Vec<DoorGroup>,
        events: JointAppends,
        conclusion: Option<Conclusion>,
    ) -> Result<Transacted, StoreError> {
        run::transact(self, &statements, (&messages, &events), conclusion.as_ref()).await
    }

    async fn put_operation(&self, operation: &Operation) -> Result<(), StoreError> {
        let fields = small::of_json(operation)?;
        let transaction = self.begin(true).await?;
        let worked = transaction.put(OPERATIONS, RecordIdKey::String(operation.id.as_str().into()), fields).await;
        finish(transaction, worked.map_err(store_error)).await
    }

    async fn operation(&self, id: &str) -> Result<Option<Operation>, StoreError> {
        let transaction = self.begin(false).await?;
        let found = transaction.get(OPERATIONS, RecordIdKey::String(id.into())).await.map_err(store_error)?;
        let mut spoilt = Spoilt::default();
        let key = RecordIdKey::String(id.into());
        let found = spoilt.note_corrupt(OPERATIONS, &key, found.map(|fields| operation(id, fields)).transpose());
        self.set_aside(spoilt).await;
        found
    }

    async fn operations(&self, tenant: Option<&Tenant>, limit: usize) -> Result<Vec<Operation>, StoreError> {
        let transaction = self.begin(false).await?;
        let (mut latest, mut spoilt, mut reads) = (Vec::new(), Spoilt::default(), 0);
        let mut until = ids_end();
        while latest.len() < limit && reads < OPERATIONS_READS_MAX {
            let rows =
                transaction.scan_back(OPERATIONS, ids_begin(), until, OPERATIONS_PAGE).await.map_err(store_error)?;
            let Some(last) = rows.last() else { break };
            until = Bound::Excluded(last.key.clone());
            reads += rows.len();
            for row in rows {
                let is_theirs = tenant.is_none_or(|tenant| text_of(row.fields.get("tenant")) == Some(tenant.as_str()));
                if is_theirs && latest.len() < limit {
                    latest.extend(spoilt.sift(OPERATIONS, &row.key, operation_in(&row))?);
                }
            }
        }
        self.set_aside(spoilt).await;
        Ok(latest)
    }

    async fn running_operations(&self) -> Result<Vec<Operation>, StoreError> {
        let transaction = self.begin(false).await?;
        let (mut running, mut spoilt) = (Vec::new(), Spoilt::default());
        let mut from = ids_begin();
        loop {
            let rows = transaction.scan(OPERATIONS, from, ids_end(), OPERATIONS_PAGE).await.map_err(store_error)?;
            let Some(last) = rows.last() else { break };
            from = Bound::Excluded(last.key.clone());
            for row in rows {
                if text_of(row.fields.get("state")).is_none_or(|state| state == "running") {
                    let found = spoilt.sift(OPERATIONS, &row.key, operation_in(&row))?;
                    running.extend(found.filter(|found| found.state == OperationState::Running));
                }
            }
        }
        self.set_aside(spoilt).await;
        Ok(running)
    }

    async fn fates(&self, operation: &str) -> Result<Fates, StoreError> {
        let transaction = self.begin(false).await?;
        fates::sum(transaction.as_ref(), operation).await
    }

    async fn set_paused(&self, transport: &str, paused: bool) -> Result<(), StoreError> {
        let key = RecordIdKey::String(format!("{PAUSED}{transport}").into());
        let transaction = self.begin(true).await?;
        let worked = match paused {
            true => transaction.put(META, key, object([("transport", text(transport))])).await,
            false => transaction.delete(META, key).await,
        };
        finish(transaction, worked.map_err(store_error)).await
    }

    async fn paused(&self) -> Result<Vec<String>, StoreError> {
        let transaction = self.begin(false).await?;
        let from = Bound::Included(RecordIdKey::String(PAUSED.into()));
        let until = Bound::Excluded(RecordIdKey::String(PAUSED_END.into()));
        let rows = transaction.scan(META, from, until, PAUSED_MAX).await.map_err(store_error)?;
        Ok(rows.iter().filter_map(|row| text_of(row.fields.get("transport"))).map(str::to_owned).collect())
    }

    async fn note_incidents(&self, host: &str, record: &str) -> Result<(), StoreError> {
        let key = RecordIdKey::String(format!("{INCIDENTS}{host}").into());
        let transaction = self.begin(true).await?;
        let worked = match record.is_empty() {
            true => transaction.delete(META, key).await,
            false => transaction.put(META, key, object([("incidents", text(record))])).await,
        };
        finish(transaction, worked.map_err(store_error)).await
    }

    async fn incidents(&self, host: &str) -> Result<String, StoreError> {
        let transaction = self.begin(false).await?;
        let key = RecordIdKey::String(format!("{INCIDENTS}{host}").into());
        let noted = transaction.get(META, key).await.map_err(store_error)?;
        Ok(noted.and_then(|fields| text_of(fields.get("incidents")).map(str::to_owned)).unwrap_or_default())
    }

    async fn audit(&self, event: &AuditEvent) -> Result<(), StoreError> {
        audit::append(self, event).await
    }

    async fn audit_lines(
        &self,
        query: &AuditQuery,
        cursor: Option<&str>,
        limit: usize,
    ) -> Result<Page<AuditEvent>, StoreError> {
        audit::lines(self, query, cursor, limit).await
    }

    async fn purge_audit(&self, before: UnixMillis, limit: usize) -> Result<usize, StoreError> {
        audit::purge(self, before, limit).await
    }

    async fn purge_operations(&self, before: UnixMillis, limit: usize) -> Result<usize, StoreError> {
        operations::purge(self, before, limit).await
    }
}

/// Ids are ULIDs: nothing of theirs comes behind a tilde.
fn ids_end() -> Bound {
    Bound::Excluded(RecordIdKey::String("~".into()))
}

fn ids_begin() -> Bound {
    Bound::Included(RecordIdKey::String("".into()))
}

/// The operation in a row.
pub(crate) fn operation_in(row: &Row) -> Result<Operation, StoreError> {
    match &row.key {
        RecordIdKey::String(id) => operation(id.as_str(), row.fields.clone()),
        key => Err(lacks(OPERATIONS, key, "id")),
    }
}

/// An operation. The record's id is the operation's, so its field is put back under the name.
fn operation(id: &str, mut fields: waybill_surreal::Object) -> Result<Operation, StoreError> {
    fields.insert("id", waybill_surreal::text(id));
    small::json(OPERATIONS, fields)
}
