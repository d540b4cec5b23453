use proptest::prelude::*;

use super::*;
use crate::ids::Tenant;
use crate::streams::event::{Op, tests::event};
use crate::streams::name::StreamName;

const BROKERS: [Broker; 7] =
    [Broker::Http, Broker::Nats, Broker::RabbitMq, Broker::Redis, Broker::Kafka, Broker::Pulsar, Broker::Other];
const NODE: &str = "0190a2f0-7b1e-7c3d-9e4f-1a2b3c4d5e6f";

fn stream(name: &str) -> StreamKey {
    StreamKey { tenant: Tenant::new("acme").unwrap(), name: StreamName::new(name).unwrap() }
}

fn of(resource_id: &str, node: Option<&str>) -> Event {
    Event { resource_id: resource_id.into(), node_uuid: node.map(str::to_owned), ..event("e-1") }
}

fn placed(broker: Broker, template: Option<&str>, name: &str, event: &Event) -> (String, Option<String>) {
    let place = Template::parse(broker, template).unwrap().place(&stream(name), event).unwrap();
    (place.topic.subject().to_owned(), place.exchange)
}

fn text(broker: Broker, template: &str, event: &Event) -> String {
    placed(broker, Some(template), "task.node.1", event).0
}

/// What stands behind `%XX`.
fn decoded(text: &str) -> String {
    let mut pieces = text.split('%');
    let mut bytes = pieces.next().unwrap_or_default().as_bytes().to_vec();
    for piece in pieces {
        bytes.push(u8::from_str_radix(&piece[..2], 16).unwrap());
        bytes.extend_from_slice(&piece.as_bytes()[2..]);
    }
    String::from_utf8(bytes).unwrap()
}

#[test]
fn each_broker_has_its_names() {
    let name = format!("task.node.{NODE}");
    let default = |broker| placed(broker, None, &name, &of("t-1", Some(NODE)));
    assert_eq!(default(Broker::Nats), (format!("events.{name}"), None));
    assert_eq!(default(Broker::Redis), (format!("events:{name}"), None));
    assert_eq!(default(Broker::RabbitMq), (format!("TASK.{NODE}.t-1"), Some("sms.events.v1".to_owned())));
    assert_eq!(default(Broker::Kafka), ("sms.events.v1".to_owned(), None));
    assert_eq!(default(Broker::Pulsar), default(Broker::Kafka));
    for without in [Broker::Http, Broker::Other] {
        assert_eq!(Template::parse(without, None), Err(TemplateError::Missing));
    }
}

#[test]
fn a_dot_within_a_word_and_a_node_that_is_absent_are_written_for_rabbitmq() {
    let key = |event: &Event| placed(Broker::RabbitMq, None, "task", event).0;
    assert_eq!(key(&of("a.b%c", None)), "TASK.-.a%2Eb%25c");
    assert_eq!(key(&of("a b*", Some("-"))), "TASK.%2D.a%20b%2A");
    assert_eq!(key(&of("gr\u{f6}\u{df}e", Some("n.1"))), "TASK.n%2E1.gr\u{f6}\u{df}e");
}

#[test]
fn every_place_is_filled() {
    let every = "{stream}|{resource_type}|{node_uuid}|{resource_id}|{op}|{tenant}|{{}}";
    assert_eq!(text(Broker::Nats, every, &of("t-1", Some("n"))), "task.node.1|TASK|n|t-1|UPDATE|acme|{}");
    assert_eq!(text(Broker::Nats, "{op}", &Event { op: Op(-3), ..of("t", None) }), "-3");
}

#[test]
fn the_exchange_is_what_is_before_the_first_slash() {
    let of = |template: &str| placed(Broker::RabbitMq, Some(template), "task", &of("t", None));
    assert_eq!(of("other/a/{resource_id}"), ("a/t".to_owned(), Some("other".to_owned())));
    assert_eq!(of("/jobs"), ("jobs".to_owned(), Some(String::new())), "the exchange without a name");
    assert_eq!(of("{resource_id}"), ("t".to_owned(), None), "the transport's own");
    assert_eq!(placed(Broker::Nats, Some("a/b"), "task", &event("e")).1, None);
}

#[test]
fn an_empty_part_of_a_streams_name_is_no_empty_token() {
    for (name, subject) in [("a.b", "a.b"), ("a..b", "a%2E.b"), (".a", "%2Ea"), ("a.", "a%2E"), ("...", "%2E%2E%2E")] {
        assert_eq!(placed(Broker::Nats, Some("{stream}"), name, &event("e")).0, subject, "{name}");
    }
    assert_eq!(placed(Broker::Redis, Some("{stream}"), "a::b", &event("e")).0, "a::b");
}

