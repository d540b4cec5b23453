//! What the document says of requests is what the host takes: no value at the bounds of a schema is refused for its form.

use axum::body::Body;
use http::{HeaderValue, Request};
use http_body_util::BodyExt;
use jsonschema::Validator;
use serde_json::{Map, Value, json};
use waybill_server::openapi::document;

use crate::examples::example;
use crate::support::{Answer, Api};

const COMPONENT: &str = "#/components/schemas/";

/// Refusals for the form of a value.
const OF_FORM: [&str; 5] =
    ["SCHEMA.VALIDATION_FAILED", "SCHEMA.JSON", "TX.IDEMPOTENCY_KEY", "OUTBOX.TOPIC", "INVALID_OUTBOX"];

/// Members and parameters of which a schema can't say all: their descriptions do. A component or an operation, and a name; without a
/// component it is the same everywhere.
const SAID_IN_WORDS: [(&str, &str); 19] = [
    // Texts with a grammar, and texts that the host has made.
    ("", "filter"),
    ("", "cursor"),
    // What goes with the kind of an act, or with the result of a settlement.
    ("StartOperation", "kind"),
    ("StartOperation", "step"),
    ("StartOperation", "mode"),
    ("StartOperation", "not_before"),
    ("StartOperation", "trial"),
    ("StartOperation", "expect_count"),
    ("SettleItem", "error"),
    ("SettleItem", "next_attempt_at"),
    ("SettleItem", "lease_ms"),
    ("SettleItem", "lease_seconds"),
    ("readEvents", "resource_type"),
    ("readEvents", "resource_id"),
    // It lies in the future.
    ("NewMessage", "expires_at"),
    ("EditMessage", "expires_at"),
    // Roles and tenants are named.
    ("NewToken", "roles"),
    ("NewToken", "tenants"),
    // Answers have such events, too, and are bound by what was taken once.
    ("ImportStream", "events"),
];

fn is_said_in_words(place: &str, name: &str) -> bool {
    SAID_IN_WORDS.iter().any(|(of, said)| (of.is_empty() || *of == place) && *said == name)
}

/// A text for each form that texts of requests have.
fn samples() -> Vec<String> {
    let mut samples: Vec<String> = [
        "",
        "x",
        "1",
        "X.1",
        "a@1",
        "AA==",
        "bus:a",
        "stream:task",
        "\"a b\"",
        "2026-12-01",
        "2026-12-01T14:00:00.123+02:00",
        "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
    ]
    .map(str::to_owned)
    .into();
    samples.extend([format!("sha256:{}", "a".repeat(64)), "b".repeat(64), "x".repeat(255)]);
    samples
}

/// Makes values at the bounds of schemas.
struct Values<'a> {
    document: &'a Value,
    samples: Vec<String>,
}

