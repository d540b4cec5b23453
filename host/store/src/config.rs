//! How to open the store.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use thiserror::Error;
use waybill_core::code::Code;
use waybill_core::inbox::limits::DEDUP_MEMORY_DEFAULT;
use waybill_core::limits::PAYLOAD_BYTES_MAX_DEFAULT;
use waybill_core::outbox::index::Index;
use waybill_core::port::store::StoreError;
use waybill_core::streams::settings::StreamsSettings;

/// Default of [`StoreConfig::memtable_bytes`]: above the largest request (64 MiB, which is one transaction) with what its
/// encoding adds.
pub const MEMTABLE_BYTES: u64 = 96 * 1024 * 1024;
/// Default of [`StoreConfig::block_cache_bytes`]. SurrealDB would take half of the machine's memory.
pub const BLOCK_CACHE_BYTES: u64 = 64 * 1024 * 1024;
/// Default of [`StoreConfig::query_timeout`], for one statement.
pub const QUERY_TIMEOUT: Duration = Duration::from_secs(30);
/// Shards of an embedded store: one commit pipeline, sends run side by side anyway.
pub const SHARDS_EMBEDDED: u16 = 1;
/// Shards of a store that hosts share.
pub const SHARDS_SHARED: u16 = 16;
/// Most shards: a shard is chosen by one byte.
pub const SHARDS_MAX: u16 = 256;

/// Where the store is and what it may use.
#[derive(Clone)]
pub struct StoreConfig {
    /// `surrealkv://DIR`, `mem://`, `ws://HOST:PORT` or `wss://HOST:PORT`; a directory may be relative to the working directory.
    pub url: String,
    pub namespace: String,
    pub database: String,
    /// User and password for a server.
    pub user: Option<(String, String)>,
    /// The user belongs to the database instead of to the whole server.
    pub database_user: bool,
    /// Write buffer of an embedded store, in bytes; no transaction may be larger.
    pub memtable_bytes: u64,
    /// Read cache of an embedded store, in bytes.
    pub block_cache_bytes: u64,
    /// Shards; has to be what the store was made with. None = that; of a new store 1 embedded, 16 on a server.
    pub shards: Option<u16>,
    pub payload_bytes_max: usize,
    /// What is taken of events that `fn::waybill::append` appends.
    pub streams: StreamsSettings,
    /// Longest run of one statement.
    pub query_timeout: Duration,
    /// Bytes of filters over ids of the inbox that tell neither a time nor a counter. Past it a look-up reads a block a day of the window.
    pub dedup_memory: usize,
    /// What can be looked up of messages.
    pub indexes: Vec<Index>,
}

impl StoreConfig {
    /// A store at this URL with defaults.
    pub fn new(url: impl Into<String>) -> Self {
        Self {
            url: url.into(),
            namespace: "waybill".into(),
            database: "waybill".into(),
            user: None,
            database_user: false,
            memtable_bytes: MEMTABLE_BYTES,
            block_cache_bytes: BLOCK_CACHE_BYTES,
            shards: None,
            payload_bytes_max: PAYLOAD_BYTES_MAX_DEFAULT,
            streams: StreamsSettings::default(),
            query_timeout: QUERY_TIMEOUT,
            dedup_memory: DEDUP_MEMORY_DEFAULT,
            indexes: Vec::new(),
        }
    }
}

impl fmt::Debug for StoreConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StoreConfig")
            .field("url", &self.url)
            .field("user", &self.user.as_ref().map(|(name, _)| name))
            .finish_non_exhaustive()
    }
}

/// When a commit is safe.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Durability {
    /// On disk before it is acknowledged.
    EveryCommit,
    /// On disk within this time; a power loss may take what came later.
    Interval(String),
    /// When the operating system writes it.
    OperatingSystem,
    /// Never: it lives in memory.
    Memory,
    /// As the server is configured.
    Server,
}

