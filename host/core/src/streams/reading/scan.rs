//! Replaying many streams by name: of each only what the feed had named when the scan began. What is named later comes by the feed.

use std::collections::VecDeque;

use super::super::name::StreamName;
use super::super::rules::{Rule, Rules};
use super::page::{APART, LOST};
use super::token::ScanAt;
use crate::port::stream_store::StreamSlice;
use crate::streams::chunk::StoredEvent;

/// What a scan of one stream gives, in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Scanned {
    /// An event, and where the scan stands behind it.
    Event(StoredEvent, ScanAt),
    At(ScanAt),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ScanStop {
    /// Events that it should have given are gone.
    Expired,
    Unreadable(String),
}

/// Feed positions of the stream's shard.
#[derive(Clone, Copy, Debug)]
pub(super) struct Between {
    /// It had everything up to here; none = it had nothing.
    pub low: Option<u64>,
    pub feed: u64,
}

/// From this event on the slice has no payloads: the next look begins with it.
fn ends_before(
    seq: u64,
    position: Option<u64>,
    within: impl Fn(u64) -> ScanAt,
    mut scanned: VecDeque<Scanned>,
) -> Result<VecDeque<Scanned>, ScanStop> {
    let before = seq.saturating_sub(1);
    if scanned.is_empty() && position.is_some_and(|position| position >= before) {
        return Err(ScanStop::Unreadable(APART.to_owned()));
    }
    scanned.push_back(Scanned::At(within(before)));
    Ok(scanned)
}

/// Reads on in a stream, as far as a slice goes.
pub(super) fn scan(
    at: &ScanAt,
    name: &StreamName,
    slice: &StreamSlice,
    between: Between,
    rules: Rules,
) -> Result<VecDeque<Scanned>, ScanStop> {
    let rest = &slice.rest;
    let (mut position, purged) = match at {
        ScanAt::Within { stream, seq, purged } if stream == name => {
            let is_behind = seq + 1 < rest.first && rules.kept(Rule::CompareCoverage);
            let is_purged = *seq < rest.purged && rest.purged > *purged && rules.kept(Rule::ComparePurged);
            if is_behind || is_purged {
                return Err(ScanStop::Expired);
            }
            (Some(*seq), *purged)
        }
        _ => {
            // It is begun with, and of a reader that had some of it something went since.
            if between.low.is_some_and(|low| rest.gone > low) && rules.kept(Rule::CompareGone) {
                return Err(ScanStop::Expired);
            }
            (None, rest.purged)
        }
    };
    let within = |seq| ScanAt::Within { stream: name.clone(), seq, purged };
    let behind = || Scanned::At(ScanAt::Behind(Some(name.clone())));
    let mut scanned = VecDeque::new();
    for stored in &slice.chunks {
        let chunk = match &stored.chunk {
            Ok(chunk) => chunk,
            // What is before it is handed on first; the next look begins with it.
            Err(_) if !scanned.is_empty() => return Ok(scanned),
            Err(reason) => return Err(ScanStop::Unreadable(reason.clone())),
        };
        if position.is_some_and(|position| chunk.from > position) && rules.kept(Rule::CompareCoverage) {
            return Err(ScanStop::Expired);
        }
        for event in &chunk.events {
            if position.is_some_and(|position| event.seq <= position) {
                continue;
            }
            let is_unnamed = event.pos == 0 && rules.kept(Rule::ScanOnlyNamed);
            if (is_unnamed || event.pos > between.feed) && rules.kept(Rule::ScanEndsAtFeed) {
                scanned.push_back(behind());
                return Ok(scanned);
            }
            let had = between.low.is_some_and(|low| event.pos > 0 && event.pos <= low);
            if had && rules.kept(Rule::AgainFromEnd) {
                continue;
            }
            if event.apart > 0 {
                return ends_before(event.seq, position, within, scanned);
            }
            scanned.push_back(Scanned::Event(event.clone(), within(event.seq)));
        }
        position = Some(chunk.last);
        scanned.push_back(Scanned::At(within(chunk.last)));
    }
    if !slice.is_all {
        return Ok(scanned);
    }
    // Of a reader that scans again what it had isn't looked at, so it isn't known where that ends until something was met.
    let upto = position.or_else(|| between.low.is_none().then(|| rest.first.saturating_sub(1)));
    let is_lost = upto.is_some_and(|upto| upto < slice.head.last) && rules.kept(Rule::CompareCoverage);
    if !is_lost {
        scanned.push_back(behind());
    } else if scanned.is_empty() {
        return Err(ScanStop::Unreadable(LOST.to_owned()));
    }
    Ok(scanned)
}
