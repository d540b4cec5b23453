//! What the document says beyond the types behind it: one schema a thing, in the forms that generators of clients take, with
//! the bounds of requests.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};
use waybill_core::annotation::{Annotation, Kind};
use waybill_core::limits::{REQUEST_HASH_BYTES_MAX, TENANT_BYTES_MAX, TEXT_BYTES_MAX, TOPIC_BYTES_MAX};
use waybill_core::saga::limits::NAME_BYTES_MAX;
use waybill_core::streams::limits::HISTORY_NAME_BYTES_MAX;

use crate::limits::WORKER_BYTES_MAX;

type Schemas = Map<String, Value>;

const REFERENCE: &str = "#/components/schemas/";
/// Media type of plugins' components.
const COMPONENT: &str = "application/wasm";
/// Keywords whose members are schemas that are held against one value.
const COMBINING: [&str; 3] = ["oneOf", "anyOf", "allOf"];

/// Members and parameters of requests that are refused when they are empty, wherever they stand. Ids of whatever kind are such.
const NEVER_EMPTY: [&str; 16] = [
    "by",
    "consumer",
    "cursor",
    "definition",
    "hash",
    "id",
    "key",
    "name",
    "note",
    "resource_id",
    "resource_type",
    "step",
    "tenant",
    "token",
    "topic",
    "worker_id",
];
/// A request that has a wrong one of these isn't refused: each gets an answer of its own.
const ANSWERED_APART: &str = "SettleItem";
/// A text that isn't empty and has no control character.
const NO_CONTROL: &str = "^[^\\u0000-\\u001f\\u007f-\\u009f]+$";
/// Members and parameters of requests that have a form besides. A control character is in none of them.
const PATTERNS: [(&str, &str); 9] = [
    ("id", NO_CONTROL),
    ("key", NO_CONTROL),
    ("token", NO_CONTROL),
    ("tenant", NO_CONTROL),
    ("hash", NO_CONTROL),
    ("worker_id", NO_CONTROL),
    ("sha256", "^(sha256:)?[0-9A-Fa-f]{64}$"),
    ("payload_sha", "^[0-9A-Fa-f]{64}$"),
    (
        STREAM,
        r"^(saga\.([A-Za-z0-9._:-]|%[0-9A-F]{2})+|(?!\.\.?(/|$))[A-Za-z0-9._:-]+(/(?!\.\.?(/|$))[A-Za-z0-9._:-]+)*)$",
    ),
];
/// A member or parameter that is a stream's name.
const STREAM: &str = "stream";
/// Members and parameters of requests that are refused above so many bytes, and so above so many characters.
const LENGTHS: [(&str, usize); 6] = [
    ("tenant", TENANT_BYTES_MAX),
    ("worker_id", WORKER_BYTES_MAX),
    ("hash", REQUEST_HASH_BYTES_MAX),
    ("step", NAME_BYTES_MAX),
    ("topic", TOPIC_BYTES_MAX),
    (STREAM, HISTORY_NAME_BYTES_MAX),
];

/// Puts the document that was made of the types into its last form.
pub(super) fn refine(document: &mut Value) {
    if let Some(schemas) = schemas(document) {
        list_by_reference(schemas);
        name_variants(schemas);
        one_payload(schemas);
        edited_message(schemas);
        whole_objects(schemas);
    }
    bare_references(document);
    plain_bodies(document);
    bound_requests(document);
    drop_unused(document);
}

fn schemas(document: &mut Value) -> Option<&mut Schemas> {
    document.pointer_mut("/components/schemas")?.as_object_mut()
}

fn reference(name: &str) -> Value {
    json!({ "$ref": format!("{REFERENCE}{name}") })
}

/// The component that a schema stands for, if it is a reference.
fn target(schema: &Value) -> Option<&str> {
    schema.get("$ref")?.as_str()?.strip_prefix(REFERENCE)
}

