//! For every route a request that is right but for its credential, about something that the host was brought to have.

use std::time::Duration;

use axum::body::Body;
use http::Request;
use sha2::Digest as _;
use waybill_api::plugins::{PluginReload, PluginService};
use waybill_core::ids::Tenant;
use waybill_core::new_message::NewMessage;
use waybill_core::port::provision::{ProvisionAction, ProvisionChange};
use waybill_core::port::service::{OperationRequest, Planned};
use waybill_core::port::tokens::StoredToken;
use waybill_core::saga::id::SagaId;
use waybill_core::time::UnixMillis;
use waybill_server::approval::token::Claims;
use waybill_testkit::memory_host::{InMemoryHost, ORDER, message};

use crate::support::{claims, delete, full_message, get, links, of, post, put};

/// A question that is right.
const CHECK_DEDUP: &str =
    r#"{"target":"a","payload_sha":"0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"}"#;
const DEFINITION: &str = r#"{"name":"probe","version":1,"steps":[{"name":"reserve","action":"fn:orders/reserve","compensation":"fn:orders/reserve"}]}"#;
/// A saga whose only step waits for the reply to a message.
const SHIPPING: &str = "name = \"shipping\"\nversion = 1\n[[steps]]\nname = \"book\"\naction = \"bus:ship.book\"\n";

const EVENT: &str = r#"{"resource_type":"TASK","resource_id":"t","op":"CREATE","schema_version":1}"#;
const IMPORTED: &str = r#"{"event_id":"e","ts_ms":1700000000123,"stream":"task","seq":"1","resource_type":"TASK","resource_id":"t","op":"CREATE","schema_version":1}"#;

/// What a request is about, and what it says.
struct Example {
    id: String,
    body: String,
}

fn about(id: impl Into<String>) -> Example {
    saying(id, "{}")
}

fn saying(id: impl Into<String>, body: impl Into<String>) -> Example {
    Example { id: id.into(), body: body.into() }
}

/// A message with everything, which waits for no other.
fn whole(fresh: &str) -> NewMessage {
    NewMessage { key: Some(fresh.to_owned()), ..full_message(fresh) }
}

/// A request for a route, about something of this tenant that no other example is about.
pub async fn example(host: &InMemoryHost, method: &str, template: &str, tenant: &str) -> Request<Body> {
    let fresh = format!("x-{}", ulid::Ulid::new());
    // An earlier one may have paused it.
    host.outbox.resume("http", "", "ann").await.unwrap();
    let Example { id, body } = match template {
        path if path.starts_with("/v1/messages") => messages(host, path, tenant, &fresh).await,
        path if path.starts_with("/v1/dead-letters") => dead_letters(host, path, tenant, &fresh).await,
        path if path.starts_with("/v1/quarantine") => quarantine(host, path, tenant, &fresh).await,
        path if path.starts_with("/v1/operations") => operations(host, path, tenant, &fresh).await,
        path if path.starts_with("/v1/outbox") => outbox(host, path, tenant, &fresh).await,
        path if path.starts_with("/v1/idempotency") => keys(host, path, tenant, &fresh).await,
        path if path.starts_with("/v1/saga") => sagas(host, path, tenant, &fresh).await,
        path if path.starts_with("/v1/approvals") => approval(host, tenant, &fresh).await,
        "/v1/inbox/{consumer}/{id}" => about(format!("{tenant}-17")),
        path => others(host, path, tenant).await,
    };
    let path = template.replace("{id}", &id).replace("{name}", name_in(template)).replace("{token}", &id);
    let path = path.replace("{code}", "OUTBOX.BUSY").replace("{consumer}", "ship");
    let path = match template {
        "/v1/events" => format!("{path}?prefix=task"),
        "/v1/subscribe" => format!("{path}?selector=stream:task"),
        _ => path,
    };
    match method.to_uppercase().as_str() {
        "GET" => get(&path),
        "POST" => post(&path, body),
        "PUT" => put(&path, body),
        "DELETE" => delete(&path),
        other => panic!("no example for {other} {path}"),
    }
}

fn name_in(template: &str) -> &'static str {
    match template {
        "/v1/saga-definitions/{name}" => "order",
        "/v1/sagas/{id}/signals/{name}" => "paid",
        "/v1/streams/{name}/import" => "task",
        _ => "http",
    }
}

