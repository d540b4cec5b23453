//! Mends the end of SurrealKV's write-ahead log before SurrealKV opens it.
//!
//! A process that is killed in the middle of a write leaves the beginning of a record at the end of the log. SurrealKV
//! (0.21.4) takes that for the end, goes on writing *behind* it, and at the next start finds the log damaged there and
//! drops what follows; its repair puts a new file in place of the one that it is already writing to, so the commits of
//! that whole run are gone with the next crash. Acknowledged commits, that is: the kill -9 harness found it. So the torn
//! record, which was never acknowledged, is cut off here, and SurrealKV meets a whole log.
//!
//! Damage in the middle, with whole records behind it, is no crash's doing and isn't touched: the store isn't opened, and
//! the error says where. But for one case: after a commit that failed in the middle, on a full disk say, SurrealKV may write
//! records behind the torn one. The host acknowledges none of them and removes a mark from the directory, so a log without
//! the mark is cut off at its first damage. What this doesn't do: look into records; check tables or value logs.
//!
//! The format: blocks of 32 KiB; records in fragments that never cross a block: checksum (4, CRC-32 of type and data),
//! length (2), type (1), data; all big-endian; less than a header's room at a block's end is padding.

use std::fs::{self, File, OpenOptions};
use std::io::Read;
use std::path::{Path, PathBuf};

use waybill_surreal::{Fault, LogKeeper};

use crate::config::OpenError;

/// Folder of the log in the data directory.
const FOLDER: &str = "wal";
/// There while every commit succeeded. A new directory has no log to distrust.
const MARK: &str = "waybill.log-trusted";
/// Size of a block, in bytes.
const BLOCK: usize = 32 * 1024;
/// Size of a fragment's header, in bytes.
const HEADER: usize = 7;

/// A whole record.
const FULL: u8 = 1;
/// The beginning of one.
const FIRST: u8 = 2;
/// The middle of one.
const MIDDLE: u8 = 3;
/// The end of one.
const LAST: u8 = 4;
/// How the records are compressed: a note of its own.
const COMPRESSION: u8 = 9;

/// The log of a data directory. The directory's lock has to be held.
pub struct LogFolder {
    directory: PathBuf,
}

impl LogFolder {
    /// Of this data directory.
    pub fn new(directory: PathBuf) -> Self {
        Self { directory }
    }

    /// Cuts off what was acknowledged to nobody, and marks the log as trusted. Nothing may have it open.
    pub fn mend(&self) -> Result<(), OpenError> {
        let mark = self.directory.join(MARK);
        let cut_off = mend_newest(&self.directory.join(FOLDER), mark.exists())?;
        if cut_off > 0 {
            tracing::info!(
                bytes = cut_off,
                "cut off the log what had been left unfinished; nobody was told that it was committed"
            );
        }
        let refuse = |error: std::io::Error| OpenError::Directory { dir: mark.clone(), cause: error.to_string() };
        File::create(&mark).map(drop).map_err(refuse)
    }
}

impl LogKeeper for LogFolder {
    fn directory(&self) -> &Path {
        &self.directory
    }

    fn doubt(&self) {
        // Without a mark already, or not to be removed: then damage in the middle is refused at the next start.
        if let Err(error) = fs::remove_file(self.directory.join(MARK)) {
            tracing::debug!(%error, "{MARK} could not be removed");
        }
    }

    fn mend(&self) -> Result<(), Fault> {
        LogFolder::mend(self).map_err(|error| match error {
            OpenError::Directory { .. } => Fault::DiskFull(error.to_string()),
            error => Fault::Unavailable(error.to_string()),
        })
    }
}

/// Answers how many bytes were cut off.
fn mend_newest(folder: &Path, trusted: bool) -> Result<u64, OpenError> {
    let refuse = |error: std::io::Error| OpenError::Directory { dir: folder.to_owned(), cause: error.to_string() };
    let mut logs = match fs::read_dir(folder) {
        Ok(entries) => {
            entries.map(|entry| entry.map(|entry| entry.path())).collect::<Result<Vec<_>, _>>().map_err(refuse)?
        }
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(0),
        Err(error) => return Err(refuse(error)),
    };
    logs.retain(|path| path.extension().is_some_and(|extension| extension == "wal"));
    // Names are numbers of twenty digits; only the newest log was being written to.
    logs.sort();
    let Some(newest) = logs.pop() else { return Ok(0) };
    mend_log(newest, trusted)
}

fn mend_log(path: PathBuf, trusted: bool) -> Result<u64, OpenError> {
    let refuse = |error: std::io::Error| OpenError::Directory { dir: path.clone(), cause: error.to_string() };
    let mut file = OpenOptions::new().read(true).write(true).open(&path).map_err(refuse)?;
    let length = file.metadata().map_err(refuse)?.len();
    let whole = match scan(&mut file).map_err(refuse)? {
        Scan::Whole => return Ok(0),
        Scan::Torn { whole } => whole,
        Scan::Damaged { whole, .. } if !trusted => whole,
        Scan::Damaged { whole, next } => return Err(OpenError::Log { path, whole, next }),
    };
    file.set_len(whole).and_then(|()| file.sync_all()).map_err(refuse)?;
    Ok(length.saturating_sub(whole))
}

