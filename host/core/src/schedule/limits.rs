//! Bounds of schedules, each with its unit and its reason.

use std::time::Duration;

/// Longest name of a schedule, in bytes: it is the beginning of its runs' ids, which have 128.
pub const NAME_BYTES_MAX: usize = 64;
/// Longest cron expression, in bytes: all minutes and hours written one by one, and some.
pub const CRON_BYTES_MAX: usize = 512;
/// Longest name of a time zone, in bytes: the database's have 32 at most.
pub const ZONE_BYTES_MAX: usize = 64;
/// Most bytes of what a run hands over, a payload or a saga's input: it lies in the record, which each run writes again.
pub const WORK_BYTES_MAX: usize = 64 * 1024;
/// A run that begins this long after its instant isn't missed: a restart, a takeover, a store that doesn't answer for a while.
pub const ON_TIME: Duration = Duration::from_secs(60);
/// With `all`, runs are made up for instants that are no older than this.
pub const CATCH_UP_MAX: Duration = Duration::from_secs(7 * 24 * 3600);
/// Most runs that one commit makes.
pub const RUNS_MAX: usize = 100;
/// Most bytes of the messages that one commit puts: a store takes no transaction larger than its write buffer, of 8 MiB at least.
pub const RUNS_BYTES_MAX: usize = 1024 * 1024;
/// Most instants that one commit decides: those without a run cost a few microseconds each.
pub const INSTANTS_MAX: usize = 1_000;
/// Next runs that are shown.
pub const SHOWN_MAX: usize = 10;
