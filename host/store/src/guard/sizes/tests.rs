#![allow(clippy::unwrap_used)]
use std::collections::HashSet;

use serde_json::json;
use waybill_surreal::{array, int, text};

use super::*;
use crate::guard::check;

fn judge(held: &Held, query: &str, bindings: serde_json::Value) -> Result<(), StoreError> {
    let statement = Statement { query: query.to_owned(), bindings: bindings.as_object().cloned().unwrap() };
    let checked = check(&statement, 1, &HashSet::new()).unwrap_or_else(|error| unreachable!("{query}: {error}"));
    held.fits(&statement, 1, &checked.plan).map(|_| ())
}

fn given() -> serde_json::Value {
    json!({
        "id": 7, "total": 12.5, "t": "orders", "r": "orders:7", "status": "parked", "tags": ["a", null], "note": "x".repeat(1_000),
        "nested": { "list": vec![0; 1_000] },
        "few": [1, 2, 3], "list": (0..1_000).collect::<Vec<i32>>(), "text": "x".repeat(1 << 20), "row": { "text": "x".repeat(500_000) },
        "rows": (0..1_000).map(|n| json!({ "id": n, "name": "somebody", "items": [{ "n": n, "price": 1 }] })).collect::<Vec<_>>(),
    })
}

#[test]
fn what_applications_write_fits() {
    for query in [
        "SELECT * FROM orders WHERE status = 'parked' AND audit = true AND a = 1 AND b = 2 AND c = 3 LIMIT 10",
        "SELECT *, ->placed->orders.* AS placed FROM person:1 FETCH customer",
        "SELECT id, a, b, c, d, e, f, g, h, i, j, k, l.m AS m, n + o AS sum FROM orders WHERE a = $id ORDER BY a",
        "SELECT string::lowercase(name) AS name, string::concat(first, ' ', last) AS whole FROM person",
        "SELECT count() FROM orders GROUP ALL",
        "SELECT *, (SELECT * FROM line WHERE order = $parent.id) AS lines FROM orders:7",
        "SELECT *, (SELECT * FROM line WHERE order = $parent.id) AS lines FROM orders LIMIT 5",
        "SELECT * FROM orders:1..100",
        "SELECT * FROM fn::report(2026)",
        "SELECT VALUE record::id(id) FROM item ORDER BY id",
        "SELECT $status AS status, * FROM orders",
        "SELECT items.{ n, price } FROM orders",
        "SELECT ->(placed WHERE n > 1) FROM orders",
        "CREATE orders SET outbox = 'outbox:1', parked = $status, items = [1, 2], at = time::now()",
        "CREATE orders:17 CONTENT { total: 12.5dec, note: 'outbox' } RETURN AFTER",
        "CREATE type::record('orders', $id) SET total = $total, tags = $tags, sum = math::sum([1, 2])",
        "CREATE large CONTENT $row",
        "UPDATE type::record($t, $id) MERGE { scheduled: true, note: $note }",
        "UPDATE orders SET note = $note, n += 1 WHERE status = 'new'",
        "UPDATE item SET text = $text RETURN NONE",
        "UPSERT type::record($r) SET n += 1",
        "INSERT INTO orders $rows ON DUPLICATE KEY UPDATE n += 1",
        "DELETE orders WHERE id IN [orders:1, orders:2] RETURN BEFORE",
        "RELATE person:1->placed->orders:17 SET at = time::now()",
        "LET $total = (SELECT VALUE math::sum(amount) FROM line WHERE order = $id GROUP ALL)",
        "LET $row = (SELECT * FROM ONLY orders:7)",
        "RETURN { LET $x = 5; IF $x > 3 { CREATE orders SET n = $x } ELSE { THROW 'small' } }",
        "RETURN { FOR $n IN $few { CREATE type::record('orders', $n) SET n = $n } }",
        "RETURN { FOR $n IN 0..$id { CREATE orders SET n = $n, name = string::concat('order ', $n) } }",
        "RETURN { FOR $row IN (SELECT * FROM orders) { UPDATE $row.id SET seen = true } }",
        "RETURN { LET $sum = 0; FOR $n IN $few { LET $sum = $sum + 1 }; $sum }",
        "RETURN { LET $f = |$x| $x * 2; $f(21) }",
        "RETURN array::map($rows, |$row| { name: $row.name, n: array::len($row.items) })",
        "RETURN array::map($rows, |$row| array::map($row.items, |$item| $item.n * $item.price))",
        "RETURN $rows.filter(|$row| $row.id > 3).len()",
        "RETURN string::uppercase($t) + ' ' + string::join(', ', 'a', 'b') + <string> $total",
        "RETURN string::split('a,b', ',')",
        "RETURN <array> (0..100)",
        "RETURN array::map($nested.list, |$x| $x + 1)",
        "RETURN array::map(<array> (0..100), |$i| { n: $i })",
        "RETURN { FOR $n IN 0..$id { CREATE orders SET n = $n } }",
        "UPDATE orders SET note = $status, n += 1 WHERE status = 'new' RETURN id, note, n",
        "INSERT INTO orders $rows RETURN id",
        "CREATE orders SET n = $id RETURN VALUE id",
        "DELETE orders WHERE status = 'old' RETURN VALUE id",
        "RELATE person:1->placed->orders:17 SET at = time::now() RETURN id",
        "SELECT id, status FROM orders ORDER BY at DESC LIMIT 10 START 20",
        "SELECT status, count() AS n, math::sum(total) AS total FROM orders GROUP BY status ORDER BY n DESC LIMIT 5",
        "SELECT customer.name AS name, customer.address.city AS city FROM orders LIMIT 50",
        "SELECT time::format(at, '%Y-%m-%d') AS day FROM orders",
        "SELECT ->(SELECT n FROM placed) AS edges FROM orders:1",
        "RETURN orders:1.{1..3}->placed->orders",
    ] {
        assert!(
            judge(&Held::default(), query, given()).is_ok(),
            "{query}: {:?}",
            judge(&Held::default(), query, given())
        );
    }
}