/// What a log is like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Scan {
    /// It ends with a whole record.
    Whole,
    /// Behind the whole records, which end at `whole`, there is only the beginning of one.
    Torn { whole: u64 },
    /// Something unreadable begins at `whole`, and at `next` a readable record begins.
    Damaged { whole: u64, next: u64 },
}

/// One fragment, or why there is none.
enum Fragment {
    /// Of this type; the next begins so many bytes further on.
    Found(u8, usize),
    /// The block has no more.
    BlockEnds,
    /// It isn't one.
    Bad,
}

fn scan(file: &mut File) -> std::io::Result<Scan> {
    let mut block = Vec::with_capacity(BLOCK);
    let (mut start, mut whole, mut inside, mut bad) = (0_u64, 0_u64, false, false);
    loop {
        block.clear();
        file.by_ref().take(BLOCK as u64).read_to_end(&mut block)?;
        if block.is_empty() {
            return Ok(if start == whole { Scan::Whole } else { Scan::Torn { whole } });
        }
        let mut at = 0;
        while !bad {
            match fragment(block.get(at..).unwrap_or_default(), block.len() == BLOCK) {
                Fragment::BlockEnds => break,
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
                Fragment::Bad => bad = true,
            }
        }
        if bad && let Some(next) = beginning(&block, at) {
            return Ok(Scan::Damaged { whole, next: start + next as u64 });
        }
        start += block.len() as u64;
    }
}

/// Looks behind something unreadable for the beginning of a record: it proves that the log goes on. Within a block only
/// its checksum tells where one begins, so every place is tried.
fn beginning(block: &[u8], from: usize) -> Option<usize> {
    (from..block.len()).find(|at| {
        let rest = block.get(*at..).unwrap_or_default();
        // SurrealKV writes no empty record, but seven bytes of data may look like one.
        matches!(fragment(rest, false), Fragment::Found(FULL | FIRST, size) if size > HEADER)
    })
}

