//! The claim: the first rows that wait, and those of them whose aggregate's run is due, locked and read in their newest version.

use std::cell::RefCell;
use std::collections::BTreeMap;

use super::Table;
use super::columns::Role;
use super::selected::Selected;
use crate::database::Terms;
use crate::wire::{Row, Statement, Value, array};

/// Settings of the transaction, which end with it: nothing is set for a session, so a pooler in transaction mode will do. Times
/// without a zone are UTC. A plan outlives the size that the table had when it was made, so none reads all of it where an index will do.
///
/// The last one is whether the lane is ours: its lock, if that is free. It spares claims in vain, and guards nothing. The claim is asked
/// in the same breath and reads [`IS_OURS`], so a transaction begins in one round trip.
const OPENING: &str = "SELECT set_config('idle_in_transaction_session_timeout', $1::text, true), \
    set_config('statement_timeout', $2::text, true), set_config('jit', 'off', true), set_config('TimeZone', 'UTC', true), \
    set_config('enable_seqscan', 'off', true), set_config('waybill.lane', CASE WHEN $3::text = 'on' THEN 'on' \
    WHEN pg_try_advisory_xact_lock(hashtext('waybill ' || $4::text), $5::int4 * 1000 + $6::int4) THEN 'on' ELSE 'off' END, true)";
/// The column of [`OPENING`]'s answer that says whether the lane is ours.
const LANE: usize = 5;
/// The same as a condition, which the server looks at once and before it looks at any row.
const IS_OURS: &str = "current_setting('waybill.lane') = 'on'";

/// How much of which lane is claimed, and what of it is left out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Wanted {
    /// 0-based number of the lane, of so many.
    pub(crate) lane: u32,
    pub(crate) lanes: u32,
    /// Aggregates that are left out.
    pub(crate) held: Vec<String>,
    /// How many waiting rows are looked at.
    pub(crate) window: u32,
    /// Most rows, and most bytes of their payloads.
    pub(crate) batch: u32,
    pub(crate) batch_bytes: u32,
    /// Most bytes of one payload.
    pub(crate) payload_bytes: u32,
}

/// The statements that claim, and how their answer is read.
#[derive(Clone, Debug)]
pub(crate) struct Claim {
    opening: Statement,
    /// What stands before and behind a bound of the window.
    sql: (String, String),
    /// Statements by that bound.
    made: RefCell<BTreeMap<u32, Statement>>,
    selected: Selected,
    ttl: Option<u32>,
}

/// A row of an answer.
#[derive(Clone, Debug)]
pub(crate) struct ClaimedRow {
    pub(crate) aggregate: String,
    /// The row itself; none if another session has it, or it waits no longer.
    pub(crate) row: Option<Row>,
}

/// Columns of the answer before those of the row.
const BEFORE: usize = 4;

impl Claim {
    pub(crate) fn new(table: &Table) -> Self {
        let selected = Selected::new(table);
        let (name, id) = (&table.name, table.column(Role::Id));
        let (waits, due, order) = (table.waits(), table.is_due("$8"), table.order.sql());
        let place = table.has_place().map(|place| format!(" AND {place}")).unwrap_or_default();
        let aggregate = table.aggregate_sql("o.");
        let size = selected.size();
        let columns = selected.columns("l.", "$6", "$7", "r.waybill_pos");
        let before = format!(
            "WITH w AS MATERIALIZED (SELECT {id} AS waybill_id, waybill_k, waybill_due, row_number() OVER (ORDER BY {order}) AS waybill_pos \
             FROM (SELECT * FROM (SELECT * FROM (SELECT o.*, {aggregate} AS waybill_k, {due} AS waybill_due FROM {name} o WHERE {waits}{place} AND {IS_OURS}) x \
             WHERE abs((hashtext(waybill_k)::bigint & 2147483647) % $1::bigint - $2::bigint) < 1 AND waybill_k <> ALL ($3::text[]) \
             ORDER BY {order} LIMIT "
        );
        // Row by row behind the run, so that no plan compares each of its rows with each that is locked.
        let behind = format!(
            ") y ORDER BY {order} LIMIT $4::bigint) v), \
             r AS (SELECT waybill_id, waybill_k, waybill_pos FROM (SELECT *, bool_and(waybill_due) OVER (PARTITION BY waybill_k ORDER BY waybill_pos) AS waybill_run FROM w) z \
             WHERE waybill_run ORDER BY waybill_pos LIMIT $5::bigint) \
             SELECT s.seen, r.waybill_k, r.waybill_id::text, l.{id} IS NOT NULL, {columns} \
             FROM (SELECT count(*) AS seen FROM w) s LEFT JOIN r ON true LEFT JOIN LATERAL \
             (SELECT *, {size} FROM {name} WHERE {id} = r.waybill_id AND {waits} AND {due} FOR UPDATE SKIP LOCKED) l ON true ORDER BY r.waybill_pos"
        );
        Self {
            opening: Statement::new(OPENING),
            sql: (before, behind),
            made: RefCell::default(),
            selected,
            ttl: table.has_ttl().then_some(table.claim_ttl),
        }
    }

