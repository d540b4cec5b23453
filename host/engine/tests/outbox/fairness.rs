//! Tenants take turns, and what one has waiting never starves another.

use waybill_core::ids::Tenant;
use waybill_testkit::fake_transport::{Answer, ack, retryable};

use crate::support::*;

#[tokio::test(start_paused = true)]
async fn a_small_tenant_is_served_in_the_first_rounds_beside_a_large_backlog() {
    let world = World::new();
    let host = world.start_with(|config| config.limits.window_messages = 1_000).await;
    host.outbox.pause("main", "", "ops").await.unwrap();
    for page in 0..19 {
        host.send((0..500).map(|index| of_tenant(&format!("{page}-{index}"), "large"))).await;
    }
    host.send((0..500).map(|index| of_tenant(&index.to_string(), "small"))).await;
    host.outbox.resume("main", "", "ops").await.unwrap();
    let log = world.main.until_sent(10_000).await;
    let last_small = log.sent.iter().rposition(|sent| sent.tenant == "small").unwrap();
    assert!(last_small < 2_000, "the last message of the small tenant was number {last_small}");
}

#[tokio::test(start_paused = true)]
async fn tenants_share_by_weight() {
    let world = World::new();
    let host = world
        .start_with(|config| {
            config.weights.insert(Tenant::new("heavy").unwrap(), 3);
        })
        .await;
    host.outbox.pause("main", "", "ops").await.unwrap();
    for name in ["heavy", "light"] {
        host.send((0..3_000).map(|index| of_tenant(&index.to_string(), name))).await;
    }
    host.outbox.resume("main", "", "ops").await.unwrap();
    let log = world.main.until_sent(6_000).await;
    let heavy = log.sent[..2_000].iter().filter(|sent| sent.tenant == "heavy").count();
    assert!((1_400..=1_600).contains(&heavy), "{heavy} of the first 2,000 instead of 1,500");
    let both: usize = ["heavy", "light"].iter().map(|name| log.of_tenant(name).len()).sum();
    assert_eq!(both, 6_000);
}

#[tokio::test(start_paused = true)]
async fn a_tenant_whose_messages_all_wait_for_retries_takes_no_others_room() {
    let world = World::new();
    world
        .main
        .tell(|delivery| if delivery.message.tenant.as_str() == "broken" { retryable("HTTP.503") } else { ack() });
    let host = world
        .start_with(|config| {
            config.limits.window_messages = 400;
            config.limits.open_segments = 8;
            config.parked_per_tenant = 50;
        })
        .await;
    host.send((0..1_000).map(|index| of_tenant(&index.to_string(), "broken"))).await;
    pass(seconds(5)).await;
    // Those in memory may all be under way when the bound is reached.
    assert!(world.memory.read(|tables| tables.parked.len()) <= 50 + 400, "a bounded number is tried");
    let fine = host.send((0..500).map(|index| of_tenant(&format!("fine-{index}"), "fine"))).await;
    let before = world.clock.wall();
    world.main.until(|log| log.of_tenant("fine").len() == fine.len()).await;
    assert!(world.clock.wall().since(before) < seconds(5));
    world.main.tell(|_| ack());
    let log = world
        .main
        .until(|log| {
            (0..1_000)
                .all(|index| log.sent.iter().any(|sent| sent.tenant == "broken" && sent.text() == index.to_string()))
        })
        .await;
    assert!(!log.sent.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_thousand_tenants_are_all_served() {
    let world = World::new();
    world.main.answer(|batch| Answer::each(batch, |_| ack()).after(millis(1)));
    let host = world.start().await;
    host.send((0..5_000).map(|index| of_tenant(&index.to_string(), &format!("tenant-{}", index % 1_000)))).await;
    let log = world.main.until_sent(5_000).await;
    let tenants: std::collections::BTreeSet<&str> = log.sent.iter().map(|sent| sent.tenant.as_str()).collect();
    assert_eq!(tenants.len(), 1_000);
}
