//! A cheap hash for maps by seq and by key digest. Nobody outside chooses these: seqs are given by the owner, digests
//! are cut from sha-256.

use std::hash::{BuildHasherDefault, Hasher};

pub(super) type Spread = BuildHasherDefault<SpreadHasher>;

/// Odd, with bits all over: 2^64 divided by the golden ratio.
const FACTOR: u64 = 0x9E37_79B9_7F4A_7C15;

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct SpreadHasher(u64);

impl Hasher for SpreadHasher {
    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_u64(u64::from(*byte));
        }
    }
    fn write_u64(&mut self, number: u64) {
        let product = u128::from(self.0 ^ number) * u128::from(FACTOR);
        #[expect(clippy::cast_possible_truncation, reason = "both halves are folded into one")]
        let folded = (product >> 64) as u64 ^ product as u64;
        self.0 = folded;
    }
    fn write_u128(&mut self, number: u128) {
        #[expect(clippy::cast_possible_truncation, reason = "a digest is as good in its low half")]
        self.write_u64(number as u64);
    }
    fn finish(&self) -> u64 {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::Seq;
    use std::collections::BTreeSet;
    use std::hash::BuildHasher;

    #[test]
    fn neighbouring_seqs_are_spread_over_high_and_low_bits() {
        let hash = |seq: u64| Spread::default().hash_one(Seq(1_700_000_000_000 << 20 | seq));
        let low: BTreeSet<u64> = (0..4_096).map(|seq| hash(seq) % 4_096).collect();
        let high: BTreeSet<u64> = (0..4_096).map(|seq| hash(seq) >> 52).collect();
        assert!(low.len() > 2_300 && high.len() > 2_300, "{} {}", low.len(), high.len());
    }
}
