//! Dead letters of event streams as they are stored, and what retention took before a relay had it: for operators.

use std::fmt;
use std::str::FromStr;

use super::name::StreamKey;
use super::records::{Refusal, StreamDead};
use crate::ids::{RelayName, ShardId};
use crate::outbox::records::DeadState;
use crate::time::UnixMillis;

/// What the name of such a place begins with.
const PREFIX: &str = "event-";

/// Where a dead letter of streams lies: `event-3-1047-0`, one of those of a commit of its shard. An event's id may have several dead
/// letters, one a relay; a place names one only.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StreamDeadPlace {
    pub shard: ShardId,
    /// Beat of the commit.
    pub beat: u64,
    pub number: u32,
}

impl fmt::Display for StreamDeadPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{PREFIX}{}-{}-{}", self.shard.0, self.beat, self.number)
    }
}

/// The text names no place of a dead letter of streams.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoPlace;

impl FromStr for StreamDeadPlace {
    type Err = NoPlace;

    /// Takes only what [`fmt::Display`] writes, so that no place has two names.
    fn from_str(text: &str) -> Result<Self, NoPlace> {
        let mut parts = text.strip_prefix(PREFIX).ok_or(NoPlace)?.split('-');
        let mut part = || parts.next().ok_or(NoPlace);
        let place = Self {
            shard: ShardId(part()?.parse().map_err(|_| NoPlace)?),
            beat: part()?.parse().map_err(|_| NoPlace)?,
            number: part()?.parse().map_err(|_| NoPlace)?,
        };
        if place.to_string() == text { Ok(place) } else { Err(NoPlace) }
    }
}

/// A dead letter of streams as it is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredDead {
    pub place: StreamDeadPlace,
    pub dead: StreamDead,
    pub state: DeadState,
    pub died_at: UnixMillis,
}

impl StoredDead {
    pub fn stream(&self) -> &StreamKey {
        match &self.dead {
            StreamDead::Door { stream, .. } | StreamDead::Relay { stream, .. } => stream,
        }
    }

    /// Whose broker refused it; none = it couldn't be numbered.
    pub fn relay(&self) -> Option<&RelayName> {
        match &self.dead {
            StreamDead::Relay { relay, .. } => Some(relay),
            StreamDead::Door { .. } => None,
        }
    }

    /// Its number, if it has one.
    pub fn seq(&self) -> Option<u64> {
        match &self.dead {
            StreamDead::Relay { seq, .. } => Some(*seq),
            StreamDead::Door { .. } => None,
        }
    }

    pub fn why(&self) -> &Refusal {
        match &self.dead {
            StreamDead::Door { why, .. } | StreamDead::Relay { why, .. } => why,
        }
    }

    /// Its envelope without tenant, stream and number.
    pub fn packed(&self) -> &[u8] {
        match &self.dead {
            StreamDead::Door { event, .. } => &event.packed,
            StreamDead::Relay { packed, .. } => packed,
        }
    }
}

/// Events that retention took before a relay had them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OvertakenRange {
    pub stream: StreamKey,
    /// The first and the last of them.
    pub from: u64,
    pub to: u64,
    /// When that was noticed.
    pub at: UnixMillis,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_read_as_it_is_written_and_in_no_other_way() {
        let place = StreamDeadPlace { shard: ShardId(3), beat: 1_047, number: 2 };
        assert_eq!(place.to_string(), "event-3-1047-2");
        assert_eq!("event-3-1047-2".parse::<StreamDeadPlace>(), Ok(place));
        for other in ["m-1", "event-", "event-3-1", "event-03-1047-2", "event-3-+1-2", "event-3-1047-2-1", "inbox-3-1"]
        {
            assert_eq!(other.parse::<StreamDeadPlace>(), Err(NoPlace), "{other}");
        }
    }
}