/// A block whose LETs each hold the one before several times.
fn chain(step: impl Fn(usize) -> String) -> String {
    let lets: String = (1..=14).map(|n| format!("LET $v{n} = {};", step(n - 1))).collect();
    format!("RETURN {{ LET $v0 = 'xxxxxxxx'; {lets} $v14 }}")
}

#[test]
fn what_may_take_the_hosts_memory_is_refused() {
    let calling =
        |closure: &str, step: fn(usize) -> String| chain(step).replacen("{ ", &format!("{{ LET $f = {closure}; "), 1);
    let mut queries = vec![
        // Chains of LETs.
        chain(|n| format!("[$v{n}, $v{n}, $v{n}, $v{n}]")),
        chain(|n| format!("{{ a: $v{n}, b: $v{n}, c: $v{n}, d: $v{n} }}")),
        chain(|n| format!("$v{n} + $v{n} + $v{n} + $v{n}")),
        chain(|n| format!("array::concat([$v{n}], [$v{n}], [$v{n}], [$v{n}])")),
        chain(|n| format!("orders:[$v{n}, $v{n}, $v{n}, $v{n}]")),
        chain(|n| format!("IF true {{ [$v{n}, $v{n}, $v{n}, $v{n}] }} ELSE {{ 1 }}")),
        chain(|n| format!("encoding::json::encode([$v{n}, $v{n}, $v{n}])")),
        chain(|n| format!("array::map([1, 2, 3, 4], |$x| $v{n})")),
        // Closures.
        calling("|$x| $x + $x", |n| format!("$f($f($v{n}))")),
        calling("|$x| [$x, $x, $x, $x]", |n| format!("$f($v{n})")),
        "RETURN { LET $a = |$x| [$x, $x]; LET $b = |$x| $a($a($a($a($x)))); LET $c = |$x| $b($b($b($b($x)))); $c($c($text)) }".into(),
        "RETURN [|$x| $text, |$x| $text]".into(),
        "RETURN { LET $f = |$x| $x; [$f, $f] }".into(),
        "RETURN array::map($list, |$x| $list)".into(),
        "RETURN array::map($few, |$x| array::map($list, |$y| $note + $note + $note + $note + $note + $note + $note + $note + $note))"
            .into(),
        "RETURN $list.map(|$x| $text)".into(),
        "RETURN array::map($list, |$x| { FOR $i IN [1] { RETURN $text }; 1 })".into(),
        "RETURN array::map($list, |$x| { IF $x > 1 { RETURN $text }; 1 })".into(),
        "RETURN $text.chain(|$x| [$x, $x, $x, $x, $x, $x, $x, $x, $x, $x, $x, $x, $x, $x, $x, $x, $x, $x, $x, $x, $x, $x, $x])".into(),
        // Loops.
        "RETURN { LET $a = 'x'; FOR $i IN 0..30 { LET $a = $a + $a }; $a }".into(),
        "RETURN { FOR $i IN 0..30 { LET $a = ($a ?? 'x') + 'y' } }".into(),
        "RETURN { LET $a = [1]; FOR $i IN $few { LET $a = [$a] } }".into(),
        // Ranges.
        "RETURN <array> (0..1000000000)".into(),
        "RETURN <array> (0..1000000)".into(),
        "RETURN <set> (0..($id + 1000000))".into(),
        "RETURN array::map([0..1000000000], |$r| <array> $r)".into(),
        "RETURN (0..1000000000).map(|$x| $x)".into(),
        // Functions.
        "RETURN string::split($text, '')".into(),
        "RETURN string::words($text)".into(),
        "RETURN encoding::json::decode($text)".into(),
        "RETURN array::join($list, $text)".into(),
        "RETURN <array> <bytes> $text".into(),
        "RETURN $text.replace('x', $text).split('')".into(),
        // Rows.
        "SELECT $text AS text FROM orders".into(),
        "SELECT $text AS text FROM $list".into(),
        "SELECT (SELECT * FROM orders) AS a FROM orders".into(),
        "SELECT string::split(name, '') FROM orders".into(),
        "SELECT * FROM orders SPLIT tags".into(),
        "RETURN array::map($list, |$n| orders:1.*)".into(),
        "RETURN array::map($list, |$n| (SELECT * FROM orders))".into(),
        "RETURN orders:1.{..}->placed->orders".into(),
        "RETURN orders:1.{1..200+path}->placed->orders".into(),
        "RETURN orders:1.{..+shortest=orders:2}->placed->orders".into(),
        // Values whose items are more than those of what they come from.
        "RETURN array::map($nested.list, |$x| $text)".into(),
        "SELECT VALUE $text FROM $nested.list".into(),
        "RETURN array::map([$nested.list][0], |$x| $text)".into(),
        "RETURN array::map(array::flatten([$nested.list]), |$x| $text)".into(),
        "RETURN array::map(array::first([$nested.list]), |$x| $text)".into(),
        "RETURN array::map([$list].filter(|$x| true).first(), |$x| $text)".into(),
        "RETURN array::map((SELECT VALUE list FROM ONLY orders:1), |$x| $text)".into(),
        "RETURN array::map(orders:1.list, |$x| $note + $note)".into(),
        "RETURN <array> ([0..1000000][0])".into(),
        "RETURN <array<array>> [0..1000000]".into(),
        "RETURN <array> <range> [0, 1000000]".into(),
        "RETURN array::map(<range> [0, 1000000], |$x| $x)".into(),
        "RETURN (0..100000).map(|$x| [$x, $x])".into(),
        "CREATE orders SET r = 0..1000000".into(),
        "INSERT INTO orders { r: [0..1000000] }".into(),
        "RETURN fn::mine(0..1000000)".into(),
        // Fields of its own in what a write answers.
        "INSERT INTO orders $rows RETURN VALUE $text".into(),
        "INSERT INTO orders (id, n) VALUES (1, 1), (2, 2), (3, 3), (4, 4), (5, 5), (6, 6), (7, 7), (8, 8), (9, 9), (10, 10), \
         (11, 11), (12, 12), (13, 13) RETURN $text AS a"
            .into(),
        "DELETE orders RETURN $text AS a".into(),
        "UPDATE orders SET n = 1 RETURN $text AS a".into(),
        "UPSERT orders SET n = 1 RETURN VALUE $text".into(),
        "RELATE [orders:1, orders:2, orders:3, orders:4]->placed->[orders:1, orders:2, orders:3, orders:4] RETURN $text AS a".into(),
        "CREATE orders SET text = $text RETURN text, [text, text, text, text, text, text, text, text, text, text, text]".into(),
        // LIMIT behind GROUP and ORDER, and START.
        "SELECT array::group($note) AS g FROM $rows, $rows, $rows, $rows, $rows GROUP ALL LIMIT 1".into(),
        "SELECT $text AS a FROM $list ORDER BY a LIMIT 1".into(),
        "SELECT $text AS a FROM $list LIMIT 1 START 2000".into(),
        "SELECT $text AS a FROM $list LIMIT 1 START array::len($list)".into(),
        // Records that values name, and edges.
        "RETURN { LET $ids = [orders:1]; array::map($ids, |$id| { LET $r = $id.*; \
         [$r, $r, $r, $r, $r, $r, $r, $r, $r, $r, $r, $r, $r, $r, $r, $r, $r, $r, $r, $r, $r, $r, $r, $r] }) }"
            .into(),
        "SELECT ->(SELECT $row AS x FROM placed) FROM orders:1".into(),
        "RETURN array::map([orders:1], |$x| $x->(SELECT $row AS x FROM placed))".into(),
        "SELECT $row AS a FROM type::table('orders')".into(),
    ];
    queries.push(format!("RETURN [{}]", ["$text"; 30].join(", ")));
    queries.push(format!("SELECT {} FROM orders", ["[a, a, a, a]"; 8].join(", ")));
    for query in queries {
        let refused = judge(&Held::default(), &query, given());
        let Err(StoreError::Statement(cause)) = &refused else { unreachable!("{query} passed: {refused:?}") };
        assert!(cause.starts_with("statement 1: "), "{query}: {cause}");
    }
}