impl Values<'_> {
    fn validator(&self, schema: &Value) -> Validator {
        let root = json!({ "allOf": [schema], "components": self.document["components"] });
        jsonschema::draft202012::new(&root).unwrap()
    }

    /// A schema itself, and the component that it is.
    fn resolved<'s>(&'s self, schema: &'s Value) -> (&'s Value, &'s str) {
        match schema["$ref"].as_str().and_then(|target| target.strip_prefix(COMPONENT)) {
            Some(name) => (&self.document["components"]["schemas"][name], name),
            None => (schema, ""),
        }
    }

    fn of(&self, schema: &Value) -> Vec<Value> {
        let (schema, component) = self.resolved(schema);
        if let Some(known) = schema["enum"].as_array() {
            return known.clone();
        }
        let forms = ["oneOf", "anyOf"].into_iter().filter_map(|keyword| schema[keyword].as_array()).flatten();
        let mut values: Vec<Value> = forms.flat_map(|form| self.of(form)).collect();
        let kinds = match &schema["type"] {
            Value::Array(kinds) => kinds.clone(),
            Value::Null => Vec::new(),
            kind => vec![kind.clone()],
        };
        for kind in kinds {
            match kind.as_str().unwrap() {
                "null" => values.push(Value::Null),
                "boolean" => values.extend([json!(true), json!(false)]),
                "integer" => values.extend([schema["minimum"].clone(), schema["maximum"].clone()]),
                "string" => values.extend(self.texts(schema)),
                "array" => values.extend(self.of(&schema["items"]).into_iter().map(|item| json!([item]))),
                "object" => values.extend(self.objects(schema, component)),
                other => panic!("no value of type {other}"),
            }
        }
        // Any JSON.
        if values.is_empty() { vec![Value::Null, json!({ "a": [1] })] } else { values }
    }

    /// The shortest and the longest text.
    fn texts(&self, schema: &Value) -> Vec<Value> {
        if schema["format"] == "date-time" {
            return vec![json!("2026-12-01T14:00:00Z")];
        }
        let most = schema["maxLength"].as_u64().and_then(|most| usize::try_from(most).ok());
        let padded =
            self.samples.iter().filter_map(|text| Some(text.clone() + &"x".repeat(most?.checked_sub(text.len())?)));
        let fits = jsonschema::draft202012::new(schema).unwrap();
        let mut texts: Vec<String> =
            self.samples.iter().cloned().chain(padded).filter(|text| fits.is_valid(&json!(text))).collect();
        texts.sort_by_key(String::len);
        let (Some(shortest), Some(longest)) = (texts.first(), texts.last()) else { panic!("no sample fits {schema}") };
        vec![json!(shortest), json!(longest)]
    }

    /// One with what has to be there, and the same with each other member.
    fn objects(&self, schema: &Value, component: &str) -> Vec<Value> {
        let Some(members) = schema["properties"].as_object() else {
            let has_names = schema["additionalProperties"].is_object();
            return vec![if has_names { json!({ "x-a": "1" }) } else { json!({}) }];
        };
        let either = &schema["allOf"][0]["oneOf"][0]["required"];
        let needed = [&schema["required"], either].into_iter().filter_map(Value::as_array).flatten();
        let least: Map<String, Value> = needed
            .map(|name| {
                let name = name.as_str().unwrap();
                let fits = self.validator(&members[name]);
                (name.to_owned(), self.of(&members[name]).into_iter().find(|value| fits.is_valid(value)).unwrap())
            })
            .collect();
        let with = |(name, value): (String, Value)| {
            let mut object = least.clone();
            object.insert(name, value);
            Value::Object(object)
        };
        let others = self.changes(members, component).into_iter().map(with);
        std::iter::once(Value::Object(least.clone())).chain(others).collect()
    }

    /// Every member with every value.
    fn changes(&self, members: &Map<String, Value>, component: &str) -> Vec<(String, Value)> {
        let told = members.iter().filter(|(name, _)| !is_said_in_words(component, name));
        told.flat_map(|(name, schema)| self.of(schema).into_iter().map(move |value| (name.clone(), value))).collect()
    }

    /// The changes of a body that is there.
    fn changes_of(&self, schema: &Value, body: &Value) -> Vec<(String, Value)> {
        let (schema, component) = self.resolved(schema);
        if let Some(members) = schema["properties"].as_object() {
            return self.changes(members, component);
        }
        let forms = schema["oneOf"].as_array().into_iter().flatten();
        forms.filter(|form| self.validator(form).is_valid(body)).flat_map(|form| self.changes_of(form, body)).collect()
    }
}

/// The body of a request as JSON, and the request without it.
async fn parts(request: Request<Body>) -> (http::request::Parts, Value) {
    let (head, body) = request.into_parts();
    let bytes = body.collect().await.unwrap().to_bytes();
    (head, serde_json::from_slice(&bytes).unwrap_or_default())
}

/// An operation, asked with what it was given.
struct Asked {
    method: String,
    path: String,
    refused: Vec<String>,
    count: usize,
}

impl Asked {
    async fn example(&self, api: &Api) -> Request<Body> {
        example(&api.host, &self.method, &self.path, "default").await
    }

