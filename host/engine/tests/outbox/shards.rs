//! Four shards.

use std::collections::BTreeSet;

use waybill_api::dead_letters::Replay;
use waybill_core::outbox::owner::WaitKind;
use waybill_core::port::dead::DeadId;
use waybill_core::port::service::MessageState;
use waybill_testkit::fake_transport::permanent;

use crate::support::*;

#[tokio::test(start_paused = true)]
async fn over_four_shards_everything_arrives_once_and_every_key_in_order() {
    let world = World::new();
    let host = world.start_with(|config| config.shards = 4).await;
    let mut ids = Vec::new();
    for page in 0..20 {
        // A request over several shards is all or nothing, too.
        ids.extend(
            host.send((0..20).map(|index| {
                let number = page * 20 + index;
                keyed(&number.to_string(), &format!("k-{}", number % 13))
            }))
            .await,
        );
    }
    ids.extend(host.send((400..500).map(|index| message(&index.to_string()))).await);
    host.until_done(&ids).await;
    let log = world.main.log();
    assert_eq!(log.sent.len(), 500);
    for key in 0..13 {
        let numbers: Vec<u32> = log.of_key(&format!("k-{key}")).iter().map(|text| text.parse().unwrap()).collect();
        assert!(numbers.is_sorted(), "{numbers:?}");
    }
    let mut shards = BTreeSet::new();
    for id in &ids {
        shards.insert(host.view(id).await.shard);
    }
    assert_eq!(shards.len(), 4);
}

#[tokio::test(start_paused = true)]
async fn an_id_that_an_enqueuer_over_shards_repeats_meets_itself() {
    let world = World::new();
    let host = world.start_with(|config| config.shards = 4).await;
    let all = || (0..12).map(|index| named(&index.to_string(), &format!("order-{index}")));
    assert!(host.try_send(all()).await.unwrap().duplicates.is_empty());
    world.main.until_sent(12).await;
    assert_eq!(host.try_send(all()).await.unwrap().duplicates.len(), 12);
    let mut other = named("other", "order-3");
    other.key = Some("on another shard".into());
    assert_eq!(host.try_send([other]).await.unwrap_err().code().as_str(), "STORAGE.CONFLICT");
    pass(seconds(60)).await;
    assert_eq!(world.main.log().sent.len(), 12);
}

#[tokio::test(start_paused = true)]
async fn commands_and_drains_reach_every_shard() {
    let world = World::new();
    world.main.tell(|_| permanent("HTTP.400"));
    let host = world.start_with(|config| config.shards = 4).await;
    let ids = host.send((0..40).map(|index| keyed(&index.to_string(), &format!("k-{index}")))).await;
    for id in &ids {
        host.until_state(id, MessageState::Dead).await;
    }
    host.outbox.pause("main", "", "ops").await.unwrap();
    for id in &ids {
        host.outbox.replay(&DeadId::new(&tenant("default"), id), Replay::because("x"), "ops").await.unwrap();
    }
    let blocked = host.outbox.blocked(None).await.unwrap();
    let paused = blocked.iter().filter(|view| view.kind == WaitKind::Paused);
    assert_eq!(paused.map(|view| view.waiting).sum::<u64>(), 40);
    host.drain().await;
    assert!(world.memory.read(|tables| tables.shards.values().all(|record| record.released)));
}
