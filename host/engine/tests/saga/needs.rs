//! A participant whose plugin is replaced: whom the next call goes to, and what running sagas still need.

use std::sync::Arc;

use serde_json::json;
use waybill_core::port::participant::Participant;
use waybill_core::saga::state::SagaState;

use crate::support::*;

const GO: &str = "[[steps]]\nname = \"go\"\naction = \"wait:go\"\n";

/// What is needed of `shop`, in words.
async fn needed(host: &Host) -> Vec<String> {
    let needed = host.engine.step_needs().unwrap().needed("shop").await.unwrap();
    needed.iter().map(ToString::to_string).collect()
}

#[tokio::test(start_paused = true)]
async fn the_next_call_goes_to_whoever_serves_now() {
    let world = World::new();
    let host = world.start().await;
    host.run(&format!("{}{GO}{}", step("a", ""), step("b", ""))).await;
    host.until_waiting("one", "signal:go").await;
    let next = FakeParticipant::new("shop", &["a", "b"]);
    let left = host.participants.replace([next.clone() as Arc<dyn Participant>]);
    assert!(left.is_empty(), "it is taken to be the same one");
    host.signal("one", "go", json!(1)).await.unwrap();
    host.until("one", SagaState::Completed).await;
    assert_eq!((world.shop.names(), next.names()), (vec!["a".to_owned()], vec!["b".to_owned()]));
}

#[tokio::test(start_paused = true)]
async fn what_running_sagas_still_call_is_known_with_one_of_them() {
    let world = World::new();
    let host = world.start().await;
    assert_eq!(needed(&host).await, [""; 0]);
    host.run(&format!("{}{GO}{}", step("a", ""), step("b", ""))).await;
    host.begin("two").await;
    for id in ["one", "two"] {
        host.until_waiting(id, "signal:go").await;
    }
    assert_eq!(
        needed(&host).await,
        [
            "the compensation of step \"a\" (2 sagas, one among them)",
            "step \"b\" (2 sagas, one among them)",
            "the compensation of step \"b\" (2 sagas, one among them)"
        ]
    );
    host.signal("one", "go", json!(1)).await.unwrap();
    host.until("one", SagaState::Completed).await;
    assert!(needed(&host).await.contains(&"step \"b\" (saga two)".to_owned()));
    host.signal("two", "go", json!(1)).await.unwrap();
    host.until("two", SagaState::Completed).await;
    assert_eq!(needed(&host).await, [""; 0]);
    assert!(host.engine.step_needs().unwrap().needed("bank").await.unwrap().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_step_that_names_no_participant_is_needed_of_the_one_that_serves_it() {
    let world = World::new();
    let host = world.start().await;
    host.run(&format!("{GO}[[steps]]\nname = \"a\"\naction = \"fn:a\"\n")).await;
    host.until_waiting("one", "signal:go").await;
    assert_eq!(needed(&host).await, ["step \"a\" (saga one)"]);
    let bank = FakeParticipant::new("bank", &["a"]);
    host.participants.replace([bank as Arc<dyn Participant>]);
    assert_eq!(needed(&host).await, [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn a_step_that_is_called_by_its_name_alone_is_unclear_if_another_serves_it_too() {
    let world = World::new();
    let host = world.start().await;
    let steps = "[[steps]]\nname = \"a\"\naction = \"fn:a\"\n[[steps]]\nname = \"b\"\naction = \"fn:shop/b\"\n";
    host.run(&format!("{GO}{steps}")).await;
    host.until_waiting("one", "signal:go").await;
    let needs = host.engine.step_needs().unwrap();
    let unclear = async |participant: &str, steps: &[&str]| {
        let steps: Vec<String> = steps.iter().map(|step| (*step).to_owned()).collect();
        let unclear = needs.unclear(participant, &steps).await.unwrap();
        unclear.iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    assert_eq!(unclear("bank", &["a", "b", "c"]).await, ["step \"a\" (saga one)"]);
    assert_eq!(unclear("bank", &["b", "c"]).await, [""; 0], "who names the participant is understood");
    assert_eq!(unclear("shop", &["a", "b"]).await, [""; 0], "it is the one that serves it");
}

#[tokio::test(start_paused = true)]
async fn what_is_needed_is_not_known_before_the_sagas_were_read() {
    let world = World::new();
    let host = world.launch("host-a", |_| {});
    let unknown = host.engine.step_needs().unwrap().needed("shop").await.unwrap_err();
    assert!(unknown.contains("shard 0"), "{unknown}");
    eventually("it is known", async || host.engine.step_needs().unwrap().needed("shop").await.is_ok()).await;
}
