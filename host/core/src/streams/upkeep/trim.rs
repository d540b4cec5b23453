//! Retention: whole chunks leave from the front. At least the limit stays, and at most one chunk more.

use super::index::unindex;
use super::{Act, Retention, UpkeepView, is_older};
use crate::streams::blob;
use crate::streams::chunk::Chunk;
use crate::streams::exact::chunk_key;
use crate::streams::limits::UPKEEP_ROWS_MAX;
use crate::streams::records::StreamWrite;
use crate::streams::rules::Rules;
use crate::time::UnixMillis;

/// What leaves by a stream's limits, if anything. `first` and `gone` are raised in the same commit.
pub fn trim(view: &UpkeepView, retention: &Retention, now: UnixMillis, rules: Rules) -> Option<Act> {
    let named_to = view.rest.named_to(&view.head);
    let is_over = |chunk: &Chunk| {
        let by_count = retention.keep_count.is_some_and(|keep| named_to.saturating_sub(chunk.last) >= keep);
        let by_age = retention.keep_age.is_some_and(|keep| is_older(chunk.at, keep, now));
        let by_bytes = retention.keep_bytes.is_some_and(|keep| view.head.bytes.saturating_sub(chunk.total) >= keep);
        by_count || by_age || by_bytes
    };
    let (mut rest, mut writes, mut events) = (view.rest, Vec::new(), 0);
    for chunk in &view.chunks {
        if !is_over(chunk) || chunk.last > view.free_to || writes.len() >= UPKEEP_ROWS_MAX {
            break;
        }
        rest.first = chunk.last + 1;
        rest.gone = chunk.events.iter().map(|event| event.pos).fold(rest.gone, u64::max);
        events += chunk.events.len() as u64;
        writes.extend(blob::delete_of(&view.stream, &chunk.events));
        writes.extend(unindex(view, chunk, |_, _| false));
        writes.push(StreamWrite::DeleteChunk { stream: view.stream.clone(), key: chunk_key(chunk, rules) });
    }
    if rest.first <= view.rest.first {
        return None;
    }
    writes.push(StreamWrite::PutRest { stream: view.stream.clone(), rest });
    Some(Act::of(view, writes, events))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::fixtures::{after, view};
    use super::*;

    /// The first number that is kept of eight in four chunks, and the highest place in the feed that went.
    fn trimmed(retention: Retention, free_to: u64) -> Option<(u64, u64)> {
        let view = UpkeepView { free_to, ..view(&[&["a", "b"], &["a", "b"], &["a", "b"], &["a", "b"]]) };
        let act = trim(&view, &retention, UnixMillis(9_000), Rules::default())?;
        let (chunks, rest) = after(&view, &act);
        assert_eq!(chunks.first().map_or(9, |chunk| chunk.0 + 1), rest.first);
        Some((rest.first, rest.gone))
    }

    #[test]
    fn the_limit_stays_and_at_most_one_chunk_more() {
        let count = |keep| trimmed(Retention { keep_count: Some(keep), ..Retention::default() }, u64::MAX);
        assert_eq!((count(4), count(3), count(0)), (Some((5, 40)), Some((5, 40)), Some((9, 80))));
        assert_eq!((count(7), count(8)), (None, None));
        // A chunk's age is that of its latest event: 2, 4, 6 and 8 s on the clock that says 9.
        let age =
            |keep| trimmed(Retention { keep_age: Some(Duration::from_secs(keep)), ..Retention::default() }, u64::MAX);
        assert_eq!((age(5), age(6), age(8)), (Some((5, 40)), Some((3, 20)), None));
        let bytes = view(&[&["a", "b"]]).head.bytes;
        let bytes = trimmed(Retention { keep_bytes: Some(bytes), ..Retention::default() }, u64::MAX);
        assert_eq!(bytes, Some((7, 60)));
    }

    #[test]
    fn nothing_goes_that_a_holding_relay_lacks() {
        let count = |free_to| trimmed(Retention { keep_count: Some(1), ..Retention::default() }, free_to);
        assert_eq!((count(1), count(2), count(3), count(4)), (None, Some((3, 20)), Some((3, 20)), Some((5, 40))));
    }

    #[test]
    fn without_a_limit_everything_stays() {
        assert_eq!(trimmed(Retention::default(), u64::MAX), None);
    }
}
