//! Definitions.

use crate::support::*;

#[tokio::test(start_paused = true)]
async fn a_definition_is_stored_once_and_a_version_never_changes() {
    let world = World::new();
    let host = world.start().await;
    let text = definition(&steps(&["a", "b"]));
    let dry = host.try_define(&text, true).await.unwrap();
    assert!(dry.created && dry.dry_run);
    assert_eq!(host.sagas.definition("s", None).await.unwrap_err().code().as_str(), "SAGA.NO_DEFINITION");
    assert!(host.define(&text).await.created);
    assert!(!host.define(&text).await.created, "the same again");
    let other = host.try_define(&definition(&steps(&["a"])), false).await.unwrap_err();
    assert_eq!(other.code().as_str(), "SAGA.VERSION_TAKEN");
    let shown = host.sagas.definition("s", None).await.unwrap();
    assert_eq!((shown.version, shown.created_by.as_str()), (1, "ann"));
    assert_eq!(host.sagas.definition("s", Some(4)).await.unwrap_err().code().as_str(), "SAGA.NO_VERSION");
    assert_eq!(host.sagas.definitions(None, None, 10).await.unwrap().items.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn what_is_wrong_and_what_somebody_should_look_at_is_told() {
    let world = World::new();
    let host = world.start().await;
    let missing = "[[steps]]\nname = \"x\"\naction = \"saga:nothing\"\n";
    assert_eq!(host.try_define(&definition(missing), false).await.unwrap_err().code().as_str(), "SAGA.DEFINITION");
    let doubtful =
        "[[steps]]\nname = \"x\"\naction = \"fn:shop/aa\"\n\n[[steps]]\nname = \"y\"\naction = \"fn:bank/pay\"\n";
    let warnings = host.define(&definition(doubtful)).await.warnings;
    let text =
        warnings.iter().map(|problem| format!("{} {}", problem.what, problem.fix)).collect::<Vec<_>>().join("\n");
    assert!(text.contains("no participant serves fn:shop/aa") && text.contains("fn:bank/pay"), "{text}");
    let unknown =
        host.sagas.start(waybill_core::port::saga::StartSaga { definition: "t".to_owned(), ..start("x") }).await;
    assert_eq!(unknown.unwrap_err().code().as_str(), "SAGA.NO_DEFINITION");
    let version = host.sagas.start(waybill_core::port::saga::StartSaga { version: Some(9), ..start("x") }).await;
    assert_eq!(version.unwrap_err().code().as_str(), "SAGA.NO_VERSION");
}

#[tokio::test(start_paused = true)]
async fn a_running_saga_keeps_its_definition_and_define_tells_of_it() {
    let world = World::new();
    let host = world.start().await;
    let wait = "[[steps]]\nname = \"w\"\naction = \"wait:go\"\n";
    host.run(&format!("{}{wait}{}", step("a", ""), step("b", ""))).await;
    host.until_waiting("one", "signal:go").await;
    let second = |rest: &str| format!("name = \"s\"\nversion = 2\n{rest}");
    let same_prefix = second(&format!("{}{wait}{}", step("a", ""), step("c", "")));
    let dry = host.try_define(&same_prefix, true).await.unwrap();
    assert_eq!((dry.running_count, dry.running[0].could_move), (1, true));
    let other_prefix = second(&format!("{}{wait}", step("b", "")));
    let told = host.define(&other_prefix).await;
    assert!(!told.running[0].could_move);
    assert!(told.running[0].reason.as_ref().unwrap().contains("\"a\""), "{:?}", told.running[0].reason);
    host.crash().await;
    let host = world.start().await;
    host.signal("one", "go", serde_json::json!(1)).await.unwrap();
    host.until("one", waybill_core::saga::state::SagaState::Completed).await;
    assert_eq!(world.shop.names(), ["a", "b"], "by version 1");
    host.begin("two").await;
    eventually("the new one begins by version 2", async || world.shop.names().last().unwrap() == "b").await;
    assert_eq!(host.view("two").await.version, 2);
}
