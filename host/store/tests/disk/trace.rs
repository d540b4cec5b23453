//! What a program did to its disk, and what a power loss leaves of it.
//!
//! Of a file only what was written before a sync began that succeeded is sure; a page that came later is there as after any of
//! the writes to it, or with some sectors of the next one. What a failed sync was to cover may be missing for ever, whatever succeeds later, as
//! Linux has it. Names are sure when their folder was synced; of what came later the beginning is there, in each folder by itself.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fs;
use std::path::{Path, PathBuf};

/// What an operating system writes at once.
const PAGE: usize = 4096;
/// What a disk writes at once.
const SECTOR: usize = 512;

/// One entry of a trace.
pub struct Entry {
    pub kind: u8,
    path: PathBuf,
    place: u64,
    data: Vec<u8>,
}

/// Reads what `shim.c` wrote.
pub fn read(path: &Path) -> Vec<Entry> {
    let bytes = fs::read(path).unwrap();
    let mut rest = bytes.as_slice();
    let mut entries = Vec::new();
    fn take<'a>(rest: &mut &'a [u8], count: usize) -> &'a [u8] {
        let (taken, left) = rest.split_at(count);
        *rest = left;
        taken
    }
    let number = |bytes: &[u8]| u32::from_ne_bytes(bytes.try_into().unwrap()) as usize;
    while !rest.is_empty() {
        let kind = take(&mut rest, 1)[0];
        let length = number(take(&mut rest, 4));
        let path = PathBuf::from(String::from_utf8(take(&mut rest, length).to_vec()).unwrap());
        let place = u64::from_ne_bytes(take(&mut rest, 8).try_into().unwrap());
        let length = number(take(&mut rest, 4));
        entries.push(Entry { kind, path, place, data: take(&mut rest, length).to_vec() });
    }
    entries
}

/// Numbers that are drawn: the same ones for a seed.
pub struct Draw(pub u64);

impl Draw {
    /// From zero to `most`, both included.
    pub fn upto(&mut self, most: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        usize::try_from((mixed ^ (mixed >> 31)) % (most as u64 + 1)).unwrap()
    }
}

enum Change {
    Write { place: usize, data: Vec<u8> },
    Length(usize),
}

#[derive(Default)]
struct File {
    changes: Vec<Change>,
    /// As many are on the disk.
    safe: usize,
    /// But for these: a sync of them failed.
    lost: BTreeSet<usize>,
}

#[derive(Clone, Copy)]
enum Node {
    File(usize),
    Folder,
}

enum Naming {
    Add(PathBuf, Node),
    Remove(PathBuf),
    Rename(PathBuf, PathBuf),
}

#[derive(Default)]
struct Folder {
    namings: Vec<Naming>,
    safe: usize,
}

/// A disk at some point of a trace.
#[derive(Default)]
pub struct Disk {
    files: Vec<File>,
    folders: HashMap<PathBuf, Folder>,
    names: HashMap<PathBuf, usize>,
    /// Syncs under way: of what, and how much it covers.
    syncs: HashMap<u64, (PathBuf, Option<usize>, usize)>,
    entries: u64,
    /// Lines that were acknowledged so far.
    pub acknowledged: String,
}

impl Disk {
    /// A disk with one folder.
    pub fn new(root: &Path) -> Self {
        Self { folders: HashMap::from([(root.to_owned(), Folder::default())]), ..Self::default() }
    }

    fn name(&mut self, path: &Path, naming: Naming) {
        self.folders.get_mut(path.parent().unwrap()).expect("a known folder").namings.push(naming);
    }

