//! Which partition of a topic a key belongs to, as the Java client has it.

use serde::Deserialize;

/// How a key becomes a number. Every producer of a topic has to do it alike, or a key is in two partitions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
pub enum Hashing {
    /// `JavaStringHash`, which the Java client uses by default.
    #[default]
    #[serde(rename = "java-string")]
    JavaString,
    /// `Murmur3_32Hash`.
    #[serde(rename = "murmur3")]
    Murmur3,
}

impl Hashing {
    /// The partition of a key, of so many; 0 of a topic that has none.
    pub fn partition(self, key: &str, partitions: u32) -> u32 {
        let hash = match self {
            Self::JavaString => java_string(key),
            Self::Murmur3 => murmur3(key.as_bytes()),
        };
        // The sign is cut off, as in Java.
        (hash & 0x7fff_ffff).checked_rem(partitions).unwrap_or(0)
    }
}

/// `String.hashCode`: over the text's UTF-16.
fn java_string(text: &str) -> u32 {
    text.encode_utf16().fold(0, |hash: u32, unit| hash.wrapping_mul(31).wrapping_add(u32::from(unit)))
}

/// MurmurHash3, 32 bits, seed 0.
fn murmur3(bytes: &[u8]) -> u32 {
    let mix = |block: u32| block.wrapping_mul(0xcc9e_2d51).rotate_left(15).wrapping_mul(0x1b87_3593);
    let (blocks, tail) = bytes.as_chunks::<4>();
    let mut hash = blocks.iter().fold(0_u32, |hash, block| {
        (hash ^ mix(u32::from_le_bytes(*block))).rotate_left(13).wrapping_mul(5).wrapping_add(0xe654_6b64)
    });
    if !tail.is_empty() {
        hash ^= mix(tail.iter().rev().fold(0, |block, byte| block << 8 | u32::from(*byte)));
    }
    // A key has fewer bytes than 32 bits can count.
    hash ^= bytes.len() as u32;
    hash = (hash ^ hash >> 16).wrapping_mul(0x85eb_ca6b);
    hash = (hash ^ hash >> 13).wrapping_mul(0xc2b2_ae35);
    hash ^ hash >> 16
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_text_hashes_as_in_java() {
        // As `String.hashCode` answers, the last with a letter of two UTF-16 units.
        for (text, expected) in
            [("", 0), ("a", 97), ("order-1", -1_207_111_310), ("größe", 98_762_257), ("\u{1F600}", 1_772_899)]
        {
            assert_eq!(java_string(text) as i32, expected, "{text}");
        }
    }

    #[test]
    fn murmur_has_its_published_values() {
        for (text, expected) in [("", 0), ("test", 0xba6b_d213), ("Hello, world!", 0xc036_3e43)] {
            assert_eq!(murmur3(text.as_bytes()), expected, "{text}");
        }
    }

    /// Keys in hexadecimal digits, with what the two classes of the Java client 4.0.7 answered for them: made at random, of up to 40 letters.
    const OF_JAVA: &str = include_str!("partition_keys.txt");

    #[test]
    fn keys_hash_as_the_java_client_said() {
        for line in OF_JAVA.lines() {
            let [key, java, murmur] = line.split(' ').collect::<Vec<_>>().try_into().unwrap();
            let bytes: Vec<u8> = key
                .as_bytes()
                .chunks(2)
                .map(|pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap())
                .collect();
            let key = String::from_utf8(bytes).unwrap();
            // Of so many partitions the partition is the hash itself.
            let hashed = [Hashing::JavaString, Hashing::Murmur3].map(|hashing| hashing.partition(&key, 1 << 31));
            assert_eq!(hashed, [java, murmur].map(|hash| hash.parse::<u32>().unwrap()), "{key}");
        }
    }

    #[test]
    fn a_negative_hash_has_a_partition_and_a_topic_without_partitions_too() {
        assert_eq!(Hashing::JavaString.partition("order-1", 4), (-1_207_111_310_i32 & i32::MAX) as u32 % 4);
        assert_eq!(Hashing::Murmur3.partition("order-1", 0), 0);
    }
}
