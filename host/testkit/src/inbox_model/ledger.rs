//! Double entry: what was committed, called and settled, and what has to hold each time.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use waybill_core::code::Code;
use waybill_core::ids::Seq;
use waybill_core::inbox::fingerprint::Fingerprint;
use waybill_core::inbox::records::{InboxCommit, InboxDead, InboxEnd, InboxWrite};
use waybill_core::tx_event::TxEventKind;

use super::broker::Published;
use super::messages::{content_of, number_of};
use super::setup::{CONSUMERS, DEDUP_WINDOW, MAX_ATTEMPTS};
use super::stats::Stats;
use super::trail::Trail;

/// A message of a consumer: the consumer's number and the message's.
pub(super) type Item = (u16, u64);

/// What a commit says, read from it when it is made.
#[derive(Clone, Debug, Default)]
pub(super) struct Booking {
    /// Finished: item, content, and how.
    finished: Vec<(Item, u8, Finish)>,
    /// Ids that were used for something else, as dead letters.
    reused: Vec<(Item, u8)>,
    /// Rows: item, content, place.
    rows: Vec<(Item, u8, Seq)>,
    taken: Vec<(Item, Seq)>,
    /// Takes that are open no more.
    untaken: Vec<Seq>,
    replayed: Vec<Item>,
    /// Consumers of its dead letters.
    dead: Vec<u16>,
    /// Audit events that it owes.
    owed: Trail,
    /// Those that it has.
    written: Trail,
    begun: u64,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Finish {
    Processed,
    Poison,
    Attempts,
    Suspect,
}

#[derive(Debug, Default)]
pub(super) struct Ledger {
    pub violations: Vec<String>,
    pub stats: Stats,
    pub now: u64,
    /// What ends from then on is never forgotten.
    pub kept_since: Option<u64>,
    /// Stored or finished, whatever becomes of it.
    safe: BTreeSet<(Item, u8)>,
    /// Finished at least once.
    pub done: BTreeSet<(Item, u8)>,
    /// Finished last, and when.
    finished: BTreeMap<Item, (u64, Finish)>,
    pub once_finished: BTreeSet<Item>,
    /// How often it was processed.
    pub processed: BTreeMap<Item, u32>,
    /// Processed messages of each consumer.
    processed_of: [u64; 2],
    /// Takes and rows by their places.
    places: BTreeMap<Item, (u64, Seq)>,
    items: BTreeMap<Seq, Item>,
    expired: BTreeSet<Item>,
    /// Failures that were answered.
    failures: BTreeMap<Item, u32>,
    /// For pauses: processed messages of the consumer when it last asked, and how often it asked while others went through.
    asked: BTreeMap<Item, (u64, u32)>,
    /// What each owner, by its token, knew when it last asked: it pays an attempt when that has grown.
    known: BTreeMap<(Item, u64), u64>,
    /// Order of first calls.
    pub called: BTreeMap<Item, u64>,
    /// A handler may have done something for it.
    touched: BTreeSet<Item>,
    /// Messages by the fingerprints in takes.
    pub names: HashMap<Fingerprint, Item>,
    /// Dead letters of consumers that leave DLQ messages.
    pub dead_letters: u64,
    /// Audit events of all that went in.
    pub trail: Trail,
    has_dlq: [bool; 2],
    commits: u64,
    replays: u64,
}

impl Ledger {
    pub fn new(has_dlq: [bool; 2]) -> Self {
        Self { has_dlq, ..Self::default() }
    }

    pub fn violation(&mut self, text: impl Into<String>) {
        if self.violations.len() < 3 {
            self.violations.push(format!("t{} {}", self.now, text.into()));
        }
    }

    pub fn is_safe(&self, consumer: u16, message: &Published) -> bool {
        self.safe.contains(&((consumer, message.id), message.content))
    }

