//! A source's broker: it delivers again what isn't settled, in another order, on another partition, to another session.

use std::collections::{BTreeMap, BTreeSet};

use super::setup::{ACK_WAIT, LAST};
use crate::model::rng::Rng;

/// A message as its sender published it.
#[derive(Clone, Debug)]
pub(super) struct Published {
    pub id: u64,
    pub key: Option<u8>,
    pub content: u8,
    /// Who handles it dies of it.
    pub killer: bool,
    /// It is always answered 503 until the calm phase.
    pub busy: bool,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum State {
    Ready,
    Out {
        session: u64,
        token: u64,
        until: u64,
        since: u64,
    },
    Acked,
    /// Its deliveries are used up.
    Gone,
}

#[derive(Clone, Debug)]
pub(super) struct Position {
    pub message: Published,
    pub group: usize,
    pub offset: usize,
    pub state: State,
    pub count: u32,
    /// A living owner had it for long and didn't make it safe.
    pub neglected: bool,
}

/// What kind of broker it is.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Kind {
    pub log: bool,
    /// A queue that replays a key in order (a table).
    pub ordered: bool,
    pub extends: bool,
    /// Most deliveries of one message; 0 = no limit.
    pub limit: u32,
}

/// One delivery as a session gets it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Delivered {
    pub token: u64,
    pub position: usize,
    pub left: Option<u32>,
    pub again: bool,
}

#[derive(Debug, Default)]
pub(super) struct Broker {
    pub kind: Kind,
    pub positions: Vec<Position>,
    pub parts: [Vec<usize>; 2],
    pub committed: [usize; 2],
    fetched: [usize; 2],
    pub assigned: [u64; 2],
    generation: [u64; 2],
    acked: [BTreeSet<usize>; 2],
    /// Sessions by when they were heard of last.
    pub members: BTreeMap<u64, u64>,
    revoked: BTreeMap<u64, Vec<usize>>,
    tokens: BTreeMap<u64, (usize, u64)>,
    last: u64,
    /// Offsets are committed past gaps: a mutation.
    pub past_gaps: bool,
}

impl Broker {
    pub fn new(kind: Kind, past_gaps: bool) -> Self {
        Self { kind, past_gaps, ..Self::default() }
    }

    pub fn publish(&mut self, message: Published, group: usize) {
        let offset = self.parts[group].len();
        self.parts[group].push(self.positions.len());
        let state = State::Ready;
        self.positions.push(Position { message, group, offset, state, count: 0, neglected: false });
    }

    pub fn join(&mut self, now: u64, rng: &mut Rng) -> u64 {
        self.last += 1;
        let session = self.last;
        self.members.insert(session, now);
        self.rebalance(rng);
        session
    }

    pub fn leave(&mut self, session: u64, rng: &mut Rng) {
        if self.members.remove(&session).is_some() {
            self.rebalance(rng);
        }
    }

    fn rebalance(&mut self, rng: &mut Rng) {
        if !self.kind.log {
            return;
        }
        let members: Vec<u64> = self.members.keys().copied().collect();
        for group in 0..2 {
            let to = rng.pick(&members).copied().unwrap_or(0);
            if self.assigned[group] != to {
                self.revoked.entry(self.assigned[group]).or_default().push(group);
                self.assigned[group] = to;
                self.generation[group] += 1;
                self.fetched[group] = self.committed[group];
                self.acked[group].clear();
            }
        }
    }

    /// Groups that a session lost since it asked last.
    pub fn revocations(&mut self, session: u64) -> Vec<usize> {
        self.revoked.remove(&session).unwrap_or_default()
    }

    /// Up to `max` deliveries; whether nothing more was waiting.
    pub fn pull(&mut self, session: u64, max: usize, now: u64, rng: &mut Rng) -> (Vec<Delivered>, bool) {
        if self.kind.log { self.pull_log(session, max) } else { self.pull_queue(session, max, now, rng) }
    }

    fn pull_log(&mut self, session: u64, max: usize) -> (Vec<Delivered>, bool) {
        let mut out = Vec::new();
        for group in (0..2).filter(|group| self.assigned[*group] == session).collect::<Vec<_>>() {
            while self.fetched[group] < self.parts[group].len() {
                if out.len() >= max {
                    return (out, false);
                }
                let position = self.parts[group][self.fetched[group]];
                self.last += 1;
                self.tokens.insert(self.last, (position, self.generation[group]));
                self.fetched[group] += 1;
                self.positions[position].count += 1;
                out.push(Delivered { token: self.last, position, left: None, again: false });
            }
        }
        (out, true)
    }

