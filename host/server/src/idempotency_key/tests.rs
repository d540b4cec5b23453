//! What is read from the header and what is kept.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use http::{Method, Uri};
use waybill_core::code::Code;
use waybill_core::ids::{IdempotencyKey, RequestHash, Tenant};

use super::kept::{again, digest};
use super::key::{Asked, hex, unquoted};
use super::*;

#[test]
fn a_key_is_a_bare_token_or_a_quoted_string() {
    for (text, key) in [
        ("abc", "abc"),
        ("  8e03978e-40d5-43dd-bc93-6894a57f9324 ", "8e03978e-40d5-43dd-bc93-6894a57f9324"),
        ("\"abc\"", "abc"),
        ("\"a b\"", "a b"),
        (r#""a\"b\\c""#, "a\"b\\c"),
        ("a:b/c=?;", "a:b/c=?;"),
    ] {
        assert_eq!(unquoted(text).as_deref(), Some(key), "{text}");
    }
    for text in ["", "  ", "\"\"", "\"a", "\"a\"b", "\"a\\n\"", "a b", "a\tb", "\"a\" ; p=1"] {
        assert_eq!(unquoted(text), None, "{text:?}");
    }
}

fn hash_of(method: Method, uri: &'static str, tenant: &str, kind: Option<&'static str>, body: &str) -> RequestHash {
    let asked = Asked {
        key: IdempotencyKey::new("k").unwrap(),
        method,
        uri: Uri::from_static(uri),
        content_type: kind.map(HeaderValue::from_static),
    };
    asked.of(Tenant::new(tenant).unwrap(), body.as_bytes()).unwrap().hash
}

#[test]
fn a_request_is_its_method_path_query_tenant_media_type_and_body() {
    let first = || hash_of(Method::POST, "/v1/messages?a=1", "t", Some("application/json"), "{}");
    assert_eq!(first(), hash_of(Method::POST, "/v1/messages?a=1", "t", Some("Application/JSON"), "{}"));
    for other in [
        hash_of(Method::PUT, "/v1/messages?a=1", "t", Some("application/json"), "{}"),
        hash_of(Method::POST, "/v1/transactions?a=1", "t", Some("application/json"), "{}"),
        hash_of(Method::POST, "/v1/messages?a=2", "t", Some("application/json"), "{}"),
        hash_of(Method::POST, "/v1/messages", "t", Some("application/json"), "{}"),
        hash_of(Method::POST, "/v1/messages?a=1", "u", Some("application/json"), "{}"),
        hash_of(Method::POST, "/v1/messages?a=1", "t", Some("application/x-ndjson"), "{}"),
        hash_of(Method::POST, "/v1/messages?a=1", "t", None, "{}"),
        hash_of(Method::POST, "/v1/messages?a=1", "t", Some("application/json"), "{} "),
    ] {
        assert_ne!(other, first());
    }
}

/// Requests that were hashed by an earlier build are known again.
#[test]
fn a_hash_is_written_in_lower_case_hex() {
    assert_eq!(hex(&[0x00, 0x0f, 0xa5, 0xff]), "000fa5ff");
    let hash = hash_of(Method::POST, "/v1/messages", "t", None, "{}");
    assert!(hash.as_str().len() == 64 && hash.as_str().bytes().all(|byte| byte.is_ascii_hexdigit()), "{hash:?}");
}

#[test]
fn only_what_would_be_the_same_again_is_final() {
    for code in [Code::STORAGE_CONFLICT, Code::OUTBOX_TOO_MANY, Code::OUTBOX_TOPIC] {
        assert!(is_final(&Problem::new(code, "")), "{code}");
    }
    for code in [
        Code::OUTBOX_BUSY,
        Code::AUTH_REQUIRED,
        Code::AUTH_TENANT,
        Code::TX_TIMEOUT,
        Code::UNKNOWN_INTERNAL,
        Code::TX_LEASE_LOST,
    ] {
        assert!(!is_final(&Problem::new(code, "")), "{code}");
    }
    // What may change: the key is free again.
    for code in
        [Code::OUTBOX_NO_ROUTE, Code::STORAGE_STATEMENT, Code::FUTURE_EVENT, Code::OUTBOX_BUSY, Code::AUTH_TENANT]
    {
        assert!(!is_final(&Problem::new(code, "")) && had_no_effect(&Problem::new(code, "")), "{code}");
    }
    // What may have been done.
    for code in [Code::OUTBOX_NOT_FOUND, Code::SAGA_NOT_FOUND, Code::TX_TIMEOUT, Code::UNKNOWN_INTERNAL] {
        assert!(!is_final(&Problem::new(code, "")) && !had_no_effect(&Problem::new(code, "")), "{code}");
    }
    // A transaction that met another one.
    assert!(!is_final(&Problem::new(Code::STORAGE_CONFLICT, "").after(RETRY_AFTER_BUSY)));
}

#[test]
fn a_problem_comes_back_as_it_was() {
    let mut problem = Problem::invalid("no").at("messages[3].topic");
    problem.at.index = Some(3);
    let kept = of_problem(&problem);
    assert_eq!(again(kept.code.as_deref().unwrap(), kept.body.as_deref()), problem);
    let bare = again("OUTBOX.NO_ROUTE", None);
    assert_eq!((bare.code.status(), bare.detail.contains("wasn't kept")), (400, true));
}

#[test]
fn a_digest_is_a_structured_field() {
    let answer = Answer::of_json("{}");
    assert_eq!(digest(&answer.sha256).unwrap(), "sha-256=:RBNvo1WzZ4oRRq0W9+hknpT7T8If536DEMBg9hyq/4o=:");
}
