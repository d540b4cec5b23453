//! What changed at a host, the latest so many, in memory: what an operator puts beside the first failure of something.
//!
//! It holds what the process that runs has seen, and tells since when that is all there was. Instants come in.

mod audited;
mod kind;

use std::collections::VecDeque;
use std::time::Duration;

use crate::ids::Tenant;
use crate::one_line::one_line;
use crate::time::UnixMillis;

pub use kind::ChangeKind;

/// Changes that are kept; the oldest leaves for the next.
pub const CHANGES_MAX: usize = 1_000;
/// Longest text of a change, in bytes; a longer one is cut. With five of them in each, the feed stays below 3 MiB.
pub const CHANGE_TEXT_BYTES_MAX: usize = 500;
/// What the host does by itself and does again within this is one change that happened several times: what goes back and forth
/// doesn't push out everything else.
pub const CHANGE_REPEATS_WITHIN: Duration = Duration::from_secs(60);

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    pub at: UnixMillis,
    pub kind: ChangeKind,
    /// The plugin, transport, source, relay or operation that it is about; `configuration` for the configuration.
    pub object: String,
    /// Who did it, as the audit trail names them; none = the host by itself.
    pub actor: Option<String>,
    /// Whose it is; none = everybody's.
    pub tenant: Option<String>,
    /// Stable code of what caused it, if there is one.
    pub code: Option<String>,
    /// In words for people.
    pub detail: Option<String>,
}

impl Change {
    pub fn new(at: UnixMillis, kind: ChangeKind, object: &str) -> Self {
        Self { at, kind, object: bounded(object), actor: None, tenant: None, code: None, detail: None }
    }

    #[must_use]
    pub fn by(self, actor: &str) -> Self {
        Self { actor: Some(bounded(actor)), ..self }
    }

    #[must_use]
    pub fn of(self, tenant: Option<&str>) -> Self {
        Self { tenant: tenant.map(bounded), ..self }
    }

    #[must_use]
    pub fn code(self, code: &str) -> Self {
        Self { code: Some(bounded(code)), ..self }
    }

    /// An empty text says nothing.
    #[must_use]
    pub fn detail(self, detail: &str) -> Self {
        Self { detail: Some(detail.trim()).filter(|detail| !detail.is_empty()).map(bounded), ..self }
    }

    /// Whether a credential of these tenants may see that it happened.
    pub fn is_for(&self, tenants: &[Tenant]) -> bool {
        match &self.tenant {
            Some(tenant) => tenants.iter().any(|mine| mine.as_str() == tenant),
            None => self.kind.is_everybodys(),
        }
    }

    fn is_repeat_of(&self, earlier: &Self) -> bool {
        self.kind.is_of_host()
            && (self.kind, &self.object, &self.actor, &self.tenant)
                == (earlier.kind, &earlier.object, &earlier.actor, &earlier.tenant)
    }
}

/// A change as it is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeptChange {
    /// Its number in this process, from 1.
    pub id: u64,
    /// As it happened first.
    pub change: Change,
    /// How often it happened within [`CHANGE_REPEATS_WITHIN`].
    pub times: u64,
    pub last_at: UnixMillis,
    /// The latest instant that any change had had when it happened last: `last_at`, unless the clock was set back.
    reached: UnixMillis,
}

#[derive(Debug, Default)]
pub struct ChangeLog {
    /// Since when all are there; none = it hasn't begun.
    since: Option<UnixMillis>,
    noted: u64,
    /// The latest instant that any change had.
    reached: UnixMillis,
    /// In the order they happened.
    kept: VecDeque<KeptChange>,
}

impl ChangeLog {
    /// All that changes from now on is noted. Said again, it changes nothing.
    pub fn begin(&mut self, now: UnixMillis) {
        self.since.get_or_insert(now);
    }

    /// Since when all changes are there.
    pub fn since(&self) -> Option<UnixMillis> {
        self.since
    }

    pub fn note(&mut self, change: Change) {
        self.reached = self.reached.max(change.at);
        // Behind a clock that was set back, what happened an hour later isn't a repeat because it has an earlier instant.
        let is_recent = |kept: &&mut KeptChange| is_within_repeats(kept.change.at, change.at);
        let recent = self.kept.iter_mut().rev().take_while(is_recent);
        if let Some(earlier) = recent.into_iter().find(|kept| change.is_repeat_of(&kept.change)) {
            earlier.times += 1;
            earlier.last_at = earlier.last_at.max(change.at);
            earlier.reached = self.reached;
            return;
        }
        if self.kept.len() >= CHANGES_MAX {
            let gone = self.kept.pop_front().map(|gone| gone.reached);
            self.since = self.since.max(gone).max(self.kept.front().map(|oldest| oldest.change.at));
        }
        self.noted += 1;
        self.kept.push_back(KeptChange { id: self.noted, last_at: change.at, change, times: 1, reached: self.reached });
    }

    /// Those that happened at an instant or later, newest first, at most `limit` of those that are wanted. Where the clock was set back,
    /// also what was noted after a change of that instant, whatever instant it has itself: who asks for what came since the latest that
    /// it knows misses none.
    pub fn latest(&self, since: Option<UnixMillis>, limit: usize, wanted: impl Fn(&Change) -> bool) -> Vec<KeptChange> {
        let is_late = |kept: &&KeptChange| since.is_none_or(|since| kept.reached >= since);
        let found = self.kept.iter().rev().filter(is_late).filter(|kept| wanted(&kept.change));
        found.take(limit).cloned().collect()
    }
}

