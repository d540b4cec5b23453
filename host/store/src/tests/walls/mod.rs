//! Two walls before Waybill's tables, each tested with the other one taken away, and both together.

mod differential;
mod exploits;
mod large;
mod peak;
mod positions;
mod rows;
mod scans;
mod shop;
mod trials;

use serde_json::json;
use surrealdb_expr::expr::LogicalPlan;
use waybill_core::port::store::StoreError;
use waybill_core::port::transact::{Statement, TransactStore};
use waybill_surreal::{
    Bound, ClosedTables, Fault, Reads, RecordIdKey, Row, from_json, int, key, object, text, to_json,
};

use super::{patient, sql};
use crate::SurrealStore;
use crate::guard::check;
use crate::tables::{DOOR, DOORSTEPS, META, OWN};

/// Tables that statements of these tests write to; the first two are there from the beginning.
const WRITTEN: [&str; 4] = ["leak", "orders", "placed", "fresh"];

/// Stands in every row of Waybill's that the tests put.
const CANARY: &str = "CANARY";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Walls {
    Both,
    /// What the guard refuses is run all the same.
    WallAlone,
    /// The wall below the query language closes no table.
    GuardAlone,
}

/// A store with canaries, behind some walls.
struct Tried {
    store: SurrealStore,
    walls: Walls,
    before: Vec<Vec<Row>>,
}

/// What a statement came to.
#[derive(Debug)]
enum Outcome {
    Ran(serde_json::Value),
    Refused(String),
}

impl Tried {
    async fn new(walls: Walls) -> Self {
        let closed = match walls {
            Walls::GuardAlone => ClosedTables { tables: &[], doorsteps: &DOORSTEPS, settings: META },
            Walls::Both | Walls::WallAlone => ClosedTables { tables: &OWN, doorsteps: &DOORSTEPS, settings: META },
        };
        let store = SurrealStore::open_closing(patient("mem://"), closed).await.unwrap();
        let transaction = store.engine.begin(true).await.unwrap();
        for table in OWN {
            for number in 0..2 {
                let fields = object([("canary", text(format!("{CANARY} {table}"))), ("token", int(1))]);
                transaction.put(table, RecordIdKey::Number(number), fields).await.unwrap();
            }
        }
        transaction.commit().await.unwrap();
        sql(&store, "CREATE leak:0 SET n = 0").await.unwrap();
        sql(&store, "CREATE orders:1 SET name = 'outbox', t = 'dead_letters', n = 1, link = orders:2; CREATE orders:2 SET n = 2")
            .await
            .unwrap();
        sql(&store, "RELATE orders:1->placed->orders:2").await.unwrap();
        let before = contents(&store).await;
        Self { store, walls, before }
    }

    /// Runs a statement as a caller's, committed if it may be.
    async fn run(&self, query: &str, bindings: &serde_json::Value) -> Outcome {
        let serde_json::Value::Object(bindings) = bindings.clone() else { unreachable!("bindings are an object") };
        let statement = Statement { query: query.to_owned(), bindings };
        if self.walls != Walls::WallAlone {
            return match self.store.transact(vec![statement], Vec::new(), Default::default(), None).await {
                Ok(mut done) => Outcome::Ran(done.results.remove(0)),
                Err(error) => Outcome::Refused(error.to_string()),
            };
        }
        let Ok(ast) = surrealdb_syn::parse(query) else { return Outcome::Refused("it can't be parsed".to_owned()) };
        let given = statement.bindings.into_iter().map(|(name, value)| (name, from_json(value))).collect();
        let transaction = self.store.engine.begin(true).await.unwrap();
        match transaction.run(LogicalPlan::from(ast), given, Reads::held(u64::MAX)).await {
            Ok(value) => {
                let value = to_json(value).unwrap_or(serde_json::Value::Null);
                match transaction.commit().await {
                    Ok(()) => Outcome::Ran(value),
                    Err(fault) => Outcome::Refused(fault.to_string()),
                }
            }
            Err(fault) => {
                transaction.cancel().await.unwrap();
                Outcome::Refused(fault.to_string())
            }
        }
    }