#[test]
fn bindings_count_as_what_they_become() {
    let bindings = json!({ "list": vec![1; 400_000] });
    assert!(
        judge(&Held::default(), "RETURN array::len($list)", bindings).is_err(),
        "two bytes of text are a value of 64"
    );
    let bindings = json!({ "text": "x".repeat(30 << 20) });
    assert!(judge(&Held::default(), "CREATE a SET text = $text", bindings).is_err());
}

#[test]
fn small_objects_count_as_the_maps_that_they_are_handed_over_as() {
    let objects = |count: usize| vec![json!({ "a": 1 }); count];
    assert!(judge(&Held::default(), "RETURN array::len($list)", json!({ "list": objects(10_000) })).is_ok());
    assert!(judge(&Held::default(), "RETURN array::len($list)", json!({ "list": objects(20_000) })).is_err());
    let object = || Value::Object(waybill_surreal::object([("a", int(1))]));
    Held::default().keep(1, None, &array((0..10_000).map(|_| object()))).unwrap();
    assert!(Held::default().keep(1, None, &array((0..20_000).map(|_| object()))).is_err());
}

#[test]
fn what_lets_and_results_really_take_counts_for_later_statements() {
    let mut held = Held::default();
    let megabyte = text("x".repeat(1 << 20));
    held.keep(1, Some("a"), &megabyte).unwrap();
    assert!(judge(&held, "RETURN [$a, $a, $a]", json!({})).is_ok());
    assert!(judge(&held, "RETURN string::split($a, '')", json!({})).is_err());
    let many = array((0..3).map(|_| megabyte.clone()));
    held.keep(2, Some("b"), &many).unwrap();
    assert!(judge(&held, "RETURN [$b, $b, $b]", json!({})).is_err());
    // Under the same name it takes the place of what was there.
    held.keep(3, Some("b"), &int(1)).unwrap();
    assert!(judge(&held, "RETURN [$b, $b, $b]", json!({})).is_ok());
    held.keep(4, None, &many).unwrap();
    held.keep(5, None, &many).unwrap();
    held.keep(6, None, &many).unwrap();
    let error = held.keep(7, None, &many).unwrap_err();
    assert!(error.to_string().contains("statement 7"), "{error}");
}