    fn pull_queue(&mut self, session: u64, max: usize, now: u64, rng: &mut Rng) -> (Vec<Delivered>, bool) {
        let (mut out, mut caught_up) = (Vec::new(), true);
        for position in 0..self.positions.len() {
            if self.positions[position].state != State::Ready || self.kind.ordered && self.is_behind(position, session)
            {
                continue;
            }
            if !self.kind.ordered && self.positions[position].count > 0 && rng.percent(30) {
                caught_up = false;
                continue;
            }
            if out.len() >= max {
                return (out, false);
            }
            self.last += 1;
            let (token, limit) = (self.last, self.kind.limit);
            let at = &mut self.positions[position];
            at.count += 1;
            at.state = State::Out { session, token, until: now + ACK_WAIT, since: now };
            let left = (limit > 0).then(|| limit - at.count);
            out.push(Delivered { token, position, left, again: at.count > 1 });
        }
        (out, caught_up)
    }

    /// A row of a key isn't given out before those in front of it.
    fn is_behind(&self, position: usize, session: u64) -> bool {
        let key = self.positions[position].message.key;
        key.is_some()
            && self.positions[..position].iter().any(|other| {
                other.message.key == key
                    && match other.state {
                        State::Ready => true,
                        State::Out { session: of, .. } => of != session,
                        State::Acked | State::Gone => false,
                    }
            })
    }

    /// An acknowledgement arrives. The positions that are done with by it.
    pub fn ack(&mut self, session: u64, token: u64, position: usize, rng: &mut Rng) -> Vec<usize> {
        if !self.kind.log {
            if let State::Out { session: of, token: current, .. } = self.positions[position].state
                && (of, current) == (session, token)
            {
                self.positions[position].state = State::Acked;
            }
            return vec![position];
        }
        let Some((position, generation)) = self.tokens.get(&token).copied() else { return Vec::new() };
        let group = self.positions[position].group;
        if self.assigned[group] != session || self.generation[group] != generation {
            return Vec::new();
        }
        self.acked[group].insert(self.positions[position].offset);
        let offset = self.positions[position].offset;
        let mut done = vec![position];
        if rng.percent(80) {
            done.extend(self.commit_offsets(group, offset));
        }
        done
    }

    /// Commits offsets up to the first gap. The positions that are committed by it.
    pub fn commit_offsets(&mut self, group: usize, offset: usize) -> Vec<usize> {
        let before = self.committed[group];
        let mut upto = before;
        if self.past_gaps {
            upto = upto.max(offset + 1).min(self.parts[group].len());
        } else {
            while self.acked[group].contains(&upto) {
                upto += 1;
            }
        }
        self.committed[group] = upto;
        self.parts[group][before..upto].to_vec()
    }

    /// Still at work. False: it is no longer this session's.
    pub fn extend(&mut self, session: u64, token: u64, position: usize, now: u64) -> bool {
        match &mut self.positions[position].state {
            State::Out { session: of, token: current, until, .. }
                if (*of, *current) == (session, token) && *until > now =>
            {
                *until = now + ACK_WAIT;
                true
            }
            _ => false,
        }
    }

    /// Back at once, without a failure.
    pub fn release(&mut self, session: u64, token: u64, position: usize) {
        if let State::Out { session: of, token: current, .. } = self.positions[position].state
            && (of, current) == (session, token)
        {
            self.positions[position].state = State::Ready;
        }
    }

    /// Time passes. The positions whose deliveries are used up now.
    pub fn step(&mut self, now: u64, rng: &mut Rng) -> Vec<usize> {
        let mut gone = Vec::new();
        let limit = self.kind.limit;
        for (number, position) in self.positions.iter_mut().enumerate() {
            if let State::Out { until, .. } = position.state
                && until <= now
            {
                let is_over = limit > 0 && position.count >= limit;
                position.state = if is_over { State::Gone } else { State::Ready };
                if is_over {
                    gone.push(number);
                }
            }
        }
        let silent: Vec<u64> =
            self.members.iter().filter(|(_, heard)| **heard + 60 < now).map(|(session, _)| *session).collect();
        for session in silent {
            self.leave(session, rng);
        }
        gone
    }

    /// Positions that a session has had at their last deliveries for so long that they should be safe.
    pub fn at_last_deliveries(&self, session: u64, now: u64, calm_since: u64) -> Vec<usize> {
        let limit = self.kind.limit;
        let is_old = |position: &Position| match position.state {
            State::Out { session: of, since, .. } => {
                of == session && limit > 0 && limit - position.count <= LAST && now - since > 120 && calm_since < since
            }
            _ => false,
        };
        (0..self.positions.len()).filter(|number| is_old(&self.positions[*number])).collect()
    }

    /// Whether nothing is to be delivered any more.
    pub fn is_settled(&self) -> bool {
        if self.kind.log {
            (0..2).all(|group| self.committed[group] == self.parts[group].len())
        } else {
            self.positions.iter().all(|position| matches!(position.state, State::Acked | State::Gone))
        }
    }
}
