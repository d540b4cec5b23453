//! What makes publishing faster or its order surer: an index over the waiting rows, a column that numbers them, a trigger that
//! notifies. Each is created only when the operator asks for it; without them everything works, and a plan says what is lost.

use serde::Deserialize;
use waybill_plugin::broker::{Pool, Session as _};
use waybill_plugin::deadline::Deadline;
use waybill_plugin::provision::{Action, Change, Provision};
use waybill_plugin::transport::{CallInfo, Fault, OpenArgs, PluginError};

use crate::Postgres;
use crate::config::{Config, Keys};
use crate::database::read_catalog;
use crate::table::Table;
use crate::table::catalog::Catalog;
use crate::table::columns::{Layout, Role};
use crate::table::conditions::SEQ;
use crate::table::names::{literal, quoted};
use crate::wire::{Connection, Failed, Pipeline, Statement};

/// Code of what goes wrong here.
const CODE: &str = "POSTGRES.PROVISION";
/// Longest name at the server, in bytes.
const NAME_BYTES_MAX: usize = 63;
/// Where a topic stands in for the consumer's: nothing here depends on it.
const ANY_TOPIC: &str = "any";
/// The change of a table waits for its readers no longer than this, because everybody else waits behind it.
const LOCK_TIMEOUT: &str = "SELECT set_config('lock_timeout', '2s', true)";

/// What is wanted at the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Wanted {
    /// An index over the rows that wait.
    index: bool,
    /// A column that numbers rows, for tables in the order of a stamp.
    seq: bool,
    /// A trigger that notifies on the channel of `listen`.
    notify: bool,
}

impl Default for Wanted {
    fn default() -> Self {
        Self { index: true, seq: true, notify: false }
    }
}

/// A change, and the statements that make it: together in a transaction, or one alone.
#[derive(Clone, Debug, PartialEq)]
struct Step {
    change: Change,
    statements: Vec<String>,
}

impl Provision for Postgres {
    type Config = Config;

    async fn plan(call: &CallInfo, args: &OpenArgs, config: Config) -> Result<Vec<Change>, PluginError> {
        provision(call, args, config, false).await
    }

    async fn apply(call: &CallInfo, args: &OpenArgs, config: Config) -> Result<Vec<Change>, PluginError> {
        provision(call, args, config, true).await
    }
}

async fn provision(call: &CallInfo, args: &OpenArgs, config: Config, apply: bool) -> Result<Vec<Change>, PluginError> {
    let deadline = Deadline::of_call(call.timeout);
    let pool = Pool::<Connection>::new(args, config)?;
    let mut connection = pool.connect(deadline).await?;
    let own = &pool.config().own;
    let catalog = read_catalog(&mut connection, pool.config(), deadline).await?;
    let table = Table::describe(own, &catalog, own.topic.is_none().then_some(ANY_TOPIC))?;
    let has_trigger = match trigger(own, &catalog) {
        Some(name) => is_there(&mut connection, &table, &name, deadline).await?,
        None => false,
    };
    let steps = steps(own, &catalog, &table, has_trigger);
    let mut changes = Vec::with_capacity(steps.len());
    for step in steps {
        if apply
            && step.change.action == Action::Create
            && let Err(error) = make(&mut connection, &step, deadline).await
        {
            connection.stop(pool.endpoint()).await;
            return Err(error);
        }
        changes.push(step.change);
    }
    connection.close(deadline).await;
    Ok(changes)
}

/// What has to be done.
fn steps(keys: &Keys, catalog: &Catalog, table: &Table, has_trigger: bool) -> Vec<Step> {
    let wanted = &keys.provision;
    let has_seq = table.columns.get(Role::Seq).is_some();
    let offers_seq = table.layout == Layout::Published && wanted.seq && keys.order_by.is_empty();
    let mut steps = Vec::new();
    if offers_seq {
        steps.push(seq(catalog, table, has_seq));
    }
    if wanted.index && (table.layout == Layout::Status || has_seq || offers_seq) {
        steps.extend(index(catalog, table));
    }
    steps.extend(notify(keys, catalog, table, has_trigger));
    steps
}