#[test]
fn a_pattern_of_a_time_counts_as_what_it_is_written_as() {
    let bindings = |pattern: &str, times: usize| json!({ "pattern": pattern.repeat(times) });
    let query = "RETURN time::format(time::now(), $pattern)";
    assert!(judge(&Held::default(), query, bindings("%+", 400_000)).is_err());
    assert!(judge(&Held::default(), query, bindings("%Y-%m-%d ", 1_000)).is_ok());
    assert!(judge(&Held::default(), "RETURN time::now().format($pattern)", bindings("%+", 400_000)).is_err());
}

#[test]
fn an_answer_counts_as_its_json() {
    let control = text("\u{1}".repeat(3 << 20));
    assert!(Held::default().keep(1, None, &control).is_err());
    assert!(Held::default().keep(1, None, &waybill_surreal::bytes(vec![0; 1 << 20])).is_err());
    // What isn't answered has no JSON.
    Held::default().keep(1, Some("a"), &control).unwrap();
}

#[test]
fn the_more_a_statement_makes_of_its_rows_the_fewer_it_may_read() {
    let room = |held: &Held, query: &str| {
        let statement = Statement { query: query.to_owned(), bindings: serde_json::Map::new() };
        let checked = check(&statement, 1, &HashSet::new()).unwrap();
        held.fits(&statement, 1, &checked.plan).unwrap()
    };
    let nothing = Held::default();
    let plain = room(&nothing, "SELECT * FROM orders");
    assert!((4 << 20..=WITH_ROWS_MAX).contains(&plain), "{plain}");
    let often = room(&nothing, "SELECT [a, a] AS a, [a, a] AS b FROM orders LIMIT 10");
    assert!((ROWS_BYTES..plain / 2).contains(&often), "{often} of {plain}");
    let mut held = Held::default();
    held.keep(1, Some("a"), &text("x".repeat(8 << 20))).unwrap();
    let beside = room(&held, "SELECT * FROM orders");
    assert!((ROWS_BYTES..plain).contains(&beside), "{beside} of {plain}");
}

