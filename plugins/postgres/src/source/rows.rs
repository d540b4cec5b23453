//! Rows in hand by the word for it in their status: committed at once, extended while they are at work, and given back by the
//! table when their time is over. Each settlement changes only what still has the word, so what is published never goes back.

use std::cell::RefCell;
use std::collections::BTreeSet;

use waybill_plugin::deadline::Deadline;
use waybill_plugin::source::{Disposition, Settled, Settlement};
use waybill_plugin::transport::{CallInfo, Fault, PluginError};

use super::Brought;
use super::in_hand::InHand;
use super::lane::{Lane, Room, Window};
use super::sorting::{Bytes, Sorted, delivery, key_of, row_of, sort};
use crate::database::{Begun, Database, Ended, Open};
use crate::marking::error_text;
use crate::table::marks::{Marks, Other, WordClaims, keys, taken};
use crate::wire::{Failed, Pipeline};

/// Milliseconds after which the server ends a claim that nobody finished: it takes two statements.
const IDLE_MS: u32 = 30_000;

/// The lane of an instance, and what it has in hand.
pub(super) struct Rows {
    lane: RefCell<Lane>,
    in_hand: RefCell<InHand>,
}

impl Rows {
    pub(super) fn new(lane: Lane, window: Window) -> Self {
        Self { lane: RefCell::new(lane), in_hand: RefCell::new(InHand::new(window)) }
    }

    /// How many claims have run out before their rows were settled, and weren't told yet.
    pub(super) fn take_expired(&self, now: u64) -> u64 {
        self.in_hand.borrow_mut().take_expired(now)
    }

    /// Claims rows by the word.
    pub(super) async fn pull(
        &self,
        call: &CallInfo,
        database: &Database,
        room: Room,
        now: u64,
    ) -> Result<Brought, PluginError> {
        let deadline = Deadline::of_call(call.timeout);
        let room = self.in_hand.borrow_mut().left(room, now);
        let wanted = {
            let mut lane = self.lane.borrow_mut();
            lane.forget(now);
            lane.wanted(room, now)
        };
        let Some(wanted) = wanted else { return Ok(Brought::default()) };
        let terms = self.lane.borrow_mut().terms(IDLE_MS, now);
        let (open, seen, rows) = match database.claim(call, &wanted, terms).await? {
            Begun::Refused => {
                self.lane.borrow_mut().refuse(now);
                return Ok(Brought::default());
            }
            Begun::Nothing(seen, rows) => (None, seen, rows),
            Begun::Open(Open { connection, statements, seen, rows }) => (Some((connection, statements)), seen, rows),
        };
        let due = u32::try_from(rows.len()).unwrap_or(u32::MAX);
        self.lane.borrow_mut().looked_at(&wanted, seen, due, !terms.without_lock);
        let described = open.as_ref().map_or_else(|| database.statements(), |(_, statements)| statements.clone());
        let sorted = sort(&described, rows, Bytes { now: room.bytes, ever: room.most });
        self.hold(&sorted, now);
        let is_all = seen < wanted.window && due < wanted.batch && !sorted.cut;
        let Some((connection, statements)) = open else { return Ok(Brought { is_all, ..Brought::default() }) };
        let Some(words) = &statements.words else {
            database.give_up(connection, deadline).await;
            return Err(PluginError::internal("the table has no word for rows at work"));
        };
        let ids: Vec<&str> = sorted.rows.iter().map(|row| row.id.as_str()).collect();
        if ids.is_empty() {
            database.give_up(connection, deadline).await;
            return Ok(Brought { is_all, ..Brought::default() });
        }
        let pipeline = Pipeline::new().ask(&words.take, taken(&ids));
        let first = sorted.first.unwrap_or_default();
        let count = u32::try_from(ids.len()).unwrap_or(u32::MAX);
        match database.commit(connection, pipeline, deadline).await {
            Ended::Committed => self.lane.borrow_mut().committed(count, &first),
            Ended::Refused(error) => {
                self.lane.borrow_mut().refused(count, &first, now);
                return Err(error);
            }
            Ended::Lost(error) => {
                self.lane.borrow_mut().lost();
                return Err(error);
            }
        }
        let (group, ttl) = (self.lane.borrow().group(), statements.table.claim_ttl);
        let delivered = sorted.rows.iter().map(|row| (row.token(), row.bytes()));
        self.in_hand.borrow_mut().take(delivered, now.saturating_add(u64::from(ttl)));
        let deliveries = sorted.rows.into_iter().map(|row| {
            let token = row.token();
            delivery(row, token, &statements.table.oid, &group, ttl)
        });
        Ok(Brought { deliveries: deliveries.collect(), is_all })
    }

