//! Definitions, by name and version and by content.

use waybill_core::ids::ShardId;
use waybill_core::port::query::Page;
use waybill_core::port::saga_store::DefinitionPut;
use waybill_core::port::store::StoreError;
use waybill_core::saga::id::DefinitionHash;
use waybill_core::saga::records::StoredDefinition;
use waybill_surreal::{Bound, RecordIdKey, Row, Transaction, int, key, object, text};

use super::TRIES_MAX;
use crate::fault::store_error;
use crate::quarantine::{Spoilt, sifted};
use crate::query::cursor::At;
use crate::rows::saga_small::{definition, definition_named, of_definition};
use crate::store::{SurrealStore, finish};
use crate::tables::{SAGA_DEFINITION, SAGA_DEFINITION_HASH, definition_key};

/// Most definitions of one page: each may have 256 KiB.
const PAGE_MAX: usize = 200;
/// Numbers of a cursor: none for the shard, the version.
const CURSOR_NUMBERS: usize = 2;
/// Behind all names, which begin with a letter or digit.
const NAMES_END: &str = "~";

fn hash_key(hash: &DefinitionHash) -> RecordIdKey {
    let text: &str = &hash.0;
    RecordIdKey::String(text.into())
}

pub async fn put(store: &SurrealStore, new: &StoredDefinition) -> Result<DefinitionPut, StoreError> {
    let mut tries = 1;
    loop {
        let transaction = store.begin(true).await?;
        let mut spoilt = Spoilt::default();
        let worked = try_put(transaction.as_ref(), new, &mut spoilt).await;
        match finish(transaction, worked).await {
            Err(StoreError::Conflict(_) | StoreError::Exists(_)) if tries < TRIES_MAX => tries += 1,
            done => {
                store.set_aside(spoilt).await;
                return done;
            }
        }
    }
}

async fn try_put(
    transaction: &dyn Transaction,
    new: &StoredDefinition,
    spoilt: &mut Spoilt,
) -> Result<DefinitionPut, StoreError> {
    let reference = &new.reference;
    if let Some(there) = by_name(transaction, &reference.name, Some(reference.version), spoilt).await? {
        let same = there.reference.hash == reference.hash;
        return Ok(if same { DefinitionPut::Same(there) } else { DefinitionPut::Taken(there) });
    }
    let hash = hash_key(&reference.hash);
    let known = transaction.get(SAGA_DEFINITION_HASH, hash.clone()).await.map_err(store_error)?;
    let at = definition_key(&reference.name, reference.version);
    transaction.create(SAGA_DEFINITION, at, of_definition(new)).await.map_err(store_error)?;
    if known.is_none() {
        let fields = object([("name", text(&reference.name)), ("version", int(i64::from(reference.version)))]);
        transaction.put(SAGA_DEFINITION_HASH, hash, fields).await.map_err(store_error)?;
    }
    Ok(DefinitionPut::Created)
}

/// By name; without a version the highest.
pub async fn by_name(
    transaction: &dyn Transaction,
    name: &str,
    version: Option<u32>,
    spoilt: &mut Spoilt,
) -> Result<Option<StoredDefinition>, StoreError> {
    if let Some(version) = version {
        let at = definition_key(name, version);
        let fields = transaction.get(SAGA_DEFINITION, at.clone()).await.map_err(store_error)?;
        return spoilt.note_corrupt(SAGA_DEFINITION, &at, fields.map(|fields| definition(&at, &fields)).transpose());
    }
    let (from, until) = (Bound::Included(key([text(name)])), Bound::Excluded(definition_key(name, 0)));
    let rows = transaction.scan(SAGA_DEFINITION, from, until, 1).await.map_err(store_error)?;
    let Some(row) = rows.first() else { return Ok(None) };
    spoilt.note_corrupt(SAGA_DEFINITION, &row.key, definition(&row.key, &row.fields)).map(Some)
}

pub async fn by_hash(
    transaction: &dyn Transaction,
    hash: &DefinitionHash,
    spoilt: &mut Spoilt,
) -> Result<Option<StoredDefinition>, StoreError> {
    let at = hash_key(hash);
    let Some(fields) = transaction.get(SAGA_DEFINITION_HASH, at.clone()).await.map_err(store_error)? else {
        return Ok(None);
    };
    let (name, version) = spoilt.note_corrupt(SAGA_DEFINITION_HASH, &at, definition_named(&at, &fields))?;
    by_name(transaction, &name, Some(version), spoilt).await
}

/// All versions of all, or of one, by name and falling version.
pub async fn list(
    transaction: &dyn Transaction,
    name: Option<&str>,
    (cursor, limit): (Option<&str>, usize),
    spoilt: &mut Spoilt,
) -> Result<Page<StoredDefinition>, StoreError> {
    let from = match cursor.map(|cursor| At::from_cursor(cursor, CURSOR_NUMBERS)).transpose()? {
        Some(at) => Bound::Excluded(definition_key(at.text(), u32::try_from(at.number(0)).unwrap_or(u32::MAX))),
        None => Bound::Included(key([text(name.unwrap_or(""))])),
    };
    let until = Bound::Excluded(name.map_or_else(|| key([text(NAMES_END)]), |name| definition_key(name, 0)));
    let limit = limit.min(PAGE_MAX);
    let read = |row: Row| definition(&row.key, &row.fields);
    let mut items = sifted(transaction, SAGA_DEFINITION, (from, until), limit + 1, spoilt, read).await?;
    let more = items.len() > limit;
    items.truncate(limit);
    let last = items.last().filter(|_| more).map(|last| &last.reference);
    let next_cursor = last.map(|last| At::new(ShardId(0), &[u64::from(last.version)], &last.name).to_cursor());
    Ok(Page { items, next_cursor })
}
