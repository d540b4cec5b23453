//! Alerts out: once when an incident begins and once when it is over, also across a restart, and where the receiver can't be reached.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use serde_json::Value;
use waybill_api::status::{Check, CheckStatus};
use waybill_core::alert::{AlertSettings, Bounds, Format, Pace, TENANT, Target};
use waybill_core::port::disk::Disk;
use waybill_core::port::transport::ErrorKind;
use waybill_engine::EngineConfig;
use waybill_testkit::fake_transport::{Answer, FakeTransport, ack, permanent};

use crate::support::*;

const MIB: u64 = 1 << 20;

/// Alerts to `main`, without a fallback.
fn alerts(bounds: Bounds) -> AlertSettings {
    AlertSettings {
        to: target("main", "bus:alerts"),
        fallback: None,
        pace: Pace { after: seconds(30), clear_after: seconds(60) },
        bounds,
    }
}

fn target(transport: &str, topic: &str) -> Target {
    Target { transport: transport.to_owned(), topic: topic.to_owned(), format: Format::Json }
}

/// What a transport was given of alerts.
fn given(transport: &FakeTransport) -> Vec<String> {
    let log = transport.log();
    let read = |text: &str| -> String {
        let alert: Value = serde_json::from_str(text).unwrap();
        format!("{} {}", alert["status"].as_str().unwrap(), alert["rule"].as_str().unwrap())
    };
    log.of_tenant(TENANT).into_iter().map(read).collect()
}

async fn check(host: &Host) -> Option<Check> {
    host.outbox.ready().await.into_iter().find(|check| check.name == "alerts")
}

/// A disk as full as somebody says.
struct FakeDisk {
    free: AtomicU64,
    is_reserved: AtomicBool,
}

impl Disk for FakeDisk {
    fn free_bytes(&self) -> io::Result<u64> {
        Ok(self.free.load(Ordering::Acquire))
    }
    fn keep_reserve(&self) -> io::Result<()> {
        self.is_reserved.store(true, Ordering::Release);
        Ok(())
    }
    fn give_reserve(&self) -> io::Result<()> {
        self.is_reserved.store(false, Ordering::Release);
        Ok(())
    }
}

#[tokio::test(start_paused = true)]
async fn an_incident_is_told_once_and_so_is_its_end_also_across_a_restart() {
    let world = World::new();
    world.main.tell(|delivery| match delivery.message.tenant.as_str() == TENANT {
        true => ack(),
        false => permanent("HTTP.400"),
    });
    let change = |config: &mut EngineConfig| {
        config.alerts = Some(alerts(Bounds { dead: Some(2), ..Bounds::default() }));
        config.keep_dead = seconds(1_200);
    };
    let host = world.start_with(change).await;
    host.send(["a", "b"].map(message)).await;
    eventually("the alert", async || given(&world.main) == ["firing dead_letters"]).await;
    let ready = check(&host).await.unwrap();
    assert_eq!((ready.status, ready.detail.as_str()), (CheckStatus::Ok, "incidents that are open: 1"));
    host.drain().await;
    drop(host);
    let host = world.start_with(change).await;
    pass(seconds(300)).await;
    assert_eq!(given(&world.main), ["firing dead_letters"], "the next host knows that it was told");
    // They are retired, and nothing else is dead.
    let both = ["firing dead_letters", "resolved dead_letters"];
    eventually("its end", async || given(&world.main) == both).await;
    pass(seconds(600)).await;
    assert_eq!(given(&world.main), both);
    assert!(
        world
            .main
            .log()
            .sent
            .iter()
            .filter(|sent| sent.tenant == TENANT)
            .all(|sent| { sent.key.as_deref() == Some("alerts") && sent.destination == "alerts" })
    );
    host.drain().await;
}

#[tokio::test(start_paused = true)]
async fn where_the_transport_is_blocked_the_fallback_is_told() {
    let world = World::new();
    world.main.answer(|_| Answer::failing(ErrorKind::Unavailable, "NET.REFUSED"));
    let settings = alerts(Bounds { breaker: true, ..Bounds::default() });
    let settings = AlertSettings { fallback: Some(target("other", "custom:alerts")), ..settings };
    let host = world.start_with(|config| config.alerts = Some(settings)).await;
    host.send_one(message("a")).await;
    eventually("the fallback", async || {
        let mut given = given(&world.other);
        given.sort();
        given == ["firing alerts_held", "firing breaker_open"]
    })
    .await;
    let ready = check(&host).await.unwrap();
    assert_eq!(ready.status, CheckStatus::Warn);
    assert!(ready.detail.contains("NET.REFUSED"), "{}", ready.detail);
    assert!(given(&world.main).is_empty(), "what can't be sent doesn't wait there");
    world.main.tell(|_| ack());
    eventually("the ends", async || given(&world.main) == ["resolved breaker_open"]).await;
    eventually("the fallback's end", async || given(&world.other).contains(&"resolved alerts_held".to_owned())).await;
    assert_eq!(check(&host).await.unwrap().status, CheckStatus::Ok);
    host.drain().await;
}

#[tokio::test(start_paused = true)]
async fn the_alert_of_a_full_disk_gets_the_reserve_and_a_dead_alert_makes_no_other() {
    let world = World::new();
    world.main.tell(|_| permanent("HTTP.400"));
    let disk = Arc::new(FakeDisk { free: AtomicU64::new(1_000 * MIB), is_reserved: AtomicBool::new(false) });
    let host = world
        .start_with(|config| {
            config.disk = Some(Arc::clone(&disk) as _);
            config.alerts = Some(alerts(Bounds { dead: Some(2), disk_free: Some(100 * MIB), ..Bounds::default() }));
        })
        .await;
    host.send_one(message("a")).await;
    eventually("the reserve", async || disk.is_reserved.load(Ordering::Acquire)).await;
    disk.free.store(99 * MIB, Ordering::Release);
    eventually("the alert", async || given(&world.main) == ["firing disk_low"]).await;
    assert!(!disk.is_reserved.load(Ordering::Acquire), "it was given to the alert");
    eventually("the warning", async || check(&host).await.is_some_and(|check| check.status == CheckStatus::Warn)).await;
    let detail = check(&host).await.unwrap().detail;
    assert_eq!(detail, "nobody got those that are dead letters: 1");
    pass(seconds(3_600)).await;
    assert_eq!(given(&world.main), ["firing disk_low"], "one dead letter besides it isn't two");
    host.drain().await;
}

#[tokio::test(start_paused = true)]
async fn a_host_that_is_not_asked_for_alerts_has_none() {
    let world = World::new();
    world.main.tell(|_| permanent("HTTP.400"));
    let host = world.start().await;
    host.send(["a", "b"].map(message)).await;
    pass(seconds(600)).await;
    assert_eq!(check(&host).await, None);
    assert!(given(&world.main).is_empty() && given(&world.other).is_empty());
    host.drain().await;
}