    fn hold(&self, sorted: &Sorted, now: u64) {
        let mut lane = self.lane.borrow_mut();
        for row in &sorted.rows {
            lane.release(&row.aggregate);
        }
        for (key, millis) in &sorted.held {
            lane.hold(key, *millis, now);
        }
    }

    /// Marks what the host has settled. What the table refuses is found by halves, and keeps no other row from being marked.
    pub(super) async fn settle(
        &self,
        call: &CallInfo,
        database: &Database,
        items: Vec<Settlement>,
        now: u64,
    ) -> Result<Vec<Settled>, PluginError> {
        let statements = database.statements();
        let Some(words) = &statements.words else {
            return Err(PluginError::internal("the table has no word for rows at work"));
        };
        let mut halves = Halves::of(&items);
        while let Some(part) = halves.next() {
            match database.try_to_ask(call, &Settling::sort(part).pipeline(&statements.marks, words)).await {
                Ok(answers) => {
                    let rows = answers.iter().flat_map(|answer| &answer.rows);
                    halves.marked(&rows.filter_map(|row| row.bytes(0)).collect());
                }
                Err(Failed::Refused(refusal)) if refusal.is_of_the_table() => halves.refused(&refusal.error().fault),
                Err(failed) => {
                    let error = failed.error();
                    // What was marked before is.
                    if halves.settled.is_empty() {
                        return Err(error);
                    }
                    halves.ended(&error.fault);
                }
            }
        }
        let settled = halves.settled;
        let until = now.saturating_add(u64::from(statements.table.claim_ttl));
        self.in_hand.borrow_mut().settled(items.iter().zip(&settled), until);
        Ok(settled)
    }

    /// Gives back what the host hasn't settled, so that nobody waits for the end of its time.
    pub(super) async fn close(&self, call: &CallInfo, database: &Database, now: u64) {
        let release = |token| Settlement { token, disposition: Disposition::Release };
        let rest: Vec<Settlement> = self.in_hand.borrow_mut().rest(now).map(release).collect();
        if rest.is_empty() {
            return;
        }
        if let Err(error) = self.settle(call, database, rest, now).await {
            waybill_plugin::warn!(
                [("code", error.fault.code)],
                "rows come again when their time is over: {}",
                error.fault.reason
            );
        }
    }
}

/// Settlements of which each part is asked for at once, and by halves where the table refuses it. Parts are in order.
struct Halves<'a> {
    parts: Vec<&'a [Settlement]>,
    /// What is being asked for.
    asked: &'a [Settlement],
    settled: Vec<Settled>,
}

impl<'a> Halves<'a> {
    fn of(items: &'a [Settlement]) -> Self {
        Self { parts: vec![items], asked: &[], settled: Vec::with_capacity(items.len()) }
    }

    fn next(&mut self) -> Option<&'a [Settlement]> {
        self.asked = self.parts.pop()?;
        Some(self.asked)
    }

    /// The table has changed these rows. What isn't among them is no longer ours.
    fn marked(&mut self, ours: &BTreeSet<&[u8]>) {
        let settled = |item: &Settlement| match item.disposition {
            Disposition::Nack(_) => Settled::unsupported(),
            _ if ours.contains(key_of(&item.token)) => Settled::Done,
            _ => Settled::Lost,
        };
        self.settled.extend(self.asked.iter().map(settled));
    }

    fn refused(&mut self, fault: &Fault) {
        if self.asked.len() > 1 {
            let (first, second) = self.asked.split_at(self.asked.len() / 2);
            self.parts.extend([second, first]);
        } else {
            self.failed(fault);
        }
    }

    /// The database can't be asked any more.
    fn ended(&mut self, fault: &Fault) {
        self.failed(fault);
        while self.next().is_some() {
            self.failed(fault);
        }
    }

    fn failed(&mut self, fault: &Fault) {
        self.settled.extend(self.asked.iter().map(|_| Settled::Failed(fault.clone())));
    }
}

/// What is asked for rows, by its kind.
#[derive(Debug, Default, PartialEq)]
struct Settling {
    published: Vec<String>,
    failed: Vec<Other>,
    extended: Vec<String>,
    released: Vec<String>,
}

