//! Sources: deliveries, settlements, and what a lost instance means for what it had brought.

use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use waybill_core::endpoint::EndpointSettings;
use waybill_core::port::source::{
    Disposition, Overtaken, Pulled, Settled, Source, SourceDelivery, SourceSettlement, SourceWants,
};
use waybill_core::port::transport::{ErrorKind, Fault, Health};
use waybill_sandbox::{EndpointSpec, WasmSource, World};
use waybill_tests::guests;

use super::support::*;

const WANTS: SourceWants =
    SourceWants { window: 50, window_bytes: 1 << 20, on_overtaken: Overtaken::Stop, resume_after: None };

async fn start(path: &str, amount: usize) -> Arc<WasmSource> {
    start_wanting(path, amount, WANTS).await
}

async fn start_wanting(path: &str, amount: usize, wants: SourceWants) -> Arc<WasmSource> {
    let plugin = load(path, World::Source).await.expect("loads");
    let settings = EndpointSettings { config: json!({ "amount": amount }), ..EndpointSettings::new("numbers") };
    let spec = EndpointSpec::new(settings);
    let (source, opened) = WasmSource::start_supervised(plugin, spec, wants).await.expect("can serve");
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

#[tokio::test(flavor = "multi_thread")]
async fn a_source_is_told_its_window_and_keeps_it() {
    let source = start_wanting(guests::BRINGS_NUMBERS, 5, SourceWants { window: 2, ..WANTS }).await;
    let first = pull(&source, 10).await;
    assert_eq!(numbers(&first), ["1", "2"]);
    assert!(pull(&source, 10).await.deliveries.is_empty(), "two are out");
    let items = settlements(&first.deliveries[..1], &Disposition::Ack);
    assert_eq!(source.settle(0, first.session, items, AMPLE).await, Ok(vec![Settled::Done]));
    assert_eq!(numbers(&pull(&source, 10).await), ["3"]);
    source.close(AMPLE).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_instance_resumes_behind_the_position_that_is_known_when_it_opens() {
    let wants = SourceWants { resume_after: Some("2".to_owned()), ..WANTS };
    let source = start_wanting(guests::BRINGS_NUMBERS, 6, wants).await;
    let pulled = pull(&source, 10).await;
    assert_eq!(numbers(&pulled), ["3", "4", "5", "6"]);
    source.resume_after("4".to_owned());
    let trap = settlements(&pulled.deliveries[..1], &Disposition::Extend);
    source.settle(0, pulled.session, trap, AMPLE).await.expect_err("traps");
    let after = tokio::time::timeout(AMPLE, async {
        loop {
            match source.pull(0, 10, 1 << 20, Duration::ZERO).await {
                Ok(pulled) => return pulled,
                Err(_) => tokio::time::sleep(Duration::from_millis(10)).await,
            }
        }
    });
    assert_eq!(numbers(&after.await.expect("a fresh instance")), ["5", "6"]);
    source.close(AMPLE).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn after_quiesce_nothing_is_pulled_and_what_is_out_is_settled() {
    let source = start(guests::BRINGS_NUMBERS, 3).await;
    let pulled = pull(&source, 2).await;
    source.quiesce(AMPLE).await.expect("quiesces");
    let error = source.pull(0, 2, 1 << 20, Duration::ZERO).await.expect_err("quiet");
    assert_eq!(error.fault.code, "PLUGIN.CLOSED");
    let told = tokio::time::timeout(AMPLE, source.next_notices()).await.expect("a tick");
    assert_eq!((told.lane, told.session), (0, pulled.session));
    assert_eq!(told.notices.attributes, [("out".to_owned(), "2".to_owned())], "the guest was told to be quiet");
    let items = settlements(&pulled.deliveries, &Disposition::Ack);
    assert_eq!(source.settle(0, pulled.session, items, AMPLE).await, Ok(vec![Settled::Done; 2]));
    source.close(AMPLE).await;
}

#[tokio::test(flavor = "multi_thread")]
pub async fn floods_notices() {
    // What ticks tell is heard, once, or comes with the next pull.
    let source = start(guests::FLOODS_NOTICES, 3).await;
    let told = tokio::time::timeout(AMPLE, source.next_notices()).await.expect("a tick").notices;
    assert!(told.waiting);
    assert_eq!((told.revoked.len() % 3, told.lost.len() % 3, told.revoked[0].as_str()), (0, 0, "group-0"));
    let with_a_pull = tokio::time::timeout(AMPLE, async {
        loop {
            tokio::time::sleep(Duration::from_millis(150)).await;
            let notices = pull(&source, 1).await.notices;
            if !notices.lost.is_empty() {
                return notices;
            }
        }
    });
    assert!(with_a_pull.await.expect("what nobody took comes with a pull").waiting);
    source.close(AMPLE).await;

    // More than may be told ends the instance and harms nobody else.
    let source = start(guests::FLOODS_NOTICES, 10_001).await;
    let first = pull(&source, 1).await.session;
    let replaced = tokio::time::timeout(AMPLE, async {
        loop {
            match source.pull(0, 1, 1 << 20, Duration::ZERO).await {
                Ok(pulled) if pulled.session == first => {}
                _ => return,
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    });
    replaced.await.expect("the instance that floods is dropped");
    the_host_still_serves().await;
}
