//! The filter grammar of dead letters, for sagas: `definition=order state=failed age>1h`.

use crate::glob::Glob;
use crate::outbox::filter::{ErrorGlob, FilterError, conditions, one_of};
use crate::time::UnixMillis;

use super::records::SagaSummary;
use super::state::SagaState;

/// What may stand before `=`.
const FIELDS: &str = "tenant, id, definition, version, state, waiting_for, step, code, reason (with = and * as a \
wildcard), since, until (of the start, e.g. since=2026-12-01T14:00:00Z), age (since the start, with > or <, e.g. age>1h)";

/// Conditions on sagas. All that are set have to hold.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SagaFilter {
    pub tenant: Option<Glob>,
    pub id: Option<Glob>,
    pub definition: Option<Glob>,
    pub version: Option<u32>,
    pub state: Option<Glob>,
    pub waiting_for: Option<Glob>,
    /// `step=`: one of the active steps.
    pub step: Option<Glob>,
    pub code: Option<Glob>,
    /// `reason=`, or `error=` as of other lists.
    pub reason: Option<ErrorGlob>,
    /// Started before this instant (`age>1h`, `until=`).
    pub before: Option<UnixMillis>,
    /// Started after this instant (`age<1h`, `since=`).
    pub after: Option<UnixMillis>,
    /// Only those that haven't ended: not a condition of its own, but what acts take.
    pub is_open: bool,
}

impl SagaFilter {
    /// Reads a filter. Ages count back from `now`. An empty text takes everything.
    pub fn parse(text: &str, now: UnixMillis) -> Result<Self, FilterError> {
        let mut filter = Self::default();
        for condition in conditions(text, FIELDS, now)? {
            if condition.narrow(&mut filter.before, &mut filter.after) {
                continue;
            }
            let value = condition.value.as_str();
            let slot = match condition.field.as_str() {
                "version" => {
                    let version = value.parse().map_err(|_| condition.refuse("a version is a number from 1"))?;
                    condition.once(&mut filter.version, version)?;
                    continue;
                }
                "state" | "status" => {
                    let state = one_of(&condition, value, &SagaState::ALL.map(SagaState::word))?;
                    condition.once(&mut filter.state, state)?;
                    continue;
                }
                "reason" | "error" | "last_error" => {
                    condition.once(&mut filter.reason, ErrorGlob::new(value))?;
                    continue;
                }
                "tenant" => &mut filter.tenant,
                "id" => &mut filter.id,
                "definition" | "def_name" => &mut filter.definition,
                "waiting_for" | "waits" | "waiting" => &mut filter.waiting_for,
                "step" => &mut filter.step,
                "code" | "error_code" => &mut filter.code,
                _ => return Err(condition.unknown(FIELDS)),
            };
            condition.once(slot, Glob::new(value))?;
        }
        Ok(filter)
    }

    /// Confines it to one tenant; false when it already names another.
    pub fn confine(&mut self, tenant: &str) -> bool {
        if self.tenant.as_ref().is_some_and(|glob| !glob.matches(tenant)) {
            return false;
        }
        self.tenant = Some(Glob::literal(tenant));
        true
    }

    /// Whether a saga matches.
    pub fn takes(&self, saga: &SagaSummary) -> bool {
        let holds = |glob: &Option<Glob>, text: &str| glob.as_ref().is_none_or(|glob| glob.matches(text));
        let given = |glob: &Option<Glob>, text: &Option<std::sync::Arc<str>>| {
            glob.as_ref().is_none_or(|glob| text.as_ref().is_some_and(|text| glob.matches(text)))
        };
        let failed = |glob: &ErrorGlob| {
            saga.reason.as_ref().is_some_and(|reason| glob.matches(saga.code.as_deref().unwrap_or(""), reason))
        };
        !(self.is_open && saga.ended_at.is_some())
            && holds(&self.tenant, saga.key.tenant.as_str())
            && holds(&self.id, saga.key.id.as_str())
            && holds(&self.definition, &saga.definition.name)
            && self.version.is_none_or(|version| version == saga.definition.version)
            && holds(&self.state, saga.state.word())
            && given(&self.waiting_for, &saga.waiting_for)
            && self.step.as_ref().is_none_or(|glob| saga.steps.iter().any(|step| glob.matches(step)))
            && given(&self.code, &saga.code)
            && self.reason.as_ref().is_none_or(failed)
            && self.before.is_none_or(|before| saga.started_at < before)
            && self.after.is_none_or(|after| saga.started_at > after)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn conditions_are_read_with_the_names_of_the_sources() {
        let filter =
            SagaFilter::parse("def_name=order status=failed version=2 age>1h", UnixMillis(10_000_000)).unwrap();
        assert_eq!(filter.definition, Some(Glob::new("order")));
        assert_eq!(filter.version, Some(2));
        assert_eq!(filter.before, Some(UnixMillis(6_400_000)));
    }

    #[test]
    fn confined_to_a_tenant_it_takes_that_one_whatever_its_name_is() {
        let mut filter = SagaFilter::parse("tenant=a*", UnixMillis(0)).unwrap();
        assert!(!filter.clone().confine("b"));
        assert!(filter.confine("a*"));
        let tenant = filter.tenant.unwrap();
        assert!(tenant.matches("a*") && !tenant.matches("ab"));
    }

    #[test]
    fn bad_conditions_say_what_may_be_written() {
        for text in ["colour=red", "state=happy", "version=x", "age=1h", "tenant>a", "id="] {
            assert!(SagaFilter::parse(text, UnixMillis(0)).is_err(), "{text}");
        }
    }
}
