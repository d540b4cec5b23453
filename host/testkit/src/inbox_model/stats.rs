//! How much happened.

use crate::seeds::counts;

counts! {
    published,
    calls,
    /// Calls of an owner that was replaced.
    stale,
    commits,
    /// Commits whose outcome wasn't told.
    unknown,
    takeovers,
    crashes,
    redeliveries,
    processed,
    dead,
    convicted,
    reused,
    rows,
    expired,
    replays,
    revocations,
    restarts,
    lost_acks,
    /// Lost at the source's limit after every delivery ended in a crash.
    excused,
    /// Finished again after the window.
    again,
    too_large,
    /// Messages whose events were refused.
    refused,
    /// Commits that met another writer of a stream.
    conflicts,
    duplicates,
}
