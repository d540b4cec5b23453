//! What goes on to a topic or to a saga, and what dead letters leave for others.

use waybill_core::annotation::Annotation;
use waybill_core::inbox::dlq::WIRE_ID_HEADER;
use waybill_core::inbox::records::SagaDoorItem;
use waybill_core::limits::TEXT_BYTES_MAX;
use waybill_core::port::source::SourceDelivery;
use waybill_engine::{ConsumerConfig, ConsumerTarget};
use waybill_testkit::fake_handler::Reply;

use crate::support::*;

#[tokio::test(start_paused = true)]
async fn a_message_goes_on_to_a_topic_in_the_commit_that_finishes_it() {
    let world = World::new();
    let _host = world.start_consumer(world.forward("bus:audit.{subject}")).await;
    world.shop.send_keyed("m-1", "a", "{\"n\":1}");
    world.until_acknowledged(1).await;
    eventually("it was delivered", async || world.messages().len() == 1).await;
    let message = &world.messages()[0];
    assert_eq!(message.topic.as_str(), "bus:audit.orders.paid");
    assert!(message.headers.contains(&(WIRE_ID_HEADER.to_owned(), "m-1".to_owned())));
    assert_eq!(message.key.as_ref().map(|key| key.as_str()), Some("a"));
    assert_eq!(world.seen(), 1);
}

#[tokio::test(start_paused = true)]
async fn its_optional_texts_go_on_as_far_as_a_message_can_have_them() {
    let world = World::new();
    let _host = world.start_consumer(world.forward("bus:audit.{subject}")).await;
    let mut delivery = SourceDelivery::new("", "orders.paid", "1");
    delivery.id = Some("m-1".into());
    delivery.content_type = Some("text/plain".into());
    delivery.correlation_id = Some("x".repeat(TEXT_BYTES_MAX + 1));
    delivery.attributes = vec![("aggregate-type".into(), "order".into())];
    delivery.headers = vec![("aggregate_id".into(), "7".into()), ("traceparent".into(), "nonsense".into())];
    world.shop.push(delivery);
    world.until_acknowledged(1).await;
    eventually("it was delivered", async || world.messages().len() == 1).await;
    let wanted =
        [(Annotation::ContentType, "text/plain"), (Annotation::AggregateType, "order"), (Annotation::AggregateId, "7")];
    assert_eq!(world.messages()[0].annotations, wanted.into());
}

#[tokio::test(start_paused = true)]
async fn two_consumers_may_pass_on_the_same_message_and_a_repeat_goes_on_once() {
    let world = World::new();
    let one = world.forward("bus:one.{subject}");
    let two = ConsumerConfig { name: consumer("copy"), ..world.forward("bus:two.{subject}") };
    let _host = world.start_with(world.inbound(vec![world.source()], vec![one, two])).await;
    world.shop.send("m-1", "orders.paid", "1");
    world.shop.send("m-1", "orders.paid", "1");
    world.until_acknowledged(2).await;
    eventually("both were delivered", async || world.messages().len() == 2).await;
    pass(seconds(5)).await;
    assert_eq!(world.messages().len(), 2);
}

#[tokio::test(start_paused = true)]
async fn what_can_not_be_made_into_its_topic_is_a_dead_letter() {
    let world = World::new();
    let host = world.start_consumer(world.forward("bus:{region}.{subject}")).await;
    world.shop.send("m-1", "orders.paid", "1");
    world.until_acknowledged(1).await;
    assert_eq!(host.dead().await[0].code, "INVALID_OUTBOX");
}

#[tokio::test(start_paused = true)]
async fn replies_and_signals_lie_at_the_doorstep_of_sagas() {
    let world = World::new();
    let consumer = ConsumerConfig { target: ConsumerTarget::Saga, ..world.consumer() };
    let host = world.start_consumer(consumer).await;
    let of = |id: &str, change: &dyn Fn(&mut SourceDelivery)| {
        let mut delivery = SourceDelivery::new("", "payments.reply", "{\"n\":1}");
        delivery.id = Some(id.to_owned());
        change(&mut delivery);
        world.shop.push(delivery);
    };
    of("m-1", &|delivery| delivery.correlation_id = Some("order-7/charge/execute".into()));
    of("m-2", &|delivery| delivery.headers.push(("saga-signal".into(), "order-7/paid".into())));
    of("m-3", &|delivery| delivery.correlation_id = Some("~acme/order-7/charge/execute".into()));
    world.until_acknowledged(3).await;
    let items: Vec<SagaDoorItem> = world.memory.read(|tables| tables.inbox.saga_door.values().cloned().collect());
    assert!(matches!(&items[0], SagaDoorItem::Reply { reply, .. } if reply.step == "charge"));
    assert!(matches!(&items[1], SagaDoorItem::Signal { name, .. } if name == "paid"));
    assert_eq!(items.len(), 2);
    assert_eq!(host.dead().await[0].code, "INBOX.NO_SAGA", "another tenant's saga");
}

#[tokio::test(start_paused = true)]
async fn a_dead_letter_and_its_dlq_message_are_one_commit() {
    let world = World::new();
    let mut consumer = world.consumer();
    consumer.dlq_subject = Some("{context}.dlq.{subject}".to_owned());
    let host = world.start_consumer(consumer).await;
    world.http.answer(|_| Reply::status(422));
    world.shop.send("m-1", "orders.paid", "{\"n\":1}");
    world.until_acknowledged(1).await;
    eventually("the DLQ message was delivered", async || world.messages().len() == 1).await;
    let message = &world.messages()[0];
    assert_eq!(message.topic.as_str(), "bus:orders.dlq.orders.paid");
    assert!(message.headers.contains(&(WIRE_ID_HEADER.to_owned(), "m-1".to_owned())));
    assert_eq!(host.dead().await.len(), 1);
}
