//! Tests of what is read of a consumer and its stream.
#![allow(clippy::unwrap_used)]

use super::*;

fn keys(json: &str) -> Keys {
    let config: crate::config::Config = waybill_plugin::config::parse(json).unwrap();
    config.own
}

fn stream() -> Value {
    json!({
        "created": "2026-11-26T12:44:10.119053665Z",
        "config": { "name": "ORDERS", "subjects": ["orders.>"], "retention": "limits" },
        "state": { "first_seq": 11, "last_seq": 20, "last_ts": "2026-11-26T12:44:11.119053665Z" },
    })
}

fn consumer() -> Value {
    json!({
        "name": "ship",
        "config": { "durable_name": "ship", "ack_policy": "explicit", "ack_wait": 120_000_000_000_u64, "max_deliver": 20,
            "max_ack_pending": 50, "filter_subject": "orders.>" },
        "delivered": { "consumer_seq": 9, "stream_seq": 7 },
        "num_pending": 13,
    })
}

fn read(stream: &Value, consumer: &Value, config: &str) -> Result<Consumer, PluginError> {
    Consumer::read(&keys(config), stream, consumer)
}

const CONFIG: &str = r#"{"stream":"ORDERS","durable":"ship"}"#;

#[test]
fn limits_of_the_consumer_are_told() {
    let read = read(&stream(), &consumer(), CONFIG).unwrap();
    assert_eq!((read.settle_within(1), read.settle_within(9)), (Some(120_000), Some(120_000)));
    assert_eq!(
        (read.deliveries_left(1), read.deliveries_left(20), read.deliveries_left(21)),
        (Some(19), Some(0), Some(0))
    );
    assert_eq!((read.max_ack_pending, read.pending), (50, 13));
    let unbounded = Wanted { messages: 500, bytes: 1_000, wait: 5_000, payload: 1_000 };
    assert_eq!(read.request(500, 1_000, 5_000), unbounded);
    assert_eq!(read.next_subject(), "$JS.API.CONSUMER.MSG.NEXT.ORDERS.ship");
    let mut unlimited = consumer();
    unlimited["config"]["max_deliver"] = json!(-1);
    unlimited["config"]["backoff"] = json!([1_000_000_000, 5_000_000_000_u64]);
    unlimited["config"]["max_batch"] = json!(100);
    unlimited["config"]["max_expires"] = json!(2_000_000_000_u64);
    unlimited["config"]["max_bytes"] = json!(300);
    let read = super::tests::read(&stream(), &unlimited, CONFIG).unwrap();
    assert_eq!(read.deliveries_left(7), None);
    let bounded = Wanted { messages: 100, bytes: 300, wait: 2_000, payload: 1_000 };
    assert_eq!((read.request(500, 1_000, 5_000), read.request(1, 1, 1).payload), (bounded, 1));
    assert_eq!([1, 2, 3].map(|delivered| read.settle_within(delivered)), [Some(1_000), Some(5_000), Some(5_000)]);
    assert_eq!(read.longest_wait(), Some(5_000));
}

