//! The format of a backup (`docs/design/backup.md`): a magic text, and behind it entries in one zstd stream.
//!
//! | part of an entry | bytes |
//! |---|---|
//! | kind | 1 |
//! | length of the name | 2 |
//! | name | that many |
//! | size | 8 |
//! | content, of kinds that have one | that many |
//! | SHA-256 | 32 |
//!
//! Numbers are big-endian. The last entry counts the others and has the checksum of their heads and checksums, so that a backup that is cut
//! off is never taken for a whole one. What this doesn't do: know a file system; decide where files go.

use std::io::{self, Read, Write};

use sha2::{Digest, Sha256};
use thiserror::Error;
use waybill_core::port::backup::HeldFile;
use zstd::{Decoder, Encoder};

/// Begins a backup of this version of the format.
const MAGIC: &[u8; 16] = b"waybill-backup-1";
/// What the magic of every version begins with.
const FAMILY: &[u8] = b"waybill-backup-";
/// Fast, and a half to a third of the size.
const LEVEL: i32 = 3;
/// Bytes read and written at once.
const PIECE: usize = 64 * 1024;
/// Longest name, in bytes: a folder, a slash, and a number with its ending.
const NAME_BYTES_MAX: usize = 64;
/// Folders that files of a backup may lie in.
pub const FOLDERS: [&str; 3] = ["manifest", "sstables", "wal"];

/// Kinds of entries, as they are written.
const FILE: u8 = 1;
const EARLIER: u8 = 2;
const END: u8 = 3;

/// Why a backup can't be read.
#[derive(Debug, Error)]
pub enum ArchiveError {
    #[error("it is no backup of Waybill, or it is still encrypted")]
    Foreign,
    #[error("it was made by a newer Waybill: read it with that version")]
    Newer,
    #[error("it is cut off: it was never finished, or a part of it is missing")]
    Cut,
    #[error("it is damaged: {0}")]
    Damaged(String),
    /// Where it is read from, or where it goes.
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// What goes on with the files of a backup while it is read.
pub trait Sink {
    fn begin(&mut self, name: &str, bytes: u64) -> io::Result<()>;
    fn data(&mut self, piece: &[u8]) -> io::Result<()>;
    /// The file that began is whole, and its checksum is right.
    fn end(&mut self, file: HeldFile) -> io::Result<()>;
    /// A file that an earlier backup holds.
    fn earlier(&mut self, file: HeldFile) -> io::Result<()>;
}

/// Makes a backup of what it is given, entry by entry.
pub struct Writer<W: Write> {
    out: Encoder<'static, W>,
    /// Of all heads and checksums.
    sum: Sha256,
    entries: u64,
}

impl<W: Write> Writer<W> {
    pub fn new(mut out: W) -> io::Result<Self> {
        out.write_all(MAGIC)?;
        Ok(Self { out: Encoder::new(out, LEVEL)?, sum: Sha256::new(), entries: 0 })
    }

    /// Adds a file of exactly so many bytes.
    pub fn file(&mut self, name: &str, bytes: u64, content: impl Read) -> io::Result<()> {
        self.head(FILE, name, bytes)?;
        let mut content = content.take(bytes);
        let (mut sum, mut piece, mut left) = (Sha256::new(), vec![0; PIECE], bytes);
        loop {
            let read = content.read(&mut piece)?;
            let Some(data) = piece.get(..read).filter(|data| !data.is_empty()) else { break };
            sum.update(data);
            self.out.write_all(data)?;
            left = left.saturating_sub(data.len() as u64);
        }
        if left > 0 {
            return Err(io::Error::other(format!("{name} has {left} bytes less than it had")));
        }
        self.checksum(&sum.finalize())
    }

    /// Adds the name of a file that an earlier backup holds.
    pub fn earlier(&mut self, file: &HeldFile) -> io::Result<()> {
        let sum = bytes_of(&file.sha256).ok_or_else(|| io::Error::other("a checksum isn't 64 hex digits"))?;
        self.head(EARLIER, &file.name, file.bytes)?;
        self.checksum(&sum)
    }

    /// Ends the backup.
    pub fn finish(mut self) -> io::Result<()> {
        let entries = self.entries;
        self.head(END, "", entries)?;
        let sum = self.sum.clone().finalize();
        self.out.write_all(&sum)?;
        self.out.finish()?.flush()
    }

    fn head(&mut self, kind: u8, name: &str, bytes: u64) -> io::Result<()> {
        let length = u16::try_from(name.len()).map_err(|_| io::Error::other("a name is too long"))?;
        let mut head = vec![kind];
        head.extend(length.to_be_bytes());
        head.extend(name.as_bytes());
        head.extend(bytes.to_be_bytes());
        self.sum.update(&head);
        self.entries += 1;
        self.out.write_all(&head)
    }

