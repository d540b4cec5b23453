//! Part: the doorstep and the appends that came straight to the owner.
//!
//! A pass over the doorstep has its upper stamp fixed when it begins, and each of its pages is read from the low end: whatever was
//! committed late under an early stamp is met. A direct append joins behind a complete pass that began after it came, so it never gets
//! a lower number than what was acknowledged on the doorstep before.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

use crate::streams::name::StreamKey;
use crate::streams::records::Append;

/// Names a direct append for its caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ticket(pub u64);

/// An append that came straight to the owner.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Direct {
    pub ticket: Ticket,
    pub append: Arc<Append>,
    /// How many passes had begun.
    arrived_in: u64,
}

#[derive(Debug, Default)]
pub(super) struct Door {
    /// Upper stamp of the pass that is under way.
    pub until: Option<u64>,
    /// A pass is under way.
    is_open: bool,
    /// How many passes have begun.
    begun: u64,
    /// Stamp of the last row taken.
    pub low: u64,
    /// Rows that the last page left where they lie.
    pub left: usize,
    directs: VecDeque<Direct>,
}

impl Door {
    /// Begins a pass, if none is under way.
    pub fn begin(&mut self) {
        if !self.is_open {
            self.is_open = true;
            self.until = None;
            self.begun += 1;
        }
    }

    /// The pass met everything, or what it met may not be what is there: the next page begins another one.
    pub fn end(&mut self) {
        self.is_open = false;
        self.until = None;
    }

    pub fn push(&mut self, ticket: Ticket, append: Arc<Append>) {
        self.directs.push_back(Direct { ticket, append, arrived_in: self.begun });
    }

    /// Those that never went in go first again.
    pub fn push_back(&mut self, directs: Vec<Direct>) {
        for direct in directs.into_iter().rev() {
            self.directs.push_front(direct);
        }
    }

    /// Those that may join once the pass under way is complete.
    pub fn waiting(&self) -> impl Iterator<Item = &Direct> {
        self.directs.iter().filter(|direct| direct.arrived_in < self.begun)
    }

    /// Takes those for which `take` says so, of those that may join, or of all. Once one of a stream isn't taken, none behind it is.
    pub fn take(&mut self, any_time: bool, mut take: impl FnMut(&Direct) -> bool) -> Vec<Direct> {
        let mut blocked: BTreeSet<StreamKey> = BTreeSet::new();
        let (begun, mut taken) = (self.begun, Vec::new());
        let mut kept = VecDeque::with_capacity(self.directs.len());
        for direct in self.directs.drain(..) {
            let may = any_time || direct.arrived_in < begun;
            let stream = &direct.append.stream;
            if may && !blocked.contains(stream) && take(&direct) {
                taken.push(direct);
            } else {
                blocked.insert(stream.clone());
                kept.push_back(direct);
            }
        }
        self.directs = kept;
        taken
    }

    pub fn has_directs(&self) -> bool {
        !self.directs.is_empty()
    }

    pub fn recall(&mut self) -> Vec<Direct> {
        self.directs.drain(..).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::streams::fixtures::append;

    #[test]
    fn a_direct_append_waits_for_a_pass_that_began_after_it() {
        let mut door = Door::default();
        door.begin();
        door.push(Ticket(1), Arc::new(append("a", &["x"])));
        assert_eq!(door.waiting().count(), 0);
        assert!(door.take(false, |_| true).is_empty());
        door.begin();
        assert_eq!(door.waiting().count(), 0, "the same pass");
        door.end();
        door.begin();
        assert_eq!(door.take(false, |_| true).len(), 1);
    }

    #[test]
    fn what_is_left_of_a_stream_holds_what_is_behind_it() {
        let mut door = Door::default();
        for (ticket, name) in [(1, "a"), (2, "b"), (3, "a")] {
            door.push(Ticket(ticket), Arc::new(append(name, &["x"])));
        }
        door.begin();
        let taken = door.take(false, |direct| direct.ticket != Ticket(1));
        assert_eq!(taken.iter().map(|direct| direct.ticket).collect::<Vec<_>>(), [Ticket(2)]);
        door.push_back(taken);
        let order: Vec<_> = door.recall().into_iter().map(|direct| direct.ticket.0).collect();
        assert_eq!(order, [2, 1, 3]);
    }
}