#[test]
fn no_value_chooses_the_host_or_climbs_out_of_the_path() {
    let hook = Template::parse(Broker::Http, Some("https://hooks.example/in/{resource_id}?s={stream}")).unwrap();
    let url = |id: &str| hook.place(&stream("a/b"), &of(id, None)).map(|place| place.topic.subject().to_owned());
    assert_eq!(url("../x?y#z@evil.example").unwrap(), "https://hooks.example/in/..%2Fx%3Fy%23z%40evil.example?s=a%2Fb");
    for dots in [".", ".."] {
        assert!(matches!(url(dots), Err(InputError::TopicUrl { .. })), "{dots}");
    }
    let joined = Template::parse(Broker::Http, Some("https://hooks.example/{resource_id}{tenant}/x")).unwrap();
    let dotted = StreamKey { tenant: Tenant::new(".").unwrap(), ..stream("a") };
    assert!(joined.place(&dotted, &of(".", None)).is_err());
    for authority in ["https://{tenant}.example/", "https://h:{op}", "http:https://{tenant}/x"] {
        let error = Template::parse(Broker::Http, Some(authority)).unwrap_err();
        assert!(error.to_string().contains("plain text"), "{error}");
    }
}

#[test]
fn what_can_not_be_used_is_told_with_the_reason() {
    for (broker, template, words) in [
        (Broker::Nats, "{strem}", "{resource_id}"),
        (Broker::Nats, "{stream", "without its }"),
        (Broker::Nats, "a}", "without its {"),
        (Broker::Nats, "a b", "spaces"),
        (Broker::Nats, "", "name"),
        (Broker::RabbitMq, "{tenant}/a", "plain text"),
        (Broker::RabbitMq, "a/", "name"),
        (Broker::Http, "hooks.example/{stream}", "https://"),
        (Broker::Http, "https://hooks.example/../x", ".."),
        (Broker::Http, "https://", "URL"),
    ] {
        let error = Template::parse(broker, Some(template)).unwrap_err();
        assert!(error.to_string().contains(words), "{template}: {error}");
    }
    let long = format!("{}/a", "x".repeat(256));
    assert!(Template::parse(Broker::RabbitMq, Some(&long)).unwrap_err().to_string().contains("256 bytes"));
}

#[test]
fn a_plugin_of_ones_own_may_take_urls() {
    assert_eq!(text(Broker::Other, "https://h.example/{resource_id}", &of("a.b/c", None)), "https://h.example/a.b%2Fc");
    assert_eq!(text(Broker::Other, "x.{resource_id}", &of("a.b/c", None)), "x.a%2Eb/c");
}

#[test]
fn a_name_that_no_topic_holds_is_refused() {
    let template = Template::parse(Broker::Nats, Some(&format!("{}.{{resource_id}}", "x".repeat(4_000)))).unwrap();
    assert!(template.place(&stream("a"), &of("t", None)).is_ok());
    assert!(matches!(template.place(&stream("a"), &of(&"y".repeat(255), None)), Err(InputError::TooLong { .. })));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_000))]

    /// So two values never become one name, and no value adds a part to it.
    #[test]
    fn a_value_is_one_part_and_comes_back(id in "\\PC{1,40}") {
        for broker in BROKERS {
            let mut written = String::new();
            id.chars().for_each(|letter| write_letter(broker, letter, &mut written));
            prop_assert_eq!(decoded(&written), id.clone());
            prop_assert!(!written.contains(char::is_whitespace));
            if let Some(separator) = broker.separator() {
                prop_assert!(!written.contains(separator));
            }
        }
    }

    #[test]
    fn a_streams_name_comes_back_and_has_no_empty_part(name in "[a-z._:/-]{1,30}") {
        prop_assume!(StreamName::new(&name).is_ok());
        for broker in BROKERS {
            let mut written = String::new();
            write_stream(broker, &name, &mut written);
            prop_assert_eq!(decoded(&written), name.clone());
            if let Some(separator) = broker.separator().filter(|_| !broker.takes_empty_parts()) {
                prop_assert!(written.split(separator).all(|part| !part.is_empty()), "{}", written);
            }
        }
    }

    #[test]
    fn whatever_the_values_are_a_name_is_one_of_its_broker(
        id in "\\PC{1,40}",
        kind in "\\PC{1,10}",
        node in proptest::option::of("\\PC{1,10}"),
    ) {
        let event = Event { resource_type: kind, ..of(&id, node.as_deref()) };
        for (broker, template) in [(Broker::Nats, None), (Broker::RabbitMq, None), (Broker::Redis, None),
            (Broker::Nats, Some("{tenant}.{resource_type}.{resource_id}.{node_uuid}.{op}"))] {
            let (name, _) = placed(broker, template, "task", &event);
            prop_assert!(!name.contains(char::is_whitespace));
            if broker != Broker::Redis {
                prop_assert!(name.split('.').all(|part| !matches!(part, "" | "*" | ">" | "#")), "{}", name);
            }
        }
    }
}
