//! A server with too little memory asks to wait: nothing more is sent, no attempt counts, and it goes on by itself.

use std::sync::Arc;
use std::time::Duration;

use waybill_core::port::transport::{ErrorKind, Health, Outcome, OutcomeSink, SendCall, Transport};
use waybill_testkit::rabbitmq::Server;

use super::support::*;

/// Longest the server takes to notice its own memory.
const NOTICED_WITHIN: Duration = Duration::from_secs(240);
/// Time of a call that the server may not answer.
const CALL: Duration = Duration::from_secs(10);

struct Nobody;

impl OutcomeSink for Nobody {
    fn settled(&self, _: usize, _: Outcome) {}
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_asks_to_wait_gets_nothing_until_it_takes_messages_again() {
    let server = Server::start().await.unwrap();
    let (transport, mut client) = to(&server, "orders").await;
    assert_eq!(fates(&send(&transport, batch(0, 10, "orders.created")).await), "aaaaaaaaaa");

    server.ctl(&["set_vm_memory_high_watermark", "0"]).await.unwrap();
    // The server says so at the first message that meets the alarm, and looks at that one later.
    let (mut number, mut met) = (10, 0);
    let throttled = tokio::time::timeout(NOTICED_WITHIN, async {
        loop {
            let call = transport.send_batch(
                SendCall::new(0, CALL),
                batch(number, number + 1, "orders.created"),
                Arc::new(Nobody),
            );
            match call.await {
                Ok(outcomes) => {
                    number += 1;
                    met += usize::from(fates(&outcomes) == "R");
                    assert!(["a", "R"].contains(&fates(&outcomes).as_str()), "{outcomes:#?}");
                }
                Err(error) => break error,
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    });
    let error = throttled.await.expect("the server asks to wait");
    assert_eq!(met, 1, "one message met it, and counts an attempt");
    assert_eq!(error.kind, ErrorKind::Throttled, "{error:?}");
    assert!(["RABBITMQ.BLOCKED", "PLUGIN.PEER_BLOCKED"].contains(&error.fault.code.as_str()), "{error:?}");
    assert!(error.fault.reason.contains("memory") && !error.fault.maybe_delivered, "{error:?}");
    let report = transport.health().await;
    assert_eq!(report.health, Health::Blocked, "{report:?}");

    server.ctl(&["set_vm_memory_high_watermark", "0.6"]).await.unwrap();
    let through = tokio::time::timeout(NOTICED_WITHIN, async {
        loop {
            match try_send(&transport, batch(1_000, 1_010, "orders.created")).await {
                Ok(outcomes) if acknowledged(&outcomes) == 10 => break,
                Ok(outcomes) => assert_eq!(fates(&outcomes), "----------"),
                Err(error) => assert_eq!(error.kind, ErrorKind::Throttled, "{error:?}"),
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    });
    through.await.expect("goes on by itself");
    assert_eq!(transport.health().await.health, Health::Ready);
    // Each message once, the one that met the alarm among them.
    let all = client.read_all("orders").await.unwrap();
    assert_eq!(all.len() as u64, number + 10);
}