#[test]
fn a_consumer_that_can_not_be_used_is_refused() {
    for (setting, value) in [
        ("ack_policy", json!("none")),
        ("ack_policy", json!("all")),
        ("deliver_subject", json!("push.here")),
        ("filter_subject", json!("other.>")),
    ] {
        let mut wrong = consumer();
        wrong["config"][setting] = value;
        let error = read(&stream(), &wrong, r#"{"stream":"ORDERS","durable":"ship","filter_subject":"orders.>"}"#);
        let error = error.unwrap_err();
        assert_eq!((error.kind, error.fault.code.as_str()), (ErrorKind::InvalidConfig, "NATS.CONSUMER"), "{setting}");
    }
}

#[test]
fn a_stream_made_anew_gives_other_positions() {
    let mut before = read(&stream(), &consumer(), CONFIG).unwrap();
    assert_eq!(before.position(7), "ORDERS@2026-11-26T12:44:10.119053665Z/7");
    let mut anew = stream();
    anew["created"] = json!("2026-11-27T00:00:00Z");
    assert_ne!(read(&anew, &consumer(), CONFIG).unwrap().position(7), before.position(7));
    let message = |sequence, stored_at| Metadata { delivered: 1, sequence, stored_at, pending: 3 };
    let last = parse_rfc3339("2026-11-26T12:44:11.119Z").unwrap();
    assert!(!before.is_made_anew(&message(20, last)) && !before.is_made_anew(&message(21, last + 5)));
    assert!(before.is_made_anew(&message(1, last + 1)));
    before.learn(&message(30, last + 100));
    assert!(!before.is_made_anew(&message(25, last + 50)) && before.is_made_anew(&message(25, last + 101)));
    assert_eq!(before.pending, 3);
    // A clock that was set back at the server: what was seen once isn't taken for another stream's again.
    before.learn(&message(31, last - 7_000));
    assert!(!before.is_made_anew(&message(25, last + 100)));
    let mut now = read(&stream(), &consumer(), CONFIG).unwrap();
    now.recall_of(&before);
    assert!(!now.is_made_anew(&message(25, last + 100)) && now.is_made_anew(&message(31, last + 101)));
}

#[test]
fn what_was_removed_before_it_was_delivered_is_counted_where_it_can_be() {
    assert_eq!(read(&stream(), &consumer(), CONFIG).unwrap().overtaken, 3);
    let mut new = consumer();
    new["delivered"] = json!({ "consumer_seq": 0, "stream_seq": 0 });
    assert_eq!(read(&stream(), &new, CONFIG).unwrap().overtaken, 0, "it begins where the stream does");
    let mut filtered = consumer();
    filtered["config"]["filter_subject"] = json!("orders.created");
    assert_eq!(read(&stream(), &filtered, CONFIG).unwrap().overtaken, 0, "they may have been others'");
    for (setting, value) in [("retention", json!("workqueue")), ("max_msgs_per_subject", json!(1))] {
        let mut other = stream();
        other["config"][setting] = value;
        assert_eq!(read(&other, &consumer(), CONFIG).unwrap().overtaken, 0, "{setting}");
    }
}

#[test]
fn a_consumer_of_our_own_begins_behind_what_is_known_of_the_same_stream() {
    let created = "2026-11-26T12:44:10.119053665Z";
    let behind = Resume::Behind(format!("ORDERS@{created}/17"));
    assert_eq!(behind.next("ORDERS", created), Some(18));
    assert_eq!(behind.next("ORDERS", "2026-11-27T00:00:00Z"), None);
    for position in ["", "17", "ORDERS@x/17", "ORDERS@2026-11-26T12:44:10.119053665Z/x"] {
        assert_eq!(Resume::Behind(position.to_owned()).next("ORDERS", created), None, "{position}");
    }
    let mut consumer = read(&stream(), &consumer(), CONFIG).unwrap();
    assert_eq!(Resume::at(&consumer, None), None, "it delivered nothing, whatever the stream holds");
    consumer.learn(&Metadata { delivered: 1, sequence: 14, stored_at: 1, pending: 6 });
    consumer.learn(&Metadata { delivered: 2, sequence: 13, stored_at: 1, pending: 6 });
    assert_eq!(Resume::at(&consumer, Some(13)).unwrap().next("ORDERS", created), Some(13));
    assert_eq!(Resume::at(&consumer, None).unwrap().next("ORDERS", created), Some(15), "15 to 20 are still to come");
    assert_eq!(Resume::at(&consumer, None).unwrap().next("ORDERS", "anew"), None);
    assert_eq!(Resume::Start.next("ORDERS", created), None);
}

#[test]
fn a_consumer_is_written_as_jetstream_reads_it() {
    let one = keys(
        r#"{"stream":"ORDERS","durable":"ship","filter_subject":"orders.>","ack_wait":"2m","max_ack_pending":50}"#,
    );
    let expected = json!({ "durable_name": "ship", "deliver_policy": "all", "ack_policy": "explicit",
        "ack_wait": 120_000_000_000_u64, "max_deliver": -1, "max_ack_pending": 50, "filter_subject": "orders.>" });
    assert_eq!(Value::Object(document(&one, Some("ship"))), expected);
    let many = keys(r#"{"stream":"ORDERS","filter_subjects":["a","b"]}"#);
    assert_eq!(document(&many, None).get("filter_subjects"), Some(&json!(["a", "b"])));
}
