//! Where a reader of many streams begins in those of which its client kept a number.
//!
//! A scan that comes to such a stream looks at it again from that number on. Numbers that the client has and that no feed had named when
//! the scan began are named later: they are left out of the feed until then. A token knows nothing of either, so there is none before both
//! are over.

use std::collections::BTreeMap;

use super::super::name::StreamName;
use super::token::{Place, ScanAt};
use crate::port::stream_store::{ScanFrom, StreamSlice};

#[derive(Clone, Debug, Default)]
pub(super) struct Positions {
    /// What the client has of these; nobody needs them when the scan is over.
    starts: BTreeMap<StreamName, u64>,
    /// The one of them that the scan has come to.
    met: Option<StreamName>,
    /// Numbers that the feed will name, though the client has them.
    unnamed: BTreeMap<StreamName, u64>,
}

impl Positions {
    pub fn new(starts: BTreeMap<StreamName, u64>) -> Self {
        Self { starts, ..Self::default() }
    }

    pub fn is_empty(&self) -> bool {
        self.starts.is_empty() && self.unnamed.is_empty()
    }

    /// Whether a scan comes to one of them, and has to look at it from its number on.
    pub fn meets(&mut self, at: &ScanAt, name: &StreamName) -> bool {
        let is_begun = matches!(at, ScanAt::Within { stream, .. } if stream == name) || self.met.as_ref() == Some(name);
        let is_met = !is_begun && self.starts.contains_key(name);
        if is_met {
            self.met = Some(name.clone());
        }
        is_met
    }

    /// From where that is looked at: with the event of that number, which says whether the feed has named it.
    pub fn resumes_from(&self) -> Option<ScanFrom> {
        let name = self.met.as_ref()?;
        Some(ScanFrom::Within(name.clone(), self.starts.get(name)?.saturating_sub(1)))
    }

    /// Where a scan stands in the stream that it came to. `feed`: beyond it the feed tells what it names.
    pub fn begin(&mut self, slice: &StreamSlice, feed: u64) -> Option<ScanAt> {
        let stream = self.met.take()?;
        let seq = *self.starts.get(&stream)?;
        let chunks = slice.chunks.iter().filter_map(|stored| stored.chunk.as_ref().ok());
        let is_named = match chunks.flat_map(|chunk| &chunk.events).find(|event| event.seq >= seq) {
            // Where compaction took it, the one behind it tells: both are named, or the feed goes on to name that one.
            Some(event) => event.pos > 0 && event.pos <= feed,
            None => slice.rest.named_to(&slice.head) >= seq && slice.rest.gone <= feed,
        };
        if !is_named {
            self.unnamed.insert(stream.clone(), seq);
        }
        Some(ScanAt::Within { stream, seq, purged: 0 })
    }

    /// The scan is over.
    pub fn scanned(&mut self) {
        self.starts.clear();
    }

    /// Whether the client has a number that the feed names.
    pub fn has(&self, name: &StreamName, seq: u64) -> bool {
        self.unnamed.get(name).is_some_and(|had| seq <= *had)
    }

    /// Whether the feed has named all that the client had of a stream, when it has named this.
    pub fn end_by(&self, name: &StreamName, to: u64) -> bool {
        self.unnamed.get(name).is_some_and(|had| *had <= to)
    }

    pub fn named(&mut self, name: &StreamName) {
        self.unnamed.remove(name);
    }

    /// Whether a scan that stands here comes to none of them any more.
    pub fn are_scanned(&self, at: &ScanAt) -> bool {
        let Some((last, _)) = self.starts.last_key_value() else { return true };
        match at {
            ScanAt::Behind(name) => name.as_ref().is_some_and(|name| name >= last),
            ScanAt::Within { stream, .. } => stream >= last,
        }
    }

