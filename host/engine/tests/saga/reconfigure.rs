//! Another configuration while sagas run.

use std::sync::Arc;

use waybill_core::port::saga::SagaAct;
use waybill_core::saga::json::Json;
use waybill_core::saga::state::SagaState;

use crate::support::*;

const POST: &str = "[[steps]]\nname = \"wait\"\naction = \"wait:go\"\n\
                    [[steps]]\nname = \"post\"\naction = \"http://pay.example/charge\"\n";

#[tokio::test(start_paused = true)]
async fn bounds_count_at_once_and_calls_go_through_the_new_client() {
    let world = World::new();
    let host = world.start().await;
    host.run(POST).await;
    let http = Arc::new(FakeHttp::default());
    let mut next = world.config("host-a");
    next.sagas.limits.input_bytes_max = 50;
    next.sagas.limits.running_max = 1;
    next.sagas.http = Some(http.clone());
    host.engine.reconfigure(next).await;
    let mut large = start("two");
    large.input = Json::of(&serde_json::json!("x".repeat(60)));
    assert_eq!(host.sagas.start(large).await.unwrap_err().code().as_str(), "SAGA.INPUT_TOO_LARGE");
    pass(seconds(1)).await;
    assert_eq!(
        host.sagas.start(start("two")).await.unwrap_err().code().as_str(),
        "SAGA.BUSY",
        "one runs, as many as may"
    );
    host.signal("one", "go", serde_json::json!(1)).await.unwrap();
    host.until("one", SagaState::Completed).await;
    assert_eq!((world.http.posted.lock().len(), http.posted.lock().len()), (0, 1));
}

#[tokio::test(start_paused = true)]
async fn what_a_configuration_does_not_bring_stays_as_at_the_start() {
    let world = World::new();
    let host = world.start().await;
    host.run(&format!("{}{POST}", step("a", ""))).await;
    let mut next = world.config("host-a");
    next.sagas = waybill_engine::SagaConfig::default();
    host.engine.reconfigure(next).await;
    host.signal("one", "go", serde_json::json!(1)).await.unwrap();
    host.until("one", SagaState::Completed).await;
    assert_eq!((world.shop.names(), world.http.posted.lock().len()), (vec!["a".to_owned()], 1));
}

#[tokio::test(start_paused = true)]
async fn ended_sagas_are_kept_as_long_as_it_says_now() {
    let world = World::new();
    let host = world.start().await;
    host.run("[[steps]]\nname = \"wait\"\naction = \"wait:go\"\n").await;
    host.act("one", SagaAct::Cancel).await.unwrap();
    host.until("one", SagaState::Cancelled).await;
    pass(seconds(600)).await;
    assert_eq!(host.list("", 10).await, ["one"]);
    let mut next = world.config("host-a");
    next.sagas.keep_done = seconds(60);
    host.engine.reconfigure(next).await;
    eventually("it is gone", async || host.list("", 10).await.is_empty()).await;
}
