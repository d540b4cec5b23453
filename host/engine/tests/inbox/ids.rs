//! What names a message, and what an id that was used for something else becomes.

use std::time::Duration;

use waybill_core::inbox::intake::MissingId;
use waybill_core::inbox::settings::OnReusedId;
use waybill_core::port::source::SourceDelivery;
use waybill_testkit::fake_handler::Reply;
use waybill_testkit::fake_source::{FakeSource, Standing};

use crate::support::*;

#[tokio::test(start_paused = true)]
async fn a_known_id_with_another_payload_is_a_dead_letter_once() {
    let world = World::new();
    let host = world.start().await;
    for payload in ["1", "2", "2", "1"] {
        world.shop.send("m-1", "orders.paid", payload);
    }
    world.until_acknowledged(4).await;
    let dead = host.dead().await;
    assert_eq!((dead.len(), dead[0].code.as_str()), (1, "INBOX.ID_REUSED"));
    assert_eq!(world.http.posted().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn senders_that_render_anew_may_repeat_an_id() {
    let world = World::new();
    let mut consumer = world.consumer();
    consumer.on_reused_id = OnReusedId::Duplicate;
    let _host = world.start_consumer(consumer).await;
    world.shop.send("m-1", "orders.paid", "1");
    world.until_acknowledged(1).await;
    world.shop.send("m-1", "orders.paid", "2");
    world.until_acknowledged(2).await;
    assert_eq!((world.http.posted().len(), world.dead_count()), (1, 0));
}

#[tokio::test(start_paused = true)]
async fn a_position_names_what_its_sender_does_not() {
    let world = World::new();
    let _host = world.start().await;
    let heartbeat = || SourceDelivery::new("", "orders.beat", "{}");
    world.shop.push(heartbeat());
    world.shop.push(heartbeat());
    world.until_acknowledged(2).await;
    assert_eq!(world.http.ids(), ["queue/0", "queue/1"], "two equal heartbeats are two messages");
}

#[tokio::test(start_paused = true)]
async fn what_has_no_name_at_all_may_be_refused() {
    let world = World::new();
    let mut source = world.source();
    source.missing_id = MissingId::Dead;
    let host = world.start_with(world.inbound(vec![source], vec![world.consumer()])).await;
    let unnamed = SourceDelivery::new("", "orders.paid", "1");
    world.shop.push(SourceDelivery { position: Some(String::new()), ..unnamed });
    world.until_acknowledged(1).await;
    let dead = host.dead().await;
    assert_eq!((dead[0].code.as_str(), dead[0].consumer.as_str()), ("INBOX.MISSING_ID", "~shop"));
}

#[tokio::test(start_paused = true)]
async fn what_no_consumer_takes_is_a_dead_letter_and_is_handled_by_one_that_came_since() {
    let world = World::new();
    let mut consumer = world.consumer();
    consumer.matches = vec![waybill_core::route::Pattern::parse("bus:orders.**").unwrap()];
    let host = world.start_consumer(consumer).await;
    world.shop.send("m-1", "stock.low", "1");
    world.until_acknowledged(1).await;
    let dead = host.dead().await;
    assert_eq!(dead[0].code, "INBOX.NO_CONSUMER");
    let mut config = world.config("host-a", world.inbound(vec![world.source()], vec![world.consumer()]));
    config.sagas = Default::default();
    host.engine.reconfigure(config).await;
    pass(seconds(2)).await;
    host.until_written().await;
    let named = waybill_core::port::dead::DeadId::new(&tenant("default"), &dead[0].id);
    host.outbox.replay(&named, waybill_api::dead_letters::Replay::because("added"), "ann").await.unwrap();
    world.until_called(1).await;
    world.until_rows(0).await;
    assert_eq!(host.dead().await.len(), 0);
}

#[tokio::test(start_paused = true)]
async fn what_is_too_large_goes_to_the_source_s_own_place_or_is_a_dead_letter_with_its_size() {
    for (features, standing, dead) in
        [(vec!["extend", "reject"], Standing::Rejected, 0), (vec!["extend"], Standing::Acknowledged, 1)]
    {
        let world = World::new();
        world.shop.set_features(&features);
        let mut inbound = world.inbound(vec![world.source()], vec![world.consumer()]);
        inbound.payload_bytes_max = 4;
        let host = world.start_with(inbound).await;
        world.shop.send("m-1", "orders.paid", "12345");
        eventually("it is settled", async || world.shop.standings() == [standing]).await;
        let letters = host.dead().await;
        assert_eq!(letters.len(), dead);
        assert!(letters.iter().all(|letter| letter.payload_bytes == 5 && letter.payload_omitted));
        assert_eq!(world.http.posted().len(), 0);
    }
}

#[tokio::test(start_paused = true)]
async fn the_window_counts_owned_time_and_no_step_of_a_clock_shortens_it() {
    let world = World::new();
    let mut inbound = world.inbound(vec![world.source()], vec![world.consumer()]);
    inbound.dedup_window = Duration::from_secs(600);
    let _host = world.start_with(inbound).await;
    world.shop.send("m-1", "orders.paid", "1");
    world.until_acknowledged(1).await;
    world.stepped.step(365 * 24 * 3600);
    pass(seconds(300)).await;
    world.shop.send("m-1", "orders.paid", "1");
    world.until_acknowledged(2).await;
    assert_eq!(world.http.posted().len(), 1, "a year by the wall clock is five minutes of owned time");
    pass(seconds(1_200)).await;
    assert_eq!(world.seen(), 0, "what is out of the window is forgotten");
    world.shop.send("m-1", "orders.paid", "1");
    world.until_acknowledged(3).await;
    assert_eq!(world.http.posted().len(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_consumer_that_is_not_idempotent_handles_every_delivery() {
    let world = World::new();
    let mut consumer = world.consumer();
    consumer.idempotent = false;
    let _host = world.start_consumer(consumer).await;
    world.http.answer(|_| Reply::status(200));
    for count in 1..=3 {
        world.shop.send("m-1", "orders.paid", "1");
        world.until_acknowledged(count).await;
    }
    assert_eq!((world.http.posted().len(), world.seen()), (3, 0));
}

#[tokio::test(start_paused = true)]
async fn a_home_that_can_not_be_read_stops_its_own_consumer_and_not_the_shard() {
    let world = World::new();
    let mail = FakeSource::new("mail");
    let mut second = world.source_on("mail", &mail);
    // In the same shard.
    second.home = "shop".to_owned();
    let mut other = world.consumer_named("archive");
    other.sources = vec![second.name.clone()];
    world.memory.write(|tables| tables.inbox.spoilt_homes.insert(consumer("archive")));
    let host = world.start_with(world.inbound(vec![world.source(), second], vec![world.consumer(), other])).await;
    world.shop.send("m-1", "orders.paid", "1");
    world.until_acknowledged(1).await;
    assert!(mail.opened().is_empty());
    let sources = host.inbound.sources().await;
    let told = sources.iter().find(|source| source.name == "mail").and_then(|source| source.health_detail.clone());
    assert!(told.is_some_and(|told| told.contains("can't be read")));
}

#[tokio::test(start_paused = true)]
async fn a_row_that_is_no_message_is_a_dead_letter_before_its_source_hears_of_it() {
    let world = World::new();
    // A table could refuse it by itself, and then nothing would be kept here.
    world.shop.set_features(&["extend", "reject"]);
    let host = world.start().await;
    let row = SourceDelivery::new("", "", "{");
    world.shop.push(SourceDelivery {
        position: Some("16384/7".to_owned()),
        attributes: vec![("invalid".to_owned(), "its payload can't be read as application/json".to_owned())],
        ..row
    });
    world.until_acknowledged(1).await;
    let dead = host.dead().await;
    assert_eq!((dead.len(), world.http.posted().len()), (1, 0));
    assert_eq!((dead[0].code.as_str(), dead[0].message_id.as_str()), ("INVALID_OUTBOX", "16384/7"));
    assert_eq!((dead[0].consumer.as_str(), dead[0].payload_bytes), ("~shop", 1));
}
