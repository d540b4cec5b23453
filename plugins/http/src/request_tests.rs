#![allow(clippy::unwrap_used)]

use super::*;

fn message() -> Message {
    Message {
        id: "01JD0000000000000000000000".to_owned(),
        tenant: "acme".to_owned(),
        topic: "http:https://shop.example/hooks".to_owned(),
        destination: "https://shop.example/hooks".to_owned(),
        key: None,
        headers: Vec::new(),
        content_type: None,
        payload: b"{}".to_vec(),
        event_type: None,
        envelope_id: None,
        correlation_id: None,
        causation_id: None,
        reply_to: None,
        occurred_at: 1_614_265_330_000,
        created_at: 1_614_265_331_000,
        expires_at: None,
        attempt: 3,
        lease_epoch: 7,
        attributes: vec![("seq".to_owned(), "42".to_owned())],
    }
}

fn named(name: &str, value: &str) -> (String, String) {
    (name.to_owned(), value.to_owned())
}

fn sent(message: Message) -> Request {
    build(message, &Config::default(), None, 1_614_265_340, 30_000).unwrap()
}

fn values<'a>(request: &'a Request, name: &str) -> Vec<&'a str> {
    request.headers.iter().filter(|(other, _)| other == name).map(|(_, value)| value.as_str()).collect()
}

#[test]
fn a_plain_message_has_exactly_the_promised_headers() {
    let request = sent(message());
    let mut headers = request.headers;
    headers.sort();
    let expected = [
        ("ce-id", "01JD0000000000000000000000"),
        ("ce-source", "/waybill/acme"),
        ("ce-specversion", "1.0"),
        ("ce-time", "2021-02-25T15:02:10.000Z"),
        ("ce-type", "waybill.message"),
        ("content-type", "application/octet-stream"),
        ("idempotency-key", "01JD0000000000000000000000"),
        ("waybill-attempt", "3"),
        ("waybill-lease-epoch", "7"),
        ("waybill-seq", "42"),
        ("waybill-tenant", "acme"),
    ];
    assert_eq!(headers, expected.map(|(name, value)| named(name, value)));
    assert_eq!((request.method.as_str(), request.url.as_str()), ("POST", "https://shop.example/hooks"));
    assert_eq!((request.body.as_slice(), request.timeout), (b"{}".as_slice(), 30_000));
}

#[test]
fn the_type_is_the_events_else_the_topic_unless_that_is_a_url() {
    for (event_type, topic, expected) in [
        (Some("order.created"), "http:https://shop.example/hooks", "order.created"),
        (None, "bus:orders.created", "bus:orders.created"),
        (None, "http:https://shop.example/hooks", "waybill.message"),
        (None, "https://shop.example/hooks", "waybill.message"),
    ] {
        let event_type = event_type.map(str::to_owned);
        let request = sent(Message { event_type, topic: topic.to_owned(), ..message() });
        assert_eq!(values(&request, "ce-type"), [expected], "{topic}");
    }
}

#[test]
fn what_a_message_has_besides_becomes_extensions() {
    let request = sent(Message {
        key: Some("order 7".to_owned()),
        event_type: Some("order.created".to_owned()),
        correlation_id: Some("c".to_owned()),
        causation_id: Some("u".to_owned()),
        envelope_id: Some("e".to_owned()),
        reply_to: Some("bus:replies".to_owned()),
        expires_at: Some(0),
        attributes: vec![named("aggregate-type", "order"), named("aggregate-id", "7"), named("event-version", "2")],
        content_type: Some("application/json; charset=utf-8".to_owned()),
        ..message()
    });
    for (name, value) in [
        ("waybill-key", "order%207"),
        ("ce-type", "order.created"),
        ("ce-correlationid", "c"),
        ("ce-causationid", "u"),
        ("ce-envelopeid", "e"),
        ("ce-replyto", "bus:replies"),
        ("ce-expirytime", "1970-01-01T00:00:00.000Z"),
        ("ce-aggregatetype", "order"),
        ("ce-aggregateid", "7"),
        ("ce-eventversion", "2"),
        ("content-type", "application/json; charset=utf-8"),
    ] {
        assert_eq!(values(&request, name), [value], "{name}");
    }
    assert!(values(&request, "waybill-seq").is_empty());
}

