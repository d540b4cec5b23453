//! Combinations of the values of some dimensions: all of them, or so many that every two values of two dimensions meet.

use std::cmp::Reverse;
use std::collections::HashMap;

/// A value of each dimension, by its number.
pub type Combination<const N: usize> = [usize; N];
/// Two values of two dimensions: dimension and value each.
type Pair = [(usize, usize); 2];

/// All combinations of dimensions with so many values.
pub fn all<const N: usize>(sizes: [usize; N]) -> Vec<Combination<N>> {
    let count: usize = sizes.iter().product();
    let numbered = |number: usize| {
        let mut rest = number;
        sizes.map(|size| {
            let value = rest % size;
            rest /= size;
            value
        })
    };
    (0..count).map(numbered).collect()
}

/// Some of them, in which every pair is. Each is the one that has most pairs that none before it has; of several, the one whose pairs are
/// the rarest so far, so that no value is met by few others only; and of these the first.
pub fn pairwise<const N: usize>(sizes: [usize; N]) -> Vec<Combination<N>> {
    let candidates: Vec<(Combination<N>, Vec<Pair>)> = all(sizes).into_iter().map(|one| (one, pairs(&one))).collect();
    let mut met: HashMap<Pair, usize> = HashMap::new();
    let mut chosen = Vec::new();
    loop {
        let worth = |of: &[Pair]| {
            let times = |pair: &Pair| met.get(pair).copied().unwrap_or(0);
            let new = of.iter().filter(|pair| times(pair) == 0).count();
            (new, Reverse(of.iter().map(times).sum::<usize>()))
        };
        // The last of those that are worth most, from the back, is the first of them.
        let Some((best, of)) = candidates.iter().rev().max_by_key(|(_, of)| worth(of)) else { return chosen };
        if worth(of).0 == 0 {
            return chosen;
        }
        chosen.push(*best);
        of.iter().for_each(|pair| *met.entry(*pair).or_default() += 1);
    }
}

fn pairs<const N: usize>(of: &Combination<N>) -> Vec<Pair> {
    let values: Vec<(usize, usize)> = of.iter().copied().enumerate().collect();
    let behind = |at: usize| values.iter().skip(at + 1).copied();
    values.iter().enumerate().flat_map(|(at, one)| behind(at).map(move |other| [*one, other])).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    fn pairs_in<const N: usize>(combinations: &[Combination<N>]) -> HashSet<Pair> {
        combinations.iter().flat_map(pairs).collect()
    }

    #[test]
    fn every_pair_is_in_the_choice_and_it_is_as_small_as_it_can_be_for_what_is_looked_at() {
        let sizes = [30, 5, 2, 2];
        let (all, chosen) = (all(sizes), pairwise(sizes));
        assert_eq!(pairs_in(&chosen), pairs_in(&all));
        assert_eq!((all.len(), chosen.len()), (600, 150), "each value of the first with each of the second, once");
        assert_eq!(chosen.iter().collect::<HashSet<_>>().len(), chosen.len(), "none is there twice");
    }

    #[test]
    fn dimensions_of_other_sizes_have_all_their_pairs_too() {
        for sizes in [[3, 3, 3], [1, 1, 1], [2, 7, 4], [5, 1, 2]] {
            let chosen = pairwise(sizes);
            assert_eq!(pairs_in(&chosen), pairs_in(&all(sizes)), "{sizes:?}");
            assert!(chosen.len() <= all(sizes).len(), "{sizes:?}");
        }
        assert!(pairwise([3, 0, 2]).is_empty(), "without a value there is nothing to combine");
    }

    #[test]
    fn no_value_is_met_by_few_others_only() {
        let chosen = pairwise([30, 5, 2, 2]);
        for width in 0..5 {
            let dark = chosen.iter().filter(|one| (one[1], one[2]) == (width, 1)).count();
            assert!((10..=20).contains(&dark), "{dark} of 30 at {width}");
        }
        assert_eq!(chosen, pairwise([30, 5, 2, 2]), "the same each time");
    }
}