    fn checksum(&mut self, sum: &[u8]) -> io::Result<()> {
        self.sum.update(sum);
        self.out.write_all(sum)
    }
}

/// Reads a backup to its end, and checks all of it.
pub fn read(mut from: impl Read, sink: &mut impl Sink) -> Result<(), ArchiveError> {
    let mut magic = [0; MAGIC.len()];
    from.read_exact(&mut magic).map_err(|error| match error.kind() {
        io::ErrorKind::UnexpectedEof => ArchiveError::Foreign,
        _ => ArchiveError::Io(error),
    })?;
    if &magic != MAGIC {
        return Err(if magic.starts_with(FAMILY) { ArchiveError::Newer } else { ArchiveError::Foreign });
    }
    let mut entries = Entries { from: Decoder::new(from)?, sum: Sha256::new(), count: 0 };
    while entries.next(sink)? {}
    Ok(())
}

struct Entries<R: Read> {
    from: Decoder<'static, io::BufReader<R>>,
    sum: Sha256,
    count: u64,
}

impl<R: Read> Entries<R> {
    /// Reads an entry; false = it was the last one.
    fn next(&mut self, sink: &mut impl Sink) -> Result<bool, ArchiveError> {
        let [kind] = self.noted::<1>()?;
        let length = usize::from(u16::from_be_bytes(self.noted::<2>()?));
        if length > NAME_BYTES_MAX {
            return Err(ArchiveError::Damaged(format!("a name has {length} bytes")));
        }
        let mut name = vec![0; length];
        self.fill(&mut name)?;
        self.sum.update(&name);
        let name = String::from_utf8(name).map_err(|_| ArchiveError::Damaged("a name is no text".to_owned()))?;
        let bytes = u64::from_be_bytes(self.noted::<8>()?);
        if kind == END {
            return self.ended(bytes);
        }
        if !is_usable(&name) {
            return Err(ArchiveError::Damaged(format!("{name:?} is no file of a store")));
        }
        match kind {
            FILE => {
                sink.begin(&name, bytes)?;
                let found = self.content(bytes, sink)?;
                let sum = self.noted::<32>()?;
                if found != sum {
                    return Err(ArchiveError::Damaged(format!("the checksum of {name} isn't that of its content")));
                }
                sink.end(HeldFile { name, bytes, sha256: hex(&sum) })?;
            }
            EARLIER => {
                let sum = self.noted::<32>()?;
                sink.earlier(HeldFile { name, bytes, sha256: hex(&sum) })?;
            }
            kind => return Err(ArchiveError::Damaged(format!("an entry has the kind {kind}"))),
        }
        self.count += 1;
        Ok(true)
    }

    fn content(&mut self, bytes: u64, sink: &mut impl Sink) -> Result<[u8; 32], ArchiveError> {
        let (mut sum, mut piece, mut left) = (Sha256::new(), vec![0; PIECE], bytes);
        while left > 0 {
            let wanted = usize::try_from(left).map_or(PIECE, |left| left.min(PIECE));
            piece.resize(wanted, 0);
            self.fill(&mut piece)?;
            sum.update(&piece);
            sink.data(&piece)?;
            left -= wanted as u64;
        }
        Ok(sum.finalize().into())
    }

    fn ended(&mut self, entries: u64) -> Result<bool, ArchiveError> {
        let mut sum = [0; 32];
        self.fill(&mut sum)?;
        // Its own head is in the writer's sum, and so in this one.
        let whole: [u8; 32] = self.sum.clone().finalize().into();
        if entries != self.count || sum != whole {
            return Err(ArchiveError::Damaged("its entries aren't those that its end speaks of".to_owned()));
        }
        match self.from.read(&mut [0]).map_err(of_read)? {
            0 => Ok(false),
            _ => Err(ArchiveError::Damaged("something follows its end".to_owned())),
        }
    }

    /// So many bytes of a head, or a checksum.
    fn noted<const N: usize>(&mut self) -> Result<[u8; N], ArchiveError> {
        let mut bytes = [0; N];
        self.fill(&mut bytes)?;
        self.sum.update(bytes);
        Ok(bytes)
    }

    fn fill(&mut self, bytes: &mut [u8]) -> Result<(), ArchiveError> {
        self.from.read_exact(bytes).map_err(of_read)
    }
}

fn of_read(error: io::Error) -> ArchiveError {
    match error.kind() {
        io::ErrorKind::UnexpectedEof => ArchiveError::Cut,
        // The decoder's own.
        io::ErrorKind::Other | io::ErrorKind::InvalidData => ArchiveError::Damaged(error.to_string()),
        _ => ArchiveError::Io(error),
    }
}

/// Whether a name is a folder of a store's and a plain file name: nothing is written anywhere else, whatever a backup says.
fn is_usable(name: &str) -> bool {
    name.split_once('/').is_some_and(|(folder, file)| {
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b'_');
        FOLDERS.contains(&folder) && !file.is_empty() && !file.starts_with('.') && file.bytes().all(plain)
    })
}

