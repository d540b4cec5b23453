//! Marks: what becomes of a claim's rows, one statement for each kind of fate. Times are the database's at the mark, for the
//! transaction's beginning would eat the backoff.

use super::Table;
use super::columns::{Layout, Role};
use super::names::literal;
use crate::wire::{Statement, Value, array};

/// The statements that mark.
#[derive(Clone, Debug)]
pub(crate) struct Marks {
    published: Statement,
    others: Statement,
    /// They have to change all of their rows: their last parameter is how many.
    is_counted: bool,
    /// What stands before the error of a row that is dead, in the layout without statuses.
    dead: Option<String>,
    words: (String, String),
}

/// A row that isn't published.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Other {
    /// The row's key as text.
    pub(crate) id: String,
    /// Attempts to add.
    pub(crate) attempts: u32,
    /// The last error; none leaves it as it is.
    pub(crate) error: Option<String>,
    /// Milliseconds until it is due again; none = it stands failed.
    pub(crate) after: Option<u32>,
}

impl Marks {
    /// `only_claimed`: nothing is marked that isn't another worker's claim by a word any more.
    pub(crate) fn new(table: &Table, only_claimed: bool) -> Self {
        let (name, id, cast) = (&table.name, table.column(Role::Id), table.id_cast());
        let (published_at, attempts, error) =
            (table.column(Role::PublishedAt), table.column(Role::Attempts), table.column(Role::LastError));
        let guard = |alias: &str| match (only_claimed, table.layout) {
            (true, Layout::Status) => {
                format!(" AND {alias}{} = {}", table.column(Role::Status), literal(&table.words.processing))
            }
            _ => String::new(),
        };
        let published = match (table.delete, table.layout) {
            (true, _) => format!("DELETE FROM {name}"),
            (false, Layout::Status) => format!(
                "UPDATE {name} SET {status} = {word}, {published_at} = clock_timestamp(), {updated} = clock_timestamp(), {error} = NULL",
                status = table.column(Role::Status),
                word = literal(&table.words.published),
                updated = table.column(Role::UpdatedAt),
            ),
            (false, Layout::Published) => format!(
                "UPDATE {name} SET {published_at} = clock_timestamp(), {attempts} = {attempts} + 1, {error} = NULL"
            ),
        };
        // Which of them still were ours has to be known where nothing is locked; else all of them are.
        let whole = |change: String, alias: &str, count: usize| match only_claimed {
            true => format!("{change} RETURNING {alias}{id}::text"),
            false => counted(&change, count),
        };
        let published = whole(format!("{published} WHERE {id} = ANY ($1::{cast}[]){}", guard("")), "", 2);
        let (others, count) = match table.layout {
            Layout::Status => {
                let (status, available, updated) =
                    (table.column(Role::Status), table.column(Role::AvailableAt), table.column(Role::UpdatedAt));
                let status_cast = table.columns.get(Role::Status).map_or("text", |column| column.cast.as_str());
                let others = format!(
                    "UPDATE {name} AS o SET {status} = m.status::{status_cast}, {attempts} = o.{attempts} + m.n, \
                     {error} = coalesce(m.error, o.{error}), {available} = clock_timestamp() + m.delay * interval '1 millisecond', \
                     {updated} = clock_timestamp() \
                     FROM unnest($1::{cast}[], $2::int4[], $3::text[], $4::float8[], $5::text[]) AS m (id, n, error, delay, status) \
                     WHERE o.{id} = m.id{}",
                    guard("o.")
                );
                (others, 6)
            }
            Layout::Published => {
                let others = format!(
                    "UPDATE {name} AS o SET {attempts} = o.{attempts} + m.n, {error} = coalesce(m.error, o.{error}) \
                     FROM unnest($1::{cast}[], $2::int4[], $3::text[]) AS m (id, n, error) WHERE o.{id} = m.id"
                );
                (others, 4)
            }
        };
        Self {
            published: Statement::new(published),
            others: Statement::new(whole(others, "o.", count)),
            is_counted: !only_claimed,
            dead: (table.layout == Layout::Published).then(|| table.words.dead.clone()),
            words: (table.words.pending.clone(), table.words.failed.clone()),
        }
    }

