//! `fn::waybill::enqueue` in a client's own transaction.

use std::sync::Arc;

use waybill_core::annotation::Annotation;
use waybill_core::ids::{Key, MessageId, ShardId, Tenant};
use waybill_core::message::Payload;
use waybill_core::port::transact::{DoorGroup, Statement, TransactStore};
use waybill_testkit::conformance::samples::{all_annotations, message};

use super::{door, memory, messages, sql};
use crate::{StoreConfig, SurrealStore};

#[tokio::test]
async fn a_message_commits_with_the_business_row() {
    let store = memory().await;
    let text = "BEGIN; CREATE orders:1 SET total = 5; LET $id = fn::waybill::enqueue({ topic: 'bus:shop.event.order_placed.v2', \
        payload: { order: 1, at: d'2026-01-01T00:00:00Z' }, key: 'o-1', tenant: 'acme', headers: { 'x-a': '1' }, \
        id: 'mine', correlation_id: 'c', not_before: time::now() + 1h, expires_at: time::now() + 2h }); RETURN $id; COMMIT;";
    let answers = sql(&store, text).await.unwrap();
    assert!(answers.iter().any(|answer| waybill_surreal::text_of(Some(answer)) == Some("mine")), "{answers:?}");
    let found = messages(&store, ShardId(0)).await.remove(0);
    assert_eq!((found.id.as_str(), found.caller_id, found.tenant.as_str()), ("mine", true, "acme"));
    assert_eq!((found.event_type.as_str(), found.event_version), ("order_placed", 2));
    assert_eq!(found.key, Some(Key::new("o-1").unwrap()));
    assert_eq!(found.headers, [("x-a".to_owned(), "1".to_owned())]);
    assert_eq!(found.annotation(Annotation::CorrelationId), Some("c"));
    assert_eq!(found.annotation(Annotation::ContentType), Some("application/json"));
    let wait = found.not_before.unwrap().since(found.created_at);
    assert!(wait.as_secs() >= 3_599 && found.expires_at.unwrap() > found.not_before.unwrap(), "{wait:?}");
    let Payload::Inline(payload) = found.payload else { unreachable!("it is small") };
    let payload: serde_json::Value = serde_json::from_slice(&payload).unwrap();
    assert_eq!(payload, serde_json::json!({ "order": 1, "at": "2026-01-01T00:00:00Z" }));
}

#[tokio::test]
async fn every_annotation_comes_through() {
    let store = memory().await;
    let wanted = all_annotations();
    let members: String =
        wanted.iter().map(|(annotation, text)| format!(", {}: '{text}'", annotation.name())).collect();
    sql(&store, &format!("RETURN fn::waybill::enqueue({{ topic: 'bus:x', payload: 1{members} }})")).await.unwrap();
    assert_eq!(messages(&store, ShardId(0)).await.remove(0).annotations, wanted);
    for annotation in Annotation::ALL {
        let text = format!("RETURN fn::waybill::enqueue({{ topic: 'bus:x', payload: 1, {}: '' }})", annotation.name());
        let fault = sql(&store, &text).await.unwrap_err();
        assert!(fault.to_string().contains(&format!("{} is empty", annotation.name())), "{fault}");
    }
}

#[tokio::test]
async fn a_rolled_back_transaction_leaves_no_message() {
    let store = memory().await;
    for end in ["CANCEL", "THROW 'changed my mind'; COMMIT"] {
        let text = format!(
            "BEGIN; CREATE orders:1 SET a = 1; LET $id = fn::waybill::enqueue({{ topic: 'bus:x', payload: 1 }}); {end}"
        );
        let _refused = sql(&store, &text).await;
        assert!(door(&store, ShardId(0)).await.is_empty(), "{end}");
    }
}

#[tokio::test]
async fn a_refused_message_aborts_the_business_transaction() {
    let store = memory().await;
    let text =
        "BEGIN; CREATE orders:1 SET a = 1; RETURN fn::waybill::enqueue({ topic: 'nowhere', payload: 1 }); COMMIT";
    let fault = sql(&store, text).await.unwrap_err();
    assert!(fault.to_string().contains("OUTBOX.TOPIC"), "{fault}");
    let left = sql(&store, "DEFINE TABLE IF NOT EXISTS orders; SELECT * FROM orders").await.unwrap();
    assert!(matches!(&left[1], waybill_surreal::Value::Array(rows) if rows.is_empty()), "{left:?}");
}

