//! Guests that try to reach what they weren't granted, on all four ways out. A listener on loopback counts who arrives.

use serde_json::json;
use waybill_core::endpoint::Grants;
use waybill_tests::guests;

use super::support::*;

/// With nothing granted nobody arrives; with the peer granted, the same guest does.
async fn reaches_only_when_granted(path: &str, scheme: &str) {
    let server = Server::start();
    let transport = start(path, settings(server.config())).await;
    let refused = seen(&transport).await;
    assert!(!refused.contains("reached"), "{refused}");
    assert_eq!(server.connects().await, 0);

    // Other ports, other schemes, wildcards and other machines don't help.
    let port = server.address.port();
    let patterns = [
        format!("{scheme}://127.0.0.1:{}", port ^ 1),
        format!("{}://127.0.0.1:{port}", if scheme == "tcp" { "http" } else { "tcp" }),
        format!("{scheme}://*:*"),
        format!("{scheme}://127.0.0.2:{port}"),
        format!("{scheme}://localhost:{port}"),
    ];
    for pattern in &patterns {
        let transport = start(path, granting(server.config(), &[pattern])).await;
        let refused = seen(&transport).await;
        assert!(!refused.contains("reached"), "{pattern}: {refused}");
    }
    assert_eq!(server.connects().await, 0);

    let granted = format!("{scheme}://127.0.0.1:{port}");
    let transport = start(path, granting(server.config(), &[&granted])).await;
    let reached = seen(&transport).await;
    assert!(reached.contains("reached"), "{reached}");
    assert_eq!(server.connects().await, 1);
}

#[tokio::test(flavor = "multi_thread")]
pub async fn reaches_by_http() {
    reaches_only_when_granted(guests::REACHES_BY_HTTP, "http").await;
}

#[tokio::test(flavor = "multi_thread")]
pub async fn reaches_by_net() {
    reaches_only_when_granted(guests::REACHES_BY_NET, "tcp").await;
}

#[tokio::test(flavor = "multi_thread")]
pub async fn reaches_by_wasi_http() {
    reaches_only_when_granted(guests::REACHES_BY_WASI_HTTP, "http").await;
}

/// The world without async imports, step by step: the same connections, waited for by the whole instance.
#[tokio::test(flavor = "multi_thread")]
pub async fn reaches_by_blocking() {
    let server = Server::start();
    let transport = start(guests::REACHES_BY_BLOCKING, settings(server.config())).await;
    let refused = seen(&transport).await;
    assert_eq!(refused.matches("Denied").count(), 2, "{refused}");
    assert_eq!(server.connects().await, 0);

    let granted = [format!("tcp://{}", server.address), format!("http://{}", server.address)];
    let granted: Vec<&str> = granted.iter().map(String::as_str).collect();
    let transport = start(guests::REACHES_BY_BLOCKING, granting(server.config(), &granted)).await;
    assert_eq!(
        seen(&transport).await,
        "net: reached Ok(0) Err(NetError::Timeout) Ok(()) Ok(\"HTTP/1.1\") Ok(true) Ok(()) Err(NetError::Closed) \
         Err(NetError::Closed) true; http: reached 204"
    );
    assert_eq!(server.connects().await, 2);
}

/// Closed whatever is granted: this host offers `net` instead.
#[tokio::test(flavor = "multi_thread")]
pub async fn reaches_by_wasi_sockets() {
    let server = Server::start();
    let everything = ["tcp://*:*", "tcp://127.0.0.0/8:*", "tcp://[::1]:*", "http://*:*", "http://127.0.0.0/8:*"];
    let transport = start(guests::REACHES_BY_WASI_SOCKETS, granting(server.config(), &everything)).await;
    let refused = seen(&transport).await;
    for way in ["connect", "listen", "send", "resolve"] {
        assert!(refused.contains(way), "{refused}");
    }
    assert!(!refused.contains("reached"), "{refused}");
    assert_eq!(server.connects().await, 0);
}

/// A grant doesn't widen what the manifest asks for.
#[tokio::test(flavor = "multi_thread")]
pub async fn asks_for_nothing_and_reaches() {
    let server = Server::start();
    let granted = format!("tcp://{}", server.address);
    let transport = start(guests::ASKS_FOR_NOTHING_AND_REACHES, granting(server.config(), &[&granted])).await;
    let refused = seen(&transport).await;
    assert!(refused.contains("Denied") && refused.contains("manifest"), "{refused}");
    assert_eq!(server.connects().await, 0);
}

/// The refusal names the line that is missing.
#[tokio::test(flavor = "multi_thread")]
async fn a_denial_names_the_missing_grant() {
    let transport = start(guests::REACHES_BY_NET, settings(json!({ "address": "broker.internal:4222" }))).await;
    let refused = seen(&transport).await;
    assert!(refused.contains("tcp://broker.internal:4222"), "{refused}");
    assert!(refused.contains("allow.net of fixture"), "{refused}");
}

/// The default of the bundled `http` transport: this machine, and nothing else.
#[tokio::test(flavor = "multi_thread")]
async fn the_loopback_grant_reaches_this_machine_only() {
    let server = Server::start();
    let with = |address: String| {
        let mut spec = settings(json!({ "address": address }));
        spec.settings.grants = Grants::loopback_http();
        spec
    };
    let transport = start(guests::REACHES_BY_HTTP, with(server.address.to_string())).await;
    assert!(seen(&transport).await.contains("reached 204"));
    for elsewhere in ["10.0.0.1:80", "169.254.169.254:80", "192.0.2.1:80", "example.com:80", "[fe80::1]:80"] {
        let transport = start(guests::REACHES_BY_HTTP, with(elsewhere.to_owned())).await;
        let refused = seen(&transport).await;
        assert!(refused.contains("Denied"), "{elsewhere}: {refused}");
    }
}

#[tokio::test(flavor = "multi_thread")]
pub async fn reads_the_surroundings() {
    let transport = start_plain(guests::READS_THE_SURROUNDINGS).await;
    let found = seen(&transport).await;
    assert!(!found.contains("PATH") && !found.contains("CARGO"), "{found}");
    assert!(found.contains('0') || found.to_lowercase().contains("none"), "{found}");
}

#[tokio::test(flavor = "multi_thread")]
pub async fn hoards_connections() {
    let server = Server::start();
    let grant = format!("tcp://{}", server.address);
    let mut settings = granting(json!({ "address": server.address.to_string(), "amount": 50 }), &[&grant]);
    settings.limits.connections = 5;
    let transport = start(guests::HOARDS_CONNECTIONS, settings).await;
    let report = seen(&transport).await;
    assert!(report.starts_with("5 then NetError::Limit"), "{report}");
    assert_eq!(server.connects().await, 5);
    // The call has ended, so its connections are given back.
    assert!(seen(&transport).await.starts_with("5 then NetError::Limit"));
}
