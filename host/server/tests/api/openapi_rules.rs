//! Rules of the OpenAPI document that linters and generators of clients go by, and bounds that the host keeps as they are written.

use std::collections::BTreeSet;

use http_body_util::BodyExt;
use serde_json::{Value, json};
use waybill_server::openapi::document;

use crate::examples::example;
use crate::support::Api;

const COMPONENT: &str = "#/components/schemas/";

/// Every operation, with its method and its path.
fn operations(api: &Value) -> Vec<(String, String, &Value)> {
    let paths = api["paths"].as_object().unwrap();
    let of_path = |(path, item): (&String, &'_ Value)| -> Vec<(String, String)> {
        item.as_object().unwrap().keys().map(|method| (method.clone(), path.clone())).collect()
    };
    let all = paths.iter().flat_map(of_path);
    all.map(|(method, path)| (method.clone(), path.clone(), &api["paths"][path.as_str()][method.as_str()])).collect()
}

/// Calls `visit` with every object in a document and the place where it is.
fn objects<'a>(node: &'a Value, place: &str, visit: &mut dyn FnMut(&str, &'a serde_json::Map<String, Value>)) {
    match node {
        Value::Object(members) => {
            visit(place, members);
            for (name, member) in members {
                objects(member, &format!("{place}/{name}"), visit);
            }
        }
        Value::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                objects(item, &format!("{place}/{index}"), visit);
            }
        }
        _ => {}
    }
}

#[test]
fn every_tag_is_declared_and_described_and_every_operation_and_parameter_too() {
    let api = document();
    let tags = api["tags"].as_array().unwrap();
    let declared: BTreeSet<&str> = tags.iter().map(|tag| tag["name"].as_str().unwrap()).collect();
    assert_eq!(declared.len(), tags.len(), "one is declared twice");
    let is_said = |value: &Value| value["description"].as_str().is_some_and(|text| text.len() > 3);
    assert!(tags.iter().all(is_said));
    let mut used = BTreeSet::new();
    for (method, path, operation) in operations(&api) {
        used.extend(operation["tags"].as_array().unwrap().iter().map(|tag| tag.as_str().unwrap()));
        assert!(is_said(operation), "{method} {path} has no description");
        for parameter in operation["parameters"].as_array().into_iter().flatten() {
            assert!(is_said(parameter), "{method} {path}: {}", parameter["name"]);
        }
    }
    assert_eq!(used, declared);
    for (name, schema) in api["components"]["schemas"].as_object().unwrap() {
        assert!(is_said(schema), "{name} has no description");
    }
}

#[test]
fn every_component_is_what_some_operation_takes_or_gives() {
    let api = document();
    let mut mentioned = BTreeSet::new();
    let mut open: Vec<&Value> = vec![&api["paths"]];
    while let Some(part) = open.pop() {
        objects(part, "", &mut |_, members| {
            let name = members.get("$ref").and_then(Value::as_str).and_then(|target| target.strip_prefix(COMPONENT));
            if let Some(name) = name
                && mentioned.insert(name.to_owned())
            {
                open.push(&api["components"]["schemas"][name]);
            }
        });
    }
    let known: BTreeSet<String> = api["components"]["schemas"].as_object().unwrap().keys().cloned().collect();
    assert_eq!(known.difference(&mentioned).collect::<Vec<_>>(), Vec::<&String>::new());
    assert!(mentioned.len() > 100);
}

/// What openapi-python-client can't model.
#[test]
fn schemas_that_are_combined_are_bare_references_or_stand_for_themselves() {
    let api = document();
    objects(&api, "", &mut |place, members| {
        for keyword in ["oneOf", "anyOf", "allOf"] {
            for part in members.get(keyword).and_then(Value::as_array).into_iter().flatten() {
                let part = part.as_object().unwrap();
                assert!(!part.contains_key("$ref") || part.len() == 1, "{place}: a reference with more beside it");
                assert!(keyword == "allOf" || !part.contains_key("allOf"), "{place}: allOf within {keyword}");
            }
        }
    });
    for name in ["DeadLetter", "ReplayedDeadLetter"] {
        let schema = &api["components"]["schemas"][name];
        let variants: BTreeSet<&str> =
            schema["oneOf"].as_array().unwrap().iter().map(|variant| variant["$ref"].as_str().unwrap()).collect();
        let kinds = schema["discriminator"]["mapping"].as_object().unwrap();
        assert_eq!(kinds.keys().collect::<Vec<_>>(), ["event", "inbox", "message", "saga"]);
        assert_eq!(kinds.values().map(|variant| variant.as_str().unwrap()).collect::<BTreeSet<_>>(), variants);
        for (kind, variant) in kinds {
            let variant = api.pointer(variant.as_str().unwrap().trim_start_matches('#')).unwrap();
            assert_eq!(variant["properties"]["kind"]["enum"], json!([kind]));
            assert!(variant["required"].as_array().unwrap().contains(&json!("kind")), "{name} {kind}");
            assert!(variant["properties"].as_object().unwrap().len() > 4, "{name} {kind} has the rest, too");
        }
    }
}

/// What openapi-python-client, for one, would send something for in any case.
#[test]
fn a_body_that_may_be_left_out_says_so_and_is_never_null() {
    let api = document();
    let mut optional = 0;
    for (method, path, operation) in operations(&api) {
        let Some(body) = operation.get("requestBody") else { continue };
        optional += usize::from(body["required"] == false);
        assert!(body["required"].is_boolean(), "{method} {path}");
        for content in body["content"].as_object().unwrap().values() {
            objects(&content["schema"], "", &mut |place, members| {
                assert!(members.get("type") != Some(&json!("null")), "{method} {path}{place}");
            });
        }
    }
    assert!(optional > 15, "{optional}");
    assert_eq!(
        api["paths"]["/v1/dead-letters/{id}/replay"]["post"]["requestBody"],
        json!({"content": {"application/json": {"schema": {"$ref": format!("{COMPONENT}Replay")}}}, "required": false})
    );
}

