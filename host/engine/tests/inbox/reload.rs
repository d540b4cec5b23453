//! Handlers, consumers and sources that are replaced while messages flow.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;
use waybill_core::code::Code;
use waybill_core::port::handler::{Handled, Inbound, Verdict};
use waybill_core::port::transport::{CallError, ErrorKind, Fault};
use waybill_engine::{ConsumerConfig, ConsumerTarget, DirectConfig, InboundConfig, InboundHomes, SourceConfig};
use waybill_testkit::fake_handler::{FakeHandler, FakeHandlerSlot, FakeHttpHandler, Handling, Reply};
use waybill_testkit::fake_source::{FakeSource, Standing};
use waybill_testkit::fake_transport::Gate;

use crate::support::*;

fn processed(batch: &[Inbound]) -> Handling {
    Handling::each(batch, |_| Verdict::Processed(Handled::default()))
}

fn ids(handler: &FakeHandler) -> Vec<String> {
    handler.calls().into_iter().flat_map(|(_, batch)| batch).map(|inbound| inbound.id).collect()
}

impl World {
    fn served_by(&self, slot: &Arc<FakeHandlerSlot>) -> ConsumerConfig {
        ConsumerConfig { target: ConsumerTarget::Component(slot.clone()), ..self.consumer() }
    }
}

/// What a host is started with, and what of it the next configuration keeps.
struct Running {
    host: Host,
    config: InboundConfig,
}

impl Running {
    async fn start(world: &World, consumer: ConsumerConfig) -> Self {
        let config = world.inbound(vec![world.source()], vec![consumer]);
        Self { host: world.start_with(config.clone()).await, config }
    }

    async fn put_in_force(&mut self, world: &World, config: InboundConfig) {
        self.config = config.clone();
        self.host.engine.reconfigure(world.config("host-a", config)).await;
    }

    /// The same sources with another consumer.
    async fn with_consumer(&mut self, world: &World, consumer: ConsumerConfig) {
        let next = InboundConfig { consumers: vec![Arc::new(consumer)], ..self.config.clone() };
        self.put_in_force(world, next).await;
    }

    /// The same consumers with another source.
    async fn with_source(&mut self, world: &World, source: SourceConfig) {
        let next = InboundConfig { sources: vec![Arc::new(source)], ..self.config.clone() };
        self.put_in_force(world, next).await;
    }
}

#[tokio::test(start_paused = true)]
async fn new_calls_go_to_the_next_plugin_and_those_under_way_end_in_the_one_before() {
    let world = World::new();
    let (old, new) = (FakeHandler::new("old"), FakeHandler::new("new"));
    let slot = FakeHandlerSlot::new(&old);
    let _host = world.start_consumer(world.served_by(&slot)).await;
    old.handle_with(|batch| processed(batch).delayed(seconds(10)));
    world.shop.send("m-1", "orders.paid", "1");
    eventually("the old one is called", async || ids(&old).len() == 1).await;
    slot.swap(&new);
    for number in 2..6 {
        world.shop.send(&format!("m-{number}"), "orders.paid", "1");
    }
    pass(seconds(2)).await;
    let mut called = ids(&new);
    called.sort();
    assert_eq!(called, ["m-2", "m-3", "m-4", "m-5"], "none of them waits for the old one");
    world.until_acknowledged(5).await;
    assert_eq!((ids(&old), world.seen()), (vec!["m-1".to_owned()], 5));
    slot.swap(&old);
    world.shop.send("m-6", "orders.paid", "1");
    world.until_acknowledged(6).await;
    assert_eq!(ids(&old), ["m-1", "m-6"], "it has come back");
}

#[tokio::test(start_paused = true)]
async fn the_next_plugin_has_as_many_calls_at_once_as_it_takes_itself() {
    let world = World::new();
    let (old, new) = (FakeHandler::new("old"), FakeHandler::new("new"));
    let slot = FakeHandlerSlot::new(&old);
    let _host = world.start_consumer(world.served_by(&slot)).await;
    world.shop.send("m-0", "orders.paid", "1");
    world.until_acknowledged(1).await;
    new.set_calls_at_once(5);
    new.handle_with(|batch| processed(batch).delayed(seconds(1)));
    slot.swap(&new);
    for number in 1..=10 {
        world.shop.send(&format!("m-{number}"), "orders.paid", "1");
    }
    world.until_acknowledged(11).await;
    assert_eq!(new.beside().into_iter().max(), Some(4));
    assert!(
        new.calls().iter().all(|(lane, batch)| *lane == 0 && batch.len() == 1),
        "its lanes and batches are its own"
    );
}

