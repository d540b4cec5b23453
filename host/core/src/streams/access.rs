//! Which streams a caller may append to and read: by patterns of names, from roles such as `append:task.**`.

use std::fmt;

use super::name::{StreamName, StreamPattern};
use crate::error::InputResult;

/// What a role with a pattern gives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StreamRight {
    Append,
    Read,
}

impl StreamRight {
    /// What stands before the pattern in a role.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Append => "append",
            Self::Read => "read",
        }
    }
}

impl fmt::Display for StreamRight {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

/// A role that names streams, `append:PATTERN` or `read:PATTERN`. Roles add up: it is enough that one of a caller's gives a right.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StreamRole {
    pub right: StreamRight,
    pub streams: StreamPattern,
}

impl StreamRole {
    /// Reads a role; none = it is another kind of role.
    pub fn parse(text: &str) -> Option<InputResult<Self>> {
        let (word, pattern) = text.split_once(':')?;
        let right = [StreamRight::Append, StreamRight::Read].into_iter().find(|right| right.word() == word)?;
        Some(StreamPattern::parse(pattern).map(|streams| Self { right, streams }))
    }

    /// Whether it gives a right to a stream.
    pub fn gives(&self, right: StreamRight, name: &StreamName) -> bool {
        self.right == right && self.streams.matches(name)
    }
}

impl fmt::Display for StreamRole {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.right, self.streams.as_str())
    }
}

/// Whether one of these roles gives a right to a stream.
pub fn give(roles: &[StreamRole], right: StreamRight, name: &StreamName) -> bool {
    roles.iter().any(|role| role.gives(right, name))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn role(text: &str) -> StreamRole {
        StreamRole::parse(text).unwrap().unwrap()
    }

    #[test]
    fn a_role_with_a_pattern_is_read_and_written_as_it_stands() {
        for text in ["append:task.**", "read:**", "read:task.node.*", "append:a:b"] {
            assert_eq!(role(text).to_string(), text);
        }
        assert_eq!(role("append:a:b").streams.as_str(), "a:b");
        for other in ["viewer", "append", "write:task.**", "Append:a", ""] {
            assert!(StreamRole::parse(other).is_none(), "{other}");
        }
        for bad in ["append:", "read:a.**.b", "read:a**"] {
            assert!(StreamRole::parse(bad).unwrap().is_err(), "{bad}");
        }
    }

    #[test]
    fn a_role_gives_its_right_to_the_streams_that_it_names() {
        let roles = [role("append:task.**"), role("read:execution.*"), role("read:task.node.1")];
        let may = |right, name: &str| give(&roles, right, &StreamName::new(name).unwrap());
        assert!(may(StreamRight::Append, "task.node.1") && !may(StreamRight::Append, "execution.1"));
        assert!(may(StreamRight::Read, "execution.1") && !may(StreamRight::Read, "execution.node.1"));
        assert!(may(StreamRight::Read, "task.node.1") && !may(StreamRight::Read, "task.node.2"));
        assert!(!give(&[], StreamRight::Read, &StreamName::new("a").unwrap()));
    }

    #[test]
    fn whoever_may_read_everything_may_read_the_histories_of_sagas() {
        let saga = StreamName::of_saga("order 7").unwrap();
        assert!(role("read:**").gives(StreamRight::Read, &saga) && role("read:saga.*").gives(StreamRight::Read, &saga));
        assert!(!role("read:task.**").gives(StreamRight::Read, &saga));
    }
}
