//! Every place in the grammar where an expression, a name or a parameter may stand.

use serde_json::json;

use super::{Tried, Walls, passes};

/// For every field of every statement and expression that can hold an expression: a text with a hole there. SPLIT, GROUP BY and
/// ORDER BY take plain paths only.
const EXPRESSIONS: &[(&str, &str)] = &[
    ("select.fields", "SELECT @ AS a FROM orders"),
    ("select.fields value", "SELECT VALUE @ FROM orders"),
    ("select.omit", "SELECT * OMIT a[WHERE @] FROM orders"),
    ("select.what", "SELECT * FROM @"),
    ("select.what second", "SELECT * FROM orders, @"),
    ("select.cond", "SELECT * FROM orders WHERE @"),
    ("select.limit", "SELECT * FROM orders LIMIT @"),
    ("select.start", "SELECT * FROM orders START @"),
    ("select.fetch", "SELECT * FROM orders FETCH a[WHERE @]"),
    ("select.version", "SELECT * FROM orders VERSION @"),
    ("select.timeout", "SELECT * FROM orders TIMEOUT @"),
    ("create.what", "CREATE @"),
    ("create.data set", "CREATE orders SET a = @"),
    ("create.data content", "CREATE orders CONTENT { a: @ }"),
    ("create.output", "CREATE orders RETURN @ AS a"),
    ("create.timeout", "CREATE orders TIMEOUT @"),
    ("insert.into", "INSERT INTO @ { id: 7 }"),
    ("insert.data", "INSERT INTO orders { id: 7, a: @ }"),
    ("insert.data whole", "INSERT INTO orders @"),
    ("insert.data values", "INSERT INTO orders (id, a) VALUES (7, @)"),
    ("insert.update", "INSERT INTO orders { id: 1 } ON DUPLICATE KEY UPDATE a = @"),
    ("insert.output", "INSERT INTO orders { id: 7 } RETURN @ AS a"),
    ("insert.timeout", "INSERT INTO orders { id: 7 } TIMEOUT @"),
    ("insert.relation", "INSERT RELATION INTO placed { in: orders:1, out: orders:2, a: @ }"),
    ("update.what", "UPDATE @ SET a = 1"),
    ("update.data set", "UPDATE orders SET a = @"),
    ("update.data unset", "UPDATE orders UNSET a[WHERE @]"),
    ("update.data merge", "UPDATE orders MERGE { a: @ }"),
    ("update.data patch", "UPDATE orders PATCH [{ op: 'add', path: '/a', value: @ }]"),
    ("update.data replace", "UPDATE orders REPLACE { a: @ }"),
    ("update.data content", "UPDATE orders CONTENT { a: @ }"),
    ("update.cond", "UPDATE orders SET a = 1 WHERE @"),
    ("update.output", "UPDATE orders SET a = 1 RETURN @ AS a"),
    ("update.timeout", "UPDATE orders SET a = 1 TIMEOUT @"),
    ("upsert.what", "UPSERT @ SET a = 1"),
    ("upsert.data", "UPSERT orders:5 SET a = @"),
    ("upsert.cond", "UPSERT orders SET a = 1 WHERE @"),
    ("upsert.output", "UPSERT orders:5 SET a = 1 RETURN @ AS a"),
    ("upsert.timeout", "UPSERT orders:5 SET a = 1 TIMEOUT @"),
    ("delete.what", "DELETE @"),
    ("delete.cond", "DELETE orders WHERE @"),
    ("delete.output", "DELETE orders RETURN @ AS a"),
    ("delete.timeout", "DELETE orders TIMEOUT @"),
    ("relate.from", "RELATE @->placed->orders:2"),
    ("relate.through", "RELATE orders:1->@->orders:2"),
    ("relate.to", "RELATE orders:1->placed->@"),
    ("relate.data", "RELATE orders:1->placed->orders:2 SET a = @"),
    ("relate.output", "RELATE orders:1->placed->orders:2 RETURN @ AS a"),
    ("relate.timeout", "RELATE orders:1->placed->orders:2 TIMEOUT @"),
    ("let.what", "LET $x = @"),
    ("return.what", "RETURN @"),
    ("return.fetch", "RETURN orders:1 FETCH a[WHERE @]"),
    ("foreach.range", "RETURN { FOR $x IN @ { CREATE orders } }"),
    ("foreach.block", "RETURN { FOR $x IN [1] { LET $y = @ } }"),
    ("ifelse.condition", "RETURN IF @ { 1 }"),
    ("ifelse.then", "RETURN IF true { @ }"),
    ("ifelse.second condition", "RETURN IF false { 1 } ELSE IF @ { 2 }"),
    ("ifelse.else", "RETURN IF false { 1 } ELSE { @ }"),
    ("block", "RETURN { @; 1 }"),
    ("nested return", "RETURN { RETURN @ }"),
    ("throw", "RETURN { THROW @ }"),
    ("literal.array", "RETURN [1, @]"),
    ("literal.object", "RETURN { a: @ }"),
    ("literal.record id array", "RETURN orders:[1, @]"),
    ("literal.record id object", "RETURN orders:{ a: @ }"),
    ("literal.record id range", "SELECT * FROM orders:[1, @]..[2]"),
    ("literal.record id range end", "SELECT * FROM orders:[1]..[2, @]"),
    ("prefix", "RETURN !@"),
    ("prefix negate", "RETURN -@"),
    ("prefix range", "RETURN ..@"),
    ("prefix cast", "RETURN <string> @"),
    ("postfix method", "RETURN @.len()"),
    ("postfix method argument", "RETURN [1].add(@)"),
    ("postfix call", "RETURN { LET $f = |$v: any| 1; $f(@) }"),
    ("binary left", "RETURN @ = 1"),
    ("binary right", "RETURN 1 + @"),
    ("binary in", "RETURN 1 IN @"),
    ("binary coalescing", "RETURN NONE ?? @"),
    ("call argument", "RETURN array::len(@)"),
    ("call naming argument", "RETURN type::record('orders', @)"),
    ("call custom argument", "RETURN fn::mine(@)"),
    ("closure body", "RETURN array::map([1], |$v| @)"),
    ("idiom start", "RETURN (@).a"),
    ("idiom where", "SELECT a[WHERE @] FROM orders"),
    ("idiom value", "SELECT a[@] FROM orders"),
    ("idiom method", "SELECT a.add(@) FROM orders"),
    ("idiom destructure", "SELECT a.{ b: c[WHERE @] } FROM orders"),
    ("lookup fields", "SELECT ->(SELECT @ AS a FROM placed) FROM orders"),
    ("lookup cond", "SELECT ->(placed WHERE @) FROM orders"),
    ("lookup limit", "SELECT ->(placed LIMIT @) FROM orders"),
    ("lookup start", "SELECT ->(placed START @) FROM orders"),
    ("lookup range", "SELECT ->(placed:[1, @]..[2]) FROM orders"),
    ("recurse shortest", "RETURN orders:1.{..+shortest=@}->placed->orders"),
];

