//! What guests can't show: callers who go away in the middle.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

use std::net::TcpListener;
use std::sync::Arc;
use std::time::Duration;

use rustls::{ClientConfig, RootCertStore};
use tokio::sync::Semaphore;
use waybill_bindings::api::net_types::{ConnectOptions, NetError, TlsOptions};
use waybill_core::endpoint::Grants;

use super::{Connection, time_to_connect};
use crate::grants::{EgressPolicy, Pattern, SystemResolver};
use crate::tls::{TlsClient, TlsMaterial};

/// Long enough to begin, far too short to end.
const A_MOMENT: Duration = Duration::from_millis(100);

/// A connection to a peer that takes it and then does nothing.
async fn to_nobody() -> (Connection, TcpListener) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let to = format!("tcp://{}", listener.local_addr().unwrap());
    let grants = Grants::none().allow([to.as_str()]);
    let ask = vec![Pattern::parse(&to).unwrap()];
    let policy = EgressPolicy::new("test", ask, &grants, Arc::new(SystemResolver::default())).unwrap();
    let options = ConnectOptions { tls: None, timeout: 5_000, keep_alive: None, attributes: Vec::new() };
    let permit = Arc::new(Semaphore::new(1)).try_acquire_owned().unwrap();
    let deadline = time_to_connect(Some(5_000));
    (Connection::connect(&policy, &to, &options, None, deadline, permit).await.unwrap(), listener)
}

/// Part of it may be sent: what came next would land in the middle of it.
#[tokio::test]
async fn nothing_is_written_after_a_write_that_was_given_up() {
    let (connection, _listener) = to_nobody().await;
    let given_up = tokio::time::timeout(A_MOMENT, connection.write(&vec![7; 64 << 20], None)).await;
    assert!(given_up.is_err());
    let after = connection.write(b"x", None).await;
    assert!(matches!(&after, Err(NetError::Reset(why)) if why.contains("half-way")), "{after:?}");
}

#[tokio::test]
async fn a_start_of_tls_that_was_given_up_leaves_nothing_usable() {
    let (connection, _listener) = to_nobody().await;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
    let config = builder.with_root_certificates(RootCertStore::empty()).with_no_client_auth();
    let options = TlsOptions {
        server_name: None,
        ca_secret: None,
        client_cert_secret: None,
        client_key_secret: None,
        alpn: Vec::new(),
    };
    let tls = TlsClient::new(&config, options, TlsMaterial::default()).unwrap();
    let given_up = tokio::time::timeout(A_MOMENT, connection.start_tls(tls, time_to_connect(None))).await;
    assert!(given_up.is_err());
    for after in [connection.write(b"x", None).await, connection.read(1, 1, None).await.map(|_| ())] {
        assert!(matches!(&after, Err(NetError::Reset(why)) if why.contains("broken off")), "{after:?}");
    }
}
