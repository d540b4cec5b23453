//! A message as a request: CloudEvents 1.0 HTTP binding, binary mode, beside Waybill's own headers.

use waybill_plugin::annotation::ANNOTATIONS;
use waybill_plugin::host::http_types::Request;
use waybill_plugin::time::rfc3339;
use waybill_plugin::transport::{Fault, Message};

use crate::config::Config;
use crate::encode;
use crate::signature::Signer;

/// Media type of a payload without one.
const UNKNOWN_MEDIA_TYPE: &str = "application/octet-stream";
/// Type of an event that has none and whose topic is a URL.
const PLAIN_EVENT_TYPE: &str = "waybill.message";

/// Headers that belong to Waybill or to the connection: a caller's are left out, a configured one is refused.
const RESERVED: &[&str] = &[
    "connection",
    "content-length",
    "expect",
    "host",
    "idempotency-key",
    "keep-alive",
    "proxy-authenticate",
    "proxy-authorization",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];

/// Prefixes of reserved headers. All of `ce-`, so that an event's attributes are what the message says and no more.
const RESERVED_PREFIXES: &[&str] = &["ce-", "waybill-", "webhook-"];

/// Whether a header is Waybill's or the connection's.
pub(crate) fn is_reserved(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    RESERVED.contains(&name.as_str()) || RESERVED_PREFIXES.iter().any(|prefix| name.starts_with(prefix))
}

/// Whether a name is a `token` of RFC 9110.
pub(crate) fn is_header_name(name: &str) -> bool {
    !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte))
}

/// Builds the request. `seconds` is the time of this attempt, for the signature; `timeout` is in milliseconds.
///
/// # Errors
/// The message can never be sent so: a header whose name is none.
pub(crate) fn build(
    message: Message,
    config: &Config,
    signer: Option<&Signer>,
    seconds: u64,
    timeout: u32,
) -> Result<Request, Fault> {
    let mut headers = event_headers(&message);
    headers.extend(waybill_headers(&message));
    if let Some(signer) = signer {
        let id = encode::webhook_id(&message.id).into_owned();
        headers.push(("webhook-signature".to_owned(), signer.sign(&id, seconds, &message.payload)));
        headers.push(("webhook-timestamp".to_owned(), seconds.to_string()));
        headers.push(("webhook-id".to_owned(), id));
    }
    let Message { destination, headers: callers, content_type, payload, .. } = message;
    let has = |name: &str, list: &[(String, String)]| list.iter().any(|(other, _)| other.eq_ignore_ascii_case(name));
    if let Some(content_type) = content_type {
        headers.push(("content-type".to_owned(), encode::passed_on(&content_type).into_owned()));
    }
    for (name, value) in &config.headers {
        if !has(name, &headers) {
            headers.push((name.to_ascii_lowercase(), value.clone()));
        }
    }
    // A name may repeat among the caller's, so they are compared only with what was there before them.
    let ours = headers.len();
    for (name, value) in callers {
        if !is_header_name(&name) {
            let reason = format!("header `{}` of the message is no valid HTTP header name", encode::attribute(&name));
            return Err(Fault::new("HTTP.HEADER", reason));
        }
        if !is_reserved(&name) && !has(&name, headers.get(..ours).unwrap_or_default()) {
            headers.push((name.to_ascii_lowercase(), encode::passed_on(&value).into_owned()));
        }
    }
    if !has("content-type", &headers) {
        headers.push(("content-type".to_owned(), UNKNOWN_MEDIA_TYPE.to_owned()));
    }
    Ok(Request {
        method: config.method.as_str().to_owned(),
        url: destination,
        headers,
        body: payload,
        timeout,
        tls: None,
        attributes: Vec::new(),
    })
}

/// The event's attributes: those that every delivery has, and extensions for what the message has besides.
fn event_headers(message: &Message) -> Vec<(String, String)> {
    let source = format!("/waybill/{}", encode::path_segment(&message.tenant));
    let expiry = message.expires_at.map(rfc3339);
    let occurred = rfc3339(message.occurred_at);
    let attributes = [
        ("ce-specversion", Some("1.0")),
        ("ce-id", Some(message.id.as_str())),
        ("ce-source", Some(source.as_str())),
        ("ce-type", Some(event_type(message))),
        ("ce-time", Some(occurred.as_str())),
        ("ce-expirytime", expiry.as_deref()),
    ];
    let extensions = ANNOTATIONS.iter().map(|annotation| (annotation.extension, annotation.of(message)));
    present(attributes.into_iter().chain(extensions))
}

/// The event type; of a message without one its topic, but a URL says where and not what.
fn event_type(message: &Message) -> &str {
    let is_url = ["http:", "https:"].iter().any(|scheme| message.topic.starts_with(*scheme));
    message.event_type.as_deref().unwrap_or(if is_url { PLAIN_EVENT_TYPE } else { &message.topic })
}

/// What tells a second delivery from a first, and whose message it is.
fn waybill_headers(message: &Message) -> Vec<(String, String)> {
    let (attempt, epoch) = (message.attempt.to_string(), message.lease_epoch.to_string());
    present([
        ("idempotency-key", Some(message.id.as_str())),
        ("waybill-attempt", Some(attempt.as_str())),
        ("waybill-lease-epoch", Some(epoch.as_str())),
        ("waybill-seq", message.attribute("seq")),
        ("waybill-replay", message.attribute("replay")),
        ("waybill-key", message.key.as_deref()),
        ("waybill-tenant", Some(message.tenant.as_str())),
    ])
}

fn present<'a>(headers: impl IntoIterator<Item = (&'a str, Option<&'a str>)>) -> Vec<(String, String)> {
    let present = headers.into_iter().filter_map(|(name, value)| Some((name, value?)));
    present.map(|(name, value)| (name.to_owned(), encode::attribute(value).into_owned())).collect()
}

#[cfg(test)]
#[path = "request_tests.rs"]
mod tests;
