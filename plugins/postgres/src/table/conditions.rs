//! When a row waits, when it is due, what comes before what, and what is in order with what.

use super::Table;
use super::catalog::Catalog;
use super::columns::{Columns, Kind, Layout, Role};
use super::names::{like_prefix, literal, quoted};
use super::settings::Undue;

/// In what order rows are published. It never changes in a row's life.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Order {
    /// Expressions, as they stand behind ORDER BY.
    expressions: Vec<String>,
    /// What an index over the waiting rows would be over, as the server writes it.
    pub(crate) index_over: Option<String>,
}

impl Order {
    /// The configured one, else the layout's.
    ///
    /// # Errors
    /// The key, and what is wrong with its value.
    pub(crate) fn find(
        layout: Layout,
        columns: &Columns,
        wanted: &[String],
        catalog: &Catalog,
    ) -> Result<Self, (String, String)> {
        let id = columns.sql(Role::Id);
        if wanted.is_empty() {
            return match layout {
                Layout::Status => Self::by_key(columns, catalog),
                Layout::Published => Ok(Self::by_stamp(columns)),
            };
        }
        let mut expressions = Vec::with_capacity(wanted.len() + 1);
        for name in wanted {
            let wrong = |why: String| Err(("order_by".to_owned(), why));
            if catalog.column(name).is_none() {
                return wrong(format!("the table has no column `{name}`"));
            }
            if columns.role(name).is_some_and(Role::is_marked) {
                return wrong(format!("`{name}` changes when a row is marked, and with it the row's place"));
            }
            expressions.push(quoted(name));
        }
        if !expressions.contains(&id) {
            expressions.push(id);
        }
        Ok(Self { expressions, index_over: None })
    }

    /// By the row's key, a number. Without the index offered the planner would walk the primary key past everything that is
    /// published: `+ 0` keeps it from that.
    fn by_key(columns: &Columns, catalog: &Catalog) -> Result<Self, (String, String)> {
        let Some(id) = columns.get(Role::Id) else { return Ok(Self { expressions: Vec::new(), index_over: None }) };
        if id.kind == Kind::Integer {
            let over = plain(&id.name);
            let has_index = over.as_deref().is_some_and(|over| catalog.has_index(over));
            let expression = if has_index { id.quoted() } else { format!("{} + 0", id.quoted()) };
            return Ok(Self { expressions: vec![expression], index_over: over });
        }
        match columns.get(Role::CreatedAt) {
            Some(created) => Ok(Self { expressions: vec![created.quoted(), id.quoted()], index_over: None }),
            None => {
                let why = format!("`{}` is no number: name the columns that say which row comes first", id.name);
                Err(("order_by".to_owned(), why))
            }
        }
    }

    /// By the stamp, and before that by the column offered: rows without a number are older than those with one.
    fn by_stamp(columns: &Columns) -> Self {
        let mut expressions = vec![columns.sql(Role::OccurredAt), columns.sql(Role::Id)];
        if let Some(seq) = columns.get(Role::Seq) {
            expressions.insert(0, format!("coalesce({}, 0)", seq.quoted()));
        }
        let names = [Role::OccurredAt, Role::Id].map(|role| columns.get(role).and_then(|column| plain(&column.name)));
        let index_over = match names {
            [Some(stamp), Some(id)] => Some(format!("COALESCE({SEQ}, 0::bigint), {stamp}, {id}")),
            _ => None,
        };
        Self { expressions, index_over }
    }

    /// As it stands behind ORDER BY.
    pub(crate) fn sql(&self) -> String {
        self.expressions.join(", ")
    }
}

/// The column that `provision` offers to tables in the order of a stamp.
pub(crate) const SEQ: &str = "seq";

/// A name that the server writes without quotes; none if it needs them.
fn plain(name: &str) -> Option<String> {
    let is_plain = name.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_')
        && name.bytes().next().is_some_and(|first| !first.is_ascii_digit());
    is_plain.then(|| name.to_owned())
}

impl Table {
    /// W: the row waits, due or not.
    pub(crate) fn waits(&self) -> String {
        match self.layout {
            Layout::Status => {
                let words = [&self.words.pending, &self.words.processing];
                let words = words.iter().filter(|word| !word.is_empty()).map(|word| literal(word));
                format!("{} IN ({})", self.column(Role::Status), words.collect::<Vec<_>>().join(", "))
            }
            Layout::Published => {
                let (published, error) = (self.column(Role::PublishedAt), self.column(Role::LastError));
                let dead = like_prefix(&self.words.dead);
                format!("{published} IS NULL AND ({error} IS NULL OR {error} NOT LIKE {dead})")
            }
        }
    }

    /// The row stands failed, until somebody replays it.
    pub(crate) fn is_dead(&self) -> String {
        match self.layout {
            Layout::Status => format!("{} = {}", self.column(Role::Status), literal(&self.words.failed)),
            Layout::Published => {
                let (published, error) = (self.column(Role::PublishedAt), self.column(Role::LastError));
                format!("{published} IS NULL AND {error} LIKE {}", like_prefix(&self.words.dead))
            }
        }
    }

    /// D: its time has come, by the database's clock. `ttl` is the parameter with `claim_ttl` in milliseconds, which only a
    /// layout with claims by others has.
    pub(crate) fn is_due(&self, ttl: &str) -> String {
        match self.layout {
            Layout::Status => {
                let (status, pending) = (self.column(Role::Status), literal(&self.words.pending));
                let available = self.stamp(Role::AvailableAt);
                let own = format!("{status} = {pending} AND {available} <= now()");
                if self.words.processing.is_empty() {
                    return format!("({own})");
                }
                let (processing, updated) = (literal(&self.words.processing), self.stamp(Role::UpdatedAt));
                format!(
                    "({own} OR {status} = {processing} AND {updated} < now() - {ttl}::float8 * interval '1 millisecond')"
                )
            }
            Layout::Published => format!("{} <= now()", self.stamp(Role::OccurredAt)),
        }
    }

