//! Part: which streams go alone. A commit whose heads don't stand as it took them to be writes nothing, so a stream that others append to
//! all the time would hold up its neighbours.

use std::collections::BTreeSet;
use std::ops::Bound;

use crate::streams::name::StreamKey;

#[derive(Debug, Default)]
pub(super) struct Turn {
    /// Streams whose heads moved under a commit.
    moved: BTreeSet<StreamKey>,
    /// The one whose turn it is; none = it is everybody else's.
    alone: Option<StreamKey>,
    /// The one that went alone last.
    last: Option<StreamKey>,
}

impl Turn {
    /// The next commit: everybody but the moved ones, and one of those by itself, in turns.
    pub fn next(&mut self) {
        if self.alone.take().is_some() {
            return;
        }
        let behind = self.last.as_ref().map_or(Bound::Unbounded, Bound::Excluded);
        let next = self.moved.range((behind, Bound::Unbounded)).next().or_else(|| self.moved.first());
        self.alone = next.cloned();
        self.last.clone_from(&self.alone);
    }

    /// Whether a stream is in this turn.
    pub fn takes(&self, stream: &StreamKey) -> bool {
        match &self.alone {
            Some(alone) => alone == stream,
            None => !self.moved.contains(stream),
        }
    }

    pub fn alone(&self) -> Option<&StreamKey> {
        self.alone.as_ref()
    }

    pub fn moved(&mut self, stream: StreamKey) {
        self.moved.insert(stream);
    }

    /// It went in, or there was nothing of it to do.
    pub fn settled(&mut self, stream: &StreamKey) {
        self.moved.remove(stream);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::streams::fixtures::stream;

    #[test]
    fn moved_streams_and_the_others_take_turns() {
        let mut turn = Turn::default();
        turn.moved(stream("a"));
        turn.moved(stream("b"));
        let mut went = Vec::new();
        for _ in 0..6 {
            turn.next();
            let taken = ["a", "b", "c"].into_iter().filter(|name| turn.takes(&stream(name)));
            went.push(taken.collect::<String>());
        }
        assert_eq!(went, ["a", "c", "b", "c", "a", "c"]);
        turn.settled(&stream("a"));
        turn.settled(&stream("b"));
        for _ in 0..2 {
            turn.next();
        }
        assert!(turn.alone().is_none() && turn.takes(&stream("a")));
    }
}
