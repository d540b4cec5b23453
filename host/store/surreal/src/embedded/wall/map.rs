//! Which keys are open to callers' statements.

use std::borrow::Cow;

use surrealdb_datastore::catalog::{DatabaseId, NamespaceId};
use surrealdb_datastore::key::schema::{
    AnyKey, DbRoot, GraphFoldTbPrefix, IndexCompactionTbPrefix, KeyKind, NsRoot, TableKey, TblRoot,
};
use surrealdb_datastore::val::{Strand, TableName};
use surrealdb_kvs::Key;
use surrealdb_kvs::key::{KVKey, KVSubspace};

use crate::{ClosedTables, Fault};

/// Keys from the first to before the second, and what they are.
struct Closed {
    start: Vec<u8>,
    end: Vec<u8>,
    what: String,
    /// Open to what the operator has defined in the database: of doorsteps and the settings, a key at a time.
    doorstep: bool,
    /// Ranges inside it as well: of a doorstep, since `fn::waybill::enqueue` and `append` count what is there of an instant.
    ranges: bool,
}

/// Why keys may not be touched.
#[derive(Clone, Debug)]
pub(super) struct Refusal {
    pub(super) what: String,
    /// Functions and events of the operator may all the same.
    pub(super) doorstep: bool,
}

impl Refusal {
    pub(super) fn of(what: impl Into<String>) -> Self {
        Self { what: what.into(), doorstep: false }
    }
}

impl From<&Closed> for Refusal {
    fn from(closed: &Closed) -> Self {
        Self { what: closed.what.clone(), doorstep: closed.doorstep }
    }
}

/// Byte strings in order, none overlapping.
#[derive(Default)]
struct Ranges(Vec<Closed>);

impl Ranges {
    fn of(mut closed: Vec<Closed>) -> Self {
        closed.retain(|range| range.start < range.end);
        closed.sort_by(|one, other| one.start.cmp(&other.start));
        Self(closed)
    }

    /// What lies between the two, if anything does.
    fn between(&self, start: &[u8], end: &[u8]) -> Result<(), Refusal> {
        let behind = self.0.partition_point(|range| range.end.as_slice() <= start);
        match self.0.get(behind) {
            Some(range) if range.start.as_slice() < end => {
                // What reaches beyond it may touch what is closed to everybody.
                let within = range.start.as_slice() <= start && end <= range.end.as_slice();
                Err(Refusal { doorstep: range.doorstep && range.ranges && within, ..range.into() })
            }
            _ => Ok(()),
        }
    }

    fn at(&self, key: &[u8]) -> Result<(), Refusal> {
        let behind = self.0.partition_point(|range| range.end.as_slice() <= key);
        match self.0.get(behind) {
            Some(range) if range.start.as_slice() <= key => Err(range.into()),
            _ => Ok(()),
        }
    }
}

/// What a caller's statement may touch in one database.
pub(crate) struct Map {
    reads: Ranges,
    writes: Ranges,
    /// What all keys of the database begin with.
    home: Vec<u8>,
    /// Namespace and database, as the keys of queues hold them.
    ids: Vec<u8>,
}

fn fault(error: anyhow::Error) -> Fault {
    Fault::Other(format!("the wall around Waybill's tables can't be built: {error:#}"))
}

/// The first byte string behind all that begin with this one.
fn past(prefix: &[u8]) -> Vec<u8> {
    Key::from(prefix.to_vec()).next_neighbour().map(Key::into_vec).unwrap_or_default()
}

fn below(prefix: Vec<u8>, what: &str) -> Closed {
    Closed { end: past(&prefix), start: prefix, what: what.to_owned(), doorstep: false, ranges: false }
}

fn joined(prefix: &[u8], tail: &[u8]) -> Vec<u8> {
    [prefix, tail].concat()
}

