//! All holds, found without going through them: by destination, by the message that tries one, by time.
//!
//! A tenant may have thousands of dead destinations; what flows past them must not pay for it.

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Deref;
use std::sync::Arc;

use super::TransportId;
use super::hold::{Hold, HoldKey};
use crate::ids::{Seq, Tenant};
use crate::time::Monotonic;

/// Whose messages through which transport; none = all of them.
type Group = (Option<Tenant>, Option<TransportId>);

/// The holds with their indexes. Reads go to the map itself.
///
/// - `scopes` names exactly the keys of `map`.
/// - A message is in `waiting` of a hold exactly while its state says that it waits for that hold.
/// - A hold has one probe at most; `probes` has all of them.
#[derive(Debug, Default)]
pub(super) struct Holds {
    map: BTreeMap<HoldKey, Hold>,
    scopes: BTreeMap<Group, BTreeSet<Arc<str>>>,
    /// Messages that may be trying a held destination: those that are, and some that were.
    probes: BTreeSet<Seq>,
    /// The instant of the next try, if it is known; forgotten whenever a hold is touched.
    next_try: Cell<Option<Option<Monotonic>>>,
}

impl Deref for Holds {
    type Target = BTreeMap<HoldKey, Hold>;
    fn deref(&self) -> &Self::Target {
        &self.map
    }
}

impl Holds {
    /// The hold, made if there is none.
    pub fn open(&mut self, key: &HoldKey, new: impl FnOnce() -> Hold) -> &mut Hold {
        self.next_try.set(None);
        if !self.map.contains_key(key) {
            let group = (key.tenant.clone(), key.transport);
            self.scopes.entry(group).or_default().insert(Arc::clone(&key.scope));
        }
        self.map.entry(key.clone()).or_insert_with(new)
    }

    pub fn remove(&mut self, key: &HoldKey) -> Option<Hold> {
        let hold = self.map.remove(key)?;
        self.next_try.set(None);
        let group = (key.tenant.clone(), key.transport);
        if let Some(scopes) = self.scopes.get_mut(&group) {
            scopes.remove(&key.scope);
            if scopes.is_empty() {
                self.scopes.remove(&group);
            }
        }
        Some(hold)
    }

    pub fn get_mut(&mut self, key: &HoldKey) -> Option<&mut Hold> {
        self.next_try.set(None);
        self.map.get_mut(key)
    }

    pub fn iter_mut(&mut self) -> impl Iterator<Item = (&HoldKey, &mut Hold)> {
        self.next_try.set(None);
        self.map.iter_mut()
    }

    /// A message waits for a hold.
    pub fn wait(&mut self, key: &HoldKey, seq: Seq) {
        if let Some(hold) = self.get_mut(key) {
            hold.waiting.insert(seq);
        }
    }

    /// It doesn't any more.
    pub fn stop_waiting(&mut self, key: &HoldKey, seq: Seq) {
        if let Some(hold) = self.get_mut(key) {
            hold.waiting.remove(&seq);
        }
    }

    /// The next try follows at this instant; none = not by itself.
    pub fn postpone(&mut self, key: &HoldKey, until: Option<Monotonic>) {
        if let Some(hold) = self.get_mut(key) {
            hold.until = until;
        }
    }

    /// Notes that a message may try a held destination.
    pub fn note_probe(&mut self, seq: Seq) {
        self.probes.insert(seq);
    }

    /// The holds that a message tries.
    pub fn probed_by(&self, seq: Seq) -> Vec<HoldKey> {
        if !self.probes.contains(&seq) {
            return Vec::new();
        }
        self.map.iter().filter(|(_, hold)| hold.probe == Some(seq)).map(|(key, _)| key.clone()).collect()
    }

    /// A message tries no destination any more; the holds that it tried.
    pub fn end_probe(&mut self, seq: Seq) -> Vec<HoldKey> {
        let probed = self.probed_by(seq);
        self.probes.remove(&seq);
        for key in &probed {
            if let Some(hold) = self.get_mut(key) {
                hold.probe = None;
            }
        }
        probed
    }

    /// The widest hold that a message falls under, but one that it tries itself.
    pub fn find(
        &self,
        seq: Seq,
        tenant: &Tenant,
        transport: Option<TransportId>,
        destination: &str,
    ) -> Option<HoldKey> {
        if self.map.is_empty() {
            return None;
        }
        [Some(tenant.clone()), None].into_iter().find_map(|whose| {
            let group = (whose, transport);
            let scopes = self.scopes.get(&group)?;
            let mut held = prefixes(destination).filter_map(|prefix| scopes.get(prefix));
            held.find_map(|scope| {
                let key = HoldKey { tenant: group.0.clone(), transport, scope: Arc::clone(scope) };
                self.map.get(&key).is_some_and(|hold| hold.probe != Some(seq)).then_some(key)
            })
        })
    }

    /// The instant at which the next destination is to be tried.
    pub fn next_try(&self) -> Option<Monotonic> {
        if let Some(known) = self.next_try.get() {
            return known;
        }
        let next = self.map.values().filter(|hold| hold.probe.is_none()).filter_map(|hold| hold.until).min();
        self.next_try.set(Some(next));
        next
    }

    /// The holds whose next try is due.
    pub fn due(&self, now: Monotonic) -> Vec<HoldKey> {
        if self.next_try().is_none_or(|next| next > now) {
            return Vec::new();
        }
        let is_due = |hold: &Hold| hold.probe.is_none() && hold.until.is_some_and(|until| until <= now);
        self.map.iter().filter(|(_, hold)| is_due(hold)).map(|(key, _)| key.clone()).collect()
    }
}

/// The scopes that a destination falls under ([`HoldKey::takes`]), shortest first.
pub(crate) fn prefixes(destination: &str) -> impl Iterator<Item = &str> {
    let inner =
        destination.char_indices().filter(|(_, sign)| matches!(sign, '/' | '?' | '#')).flat_map(move |(at, sign)| {
            let before = destination.get(..at).filter(|before| !before.is_empty());
            let with = destination.get(..=at).filter(|_| sign == '/');
            [before, with].into_iter().flatten()
        });
    std::iter::once("").chain(inner).chain(std::iter::once(destination))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn the_prefixes_of_a_destination_are_exactly_the_scopes_that_take_it() {
        let tenant = Tenant::unnamed();
        for destination in ["orders.created", "http://a.example/x/y?z=1#f", "http://a.example/", "a//b", "ü/é?ß", ""]
        {
            let found: BTreeSet<&str> = prefixes(destination).collect();
            let all = (0..=destination.len()).filter_map(|end| destination.get(..end));
            for scope in all {
                let key = HoldKey { tenant: None, transport: None, scope: Arc::from(scope) };
                assert_eq!(
                    found.contains(scope),
                    key.takes(&tenant, None, destination),
                    "{scope:?} of {destination:?}"
                );
            }
        }
    }
}
