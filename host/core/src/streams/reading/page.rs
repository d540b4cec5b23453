//! One page of one stream, of one snapshot.

use super::super::chunk::StoredEvent;
use super::super::limits;
use super::super::rules::{Rule, Rules};
use crate::port::stream_store::StreamSlice;

/// Where a page ends: it has one event at least.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageLimits {
    pub events: usize,
    pub bytes: usize,
}

impl Default for PageLimits {
    fn default() -> Self {
        Self { events: limits::REPLAY_EVENTS_MAX, bytes: limits::REPLAY_BYTES_MAX }
    }
}

impl PageLimits {
    /// What a caller asks for, cut at what is allowed. 0 = as much as that.
    #[must_use]
    pub fn asked(self, events: u64) -> Self {
        let asked = usize::try_from(events).unwrap_or(usize::MAX);
        Self { events: if asked == 0 { self.events } else { asked.min(self.events) }, ..self }
    }
}

/// What is said of events that should be kept, and that no chunk holds.
pub(super) const LOST: &str = "the chunk that held them isn't there any more";
/// What is said of an event whose payload the store had to read with it, and didn't: a page only ends before such a one.
pub(super) const APART: &str = "a payload that lies apart wasn't read with them";

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page {
    pub events: Vec<StoredEvent>,
    /// Its reader's position after it: behind its last event there may be numbers that compaction took.
    pub upto: u64,
    /// It goes up to the end of the stream as the snapshot shows it.
    pub is_end: bool,
}

/// Why there is no page.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PageError {
    #[error("the events after {after} aren't kept any more: the stream has {first} to {last}")]
    Expired { after: u64, first: u64, last: u64 },
    #[error("the stream ends at {last}, before {after}")]
    Ahead { after: u64, last: u64 },
    #[error("the events from {from} to {to} can't be read: {reason}")]
    Unreadable { from: u64, to: u64, reason: String },
}

/// The page after a position. `base` is the mark of dropped tombstones when this reader began with nothing; 0 for one that knows more than
/// that, from a cursor.
pub fn page(slice: &StreamSlice, after: u64, base: u64, limits: PageLimits, rules: Rules) -> Result<Page, PageError> {
    let (rest, last) = (&slice.rest, slice.head.last);
    let expired = || PageError::Expired { after, first: rest.first, last };
    if after > last {
        return Err(PageError::Ahead { after, last });
    }
    let is_behind = after + 1 < rest.first && rules.kept(Rule::CompareCoverage);
    let is_purged = after < rest.purged && rest.purged > base && rules.kept(Rule::ComparePurged);
    if is_behind || is_purged {
        return Err(expired());
    }
    let mut page = Page { events: Vec::new(), upto: after, is_end: false };
    let mut bytes = 0;
    for stored in &slice.chunks {
        let chunk = match &stored.chunk {
            Ok(chunk) => chunk,
            // What is before it is a page of its own.
            Err(_) if page.upto > after => return Ok(page),
            Err(reason) => {
                return Err(PageError::Unreadable { from: after + 1, to: stored.last, reason: reason.clone() });
            }
        };
        if chunk.last <= page.upto {
            continue;
        }
        if chunk.from > page.upto && rules.kept(Rule::CompareCoverage) {
            return Err(expired());
        }
        for event in chunk.events.iter().filter(|event| event.seq > after) {
            let size = event.bytes();
            let is_full = page.events.len() >= limits.events || bytes + size > limits.bytes;
            match page.events.last() {
                Some(last) if is_full || event.apart > 0 => {
                    page.upto = last.seq;
                    return Ok(page);
                }
                None if event.apart > 0 => {
                    let (from, to) = (after + 1, event.seq);
                    return Err(PageError::Unreadable { from, to, reason: APART.to_owned() });
                }
                _ => {}
            }
            bytes += size;
            page.events.push(event.clone());
        }
        page.upto = chunk.last;
    }
    page.is_end = page.upto >= last;
    // The head says that there is more, and nothing else holds it: who asked again would do so for ever.
    if !page.is_end && slice.is_all && page.upto == after && rules.kept(Rule::CompareCoverage) {
        return Err(PageError::Unreadable { from: after + 1, to: last, reason: LOST.to_owned() });
    }
    Ok(page)
}
