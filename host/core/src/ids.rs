//! Identifiers: tenants, keys, shards, places in the order, and the message ids that the host makes.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::error::{InputError, InputResult};
use crate::limits::{
    HOLD_TOKEN_BYTES_MAX, ID_BYTES_MAX, IDEMPOTENCY_KEY_BYTES_MAX, INBOUND_ID_BYTES_MAX, INBOX_NAME_BYTES_MAX,
    KEY_BYTES_MAX, REQUEST_HASH_BYTES_MAX, TENANT_BYTES_MAX,
};

/// Checks a short text that becomes part of keys and logs: not empty, bounded, no control characters.
fn checked(what: &'static str, text: &str, bytes_max: usize) -> InputResult<Arc<str>> {
    if text.is_empty() {
        return Err(InputError::Empty { field: what });
    }
    if text.len() > bytes_max {
        return Err(InputError::TooLong { field: what, bytes: text.len(), bytes_max });
    }
    if text.chars().any(char::is_control) {
        return Err(InputError::ControlCharacter { field: what });
    }
    Ok(Arc::from(text))
}

/// Whether a caller may choose this id: `.` and `..` are taken out of every URL, so nobody could ask for it by its address. What has such
/// an id from an earlier build is found by filter.
pub fn check_chosen(text: &str) -> InputResult<()> {
    const RULE: &str = "is taken out of every URL, so nothing with this id could be asked for: choose another";
    if matches!(text, "." | "..") { Err(InputError::name("id", text, RULE)) } else { Ok(()) }
}

macro_rules! text_id {
    ($(#[$doc:meta])* $name:ident, $what:literal, $max:expr) => {
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(try_from = "String", into = "String")]
        pub struct $name(Arc<str>);

        impl $name {
            /// Checks and takes a text.
            pub fn new(text: impl AsRef<str>) -> InputResult<Self> {
                checked($what, text.as_ref(), $max).map(Self)
            }
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }
        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
        impl TryFrom<String> for $name {
            type Error = InputError;
            fn try_from(text: String) -> InputResult<Self> {
                Self::new(text)
            }
        }
        impl From<$name> for String {
            fn from(id: $name) -> Self {
                id.0.to_string()
            }
        }
        impl From<&$name> for Arc<str> {
            fn from(id: &$name) -> Self {
                Arc::clone(&id.0)
            }
        }
    };
}

text_id!(
    /// Whose message it is. `default` where the caller names none.
    Tenant, "tenant", TENANT_BYTES_MAX);
text_id!(
    /// Dispatch key: messages of one (tenant, key) are delivered one at a time, in commit order.
    Key, "key", KEY_BYTES_MAX);
text_id!(
    /// Stable id of a message on the wire.
    MessageId, "id", ID_BYTES_MAX);
text_id!(
    /// Idempotency key: what is done under one (tenant, key) is done once.
    IdempotencyKey, "key", IDEMPOTENCY_KEY_BYTES_MAX);
text_id!(
    /// Hash of what is done under an idempotency key, in whatever spelling its caller likes.
    RequestHash, "hash", REQUEST_HASH_BYTES_MAX);
text_id!(
    /// Token of who has an idempotency key.
    HoldToken, "token", HOLD_TOKEN_BYTES_MAX);

text_id!(
    /// Id of a message that a source brought: the sender's, else its position. With a consumer's name it is handled once.
    InboundId, "id", INBOUND_ID_BYTES_MAX);
text_id!(
    /// Id of an event, a ULID where the host makes it. With its tenant it is numbered once.
    EventId, "event_id", ID_BYTES_MAX);
text_id!(
    /// A relay from the configuration, `[relay.NAME]`.
    RelayName, "relay", INBOX_NAME_BYTES_MAX);
text_id!(
    /// A source from the configuration, `[source.NAME]`.
    SourceName, "source", INBOX_NAME_BYTES_MAX);
text_id!(
    /// A consumer from the configuration, `[consumer.NAME]`.
    ConsumerName, "consumer", INBOX_NAME_BYTES_MAX);

impl InboundId {
    /// Of what nobody named and nothing could be made for.
    pub fn unnamed() -> Self {
        Self(Arc::from("unnamed"))
    }
}