#[test]
fn what_has_the_members_of_another_names_them_itself() {
    let api = document();
    for (name, schema) in api["components"]["schemas"].as_object().unwrap() {
        let inherits = schema["allOf"].as_array().into_iter().flatten().any(|part| part.get("$ref").is_some());
        assert!(!inherits, "{name}: {schema}");
    }
    let claimed = &api["components"]["schemas"]["ClaimedMessage"];
    for member in ["not_before", "token"] {
        assert!(claimed["properties"].get(member).is_some(), "{member}");
    }
}

#[test]
fn a_list_names_what_it_lists() {
    let api = document();
    let schemas = api["components"]["schemas"].as_object().unwrap();
    let mut lists = 0;
    for (name, list) in schemas {
        if let Some(item) = name.strip_prefix("List_") {
            assert_eq!(list["properties"]["items"]["items"], json!({ "$ref": format!("{COMPONENT}{item}") }));
            lists += 1;
        }
    }
    assert!(lists > 10);
}

/// Members of a request's schema that are texts and may not be empty.
fn texts_of(api: &Value, operation: &Value) -> Vec<String> {
    let schema = &operation["requestBody"]["content"]["application/json"]["schema"];
    let target = schema["$ref"].as_str().map(|target| target.trim_start_matches('#'));
    let members = target.and_then(|target| api.pointer(target)?["properties"].as_object());
    let is_bounded = |schema: &Value| schema["minLength"] == 1;
    members.into_iter().flatten().filter(|(_, schema)| is_bounded(schema)).map(|(name, _)| name.clone()).collect()
}

#[tokio::test(start_paused = true)]
async fn what_the_document_says_is_never_empty_is_refused_when_it_is() {
    let document = document();
    let api = Api::open().await;
    let (mut parameters, mut members) = (0, 0);
    for (method, path, operation) in operations(&document) {
        for parameter in operation["parameters"].as_array().into_iter().flatten() {
            if parameter["in"] != "query" || parameter["schema"]["minLength"] != 1 {
                continue;
            }
            let name = parameter["name"].as_str().unwrap();
            let mut request = example(&api.host, &method, &path, "default").await;
            *request.uri_mut() = format!("{}?{name}=", request.uri().path()).parse().unwrap();
            let answer = api.send(request).await;
            assert!(answer.status.is_client_error(), "{method} {path}?{name}=: {} {}", answer.status, answer.text);
            parameters += 1;
        }
        for name in texts_of(&document, operation) {
            let request = example(&api.host, &method, &path, "default").await;
            let (parts, body) = request.into_parts();
            let bytes = body.collect().await.unwrap().to_bytes();
            let mut body: Value = serde_json::from_slice(&bytes).unwrap();
            body[name.as_str()] = json!("");
            let request = http::Request::from_parts(parts, axum::body::Body::from(body.to_string()));
            let answer = api.send(request).await;
            assert!(answer.status.is_client_error(), "{method} {path} {name}: {} {}", answer.status, answer.text);
            members += 1;
        }
    }
    assert!(parameters > 40 && members > 15, "{parameters} parameters, {members} members");
}

#[test]
fn forms_of_texts_are_those_that_the_host_reads() {
    let document = document();
    let valid = |component: &str, value: Value| {
        let root = json!({"$ref": format!("{COMPONENT}{component}"), "components": document["components"]});
        jsonschema::draft202012::new(&root).unwrap().is_valid(&value)
    };
    let digest = "0123456789abcdefABCDEF0123456789abcdef0123456789abcdef0123456789";
    for (sha256, is_right) in [
        (digest.to_owned(), true),
        (format!("sha256:{digest}"), true),
        (digest[1..].to_owned(), false),
        (format!("{digest}0"), false),
        (format!("sha1:{digest}"), false),
        (digest.replace('f', "g"), false),
    ] {
        assert_eq!(valid("PluginReload", json!({ "sha256": sha256 })), is_right, "{sha256}");
    }
    for (sha256, is_right) in [(digest, true), (&digest[1..], false), ("sha256:", false)] {
        assert_eq!(valid("CheckDedup", json!({ "target": "a", "payload_sha": sha256 })), is_right, "{sha256}");
    }
    for (length, is_right) in [(128, true), (129, false)] {
        assert_eq!(valid("BeginKey", json!({ "key": "k", "hash": "h".repeat(length) })), is_right, "{length}");
        assert_eq!(valid("Claim", json!({ "worker_id": "w".repeat(length) })), is_right, "{length}");
    }
    for (edit, is_right) in [
        (json!({}), true),
        (json!({ "payload": {"order": 2}, "key": null }), true),
        (json!({ "causation_id": "c" }), false),
        (json!({ "topik": "bus:a" }), false),
    ] {
        assert_eq!(valid("EditMessage", edit.clone()), is_right, "{edit}");
    }
    for (worker, is_right) in [("w-1", true), ("Ä ö", true), ("", false), ("a\u{7}b", false), ("a\u{85}b", false)] {
        assert_eq!(valid("Claim", json!({ "worker_id": worker })), is_right, "{worker:?}");
    }
}