#[tokio::test(start_paused = true)]
async fn swaps_under_load_lose_and_repeat_nothing_and_keep_the_order_of_keys() {
    let world = World::new();
    let log: Arc<Mutex<Vec<(String, u32)>>> = Arc::default();
    let plugins = [FakeHandler::new("a"), FakeHandler::new("b"), FakeHandler::new("c")];
    for plugin in &plugins {
        let log = Arc::clone(&log);
        plugin.handle_with(move |batch| {
            let number = |inbound: &Inbound| inbound.id.trim_start_matches("m-").parse().unwrap();
            let key = |inbound: &Inbound| inbound.key.clone().unwrap_or_default();
            log.lock().extend(batch.iter().map(|inbound| (key(inbound), number(inbound))));
            processed(batch).delayed(millis(7))
        });
    }
    let slot = FakeHandlerSlot::new(&plugins[0]);
    let _host = world.start_consumer(world.served_by(&slot)).await;
    for number in 0..300 {
        world.shop.send_keyed(&format!("m-{number}"), &format!("key-{}", number % 7), "1");
        if number % 10 == 0 {
            pass(millis(5)).await;
            slot.swap(&plugins[number / 10 % 3]);
        }
    }
    world.until_acknowledged(300).await;
    let mut by_key: BTreeMap<String, Vec<u32>> = BTreeMap::new();
    for (key, number) in log.lock().clone() {
        by_key.entry(key).or_default().push(number);
    }
    assert_eq!(by_key.values().map(Vec::len).sum::<usize>(), 300, "each was handled once");
    assert!(by_key.values().all(|numbers| numbers.is_sorted()), "{by_key:?}");
    assert!(plugins.iter().all(|plugin| !plugin.calls().is_empty()));
}

#[tokio::test(start_paused = true)]
async fn another_address_counts_from_the_next_call_on_and_disturbs_no_source() {
    let world = World::new();
    let gate = Gate::default();
    let behind = gate.clone();
    world.http.answer(move |_| Reply::status(200).behind(&behind));
    let mut running = Running::start(&world, world.consumer()).await;
    world.shop.send("m-1", "orders.paid", "1");
    world.until_called(1).await;
    let other = FakeHttpHandler::new();
    let target = ConsumerTarget::Http { url: Arc::from("http://127.0.0.1:10/handle"), client: other.clone() };
    running.with_consumer(&world, ConsumerConfig { target, ..world.consumer() }).await;
    world.shop.send("m-2", "orders.paid", "1");
    eventually("the other one is called", async || other.ids() == ["m-2"]).await;
    assert_eq!(world.shop.kept(0).standing, Standing::Out, "the first is still with the old one");
    gate.open();
    world.until_acknowledged(2).await;
    assert_eq!((world.http.ids(), other.ids()), (vec!["m-1".to_owned()], vec!["m-2".to_owned()]));
    assert_eq!((world.shop.opened().len(), world.shop.closed()), (1, 0));
}

#[tokio::test(start_paused = true)]
async fn other_bounds_under_load_lose_and_repeat_nothing() {
    let world = World::new();
    world.http.answer(|_| Reply::status(200).delayed(millis(20)));
    let mut running = Running::start(&world, world.consumer()).await;
    for number in 0..200 {
        world.shop.send_keyed(&format!("m-{number}"), &format!("key-{}", number % 9), "1");
    }
    for concurrency in [2, 8, 1, 16] {
        pass(millis(60)).await;
        running.with_consumer(&world, ConsumerConfig { concurrency, ..world.consumer() }).await;
    }
    // What waits for its key is stored and acknowledged before it is handled.
    eventually("all of them are handled", async || world.seen() == 200).await;
    let mut handled = world.http.ids();
    assert_eq!(handled.len(), 200, "each was handled once");
    assert_in_order(&handled, 9);
    handled.sort();
    handled.dedup();
    assert_eq!((handled.len(), world.seen()), (200, 200));
}

