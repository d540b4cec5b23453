//! The port through which parts that know no engine tell of what changed: one place keeps it, for people who look for what came
//! before a failure.

use crate::changes::Change;

/// Who keeps what changed.
pub trait Changes: Send + Sync + 'static {
    /// Takes a change into the feed. It is in memory only, never waits and never fails.
    fn note(&self, change: Change);
}