impl Map {
    /// Of a database in which these tables are closed.
    pub(crate) fn new(namespace: NamespaceId, database: DatabaseId, closed: &ClosedTables) -> Result<Self, Fault> {
        let bytes = |key: anyhow::Result<Key<'static>>| key.map(Key::into_vec).map_err(fault);
        let space = bytes(NsRoot::new(namespace).encode_bound())?;
        let home = bytes(DbRoot::new(namespace, database).encode_bound())?;
        let mut writes = Vec::new();
        let mut reads = elsewhere(&space, &home);
        for &name in closed.tables {
            let appended = closed.doorsteps.contains(&name);
            let doorstep = appended || name == closed.settings;
            let table = TableName::new(Strand::new_static(name));
            let root = bytes(TblRoot::new(namespace, database, Cow::Borrowed(&table)).encode_bound())?;
            let definition = bytes(TableKey::new(namespace, database, Cow::Borrowed(&table)).encode_key())?;
            let folds = bytes(GraphFoldTbPrefix::new(namespace, database, Cow::Borrowed(&table)).encode_bound())?;
            let compactions =
                bytes(IndexCompactionTbPrefix::new(namespace, database, Cow::Borrowed(&table)).encode_bound())?;
            let end = joined(&definition, &[0]);
            writes.push(Closed { start: definition, end, what: name.to_owned(), doorstep: false, ranges: false });
            for prefix in [folds, compactions] {
                writes.push(below(prefix.clone(), name));
                reads.push(below(prefix, name));
            }
            // Records, edges, references and index entries; definitions (events, fields, foreign tables, indexes, live queries)
            // lie between, and SurrealDB reads those of all tables when it deletes a record.
            for (from, until) in [("", "!ev"), ("!f~", "!il"), ("!j", "!lq"), ("!m", "")] {
                let end = if until.is_empty() { past(&root) } else { joined(&root, until.as_bytes()) };
                let start = joined(&root, from.as_bytes());
                reads.push(Closed { start, end, what: name.to_owned(), doorstep, ranges: appended });
            }
            writes.push(Closed { doorstep: appended, ..below(root, name) });
        }
        let ids = [namespace.0.to_be_bytes(), database.0.to_be_bytes()].concat();
        Ok(Self { reads: Ranges::of(reads), writes: Ranges::of(writes), home, ids })
    }

    /// Whether a key may be read.
    pub(super) fn read(&self, key: &[u8]) -> Result<(), Refusal> {
        self.reads.at(key)
    }

    /// Whether all keys from the first to before the second may be read.
    pub(super) fn read_range(&self, start: &[u8], end: &[u8]) -> Result<(), Refusal> {
        self.reads.between(start, end)
    }

    /// Whether a key may be written or removed.
    pub(super) fn write(&self, key: &[u8]) -> Result<Write, Refusal> {
        let Some(kind) = AnyKey::decode(key).map(|key| key.kind()) else {
            return Err(Refusal::of("a key of an unknown kind"));
        };
        self.writes
            .at(key)
            .map_err(|refusal| Refusal { doorstep: refusal.doorstep && kind == KeyKind::Record, ..refusal })?;
        let at_home = match is_queue(kind) {
            true => key.get(4..12) == Some(self.ids.as_slice()),
            false => key.starts_with(&self.home),
        };
        match writable(kind) {
            Some(write) if at_home => Ok(write),
            _ => Err(Refusal::of(format!("definitions and other databases ({})", kind.route()))),
        }
    }

    /// Whether all keys from the first to before the second may be removed: only inside one kind of data of one table.
    pub(super) fn remove_range(&self, start: &[u8], end: &[u8]) -> Result<(), Refusal> {
        self.writes.between(start, end).map_err(|refusal| Refusal::of(refusal.what))?;
        let refused = || Refusal::of("ranges of keys across tables or definitions");
        let table = joined(&self.home, b"*");
        let rest = start.strip_prefix(table.as_slice()).ok_or_else(refused)?;
        let name = rest.iter().position(|byte| *byte == 0).ok_or_else(refused)?;
        match rest.get(name + 1) {
            Some(b'*' | b'~' | b'^' | b'&' | b'+') => {}
            _ => return Err(refused()),
        }
        let area = start.get(..table.len() + name + 2).ok_or_else(refused)?;
        if end <= past(area).as_slice() { Ok(()) } else { Err(refused()) }
    }

    /// Where the rows of a table are, if its name is written as it is.
    pub(super) fn rows(&self, table: &str) -> (Vec<u8>, Vec<u8>) {
        let prefix = [self.home.as_slice(), b"*", table.as_bytes(), b"\0*"].concat();
        let end = past(&prefix);
        (prefix, end)
    }

    /// Where the names of functions are.
    pub(super) fn functions(&self) -> (Vec<u8>, Vec<u8>) {
        let prefix = joined(&self.home, b"!fn");
        let end = past(&prefix);
        (prefix, end)
    }

    /// Where the names of tables are.
    pub(super) fn tables(&self) -> (Vec<u8>, Vec<u8>) {
        let prefix = joined(&self.home, b"!tb");
        let end = past(&prefix);
        (prefix, end)
    }