/// Numbers of a key, of so many in turn, follow each other.
fn assert_in_order(ids: &[String], keys: u32) {
    let numbers: Vec<u32> = ids.iter().map(|id| id.trim_start_matches("m-").parse().unwrap()).collect();
    for key in 0..keys {
        assert!(numbers.iter().filter(|number| *number % keys == key).is_sorted(), "{ids:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_source_that_is_replaced_under_load_brings_each_message_once_and_in_order() {
    for overlaps in [true, false] {
        let world = World::new();
        if overlaps {
            world.shop.overlap();
        }
        world.http.answer(|_| Reply::status(200).delayed(millis(7)));
        let mut running = Running::start(&world, world.consumer()).await;
        for number in 0..200 {
            world.shop.send_keyed(&format!("m-{number}"), &format!("key-{}", number % 7), "1");
            if number % 40 == 39 {
                pass(millis(30)).await;
                running.with_source(&world, world.source()).await;
            }
        }
        eventually("all of them are handled", async || world.seen() == 200).await;
        let handled = world.http.ids();
        assert_eq!(handled.len(), 200, "each was handled once, overlapping: {overlaps}");
        assert_in_order(&handled, 7);
    }
}

#[tokio::test(start_paused = true)]
async fn a_host_without_sources_opens_its_first_one_at_once() {
    let world = World::new();
    let host = world.launch("host-a", world.inbound(Vec::new(), Vec::new()), |_| {});
    pass(seconds(6)).await;
    world.shop.send("m-1", "orders.paid", "1");
    let next = world.inbound(vec![world.source()], vec![world.consumer()]);
    host.engine.reconfigure(world.config("host-a", next)).await;
    pass(seconds(1)).await;
    assert_eq!(world.shop.standings(), [Standing::Acknowledged]);
}

#[tokio::test(start_paused = true)]
async fn a_consumer_that_is_gone_ends_its_call_before_its_handler_is_closed() {
    let world = World::new();
    let handler = FakeHandler::new("ship");
    handler.handle_with(|batch| processed(batch).delayed(seconds(10)));
    let target = ConsumerTarget::Component(handler.clone());
    let mut running = Running::start(&world, ConsumerConfig { target, ..world.consumer() }).await;
    world.shop.send("m-1", "orders.paid", "1");
    eventually("it is called", async || !handler.calls().is_empty()).await;
    running.with_consumer(&world, world.consumer()).await;
    world.shop.send("m-2", "orders.paid", "1");
    world.until_called(1).await;
    assert!(!handler.is_closed(), "its call is under way");
    world.until_acknowledged(2).await;
    eventually("its handler is closed", async || handler.is_closed()).await;
    assert_eq!((ids(&handler), world.http.ids()), (vec!["m-1".to_owned()], vec!["m-2".to_owned()]));
}

#[tokio::test(start_paused = true)]
async fn a_source_that_can_overlap_is_open_again_before_the_one_before_is_closed() {
    let world = World::new();
    world.shop.overlap();
    let gate = Gate::default();
    let behind = gate.clone();
    world.http.answer(move |_| Reply::status(200).behind(&behind));
    let mut running = Running::start(&world, world.consumer()).await;
    world.shop.send("m-1", "orders.paid", "1");
    world.until_called(1).await;
    running.with_source(&world, world.source()).await;
    eventually("its successor is open", async || world.shop.opened().len() == 2).await;
    pass(seconds(1)).await;
    assert_eq!((world.shop.closed(), world.shop.standings()), (0, vec![Standing::Out]));
    gate.open();
    eventually("the one before is closed", async || world.shop.closed() == 1).await;
    assert_eq!(
        (world.shop.kept(0).deliveries, world.shop.kept(0).acknowledged),
        (1, 1),
        "it was settled where it came from"
    );
    world.shop.send("m-2", "orders.paid", "1");
    world.until_acknowledged(2).await;
    assert_eq!((world.http.ids().len(), world.shop.opened().len(), world.shop.closed()), (2, 2, 1));
    running.host.drain().await;
    assert_eq!(world.shop.closed(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_source_that_can_not_overlap_is_closed_first_and_settles_what_it_has() {
    let world = World::new();
    let mut running = Running::start(&world, world.consumer()).await;
    world.http.answer(|_| Reply::status(200).delayed(seconds(2)));
    world.shop.send("m-1", "orders.paid", "1");
    world.until_called(1).await;
    running.with_source(&world, world.source()).await;
    pass(seconds(1)).await;
    assert_eq!((world.shop.opened().len(), world.shop.closed()), (1, 0), "something is out");
    world.until_acknowledged(1).await;
    eventually("it is open again", async || world.shop.opened().len() == 2).await;
    assert_eq!((world.shop.closed(), world.shop.kept(0).deliveries), (1, 1));
}

#[tokio::test(start_paused = true)]
async fn a_successor_that_can_not_serve_leaves_the_source_as_it_was() {
    for overlaps in [true, false] {
        let world = World::new();
        let broken = broken("shop");
        if overlaps {
            broken.overlap();
        }
        let mut running = Running::start(&world, world.consumer()).await;
        running.with_source(&world, world.source_on("shop", &broken)).await;
        eventually("the successor was tried", async || broken.opened().len() == 1).await;
        world.shop.send("m-1", "orders.paid", "1");
        world.until_acknowledged(1).await;
        let reopened = usize::from(!overlaps);
        assert_eq!((world.shop.opened().len(), broken.opened().len()), (1 + reopened, 1), "overlap: {overlaps}");
        broken.refuse(None);
        running.with_source(&world, world.source_on("shop", &broken)).await;
        broken.send("m-2", "orders.paid", "1");
        eventually("the corrected one serves", async || broken.standings() == [Standing::Acknowledged]).await;
        assert_eq!(world.shop.closed(), 1 + reopened as u64);
    }
}

fn broken(name: &str) -> Arc<FakeSource> {
    let broken = FakeSource::new(name);
    broken.refuse(Some(CallError { kind: ErrorKind::InvalidConfig, fault: Fault::new("NATS.STREAM", "no") }));
    broken
}

#[tokio::test(start_paused = true)]
async fn what_comes_back_is_the_plugin_that_served_last() {
    for overlaps in [true, false] {
        let world = World::new();
        let (second, third) = (FakeSource::new("shop"), broken("shop"));
        if overlaps {
            [&world.shop, &second, &third].into_iter().for_each(|source| source.overlap());
        }
        let mut running = Running::start(&world, world.consumer()).await;
        second.set_open_time(seconds(1));
        running.with_source(&world, world.source_on("shop", &second)).await;
        eventually("the second is being opened", async || second.opened().len() == 1).await;
        // The next one is configured before the second has shown that it serves.
        running.with_source(&world, world.source_on("shop", &third)).await;
        eventually("the third was tried", async || third.opened().len() == 1).await;
        pass(seconds(5)).await;
        let reopened = running.host.engine.reopen_source("shop").await;
        assert!(matches!(reopened, Some(Err(_))), "the one in force is tried again: {reopened:?}");
        assert_eq!(third.opened().len(), 2, "overlap: {overlaps}");
        second.send("m-1", "orders.paid", "1");
        eventually("the second serves", async || second.standings() == [Standing::Acknowledged]).await;
        third.refuse(None);
        assert_eq!(running.host.engine.reopen_source("shop").await, Some(Ok(())), "it was mended");
        third.send("m-2", "orders.paid", "1");
        eventually("the third serves", async || third.standings() == [Standing::Acknowledged]).await;
        assert_eq!(world.shop.opened().len(), 1, "the first one doesn't come back, overlap: {overlaps}");
        running.host.drain().await;
        let closed: Vec<u64> = [&world.shop, &second].iter().map(|source| source.closed()).collect();
        assert_eq!(closed, [1, second.opened().len() as u64], "whatever was opened was closed, overlap: {overlaps}");
    }
}

#[tokio::test(start_paused = true)]
async fn what_served_comes_back_also_when_several_in_its_place_can_not_serve() {
    let world = World::new();
    let (second, third) = (broken("shop"), broken("shop"));
    let mut running = Running::start(&world, world.consumer()).await;
    second.set_open_time(seconds(1));
    running.with_source(&world, world.source_on("shop", &second)).await;
    eventually("the second is being opened", async || second.opened().len() == 1).await;
    running.with_source(&world, world.source_on("shop", &third)).await;
    eventually("the third was tried", async || third.opened().len() == 1).await;
    world.shop.send("m-1", "orders.paid", "1");
    world.until_acknowledged(1).await;
    let opened = [&world.shop, &second, &third].map(|source| source.opened().len());
    assert_eq!(opened, [2, 1, 1], "each was tried once, and the first serves again");
}

#[tokio::test(start_paused = true)]
async fn a_plugin_that_never_served_is_not_gone_back_to() {
    let world = World::new();
    let first = broken("shop");
    let config = world.inbound(vec![world.source_on("shop", &first)], vec![world.consumer()]);
    let mut running = Running { host: world.start_with(config.clone()).await, config };
    eventually("the first was tried", async || !first.opened().is_empty()).await;
    let second = broken("shop");
    running.with_source(&world, world.source_on("shop", &second)).await;
    eventually("the second was tried", async || !second.opened().is_empty()).await;
    second.refuse(None);
    second.send("m-1", "orders.paid", "1");
    eventually("the second serves", async || second.standings() == [Standing::Acknowledged]).await;
}

#[tokio::test(start_paused = true)]
async fn a_paused_source_stays_paused_under_other_settings() {
    let world = World::new();
    let mut running = Running::start(&world, world.consumer()).await;
    running.host.inbound.pause_source("shop", "", "ann").await.unwrap();
    let mut source = world.source();
    source.window = 7;
    running.with_source(&world, source).await;
    eventually("it is open again", async || world.shop.opened().len() == 2).await;
    world.shop.send("m-1", "orders.paid", "1");
    pass(seconds(30)).await;
    assert_eq!((running.host.shop().await.window, world.shop.standings()), (7, vec![Standing::Waits]));
    running.host.inbound.resume_source("shop", "", "ann").await.unwrap();
    world.until_acknowledged(1).await;
}

#[tokio::test(start_paused = true)]
async fn a_source_of_its_own_home_goes_on_while_another_one_is_replaced() {
    let world = World::new();
    let mail = FakeSource::new("mail");
    let mut second = world.consumer_named("post");
    let mail_source = world.source_on("mail", &mail);
    second.sources = vec![mail_source.name.clone()];
    let config = world.inbound(vec![world.source(), mail_source], vec![world.consumer(), second]);
    let host = world.start_with(config.clone()).await;
    let mut running = Running { host, config };
    let sources = vec![Arc::new(world.source()), Arc::clone(&running.config.sources[1])];
    let next = InboundConfig { sources, ..running.config.clone() };
    running.put_in_force(&world, next).await;
    eventually("the first is open again", async || world.shop.opened().len() == 2).await;
    mail.send("m-1", "orders.paid", "1");
    eventually("the second goes on", async || mail.standings() == [Standing::Acknowledged]).await;
    assert_eq!((mail.opened().len(), mail.closed()), (1, 0));
}

#[tokio::test(start_paused = true)]
async fn another_home_is_refused_while_a_host_runs() {
    let world = World::new();
    let running = Running::start(&world, world.consumer()).await;
    let refusal = |config: &InboundConfig| {
        let refused = running.host.engine.refusal(&InboundHomes::of(config, &DirectConfig::default()))?;
        assert!(!refused.passes, "trying again doesn't help");
        Some(refused.fault)
    };
    assert_eq!(refusal(&running.config), None);
    let moved = SourceConfig { home: "elsewhere".to_owned(), ..world.source() };
    let other = InboundConfig { sources: vec![Arc::new(moved)], ..running.config.clone() };
    let fault = refusal(&other).unwrap();
    assert_eq!(fault.code, Code::INBOX_OTHER_HOME.as_str());
    assert!(fault.reason.contains("\"shop\"") && fault.reason.contains("\"elsewhere\""), "{}", fault.reason);

    // The same consumer, fed by another source: what it has seen lies at the first one's home.
    let mail = world.source_on("mail", &FakeSource::new("mail"));
    let consumer = ConsumerConfig { sources: vec![mail.name.clone()], ..world.consumer() };
    let other = world.inbound(vec![world.source(), mail], vec![consumer]);
    assert!(refusal(&other).unwrap().reason.contains("consumer \"ship\""));
    world.shop.send("m-1", "orders.paid", "1");
    world.until_acknowledged(1).await;
}
