//! The sources of a shard's homes: opened by the shard's owner and by nobody else, pulled as far as there is room, settled behind known
//! commits, closed when the ownership ends.
//!
//! | file | holds |
//! |---|---|
//! | `seat` | what outlives an ownership of a source: whether it is paused, what is known of it |
//! | `place` | how far each source of an ownership is |
//! | `drive` | calls that are due: opening, pulling, settling, closing |
//! | `events` | their answers |
//! | `notices` | what sources tell besides deliveries |

mod drive;
mod events;
mod notices;
mod place;
mod seat;

pub(super) use drive::close_within;
pub(super) use place::Places;
pub(crate) use seat::Seats;