/// A list of what is a component names it, instead of a copy of it.
fn list_by_reference(schemas: &mut Schemas) {
    let known: BTreeSet<String> = schemas.keys().cloned().collect();
    for (name, list) in schemas {
        let item = name.strip_prefix("List_").filter(|item| known.contains(*item));
        if let (Some(item), Some(items)) = (item, list.pointer_mut("/properties/items/items")) {
            *items = reference(item);
        }
    }
}

/// Variants that differ by a tag become components of their own: generators can't make types of a tag beside a reference.
fn name_variants(schemas: &mut Schemas) {
    let mut made = Vec::new();
    for (name, schema) in schemas.iter() {
        let Some(variants) = schema.get("oneOf").and_then(Value::as_array) else { continue };
        let named: Option<Vec<Variant>> = variants.iter().map(|variant| Variant::of(name, variant, schemas)).collect();
        if let Some(named) = named.filter(|named| !named.is_empty()) {
            made.push((name.clone(), named));
        }
    }
    for (name, variants) in made {
        let Some(Value::Object(schema)) = schemas.get_mut(&name) else { continue };
        schema.insert("oneOf".to_owned(), variants.iter().map(|variant| reference(&variant.name)).collect());
        let mapping: Schemas = variants
            .iter()
            .map(|variant| (variant.tag.clone(), format!("{REFERENCE}{}", variant.name).into()))
            .collect();
        let member = variants.first().map_or("", |variant| &variant.member);
        schema.insert("discriminator".to_owned(), json!({ "propertyName": member, "mapping": mapping }));
        schemas.extend(variants.into_iter().map(|variant| (variant.name, variant.schema)));
    }
}

/// One variant of a tagged schema.
struct Variant {
    name: String,
    /// The member that holds the tag, and the tag.
    member: String,
    tag: String,
    schema: Value,
}

impl Variant {
    /// Of `{allOf: [a reference, the tag]}`.
    fn of(whole: &str, variant: &Value, schemas: &Schemas) -> Option<Self> {
        let [inner, tagged] = variant.get("allOf")?.as_array()?.as_slice() else { return None };
        let (member, kind) = tagged.get("properties")?.as_object()?.iter().next()?;
        let [Value::String(tag)] = kind.get("enum")?.as_array()?.as_slice() else { return None };
        let mut schema = schemas.get(target(inner)?)?.clone();
        let members = schema.get_mut("properties")?.as_object_mut()?;
        members.insert(member.clone(), kind.clone());
        match schema.get_mut("required").and_then(Value::as_array_mut) {
            Some(required) => required.push(member.as_str().into()),
            None => drop(schema.as_object_mut()?.insert("required".to_owned(), json!([member]))),
        }
        if let Some(description) = variant.get("description") {
            schema.as_object_mut()?.insert("description".to_owned(), description.clone());
        }
        let mut letters = tag.chars();
        let capital = letters.next().map(|first| first.to_ascii_uppercase());
        let name = whole.chars().chain(capital).chain(letters).collect();
        Some(Self { name, member: member.clone(), tag: tag.clone(), schema })
    }
}

/// A message has one payload: JSON or bytes.
fn one_payload(schemas: &mut Schemas) {
    let Some(Value::Object(message)) = schemas.get_mut("NewMessage") else { return };
    let one = json!([{ "oneOf": [{ "required": ["payload"] }, { "required": ["payload_base64"] }] }]);
    message.insert("allOf".to_owned(), one);
    if let Some(Value::Object(bytes)) =
        message.get_mut("properties").and_then(|members| members.get_mut("payload_base64"))
    {
        bytes.insert("type".to_owned(), "string".into());
        bytes.insert("format".to_owned(), "byte".into());
    }
}

/// An edit has the fields of a message, none of them required; what caused the copy is the dead letter.
fn edited_message(schemas: &mut Schemas) {
    let message = schemas.get("NewMessage").and_then(|message| message.get("properties")).and_then(Value::as_object);
    let Some(mut members) = message.cloned() else { return };
    members.remove("causation_id");
    if let Some(Value::Object(edit)) = schemas.get_mut("EditMessage") {
        edit.remove("allOf");
        edit.insert("type".to_owned(), "object".into());
        edit.insert("additionalProperties".to_owned(), false.into());
        edit.insert("properties".to_owned(), members.into());
    }
}

