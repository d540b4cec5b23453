//! Sagas that can't be restored: the others go on, the journal is cut, and an operator puts them back.

use waybill_api::quarantine::{QuarantinedView, Went};
use waybill_api::status::CheckStatus;
use waybill_core::ids::ShardId;
use waybill_core::port::saga::StartSaga;
use waybill_core::port::store::StoreError;
use waybill_core::saga::state::SagaState;

use crate::support::*;

const WAIT: &str = "[[steps]]\nname = \"w\"\naction = \"wait:go\"\n";

/// Two sagas that wait: `good` of definition `s` and `bad` of definition `t`.
async fn two(world: &World) -> Host {
    let host = world.start().await;
    let text = definition(&format!("{}{WAIT}", step("a", "")));
    host.define(&text).await;
    host.define(&text.replacen("\"s\"", "\"t\"", 1)).await;
    host.begin("good").await;
    host.sagas.start(bad()).await.unwrap();
    host.until_waiting("good", "signal:go").await;
    host.until_waiting("bad", "signal:go").await;
    host
}

fn bad() -> StartSaga {
    StartSaga { definition: "t".to_owned(), ..start("bad") }
}

async fn set_aside(host: &Host) -> QuarantinedView {
    eventually("it is set aside", async || host.outbox.quarantined(None, None, 10).await.unwrap().items.len() == 1)
        .await;
    host.outbox.quarantined(None, None, 10).await.unwrap().items.remove(0)
}

async fn go(host: &Host, id: &str) {
    host.signal(id, "go", serde_json::json!(1)).await.unwrap();
    host.until(id, SagaState::Completed).await;
}

#[tokio::test(start_paused = true)]
async fn one_that_can_not_be_restored_stops_no_other_and_comes_back_when_it_can() {
    let world = World::new();
    two(&world).await.crash().await;
    let lost = world.memory.write(|tables| tables.sagas.definitions.remove(&("t".to_owned(), 1))).unwrap();
    let before = world.memory.read(|tables| tables.sagas.shards[&ShardId(0)].beat);
    let host = world.start().await;
    let row = set_aside(&host).await;
    assert_eq!((row.table.as_str(), &row.key[3]), ("saga", &serde_json::json!("bad")));
    assert!(row.reason.contains("definition"), "{}", row.reason);
    let ready = host.outbox.ready().await;
    let check = ready.iter().find(|check| check.name == "quarantine").unwrap();
    assert!(check.status == CheckStatus::Warn && check.detail.contains("1 of saga"), "{check:?}");

    // The journal is cut up to what the others need.
    go(&host, "good").await;
    host.begin("next").await;
    host.until_waiting("next", "signal:go").await;
    let (floor, is_left) = world.memory.read(|tables| {
        let sagas = &tables.sagas;
        let mut entries = sagas.journal.values().flatten();
        (sagas.shards[&ShardId(0)].floor, entries.any(|entry| entry.key == key("bad") && !entry.ended))
    });
    assert!(floor > before && !is_left, "{floor} {before} {is_left}");

    // Nobody begins another one with its id, and it is put back as soon as it can be.
    assert_eq!(host.sagas.start(start("bad")).await.unwrap_err().code().as_str(), "STORAGE.CORRUPT");
    assert!(host.outbox.restore_row(&row.id, "again", "ann").await.is_err());
    world.memory.write(|tables| tables.sagas.definitions.insert(("t".to_owned(), 1), lost));
    assert_eq!(host.outbox.quarantined_row(&row.id).await.unwrap().unreadable, None);
    let restored = host.outbox.restore_row(&row.id, "again", "ann").await.unwrap();
    assert_eq!(restored.went, Went::AtTakeover);
    host.crash().await;
    let host = world.start().await;
    go(&host, "bad").await;
    go(&host, "next").await;
    assert!(host.outbox.ready().await.iter().all(|check| check.name != "quarantine"));
    assert_eq!(world.shop.count("a"), 3, "what was done isn't done again");
}

#[tokio::test(start_paused = true)]
async fn one_without_its_beginning_is_set_aside_once_and_its_id_is_free_when_it_is_dropped() {
    let world = World::new();
    two(&world).await.crash().await;
    world.memory.write(|tables| {
        for entries in tables.sagas.journal.values_mut() {
            entries.retain(|entry| entry.key != key("bad") || entry.from > 0);
        }
    });
    // The commit that sets it aside fails, goes in without a word, and the host dies.
    let mut commits = 0;
    world.shim.on(move |call| match call {
        Call::Commit(_) => {
            commits += 1;
            let gone = StoreError::Unavailable("the network is down".to_owned());
            if commits == 1 { Act::Fail(gone) } else { Act::FailAfter(gone) }
        }
        _ => Act::Pass,
    });
    let host = world.launch("host-a", |_| {});
    set_aside(&host).await;
    host.crash().await;
    world.shim.calm();
    let host = world.start().await;
    pass(seconds(10)).await;
    let row = set_aside(&host).await;
    go(&host, "good").await;
    assert!(host.outbox.restore_row(&row.id, "try", "ann").await.is_err(), "its beginning is gone");
    let dropped = host.outbox.drop_row(&row.id, "it is lost", "ann").await.unwrap();
    assert!(dropped.unreadable.is_some());
    host.sagas.start(bad()).await.unwrap();
    host.until_waiting("bad", "signal:go").await;
    go(&host, "bad").await;
    host.crash().await;
    let host = world.start().await;
    assert_eq!(host.state("bad").await, SagaState::Completed);
    assert!(host.outbox.quarantined(None, None, 10).await.unwrap().items.is_empty());
}