#[tokio::test]
async fn bad_messages_are_refused_with_a_code() {
    let store = SurrealStore::open(StoreConfig { payload_bytes_max: 100, ..StoreConfig::new("mem://") }).await.unwrap();
    for (message, code) in [
        ("{ topic: 'bus:x', payload: 1, colour: 'red' }", "no field 'colour'"),
        ("{ payload: 1 }", "OUTBOX.TOPIC"),
        ("{ topic: 5, payload: 1 }", "topic has to be a text"),
        ("{ topic: 'kafka:x', payload: 1 }", "OUTBOX.TOPIC"),
        ("{ topic: 'bus:a b', payload: 1 }", "OUTBOX.TOPIC"),
        ("{ topic: 'bus:', payload: 1 }", "OUTBOX.TOPIC"),
        ("{ topic: 'http:ftp://x', payload: 1 }", "OUTBOX.TOPIC"),
        ("{ topic: 'https://u:p@h/', payload: 1 }", "OUTBOX.TOPIC"),
        ("{ topic: 'bus:x' }", "payload or payload_base64"),
        ("{ topic: 'bus:x', payload: 1, payload_base64: 'YQ==' }", "payload or payload_base64"),
        ("{ topic: 'bus:x', payload: string::repeat('x', 200) }", "OUTBOX.PAYLOAD_TOO_LARGE"),
        ("{ topic: 'bus:x', payload: 1, tenant: '' }", "tenant is empty"),
        ("{ topic: 'bus:x', payload: 1, id: string::repeat('x', 129) }", "id has more than 128 bytes"),
        ("{ topic: 'bus:x', payload: 1, key: string::repeat('ä', 300) }", "key has more than 512 bytes"),
        ("{ topic: 'bus:x', payload: 1, occurred_at: time::now() + 2m }", "FUTURE_EVENT"),
        ("{ topic: 'bus:x', payload: 1, occurred_at: true }", "occurred_at has to be"),
        ("{ topic: 'bus:x', payload: 1, expires_at: time::now() - 1s }", "expires_at"),
        ("{ topic: 'bus:x', payload: 1, headers: 'x' }", "headers"),
        ("{ topic: 'bus:x', payload: 1, event_version: 'one' }", "event_version"),
    ] {
        let fault = sql(&store, &format!("RETURN fn::waybill::enqueue({message})")).await.unwrap_err();
        assert!(fault.to_string().contains(code), "{message}: {fault}");
    }
    for message in [
        "{ topic: 'https://a.example', payload: null }",
        "{ topic: 'http:http://localhost:8080/x?y=1', payload: [1, 2], dispatch_key: 'k' }",
        "{ topic: 'custom:mail', payload_base64: 'AAEC', not_before: 4102444800000, occurred_at: '2020-01-01T00:00:00Z' }",
    ] {
        sql(&store, &format!("RETURN fn::waybill::enqueue({message})"))
            .await
            .unwrap_or_else(|fault| unreachable!("{message}: {fault}"));
    }
    let found = messages(&store, ShardId(0)).await;
    assert_eq!(found.len(), 3);
    assert!(matches!(&found[2].payload, Payload::Inline(bytes) if bytes.as_ref() == [0, 1, 2]));
    assert_eq!(found[1].key, Some(Key::new("k").unwrap()));
    assert!(!found[0].caller_id && found[0].id.as_str().len() == 26);
}

#[tokio::test]
async fn the_function_chooses_the_shard_that_the_host_would() {
    let store = SurrealStore::open(StoreConfig { shards: Some(16), ..StoreConfig::new("mem://") }).await.unwrap();
    for n in 0..40 {
        let (tenant, key) = (format!("tenant-{}", n % 3), format!("schlüssel-{n}"));
        let by_key = format!("{{ topic: 'bus:x', payload: 1, tenant: '{tenant}', key: '{key}', id: 'a{n}' }}");
        let by_id = format!("{{ topic: 'bus:x', payload: 1, tenant: '{tenant}', id: 'b{n}' }}");
        sql(&store, &format!("RETURN fn::waybill::enqueue({by_key}); RETURN fn::waybill::enqueue({by_id})"))
            .await
            .unwrap();
        let (tenant, key) = (Tenant::new(tenant).unwrap(), Key::new(key).unwrap());
        for (id, key) in [(format!("a{n}"), Some(&key)), (format!("b{n}"), None)] {
            let shard = ShardId::of(&tenant, key, Some(&MessageId::new(&id).unwrap()), 0, 16);
            let there = messages(&store, shard).await;
            assert!(there.iter().any(|message| message.id.as_str() == id), "{id} isn't on shard {shard}");
        }
    }
}

#[tokio::test]
async fn messages_of_one_statement_keep_their_order() {
    let store = memory().await;
    let text =
        "BEGIN; FOR $n IN 0..20 { fn::waybill::enqueue({ topic: 'bus:x', payload: $n, id: <string> $n }) }; COMMIT";
    sql(&store, text).await.unwrap();
    let ids: Vec<String> =
        messages(&store, ShardId(0)).await.iter().map(|message| message.id.as_str().to_owned()).collect();
    assert_eq!(ids, (0..20).map(|n| n.to_string()).collect::<Vec<_>>());
}

