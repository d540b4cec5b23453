//! Writes of callers and operators.

use std::sync::Arc;

use async_trait::async_trait;
use waybill_core::audit::AuditQuery;
use waybill_core::fates::Fates;
use waybill_core::ids::{ShardId, Tenant};
use waybill_core::message::Message;
use waybill_core::outbox::records::DoorKey;
use waybill_core::port::query::Page;
use waybill_core::port::store::StoreError;
use waybill_core::port::transact::{
    AuditEvent, Conclusion, DoorGroup, Operation, OperationState, Statement, TransactStore, Transacted,
    first_operation_id,
};
use waybill_core::streams::exact::ExactAnswer;
use waybill_core::streams::joint::{JointAppends, is_repeat};
use waybill_core::time::UnixMillis;

use super::tables::{Tables, id_key};
use super::{MemoryStore, audit};

#[async_trait]
impl TransactStore for MemoryStore {
    async fn transact(
        &self,
        statements: Vec<Statement>,
        messages: Vec<DoorGroup>,
        events: JointAppends,
        conclusion: Option<Conclusion>,
    ) -> Result<Transacted, StoreError> {
        self.check()?;
        let nanos = self.clock();
        self.write(|tables| {
            for (shard, message) in
                messages.iter().flat_map(|group| group.messages.iter().map(move |one| (group.shard, one)))
            {
                let key = id_key(&message.tenant, &message.id);
                let is_taken =
                    || tables.ids.contains_key(&key) || (message.statements.is_some() && waits(tables, shard, message));
                if message.caller_id && is_taken() {
                    return Err(StoreError::Exists(format!("id {:?} of tenant {:?}", key.1, key.0)));
                }
            }
            let refused = |refusal| StoreError::Append(Box::new(refusal));
            let (answers, appended) = tables.streams.begin_joint(&events).map_err(StoreError::of_one_caller)?;
            let exact: Vec<&ExactAnswer> = answers.iter().flatten().collect();
            let is_repeat = is_repeat(&events, &exact, &messages).map_err(refused)?;
            let results = if is_repeat { Vec::new() } else { self.statements.run(&statements)? };
            let seqs = answers.into_iter().map(|answer| Some(answer?.seqs)).collect();
            let done = Transacted { results, seqs, is_repeat };
            if let Some(conclusion) = &conclusion {
                tables.conclude(conclusion, &done)?;
            }
            tables.streams.apply_tx(&appended, nanos)?;
            for group in messages.into_iter().filter(|_| !is_repeat) {
                let rows = tables.door.range((group.shard, stamp(nanos, 0))..=(group.shard, stamp(nanos, u32::MAX)));
                let ordinal = u32::try_from(rows.count()).unwrap_or(u32::MAX);
                tables.door.insert((group.shard, stamp(nanos, ordinal)), Ok(group.messages));
            }
            Ok(done)
        })
    }

    async fn put_operation(&self, operation: &Operation) -> Result<(), StoreError> {
        self.check()?;
        self.write(|tables| tables.operations.insert(operation.id.clone(), operation.clone()));
        Ok(())
    }

    async fn operation(&self, id: &str) -> Result<Option<Operation>, StoreError> {
        self.check()?;
        Ok(self.read(|tables| tables.operations.get(id).cloned()))
    }

    async fn operations(&self, tenant: Option<&Tenant>, limit: usize) -> Result<Vec<Operation>, StoreError> {
        self.check()?;
        Ok(self.read(|tables| {
            let newest = tables.operations.values().rev();
            let of_tenant =
                newest.filter(|found| tenant.is_none_or(|tenant| found.tenant.as_deref() == Some(tenant.as_str())));
            of_tenant.take(limit).cloned().collect()
        }))
    }

    async fn running_operations(&self) -> Result<Vec<Operation>, StoreError> {
        self.check()?;
        Ok(self.read(|tables| {
            tables.operations.values().filter(|operation| operation.state == OperationState::Running).cloned().collect()
        }))
    }

