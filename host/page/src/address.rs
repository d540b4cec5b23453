//! Addresses of the page: the address is the view. Ids go into the query, since any text is an id and paths eat `..` and `/`.

use form_urlencoded::Serializer;
use waybill_core::port::dead::DeadKind;

/// Of the overview; all others are below it.
pub const OVERVIEW: &str = "/ui";
pub const MESSAGES: &str = "/ui/messages";
pub const MESSAGE: &str = "/ui/message";
pub const DEAD_LETTERS: &str = "/ui/dead-letters";
pub const SAGAS: &str = "/ui/sagas";
pub const SAGA: &str = "/ui/saga";
pub const BLOCKED: &str = "/ui/blocked";
pub const INBOX: &str = "/ui/inbox";
pub const IDEMPOTENCY: &str = "/ui/idempotency";
pub const APPROVALS: &str = "/ui/approvals";
pub const STREAMS: &str = "/ui/streams";
pub const STREAM: &str = "/ui/stream";
pub const RELAY: &str = "/ui/relay";
pub const PLUGINS: &str = "/ui/plugins";
pub const PLUGIN: &str = "/ui/plugin";
pub const AUDIT: &str = "/ui/audit";
pub const CONFIGURATION: &str = "/ui/configuration";
/// A list as a file.
pub const SAVE: &str = "/ui/save";
/// Pages of error codes are below it.
pub const HELP: &str = "/ui/help";
/// An act before it is done.
pub const PLAN: &str = "/ui/plan";
/// What an act came to.
pub const ANSWER: &str = "/ui/answer";
pub const OPERATIONS: &str = "/ui/operations";
pub const OPERATION: &str = "/ui/operation";
pub const SIGN_IN: &str = "/ui/sign-in";
/// Leads to the provider that people sign in at.
pub const SIGN_IN_OIDC: &str = "/ui/sign-in/oidc";
/// Where the provider leads back to.
pub const SIGN_IN_OIDC_CALLBACK: &str = "/ui/sign-in/oidc/callback";
pub const SIGN_OUT: &str = "/ui/sign-out";
/// Where the numbers of an open view come from.
pub const LIVE: &str = "/ui/live";
/// What `/` in the search box leads to.
pub const FIND: &str = "/ui/find";

/// An address with a query.
pub fn with(path: &str, query: &[(&str, &str)]) -> String {
    let mut written = Serializer::new(String::new());
    for (name, value) in query.iter().filter(|(_, value)| !value.is_empty()) {
        written.append_pair(name, value);
    }
    let written = written.finish();
    if written.is_empty() { path.to_owned() } else { format!("{path}?{written}") }
}

pub fn message(tenant: &str, id: &str) -> String {
    with(MESSAGE, &[("tenant", tenant), ("id", id)])
}

/// A dead letter, by the word of its kind.
pub fn dead_letter(tenant: &str, id: &str, kind: DeadKind) -> String {
    match kind {
        DeadKind::Saga => saga(tenant, id),
        DeadKind::Message => message(tenant, id),
        kind => with(MESSAGE, &[("tenant", tenant), ("id", id), ("kind", kind.word())]),
    }
}

pub fn saga(tenant: &str, id: &str) -> String {
    with(SAGA, &[("tenant", tenant), ("id", id)])
}

pub fn plugin(name: &str) -> String {
    with(PLUGIN, &[("name", name)])
}

pub fn relay(name: &str) -> String {
    with(RELAY, &[("name", name)])
}

pub fn stream(tenant: &str, name: &str) -> String {
    with(STREAM, &[("tenant", tenant), ("name", name)])
}

pub fn key(tenant: &str, key: &str) -> String {
    with(IDEMPOTENCY, &[("tenant", tenant), ("key", key)])
}

/// What an error code means; none for a text that can't be one.
pub fn help(code: &str) -> Option<String> {
    let is_letter = |byte: u8| byte.is_ascii_uppercase() || byte.is_ascii_digit() || matches!(byte, b'.' | b'_');
    let is_code = code.starts_with(|first: char| first.is_ascii_uppercase()) && code.bytes().all(is_letter);
    is_code.then(|| format!("{HELP}/{code}"))
}

/// A condition of a filter.
pub fn condition(field: &str, value: &str) -> String {
    let is_plain =
        !value.is_empty() && value.chars().all(|letter| !letter.is_whitespace() && !matches!(letter, '"' | '\''));
    if is_plain {
        format!("{field}={value}")
    } else {
        format!("{field}=\"{}\"", value.replace('\\', "\\\\").replace('"', "\\\""))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_text_is_an_id() {
        assert_eq!(message("acme", "../a&b=\0"), "/ui/message?tenant=acme&id=..%2Fa%26b%3D%00");
        assert_eq!(with(AUDIT, &[("filter", "")]), AUDIT);
    }

    #[test]
    fn only_codes_have_help() {
        assert_eq!(help("HTTP.422").as_deref(), Some("/ui/help/HTTP.422"));
        for other in ["", "..", "/etc", "a.b", "HTTP/../..", "4.A", "HTTP 422"] {
            assert_eq!(help(other), None, "{other}");
        }
    }

    #[test]
    fn a_value_with_spaces_stands_in_quotes() {
        assert_eq!(condition("code", "NATS.HEADER"), "code=NATS.HEADER");
        assert_eq!(condition("error", "a \"b\" c"), "error=\"a \\\"b\\\" c\"");
    }
}
