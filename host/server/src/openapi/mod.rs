//! The OpenAPI document, made from the routes themselves.

mod bounds;
mod forms;
mod refine;

use std::collections::BTreeMap;

use http::Method;
use serde_json::Value;
use utoipa::openapi::path::Operation;
use utoipa::openapi::schema::{AdditionalProperties, Object, ObjectBuilder, SchemaType, Type};
use utoipa::openapi::security::{Http, HttpAuthScheme, SecurityRequirement, SecurityScheme};
use utoipa::openapi::server::ServerBuilder;
use utoipa::openapi::tag::TagBuilder;
use utoipa::openapi::{
    ContactBuilder, Content, InfoBuilder, LicenseBuilder, OpenApi, OpenApiBuilder, Ref, RefOr, Response,
    ResponseBuilder, Schema,
};
use utoipa::{IntoResponses, PartialSchema, ToSchema};
use waybill_api::messages::MessageView;
use waybill_core::annotation::Annotation;

use crate::auth::Permission;
use crate::json::requests::NewMessageJson;
use crate::problem::{PROBLEM_JSON, ProblemOut};

/// Member of an operation that says what it needs.
pub const PERMISSION: &str = "x-waybill-permission";

/// What the operations are about, in the order in which a reader meets them.
const TAGS: [(&str, &str); 15] = [
    ("messages", "Messages of the outbox: sent, looked at, taken back."),
    ("outbox", "How much waits, what holds it back, and what workers of your own claim and settle."),
    ("dead letters", "What couldn't be delivered, handled or undone: looked at, replayed, edited, fenced off."),
    ("operations", "One act on all that a filter matches."),
    ("idempotency", "Keys under which something is done once."),
    ("inbox", "Messages received for consumers."),
    ("sources", "What brings messages in, and tables that are published."),
    ("streams", "Streams of numbered events: appended, read, followed."),
    ("relays", "Streams that are sent on to brokers."),
    ("sagas", "Definitions, running sagas and their approvals."),
    ("transports", "What delivers: paused, resumed, probed, provisioned."),
    ("plugins", "The components behind transports: loaded anew, rolled back."),
    ("quarantine", "Rows that can't be read: restored or dropped."),
    ("tokens", "Who may call: tokens that are made and revoked while the host runs."),
    ("system", "The host itself: health, metrics, configuration, audit."),
];

/// The document without paths.
pub(crate) fn base() -> OpenApi {
    let info = InfoBuilder::new()
        .title("Waybill")
        .version(env!("CARGO_PKG_VERSION"))
        .description(Some(
            "A transactional outbox that delivers through sandboxed plugins. Errors are RFC 9457 problems; lists are paged by an \
             opaque cursor; durations are `_ms` numbers; instants are RFC 3339 text (or epoch milliseconds in requests); unknown \
             fields are refused. A bound of a text holds for its bytes in UTF-8, which are more than its characters beyond ASCII. \
             `filter` has a grammar (docs/filters.md), and a cursor goes back to the list that it came from, with the same tenant, \
             filter and order.",
        ))
        .contact(Some(ContactBuilder::new().name(Some("Whoever runs this host")).build()))
        .license(Some(LicenseBuilder::new().name("Apache License 2.0").identifier(Some("Apache-2.0")).build()))
        .build();
    let here = ServerBuilder::new().url("/").description(Some("The host that answered this document.")).build();
    // A token, or none where the host asks for none.
    let security = [SecurityRequirement::new::<_, [&str; 0], &str>("bearer", []), SecurityRequirement::default()];
    let tags = TAGS.map(|(name, about)| TagBuilder::new().name(name).description(Some(about)).build());
    let mut api =
        OpenApiBuilder::new().info(info).servers(Some([here])).tags(Some(tags)).security(Some(security)).build();
    let components = api.components.get_or_insert_default();
    let bearer = Http::builder()
        .scheme(HttpAuthScheme::Bearer)
        .description(Some("A token configured as [[auth.token]], or made by `POST /v1/tokens`."))
        .build();
    components.add_security_scheme("bearer", SecurityScheme::Http(bearer));
    components.schemas.insert(ProblemOut::name().into_owned(), ProblemOut::schema());
    api
}

/// The document as clients get it, for the golden file and for `waybill` itself.
pub fn document() -> Value {
    completed(crate::routes::all().split_for_parts().1)
}

/// The routes' document with what the types behind it don't say.
pub(crate) fn completed(mut api: OpenApi) -> Value {
    let schemas = &mut api.components.get_or_insert_default().schemas;
    let (message, new_message) = (MessageView::name(), NewMessageJson::name());
    for (name, describe) in
        [(message.as_ref(), Annotation::view_doc as Describe), (&new_message, Annotation::request_doc)]
    {
        if let Some(RefOr::T(Schema::Object(object))) = schemas.get_mut(name) {
            name_annotations(object, describe);
        }
    }
    let mut document = serde_json::to_value(api).unwrap_or_default();
    refine::refine(&mut document);
    document
}

type Describe = fn(Annotation) -> &'static str;

/// Describes each annotation as a member of an object whose type keeps them in one map.
fn name_annotations(object: &mut Object, describe: Describe) {
    if !matches!(object.additional_properties.as_deref(), Some(AdditionalProperties::FreeForm(false))) {
        object.additional_properties = None;
    }
    for annotation in Annotation::ALL {
        let text = ObjectBuilder::new()
            .schema_type(SchemaType::from_iter([Type::String, Type::Null]))
            .description(Some(describe(annotation)));
        object.properties.insert(annotation.name().to_owned(), text.into());
    }
}

/// The problems of any operation.
pub(crate) struct Problems;

impl IntoResponses for Problems {
    fn responses() -> BTreeMap<String, RefOr<Response>> {
        let schema = RefOr::Ref(Ref::from_schema_name(ProblemOut::name()));
        let response = ResponseBuilder::new()
            .description("What is wrong, why, and what to do; `code` is stable and has a page at `type`.")
            .content(PROBLEM_JSON, Content::new(Some(schema)))
            .build();
        BTreeMap::from([("default".to_owned(), response.into())])
    }
}

/// One operation of the document.
pub(crate) struct OperationRef<'a> {
    pub path: &'a str,
    pub method: Method,
    /// What it needs; none = it doesn't say, so nobody may.
    pub permission: Option<Permission>,
}

/// Every operation of a document.
pub(crate) fn operations(api: &OpenApi) -> Vec<OperationRef<'_>> {
    let mut list = Vec::new();
    for (path, item) in &api.paths.paths {
        let methods: [(Method, &Option<Operation>); 5] = [
            (Method::GET, &item.get),
            (Method::POST, &item.post),
            (Method::PUT, &item.put),
            (Method::PATCH, &item.patch),
            (Method::DELETE, &item.delete),
        ];
        for (method, operation) in methods {
            let Some(operation) = operation else { continue };
            let word = operation
                .extensions
                .as_ref()
                .and_then(|extensions| extensions.get(PERMISSION))
                .and_then(|value| value.as_str());
            list.push(OperationRef { path, method, permission: word.and_then(Permission::parse) });
        }
    }
    list
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_operation_says_what_it_needs() {
        let api = crate::routes::all().split_for_parts().1;
        let operations = operations(&api);
        assert!(operations.len() > 25);
        for operation in operations {
            assert!(operation.permission.is_some(), "{} {} has no {PERMISSION}", operation.method, operation.path);
        }
    }
}
