//! Random statements: what passes is run beside canaries, with both walls and with each alone.

use proptest::strategy::{Strategy, ValueTree};
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
use serde_json::json;

use super::{Outcome, Tried, Walls};

/// Statements tried behind each of the walls in the suite, and beside the same canaries.
const STATEMENTS: usize = 1_500;
/// Variables: how many there are, and which; `cargo xtask chaos statements` sets them.
const COUNT: &str = "WAYBILL_STATEMENTS";
const SEED: &str = "WAYBILL_STATEMENTS_SEED";

/// Names of tables, of the caller's and of Waybill's.
fn table() -> impl Strategy<Value = String> {
    proptest::sample::select(vec![
        "orders",
        "orders:1",
        "placed",
        "fresh",
        "outbox",
        "outbox_shard",
        "outbox_shard:0",
        "`dead_letters`",
        "⟨waybill_meta⟩",
        "saga",
        "$t",
        "$own",
        "$this",
        "$parent",
        "$value",
        "type::table($t)",
        "type::table($own)",
        "type::table($this)",
        "type::table('out' + 'box')",
        "type::record($own, 0)",
        "(<record> $link)",
        "[orders:1, 2]",
        "['outbox_shard']",
        "{ a: 'outbox' }",
    ])
    .prop_map(str::to_owned)
}

fn atom() -> impl Strategy<Value = String> {
    proptest::sample::select(vec![
        "1",
        "'outbox_shard'",
        "'outbox_shard:0'",
        "$t",
        "$own",
        "$link",
        "$this",
        "$parent",
        "$value",
        "$auth",
        "name",
        "t",
        "link",
        "link.*",
        "id",
        "[1, 2]",
        "{ a: 1 }",
        "NONE",
        "5s",
        "$`a b`",
        "name.to_record()",
        "time::now()",
    ])
    .prop_map(str::to_owned)
}

fn pair_of<S: Strategy<Value = String> + Clone>(one: &S) -> impl Strategy<Value = (String, String)> + use<S> {
    (one.clone(), one.clone())
}

fn expression() -> impl Strategy<Value = String> {
    atom().prop_recursive(4, 24, 3, |inner| {
        let pair = (inner.clone(), inner.clone());
        proptest::strategy::Union::new(vec![
            pair.clone().prop_map(|(a, b)| format!("({a} + {b})")).boxed(),
            pair.clone().prop_map(|(a, b)| format!("[{a}, {b}]")).boxed(),
            pair.clone().prop_map(|(a, b)| format!("{{ a: {a}, b: {b} }}")).boxed(),
            pair.clone().prop_map(|(a, b)| format!("array::map([{a}], |$v| {b})")).boxed(),
            pair.clone().prop_map(|(a, b)| format!("IF {a} {{ {b} }} ELSE {{ {a} }}")).boxed(),
            pair.clone().prop_map(|(a, b)| format!("type::record({a}, {b})")).boxed(),
            pair.prop_map(|(a, b)| format!("{{ LET $x = {a}; {b} }}")).boxed(),
            inner.clone().prop_map(|a| format!("<record> {a}")).boxed(),
            inner.clone().prop_map(|a| format!("type::table({a})")).boxed(),
            inner.clone().prop_map(|a| format!("({a}).*")).boxed(),
            pair_of(&inner).prop_map(|(a, b)| format!("({a})[WHERE {b}]")).boxed(),
            pair_of(&inner).prop_map(|(a, b)| format!("[{a}].map(|$v: any| -> any {{ {b} }})")).boxed(),
            (inner.clone(), table()).prop_map(|(a, t)| format!("({a})->placed->{t}")).boxed(),
            (inner.clone(), table()).prop_map(|(a, t)| format!("$this<-(placed, {t} WHERE {a})<-orders.name")).boxed(),
            (table(), inner.clone()).prop_map(|(t, a)| format!("(SELECT * FROM {t} WHERE {a})")).boxed(),
            (table(), inner.clone()).prop_map(|(t, a)| format!("(SELECT VALUE {a} FROM {t})")).boxed(),
            (table(), inner.clone()).prop_map(|(t, a)| format!("(UPDATE {t} SET a = {a})")).boxed(),
            (table(), inner.clone()).prop_map(|(t, a)| format!("(CREATE {t} SET a = {a})")).boxed(),
            (table(), inner.clone()).prop_map(|(t, a)| format!("(INSERT INTO {t} {{ a: {a} }})")).boxed(),
            (table(), inner).prop_map(|(t, a)| format!("{{ FOR $x IN [{a}] {{ DELETE {t} }}; 1 }}")).boxed(),
        ])
    })
}

