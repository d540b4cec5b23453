//! What a broker takes away or doesn't bring for ever: revoked groups, limits of deliveries, commits that never came.

use std::sync::Arc;

use waybill_core::port::source::{Notices, SourceDelivery};
use waybill_core::port::store::StoreError;
use waybill_testkit::fake_handler::Reply;
use waybill_testkit::fake_source::Standing;
use waybill_testkit::fake_transport::Gate;
use waybill_testkit::memory_store::Fate;

use crate::support::*;

impl World {
    /// A log with groups, as Kafka has it.
    fn is_a_log(&self) {
        self.shop.set_features(&["replays-in-order", "ordered-groups"]);
    }

    fn send_in_group(&self, id: &str) -> usize {
        let bare = SourceDelivery::new("", "orders.paid", "1");
        self.shop.push(SourceDelivery { id: Some(id.to_owned()), group: Some("p-0".to_owned()), ..bare })
    }

    fn revoke(&self) {
        self.shop.tell(0, Notices { revoked: vec!["p-0".to_owned()], ..Notices::default() });
    }

    fn away(&self) {
        self.memory.fail_all(Some(StoreError::Unavailable("away".into())));
    }

    /// The handler answers so, and from then on no commit goes in.
    fn away_once_called(&self, status: u16) {
        let memory = Arc::clone(&self.memory);
        self.http.answer(move |_| {
            memory.fail_all(Some(StoreError::Unavailable("away".into())));
            Reply::status(status)
        });
    }
}

#[tokio::test(start_paused = true)]
async fn a_revocation_is_heard_while_its_source_is_paused() {
    let world = World::new();
    world.is_a_log();
    let mut consumer = world.consumer();
    consumer.concurrency = 1;
    let host = world.start_consumer(consumer).await;
    let gate = Gate::default();
    let behind = gate.clone();
    world.http.answer(move |_| Reply::status(200).behind(&behind));
    for number in 0..3 {
        world.send_in_group(&format!("m-{number}"));
    }
    world.until_called(1).await;
    assert!(host.inbound.pause_source("shop", "", "ann").await.unwrap().paused);
    pass(seconds(3)).await;
    world.revoke();
    pass(seconds(2)).await;
    gate.open();
    eventually("what was in a call is committed", async || world.seen() == 1).await;
    pass(seconds(20)).await;
    assert_eq!(world.http.posted().len(), 1, "the rest of the group is somebody else's");
    assert_eq!(world.shop.kept(0).acknowledged, 0, "its token went with the group");
    host.inbound.resume_source("shop", "", "ann").await.unwrap();
    world.until_acknowledged(3).await;
    assert_eq!(world.http.ids(), ["m-0", "m-1", "m-2"]);
}

#[tokio::test(start_paused = true)]
async fn what_is_revoked_while_nobody_knows_of_its_commit_is_finished_once() {
    for goes_in in [true, false] {
        let world = World::new();
        world.is_a_log();
        let _host = world.start().await;
        if goes_in {
            world.memory.plan_inbox([Fate::ApplyAndBreak]);
        } else {
            world.away_once_called(200);
        }
        world.send_in_group("m-0");
        world.until_called(1).await;
        pass(seconds(1)).await;
        assert_eq!((world.seen(), world.shop.standings()), (usize::from(goes_in), vec![Standing::Out]));
        world.revoke();
        pass(seconds(1)).await;
        world.memory.fail_all(None);
        world.until_acknowledged(1).await;
        assert_eq!((world.http.posted().len(), world.seen()), (1, 1), "went in: {goes_in}");
        assert_eq!(world.shop.kept(0).deliveries, 2, "its token went with the group");
    }
}

