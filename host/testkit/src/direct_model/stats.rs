//! How much happened.

use crate::seeds::counts;

counts! {
    rows,
    /// Transactions of ours that were committed with marks.
    transactions,
    lost,
    /// Ended by the server for being idle.
    idle,
    server_kills,
    /// Ended by a proxy.
    proxied,
    /// Commits that nobody heard of.
    unknown,
    sends,
    /// Sends behind the end of their transaction.
    stale,
    /// Sends that arrived long after.
    late,
    repeats,
    /// Rows that changed between a claim's beginning and its locks.
    judged_again,
    /// Claims without their lane's lock.
    unlocked,
    crashes,
    traps,
    failed,
    convicted,
    replays,
    /// Marks that the table refused.
    refused,
}
