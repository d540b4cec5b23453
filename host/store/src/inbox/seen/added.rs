//! Ids that were added to a bucket since it was packed, in memory: 20 bytes each.

use std::collections::HashMap;

use waybill_core::inbox::fingerprint::ContentCheck;
use waybill_core::inbox::seen::{Member, OwnedAge};
use waybill_core::port::inbox_store::SeenHit;

use crate::codec::inbox::seen::SeenIds;

/// Bytes that an id takes, about: the map is three quarters full on average.
const ID_BYTES: usize = 26;
/// Bytes of a bucket in memory besides its ids.
const BUCKET_BYTES: usize = 512;

/// Check and age of an id. The age is milliseconds from the bucket's first one, in two halves, so that an id takes no padding.
#[derive(Clone, Copy, Debug)]
struct Mark {
    check: ContentCheck,
    after: [u16; 2],
}

/// All that was added to a bucket since it was packed.
#[derive(Clone, Debug, Default)]
pub struct Added {
    /// Age of what was added first.
    first: OwnedAge,
    latest: OwnedAge,
    marks: HashMap<Member, Mark>,
}

impl Added {
    /// Adds what one commit finished. Of an id that comes again the later one counts.
    pub fn add(&mut self, ids: &SeenIds) {
        if self.marks.is_empty() {
            self.first = ids.age;
        }
        self.latest = self.latest.max(ids.age);
        let after = u32::try_from(ids.age.0.saturating_sub(self.first.0)).unwrap_or(u32::MAX);
        let after = [(after >> 16) as u16, (after & 0xFFFF) as u16];
        self.marks.extend(ids.ids.iter().map(|(member, check)| (*member, Mark { check: *check, after })));
    }

    pub fn find(&self, member: Member) -> Option<SeenHit> {
        let mark = self.marks.get(&member)?;
        let [high, low] = mark.after.map(u64::from);
        let age = match high << 16 | low {
            // Longer than fits: never taken for older than it is.
            after if after == u64::from(u32::MAX) => self.latest,
            after => OwnedAge(self.first.0.saturating_add(after)),
        };
        Some(SeenHit { check: mark.check, age })
    }

    pub fn bytes(&self) -> usize {
        BUCKET_BYTES + self.marks.len() * ID_BYTES
    }
}

#[cfg(test)]
mod tests {
    use waybill_core::inbox::fingerprint::Fingerprint;

    use super::*;

    fn ids(age: u64, numbers: &[u16], check: u16) -> SeenIds {
        let ids = numbers.iter().map(|number| (Member::Number(*number), ContentCheck(check)));
        SeenIds { age: OwnedAge(age), ids: ids.collect() }
    }

    #[test]
    fn ages_come_back_and_the_later_of_two_counts() {
        let mut added = Added::default();
        added.add(&ids(70_000, &[1, 2], 5));
        added.add(&ids(70_003, &[2, 3], 6));
        let found = |number| added.find(Member::Number(number)).map(|hit| (hit.check.0, hit.age.0));
        assert_eq!((found(1), found(2), found(3)), (Some((5, 70_000)), Some((6, 70_003)), Some((6, 70_003))));
        assert_eq!(found(4), None);
        assert_eq!(added.find(Member::Hash(Fingerprint::default())), None);
    }

    #[test]
    fn an_age_that_does_not_fit_is_never_taken_for_an_older_one() {
        let mut added = Added::default();
        added.add(&ids(0, &[1], 1));
        added.add(&ids(1 << 40, &[2], 1));
        assert_eq!(added.find(Member::Number(2)).map(|hit| hit.age), Some(OwnedAge(1 << 40)));
    }
}