/// Attempt, epoch and seq are a first delivery's again, and so is the idempotency key.
#[test]
fn a_replay_says_that_it_is_one() {
    let mut replayed = message();
    replayed.attributes.push(named("replay", "2"));
    let request = sent(replayed);
    assert_eq!(values(&request, "waybill-replay"), ["2"]);
    assert_eq!(values(&request, "idempotency-key"), ["01JD0000000000000000000000"]);
}

#[test]
fn a_callers_headers_go_along_and_may_repeat() {
    let headers =
        vec![named("X-Tag", "a"), named("x-tag", "b"), named("traceparent", "00-1-2-01"), named("X-Name", "Zoë")];
    let request = sent(Message { headers, ..message() });
    assert_eq!(values(&request, "x-tag"), ["a", "b"]);
    assert_eq!(values(&request, "traceparent"), ["00-1-2-01"]);
    assert_eq!(values(&request, "x-name"), ["Zo%C3%AB"]);
}

#[test]
fn a_caller_can_not_pretend_to_be_waybill_or_the_connection() {
    let spoofed = [
        "Idempotency-Key",
        "Waybill-Attempt",
        "waybill-anything",
        "ce-id",
        "CE-Other",
        "Webhook-Signature",
        "Host",
        "Content-Length",
        "Transfer-Encoding",
        "Connection",
    ];
    let headers = spoofed.iter().map(|name| named(name, "spoofed")).collect();
    let request = sent(Message { headers, ..message() });
    assert!(request.headers.iter().all(|(_, value)| value != "spoofed"), "{:?}", request.headers);
    assert_eq!(request.headers.len(), sent(message()).headers.len());
}

#[test]
fn a_content_type_of_the_message_wins_over_one_among_its_headers() {
    let headers = vec![named("Content-Type", "text/plain")];
    let without = sent(Message { headers: headers.clone(), ..message() });
    assert_eq!(values(&without, "content-type"), ["text/plain"]);
    let with = sent(Message { headers, content_type: Some("application/json".to_owned()), ..message() });
    assert_eq!(values(&with, "content-type"), ["application/json"]);
}

#[test]
fn a_configured_header_wins_over_a_callers() {
    let config: Config = waybill_plugin::config::parse(r#"{"headers":{"X-Env":"prod"},"method":"PUT"}"#).unwrap();
    let headers = vec![named("x-env", "test"), named("x-other", "1")];
    let request = build(Message { headers, ..message() }, &config, None, 0, 1).unwrap();
    assert_eq!(values(&request, "x-env"), ["prod"]);
    assert_eq!(values(&request, "x-other"), ["1"]);
    assert_eq!(request.method, "PUT");
}

#[test]
fn an_impossible_header_name_is_a_dead_letter() {
    for name in ["", "x y", "x\r\ny", "é"] {
        let refused = build(Message { headers: vec![named(name, "1")], ..message() }, &Config::default(), None, 0, 1);
        assert_eq!(refused.unwrap_err().code, "HTTP.HEADER", "{name:?}");
    }
}

#[test]
fn odd_tenants_and_ids_stay_one_header() {
    let request = sent(Message { tenant: "a b/c".to_owned(), id: "é\r\nx: y".to_owned(), ..message() });
    // The segment is encoded for the URI, then its percent signs for the header, as the binding asks.
    assert_eq!(values(&request, "ce-source"), ["/waybill/a%2520b%252Fc"]);
    assert_eq!(values(&request, "waybill-tenant"), ["a%20b/c"]);
    assert_eq!(values(&request, "idempotency-key"), ["%C3%A9%0D%0Ax:%20y"]);
}

#[test]
fn a_signature_covers_what_is_sent() {
    let signer = Signer::from_secret(b"whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw").unwrap();
    let signed = Message { id: "order.7".to_owned(), ..message() };
    let request = build(signed, &Config::default(), Some(&signer), 1_614_265_340, 1).unwrap();
    assert_eq!(values(&request, "webhook-id"), ["order%2E7"]);
    assert_eq!(values(&request, "webhook-timestamp"), ["1614265340"]);
    assert_eq!(values(&request, "webhook-signature"), [signer.sign("order%2E7", 1_614_265_340, b"{}")]);
    assert!(values(&sent(message()), "webhook-signature").is_empty());
}
