//! The owner of a shard's inbox.

mod rules;
mod takeover;

pub use rules::{Rule, Rules};
pub use takeover::{Candidate, takeover};
