//! What operators ask of a shard. Each becomes part of an owner commit, so it is fenced like everything else.

use std::sync::Arc;

use thiserror::Error;

use super::{Owner, Ticket};
use crate::ids::Place;
use crate::outbox::records::{DeadLetter, Scheduled, Segment};
use crate::time::UnixMillis;

/// Names a command, so that its answer finds the caller.
pub type CommandId = Ticket;

/// What an operator asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    /// Take a message back that isn't being sent. `segment` is needed when it lies in one that isn't in memory.
    Cancel {
        place: Place,
        /// Its segment as read.
        segment: Option<Arc<Segment>>,
    },
    /// Take a scheduled message back.
    CancelScheduled(Arc<Scheduled>),
    /// Try a parked message at another instant.
    RescheduleParked { place: Place, due: UnixMillis },
    /// Move a scheduled message to another instant.
    Reschedule { scheduled: Arc<Scheduled>, due: UnixMillis },
    /// Put a dead letter back at its own place, with no attempts.
    Replay {
        dead: Arc<DeadLetter>,
        /// The bulk operation that does it, which is told what becomes of it.
        by: Option<Arc<str>>,
    },
    /// Fence a dead letter off.
    Quarantine { dead: Arc<DeadLetter>, note: String },
    /// Remove a dead letter; it stays in the history for its time.
    Purge(Arc<DeadLetter>),
}

/// Why a command wasn't done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum CommandError {
    /// It is being sent or its fate is being written.
    #[error("it is being sent right now: wait for the outcome")]
    BeingSent,
    /// It isn't there any more.
    #[error("it has moved on meanwhile: look at it again")]
    Gone,
    /// Its segment has to be read first.
    #[error("its segment has to be read first")]
    NeedsSegment,
    /// Too many messages wait for retries.
    #[error("too many messages of its tenant wait for retries: go on when some are through")]
    ParkedFull,
}

#[derive(Debug)]
pub(super) struct QueuedCommand {
    pub id: CommandId,
    pub command: Command,
}

impl Owner {
    /// Queues a command, or refuses it at once. Its answer comes with the commit that does it.
    pub fn command(&mut self, id: CommandId, command: Command) -> Result<(), CommandError> {
        self.check_command(&command)?;
        self.next.push_command(QueuedCommand { id, command });
        Ok(())
    }

    /// Whether a command can be done as things stand.
    pub(super) fn check_command(&self, command: &Command) -> Result<(), CommandError> {
        match command {
            Command::Cancel { place, segment } => match self.slots.get(&place.seq()) {
                Some(slot) if !slot.is_idle() => Err(CommandError::BeingSent),
                Some(_) => Ok(()),
                None => {
                    let tenant = match segment {
                        Some(segment) => &segment.tenant,
                        None => return Err(CommandError::NeedsSegment),
                    };
                    if self.window.is_gone(tenant, place.segment, place.index) {
                        Err(CommandError::Gone)
                    } else {
                        Ok(())
                    }
                }
            },
            Command::RescheduleParked { place, .. } => match self.slots.get(&place.seq()) {
                Some(slot) if !slot.is_idle() => Err(CommandError::BeingSent),
                Some(slot) if slot.origin == super::slots::Origin::Parked => Ok(()),
                _ => Err(CommandError::Gone),
            },
            Command::Replay { dead, .. } => {
                let parked = self.scheduler.parked_of(&dead.message.tenant);
                if parked >= self.config.parked_per_tenant { Err(CommandError::ParkedFull) } else { Ok(()) }
            }
            _ => Ok(()),
        }
    }
}
