//! What a run left behind: the table's rows beside what the broker has.

use std::collections::{BTreeMap, BTreeSet};
use std::io;

use serde_json::{Value, json};

use super::super::disorder;
use super::table::Shape;
use crate::{nats, postgres};

/// A row as the table has it at the end.
pub(super) struct Row {
    id: String,
    state: String,
    aggregate: String,
    number: u64,
    /// Its place in its aggregate, from 1, by the table's own order.
    place: u64,
}

pub(super) async fn read(client: &mut postgres::Client, shape: Shape) -> io::Result<Vec<Row>> {
    let (state, order) = (shape.state(), shape.order());
    let sql = format!(
        "SELECT id, {state}, aggregate_id, payload->>'n', row_number() OVER (PARTITION BY aggregate_id ORDER BY {order}) \
         FROM outbox_events ORDER BY aggregate_id, {order}"
    );
    let row = |row: Vec<String>| {
        let mut columns = row.into_iter();
        let mut next = || columns.next().unwrap_or_default();
        let (id, state, aggregate) = (next(), next(), next());
        let mut number = || next().parse().unwrap_or_default();
        Row { id, state, aggregate, number: number(), place: number() }
    };
    Ok(client.query(&sql).await?.into_iter().map(row).collect())
}

fn wire_ids(stored: &[nats::Stored]) -> BTreeSet<&str> {
    stored.iter().filter_map(|message| message.header("Nats-Msg-Id")).collect()
}

/// Rows that are marked and that the broker lacks.
pub(super) fn lacking(marked: &[String], stored: &[nats::Stored], shape: Shape) -> Vec<String> {
    let known = wire_ids(stored);
    let lacks = marked.iter().map(|id| shape.wire_id(id)).filter(|id| !known.contains(id.as_str()));
    lacks.map(|id| format!("{id} is marked and the broker lacks it")).collect()
}

/// So many rows, each of them published, in the stream as it is in the table and in order of its aggregate, and nothing else there.
pub(super) fn judge(rows: &[Row], written: u64, stored: &[nats::Stored], shape: Shape) -> Vec<String> {
    let mut breaches = Vec::new();
    let mut known: BTreeMap<String, (&Row, bool)> = BTreeMap::new();
    for row in rows {
        if row.state != "published" {
            breaches.push(format!("row {} is {}", row.id, row.state));
        }
        known.insert(shape.wire_id(&row.id), (row, false));
    }
    if rows.len() as u64 != written {
        breaches.push(format!("{} rows are there, {written} were written", rows.len()));
    }
    let mut order = Vec::new();
    for message in stored {
        let (id, held) = (message.header("Nats-Msg-Id").unwrap_or_default(), serde_json::from_slice(&message.payload));
        let held: Value = held.unwrap_or_default();
        match known.get_mut(id) {
            Some((row, is_there)) if held == json!({ "a": row.aggregate, "n": row.number }) => {
                *is_there = true;
                order.push((row.aggregate.as_str(), row.place));
            }
            _ => breaches.push(format!("message {} has id {id:?} and holds {held}", message.sequence)),
        }
    }
    breaches.extend(known.iter().filter(|(_, (_, is_there))| !is_there).map(|(id, _)| format!("{id} isn't there")));
    breaches.extend(disorder(order.into_iter()));
    breaches
}

#[cfg(test)]
mod tests {
    #![allow(clippy::indexing_slicing)]
    use super::*;

    /// Ten rows of each of six aggregates, in turn; the first of them is row 0.
    const ROWS: u64 = 60;

    fn rows() -> Vec<Row> {
        let of = |id: u64| Row {
            id: id.to_string(),
            state: "published".into(),
            aggregate: format!("a{}", id % 6),
            number: id / 6 + 1,
            place: id / 6 + 1,
        };
        (0..ROWS).map(of).collect()
    }

    fn stored(row: &Row, shape: Shape) -> nats::Stored {
        nats::Stored {
            sequence: 1,
            subject: "shop.event.paid".into(),
            headers: vec![("Nats-Msg-Id".into(), shape.wire_id(&row.id))],
            payload: json!({ "a": row.aggregate, "n": row.number }).to_string().into_bytes(),
        }
    }

    #[test]
    fn what_is_lost_marked_early_or_out_of_order_is_seen() {
        let shape = Shape::ByStatus;
        let mut rows = rows();
        let mut all: Vec<nats::Stored> = rows.iter().map(|row| stored(row, shape)).collect();
        assert!(judge(&rows, ROWS, &all, shape).is_empty());
        all.push(stored(&rows[0], shape));
        assert!(judge(&rows, ROWS, &all, shape).is_empty(), "a repeat under its id is none");
        let first = all.remove(7);
        assert_eq!(judge(&rows, ROWS, &all, shape), ["outbox-7 isn't there", "a1: 3 came after 1"]);
        let marked = ["6".to_owned(), "7".to_owned()];
        assert_eq!(lacking(&marked, &all, shape), ["outbox-7 is marked and the broker lacks it"]);
        all.insert(30, first);
        assert_eq!(judge(&rows, ROWS, &all, shape), ["a1: 3 came after 1"]);
        rows[3].state = "processing".into();
        assert!(judge(&rows, ROWS, &all, shape).contains(&"row 3 is processing".to_owned()));
        assert!(judge(&rows, ROWS + 1, &all, shape).contains(&"60 rows are there, 61 were written".to_owned()));
    }

    #[test]
    fn rows_go_by_their_place_and_not_by_the_number_that_they_were_written_with() {
        let shape = Shape::ByPublication;
        let mut rows = rows();
        // Written in one transaction, and by their ids the other way round.
        (rows[0].place, rows[6].place) = (2, 1);
        rows.swap(0, 6);
        let mut all: Vec<nats::Stored> = rows.iter().map(|row| stored(row, shape)).collect();
        assert!(judge(&rows, ROWS, &all, shape).is_empty());
        all.swap(0, 6);
        assert_eq!(judge(&rows, ROWS, &all, shape), ["a0: 2 came after 0"]);
    }
}