/// The column that numbers rows. Its default is set after it is added, so that no row is written anew.
fn seq(catalog: &Catalog, table: &Table, is_there: bool) -> Step {
    let target = format!("column {SEQ} of table {}", table.name);
    if is_there {
        return Step { change: keep(target), statements: Vec::new() };
    }
    let sequence = format!("{}.{}", quoted(&catalog.schema), quoted(&named(&catalog.table, "_waybill_seq")));
    let (name, column) = (&table.name, quoted(SEQ));
    let statements = vec![
        format!("CREATE SEQUENCE IF NOT EXISTS {sequence}"),
        format!("ALTER TABLE {name} ADD COLUMN {column} bigint"),
        format!("ALTER TABLE {name} ALTER COLUMN {column} SET DEFAULT nextval({})", literal(&sequence)),
        format!("ALTER SEQUENCE {sequence} OWNED BY {name}.{column}"),
        // Whoever inserts rows draws from it, and must not fail now.
        format!("GRANT USAGE ON SEQUENCE {sequence} TO PUBLIC"),
    ];
    let lost = "numbers new rows; without it rows of one transaction have one stamp and go in the order of their ids, which is by chance";
    Step { change: create(target, lost, &statements), statements }
}

/// The index over the rows that wait; none for an order that an operator named, who knows better which.
fn index(catalog: &Catalog, table: &Table) -> Option<Step> {
    let over = table.order.index_over.as_deref()?;
    let name = named(&catalog.table, "_waybill_waits");
    let target = format!("index {name} of table {}", table.name);
    if catalog.has_index(over) {
        return Some(Step { change: keep(target), statements: Vec::new() });
    }
    if catalog.indexes.iter().any(|index| index.name == name) {
        let detail = format!(
            "it is there and of no use, e.g. since its making was stopped: DROP INDEX {}.{}",
            quoted(&catalog.schema),
            quoted(&name)
        );
        return Some(Step { change: Change { target, action: Action::Conflict, detail }, statements: Vec::new() });
    }
    let keys = match table.layout {
        Layout::Status => table.column(Role::Id),
        Layout::Published => {
            format!("coalesce({}, 0), {}, {}", quoted(SEQ), table.column(Role::OccurredAt), table.column(Role::Id))
        }
    };
    let statements =
        vec![format!("CREATE INDEX CONCURRENTLY {} ON {} ({keys}) WHERE {}", quoted(&name), table.name, table.waits())];
    let lost = match table.layout {
        Layout::Status => {
            "over what waits; without it each claim reads all that waits: 40 to 80 ms of 100,000 rows, instead of 1"
        }
        Layout::Published => "over what waits, in the order of the column; without it each claim sorts all that waits",
    };
    Some(Step { change: create(target, lost, &statements), statements })
}

/// The trigger that notifies, once a statement: inside each insert it costs four to seven times, so it is never made unasked.
fn notify(keys: &Keys, catalog: &Catalog, table: &Table, is_there: bool) -> Option<Step> {
    let (channel, name) = (keys.listen.as_deref()?, trigger(keys, catalog)?);
    let target = format!("trigger {name} of table {}", table.name);
    if is_there {
        return Some(Step { change: keep(target), statements: Vec::new() });
    }
    let function = format!("{}.{}", quoted(&catalog.schema), quoted(&name));
    let body = literal(&format!("BEGIN PERFORM pg_notify({}, ''); RETURN NULL; END", literal(channel)));
    let statements = vec![
        format!("CREATE OR REPLACE FUNCTION {function}() RETURNS trigger LANGUAGE plpgsql AS {body}"),
        format!(
            "CREATE TRIGGER {} AFTER INSERT ON {} FOR EACH STATEMENT EXECUTE FUNCTION {function}()",
            quoted(&name),
            table.name
        ),
    ];
    let lost = "notifies with each insert, which makes single inserts four to seven times slower; without it the host looks every `poll_every`";
    Some(Step { change: create(target, lost, &statements), statements })
}

/// What the trigger is called; none if none is wanted.
fn trigger(keys: &Keys, catalog: &Catalog) -> Option<String> {
    (keys.provision.notify && keys.listen.is_some()).then(|| named(&catalog.table, "_waybill_notify"))
}

/// A name after that of the table, as long as one may be.
fn named(table: &str, ending: &str) -> String {
    let mut end = table.len().min(NAME_BYTES_MAX - ending.len());
    while !table.is_char_boundary(end) {
        end -= 1;
    }
    format!("{}{ending}", table.get(..end).unwrap_or_default())
}

fn keep(target: String) -> Change {
    Change { target, action: Action::Keep, detail: String::new() }
}

fn create(target: String, lost: &str, statements: &[String]) -> Change {
    Change { target, action: Action::Create, detail: format!("{lost}. By hand: {}", statements.join("; ")) }
}

async fn is_there(
    connection: &mut Connection,
    table: &Table,
    trigger: &str,
    deadline: Deadline,
) -> Result<bool, PluginError> {
    let sql = format!(
        "SELECT 1 FROM pg_catalog.pg_trigger WHERE tgrelid = pg_catalog.to_regclass({}) AND tgname = {}",
        literal(&table.name),
        literal(trigger)
    );
    let answers =
        connection.run(&Pipeline::new().ask(&Statement::new(sql), Vec::new()), deadline).await.map_err(refused)?;
    Ok(answers.iter().any(|answer| !answer.rows.is_empty()))
}

