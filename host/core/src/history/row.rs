//! The points of one series.

use super::{Reading, STEPS, Step};

/// Nobody looked, or it isn't known.
const GAP: u32 = u32::MAX;

/// A ring of the latest points.
#[derive(Debug)]
pub(super) struct Row {
    points: Box<[u32]>,
    /// The total that was seen last, and when.
    total: Option<(Step, u64)>,
    /// When something was seen last.
    seen: Step,
}

impl Row {
    /// One of which nothing was seen. Its total was zero at `zero_at`.
    pub fn new(zero_at: Option<Step>) -> Self {
        Self { points: vec![GAP; STEPS].into_boxed_slice(), total: zero_at.map(|step| (step, 0)), seen: 0 }
    }

    fn place(step: Step) -> usize {
        usize::try_from(step % STEPS as u64).unwrap_or(0)
    }

    fn put(&mut self, step: Step, point: u32) {
        if let Some(place) = self.points.get_mut(Self::place(step)) {
            *place = point;
        }
    }

    /// The steps behind one, up to another, are gaps until something is taken there.
    pub fn skip_to(&mut self, behind: Step, to: Step) {
        let from = (behind + 1).max((to + 1).saturating_sub(STEPS as u64));
        for step in from..=to {
            self.put(step, GAP);
        }
    }

    pub fn take(&mut self, step: Step, reading: Reading) {
        let point = match reading {
            Reading::Level(level) => Some(level),
            Reading::Total(total) => {
                let before = self.total.replace((step, total));
                let before = before.filter(|(at, _)| at + 1 == step);
                before.map(|(_, before)| total.saturating_sub(before))
            }
        };
        self.seen = step;
        if let Some(point) = point {
            self.put(step, u32::try_from(point).unwrap_or(GAP).min(GAP - 1));
        }
    }

    /// Whether a point of it may be kept still.
    pub fn is_seen(&self, now: Step) -> bool {
        self.seen.saturating_add(STEPS as u64) > now
    }

    /// The point of a step that is kept.
    pub fn at(&self, step: Step) -> Option<u32> {
        self.points.get(Self::place(step)).copied().filter(|point| *point != GAP)
    }
}
