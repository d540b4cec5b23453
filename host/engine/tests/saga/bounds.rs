//! Bounds, repeats, what is kept.

use waybill_core::saga::json::Json;
use waybill_core::saga::state::SagaState;

use crate::support::*;

#[tokio::test(start_paused = true)]
async fn past_the_bound_of_running_sagas_a_start_is_refused_until_there_is_room() {
    let world = World::new();
    let host = world.start_with(|config| config.sagas.limits.running_max = 3).await;
    host.define(&definition("[[steps]]\nname = \"w\"\naction = \"wait:go\"\n")).await;
    for id in ["one", "two", "three"] {
        host.begin(id).await;
    }
    let refused = host.sagas.start(start("four")).await.unwrap_err();
    assert_eq!((refused.code().as_str(), refused.retryable()), ("SAGA.BUSY", true));
    host.signal("one", "go", serde_json::json!(1)).await.unwrap();
    host.until("one", SagaState::Completed).await;
    host.begin("four").await;
}

#[tokio::test(start_paused = true)]
async fn an_input_past_the_bound_is_refused_with_the_bound() {
    let world = World::new();
    let host = world.start_with(|config| config.sagas.limits.input_bytes_max = 50).await;
    host.define(&definition(&steps(&["a"]))).await;
    let mut large = start("one");
    large.input = Json::of(&serde_json::json!("x".repeat(60)));
    let refused = host.sagas.start(large).await.unwrap_err();
    assert_eq!(refused.code().as_str(), "SAGA.INPUT_TOO_LARGE");
    assert!(refused.to_string().contains("50"), "{refused}");
}

#[tokio::test(start_paused = true)]
async fn the_same_start_again_answers_the_first_and_another_under_its_id_is_a_conflict() {
    let world = World::new();
    let host = world.start().await;
    host.define(&definition(&steps(&["a"]))).await;
    assert!(!host.begin("one").await.duplicate);
    assert!(host.begin("one").await.duplicate, "while it runs");
    host.until("one", SagaState::Completed).await;
    assert!(host.begin("one").await.duplicate, "after its end");
    let mut other = start("one");
    other.input = Json::null();
    assert_eq!(host.sagas.start(other.clone()).await.unwrap_err().code().as_str(), "STORAGE.CONFLICT");
    host.crash().await;
    let host = world.start().await;
    assert!(host.begin("one").await.duplicate, "after a restart");
    assert_eq!(host.sagas.start(other).await.unwrap_err().code().as_str(), "STORAGE.CONFLICT");
    assert_eq!(world.shop.names(), ["a"]);
}

#[tokio::test(start_paused = true)]
async fn ids_made_by_the_host_differ_and_bad_ones_of_callers_are_refused() {
    let world = World::new();
    let host = world.start().await;
    host.define(&definition(&steps(&["a"]))).await;
    let mut unnamed = start("x");
    unnamed.id = None;
    let first = host.sagas.start(unnamed.clone()).await.unwrap();
    let second = host.sagas.start(unnamed).await.unwrap();
    assert!(first.id != second.id && first.id.as_str().len() == 26);
    for bad in ["", "a~b", "a\nb"] {
        assert!(host.sagas.start(start(bad)).await.is_err(), "{bad:?}");
    }
    let mut header = start("h");
    header.headers = vec![("bad name".to_owned(), "1".to_owned())];
    assert_eq!(host.sagas.start(header).await.unwrap_err().code().as_str(), "SCHEMA.VALIDATION_FAILED");
    let mut trace = start("t");
    trace.traceparent = Some("nonsense".to_owned());
    assert!(host.sagas.start(trace).await.is_err());
}

/// A crash between a start's commit and the kept answer of its request is found by the id: it is known for as long as the key.
#[tokio::test(start_paused = true)]
async fn a_saga_with_an_id_of_an_idempotency_key_is_not_begun_again_although_ended_ones_are_not_kept() {
    for keep_done in [1, 3_600] {
        let world = World::new();
        let host = world
            .start_with(|config| {
                config.sagas.keep_done = seconds(keep_done);
                config.idempotency.ttl = seconds(7_200);
            })
            .await;
        host.define(&definition(&steps(&["a"]))).await;
        let derived = "0123456789abcdef0123456789abcdef";
        for id in ["callers", derived] {
            host.sagas.start(start(id)).await.unwrap();
        }
        eventually("both have run", async || world.shop.count("a") == 2).await;
        pass(seconds(7_000)).await;
        assert_eq!(host.list("", 10).await, [derived]);
        assert!(host.sagas.start(start(derived)).await.unwrap().duplicate);
        assert_eq!(world.shop.count("a"), 2);
        pass(seconds(600)).await;
        assert!(host.list("", 10).await.is_empty());
    }
}

#[tokio::test(start_paused = true)]
async fn ended_sagas_are_removed_after_their_time() {
    let world = World::new();
    let host = world.start_with(|config| config.sagas.keep_done = seconds(3_600)).await;
    host.run(&steps(&["a"])).await;
    host.until("one", SagaState::Completed).await;
    pass(seconds(3_500)).await;
    assert_eq!(host.list("", 10).await, ["one"]);
    pass(seconds(200)).await;
    assert!(host.list("", 10).await.is_empty());
}
