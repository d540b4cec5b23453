//! Every bound of the suites.

use std::time::Duration;

/// Longest a whole check may take; then it failed. On a busy machine hundreds of large messages take minutes to pass.
pub(crate) const CHECK_TIMEOUT: Duration = Duration::from_secs(600);
/// Time for `open` and for `health`. CPU time bounds them as in a host; by the clock a busy machine is borne.
pub(crate) const OPEN_TIMEOUT: Duration = Duration::from_secs(60);
/// Time of a call that has no reason to be slow.
pub(crate) const CALL_TIMEOUT: Duration = Duration::from_secs(30);
/// Time of a call whose peer is silent: it has to end by itself within it, and is told so a second before.
pub(crate) const SILENT_TIMEOUT: Duration = Duration::from_secs(5);
/// Time of a call that the host cuts off.
pub(crate) const LONG_TIMEOUT: Duration = Duration::from_secs(30);
/// Time for closing a transport.
pub(crate) const CLOSE_TIMEOUT: Duration = Duration::from_secs(5);
/// The same where a call is under way: as long as a call that looks at `control.cancelled` may take to end.
pub(crate) const SHORT_CLOSE_TIMEOUT: Duration = Duration::from_secs(2);
/// How often a message is tried until an outage is over.
pub(crate) const RECOVERY_TRIES: usize = 40;
/// Between two of them.
pub(crate) const RECOVERY_PAUSE: Duration = Duration::from_millis(250);
/// Most calls at once that are tried.
pub(crate) const CALLS_MAX: u32 = 16;
/// Largest batch that is tried.
pub(crate) const BATCH_MAX: u32 = 200;
/// Messages of one key in a batch, and the number of the first one: numbers of one length, so that no id begins as another does.
pub(crate) const RUN_MAX: u32 = 20;
pub(crate) const RUN_FIRST: u64 = 901;
/// Payload of the check on large ones, where the peer names no limit, in bytes.
pub(crate) const LARGE_PAYLOAD_BYTES: usize = 1024 * 1024;
/// Payload of the check on memory, in bytes.
pub(crate) const MEMORY_PAYLOAD_BYTES: usize = 128 * 1024;
/// Messages of one call of the check on memory.
pub(crate) const MEMORY_BATCH: usize = 4;
/// Bytes that a switch keeps of what plugins wrote; more isn't looked at.
pub(crate) const RECORD_BYTES_MAX: usize = 4 * 1024 * 1024;
/// Longest frame that a peer of bytes reads, in bytes: a large payload with what its protocol puts around it.
pub(crate) const FRAME_BYTES_MAX: usize = 2 * LARGE_PAYLOAD_BYTES;
/// Longest line that a line peer reads, in bytes.
pub(crate) const LINE_BYTES_MAX: usize = 1024 * 1024;
