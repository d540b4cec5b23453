//! Rows in quarantine: what operators do with them is audited whatever becomes of the caller, and looking at them costs little.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use serde_json::json;
use waybill_core::outbox::records::Malformed;

use crate::support::*;

/// Longer than any test waits.
const FOR_EVER: Duration = Duration::from_secs(10 * 365 * 24 * 3600);

/// A host with a message in quarantine that can be read by now, and the row's name.
async fn set_aside(world: &World) -> (Host, String) {
    let host = world.start().await;
    host.outbox.pause("main", "", "ops").await.unwrap();
    host.send_one(message("lost")).await;
    host.drain().await;
    let (at, content) = world.memory.read(|tables| {
        let (at, content) = tables.segments.first_key_value().unwrap();
        (*at, content.clone())
    });
    world.memory.spoil_segment(at.0, at.1, Malformed { reason: "bad checksum".into(), raw: "AAAA".into() });
    let host = world.start().await;
    host.outbox.resume("main", "", "ops").await.unwrap();
    eventually("it is set aside", async || world.memory.read(|tables| tables.quarantine.contains_key(&at))).await;
    world.memory.write(|tables| tables.quarantine.insert(at, ("bad checksum".to_owned(), Some(content))));
    let row = host.outbox.quarantined(None, None, 10).await.unwrap().items.remove(0);
    (host, row.id)
}

/// From now on an act is done at once, and the host hears of it this much later.
fn slow(world: &World, act: &'static str, time: Duration) {
    world.shim.on(move |call| match call {
        Call::Quarantine(name) if name == act => Act::SlowAfter(time),
        _ => Act::Pass,
    });
}

#[tokio::test(start_paused = true)]
async fn a_row_whose_restorer_hung_up_is_audited_and_its_messages_are_sent() {
    let world = World::new();
    let (host, row) = set_aside(&world).await;
    slow(&world, "restore", seconds(10));
    let (outbox, id) = (Arc::clone(&host.outbox), row.clone());
    let ask = tokio::spawn(async move { outbox.restore_row(&id, "again", "ann").await });
    pass(seconds(1)).await;
    ask.abort();
    eventually("it is sent", async || world.main.log().count("lost") == 1).await;
    eventually("it is audited", async || !host.audit_of("QuarantineRestored").await.is_empty()).await;
    let events = host.audit_of("QuarantineRestored").await;
    assert_eq!((events.len(), events[0].actor.as_str(), &events[0].object), (1, "ann", &row));
    assert_eq!((&events[0].detail["went"], &events[0].detail["reason"]), (&json!("queued"), &json!("again")));
}

#[tokio::test(start_paused = true)]
async fn an_act_that_the_store_never_answers_is_audited_with_an_unknown_outcome() {
    for (act, kind) in [("restore", "QuarantineRestored"), ("drop", "QuarantineDropped")] {
        let world = World::new();
        let (host, row) = set_aside(&world).await;
        slow(&world, act, FOR_EVER);
        let error = match act {
            "restore" => host.outbox.restore_row(&row, "again", "ann").await.map(|_| ()),
            _ => host.outbox.drop_row(&row, "again", "ann").await.map(|_| ()),
        };
        assert_eq!(error.unwrap_err().code().as_str(), "PROVIDER.UNAVAILABLE");
        eventually("it is audited", async || !host.audit_of(kind).await.is_empty()).await;
        let events = host.audit_of(kind).await;
        assert_eq!((events.len(), &events[0].object), (1, &row));
        assert_eq!((&events[0].detail["outcome"], &events[0].detail["reason"]), (&json!("unknown"), &json!("again")));
    }
}

async fn is_warned(host: &Host) -> bool {
    host.outbox.ready().await.iter().any(|check| check.name == "quarantine")
}

#[tokio::test(start_paused = true)]
async fn what_lies_there_is_counted_now_and_then_and_anew_after_an_act() {
    let world = World::new();
    let (host, row) = set_aside(&world).await;
    let counts = Arc::new(AtomicU32::new(0));
    let counted = Arc::clone(&counts);
    world.shim.on(move |call| {
        counted.fetch_add(u32::from(matches!(call, Call::Quarantine("counts"))), Ordering::AcqRel);
        Act::Pass
    });
    pass(seconds(60)).await;
    for _ in 0..20 {
        assert!(is_warned(&host).await);
    }
    assert_eq!(counts.load(Ordering::Acquire), 1);
    pass(seconds(60)).await;
    assert!(is_warned(&host).await);
    assert_eq!(counts.load(Ordering::Acquire), 2);
    host.outbox.drop_row(&row, "not needed", "ann").await.unwrap();
    assert!(!is_warned(&host).await, "it says what it said before the act");
}