impl fmt::Display for Durability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::EveryCommit => f.write_str("every commit is on disk before it is acknowledged"),
            Self::Interval(time) => write!(f, "commits reach the disk every {time}"),
            Self::OperatingSystem => f.write_str("commits reach the disk when the operating system writes them"),
            Self::Memory => f.write_str("nothing is kept after the process ends"),
            Self::Server => f.write_str("as the SurrealDB server is configured"),
        }
    }
}

/// Why the store can't be opened.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum OpenError {
    /// Another process has the directory.
    #[error("the data directory {dir:?} is in use by {holder}: stop it, or give this host a directory of its own")]
    Locked {
        dir: PathBuf,
        /// Process id, host and start of the one that has it.
        holder: String,
    },
    /// The URL can't be used.
    #[error("store.url {url:?} can't be used: {cause}")]
    Url {
        url: String,
        /// Why, and what can be written instead.
        cause: String,
    },
    /// A setting is out of its bounds.
    #[error("{setting} is {value}, it has to be from {min} to {max}")]
    Bound { setting: &'static str, value: u64, min: u64, max: u64 },
    /// Another number of shards than the store was made with.
    #[error(
        "outbox.shards is {configured}, and this store was made with {kept}: set outbox.shards = {kept} or leave it out. Another \
         number needs a new store: let this one deliver everything first, then start on an empty one"
    )]
    Shards {
        /// As at the first start.
        kept: u16,
        configured: u16,
    },
    /// An application's table has a name that this version needs.
    #[error(
        "an application has a table {table:?} in this database, and this version of Waybill needs that name for itself: with the version \
         that ran before move its rows to a table of another name and delete them there (at a SurrealDB server, remove the table), then \
         start again"
    )]
    Table { table: &'static str },
    /// The directory can't be made or written.
    #[error("the data directory {dir:?} can't be used: {cause}")]
    Directory {
        dir: PathBuf,
        /// What the operating system said.
        cause: String,
    },
    /// The write-ahead log is damaged, and not by a crash alone.
    #[error(
        "the write-ahead log {path:?} is damaged from byte {whole} on, with readable records behind it from byte {next}: put back a \
         copy of the data directory, or cut the log off at byte {whole} and so lose what was committed behind it"
    )]
    Log {
        path: PathBuf,
        /// End of the last record before the damage.
        whole: u64,
        /// Beginning of a record behind it.
        next: u64,
    },
    /// What is in the write-ahead log isn't of the format that this version knows.
    #[error(
        "the write-ahead log {path:?} has something of another format at byte {at}: open it with the version that wrote it, or put back a \
         copy of the data directory"
    )]
    LogFormat { path: PathBuf, at: u64 },
    /// The end of the write-ahead log can't be read, and is more than a crash leaves unfinished.
    #[error(
        "the write-ahead log {path:?} can't be read from byte {whole} on, and {bytes} bytes are more than the {record_max} that a crash \
         can leave unfinished: put back a copy of the data directory, or cut the log off at byte {whole} and so lose what was committed \
         behind it"
    )]
    LogTail {
        path: PathBuf,
        /// End of the last record that can be read.
        whole: u64,
        bytes: u64,
        /// The largest record that there may be.
        record_max: u64,
    },
    /// The store itself refused.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl OpenError {
    pub fn code(&self) -> Code {
        match self {
            Self::Locked { .. } => Code::STORAGE_LOCKED,
            Self::Url { .. } | Self::Bound { .. } => Code::CONFIG_STORE,
            Self::Shards { .. } => Code::CONFIG_SHARDS,
            Self::Table { .. } => Code::STORAGE_TABLE,
            Self::Directory { .. } => Code::STORAGE_DIRECTORY,
            Self::Log { .. } | Self::LogFormat { .. } | Self::LogTail { .. } => Code::STORAGE_CORRUPT,
            Self::Store(error) => error.code(),
        }
    }
}