/// What may stand in one or another of them.
const HARMLESS: [&str; 6] = ["1", "'a'", "orders", "orders:1", "[1]", "5s"];

/// What may not stand in any of them.
const INTRUDERS: [&str; 6] = [
    "(SELECT * FROM outbox)",
    "(SELECT * FROM `outbox_shard`)",
    "{ CREATE leak SET rows = (SELECT * FROM ⟨dead_letters⟩); 0 }",
    "outbox_shard:0",
    "r'outbox_shard:0'",
    "(UPDATE outbox_shard SET token = 99)",
];

/// Places that take nothing but a bare name or a parameter, so that none of the intruders is an intruder there: [`TABLES`] tries names.
const NAMES_ONLY: [&str; 1] = ["insert.into"];

/// Every place where a table's name may stand.
const TABLES: &[&str] = &[
    "SELECT * FROM @",
    "SELECT * FROM ONLY @ LIMIT 1",
    "SELECT * FROM @:1",
    "SELECT * FROM @:1..2",
    "SELECT ->@ FROM orders",
    "SELECT <-@ FROM orders",
    "SELECT <->@ FROM orders",
    "SELECT ->(@ WHERE true) FROM orders",
    "SELECT ->(@:1..2) FROM orders",
    "SELECT ->placed->@.* FROM orders",
    "CREATE @",
    "CREATE @:9",
    "INSERT INTO @ { id: 9 }",
    "INSERT INTO @ (id) VALUES (9)",
    "INSERT RELATION INTO @ { in: orders:1, out: orders:2 }",
    "INSERT { id: @:9 }",
    "UPDATE @ SET token = 9",
    "UPSERT @ SET token = 9",
    "UPSERT @:9 SET token = 9",
    "DELETE @",
    "DELETE @:0",
    "RELATE @:0->placed->orders:1",
    "RELATE orders:1->@->orders:2",
    "RELATE orders:1->@:9->orders:2",
    "RELATE orders:1->placed->@:0",
    "RETURN @:0.token",
    "LET $x = @:0",
    "LET $x: record<@> = orders:1",
    "RETURN <record<@>> 'orders:1'",
    "RETURN array::map([1], |$v: record<@>| 1)",
    "RETURN array::map([1], |$v| -> record<@> { orders:1 })",
    "RETURN type::table('@')",
    "RETURN type::record('@', 0)",
    "RETURN type::record('@:0')",
    "RETURN <record> '@:0'",
    "RETURN record::exists(@:0)",
    "CREATE |@:3|",
];

