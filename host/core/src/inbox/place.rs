//! Names of stored messages and dead letters by their place. A sender's id names one of each consumer; a place names one only, and
//! any terminal, pipe or address takes it.

use std::fmt;
use std::str::FromStr;

use crate::ids::{Seq, ShardId};

/// What such a name begins with.
const PREFIX: &str = "inbox-";

/// Where a stored message or a dead letter stands: `inbox-3-1047`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct InboxPlace {
    pub shard: ShardId,
    pub seq: Seq,
}

impl fmt::Display for InboxPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{PREFIX}{}-{}", self.shard.0, self.seq)
    }
}

/// The text names no place: it may be a sender's id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoPlace;

impl FromStr for InboxPlace {
    type Err = NoPlace;

    /// Takes only what [`fmt::Display`] writes, so that no place has two names.
    fn from_str(text: &str) -> Result<Self, NoPlace> {
        let (shard, seq) = text.strip_prefix(PREFIX).and_then(|place| place.split_once('-')).ok_or(NoPlace)?;
        let place =
            Self { shard: ShardId(shard.parse().map_err(|_| NoPlace)?), seq: Seq(seq.parse().map_err(|_| NoPlace)?) };
        if place.to_string() == text { Ok(place) } else { Err(NoPlace) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_read_as_it_is_written_and_in_no_other_way() {
        let place = InboxPlace { shard: ShardId(3), seq: Seq(1_047) };
        assert_eq!(place.to_string(), "inbox-3-1047");
        assert_eq!("inbox-3-1047".parse::<InboxPlace>(), Ok(place));
        for other in ["m-1", "inbox-", "inbox-3", "inbox-03-1047", "inbox-3-+1", "inbox-3-1047-1", "inbox-70000-1"] {
            assert_eq!(other.parse::<InboxPlace>(), Err(NoPlace), "{other}");
        }
    }
}
