//! What a log is like, read fragment by fragment.
//!
//! The format: blocks of 32 KiB; records in fragments that never cross a block: checksum (4, CRC-32 of type and data),
//! length (2), type (1), data; all big-endian; less than a header's room at a block's end is padding.

use std::io::{self, Read};

/// Size of a block, in bytes.
pub(super) const BLOCK: usize = 32 * 1024;
/// Size of a fragment's header, in bytes.
pub(super) const HEADER: usize = 7;
/// What a disk writes at once, in bytes: a power loss leaves zeros in whole ones of those that it didn't write.
const SECTOR: usize = 512;

pub(super) const FULL: u8 = 1;
/// The beginning of one.
pub(super) const FIRST: u8 = 2;
/// The middle of one.
pub(super) const MIDDLE: u8 = 3;
/// The end of one.
pub(super) const LAST: u8 = 4;
/// How the records are compressed: a note of its own.
const COMPRESSION: u8 = 9;

/// What a log is like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Scan {
    /// It ends with a whole record.
    Whole,
    /// Behind the whole records, which end at `whole`, no record begins. What isn't zero ends at `end`.
    Torn { whole: u64, end: u64 },
    /// Something unreadable begins at `whole`, and at `next` a readable record begins.
    Damaged {
        whole: u64,
        next: u64,
        /// What is unreadable was never written, as far as the zeros in it tell.
        unwritten: bool,
    },
    /// What lies at `at` was written whole, but isn't of a kind that is known.
    Foreign { at: u64 },
}

/// One fragment, or why there is none.
enum Fragment {
    /// Of this type; the next begins so many bytes further on.
    Found(u8, usize),
    /// The block has no more.
    BlockEnds,
    /// There is nothing but zeros to the block's end, and more of them than padding has.
    Zeros,
    /// It begins like one, and the file ends before it does.
    CutOff,
    /// It is whole, and of a type that isn't known.
    Foreign,
    Bad,
}

/// Reads a log to its end, or to the first readable record behind something unreadable.
pub(super) fn scan(log: &mut impl Read) -> io::Result<Scan> {
    let mut block = Vec::with_capacity(BLOCK);
    let (mut start, mut whole, mut end) = (0_u64, 0_u64, 0_u64);
    let (mut inside, mut bad, mut unwritten) = (false, false, false);
    // Nothing at the beginning of the file can be read, and nothing says that it was being written.
    let mut alien = false;
    loop {
        block.clear();
        log.by_ref().take(BLOCK as u64).read_to_end(&mut block)?;
        if block.is_empty() {
            return Ok(match (start == whole, alien) {
                (true, _) => Scan::Whole,
                (false, true) => Scan::Foreign { at: 0 },
                (false, false) => Scan::Torn { whole, end: end.max(whole) },
            });
        }
        end = block.iter().rposition(|byte| *byte != 0).map_or(end, |last| start + last as u64 + 1);
        let mut at = 0;
        while !bad {
            match fragment(block.get(at..).unwrap_or_default(), block.len() == BLOCK) {
                Fragment::BlockEnds => break,
                Fragment::Foreign => return Ok(Scan::Foreign { at: start + at as u64 }),
                Fragment::Found(kind, size) => match (kind, inside) {
                    (FULL | COMPRESSION, false) | (LAST, true) => {
                        at += size;
                        inside = false;
                        whole = start + at as u64;
                    }
                    (FIRST, false) | (MIDDLE, true) => {
                        at += size;
                        inside = true;
                    }
                    // A record begins where another isn't at its end, or goes on where none has begun.
                    _ => bad = true,
                },
                Fragment::CutOff | Fragment::Zeros => bad = true,
                Fragment::Bad => {
                    bad = true;
                    alien = start + at as u64 == 0 && !has_hole(&block, 0, block.len());
                }
            }
        }
        if bad {
            let next = beginning(&block, at);
            unwritten |= has_hole(&block, at, next.unwrap_or(block.len()));
            if let Some(next) = next {
                return Ok(Scan::Damaged { whole, next: start + next as u64, unwritten });
            }
        }
        start += block.len() as u64;
    }
}

/// Whether between these places of a block there is a sector without anything in it, or the rest of one behind the first place.
fn has_hole(block: &[u8], from: usize, until: usize) -> bool {
    let firsts =
        std::iter::once(from).chain((0..).map(|sector| sector * SECTOR).skip_while(move |first| *first <= from));
    firsts.take_while(|first| *first < until).any(|first| {
        let last = (first + 1).next_multiple_of(SECTOR).min(until);
        block.get(first..last).is_some_and(|sector| sector.iter().all(|byte| *byte == 0))
    })
}

/// Looks behind something unreadable for the beginning of a record: it proves that the log goes on. Within a block only
/// its checksum tells where one begins, so every place is tried.
fn beginning(block: &[u8], from: usize) -> Option<usize> {
    (from..block.len()).find(|at| {
        let rest = block.get(*at..).unwrap_or_default();
        // The rest of the block isn't looked at for each of its bytes.
        if !matches!(rest.get(HEADER - 1), Some(&(FULL | FIRST))) {
            return false;
        }
        // SurrealKV writes no empty record, but seven bytes of data may look like one.
        matches!(fragment(rest, false), Fragment::Found(FULL | FIRST, size) if size > HEADER)
    })
}

/// Reads the fragment at the beginning of `rest`, which reaches to the end of its block or, unless `full`, of the file.
fn fragment(rest: &[u8], full: bool) -> Fragment {
    let Some((header, data)) = rest.split_at_checked(HEADER) else {
        // Padding, or a header that is cut off by the end of the file.
        return if full || rest.is_empty() { Fragment::BlockEnds } else { Fragment::CutOff };
    };
    let &[c0, c1, c2, c3, l0, l1, kind] = header else { return Fragment::Bad };
    if kind == 0 && rest.iter().all(|byte| *byte == 0) {
        return Fragment::Zeros;
    }
    let known = matches!(kind, FULL | FIRST | MIDDLE | LAST | COMPRESSION);
    let Some(data) = data.get(..usize::from(u16::from_be_bytes([l0, l1]))) else {
        return if known && !full { Fragment::CutOff } else { Fragment::Bad };
    };
    match (checksum(kind, data) == u32::from_be_bytes([c0, c1, c2, c3]), known) {
        (true, true) => Fragment::Found(kind, HEADER + data.len()),
        (true, false) => Fragment::Foreign,
        (false, _) => Fragment::Bad,
    }
}

/// What stands before a fragment.
pub(super) fn checksum(kind: u8, data: &[u8]) -> u32 {
    let mut hash = crc32fast::Hasher::new();
    hash.update(&[kind]);
    hash.update(data);
    hash.finalize()
}