#[tokio::test]
async fn a_clock_that_was_set_back_puts_nothing_before_what_lies_there() {
    let store = memory().await;
    let enqueue =
        |id: &str| format!("RETURN fn::waybill::enqueue({{ topic: 'bus:x', payload: 1, key: 'k', id: '{id}' }})");
    sql(&store, &enqueue("first")).await.unwrap();
    // As if the clock had been an hour ahead then.
    let ahead = "LET $row = (SELECT * OMIT id FROM ONLY outbox_door LIMIT 1); DELETE outbox_door; \
        CREATE outbox_door:[0, time::nano(time::now() + 1h), 0, rand::ulid()] CONTENT $row";
    sql(&store, ahead).await.unwrap();
    sql(&store, &enqueue("second")).await.unwrap();
    let third = DoorGroup { shard: ShardId(0), messages: vec![Arc::new(message("third"))] };
    store.transact(Vec::new(), vec![third], Default::default(), None).await.unwrap();
    sql(&store, &enqueue("fourth")).await.unwrap();
    let ids: Vec<String> =
        messages(&store, ShardId(0)).await.iter().map(|message| message.id.as_str().to_owned()).collect();
    assert_eq!(ids, ["first", "second", "third", "fourth"]);
}

#[tokio::test]
async fn an_id_that_the_api_refuses_is_taken_in_from_the_doorstep() {
    let store = memory().await;
    sql(&store, "RETURN fn::waybill::enqueue({ topic: 'bus:x', payload: 1, key: 'k', id: '..' })").await.unwrap();
    let taken = messages(&store, ShardId(0)).await;
    assert_eq!(taken.iter().map(|message| message.id.as_str()).collect::<Vec<_>>(), [".."]);
}

#[tokio::test]
async fn an_event_of_a_business_table_can_enqueue() {
    let store = memory().await;
    let text = "DEFINE TABLE orders; DEFINE EVENT placed ON orders WHEN $event = 'CREATE' THEN { \
        fn::waybill::enqueue({ topic: 'bus:orders', payload: $after, id: <string> record::id($after.id) }) }";
    sql(&store, text).await.unwrap();
    let create = |query: &str| vec![Statement { query: query.into(), bindings: serde_json::Map::new() }];
    store.transact(create("CREATE orders:7 SET total = 5"), Vec::new(), Default::default(), None).await.unwrap();
    store.transact(create("CREATE orders:7 SET total = 6"), Vec::new(), Default::default(), None).await.unwrap_err();
    let found = messages(&store, ShardId(0)).await;
    assert_eq!(found.iter().map(|message| message.id.as_str()).collect::<Vec<_>>(), ["7"]);
}

#[tokio::test]
async fn the_outbox_is_readable_as_rows() {
    use waybill_core::port::store::Write;
    use waybill_testkit::conformance::samples::{Owner, T0, dead, parked, scheduled, segment, seq};

    let store = memory().await;
    let mut retry = parked(seq(0, 0), 1);
    let mut message = retry.message.as_ref().clone();
    message.tenant = Tenant::new("acme").unwrap();
    message.annotations.set(Annotation::ContentType, Some("application/json"));
    message.payload = Payload::Inline(bytes::Bytes::from_static(br#"{"order":{"id":17}}"#));
    retry.message = Arc::new(message);
    let writes = vec![
        Write::PutSegment(Arc::new(segment(seq(0, 0), 3))),
        Write::PutParked(Arc::new(retry)),
        Write::PutScheduled(Arc::new(scheduled(T0, "s"))),
        Write::PutDead(Arc::new(dead(seq(0, 0), 2, "acme", "HTTP.400"))),
        Write::PutDead(Arc::new(dead(seq(0, 0), 3, "other", "HTTP.400"))),
    ];
    Owner::new().commit(&store, writes).await;
    sql(&store, "RETURN fn::waybill::enqueue({ topic: 'bus:x', payload: 1, tenant: 'acme' })").await.unwrap();
    let rows = sql(&store, "RETURN fn::waybill::outbox('acme')").await.unwrap().remove(0);
    let rows = waybill_surreal::to_json(rows).unwrap();
    assert_eq!(rows.as_array().unwrap().len(), 5, "{rows:#}");
    assert_eq!(rows[0]["payload"]["order"]["id"], 17);
    assert_eq!(
        (&rows[0]["dispatch_key"], &rows[0]["status"], &rows[0]["attempts"]),
        (&"order-17".into(), &"leased".into(), &3.into())
    );
    assert!(rows[0]["last_error"].as_str().unwrap().starts_with("NATS.TIMEOUT: "), "{rows:#}");
    assert!(rows[0]["not_before"].as_str().unwrap().ends_with('Z') && rows[0].get("data").is_none());
    assert_eq!((&rows[2]["status"], &rows[2]["error_code"]), (&"dead".into(), &"HTTP.400".into()));
    assert_eq!((&rows[4]["messages"], &rows[4]["tenant"]), (&3.into(), &"acme".into()));
}