#[test]
fn a_text_that_would_take_long_to_follow_is_refused() {
    let mut lets = "LET $f0 = |$x| $x;".to_owned();
    for n in 1..8 {
        let calls = format!("$f{}(", n - 1);
        lets.push_str(&format!("LET $f{n} = |$x| {}$x{};", calls.repeat(8), ")".repeat(8)));
    }
    assert!(judge(&Held::default(), &format!("RETURN {{ {lets} $f7(1) }}"), json!({})).is_err());
}

#[test]
fn what_compares_many_with_many_is_refused_and_few_with_many_is_taken() {
    let bindings = |left: usize, right: usize| {
        json!({
            "a": (0..left).collect::<Vec<_>>(), "b": (0..right).map(|n| n + 1_000_000).collect::<Vec<_>>(),
            "left": (0..left).map(|n| (format!("a{n}"), json!(n))).collect::<serde_json::Map<_, _>>(),
            "right": (0..right).map(|n| (format!("b{n}"), json!(n))).collect::<serde_json::Map<_, _>>(),
        })
    };
    let queries = [
        "RETURN $a CONTAINSALL $b",
        "RETURN $a CONTAINSANY $b",
        "RETURN $a CONTAINSNONE $b",
        "RETURN $a ALLINSIDE $b",
        "RETURN $a ANYINSIDE $b",
        "RETURN $a NONEINSIDE $b",
        "RETURN $a INTERSECTS $b",
        "RETURN $a OUTSIDE $b",
        "RETURN $a - $b",
        "RETURN $left + $right",
        "RETURN { LET $p = <geometry> $left; LET $q = <geometry> $right; $p CONTAINS $q }",
        "RETURN array::add($a, $b)",
        "RETURN array::intersect($a, $b)",
        "RETURN array::difference($a, $b)",
        "RETURN $a.add($b)",
        "RETURN $a.intersect($b)",
        "RETURN $a.array_difference($b)",
        "RETURN object::extend($left, $right)",
        "RETURN array::filter($a, |$x| $x IN $b)",
        "RETURN $a.all(|$x| $b CONTAINS $x)",
        "RETURN $a.find(|$x| array::includes($b, $x))",
        "RETURN $a[WHERE $b CONTAINS $this]",
        "UPDATE list SET items -= $b WHERE $a CONTAINSANY $b",
    ];
    for query in queries {
        let refused = judge(&Held::default(), query, bindings(15_000, 15_000));
        let Err(StoreError::Statement(cause)) = &refused else { unreachable!("{query} passed: {refused:?}") };
        assert!(cause.starts_with("statement 1: "), "{query}: {cause}");
        let taken = judge(&Held::default(), query, bindings(500, 20));
        assert!(taken.is_ok(), "{query}: {taken:?}");
    }
}

