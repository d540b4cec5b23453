//! Sources: deliveries, settlements, and what a lost instance means for what it had brought.

use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use waybill_core::endpoint::EndpointSettings;
use waybill_core::port::source::{Disposition, Pulled, Settled, Source, SourceDelivery, SourceSettlement};
use waybill_core::port::transport::{ErrorKind, Fault, Health};
use waybill_sandbox::{EndpointSpec, WasmSource, World};
use waybill_tests::guests;

use super::support::*;

async fn start(path: &str, amount: usize) -> Arc<WasmSource> {
    let plugin = load(path, World::Source).await.expect("loads");
    let settings = EndpointSettings { config: json!({ "amount": amount }), ..EndpointSettings::new("numbers") };
    let (source, opened) = WasmSource::start_supervised(plugin, EndpointSpec::new(settings)).await.expect("can serve");
    opened.expect("opens");
    source
}

async fn pull(source: &WasmSource, max: u32) -> Pulled {
    source.pull(0, max, 1 << 20, Duration::from_millis(10)).await.expect("pulls")
}

fn settlements(deliveries: &[SourceDelivery], disposition: &Disposition) -> Vec<SourceSettlement> {
    let settlement = |delivery: &SourceDelivery| SourceSettlement {
        token: delivery.token.clone(),
        disposition: disposition.clone(),
    };
    deliveries.iter().map(settlement).collect()
}

fn numbers(pulled: &Pulled) -> Vec<String> {
    pulled.deliveries.iter().map(|delivery| String::from_utf8(delivery.payload.to_vec()).unwrap()).collect()
}

#[tokio::test(flavor = "multi_thread")]
pub async fn brings_numbers() {
    let source = start(guests::BRINGS_NUMBERS, 3).await;
    assert_eq!(source.facts().features, ["nack", "ordered-groups"]);
    assert_eq!(source.health().await.health, Health::Ready);
    let first = pull(&source, 2).await;
    assert_eq!(numbers(&first), ["1", "2"]);
    let delivery = &first.deliveries[0];
    assert_eq!(
        (delivery.id.as_deref(), delivery.position.as_deref(), delivery.topic.as_str()),
        (Some("n-1"), Some("1"), "numbers")
    );
    let settle = |session, items| source.settle(0, session, items, AMPLE);
    let acked = settle(first.session, settlements(&first.deliveries[..1], &Disposition::Ack)).await;
    assert_eq!(acked, Ok(vec![Settled::Done]));
    let nacked = settle(first.session, settlements(&first.deliveries[1..], &Disposition::Nack(None))).await;
    assert_eq!(nacked, Ok(vec![Settled::Done]));
    let second = pull(&source, 5).await;
    assert_eq!(numbers(&second), ["2", "3"]);
    assert_eq!(second.session, first.session);
    let reject = Disposition::Reject(Fault::new("TEST.POISON", "poison"));
    let rejected = settle(second.session, settlements(&second.deliveries[..1], &reject)).await.unwrap();
    assert!(matches!(&rejected[0], Settled::Failed(fault) if fault.code == "PLUGIN.UNSUPPORTED"), "{rejected:?}");
    assert_eq!(settle(second.session, Vec::new()).await, Ok(Vec::new()));
    let empty = pull(&source, 5).await;
    assert!(empty.deliveries.is_empty() && empty.caught_up);

    // The instance is lost: what it had brought is lost with it, whatever the new one makes of its tokens.
    let extended = settle(second.session, settlements(&second.deliveries[1..], &Disposition::Extend)).await;
    assert_eq!(extended.expect_err("traps").kind, ErrorKind::Trapped);
    let after = loop {
        match source.pull(0, 5, 1 << 20, Duration::ZERO).await {
            Ok(pulled) => break pulled,
            Err(_) => tokio::time::sleep(Duration::from_millis(10)).await,
        }
    };
    assert_ne!(after.session, second.session);
    assert_eq!(numbers(&after), ["1", "2", "3"], "the fixture forgets");
    let late = settle(second.session, settlements(&second.deliveries[1..], &Disposition::Ack)).await;
    assert_eq!(late, Ok(vec![Settled::Lost]));
    source.close(AMPLE).await;
}

#[tokio::test(flavor = "multi_thread")]
pub async fn brings_too_many() {
    let source = start(guests::BRINGS_TOO_MANY, 1).await;
    let error = source.pull(0, 2, 1 << 20, Duration::ZERO).await.expect_err("broke the contract");
    assert_eq!((error.kind, error.fault.code.as_str()), (ErrorKind::Contract, "PLUGIN.CONTRACT"));
    assert!(error.fault.reason.contains("3 deliveries for 2"), "{}", error.fault.reason);

    let source = start(guests::BRINGS_TOO_MANY, 0).await;
    let pulled = pull(&source, 2).await;
    let items = settlements(&pulled.deliveries, &Disposition::Ack);
    let error = source.settle(0, pulled.session, items, AMPLE).await.expect_err("broke the contract");
    assert!(error.fault.reason.contains("1 results for 2"), "{}", error.fault.reason);
    the_host_still_serves().await;
}
