//! Several hosts on one store: one of them has a home, and another takes it over.

use std::time::Duration;

use waybill_engine::EngineConfig;
use waybill_testkit::fake_handler::Reply;
use waybill_testkit::fake_source::Standing;
use waybill_testkit::fake_transport::Gate;

use crate::support::*;

fn shared(config: &mut EngineConfig) {
    (config.exclusive, config.owner_ttl) = (false, Duration::from_secs(4));
}

impl World {
    fn host(&self, name: &str) -> Host {
        self.launch(name, self.inbound(vec![self.source()], vec![self.consumer()]), shared)
    }
}

#[tokio::test(start_paused = true)]
async fn only_the_owner_of_a_home_has_its_sources_open() {
    let world = World::new();
    let first = world.host("first");
    first.until_written().await;
    let second = world.host("second");
    pass(seconds(30)).await;
    assert_eq!(world.shop.opened().len(), 1);
    let view = second.shop().await;
    assert_eq!((view.here, view.owner.as_deref(), view.plugin.is_none()), (false, Some("first"), true));
    assert_eq!(first.shop().await.owner.as_deref(), Some("first"));
}

#[tokio::test(start_paused = true)]
async fn when_the_owner_dies_another_host_takes_its_home_over() {
    let world = World::new();
    let first = world.host("first");
    first.until_written().await;
    let second = world.host("second");
    let gate = Gate::default();
    let behind = gate.clone();
    world.http.answer(move |_| Reply::status(200).behind(&behind));
    world.shop.send("m-1", "orders.paid", "1");
    world.until_called(1).await;
    first.crash().await;
    world.http.answer(|_| Reply::status(200));
    second.until_written().await;
    world.until_acknowledged(1).await;
    let calls = world.http.posted();
    assert_eq!((calls.len(), calls[1].is_maybe_handled()), (2, true));
    assert_eq!(second.shop().await.owner.as_deref(), Some("second"));
}

#[tokio::test(start_paused = true)]
async fn when_the_owner_leaves_in_good_order_nothing_is_handled_twice() {
    let world = World::new();
    let first = world.host("first");
    first.until_written().await;
    let second = world.host("second");
    world.http.answer(|_| Reply::status(200).delayed(millis(10)));
    for number in 0..40 {
        world.shop.send(&format!("m-{number}"), "orders.paid", "1");
    }
    world.until_called(5).await;
    first.drain().await;
    second.until_written().await;
    world.until_acknowledged(40).await;
    assert_eq!(world.http.posted().len(), 40);
    assert!(world.http.posted().iter().all(|posted| !posted.is_maybe_handled() || posted.attempt() == 1));
}

#[tokio::test(start_paused = true)]
async fn an_owner_that_another_has_replaced_acknowledges_nothing() {
    let world = World::new();
    let first = world.host("first");
    first.until_written().await;
    let gate = Gate::default();
    let behind = gate.clone();
    world.http.answer(move |_| Reply::status(200).behind(&behind));
    world.shop.send("m-1", "orders.paid", "1");
    world.until_called(1).await;
    // Another host writes its token: what the first one commits from now on is refused.
    world.memory.write(|tables| {
        let record = tables.inbox.shards.get_mut(&waybill_core::ids::ShardId(0)).unwrap();
        (record.token, record.beat) = (record.token + 1, record.beat + 1);
    });
    gate.open();
    pass(seconds(2)).await;
    assert_eq!(world.seen(), 0);
    assert_ne!(world.shop.standings(), [Standing::Acknowledged]);
}
