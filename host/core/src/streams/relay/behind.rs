//! Part: which streams are behind, and how far the mark may go.
//!
//! The mark is just before the first event that isn't settled: a new owner takes up the feed from there. A stream that the feed named
//! holds it where it was until what was named is settled in its checkpoint, also when nothing of it is in memory. How far each of them lets
//! it go is counted as it changes: a commit would have to ask all of them, and there may be a million.

use std::collections::BTreeMap;
use std::ops::Bound;

use crate::streams::name::StreamKey;

/// A stream that may have unsettled events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Behind {
    /// The mark goes no further than this.
    pub since: u64,
    /// The feed has named events up to this number.
    pub named_to: u64,
    /// How far it lets the mark go, with its checkpoint as last known committed.
    pub hold: u64,
}

#[derive(Debug, Default)]
pub(super) struct Work {
    streams: BTreeMap<StreamKey, Behind>,
    /// How many of them let the mark go no further than this.
    holds: BTreeMap<u64, usize>,
}

impl Work {
    /// The feed record `pos` named events up to `to`.
    pub fn named(&mut self, stream: &StreamKey, pos: u64, to: u64) {
        self.note(stream, pos.saturating_sub(1), to);
    }

    /// It may have unsettled events, the first of them behind `since`.
    pub fn note(&mut self, stream: &StreamKey, since: u64, named_to: u64) {
        if let Some(entry) = self.streams.get_mut(stream) {
            entry.since = entry.since.min(since);
            entry.named_to = entry.named_to.max(named_to);
        } else {
            self.streams.insert(stream.clone(), Behind { since, named_to, hold: since });
            *self.holds.entry(since).or_insert(0) += 1;
        }
    }

    /// A stream lets the mark go so far.
    pub fn hold(&mut self, stream: &StreamKey, hold: u64) {
        let Some(entry) = self.streams.get_mut(stream) else { return };
        let before = std::mem::replace(&mut entry.hold, hold);
        if before != hold {
            self.let_go(before);
            *self.holds.entry(hold).or_insert(0) += 1;
        }
    }

    fn let_go(&mut self, hold: u64) {
        if let Some(count) = self.holds.get_mut(&hold) {
            *count -= 1;
            if *count == 0 {
                self.holds.remove(&hold);
            }
        }
    }

    /// How far all of them let the mark go, but for these streams.
    pub fn least_hold(&self, but: &[&StreamKey]) -> u64 {
        let mut left_out: BTreeMap<u64, usize> = BTreeMap::new();
        for behind in but.iter().filter_map(|stream| self.streams.get(*stream)) {
            *left_out.entry(behind.hold).or_insert(0) += 1;
        }
        let mut others = self.holds.iter().filter(|(hold, count)| left_out.get(*hold).is_none_or(|left| left < *count));
        others.next().map_or(u64::MAX, |(hold, _)| *hold)
    }

    /// A look at the stream showed how far the feed names it.
    pub fn reaches(&mut self, stream: &StreamKey, named_to: u64) {
        if let Some(entry) = self.streams.get_mut(stream) {
            entry.named_to = entry.named_to.max(named_to);
        }
    }

    /// Its first unsettled event is named by `pos`, so nothing before that holds the mark.
    pub fn first_unsettled(&mut self, stream: &StreamKey, pos: u64) {
        if let Some(entry) = self.streams.get_mut(stream) {
            entry.since = entry.since.max(pos.saturating_sub(1));
        }
    }

    pub fn get(&self, stream: &StreamKey) -> Option<Behind> {
        self.streams.get(stream).copied()
    }

    pub fn iter(&self) -> impl Iterator<Item = (&StreamKey, Behind)> {
        self.streams.iter().map(|(stream, behind)| (stream, *behind))
    }

    /// All of them, those behind a stream first.
    pub fn behind(&self, stream: Option<&StreamKey>) -> impl Iterator<Item = (&StreamKey, Behind)> {
        let (after, upto) = match stream {
            Some(stream) => (Bound::Excluded(stream), Some((Bound::Unbounded, Bound::Included(stream)))),
            None => (Bound::Unbounded, None),
        };
        let streams = &self.streams;
        let later = streams.range::<StreamKey, _>((after, Bound::Unbounded));
        let earlier = upto.into_iter().flat_map(move |upto| streams.range::<StreamKey, _>(upto));
        later.chain(earlier).map(|(stream, behind)| (stream, *behind))
    }

    /// All that was named is settled, and that is durable.
    pub fn caught_up(&mut self, stream: &StreamKey) {
        if let Some(behind) = self.streams.remove(stream) {
            self.let_go(behind.hold);
        }
    }

    pub fn len(&self) -> usize {
        self.streams.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::streams::fixtures::stream;

    #[test]
    fn a_stream_that_is_behind_keeps_its_earliest_place() {
        let (mut work, stream) = (Work::default(), stream("a"));
        work.named(&stream, 7, 3);
        work.named(&stream, 9, 5);
        assert_eq!(work.get(&stream), Some(Behind { since: 6, named_to: 5, hold: 6 }));
        work.first_unsettled(&stream, 9);
        work.first_unsettled(&stream, 2);
        assert_eq!(work.get(&stream), Some(Behind { since: 8, named_to: 5, hold: 6 }));
        work.caught_up(&stream);
        assert_eq!((work.get(&stream), work.len()), (None, 0));
    }

    #[test]
    fn the_mark_goes_as_far_as_the_stream_that_holds_it_most() {
        let (mut work, [a, b, c]) = (Work::default(), ["a", "b", "c"].map(stream));
        assert_eq!(work.least_hold(&[]), u64::MAX);
        work.named(&a, 4, 1);
        work.named(&b, 4, 1);
        work.named(&c, 6, 1);
        assert_eq!((work.least_hold(&[]), work.least_hold(&[&a])), (3, 3), "b holds it there, too");
        assert_eq!((work.least_hold(&[&a, &b]), work.least_hold(&[&a, &b, &c])), (5, u64::MAX));
        work.hold(&a, 9);
        work.hold(&a, 9);
        work.caught_up(&b);
        work.hold(&b, 1);
        assert_eq!((work.least_hold(&[]), work.least_hold(&[&c])), (5, 9));
        work.caught_up(&c);
        work.caught_up(&a);
        assert_eq!(work.least_hold(&[]), u64::MAX);
    }

    #[test]
    fn streams_are_gone_through_from_where_the_last_look_ended() {
        let mut work = Work::default();
        for name in ["a", "b", "c"] {
            work.named(&stream(name), 1, 1);
        }
        let from = |behind: Option<&StreamKey>| {
            work.behind(behind).map(|(stream, _)| stream.name.as_str().to_owned()).collect::<String>()
        };
        assert_eq!(
            (from(None), from(Some(&stream("a"))), from(Some(&stream("c")))),
            ("abc".into(), "bca".into(), "abc".into())
        );
    }
}
