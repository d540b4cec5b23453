//! Logs as SurrealKV, crashes, power losses and worse leave them.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic)]

use super::append::append;
use super::scan::{BLOCK, HEADER, checksum};
use super::*;

/// The largest record of these tests, and more.
const RECORD_MAX: u64 = 8 * BLOCK as u64;

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

/// Repairs a log in a folder of its own. Answers what became of it, and of what was cut off.
fn repaired_by(log: &[u8], lazy: bool) -> (Result<(), OpenError>, Vec<u8>, Vec<u8>) {
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir(dir.path().join(FOLDER)).unwrap();
    let keeper = LogFolder::new(dir.path().to_owned(), lazy, RECORD_MAX);
    keeper.trust().unwrap();
    let path = dir.path().join("wal/00000000000000000012.wal");
    fs::write(&path, log).unwrap();
    let result = keeper.repair();
    let beside = files(&dir.path().join(FOLDER)).unwrap().into_iter().find(|file| *file != path);
    (result, fs::read(path).unwrap(), beside.map(|file| fs::read(file).unwrap()).unwrap_or_default())
}

fn repaired(log: &[u8]) -> (Result<u64, OpenError>, Vec<u8>) {
    let (result, left, _) = repaired_by(log, false);
    (result.map(|()| (log.len() - left.len()) as u64), left)
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
        let (result, left, beside) = repaired_by(&log[..cut], false);
        result.unwrap();
        assert_eq!(left, log[..whole], "cut at {cut}");
        let end = log[..cut].iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
        assert_eq!(beside, log[whole..end.max(whole)], "what was cut off is kept");
    }
}

#[test]
fn what_is_written_behind_a_mended_end_is_read_again() {
    let (log, _) = log(&[100, 2 * BLOCK]);
    let (result, mut left) = repaired(&log[..BLOCK + 500]);
    assert_eq!(result.unwrap(), (BLOCK + 500 - 107) as u64);
    append(&mut left, b"next");
    assert_eq!(repaired(&left).0.unwrap(), 0);
}

#[test]
fn zeros_at_the_end_as_a_power_loss_leaves_them_are_cut_off() {
    let (log, _) = log(&[100]);
    for zeros in [1, HEADER, 2 * BLOCK] {
        let (result, left) = repaired(&[log.clone(), vec![0; zeros]].concat());
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
    let (result, left) = repaired(&log[..cut]);
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
        let (result, left) = repaired(&damaged);
        assert!(
            matches!(result, Err(OpenError::Log { whole, next, .. }) if whole == before && next > before),
            "{flipped}: {result:?}"
        );
        assert_eq!(left, damaged);
    }
    // A torn record that was written behind, as SurrealKV alone would.
    let mut behind = log[..ends[1] + 100].to_vec();
    append(&mut behind, b"next");
    let (result, _) = repaired(&behind);
    let Err(error) = result else { panic!("not seen") };
    assert_eq!(error.code().as_str(), "STORAGE.CORRUPT");
    assert!(error.to_string().contains("00000000000000000012.wal"), "{error}");
}

#[test]
fn after_a_failed_commit_the_log_is_cut_off_at_its_first_damage_and_trusted_again() {
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir(dir.path().join(FOLDER)).unwrap();
    let path = dir.path().join("wal/00000000000000000000.wal");
    let keeper = LogFolder::new(dir.path().to_owned(), false, RECORD_MAX);
    keeper.trust().unwrap();
    let (mut log, ends) = log(&[100, 2 * BLOCK]);
    log.truncate(ends[1] - 50);
    append(&mut log, b"acknowledged to nobody");
    fs::write(&path, &log).unwrap();
    assert!(matches!(LogFolder::repair(&keeper), Err(OpenError::Log { .. })));

    keeper.distrust();
    LogFolder::repair(&keeper).unwrap();
    assert_eq!(fs::read(&path).unwrap(), log[..ends[0]]);
    keeper.trust().unwrap();
    fs::write(&path, &log).unwrap();
    assert!(matches!(LogFolder::repair(&keeper), Err(OpenError::Log { .. })), "trusted again");
}

#[test]
fn a_directory_without_a_log_is_fine() {
    let dir = tempfile::tempdir().unwrap();
    let keeper = LogFolder::new(dir.path().to_owned(), false, RECORD_MAX);
    LogFolder::repair(&keeper).unwrap();
    fs::create_dir(dir.path().join(FOLDER)).unwrap();
    LogFolder::repair(&keeper).unwrap();
    assert_eq!(repaired(b"").0.unwrap(), 0);
}

#[test]
fn what_a_power_loss_left_unwritten_is_cut_off_with_what_lies_behind_it() {
    // A record ends in the middle of a sector; the next ones go over several.
    let (log, ends) = log(&[100, 3000, 2 * BLOCK, 300]);
    for (from, until) in [
        (ends[0], 512),
        (512, 1024),
        (4096, 8192),
        (BLOCK, BLOCK + 4096),
        (2 * BLOCK, 2 * BLOCK + 512),
        (ends[1], BLOCK),
    ] {
        let mut holed = log.clone();
        holed[from..until].fill(0);
        let whole = ends.iter().copied().filter(|end| *end <= from).max().unwrap_or(0);
        let (result, left, beside) = repaired_by(&holed, false);
        assert!(result.is_ok(), "a hole from {from}: {result:?}");
        assert_eq!(left, log[..whole], "a hole from {from}");
        assert_eq!(beside, holed[whole..]);
    }
}

