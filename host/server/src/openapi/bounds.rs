//! What requests are refused for, said in their schemas: how long a text is and of what form, how large a number, and which members go
//! with which. What a schema can't say (a grammar, what goes with a value) stands in the description of the member.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};
use waybill_core::annotation::{Annotation, Kind};
use waybill_core::history::Measure;
use waybill_core::limits::{HEADERS_MAX, TEXT_BYTES_MAX};

use super::forms::{self, ANY, LINE, Text};
use super::refine::{COMBINING, Schemas, mentioned, operations, operations_mut, schemas, without_null};

/// Members of which exactly one is given.
const ONE_OF: [(&str, [&str; 2]); 2] = [("NewMessage", ["payload", "payload_base64"]), ("SeekRelay", ["after", "to"])];
/// Members of which one at most is given.
const NOT_BOTH: [(&str, [&str; 2]); 6] = [
    ("EditMessage", ["payload", "payload_base64"]),
    ("NewEvent", ["payload", "payload_bytes"]),
    ("TransactionEvent", ["payload", "payload_bytes"]),
    ("Claim", ["lease_ms", "lease_seconds"]),
    ("SettleItem", ["lease_ms", "lease_seconds"]),
    ("StepReply", ["output", "error"]),
];
/// Largest number where none is named: larger ones aren't exact in every reader of JSON.
const EXACT_MAX: i64 = (1 << 53) - 1;

/// Says of requests what the host refuses.
pub(super) fn bound_requests(document: &mut Value) {
    let (mut asked, mut answered) = (BTreeSet::new(), BTreeSet::new());
    for operation in operations(document) {
        mentioned(document, operation.get("requestBody").unwrap_or(&Value::Null), &mut asked);
        mentioned(document, operation.get("responses").unwrap_or(&Value::Null), &mut answered);
    }
    if let Some(schemas) = schemas(document) {
        for (name, schema) in schemas.iter_mut().filter(|(name, _)| asked.contains(*name)) {
            bound_members(schema, name, answered.contains(name));
        }
        only_together(schemas);
        closed(schemas);
        events(schemas);
    }
    for (method, path, operation) in operations_mut(document) {
        let place = format!("{method} {path}");
        let parameters = operation.get_mut("parameters").and_then(Value::as_array_mut);
        parameters.into_iter().flatten().for_each(|parameter| bound_parameter(parameter, &place));
    }
}

fn bound_parameter(parameter: &mut Value, place: &str) {
    let in_path = parameter.get("in").is_some_and(|of| of == "path");
    let name = parameter.get("name").and_then(Value::as_str).unwrap_or_default().to_owned();
    let Some(schema) = parameter.get_mut("schema").and_then(Value::as_object_mut) else { return };
    // What isn't there is left out: there is no null in an address or a header.
    if let Some(kind) = schema.get("type").and_then(but_null) {
        schema.insert("type".to_owned(), kind);
    }
    if name == "name" && place.ends_with("/v1/history") {
        schema.insert("enum".to_owned(), Measure::ALL.map(Measure::as_str).as_slice().into());
        return;
    }
    bound(schema, forms::listed(&name, place).or_else(|| in_path.then(|| ANY.at_least(1))));
}

/// The only type in a list of types beside null.
fn but_null(kinds: &Value) -> Option<Value> {
    let mut kinds = kinds.as_array()?.iter().filter(|kind| *kind != "null");
    let kind = kinds.next()?.clone();
    kinds.next().is_none().then_some(kind)
}

/// `is_answered`: answers have it, too, so only what is listed for it holds.
fn bound_members(schema: &mut Value, component: &str, is_answered: bool) {
    for (name, member) in schema.get_mut("properties").and_then(Value::as_object_mut).into_iter().flatten() {
        let Some(member) = member.as_object_mut() else { continue };
        match is_answered {
            true => text(member, forms::listed_for(name, component)),
            false => bound(member, forms::listed(name, component).or_else(|| annotation(name))),
        }
    }
    for keyword in COMBINING {
        let forms = schema.get_mut(keyword).and_then(Value::as_array_mut);
        forms.into_iter().flatten().for_each(|form| bound_members(form, component, is_answered));
    }
}