/// A checksum as 64 hex digits.
pub fn hex(sum: &[u8]) -> String {
    sum.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn bytes_of(hex: &str) -> Option<[u8; 32]> {
    let digits: Vec<u8> = hex
        .chars()
        .map(|digit| digit.to_digit(16).and_then(|digit| u8::try_from(digit).ok()))
        .collect::<Option<_>>()?;
    let (pairs, rest) = digits.as_chunks::<2>();
    if !rest.is_empty() {
        return None;
    }
    pairs.iter().map(|[high, low]| (high << 4) | low).collect::<Vec<u8>>().try_into().ok()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::indexing_slicing)]
    use super::*;

    /// Keeps what it is given.
    #[derive(Default)]
    struct Kept {
        open: Vec<u8>,
        files: Vec<(HeldFile, Vec<u8>)>,
        earlier: Vec<HeldFile>,
    }

    impl Sink for Kept {
        fn begin(&mut self, _: &str, _: u64) -> io::Result<()> {
            self.open.clear();
            Ok(())
        }
        fn data(&mut self, piece: &[u8]) -> io::Result<()> {
            self.open.extend_from_slice(piece);
            Ok(())
        }
        fn end(&mut self, file: HeldFile) -> io::Result<()> {
            self.files.push((file, std::mem::take(&mut self.open)));
            Ok(())
        }
        fn earlier(&mut self, file: HeldFile) -> io::Result<()> {
            self.earlier.push(file);
            Ok(())
        }
    }

    fn earlier() -> HeldFile {
        HeldFile { name: "sstables/1.sst".into(), bytes: 7, sha256: "0a".repeat(32) }
    }

    fn written(name: &str, content: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        let mut writer = Writer::new(&mut out).unwrap();
        writer.file(name, content.len() as u64, content).unwrap();
        writer.earlier(&earlier()).unwrap();
        writer.file("wal/1.wal", 0, io::empty()).unwrap();
        writer.finish().unwrap();
        out
    }

    fn large() -> Vec<u8> {
        (0..PIECE as u32 * 3 + 5).map(|number| number.wrapping_mul(2_654_435_761).to_be_bytes()[0]).collect()
    }

    #[test]
    fn what_is_written_is_read() {
        let backup = written("sstables/2.sst", &large());
        let mut kept = Kept::default();
        read(&backup[..], &mut kept).unwrap();
        assert_eq!((kept.files[0].1.clone(), kept.earlier), (large(), vec![earlier()]));
        assert_eq!(kept.files[0].0.sha256, hex(&Sha256::digest(large())));
        assert_eq!((kept.files[1].0.name.as_str(), kept.files[1].0.bytes), ("wal/1.wal", 0));
    }

    #[test]
    fn a_backup_that_is_cut_off_anywhere_is_none() {
        let backup = written("sstables/2.sst", b"some content");
        for length in 0..backup.len() {
            assert!(read(&backup[..length], &mut Kept::default()).is_err(), "{length} of {} bytes", backup.len());
        }
    }

    #[test]
    fn a_bit_that_is_flipped_anywhere_changes_no_file_unnoticed() {
        let backup = written("sstables/2.sst", b"some content");
        let mut whole = Kept::default();
        read(&backup[..], &mut whole).unwrap();
        for place in 0..backup.len() * 8 {
            let mut spoilt = backup.clone();
            spoilt[place / 8] ^= 1 << (place % 8);
            let mut kept = Kept::default();
            if read(&spoilt[..], &mut kept).is_ok() {
                assert_eq!((&kept.files, &kept.earlier), (&whole.files, &whole.earlier), "bit {place}");
            }
        }
    }

    #[test]
    fn what_is_behind_the_end_is_refused() {
        let mut backup = written("sstables/2.sst", b"x");
        backup.push(0);
        assert!(read(&backup[..], &mut Kept::default()).is_err());
    }

    #[test]
    fn no_backup_writes_beside_a_store() {
        for name in ["../x", "sstables/../x", "sstables/.x", "/etc/passwd", "sstables/a/b", "other/x", "sstables/", "x"]
        {
            let backup = written(name, b"x");
            assert!(matches!(read(&backup[..], &mut Kept::default()), Err(ArchiveError::Damaged(_))), "{name}");
        }
    }

    #[test]
    fn other_files_and_newer_backups_are_told_apart() {
        let read = |bytes: &[u8]| super::read(bytes, &mut Kept::default());
        assert!(matches!(read(b"age-encryption.org/v1"), Err(ArchiveError::Foreign)));
        assert!(matches!(read(b"short"), Err(ArchiveError::Foreign)));
        assert!(matches!(read(b"waybill-backup-2...."), Err(ArchiveError::Newer)));
    }

    #[test]
    fn a_file_that_became_shorter_ends_the_backup() {
        let mut out = Vec::new();
        let mut writer = Writer::new(&mut out).unwrap();
        assert!(writer.file("sstables/2.sst", 9, &b"short"[..]).is_err());
    }
}
