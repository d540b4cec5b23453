//! What a source knows between calls: how far it has read, what is in hand, what the host has to be told.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeSet, VecDeque};
use std::time::{Duration, Instant};

use waybill_plugin::source::{Delivery, Notices, Overtaken, Pulled, SourceArgs, overtaken};
use waybill_plugin::transport::PluginError;

use crate::entry::{Entry, id_of};
use crate::info::Stream;

/// Bytes of an entry before any was seen.
const ENTRY_BYTES: usize = 16 * 1024;
/// Shortest time between two looks for what other consumers left behind.
const SWEEP_EVERY_MIN: Duration = Duration::from_secs(1);
/// Before the first entry of a stream, and the end of a sweep.
pub(crate) const FIRST: &str = "0-0";

/// What is read next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// What this consumer left behind, after this entry.
    Own(String),
    /// What others left behind, from this entry on.
    Others(String),
    /// What nobody has read.
    New,
}

pub(crate) struct State {
    on_overtaken: Overtaken,
    /// Entries that may be unsettled.
    window: u32,
    /// After how long another consumer's entries are taken.
    ack_wait: Duration,
    /// After which entry our own pending ones are read; none = they are through.
    own: RefCell<Option<String>>,
    /// Where the sweep through others' entries stands; none = it is through.
    others: RefCell<Option<String>>,
    swept: Cell<Instant>,
    /// Bytes of a large entry, as far as seen of late.
    largest: Cell<usize>,
    /// Most entries of one read: it doubles while reads are full. The server can't be told a bound in bytes, so an instance that had no
    /// memory for many at once begins with one.
    pace: Cell<u32>,
    /// Read and not handed over, for want of room.
    held: RefCell<VecDeque<Delivery>>,
    /// Handed over and not settled.
    in_hand: RefCell<BTreeSet<String>>,
    lost: RefCell<Vec<String>>,
    lag: Cell<Option<u64>>,
    /// Entries that were removed before they were read, by the group's last account.
    overtaken: Cell<u64>,
    /// Removed entries that the host wasn't told of yet.
    untold: Cell<u64>,
    /// The stream, as the server told of it last.
    stream: Cell<Option<Stream>>,
    /// How often it was made anew, not told yet.
    made_anew: Cell<u64>,
    quiet: Cell<bool>,
}

impl State {
    pub(crate) fn new(wants: &SourceArgs, ack_wait: u32) -> Self {
        Self {
            on_overtaken: wants.on_overtaken,
            window: wants.window,
            ack_wait: Duration::from_millis(u64::from(ack_wait)),
            own: RefCell::new(Some(FIRST.to_owned())),
            others: RefCell::new(Some(FIRST.to_owned())),
            swept: Cell::new(Instant::now()),
            largest: Cell::new(ENTRY_BYTES),
            pace: Cell::new(1),
            held: RefCell::default(),
            in_hand: RefCell::default(),
            lost: RefCell::default(),
            lag: Cell::new(None),
            overtaken: Cell::new(0),
            untold: Cell::new(0),
            stream: Cell::new(None),
            made_anew: Cell::new(0),
            quiet: Cell::new(false),
        }
    }

    pub(crate) fn quiesce(&self) -> Vec<String> {
        self.quiet.set(true);
        let held = self.held.take();
        held.iter().filter_map(id_of).collect()
    }

    pub(crate) fn is_quiet(&self) -> bool {
        self.quiet.get()
    }

    /// What has to be read next.
    pub(crate) fn step(&self) -> Step {
        if let Some(after) = self.own.borrow().clone() {
            return Step::Own(after);
        }
        let every = (self.ack_wait / 2).max(SWEEP_EVERY_MIN);
        if self.others.borrow().is_none() && self.swept.get().elapsed() >= every {
            self.sweep();
        }
        self.others.borrow().clone().map_or(Step::New, Step::Others)
    }

    /// Looks through what is pending from its start, at the next pull.
    pub(crate) fn sweep(&self) {
        self.others.replace(Some(FIRST.to_owned()));
    }

    /// Where the sweep goes on; the first entry is its end.
    pub(crate) fn swept(&self, next: &str) {
        self.swept.set(Instant::now());
        self.others.replace((next != FIRST).then(|| next.to_owned()));
    }

    /// Reads our own entries once more: the server may have delivered some that never came. Without it they would wait for the
    /// next sweep, behind what is newer.
    pub(crate) fn again(&self) {
        self.own.replace(Some(FIRST.to_owned()));
    }

    /// The last of our own entries that was read; none = there are no more.
    pub(crate) fn own(&self, last: Option<String>) {
        self.own.replace(last);
    }

    /// How many more entries may be out.
    pub(crate) fn room(&self) -> u32 {
        let out = self.in_hand.borrow().len() + self.held.borrow().len();
        self.window.saturating_sub(u32::try_from(out).unwrap_or(u32::MAX))
    }

    /// How many entries the next read asks for: as many as there is room for in what a pull hands over, as far as can be told; none =
    /// that is full. The first one is always asked for.
    pub(crate) fn count(&self, max: u32, max_bytes: u32) -> Option<u32> {
        let held = self.held.borrow();
        let bytes: usize = held.iter().map(|delivery| delivery.payload.len()).sum();
        let fit = (max_bytes as usize).saturating_sub(bytes) / self.largest.get().max(1);
        let left = max.saturating_sub(u32::try_from(held.len()).unwrap_or(u32::MAX));
        let count = left.min(u32::try_from(fit).unwrap_or(u32::MAX)).min(self.pace.get());
        match (count, held.is_empty()) {
            (0, true) => Some(1),
            (0, false) => None,
            (count, _) => Some(count),
        }
    }

