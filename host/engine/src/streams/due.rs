//! When the rows are looked at that say which streams are due for a look at their age.

use std::time::Duration;

use waybill_core::ids::ShardId;
use waybill_core::port::stream_store::DueStream;
use waybill_core::streams::name::StreamKey;
use waybill_core::streams::records::StreamWrite;
use waybill_core::streams::upkeep::Act;
use waybill_core::time::UnixMillis;

/// Rows read at once.
pub(super) const DUE_PAGE: usize = 256;
/// After rows that are due: by then their streams were looked at, or more of them are.
const AGAIN: Duration = Duration::from_secs(1);
/// Longest time between two looks: a row may have come from elsewhere, out of quarantine say.
const LATEST: Duration = Duration::from_secs(600);

/// The next look of a shard's owner, who knows of each row that it puts.
pub(super) struct DueLooks {
    shard: ShardId,
    shards: u16,
    next: UnixMillis,
}

impl DueLooks {
    pub fn new(shard: ShardId, shards: u16) -> Self {
        Self { shard, shards, next: UnixMillis(0) }
    }

    pub fn shard(&self) -> ShardId {
        self.shard
    }

    pub fn is_due(&self, now: UnixMillis) -> bool {
        self.next <= now
    }

    /// The first rows of the shard, by time. Answers the streams to look at, and the act that takes away rows with nothing behind them, or
    /// puts them where they belong by now.
    pub fn found(&mut self, rows: Vec<DueStream>, beat: u64, now: UnixMillis) -> (Vec<StreamKey>, Option<Act>) {
        let (mut streams, mut writes, mut mended) = (Vec::new(), Vec::new(), None);
        self.next = now.plus(LATEST);
        for DueStream { at, stream, noted } in rows {
            if at > now {
                self.next = self.next.min(at);
                break;
            }
            self.next = now.plus(AGAIN);
            let (shard, is_noted) = (stream.shard(self.shards), noted == Some(at));
            if is_noted && shard == self.shard {
                streams.push(stream);
                continue;
            }
            writes.push(StreamWrite::DeleteDue { shard: self.shard, at, stream: stream.clone() });
            if is_noted {
                // The number of shards has grown since.
                writes.push(StreamWrite::PutDue { shard, at, stream: stream.clone() });
            }
            mended.get_or_insert(stream);
        }
        (streams, mended.map(|stream| Act { stream, beat, writes, events: 0 }))
    }

    /// An act may put a row.
    pub fn acts(&mut self, act: &Act) {
        for write in &act.writes {
            if let StreamWrite::PutDue { at, .. } = write {
                self.next = self.next.min(*at);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use waybill_testkit::conformance::samples::SHARD;
    use waybill_testkit::conformance::stream_samples::stream;

    use super::*;

    const NOW: UnixMillis = UnixMillis(10_000);

    fn row(at: u64, name: &str, noted: Option<u64>) -> DueStream {
        DueStream { at: UnixMillis(at), stream: stream(name), noted: noted.map(UnixMillis) }
    }

    #[test]
    fn it_looks_again_when_the_first_row_is_due_that_is_there_or_that_it_puts() {
        let mut looks = DueLooks::new(SHARD, 1);
        assert!(looks.is_due(NOW), "at the start nobody knows");
        let found = looks.found(vec![row(20_000, "a", Some(20_000)), row(30_000, "b", Some(30_000))], 1, NOW);
        assert!(found.0.is_empty() && found.1.is_none());
        assert!(!looks.is_due(UnixMillis(19_999)) && looks.is_due(UnixMillis(20_000)));
        let put = StreamWrite::PutDue { shard: SHARD, at: UnixMillis(15_000), stream: stream("c") };
        looks.acts(&Act { stream: stream("c"), beat: 1, writes: vec![put], events: 0 });
        assert!(!looks.is_due(UnixMillis(14_999)) && looks.is_due(UnixMillis(15_000)));
        looks.found(Vec::new(), 1, NOW);
        assert!(!looks.is_due(NOW.plus(AGAIN)) && looks.is_due(NOW.plus(LATEST)));
    }

    #[test]
    fn streams_that_are_due_are_looked_at_and_rows_with_nothing_behind_them_go() {
        let mut looks = DueLooks::new(SHARD, 1);
        let rows =
            vec![row(1, "a", Some(1)), row(2, "b", Some(9_000)), row(3, "c", None), row(11_000, "d", Some(11_000))];
        let (streams, act) = looks.found(rows, 7, NOW);
        assert_eq!(streams, [stream("a")]);
        let gone = |at, name: &str| StreamWrite::DeleteDue { shard: SHARD, at: UnixMillis(at), stream: stream(name) };
        let writes = vec![gone(2, "b"), gone(3, "c")];
        assert_eq!(act, Some(Act { stream: stream("b"), beat: 7, writes, events: 0 }));
        assert!(!looks.is_due(NOW) && looks.is_due(NOW.plus(AGAIN)));
    }

    #[test]
    fn a_row_of_a_stream_that_went_to_another_shard_goes_there() {
        let shards = 64;
        let elsewhere = stream("a").shard(shards);
        let own = ShardId(elsewhere.0 ^ 1);
        let (streams, act) = DueLooks::new(own, shards).found(vec![row(1, "a", Some(1))], 7, NOW);
        let (at, stream) = (UnixMillis(1), stream("a"));
        let put = StreamWrite::PutDue { shard: elsewhere, at, stream: stream.clone() };
        let gone = StreamWrite::DeleteDue { shard: own, at, stream };
        assert_eq!((streams.len(), act.map(|act| act.writes)), (0, Some(vec![gone, put])));
    }
}
