//! What a program wrote, kept until it has ended.

use std::collections::VecDeque;
use std::io::Write;

use anyhow::{Context, Result};

/// Bytes kept of the beginning, and as many of the end. The longest suite writes some hundred KiB.
const PART_BYTES_MAX: usize = 2 * 1024 * 1024;

/// All that a program wrote, or its beginning and its end.
#[derive(Debug, Default)]
pub struct Output {
    head: Vec<u8>,
    tail: VecDeque<u8>,
    bytes_left_out: usize,
}

impl Output {
    /// Adds what it wrote next.
    pub fn add(&mut self, piece: &[u8]) {
        if self.tail.is_empty() && self.head.len() + piece.len() <= PART_BYTES_MAX {
            self.head.extend(piece);
            return;
        }
        self.tail.extend(piece);
        let excess = self.tail.len().saturating_sub(PART_BYTES_MAX);
        self.tail.drain(..excess);
        self.bytes_left_out += excess;
    }

    /// Shows it as a whole.
    pub fn show(&self) -> Result<()> {
        self.write(&mut std::io::stdout().lock()).context("showing what a test program wrote")
    }

    fn write(&self, to: &mut impl Write) -> std::io::Result<()> {
        to.write_all(&self.head)?;
        if self.bytes_left_out > 0 {
            writeln!(to, "\n... {} bytes are left out here ...", self.bytes_left_out)?;
        }
        let (first, second) = self.tail.as_slices();
        to.write_all(first)?;
        to.write_all(second)?;
        to.flush()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn written(pieces: &[Vec<u8>]) -> Vec<u8> {
        let mut output = Output::default();
        pieces.iter().for_each(|piece| output.add(piece));
        let mut written = Vec::new();
        output.write(&mut written).unwrap();
        written
    }

    #[test]
    fn what_fits_is_kept_whole_and_in_order() {
        let half = PART_BYTES_MAX / 2;
        let pieces = [vec![b'a'; half], vec![b'b'; half + 1], vec![b'c'; half - 1]];
        assert_eq!(written(&pieces), pieces.concat());
    }

    #[test]
    fn of_too_much_the_beginning_and_the_end_are_kept() {
        let pieces = [b"begins\n".to_vec(), vec![b'x'; PART_BYTES_MAX], vec![b'y'; PART_BYTES_MAX], b"ends\n".to_vec()];
        let written = written(&pieces);
        assert!(written.starts_with(b"begins\n\n... ") && written.ends_with(b"yends\n"));
        let said = String::from_utf8_lossy(&written);
        assert!(said.contains(&format!("... {} bytes are left out here ...\n", PART_BYTES_MAX + 5)));
        assert!(written.len() < PART_BYTES_MAX + 100);
    }
}
