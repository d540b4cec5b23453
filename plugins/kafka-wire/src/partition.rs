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

    /// Sums over the partitions of 10,000 keys of 0 to 40 random bytes each, as version 4.1.1 of the Java client has them.
    #[test]
    fn ten_thousand_keys_have_the_partitions_of_the_java_client() {
        for (count, expected) in [
            (1, 0xa6e4_f072_3147_f065_u64),
            (3, 0x82a8_0e22_1e88_7ac0),
            (4, 0x702b_35f0_3f8f_308a),
            (12, 0x1903_bf01_f38c_230a),
            (50, 0x83fb_15c3_1461_06dc),
            (1_000, 0x005c_1f7f_8a51_693e),
            (0x7fff_ffff, 0xf35f_f8fc_73b8_4806),
        ] {
            let mut state = 20_251_127_u64;
            let mut next = || {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                state >> 33
            };
            let mut sum = 0xcbf2_9ce4_8422_2325_u64;
            for _ in 0..10_000 {
                let length = next() % 41;
                let key: Vec<u8> = (0..length).map(|_| next().to_le_bytes()[0]).collect();
                sum = (sum ^ u64::from(of_key(&key, count))).wrapping_mul(0x0100_0000_01b3);
            }
            assert_eq!(sum, expected, "{count} partitions");
        }
    }

    #[test]
    fn a_negative_hash_has_a_partition_too() {
        assert!(of_key(b"21", 7) < 7);
        assert_eq!(of_key(b"21", 0), 0);
    }
}