impl Settling {
    /// The statements; each answers which rows it has changed.
    fn pipeline(&self, marks: &Marks, words: &WordClaims) -> Pipeline {
        let texts = |ids: &[String]| keys(&ids.iter().map(String::as_str).collect::<Vec<_>>());
        let mut pipeline = Pipeline::new();
        if !self.published.is_empty() {
            let ids: Vec<&str> = self.published.iter().map(String::as_str).collect();
            let (statement, values) = marks.published(&ids);
            pipeline = pipeline.ask(statement, values);
        }
        if !self.failed.is_empty() {
            let (statement, values) = marks.others(&self.failed);
            pipeline = pipeline.ask(statement, values);
        }
        if !self.extended.is_empty() {
            pipeline = pipeline.ask(&words.extend, texts(&self.extended));
        }
        if !self.released.is_empty() {
            pipeline = pipeline.ask(&words.release, texts(&self.released));
        }
        pipeline
    }

    fn sort(items: &[Settlement]) -> Self {
        let mut sorted = Self::default();
        for item in items {
            let Some((id, invalid)) = row_of(&item.token) else { continue };
            match &item.disposition {
                // Of a row that is no message the host has the dead letter.
                Disposition::Ack if invalid.is_some() => {
                    sorted.failed.push(Other { id, attempts: 0, error: invalid, after: None });
                }
                Disposition::Ack => sorted.published.push(id),
                Disposition::Reject(fault) => {
                    let error = Some(error_text(&fault.code, &fault.reason));
                    sorted.failed.push(Other { id, attempts: 0, error, after: None });
                }
                Disposition::Extend => sorted.extended.push(id),
                Disposition::Release => sorted.released.push(id),
                Disposition::Nack(_) => {}
            }
        }
        sorted
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settlements_are_sorted_by_their_kind() {
        let item = |id: &str, disposition| Settlement { token: id.as_bytes().to_vec(), disposition };
        let items = [
            item("1", Disposition::Ack),
            item("2", Disposition::Extend),
            item("3", Disposition::Release),
            item("4", Disposition::Reject(Fault::new("A.B", "no"))),
            item("5", Disposition::Nack(None)),
            item("6\0INVALID_OUTBOX: no", Disposition::Ack),
        ];
        let sorted = Settling::sort(&items);
        assert_eq!(
            (sorted.published, sorted.extended, sorted.released),
            (vec!["1".into()], vec!["2".into()], vec!["3".into()])
        );
        let failed: Vec<_> = sorted.failed.iter().map(|row| (row.id.as_str(), row.error.as_deref())).collect();
        assert_eq!(failed, [("4", Some("A.B: no")), ("6", Some("INVALID_OUTBOX: no"))]);
    }

    #[test]
    fn a_mark_that_the_table_refuses_keeps_no_other_row_from_being_marked() {
        let items = ["1", "2", "3", "4", "5"]
            .map(|id| Settlement { token: id.as_bytes().to_vec(), disposition: Disposition::Ack });
        let (mut halves, mut asked) = (Halves::of(&items), 0);
        while let Some(part) = halves.next() {
            asked += 1;
            let ids: BTreeSet<&[u8]> = part.iter().map(|item| item.token.as_slice()).collect();
            match ids.contains(&b"4"[..]) {
                true => halves.refused(&Fault::new("POSTGRES.REFUSED_ROW", "no")),
                // The second isn't ours any more.
                false => halves.marked(&ids.into_iter().filter(|id| *id != b"2").collect()),
            }
        }
        let refused = Settled::Failed(Fault::new("POSTGRES.REFUSED_ROW", "no"));
        assert_eq!(halves.settled, [Settled::Done, Settled::Lost, Settled::Done, refused, Settled::Done]);
        assert_eq!(asked, 7);
    }

    #[test]
    fn when_the_connection_ends_what_was_marked_is_and_the_rest_is_asked_again() {
        let items =
            ["1", "2", "3", "4"].map(|id| Settlement { token: id.as_bytes().to_vec(), disposition: Disposition::Ack });
        let mut halves = Halves::of(&items);
        halves.next();
        halves.refused(&Fault::new("POSTGRES.REFUSED_ROW", "no"));
        halves.next();
        halves.marked(&BTreeSet::from([&b"1"[..], b"2"]));
        halves.next();
        halves.ended(&Fault::new("POSTGRES.LOST", "gone"));
        let lost = || Settled::Failed(Fault::new("POSTGRES.LOST", "gone"));
        assert_eq!(halves.settled, [Settled::Done, Settled::Done, lost(), lost()]);
    }
}
