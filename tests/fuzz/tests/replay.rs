//! Every seed, every beginning of it, and thousands of changed ones go through every target: none may panic.
#![allow(clippy::indexing_slicing)]

use std::panic::{AssertUnwindSafe, catch_unwind};

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use waybill_fuzz::targets;

/// Changed inputs a seed. The seed of the changes is fixed: what fails fails again.
const CHANGES: usize = 400;
/// Longest seed of which every beginning is tried.
const BEGINNINGS_MAX: usize = 4 * 1024;

#[test]
fn no_target_panics_at_its_seeds_or_at_changed_ones() {
    let mut broken = Vec::new();
    for target in targets() {
        let mut random = StdRng::seed_from_u64(7);
        let seeds = target.seeds();
        for seed in &seeds {
            let mut inputs = vec![seed.clone()];
            inputs.extend((0..seed.len().min(BEGINNINGS_MAX)).map(|length| seed[..length].to_vec()));
            inputs.extend((0..CHANGES).map(|_| changed(seed, &seeds, &mut random)));
            for input in inputs {
                if catch_unwind(AssertUnwindSafe(|| (target.read)(&input))).is_err() {
                    let hex: String = input.iter().map(|byte| format!("{byte:02x}")).collect();
                    broken.push(format!("{}: {:?}\n  {hex}", target.name, String::from_utf8_lossy(&input)));
                }
            }
        }
    }
    assert!(broken.is_empty(), "{} inputs:\n{}", broken.len(), broken[..broken.len().min(10)].join("\n"));
}

#[test]
fn every_target_has_something_to_begin_with() {
    for target in targets() {
        assert!(!target.seeds().is_empty(), "{}", target.name);
    }
}

/// One to four changes: a byte, a piece away, a piece twice, a piece of another seed.
fn changed(seed: &[u8], seeds: &[Vec<u8>], random: &mut StdRng) -> Vec<u8> {
    let mut bytes = seed.to_vec();
    for _ in 0..random.random_range(1..=4) {
        if bytes.is_empty() {
            bytes.push(random.random());
            continue;
        }
        let from = random.random_range(0..bytes.len());
        let until = random.random_range(from..=bytes.len().min(from + 16));
        match random.random_range(0..5) {
            0 => bytes[from] = random.random(),
            1 => bytes[from] ^= 1 << random.random_range(0..8),
            2 => drop(bytes.drain(from..until)),
            3 => {
                let piece = bytes[from..until].to_vec();
                bytes.splice(from..from, piece);
            }
            _ => {
                let other = &seeds[random.random_range(0..seeds.len())];
                let start = random.random_range(0..=other.len());
                let end = random.random_range(start..=other.len());
                bytes.splice(from..until, other[start..end].iter().copied());
            }
        }
    }
    bytes
}
