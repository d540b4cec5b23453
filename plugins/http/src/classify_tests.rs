#![allow(clippy::unwrap_used, clippy::panic)]

use std::time::{Duration, UNIX_EPOCH};

use super::*;

const ORIGIN: &str = "https://shop.example";

fn response(status: u16) -> Response {
    Response { status, headers: Vec::new(), body: Vec::new(), truncated: false }
}

fn answered(status: u16) -> Outcome {
    answer(ORIGIN, &response(status), UNIX_EPOCH)
}

fn unanswered(error: NetError, maybe_delivered: bool) -> Outcome {
    no_answer(ORIGIN, &HttpError { error, maybe_delivered })
}

fn fault(outcome: Outcome) -> Fault {
    match outcome {
        Outcome::Ack(_) => panic!("delivered"),
        Outcome::Retryable(fault) | Outcome::Permanent(fault) | Outcome::Release(fault) => fault,
        Outcome::Blocked(block) => block.fault,
    }
}

/// The class as a word, with the scope of a block.
fn class(outcome: &Outcome) -> String {
    match outcome {
        Outcome::Ack(receipt) if receipt.duplicate => "duplicate".to_owned(),
        Outcome::Ack(_) => "ack".to_owned(),
        Outcome::Retryable(_) => "retry".to_owned(),
        Outcome::Permanent(_) => "dead".to_owned(),
        Outcome::Release(_) => "release".to_owned(),
        Outcome::Blocked(block) => format!("blocked {}", block.scope),
    }
}

#[test]
fn every_status_has_the_promised_fate() {
    for status in 100..=999 {
        let expected = match status {
            200..=299 => "ack",
            409 => "duplicate",
            408 | 425 | 429 | 500..=599 => "retry",
            401 | 403 => "blocked https://shop.example",
            404 | 410 => "blocked ",
            _ => "dead",
        };
        assert_eq!(class(&answered(status)), expected, "{status}");
    }
}

#[test]
fn a_receipt_names_the_status() {
    let Outcome::Ack(receipt) = answered(202) else { panic!("not delivered") };
    assert_eq!((receipt.broker_ref.as_deref(), receipt.duplicate), (Some("202"), false));
}

#[test]
fn codes_are_by_status_and_redirects_share_one() {
    for (status, code) in
        [(503, "HTTP.503"), (422, "HTTP.422"), (404, "HTTP.404"), (301, "HTTP.REDIRECT"), (308, "HTTP.REDIRECT")]
    {
        let fault = fault(answered(status));
        assert_eq!(fault.code, code);
        assert_eq!(fault.attributes, [("http-status".to_owned(), status.to_string())]);
    }
}

#[test]
fn a_failure_that_may_hide_a_success_says_so() {
    for (status, maybe) in
        [(500, true), (502, true), (504, true), (503, false), (501, false), (429, false), (408, false), (422, false)]
    {
        assert_eq!(fault(answered(status)).maybe_delivered, maybe, "{status}");
    }
    for maybe in [false, true] {
        assert_eq!(fault(unanswered(NetError::Timeout, maybe)).maybe_delivered, maybe);
        assert_eq!(fault(unanswered(NetError::Reset("by peer".to_owned()), maybe)).maybe_delivered, maybe);
    }
}

#[test]
fn no_answer_has_the_promised_fate() {
    let why = || "why".to_owned();
    for (error, maybe, expected, code) in [
        (NetError::Denied(why()), false, "blocked https://shop.example", "HTTP.DENIED"),
        (NetError::Resolve(why()), false, "blocked https://shop.example", "HTTP.RESOLVE"),
        (NetError::Refused, false, "blocked https://shop.example", "HTTP.CONNECT"),
        (NetError::Tls(why()), false, "blocked https://shop.example", "HTTP.TLS"),
        (NetError::Timeout, true, "retry", "HTTP.TIMEOUT"),
        (NetError::Closed, true, "retry", "HTTP.RESET"),
        (NetError::Reset(why()), true, "retry", "HTTP.RESET"),
        (NetError::Unsupported(why()), false, "dead", "HTTP.UNSUPPORTED"),
        (NetError::Cancelled, false, "release", "HTTP.CANCELLED"),
        (NetError::Cancelled, true, "retry", "HTTP.CANCELLED"),
        (NetError::Limit(why()), false, "retry", "HTTP.LIMIT"),
        (NetError::Busy, false, "retry", "HTTP.OTHER"),
        (NetError::Other(why()), false, "retry", "HTTP.OTHER"),
    ] {
        let outcome = unanswered(error, maybe);
        assert_eq!(class(&outcome), expected, "{code}");
        let fault = fault(outcome);
        assert_eq!(fault.code, code);
        assert!(fault.reason.starts_with(ORIGIN), "{}", fault.reason);
    }
}

#[test]
fn retry_after_is_seconds_or_a_date() {
    let now = UNIX_EPOCH + Duration::from_secs(784_111_777 - 90);
    for (value, expected) in [
        ("0", Some(0)),
        ("120", Some(120_000)),
        (" 7 ", Some(7_000)),
        ("99999999999", Some(u32::MAX)),
        ("Sun, 06 Nov 1994 08:49:37 GMT", Some(90_000)),
        ("Sunday, 06-Nov-94 08:49:37 GMT", Some(90_000)),
        ("Sun Nov  6 08:49:37 1994", Some(90_000)),
        ("Sun, 06 Nov 1994 08:00:00 GMT", Some(0)),
        ("Fri, 31 Dec 9999 23:59:59 GMT", Some(u32::MAX)),
        ("-1", None),
        ("1.5", None),
        ("", None),
        ("soon", None),
    ] {
        let headers = vec![("Retry-After".to_owned(), value.to_owned())];
        let outcome = answer(ORIGIN, &Response { headers, ..response(503) }, now);
        assert_eq!(fault(outcome).after, expected, "{value:?}");
    }
    assert_eq!(fault(answered(503)).after, None);
}

#[test]
fn the_reason_holds_the_start_of_a_text_answer_on_one_line() {
    let reason =
        |body: &[u8]| fault(answer(ORIGIN, &Response { body: body.to_vec(), ..response(422) }, UNIX_EPOCH)).reason;
    assert_eq!(reason(b""), "https://shop.example answered 422");
    assert_eq!(
        reason(b" {\"title\":\r\n\t\"no such order\"}\n"),
        "https://shop.example answered 422: {\"title\": \"no such order\"}"
    );
    assert_eq!(reason(&[0xff, 0xfe, 0x00]), "https://shop.example answered 422");
    let long = reason("€".repeat(10_000).as_bytes());
    assert_eq!(long.chars().filter(|letter| *letter == '€').count(), SHOWN_BODY_CHARS);
    let cut_inside_a_character = format!("a{}", "€".repeat(10_000));
    assert!(reason(cut_inside_a_character.as_bytes()).contains("a€€"));
}