/// What has all members of another component and some more names them itself: generators take what is inherited for something that is never
/// null.
fn whole_objects(schemas: &mut Schemas) {
    let whole: Vec<(String, Value)> =
        schemas.iter().filter_map(|(name, schema)| Some((name.clone(), with_members(schema, schemas)?))).collect();
    schemas.extend(whole);
}

/// The object that `{allOf: [a reference to an object, an object]}` is.
fn with_members(schema: &Value, schemas: &Schemas) -> Option<Value> {
    let [inherited, own] = schema.get("allOf")?.as_array()?.as_slice() else { return None };
    let mut whole = schemas.get(target(inherited)?)?.as_object()?.clone();
    let members = own.get("properties")?.as_object()?.clone();
    whole.get_mut("properties")?.as_object_mut()?.extend(members);
    let required = own.get("required").and_then(Value::as_array).cloned().unwrap_or_default();
    match whole.get_mut("required").and_then(Value::as_array_mut) {
        Some(known) => known.extend(required),
        None => drop(whole.insert("required".to_owned(), required.into())),
    }
    if let Some(description) = schema.get("description") {
        whole.insert("description".to_owned(), description.clone());
    }
    Some(whole.into())
}

/// A reference that is one of several schemas for a value stands alone; what is said of the value stands beside them.
fn bare_references(node: &mut Value) {
    match node {
        Value::Array(items) => items.iter_mut().for_each(bare_references),
        Value::Object(members) => {
            let mut description = None;
            for keyword in COMBINING {
                let Some(Value::Array(schemas)) = members.get_mut(keyword) else { continue };
                for schema in schemas.iter_mut().filter_map(Value::as_object_mut) {
                    if let Some(target) = schema.get("$ref").cloned() {
                        description = schema.get("description").cloned().or(description);
                        *schema = Map::from_iter([("$ref".to_owned(), target)]);
                    }
                }
            }
            if let Some(description) = description {
                members.entry("description").or_insert(description);
            }
            members.values_mut().for_each(bare_references);
        }
        _ => {}
    }
}

/// A body that may be left out is described by what it is when it is there, and says that it may: clients that are made of "that, or null" send
/// something in any case. A component is bytes, not a list of numbers.
fn plain_bodies(document: &mut Value) {
    for (_, operation) in operations_mut(document) {
        let Some(body) = operation.get_mut("requestBody").and_then(Value::as_object_mut) else { continue };
        let mut is_optional = !body.contains_key("required");
        let contents = body.get_mut("content").and_then(Value::as_object_mut);
        for (media, content) in contents.into_iter().flatten() {
            let Some(schema) = content.get_mut("schema") else { continue };
            if media == COMPONENT {
                *schema = json!({ "type": "string", "format": "binary" });
            } else if let Some(plain) = without_null(schema) {
                *schema = plain;
                is_optional = true;
            }
        }
        if is_optional {
            body.insert("required".to_owned(), false.into());
        }
    }
}

/// What else a value may be than null, if it is that or null.
fn without_null(schema: &Value) -> Option<Value> {
    let [something, null] = schema.get("oneOf")?.as_array()?.as_slice() else { return None };
    (*null == json!({ "type": "null" })).then(|| something.clone())
}

