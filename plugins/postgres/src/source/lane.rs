//! A lane of a source: how much it asks for, and what it leaves out for a time. Pure; instants are milliseconds since the source
//! was opened.

use std::collections::BTreeMap;

use crate::database::Terms;
use crate::table::claim::Wanted;

/// What is held is looked at again after this long, doubled each time, in milliseconds.
const HOLD_MS_MIN: u64 = 1_000;
const HOLD_MS_MAX: u64 = 60_000;
/// Most aggregates that are left out: then the lane waits for one of them.
const HELD_MAX: usize = 10_000;
/// Most rows that are looked at, in rows.
const WINDOW_MAX: u32 = 1_048_576;
/// Who was refused the lane's lock for this long claims without it: it may be the application's own.
const PATIENCE_MS: u64 = 60_000;
/// And then this often.
const WITHOUT_LOCK_MS: u64 = 1_000;

/// How much a lane asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Lane {
    number: u32,
    lanes: u32,
    /// Most rows of a claim; none = as many as there is room for. One after a transaction that was lost, then doubled.
    size: Option<u32>,
    /// Rows looked at beyond those asked for, as a factor: a power of two.
    factor: u32,
    held: BTreeMap<String, Held>,
    /// How often in a row the table refused a mark of an aggregate that was alone.
    unmarked: BTreeMap<String, u32>,
    refused_since: Option<u64>,
    tried_without: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Held {
    until: u64,
    /// How often in a row.
    times: u32,
}

/// Room for what a claim brings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Room {
    pub(super) rows: u32,
    pub(super) bytes: u32,
    /// Most bytes that any pull may bring.
    pub(super) most: u32,
    /// Bytes of the largest payload that is read.
    pub(super) payload: u32,
}

/// What may be delivered and unsettled at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Window {
    pub(super) rows: u32,
    /// Of all their payloads.
    pub(super) bytes: u32,
}

impl Window {
    /// What of a pull's room is left beside payloads of these sizes that are unsettled.
    pub(super) fn left(self, room: Room, unsettled: impl Iterator<Item = u32>) -> Room {
        let (rows, bytes) =
            unsettled.fold((0_u32, 0_u32), |(rows, bytes), size| (rows.saturating_add(1), bytes.saturating_add(size)));
        let left = Self { rows: self.rows.saturating_sub(rows), bytes: self.bytes.saturating_sub(bytes) };
        Room { rows: room.rows.min(left.rows), bytes: room.bytes.min(left.bytes), ..room }
    }
}

impl Lane {
    pub(super) fn new(number: u32, lanes: u32) -> Self {
        Self {
            number,
            lanes,
            size: None,
            factor: 1,
            held: BTreeMap::new(),
            unmarked: BTreeMap::new(),
            refused_since: None,
            tried_without: 0,
        }
    }

    /// Its name among the groups of a source.
    pub(super) fn group(&self) -> String {
        format!("{}/{}", self.number, self.lanes)
    }

    /// What it claims now; nothing while too much is held or another session has its lock.
    pub(super) fn wanted(&self, room: Room, now: u64) -> Option<Wanted> {
        let held: Vec<String> =
            self.held.iter().filter(|(_, held)| held.until > now).map(|(key, _)| key.clone()).collect();
        let batch = self.size.map_or(room.rows, |size| size.min(room.rows));
        if batch == 0 || room.bytes == 0 || held.len() >= HELD_MAX {
            return None;
        }
        Some(Wanted {
            lane: self.number,
            lanes: self.lanes,
            held,
            window: batch.saturating_mul(self.factor).min(WINDOW_MAX),
            batch,
            batch_bytes: room.bytes,
            payload_bytes: room.payload,
        })
    }

    /// Whether the lock is left alone this time.
    pub(super) fn terms(&mut self, idle: u32, now: u64) -> Terms {
        let is_patient = self.refused_since.is_none_or(|since| now < since + PATIENCE_MS);
        let without_lock = !is_patient && now >= self.tried_without + WITHOUT_LOCK_MS;
        if without_lock {
            self.tried_without = now;
        }
        Terms { without_lock, idle }
    }

    /// Another session has the lock.
    pub(super) fn refuse(&mut self, now: u64) {
        self.refused_since.get_or_insert(now);
    }

    /// A claim was made, for these many rows: of so many that were looked at, so many were due.
    pub(super) fn looked_at(&mut self, wanted: &Wanted, seen: u32, due: u32, has_lock: bool) {
        if has_lock {
            self.refused_since = None;
        }
        let was_full = seen >= wanted.window;
        if was_full && due < wanted.batch {
            self.factor = self.factor.saturating_mul(2).min(WINDOW_MAX);
        } else if seen < wanted.window / 2 || !was_full {
            self.factor = (self.factor / 2).max(1);
        }
    }

    /// Leaves an aggregate out, for twice as long as the last time. What is longer than that anyway says so.
    pub(super) fn hold(&mut self, key: &str, at_least: u64, now: u64) {
        let times = self.held.get(key).map_or(0, |held| held.times);
        let pause = (HOLD_MS_MIN << times.min(16)).min(HOLD_MS_MAX).max(at_least);
        self.held.insert(key.to_owned(), Held { until: now + pause, times: times + 1 });
    }

    /// A row of the aggregate was claimed: the next hold is a short one again.
    pub(super) fn release(&mut self, key: &str) {
        self.held.remove(key);
    }

    /// A transaction was committed, with so many rows and this first aggregate.
    pub(super) fn committed(&mut self, rows: u32, first: &str) {
        if rows == 1 {
            self.unmarked.remove(first);
        }
        self.size = match self.size {
            Some(size) if rows >= size => size.checked_mul(2),
            size => size,
        };
    }