#[test]
fn without_a_sync_for_every_commit_any_damage_is_a_power_losss_doing() {
    let (log, ends) = log(&[100, 200, 300]);
    let mut damaged = log.clone();
    damaged[ends[0] + 50] ^= 1;
    let (result, left, beside) = repaired_by(&damaged, true);
    result.unwrap();
    assert_eq!((left.as_slice(), beside.as_slice()), (&log[..ends[0]], &damaged[ends[0]..]));
}

#[test]
fn a_log_of_another_format_is_refused_and_left_alone() {
    let (log, ends) = log(&[100, 200]);
    // A type of a later version, whole.
    let mut newer = log.clone();
    let data = b"of a later version";
    newer.extend(checksum(12, data.as_slice()).to_be_bytes());
    newer.extend(u16::try_from(data.len()).unwrap().to_be_bytes());
    newer.push(12);
    newer.extend(data);
    // Another header altogether.
    let other = [b"SKV2".as_slice(), &[7; 300]].concat();
    for (bytes, place) in [(newer, ends[1] as u64), (other, 0)] {
        let (result, left, _) = repaired_by(&bytes, true);
        assert!(matches!(&result, Err(OpenError::LogFormat { at, .. }) if *at == place), "{result:?}");
        assert_eq!(result.unwrap_err().code().as_str(), "STORAGE.CORRUPT");
        assert_eq!(left, bytes);
    }
}

#[test]
fn a_tail_larger_than_any_record_is_refused_and_left_alone() {
    let (mut log, ends) = log(&[100]);
    log.extend(vec![0xEE; usize::try_from(RECORD_MAX).unwrap() + 1]);
    let (result, left) = repaired(&log);
    assert!(matches!(result, Err(OpenError::LogTail { whole, .. }) if whole == ends[0] as u64), "{result:?}");
    assert_eq!(left, log);
}

#[test]
fn behind_a_commit_that_failed_any_tail_is_cut_off() {
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir(dir.path().join(FOLDER)).unwrap();
    let keeper = LogFolder::new(dir.path().to_owned(), false, RECORD_MAX);
    keeper.trust().unwrap();
    keeper.distrust();
    let (mut log, ends) = log(&[100]);
    log.extend(vec![0xEE; usize::try_from(RECORD_MAX).unwrap() + 1]);
    let path = dir.path().join("wal/00000000000000000012.wal");
    fs::write(&path, &log).unwrap();
    LogFolder::repair(&keeper).unwrap();
    assert_eq!(fs::read(path).unwrap(), log[..ends[0]]);
}

#[test]
fn a_log_in_which_a_commit_failed_is_trusted_again_when_that_is_said_and_not_when_it_is_mended() {
    let dir = tempfile::tempdir().unwrap();
    let keeper = LogFolder::new(dir.path().to_owned(), false, RECORD_MAX);
    keeper.trust().unwrap();
    assert!(keeper.trusted().unwrap());
    keeper.distrust();
    keeper.repair().unwrap();
    assert!(!keeper.trusted().unwrap());
    keeper.trust().unwrap();
    assert!(keeper.trusted().unwrap());
}

#[test]
fn a_large_hole_is_looked_through_block_by_block() {
    let (log, ends) = log(&[100, 300]);
    let mut holed = log[..ends[0]].to_vec();
    holed.resize(64 * BLOCK, 0);
    holed.extend(&log[ends[0]..]);
    let (result, left, _) = repaired_by(&holed, false);
    result.unwrap();
    assert_eq!(left, log[..ends[0]]);
}

#[test]
fn an_older_segment_is_mended_too() {
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir(dir.path().join(FOLDER)).unwrap();
    let (log, ends) = log(&[100, 200]);
    fs::write(dir.path().join("wal/00000000000000000003.wal"), &log[..ends[1] - 5]).unwrap();
    fs::write(dir.path().join("wal/00000000000000000004.wal"), &log).unwrap();
    LogFolder::new(dir.path().to_owned(), false, RECORD_MAX).repair().unwrap();
    assert_eq!(fs::read(dir.path().join("wal/00000000000000000003.wal")).unwrap(), log[..ends[0]]);
    assert_eq!(fs::read(dir.path().join("wal/00000000000000000004.wal")).unwrap(), log);
}

#[test]
fn only_the_newest_of_what_was_cut_off_is_kept() {
    let dir = tempfile::tempdir().unwrap();
    for number in 0..2 * CUTS_KEPT {
        fs::write(dir.path().join(format!("00000000000000000003.cut-{number}")), "").unwrap();
    }
    forget_old_cuts(dir.path()).unwrap();
    assert_eq!(files(dir.path()).unwrap().len(), CUTS_KEPT);
    assert!(dir.path().join(format!("00000000000000000003.cut-{}", 2 * CUTS_KEPT - 1)).exists());
}
