//! What waits for the next commit.
//!
//! | file | holds |
//! |---|---|
//! | `requests` | direct requests, and the ids that their callers chose |
//! | `doorstep` | the pass over the doorstep |
//! | `schedule` | scheduled messages that are due |
//! | `bytes` | how large a commit may be |

mod bytes;
mod doorstep;
mod requests;
mod schedule;

use std::collections::VecDeque;

pub(super) use bytes::CommitBytes;
pub use doorstep::{DoorPage, DoorPassRequest, ExistingId};
pub(super) use doorstep::{Doorstep, PassEnd};
pub use requests::{DirectRequest, Ticket};
pub(super) use requests::{Requests, WaitingRequest};
pub(super) use schedule::Schedule;

use super::commands::QueuedCommand;
use crate::ids::Seq;

/// What the next commit takes, as far as there is room.
///
/// A message is in `settlements` exactly while its state is [`super::slots::SlotState::Out`]. What a commit has taken is in the
/// commit ([`super::flight::InFlight`]), and comes back to the front of its queue when that never goes in.
#[derive(Debug)]
pub(super) struct NextCommit {
    /// Messages whose settlement waits, oldest first.
    settlements: VecDeque<Seq>,
    commands: VecDeque<QueuedCommand>,
    /// There may be claimed segments that are finished and had no room in a commit.
    finishes_more: bool,
    pub requests: Requests,
    pub doorstep: Doorstep,
    pub schedule: Schedule,
    pub bytes: CommitBytes,
}

impl NextCommit {
    pub fn new(commit_bytes: usize) -> Self {
        Self {
            settlements: VecDeque::new(),
            commands: VecDeque::new(),
            finishes_more: false,
            requests: Requests::default(),
            doorstep: Doorstep::default(),
            schedule: Schedule::default(),
            bytes: CommitBytes::new(commit_bytes),
        }
    }

    /// Whether something waits that should be committed at once. Settlements aren't counted: they may wait for company.
    pub fn is_urgent(&self) -> bool {
        !self.requests.is_empty()
            || !self.commands.is_empty()
            || self.schedule.has_due()
            || self.finishes_more
            || self.doorstep.in_pass()
    }

    /// Messages whose settlement waits, oldest first.
    pub fn settlements(&self) -> &VecDeque<Seq> {
        &self.settlements
    }

    pub fn push_settlement(&mut self, seq: Seq) {
        self.settlements.push_back(seq);
    }

    pub fn pop_settlement(&mut self) -> Option<Seq> {
        self.settlements.pop_front()
    }

    /// A settlement comes back from a commit that never went in.
    pub fn put_settlement_back(&mut self, seq: Seq) {
        self.settlements.push_front(seq);
    }

    pub fn push_command(&mut self, command: QueuedCommand) {
        self.commands.push_back(command);
    }

    pub fn pop_command(&mut self) -> Option<QueuedCommand> {
        self.commands.pop_front()
    }

    /// A command comes back from a commit that never went in.
    pub fn put_command_back(&mut self, command: QueuedCommand) {
        self.commands.push_front(command);
    }

    /// The next commit looks through all claimed segments for such as are finished.
    pub fn finish_more(&mut self) {
        self.finishes_more = true;
    }

    /// Whether it is to; once.
    pub fn take_finish_more(&mut self) -> bool {
        std::mem::take(&mut self.finishes_more)
    }
}