    /// A transaction was lost: it goes on with one row.
    pub(super) fn lost(&mut self) {
        self.size = Some(1);
    }

    /// The table refused a mark. Alone, the row is the one that it refuses: its aggregate waits for a person.
    pub(super) fn refused(&mut self, rows: u32, first: &str, now: u64) {
        self.lost();
        if rows == 1 {
            let times = self.unmarked.entry(first.to_owned()).or_insert(0);
            let pause = HOLD_MS_MIN << (*times).min(16);
            *times += 1;
            self.hold(first, pause.min(HOLD_MS_MAX), now);
        }
    }

    /// Forgets holds that ended long ago, so that they don't count for ever.
    pub(super) fn forget(&mut self, now: u64) {
        self.held.retain(|_, held| held.until + HOLD_MS_MAX > now);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    const ROOM: Room = Room { rows: 50, bytes: 1_000, most: 1_000, payload: 100 };

    #[test]
    fn the_window_doubles_while_it_is_full_of_what_is_not_due_and_comes_back() {
        let mut lane = Lane::new(0, 1);
        for expected in [50, 100, 200] {
            let wanted = lane.wanted(ROOM, 0).unwrap();
            assert_eq!((wanted.window, wanted.batch), (expected, 50));
            lane.looked_at(&wanted, wanted.window, 3, true);
        }
        let wanted = lane.wanted(ROOM, 0).unwrap();
        lane.looked_at(&wanted, 10, 10, true);
        assert_eq!(lane.wanted(ROOM, 0).unwrap().window, 200);
    }

    #[test]
    fn after_a_loss_it_goes_on_with_one_row_and_doubles() {
        let mut lane = Lane::new(0, 1);
        lane.lost();
        for expected in [1, 2, 4] {
            assert_eq!(lane.wanted(ROOM, 0).unwrap().batch, expected);
            lane.committed(expected, "a");
        }
        lane.committed(1, "a");
        assert_eq!(lane.wanted(ROOM, 0).unwrap().batch, 8, "a batch that wasn't full says nothing");
    }

    #[test]
    fn what_is_held_is_left_out_for_longer_each_time() {
        let mut lane = Lane::new(0, 1);
        lane.hold("a", 0, 0);
        assert_eq!(lane.wanted(ROOM, 999).unwrap().held, ["a"]);
        assert!(lane.wanted(ROOM, 1_000).unwrap().held.is_empty());
        lane.hold("a", 0, 1_000);
        assert_eq!(lane.wanted(ROOM, 2_999).unwrap().held, ["a"]);
        lane.hold("b", 90_000, 0);
        assert_eq!(lane.wanted(ROOM, 80_000).unwrap().held, ["b"]);
        lane.release("a");
        lane.hold("a", 0, 5_000);
        assert!(!lane.wanted(ROOM, 6_000).unwrap().held.contains(&"a".to_owned()));
        lane.forget(1_000_000);
        assert!(lane.held.is_empty());
    }

    #[test]
    fn a_row_that_can_not_be_marked_is_found_alone_and_waits_longer_each_time() {
        let mut lane = Lane::new(0, 1);
        lane.refused(50, "a", 0);
        let alone = lane.wanted(ROOM, 0).unwrap();
        assert_eq!((alone.batch, alone.held.len()), (1, 0), "nobody knows yet which one it is");
        for (now, until) in [(0, 1_000), (1_000, 3_000), (3_000, 7_000)] {
            lane.release("a");
            lane.refused(1, "a", now);
            assert_eq!(lane.wanted(ROOM, until - 1).unwrap().held, ["a"]);
            assert!(lane.wanted(ROOM, until).unwrap().held.is_empty());
        }
        lane.committed(1, "a");
        lane.release("a");
        lane.refused(1, "a", 0);
        assert!(lane.wanted(ROOM, 1_000).unwrap().held.is_empty());
    }

    #[test]
    fn a_lock_that_is_never_free_is_left_alone_after_a_minute() {
        let mut lane = Lane::new(0, 1);
        lane.refuse(1_000);
        lane.refuse(2_000);
        assert!(!lane.terms(1, 60_999).without_lock);
        assert!(lane.terms(1, 61_000).without_lock);
        assert!(!lane.terms(1, 61_500).without_lock, "once a second");
        assert!(lane.terms(1, 62_000).without_lock);
        let wanted = lane.wanted(ROOM, 62_000).unwrap();
        lane.looked_at(&wanted, 0, 0, true);
        assert!(!lane.terms(1, 63_000).without_lock);
    }

    #[test]
    fn what_is_unsettled_takes_its_place_in_the_window() {
        let window = Window { rows: 3, bytes: 900 };
        let left = |sizes: &[u32]| {
            let room = window.left(ROOM, sizes.iter().copied());
            (room.rows, room.bytes)
        };
        assert_eq!(left(&[]), (3, 900));
        assert_eq!(left(&[100, 0]), (1, 800));
        assert_eq!(left(&[100, 0, 0]), (0, 800));
        assert_eq!(left(&[1_000]), (2, 0));
        assert_eq!(
            window.left(Room { rows: 1, bytes: 10, ..ROOM }, [5].into_iter()),
            Room { rows: 1, bytes: 10, ..ROOM }
        );
    }

    #[test]
    fn without_room_it_asks_for_nothing() {
        assert_eq!(Lane::new(0, 1).wanted(Room { rows: 0, ..ROOM }, 0), None);
        assert_eq!(Lane::new(0, 1).wanted(Room { bytes: 0, ..ROOM }, 0), None);
    }
}
