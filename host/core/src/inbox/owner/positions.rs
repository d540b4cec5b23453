//! Part: how far sources are settled without a gap, for those that have no place of their own at their peer (feature `resumes`). Such a
//! source begins behind the position that the record keeps. One that was taken out of the configuration goes on there when it is put back,
//! as long as the seen set has what it brought: longer, and the record would grow with every name that ever was.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use crate::ids::SourceName;
use crate::inbox::limits::UNSETTLED_FOLLOWED_MAX;
use crate::inbox::records::SourcePosition;
use crate::inbox::seen::OwnedAge;
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

    /// Whether so much of a source is unsettled that its place isn't followed any more in this session: it stays where it was.
    pub fn is_lost(&self, source: SourceId) -> bool {
        self.0.get(&source).is_some_and(|progress| progress.is_lost)
    }

    /// Notes where each source stands at an age. Of one with several instances nobody knows what each of them brings, so none is kept.
    pub fn note(&self, settings: &InboxSettings, age: OwnedAge, kept: &mut BTreeMap<SourceName, SourcePosition>) {
        for (source, progress) in &self.0 {
            let Some(name) = settings.source(*source).map(|settings| &settings.name) else { continue };
            let is_single = settings.sources.iter().filter(|other| other.name == *name).count() == 1;
            let Some(position) = progress.position().filter(|_| is_single) else { continue };
            if kept.get(name).is_none_or(|before| before.position != position) {
                let position = SourcePosition { position: position.to_owned(), unnamed_since: None };
                kept.insert(name.clone(), position);
            }
        }
        let forgotten = age.window_start(settings.dedup_window);
        kept.retain(|name, of| {
            if settings.source_named(name).is_some() {
                of.unnamed_since = None;
                return true;
            }
            let since = *of.unnamed_since.get_or_insert(age);
            forgotten.is_none_or(|forgotten| since > forgotten)
        });
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
        positions.note(&InboxSettings { sources, ..InboxSettings::default() }, OwnedAge(0), &mut kept);
        kept.remove(&name).map(|kept| kept.position)
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
        assert!(positions.is_lost(SOURCE));
        positions.restarted(SOURCE);
        assert!(!positions.is_lost(SOURCE), "a new session is followed from its beginning");
    }

    #[test]
    fn the_place_of_a_source_that_is_configured_no_more_is_kept_as_long_as_its_ids_are() {
        let [shop, gone] = ["shop", "gone"].map(|name| SourceName::new(name).unwrap());
        let with = |names: &[&SourceName]| InboxSettings {
            sources: names.iter().map(|name| SourceSettings::new((*name).clone())).collect(),
            dedup_window: std::time::Duration::from_secs(10),
            ..InboxSettings::default()
        };
        let positions = Positions::default();
        let position = SourcePosition { position: "s/7".to_owned(), unnamed_since: None };
        let mut kept = BTreeMap::from([(shop.clone(), position.clone()), (gone.clone(), position.clone())]);
        positions.note(&with(&[&shop]), OwnedAge(100_000), &mut kept);
        positions.note(&with(&[&shop]), OwnedAge(109_999), &mut kept);
        assert_eq!(kept.get(&gone).unwrap().unnamed_since, Some(OwnedAge(100_000)));
        // Put back, it is forgotten only when it was gone for the whole time again.
        positions.note(&with(&[&shop, &gone]), OwnedAge(109_999), &mut kept);
        assert_eq!(kept.get(&gone), Some(&position));
        positions.note(&with(&[&shop]), OwnedAge(110_000), &mut kept);
        positions.note(&with(&[&shop]), OwnedAge(119_999), &mut kept);
        assert!(kept.contains_key(&gone));
        positions.note(&with(&[&shop]), OwnedAge(120_000), &mut kept);
        assert_eq!(kept, BTreeMap::from([(shop, position)]), "what is configured stays however old it is");
    }
}