    /// Where the events of a table are whose name ends a key in [`Self::tables`].
    pub(super) fn events(&self, encoded_name: &[u8]) -> (Vec<u8>, Vec<u8>) {
        let prefix = [self.home.as_slice(), b"*", encoded_name, b"!ev"].concat();
        let end = past(&prefix);
        (prefix, end)
    }
}

/// Everything that isn't in this database: other namespaces and databases, users, access methods, sessions; and what happened to
/// tables, whoever's they are.
fn elsewhere(space: &[u8], home: &[u8]) -> Vec<Closed> {
    let users = "users, access and sessions";
    let other = "another database";
    let mut closed: Vec<Closed> = [b"/!us".as_slice(), b"/!ac", b"/!se", b"/!eq", b"/&", b"/$"]
        .map(|prefix| below(prefix.to_vec(), users))
        .into();
    for level in [space, home] {
        closed.extend([b"!us".as_slice(), b"!ac"].map(|tag| below(joined(level, tag), users)));
    }
    closed.push(below(joined(home, b"&"), users));
    closed.extend([b"#".as_slice(), b"%"].map(|tag| below(joined(home, tag), "the change feed")));
    let (all, all_end) = (b"/*".to_vec(), past(b"/*"));
    let between =
        |start: Vec<u8>, end: Vec<u8>| Closed { start, end, what: other.to_owned(), doorstep: false, ranges: false };
    closed.push(between(all, joined(space, b"!")));
    closed.push(between(joined(space, b"\""), home.to_vec()));
    closed.push(between(past(home), all_end));
    closed
}

/// How a key may be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Write {
    Freely,
    /// Only where nothing is: a table's definition comes with its first record, and is nobody's to change after that.
    Once,
}

/// Queues of work that follow from a write; they begin with their tag, namespace and database.
fn is_queue(kind: KeyKind) -> bool {
    matches!(kind, KeyKind::EventQueue | KeyKind::IndexCompaction | KeyKind::GraphFold)
}

/// What a write of data writes. A kind that isn't named is refused.
fn writable(kind: KeyKind) -> Option<Write> {
    match kind {
        KeyKind::Table => Some(Write::Once),
        KeyKind::Record
        | KeyKind::Graph
        | KeyKind::GraphPointer
        | KeyKind::Adjacency
        | KeyKind::EdgeCache
        | KeyKind::RefCache
        | KeyKind::Reference
        | KeyKind::EventQueue
        | KeyKind::IndexCompaction
        | KeyKind::GraphFold
        | KeyKind::ChangeFeed
        | KeyKind::ChangefeedFence
        | KeyKind::LiveEvents
        | KeyKind::TbIdBatch
        | KeyKind::TbIdState
        | KeyKind::SeqBatch
        | KeyKind::SeqState
        | KeyKind::DocIdBatch
        | KeyKind::DocIdState
        | KeyKind::DocKey
        | KeyKind::DocLookupIdentity
        | KeyKind::DocLookup
        | KeyKind::DocPending
        | KeyKind::BuildState
        | KeyKind::BuildTicket
        | KeyKind::BuildReservation
        | KeyKind::BuildAppend
        | KeyKind::BuildPrimary
        | KeyKind::Entry
        | KeyKind::Unique
        | KeyKind::TermDocs
        | KeyKind::FtDocLookup
        | KeyKind::FtDocKey
        | KeyKind::FtDocBatch
        | KeyKind::FtDocState
        | KeyKind::TermPosting
        | KeyKind::TermDocsResidual
        | KeyKind::DocTerms
        | KeyKind::TermChanges
        | KeyKind::TermChange
        | KeyKind::TermChangeBatch
        | KeyKind::DocStats
        | KeyKind::DocStatsDelta
        | KeyKind::DocStatsBatch
        | KeyKind::DocLength
        | KeyKind::DocCount
        | KeyKind::IndexCount
        | KeyKind::IndexVersion
        | KeyKind::TermGeneration
        | KeyKind::IndexAppend
        | KeyKind::IndexPrimary
        | KeyKind::HnswDocsState
        | KeyKind::HnswDocLookup
        | KeyKind::HnswDocKey
        | KeyKind::HnswState
        | KeyKind::HnswGeneration
        | KeyKind::HnswVector
        | KeyKind::HnswElement
        | KeyKind::HnswElementHashed
        | KeyKind::HnswLayer
        | KeyKind::HnswNode
        | KeyKind::HnswRecordPending => Some(Write::Freely),
        _ => None,
    }
}
