//! Audit events of messages: written with what they tell of, kept beyond the history.

use waybill_api::dead_letters::Replay;
use waybill_api::status::AuditView;
use waybill_core::audit::AuditQuery;
use waybill_core::glob::Glob;
use waybill_core::port::dead::DeadId;
use waybill_core::port::service::MessageState;
use waybill_testkit::fake_transport::{ack, permanent, retryable};

use crate::support::*;

impl Host {
    /// What the trail says of an object, oldest first.
    async fn trail_of(&self, id: &str) -> Vec<AuditView> {
        let query = AuditQuery { object: Some(Glob::literal(id)), ..AuditQuery::default() };
        let mut lines = self.outbox.audit(&query, None, 1_000).await.unwrap().items;
        lines.reverse();
        lines
    }

    async fn kinds_of(&self, id: &str) -> Vec<String> {
        self.trail_of(id).await.into_iter().map(|line| line.kind).collect()
    }
}

#[tokio::test(start_paused = true)]
async fn the_life_of_a_message_is_in_the_trail_with_codes_attempts_and_host() {
    let world = World::new();
    world.main.tell(|delivery| if delivery.attempt < 3 { retryable("HTTP.503") } else { permanent("HTTP.400") });
    let host = world.start().await;
    let id = host.send_one(message("a")).await;
    host.until_state(&id, MessageState::Dead).await;
    world.main.tell(|_| ack());
    host.outbox.replay(&DeadId::new(&tenant("default"), &id), Replay::because("fixed"), "ops").await.unwrap();
    host.until_state(&id, MessageState::Done).await;
    let trail = host.trail_of(&id).await;
    let mut kinds: Vec<&str> = trail.iter().map(|line| line.kind.as_str()).collect();
    // The act is written beside the commit that does it, so either may be first.
    kinds.sort_unstable();
    assert_eq!(kinds, ["TxBegin", "TxDead", "TxReplay", "TxReplayRequested", "TxRetry", "TxRetry"]);
    let of = |kind: &str| trail.iter().filter(|line| line.kind == kind).collect::<Vec<_>>();
    let retries: Vec<_> = of("TxRetry").iter().map(|line| (&line.detail["attempts"], &line.detail["code"])).collect();
    assert_eq!(retries, [(&1.into(), &"HTTP.503".into()), (&2.into(), &"HTTP.503".into())]);
    let dead = of("TxDead")[0];
    assert_eq!((&dead.detail["attempts"], &dead.detail["code"]), (&3.into(), &"HTTP.400".into()));
    assert_eq!((dead.tenant.as_deref(), &dead.detail["of"]), (Some("default"), &"message".into()));
    assert_eq!(dead.actor, "host-a");
}

#[tokio::test(start_paused = true)]
async fn scheduled_and_transacted_messages_begin_once() {
    let world = World::new();
    let host = world.start().await;
    let later = waybill_core::new_message::NewMessage { not_before: Some(at(seconds(60))), ..named("later", "later") };
    host.send([later]).await;
    host.send([named("again", "again")]).await;
    host.send([named("again", "again")]).await;
    pass(seconds(90)).await;
    host.until_state("later", MessageState::Done).await;
    assert_eq!(host.kinds_of("later").await, ["TxBegin"]);
    assert_eq!(host.kinds_of("again").await, ["TxBegin"], "a repeat begins nothing");
}

#[tokio::test(start_paused = true)]
async fn the_trail_outlives_the_history_and_goes_after_its_own_time() {
    let world = World::new();
    let host = world
        .start_with(|config| {
            config.keep_done = seconds(60);
            config.keep_audit = seconds(3_600);
        })
        .await;
    let id = host.send_one(message("a")).await;
    host.outbox.pause("main", "", "ops").await.unwrap();
    host.outbox.resume("main", "", "ops").await.unwrap();
    host.until_state(&id, MessageState::Done).await;
    pass(seconds(600)).await;
    assert!(host.outbox.message(&tenant("default"), &id).await.is_err(), "its history is gone");
    assert_eq!(host.kinds_of(&id).await, ["TxBegin"]);
    assert_eq!(host.audit_of("TransportPaused").await.len(), 1);
    pass(seconds(3_600)).await;
    assert!(host.kinds_of(&id).await.is_empty());
    assert!(host.audit_of("TransportPaused").await.is_empty(), "acts go with it");
    assert!(world.memory.read(|tables| tables.tx_events.is_empty() && tables.audit.is_empty()));
}

#[tokio::test(start_paused = true)]
async fn where_they_arent_wanted_commits_write_no_events_and_acts_are_there_all_the_same() {
    let world = World::new();
    world.main.tell(|_| permanent("HTTP.400"));
    let host = world.start_with(|config| config.tx_events = false).await;
    let id = host.send_one(message("a")).await;
    host.until_state(&id, MessageState::Dead).await;
    host.outbox.replay(&DeadId::new(&tenant("default"), &id), Replay::because("hope"), "ops").await.unwrap();
    assert_eq!(host.kinds_of(&id).await, ["TxReplayRequested"]);
    assert!(world.memory.read(|tables| tables.tx_events.is_empty()));
}
