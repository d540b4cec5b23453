//! Whoever writes a shard: one commit outstanding, its fate, and the life of the task that commits. The outbox's owner and the
//! writer of sagas say what differs ([`Driven`], [`Supervised`]); the rest is here.
//!
//! | file | holds |
//! |---|---|
//! | `flight` | the one outstanding commit, and what follows each answer of the store |
//! | `supervise` | takeover, and what follows a loss, a panic, or a store that went back |
//!
//! Idempotency keys aren't written this way. An act changes nothing when it is repeated with its token, so their lanes repeat a
//! commit of unknown outcome, and need no shard record to find out.

mod flight;
mod supervise;
#[cfg(test)]
mod tests;

use waybill_core::port::store::StoreError;

pub(crate) use flight::{Commits, Driven, Flight, UnderWay};
pub(crate) use supervise::{Supervised, Take, supervise};

/// How an ownership ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// Given back in good order, or nobody can ask for it any more.
    Released,
    /// Given back, because something in it was written by a newer host.
    Newer(StoreError),
    /// Ended in good order, to be taken over anew by another configuration.
    Reconfigured,
    /// Another host took over.
    Lost,
    /// The store lost what it had: nobody of this process may go on with it.
    WentBack(StoreError),
}

/// Who writes a shard, as seen from outside.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Condition {
    /// It is being taken over.
    Starting,
    /// Another host has it.
    Observing {
        owner: String,
    },
    /// This host has it.
    Owning {
        token: u64,
    },
    /// The store makes trouble; `owning` = the shard is this host's as far as it knows.
    Trouble {
        error: StoreError,
        owning: bool,
    },
    Released,
}

impl Condition {
    /// Whether this host has the shard, as far as it knows.
    pub fn is_owned(&self) -> bool {
        matches!(self, Self::Owning { .. } | Self::Trouble { owning: true, .. })
    }
}