/// What one of a message's optional texts may be.
fn annotation(name: &str) -> Option<Text> {
    let annotation = Annotation::named(name)?;
    Some(match annotation.kind() {
        Kind::Text | Kind::Id => LINE.up_to(TEXT_BYTES_MAX),
        Kind::TraceContext => forms::TRACE,
    })
}

fn bound(schema: &mut Map<String, Value>, listed: Option<Text>) {
    text(schema, listed);
    if is_of(schema, "integer") {
        let is_short = schema.get("format").is_some_and(|format| format == "int32");
        let most = if is_short { i64::from(i32::MAX) } else { EXACT_MAX };
        schema.entry("maximum").or_insert(most.into());
    }
}

fn text(schema: &mut Map<String, Value>, listed: Option<Text>) {
    let Some(Text { least, most, form }) = listed.filter(|_| is_of(schema, "string")) else { return };
    if least > 0 {
        schema.entry("minLength").or_insert(least.into());
    }
    if let Some(most) = most {
        schema.entry("maxLength").or_insert(most.into());
    }
    if let Some(form) = form {
        schema.entry("pattern").or_insert(form.into());
    }
}

/// Whether a value of this type may be in its place.
fn is_of(schema: &Map<String, Value>, kind: &str) -> bool {
    schema.get("type").is_some_and(|of| of == kind || of.as_array().is_some_and(|of| of.contains(&kind.into())))
}

/// Generators of clients make no types of what stands within `allOf` or `not` without naming members of its own.
fn only_together(schemas: &mut Schemas) {
    for (name, [one, other]) in ONE_OF {
        if let Some(Value::Object(schema)) = schemas.get_mut(name) {
            let one_of = json!([{ "oneOf": [{ "required": [one] }, { "required": [other] }] }]);
            schema.insert("allOf".to_owned(), one_of);
            let members = schema.get_mut("properties").and_then(Value::as_object_mut);
            let members = members.into_iter().flatten().filter(|(name, _)| [one, other].contains(&name.as_str()));
            members.for_each(|(_, member)| never_null(member));
        }
    }
    for (name, both) in NOT_BOTH {
        if let Some(Value::Object(schema)) = schemas.get_mut(name) {
            schema.insert("not".to_owned(), json!({ "required": both }));
        }
    }
    if let Some(Value::Object(transaction)) = schemas.get_mut("Transaction") {
        transaction.insert("minProperties".to_owned(), 1.into());
    }
}

/// The one that is given has a value.
fn never_null(member: &mut Value) {
    if let Some(Value::Object(mut given)) = without_null(member) {
        given.extend(member.get("description").map(|text| ("description".to_owned(), text.clone())));
        *member = given.into();
    }
}

/// A list of messages has nothing beside it.
fn closed(schemas: &mut Schemas) {
    let forms = schemas.get_mut("PostMessages").and_then(|schema| schema.get_mut("oneOf")?.as_array_mut());
    let objects = forms.into_iter().flatten().filter_map(Value::as_object_mut);
    for object in objects.filter(|object| object.contains_key("properties")) {
        object.insert("additionalProperties".to_owned(), false.into());
    }
}

/// An event says what happened, and its headers have names.
fn events(schemas: &mut Schemas) {
    for name in forms::APPENDED {
        let members = schemas.get_mut(name).and_then(|schema| schema.get_mut("properties")?.as_object_mut());
        let Some(members) = members else { continue };
        if let Some(Value::Object(op)) = members.get_mut("op") {
            op.insert("not".to_owned(), json!({ "enum": ["OP_UNSPECIFIED", 0] }));
        }
        if let Some(Value::Object(headers)) = members.get_mut("headers") {
            headers.insert("maxProperties".to_owned(), HEADERS_MAX.into());
            let names = json!({ "type": "string", "minLength": 1, "pattern": forms::NO_CONTROL });
            headers.insert("propertyNames".to_owned(), names);
        }
    }
}