    async fn fates(&self, operation: &str) -> Result<Fates, StoreError> {
        self.check()?;
        Ok(self.read(|tables| {
            let of_it = tables.fates.iter().filter(|((of, _), _)| of == operation);
            of_it.fold(Fates::default(), |mut sum, (_, fates)| {
                sum.add(fates);
                sum
            })
        }))
    }

    async fn set_paused(&self, transport: &str, paused: bool) -> Result<(), StoreError> {
        self.check()?;
        self.write(|tables| match paused {
            true => tables.paused.insert(transport.to_owned()),
            false => tables.paused.remove(transport),
        });
        Ok(())
    }

    async fn paused(&self) -> Result<Vec<String>, StoreError> {
        self.check()?;
        Ok(self.read(|tables| tables.paused.iter().cloned().collect()))
    }

    async fn note_incidents(&self, host: &str, record: &str) -> Result<(), StoreError> {
        self.check()?;
        self.write(|tables| match record.is_empty() {
            true => tables.incidents.remove(host),
            false => tables.incidents.insert(host.to_owned(), record.to_owned()),
        });
        Ok(())
    }

    async fn incidents(&self, host: &str) -> Result<String, StoreError> {
        self.check()?;
        Ok(self.read(|tables| tables.incidents.get(host).cloned().unwrap_or_default()))
    }

    async fn audit(&self, event: &AuditEvent) -> Result<(), StoreError> {
        self.check()?;
        if let Some(error) = self.faults.lock().audits.clone() {
            return Err(error);
        }
        self.write(|tables| {
            tables.audit_last += 1;
            tables.audit.insert((event.at, tables.audit_last), event.clone());
        });
        Ok(())
    }

    async fn audit_lines(
        &self,
        query: &AuditQuery,
        cursor: Option<&str>,
        limit: usize,
    ) -> Result<Page<AuditEvent>, StoreError> {
        self.check()?;
        self.read(|tables| audit::lines(tables, query, cursor, limit))
    }

    async fn purge_audit(&self, before: UnixMillis, limit: usize) -> Result<usize, StoreError> {
        self.check()?;
        Ok(self.write(|tables| audit::purge(tables, before, limit)))
    }

    async fn purge_operations(&self, before: UnixMillis, limit: usize) -> Result<usize, StoreError> {
        self.check()?;
        Ok(self.write(|tables| {
            let first = first_operation_id(before);
            let old = tables.operations.range(..first.clone()).filter(|(_, operation)| operation.was_over(before));
            let over: Vec<String> = old.map(|(id, _)| id.clone()).take(limit).collect();
            over.iter().for_each(|id| drop(tables.operations.remove(id)));
            let counted = tables.fates.keys().take_while(|(of, _)| *of < first);
            let gone = counted.filter(|(of, _)| !tables.operations.contains_key(of));
            let gone: Vec<(String, ShardId)> = gone.take(limit).cloned().collect();
            gone.iter().for_each(|key| drop(tables.fates.remove(key)));
            over.len().max(gone.len())
        }))
    }
}

/// Whether a message with this one's id lies on the doorstep.
fn waits(tables: &Tables, shard: ShardId, message: &Message) -> bool {
    let is_it = |other: &Arc<Message>| other.caller_id && (&other.tenant, &other.id) == (&message.tenant, &message.id);
    let mut rows = tables.door.iter().filter(|((of, _), _)| *of == shard);
    rows.any(|(_, content)| content.as_ref().is_ok_and(|messages| messages.iter().any(is_it)))
}

/// A key that tells rows of one stamp apart by their ordinal alone: enough where one lock orders all writers.
pub(super) fn stamp(nanos: u64, ordinal: u32) -> DoorKey {
    DoorKey { nanos, ordinal, ulid: format!("{ordinal:026}") }
}