/// A name as it may be written: bare, and in both quotes.
fn spellings(name: &str) -> [String; 3] {
    [name.to_owned(), format!("`{name}`"), format!("⟨{name}⟩")]
}

fn parses(query: &str) -> bool {
    surrealdb_syn::parse(query).is_ok()
}

#[tokio::test]
async fn nothing_of_waybills_passes_the_guard_at_any_place_of_an_expression() {
    let (mut passed, mut unparsed) = (Vec::new(), Vec::new());
    for (place, template) in EXPRESSIONS {
        let takes = |fillings: &[&str]| fillings.iter().any(|filling| parses(&template.replace('@', filling)));
        // What doesn't parse is refused for that, and says nothing about the guard.
        let (intruded, expected) = (takes(&INTRUDERS), !NAMES_ONLY.contains(place));
        if intruded != expected || !(intruded || takes(&HARMLESS)) {
            unparsed.push((place, template));
        }
        let queries = INTRUDERS.map(|intruder| template.replace('@', intruder));
        passed.extend(queries.into_iter().filter(|query| passes(query, &json!({})).is_ok()));
    }
    assert_eq!(passed, Vec::<String>::new());
    assert_eq!(unparsed, Vec::new(), "no intruder parses there, or one does where only names were expected");
}

#[tokio::test]
async fn no_table_of_waybills_passes_the_guard_however_it_is_spelled() {
    let (mut passed, mut unparsed) = (Vec::new(), Vec::new());
    for template in TABLES {
        if !parses(&template.replace('@', "outbox")) {
            unparsed.push(template);
        }
        for name in ["outbox", "outbox_shard", "saga", "waybill_audit", "plugin_kv"] {
            // In a text the quotes would be part of the name.
            let spelled = spellings(name).into_iter().filter(|spelling| !template.contains('\'') || spelling == name);
            let queries = spelled.map(|spelling| template.replace('@', &spelling));
            passed.extend(queries.filter(|query| passes(query, &json!({})).is_ok()));
        }
    }
    assert_eq!(passed, Vec::<String>::new());
    assert_eq!(unparsed, Vec::<&&str>::new());
}

#[tokio::test]
async fn the_wall_alone_stops_what_the_guard_would_have_at_every_place() {
    let store = Tried::new(Walls::WallAlone).await;
    for (_, template) in EXPRESSIONS {
        for intruder in [INTRUDERS[0], INTRUDERS[2], INTRUDERS[5]] {
            store.tries(&template.replace('@', intruder), &json!({})).await;
        }
    }
    for template in TABLES {
        store.tries(&template.replace('@', "outbox_shard"), &json!({})).await;
    }
}