/// Makes a step. An index is made beside readers and writers, which can't be in a transaction.
async fn make(connection: &mut Connection, step: &Step, deadline: Deadline) -> Result<(), PluginError> {
    let alone = step.statements.len() == 1;
    let mut pipeline = Pipeline::new();
    if !alone {
        pipeline = pipeline.command("BEGIN").command(LOCK_TIMEOUT);
    }
    for statement in &step.statements {
        pipeline = pipeline.ask(&Statement::new(statement.as_str()), Vec::new());
    }
    if !alone {
        pipeline = pipeline.command("COMMIT");
    }
    match connection.run(&pipeline, deadline).await {
        Ok(_) => Ok(()),
        Err(failed) => {
            let mut error = refused(failed);
            let by_hand = step.statements.join("; ");
            error.fault.reason = format!("{}: {}. By hand: {by_hand}", step.change.target, error.fault.reason);
            Err(error)
        }
    }
}

/// A refusal, with its class and under this code.
fn refused(failed: Failed) -> PluginError {
    match failed {
        Failed::Lost(error) => error,
        Failed::Refused(refusal) => {
            let mut error = refusal.error();
            error.fault = Fault { code: CODE.to_owned(), ..error.fault };
            error
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::table::catalog::Index;
    use crate::table::columns::Column;
    use crate::table::columns::tests::{by_publication, by_status, column};

    fn planned(json: &str, columns: Vec<Column>, indexes: Vec<Index>) -> Vec<(Action, String)> {
        let keys: Keys = waybill_plugin::config::parse(json).unwrap();
        let catalog = Catalog {
            schema: "public".to_owned(),
            table: "outbox_events".to_owned(),
            columns,
            indexes,
            ..Catalog::default()
        };
        let table = Table::describe(&keys, &catalog, Some(ANY_TOPIC)).unwrap();
        steps(&keys, &catalog, &table, false)
            .into_iter()
            .map(|step| (step.change.action, step.statements.join("; ")))
            .collect()
    }

    fn waits(over: &str, is_valid: bool) -> Index {
        Index { name: "outbox_events_waybill_waits".to_owned(), over: over.to_owned(), is_valid }
    }

    #[test]
    fn document_4_is_offered_an_index() {
        let made = r#"CREATE INDEX CONCURRENTLY "outbox_events_waybill_waits" ON "outbox_events" ("id") WHERE "status" IN ('pending', 'processing')"#;
        assert_eq!(planned("{}", by_status(), Vec::new()), [(Action::Create, made.to_owned())]);
        assert_eq!(planned("{}", by_status(), vec![waits("id", true)]), [(Action::Keep, String::new())]);
        assert_eq!(planned("{}", by_status(), vec![waits("id", false)]), [(Action::Conflict, String::new())]);
        assert_eq!(planned(r#"{"provision":{"index":false}}"#, by_status(), Vec::new()), []);
    }

    #[test]
    fn document_5_is_offered_a_column_and_an_index_over_it() {
        let planned_5 = planned("{}", by_publication(), Vec::new());
        let [(Action::Create, column_sql), (Action::Create, index_sql)] = planned_5.as_slice() else { unreachable!() };
        assert!(column_sql.contains(r#"SET DEFAULT nextval('"public"."outbox_events_waybill_seq"')"#), "{column_sql}");
        assert!(index_sql.contains(r#"(coalesce("seq", 0), "occurred_at", "id") WHERE"#), "{index_sql}");
        let mut numbered = by_publication();
        numbered.push(column("seq", "int8", true));
        let index = waits("COALESCE(seq, 0::bigint), occurred_at, id", true);
        let kept = planned("{}", numbered, vec![index]);
        assert_eq!(kept.iter().map(|(action, _)| *action).collect::<Vec<_>>(), [Action::Keep, Action::Keep]);
    }

    #[test]
    fn no_trigger_is_made_unasked() {
        assert_eq!(planned(r#"{"listen":"a"}"#, by_status(), vec![waits("id", true)]).len(), 1);
        let asked = planned(r#"{"listen":"o'k","provision":{"notify":true}}"#, by_status(), vec![waits("id", true)]);
        let (action, sql) = asked.last().unwrap();
        assert!(*action == Action::Create && sql.contains("pg_notify(''o''''k'', '''')"), "{sql}");
    }

    #[test]
    fn a_name_is_as_long_as_one_may_be() {
        assert_eq!(named("a", "_b"), "a_b");
        assert!(named(&"ö".repeat(63), "_waybill_waits").len() <= NAME_BYTES_MAX);
    }
}
