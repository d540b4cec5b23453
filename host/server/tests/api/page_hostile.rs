//! Hostile texts in every field that a caller controls, and then every view that shows it: nothing of them is markup, nothing hides, no
//! view fails, none grows without bound.

use axum::body::Body;
use bytes::Bytes;
use serde_json::{Value, json};
use waybill_core::code::Code;
use waybill_core::port::service::MessageState;
use waybill_core::port::transport::{Fault, Outcome};
use waybill_core::streams::event::{Body as EventBody, Event};
use waybill_page::acts::{Act, Target};
use waybill_page::address;
use waybill_testkit::fake_streams::event;
use waybill_testkit::memory_host::ORDER;

use crate::page::form;
use crate::page_acts::opened;
use crate::page_markup::is_harmless;
use crate::support::{Answer, Api};

/// A text that holds nothing but what can't be seen, with a mark between.
const HIDDEN: &str = "\u{202e}zq\u{2066}\u{200b}\u{feff}\u{2028}";
/// Pages of a list that are looked at.
const PAGES_MAX: usize = 20;

/// Each breaks out of somewhere if it isn't written as the text that it is.
pub fn corpus() -> Vec<String> {
    let mut texts: Vec<String> = [
        "<script zq>alert(1)</script>",
        "\"><img zq src=x onerror=alert(1)>",
        "' zq='1' onmouseover='alert(1)",
        "\" zq=\"1\" autofocus onfocus=\"alert(1)",
        "</title></textarea></pre></script><b zq>",
        "--><i zq><!--",
        "<svg/onload=alert(1) zq>",
        "javascript:alert(1)//zq",
        "&lt;script zq&gt;&#60;b zq&#x3e;&quot; zq=1",
        "zq%3Cb%20zq%3E%00&tenant=globex#zq?x=1+1",
        HIDDEN,
        "zq\0\u{1b}[31m\u{7f}\u{85}\r\n\tzq",
        "1e999",
        "..",
        "../../zq",
        "zq \u{5e9}\u{5dc}\u{5d5}\u{5dd} \u{645}\u{631}\u{62d}\u{628}\u{627}",
        "{{zq}}${zq}<%zq%>\\ud800\\u0000",
        "\\\"zq\\",
    ]
    .map(str::to_owned)
    .into();
    texts.extend(["w".repeat(120), "\u{202e}".repeat(40), "w".repeat(500), "w".repeat(1_900), "<b zq>".repeat(600)]);
    texts
}

/// JSON that is shown as it is written.
const RAW: [&str; 7] = [
    "{\"zq\":1e300,\"a\":-0.0,\"b\":12345678901234567890123}",
    "{\"s\":\"\\ud800 zq\",\"\\udfff\":1}",
    "{\"a\":1,\"a\":2,\"<b zq>\":{\"</script>\":\"\\u0000\\u202e\"}}",
    "\"\\u003cscript zq\\u003e\"",
    "[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[\"zq\"]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]",
    "null",
    // Readers differ about it, so it isn't taken.
    "{\"zq\":1e999}",
];

/// Fields of a message. The first take hardly anything.
const FIELDS: [&str; 15] = [
    "topic",
    "header name",
    "id",
    "tenant",
    "key",
    "subject",
    "url",
    "header",
    "payload",
    "event_type",
    "correlation_id",
    "causation_id",
    "aggregate_id",
    "reply_to",
    "content_type",
];

/// A message with a text in one field.
fn message_with(field: &str, text: &str, id: &str) -> Value {
    let mut body = json!({"topic": "http:http://shop.example/hook", "payload": {"n": 1}, "id": id});
    match field {
        "header name" => body["headers"] = json!({ text: "1" }),
        "header" => body["headers"] = json!({"x-note": text}),
        "payload" => body["payload"] = json!({"note": text, text: [text]}),
        "subject" => body["topic"] = format!("bus:{text}").into(),
        "url" => body["topic"] = format!("http://shop.example/{text}").into(),
        field => body[field] = text.into(),
    }
    body
}

/// A page that shows what there is.
async fn shown(api: &Api, path: &str) -> Answer {
    let answer = api.get(path).await;
    is_harmless(&answer, path);
    assert_eq!(answer.status, 200, "{path}: {}", answer.text);
    answer
}

/// All pages of a list, up to a bound.
async fn listed(api: &Api, path: &str) {
    let mut next = path.to_owned();
    for _ in 0..PAGES_MAX {
        let page = shown(api, &next).await.text;
        let older = page.split("href=\"").skip(1).filter_map(|rest| rest.split('"').next());
        let older = older.map(|address| address.replace("&amp;", "&")).find(|address| address.contains("after="));
        let Some(older) = older else { return };
        next = older;
    }
}

