//! Addresses of the page: the address is the view. Ids go into the query, since any text is an id and paths eat `..` and `/`.

use form_urlencoded::Serializer;

/// Of the overview; all others are below it.
pub const OVERVIEW: &str = "/ui";
pub const MESSAGES: &str = "/ui/messages";
pub const MESSAGE: &str = "/ui/message";
pub const DEAD_LETTERS: &str = "/ui/dead-letters";
pub const SAGAS: &str = "/ui/sagas";
pub const SAGA: &str = "/ui/saga";
pub const BLOCKED: &str = "/ui/blocked";
pub const STREAMS: &str = "/ui/streams";
pub const PLUGINS: &str = "/ui/plugins";
pub const AUDIT: &str = "/ui/audit";
pub const CONFIGURATION: &str = "/ui/configuration";
pub const SIGN_IN: &str = "/ui/sign-in";
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

pub fn saga(tenant: &str, id: &str) -> String {
    with(SAGA, &[("tenant", tenant), ("id", id)])
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
    fn a_value_with_spaces_stands_in_quotes() {
        assert_eq!(condition("code", "NATS.HEADER"), "code=NATS.HEADER");
        assert_eq!(condition("error", "a \"b\" c"), "error=\"a \\\"b\\\" c\"");
    }
}
