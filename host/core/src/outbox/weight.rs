//! Bytes that a change is counted with against the bound of a commit: an estimate of what the store writes, rather too high.

use super::records::{AttemptRecord, Done, HistoryChunk};
use crate::message::Message;
use crate::port::store::{OwnerCommit, Write};
use crate::tx_event::EVENT_BYTES;

/// A row with its key, and what the store keeps beside both.
pub const ROW_BYTES: usize = 512;
/// Counts of one operation, with an id and a code at their longest.
pub const FATES_BYTES: usize = 2 * ROW_BYTES;
/// A row of its own holds its message packed, and once more in columns for people, where JSON may take twice its text.
const COPIES: usize = 3;

fn of_attempts(history: &[AttemptRecord]) -> usize {
    let texts = |attempt: &AttemptRecord| {
        attempt.code.as_ref().map_or(0, String::len) + attempt.reason.as_ref().map_or(0, String::len)
    };
    history.iter().map(|attempt| 128 + texts(attempt)).sum()
}

/// Of a message that is a row of its own: parked, scheduled or dead.
pub fn of_row(message: &Message, history: &[AttemptRecord]) -> usize {
    COPIES * message.weight() + of_attempts(history) + ROW_BYTES
}

/// Of a message that enters the order or the schedule, with its audit event, and its row of the id index if it `has_id`.
pub fn of_entering(message: &Message, has_id: bool) -> usize {
    let row = if message.not_before.is_some() { of_row(message, &[]) } else { 0 };
    let id = if has_id || message.not_before.is_some() { ROW_BYTES } else { 0 };
    message.weight() + row + id + EVENT_BYTES + message.id.as_str().len()
}

/// Of a finished message in a chunk of the history.
pub fn of_done(done: &Done) -> usize {
    done.message.weight() + of_attempts(&done.history)
}

fn of_chunk(chunk: &HistoryChunk) -> usize {
    chunk.entries.iter().map(of_done).sum::<usize>() + 2 * ROW_BYTES
}

impl Write {
    /// Bytes it is counted with. What is moved to quarantine counts as a row: its bytes are known to the store alone.
    pub fn weight(&self) -> usize {
        match self {
            Self::PutSegment(segment) => segment.weight() + ROW_BYTES,
            Self::PutParked(parked) => of_row(&parked.message, &parked.history),
            Self::PutScheduled(scheduled) => of_row(&scheduled.message, &[]),
            Self::PutDead(dead) => of_row(&dead.message, &dead.history) + dead.reason.len(),
            Self::PutHistory(chunk) => of_chunk(chunk),
            Self::PutTxEvents(record) => record.weight() + ROW_BYTES,
            Self::AddFates { .. } => FATES_BYTES,
            Self::ForwardDoor { messages, .. } => {
                messages.iter().map(|message| message.weight()).sum::<usize>() + ROW_BYTES
            }
            Self::PutBlob { bytes, .. } => bytes.len() + ROW_BYTES,
            Self::QuarantineSegment { reason, .. } => reason.len() + ROW_BYTES,
            Self::PutId { .. }
            | Self::DeleteSegment(_)
            | Self::DeleteParked(_)
            | Self::DeleteScheduled { .. }
            | Self::DeleteDoor(_)
            | Self::DeleteDead(_)
            | Self::DeleteId { .. }
            | Self::DeleteBlob(_) => ROW_BYTES,
        }
    }
}

impl OwnerCommit {
    /// Bytes it is counted with, without the shard record.
    pub fn weight(&self) -> usize {
        self.writes.iter().map(Write::weight).sum()
    }
}
