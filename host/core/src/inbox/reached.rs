//! How far a list came in each shard that reads them side by side: numbers of places are a shard's own, so no single one says it.

use std::collections::BTreeMap;

use crate::ids::{Seq, ShardId};
use crate::port::store::StoreError;

/// What cursors begin with, so that one of another list isn't taken for one.
const PREFIX: &str = "newest/";

/// The last place that was looked at in each shard; none = nothing of it was.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reached(BTreeMap<ShardId, Seq>);

impl Reached {
    /// From the cursor of the page before, if there was one.
    ///
    /// # Errors
    /// `Statement`: the cursor is that of another list.
    pub fn from_cursor(cursor: Option<&str>) -> Result<Self, StoreError> {
        let Some(cursor) = cursor else { return Ok(Self::default()) };
        let read = |place: &str| {
            let (shard, seq) = place.split_once('.')?;
            Some((ShardId(shard.parse().ok()?), Seq(seq.parse().ok()?)))
        };
        let places = cursor.strip_prefix(PREFIX).and_then(|places| places.split(',').map(read).collect());
        let unusable = || StoreError::Statement("the cursor isn't one of this list: begin without one".into());
        places.map(Self).ok_or_else(unusable)
    }

    pub fn to_cursor(&self) -> String {
        let places: Vec<String> = self.0.iter().map(|(shard, seq)| format!("{}.{}", shard.0, seq.0)).collect();
        format!("{PREFIX}{}", places.join(","))
    }

    /// The last place of a shard that was looked at.
    pub fn of(&self, shard: ShardId) -> Option<Seq> {
        self.0.get(&shard).copied()
    }

    pub fn note(&mut self, shard: ShardId, seq: Seq) {
        self.0.insert(shard, seq);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_goes_on_in_every_shard_and_that_of_another_list_is_refused() {
        let mut reached = Reached::default();
        reached.note(ShardId(3), Seq(17));
        reached.note(ShardId(0), Seq(5));
        reached.note(ShardId(3), Seq(16));
        let cursor = reached.to_cursor();
        assert_eq!(Reached::from_cursor(Some(&cursor)).unwrap(), reached);
        assert_eq!((reached.of(ShardId(3)), reached.of(ShardId(1))), (Some(Seq(16)), None));
        assert_eq!(Reached::from_cursor(None).unwrap(), Reached::default());
        for other in ["3.17/", "newest/", "newest/3", "newest/3.x", "elsewhere"] {
            assert!(matches!(Reached::from_cursor(Some(other)), Err(StoreError::Statement(_))), "{other}");
        }
    }
}
