//! Tables that aren't the documents' to the letter: other names, words, types, an order of one's own.

use std::time::Duration;

use serde_json::json;
use waybill_core::port::table::{Ended, RowFate, Table};

use super::support::*;

/// What an object mapper makes: capital letters, an enum, times without a zone, a text as key.
const MAPPED: &str = r#"
CREATE TYPE "EventStatus" AS ENUM ('NEW', 'SENT', 'BROKEN');
CREATE TABLE "OutboxEvent" (
  "id" text PRIMARY KEY, "subject" varchar(200) NOT NULL, "customerId" uuid, "body" bytea NOT NULL, "meta" jsonb,
  "state" "EventStatus" NOT NULL DEFAULT 'NEW', "tries" smallint NOT NULL DEFAULT 0, "dueAt" timestamp(3),
  "sentAt" timestamp(3), "lastError" text, "createdAt" timestamp(3) NOT NULL DEFAULT (now() AT TIME ZONE 'UTC'),
  "updatedAt" timestamp(3) NOT NULL DEFAULT (now() AT TIME ZONE 'UTC'))"#;

fn mapped() -> serde_json::Value {
    json!({
        "table": "\"OutboxEvent\"",
        "layout": "status",
        "columns": {
            "payload": "body", "headers": "meta", "status": "state", "attempts": "tries", "available_at": "dueAt",
            "published_at": "sentAt", "last_error": "lastError", "created_at": "createdAt", "updated_at": "updatedAt"
        },
        "words": { "pending": "NEW", "processing": "", "published": "SENT", "failed": "BROKEN" },
        "topic": "bus:{subject}", "key": "{customerId}", "aggregate": "{customerId}", "id": "evt-{id}",
        "content_type": "application/octet-stream"
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn names_words_and_types_can_be_mapped() {
    let (server, mut client) = with_table(MAPPED).await;
    client
        .query(
            r#"SET TIME ZONE 'Asia/Tokyo';
            INSERT INTO "OutboxEvent" ("id", "subject", "body", "meta", "dueAt") VALUES ('b', 'x.y', '\x00ff', '{"a": 1, "b": "c"}', now() AT TIME ZONE 'UTC');
            INSERT INTO "OutboxEvent" ("id", "subject", "body", "createdAt") VALUES ('c', 'x.z', '\x01', (now() + interval '1 second') AT TIME ZONE 'UTC')"#,
        )
        .await
        .unwrap();
    let table = table(&server, mapped()).await;
    let claimed = claim(&table, order(10)).await;
    assert_eq!(ids(&claimed), ["b", "c"], "by the stamp, then the key; a time that is missing is no time to wait for");
    let message = messages(&claimed)[0];
    assert_eq!((message.id.as_str(), message.topic.as_str(), &*message.payload), ("evt-b", "bus:x.y", &[0, 255][..]));
    assert_eq!(message.headers, [("a".to_owned(), "1".to_owned()), ("b".to_owned(), "c".to_owned())]);
    assert_eq!(message.key, None);
    assert_eq!(commit(&table, &claimed, &again(Duration::from_secs(3_600))).await, Ended::Committed);
    let sql =
        r#"SELECT "state", "tries", "dueAt" > (now() + interval '59 minutes') AT TIME ZONE 'UTC' FROM "OutboxEvent""#;
    assert_eq!(client.query(sql).await.unwrap(), [["NEW", "1", "t"], ["NEW", "1", "t"]]);
    assert_eq!(claim(&table, order(10)).await.rows.len(), 0, "not due, whatever the sessions' time zone is");
    client.query(r#"UPDATE "OutboxEvent" SET "dueAt" = NULL"#).await.unwrap();
    let claimed = claim(&table, order(10)).await;
    assert_eq!(commit(&table, &claimed, &failed()).await, Ended::Committed);
    assert_eq!(table.replay(vec!["b".to_owned()], AMPLE).await.unwrap(), [true]);
    let claimed = claim(&table, order(10)).await;
    assert_eq!(commit(&table, &claimed, &RowFate::Published).await, Ended::Committed);
    let sql = r#"SELECT "id", "state" FROM "OutboxEvent" ORDER BY 1"#;
    assert_eq!(client.query(sql).await.unwrap(), [["b", "SENT"], ["c", "BROKEN"]]);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_row_holds_is_never_a_statement() {
    let (server, mut client) = with_table(MAPPED).await;
    let evil = r#"'; DROP TABLE "OutboxEvent"; --{}",\"#;
    let quoted = evil.replace('\'', "''");
    client
        .query(&format!(r#"INSERT INTO "OutboxEvent" ("id", "subject", "body") VALUES ('{quoted}', 'x', '')"#))
        .await
        .unwrap();
    let table = table(&server, mapped()).await;
    let claimed = claim(&table, order(10)).await;
    assert_eq!(ids(&claimed), [evil]);
    let held = waybill_core::port::table::TableClaim {
        held: vec![claimed.rows[0].aggregate.clone()],
        without_lock: true,
        ..order(10)
    };
    assert_eq!(claim(&table, held).await.seen, 0, "an aggregate is held by its text");
    assert_eq!(commit(&table, &claimed, &RowFate::Published).await, Ended::Committed);
    assert_eq!(client.value(r#"SELECT "state" FROM "OutboxEvent""#).await.unwrap(), "SENT");
}

#[tokio::test(flavor = "multi_thread")]
async fn statements_without_names_do_the_same() {
    let (server, mut client) = with_table(waybill_testkit::postgres::BY_STATUS).await;
    insert(&mut client, &[(1, "a"), (2, "b")]).await;
    let table = table(&server, json!({ "pooler": true })).await;
    let claimed = claim(&table, order(1)).await;
    assert_eq!(commit(&table, &claimed, &RowFate::Published).await, Ended::Committed);
    assert_eq!(ids(&claim(&table, order(10)).await), ["2"]);
}
