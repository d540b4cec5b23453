//! What a claim's rows come to: what is delivered, what is invalid, what has to wait.

use std::collections::BTreeSet;

use waybill_plugin::source::Delivery;

use crate::marking::error_text;
use crate::table::claim::{Claim, ClaimedRow};
use crate::table::event::{Event, Unsent, subject};
use crate::table::marks::Other;
use crate::table::selected::Read;
use crate::table::statements::Statements;

/// A claim's rows, by what is done with them.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Sorted {
    /// Rows to be delivered, in order.
    pub(super) rows: Vec<Sendable>,
    /// Rows that break the table's rules: they fail in the table.
    pub(super) invalid: Vec<Other>,
    /// Aggregate of the first row that is delivered or fails: what is held if the table refuses its mark while it is alone.
    pub(super) first: Option<String>,
    /// Aggregates that are left out for a time: at least so many milliseconds.
    pub(super) held: Vec<(String, u64)>,
}

/// A row to be delivered.
#[derive(Debug, PartialEq)]
pub(super) struct Sendable {
    pub(super) id: String,
    pub(super) aggregate: String,
    pub(super) event: Event,
    /// Failed attempts so far, as the table counts them.
    pub(super) attempts: u32,
    /// Its payload is larger than any pull may bring.
    pub(super) is_omitted: bool,
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
        match selected.read(&row, before) {
            Read::Event(event) => {
                let size = u32::try_from(event.payload.len()).unwrap_or(u32::MAX);
                let is_omitted = size > bytes.ever;
                let taken = if is_omitted { 0 } else { size };
                let Some(rest) = left.checked_sub(taken) else {
                    ended.insert(aggregate);
                    continue;
                };
                left = rest;
                sorted.first.get_or_insert_with(|| aggregate.clone());
                let attempts = selected.attempts(&row, before);
                sorted.rows.push(Sendable { id, aggregate, event: *event, attempts, is_omitted });
            }
            Read::Unsent(unsent @ Unsent::Invalid(_)) => {
                sorted.first.get_or_insert(aggregate);
                let error = error_text(unsent.code(), &unsent.reason());
                sorted.invalid.push(Other { id, attempts: 0, error: Some(error), after: None });
            }
            Read::Unsent(Unsent::Future(millis)) => {
                sorted.held.push((aggregate.clone(), u64::from(millis)));
                ended.insert(aggregate);
            }
            Read::Unread => {
                ended.insert(aggregate);
            }
        }
    }
    sorted
}

/// A row as a delivery. `oid` tells a table from the one that was made anew under its name.
pub(super) fn delivery(row: Sendable, token: Vec<u8>, oid: &str, group: &str, settle_within: u32) -> Delivery {
    let Sendable { id, event, attempts, is_omitted, .. } = row;
    let position = format!("{oid}/{id}");
    let delivery = Delivery {
        id: Some(event.id),
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
    if is_omitted { delivery.without_payload() } else { delivery }
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
    fn an_invalid_row_fails_and_blocks_nothing() {
        let statements = Statements::new(table4(), false);
        let sorted =
            sort(&statements, vec![row("1", "a", None, true), row("2", "a", Some("orders.created"), true)], AMPLE);
        assert_eq!(ids(&sorted), ["2"]);
        assert_eq!(sorted.first.as_deref(), Some("a"), "it is the one that the table may refuse to mark");
        assert!(sorted.invalid.first().unwrap().error.as_ref().unwrap().starts_with("INVALID_OUTBOX: "));
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
        assert_eq!(ids(&sort(&statements, rows(), Bytes { now: 5, ever: 100 })), ["1", "2"]);
        assert_eq!(ids(&sort(&statements, rows(), Bytes { now: 1, ever: 100 })), [""; 0]);
        let sorted = sort(&statements, rows(), Bytes { now: 1, ever: 1 });
        assert_eq!(ids(&sorted), ["1", "2", "3"]);
        let first = delivery(sorted.rows.into_iter().next().unwrap(), vec![1], "1", "0/1", 1);
        assert_eq!((first.omitted, first.payload.len()), (Some(2), 0));
    }
}
