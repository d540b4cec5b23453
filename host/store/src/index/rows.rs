//! Rows of indexes, and what a shard's indexes hold.

use waybill_core::ids::{Place, Seq, ShardId, Tenant};
use waybill_core::message::Message;
use waybill_core::outbox::filter::ContentField;
use waybill_core::outbox::index::{Index, indexed, values};
use waybill_core::port::store::StoreError;
use waybill_surreal::{Bound, Object, RecordIdKey, Value, array, int, key, object, text, text_of};

use crate::rows::lacks;
use crate::tables::{INDEX_SHARD, number, part, part_text, parts, shard_value, unsigned};

/// `[field, value, tenant, shard, segment, index]`.
fn key_of(field: &ContentField, value: &str, tenant: &Tenant, place: Place) -> RecordIdKey {
    let at = [shard_value(place.shard), number(place.segment.0), int(i64::from(place.index))];
    key([text(field.name()), text(value), text(tenant.as_str())].into_iter().chain(at))
}

/// The rows of a message in indexes of these fields.
pub fn keys<'f>(
    fields: impl IntoIterator<Item = &'f ContentField>,
    message: &Message,
    place: Place,
) -> impl Iterator<Item = RecordIdKey> {
    values(fields, message).into_iter().map(move |(field, value)| key_of(field, &value, &message.tenant, place))
}

/// Where the rows of a value lie: of one tenant, or of all.
pub fn range(field: &ContentField, value: &str, tenant: Option<&str>) -> (Bound, Bound) {
    let from = || [text(field.name()), text(indexed(value))].into_iter().chain(tenant.map(text));
    // Lists come behind texts and numbers.
    (Bound::Included(key(from())), Bound::Excluded(key(from().chain([array([])]))))
}

/// Behind the rows of all fields with this name.
pub fn behind(field: &str) -> RecordIdKey {
    key([text(field), array([])])
}

/// Where the message of a row lies.
pub fn place_in(of: &RecordIdKey) -> Option<Place> {
    let is_whole = parts(of).len() == 6 && (0..3).all(|at| part_text(of, at).is_some());
    let index = part(of, 5).and_then(|index| u16::try_from(index).ok());
    let place = Place {
        shard: part(of, 3).and_then(|shard| u16::try_from(shard).ok()).map(ShardId)?,
        segment: Seq(part(of, 4)?),
        index: index?,
    };
    is_whole.then_some(place)
}

/// An index as a shard has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kept {
    pub index: Index,
    /// The highest seq given out when it began: what lies behind is in it, what lies before may not be.
    pub since: Seq,
}

/// Which indexes a shard has: `outbox_index_shard:shard`.
///
/// It counts only as long as the shard's owner is the one that wrote it. Whoever takes over without knowing of indexes writes none of their
/// rows, and it doesn't have to know that this row says otherwise.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShardIndexes {
    /// Token of that owner.
    pub token: u64,
    pub kept: Vec<Kept>,
}

pub fn of_shard(indexes: &ShardIndexes) -> Object {
    let kept = indexes.kept.iter().map(|kept| {
        Value::Object(object([
            ("tenant", text(kept.index.tenant.as_str())),
            ("path", text(kept.index.field.name())),
            ("since", number(kept.since.0)),
        ]))
    });
    object([("token", number(indexes.token)), ("indexes", array(kept))])
}

pub fn shard(key: &RecordIdKey, fields: &Object) -> Result<ShardIndexes, StoreError> {
    let token = unsigned(fields.get("token")).ok_or_else(|| lacks(INDEX_SHARD, key, "token"))?;
    let lacks_indexes = || lacks(INDEX_SHARD, key, "indexes");
    let Some(Value::Array(all)) = fields.get("indexes") else { return Err(lacks_indexes()) };
    let kept: Option<Vec<Kept>> = all.0.iter().map(kept_in).collect();
    Ok(ShardIndexes { token, kept: kept.ok_or_else(lacks_indexes)? })
}

fn kept_in(value: &Value) -> Option<Kept> {
    let Value::Object(fields) = value else { return None };
    let tenant = Index::tenants(text_of(fields.get("tenant"))?).ok()?;
    let field = Index::field(text_of(fields.get("path"))?).ok()?;
    Some(Kept { index: Index { tenant, field }, since: Seq(unsigned(fields.get("since"))?) })
}