    /// Takes what was read. What is in hand already stays there. Answers ids of entries that were removed from the stream and that
    /// nobody has in hand.
    pub(crate) fn read(&self, entries: Vec<Entry>) -> Vec<String> {
        let mut removed = Vec::new();
        let mut largest = self.largest.get() / 4 * 3;
        if entries.len() >= self.pace.get() as usize {
            self.pace.set(self.pace.get().saturating_mul(2));
        }
        for Entry { id, delivery } in entries {
            match delivery {
                _ if self.in_hand.borrow().contains(&id) => {}
                None => removed.push(id),
                Some(delivery) => {
                    largest = largest.max(delivery.omitted.map_or(delivery.payload.len(), |bytes| bytes as usize));
                    self.held.borrow_mut().push_back(delivery);
                }
            }
        }
        self.largest.set(largest);
        removed
    }

    /// How often each of these was delivered.
    pub(crate) fn counted(&self, id: &str, count: u32) {
        let mut held = self.held.borrow_mut();
        if let Some(delivery) = held.iter_mut().find(|delivery| delivery.token == id.as_bytes()) {
            delivery.delivery_count = Some(count);
            delivery.redelivered = count > 1;
        }
    }

    pub(crate) fn has_some(&self) -> bool {
        !self.held.borrow().is_empty()
    }

    /// Hands over what there is room for.
    pub(crate) fn pulled(&self, max: u32, max_bytes: u32, caught_up: bool) -> Pulled {
        let (mut deliveries, mut bytes) = (Vec::new(), 0_usize);
        let mut held = self.held.borrow_mut();
        while deliveries.len() < max as usize
            && let Some(next) = held.front()
            && (deliveries.is_empty() || bytes + next.payload.len() <= max_bytes as usize)
            && let Some(delivery) = held.pop_front()
        {
            bytes += delivery.payload.len();
            self.in_hand.borrow_mut().extend(id_of(&delivery));
            deliveries.push(delivery);
        }
        Pulled { deliveries, caught_up: caught_up && held.is_empty(), notices: self.notices() }
    }

    /// Those of these that nobody has in hand.
    pub(crate) fn not_in_hand(&self, ids: Vec<String>) -> impl Iterator<Item = String> {
        ids.into_iter().filter(|id| !self.in_hand.borrow().contains(id))
    }

    /// No longer in hand: it is settled, or given back.
    pub(crate) fn settled(&self, id: &str) {
        self.in_hand.borrow_mut().remove(id);
    }

    pub(crate) fn in_hand(&self) -> BTreeSet<String> {
        self.in_hand.borrow().clone()
    }

    /// Others have taken these from us.
    pub(crate) fn lose(&self, ids: impl IntoIterator<Item = String>) {
        for id in ids {
            if self.in_hand.borrow_mut().remove(&id) {
                self.lost.borrow_mut().push(id);
            }
        }
    }

    pub(crate) fn lag(&self, lag: Option<u64>) {
        self.lag.set(lag);
    }

    /// The server tells of the stream.
    pub(crate) fn stands(&self, stream: Stream) {
        if self.stream.replace(Some(stream)).is_some_and(|before| stream.is_another_than(&before)) {
            self.made_anew.set(self.made_anew.get() + 1);
        }
    }

    /// So many entries were removed before they were read, by the group's account.
    ///
    /// # Errors
    /// The operator wants to stop then.
    pub(crate) fn overtaken(&self, count: u64) -> Result<(), PluginError> {
        if count > 0 && self.on_overtaken == Overtaken::Stop {
            return Err(stopped(count));
        }
        let before = self.overtaken.replace(count);
        self.untold.set(self.untold.get() + count.saturating_sub(before));
        Ok(())
    }

    /// Entries that were delivered once and removed before they were settled.
    ///
    /// # Errors
    /// The operator wants to stop then.
    pub(crate) fn removed(&self, count: usize) -> Result<(), PluginError> {
        let count = count as u64;
        if count > 0 && self.on_overtaken == Overtaken::Stop {
            return Err(stopped(count));
        }
        self.untold.set(self.untold.get() + count);
        Ok(())
    }

    /// What the host wasn't told yet.
    pub(crate) fn notices(&self) -> Notices {
        let lost = self.lost.take().into_iter().map(String::into_bytes).collect();
        let mut notices = Notices { lost, ..Notices::new() };
        if let Some(lag) = self.lag.get() {
            notices = notices.with_attribute("lag", lag.to_string());
        }
        for (name, count) in [("overtaken", self.untold.take()), ("made-anew", self.made_anew.take())] {
            if count > 0 {
                notices = notices.with_attribute(name, count.to_string());
            }
        }
        notices
    }
}

fn stopped(count: u64) -> PluginError {
    overtaken(format!(
        "the stream lost {count} entries before they were settled: trim it later, then set `on_overtaken` to \"go-on\" once"
    ))
}

#[cfg(test)]
#[path = "state_tests.rs"]
mod tests;