impl HoldToken {
    /// A token of random bits.
    pub fn of_bits(bits: u128) -> Self {
        Self(Arc::from(format!("{bits:032x}")))
    }
}

impl Tenant {
    /// Name of the tenant of callers that name none.
    pub const UNNAMED: &'static str = "default";

    /// The tenant of callers that name none.
    pub fn unnamed() -> Self {
        Self(Arc::from(Self::UNNAMED))
    }
}

/// Digest of a (tenant, key), so that skipped keys are remembered in 16 bytes each.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KeyHash(pub u128);

impl KeyHash {
    /// Of one key of one tenant.
    pub fn of(tenant: &Tenant, key: &Key) -> Self {
        let digest = tenant_and(tenant.as_str(), key.as_str());
        let mut bytes = [0_u8; 16];
        for (to, from) in bytes.iter_mut().zip(digest) {
            *to = from;
        }
        Self(u128::from_be_bytes(bytes))
    }
}

fn tenant_and(tenant: &str, text: &str) -> [u8; 32] {
    let mut hash = Sha256::new();
    hash.update(tenant.as_bytes());
    hash.update([0]);
    hash.update(text.as_bytes());
    hash.finalize().into()
}

/// Number of one shard of the outbox.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ShardId(pub u16);

impl ShardId {
    /// The shard of a message: by its key, else by its caller-made id, else `spread` (any number; keyless messages may
    /// go anywhere). `count` is the number of shards, at least 1 and at most 256: the shard is the first byte of
    /// sha-256(tenant, NUL, text) modulo `count`, which `fn::waybill::enqueue` computes alike.
    pub fn of(tenant: &Tenant, key: Option<&Key>, caller_id: Option<&MessageId>, spread: u64, count: u16) -> Self {
        let count = count.max(1);
        if count == 1 {
            return Self(0);
        }
        match key.map(Key::as_str).or(caller_id.map(MessageId::as_str)) {
            Some(text) => Self::of_text(tenant, text, count),
            None => Self(u16::try_from(spread % u64::from(count)).unwrap_or(0)),
        }
    }

    /// The shard of what goes by a text alone: a key, or a stream's name.
    pub fn of_text(tenant: &Tenant, text: &str, count: u16) -> Self {
        let count = count.max(1);
        if count == 1 {
            return Self(0);
        }
        Self(u16::from(tenant_and(tenant.as_str(), text).first().copied().unwrap_or(0)) % count)
    }
}

impl ShardId {
    /// The shard of a home of sources: for ever the same, whatever they bring.
    pub fn of_home(home: &str, count: u16) -> Self {
        let number = u16::from(tenant_and("", home).first().copied().unwrap_or(0));
        Self(number % count.max(1))
    }
}

impl fmt::Display for ShardId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// Place of a message in its shard's order: `max(last + 1, milliseconds << 20)`. Only the shard's owner gives it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Seq(pub u64);

impl Seq {
    /// The place after this one.
    #[must_use]
    pub fn next(self) -> Self {
        Self(self.0.saturating_add(1))
    }
    /// The `index`-th place from this one.
    #[must_use]
    pub fn plus(self, index: usize) -> Self {
        Self(self.0.saturating_add(index as u64))
    }
}

impl fmt::Display for Seq {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// Where a message lies: its shard, the segment it was committed in, and its index there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Place {
    pub shard: ShardId,
    /// First seq of the segment it was committed in.
    pub segment: Seq,
    /// Index in that segment as committed; `segment + index` is its seq. Below 4,096.
    pub index: u16,
}

impl Place {
    /// The message's own seq.
    pub fn seq(self) -> Seq {
        self.segment.plus(usize::from(self.index))
    }
}

const CROCKFORD: &[u8; 32] = b"0123456789ABCDEFGHJKMNPQRSTVWXYZ";

