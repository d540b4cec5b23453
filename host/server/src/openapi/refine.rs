//! What the document says beyond the types behind it: one schema a thing, in the forms that generators of clients take. The bounds of
//! requests are added by [`super::bounds`].

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use super::bounds::bound_requests;

pub(super) type Schemas = Map<String, Value>;

const REFERENCE: &str = "#/components/schemas/";
/// Media type of plugins' components.
const COMPONENT: &str = "application/wasm";
/// Keywords whose members are schemas that are held against one value.
pub(super) const COMBINING: [&str; 3] = ["oneOf", "anyOf", "allOf"];

/// Puts the document that was made of the types into its last form.
pub(super) fn refine(document: &mut Value) {
    if let Some(schemas) = schemas(document) {
        list_by_reference(schemas);
        name_variants(schemas);
        payload_bytes(schemas);
        edited_message(schemas);
        whole_objects(schemas);
    }
    bare_references(document);
    plain_bodies(document);
    binary_answers(document);
    bound_requests(document);
    drop_unused(document);
}

pub(super) fn schemas(document: &mut Value) -> Option<&mut Schemas> {
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

/// The payload of a message in bytes is a text that holds them, and never null.
fn payload_bytes(schemas: &mut Schemas) {
    let bytes = schemas.get_mut("NewMessage").and_then(|message| message.pointer_mut("/properties/payload_base64"));
    if let Some(Value::Object(bytes)) = bytes {
        bytes.insert("type".to_owned(), "string".into());
        bytes.insert("format".to_owned(), "byte".into());
    }
}

/// An edit has the fields of a message, none of them required; what caused the copy is the dead letter.
fn edited_message(schemas: &mut Schemas) {
    let message = schemas.get("NewMessage").and_then(|message| message.get("properties")).and_then(Value::as_object);
    let Some(mut members) = message.cloned() else { return };
    members.remove("causation_id");
    // A message always has one.
    if let Some(Value::Object(tenant)) = members.get_mut("tenant") {
        tenant.insert("type".to_owned(), "string".into());
    }
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
    for (_, _, operation) in operations_mut(document) {
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

/// A backup is bytes, not a list of numbers.
fn binary_answers(document: &mut Value) {
    for (_, _, operation) in operations_mut(document) {
        let answers = operation.get_mut("responses").and_then(Value::as_object_mut);
        for (_, answer) in answers.into_iter().flatten() {
            if let Some(schema) = answer.pointer_mut("/content/application~1octet-stream/schema") {
                *schema = json!({ "type": "string", "format": "binary" });
            }
        }
    }
}

/// What else a value may be than null, if it is that or null.
pub(super) fn without_null(schema: &Value) -> Option<Value> {
    let [something, null] = schema.get("oneOf")?.as_array()?.as_slice() else { return None };
    (*null == json!({ "type": "null" })).then(|| something.clone())
}

/// Every operation of the document.
pub(super) fn operations(document: &Value) -> impl Iterator<Item = &Value> {
    let paths = document.get("paths").and_then(Value::as_object);
    paths.into_iter().flat_map(Map::values).filter_map(Value::as_object).flat_map(Map::values)
}

/// Every operation of the document with its method and its path, to be changed.
pub(super) fn operations_mut(document: &mut Value) -> impl Iterator<Item = (&String, &String, &mut Value)> {
    let paths = document.get_mut("paths").and_then(Value::as_object_mut);
    let items = paths.into_iter().flatten().filter_map(|(path, item)| Some((path, item.as_object_mut()?)));
    items.flat_map(|(path, item)| item.iter_mut().map(move |(method, operation)| (method, path, operation)))
}

/// Adds the names of all components that a part of the document mentions, and of those that these mention.
pub(super) fn mentioned(document: &Value, node: &Value, names: &mut BTreeSet<String>) {
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
