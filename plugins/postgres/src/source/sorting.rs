//! What a claim's rows come to: what is delivered, for its dead letter too, and what has to wait.

use std::collections::BTreeSet;

use waybill_plugin::source::{Delivery, Token};

use crate::marking::error_text;
use crate::table::claim::{Claim, ClaimedRow};
use crate::table::event::{Event, INVALID, Unsent, subject};
use crate::table::selected::Read;
use crate::table::statements::Statements;

/// Stands between a row's key and its error in a token; no text of the database holds it.
const BEHIND_KEY: u8 = 0;

/// A claim's rows, by what is done with them.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Sorted {
    /// Rows to be delivered, in order.
    pub(super) rows: Vec<Sendable>,
    /// Aggregate of the first row that is delivered: what is held if the table refuses its mark while it is alone.
    pub(super) first: Option<String>,
    /// Aggregates that are left out for a time: at least so many milliseconds.
    pub(super) held: Vec<(String, u64)>,
    /// A row was left out because there was no room for its payload: it waits in the table.
    pub(super) cut: bool,
}

/// A row to be delivered.
#[derive(Debug, PartialEq)]
pub(super) struct Sendable {
    pub(super) id: String,
    pub(super) aggregate: String,
    pub(super) event: Event,
    /// Failed attempts so far, as the table counts them.
    pub(super) attempts: u32,
    /// Size of a payload that stays out: it is larger than any pull may bring, or than the table's rows may have.
    pub(super) omitted: Option<u32>,
    /// Why it is no message: the host keeps it as a dead letter, and only then it fails in the table.
    pub(super) invalid: Option<String>,
}

impl Sendable {
    /// Names the row; of one that is no message with the error that it fails with.
    pub(super) fn token(&self) -> Token {
        let mut token = self.id.clone().into_bytes();
        if let Some(why) = &self.invalid {
            token.push(BEHIND_KEY);
            token.extend(error_text(INVALID, why).into_bytes());
        }
        token
    }

    /// Bytes of the payload that is handed over.
    pub(super) fn bytes(&self) -> u32 {
        if self.omitted.is_some() { 0 } else { u32::try_from(self.event.payload.len()).unwrap_or(u32::MAX) }
    }
}

/// The row's key in a token of [`Sendable::token`].
pub(super) fn key_of(token: &[u8]) -> &[u8] {
    token.split(|byte| *byte == BEHIND_KEY).next().unwrap_or_default()
}

/// The row's key as text, and the error that it fails with when its dead letter is kept.
pub(super) fn row_of(token: &[u8]) -> Option<(String, Option<String>)> {
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).ok();
    let key = key_of(token);
    let error = token.get(key.len() + 1..).filter(|error| !error.is_empty());
    Some((text(key)?, error.and_then(text)))
}

/// Bytes that payloads may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Bytes {
    /// All of this pull's together. The server sends the first row of a claim whatever its size is.
    pub(super) now: u32,
    /// One of any pull: a larger one is told without its payload.
    pub(super) ever: u32,
}

/// Sorts a claim. Behind a row that this claim doesn't have nothing of its aggregate is delivered: the rows' locks keep the order.
pub(super) fn sort(statements: &Statements, rows: Vec<ClaimedRow>, bytes: Bytes) -> Sorted {
    let mut left = bytes.now;
    let (selected, before) = statements.claim.selected();
    let (mut sorted, mut ended) = (Sorted::default(), BTreeSet::new());
    for ClaimedRow { aggregate, row } in rows {
        if ended.contains(&aggregate) {
            continue;
        }
        let Some(row) = row else {
            sorted.held.push((aggregate.clone(), 0));
            ended.insert(aggregate);
            continue;
        };
        let id = Claim::id(&row).to_owned();
        let ((event, unsent_bytes), invalid) = match selected.read(&row, before) {
            Read::Event(event) => ((*event, None), None),
            Read::Unsent(Unsent::Invalid(why)) => (selected.remains(&row, before), Some(why)),
            Read::Unsent(Unsent::Future(millis)) => {
                sorted.held.push((aggregate.clone(), u64::from(millis)));
                ended.insert(aggregate);
                continue;
            }
            Read::Unread => {
                ended.insert(aggregate);
                continue;
            }
        };
        let size = u32::try_from(event.payload.len()).unwrap_or(u32::MAX);
        let omitted = unsent_bytes.or((size > bytes.ever).then_some(size));
        let taken = if omitted.is_some() { 0 } else { size };
        let Some(rest) = left.checked_sub(taken) else {
            sorted.cut = true;
            ended.insert(aggregate);
            continue;
        };
        left = rest;
        sorted.first.get_or_insert_with(|| aggregate.clone());
        let attempts = selected.attempts(&row, before);
        sorted.rows.push(Sendable { id, aggregate, event, attempts, omitted, invalid });
    }
    sorted
}

