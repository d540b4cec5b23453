//! Handlers: swapped and rolled back like transports, under a name of their own.

use std::sync::Arc;

use serde_json::json;
use waybill_core::endpoint::EndpointSettings;
use waybill_core::port::handler::{Handler, Inbound, Verdict, VerdictSink};
use waybill_core::time::UnixMillis;
use waybill_sandbox::{ComponentSource, EndpointSpec, HandlerSlot, Reload, Reloaded, TransportSpec, Trust, World};
use waybill_tests::guests;

use super::support::*;

/// What the fleet knows the handler of consumer `ship` by.
const SHIP: &str = "handler.ship";

fn handler(version: &str) -> Vec<u8> {
    component_of("handler", guests::HANDLES_AS_TOLD, version, "")
}

async fn start(place: &Place) -> HandlerSlot {
    let settings = EndpointSettings { config: json!({}), ..EndpointSettings::new("ship") };
    let source = ComponentSource::File(place.file());
    let loaded = place.fleet.load_for_start(World::Handler, "ship", &source, None).await.unwrap();
    let spec = TransportSpec { source, endpoint: EndpointSpec::new(settings) };
    let (slot, opened) = place.fleet.start_handler(spec, loaded).await.unwrap();
    opened.unwrap();
    slot
}

struct Deaf;

impl VerdictSink for Deaf {
    fn settled(&self, _index: usize, _verdict: Verdict) {}
}

async fn handles(handler: &dyn Handler) {
    let inbound = Inbound {
        id: "m-1".to_owned(),
        consumer: "ship".to_owned(),
        source: "shop".to_owned(),
        tenant: "default".to_owned(),
        topic: "orders.paid".to_owned(),
        key: None,
        headers: Vec::new(),
        content_type: Some("application/json".to_owned()),
        payload: json!("fine").to_string().into(),
        event_type: None,
        event_version: None,
        envelope_id: None,
        correlation_id: None,
        causation_id: None,
        reply_to: None,
        occurred_at: None,
        received_at: UnixMillis(1_700_000_000_000),
        attempt: 1,
        maybe_handled: false,
        attributes: Vec::new(),
    };
    let verdicts = handler.handle(0, vec![inbound], PATIENCE, Arc::new(Deaf)).await.expect("handled");
    assert!(matches!(verdicts.as_slice(), [Verdict::Processed(_)]), "{verdicts:?}");
}

fn version(handler: &dyn Handler) -> String {
    handler.identity().version
}

#[tokio::test(flavor = "multi_thread")]
async fn new_calls_go_to_the_next_handler_and_it_can_be_rolled_back() {
    let place = Place::new(Trust::default());
    place.put(&handler("1.0.0"));
    let slot = start(&place).await;
    handles(&slot).await;
    let under_way = slot.serving().expect("a slot has somebody to serve");

    place.put(&handler("2.0.0"));
    let reloaded = place.fleet.reload(SHIP, Reload::default()).await.unwrap();
    assert!(matches!(reloaded, Reloaded::Live(_)));
    assert_eq!((version(&slot), slot.generation()), ("2.0.0".to_owned(), 2));
    handles(&slot).await;
    assert_eq!((version(under_way.as_ref()), under_way.generation()), ("1.0.0".to_owned(), 1));
    handles(under_way.as_ref()).await;
    drop(under_way);

    place.fleet.roll_back(SHIP, "it does worse").await.unwrap();
    assert_eq!((version(&slot), slot.generation()), ("1.0.0".to_owned(), 3));
    handles(&slot).await;

    place.put(&good("3.0.0"));
    place.fleet.reload(SHIP, Reload::default()).await.unwrap_err();
    assert_eq!(version(&slot), "1.0.0", "a transport is no handler");
    handles(&slot).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_handler_and_a_transport_of_one_name_are_two() {
    let place = Place::new(Trust::default());
    place.put(&handler("1.0.0"));
    let slot = start(&place).await;
    assert!(place.fleet.slot(World::Transport, "ship").is_none() && place.fleet.handler("ship").is_some());
    assert_eq!(((*slot).name(), Handler::name(&slot)), (SHIP, "ship"));
}