#[tokio::test(start_paused = true)]
async fn a_broker_that_brings_a_message_three_times_only_loses_none_to_crashes() {
    let world = World::new();
    world.shop.set_max_deliveries(3);
    let host = world.start().await;
    world.away();
    world.shop.send("m-1", "orders.paid", "1");
    pass(seconds(2)).await;
    assert_eq!((world.shop.kept(0).deliveries, world.http.posted().len()), (1, 0), "it is stored before it is called");
    host.crash().await;
    world.memory.fail_all(None);
    let gate = Gate::default();
    let behind = gate.clone();
    world.http.answer(move |_| Reply::status(200).behind(&behind));
    let host = world.start().await;
    world.until_called(1).await;
    assert_eq!((world.shop.kept(0).deliveries, world.rows().len()), (2, 1));
    host.crash().await;
    world.http.answer(|_| Reply::status(200));
    let _host = world.start().await;
    world.until_called(2).await;
    world.until_rows(0).await;
    assert_eq!(world.shop.standings(), [Standing::Acknowledged]);
    let calls = world.http.posted();
    assert_eq!((calls.len(), calls[1].is_maybe_handled(), world.seen()), (2, true, 1));
}

#[tokio::test(start_paused = true)]
async fn what_was_pulled_and_not_taken_at_a_crash_is_called_once_and_in_order() {
    let world = World::new();
    let host = world.start().await;
    world.away();
    world.shop.send_keyed("a-1", "a", "1");
    world.shop.send_keyed("a-2", "a", "1");
    pass(seconds(2)).await;
    assert_eq!((world.shop.unsettled(), world.http.posted().len()), (2, 0), "no commit holds its place");
    host.crash().await;
    world.memory.fail_all(None);
    let next = world.start().await;
    world.until_acknowledged(2).await;
    assert_eq!(world.http.ids(), ["a-1", "a-2"]);
    assert_eq!(next.ship().await.orphans, 0);
}

#[tokio::test(start_paused = true)]
async fn a_crash_around_the_commit_of_a_dead_letter_leaves_one_of_it_and_one_dlq_message() {
    for goes_in in [true, false] {
        let world = World::new();
        let mut consumer = world.consumer();
        consumer.dlq_subject = Some("{context}.dlq.{subject}".to_owned());
        let host = world.start_consumer(consumer.clone()).await;
        if goes_in {
            world.http.answer(|_| Reply::status(422));
            world.memory.plan_inbox([Fate::ApplyAndBreak]);
        } else {
            world.away_once_called(422);
        }
        world.shop.send("m-1", "orders.paid", "1");
        world.until_called(1).await;
        pass(seconds(1)).await;
        assert_eq!((world.dead_count(), world.shop.standings()), (usize::from(goes_in), vec![Standing::Out]));
        host.crash().await;
        world.memory.fail_all(None);
        world.http.answer(|_| Reply::status(422));
        let next = world.start_consumer(consumer).await;
        world.until_acknowledged(1).await;
        eventually("the DLQ message was delivered", async || !world.messages().is_empty()).await;
        pass(seconds(5)).await;
        assert_eq!((next.dead().await.len(), world.messages().len()), (1, 1), "went in: {goes_in}");
        assert_eq!(world.http.posted().len(), if goes_in { 1 } else { 2 });
    }
}

#[tokio::test(start_paused = true)]
async fn a_clock_that_is_set_back_a_year_forgets_nothing_and_stamps_no_end_before_its_beginning() {
    let world = World::new();
    let host = world.start().await;
    world.http.answer(|posted| Reply::status(200).delayed(seconds(if posted.id == "m-2" { 2 } else { 0 })));
    world.shop.send("m-1", "orders.paid", "1");
    world.until_acknowledged(1).await;
    world.shop.send("m-2", "orders.paid", "1");
    world.until_called(2).await;
    world.stepped.step(-365 * 24 * 3600);
    world.until_acknowledged(2).await;
    let ended = host.status("m-2").await.ended;
    assert_eq!(ended.len(), 1);
    assert!(ended[0].processed_at >= ended[0].received_at, "{ended:?}");
    world.shop.send("m-1", "orders.paid", "1");
    world.until_acknowledged(3).await;
    assert_eq!(world.http.ids(), ["m-1", "m-2"]);
}
