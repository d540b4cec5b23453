//! What a shop does in its transactions: every statement here goes on being taken.

use serde_json::json;
use waybill_core::port::transact::{Statement, TransactStore};

use super::super::memory;

/// In order: later ones read what earlier ones wrote.
const STATEMENTS: &[&str] = &[
    "CREATE customer:ada SET name = 'Ada', mail = 'ada@example.org', address = { city: 'London', street: '1/2 Mill Lane' }",
    "CREATE customer:bob CONTENT { name: 'Bob', mail: 'bob@example.org', address: { city: 'York' } } RETURN AFTER",
    "CREATE product:1 SET name = 'pen', price = 1.5dec, stock = 100, tags = ['office', 'blue']",
    "CREATE product:2 SET name = 'ink', price = 4.0dec, stock = 20, tags = ['office']",
    "INSERT INTO product $products",
    "INSERT INTO product $products ON DUPLICATE KEY UPDATE stock += 1",
    "INSERT INTO product { id: 'cap', name: 'cap', price: 9, stock: 3 } RETURN id, name",
    "INSERT INTO category (id, name) VALUES ('office', 'Office'), ('home', 'Home') RETURN NONE",
    "INSERT IGNORE INTO category { id: 'home', name: 'Again' }",
    "CREATE type::record('orders', $id) SET customer = customer:ada, status = 'new', at = time::now(), total = 0",
    "CREATE orders:2 SET customer = customer:bob, status = 'paid', at = d'2026-01-02T03:04:05Z', total = 12.5",
    "CREATE orders SET customer = customer:bob, status = 'new', at = time::now(), total = 3 RETURN VALUE id",
    "CREATE line SET order = type::record('orders', $id), product = product:1, quantity = 3, price = 1.5, n = 1",
    "CREATE line SET order = type::record('orders', $id), product = product:2, quantity = 1, price = 4, n = 2 RETURN NONE",
    "RELATE customer:ada->bought->product:1 SET at = time::now(), quantity = 3",
    "RELATE customer:bob->bought->product:2 CONTENT { quantity: 1 } RETURN id",
    "UPDATE type::record('orders', $id) SET status = 'paid', total += 8.5",
    "UPDATE orders:2 MERGE { note: $note, status: 'sent' }",
    "UPDATE product SET stock -= 1 WHERE stock > 50 RETURN BEFORE",
    "UPDATE product SET price = price * 1.1 WHERE 'office' IN tags RETURN id, price",
    "UPDATE orders SET late = true WHERE status = 'new' AND at < time::now() - 7d RETURN NONE",
    "UPDATE customer:bob UNSET address.city RETURN DIFF",
    "UPDATE customer:bob PATCH [{ op: 'add', path: '/address/city', value: 'Leeds' }]",
    "UPSERT counter:orders SET n += 1",
    "UPSERT setting:vat CONTENT { rate: 20 } RETURN AFTER",
    "SELECT * FROM orders",
    "SELECT * FROM ONLY orders:2",
    "SELECT id, status, total FROM orders WHERE status = 'paid' ORDER BY total DESC LIMIT 10",
    "SELECT id, at FROM orders ORDER BY at LIMIT 5 START 1",
    "SELECT *, customer.name AS name, customer.address.city AS city FROM orders",
    "SELECT * FROM orders FETCH customer",
    "SELECT status, count() AS n, math::sum(total) AS total FROM orders GROUP BY status",
    "SELECT count() FROM product GROUP ALL",
    "SELECT VALUE name FROM product WHERE stock < 50 AND price >= 1",
    "SELECT name, price * stock AS worth, price / 2 AS half, (price + 1) / (stock + 1) AS odd FROM product",
    "SELECT string::uppercase(name) AS name, string::concat(name, ': ', mail) AS line FROM customer",
    "SELECT * FROM customer WHERE string::starts_with(mail, 'ada') OR name CONTAINS 'B'",
    "SELECT time::format(at, '%Y-%m-%d') AS day, total FROM orders",
    "SELECT *, (SELECT * FROM line WHERE order = $parent.id) AS lines FROM orders LIMIT 5",
    "SELECT ->bought->product.name AS names FROM customer:ada",
    "SELECT ->(bought WHERE quantity > 1) AS large FROM customer:ada",
    "SELECT VALUE <-bought<-customer FROM product:1",
    "SELECT * FROM product:1..[9]",
    "SELECT * FROM product WHERE id IN [product:1, product:2]",
    "SELECT array::len(tags) AS n, tags[0] AS one FROM product WHERE tags",
    "LET $lines = (SELECT * FROM line WHERE order = orders:7)",
    "LET $sum = math::sum($lines.map(|$line| $line.quantity * $line.price))",
    "RETURN { sum: $sum, vat: $sum * 20 / 100, lines: array::len($lines) }",
    "UPDATE orders:7 SET total = $sum RETURN total",
    "RETURN array::map($products, |$p| { name: $p.name, cents: $p.price * 100 })",
    "RETURN array::filter($products, |$p| $p.price > 2)",
    "RETURN array::distinct($products.name)",
    "RETURN $products.{ id, name }",
    "RETURN { IF $sum > 1000 { THROW 'too much' }; 'ok' }",
    "RETURN { LET $x = (SELECT VALUE stock FROM ONLY product:1); IF $x < 1 { THROW 'none left' } ELSE { UPDATE product:1 SET stock -= 1 } }",
    "RETURN { FOR $p IN $products { UPSERT type::record('price', $p.id) SET price = $p.price } }",
    "RETURN { FOR $n IN 1..4 { CREATE coupon SET code = string::concat('C', $n), n = $n } }",
    "RETURN { FOR $row IN (SELECT * FROM orders WHERE status = 'new' LIMIT 10) { UPDATE $row.id SET seen = true } }",
    "RETURN customer:ada.address.city",
    "RETURN 6 / 3 / 2",
    "RETURN 'https://example.org/a/b' // a link",
    "RETURN string::split('a,b,c', ',')",
    "RETURN <array> (1..5)",
    "RETURN <string> 5 + <string> true",
    "RETURN record::exists(orders:7)",
    "DELETE line WHERE quantity < 1 RETURN BEFORE",
    "DELETE orders WHERE status = 'old' RETURN VALUE id",
    "DELETE ONLY orders:2 RETURN BEFORE",
    "DELETE customer:bob->bought",
    "DELETE coupon RETURN NONE",
];