    /// Both statements, for preparing them where a claim is made: a mark must not be the first to meet a server.
    pub(crate) fn statements(&self) -> [&Statement; 2] {
        [&self.published, &self.others]
    }

    /// Marks these rows published.
    pub(crate) fn published(&self, ids: &[&str]) -> (&Statement, Vec<Value>) {
        let mut values = keys(ids);
        values.extend(self.count(ids.len()));
        (&self.published, values)
    }

    /// Marks these rows with what else became of them.
    pub(crate) fn others(&self, rows: &[Other]) -> (&Statement, Vec<Value>) {
        let numbers = |value: fn(&Other) -> u32| array::numbers(rows.iter().map(value));
        let errors: Vec<Option<String>> = rows.iter().map(|row| self.error(row)).collect();
        let mut values = vec![
            Value::Text(array::texts(rows.iter().map(|row| Some(row.id.as_str())))),
            Value::Text(numbers(|row| row.attempts)),
            Value::Text(array::texts(errors.iter().map(Option::as_deref))),
        ];
        if self.dead.is_none() {
            let (pending, failed) = &self.words;
            let status = |row: &Other| if row.after.is_some() { pending.as_str() } else { failed.as_str() };
            values.push(Value::Text(numbers(|row| row.after.unwrap_or(0))));
            values.push(Value::Text(array::texts(rows.iter().map(|row| Some(status(row))))));
        }
        values.extend(self.count(rows.len()));
        (&self.others, values)
    }

    fn count(&self, rows: usize) -> Option<Value> {
        self.is_counted.then(|| Value::count(rows))
    }

    /// The error as the table keeps it. One that begins like a dead row's and isn't meant so would make it one.
    fn error(&self, row: &Other) -> Option<String> {
        match (&self.dead, row.after) {
            (Some(dead), None) => Some(format!("{dead}{}", row.error.as_deref().unwrap_or_default())),
            (Some(dead), Some(_)) => row.error.as_ref().map(|error| match error.starts_with(dead.as_str()) {
                true => format!("({error})"),
                false => error.clone(),
            }),
            (None, _) => row.error.clone(),
        }
    }
}

/// What stands in the error of a change that is short of rows, before how many there were.
pub(crate) const SHORT: &str = "waybill: ";

/// A change that is an error where it changes another number of rows than parameter `count` says: so COMMIT can be sent along with it.
fn counted(change: &str, count: usize) -> String {
    format!(
        "WITH m AS ({change} RETURNING 1) SELECT CASE WHEN count(*) = ${count}::int8 THEN count(*) \
         ELSE ('{SHORT}' || count(*) || ' rows were changed of ' || ${count}::int8)::int8 END FROM m"
    )
}

/// The rows that a claim by a word takes, and the sign of life of what is at work.
#[derive(Clone, Debug)]
pub(crate) struct WordClaims {
    pub(crate) take: Statement,
    pub(crate) extend: Statement,
    /// Gives back untried.
    pub(crate) release: Statement,
}

impl WordClaims {
    /// none if the table's rows have no word for it.
    pub(crate) fn new(table: &Table) -> Option<Self> {
        if !table.has_ttl() {
            return None;
        }
        let (name, id, cast) = (&table.name, table.column(Role::Id), table.id_cast());
        let (status, updated) = (table.column(Role::Status), table.column(Role::UpdatedAt));
        let (pending, processing) = (literal(&table.words.pending), literal(&table.words.processing));
        let rows = format!("WHERE {id} = ANY ($1::{cast}[])");
        let claimed = format!("{rows} AND {status} = {processing}");
        let set = |to: &str| format!("UPDATE {name} SET {status} = {to}, {updated} = clock_timestamp()");
        Some(Self {
            take: Statement::new(counted(&format!("{} {rows}", set(&processing)), 2)),
            extend: Statement::new(format!(
                "UPDATE {name} SET {updated} = clock_timestamp() {claimed} RETURNING {id}::text"
            )),
            release: Statement::new(format!("{} {claimed} RETURNING {id}::text", set(&pending))),
        })
    }
}

