//! Lists: memory and rows as one.

use waybill_core::saga::filter::SagaFilter;
use waybill_core::saga::state::SagaState;

use crate::support::*;

#[tokio::test(start_paused = true)]
async fn a_list_has_every_saga_once_newest_first_whatever_the_size_of_its_pages() {
    let world = World::new();
    let host = world.start().await;
    let wait = "[[steps]]\nname = \"w\"\naction = \"wait:go\"\n";
    host.define(&definition(&format!("{}{wait}", step("a", "")))).await;
    let mut expected = Vec::new();
    for index in 0..25 {
        let id = format!("s{index:02}");
        host.begin(&id).await;
        host.until_waiting(&id, "signal:go").await;
        pass(millis(10)).await;
        if index % 3 == 0 {
            host.signal(&id, "go", serde_json::json!(1)).await.unwrap();
            host.until(&id, SagaState::Completed).await;
        }
        expected.insert(0, id);
    }
    for limit in [1, 2, 7, 25, 100] {
        assert_eq!(host.list("", limit).await, expected, "pages of {limit}");
    }
    assert_eq!(host.list("state=completed", 4).await.len(), 9);
    assert_eq!(host.list("waiting_for=signal:go", 5).await.len(), 16);
    assert_eq!(host.list("step=w state=running", 100).await.len(), 16);
    assert!(host.list("definition=other", 10).await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_foreign_cursor_is_refused() {
    let world = World::new();
    let host = world.start().await;
    for cursor in ["x", "zz", "6e6f", "7b7d7d"] {
        let refused = host.sagas.sagas(&SagaFilter::default(), Some(cursor), 10).await.unwrap_err();
        assert_eq!(refused.code().as_str(), "STORAGE.STATEMENT", "{cursor}");
    }
}

#[tokio::test(start_paused = true)]
async fn counts_tell_what_is_in_memory() {
    let world = World::new();
    let host = world.start().await;
    host.run("[[steps]]\nname = \"w\"\naction = \"wait:go\"\n").await;
    pass(seconds(3)).await;
    let stats = host.sagas.saga_stats();
    assert_eq!((stats.running, stats.stuck, stats.uncommitted), (1, 0, 0));
}
