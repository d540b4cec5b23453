#![allow(clippy::unwrap_used)]
use super::*;

fn run(query: &str, bindings: serde_json::Value) -> Result<Option<String>, StoreError> {
    let serde_json::Value::Object(bindings) = bindings else { unreachable!("bindings are an object") };
    check(&Statement { query: query.into(), bindings }, 1, &HashSet::from(["earlier".to_owned()]))
        .map(|checked| checked.sets)
}

#[test]
fn ordinary_statements_pass() {
    let bindings =
        serde_json::json!({ "id": 7, "t": "orders", "r": "orders:7", "rows": [{ "id": 1 }], "status": "parked" });
    for query in [
        "SELECT * FROM orders WHERE status = 'parked' AND audit = true LIMIT 10",
        "SELECT *, ->placed->orders.* AS placed FROM person:1 FETCH customer",
        "CREATE orders SET outbox = 'outbox:1', parked = $status, items = [1, 2], at = time::now()",
        "CREATE orders:17 CONTENT { total: 12.5dec, note: 'outbox' } RETURN AFTER",
        "CREATE type::record('orders', $id) SET total = math::sum([1, 2])",
        "UPDATE type::record($t, $id) MERGE { scheduled: true }",
        "UPSERT type::record($r) SET n += 1",
        "INSERT INTO orders $rows ON DUPLICATE KEY UPDATE n += 1",
        "INSERT INTO $t $rows",
        "INSERT { id: orders:1, n: 1 }",
        "DELETE orders WHERE id IN [orders:1, orders:2] RETURN BEFORE",
        "RELATE person:1->placed->orders:17 SET at = time::now()",
        "LET $total = (SELECT VALUE math::sum(amount) FROM line WHERE order = $id GROUP ALL)",
        "RETURN { LET $x = 5; IF $x > 3 { CREATE orders SET n = $x } ELSE { THROW 'small' } }",
        "RETURN array::map([1, 2], |$v: int| $v * 2)",
        "UPDATE $earlier SET paid = true",
        "SELECT * FROM fn::report(2026)",
        "RETURN <record> 'orders:1'",
        "SELECT * FROM orders:1..100",
        "RETURN string::uppercase($t) + encoding::base64::encode(<bytes> 'x')",
    ] {
        let checked = run(query, bindings.clone());
        assert!(checked.is_ok(), "{query}: {checked:?}");
    }
    assert_eq!(run("LET $total = 5", bindings).unwrap().as_deref(), Some("total"));
}

#[test]
fn own_tables_are_refused_wherever_they_are_named() {
    let bindings = serde_json::json!({ "t": "outbox", "r": "outbox_shard:0", "q": "⟨outbox⟩:1", "u": "`outbox`:[0, 1]", "orders": "orders" });
    for query in [
        "SELECT * FROM outbox",
        "SELECT * FROM ONLY outbox_shard:0",
        "SELECT * FROM `outbox`",
        "SELECT * FROM ⟨outbox⟩",
        "SELECT * FROM orders, outbox_door",
        "SELECT (SELECT * FROM dead_letters) FROM orders",
        "SELECT * FROM orders WHERE id IN (SELECT VALUE id FROM parked)",
        "SELECT ->placed->outbox FROM person:1",
        "SELECT <-outbox<-person FROM orders",
        "SELECT * FROM outbox:[0, 1]..[0, 9]",
        "UPDATE outbox_shard:0 SET token = 99",
        "UPSERT outbox_shard SET token = 99",
        "CREATE outbox_door:[0, 1, 0, 'x'] SET topic = 'bus:x'",
        "INSERT INTO outbox { id: 1 }",
        "INSERT INTO $t { id: 1 }",
        "INSERT { id: outbox:1 }",
        "INSERT INTO orders { link: outbox:1 }",
        "CREATE orders SET link = outbox_shard:0",
        "DELETE scheduled",
        "RELATE outbox:1->placed->orders:1",
        "RELATE person:1->outbox->orders:1",
        "RELATE person:1->$t->orders:1",
        "LET $x = outbox:1",
        "LET $x = r'outbox:1'",
        "RETURN outbox:1.data",
        "RETURN r\"outbox_shard:0\".token",
        "RETURN { SELECT * FROM waybill_meta }",
        "RETURN array::map([1], |$v| (SELECT * FROM outbox))",
        "FOR $x IN [1] { DELETE outbox }",
        "CREATE type::record('outbox', 1)",
        "CREATE type::record($t, 1)",
        "UPDATE type::record($r) SET token = 9",
        "UPDATE type::record($q) SET token = 9",
        "UPDATE type::record($u) SET token = 9",
        "UPDATE type::record('outbox_shard:0') SET token = 9",
        "SELECT * FROM type::table('parked')",
        "SELECT * FROM type::table($t)",
        "RETURN <record> 'outbox:1'",
        "RETURN <record> $r",
        "RETURN <record<outbox>> $r",
        "LET $x = fn::waybill::enqueue({ topic: 'bus:x', payload: 1 })",
        "LET $x = fn::waybill::append({ stream: 'a', resource_type: 'T', resource_id: 'r', op: 1, schema_version: 1 })",
        "RETURN fn::waybill::outbox('acme')",
        "SELECT * FROM waybill_migration",
        "SELECT * FROM plugin_kv",
    ] {
        let refused = run(query, bindings.clone());
        assert!(refused.is_err(), "{query} passed");
        if !query.starts_with("FOR") {
            assert!(matches!(refused, Err(StoreError::OwnTable { .. })), "{query}: {refused:?}");
        }
    }
}