    /// Runs a statement and holds that nothing of Waybill's was read or changed.
    async fn tries(&self, query: &str, bindings: &serde_json::Value) -> Outcome {
        let outcome = self.run(query, bindings).await;
        if let Outcome::Ran(value) = &outcome {
            assert!(!value.to_string().contains(CANARY), "{:?}: {query} read {value}", self.walls);
        }
        // What a statement copied into a table of its own is read here. One by one: a table that isn't there can't be read.
        for table in WRITTEN {
            if let Outcome::Ran(rows) = self.run(&format!("SELECT * FROM {table}"), &json!({})).await {
                assert!(!rows.to_string().contains(CANARY), "{:?}: {query} copied {rows}", self.walls);
            }
        }
        let after = contents(&self.store).await;
        for (table, (before, after)) in OWN.iter().zip(self.before.iter().zip(&after)) {
            assert_eq!(before, after, "{:?}: {query} changed {table}", self.walls);
        }
        outcome
    }

    /// What statements wrote was looked at, and not only asked for.
    async fn could_look(&self) {
        for table in &WRITTEN[..2] {
            let looked = self.run(&format!("SELECT * FROM {table}"), &json!({})).await;
            assert!(matches!(looked, Outcome::Ran(_)), "{:?}: {table} can't be read: {looked:?}", self.walls);
        }
    }
}

/// All rows of Waybill's tables.
async fn contents(store: &SurrealStore) -> Vec<Vec<Row>> {
    let transaction = store.engine.begin(false).await.unwrap();
    let mut all = Vec::new();
    for table in OWN {
        let (from, until) = (RecordIdKey::Number(i64::MIN), key([text("\u{10ffff}")]));
        all.push(transaction.scan(table, Bound::Included(from), Bound::Included(until), 1_000).await.unwrap());
    }
    all
}

/// Whether the guard takes a statement.
fn passes(query: &str, bindings: &serde_json::Value) -> Result<(), StoreError> {
    let statement = Statement { query: query.to_owned(), bindings: bindings.as_object().cloned().unwrap() };
    check(&statement, 1, &std::collections::HashSet::new()).map(|_| ())
}

