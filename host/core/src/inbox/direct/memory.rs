//! Part: what a host remembers of rows that gave trouble, until they are done with or nobody has heard of them for long.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use super::config::RowId;
use crate::outbox::owner::prefixes;
use crate::time::Monotonic;

/// Where a row goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// The transport's name.
    pub transport: Arc<str>,
    pub destination: Arc<str>,
}

/// What is blocked together.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Scope {
    /// The transport's name.
    pub transport: Arc<str>,
    /// A destination with all below it; empty = all of the transport.
    pub part: Arc<str>,
}

impl Scope {
    /// Everything that goes through the transport of a row.
    pub fn of_transport(place: &Place) -> Self {
        Self { transport: Arc::clone(&place.transport), part: Arc::from("") }
    }

    /// What a transport named when it said that a row is blocked. Something that the row doesn't lie in says nothing of it: then it is
    /// the row's own destination, as where nothing is named.
    pub fn named(place: &Place, said: &str) -> Self {
        let is_around = !said.is_empty() && prefixes(&place.destination).any(|prefix| prefix == said);
        let part = if is_around { Arc::from(said) } else { Arc::clone(&place.destination) };
        Self { transport: Arc::clone(&place.transport), part }
    }
}

#[derive(Debug, Default)]
pub(super) struct Memory {
    rows: BTreeMap<RowId, Known>,
    /// How much went through where a row is blocked, by transport and part. Nothing else is counted.
    passed: BTreeMap<Arc<str>, BTreeMap<Arc<str>, u64>>,
    /// How much went through in all.
    all: u64,
    tidy_at: Monotonic,
}

#[derive(Debug, Default)]
struct Known {
    /// It goes alone: a call trapped with it, or its mark was refused.
    apart: bool,
    /// How often the table refused its mark.
    refused: u32,
    /// How often it was blocked.
    blocked: u32,
    /// Where it was blocked last; none = nowhere that something could go through.
    scope: Option<Scope>,
    /// What had gone through there then, and in all.
    before: (u64, u64),
    /// Nobody hears of it until then: it is gone.
    until: Monotonic,
}

impl Memory {
    fn known(&mut self, row: &RowId, until: Monotonic) -> &mut Known {
        let known = self.rows.entry(row.clone()).or_default();
        known.until = known.until.max(until);
        known
    }

    /// It will be tried again, and is heard of until then.
    pub fn keep(&mut self, row: &RowId, until: Monotonic) {
        if let Some(known) = self.rows.get_mut(row) {
            known.until = known.until.max(until);
        }
    }

    /// A row is done with.
    pub fn forget(&mut self, row: &RowId) {
        self.rows.remove(row);
    }

    /// Forgets rows that nobody has heard of: others have published or deleted them.
    pub fn tidy(&mut self, now: Monotonic, every: Duration) {
        if now < self.tidy_at {
            return;
        }
        self.tidy_at = now + every;
        self.rows.retain(|_, known| known.until > now);
        let used: BTreeSet<&Scope> = self.rows.values().filter_map(|known| known.scope.as_ref()).collect();
        for (transport, parts) in &mut self.passed {
            let is_used =
                |part: &Arc<str>| used.contains(&Scope { transport: Arc::clone(transport), part: Arc::clone(part) });
            parts.retain(|part, _| is_used(part));
        }
        self.passed.retain(|_, parts| !parts.is_empty());
    }

    pub fn set_apart(&mut self, row: &RowId, until: Monotonic) {
        self.known(row, until).apart = true;
    }

    pub fn is_apart(&self, row: &RowId) -> bool {
        self.rows.get(row).is_some_and(|known| known.apart)
    }

    /// The table refused a row's mark; how often, with this time.
    pub fn note_refused(&mut self, row: &RowId) -> u32 {
        let known = self.known(row, Monotonic::default());
        known.refused = known.refused.saturating_add(1);
        known.refused
    }

    /// Rows whose marks were refused.
    pub fn refused(&self) -> impl Iterator<Item = &RowId> {
        self.rows.iter().filter(|(_, known)| known.refused > 0).map(|(row, _)| row)
    }

    /// Something went through.
    pub fn note_acknowledged(&mut self, place: Option<&Place>) {
        self.all += 1;
        let Some(place) = place else { return };
        let Some(parts) = self.passed.get_mut(&place.transport) else { return };
        for prefix in prefixes(&place.destination) {
            if let Some(count) = parts.get_mut(prefix) {
                *count += 1;
            }
        }
    }

    /// A row was blocked. How often before, and whether something went through in its scope since it last asked (`by_scope` false:
    /// anywhere). What is out of every scope is nobody's success.
    pub fn note_blocked(&mut self, row: &RowId, scope: Option<Scope>, by_scope: bool) -> (u32, bool) {
        let passed = scope.as_ref().map_or(0, |scope| {
            let parts = self.passed.entry(Arc::clone(&scope.transport)).or_default();
            *parts.entry(Arc::clone(&scope.part)).or_default()
        });
        let all = self.all;
        let known = self.known(row, Monotonic::default());
        let times = known.blocked;
        let is_same = scope.is_some() && known.scope == scope;
        let has_passed = if by_scope { is_same && passed > known.before.0 } else { all > known.before.1 };
        known.blocked = times.saturating_add(1);
        (known.scope, known.before) = (scope, (passed, all));
        (times, times > 0 && has_passed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(destination: &str) -> Place {
        Place { transport: Arc::from("http"), destination: Arc::from(destination) }
    }

    fn row(id: &str) -> RowId {
        RowId(Arc::from(id))
    }

    #[test]
    fn a_scope_that_a_row_does_not_lie_in_is_its_destination() {
        let at = place("http://a/x");
        let part = |said: &str| Scope::named(&at, said).part;
        assert_eq!(
            [part("http://a"), part("http://b"), part("")].map(|part| part.to_string()),
            ["http://a", "http://a/x", "http://a/x"]
        );
    }

    #[test]
    fn what_goes_through_counts_in_every_scope_around_it_and_nowhere_else() {
        let mut memory = Memory::default();
        let scope = || Some(Scope::named(&place("http://a/x"), "http://a"));
        assert_eq!(memory.note_blocked(&row("1"), scope(), true), (0, false));
        memory.note_acknowledged(Some(&place("http://b/x")));
        memory.note_acknowledged(Some(&Place { transport: Arc::from("bus"), destination: Arc::from("http://a") }));
        assert_eq!(memory.note_blocked(&row("1"), scope(), true), (1, false));
        memory.note_acknowledged(Some(&place("http://a/y")));
        assert_eq!(memory.note_blocked(&row("1"), scope(), true), (2, true));
        memory.note_acknowledged(Some(&place("http://a/y")));
        assert_eq!(memory.note_blocked(&row("1"), None, true), (3, false), "no scope, nobody's success");
    }

    #[test]
    fn who_is_not_heard_of_is_forgotten() {
        let at = |seconds| Monotonic(Duration::from_secs(seconds));
        let mut memory = Memory::default();
        memory.note_blocked(&row("1"), Some(Scope::of_transport(&place("x"))), true);
        memory.keep(&row("1"), at(100));
        memory.set_apart(&row("2"), at(10));
        memory.tidy(at(50), Duration::from_secs(1));
        assert!(memory.rows.contains_key(&row("1")) && !memory.is_apart(&row("2")) && memory.passed.len() == 1);
        memory.tidy(at(101), Duration::from_secs(1));
        assert!(memory.rows.is_empty() && memory.passed.is_empty());
    }
}
