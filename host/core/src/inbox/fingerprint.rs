//! Short keyed hashes that stand for ids, keys and contents in what is packed.

use std::fmt;

use sha2::{Digest, Sha256};

use crate::ids::{ConsumerName, InboundId, Key, Tenant};

/// Secret of a shard's hashes, made once with its first record: nobody outside can choose ids that fall on one fingerprint.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub struct HashSecret(pub u128);

impl fmt::Debug for HashSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("HashSecret(..)")
    }
}

/// 80 bits that stand for (consumer, id), or for (consumer, id, content) of an id that was used again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Fingerprint(pub [u8; 10]);

impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// 64 bits that stand for (consumer, tenant, key). Two keys with one tag share their order, and nothing else.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OrderTag(pub u64);

/// 128 bits that stand for a message's content.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ContentDigest(pub u128);

impl ContentDigest {
    /// What the seen set keeps of it.
    pub fn check(self) -> ContentCheck {
        ContentCheck((self.0 & 0xFFFF) as u16)
    }
}

/// 16 bits of a [`ContentDigest`]: that an id was used for something else is noticed, but for one case in 65,536.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ContentCheck(pub u16);

impl HashSecret {
    pub fn of_id(self, consumer: &ConsumerName, id: &InboundId) -> Fingerprint {
        Fingerprint(self.hash("id", &[consumer.as_str().as_bytes(), id.as_str().as_bytes()]))
    }

    /// Of an id that was used before for another content. The same content meets itself under it.
    pub fn of_reused(self, consumer: &ConsumerName, id: &InboundId, content: ContentDigest) -> Fingerprint {
        let content = content.0.to_be_bytes();
        Fingerprint(self.hash("reused", &[consumer.as_str().as_bytes(), id.as_str().as_bytes(), &content]))
    }

    pub fn of_key(self, consumer: &ConsumerName, tenant: &Tenant, key: &Key) -> OrderTag {
        let parts = [consumer.as_str().as_bytes(), tenant.as_str().as_bytes(), key.as_str().as_bytes()];
        OrderTag(u64::from_be_bytes(self.hash("key", &parts)))
    }

    /// Of the payload alone: brokers and their clients change headers from one delivery to the next.
    pub fn of_content(self, payload: &[u8]) -> ContentDigest {
        ContentDigest(u128::from_be_bytes(self.hash("content", &[payload])))
    }

    fn hash<const N: usize>(self, what: &str, parts: &[&[u8]]) -> [u8; N] {
        let mut hash = Sha256::new();
        hash.update(self.0.to_be_bytes());
        hash.update(what.as_bytes());
        for part in parts {
            hash.update((part.len() as u64).to_be_bytes());
            hash.update(part);
        }
        let mut bytes = [0; N];
        for (to, from) in bytes.iter_mut().zip(hash.finalize()) {
            *to = from;
        }
        bytes
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn parts_that_read_the_same_side_by_side_have_other_hashes() {
        let secret = HashSecret(7);
        let of = |consumer: &str, id: &str| {
            secret.of_id(&ConsumerName::new(consumer).unwrap(), &InboundId::new(id).unwrap())
        };
        assert_eq!(of("ship", "a-1"), of("ship", "a-1"));
        assert_ne!(of("ship", "a-1"), of("shipa", "-1"));
        let other = HashSecret(8).of_id(&ConsumerName::new("ship").unwrap(), &InboundId::new("a-1").unwrap());
        assert_ne!(of("ship", "a-1"), other);
    }

    #[test]
    fn a_secret_is_not_shown() {
        assert_eq!(format!("{:?}", HashSecret(12_345)), "HashSecret(..)");
    }
}
