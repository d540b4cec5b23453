//! Sagas: journal records, trees, and lists of those that ended.
//!
//! | file | holds |
//! |---|---|
//! | `shared` | tables of what many events have in common |
//! | `numbers` | words as numbers |
//! | `started`, `event` | what happened |
//! | `step`, `tree` | what that adds up to |
//! | `journal` | what one commit holds of many trees |
//! | `ended` | what one commit ended |

mod ended;
mod event;
mod journal;
mod numbers;
mod shared;
mod started;
mod step;
mod tree;

pub use ended::{Ended, decode_ended, encode_ended};
pub use journal::{decode_journal, encode_journal};
pub(super) use numbers::{WireEnum, lacking, unknown};
pub use tree::{decode_tree, encode_tree};
