//! The bundled `kafka-source` in the real sandbox against a real Apache Kafka.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use waybill_core::port::provision::ProvisionAction;
use waybill_core::port::source::{Disposition, Overtaken, Settled, Source, SourceWants};
use waybill_core::port::transport::{ErrorKind, Transport};
use waybill_sandbox::{EndpointSpec, WasmSource};
use waybill_testkit::kafka::{Client, Server};
use waybill_tests::source::{self, WANTS, attribute, ids, pull, pull_all, settle};
use waybill_tests::transport::{self, AMPLE, acknowledged, batch, send};

const PLUGIN: &str = "kafka-source";

/// A topic of the shared server, read by a group of the same name.
struct Orders {
    server: &'static Server,
    topic: &'static str,
}

impl Orders {
    async fn new(topic: &'static str) -> Self {
        Self { server: Server::shared().await.unwrap(), topic }
    }

    /// With the topic, of so many partitions.
    async fn created(topic: &'static str, partitions: u32) -> Self {
        let orders = Self::new(topic).await;
        orders.client().await.create(topic, partitions).await.unwrap();
        orders
    }

    async fn client(&self) -> Client {
        self.server.client().await.unwrap()
    }

    fn settings(&self) -> EndpointSpec {
        let config = json!({ "servers": [self.server.url()], "topics": [self.topic], "group": self.topic });
        transport::settings("orders", config)
    }

    async fn open(&self, wants: SourceWants) -> Arc<WasmSource> {
        source::open(PLUGIN, self.settings(), wants).await.expect("opens")
    }

    /// Sends messages by the bundled transport.
    async fn send(&self, from: u64, to: u64) {
        let transport = transport::settings("orders-kafka", json!({ "servers": [self.server.url()] }));
        let transport = transport::open("kafka", transport).await.expect("opens");
        assert_eq!(acknowledged(&send(&transport, batch(from, to, self.topic)).await) as u64, to - from);
        transport.close(AMPLE).await;
    }