async fn messages(host: &InMemoryHost, path: &str, tenant: &str, fresh: &str) -> Example {
    match path {
        "/v1/messages" => saying("", format!(r#"{{"topic":"bus:a","payload":1,"tenant":"{tenant}"}}"#)),
        "/v1/messages/{id}" => about(host.delivered(of(tenant, whole(fresh))).await.id),
        _ => {
            let waits = host.scheduled(of(tenant, message(fresh)), Duration::from_secs(3_600)).await;
            saying(waits.id, if path.ends_with("reschedule") { r#"{"not_before":4100000000123}"# } else { "{}" })
        }
    }
}

async fn dead_letters(host: &InMemoryHost, path: &str, tenant: &str, fresh: &str) -> Example {
    let dead = host.dead(of(tenant, whole(fresh))).await;
    saying(dead.id, if path.ends_with("quarantine") { r#"{"note":"x"}"# } else { "{}" })
}

async fn quarantine(host: &InMemoryHost, path: &str, tenant: &str, fresh: &str) -> Example {
    about(match path {
        "/v1/quarantine/{id}/restore" => host.readable_row([of(tenant, message(fresh))]).await,
        _ => host.unreadable_row().await,
    })
}

async fn operations(host: &InMemoryHost, path: &str, tenant: &str, fresh: &str) -> Example {
    if path == "/v1/operations" {
        return saying("", r#"{"kind":"purge","filter":"code=NONE"}"#);
    }
    // So slow that it can be stopped.
    for n in 0..4 {
        host.dead(of(tenant, message(&format!("{fresh}-{n}")))).await;
    }
    let request = OperationRequest {
        kind: "quarantine".to_owned(),
        filter: format!("id={fresh}-*"),
        step: None,
        mode: None,
        not_before: None,
        planned: Planned::default(),
        tenant: Some(Tenant::new(tenant).unwrap()),
        rate: Some(1),
        reason: "over".to_owned(),
        actor: "ann".to_owned(),
    };
    about(host.outbox.start_operation(request).await.unwrap().id)
}

async fn outbox(host: &InMemoryHost, path: &str, tenant: &str, fresh: &str) -> Example {
    match path {
        "/v1/outbox/claim" => {
            host.offered(of(tenant, whole(fresh)), "out.memory").await;
            saying("", format!(r#"{{"worker_id":"w","tenant":"{tenant}","wait_ms":20000}}"#))
        }
        "/v1/outbox/settle" => {
            host.offered(of(tenant, message(fresh)), "out.memory").await;
            let claimed = host.claimed("w", tenant).await.pop().unwrap();
            let (id, token) = (claimed.message.id, claimed.token);
            saying("", format!(r#"{{"items":[{{"id":"{id}","token":"{token}","result":"ack","tenant":"{tenant}"}}]}}"#))
        }
        "/v1/outbox/check-dedup" => saying("", CHECK_DEDUP),
        _ => about(""),
    }
}

async fn keys(host: &InMemoryHost, path: &str, tenant: &str, fresh: &str) -> Example {
    let act = path.rsplit('/').next().unwrap();
    if act == "begin" {
        return saying("", format!(r#"{{"key":"{fresh}","hash":"h"}}"#));
    }
    let token = host.begun_key(tenant, fresh).await;
    let more = match act {
        "forget" => return saying("", format!(r#"{{"key":"{fresh}"}}"#)),
        "finish" => r#","result":1"#,
        "fail" => r#","error":"no""#,
        _ => "",
    };
    saying("", format!(r#"{{"key":"{fresh}","token":"{token}"{more}}}"#))
}

async fn sagas(host: &InMemoryHost, path: &str, tenant: &str, fresh: &str) -> Example {
    match path {
        "/v1/saga-definitions" => return saying("", DEFINITION),
        "/v1/sagas/{id}/resume" => drop(host.paused_saga(tenant, fresh).await),
        "/v1/sagas/{id}/retry" | "/v1/sagas/{id}/skip" | "/v1/sagas/{id}/accept" => {
            host.stuck_saga(tenant, fresh).await;
        }
        "/v1/sagas/{id}/replies" => {
            host.define(SHIPPING).await;
            host.begin("shipping", tenant, fresh).await;
            host.until_waiting(tenant, fresh, "reply").await;
        }
        path if path.contains("{id}") => drop(host.waiting_saga(tenant, fresh).await),
        _ => drop(host.define(ORDER).await),
    }
    let body = match path.rsplit('/').next().unwrap() {
        "sagas" => return saying("", format!(r#"{{"definition":"order","tenant":"{tenant}"}}"#)),
        "accept" => r#"{"reason":"by hand"}"#,
        "links" => r#"{"by":"ann"}"#,
        "skip" => r#"{"step":"reserve"}"#,
        "replies" => r#"{"step":"book"}"#,
        _ => "{}",
    };
    saying(fresh, body)
}

async fn approval(host: &InMemoryHost, tenant: &str, fresh: &str) -> Example {
    about(approval_token(host, tenant, fresh, |_| {}).await)
}

/// A link about a saga of this id, which waits for a person. `change` = what it says otherwise.
pub async fn approval_token(host: &InMemoryHost, tenant: &str, id: &str, change: impl FnOnce(&mut Claims)) -> String {
    host.waiting_saga(tenant, id).await;
    let since = host.step(tenant, id, "release").await.since.unwrap().0;
    let mut claims = Claims { tenant: Tenant::new(tenant).unwrap(), saga: SagaId::new(id).unwrap(), since, ..claims() };
    change(&mut claims);
    links(&[7; 32]).token(&claims).unwrap()
}

/// A stored token for all tenants, which is its name.
pub fn stored_token(name: &str) -> StoredToken {
    StoredToken {
        name: name.to_owned(),
        sha256: sha2::Sha256::digest(name).iter().map(|byte| format!("{byte:02x}")).collect(),
        ends_with: String::new(),
        roles: vec!["viewer".to_owned()],
        tenants: None,
        created_at: UnixMillis(1_700_000_000_000),
        created_by: "ann".to_owned(),
        expires_at: None,
    }
}

async fn others(host: &InMemoryHost, path: &str, tenant: &str) -> Example {
    match path {
        "/v1/transactions" => saying("", r#"{"statements":[{"query":"RETURN 1","bindings":{"a":1}}]}"#),
        "/v1/transports/{name}/provision" => {
            host.http.set_provisioned(Ok(vec![ProvisionChange {
                target: "stream ORDERS".to_owned(),
                action: ProvisionAction::Create,
                detail: "subjects orders.>".to_owned(),
            }]));
            saying("", r#"{"apply":true}"#)
        }
        "/v1/sources/{name}/provision" => saying("", r#"{"apply":true}"#),
        "/v1/sources/{name}/replay" => saying("", r#"{"ids":["17"]}"#),
        "/v1/streams/{name}/events" => saying("", format!(r#"{{"events":[{EVENT}],"tenant":"{tenant}"}}"#)),
        "/v1/streams/{name}/import" => saying("", format!(r#"{{"events":[{IMPORTED}]}}"#)),
        "/v1/subscribe/tickets" => saying("", format!(r#"{{"selector":"stream:task","tenant":"{tenant}"}}"#)),
        "/v1/relays/{name}/seek" => saying("", format!(r#"{{"stream":"task","to":"earliest","tenant":"{tenant}"}}"#)),
        "/v1/plugins/{name}/reload" | "/v1/plugins/{name}/rollback" => {
            host.plugins.build("http", &format!("{:064x}", u128::from(ulid::Ulid::new())));
            if path.ends_with("rollback") {
                host.plugins.reload("http", PluginReload::default(), "ann").await.unwrap();
            }
            about("")
        }
        "/v1/plugins/{name}/log" => {
            host.plugins.writes("http", "warn", "the peer closed the connection", &[("peer", "127.0.0.1:9")]);
            about("")
        }
        "/v1/tokens" => saying("", format!(r#"{{"name":"{}","roles":["viewer"]}}"#, ulid::Ulid::new())),
        "/v1/tokens/{name}" => {
            let name = name_in(path).to_owned();
            host.store.write(|tables| tables.tokens.insert(name.clone(), stored_token(&name)));
            about("")
        }
        "/v1/plugins/{name}/component" => saying("", format!("\0asm{}", ulid::Ulid::new())),
        _ => about(""),
    }
}