    /// Reads a commit. `open` are the takes that stand before it, `answers` what the owner's handlers had last.
    pub fn read(
        &self,
        commit: &InboxCommit,
        open: &BTreeSet<Seq>,
        answers: &BTreeMap<Item, u8>,
        dead: impl Fn(Seq) -> Option<Item>,
    ) -> Booking {
        let mut booking = Booking { begun: self.now, ..Booking::default() };
        for write in &commit.writes {
            match write {
                InboxWrite::PutRow(row) => {
                    let item = (consumer_number(row.consumer.as_str()), number_of(&row.message));
                    booking.rows.push((item, content_of(&row.message), row.seq));
                    // A row is written with a failure when that happened, and never again.
                    if row.attempts > 0 {
                        booking.owed.add(TxEventKind::Retry, item);
                    }
                }
                InboxWrite::PutTakes(record) => {
                    let named =
                        record.takes.iter().filter_map(|take| Some((*self.names.get(&take.fingerprint)?, take.seq)));
                    booking.taken.extend(named);
                }
                InboxWrite::PutDead(dead) => booking.dead(dead),
                InboxWrite::DeleteDead(seq) => {
                    if let Some(item) = dead(*seq) {
                        booking.owed.add(TxEventKind::Replay, item);
                        booking.replayed.push(item);
                    }
                }
                InboxWrite::PutTxEvents(record) => booking.written.add_record(record),
                InboxWrite::DeleteTakes(_) | InboxWrite::DeleteRow(_) => {}
            }
        }
        let ended = commit.done.iter().filter(|done| done.end != InboxEnd::Dead);
        for done in ended {
            let item = (consumer_number(done.consumer.as_str()), super::messages::number_of_id(done.id.as_str()));
            let content = answers.get(&item).copied().unwrap_or_default();
            booking.finished.push((item, content, Finish::Processed));
        }
        let still: BTreeSet<Seq> = commit.record.open.values().flatten().copied().collect();
        booking.untaken = open.difference(&still).copied().collect();
        booking
    }

    /// A commit went in.
    pub fn book(&mut self, booking: &Booking) {
        self.commits += 1;
        self.stats.commits += 1;
        if booking.owed != booking.written {
            let (owed, written) = (&booking.owed, &booking.written);
            self.violation(format!("TRAIL of a commit: it owes {owed:?} and has {written:?}"));
        }
        self.trail.add_all(&booking.owed);
        for (item, seq) in &booking.taken {
            self.items.insert(*seq, *item);
            self.take(*item, *seq);
        }
        for (item, content, seq) in &booking.rows {
            self.safe.insert((*item, *content));
            self.items.insert(*seq, *item);
            self.take(*item, *seq);
            self.stats.rows += 1;
        }
        for item in &booking.replayed {
            self.finished.remove(item);
            self.failures.remove(item);
            self.touched.remove(item);
            self.replays += 1;
            self.stats.replays += 1;
        }
        for (item, content, how) in &booking.finished {
            self.finish(*item, *content, *how, booking.begun);
        }
        for (item, content) in &booking.reused {
            self.done.insert((*item, *content));
            self.safe.insert((*item, *content));
            self.stats.reused += 1;
        }
        let dlq = booking.dead.iter().filter(|consumer| self.has_dlq[usize::from(**consumer)]);
        self.dead_letters += dlq.count() as u64;
        let gone = |item: &Item| {
            booking.finished.iter().any(|(of, ..)| of == item) || booking.rows.iter().any(|(of, ..)| of == item)
        };
        for item in booking.untaken.iter().filter_map(|seq| self.items.get(seq)).copied().collect::<Vec<_>>() {
            if !gone(&item) {
                self.stats.expired += 1;
                self.expired.insert(item);
                self.places.remove(&item);
                self.called.remove(&item);
            }
        }
    }

    fn take(&mut self, item: Item, seq: Seq) {
        let commit = self.commits;
        self.places.entry(item).or_insert((commit, seq));
        self.expired.remove(&item);
    }

    fn finish(&mut self, item: Item, content: u8, how: Finish, begun: u64) {
        self.safe.insert((item, content));
        self.done.insert((item, content));
        self.once_finished.insert(item);
        self.touched.remove(&item);
        if let Some((at, before)) = self.finished.get(&item).copied() {
            if self.now - at <= DEDUP_WINDOW || self.kept_since.is_some_and(|since| at >= since) {
                let after = self.now - at;
                self.violation(format!("TWICE {item:?} is finished again ({before:?}, then {how:?}) after {after}"));
            } else {
                self.stats.again += 1;
            }
        }
        let failures = self.failures.get(&item).copied().unwrap_or(0);
        if how == Finish::Attempts && failures < MAX_ATTEMPTS {
            self.violation(format!("ATTEMPTS {item:?} is dead after {failures} failures"));
        }
        if how == Finish::Processed {
            *self.processed.entry(item).or_default() += 1;
            self.processed_of[usize::from(item.0)] += 1;
            self.stats.processed += 1;
        } else {
            self.stats.dead += 1;
            self.stats.convicted += u64::from(how == Finish::Suspect);
        }
        self.finished.insert(item, (begun, how));
    }

