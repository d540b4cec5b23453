//! Rows that can't be read, on the release binary: a host whose store has one in every table starts, owns its shard, takes and
//! delivers messages, warns, and an operator sees each of them, puts back what was mended and drops the rest.

#[path = "../../examples/golden/raw.rs"]
#[allow(dead_code)]
mod raw;

use std::time::Duration;

use raw::Raw;
use serde_json::{Value, json};
use waybill_testkit::api::Api;
use waybill_testkit::process::{Host, Launch, binary};

/// Far longer than anything here takes: a broken host must not hang the suite.
const PATIENCE: Duration = Duration::from_secs(180);

/// Tables that a host reads by itself when it starts and while it works, with where a row of each lies.
const ROWS: [(&str, &str); 10] = [
    ("outbox", "[0, 7]"),
    ("outbox_door", "[0, 1]"),
    ("outbox_shard", "0"),
    ("parked", "[0, 7]"),
    ("scheduled", "[0, 7, 'id']"),
    ("dead_letters", "[0, 8]"),
    ("outbox_done", "[0, 7, 1]"),
    ("saga", "[0, 7, 'acme', 'bad']"),
    ("saga_shard", "0"),
    ("saga_journal", "[0, 7]"),
];

async fn eventually(what: &str, mut so: impl AsyncFnMut() -> bool) {
    let waiting = async {
        while !so().await {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(PATIENCE, waiting).await.unwrap_or_else(|_| panic!("never: {what}"));
}

async fn rows(api: &Api) -> Vec<Value> {
    api.list("/v1/quarantine", &[]).await.unwrap()
}

fn message(id: &str) -> Value {
    json!({ "id": id, "topic": "bus:x", "key": "k", "payload": { "id": id } })
}

async fn claim(api: &Api) -> Vec<String> {
    let asked = json!({ "worker_id": "w", "limit": 100, "wait_ms": 10_000 });
    let items = api.post("/v1/outbox/claim", &asked).await.unwrap().body["items"].as_array().cloned().unwrap();
    for item in &items {
        let ack = json!({ "items": [{ "id": item["id"], "tenant": item["tenant"], "token": item["token"], "result": "ack" }] });
        let settled = api.post("/v1/outbox/settle", &ack).await.unwrap();
        assert_eq!(settled.body["items"][0]["applied"], true, "{settled:?}");
    }
    items.iter().map(|item| item["id"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_host_goes_on_with_an_unreadable_row_in_every_table() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    let config = format!(
        "[store]\nurl = \"surrealkv://{}\"\nmemtable = \"8MiB\"\n[dead]\non_dead = \"hold_key\"\n\
         [[route]]\nmatch = \"bus:**\"\ntransport = \"external\"\n",
        data.display()
    );
    let launch = Launch::prepare(binary().unwrap(), dir.path(), &config).unwrap();
    let (host, api) = Host::ready(&launch).await.unwrap();
    // One that waits for a retry, to be damaged and mended.
    assert!(api.post("/v1/messages", &message("mended")).await.unwrap().is_ok());
    let asked = json!({ "worker_id": "w", "wait_ms": 10_000 });
    let item = api.post("/v1/outbox/claim", &asked).await.unwrap().body["items"][0].clone();
    let nack =
        json!({ "id": "mended", "token": item["token"], "result": "nack", "next_attempt_at": "2199-01-01T00:00:00Z" });
    assert!(api.post("/v1/outbox/settle", &json!({ "items": [nack] })).await.unwrap().is_ok());
    assert!(api.post("/v1/messages", &message("first")).await.unwrap().is_ok());
    assert!(host.terminate(PATIENCE).await.unwrap().success());

    let raw = Raw::open(&data).await;
    let good = raw.run("SELECT VALUE encoding::base64::encode(data) FROM parked").await[0].as_str().unwrap().to_owned();
    raw.run("UPDATE parked SET data = <bytes> 'WBPjunkjunk' RETURN NONE").await;
    for (table, place) in ROWS {
        raw.run(&format!("UPSERT {table}:{place} CONTENT {{ junk: 17, holds_key: true }} RETURN NONE")).await;
    }
    raw.close().await;

    let (host, api) = Host::ready(&launch).await.unwrap();
    assert!(api.post("/v1/messages", &message("second")).await.unwrap().is_ok());
    let mut taken = Vec::new();
    eventually("both are delivered", async || {
        taken.extend(claim(&api).await);
        taken.len() == 2
    })
    .await;
    assert_eq!(taken, ["first", "second"], "in the order of their key");
    eventually("all of them lie in quarantine", async || {
        // Lists meet what the host doesn't need by itself.
        api.get("/v1/messages", &[("filter", "state=done")]).await.unwrap();
        api.get("/v1/dead-letters", &[]).await.unwrap();
        api.get("/v1/sagas", &[]).await.unwrap();
        let ready = api.get("/readyz", &[]).await.unwrap().body.to_string();
        ROWS.iter().all(|(table, _)| ready.contains(&format!(" of {table}")))
    })
    .await;
    let ready = api.get("/readyz", &[]).await.unwrap();
    assert!(ready.is_ok() && ready.body["status"] == "warn", "{ready:?}");
    let check = ready.body["checks"].as_array().unwrap().iter().find(|check| check["name"] == "quarantine").unwrap();
    for (table, _) in ROWS {
        assert!(check["detail"].as_str().unwrap().contains(&format!(" of {table}")), "{check}");
    }

    // Mended below the host, put back by it, and delivered.
    assert!(host.terminate(PATIENCE).await.unwrap().success());
    let raw = Raw::open(&data).await;
    let mend = "UPDATE outbox_quarantine SET row.data = encoding::base64::decode";
    raw.run(&format!("{mend}('{good}') WHERE `table` = 'parked' AND row.junk = NONE RETURN NONE")).await;
    raw.close().await;
    let (host, api) = Host::ready(&launch).await.unwrap();
    let (mut mended, mut dropped) = (0, 0);
    for row in rows(&api).await {
        let id = row["id"].as_str().unwrap();
        let shown = api.get(&format!("/v1/quarantine/{id}"), &[]).await.unwrap().body;
        let restored = api.post(&format!("/v1/quarantine/{id}/restore"), &json!({ "reason": "mended" })).await.unwrap();
        if shown["unreadable"].is_null() {
            assert_eq!((restored.status, &restored.body["went"]), (200, &json!("queued")), "{restored:?}");
            mended += 1;
            continue;
        }
        assert_eq!((restored.status, restored.code()), (409, Some("OUTBOX.STATE")), "{shown} {restored:?}");
        assert_eq!(shown["columns"]["junk"], 17, "{shown}");
        let gone = api.post(&format!("/v1/quarantine/{id}/drop"), &json!({ "reason": "junk" })).await.unwrap();
        assert!(gone.is_ok(), "{gone:?}");
        dropped += 1;
    }
    assert_eq!((mended, dropped), (1, ROWS.len()));
    eventually("the mended one is delivered", async || claim(&api).await == ["mended"]).await;
    // Readiness is worked out now and then, and told to all who ask meanwhile.
    eventually("nothing lies in quarantine any more", async || {
        !api.get("/readyz", &[]).await.unwrap().body.to_string().contains("quarantine")
    })
    .await;
    let audit = api.get("/v1/audit", &[("limit", "100")]).await.unwrap().body.to_string();
    assert!(audit.contains("QuarantineRestored") && audit.contains("QuarantineDropped"), "{audit}");
    assert!(host.terminate(PATIENCE).await.unwrap().success());
}