/// Says of requests' texts what the host refuses.
fn bound_requests(document: &mut Value) {
    let (mut asked, mut answered) = (BTreeSet::new(), BTreeSet::new());
    for operation in operations(document) {
        mentioned(document, operation.get("requestBody").unwrap_or(&Value::Null), &mut asked);
        mentioned(document, operation.get("responses").unwrap_or(&Value::Null), &mut answered);
    }
    if let Some(schemas) = schemas(document) {
        asked.remove(ANSWERED_APART);
        for (_, schema) in schemas.iter_mut().filter(|(name, _)| asked.contains(*name) && !answered.contains(*name)) {
            bound_members(schema);
        }
    }
    for (path, operation) in operations_mut(document) {
        let parameters = operation.get_mut("parameters").and_then(Value::as_array_mut);
        for parameter in parameters.into_iter().flatten() {
            let in_path = parameter.get("in").is_some_and(|place| place == "path");
            let name = parameter.get("name").and_then(Value::as_str).unwrap_or_default().to_owned();
            let name = if in_path && path.starts_with("/v1/streams/") { STREAM.to_owned() } else { name };
            // A list that is narrowed by nothing may be asked for with an empty name.
            let is_optional_name = name == "name" && !in_path;
            if let Some(schema) = parameter.get_mut("schema").filter(|_| !is_optional_name) {
                bound(schema, &name, in_path);
            }
        }
    }
}

/// Every operation of the document.
fn operations(document: &Value) -> impl Iterator<Item = &Value> {
    let paths = document.get("paths").and_then(Value::as_object);
    paths.into_iter().flat_map(Map::values).filter_map(Value::as_object).flat_map(Map::values)
}

/// Every operation of the document with its path, to be changed.
fn operations_mut(document: &mut Value) -> impl Iterator<Item = (&String, &mut Value)> {
    let paths = document.get_mut("paths").and_then(Value::as_object_mut);
    let items = paths.into_iter().flatten().filter_map(|(path, item)| Some((path, item.as_object_mut()?)));
    items.flat_map(|(path, item)| item.values_mut().map(move |operation| (path, operation)))
}

/// Adds the names of all components that a part of the document mentions, and of those that these mention.
fn mentioned(document: &Value, node: &Value, names: &mut BTreeSet<String>) {
    match node {
        Value::Array(items) => items.iter().for_each(|item| mentioned(document, item, names)),
        Value::Object(members) => {
            if let Some(name) = target(node)
                && names.insert(name.to_owned())
                && let Some(schema) = document.pointer("/components/schemas").and_then(|schemas| schemas.get(name))
            {
                mentioned(document, schema, names);
            }
            // The values of a discriminator are addresses, too, but of what its `oneOf` names already.
            members.values().for_each(|member| mentioned(document, member, names));
        }
        _ => {}
    }
}

fn bound_members(schema: &mut Value) {
    for (name, member) in schema.get_mut("properties").and_then(Value::as_object_mut).into_iter().flatten() {
        bound(member, name, false);
    }
    for keyword in COMBINING {
        schema.get_mut(keyword).and_then(Value::as_array_mut).into_iter().flatten().for_each(bound_members);
    }
}

/// Bounds one text by its name.
fn bound(schema: &mut Value, name: &str, in_path: bool) {
    let is_text = schema
        .get("type")
        .is_some_and(|kind| kind == "string" || kind.as_array().is_some_and(|kinds| kinds.contains(&"string".into())));
    let Some(schema) = schema.as_object_mut().filter(|_| is_text) else { return };
    if in_path || NEVER_EMPTY.contains(&name) {
        schema.entry("minLength").or_insert(json!(1));
    }
    if let Some((_, pattern)) = PATTERNS.iter().find(|(of, _)| *of == name) {
        schema.entry("pattern").or_insert(json!(pattern));
    }
    if Annotation::named(name).is_some_and(|annotation| matches!(annotation.kind(), Kind::Text | Kind::Id)) {
        schema.entry("minLength").or_insert(json!(1));
        schema.entry("maxLength").or_insert(json!(TEXT_BYTES_MAX));
        schema.entry("pattern").or_insert(json!(NO_CONTROL));
    }
    if let Some((_, length)) = LENGTHS.iter().find(|(of, _)| *of == name) {
        schema.entry("maxLength").or_insert(json!(length));
    }
}

/// Drops components that no operation mentions.
fn drop_unused(document: &mut Value) {
    let mut used = BTreeSet::new();
    for operation in operations(document) {
        mentioned(document, operation, &mut used);
    }
    if let Some(schemas) = schemas(document) {
        schemas.retain(|name, _| used.contains(name));
    }
}