    /// Whether a reader that knows nothing but its place would go on as this one does.
    pub fn are_past(&self, place: &Place) -> bool {
        let is_scanned = match place {
            Place::Scan { at, .. } => self.are_scanned(at),
            Place::Feed { .. } => true,
        };
        is_scanned && self.unnamed.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use bytes::Bytes;

    use super::super::{FeedReader, FeedWants, Restart, Ring, Selector};
    use super::*;
    use crate::ids::{ShardId, Tenant};
    use crate::port::stream_store::FeedSlice;
    use crate::streams::chunk::{Chunk, StoredChunk, StoredEvent};
    use crate::streams::fixtures::stream;
    use crate::streams::records::{FeedPart, FeedRecord, StreamHead, StreamRest};
    use crate::streams::rules::Rules;
    use crate::time::UnixMillis;

    fn chunk(places: &[(u64, u64)]) -> StoredChunk {
        let event = |(seq, pos): &(u64, u64)| StoredEvent { seq: *seq, pos: *pos, packed: Bytes::new(), apart: 0 };
        let (from, last) = (places[0].0 - 1, places[places.len() - 1].0);
        let chunk = Chunk { from, last, total: 0, at: UnixMillis(0), events: places.iter().map(event).collect() };
        StoredChunk { last, chunk: Ok(Arc::new(chunk)) }
    }

    /// A stream of which each of these numbers is named at a place of the feed; 0 = not yet.
    fn slice(places: &[(u64, u64)]) -> StreamSlice {
        let last = places[places.len() - 1].0;
        let fed = places.iter().filter(|place| place.1 > 0).map(|place| place.0).max().unwrap_or(0);
        let rest = StreamRest { fed, ..StreamRest::default() };
        StreamSlice { head: StreamHead { last, fed, bytes: 0 }, rest, chunks: vec![chunk(places)], is_all: true }
    }

    fn feed(pos: u64, parts: &[(&str, u64, u64)]) -> FeedSlice {
        let named = parts.iter().map(|(name, from, to)| FeedPart { stream: stream(name), from: *from, to: *to });
        let places = |from: u64, to: u64| (from..=to).map(|seq| (seq, pos)).collect::<Vec<_>>();
        let read = parts.iter().map(|(_, from, to)| (StreamRest::default(), vec![chunk(&places(*from, *to))]));
        FeedSlice { record: FeedRecord { pos, at: UnixMillis(0), parts: named.collect() }, parts: read.collect() }
    }

    /// A reader that has begun with the ends of the feeds, at 20.
    fn begun(had: &[(&str, u64)]) -> FeedReader {
        let had = had.iter().map(|(name, seq)| (stream(name).name, *seq)).collect();
        let selector = Selector::Prefix(String::new());
        let mut reader =
            FeedReader::from_earliest(Tenant::unnamed(), selector, 1, 1, Rules::default()).with_positions(had);
        assert_eq!(reader.wants(&Ring::default()), FeedWants::Ends);
        reader.take_ends(vec![20]);
        reader
    }

    fn scans(reader: &mut FeedReader) -> (ScanFrom, usize) {
        let FeedWants::Scan(query) = reader.wants(&Ring::default()) else { panic!("no scan") };
        (query.from, query.bytes_max)
    }

    fn drain(reader: &mut FeedReader) -> Vec<(String, u64, bool)> {
        let mut read = Vec::new();
        while let Some(next) = reader.next() {
            read.push((next.stream.name.to_string(), next.event.seq, reader.token().is_some()));
        }
        read
    }

    fn read(name: &str, seq: u64, has_token: bool) -> (String, u64, bool) {
        (name.to_owned(), seq, has_token)
    }

    #[test]
    fn a_scan_begins_with_each_stream_behind_what_the_client_has_and_with_others_at_their_beginning() {
        let mut reader = begun(&[("b", 2), ("d", 1)]);
        let behind = |name: &str| ScanFrom::Behind(Some(stream(name).name));
        assert_eq!(scans(&mut reader), (ScanFrom::Behind(None), 1));
        reader.take_scan(Some((stream("a").name, slice(&[(1, 5)])))).unwrap();
        assert_eq!(drain(&mut reader), [read("a", 1, false)], "a token would begin b and d with nothing");
        assert_eq!(scans(&mut reader), (behind("a"), 1), "it doesn't read what it won't use");
        reader.take_scan(Some((stream("b").name, slice(&[(1, 6), (2, 7), (3, 8)])))).unwrap();
        assert!(drain(&mut reader).is_empty());
        assert_eq!(scans(&mut reader).0, ScanFrom::Within(stream("b").name, 1));
        // What was read and not taken is read again, in the same way.
        assert_eq!(scans(&mut reader.again()).0, ScanFrom::Within(stream("b").name, 1));
        reader.take_scan(Some((stream("b").name, slice(&[(2, 7), (3, 8)])))).unwrap();
        assert_eq!(scans(&mut reader.again()).0, behind("a"));
        assert_eq!(drain(&mut reader), [read("b", 3, false)]);
        assert_eq!(scans(&mut reader).0, behind("b"));
        reader.take_scan(Some((stream("d").name, slice(&[(1, 9)])))).unwrap();
        scans(&mut reader);
        reader.take_scan(Some((stream("d").name, slice(&[(1, 9), (2, 10)])))).unwrap();
        assert_eq!(drain(&mut reader), [read("d", 2, true)], "a token says all that is left to know");
        assert!(scans(&mut reader).1 > 1);
    }

    #[test]
    fn what_the_feed_names_later_and_the_client_has_is_left_out_until_then() {
        let ring = Ring::default();
        let mut reader = begun(&[("b", 2)]);
        for places in [&[(1, 0), (2, 0)][..], &[(2, 0)]] {
            scans(&mut reader);
            reader.take_scan(Some((stream("b").name, slice(places)))).unwrap();
        }
        scans(&mut reader);
        reader.take_scan(None).unwrap();
        assert_eq!((reader.wants(&ring), reader.token()), (FeedWants::Ends, None));
        let mut late = reader.clone();
        reader.take_ends(vec![21]);
        reader.wants(&ring);
        reader.take_feed(Some(feed(21, &[("a", 1, 1), ("b", 1, 3)]))).unwrap();
        assert_eq!(drain(&mut reader), [read("a", 1, false), read("b", 3, false)]);
        assert!(reader.token().is_some(), "from here on a token knows as much");
        // The record is gone before it was read: whether it named what the client has isn't known any more.
        late.take_ends(vec![40]);
        assert_eq!(late.wants(&ring), FeedWants::Feed(ShardId(0), 21));
        assert_eq!(late.take_feed(None), Err(Restart::Lagged));
    }

    #[test]
    fn what_is_gone_behind_a_clients_number_is_told() {
        let scanned = |change: fn(&mut StreamRest)| {
            let (mut reader, mut found) = (begun(&[("b", 2)]), slice(&[(3, 7)]));
            change(&mut found.rest);
            reader.take_scan(Some((stream("b").name, found.clone()))).unwrap();
            reader.take_scan(Some((stream("b").name, found)))
        };
        assert_eq!(scanned(|_| {}), Ok(()));
        assert_eq!(scanned(|rest| rest.first = 4), Err(Restart::Expired));
        assert_eq!(scanned(|rest| rest.purged = 3), Err(Restart::Expired));
    }
}