#[tokio::test]
async fn the_wall_alone_names_what_it_refused_and_leaves_the_host_to_its_work() {
    let tried = Tried::new(Walls::WallAlone).await;
    for (query, table) in [
        ("SELECT * FROM outbox_shard", "outbox_shard"),
        ("SELECT * FROM outbox_shard:0", "outbox_shard"),
        ("SELECT VALUE id FROM dead_letters", "dead_letters"),
        ("RETURN count((SELECT VALUE id FROM waybill_audit))", "waybill_audit"),
        ("RETURN record::exists(parked:1)", "parked"),
        ("UPDATE outbox_shard:0 SET token = 9", "outbox_shard"),
        ("CREATE outbox_door:[0, 1, 0, 'x'] SET topic = 'bus:x'", "outbox_door"),
        ("INSERT INTO waybill_meta { id: 'evil' }", "waybill_meta"),
        ("DELETE outbox", "outbox"),
        ("RELATE outbox:1->placed->orders:2", "outbox"),
        ("RETURN fn::waybill::enqueue({ topic: 'bus:x', payload: 1, tenant: 'victim' })", "waybill_meta"),
        (
            "RETURN fn::waybill::append({ stream: 'a', resource_type: 'T', resource_id: 'r', op: 1, schema_version: 1 })",
            "waybill_meta",
        ),
        ("CREATE stream_door:[0, 1, 0, 'x'] SET event_id = 'x'", "stream_door"),
        ("UPDATE stream:['acme', 'a'] SET last = 9", "stream"),
        ("SELECT * FROM event:['acme', 'a', 1]", "event"),
        ("RETURN fn::waybill::outbox('default')", "parked"),
    ] {
        let ast = surrealdb_syn::parse(query).unwrap();
        let transaction = tried.store.engine.begin(true).await.unwrap();
        let fault = transaction.run(LogicalPlan::from(ast), Vec::new(), Reads::held(u64::MAX)).await.unwrap_err();
        assert_eq!(fault, Fault::Closed(table.to_owned()), "{query}");
        transaction.cancel().await.unwrap();
        tried.tries(query, &json!({})).await;
    }
    // Refused by the table's own definition before a key of it is touched.
    let relate = surrealdb_syn::parse("RELATE orders:1->outbox->orders:2").unwrap();
    let transaction = tried.store.engine.begin(true).await.unwrap();
    assert!(
        transaction.run(LogicalPlan::from(relate), Vec::new(), Reads::held(u64::MAX)).await.is_err(),
        "a relation into a table of ours"
    );
    transaction.cancel().await.unwrap();
    // The host writes its own rows in a transaction on which a caller's statement ran.
    let transaction = tried.store.engine.begin(true).await.unwrap();
    let ast = surrealdb_syn::parse("UPDATE orders:1 SET n = 5").unwrap();
    transaction.run(LogicalPlan::from(ast), Vec::new(), Reads::held(u64::MAX)).await.unwrap();
    transaction.put(DOOR, RecordIdKey::Number(9), object([("mine", int(1))])).await.unwrap();
    transaction.commit().await.unwrap();
    let rows = sql(&tried.store, "SELECT VALUE mine FROM outbox_door:9").await.unwrap().remove(0);
    assert_eq!(to_json(rows).unwrap(), json!([1]));
}

#[tokio::test]
async fn the_wall_alone_keeps_definitions_users_and_other_databases() {
    let tried = Tried::new(Walls::WallAlone).await;
    sql(&tried.store, "DEFINE NAMESPACE other; USE NS other; DEFINE DATABASE other; USE NS other DB other; CREATE secret:1 SET c = 'CANARY'")
        .await
        .unwrap();
    for query in [
        "DEFINE TABLE pwned",
        "DEFINE TABLE OVERWRITE orders SCHEMAFULL",
        "DEFINE FIELD n ON orders TYPE string",
        "DEFINE EVENT e ON orders THEN {}",
        "DEFINE EVENT e ON outbox THEN {}",
        "DEFINE INDEX i ON orders FIELDS n",
        "DEFINE FUNCTION fn::mine() {}",
        "DEFINE FUNCTION OVERWRITE fn::waybill::enqueue($m: object) { RETURN 1 }",
        "DEFINE FUNCTION OVERWRITE fn::waybill::append($m: object) { RETURN 1 }",
        "DEFINE PARAM $p VALUE 1",
        "DEFINE USER evil ON DATABASE PASSWORD 'x' ROLES OWNER",
        "DEFINE USER evil ON ROOT PASSWORD 'x' ROLES OWNER",
        "DEFINE ACCESS a ON DATABASE TYPE RECORD",
        "DEFINE NAMESPACE mine",
        "REMOVE TABLE outbox",
        "REMOVE TABLE orders",
        "REMOVE FUNCTION fn::waybill::enqueue",
        "REMOVE FUNCTION fn::waybill::append",
        "REMOVE DATABASE waybill",
        "ALTER TABLE orders DROP COMMENT",
        "RETURN http::get('http://169.254.169.254/')",
        "RETURN { SLEEP 1ms; eval::surql('SELECT * FROM outbox') }",
        "USE NS other DB other; SELECT * FROM secret",
    ] {
        let outcome = tried.tries(query, &json!({})).await;
        match outcome {
            Outcome::Refused(cause) => assert!(!cause.is_empty(), "{query}"),
            // As an empty table it comes with its first record too.
            Outcome::Ran(value) => assert_eq!(query, "DEFINE TABLE pwned", "{value}"),
        }
    }
    let found =
        sql(&tried.store, "RETURN fn::waybill::enqueue({ topic: 'bus:x', payload: 1, id: 'still' })").await.unwrap();
    assert_eq!(to_json(found.into_iter().next().unwrap()).unwrap(), json!("still"));
}

