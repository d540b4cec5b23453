//! The one commit that is out: what it changes in memory once it is in.

use std::sync::Arc;

use super::commands::QueuedCommand;
use super::next_commit::{PassEnd, Ticket, WaitingRequest};
use crate::ids::{MessageId, Seq, Tenant};
use crate::message::Message;
use crate::outbox::records::{DeadLetter, Parked, Scheduled, Segment, ShardRecord};
use crate::time::Monotonic;

/// What a commit changes in memory once it is in.
#[derive(Debug, Default)]
pub(super) struct InFlight {
    pub nonce: u64,
    pub record: ShardRecord,
    pub began: Monotonic,
    /// Settled messages; a parked one with its new row.
    pub settled: Vec<(Seq, Option<Arc<Parked>>)>,
    pub parked_claims: Vec<Seq>,
    /// Claimed parked messages that are given back.
    pub parked_released: Vec<Seq>,
    pub expired: usize,
    /// Messages that it takes into the outbox.
    pub begun: Vec<Arc<Message>>,
    /// Messages that it makes dead letters of.
    pub died: Vec<Arc<DeadLetter>>,
    /// New segments; true = bring to memory.
    pub new_segments: Vec<(Arc<Segment>, bool)>,
    /// Rewritten segments (evicted, or a message cancelled).
    pub rewritten: Vec<Arc<Segment>>,
    /// Segments that are finished.
    pub finished: Vec<(Tenant, Seq)>,
    /// Messages that left segments: tenant, segment, index.
    pub gone: Vec<(Tenant, Seq, u16)>,
    pub quarantined: usize,
    pub directs: Vec<(WaitingRequest, Vec<MessageId>)>,
    pub commands: Vec<QueuedCommand>,
    pub page_end: Option<PassEnd>,
    pub scheduled_taken: Vec<Arc<Scheduled>>,
    pub scheduled_new: Vec<Arc<Scheduled>>,
    pub replayed: Vec<Arc<Parked>>,
    pub key_holders: Vec<Arc<DeadLetter>>,
    pub key_released: Vec<Arc<DeadLetter>>,
    /// It takes back messages that aren't in memory.
    pub cancels_unread: bool,
    /// It holds claims beside what is larger than a commit.
    pub is_crowded: bool,
    /// Requests that were already told that the outcome is unknown.
    pub abandoned: bool,
}

impl InFlight {
    pub fn new(nonce: u64, record: ShardRecord, began: Monotonic) -> Self {
        Self { nonce, record, began, ..Self::default() }
    }
}

/// Where the one outstanding commit is.
#[derive(Debug, Default)]
pub(super) enum Flight {
    #[default]
    Idle,
    /// Sent to the store.
    Out(Box<InFlight>),
    /// Its fate isn't known; barriers tried since, by nonce.
    Unknown(Box<InFlight>, Vec<u64>),
}

impl Flight {
    pub fn is_idle(&self) -> bool {
        matches!(self, Self::Idle)
    }

    /// The commit that is out.
    pub fn commit(&self) -> Option<&InFlight> {
        match self {
            Self::Idle => None,
            Self::Out(commit) | Self::Unknown(commit, _) => Some(commit),
        }
    }

    /// Ends it: the commit that was out, and the barriers tried since.
    pub fn end(&mut self) -> Option<(InFlight, Vec<u64>)> {
        match std::mem::take(self) {
            Self::Idle => None,
            Self::Out(commit) => Some((*commit, Vec::new())),
            Self::Unknown(commit, barriers) => Some((*commit, barriers)),
        }
    }

    /// The commit that was sent failed.
    pub fn fail(&mut self) {
        *self = match std::mem::take(self) {
            Self::Out(commit) => Self::Unknown(commit, Vec::new()),
            other => other,
        };
    }

    /// Whether a segment that is claimed stays claimed.
    pub fn keeps_open(&self, first: Seq) -> bool {
        self.commit().is_none_or(|commit| commit.record.open.contains_key(&first))
    }

    /// Whether the commit that is out claims a segment, or keeps it claimed.
    pub fn opens(&self, first: Seq) -> bool {
        self.commit().is_some_and(|commit| commit.record.open.contains_key(&first))
    }

    /// Whether it takes back messages that aren't in memory.
    pub fn cancels_unread(&self) -> bool {
        self.commit().is_some_and(|commit| commit.cancels_unread)
    }

    /// Whether a message that is named stays named.
    pub fn keeps_named(&self, seq: Seq) -> bool {
        self.commit().is_none_or(|commit| commit.record.suspicion.calling.contains(&seq))
    }

    /// Who waits for it, but for those that were told already that its outcome isn't known. They get no other answer.
    pub fn abandon(&mut self) -> Vec<Ticket> {
        let (Self::Out(commit) | Self::Unknown(commit, _)) = self else { return Vec::new() };
        if std::mem::replace(&mut commit.abandoned, true) {
            return Vec::new();
        }
        let requests = commit.directs.iter().map(|(direct, _)| direct.request.ticket);
        requests.chain(commit.commands.iter().map(|queued| queued.id)).collect()
    }
}
