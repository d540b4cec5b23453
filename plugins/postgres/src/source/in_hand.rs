//! Rows that this instance has claimed by the word for it, as long as their claims last.

use std::collections::BTreeMap;

use waybill_plugin::source::{Disposition, Settled, Settlement, Token};

use super::lane::{Room, Window};

/// A row whose time is over is known for this long, in milliseconds: it may be extended by a call that began before.
const KNOWN_MS: u64 = 60_000;

/// Rows that were delivered and aren't settled. Pure; instants are milliseconds since the source was opened.
#[derive(Debug)]
pub(super) struct InHand {
    window: Window,
    rows: BTreeMap<Token, Claimed>,
    /// Claims that have run out, not told yet.
    expired: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Claimed {
    /// Of its payload, if that was handed over.
    bytes: u32,
    /// When anybody may claim the row.
    until: u64,
    /// That has been counted.
    is_expired: bool,
}

impl InHand {
    pub(super) fn new(window: Window) -> Self {
        Self { window, rows: BTreeMap::new(), expired: 0 }
    }

    /// How many claims have run out since this was asked last.
    pub(super) fn take_expired(&mut self, now: u64) -> u64 {
        self.expire(now);
        std::mem::take(&mut self.expired)
    }

    fn expire(&mut self, now: u64) {
        for row in self.rows.values_mut().filter(|row| !row.is_expired && row.until <= now) {
            row.is_expired = true;
            self.expired += 1;
        }
    }

    /// What is left of a pull's room.
    pub(super) fn left(&mut self, room: Room, now: u64) -> Room {
        self.expire(now);
        self.rows.retain(|_, row| row.until.saturating_add(KNOWN_MS) > now);
        self.window.left(room, self.rows.values().filter(|row| row.until > now).map(|row| row.bytes))
    }

    pub(super) fn take(&mut self, rows: impl Iterator<Item = (Token, u32)>, until: u64) {
        self.rows.extend(rows.map(|(token, bytes)| (token, Claimed { bytes, until, is_expired: false })));
    }

    pub(super) fn settled<'a>(&mut self, settled: impl Iterator<Item = (&'a Settlement, &'a Settled)>, until: u64) {
        for (item, settled) in settled {
            match (&item.disposition, settled) {
                (Disposition::Extend, Settled::Done) => {
                    if let Some(row) = self.rows.get_mut(&item.token) {
                        (row.until, row.is_expired) = (until, false);
                    }
                }
                (_, Settled::Done | Settled::Lost) => {
                    self.rows.remove(&item.token);
                }
                // It is asked again.
                (_, Settled::Failed(_)) => {}
            }
        }
    }

    /// What is still ours.
    pub(super) fn rest(&mut self, now: u64) -> impl Iterator<Item = Token> {
        std::mem::take(&mut self.rows).into_iter().filter(move |(_, row)| row.until > now).map(|(token, _)| token)
    }
}

#[cfg(test)]
mod tests {
    use waybill_plugin::transport::Fault;

    use super::*;

    #[test]
    fn a_row_is_in_hand_until_it_is_settled_or_its_time_is_over() {
        let room = Room { rows: 10, bytes: 100, most: 100, payload: 100 };
        let mut in_hand = InHand::new(Window { rows: 3, bytes: 90 });
        let token = |id: &str| id.as_bytes().to_vec();
        in_hand.take(["1", "2", "3"].map(|id| (token(id), 20)).into_iter(), 1_000);
        assert_eq!(in_hand.left(room, 0), Room { rows: 0, bytes: 30, ..room });
        let item = |id: &str, disposition| Settlement { token: token(id), disposition };
        let items = [item("1", Disposition::Ack), item("2", Disposition::Extend), item("3", Disposition::Release)];
        let answers = [Settled::Done, Settled::Done, Settled::Failed(Fault::new("POSTGRES.LOST", "gone"))];
        in_hand.settled(items.iter().zip(&answers), 2_000);
        assert_eq!(in_hand.left(room, 999), Room { rows: 1, bytes: 50, ..room });
        assert_eq!(in_hand.left(room, 1_000), Room { rows: 2, bytes: 70, ..room }, "the third can be claimed again");
        assert_eq!((in_hand.take_expired(1_000), in_hand.take_expired(1_001)), (1, 0), "it is told once");
        let late = Some(item("3", Disposition::Extend));
        in_hand.settled(late.iter().zip(&[Settled::Done]), 1_400);
        assert_eq!(in_hand.left(room, 1_000), Room { rows: 1, bytes: 50, ..room }, "it is ours again");
        in_hand.take([(token("4"), 1)].into_iter(), 1_500);
        assert_eq!(in_hand.rest(1_500).collect::<Vec<_>>(), [token("2")]);
        assert_eq!(in_hand.left(room, 1_500), Room { rows: 3, bytes: 90, ..room });
    }
}
