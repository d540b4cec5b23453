//! A small set of indices below 4,096: which messages of a segment are finished.

use std::fmt;

/// A set of indices into one segment as it was committed.
#[derive(Clone, Default, PartialEq, Eq, Hash)]
pub struct Bits {
    words: Vec<u64>,
}

impl Bits {
    pub fn insert(&mut self, index: u16) {
        let word = usize::from(index) / 64;
        if self.words.len() <= word {
            self.words.resize(word + 1, 0);
        }
        if let Some(word) = self.words.get_mut(word) {
            *word |= 1 << (index % 64);
        }
    }
    /// Whether it holds an index.
    pub fn contains(&self, index: u16) -> bool {
        self.words.get(usize::from(index) / 64).is_some_and(|word| word & 1 << (index % 64) != 0)
    }
    /// How many it holds.
    pub fn len(&self) -> usize {
        self.words.iter().map(|word| word.count_ones() as usize).sum()
    }
    /// Whether it holds none.
    pub fn is_empty(&self) -> bool {
        self.words.iter().all(|word| *word == 0)
    }
    /// Little-endian bytes without trailing zeros: how it is stored.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes: Vec<u8> = self.words.iter().flat_map(|word| word.to_le_bytes()).collect();
        while bytes.last() == Some(&0) {
            bytes.pop();
        }
        bytes
    }
    /// The inverse of [`Bits::to_bytes`]; trailing zeros, which it doesn't write, change nothing.
    pub fn from_bytes(bytes: &[u8]) -> Self {
        let mut words: Vec<u64> = bytes
            .chunks(8)
            .map(|chunk| chunk.iter().rev().fold(0_u64, |word, byte| word << 8 | u64::from(*byte)))
            .collect();
        while words.last() == Some(&0) {
            words.pop();
        }
        Self { words }
    }
}

impl fmt::Debug for Bits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries((0..4096_u16).filter(|index| self.contains(*index))).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_goes_in_comes_back_from_bytes() {
        let mut bits = Bits::default();
        for index in [0, 7, 8, 63, 64, 200, 4095] {
            bits.insert(index);
        }
        assert_eq!(bits.len(), 7);
        let back = Bits::from_bytes(&bits.to_bytes());
        assert!((0..4096).all(|index| bits.contains(index) == back.contains(index)));
        assert!(Bits::from_bytes(&[]).is_empty());
        // The same set is equal however long its bytes were.
        let longer: Vec<u8> = bits.to_bytes().into_iter().chain([0; 20]).collect();
        assert_eq!(Bits::from_bytes(&longer), bits);
    }
}