fn statement() -> impl Strategy<Value = String> {
    let e = expression;
    proptest::strategy::Union::new(vec![
        (e(), table(), e()).prop_map(|(a, t, b)| format!("SELECT {a} AS a FROM {t} WHERE {b}")).boxed(),
        (e(), table()).prop_map(|(a, t)| format!("SELECT VALUE {a} FROM {t}")).boxed(),
        (table(), e(), e()).prop_map(|(t, a, b)| format!("SELECT * FROM {t} LIMIT {a} START {b}")).boxed(),
        (table(), e()).prop_map(|(t, a)| format!("SELECT * FROM {t} TIMEOUT {a}")).boxed(),
        (table(), e()).prop_map(|(t, a)| format!("CREATE {t} SET a = {a}")).boxed(),
        (table(), e(), e()).prop_map(|(t, a, b)| format!("UPDATE {t} SET a = {a} WHERE {b} TIMEOUT 5s")).boxed(),
        (table(), e()).prop_map(|(t, a)| format!("UPSERT {t} MERGE {{ a: {a} }}")).boxed(),
        (table(), e()).prop_map(|(t, a)| format!("DELETE {t} WHERE {a} RETURN BEFORE")).boxed(),
        (table(), e()).prop_map(|(t, a)| format!("INSERT INTO {t} {{ a: {a} }}")).boxed(),
        (table(), table(), table()).prop_map(|(a, b, c)| format!("RELATE {a}->{b}->{c}")).boxed(),
        (table(), e(), e()).prop_map(|(t, a, b)| format!("UPSERT {t} SET a = {a} RETURN {b}")).boxed(),
        (table(), e(), e())
            .prop_map(|(t, a, b)| format!("INSERT INTO {t} {{ a: {a} }} ON DUPLICATE KEY UPDATE a = {b}"))
            .boxed(),
        (table(), atom()).prop_map(|(t, a)| format!("SELECT *, {a} AS a FROM {t} FETCH link, a")).boxed(),
        e().prop_map(|a| format!("LET $x = {a}")).boxed(),
        e().prop_map(|a| format!("RETURN {a}")).boxed(),
    ])
}

async fn behind(walls: Walls) {
    let count = std::env::var(COUNT).map_or(STATEMENTS, |text| text.parse().unwrap());
    let seed = match std::env::var(SEED) {
        Ok(text) => text.parse::<u64>().unwrap().to_le_bytes().repeat(4),
        Err(_) => vec![7; 32],
    };
    let mut runner = TestRunner::new_with_rng(Config::default(), TestRng::from_seed(RngAlgorithm::ChaCha, &seed));
    let bindings = json!({ "t": "orders", "own": "outbox_shard", "link": "outbox_shard:0" });
    let (mut ran, mut refused) = (0, 0);
    let mut tried = Tried::new(walls).await;
    for number in 0..count {
        // What statements write grows, and all of it is read after each of them.
        if number > 0 && number.is_multiple_of(STATEMENTS) {
            tried.could_look().await;
            tried = Tried::new(walls).await;
        }
        let query = statement().new_tree(&mut runner).unwrap().current();
        match tried.tries(&query, &bindings).await {
            Outcome::Ran(_) => ran += 1,
            Outcome::Refused(_) => refused += 1,
        }
    }
    tried.could_look().await;
    // Both happen, else nothing is tested.
    assert!(ran > count / 50 && refused > count / 10, "{walls:?}: {ran} ran, {refused} were refused");
}

#[tokio::test]
async fn random_statements_reach_nothing_behind_both_walls() {
    behind(Walls::Both).await;
}

#[tokio::test]
async fn random_statements_reach_nothing_behind_the_guard_alone() {
    behind(Walls::GuardAlone).await;
}

#[tokio::test]
async fn random_statements_reach_nothing_behind_the_wall_alone() {
    behind(Walls::WallAlone).await;
}
