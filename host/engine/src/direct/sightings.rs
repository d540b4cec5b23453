//! Which suspects no longer wait in their table. The port has no question for it: who isn't among what is due when a claim saw all of a
//! lane, in every lane, was answered elsewhere, or is gone.

use std::collections::BTreeSet;

use waybill_core::inbox::direct::RowId;

/// What claims have shown since suspects were looked through last.
#[derive(Debug, Default)]
pub(super) struct Sightings {
    /// Lanes of which a claim saw everything.
    lanes: BTreeSet<u16>,
    rows: BTreeSet<RowId>,
}

impl Sightings {
    /// A claim's answer. `is_whole` = it left nothing out of what is due in its lane. The suspects that no longer wait, once all `lanes`
    /// were seen.
    pub fn note_claim(&mut self, lane: (u16, u16), rows: &[RowId], is_whole: bool, suspects: &[RowId]) -> Vec<RowId> {
        if suspects.is_empty() {
            *self = Self::default();
            return Vec::new();
        }
        let (lanes, lane) = lane;
        self.rows.extend(rows.iter().filter(|row| suspects.contains(row)).cloned());
        if is_whole {
            self.lanes.insert(lane);
        }
        if !(0..lanes).all(|lane| self.lanes.contains(&lane)) {
            return Vec::new();
        }
        let seen = std::mem::take(self).rows;
        suspects.iter().filter(|suspect| !seen.contains(*suspect)).cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    fn row(id: &str) -> RowId {
        RowId(Arc::from(id))
    }

    #[test]
    fn who_is_in_no_lane_no_longer_waits() {
        let mut sightings = Sightings::default();
        let suspects = [row("7"), row("8")];
        assert!(sightings.note_claim((2, 0), &[row("7"), row("1")], true, &suspects).is_empty());
        assert!(sightings.note_claim((2, 1), &[], false, &suspects).is_empty(), "more may be in that lane");
        assert_eq!(sightings.note_claim((2, 1), &[row("2")], true, &suspects), [row("8")]);
        assert!(sightings.note_claim((2, 1), &[], true, &suspects).is_empty(), "the other lane is to be seen anew");
    }
}
