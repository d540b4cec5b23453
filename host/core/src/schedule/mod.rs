//! Schedules: messages and sagas by cron expression and time zone (`docs/design/schedules.md`).
//!
//! | file | holds |
//! |---|---|
//! | `calendar.rs` | an expression in a zone: which instants match |
//! | `name.rs` | names of schedules |
//! | `turn.rs` | what one commit decides of what is due, by the policy for missed runs |
//! | `work.rs` | what a run makes: a message, or a saga |
//! | `record.rs` | a schedule as it is kept, and everything that changes it |
//! | `limits.rs` | bounds |

mod calendar;
pub mod limits;
mod name;
mod record;
mod turn;
mod work;

pub use calendar::Calendar;
pub use name::ScheduleName;
pub use record::{Advance, LastRun, NewSchedule, Schedule, ScheduleKey};
pub use turn::{Missed, Turn, turn};
pub use work::{MessageWork, Run, SagaWork, Work};
