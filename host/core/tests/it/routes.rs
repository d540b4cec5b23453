//! Routes and URLs: each case of `tests/cases/routes.toml`, and random texts against the parser that clients use.

use std::path::Path;

use proptest::prelude::*;
use url::{Host, Url};
use waybill_core::route::Pattern;
use waybill_core::topic::Topic;

fn takes(pattern: &str, topic: &Topic) -> bool {
    Pattern::parse(pattern).unwrap_or_else(|error| panic!("{error}")).matches(topic)
}

#[test]
fn routes_see_the_url_that_is_called() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/cases/routes.toml");
    let file: toml::Table = std::fs::read_to_string(path).unwrap().parse().unwrap();
    let cases = file["case"].as_array().unwrap();
    assert!(cases.len() >= 25, "{}", cases.len());
    for case in cases.iter().map(|case| case.as_table().unwrap()) {
        let known = ["topic", "called", "takes", "leaves"];
        assert!(case.keys().all(|key| known.contains(&key.as_str())), "{case}");
        let text = case["topic"].as_str().unwrap();
        let topic = Topic::parse(text);
        let Some(called) = case.get("called").map(|called| called.as_str().unwrap()) else {
            assert!(topic.is_err(), "{text} is taken as {}", topic.unwrap().subject());
            continue;
        };
        let topic = topic.unwrap();
        assert_eq!(topic.subject(), called, "{text}");
        for (list, expected) in [("takes", true), ("leaves", false)] {
            for pattern in case.get(list).and_then(toml::Value::as_array).into_iter().flatten() {
                let pattern = pattern.as_str().unwrap();
                assert_eq!(takes(pattern, &topic), expected, "{pattern} and {text}");
            }
        }
    }
}

/// Pieces of which URLs that mislead are made.
fn piece() -> impl Strategy<Value = &'static str> {
    prop::sample::select(vec![
        "http:",
        "https:",
        "HTTPS:",
        "//",
        "/",
        "\\",
        ":",
        "@",
        "?",
        "#",
        ".",
        "..",
        "a",
        "B",
        "shop.example",
        ".shop.example",
        "evil.example",
        "127.0.0.1",
        "[::1]",
        "0x7f.1",
        ":80",
        ":443",
        ":8080",
        "%2e",
        "%2F",
        "%61",
        " ",
        "*",
        "ü",
        "。",
        "/../",
    ])
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 20_000, failure_persistence: None, ..ProptestConfig::default() })]

    /// What is called is where a client goes that is given the topic's text, and what routes compare is what is called.
    #[test]
    fn a_route_and_a_client_agree(scheme in prop::sample::select(vec!["http://", "https://", "http:https:", "http:HTTP://"]),
                                  pieces in prop::collection::vec(piece(), 0..8)) {
        let text = format!("{scheme}{}", pieces.concat());
        let Ok(topic) = Topic::parse(&text) else { return Ok(()) };
        let address = topic.as_str().strip_prefix("http:").unwrap();
        let (given, called) = (Url::parse(address).unwrap(), Url::parse(topic.subject()).unwrap());
        prop_assert_eq!(called.as_str(), topic.subject(), "the form is final");
        let host = |url: &Url| match url.host().unwrap().to_owned() {
            Host::Domain(name) => Host::parse(name.trim_end_matches('.')).unwrap(),
            address => address,
        };
        prop_assert_eq!(host(&given), host(&called));
        prop_assert_eq!(given.port_or_known_default(), called.port_or_known_default());
        prop_assert_eq!((given.scheme(), given.path(), given.query()), (called.scheme(), called.path(), called.query()));
        prop_assert!(called.fragment().is_none() && called.username().is_empty());

        // A pattern made of the URL's parts takes it; ones of other parts don't.
        let (scheme, name) = (called.scheme(), called.host_str().unwrap());
        let port = called.port_or_known_default().unwrap();
        if port > 0 && !name.contains('*') {
            let exact = format!("{scheme}://{name}:{port}/**");
            prop_assert!(takes(&exact, &topic), "{}", exact);
            let other = format!("{scheme}://{name}:{}/**", if port == 9 { 10 } else { 9 });
            prop_assert!(!takes(&other, &topic), "{}", other);
        }
        let under = name.ends_with(".shop.example") && scheme == "https" && called.port().is_none();
        prop_assert_eq!(takes("https://*.shop.example/**", &topic), under);
        prop_assert_eq!(takes("http://*:8080/**", &topic), scheme == "http" && port == 8080);
        prop_assert!(takes("http:**", &topic) && !takes("https://elsewhere.example/**", &topic));

        // It is read back from the store as it was.
        prop_assert_eq!(Topic::stored(topic.as_str()).unwrap(), topic);
    }

    /// No text brings the readers down.
    #[test]
    fn any_text_is_read_or_refused(text in ".{0,60}", rest in ".{0,40}") {
        for text in [text.clone(), format!("http://{rest}"), format!("http:{rest}"), format!("bus:{rest}")] {
            let topic = Topic::parse(&text);
            if let (Ok(pattern), Ok(topic)) = (Pattern::parse(&text), &topic) {
                let _ = pattern.matches(topic);
            }
        }
    }
}