#[test]
fn computed_names_are_refused() {
    let bindings = serde_json::json!({ "t": "orders", "earlier": "orders", "part": "box:1" });
    for query in [
        "SELECT * FROM type::table('out' + 'box')",
        "CREATE type::record('out' + 'box', 1)",
        "UPDATE type::record(string::concat('out', $part)) SET x = 1",
        "RETURN <record> ('out' + $part)",
        "RETURN <array<record>> ['outbox:1']",
        "RETURN <option<record>> ('out' + 'box:1')",
        "RETURN ('out' + 'box:1').to_record()",
        "RETURN array::map(['outbox:1'], |$v| <record> $v)",
        "RETURN array::map(['outbox:1'], |$t| type::record($t))",
        "RETURN array::map(['outbox:1'], |$v| $v.to_record())",
        "INSERT INTO $earlier { id: 1 }",
        "RETURN { LET $t = 'outbox'; INSERT INTO $t { id: 1 } }",
        "RETURN { FOR $t IN ['outbox'] { INSERT INTO $t { id: 1 } } }",
        "RELATE person:1->$earlier->orders:1",
        "RETURN encoding::cbor::decode($t)",
        "SELECT type::fields(['->placed->outbox']) FROM person",
        "RETURN eval::surql('SELECT * FROM outbox')",
        "CREATE |outbox:3|",
        "CREATE |orders:3|",
    ] {
        assert!(run(query, bindings.clone()).is_err(), "{query} passed");
    }
}

#[test]
fn other_kinds_of_statements_are_refused() {
    for query in [
        "",
        "CREATE orders; DELETE outbox",
        "CREATE orders; COMMIT",
        "BEGIN",
        "COMMIT",
        "CANCEL",
        "BEGIN; CREATE orders; COMMIT",
        "DEFINE TABLE orders",
        "REMOVE TABLE outbox",
        "REMOVE TABLE orders",
        "ALTER TABLE orders DROP COMMENT",
        "REBUILD INDEX i ON orders",
        "INFO FOR DB",
        "USE DB other",
        "LIVE SELECT * FROM orders",
        "KILL u'0189d6e3-8eac-703a-9a48-d9faa78b44b9'",
        "SHOW CHANGES FOR TABLE orders SINCE 1",
        "OPTION IMPORT",
        "SLEEP 10s",
        "THROW 'x'",
        "1 + 1",
        "$x",
        "IF true { CREATE orders }",
        "FOR $x IN [1] { CREATE orders }",
        "RETURN { DEFINE TABLE x }",
        "RETURN { SLEEP 1h }",
        "RETURN http::get('http://169.254.169.254/')",
        "RETURN sleep(1h)",
        "RETURN function() { return 1 }",
        "RETURN api::invoke('/x')",
        "RETURN file::get(f'b:/x')",
        "EXPLAIN SELECT * FROM orders",
        "SELECT * FROM",
    ] {
        assert!(matches!(run(query, serde_json::json!({})), Err(StoreError::Statement(_))), "{query}");
    }
}

