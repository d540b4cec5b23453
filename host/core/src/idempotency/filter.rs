//! The filter grammar of lists of keys: `tenant=acme key=order-* state=in_flight age>1h`, as for messages.

use super::entry::{Entry, EntryKey, StateWord};
use crate::glob::Glob;
use crate::outbox::filter::{FilterError, conditions, one_of};
use crate::time::UnixMillis;

/// What may stand in a condition.
const FIELDS: &str = "tenant, key, state (with = and * as a wildcard), since, until (e.g. since=2026-12-01T14:00:00Z), age (with > or <, e.g. \
age>1h)";

/// Conditions on entries. All that are set have to hold.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EntryFilter {
    pub tenant: Option<Glob>,
    pub key: Option<Glob>,
    pub state: Option<Glob>,
    /// First begun before this instant (`age>1h`, `until=`).
    pub before: Option<UnixMillis>,
    /// First begun after this instant (`age<1h`, `since=`).
    pub after: Option<UnixMillis>,
}

impl EntryFilter {
    /// Reads a filter. Ages count back from `now`. An empty text takes everything.
    pub fn parse(text: &str, now: UnixMillis) -> Result<Self, FilterError> {
        let mut filter = Self::default();
        for condition in conditions(text, FIELDS, now)? {
            if condition.narrow(&mut filter.before, &mut filter.after) {
                continue;
            }
            let value = condition.value.as_str();
            match condition.field.as_str() {
                "tenant" => condition.once(&mut filter.tenant, Glob::new(value))?,
                "key" => condition.once(&mut filter.key, Glob::new(value))?,
                "state" | "status" => {
                    let state = one_of(&condition, value, &StateWord::ALL.map(StateWord::word))?;
                    condition.once(&mut filter.state, state)?;
                }
                _ => return Err(condition.unknown(FIELDS)),
            }
        }
        Ok(filter)
    }

    /// Whether an entry matches.
    pub fn takes(&self, of: &EntryKey, entry: &Entry) -> bool {
        let holds = |glob: &Option<Glob>, text: &str| glob.as_ref().is_none_or(|glob| glob.matches(text));
        holds(&self.tenant, of.tenant.as_str())
            && holds(&self.key, of.key.as_str())
            && holds(&self.state, entry.word().word())
            && self.before.is_none_or(|before| entry.created_at < before)
            && self.after.is_none_or(|after| entry.created_at > after)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn conditions_are_read_and_what_is_wrong_says_what_may_be_written() {
        let filter = EntryFilter::parse("key=order-* state=in_flight age>1h", UnixMillis(10_000_000)).unwrap();
        assert_eq!((filter.before, filter.key), (Some(UnixMillis(6_400_000)), Some(Glob::new("order-*"))));
        for (text, says) in [
            ("topic=a", "tenant, key, state"),
            ("state=dead", "in_flight, succeeded, failed"),
            ("age=1h", "> or <"),
            ("key", "tenant, key, state"),
        ] {
            let error = EntryFilter::parse(text, UnixMillis(0)).unwrap_err().to_string();
            assert!(error.contains(says), "{text}: {error}");
        }
    }
}