/// Reads the fragment at the beginning of `rest`, which reaches to the end of its block or, unless `full`, of the file.
fn fragment(rest: &[u8], full: bool) -> Fragment {
    let Some((header, data)) = rest.split_at_checked(HEADER) else {
        // Padding, or a header that is cut off by the end of the file.
        return if full || rest.is_empty() { Fragment::BlockEnds } else { Fragment::Bad };
    };
    let &[c0, c1, c2, c3, l0, l1, kind] = header else { return Fragment::Bad };
    if kind == 0 && rest.iter().all(|byte| *byte == 0) {
        return Fragment::BlockEnds;
    }
    let Some(data) = data.get(..usize::from(u16::from_be_bytes([l0, l1]))) else { return Fragment::Bad };
    let mut checksum = crc32fast::Hasher::new();
    checksum.update(&[kind]);
    checksum.update(data);
    let known = matches!(kind, FULL | FIRST | MIDDLE | LAST | COMPRESSION);
    if !known || checksum.finalize() != u32::from_be_bytes([c0, c1, c2, c3]) {
        return Fragment::Bad;
    }
    Fragment::Found(kind, HEADER + data.len())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::indexing_slicing)]
    use super::*;

    /// Appends a record as SurrealKV does.
    fn append(log: &mut Vec<u8>, record: &[u8]) {
        let (mut left, mut begin) = (record, true);
        while begin || !left.is_empty() {
            let room = BLOCK - log.len() % BLOCK;
            if room < HEADER {
                log.extend(vec![0; room]);
                continue;
            }
            let (data, rest) = left.split_at(left.len().min(room - HEADER));
            let kind = match (begin, rest.is_empty()) {
                (true, true) => FULL,
                (true, false) => FIRST,
                (false, false) => MIDDLE,
                (false, true) => LAST,
            };
            let checksum = crc32fast::hash(&[&[kind], data].concat());
            log.extend(checksum.to_be_bytes());
            log.extend(u16::try_from(data.len()).unwrap().to_be_bytes());
            log.push(kind);
            log.extend(data);
            (left, begin) = (rest, false);
        }
    }

    /// A log of records of these sizes, and where each ends.
    fn log(sizes: &[usize]) -> (Vec<u8>, Vec<usize>) {
        let mut log = Vec::new();
        let ends = sizes.iter().zip(1_u8..).map(|(size, fill)| {
            append(&mut log, &vec![fill; *size]);
            log.len()
        });
        let ends = ends.collect();
        (log, ends)
    }

    fn mended(log: &[u8]) -> (Result<u64, OpenError>, Vec<u8>) {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join(FOLDER)).unwrap();
        // An older log isn't looked at, whatever it holds.
        fs::write(dir.path().join("wal/00000000000000000003.wal"), "old").unwrap();
        let path = dir.path().join("wal/00000000000000000012.wal");
        fs::write(&path, log).unwrap();
        let result = mend_newest(&dir.path().join(FOLDER), true);
        (result, fs::read(path).unwrap())
    }

    #[test]
    fn a_log_cut_anywhere_is_cut_back_to_its_last_whole_record() {
        // Records that end just before, at and after the ends of blocks, and one over several blocks.
        let (log, ends) = log(&[10, BLOCK - 2 * HEADER - 10 - 3, 5, 1, BLOCK - 3 * HEADER - 6, 3 * BLOCK, 70]);
        assert!(log.len() > 5 * BLOCK);
        let near =
            |cut: &usize| ends.iter().any(|end| cut.abs_diff(*end) < 20) || cut % BLOCK < 20 || cut.is_multiple_of(997);
        for cut in (0..=log.len()).filter(near) {
            let whole = ends.iter().copied().filter(|end| *end <= cut).max().unwrap_or(0);
            let (result, left) = mended(&log[..cut]);
            assert_eq!(result.unwrap(), (cut - whole) as u64, "cut at {cut}");
            assert_eq!(left, log[..whole]);
        }
    }

    #[test]
    fn what_is_written_behind_a_mended_end_is_read_again() {
        let (log, _) = log(&[100, 2 * BLOCK]);
        let (result, mut left) = mended(&log[..BLOCK + 500]);
        assert_eq!(result.unwrap(), (BLOCK + 500 - 107) as u64);
        append(&mut left, b"next");
        assert_eq!(mended(&left).0.unwrap(), 0);
    }

    #[test]
    fn zeros_at_the_end_as_a_power_loss_leaves_them_are_cut_off() {
        let (log, _) = log(&[100]);
        for zeros in [1, HEADER, 2 * BLOCK] {
            let (result, left) = mended(&[log.clone(), vec![0; zeros]].concat());
            assert_eq!((result.unwrap(), left.len()), (zeros as u64, log.len()));
        }
    }

    #[test]
    fn an_empty_record_in_a_torn_ones_data_is_data() {
        let mut empty = Vec::new();
        append(&mut empty, b"");
        let (mut log, ends) = log(&[100]);
        append(&mut log, &[&[7; 40], empty.as_slice(), &[7; 400]].concat());
        let cut = log.len() - 1;
        let (result, left) = mended(&log[..cut]);
        assert_eq!((result.unwrap(), left.len()), ((cut - ends[0]) as u64, ends[0]));
    }

    #[test]
    fn damage_with_whole_records_behind_it_is_refused_and_left_alone() {
        let (log, ends) = log(&[100, 200, 2 * BLOCK, 300]);
        // In a header, in data, in the first fragment of a long record and in its last.
        for flipped in [4, 50, 120, BLOCK + 9, 2 * BLOCK + 100] {
            let mut damaged = log.clone();
            damaged[flipped] ^= 1;
            let before = ends.iter().copied().filter(|end| *end <= flipped).max().unwrap_or(0) as u64;
            let (result, left) = mended(&damaged);
            assert!(
                matches!(result, Err(OpenError::Log { whole, next, .. }) if whole == before && next > before),
                "{flipped}: {result:?}"
            );
            assert_eq!(left, damaged);
        }
        // A torn record that was written behind, as SurrealKV alone would.
        let mut behind = log[..ends[1] + 100].to_vec();
        append(&mut behind, b"next");
        let (result, _) = mended(&behind);
        let Err(error) = result else { panic!("not seen") };
        assert_eq!(error.code(), "STORAGE.CORRUPT");
        assert!(error.to_string().contains("00000000000000000012.wal"), "{error}");
    }

    #[test]
    fn after_a_failed_commit_the_log_is_cut_off_at_its_first_damage_and_trusted_again() {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join(FOLDER)).unwrap();
        let path = dir.path().join("wal/00000000000000000000.wal");
        let keeper = LogFolder::new(dir.path().to_owned());
        LogFolder::mend(&keeper).unwrap();
        let (mut log, ends) = log(&[100, 2 * BLOCK]);
        log.truncate(ends[1] - 50);
        append(&mut log, b"acknowledged to nobody");
        fs::write(&path, &log).unwrap();
        assert!(matches!(LogFolder::mend(&keeper), Err(OpenError::Log { .. })));

        keeper.doubt();
        LogFolder::mend(&keeper).unwrap();
        assert_eq!(fs::read(&path).unwrap(), log[..ends[0]]);
        fs::write(&path, &log).unwrap();
        assert!(matches!(LogFolder::mend(&keeper), Err(OpenError::Log { .. })), "trusted again");
    }

    #[test]
    fn a_directory_without_a_log_is_fine() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(mend_newest(&dir.path().join(FOLDER), true).unwrap(), 0);
        fs::create_dir(dir.path().join(FOLDER)).unwrap();
        assert_eq!(mend_newest(&dir.path().join(FOLDER), true).unwrap(), 0);
        assert_eq!(mended(b"").0.unwrap(), 0);
    }
}