    /// The next thing that happened.
    pub fn happen(&mut self, entry: &Entry) {
        let number = self.entries;
        self.entries += 1;
        let path = &entry.path;
        let place = usize::try_from(entry.place).unwrap();
        match entry.kind {
            b'A' => self.acknowledged.push_str(std::str::from_utf8(&entry.data).unwrap()),
            b'C' => {
                self.files.push(File::default());
                let file = self.files.len() - 1;
                self.names.insert(path.clone(), file);
                self.name(path, Naming::Add(path.clone(), Node::File(file)));
            }
            b'M' => {
                self.folders.insert(path.clone(), Folder::default());
                self.name(path, Naming::Add(path.clone(), Node::Folder));
            }
            // Of a file that has no name any more nothing will be seen.
            b'W' | b'T' => {
                if let Some(file) = self.names.get(path) {
                    let change = match entry.kind {
                        b'W' => Change::Write { place, data: entry.data.clone() },
                        _ => Change::Length(place),
                    };
                    self.files[*file].changes.push(change);
                }
            }
            b'S' => {
                let file = self.names.get(path).copied();
                let covered = match (file, self.folders.get(path)) {
                    (Some(file), _) => self.files[file].changes.len(),
                    (None, Some(folder)) => folder.namings.len(),
                    (None, None) => return,
                };
                self.syncs.insert(number, (path.clone(), file, covered));
            }
            b'F' | b'f' => {
                let Some((path, file, covered)) = self.syncs.remove(&entry.place) else { return };
                match (file, entry.kind) {
                    (Some(file), b'F') => self.files[file].safe = self.files[file].safe.max(covered),
                    (Some(file), _) => {
                        let file = &mut self.files[file];
                        file.lost.extend(file.safe..covered);
                    }
                    (None, b'F') => {
                        let folder = self.folders.get_mut(&path).unwrap();
                        folder.safe = folder.safe.max(covered);
                    }
                    (None, _) => {}
                }
            }
            b'R' => {
                let to = PathBuf::from(String::from_utf8(entry.data.clone()).unwrap());
                assert_eq!(path.parent(), to.parent(), "a file goes from one folder to another");
                let file = self.names.remove(path).unwrap();
                self.names.insert(to.clone(), file);
                self.name(path, Naming::Rename(path.clone(), to));
            }
            b'U' => {
                self.names.remove(path);
                self.name(path, Naming::Remove(path.clone()));
            }
            kind => panic!("an entry of kind {}", char::from(kind)),
        }
    }

    /// Writes what a power loss now leaves of `folder` to `to`. Without a `draw` nothing is left but what is sure.
    pub fn lose_power(&self, folder: &Path, to: &Path, mut draw: Option<&mut Draw>) {
        fs::create_dir_all(to).unwrap();
        let known = &self.folders[folder];
        let later = known.namings.len() - known.safe;
        let count = known.safe + draw.as_mut().map_or(0, |draw| draw.upto(later));
        let mut names = BTreeMap::new();
        for naming in &known.namings[..count] {
            match naming {
                Naming::Add(path, node) => {
                    names.insert(path, *node);
                }
                Naming::Remove(path) => {
                    names.remove(path);
                }
                Naming::Rename(from, to) => {
                    let node = names.remove(from).expect("what is renamed is there");
                    names.insert(to, node);
                }
            }
        }
        for (path, node) in names {
            let to = to.join(path.file_name().unwrap());
            match node {
                Node::Folder => self.lose_power(path, &to, draw.as_deref_mut()),
                Node::File(file) => fs::write(to, self.files[file].left(draw.as_deref_mut())).unwrap(),
            }
        }
    }
}

impl File {
    fn left(&self, mut draw: Option<&mut Draw>) -> Vec<u8> {
        let is_sure = |number: usize| number < self.safe && !self.lost.contains(&number);
        // Of each page: the last write that is sure, which brought all before it, and how many others there are.
        let (mut last_sure, mut unsure): (HashMap<usize, usize>, HashMap<usize, usize>) = Default::default();
        for (number, change) in self.changes.iter().enumerate() {
            if let Change::Write { place, data } = change {
                for page in place / PAGE..=(place + data.len() - 1) / PAGE {
                    if is_sure(number) {
                        last_sure.insert(page, number);
                    } else {
                        *unsure.entry(page).or_default() += 1;
                    }
                }
            }
        }
        let mut left = Vec::new();
        let mut still: HashMap<usize, usize> = HashMap::new();
        for (number, change) in self.changes.iter().enumerate() {
            let (place, data) = match change {
                Change::Length(length) => {
                    if is_sure(number) || draw.as_mut().is_some_and(|draw| draw.upto(1) == 1) {
                        left.resize(*length, 0);
                    }
                    continue;
                }
                Change::Write { place, data } => (*place, data),
            };
            let mut put = |from: usize, until: usize| {
                if until > left.len() {
                    left.resize(until, 0);
                }
                left[from..until].copy_from_slice(&data[from - place..until - place]);
            };
            for page in place / PAGE..=(place + data.len() - 1) / PAGE {
                let (from, until) = (place.max(page * PAGE), (place + data.len()).min((page + 1) * PAGE));
                if is_sure(number) || last_sure.get(&page).is_some_and(|sure| *sure > number) {
                    put(from, until);
                    continue;
                }
                let Some(draw) = draw.as_deref_mut() else { continue };
                let still = still.entry(page).or_insert_with(|| draw.upto(unsure[&page]) + 1);
                *still = still.saturating_sub(1);
                match *still {
                    0 => {}
                    // The one that was being written.
                    1 => {
                        let sectors = draw.upto(PAGE / SECTOR);
                        let until = until.min(page * PAGE + sectors * SECTOR);
                        if until > from {
                            put(from, until);
                        }
                        // Nothing comes after it.
                    }
                    _ => put(from, until),
                }
            }
        }
        left
    }
}
