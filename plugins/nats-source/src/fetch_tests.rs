//! Tests of a request and its end.
#![allow(clippy::unwrap_used, clippy::panic)]

use super::*;

const SUBJECT: &str = "$JS.API.CONSUMER.MSG.NEXT.ORDERS.ship";

fn request(messages: u32) -> Request {
    Request::new(SUBJECT, "_INBOX.x.".to_owned(), 7, Wanted { messages, bytes: 1_000, wait: 250, payload: 1_000 })
}

/// What was written, as its lines.
fn written(request: &mut Request) -> (String, serde_json::Value) {
    let text = String::from_utf8(std::mem::take(&mut request.due)).unwrap();
    let (line, body) = text.trim_end().split_once("\r\n").unwrap();
    assert!(line.ends_with(&format!(" {}", body.len())));
    (line.to_owned(), serde_json::from_str(body).unwrap())
}

fn deliver(request: &mut Request, sequence: u64, payload: &[u8]) {
    let reply = format!("$JS.ACK.ORDERS.ship.1.{sequence}.{sequence}.1795697050623582361.0");
    let message = Message { subject: b"orders.a", reply: reply.as_bytes(), headers: b"", payload, omitted: None };
    request.take(Event::Delivery(message));
}

fn status(request: &mut Request, number: u64, line: &str) {
    let headers = format!("NATS/1.0 {line}\r\n\r\n");
    let message =
        Message { subject: b"_INBOX.x.7", reply: b"", headers: headers.as_bytes(), payload: b"", omitted: None };
    request.take(Event::Answer(number, message));
}

#[test]
fn a_request_asks_for_what_there_is_room_for() {
    let (line, body) = written(&mut request(5));
    assert!(line.starts_with("PUB $JS.API.CONSUMER.MSG.NEXT.ORDERS.ship _INBOX.x.7 "), "{line}");
    let expires = body["expires"].as_u64().unwrap();
    assert!((10_000_000..=250_000_000).contains(&expires), "{expires}");
    assert_eq!((&body["batch"], &body["no_wait"], &body["max_bytes"]), (&json!(5), &json!(true), &json!(1_000)));
}

#[test]
fn it_ends_when_all_came_or_when_the_server_says_so() {
    let mut whole = request(2);
    deliver(&mut whole, 1, b"a");
    assert_eq!(whole.end, None);
    deliver(&mut whole, 2, b"b");
    assert_eq!((whole.end.clone(), whole.deliveries.len()), (Some(End::Whole), 2));
    for (line, end) in [
        ("404 No Messages", End::Drained),
        ("408 Request Timeout", End::Drained),
        ("409 Consumer Deleted", End::Gone),
        ("409 Leadership Change", End::Cut),
        ("409 Server Shutdown", End::Cut),
        ("503", End::Gone),
    ] {
        let mut request = request(2);
        status(&mut request, 6, line);
        status(&mut request, 7, "100 Idle Heartbeat");
        assert_eq!(request.end, None, "{line}");
        status(&mut request, 7, line);
        assert_eq!(request.end, Some(end), "{line}");
    }
    let mut refused = request(2);
    status(&mut refused, 7, "409 Exceeded MaxRequestBatch of 1");
    let Some(End::Refused(error)) = refused.end else { panic!("{:?}", refused.end) };
    assert!(error.fault.reason.contains("MaxRequestBatch"));
}

#[test]
fn a_first_message_that_is_larger_than_all_may_be_is_asked_for_alone() {
    let mut request = request(5);
    request.due.clear();
    status(&mut request, 7, "409 Message Size Exceeds MaxBytes");
    let (line, body) = written(&mut request);
    assert!(line.contains("_INBOX.x.8"), "{line}");
    assert_eq!((&body["batch"], &body["max_bytes"]), (&json!(1), &serde_json::Value::Null));
    deliver(&mut request, 1, &[0; 2_000]);
    let [(_, delivery)] = request.deliveries.as_slice() else { panic!() };
    assert_eq!((request.end.clone(), delivery.omitted), (Some(End::Whole), Some(2_000)));
    let mut later = super::tests::request(5);
    deliver(&mut later, 1, b"a");
    status(&mut later, 7, "409 Message Size Exceeds MaxBytes");
    assert_eq!(later.end, Some(End::Whole), "the next pull asks for it alone");
}

#[test]
fn behind_other_requests_it_queues_and_not_for_ever() {
    let mut request = request(5);
    for number in 7..10 {
        request.due.clear();
        status(&mut request, number, "408 Requests Pending");
        assert!(written(&mut request).1.get("no_wait").is_none());
    }
    status(&mut request, 10, "408 Requests Pending");
    assert_eq!(request.end, Some(End::Cut));
}
