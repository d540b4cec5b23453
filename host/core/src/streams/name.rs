//! Names of streams, patterns of them, and the shard that a stream belongs to.

use std::fmt;
use std::sync::Arc;

use super::limits::{HISTORY_NAME_BYTES_MAX, NAME_BYTES_MAX};
use crate::error::{InputError, InputResult};
use crate::ids::{ShardId, Tenant};
use crate::route::Parts;
use crate::saga::id::SagaId;

/// What begins the names of sagas' histories.
const SAGA: &str = "saga.";
const RULE: &str =
    "isn't a stream's name: write letters, digits and ._:/- without an empty part, . or .. between slashes";

/// Name of a stream within its tenant, such as `task.node.{uuid}`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StreamName(Arc<str>);

impl StreamName {
    /// Checks and takes a name. That of a saga's history may hold `%XX`, too.
    pub fn new(text: impl AsRef<str>) -> InputResult<Self> {
        let text = text.as_ref();
        if text.is_empty() {
            return Err(InputError::Empty { field: "stream" });
        }
        let is_escaped = names_histories(text);
        let bytes_max = if is_escaped { HISTORY_NAME_BYTES_MAX } else { NAME_BYTES_MAX };
        if text.len() > bytes_max {
            return Err(InputError::TooLong { field: "stream", bytes: text.len(), bytes_max });
        }
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._:/-".contains(&byte);
        let are_plain = text.bytes().all(|byte| is_plain(byte) || (is_escaped && byte == b'%'));
        let are_parts = text.split('/').all(|part| !matches!(part, "" | "." | ".."));
        if !are_plain || !are_parts || !are_escapes(text) {
            return Err(InputError::name("stream", text, RULE));
        }
        Ok(Self(Arc::from(text)))
    }

    /// The stream of a saga's history.
    pub fn of_saga(id: &str) -> InputResult<Self> {
        let mut name = String::from(SAGA);
        for byte in id.bytes() {
            if byte.is_ascii_alphanumeric() || b"._:-".contains(&byte) {
                name.push(char::from(byte));
            } else {
                name.push_str(&format!("%{byte:02X}"));
            }
        }
        Self::new(name)
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether it is a saga's history, which nobody appends to.
    pub fn is_saga(&self) -> bool {
        names_histories(&self.0)
    }

    /// The saga whose history it is: what [`Self::of_saga`] was given. None for any other stream, for a sub-saga, whose history is its
    /// root's, and for what `of_saga` would write in another way, so that a history has one name.
    pub fn saga_id(&self) -> Option<SagaId> {
        let mut escaped = self.0.strip_prefix(SAGA)?.bytes();
        let mut bytes = Vec::with_capacity(escaped.len());
        while let Some(byte) = escaped.next() {
            let mut digit = || char::from(escaped.next()?).to_digit(16);
            bytes.push(if byte == b'%' { u8::try_from(digit()? * 16 + digit()?).ok()? } else { byte });
        }
        let id = SagaId::root(std::str::from_utf8(&bytes).ok()?).ok()?;
        Self::of_saga(id.as_str()).is_ok_and(|name| name == *self).then_some(id)
    }

    /// The node in a name like `task.node.{uuid}`: events that name none belong to it.
    pub fn node(&self) -> Option<&str> {
        let (before, uuid) = self.0.rsplit_once('.')?;
        let (first, word) = before.rsplit_once('.')?;
        (word == "node" && !first.is_empty() && is_uuid(uuid)).then_some(uuid)
    }
}

impl fmt::Display for StreamName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Whether all streams whose names begin so are sagas' histories.
pub fn names_histories(beginning: &str) -> bool {
    beginning.starts_with(SAGA)
}

/// Whether each `%` begins two hex digits.
fn are_escapes(text: &str) -> bool {
    let is_hex = |pair: &str| pair.bytes().all(|byte| byte.is_ascii_hexdigit());
    text.split('%').skip(1).all(|after| after.get(..2).is_some_and(is_hex))
}

fn is_uuid(text: &str) -> bool {
    let lengths = text.split('-').map(str::len);
    lengths.eq([8, 4, 4, 4, 12]) && text.bytes().all(|byte| byte.is_ascii_hexdigit() || byte == b'-')
}

/// A stream: its tenant and its name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StreamKey {
    pub tenant: Tenant,
    pub name: StreamName,
}

impl StreamKey {
    /// The shard whose owner numbers it, among `count`: where the outbox puts a key of this text.
    pub fn shard(&self, count: u16) -> ShardId {
        ShardId::of_text(&self.tenant, self.name.as_str(), count)
    }
}

impl fmt::Display for StreamKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.tenant, self.name)
    }
}

