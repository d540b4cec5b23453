//! Packed tables: fingerprints in order, cut into blocks of nearly one size. A fingerprint is a keyed hash, so its block is calculated.

use std::collections::BTreeMap;

use waybill_core::inbox::fingerprint::{ContentCheck, Fingerprint};
use waybill_core::inbox::seen::{Member, OwnedAge};

use crate::codec::inbox::seen::SeenIds;

/// Ids of a block on average: some of them fewer than fit 4 KiB, so that most blocks do.
const BLOCK_IDS: u64 = 300;

/// How many blocks a table of so many ids has.
pub fn blocks_for(ids: u64) -> u32 {
    u32::try_from(ids.div_ceil(BLOCK_IDS).max(1)).unwrap_or(u32::MAX)
}

/// The first eight bytes of a fingerprint.
fn front(fingerprint: &Fingerprint) -> u64 {
    let [front @ .., _, _] = fingerprint.0;
    u64::from_be_bytes(front)
}

fn block_of_front(front: u64, blocks: u32) -> u32 {
    u32::try_from((u128::from(front) * u128::from(blocks)) >> 64).unwrap_or(0)
}

/// The block that a fingerprint lies in, of so many.
pub fn block_of(fingerprint: &Fingerprint, blocks: u32) -> u32 {
    block_of_front(front(fingerprint), blocks)
}

/// The blocks, of `others`, in which the fingerprints of some blocks, of `blocks`, lie: the first and the last.
pub fn blocks_around((first, behind): (u32, u32), blocks: u32, others: u32) -> (u32, u32) {
    let of = u128::from(blocks.max(1));
    // The lowest front of a block, and of the one behind the last.
    let lowest = |block: u32| (u128::from(block) << 64).div_ceil(of);
    let front = |front: u128| u64::try_from(front).unwrap_or(u64::MAX);
    let last = front(lowest(behind).saturating_sub(1));
    (block_of_front(front(lowest(first)), others), block_of_front(last, others))
}

/// Fingerprints cut into blocks from `first` to before `behind`, of `blocks`; those of other blocks are left out.
pub fn cut(
    ids: &BTreeMap<Member, ContentCheck>,
    age: OwnedAge,
    (first, behind): (u32, u32),
    blocks: u32,
) -> Vec<(u32, SeenIds)> {
    let mut cut: Vec<(u32, SeenIds)> = (first..behind).map(|block| (block, SeenIds { age, ids: Vec::new() })).collect();
    for (member, check) in ids {
        let Member::Hash(fingerprint) = member else { continue };
        let at = block_of(fingerprint, blocks).checked_sub(first).and_then(|at| cut.get_mut(at as usize));
        if let Some((_, block)) = at {
            block.ids.push((*member, *check));
        }
    }
    cut
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fingerprint(front: u64) -> Fingerprint {
        let mut bytes = [9; 10];
        bytes.iter_mut().zip(front.to_be_bytes()).for_each(|(to, from)| *to = from);
        Fingerprint(bytes)
    }

    /// Spread over all fronts, with both ends.
    fn fronts() -> impl Iterator<Item = u64> {
        (0..2_000_u64).map(|number| number * (u64::MAX / 1_999)).chain([u64::MAX])
    }

    #[test]
    fn every_fingerprint_has_a_block_and_the_order_is_kept() {
        for blocks in [1, 2, 3, 64, 1_000, u32::MAX] {
            let found: Vec<u32> = fronts().map(|front| block_of(&fingerprint(front), blocks)).collect();
            assert!(found.is_sorted() && found.iter().all(|block| *block < blocks), "{blocks}");
            assert_eq!((found.first(), found.last()), (Some(&0), Some(&(blocks - 1))), "{blocks}");
        }
    }

    #[test]
    fn what_lies_in_some_blocks_is_found_in_the_blocks_around() {
        for (blocks, others) in [(7, 3), (3, 7), (64, 64), (1, 500), (500, 1)] {
            for first in 0..blocks {
                let around = blocks_around((first, first + 1), blocks, others);
                for front in fronts() {
                    let of = fingerprint(front);
                    if block_of(&of, blocks) == first {
                        let other = block_of(&of, others);
                        assert!(
                            (around.0..=around.1).contains(&other),
                            "{blocks} {others} {first}: {other} {around:?}"
                        );
                    }
                }
            }
        }
    }

    #[test]
    fn a_cut_holds_each_id_once_and_every_block() {
        let ids: BTreeMap<_, _> =
            fronts().map(|front| (Member::Hash(fingerprint(front)), ContentCheck((front & 7) as u16))).collect();
        let blocks = blocks_for(ids.len() as u64);
        assert_eq!(blocks, 7);
        let cuts = [(0, 3), (3, 7)].map(|range| cut(&ids, OwnedAge(5), range, blocks));
        let numbers: Vec<u32> = cuts.iter().flatten().map(|(block, _)| *block).collect();
        assert_eq!(numbers, (0..7).collect::<Vec<_>>());
        let again: Vec<_> = cuts.iter().flatten().flat_map(|(_, block)| block.ids.clone()).collect();
        assert_eq!(again, ids.into_iter().collect::<Vec<_>>());
    }
}
