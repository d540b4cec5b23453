//! The pass over the doorstep: from which stamp up to which one it reads, and the page that the next commit takes.

use super::super::{Rule, Rules};
use crate::outbox::records::{DoorKey, DoorRow, IdRecord};
use crate::time::{Monotonic, Now};

/// What the id index says of a doorstep message.
#[derive(Clone, Debug)]
pub struct ExistingId {
    pub record: IdRecord,
    /// The doorstep message has the same content.
    pub same: bool,
}

/// One page of a doorstep pass as read.
#[derive(Clone, Debug)]
pub struct DoorPage {
    /// Rows in key order.
    pub rows: Vec<DoorRow>,
    /// Fewer than asked for came: the pass is complete.
    pub complete: bool,
    /// For each message of `rows` (flattened): the id row that exists, if any.
    pub existing: Vec<Option<ExistingId>>,
}

/// The read that a pass needs next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DoorPassRequest {
    pub from_nanos: u64,
    /// Highest stamp, fixed when the pass began.
    pub until_nanos: u64,
    /// Only rows after this one; none but in a mutation: every page is read from the low end, for a transaction with an early stamp may have committed since
    /// the last page, and what was taken is gone.
    pub after: Option<DoorKey>,
    pub limit: usize,
}

/// A pass under way.
#[derive(Clone, Debug)]
pub struct Pass {
    pub began: Monotonic,
    pub until_nanos: u64,
    /// The last row read: only a mutation goes on from there.
    pub after: Option<DoorKey>,
    from_nanos: u64,
    page: Option<DoorPage>,
}

/// What a page did to its pass.
#[derive(Clone, Debug)]
pub enum PassEnd {
    GoesOn(Pass),
    /// Everything up to this stamp was read.
    Over {
        until_nanos: u64,
    },
}

/// How the doorstep stands.
///
/// A pass begins no later than the same distance before the end of the last completed one, so that after a pause or a failed commit
/// no older row is left behind. Its upper stamp is fixed when it begins. What a page took is given up with its commit, and then the
/// pass is owed.
#[derive(Clone, Debug, Default)]
pub(in super::super) struct Doorstep {
    /// A pass is under way.
    pass: Option<Pass>,
    /// The last pass came to nothing, because its commit did: another one has to follow.
    owed: bool,
    /// Everything up to this stamp was read by passes that were completed, but for what committed later.
    drained_until: u64,
    /// Highest stamp seen, so that a clock set back doesn't hide rows.
    highest: u64,
}

impl Doorstep {
    /// Whether a pass is under way, or came to nothing, so that the next commit should go on with it.
    pub fn in_pass(&self) -> bool {
        self.pass.is_some() || self.owed
    }

    /// Whether pages of a pass were taken and more are to come.
    pub fn has_pass(&self) -> bool {
        self.pass.is_some()
    }

    /// Begins a pass, or goes on with the one under way; the page to be read, of `limit` rows.
    pub fn begin(
        &mut self,
        from_nanos: u64,
        clock_nanos: u64,
        now: Now,
        rules: Rules,
        limit: usize,
    ) -> DoorPassRequest {
        let clock_nanos = clock_nanos.max(self.highest);
        let upper_fixed = rules.kept(Rule::PassUpperFixed);
        let from_nanos = from_nanos.min(self.drained_until.saturating_sub(clock_nanos.saturating_sub(from_nanos)));
        self.owed = false;
        let pass = self.pass.get_or_insert(Pass {
            began: now.mono,
            from_nanos,
            until_nanos: clock_nanos,
            after: None,
            page: None,
        });
        if !upper_fixed {
            pass.until_nanos = clock_nanos;
        }
        if !rules.kept(Rule::PassFromLowEnd) {
            pass.from_nanos = self.highest;
        }
        DoorPassRequest {
            from_nanos: pass.from_nanos,
            until_nanos: pass.until_nanos,
            after: if upper_fixed { None } else { pass.after.clone() },
            limit,
        }
    }

    /// Takes the page that was asked for.
    pub fn take_page(&mut self, page: DoorPage) {
        if let Some(row) = page.rows.last() {
            self.highest = self.highest.max(row.key.nanos);
        }
        if let Some(pass) = &mut self.pass {
            pass.page = Some(page);
        }
    }

    /// Nothing can be on the doorstep: an empty pass is complete at this instant without a read.
    pub fn pass_unread(&mut self, now: Now) {
        if !self.in_pass() {
            let page = DoorPage { rows: Vec::new(), complete: true, existing: Vec::new() };
            self.pass = Some(Pass { began: now.mono, from_nanos: 0, until_nanos: 0, after: None, page: Some(page) });
        }
    }

    /// A commit takes the page that was read. The pass goes on when that is known ([`Doorstep::end_page`]).
    pub fn begin_page(&mut self) -> Option<(Pass, DoorPage)> {
        let mut pass = self.pass.take()?;
        match pass.page.take() {
            Some(page) => Some((pass, page)),
            None => {
                self.pass = Some(pass);
                None
            }
        }
    }

    /// A page was taken for good.
    pub fn end_page(&mut self, end: PassEnd) {
        match end {
            PassEnd::GoesOn(pass) => self.pass = Some(pass),
            PassEnd::Over { until_nanos } => {
                self.pass = None;
                self.drained_until = self.drained_until.max(until_nanos);
            }
        }
    }

    /// A commit never went in, with a page of the pass if `had_page`.
    pub fn give_up(&mut self, had_page: bool) {
        self.owed = self.pass.take().is_some() || had_page;
    }
}
