//! What is true of a row, whoever knows it.

use std::collections::BTreeMap;

/// How a row behaves.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Kind {
    Good,
    /// Always refused, for now.
    Retry,
    Permanent,
    /// Its host dies of it.
    Killer,
    /// The transport traps on it.
    Trap,
    /// Its destination is always blocked.
    Blocked,
    /// The table lets nobody mark it.
    NoMark,
    /// Due in a hundred years.
    Far,
}

#[derive(Clone, Debug)]
pub(super) struct Truth {
    pub kind: Kind,
    pub seen: bool,
    /// Others took it out of our hands.
    pub gone: bool,
    /// Failures of its own.
    pub failures: u32,
    /// How often its destination was at fault.
    pub blocked: u32,
    /// It was refused for good.
    pub permanent: bool,
    pub not_before: u64,
    /// By host: its start, and not before when there.
    pub not_before_at: BTreeMap<usize, (u64, u64)>,
    pub wire: Option<u64>,
    /// How often it arrived at the broker.
    pub arrived: u32,
    /// A dead letter of it is committed elsewhere.
    pub dead_here: bool,
}

impl Truth {
    pub fn new(kind: Kind) -> Self {
        Self {
            kind,
            seen: false,
            gone: false,
            failures: 0,
            blocked: 0,
            permanent: false,
            not_before: 0,
            not_before_at: BTreeMap::new(),
            wire: None,
            arrived: 0,
            dead_here: false,
        }
    }

    /// Somebody made it wait again.
    pub fn begin_anew(&mut self) {
        *self = Self { seen: self.seen, wire: self.wire, ..Self::new(self.kind) };
    }
}

/// What the broker said.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Answer {
    Acknowledged,
    Retry,
    Permanent,
    Blocked,
}

/// One send on its way.
#[derive(Clone, Debug)]
pub(super) struct Sent {
    pub row: usize,
    pub arrives: u64,
    pub answers: u64,
    pub word: Option<Answer>,
    pub arrived: bool,
}
