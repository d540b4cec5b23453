//! Entries as rows that anyone can query.

use bytes::Bytes;
use waybill_core::idempotency::{Answer, Entry, EntryKey, EntryState};
use waybill_core::ids::{HoldToken, IdempotencyKey, RequestHash, Tenant};
use waybill_core::port::store::StoreError;
use waybill_core::time::UnixMillis;
use waybill_surreal::{Object, RecordIdKey, Value, bytes, bytes_of, key, object, text, text_of};

use crate::quarantine::refuse_held;
use crate::rows::lacks;
use crate::tables::{IDEMPOTENCY, number, part, part_text, unsigned};

pub fn entry_key(of: &EntryKey) -> RecordIdKey {
    key([text(of.tenant.as_str()), text(of.key.as_str())])
}

pub fn due_key(of: &EntryKey, until: UnixMillis) -> RecordIdKey {
    key([number(until.0), text(of.tenant.as_str()), text(of.key.as_str())])
}

/// The key of an entry's row.
pub fn of_row(row: &RecordIdKey) -> Option<EntryKey> {
    Some(EntryKey { tenant: Tenant::new(part_text(row, 0)?).ok()?, key: IdempotencyKey::new(part_text(row, 1)?).ok()? })
}

/// The key in a row by its end, with that.
pub fn due(row: &RecordIdKey) -> Option<(UnixMillis, EntryKey)> {
    let tenant = Tenant::new(part_text(row, 1)?).ok()?;
    let key = IdempotencyKey::new(part_text(row, 2)?).ok()?;
    Some((UnixMillis(part(row, 0)?), EntryKey { tenant, key }))
}

/// An entry as a row.
pub fn fields(entry: &Entry) -> Object {
    let mut fields = object([
        ("hash", text(entry.hash.as_str())),
        ("origin", text(entry.origin.as_str())),
        ("token", text(entry.token.as_str())),
        ("begun", number(u64::from(entry.begun))),
        ("state", text(entry.word().word())),
        ("created_at", number(entry.created_at.0)),
        ("changed_at", number(entry.changed_at.0)),
        ("until", number(entry.until.0)),
    ]);
    match &entry.state {
        EntryState::InFlight { lease_until } => {
            fields.insert("lease_until", number(lease_until.0));
        }
        EntryState::Failed(error) => {
            fields.insert("error", text(error));
        }
        EntryState::Succeeded(answer) => add_answer(&mut fields, answer),
    }
    fields
}

fn add_answer(fields: &mut Object, answer: &Answer) {
    fields.insert("sha256", text(&answer.sha256));
    fields.insert("bytes", number(answer.bytes));
    if let Some(status) = answer.status {
        fields.insert("status", number(u64::from(status)));
    }
    if let Some(code) = &answer.code {
        fields.insert("code", text(code));
    }
    if let Some(content_type) = &answer.content_type {
        fields.insert("content_type", text(content_type));
    }
    if let Some(location) = &answer.location {
        fields.insert("location", text(location));
    }
    if let Some(body) = &answer.body {
        // People read texts.
        let value = std::str::from_utf8(body).map_or_else(|_| bytes(body.clone()), text);
        fields.insert("body", value);
    }
}

/// The entry in a row.
pub fn entry(at: &RecordIdKey, fields: &Object) -> Result<Entry, StoreError> {
    refuse_held(IDEMPOTENCY, at, fields)?;
    let missing = |name: &'static str| lacks(IDEMPOTENCY, at, name);
    let number_of = |name: &'static str| unsigned(fields.get(name)).ok_or_else(|| missing(name));
    let text_in = |name: &'static str| text_of(fields.get(name)).ok_or_else(|| missing(name));
    let state = match text_in("state")? {
        "in_flight" => EntryState::InFlight { lease_until: UnixMillis(number_of("lease_until")?) },
        "failed" => EntryState::Failed(text_in("error")?.to_owned()),
        "succeeded" => EntryState::Succeeded(Answer {
            status: unsigned(fields.get("status")).and_then(|status| u16::try_from(status).ok()),
            code: text_of(fields.get("code")).map(str::to_owned),
            content_type: text_of(fields.get("content_type")).map(str::to_owned),
            location: text_of(fields.get("location")).map(str::to_owned),
            sha256: text_in("sha256")?.to_owned(),
            bytes: number_of("bytes")?,
            body: body(fields.get("body")),
        }),
        _ => return Err(missing("state")),
    };
    Ok(Entry {
        hash: RequestHash::new(text_in("hash")?).map_err(|_| missing("hash"))?,
        origin: HoldToken::new(text_in("origin")?).map_err(|_| missing("origin"))?,
        token: HoldToken::new(text_in("token")?).map_err(|_| missing("token"))?,
        begun: u32::try_from(number_of("begun")?).map_err(|_| missing("begun"))?,
        state,
        created_at: UnixMillis(number_of("created_at")?),
        changed_at: UnixMillis(number_of("changed_at")?),
        until: UnixMillis(number_of("until")?),
    })
}

fn body(value: Option<&Value>) -> Option<Bytes> {
    match text_of(value) {
        Some(text) => Some(Bytes::copy_from_slice(text.as_bytes())),
        None => bytes_of(value),
    }
}