#[test]
fn names_of_values_are_plain_and_none_that_the_database_sets() {
    let quoted = ["x; SELECT * FROM dead_letters", "a b", "x\u{0}y", "é", "1a", ""];
    for name in quoted {
        for query in [
            format!("LET $`{name}` = 5"),
            format!("LET $⟨{name}⟩ = 5"),
            format!("RETURN {{ LET $`{name}` = 5; 1 }}"),
            format!("RETURN {{ FOR $`{name}` IN [1] {{ CREATE orders }} }}"),
            format!("RETURN array::map([1], |$`{name}`| 1)"),
        ] {
            let refused = run(&query, serde_json::json!({}));
            assert!(matches!(refused, Err(StoreError::Statement(_))), "{query}: {refused:?}");
        }
        let mut bindings = serde_json::Map::new();
        bindings.insert(name.to_owned(), 1.into());
        assert!(run("RETURN 1", bindings.into()).is_err(), "a binding {name:?} passed");
    }
    let long = "a".repeat(65);
    assert!(run(&format!("LET ${long} = 1"), serde_json::json!({})).is_err());
    for name in names::RESERVED {
        for query in [
            format!("LET ${name} = 5"),
            format!("RETURN {{ LET ${name} = 5; 1 }}"),
            format!("RETURN {{ FOR ${name} IN ['outbox'] {{ CREATE orders }} }}"),
            format!("RETURN array::map(['outbox'], |${name}| 1)"),
            format!("CREATE type::record(${name}, 1)"),
            format!("SELECT * FROM type::table(${name})"),
            format!("RETURN <record> ${name}"),
            format!("INSERT INTO ${name} {{ id: 1 }}"),
        ] {
            assert!(run(&query, serde_json::json!({})).is_err(), "{query} passed");
        }
        let bindings = serde_json::json!({ name: "orders" });
        assert!(run("RETURN 1", bindings).is_err(), "a binding ${name} passed");
        assert!(run(&format!("RETURN ${name}"), serde_json::json!({})).is_ok(), "${name} can't be read");
    }
}

#[test]
fn a_binding_that_the_statement_sets_itself_names_no_table_wherever_it_is_set() {
    let bindings = serde_json::json!({ "t": "orders" });
    for query in [
        "RETURN { LET $t = 'outbox'; INSERT INTO $t { id: 1 } }",
        "RETURN { INSERT INTO $t { id: 1 }; LET $t = 'outbox' }",
        "RETURN { FOR $n IN [1, 2] { INSERT INTO $t { id: $n }; LET $t = 'outbox' } }",
        "RETURN [type::table($t), array::map(['outbox'], |$t| $t)]",
    ] {
        assert!(run(query, bindings.clone()).is_err(), "{query} passed");
    }
}

#[test]
fn functions_that_the_database_has_are_judged_one_by_one() {
    let allowed = functions::tests::allowed();
    for name in [
        "http::get",
        "sleep",
        "file::get",
        "api::invoke",
        "eval::surql",
        "encoding::cbor::decode",
        "type::field",
        "type::fields",
        "type::file",
        "type::array",
        "type::set",
        "type::range",
        "crypto::argon2::generate",
        "crypto::argon2::compare",
        "crypto::bcrypt::generate",
        "crypto::scrypt::generate",
        "crypto::pbkdf2::generate",
        "array::fold",
        "array::reduce",
        "array::repeat",
        "array::range",
        "array::sequence",
        "array::fill",
        "array::combine",
        "array::transpose",
        "array::windows",
        "set::fold",
        "set::reduce",
        "string::repeat",
        "string::matches",
        "string::distance::damerau_levenshtein",
        "string::similarity::smithwaterman",
        "string::html::sanitize",
        "search::analyze",
        "search::highlight",
        "value::diff",
        "value::patch",
        "schema::table::exists",
    ] {
        assert!(!allowed.contains(&name), "{name}");
        let refused = run(&format!("RETURN {name}('a', 'b')"), serde_json::json!({}));
        assert!(matches!(&refused, Err(StoreError::Statement(cause)) if cause.contains(name)), "{name}: {refused:?}");
    }
    for method in
        ["fold", "reduce", "repeat", "fill", "range", "windows", "combine", "to_record", "to_table", "no_such_method"]
    {
        assert!(run(&format!("RETURN [1].{method}(2)"), serde_json::json!({})).is_err(), "{method}");
        assert!(run(&format!("SELECT a.{method}(2) FROM orders"), serde_json::json!({})).is_err(), "{method}");
    }
    for query in ["RETURN [1].map(|$v| $v + 1).len()", "RETURN 'a'.uppercase()", "SELECT name.is_email() FROM person"] {
        assert!(run(query, serde_json::json!({})).is_ok(), "{query}");
    }
}