#[tokio::test]
async fn what_a_shop_does_is_taken() {
    let store = memory().await;
    let given = json!({
        "id": 7, "note": "leave it at the door",
        "products": [{ "id": "mug", "name": "mug", "price": 3.5, "stock": 9 }, { "id": "bag", "name": "bag", "price": 1, "stock": 4 }],
    });
    let statements = STATEMENTS.iter().map(|query| {
        let named = given.as_object().unwrap().iter().filter(|(name, _)| query.contains(&format!("${name}")));
        let bindings = named.map(|(name, value)| (name.clone(), value.clone())).collect();
        Statement { query: (*query).to_owned(), bindings }
    });
    // In one transaction, and so that the first that isn't taken is told.
    let done = store.transact(statements.collect(), Vec::new(), Default::default(), None).await;
    let done = done.unwrap_or_else(|error| unreachable!("{error}"));
    assert_eq!(done.results.len(), STATEMENTS.len());
    let sum = STATEMENTS.iter().position(|query| query.starts_with("RETURN { sum:")).unwrap();
    assert_eq!(done.results[sum]["sum"], json!(8.5));
    let taken = STATEMENTS.iter().position(|query| query.starts_with("SELECT ->bought->product.name")).unwrap();
    assert_eq!(done.results[taken], json!([{ "names": ["pen"] }]));
}
