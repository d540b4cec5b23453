//! One order for each key of a consumer.

use waybill_testkit::fake_handler::Reply;
use waybill_testkit::fake_source::Standing;
use waybill_testkit::fake_transport::Gate;

use crate::support::*;

#[tokio::test(start_paused = true)]
async fn messages_of_a_key_are_handled_one_at_a_time_in_order() {
    let world = World::new();
    let _host = world.start().await;
    world.http.answer(|_| Reply::status(200).delayed(millis(30)));
    for number in 0..12 {
        world.shop.send_keyed(&format!("m-{number:02}"), &format!("key-{}", number % 2), "1");
    }
    world.until_acknowledged(12).await;
    assert_eq!(world.http.most_at_once(), 2);
    for key in 0..2 {
        let of = |id: &String| id[2..].parse::<usize>().unwrap() % 2 == key;
        let ids: Vec<String> = world.http.ids().into_iter().filter(of).collect();
        let mut sorted = ids.clone();
        sorted.sort();
        assert_eq!(ids, sorted);
    }
}

#[tokio::test(start_paused = true)]
async fn a_message_that_waits_for_its_retry_holds_its_key_and_no_other() {
    let world = World::new();
    let _host = world.start().await;
    world.http.answer(|posted| match (posted.id.as_str(), posted.attempt()) {
        ("a-1", 1 | 2) => Reply::status(500),
        _ => Reply::status(200),
    });
    world.shop.send_keyed("a-1", "a", "1");
    world.shop.send_keyed("a-2", "a", "1");
    world.shop.send_keyed("b-1", "b", "1");
    world.until_acknowledged(3).await;
    let ids = world.http.ids();
    assert_eq!(ids.iter().filter(|id| *id == "a-1").count(), 3);
    let at = |id: &str| ids.iter().rposition(|known| known == id).unwrap();
    assert!(at("b-1") < at("a-1") && at("a-1") < at("a-2"), "{ids:?}");
}

#[tokio::test(start_paused = true)]
async fn a_dead_letter_frees_its_key() {
    let world = World::new();
    let _host = world.start().await;
    world.http.answer(|posted| Reply::status(if posted.id == "a-1" { 422 } else { 200 }));
    world.shop.send_keyed("a-1", "a", "1");
    world.shop.send_keyed("a-2", "a", "1");
    world.until_acknowledged(2).await;
    assert_eq!(world.http.ids(), ["a-1", "a-2"]);
}

#[tokio::test(start_paused = true)]
async fn a_queue_takes_what_has_a_key_before_it_is_called_and_a_log_does_not() {
    for (features, takes) in [(vec!["extend"], 1), (vec!["replays-in-order", "ordered-groups"], 0)] {
        let world = World::new();
        world.shop.set_features(&features);
        let _host = world.start().await;
        let gate = Gate::default();
        let behind = gate.clone();
        world.http.answer(move |_| Reply::status(200).behind(&behind));
        world.shop.send_keyed("m-1", "a", "1");
        world.until_called(1).await;
        assert_eq!(world.memory.read(|tables| tables.inbox.takes.len()), takes, "{features:?}");
        gate.open();
        world.until_acknowledged(1).await;
        pass(seconds(1)).await;
        assert_eq!(world.memory.read(|tables| tables.inbox.takes.len()), 0, "what is finished needs no take");
    }
}

#[tokio::test(start_paused = true)]
async fn after_a_crash_a_taken_message_keeps_its_place_until_it_comes_again() {
    let world = World::new();
    let host = world.start().await;
    let gate = Gate::default();
    let behind = gate.clone();
    world.http.answer(move |_| Reply::status(200).behind(&behind));
    world.shop.send_keyed("a-1", "a", "1");
    world.until_called(1).await;
    host.crash().await;
    // The broker brings the second before the first.
    world.shop.set_settle_within(seconds(30));
    world.shop.send_keyed("a-2", "a", "1");
    world.http.answer(|_| Reply::status(200));
    let _next = world.start().await;
    world.until_acknowledged(2).await;
    let ids = world.http.ids();
    let first = ids.iter().rposition(|id| id == "a-1").unwrap();
    assert!(first < ids.iter().position(|id| id == "a-2").unwrap(), "{ids:?}");
    assert!(world.http.calls_with("a-1")[1].is_maybe_handled());
    gate.open();
}

#[tokio::test(start_paused = true)]
async fn an_orphan_that_does_not_come_again_gives_its_place_up() {
    let world = World::new();
    let host = world.start().await;
    let gate = Gate::default();
    let behind = gate.clone();
    world.http.answer(move |_| Reply::status(200).behind(&behind));
    let lost = world.shop.send_keyed("a-1", "a", "1");
    world.until_called(1).await;
    host.crash().await;
    world.shop.give_up(lost);
    world.http.answer(|_| Reply::status(200));
    let next = world.start().await;
    world.shop.send_keyed("a-2", "a", "1");
    pass(seconds(10)).await;
    assert_eq!(world.shop.standings()[lost], Standing::GivenUp);
    assert_eq!((next.ship().await.orphans, world.http.posted().len()), (1, 1), "the place blocks its key");
    world.until_acknowledged(1).await;
    assert_eq!((next.ship().await.orphans, world.http.posted().len()), (0, 2));
}

#[tokio::test(start_paused = true)]
async fn a_place_is_kept_for_as_long_as_its_source_takes_to_bring_it_again() {
    let world = World::new();
    world.shop.set_settle_within(seconds(150));
    let host = world.start().await;
    let gate = Gate::default();
    let behind = gate.clone();
    world.http.answer(move |_| Reply::status(200).behind(&behind));
    let lost = world.shop.send_keyed("a-1", "a", "1");
    world.until_called(1).await;
    host.crash().await;
    world.shop.give_up(lost);
    world.http.answer(|_| Reply::status(200));
    let next = world.start().await;
    world.shop.send_keyed("a-2", "a", "1");
    pass(seconds(100)).await;
    assert_eq!((next.ship().await.orphans, world.http.posted().len()), (1, 1), "it could come again after 150 s");
    world.until_acknowledged(1).await;
    assert_eq!((next.ship().await.orphans, world.http.ids()), (0, vec!["a-1".to_owned(), "a-2".to_owned()]));
    gate.open();
}