/// Names by parts between dots: `*` stands for one part or a run within it, `**` as the last one for whatever follows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StreamPattern {
    text: String,
    parts: Parts,
}

impl StreamPattern {
    pub fn parse(text: &str) -> InputResult<Self> {
        match Parts::parse(text, '.') {
            _ if text.is_empty() => Err(InputError::Empty { field: "match" }),
            Ok(parts) => Ok(Self { text: text.to_owned(), parts }),
            Err(rule) => Err(InputError::name("match", text, rule)),
        }
    }

    pub fn as_str(&self) -> &str {
        &self.text
    }

    pub fn matches(&self, name: &StreamName) -> bool {
        self.parts.matches(name.as_str().split('.'))
    }

    /// A regular expression that matches the same names, for who can't call [`Self::matches`]: functions in the database.
    pub fn regex(&self) -> String {
        self.parts.regex_of_dotted()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn names_are_what_paths_and_keys_can_hold() {
        for good in ["task.node.1", "a", "a/b-c:d_e.F", &"x".repeat(255)] {
            assert_eq!(StreamName::new(good).unwrap().as_str(), good);
        }
        for bad in ["", "a b", "/a", "a/", "a//b", "a/../b", "./a", "a%20", "\u{e4}", &"x".repeat(256)] {
            assert!(StreamName::new(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn a_sagas_history_has_a_name_whatever_its_id() {
        let name = StreamName::of_saga("order 7/\u{e4}%").unwrap();
        assert_eq!(name.as_str(), "saga.order%207%2F%C3%A4%25");
        assert!(name.is_saga() && StreamName::new(name.as_str()).is_ok());
        assert!(StreamName::new("saga.a%2").is_err() && StreamName::new("saga.a%zz").is_err());
        assert!(!StreamName::new("sagas.a").unwrap().is_saga());
        assert!(StreamName::of_saga(&"\u{e4}".repeat(64)).is_ok(), "the longest id, each byte escaped");
        assert!(StreamName::new(format!("saga.{}", "x".repeat(HISTORY_NAME_BYTES_MAX))).is_err());
    }

    proptest! {
        #[test]
        fn a_history_leads_back_to_its_saga(id in "[ -}\u{a1}-\u{2fff}]{1,40}") {
            let name = StreamName::of_saga(&id).unwrap();
            prop_assert_eq!(name.saga_id().map(String::from), Some(id));
        }
    }

    #[test]
    fn a_history_has_one_name_and_a_sub_saga_none() {
        for other in ["saga.%61", "saga.%c3%a4", "saga.a/b", "saga.", "saga.a%7Eb", "saga.%00", "saga.%FF", "sagas.a"] {
            assert!(StreamName::new(other).map_or(true, |name| name.saga_id().is_none()), "{other}");
        }
    }

    #[test]
    fn a_node_is_read_from_a_name_that_ends_with_one() {
        let uuid = "0190a2f0-7b1e-7c3d-9e4f-1a2b3c4d5e6f";
        assert_eq!(StreamName::new(format!("task.node.{uuid}")).unwrap().node(), Some(uuid));
        for other in [format!("node.{uuid}"), format!("task.nodes.{uuid}"), "task.node.7".to_owned()] {
            assert_eq!(StreamName::new(other).unwrap().node(), None);
        }
    }

    #[test]
    fn a_stream_lies_where_the_outbox_would_put_its_key() {
        let tenant = Tenant::new("acme").unwrap();
        for name in ["a", "task.node.1", "execution"] {
            let stream = StreamKey { tenant: tenant.clone(), name: StreamName::new(name).unwrap() };
            let key = crate::ids::Key::new(name).unwrap();
            assert_eq!(stream.shard(16), ShardId::of(&tenant, Some(&key), None, 0, 16));
        }
    }

    #[test]
    fn patterns_go_by_parts() {
        let matches = |pattern, name| StreamPattern::parse(pattern).unwrap().matches(&StreamName::new(name).unwrap());
        assert!(matches("task.**", "task.node.1") && matches("*.node.*", "task.node.1") && matches("t*", "task"));
        assert!(!matches("task.*", "task.node.1") && !matches("task.**", "task"));
        assert!(StreamPattern::parse("a.**.b").is_err() && StreamPattern::parse("").is_err());
    }

    #[test]
    fn a_pattern_is_a_regular_expression_over_the_whole_name_or_its_beginning() {
        let regex = |pattern| StreamPattern::parse(pattern).unwrap().regex();
        assert_eq!(regex("task.*.h-*"), r"^task\x2E[^\x2E]*\x2Eh\x2D[^\x2E]*$");
        assert_eq!((regex("task.**").as_str(), regex("**").as_str()), (r"^task\x2E", "^"));
    }
}