/// Makes the id of a message from its place: 26 characters that sort like a ULID.
///
/// Layout of the 128 bits, high to low: 48 milliseconds (`segment >> 20`), 20 counter (`segment & 0xFFFFF`), 12 index,
/// 16 shard, 32 check. So an id finds its message without an index, and a foreign ULID isn't mistaken for one.
pub fn host_made_id(place: Place) -> MessageId {
    let body = (u128::from(place.segment.0 >> 20) & 0xFFFF_FFFF_FFFF) << 48
        | (u128::from(place.segment.0) & 0xF_FFFF) << 28
        | (u128::from(place.index) & 0xFFF) << 16
        | u128::from(place.shard.0);
    let mut value = body << 32 | u128::from(check(body));
    let mut text = [b'0'; 26];
    for slot in text.iter_mut().rev() {
        *slot = CROCKFORD.get((value & 31) as usize).copied().unwrap_or(b'0');
        value >>= 5;
    }
    MessageId(Arc::from(String::from_utf8_lossy(&text).as_ref()))
}

/// The place in an id that [`host_made_id`] made; none for any other id.
pub fn place_of(id: &str) -> Option<Place> {
    if id.len() != 26 {
        return None;
    }
    let mut value: u128 = 0;
    for byte in id.bytes() {
        let digit = CROCKFORD.iter().position(|c| *c == byte)?;
        value = value.checked_mul(32)?.checked_add(digit as u128)?;
    }
    let body = value >> 32;
    if u128::from(check(body)) != value & 0xFFFF_FFFF {
        return None;
    }
    let milliseconds = u64::try_from(body >> 48).ok()?;
    let counter = u64::try_from(body >> 28 & 0xF_FFFF).ok()?;
    Some(Place {
        shard: ShardId(u16::try_from(body & 0xFFFF).ok()?),
        segment: Seq(milliseconds << 20 | counter),
        index: u16::try_from(body >> 16 & 0xFFF).ok()?,
    })
}

fn check(body: u128) -> u32 {
    let mut hash = crc32fast::Hasher::new();
    hash.update(b"waybill");
    hash.update(&body.to_be_bytes());
    hash.finalize()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_host_made_id_gives_its_place_back_and_sorts_by_seq() {
        let mut earlier = String::new();
        for (ms, counter, index) in [(1_u64, 0_u64, 0_u16), (1, 0, 4095), (1, 7, 0), (1_700_000_000_000, 0xF_FFFF, 3)] {
            let place = Place { shard: ShardId(3), segment: Seq(ms << 20 | counter), index };
            let id = host_made_id(place);
            assert_eq!(id.as_str().len(), 26);
            assert_eq!(place_of(id.as_str()), Some(place));
            assert!(id.as_str() > earlier.as_str());
            earlier = id.as_str().to_owned();
        }
    }

    #[test]
    fn a_foreign_id_has_no_place() {
        assert_eq!(place_of("01ARZ3NDEKTSV4RRFFQ69G5FAV"), None);
        assert_eq!(place_of("order-17"), None);
        assert_eq!(place_of("ZZZZZZZZZZZZZZZZZZZZZZZZZZ"), None);
    }

    #[test]
    fn a_key_decides_the_shard_whatever_the_id() {
        let tenant = Tenant::new("acme").unwrap();
        let key = Key::new("order-1").unwrap();
        let id = MessageId::new("a").unwrap();
        let with = ShardId::of(&tenant, Some(&key), Some(&id), 9, 16);
        assert_eq!(with, ShardId::of(&tenant, Some(&key), None, 4, 16));
        assert_eq!(ShardId::of(&tenant, None, None, 35, 16), ShardId(3));
    }

    #[test]
    fn an_id_that_urls_lose_is_read_and_not_chosen() {
        for text in [".", ".."] {
            assert!(MessageId::new(text).is_ok());
            let error = check_chosen(text).unwrap_err();
            assert!(error.to_string().starts_with(&format!("id {text:?} is taken out of every URL")), "{error}");
        }
        for text in ["...", ".a", "a/../b", "~"] {
            assert_eq!(check_chosen(text), Ok(()));
        }
    }

    #[test]
    fn bad_texts_are_refused_with_the_bound() {
        assert!(Tenant::new("").is_err());
        assert!(Key::new("a\nb").is_err());
        let long = MessageId::new("x".repeat(129)).unwrap_err();
        assert!(long.to_string().contains("128"));
    }
}