    fn note(&mut self, answer: &Answer, name: &str, value: &Value) {
        self.count += 1;
        let is_problem = answer.header("content-type") == "application/problem+json";
        if is_problem && OF_FORM.contains(&answer.json()["code"].as_str().unwrap()) {
            let value = value.to_string().chars().take(80).collect::<String>();
            let detail = answer.json()["detail"].clone();
            self.refused.push(format!("{} {} {name} = {value}: {detail}", self.method, self.path));
        }
    }

    async fn bodies(&mut self, api: &Api, values: &Values<'_>, schema: &Value) {
        let valid = values.validator(schema);
        let (_, body) = parts(self.example(api).await).await;
        for (name, value) in values.changes_of(schema, &body) {
            let (head, mut body) = parts(self.example(api).await).await;
            body[name.as_str()] = value.clone();
            if valid.is_valid(&body) {
                let answer = api.send(Request::from_parts(head, Body::from(body.to_string()))).await;
                self.note(&answer, &name, &value);
            }
        }
    }

    async fn parameter(&mut self, api: &Api, name: &str, is_header: bool, value: &Value) {
        let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        let mut request = self.example(api).await;
        if is_header {
            let name: http::HeaderName = name.parse().unwrap();
            request.headers_mut().insert(name, HeaderValue::from_str(&text).unwrap());
        } else {
            let asked = form_urlencoded::parse(request.uri().query().unwrap_or_default().as_bytes()).into_owned();
            let others: Vec<(String, String)> = asked.filter(|(known, _)| known != name).collect();
            let query =
                form_urlencoded::Serializer::new(String::new()).extend_pairs(others).append_pair(name, &text).finish();
            *request.uri_mut() = format!("{}?{query}", request.uri().path()).parse().unwrap();
        }
        let answer = api.send(request).await;
        self.note(&answer, name, value);
    }
}

#[tokio::test(start_paused = true)]
async fn values_at_the_bounds_of_a_requests_schema_are_not_refused_for_their_form() {
    let document = document();
    let values = Values { document: &document, samples: samples() };
    let (mut refused, mut count) = (Vec::new(), 0);
    for (path, item) in document["paths"].as_object().unwrap() {
        for (method, operation) in item.as_object().unwrap() {
            let api = Api::open().await;
            let mut asked = Asked { method: method.clone(), path: path.clone(), refused: Vec::new(), count: 0 };
            let schema = &operation["requestBody"]["content"]["application/json"]["schema"];
            if schema.is_object() {
                asked.bodies(&api, &values, schema).await;
            }
            for parameter in operation["parameters"].as_array().into_iter().flatten() {
                let name = parameter["name"].as_str().unwrap();
                let is_told = is_said_in_words(operation["operationId"].as_str().unwrap(), name);
                if parameter["in"] == "path" || is_told {
                    continue;
                }
                for value in values.of(&parameter["schema"]) {
                    asked.parameter(&api, name, parameter["in"] == "header", &value).await;
                }
            }
            refused.append(&mut asked.refused);
            count += asked.count;
        }
    }
    assert!(refused.is_empty(), "{} of {count}:\n{}", refused.len(), refused.join("\n"));
    assert!(count > 500, "{count}");
}

/// What is told in words is told.
#[test]
fn what_a_schema_cannot_say_has_a_description() {
    let document = document();
    let has_words = |schema: &Value| schema["description"].as_str().is_some_and(|text| text.len() > 20);
    for (place, name) in SAID_IN_WORDS.into_iter().filter(|(place, _)| !place.is_empty()) {
        let member = &document["components"]["schemas"][place]["properties"][name];
        let operations =
            document["paths"].as_object().unwrap().values().flat_map(|item| item.as_object().unwrap().values());
        let mut parameters = operations
            .filter(|operation| operation["operationId"] == place)
            .flat_map(|operation| operation["parameters"].as_array().unwrap())
            .filter(|parameter| parameter["name"] == name);
        assert!(has_words(member) || parameters.any(has_words), "{place} {name}");
    }
}
