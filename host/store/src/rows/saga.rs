//! Sagas that rest or have ended: plain columns for people and lists, and the tree as bytes in the row or beside it.

use std::sync::Arc;

use bytes::Bytes;
use waybill_core::ids::Tenant;
use waybill_core::port::store::StoreError;
use waybill_core::saga::id::{DefinitionHash, DefinitionRef, SagaId, SagaKey};
use waybill_core::saga::records::{SagaRow, SagaSummary};
use waybill_core::saga::state::{SagaState, Tree};
use waybill_core::time::UnixMillis;
use waybill_surreal::{
    Object, RecordIdKey, Row, Value, array, bytes, bytes_of, int, int_of, millis, millis_of, text, text_of,
};

use super::segment::INLINE_DATA_BYTES_MAX;
use super::{encoded, lacks, unreadable};
use crate::codec::saga::{decode_tree, encode_tree};

/// The records of a saga.
pub struct SagaRows {
    pub row: Object,
    /// Its tree, if that lies apart.
    pub tree: Option<Object>,
}

pub fn of_saga(saga: &SagaRow) -> Result<SagaRows, StoreError> {
    let tree = encoded(encode_tree(&saga.tree))?;
    let mut row = columns(&saga.summary);
    if tree.len() <= INLINE_DATA_BYTES_MAX {
        row.insert("data", bytes(tree));
        return Ok(SagaRows { row, tree: None });
    }
    let mut apart = Object::default();
    apart.insert("data", bytes(tree));
    Ok(SagaRows { row, tree: Some(apart) })
}

/// The columns, with the names of the source document where it has them (`soulbase-tx.md` §7.1). Absent fields are left out.
fn columns(summary: &SagaSummary) -> Object {
    let mut columns = waybill_surreal::object([
        ("saga_id", text(summary.key.id.as_str())),
        ("tenant", text(summary.key.tenant.as_str())),
        ("def_name", text(&summary.definition.name)),
        ("def_version", int(i64::from(summary.definition.version))),
        ("def_hash", text(&summary.definition.hash.0)),
        ("state", text(summary.state.word())),
        ("created_at", millis(summary.started_at.0)),
        ("updated_at", millis(summary.updated_at.0)),
    ]);
    if !summary.steps.is_empty() {
        columns.insert("steps", array(summary.steps.iter().map(text)));
    }
    let mut texts = |name: &'static str, value: &Option<Arc<str>>| {
        if let Some(value) = value {
            columns.insert(name, text(value));
        }
    };
    texts("waiting_for", &summary.waiting_for);
    texts("error_code", &summary.code);
    texts("last_error", &summary.reason);
    let mut instants = |name: &'static str, at: Option<UnixMillis>| {
        if let Some(at) = at {
            columns.insert(name, millis(at.0));
        }
    };
    instants("waiting_since", summary.since);
    instants("waiting_until", summary.until);
    instants("ended_at", summary.ended_at);
    instants("timeout_at", summary.deadline);
    columns
}

/// Columns as they are read, with errors that name the record.
struct Columns<'r> {
    table: &'static str,
    row: &'r Row,
}

impl<'r> Columns<'r> {
    fn lacks(&self, name: &str) -> StoreError {
        lacks(self.table, &self.row.key, name)
    }

    fn text_or_none(&self, name: &str) -> Option<&'r str> {
        text_of(self.row.fields.get(name))
    }

    fn text(&self, name: &str) -> Result<&'r str, StoreError> {
        self.text_or_none(name).ok_or_else(|| self.lacks(name))
    }

    fn instant_or_none(&self, name: &str) -> Option<UnixMillis> {
        millis_of(self.row.fields.get(name)).map(UnixMillis)
    }

    fn instant(&self, name: &str) -> Result<UnixMillis, StoreError> {
        self.instant_or_none(name).ok_or_else(|| self.lacks(name))
    }

    fn definition(&self) -> Result<DefinitionRef, StoreError> {
        let version = int_of(self.row.fields.get("def_version")).and_then(|version| u32::try_from(version).ok());
        Ok(DefinitionRef {
            name: Arc::from(self.text("def_name")?),
            version: version.ok_or_else(|| self.lacks("def_version"))?,
            hash: DefinitionHash(Arc::from(self.text("def_hash")?)),
        })
    }
}

/// The columns of a row.
pub fn summary(table: &'static str, row: &Row) -> Result<SagaSummary, StoreError> {
    let of = Columns { table, row };
    let word = of.text("state")?;
    let state = SagaState::ALL.into_iter().find(|state| state.word() == word);
    let steps = match row.fields.get("steps") {
        Some(Value::Array(steps)) => steps.0.iter().filter_map(|step| text_of(Some(step)).map(Arc::from)).collect(),
        _ => Vec::new(),
    };
    Ok(SagaSummary {
        key: SagaKey {
            tenant: Tenant::new(of.text("tenant")?).map_err(|_| of.lacks("tenant"))?,
            id: SagaId::new(of.text("saga_id")?).map_err(|_| of.lacks("saga_id"))?,
        },
        definition: of.definition()?,
        state: state.ok_or_else(|| of.lacks("state"))?,
        waiting_for: of.text_or_none("waiting_for").map(Arc::from),
        since: of.instant_or_none("waiting_since"),
        until: of.instant_or_none("waiting_until"),
        steps,
        code: of.text_or_none("error_code").map(Arc::from),
        reason: of.text_or_none("last_error").map(Arc::from),
        started_at: of.instant("created_at")?,
        updated_at: of.instant("updated_at")?,
        ended_at: of.instant_or_none("ended_at"),
        deadline: of.instant_or_none("timeout_at"),
    })
}

/// The bytes of a tree, in a row or in the record beside it.
pub fn tree_bytes(fields: &Object) -> Option<Bytes> {
    bytes_of(fields.get("data"))
}

/// The tree of a row.
pub fn tree(table: &'static str, key: &RecordIdKey, data: Option<Bytes>) -> Result<Tree, StoreError> {
    let data = data.ok_or_else(|| lacks(table, key, "data"))?;
    decode_tree(&data).map_err(|error| unreadable(table, key, error))
}

/// A saga, from its row and the bytes of its tree.
pub fn saga(table: &'static str, row: &Row, data: Option<Bytes>) -> Result<Arc<SagaRow>, StoreError> {
    let summary = summary(table, row)?;
    let tree = Arc::new(tree(table, &row.key, data)?);
    Ok(Arc::new(SagaRow { summary, tree }))
}
