//! Part: which windows are read. All of them together have so much room, and none keeps it that can't use it. Their number is bounded, too:
//! each look goes over those that are there, and not over a million streams that are behind.
//!
//! A stream of which nothing can be sent for now (its destination is away, its key is tried again later) leaves its room to streams that
//! wait for some: its window is **parked**, and read again when something of it is due. Without that, some streams whose events fill the
//! room would hold up all others of their relay and shard for as long as nobody takes these events. Only so many are parked: where more are
//! blocked than that, it isn't about single streams, and what is noted of parked ones would grow with each that is tried.

use super::of_shard::Relay;
use super::window::Window;
use crate::streams::name::StreamKey;
use crate::streams::rules::Rule;
use crate::time::Monotonic;

/// What of streams is in memory.
#[derive(Clone, Copy, Default)]
struct Held {
    windows: usize,
    bytes: usize,
}

/// What is read next, and whether a stream that wants to be read finds no room.
struct Reads {
    wanted: Vec<(StreamKey, u64)>,
    is_short: bool,
}

impl Relay {
    /// Streams to read, with the number to read after: at most `count`, but for those that `is_left` says to leave for now. They are read
    /// as far as there is room for all of them together: with nothing in memory there is always room for one.
    pub fn windows_wanted(
        &mut self,
        count: usize,
        now: Monotonic,
        is_left: impl Fn(&StreamKey) -> bool,
    ) -> Vec<(StreamKey, u64)> {
        let mut reads = self.reads(count, now, &is_left);
        // Those that have nothing left to read are parked first: the others would come to what follows later.
        for has_more in [false, true] {
            if reads.is_short && self.settings.rules.kept(Rule::BlockedMakeRoom) {
                self.park(has_more, now);
                reads = self.reads(count, now, &is_left);
            }
        }
        reads.wanted
    }

    /// Bytes of all windows.
    pub fn window_bytes(&self) -> usize {
        self.held().bytes
    }

    fn held(&self) -> Held {
        let bytes = self.windows.values().map(Window::bytes).filter(|bytes| *bytes > 0);
        bytes.fold(Held::default(), |held, bytes| Held { windows: held.windows + 1, bytes: held.bytes + bytes })
    }

    fn reads(&self, count: usize, now: Monotonic, is_left: &impl Fn(&StreamKey) -> bool) -> Reads {
        let settings = &self.settings;
        let is_bounded = settings.rules.kept(Rule::WindowsHaveRoom);
        let mut held = self.held();
        let mut reads = Reads { wanted: Vec::new(), is_short: false };
        for (stream, behind) in self.work.behind(self.read.as_ref()) {
            let after = held.bytes.saturating_add(settings.read_bytes);
            let may_begin = held.windows < settings.windows_max;
            let is_over = reads.is_short && (after > settings.window_bytes || !may_begin);
            if reads.wanted.len() >= count || is_over {
                break;
            }
            let window = self.windows.get(stream);
            if window.is_some_and(|window| window.rests(now)) {
                continue;
            }
            let Some(from) = wanted_from(window, behind.named_to, settings.window_events) else { continue };
            if is_left(stream) {
                continue;
            }
            // What is in memory of a stream mustn't keep the others out: it has more only while half of the room is free.
            let is_loaded = window.is_some_and(|window| window.bytes() > 0);
            let room = if is_loaded { settings.window_bytes / 2 } else { settings.window_bytes };
            let has_room = after <= room && (is_loaded || may_begin);
            if has_room || held.bytes == 0 || !is_bounded {
                reads.wanted.push((stream.clone(), from));
                held = Held { windows: held.windows + usize::from(!is_loaded), bytes: after };
            } else {
                reads.is_short = true;
            }
        }
        reads
    }

    /// Parks windows of which nothing can be sent, until there is room for whoever waits; with `has_more` also those that are still to be
    /// read.
    fn park(&mut self, has_more: bool, now: Monotonic) {
        let mut held = self.held();
        let Self { windows, work, settings, .. } = self;
        let mut parked = windows.values().filter(|window| window.is_parked()).count();
        for (stream, window) in windows {
            let is_free = held.bytes.saturating_add(settings.read_bytes) <= settings.window_bytes / 2;
            if (is_free && held.windows <= settings.windows_max / 2) || parked >= settings.parked_max {
                return;
            }
            let named_to = work.get(stream).map_or(0, |behind| behind.named_to);
            let is_wanted = wanted_from(Some(&*window), named_to, settings.window_events).is_some();
            let bytes = window.bytes();
            if is_wanted == has_more && window.park(now) {
                held = Held { windows: held.windows - 1, bytes: held.bytes - bytes };
                parked += 1;
            }
        }
    }

    /// Whether a stream is still to be read after this number, as it was before it was read: the look brought nothing.
    pub fn still_wants(&self, stream: &StreamKey, after: u64) -> bool {
        let events_max = self.settings.window_events;
        let named_to = self.work.get(stream).map(|behind| behind.named_to);
        named_to.is_some_and(|named_to| wanted_from(self.windows.get(stream), named_to, events_max) == Some(after))
    }
}

/// After which number a stream is to be read, as far as it alone is concerned; none = not now.
fn wanted_from(window: Option<&Window>, named_to: u64, events_max: usize) -> Option<u64> {
    let Some(window) = window else { return Some(0) };
    let is_unread = window.is_fresh() || window.covered() < named_to;
    (is_unread && !window.is_full(events_max) && !window.is_seeking()).then(|| window.covered())
}
