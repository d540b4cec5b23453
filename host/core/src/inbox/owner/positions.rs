//! Part: how far sources are settled without a gap, for those that have no place of their own at their peer (feature `resumes`). Such a
//! source begins behind the position that the record keeps.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use crate::ids::SourceName;
use crate::inbox::limits::UNSETTLED_FOLLOWED_MAX;
use crate::inbox::settings::{InboxSettings, SourceId};

/// The sources that are followed.
#[derive(Debug, Default)]
pub(super) struct Positions(BTreeMap<SourceId, Progress>);

/// One source since its session began.
#[derive(Debug, Default)]
struct Progress {
    /// What came and isn't settled for good, in the order in which it came first.
    unsettled: BTreeMap<u64, Unsettled>,
    numbers: HashMap<Arc<str>, u64>,
    last: u64,
    /// Position of what came last.
    latest: Option<Arc<str>>,
    /// More is unsettled than is followed: nothing is known of the place any more.
    is_lost: bool,
}

#[derive(Debug)]
struct Unsettled {
    /// Position of what came before it: everything up to there was settled before it is the first.
    before: Option<Arc<str>>,
}

impl Positions {
    /// A source was opened. One that has a place of its own isn't followed.
    pub fn opened(&mut self, source: SourceId, resumes: bool) {
        if resumes {
            self.0.entry(source).or_default();
        } else {
            self.0.remove(&source);
        }
    }

    /// It begins behind the position that is kept, and brings again what wasn't settled.
    pub fn restarted(&mut self, source: SourceId) {
        if let Some(progress) = self.0.get_mut(&source) {
            *progress = Progress::default();
        }
    }

    /// A delivery came. One of what isn't settled has its place already.
    pub fn came(&mut self, source: SourceId, position: &Arc<str>) {
        let Some(progress) = self.0.get_mut(&source).filter(|progress| !progress.is_lost) else { return };
        if progress.numbers.contains_key(position) {
            return;
        }
        if progress.unsettled.len() >= UNSETTLED_FOLLOWED_MAX {
            *progress = Progress { is_lost: true, ..Progress::default() };
            return;
        }
        progress.last += 1;
        let before = progress.latest.replace(Arc::clone(position));
        progress.unsettled.insert(progress.last, Unsettled { before });
        progress.numbers.insert(Arc::clone(position), progress.last);
    }

    /// A delivery is settled for good, and its source knows it.
    pub fn settled(&mut self, source: SourceId, position: &str) {
        let Some(progress) = self.0.get_mut(&source) else { return };
        if let Some(number) = progress.numbers.remove(position) {
            progress.unsettled.remove(&number);
        }
    }

    /// Notes where each source stands. Of one with several instances nobody knows what each of them brings, so none is kept.
    pub fn note(&self, settings: &InboxSettings, kept: &mut BTreeMap<SourceName, String>) {
        for (source, progress) in &self.0 {
            let Some(name) = settings.source(*source).map(|settings| &settings.name) else { continue };
            let is_single = settings.sources.iter().filter(|other| other.name == *name).count() == 1;
            let Some(position) = progress.position().filter(|_| is_single) else { continue };
            if kept.get(name).is_none_or(|before| before != position) {
                kept.insert(name.clone(), position.to_owned());
            }
        }
    }
}

impl Progress {
    /// Everything that came up to there is settled.
    fn position(&self) -> Option<&str> {
        match self.unsettled.first_key_value() {
            Some((_, first)) => first.before.as_deref(),
            None => self.latest.as_deref(),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::inbox::settings::SourceSettings;

    const SOURCE: SourceId = SourceId(0);

    fn followed() -> Positions {
        let mut positions = Positions::default();
        positions.opened(SOURCE, true);
        positions
    }

    fn come(positions: &mut Positions, all: &[&str]) {
        all.iter().for_each(|position| positions.came(SOURCE, &Arc::from(*position)));
    }

    fn kept(positions: &Positions, instances: usize) -> Option<String> {
        let name = SourceName::new("shop").unwrap();
        let sources = vec![SourceSettings::new(name.clone()); instances];
        let mut kept = BTreeMap::new();
        positions.note(&InboxSettings { sources, ..InboxSettings::default() }, &mut kept);
        kept.remove(&name)
    }

    #[test]
    fn a_source_stands_before_the_first_that_is_not_settled() {
        let mut positions = followed();
        come(&mut positions, &["s/1", "s/2", "s/3"]);
        assert_eq!(kept(&positions, 1), None, "nothing before the first is known");
        positions.settled(SOURCE, "s/2");
        assert_eq!(kept(&positions, 1), None);
        positions.settled(SOURCE, "s/1");
        assert_eq!(kept(&positions, 1).as_deref(), Some("s/2"));
        // It comes again, and has its place still.
        come(&mut positions, &["s/3", "s/4"]);
        positions.settled(SOURCE, "s/4");
        assert_eq!(kept(&positions, 1).as_deref(), Some("s/2"));
        positions.settled(SOURCE, "s/3");
        assert_eq!(kept(&positions, 1).as_deref(), Some("s/4"));
        assert_eq!(kept(&positions, 2), None, "of several instances nobody knows what each brings");
    }

    #[test]
    fn a_new_session_begins_behind_what_is_kept_and_one_with_a_place_of_its_own_is_not_followed() {
        let mut positions = followed();
        come(&mut positions, &["s/1", "s/2"]);
        positions.restarted(SOURCE);
        assert_eq!(kept(&positions, 1), None);
        come(&mut positions, &["s/1", "s/2"]);
        positions.settled(SOURCE, "s/1");
        assert_eq!(kept(&positions, 1).as_deref(), Some("s/1"));
        positions.opened(SOURCE, false);
        assert_eq!(kept(&positions, 1), None);
    }

    #[test]
    fn of_too_much_that_is_never_settled_no_place_is_told() {
        let mut positions = followed();
        (0..=UNSETTLED_FOLLOWED_MAX).for_each(|number| positions.came(SOURCE, &Arc::from(format!("s/{number}"))));
        positions.settled(SOURCE, "s/0");
        come(&mut positions, &["s/x"]);
        positions.settled(SOURCE, "s/x");
        assert_eq!(kept(&positions, 1), None);
    }
}