fn is_within_repeats(one: UnixMillis, other: UnixMillis) -> bool {
    one.since(other).max(other.since(one)) < CHANGE_REPEATS_WITHIN
}

/// A text on one line, as much of it as is kept.
fn bounded(text: &str) -> String {
    let end = text.floor_char_boundary(CHANGE_TEXT_BYTES_MAX);
    let mut line = one_line(text.get(..end).unwrap_or_default()).into_owned();
    line.truncate(line.floor_char_boundary(CHANGE_TEXT_BYTES_MAX));
    line
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn change(seconds: u64, kind: ChangeKind, object: &str) -> Change {
        Change::new(UnixMillis(seconds * 1_000), kind, object)
    }

    fn all(log: &ChangeLog) -> Vec<(u64, String, u64)> {
        let kept = log.latest(None, usize::MAX, |_| true);
        kept.into_iter().map(|kept| (kept.id, kept.change.object, kept.times)).collect()
    }

    #[test]
    fn the_newest_comes_first_and_the_oldest_leaves() {
        let mut log = ChangeLog::default();
        log.begin(UnixMillis(5));
        log.begin(UnixMillis(7));
        assert_eq!(log.since(), Some(UnixMillis(5)));
        for number in 0..CHANGES_MAX as u64 + 2 {
            log.note(change(100 + number, ChangeKind::OperationBegun, &number.to_string()));
        }
        let kept = all(&log);
        assert_eq!((kept.len(), kept.first().unwrap().0), (CHANGES_MAX, CHANGES_MAX as u64 + 2));
        assert_eq!(kept.last().unwrap(), &(3, "2".to_owned(), 1));
        assert_eq!(log.since(), Some(UnixMillis(102_000)), "what was before isn't all there any more");
    }

    #[test]
    fn what_goes_back_and_forth_is_two_changes_a_minute() {
        let mut log = ChangeLog::default();
        for second in 0..50 {
            log.note(change(second, ChangeKind::TransportBlocked, "bus"));
            log.note(change(second, ChangeKind::TransportFlowing, "bus"));
        }
        assert_eq!(all(&log), [(2, "bus".to_owned(), 50), (1, "bus".to_owned(), 50)]);
        log.note(change(60, ChangeKind::TransportBlocked, "bus"));
        assert_eq!(all(&log).len(), 3, "a minute later it is told anew");
        let late = log.latest(Some(UnixMillis(49_000)), 10, |_| true);
        assert_eq!(late.iter().map(|kept| kept.id).collect::<Vec<_>>(), [3, 2, 1], "the last time counts");
        assert_eq!(log.latest(Some(UnixMillis(50_000)), 10, |_| true).len(), 1);
        assert_eq!(log.latest(None, 1, |change| change.kind == ChangeKind::TransportFlowing).len(), 1);
    }

    #[test]
    fn a_clock_that_is_set_back_changes_no_order_and_hides_nothing() {
        let mut log = ChangeLog::default();
        log.begin(UnixMillis(0));
        log.note(change(4_000, ChangeKind::TransportBlocked, "bus"));
        log.note(change(4_001, ChangeKind::OperationBegun, "op"));
        // An hour back. What happens now is no repeat of what happened before.
        log.note(change(402, ChangeKind::TransportBlocked, "bus"));
        log.note(change(403, ChangeKind::TransportBlocked, "bus"));
        assert_eq!(all(&log), [(3, "bus".to_owned(), 2), (2, "op".to_owned(), 1), (1, "bus".to_owned(), 1)]);
        let since = |seconds: u64| -> Vec<u64> {
            let late = log.latest(Some(UnixMillis(seconds * 1_000)), usize::MAX, |_| true);
            late.into_iter().map(|kept| kept.id).collect()
        };
        assert_eq!(since(4_001), [3, 2], "who knows those until then misses none");
        assert_eq!((since(402), since(4_002)), (vec![3, 2, 1], Vec::new()));
        let mut full = ChangeLog::default();
        full.begin(UnixMillis(4_000_000));
        for _ in 0..=CHANGES_MAX {
            full.note(change(400, ChangeKind::OperationBegun, "op"));
        }
        assert_eq!(full.since(), Some(UnixMillis(4_000_000)), "it never has more than it began with");
    }

    #[test]
    fn what_people_do_is_told_each_time() {
        let mut log = ChangeLog::default();
        for _ in 0..3 {
            log.note(change(1, ChangeKind::TransportPaused, "bus").by("ann"));
        }
        assert_eq!(all(&log).len(), 3);
    }

    #[test]
    fn a_tenant_sees_its_own_and_what_is_everybodys() {
        let acme = [Tenant::new("acme").unwrap()];
        let operation = |tenant| change(1, ChangeKind::OperationBegun, "01J").of(tenant);
        assert!(operation(Some("acme")).is_for(&acme));
        assert!(!operation(Some("other")).is_for(&acme) && !operation(None).is_for(&acme));
        assert!(change(1, ChangeKind::PluginSwapped, "bus").is_for(&acme));
        assert!(!change(1, ChangeKind::SourcePaused, "shop").is_for(&acme), "it may be of another tenant");
    }

    #[test]
    fn texts_are_on_one_line_and_bounded() {
        let hostile = format!("a\n\u{202e}{}", "ä".repeat(CHANGE_TEXT_BYTES_MAX));
        let noted = change(1, ChangeKind::PluginRefused, &hostile).detail(&hostile).detail("  ");
        assert!(noted.object.starts_with("a\\n\\u{202e}ä") && noted.object.len() <= CHANGE_TEXT_BYTES_MAX);
        assert_eq!(noted.detail, None);
    }
}