#[test]
fn what_is_done_often_counts_as_often() {
    let bindings = json!({ "a": (0..30_000).collect::<Vec<_>>(), "b": (0..2_000).collect::<Vec<_>>() });
    let often = |part: &str| format!("RETURN [{}]", vec![part; 5_000].join(", "));
    for query in [
        often("count($a)"),
        often("$a = $b"),
        often("$a[0]"),
        often("math::fixed(1.5, 1000000)"),
        format!("RETURN [{}]", vec!["$b CONTAINSNONE $b"; 30].join(", ")),
        "RETURN { LET $s = <set> $a; $s.map(|$x| 0 - $x) }".to_owned(),
        "RETURN { FOR $i IN 0..1000000 { LET $n = $b CONTAINSNONE $b } }".to_owned(),
        "UPDATE item SET text = 'x' RETURN DIFF".to_owned(),
    ] {
        let refused = judge(&Held::default(), &query, bindings.clone());
        assert!(refused.is_err(), "{} passed", query.get(..60).unwrap_or(&query));
    }
    for query in [
        "RETURN $b CONTAINSNONE $b",
        "RETURN { FOR $i IN 0..1000000000 { LET $n = 1 } }",
        "RETURN { FOR $x IN $b { UPDATE type::record('item', $x) SET n += $x, m = count($b) } }",
        "SELECT * FROM item WHERE id IN $b",
        "SELECT * FROM item WHERE tags CONTAINSANY labels",
        "SELECT * FROM item WHERE tags CONTAINSANY ['a', 'b'] OR n - m > 3 OR code IN labels",
        "SELECT string::concat(first, last) AS name, total - paid AS open, first + last AS key FROM person",
        "UPDATE item SET tags -= $b, tags += 'x' WHERE tags CONTAINS 'y'",
        "UPDATE item UNSET text RETURN DIFF",
        "RETURN $b.map(|$x| $x + 1)",
        "RETURN math::fixed(1.25, 1)",
    ] {
        let taken = judge(&Held::default(), query, bindings.clone());
        assert!(taken.is_ok(), "{query}: {taken:?}");
    }
}

#[test]
fn a_statement_that_compares_what_its_rows_hold_may_read_fewer_of_them() {
    let room = |query: &str| {
        let statement = Statement { query: query.to_owned(), bindings: serde_json::Map::new() };
        let checked = check(&statement, 1, &HashSet::new()).unwrap();
        Held::default().fits(&statement, 1, &checked.plan).unwrap()
    };
    let (plain, pairs) = (room("SELECT * FROM item"), room("SELECT * FROM item WHERE tags CONTAINSANY labels"));
    assert!((ROWS_BYTES..plain / 4).contains(&pairs), "{pairs} of {plain}");
}
