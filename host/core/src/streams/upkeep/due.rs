//! When a stream is looked at for the age of its front. A row says so, for as long as it has events that get old: streams that nobody appends
//! to are found by their rows, and the others aren't looked at.

use std::time::Duration;

use super::{Act, Retention, UpkeepView};
use crate::ids::ShardId;
use crate::streams::records::{StreamRest, StreamWrite};
use crate::time::UnixMillis;

/// What couldn't go in its time, because a relay lacks it, say, is tried again after so long.
const AGAIN: Duration = Duration::from_secs(60);

/// Puts, moves or takes away the row of a stream whose front isn't over its limits. What is kept of the stream says where its row is, in the
/// same commit, so it has one at most.
pub fn due(view: &UpkeepView, shard: ShardId, retention: &Retention, now: UnixMillis) -> Option<Act> {
    let known = view.rest.due;
    let old_at = view.chunks.first().zip(retention.keep_age).map(|(chunk, keep)| chunk.at.plus(keep));
    let wanted = old_at.map(|at| if at > now { at } else { now.plus(AGAIN) });
    let stays = match (known, wanted) {
        (None, None) => true,
        // A look that comes too early moves it then.
        (Some(known), Some(wanted)) => known > now && known <= wanted,
        _ => false,
    };
    if stays {
        return None;
    }
    let stream = &view.stream;
    let gone = known.map(|at| StreamWrite::DeleteDue { shard, at, stream: stream.clone() });
    let put = wanted.map(|at| StreamWrite::PutDue { shard, at, stream: stream.clone() });
    let rest = StreamRest { due: wanted, ..view.rest };
    let kept = StreamWrite::PutRest { stream: stream.clone(), rest };
    Some(Act::of(view, gone.into_iter().chain(put).chain([kept]).collect(), 0))
}

#[cfg(test)]
mod tests {
    use super::super::fixtures::view;
    use super::*;

    const SHARD: ShardId = ShardId(3);
    const NOW: UnixMillis = UnixMillis(9_000);

    /// What becomes of a row: where it was taken away, where it was put, and what is noted.
    type Moved = (Option<u64>, Option<u64>, Option<u64>);

    fn moved(known: Option<u64>, keep_millis: Option<u64>, has_events: bool) -> Option<Moved> {
        // The front was committed at 2 s.
        let mut view = view(if has_events { &[&["a", "b"], &["a"]] } else { &[] });
        view.rest.due = known.map(UnixMillis);
        let retention = Retention { keep_age: keep_millis.map(Duration::from_millis), ..Retention::default() };
        let act = due(&view, SHARD, &retention, NOW)?;
        let (mut gone, mut put) = (None, None);
        for write in &act.writes {
            match write {
                StreamWrite::DeleteDue { shard: SHARD, at, .. } => gone = Some(at.0),
                StreamWrite::PutDue { shard: SHARD, at, .. } => put = Some(at.0),
                StreamWrite::PutRest { rest, .. } => {
                    assert_eq!(StreamRest { due: None, ..*rest }, StreamRest { due: None, ..view.rest })
                }
                other => panic!("{other:?}"),
            }
        }
        Some((gone, put, act.rest()?.due.map(|at| at.0)))
    }

    #[test]
    fn a_stream_has_a_row_as_long_as_something_in_it_gets_old() {
        assert_eq!(moved(None, Some(8_000), true), Some((None, Some(10_000), Some(10_000))));
        assert_eq!((moved(None, None, true), moved(None, Some(8_000), false)), (None, None));
        assert_eq!(moved(Some(8_000), None, true), Some((Some(8_000), None, None)), "its age counts no more");
        assert_eq!(moved(Some(8_000), Some(8_000), false), Some((Some(8_000), None, None)), "nothing is left");
    }

    #[test]
    fn a_row_stays_until_its_time_and_moves_then() {
        assert_eq!(moved(Some(9_500), Some(8_000), true), None, "early is no harm");
        assert_eq!(moved(Some(9_000), Some(8_000), true), Some((Some(9_000), Some(10_000), Some(10_000))));
        assert_eq!(moved(Some(12_000), Some(8_000), true), Some((Some(12_000), Some(10_000), Some(10_000))), "late is");
        let held = moved(Some(8_000), Some(1_000), true);
        assert_eq!(held, Some((Some(8_000), Some(69_000), Some(69_000))), "what can't go yet is tried again");
    }
}
