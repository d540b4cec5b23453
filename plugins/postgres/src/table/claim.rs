//! The claim: the first rows that wait, and those of them whose aggregate's run is due, locked and read in their newest version.

use super::Table;
use super::columns::Role;
use super::selected::Selected;
use crate::wire::{Row, Statement, Value, array};

/// Settings of the transaction, which end with it: nothing is set for a session, so a pooler in transaction mode will do. Times
/// without a zone are UTC.
pub(crate) const SETTINGS: &str = "SELECT set_config('idle_in_transaction_session_timeout', $1::text, true), \
    set_config('statement_timeout', $2::text, true), set_config('jit', 'off', true), set_config('TimeZone', 'UTC', true)";

/// The lane's lock, if it is free: it spares claims in vain, and guards nothing.
pub(crate) const LOCK: &str =
    "SELECT pg_try_advisory_xact_lock(hashtext('waybill ' || $1::text), $2::int4 * 1000 + $3::int4)";

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

/// The statement that claims, and how its answer is read.
#[derive(Clone, Debug)]
pub(crate) struct Claim {
    pub(crate) statement: Statement,
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
        let sql = format!(
            "WITH w AS MATERIALIZED (SELECT {id} AS waybill_id, waybill_k, waybill_due, row_number() OVER (ORDER BY {order}) AS waybill_pos \
             FROM (SELECT * FROM (SELECT o.*, {aggregate} AS waybill_k, {due} AS waybill_due FROM {name} o WHERE {waits}{place}) x \
             WHERE abs((hashtext(waybill_k)::bigint & 2147483647) % $1::bigint - $2::bigint) < 1 AND waybill_k <> ALL ($3::text[]) \
             ORDER BY {order} LIMIT $4::bigint) y), \
             r AS MATERIALIZED (SELECT waybill_id, waybill_k, waybill_pos FROM (SELECT *, bool_and(waybill_due) OVER (PARTITION BY waybill_k ORDER BY waybill_pos) AS waybill_run FROM w) z \
             WHERE waybill_run ORDER BY waybill_pos LIMIT $5::bigint), \
             l AS MATERIALIZED (SELECT *, {size} FROM {name} WHERE {id} = ANY (ARRAY(SELECT waybill_id FROM r)) AND {waits} AND {due} FOR UPDATE SKIP LOCKED) \
             SELECT s.seen, r.waybill_k, r.waybill_id::text, l.{id} IS NOT NULL, {columns} \
             FROM (SELECT count(*) AS seen FROM w) s LEFT JOIN r ON true LEFT JOIN l ON l.{id} = r.waybill_id ORDER BY r.waybill_pos"
        );
        let statement = Statement::new(sql).with_binary(BEFORE + selected.payload());
        Self { statement, selected, ttl: table.has_ttl().then_some(table.claim_ttl) }
    }

    /// The values of the statement's parameters.
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

/// The values of [`SETTINGS`], in milliseconds.
pub(crate) fn settings(idle: u32, statement: u32) -> Vec<Value> {
    vec![Value::number(idle), Value::number(statement)]
}

/// The values of [`LOCK`].
pub(crate) fn lock(table: &Table, lane: u32, lanes: u32) -> Vec<Value> {
    vec![Value::Text(table.name.clone()), Value::number(lanes), Value::number(lane)]
}

#[cfg(test)]
mod tests {
    use super::super::tests::{table4, table5};
    use super::*;

    #[test]
    fn the_conditions_stand_where_rows_are_locked_too() {
        for table in [table4(), table5()] {
            let sql = Claim::new(&table).statement.sql().to_owned();
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
        assert!(!claim.statement.sql().contains("DROP"));
        assert_eq!(Claim::new(&table5()).values(&wanted).len(), 7);
    }
}