/// The rows that [`WordClaims::take`] takes, all of them.
pub(crate) fn taken(ids: &[&str]) -> Vec<Value> {
    let mut values = keys(ids);
    values.push(Value::count(ids.len()));
    values
}

/// What the statements above are about: the keys of rows.
pub(crate) fn keys(ids: &[&str]) -> Vec<Value> {
    vec![Value::Text(array::texts(ids.iter().map(|id| Some(*id))))]
}

#[cfg(test)]
mod tests {
    use super::super::columns::tests::by_status;
    use super::super::tests::{described, table4, table5};
    use super::*;

    fn other(error: Option<&str>, after: Option<u32>) -> Other {
        Other { id: "7".to_owned(), attempts: 1, error: error.map(str::to_owned), after }
    }

    #[test]
    fn rows_are_marked_as_the_documents_do() {
        let marks = Marks::new(&table4(), false);
        let change = r#"UPDATE "outbox_events" SET "status" = 'published', "published_at" = clock_timestamp(), "updated_at" = clock_timestamp(), "last_error" = NULL WHERE "id" = ANY ($1::int8[])"#;
        assert_eq!(marks.published.sql(), counted(change, 2));
        let marks = Marks::new(&table5(), false);
        let change = r#"UPDATE "outbox_events" SET "published_at" = clock_timestamp(), "publish_attempts" = "publish_attempts" + 1, "publish_error" = NULL WHERE "id" = ANY ($1::uuid[])"#;
        assert_eq!(marks.published.sql(), counted(change, 2));
    }

    #[test]
    fn a_mark_says_how_many_rows_it_has_to_change() {
        for (table, others) in [(table4(), 6), (table5(), 4)] {
            let marks = Marks::new(&table, false);
            let (statement, values) = marks.others(&[other(None, Some(1))]);
            assert_eq!((values.len(), values.last()), (others, Some(&Value::count(1))));
            assert!(statement.sql().contains(&format!("count(*) = ${others}::int8")), "{}", statement.sql());
            assert_eq!(marks.published(&["1", "2"]).1.get(1), Some(&Value::count(2)));
        }
        assert_eq!(Marks::new(&table4(), true).published(&["1"]).1.len(), 1, "there each row is told");
    }

    #[test]
    fn what_is_published_is_deleted_where_it_is_wanted() {
        let table = described(r#"{"delete":true}"#, by_status()).unwrap_or_else(|_| table4());
        assert!(Marks::new(&table, false).published.sql().contains(r#"(DELETE FROM "outbox_events" WHERE"#));
    }

    #[test]
    fn a_claim_by_a_word_marks_only_what_it_still_has() {
        let marks = Marks::new(&table4(), true);
        for statement in marks.statements() {
            assert!(statement.sql().contains(r#""status" = 'processing' RETURNING"#), "{}", statement.sql());
        }
    }

    #[test]
    fn a_dead_row_is_one_by_its_status_or_by_how_its_error_begins() {
        let (_, values) = Marks::new(&table4(), false).others(&[other(Some("a"), None), other(None, Some(250))]);
        let texts: Vec<Value> = ["{\"7\",\"7\"}", "{1,1}", "{\"a\",NULL}", "{0,250}", "{\"failed\",\"pending\"}", "2"]
            .map(|text| Value::Text(text.to_owned()))
            .into();
        assert_eq!(values, texts);
        let rows = [other(Some("a"), None), other(Some("a"), Some(250)), other(Some("DEAD end"), Some(250))];
        let (_, values) = Marks::new(&table5(), false).others(&rows);
        assert_eq!(values.get(2), Some(&Value::Text("{\"DEAD a\",\"a\",\"(DEAD end)\"}".to_owned())));
    }
}