/// A list as both files: never HTML, whatever stands in it.
async fn saved(api: &Api, list: &str) {
    for (format, media) in [("csv", "text/csv"), ("jsonl", "application/jsonl")] {
        let path = format!("/ui/save?list={list}&as={format}");
        let file = api.get(&path).await;
        assert_eq!(file.status, 200, "{path}: {}", file.text);
        assert!(file.header("content-type").starts_with(media), "{path}: {}", file.header("content-type"));
        assert!(file.header("content-disposition").starts_with("attachment"), "{path}");
        if format == "jsonl" {
            for line in file.text.lines() {
                assert!(serde_json::from_str::<Value>(line).is_ok(), "{path}: {line}");
            }
        }
    }
}

#[tokio::test]
async fn hostile_texts_in_every_field_of_a_message_are_shown_as_texts() {
    let api = Api::open().await;
    let mut number = 0;
    for field in FIELDS {
        let mut taken = 0;
        for text in corpus() {
            number += 1;
            let id = if field == "id" { text.clone() } else { format!("h-{number}") };
            let tenant = if field == "tenant" { &*text } else { "default" };
            // Every second one dies of it, and the others stand in the list of messages.
            let is_dead = number % 2 == 0;
            if is_dead {
                api.host.answer(&id, [Outcome::Permanent(Fault::new("HTTP.400", &*text))]);
            }
            let answer = api.post("/v1/messages", message_with(field, &text, &id).to_string()).await;
            assert!(answer.status.as_u16() < 500, "{field} {text:?}: {}", answer.text);
            if !answer.status.is_success() {
                continue;
            }
            taken += 1;
            let state = if is_dead { MessageState::Dead } else { MessageState::Done };
            api.host.until_state(tenant, &id, state).await;
            for show in ["", "raw", "headers"] {
                let query = [("tenant", tenant), ("id", &*id), ("show", show)];
                let page = shown(&api, &address::with(address::MESSAGE, &query)).await;
                if field == "key" && text == HIDDEN {
                    for mark in ["U+202E", "U+2066", "U+200B", "U+FEFF", "U+2028"] {
                        assert!(page.text.contains(mark), "{mark}: {}", page.text);
                    }
                }
            }
        }
        assert!(taken > 0 || matches!(field, "topic" | "header name"), "no text is taken as {field}");
    }
    // A code that is none of the host's.
    for (number, text) in corpus().iter().enumerate() {
        let id = format!("code-{number}");
        api.host.answer(&id, [Outcome::Permanent(Fault::new(text, text))]);
        let answer = api.post("/v1/messages", message_with("key", "k", &id).to_string()).await;
        assert!(answer.status.is_success(), "{}", answer.text);
        api.host.until_state("default", &id, MessageState::Dead).await;
        shown(&api, &address::message("default", &id)).await;
    }
    for path in ["/ui", "/ui/blocked", "/ui/messages", "/ui/messages?sort=state", "/ui/dead-letters", "/ui/audit"] {
        listed(&api, path).await;
    }
    for list in ["messages", "dead-letters", "audit"] {
        saved(&api, list).await;
    }
}

#[tokio::test]
async fn a_payload_is_shown_as_it_came_whatever_it_is() {
    let api = Api::open().await;
    let mut payloads: Vec<String> = RAW.iter().map(|payload| format!("\"payload\":{payload}")).collect();
    payloads.push(format!("\"payload\":\"{}\"", "w".repeat(256 * 1024 - 2)));
    // `<script zq>`, a NUL and a byte that is no text.
    payloads.push("\"payload_base64\":\"PHNjcmlwdCB6cT4A/w==\"".to_owned());
    for (number, payload) in payloads.iter().enumerate() {
        let id = format!("raw-{number}");
        let body = format!("{{\"topic\":\"http:http://shop.example/hook\",\"id\":\"{id}\",{payload}}}");
        let answer = api.post("/v1/messages", body).await;
        assert!(answer.status.as_u16() < 500, "{payload:.100}: {}", answer.text);
        assert_eq!(
            answer.status.is_success(),
            !payload.contains("1e999") && !payload.contains("ud800") && !payload.contains("\"a\":2"),
            "{payload:.100}"
        );
        if !answer.status.is_success() {
            continue;
        }
        api.host.until_state("default", &id, MessageState::Done).await;
        for show in ["", "raw", "headers"] {
            let query = [("id", &*id), ("show", show)];
            let page = shown(&api, &address::with(address::MESSAGE, &query)).await.text;
            if number == 0 && show != "headers" {
                assert!(page.contains("1e300") && page.contains("12345678901234567890123"), "{page}");
            }
        }
    }
    // Numbers of any size are taken, and a line of 256 KiB.
    for number in [0, RAW.len()] {
        let id = format!("raw-{number}");
        assert_eq!(api.host.view("default", &id).await.state, MessageState::Done, "{id}");
    }
    listed(&api, "/ui/messages").await;
    saved(&api, "messages").await;
}

