//! Every bound of event streams with its unit, its default and the reason for it.

use std::time::Duration;

/// Longest name of a stream, in bytes: it is part of the keys of all that is stored.
pub const NAME_BYTES_MAX: usize = 255;
/// Longest name of a saga's history, which is part of no key: an id in which each byte is written as `%XX`, behind `saga.`.
pub const HISTORY_NAME_BYTES_MAX: usize = 5 + 3 * crate::saga::limits::SAGA_ID_BYTES_MAX;
/// Longest `resource_type`, `resource_id`, `node_uuid`, in bytes: parts of keys and of brokers' routing keys.
pub const RESOURCE_BYTES_MAX: usize = 255;
pub const PAYLOAD_BYTES_MAX_DEFAULT: usize = 262_144;
/// Most streams that one subscription names, so that its cursor stays a map that a client can hold.
pub const NAMED_STREAMS_MAX: usize = 1_000;
/// Longest token of a subscription as text, in bytes: it fits into a header beside others.
pub const TOKEN_BYTES_MAX: usize = 600;
/// Most shards whose places fit into a token, whatever they are.
pub const TOKEN_SHARDS_MAX: usize = 256;

/// Rows of the doorstep read for one commit. Those that wait for their stream's turn come on top.
pub const DOOR_PAGE: usize = 1_000;
/// Most rows of the doorstep that wait for their stream's turn and are read again with each page.
pub const DOOR_LEFT_MAX: usize = 10_000;
/// Events that one commit numbers at most: about a megabyte of what is usual.
pub const COMMIT_EVENTS_MAX: usize = 4_096;
/// Bytes of events past which a commit takes no further append. One larger append still goes, by itself.
pub const COMMIT_BYTES_MAX: usize = 4 * 1024 * 1024;
/// Streams whose heads an owner remembers, so that it needn't read them before each commit. About 300 bytes each.
pub const HEADS_KNOWN_MAX: usize = 10_000;
/// Bytes of chunks of exact appends that are adopted by one commit.
pub const ADOPT_BYTES_MAX: usize = 1024 * 1024;

/// Events and bytes at which a chunk is sealed: merging it further would save less than it writes.
pub const SEALED_EVENTS: usize = 64;
pub const SEALED_BYTES: usize = 256 * 1024;
/// Chunks that become one when they are merged: each event is written at most twice more.
pub const MERGE_FAN: usize = 16;
/// Chunks that one act of merging takes: it mustn't hold up those who append.
pub const MERGE_CHUNKS_MAX: usize = 1_024;
/// Bytes of chunks that one act of upkeep reads and writes.
pub const UPKEEP_BYTES_MAX: usize = 1024 * 1024;
/// Rows that one act of upkeep makes or takes away, and those of one chunk more.
pub const UPKEEP_ROWS_MAX: usize = 2_048;
/// Looks whose rows of the index of resources go into one commit: a commit holds up those who append, also a small one.
pub const INDEX_LOOKS_MAX: usize = 16;
/// Resources that one pass of compaction holds in memory: the next pass is about those behind. About 200 bytes each.
pub const COMPACT_RESOURCES_MAX: usize = 100_000;
/// Rows of the index of resources that one slice goes by, of each resource.
pub const SLICE_ROWS_MAX: usize = 256;
/// Resources whose ids begin with one text that are looked for in the index: where there are more, the stream is read as it is.
pub const SLICE_IDS_MAX: usize = 16;
/// Default of `events.retention_per_stream`, in events.
pub const RETENTION_EVENTS_DEFAULT: u64 = 10_000;
pub const TOMBSTONE_KEEP_DEFAULT: Duration = Duration::from_secs(24 * 3600);
/// Default of `events.feed_keep`: how long a reader of many streams may be away without scanning again.
pub const FEED_KEEP_DEFAULT: Duration = Duration::from_secs(3600);

/// Default of `events.replay_max_batch`, in events, and of `events.replay_max_bytes`.
pub const REPLAY_EVENTS_MAX: usize = 1_000;
pub const REPLAY_BYTES_MAX: usize = 1024 * 1024;
/// Default of `events.live_buffer_size`, in entries of a ring, and of `events.live_buffer_bytes`.
pub const LIVE_ENTRIES: usize = 1_024;
pub const LIVE_BYTES: usize = 4 * 1024 * 1024;

/// Events of one stream beyond its checkpoint that a relay holds in memory, and the bytes of those of all streams of a shard.
pub const RELAY_WINDOW_EVENTS: usize = 4_096;
pub const RELAY_WINDOW_BYTES: usize = 16 * 1024 * 1024;
/// Streams of a shard of which a relay has something in memory.
pub const RELAY_WINDOWS_MAX: usize = 4_096;
/// Streams of a shard whose events a relay gave up for others, as they can't be sent for now.
pub const RELAY_PARKED_MAX: usize = 10_000;
/// Stops of a relay that are known again when they are told again, over all hosts. Eight bytes each.
pub const RELAY_STOPS_KNOWN: usize = 256;
/// Default of `relay.max_inflight`, in events, a relay and host.
pub const RELAY_INFLIGHT_DEFAULT: usize = 64;

/// Default of `relay.batch`, in events, and of `relay.batch_bytes`: a batch is one call of a transport.
pub const RELAY_BATCH_DEFAULT: u32 = 50;
pub const RELAY_BATCH_BYTES_DEFAULT: u32 = 1024 * 1024;
/// Default of `relay.max_attempts`, the first included.
pub const RELAY_ATTEMPTS_DEFAULT: u32 = 12;
/// Default of `relay.hold_max`: a broker that is away for longer than a long holiday doesn't fill the disk.
pub const HOLD_MAX_DEFAULT: Duration = Duration::from_secs(7 * 24 * 3600);

/// Default of `events.keep_ids`: who sends an append again does it within a day.
pub const KEEP_IDS_DEFAULT: Duration = Duration::from_secs(24 * 3600);
/// Default of a pattern's `compact_lag`: readers that are less far behind see every event.
pub const COMPACT_LAG_DEFAULT: Duration = Duration::from_secs(3600);
/// Default of `events.live_bytes_total`: bytes of all rings of a host.
pub const LIVE_BYTES_TOTAL_DEFAULT: usize = 32 * 1024 * 1024;
/// Default of `events.replay_bytes_total`: bytes of all pages of replay in memory, sixteen whole ones.
pub const REPLAY_BYTES_TOTAL_DEFAULT: usize = 16 * 1024 * 1024;
/// Default of `events.stall_timeout`: twice what a heartbeat takes.
pub const STALL_TIMEOUT_DEFAULT: Duration = Duration::from_secs(30);
/// Default of `events.subscriptions_max`, of a host.
pub const SUBSCRIPTIONS_MAX_DEFAULT: usize = 10_000;
