//! Rates of tenants and transports: what is sent a second, what waits, and who goes on.

use std::time::Duration;

use waybill_core::endpoint::EndpointSettings;
use waybill_core::new_message::NewMessage;
use waybill_core::outbox::owner::WaitKind;
use waybill_core::outbox::rates::Rate;
use waybill_core::port::service::MessageState;
use waybill_core::time::UnixMillis;
use waybill_engine::EngineConfig;

use crate::support::*;

fn rate(per_second: u32, burst: u32) -> Rate {
    Rate { per_second: per_second.try_into().unwrap(), burst: burst.try_into().unwrap() }
}

fn slow_acme(config: &mut EngineConfig) {
    config.rates.insert(tenant("acme"), rate(10, 5));
}

/// Messages of a tenant that were sent by now.
fn sent(world: &World, tenant: &str) -> usize {
    world.main.log().of_tenant(tenant).len()
}

/// How many may be sent in this time.
fn most(time: Duration, rate: Rate) -> usize {
    let ms = u64::try_from(time.as_millis()).unwrap();
    usize::try_from(u64::from(rate.burst.get()) + ms * u64::from(rate.per_second.get()) / 1_000).unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_tenant_sends_as_many_a_second_as_its_rate_says_and_others_go_on() {
    let world = World::new();
    let host = world.start_with(slow_acme).await;
    let began = world.clock.wall();
    let of_acme = |n: u32| NewMessage { tenant: Some("acme".to_owned()), ..keyed(&n.to_string(), "k") };
    let ids = host.send((0..100).map(of_acme)).await;
    assert_eq!(ids.len(), 100, "all are taken in");
    host.send((0..500).map(|n| of_tenant(&n.to_string(), "other"))).await;
    world.main.until(|log| log.of_tenant("other").len() == 500).await;
    let time = world.clock.wall().since(began);
    assert!(time < seconds(5), "the other tenant waited {time:?}");
    for _ in 0..20 {
        pass(millis(500)).await;
        let (count, time) = (sent(&world, "acme"), world.clock.wall().since(began));
        assert!(count <= most(time, rate(10, 5)), "{count} after {time:?}");
    }
    world.main.until(|log| log.of_tenant("acme").len() == 100).await;
    let time = world.clock.wall().since(began);
    assert!(time < seconds(12), "95 at 10 a second took {time:?}");
    let log = world.main.log();
    assert_eq!(log.of_tenant("acme"), (0..100).map(|n| n.to_string()).collect::<Vec<_>>(), "in their order");
}

#[tokio::test(start_paused = true)]
async fn a_transports_rate_counts_for_all_tenants_and_shards_together() {
    let world = World::new();
    let host = world
        .start_with(|config| {
            config.shards = 4;
            config.endpoints.push(EndpointSettings { rate: Some(rate(20, 1)), ..EndpointSettings::new("main") });
        })
        .await;
    let began = world.clock.wall();
    for name in ["a", "b"] {
        host.send((0..50).map(|n| of_tenant(&n.to_string(), name))).await;
    }
    let count = |log: &[&str]| log.iter().map(|name| sent(&world, name)).sum::<usize>();
    for _ in 0..8 {
        pass(millis(500)).await;
        let (count, time) = (count(&["a", "b"]), world.clock.wall().since(began));
        assert!(count <= most(time, rate(20, 1)), "{count} after {time:?}");
    }
    world.main.until(|log| log.sent.len() == 100).await;
    let time = world.clock.wall().since(began);
    assert!(time < seconds(8), "100 at 20 a second took {time:?}");
}

#[tokio::test(start_paused = true)]
async fn people_see_which_limit_holds_what() {
    let world = World::new();
    let host = world
        .start_with(|config| {
            config.rates.insert(tenant("acme"), rate(1, 1));
        })
        .await;
    let ids = host.send((0..10).map(|n| of_tenant(&n.to_string(), "acme"))).await;
    world.main.until(|log| !log.of_tenant("acme").is_empty()).await;
    let blocked = host.outbox.blocked(None).await.unwrap();
    let [view] = blocked.as_slice() else { panic!("{blocked:?}") };
    assert_eq!((view.kind, view.tenant.as_deref(), view.subject.as_str()), (WaitKind::Rate, Some("acme"), "acme"));
    assert_eq!(view.reason, "[[tenant]] acme sends 1 messages a second (rate), 1 at once (burst)");
    assert!(view.waiting >= 8 && view.until.is_some(), "{view:?}");
    assert!(host.outbox.blocked(Some(&tenant("other"))).await.unwrap().is_empty());
    let last = host.outbox.message(&tenant("acme"), &ids[9]).await.unwrap();
    assert_eq!((last.state, last.waiting.unwrap().on), (MessageState::Pending, WaitKind::Rate));
}

#[tokio::test(start_paused = true)]
async fn another_rate_counts_at_once_and_none_lets_everything_go() {
    let world = World::new();
    let host = world
        .start_with(|config| {
            config.rates.insert(tenant("acme"), rate(1, 1));
        })
        .await;
    host.send((0..200).map(|n| of_tenant(&n.to_string(), "acme"))).await;
    pass(seconds(3)).await;
    assert!(sent(&world, "acme") <= 4);
    let with = |rate: Option<Rate>| {
        let mut config = world.config("host-a");
        config.rates.extend(rate.map(|rate| (tenant("acme"), rate)));
        config
    };
    host.engine.reconfigure(with(Some(rate(50, 1)))).await;
    pass(seconds(1)).await;
    let faster = sent(&world, "acme");
    assert!((40..=60).contains(&faster), "{faster} after a second at 50");
    let before: UnixMillis = world.clock.wall();
    host.engine.reconfigure(with(None)).await;
    world.main.until(|log| log.of_tenant("acme").len() == 200).await;
    assert!(world.clock.wall().since(before) < seconds(1));
}

/// What a rate lets go is little: the first lane would take all of it.
#[tokio::test(start_paused = true)]
async fn each_lane_of_a_rated_transport_has_its_turn() {
    let world = World::new();
    world.main.set_limits(|limits| limits.lanes = 2);
    let host = world
        .start_with(|config| {
            config.endpoints.push(EndpointSettings { rate: Some(rate(10, 1)), ..EndpointSettings::new("main") });
        })
        .await;
    host.send((0..2_000).map(|n| of_tenant(&n.to_string(), "big"))).await;
    let began = world.clock.wall();
    host.send((0..20).map(|n| of_tenant(&n.to_string(), "small"))).await;
    world.main.until(|log| log.of_tenant("small").len() == 20).await;
    let time = world.clock.wall().since(began);
    assert!(time < seconds(10), "20 messages beside a busy tenant, at 10 a second, took {time:?}");
    assert!(sent(&world, "big") < 200, "the backlog was still there");
}