    /// What the group has committed of partition 0.
    async fn committed(&self) -> Option<String> {
        let all = self.client().await.run("offsets", &[self.topic]).await.unwrap();
        all.into_iter().find(|parts| parts[1] == "0").map(|parts| parts[2].clone())
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_comes_with_all_that_its_transport_said_and_its_offset_is_committed() {
    let orders = Orders::created("source-envelope", 1).await;
    orders.send(7, 8).await;
    let source = orders.open(WANTS).await;
    assert_eq!(source.facts().features, ["ordered-groups", "replays-in-order"]);
    let (session, all) = pull_all(&source, 1).await;
    let [delivery] = all.as_slice() else { panic!("{all:#?}") };
    assert_eq!((delivery.id.as_deref(), delivery.topic.as_str()), (Some("m7"), orders.topic));
    assert_eq!((delivery.tenant.as_deref(), delivery.key.as_deref()), (Some("acme"), Some("order-7")));
    assert_eq!(delivery.group.as_deref(), Some("source-envelope/0"));
    assert!(delivery.position.as_deref().unwrap().ends_with("/0/0"), "{:?}", delivery.position);
    assert_eq!(&delivery.payload[..], b"{\"order\":7}");
    assert_eq!(settle(&source, session, &all, &Disposition::Ack).await, [Settled::Done]);
    assert!(pull(&source, 50).await.caught_up);
    source.close(AMPLE).await;
    assert_eq!(orders.committed().await.as_deref(), Some("1"));
}

#[tokio::test(flavor = "multi_thread")]
async fn it_is_committed_up_to_the_first_gap_and_what_follows_comes_again() {
    let orders = Orders::created("source-gap", 1).await;
    orders.send(0, 5).await;
    let source = orders.open(WANTS).await;
    let (session, all) = pull_all(&source, 5).await;
    for place in [0, 1, 3, 4] {
        settle(&source, session, &all[place..=place], &Disposition::Ack).await;
    }
    source.close(AMPLE).await;
    assert_eq!(orders.committed().await.as_deref(), Some("2"));
    let source = orders.open(WANTS).await;
    let (_, again) = pull_all(&source, 3).await;
    assert_eq!(ids(&again), ["m2", "m3", "m4"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_given_back_comes_again() {
    let orders = Orders::created("source-released", 1).await;
    orders.send(0, 3).await;
    let source = orders.open(WANTS).await;
    let (session, all) = pull_all(&source, 3).await;
    assert_eq!(settle(&source, session, &all[1..2], &Disposition::Release).await, [Settled::Done]);
    let (_, again) = pull_all(&source, 1).await;
    assert_eq!((ids(&again), &again[0].position), (vec!["m1"], &all[1].position));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_java_client_writes_is_read_but_for_what_transactions_took_back() {
    let orders = Orders::created("source-foreign", 4).await;
    let client = orders.client().await;
    client.run("write", &[orders.topic, "0", "20", "transactional.id=t", "abort=true"]).await.unwrap();
    for (number, compression) in ["none", "gzip", "snappy", "lz4", "zstd"].into_iter().enumerate() {
        let (from, to) = (20 + number * 10, 30 + number * 10);
        let compression = format!("compression.type={compression}");
        client.run("write", &[orders.topic, &from.to_string(), &to.to_string(), &compression]).await.unwrap();
    }
    let source = orders.open(WANTS).await;
    let mut found = HashSet::new();
    while found.len() < 50 {
        let (session, all) = pull_all(&source, 1).await;
        found.extend(all.iter().filter_map(|delivery| delivery.id.clone()));
        settle(&source, session, &all, &Disposition::Ack).await;
    }
    assert!((20..70).all(|number| found.contains(&format!("m{number}"))), "{found:?}");
    assert_eq!(found.len(), 50);
}

#[tokio::test(flavor = "multi_thread")]
async fn messages_removed_unread_stop_the_source_or_are_counted() {
    let orders = Orders::created("source-trimmed", 1).await;
    orders.send(0, 6).await;
    let source = orders.open(WANTS).await;
    let (session, all) = pull_all(&source, 6).await;
    settle(&source, session, &all[..2], &Disposition::Ack).await;
    source.close(AMPLE).await;
    orders.client().await.run("trim", &[orders.topic, "4"]).await.unwrap();
    let stops = orders.open(SourceWants { on_overtaken: Overtaken::Stop, ..WANTS }).await;
    let error = stops.pull(0, 50, source::BYTES, Duration::from_secs(5)).await.unwrap_err();
    assert_eq!((error.kind, error.fault.code.as_str()), (ErrorKind::InvalidConfig, "SOURCE.OVERTAKEN"));
    stops.close(AMPLE).await;
    let goes_on = orders.open(SourceWants { on_overtaken: Overtaken::GoOn, ..WANTS }).await;
    let first = pull(&goes_on, 50).await;
    assert_eq!(attribute(&first.notices.attributes, "overtaken"), Some("2"));
    assert_eq!(ids(&first.deliveries), ["m4", "m5"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_source_that_is_overtaken_while_it_is_open_stops_at_each_pull_and_commits_nothing() {
    let orders = Orders::created("source-trimmed-open", 1).await;
    orders.send(0, 6).await;
    let source = orders.open(WANTS).await;
    let (session, all) = pull_all(&source, 6).await;
    settle(&source, session, &all, &Disposition::Ack).await;
    orders.send(6, 12).await;
    orders.client().await.run("trim", &[orders.topic, "10"]).await.unwrap();
    for _ in 0..2 {
        let error = source.pull(0, 50, source::BYTES, Duration::from_secs(5)).await.unwrap_err();
        assert_eq!((error.kind, error.fault.code.as_str()), (ErrorKind::InvalidConfig, "SOURCE.OVERTAKEN"));
    }
    source.close(AMPLE).await;
    assert_eq!(orders.committed().await.as_deref(), Some("6"));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_topic_is_provisioned_once_and_a_source_without_it_waits() {
    let orders = Orders::new("source-provisioned").await;
    let (source, refused) = source::supervise(PLUGIN, orders.settings()).await;
    let refused = refused.expect("no topic");
    assert_eq!((refused.kind, refused.fault.code.as_str()), (ErrorKind::Unavailable, "KAFKA.NO_TOPIC"));
    for (apply, action) in
        [(false, ProvisionAction::Create), (true, ProvisionAction::Create), (true, ProvisionAction::Keep)]
    {
        let changes = source.provision(apply).await.unwrap();
        assert_eq!((changes[0].target.as_str(), changes[0].action), ("topic source-provisioned", action));
    }
    orders.send(0, 1).await;
    assert_eq!(ids(&pull_all(&source, 1).await.1), ["m0"]);
}

/// A member written in Java joins the group under load, and leaves it again; ours is dropped meanwhile with what it has in hand, and
/// another one takes its place.
#[tokio::test(flavor = "multi_thread")]
async fn a_foreign_member_joins_and_leaves_ours_is_replaced_and_no_message_is_left_out() {
    let orders = Orders::created("source-shared", 4).await;
    orders.send(0, 200).await;
    let mut source = orders.open(WANTS).await;
    let client = orders.client().await;
    let topic = orders.topic;
    let joining = tokio::spawn(async move {
        let lines = client.run("member", &[topic, topic, "6000"]).await.unwrap();
        lines.into_iter().map(|parts| parts[0].clone()).collect::<HashSet<String>>()
    });
    let sharing = async {
        let (mut ours, mut sent) = (HashSet::new(), 200);
        // More comes until the foreign member has left, however late it joined; the rest is ours then.
        while !joining.is_finished() {
            orders.send(sent, sent + 100).await;
            sent += 100;
            handle_some(&source, &mut ours).await;
            if sent == 400 {
                // What it brings now, nobody settles.
                let _in_hand = source.pull(0, 50, source::BYTES, Duration::from_millis(200)).await;
                (source, _) = source::supervise(PLUGIN, orders.settings()).await;
            }
        }
        let theirs = joining.await.unwrap();
        while ours.union(&theirs).count() < usize::try_from(sent).unwrap() {
            handle_some(&source, &mut ours).await;
        }
        (theirs, sent)
    };
    let (theirs, sent) = tokio::time::timeout(Duration::from_secs(300), sharing).await.expect("all is handled");
    let theirs = theirs.len() as u64;
    assert!(theirs > 0 && theirs < sent, "both have had a share: {theirs} of {sent} are theirs");
}

/// Pulls once and settles what came. While the group is shared out anew nothing may come, and nothing be settled.
async fn handle_some(source: &Arc<WasmSource>, handled: &mut HashSet<String>) {
    match source.pull(0, 50, source::BYTES, Duration::from_millis(200)).await {
        Ok(pulled) => {
            handled.extend(pulled.deliveries.iter().filter_map(|delivery| delivery.id.clone()));
            let _ = source::try_settle(source, pulled.session, &pulled.deliveries, &Disposition::Ack).await;
        }
        Err(error) => assert_eq!(error.kind, ErrorKind::Unavailable, "{error:?}"),
    }
}