    /// Whether [`Table::is_due`] has a parameter.
    pub(crate) fn has_ttl(&self) -> bool {
        self.layout == Layout::Status && !self.words.processing.is_empty()
    }

    /// What else has to hold for a row to have a place in its aggregate; none = nothing.
    pub(crate) fn has_place(&self) -> Option<String> {
        let attempts = self.column(Role::Attempts);
        match (self.undue, self.layout) {
            (Undue::Block, _) => None,
            (Undue::Aside, Layout::Status) => Some(format!(
                "NOT ({} = {} AND {attempts} = 0 AND {} > now())",
                self.column(Role::Status),
                literal(&self.words.pending),
                self.stamp(Role::AvailableAt)
            )),
            (Undue::Aside, Layout::Published) => {
                Some(format!("NOT ({attempts} = 0 AND {} > now())", self.stamp(Role::OccurredAt)))
            }
        }
    }

    /// K: what is in order with what, as text. A row without an aggregate is in order with nothing.
    pub(crate) fn aggregate_sql(&self, alias: &str) -> String {
        let id = format!("{alias}{}::text", self.column(Role::Id));
        match &self.aggregate {
            Some(template) => format!("coalesce({}, {id}) COLLATE \"C\"", template.expression(alias)),
            None => format!("{id} COLLATE \"C\""),
        }
    }

    /// A stamp that waits for nothing where it is NULL.
    fn stamp(&self, role: Role) -> String {
        let column = self.column(role);
        match self.columns.get(role).is_some_and(|column| column.is_nullable) {
            true => format!("coalesce({column}, '-infinity')"),
            false => column,
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::super::catalog::Index;
    use super::super::columns::tests::{by_publication, by_status, column};
    use super::super::tests::{described, table4, table5};
    use super::*;
    use crate::config::Keys;

    #[test]
    fn document_4_waits_by_its_status_and_is_due_by_its_stamps() {
        let table = table4();
        assert_eq!(table.waits(), r#""status" IN ('pending', 'processing')"#);
        assert_eq!(
            table.is_due("$6"),
            r#"("status" = 'pending' AND "available_at" <= now() OR "status" = 'processing' AND "updated_at" < now() - $6::float8 * interval '1 millisecond')"#
        );
        assert_eq!(table.is_dead(), r#""status" = 'failed'"#);
        assert_eq!(
            table.aggregate_sql("o."),
            r#"coalesce(o."aggregate_type"::text || '/' || o."aggregate_id"::text, o."id"::text) COLLATE "C""#
        );
    }

    #[test]
    fn document_5_waits_until_it_is_published_or_dead() {
        let table = table5();
        assert_eq!(
            table.waits(),
            r#""published_at" IS NULL AND ("publish_error" IS NULL OR "publish_error" NOT LIKE 'DEAD %')"#
        );
        assert_eq!((table.is_due("$6"), table.has_ttl()), (r#""occurred_at" <= now()"#.to_owned(), false));
        assert_eq!(table.order.sql(), r#""occurred_at", "id""#);
        let mut with_seq = by_publication();
        with_seq.push(column("seq", "int8", true));
        let table = described(r#"{"topic":"a"}"#, with_seq).unwrap();
        assert_eq!(table.order.sql(), r#"coalesce("seq", 0), "occurred_at", "id""#);
    }

    #[test]
    fn the_primary_key_is_walked_only_where_an_index_over_the_waiting_rows_is() {
        assert_eq!(table4().order.sql(), r#""id" + 0"#);
        let index = Index { name: "waits".to_owned(), over: "id".to_owned(), is_valid: true };
        let catalog = Catalog { columns: by_status(), indexes: vec![index.clone()], ..Catalog::default() };
        let keys = Keys::default();
        assert_eq!(Table::describe(&keys, &catalog, None).unwrap().order.sql(), r#""id""#);
        let broken = Catalog { indexes: vec![Index { is_valid: false, ..index }], ..catalog };
        assert_eq!(Table::describe(&keys, &broken, None).unwrap().order.sql(), r#""id" + 0"#);
    }

    #[test]
    fn words_and_an_order_can_be_mapped() {
        let json = r#"{"words":{"pending":"NEW","processing":""},"order_by":["created_at"],"undue":"aside"}"#;
        let table = described(json, by_status()).unwrap();
        assert_eq!(table.waits(), r#""status" IN ('NEW')"#);
        assert_eq!(table.is_due("$6"), r#"("status" = 'NEW' AND "available_at" <= now())"#);
        assert_eq!(table.order.sql(), r#""created_at", "id""#);
        let place = table.has_place().unwrap();
        assert_eq!(place, r#"NOT ("status" = 'NEW' AND "attempts" = 0 AND "available_at" > now())"#);
    }

    #[test]
    fn a_key_that_is_no_number_needs_an_order() {
        let mut columns = by_status();
        columns.iter_mut().find(|column| column.name == "id").unwrap().kind = Kind::Other;
        assert_eq!(described("{}", columns.clone()).unwrap().order.sql(), r#""created_at", "id""#);
        columns.retain(|column| column.name != "created_at");
        assert_eq!(described("{}", columns).unwrap_err(), "order_by");
    }
}
