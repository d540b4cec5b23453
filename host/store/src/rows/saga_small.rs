//! Shard records of sagas, stuck sagas, definitions.

use std::sync::Arc;

use waybill_core::ids::Tenant;
use waybill_core::outbox::records::DeadState;
use waybill_core::port::store::StoreError;
use waybill_core::saga::id::{DefinitionHash, DefinitionRef, SagaId, SagaKey};
use waybill_core::saga::json::Json;
use waybill_core::saga::records::{SagaDead, SagaShardRecord, StoredDefinition};
use waybill_core::time::UnixMillis;
use waybill_surreal::{Object, RecordIdKey, Row, int, int_of, millis, millis_of, object, text, text_of};

use super::columns::error_text;
use super::lacks;
use crate::quarantine::refuse_held;
use crate::tables::{SAGA_DEAD, SAGA_DEFINITION, SAGA_DEFINITION_HASH, SAGA_SHARD, number, part_text, unsigned};

/// Of a shard record. Journal records below `swept` are gone.
pub fn of_shard(record: &SagaShardRecord, swept: u64) -> Object {
    object([
        ("token", number(record.token)),
        ("beat", number(record.beat)),
        // A random number: its bits are kept, not its value.
        ("nonce", int(i64::from_ne_bytes(record.nonce.to_ne_bytes()))),
        ("floor", number(record.floor)),
        ("swept", number(swept)),
    ])
}

/// A shard record, and up to where its journal is gone.
pub fn shard(key: &RecordIdKey, fields: &Object) -> Result<(SagaShardRecord, u64), StoreError> {
    let field = |name: &str| unsigned(fields.get(name)).ok_or_else(|| lacks(SAGA_SHARD, key, name));
    let nonce = int_of(fields.get("nonce")).ok_or_else(|| lacks(SAGA_SHARD, key, "nonce"))?;
    let record = SagaShardRecord {
        token: field("token")?,
        beat: field("beat")?,
        nonce: u64::from_ne_bytes(nonce.to_ne_bytes()),
        floor: field("floor")?,
    };
    Ok((record, unsigned(fields.get("swept")).unwrap_or(0)))
}

/// Of a stuck saga, with the columns of the source's `dead_letters` table.
pub fn of_dead(dead: &SagaDead) -> Object {
    let mut fields = object([
        ("kind", text("saga")),
        ("ref_id", text(dead.key.id.as_str())),
        ("tenant", text(dead.key.tenant.as_str())),
        ("topic", text(dead.topic())),
        ("saga_id", text(dead.saga.as_str())),
        ("def_name", text(&dead.definition.name)),
        ("def_version", int(i64::from(dead.definition.version))),
        ("def_hash", text(&dead.definition.hash.0)),
        ("step", text(&dead.step)),
        ("error_code", text(&dead.code)),
        ("message", text(&dead.reason)),
        ("last_error", error_text(&dead.code, &dead.reason)),
        ("attempts", int(i64::from(dead.attempts))),
        ("died_at", millis(dead.died_at.0)),
    ]);
    mark(&mut fields, &dead.state);
    fields
}

/// Writes the condition into the columns of a stuck saga.
pub fn mark(fields: &mut Object, state: &DeadState) {
    match state {
        DeadState::Dead => {
            fields.insert("status", text("dead"));
            fields.remove("note");
            fields.remove("quarantined_at");
        }
        DeadState::Quarantined { note, at } => {
            fields.insert("status", text("quarantined"));
            fields.insert("note", text(note));
            fields.insert("quarantined_at", millis(at.0));
        }
    }
}

/// The saga that a key of a stuck one names.
pub fn dead_key(key: &RecordIdKey) -> Option<SagaKey> {
    Some(SagaKey { tenant: Tenant::new(part_text(key, 1)?).ok()?, id: SagaId::new(part_text(key, 2)?).ok()? })
}

pub fn dead(row: &Row) -> Result<Arc<SagaDead>, StoreError> {
    let missing = |name: &str| lacks(SAGA_DEAD, &row.key, name);
    let column = |name: &str| text_of(row.fields.get(name)).ok_or_else(|| missing(name));
    let count = |name: &str| int_of(row.fields.get(name)).and_then(|number| u32::try_from(number).ok());
    let instant = |name: &str| millis_of(row.fields.get(name)).map(UnixMillis);
    let state = match column("status")? {
        "quarantined" => DeadState::Quarantined {
            note: text_of(row.fields.get("note")).unwrap_or("").to_owned(),
            at: instant("quarantined_at").ok_or_else(|| missing("quarantined_at"))?,
        },
        _ => DeadState::Dead,
    };
    Ok(Arc::new(SagaDead {
        key: dead_key(&row.key).ok_or_else(|| missing("id"))?,
        saga: SagaId::new(column("saga_id")?).map_err(|_| missing("saga_id"))?,
        definition: DefinitionRef {
            name: Arc::from(column("def_name")?),
            version: count("def_version").ok_or_else(|| missing("def_version"))?,
            hash: DefinitionHash(Arc::from(column("def_hash")?)),
        },
        step: Arc::from(column("step")?),
        code: Arc::from(column("error_code")?),
        reason: Arc::from(column("message")?),
        attempts: count("attempts").ok_or_else(|| missing("attempts"))?,
        died_at: instant("died_at").ok_or_else(|| missing("died_at"))?,
        state,
    }))
}

pub fn of_definition(definition: &StoredDefinition) -> Object {
    object([
        ("name", text(&definition.reference.name)),
        ("version", int(i64::from(definition.reference.version))),
        ("hash", text(&definition.reference.hash.0)),
        ("canonical", text(definition.canonical.as_str())),
        ("created_at", millis(definition.created_at.0)),
        ("created_by", text(&definition.created_by)),
    ])
}

/// The name and version that a content is stored under.
pub fn definition_named(key: &RecordIdKey, fields: &Object) -> Result<(String, u32), StoreError> {
    refuse_held(SAGA_DEFINITION_HASH, key, fields)?;
    let version = int_of(fields.get("version")).and_then(|version| u32::try_from(version).ok());
    let named = text_of(fields.get("name")).map(str::to_owned).zip(version);
    named.ok_or_else(|| lacks(SAGA_DEFINITION_HASH, key, "name"))
}

pub fn definition(key: &RecordIdKey, fields: &Object) -> Result<StoredDefinition, StoreError> {
    refuse_held(SAGA_DEFINITION, key, fields)?;
    let missing = |name: &str| lacks(SAGA_DEFINITION, key, name);
    let column = |name: &str| text_of(fields.get(name)).ok_or_else(|| missing(name));
    let version = int_of(fields.get("version")).and_then(|version| u32::try_from(version).ok());
    Ok(StoredDefinition {
        reference: DefinitionRef {
            name: Arc::from(column("name")?),
            version: version.ok_or_else(|| missing("version"))?,
            hash: DefinitionHash(Arc::from(column("hash")?)),
        },
        canonical: Json::stored(column("canonical")?).map_err(|_| missing("canonical"))?,
        created_at: millis_of(fields.get("created_at")).map(UnixMillis).ok_or_else(|| missing("created_at"))?,
        created_by: column("created_by")?.to_owned(),
    })
}