    /// A handler gets a message. `others` are those of its key, with how they stand to it.
    pub fn call(&mut self, call: &CallFacts) {
        self.stats.calls += 1;
        let item = call.item;
        if self.touched.contains(&item) && !call.told && !call.stale {
            self.violation(format!("MAYBE {item:?} may have been handled, and its handler isn't told"));
        }
        self.touched.insert(item);
        let number = self.stats.calls;
        let is_new = !self.once_finished.contains(&item);
        if call.stale {
            self.stats.stale += 1;
        } else if is_new && !call.same_key.is_empty() && !call.replays {
            let mine = self.called.get(&item).copied().unwrap_or(number);
            let begun = |other: &&Item| {
                self.called.get(*other).is_some_and(|at| *at < mine)
                    && !self.once_finished.contains(*other)
                    && !self.expired.contains(*other)
            };
            if let Some(other) = call.same_key.iter().find(begun) {
                self.violation(format!("ORDER of calls: {item:?} is called while {other:?} had been begun"));
            }
            let place = self.places.get(&item).copied();
            let earlier = |other: &&Item| {
                let other_place = self.places.get(*other);
                !self.once_finished.contains(*other)
                    && place.zip(other_place.copied()).is_some_and(|(mine, other)| other.1 < mine.1)
            };
            if let Some(other) = call.same_key.iter().find(earlier) {
                self.violation(format!("ORDER of taking: {item:?} is called before {other:?}"));
            }
        }
        self.called.entry(item).or_insert(number);
    }

    /// A handler asked for a pause or a hold.
    /// `known` is its owner, and what that knows to be processed.
    pub fn asks(&mut self, item: Item, down: bool, was_touched: bool, (token, known): (u64, u64)) {
        if !was_touched {
            self.touched.remove(&item);
        }
        let before = self.known.insert((item, token), known);
        if before.is_some_and(|before| before < known) {
            *self.failures.entry(item).or_default() += 1;
        }
        let processed = self.processed_of[usize::from(item.0)];
        let Some(asked) = self.asked.get_mut(&item) else {
            self.asked.insert(item, (processed, 0));
            return;
        };
        if processed <= asked.0 {
            return;
        }
        asked.0 = processed;
        if down {
            return;
        }
        asked.1 += 1;
        let (times, most) = (asked.1, MAX_ATTEMPTS + 2 + 2 * count(self.stats.takeovers) + 6 * count(self.replays));
        if times > most {
            self.violation(format!("PAUSED for ever by {item:?}: {times} times while others went through"));
        }
    }

    pub fn fails(&mut self, item: Item) {
        *self.failures.entry(item).or_default() += 1;
    }

    /// A commit was too large. What it processes alone may have a failed attempt for it.
    pub fn left_too_much(&mut self, booking: &Booking) {
        if let [(item, _, Finish::Processed)] = booking.finished.as_slice() {
            self.fails(*item);
        }
    }

    pub fn is_touched(&self, item: Item) -> bool {
        self.touched.contains(&item)
    }
}

fn count(number: u64) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX / 8)
}

/// What is true of a call when it is made.
#[derive(Debug)]
pub(super) struct CallFacts {
    pub item: Item,
    /// Its handler was told that it may have been handled.
    pub told: bool,
    /// Another owner has the shard.
    pub stale: bool,
    /// Its source brings a key in order again.
    pub replays: bool,
    /// Other messages of its key, of its source alone.
    pub same_key: Vec<Item>,
}

impl Booking {
    fn dead(&mut self, dead: &InboxDead) {
        let item = (consumer_number(dead.consumer.as_str()), number_of(&dead.message));
        let content = content_of(&dead.message);
        self.dead.push(item.0);
        self.owed.add(TxEventKind::Dead, item);
        if dead.code == Code::INBOX_ID_REUSED.as_str() {
            return self.reused.push((item, content));
        }
        let how = match dead.code.as_str() {
            "TEST.POISON" => Finish::Poison,
            code if code == Code::SUSPECTED_POISON.as_str() => Finish::Suspect,
            _ => Finish::Attempts,
        };
        self.finished.push((item, content, how));
    }
}

pub(super) fn consumer_number(name: &str) -> u16 {
    u16::from(name == CONSUMERS[1])
}
