//! Which partition a key has: the same as the Java client's default partitioner says.

/// The partition of a key among so many; 0 where there are none.
pub fn of_key(key: &[u8], partitions: u32) -> u32 {
    // The sign is cut off, not turned around.
    (murmur2(key) & 0x7fff_ffff) % partitions.max(1)
}

/// MurmurHash2 in 32 bits, with the seed of Kafka's clients. Published by Austin Appleby for everybody's use.
fn murmur2(key: &[u8]) -> u32 {
    const SEED: u32 = 0x9747_b28c;
    const MULTIPLIER: u32 = 0x5bd1_e995;
    let mut hash = SEED ^ u32::try_from(key.len()).unwrap_or(u32::MAX);
    let (words, rest) = key.as_chunks::<4>();
    for word in words {
        let mut part = u32::from_le_bytes(*word).wrapping_mul(MULTIPLIER);
        part ^= part >> 24;
        hash = hash.wrapping_mul(MULTIPLIER) ^ part.wrapping_mul(MULTIPLIER);
    }
    if !rest.is_empty() {
        for (place, byte) in rest.iter().enumerate() {
            hash ^= u32::from(*byte) << (8 * place);
        }
        hash = hash.wrapping_mul(MULTIPLIER);
    }
    hash ^= hash >> 13;
    hash = hash.wrapping_mul(MULTIPLIER);
    hash ^ (hash >> 15)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What the Java client's own tests expect.
    #[test]
    fn hashes_are_those_of_the_java_client() {
        for (key, hash) in [
            ("21", -973_932_308),
            ("foobar", -790_332_482),
            ("a-little-bit-long-string", -985_981_536),
            ("a-little-bit-longer-string", -1_486_304_829),
            ("lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58_897_971),
            ("abc", 479_470_107),
        ] {
            assert_eq!(murmur2(key.as_bytes()).cast_signed(), hash, "{key}");
        }
    }

    #[test]
    fn a_negative_hash_has_a_partition_too() {
        assert!(of_key(b"21", 7) < 7);
        assert_eq!(of_key(b"21", 0), 0);
    }
}
