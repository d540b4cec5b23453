//! Which relays operators paused, and which have stopped. It is noted among the settings, for every host: each goes by it while it runs, and when it starts.

use waybill_core::ids::RelayName;
use waybill_core::port::store::StoreError;
use waybill_core::streams::records::{RelayNote, RelayWord};
use waybill_surreal::{
    Bound, Object, RecordIdKey, Transaction, Value, array, bool_of, int, int_of, object, text, text_of,
};

use crate::fault::store_error;
use crate::store::{SurrealStore, finish};
use crate::tables::{META, number, unsigned};

/// Relays are noted under this and their name.
const NOTES: &str = "relay/";
/// Behind all of them.
const NOTES_END: &str = "relay0";
/// Far more relays than a host has.
const NOTES_MAX: usize = 10_000;
/// Tries when operators of two hosts say something at once.
const TRIES_MAX: u32 = 5;

/// What is noted of all relays.
pub async fn notes(store: &SurrealStore) -> Result<Vec<(RelayName, RelayNote)>, StoreError> {
    let transaction = store.begin(false).await?;
    let from = Bound::Included(RecordIdKey::String(NOTES.into()));
    let until = Bound::Excluded(RecordIdKey::String(NOTES_END.into()));
    let rows = transaction.scan(META, from, until, NOTES_MAX).await.map_err(store_error)?;
    let notes = rows.iter().filter_map(|row| {
        let relay = RelayName::new(text_of(row.fields.get("relay"))?).ok()?;
        Some((relay, read(&row.fields)))
    });
    Ok(notes.collect())
}

/// Notes what is said of a relay.
pub async fn note(store: &SurrealStore, relay: &RelayName, word: &RelayWord) -> Result<RelayNote, StoreError> {
    let mut tries = 1;
    loop {
        let transaction = store.begin(true).await?;
        let worked = write(transaction.as_ref(), relay, word).await;
        match finish(transaction, worked).await {
            Err(StoreError::Conflict(_)) if tries < TRIES_MAX => tries += 1,
            done => return done,
        }
    }
}

async fn write(transaction: &dyn Transaction, relay: &RelayName, word: &RelayWord) -> Result<RelayNote, StoreError> {
    let key = RecordIdKey::String(format!("{NOTES}{relay}").into());
    let stands = transaction.get(META, key.clone()).await.map_err(store_error)?;
    let before = stands.map(|fields| read(&fields)).unwrap_or_default();
    let note = before.after(word);
    let mut fields = object([
        ("relay", text(relay.as_str())),
        ("paused", Value::Bool(note.is_paused)),
        ("number", number(note.number)),
        ("stops", array(note.stops.iter().map(|key| int(key.cast_signed())))),
    ]);
    if let Some(reason) = &note.stopped {
        fields.insert("stopped", text(reason));
    }
    transaction.put(META, key, fields).await.map_err(store_error)?;
    Ok(note)
}

/// One that can't be read says nothing: the relay goes on.
fn read(fields: &Object) -> RelayNote {
    RelayNote {
        is_paused: bool_of(fields.get("paused")).unwrap_or(false),
        stopped: text_of(fields.get("stopped")).map(str::to_owned),
        number: unsigned(fields.get("number")).unwrap_or(0),
        stops: stops(fields.get("stops")),
    }
}

fn stops(value: Option<&Value>) -> Vec<u64> {
    let Some(Value::Array(keys)) = value else { return Vec::new() };
    keys.0.iter().filter_map(|key| int_of(Some(key)).map(i64::cast_unsigned)).collect()
}