    /// The statement that claims with such a window. A bound of it stands in the text: by a parameter alone the server takes the window
    /// for a tenth of all rows, and so plans each claim anew, which costs as much as half of carrying it out.
    pub(crate) fn statement(&self, window: u32) -> Statement {
        let bound = window.checked_next_power_of_two().unwrap_or(u32::MAX);
        let make = || {
            let (before, behind) = &self.sql;
            Statement::new(format!("{before}{bound}{behind}")).with_binary(BEFORE + self.selected.payload())
        };
        self.made.borrow_mut().entry(bound).or_insert_with(make).clone()
    }

    /// What a transaction begins with, for this lane: [`Claim::is_ours`] reads its answer.
    pub(crate) fn opening(
        &self,
        table: &Table,
        wanted: &Wanted,
        terms: Terms,
        statement_timeout: u32,
    ) -> (&Statement, Vec<Value>) {
        let without_lock = if terms.without_lock { "on" } else { "off" };
        let values = vec![
            Value::number(terms.idle),
            Value::number(statement_timeout),
            Value::Text(without_lock.to_owned()),
            Value::Text(table.name.clone()),
            Value::number(wanted.lanes),
            Value::number(wanted.lane),
        ];
        (&self.opening, values)
    }

    /// Whether the lane is ours, or claimed without its lock.
    pub(crate) fn is_ours(opened: &Row) -> bool {
        opened.text(LANE) == Some("on")
    }

    /// The values of the claim's parameters.
    pub(crate) fn values(&self, wanted: &Wanted) -> Vec<Value> {
        let mut values = vec![
            Value::number(wanted.lanes),
            Value::number(wanted.lane),
            Value::Text(array::texts(wanted.held.iter().map(|key| Some(key.as_str())))),
            Value::number(wanted.window),
            Value::number(wanted.batch),
            Value::number(wanted.payload_bytes),
            Value::number(wanted.batch_bytes),
        ];
        values.extend(self.ttl.map(Value::number));
        values
    }

    /// How many waiting rows the answer has looked at, and the rows of the runs.
    pub(crate) fn read(answer: Vec<Row>) -> (u32, Vec<ClaimedRow>) {
        let seen = answer.first().and_then(|row| row.number(0)).unwrap_or(0);
        let rows = answer.into_iter().filter_map(|row| {
            let aggregate = row.text(1)?.to_owned();
            let is_locked = row.text(3) == Some("t");
            Some(ClaimedRow { aggregate, row: is_locked.then_some(row) })
        });
        (seen, rows.collect())
    }

    /// The row's key as text.
    pub(crate) fn id(row: &Row) -> &str {
        row.text(2).unwrap_or_default()
    }

    /// The row's own values, for [`Selected`]'s reading.
    pub(crate) fn selected(&self) -> (&Selected, usize) {
        (&self.selected, BEFORE)
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{table4, table5};
    use super::*;

    #[test]
    fn the_conditions_stand_where_rows_are_locked_too() {
        for table in [table4(), table5()] {
            let sql = Claim::new(&table).statement(100).sql().to_owned();
            let condition = format!("{} AND {} FOR UPDATE SKIP LOCKED", table.waits(), table.is_due("$8"));
            assert!(sql.contains(&condition), "{sql}");
            assert_eq!(sql.matches("SKIP LOCKED").count(), 1);
        }
    }

    #[test]
    fn nothing_but_numbers_and_parameters_comes_with_a_claim() {
        let wanted = Wanted {
            lane: 1,
            lanes: 4,
            held: vec!["order/1'; DROP".to_owned(), "a,\"b".to_owned()],
            window: 200,
            batch: 100,
            batch_bytes: 1_000_000,
            payload_bytes: 1_000,
        };
        let claim = Claim::new(&table4());
        let values = claim.values(&wanted);
        assert_eq!(values.len(), 8, "the eighth is claim_ttl");
        assert_eq!(values.get(2), Some(&Value::Text(r#"{"order/1'; DROP","a,\"b"}"#.to_owned())));
        assert!(!claim.statement(wanted.window).sql().contains("DROP"));
        assert_eq!(Claim::new(&table5()).values(&wanted).len(), 7);
    }

    #[test]
    fn a_window_of_any_size_has_one_of_a_few_statements() {
        let claim = Claim::new(&table4());
        for (window, bound) in [(1, 1), (100, 128), (128, 128), (129, 256), (u32::MAX, u32::MAX)] {
            let sql = claim.statement(window).sql().to_owned();
            assert!(sql.contains(&format!("LIMIT {bound})")) && sql.contains("LIMIT $4"), "{sql}");
        }
        assert_eq!(claim.made.borrow().len(), 4);
    }

    #[test]
    fn nothing_is_claimed_in_a_lane_that_others_have() {
        let claim = Claim::new(&table4());
        assert_eq!(claim.statement(100).sql().matches(IS_OURS).count(), 1);
        let opened = |word: &str| Row::of(&[None, None, None, None, None, Some(word)]);
        assert!(Claim::is_ours(&opened("on")) && !Claim::is_ours(&opened("off")));
        assert_eq!(OPENING.matches("set_config(").count(), LANE + 1);
    }
}