/// A row as a delivery. `oid` tells a table from the one that was made anew under its name.
pub(super) fn delivery(row: Sendable, token: Vec<u8>, oid: &str, group: &str, settle_within: u32) -> Delivery {
    let Sendable { id, event, attempts, omitted, invalid, .. } = row;
    let position = format!("{oid}/{id}");
    let mut delivery = Delivery {
        id: Some(event.id).filter(|id| !id.is_empty()),
        position: Some(position),
        group: Some(group.to_owned()),
        key: event.key,
        headers: event.headers,
        content_type: Some(event.content_type),
        tenant: event.tenant,
        event_type: event.event_type,
        event_version: event.event_version,
        correlation_id: event.correlation_id,
        causation_id: event.causation_id,
        reply_to: event.reply_to,
        occurred_at: event.occurred_at,
        redelivered: attempts > 0,
        settle_within: Some(settle_within),
        attributes: event.attributes,
        ..Delivery::new(token, subject(&event.topic), event.payload)
    };
    if omitted.is_some() {
        (delivery.omitted, delivery.payload) = (omitted, Vec::new());
    }
    match invalid {
        Some(why) => delivery.invalid(why),
        None => delivery,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::table::tests::table4;
    use crate::wire::Row;

    /// A claimed row of document 4, in the order of the columns that are read: aggregate_id, aggregate_type, attempts, id, routing_key.
    fn row(id: &str, key: &str, topic: Option<&str>, is_ours: bool) -> ClaimedRow {
        let before = [Some("9"), Some(key), Some(id), Some("t")];
        let own = [Some(key), Some("order"), Some("0"), Some(id), topic];
        let more = [Some("{}"), Some("2"), Some("f"), Some("1"), Some("-1")];
        let all: Vec<Option<&str>> = before.into_iter().chain(own).chain(more).collect();
        ClaimedRow { aggregate: key.to_owned(), row: is_ours.then(|| Row::of(&all)) }
    }

    const AMPLE: Bytes = Bytes { now: 1_000, ever: 1_000 };

    fn ids(sorted: &Sorted) -> Vec<&str> {
        sorted.rows.iter().map(|row| row.id.as_str()).collect()
    }

    #[test]
    fn behind_a_row_that_another_session_has_nothing_of_its_aggregate_goes() {
        let statements = Statements::new(table4(), false);
        let topic = Some("orders.created");
        let rows = vec![
            row("1", "a", topic, true),
            row("2", "b", topic, false),
            row("3", "b", topic, true),
            row("4", "a", topic, true),
        ];
        let sorted = sort(&statements, rows, AMPLE);
        assert_eq!(ids(&sorted), ["1", "4"]);
        assert_eq!(sorted.held, [("b".to_owned(), 0)]);
    }

    #[test]
    fn an_invalid_row_is_delivered_for_its_dead_letter_and_its_token_holds_why_it_fails() {
        let statements = Statements::new(table4(), false);
        let sorted =
            sort(&statements, vec![row("1", "a", None, true), row("2", "a", Some("orders.created"), true)], AMPLE);
        assert_eq!(ids(&sorted), ["1", "2"]);
        assert_eq!(sorted.first.as_deref(), Some("a"), "it is the one that the table may refuse to mark");
        let tokens: Vec<Token> = sorted.rows.iter().map(Sendable::token).collect();
        assert_eq!(tokens.iter().map(|token| key_of(token)).collect::<Vec<_>>(), [b"1", b"2"]);
        let (id, error) = row_of(tokens.first().unwrap()).unwrap();
        assert!(id == "1" && error.unwrap().starts_with("INVALID_OUTBOX: its column `routing_key` is NULL"));
        assert_eq!(row_of(tokens.last().unwrap()), Some(("2".to_owned(), None)));
        let mut all = sorted.rows.into_iter().map(|row| delivery(row, vec![1], "16384", "0/1", 30_000));
        let (invalid, valid) = (all.next().unwrap(), all.next().unwrap());
        assert_eq!((invalid.id.as_deref(), invalid.topic.as_str()), (Some("outbox-1"), ""));
        assert_eq!(invalid.payload, b"{}");
        let is_told = |delivery: &Delivery| delivery.attributes.iter().any(|(name, _)| name == "invalid");
        assert!(is_told(&invalid) && !is_told(&valid));
    }

    #[test]
    fn a_delivery_is_on_its_subject_under_the_id_on_the_wire() {
        let statements = Statements::new(table4(), false);
        let sorted = sort(&statements, vec![row("7", "a", Some("orders.created"), true)], AMPLE);
        let delivery = delivery(sorted.rows.into_iter().next().unwrap(), vec![1], "16384", "0/1", 30_000);
        assert_eq!((delivery.id.as_deref(), delivery.topic.as_str()), (Some("outbox-7"), "orders.created"));
        assert_eq!((delivery.position.as_deref(), delivery.group.as_deref()), (Some("16384/7"), Some("0/1")));
    }

    #[test]
    fn what_does_not_fit_waits_and_what_never_fits_comes_without_its_payload() {
        let statements = Statements::new(table4(), false);
        let rows = || ["1", "2", "3"].map(|id| row(id, id, Some("a"), true)).to_vec();
        // Each has two bytes.
        let sorted = sort(&statements, rows(), Bytes { now: 5, ever: 100 });
        assert_eq!((ids(&sorted), sorted.cut), (vec!["1", "2"], true));
        let sorted = sort(&statements, rows(), Bytes { now: 1, ever: 100 });
        assert_eq!((ids(&sorted), sorted.cut), (Vec::new(), true));
        let sorted = sort(&statements, rows(), Bytes { now: 1, ever: 1 });
        assert_eq!((ids(&sorted), sorted.cut), (vec!["1", "2", "3"], false));
        let first = delivery(sorted.rows.into_iter().next().unwrap(), vec![1], "1", "0/1", 1);
        assert_eq!((first.omitted, first.payload.len()), (Some(2), 0));
    }
}
