//! Everything that reads bytes of others: parsers of what callers, operators, plugins and brokers send, and the codecs of what lies
//! on disk. Each target is one function that may refuse its input and may never panic; where something is written as well as
//! read, what was read and written again has to be the same.
//!
//! `tests/replay.rs` gives each target its seeds and thousands of changed ones, on the stable toolchain; `cargo xtask fuzz` lets
//! libFuzzer look for more. An input that broke one is kept in `corpus/TARGET/`: text as it is, bytes as `*.hex`.
#![allow(clippy::panic, clippy::unwrap_used, clippy::expect_used)]

mod inbox;
mod records;
mod requests;
mod texts;
mod wal;
// Under `cfg(test)` the sources of plugins would bring their own tests along.
#[cfg(not(test))]
mod mqtt;
#[cfg(not(test))]
mod wire;

use std::path::PathBuf;

/// One reader of foreign bytes.
pub struct Target {
    /// Also the name of its folder in `corpus/`.
    pub name: &'static str,
    /// Reads the bytes; panics when a rule is broken.
    pub read: fn(&[u8]),
    /// Inputs it accepts, besides those in `corpus/`.
    seeds: fn() -> Vec<Vec<u8>>,
}

impl Target {
    const fn of_text(name: &'static str, read: fn(&[u8])) -> Self {
        Self { name, read, seeds: Vec::new }
    }

    /// All inputs to begin with.
    pub fn seeds(&self) -> Vec<Vec<u8>> {
        let mut seeds = (self.seeds)();
        let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("corpus").join(self.name);
        let Ok(files) = std::fs::read_dir(&folder) else { return seeds };
        let mut paths: Vec<_> = files.map(|file| file.expect("a file of the corpus").path()).collect();
        paths.sort();
        for path in paths {
            let bytes = std::fs::read(&path).expect("a file of the corpus");
            seeds.push(if path.extension().is_some_and(|ending| ending == "hex") { from_hex(&bytes) } else { bytes });
        }
        seeds
    }
}

pub const TARGETS: &[&[Target]] = &[
    texts::TARGETS,
    requests::TARGETS,
    records::TARGETS,
    inbox::TARGETS,
    wal::TARGETS,
    #[cfg(not(test))]
    wire::TARGETS,
];

/// All of them, one after the other.
pub fn targets() -> impl Iterator<Item = &'static Target> {
    TARGETS.iter().flat_map(|group| group.iter())
}

/// Bytes from pairs of hexadecimal digits; white space is passed over.
fn from_hex(text: &[u8]) -> Vec<u8> {
    let digits: Vec<u8> = text.iter().copied().filter(|byte| !byte.is_ascii_whitespace()).collect();
    let digit = |byte: u8| char::from(byte).to_digit(16).expect("a hexadecimal digit");
    digits.chunks_exact(2).map(|pair| pair.iter().fold(0, |value, byte| value * 16 + digit(*byte) as u8)).collect()
}
