//! Whatever is sent, nobody gets a 500 for it.

use axum::body::Body;
use http::{HeaderValue, Method, Request, Uri};
use proptest::prelude::*;
use proptest::test_runner::TestRunner;
use waybill_server::server::permissions;

use crate::support::Api;

fn requests() -> impl Strategy<Value = Request<Body>> {
    let routes: Vec<(String, String)> = permissions().into_iter().map(|(method, path, _)| (method, path)).collect();
    let id = prop_oneof!["[a-zA-Z0-9%/.?&=-]{1,12}", "(%[0-9a-f]{2}){1,4}", Just("gone".to_owned())];
    let parameter = ("(tenant|filter|cursor|limit|count|[a-z]{1,5})", "[ -~]{0,12}").prop_map(|(name, value)| {
        let value: String = value.bytes().map(|b| format!("%{b:02x}")).collect();
        format!("{name}={value}")
    });
    let json = prop_oneof![
        proptest::collection::vec(any::<u8>(), 0..200),
        "[\\[\\]{}\":,a-z0-9. \\\\-]{0,120}".prop_map(String::into_bytes),
        member_soup().prop_map(String::into_bytes),
    ];
    let media = prop_oneof![
        4 => Just("application/json".to_owned()),
        2 => Just("application/x-ndjson".to_owned()),
        1 => "[ -~]{0,20}",
    ];
    (proptest::sample::select(routes), id, proptest::collection::vec(parameter, 0..3), json, media).prop_filter_map(
        "an address that a request can have",
        |((method, path), id, parameters, body, media)| {
            let path = path.replace("{id}", &id).replace("{name}", &id).replace("{code}", &id);
            let uri: Uri = format!("{path}?{}", parameters.join("&")).parse().ok()?;
            let mut request = Request::new(Body::from(body));
            *request.method_mut() = Method::from_bytes(method.as_bytes()).ok()?;
            *request.uri_mut() = uri;
            request.headers_mut().insert("host", HeaderValue::from_static("localhost"));
            request.headers_mut().insert("content-type", HeaderValue::from_str(&media).ok()?);
            Some(request)
        },
    )
}

/// JSON that is nearly right: known names with values of any type.
fn member_soup() -> impl Strategy<Value = String> {
    let names = [
        "topic",
        "payload",
        "payload_base64",
        "messages",
        "statements",
        "query",
        "bindings",
        "events",
        "not_before",
        "headers",
        "id",
        "key",
        "tenant",
        "note",
        "reason",
        "kind",
        "filter",
        "rate",
        "dry_run",
        "routing_key",
        "event_version",
    ];
    let leaf = prop_oneof![
        Just("null".to_owned()),
        any::<i64>().prop_map(|n| n.to_string()),
        any::<f32>().prop_filter("JSON has no NaN", |n| n.is_finite()).prop_map(|n| format!("{n:e}")),
        "[ -!#-\\[\\]-~]{0,8}".prop_map(|text| format!("\"{text}\"")),
        Just("true".to_owned()),
    ];
    leaf.prop_recursive(4, 24, 4, move |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..4).prop_map(|items| format!("[{}]", items.join(","))),
            proptest::collection::vec((proptest::sample::select(names.to_vec()), inner), 0..5).prop_map(|members| {
                let members: Vec<String> =
                    members.into_iter().map(|(name, value)| format!("\"{name}\":{value}")).collect();
                format!("{{{}}}", members.join(","))
            }),
        ]
    })
}

/// One host takes all of them.
#[test]
fn arbitrary_requests_never_get_a_500() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
    let api = runtime.block_on(Api::open());
    let config = ProptestConfig { cases: 3000, failure_persistence: None, ..ProptestConfig::default() };
    let checked = TestRunner::new(config).run(&requests(), |request| {
        let answer = runtime.block_on(api.send(request));
        prop_assert!(answer.status.as_u16() < 500, "{answer:?}");
        if !answer.status.is_success() {
            answer.problem();
        }
        Ok(())
    });
    assert!(checked.is_ok(), "{}", checked.unwrap_err());
}