#[test]
fn only_what_nothing_else_reads_beside_is_a_scan_that_lets_rows_go() {
    use waybill_surreal::Holds;
    let bindings = serde_json::json!({ "n": 7 }).as_object().cloned().unwrap();
    let scan = |query: &str| {
        let statement = Statement { query: query.into(), bindings: bindings.clone() };
        let checked = check(&statement, 1, &HashSet::new()).unwrap();
        scan_of(&checked.plan, &Names { lets: &std::collections::HashMap::new(), bindings: &bindings })
    };
    for query in [
        "SELECT count() FROM a GROUP ALL",
        "SELECT count() AS n, math::max(price) AS most FROM a WHERE price > 1 AND !sold GROUP ALL",
        "LET $n = (SELECT count() FROM a WHERE n = $n GROUP ALL)",
        "UPDATE a SET n += $n WHERE string::lowercase(name) = 'x' RETURN NONE",
        "DELETE a WHERE at < time::now() - 7d",
        "DELETE a RETURN NONE",
    ] {
        let found = scan(query);
        assert!(found.as_ref().is_some_and(|scan| matches!(scan.holds, Holds::Nothing)), "{query}: {found:?}");
    }
    for query in [
        "SELECT * FROM a WHERE n = $n",
        "SELECT a, string::uppercase(b) AS b FROM a WHERE n = 1 OR n = 2 ORDER BY a LIMIT 3",
        "SELECT array::group(text) AS texts FROM a WHERE n = 1 GROUP ALL",
        "UPDATE a SET n = 1 WHERE n = 2",
        "DELETE a WHERE n = 1 RETURN BEFORE",
    ] {
        let found = scan(query);
        assert!(found.as_ref().is_some_and(|scan| matches!(scan.holds, Holds::Matching(_))), "{query}: {found:?}");
    }
    for query in [
        "SELECT * FROM a",
        "SELECT * FROM a, b WHERE n = 1",
        "SELECT * FROM a:1..5 WHERE n = 1",
        "SELECT array::group(text) FROM a GROUP ALL",
        "SELECT math::sum((SELECT VALUE n FROM a)) FROM a GROUP ALL",
        "SELECT math::max(a), math::max(b), math::max(c), math::max(d), math::max(e), math::max(f), math::max(g), \
         math::max(h), math::max(i) FROM a GROUP ALL",
        "SELECT count() FROM a WHERE n IN (SELECT VALUE n FROM a) GROUP ALL",
        "SELECT count() FROM a WHERE ->b->a GROUP ALL",
        "SELECT count() FROM a WHERE $n OR n = 1 GROUP ALL",
        "SELECT *, (SELECT * FROM a) AS all_rows FROM a WHERE n = 1",
        "SELECT * FROM a WHERE n = 1 LIMIT array::len((SELECT * FROM a))",
        "SELECT * FROM a WHERE n = 1 FETCH link",
        "UPDATE a SET n = (SELECT VALUE n FROM a) WHERE n = 1 RETURN NONE",
        "UPDATE a SET n = 1 WHERE n = 1 RETURN n",
        "DELETE a WHERE n IN (SELECT VALUE n FROM a)",
        "UPDATE a SET n = 1",
        "CREATE a",
    ] {
        let found = scan(query);
        assert!(found.is_none(), "{query}: {found:?}");
    }
}