#[tokio::test]
async fn hostile_texts_of_sagas_and_keys_are_shown_as_texts() {
    let api = Api::open().await;
    api.host.define(ORDER).await;
    let mut taken = 0;
    for (number, text) in corpus().iter().enumerate() {
        for (tenant, id) in [("default", text.clone()), (text.as_str(), format!("s-{number}"))] {
            let start =
                json!({"definition": "order", "id": id, "tenant": tenant, "input": {"note": text, text: [text]}});
            let answer = api.post("/v1/sagas", start.to_string()).await;
            assert!(answer.status.as_u16() < 500, "{text:?}: {}", answer.text);
            if !answer.status.is_success() {
                continue;
            }
            taken += 1;
            api.host.until_waiting(tenant, &id, "approval").await;
            shown(&api, &address::saga(tenant, &id)).await;
        }
        let begin = json!({"key": text, "hash": "9f86d081"});
        let answer = api.post("/v1/idempotency/begin", begin.to_string()).await;
        assert!(answer.status.as_u16() < 500, "{text:?}: {}", answer.text);
        if answer.status.is_success() {
            shown(&api, &address::key("default", text)).await;
        }
        let (failed, finished) = (format!("failed-{number}"), format!("finished-{number}"));
        api.host.failed_key("default", &failed, text).await;
        api.host.finished_key("default", &finished, &json!({"note": text}).to_string()).await;
        for key in [failed, finished] {
            shown(&api, &address::key("default", &key)).await;
        }
    }
    assert!(taken > corpus().len() / 2, "{taken}");
    for path in ["/ui", "/ui/sagas", "/ui/approvals", "/ui/idempotency", "/ui/audit"] {
        listed(&api, path).await;
    }
    for list in ["sagas", "idempotency", "audit"] {
        saved(&api, list).await;
    }
}

#[tokio::test]
async fn hostile_events_of_streams_are_shown_as_texts() {
    let api = Api::open().await;
    for text in corpus() {
        let bytes = [text.as_bytes(), &[0xff][..]].concat();
        for body in [Bytes::from(text.clone().into_bytes()), Bytes::from(bytes)] {
            api.streams().writes(Event {
                resource_type: text.clone(),
                resource_id: text.clone(),
                correlation_id: Some(text.clone()),
                cause: Some(text.clone()),
                headers: [(text.clone(), text.clone())].into(),
                content_type: Some(text.clone()),
                body: EventBody::Bytes(body),
                ..event(4)
            });
            shown(&api, "/ui/stream?name=task").await;
        }
    }
}

/// A form with any text in its fields.
fn form_of(path: &str, fields: &[(String, String)]) -> http::Request<Body> {
    let mut written = form_urlencoded::Serializer::new(String::new());
    for (name, value) in fields {
        written.append_pair(name, value);
    }
    let mut request = form(path, &[], "");
    *request.body_mut() = Body::from(written.finish());
    request
}

#[tokio::test]
async fn hostile_reasons_and_logs_are_shown_as_texts() {
    let api = Api::open().await;
    let (mut done, bus) = (0, Target::named("bus"));
    for text in &corpus() {
        let text = text.as_str();
        let plan = opened(&api, &bus.address(Act::TransportPause), "").await.with(&[("reason", text)]);
        let answer = api.send(form_of(&plan.to, &plan.fields)).await;
        if answer.status == 303 {
            done += 1;
            shown(&api, answer.header("location")).await;
        } else {
            is_harmless(&answer, "a refused reason");
            assert_eq!(answer.status, 400, "{}", answer.text);
        }
        api.host.plugins.writes("bus", text, text, &[(text, text)]);
        api.host.plugins.refuse_file(text, Code::PLUGIN_READ, text);
        for path in ["/ui", "/ui/blocked", "/ui/audit", "/ui/plugins", "/ui/plugin?name=bus&show=log"] {
            shown(&api, path).await;
        }
    }
    assert!(done > 0);
    saved(&api, "audit").await;
}