/// What opens the doorsteps to the operator's functions opens nothing else.
#[tokio::test]
async fn a_function_of_the_operators_opens_no_table_but_the_doorsteps() {
    let tried = Tried::new(Walls::WallAlone).await;
    sql(&tried.store, "DEFINE FUNCTION fn::mine() { RETURN 1 }").await.unwrap();
    for query in [
        "SELECT * FROM outbox_shard",
        "SELECT * FROM outbox_shard:0",
        "SELECT * FROM waybill_meta:0, outbox_shard:0",
        "SELECT * FROM [waybill_meta:0, outbox_shard:0]",
        "SELECT * FROM [outbox_door:0, outbox_shard:0, outbox_door:1]",
        "RETURN [waybill_meta:0, outbox_shard:0].canary",
        "SELECT * FROM orders:1, waybill_meta:0, parked:0",
        "SELECT * FROM waybill_meta",
        "SELECT * FROM waybill_meta:0..5",
        "SELECT * FROM outbox_door, outbox",
        "DELETE outbox_door",
        "UPDATE waybill_meta:0 SET token = 9",
        "UPDATE outbox_door:0 SET token = 9",
        "SELECT * FROM stream_door, stream",
        "SELECT * FROM [stream_door:0, stream_shard:0, stream_door:1]",
        "SELECT * FROM event:0..5",
        "DELETE stream_door",
        "UPDATE stream_door:0 SET token = 9",
        "UPDATE stream:0 SET token = 9",
        "CREATE event_id:['acme', 'x'] SET seq = 9",
    ] {
        let outcome = tried.tries(query, &json!({})).await;
        assert!(matches!(outcome, Outcome::Refused(_)), "{query}: {outcome:?}");
    }
}

#[tokio::test]
async fn ordinary_work_passes_the_wall() {
    let tried = Tried::new(Walls::WallAlone).await;
    sql(
        &tried.store,
        "DEFINE TABLE priced; DEFINE INDEX by_n ON priced FIELDS n UNIQUE; DEFINE FIELD n ON priced TYPE int; DEFINE SEQUENCE numbers; \
         DEFINE TABLE logged CHANGEFEED 1h; DEFINE EVENT seen ON priced THEN { CREATE seen SET of = $value.id }",
    )
    .await
    .unwrap();
    for query in [
        "CREATE fresh:1 SET a = 1",
        "CREATE fresh SET a = [1, { b: 2 }]",
        "INSERT INTO fresh [{ id: 2 }, { id: 3 }]",
        "INSERT RELATION INTO knows { in: orders:1, out: orders:2 }",
        "UPSERT fresh:9 SET a += 1",
        "UPDATE fresh SET b = 2 WHERE a = 1",
        "SELECT *, ->placed->orders.* AS placed FROM orders:1 FETCH link",
        "SELECT <-placed<-orders FROM orders:2",
        "SELECT * FROM orders:1..2",
        "SELECT count() FROM fresh GROUP ALL",
        "RELATE orders:2->placed->orders:1 SET at = time::now()",
        "DELETE placed",
        "DELETE orders:2",
        "DELETE fresh WHERE a = 1 RETURN BEFORE",
        "CREATE priced:1 SET n = 1",
        "UPDATE priced:1 SET n = 2",
        "SELECT * FROM priced WHERE n = 2",
        "DELETE priced",
        "SELECT * FROM seen",
        "CREATE logged:1 SET a = 1",
        "RETURN sequence::nextval('numbers')",
    ] {
        let outcome = tried.run(query, &json!({})).await;
        assert!(matches!(outcome, Outcome::Ran(_)), "{query}: {outcome:?}");
    }
}
