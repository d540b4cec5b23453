//! What a reader of many streams asks for, and how it ends.

#[cfg(doc)]
use super::FeedReader;
use super::Selector;
use crate::ids::ShardId;
use crate::port::stream_store::ScanQuery;
use crate::streams::name::StreamKey;

/// Why a reader ends, and has to begin again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Restart {
    /// Something that it should have had is gone: 410, and it begins with nothing.
    Expired,
    /// The ring or the feed has passed it: `watch lagged; resync required`, and it resumes with what it keeps.
    Lagged,
    /// Something can't be read; it isn't skipped.
    Unreadable(String),
}

/// What a reader needs next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FeedWants {
    /// Something to hand on is there: [`FeedReader::next`].
    Nothing,
    /// Numbers of the last feed records of all shards: [`FeedReader::take_ends`].
    Ends,
    Scan(ScanQuery),
    /// This feed record: [`FeedReader::take_feed`].
    Feed(ShardId, u64),
    /// Whether a stream ever had an event that this selects: [`FeedReader::take_selected`].
    Selected(StreamKey, Selector),
    Live,
}

/// What came of a look.
pub type Followed = Result<(), Restart>;

/// The next feed record up to `ends`: first that of the shard which it is in the middle of.
pub(super) fn next_record(pos: &[u64], ends: &[u64], within: Option<u16>) -> Option<(ShardId, u64)> {
    let mut behind = pos.iter().zip(ends).enumerate().filter(|(_, (pos, end))| pos < end);
    let is_within = |shard: usize| within.is_none_or(|within| usize::from(within) == shard);
    let (shard, (pos, _)) = behind.clone().find(|(shard, _)| is_within(*shard)).or_else(|| behind.next())?;
    Some((ShardId(u16::try_from(shard).ok()?), pos + 1))
}
